/*
 * Exchanges and large sums that go on beside other work.
 *
 * The numbers of a sum are cut into a share for each rank: in the first half every rank sends the others
 * their shares and adds up its own, in the order of the ranks and in double; in the second it sends everybody
 * its own. Both kinds of message are 1/P of the numbers.
 */
#include <string.h>

#include "comm/cards.h"
#include "comm/group.h"

#define BLOCK 512 // numbers added up at a time
#define GRAIN 16  // numbers: shares begin at multiples, where vectors of all devices are aligned

/* Alone there is nothing to wait for. */
static bool is_complete(const struct mt_comm *comm, void *request)
{
    return comm->transport == NULL || comm->transport->test(request);
}

// ------------------------------------------------------------------ exchanges

struct mt_comm_transfer {
    struct mt_comm *comm; // borrowed
    bool under_way;
    int tag;
    int number;   // among the transfers of the group, and
    double began; // when it began: for the timeline
    // These follow the struct.
    void *request;
    size_t *send_at, *receive_at; // [ranks]
    size_t bytes;                 // of the block this struct begins
};

enum mt_status mt_comm_transfer_create(struct mt_comm *comm, struct mt_comm_transfer **transfer)
{
    size_t ranks = (size_t)comm->size;
    size_t request = mt_comm_request_bytes(comm->transport, comm->size);
    size_t bytes = mt_comm_rounded(sizeof **transfer) + request + 2 * ranks * sizeof(size_t);
    void *memory = NULL;
    *transfer = NULL;
    enum mt_status status = mt_allocate_array(comm->ctx, 1, bytes, &memory);
    if (status != MT_OK) return status;
    struct mt_comm_transfer *made = memory;
    unsigned char *next = (unsigned char *)memory + mt_comm_rounded(sizeof *made);
    *made = (struct mt_comm_transfer){.comm = comm, .number = comm->next_transfer++, .bytes = bytes};
    made->tag = mt_comm_take_tag(comm);
    made->request = next;
    made->send_at = (size_t *)(void *)(next + request);
    made->receive_at = made->send_at + ranks;
    *transfer = made;
    return MT_OK;
}

void mt_comm_transfer_free(struct mt_comm_transfer *transfer)
{
    if (transfer != NULL) mt_release(transfer->comm->ctx, transfer, transfer->bytes);
}

void mt_comm_transfer_start(struct mt_comm_transfer *transfer, const struct mt_comm_load *load)
{
    struct mt_comm *comm = transfer->comm;
    enum mt_comm_kind kind = load->is_sum ? MT_COMM_SUM : MT_COMM_EXCHANGE;
    mt_comm_places(load->send_bytes, comm->size, transfer->send_at);
    mt_comm_places(load->receive_bytes, comm->size, transfer->receive_at);
    const struct mt_exchange exchange = {.send = load->send,
                                         .send_at = load->send_at != NULL ? load->send_at : transfer->send_at,
                                         .send_bytes = load->send_bytes,
                                         .receive = load->receive,
                                         .receive_at = transfer->receive_at,
                                         .receive_bytes = load->receive_bytes,
                                         .tag = transfer->tag};
    if (load->on_cards) {
        mt_comm_count(comm, &exchange, kind);
        enum mt_status status = mt_cards_exchange(comm->cards, &exchange, load->stream);
        if (status != MT_OK) (void)mt_comm_abort(comm, comm->ctx, status, stderr);
        return;
    }
    transfer->under_way = true;
    transfer->began = mt_timeline_now(comm->job->timeline);
    mt_comm_start(comm, &exchange, kind, transfer->request);
}

static void finish_transfer(struct mt_comm_transfer *transfer)
{
    transfer->under_way = false;
    mt_timeline_add(transfer->comm->job->timeline, MT_SPAN_ROWS, transfer->number, transfer->began);
}

