/* An exchange that goes on beside other work. */
#include "comm/parts.h"

struct mt_comm_parcel {
    struct mt_comm *comm; // borrowed
    bool under_way;
    int tag;
    int number;   // among the parcels of the group, and
    double began; // when it set out: for the timeline
    // These follow the struct.
    void *request;
    size_t *send_at, *receive_at; // [ranks]
    size_t bytes;                 // of the block this struct begins
};

enum mt_status mt_comm_parcel_create(struct mt_comm *comm, struct mt_comm_parcel **parcel)
{
    size_t ranks = (size_t)comm->size;
    size_t request = mt_comm_rounded(comm->transport->request_bytes(comm->size));
    size_t bytes = mt_comm_rounded(sizeof **parcel) + request + 2 * ranks * sizeof(size_t);
    void *memory = NULL;
    *parcel = NULL;
    enum mt_status status = mt_allocate_array(comm->ctx, 1, bytes, &memory);
    if (status != MT_OK) return status;
    struct mt_comm_parcel *made = memory;
    unsigned char *next = (unsigned char *)memory + mt_comm_rounded(sizeof *made);
    *made = (struct mt_comm_parcel){.comm = comm, .number = comm->next_parcel++, .bytes = bytes};
    made->tag = mt_comm_take_tag(comm);
    made->request = next;
    made->send_at = (size_t *)(void *)(next + request);
    made->receive_at = made->send_at + ranks;
    *parcel = made;
    return MT_OK;
}

void mt_comm_parcel_free(struct mt_comm_parcel *parcel)
{
    if (parcel != NULL) mt_release(parcel->comm->ctx, parcel, parcel->bytes);
}

void mt_comm_parcel_start(struct mt_comm_parcel *parcel, const struct mt_comm_load *load)
{
    struct mt_comm *comm = parcel->comm;
    mt_comm_places(load->send_bytes, comm->size, parcel->send_at);
    mt_comm_places(load->receive_bytes, comm->size, parcel->receive_at);
    const struct mt_exchange exchange = {.send = load->send,
                                         .send_at = parcel->send_at,
                                         .send_bytes = load->send_bytes,
                                         .receive = load->receive,
                                         .receive_at = parcel->receive_at,
                                         .receive_bytes = load->receive_bytes,
                                         .tag = parcel->tag};
    parcel->under_way = true;
    parcel->began = mt_timeline_now(comm->job->timeline);
    mt_comm_start(comm, &exchange, MT_COMM_EXCHANGE, parcel->request);
}

static void arrive(struct mt_comm_parcel *parcel)
{
    parcel->under_way = false;
    mt_timeline_add(parcel->comm->job->timeline, MT_SPAN_ROWS, parcel->number, parcel->began);
}

bool mt_comm_parcel_progress(struct mt_comm_parcel *parcel)
{
    if (parcel->under_way && parcel->comm->transport->test(parcel->request)) arrive(parcel);
    return !parcel->under_way;
}

void mt_comm_parcel_wait(struct mt_comm_parcel *parcel)
{
    struct mt_comm *comm = parcel->comm;
    if (!parcel->under_way) return;
    double began = mt_timeline_now(comm->job->timeline);
    comm->transport->wait(parcel->request);
    mt_timeline_add(comm->job->timeline, MT_SPAN_EXCHANGE, parcel->number, began);
    arrive(parcel);
}