bool mt_comm_transfer_progress(struct mt_comm_transfer *transfer)
{
    if (transfer->under_way && is_complete(transfer->comm, transfer->request)) finish_transfer(transfer);
    return !transfer->under_way;
}

void mt_comm_transfer_wait(struct mt_comm_transfer *transfer)
{
    struct mt_comm *comm = transfer->comm;
    if (!transfer->under_way) return;
    double began = mt_timeline_now(comm->job->timeline);
    if (comm->transport != NULL) comm->transport->wait(transfer->request);
    mt_timeline_add(comm->job->timeline, MT_SPAN_EXCHANGE, transfer->number, began);
    finish_transfer(transfer);
}

// ------------------------------------------------------------------ sums

struct mt_comm_share mt_comm_share_of(size_t count, int rank, int ranks)
{
    size_t grains = (count + GRAIN - 1) / GRAIN;
    size_t share = grains / (size_t)ranks;
    size_t rest = grains % (size_t)ranks; // the first ranks have one more
    size_t before = (size_t)rank < rest ? (size_t)rank : rest;
    size_t first = ((size_t)rank * share + before) * GRAIN;
    size_t end = first + (share + ((size_t)rank < rest ? 1 : 0)) * GRAIN;
    if (first > count) first = count;
    if (end > count) end = count; // the last grain may not be full
    return (struct mt_comm_share){.first = first, .count = end - first};
}

enum phase {
    PHASE_NONE,
    PHASE_ADD,        // everybody's version of our share is on its way
    PHASE_HAND_ROUND, // everybody's share is
};

struct mt_comm_sum {
    struct mt_comm *comm; // borrowed
    enum phase phase;
    int tag;
    float *values; // borrowed while under way
    int number;    // among the sums of all groups, and
    double began;  // when it began: for the timeline
    // These follow the struct.
    void *request;
    size_t *share_at, *share_bytes; // [ranks]: of each rank's share in the numbers
    size_t *own_at, *own_bytes;     // [ranks]: our share, as every rank has it in `versions`, or gets it
    size_t *same_at;                // [ranks]: where our share lies in the numbers, P times
    float *versions;                // [ranks, our share]
    size_t bytes;                   // of the block this struct begins
};

enum mt_status mt_comm_sum_create(struct mt_comm *comm, size_t most, struct mt_comm_sum **sum)
{
    size_t ranks = (size_t)comm->size;
    size_t share = mt_comm_share_of(most, 0, comm->size).count; // nobody's is longer
    *sum = NULL;
    if (share > MT_TRANSPORT_MOST_BYTES / sizeof(float))
        return mt_fail(comm->ctx, MT_ERR_USAGE, "a sum of %zu numbers over ranks is too large", most);
    size_t request = mt_comm_request_bytes(comm->transport, comm->size);
    size_t arrays = mt_comm_rounded(5 * ranks * sizeof(size_t));
    size_t versions = ranks > 1 ? ranks * share * sizeof(float) : 0;
    size_t bytes = mt_comm_rounded(sizeof **sum) + request + arrays + versions;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(comm->ctx, 1, bytes, &memory);
    if (status != MT_OK) return mt_fail_within(comm->ctx, status, "a sum of %zu numbers over ranks", most);
    struct mt_comm_sum *made = memory;
    unsigned char *next = (unsigned char *)memory + mt_comm_rounded(sizeof *made);
    *made = (struct mt_comm_sum){.comm = comm, .number = comm->job->next_sum++, .bytes = bytes};
    made->tag = mt_comm_take_tag(comm);
    made->request = next;
    made->share_at = (size_t *)(void *)(next + request);
    made->share_bytes = made->share_at + ranks;
    made->own_at = made->share_bytes + ranks;
    made->own_bytes = made->own_at + ranks;
    made->same_at = made->own_bytes + ranks;
    made->versions = (float *)(void *)(next + request + arrays);
    *sum = made;
    return MT_OK;
}

void mt_comm_sum_free(struct mt_comm_sum *sum)
{
    if (sum != NULL) mt_release(sum->comm->ctx, sum, sum->bytes);
}

/* Whose numbers are where. */
static void divide(struct mt_comm_sum *sum, float *values, size_t count)
{
    const struct mt_comm *comm = sum->comm;
    size_t ranks = (size_t)comm->size;
    for (size_t r = 0; r < ranks; r++) {
        struct mt_comm_share share = mt_comm_share_of(count, (int)r, comm->size);
        sum->share_at[r] = share.first * sizeof(float);
        sum->share_bytes[r] = share.count * sizeof(float);
    }
    for (size_t r = 0; r < ranks; r++) {
        sum->own_bytes[r] = sum->share_bytes[comm->rank];
        sum->own_at[r] = r * sum->own_bytes[r];
        sum->same_at[r] = sum->share_at[comm->rank];
    }
    sum->values = values;
    sum->began = mt_timeline_now(comm->job->timeline);
}

void mt_comm_sum_start(struct mt_comm_sum *sum, float *values, size_t count)
{
    if (sum->comm->size == 1) return;
    divide(sum, values, count);
    sum->phase = PHASE_ADD;
    const struct mt_exchange exchange = {.send = (const unsigned char *)values,
                                         .send_at = sum->share_at,
                                         .send_bytes = sum->share_bytes,
                                         .receive = (unsigned char *)sum->versions,
                                         .receive_at = sum->own_at,
                                         .receive_bytes = sum->own_bytes,
                                         .tag = sum->tag};
    mt_comm_start(sum->comm, &exchange, MT_COMM_SUM, sum->request);
}

void mt_comm_sum_hand_round(struct mt_comm_sum *sum, float *values, size_t count)
{
    if (sum->comm->size == 1) return;
    divide(sum, values, count);
    sum->phase = PHASE_HAND_ROUND;
    const struct mt_exchange exchange = {.send = (const unsigned char *)values,
                                         .send_at = sum->same_at,
                                         .send_bytes = sum->own_bytes,
                                         .receive = (unsigned char *)values,
                                         .receive_at = sum->share_at,
                                         .receive_bytes = sum->share_bytes,
                                         .tag = sum->tag};
    mt_comm_start(sum->comm, &exchange, MT_COMM_SUM, sum->request);
}

/* Our share becomes the sum of all versions of it. */
static void add_up(struct mt_comm_sum *sum)
{
    size_t ranks = (size_t)sum->comm->size;
    size_t rank = (size_t)sum->comm->rank;
    size_t count = sum->share_bytes[rank] / sizeof(float);
    float *own = sum->values + sum->share_at[rank] / sizeof(float);
    for (size_t first = 0; first < count; first += BLOCK) {
        double total[BLOCK] = {0};
        size_t block = count - first < BLOCK ? count - first : BLOCK;
        for (size_t r = 0; r < ranks; r++) {
            const float *version = (r == rank ? own : sum->versions + r * count) + first;
            for (size_t i = 0; i < block; i++) total[i] += (double)version[i];
        }
        for (size_t i = 0; i < block; i++) own[first + i] = (float)total[i];
    }
}

static void finish(struct mt_comm_sum *sum)
{
    enum mt_span_kind kind = sum->phase == PHASE_ADD ? MT_SPAN_SUM : MT_SPAN_VALUES;
    if (sum->phase == PHASE_ADD) add_up(sum);
    sum->phase = PHASE_NONE;
    mt_timeline_add(sum->comm->job->timeline, kind, sum->number, sum->began);
}

bool mt_comm_sum_progress(struct mt_comm_sum *sum)
{
    if (sum->phase != PHASE_NONE && is_complete(sum->comm, sum->request)) finish(sum);
    return sum->phase == PHASE_NONE;
}

void mt_comm_sum_wait(struct mt_comm_sum *sum)
{
    if (sum->phase == PHASE_NONE) return;
    sum->comm->transport->wait(sum->request);
    finish(sum);
}
