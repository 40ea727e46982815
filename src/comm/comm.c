/* A group of ranks: opening, small exchanges, and agreeing on failures. */
#include "comm/comm.h"

#include <string.h>
#include <unistd.h>

#include "comm/cards.h"
#include "comm/group.h"

#define MOST_TAG 32767 // what MPI promises

size_t mt_comm_request_bytes(const struct mt_transport *transport, int ranks)
{
    return transport != NULL ? mt_comm_rounded(transport->request_bytes(ranks)) : 0;
}

/* A group with the transport's state zeroed, not opened yet; sizes are those of `ranks` ranks. */
static enum mt_status allocate(struct mt_context *ctx, const struct mt_transport *transport, int ranks,
                               struct mt_comm **comm)
{
    size_t group = transport != NULL ? mt_comm_rounded(transport->group_bytes(ranks)) : 0;
    size_t request = mt_comm_request_bytes(transport, ranks);
    size_t places = mt_comm_rounded(4 * (size_t)ranks * sizeof(size_t));
    size_t gathered = ranks > 1 && transport != NULL ? (size_t)ranks * MT_COMM_PIECE : 0;
    size_t bytes = mt_comm_rounded(sizeof **comm) + group + request + places + gathered;
    void *memory = NULL;
    *comm = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, bytes, &memory);
    if (status != MT_OK) return mt_fail_within(ctx, status, "a group of %d ranks", ranks);
    struct mt_comm *made = memory;
    unsigned char *next = (unsigned char *)memory + mt_comm_rounded(sizeof *made);
    *made = (struct mt_comm){
        .ctx = ctx, .transport = transport, .size = 1, .failed_rank = -1, .next_tag = 1, .bytes = bytes};
    made->group = next;
    made->request = next + group;
    made->places = (size_t *)(void *)(next + group + request);
    made->bytes_of = made->places + 2 * (size_t)ranks;
    made->gathered = next + group + request + places;
    made->job = made;
    *comm = made;
    return MT_OK;
}

/* A transport's group, asked once for its size, then with memory for as many ranks. */
static enum mt_status open_with(struct mt_context *ctx, const struct mt_transport *transport,
                                const struct mt_launch *launch, int timeout, struct mt_comm **comm)
{
    struct mt_comm *made = NULL;
    struct mt_comm *sized = NULL;
    *comm = NULL;
    enum mt_status status = allocate(ctx, transport, 1, &made);
    if (status != MT_OK) return status;
    ctx->message[0] = '\0';
    status = (enum mt_status)transport->open(ctx, timeout, made->group);
    if (status != MT_OK) {
        mt_release(ctx, made, made->bytes);
        if (ctx->message[0] != '\0') return status;
        return mt_fail(ctx, MT_ERR_UNSUPPORTED, "%s cannot be started", transport->name);
    }
    status = mt_transport_check(ctx, launch, transport->size(made->group));
    if (status == MT_OK) status = allocate(ctx, transport, transport->size(made->group), &sized);
    if (status != MT_OK) {
        transport->close(made->group, true);
        mt_release(ctx, made, made->bytes);
        return status;
    }
    memcpy(sized->group, made->group, transport->group_bytes(1));
    mt_release(ctx, made, made->bytes);
    sized->rank = transport->rank(sized->group);
    sized->size = transport->size(sized->group);
    if (transport->watch != NULL && transport->watch(sized->group, timeout) != 0) {
        (void)mt_fail(ctx, MT_ERR_MEMORY, "%s: cannot start a thread", transport->name);
        return mt_comm_abort(sized, ctx, MT_ERR_MEMORY, stderr); // the others' threads have begun
    }
    *comm = sized;
    return MT_OK;
}

enum mt_status mt_comm_open(struct mt_context *ctx, struct mt_comm **comm)
{
    const struct mt_transport *transport = NULL;
    *comm = NULL;
    int timeout = 0;
    struct mt_launch launch = mt_launch_read();
    enum mt_status status = mt_transport_find(ctx, &launch, &transport);
    if (status == MT_OK) status = mt_transport_timeout(ctx, &timeout);
    if (status != MT_OK) return status;
    if (transport != NULL) return open_with(ctx, transport, &launch, timeout, comm);
    status = mt_transport_check(ctx, &launch, 1);
    return status == MT_OK ? mt_comm_open_alone(ctx, comm) : status;
}

enum mt_status mt_comm_open_over(struct mt_context *ctx, const struct mt_transport *transport,
                                 struct mt_comm **comm)
{
    return open_with(ctx, transport, &(struct mt_launch){.pmix_rank = -1}, 0, comm);
}

enum mt_status mt_comm_open_alone(struct mt_context *ctx, struct mt_comm **comm)
{
    return allocate(ctx, NULL, 1, comm);
}

enum mt_status mt_comm_open_on_paper(struct mt_context *ctx, int rank, int ranks, struct mt_comm **comm)
{
    enum mt_status status = allocate(ctx, NULL, ranks, comm);
    if (status != MT_OK) return status;
    (*comm)->rank = rank;
    (*comm)->size = ranks;
    return MT_OK;
}

/* Nobody else is there to tell. */
static bool is_alone(const struct mt_comm *comm)
{
    return comm->size == 1 || comm->transport == NULL;
}

enum mt_status mt_comm_split(struct mt_comm *comm, int colour, struct mt_comm **part)
{
    struct mt_comm *made = NULL;
    *part = NULL;
    // A rank that had no memory must say so before the others split without it.
    enum mt_status status = allocate(comm->ctx, comm->transport, comm->size, &made);
    status = mt_comm_agree(comm, comm->ctx, status);
    if (status != MT_OK) {
        if (made != NULL) mt_release(comm->ctx, made, made->bytes);
        return status;
    }
    made->job = comm->job;
    if (comm->transport != NULL) {
        comm->transport->split(comm->group, colour, made->group);
        made->rank = comm->transport->rank(made->group);
        made->size = comm->transport->size(made->group);
    }
    *part = made;
    return MT_OK;
}

void mt_comm_close(struct mt_comm *comm)
{
    if (comm == NULL) return;
    mt_cards_close(comm->cards);
    if (comm->transport != NULL) comm->transport->close(comm->group, comm->job == comm);
    mt_release(comm->ctx, comm, comm->bytes);
}

int mt_comm_rank(const struct mt_comm *comm)
{
    return comm->rank;
}

int mt_comm_size(const struct mt_comm *comm)
{
    return comm->size;
}

int mt_comm_host_ranks(const struct mt_comm *comm)
{
    return comm->transport != NULL ? comm->transport->host_ranks(comm->group) : 1;
}

int64_t mt_comm_threads(const struct mt_comm *comm, int64_t asked)
{
    int neighbours = mt_comm_host_ranks(comm);
    if (asked > 0 || neighbours == 1) return asked;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > neighbours ? processors / neighbours : 1;
}

bool mt_comm_reads_devices(const struct mt_comm *comm)
{
    return comm->transport == NULL || comm->transport->reads_devices(); // alone nothing is ever sent
}

/* The others hear of it from their own cards, or from the rank that is gone. */
static void cards_failed(void *self, const char *reason)
{
    const struct mt_comm *job = ((const struct mt_comm *)self)->job;
    (void)fprintf(stderr, "metier: rank %d of %d: the connection of the cards failed: %s (NCCL)\n", job->rank,
                  job->size, reason);
    (void)fflush(stderr);
    if (job->transport == NULL) _exit(1);
    job->transport->abort(job->group, 1);
}

/* Each rank must hear of the others' failures before it waits for them. */
static enum mt_status connect_cards(struct mt_comm *comm, struct mt_cards *cards, bool on_host,
                                    enum mt_status status)
{
    struct mt_cards_id id = {0};
    if (status == MT_OK && on_host && !mt_cards_send_host_memory(cards))
        status = mt_fail(comm->ctx, MT_ERR_UNSUPPORTED, "NCCL sends only memory of GPUs");
    if (status == MT_OK && comm->rank == 0) status = mt_cards_make_id(cards, &id);
    status = mt_comm_agree(comm, comm->ctx, status);
    if (status != MT_OK) return status;
    mt_comm_broadcast(comm, &id, sizeof id, 0);
    return mt_comm_agree(comm, comm->ctx, mt_cards_connect(cards, &id));
}

enum mt_status mt_comm_use_cards(struct mt_comm *comm, bool on_host)
{
    return comm->size > 1 ? mt_comm_use_cards_alone(comm, on_host) : MT_OK;
}

enum mt_status mt_comm_use_cards_alone(struct mt_comm *comm, bool on_host)
{
    const struct mt_cards_options options = {
        .rank = comm->rank, .ranks = comm->size, .failed = cards_failed, .self = comm};
    struct mt_cards *cards = NULL;
    if (comm->cards != NULL) return MT_OK;
    enum mt_status status = mt_cards_open(comm->ctx, &options, &cards);
    status = connect_cards(comm, cards, on_host, status);
    if (status != MT_OK) {
        mt_cards_close(cards);
        return status;
    }
    comm->cards = cards;
    return MT_OK;
}

bool mt_comm_has_cards(const struct mt_comm *comm)
{
    return comm->cards != NULL;
}

uint64_t mt_comm_sent_of(const struct mt_comm *comm, enum mt_comm_kind kind)
{
    return comm->job->sent_bytes[kind];
}

uint64_t mt_comm_sent_bytes(const struct mt_comm *comm)
{
    uint64_t sum = 0;
    for (int kind = 0; kind < MT_COMM_KINDS; kind++) sum += comm->job->sent_bytes[kind];
    return sum;
}

void mt_comm_set_timeline(struct mt_comm *comm, struct mt_timeline *timeline)
{
    comm->job->timeline = timeline;
}

struct mt_timeline *mt_comm_timeline(const struct mt_comm *comm)
{
    return comm->job->timeline;
}

// ------------------------------------------------------------------ exchanges

void mt_comm_barrier(struct mt_comm *comm)
{
    if (comm->transport != NULL) comm->transport->barrier(comm->group);
}

void mt_comm_broadcast(struct mt_comm *comm, void *data, size_t bytes, int root)
{
    if (comm->rank == root) comm->job->sent_bytes[MT_COMM_BROADCAST] += bytes * (size_t)(comm->size - 1);
    if (comm->transport != NULL) comm->transport->broadcast(comm->group, data, bytes, root);
}

void mt_comm_gather(struct mt_comm *comm, const void *mine, size_t bytes, void *all)
{
    double began = mt_timeline_now(comm->job->timeline);
    comm->job->sent_bytes[MT_COMM_GATHER] += bytes * (size_t)(comm->size - 1);
    if (comm->transport != NULL)
        comm->transport->gather(comm->group, mine, bytes, all);
    else if (bytes > 0)
        memmove(all, mine, bytes);
    mt_timeline_add(comm->job->timeline, MT_SPAN_GATHER, -1, began);
}

void mt_comm_places(const size_t *bytes, int ranks, size_t *at)
{
    size_t before = 0;
    for (int r = 0; r < ranks; r++) {
        at[r] = before;
        before += bytes[r];
    }
}

int mt_comm_take_tag(struct mt_comm *comm)
{
    int tag = comm->next_tag;
    comm->next_tag = tag % MOST_TAG + 1;
    return tag;
}

void mt_comm_count(struct mt_comm *comm, const struct mt_exchange *exchange, enum mt_comm_kind kind)
{
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank) comm->job->sent_bytes[kind] += exchange->send_bytes[r];
}

void mt_comm_start(struct mt_comm *comm, const struct mt_exchange *exchange, enum mt_comm_kind kind,
                   void *request)
{
    mt_comm_count(comm, exchange, kind);
    if (comm->transport != NULL) comm->transport->start(comm->group, exchange, request);
}

static void exchange_as(struct mt_comm *comm, enum mt_comm_kind kind, const void *send,
                        const size_t *send_bytes, void *receive, const size_t *receive_bytes)
{
    double began = mt_timeline_now(comm->job->timeline);
    size_t *send_at = comm->places;
    size_t *receive_at = comm->places + comm->size;
    mt_comm_places(send_bytes, comm->size, send_at);
    mt_comm_places(receive_bytes, comm->size, receive_at);
    const struct mt_exchange exchange = {.send = send,
                                         .send_at = send_at,
                                         .send_bytes = send_bytes,
                                         .receive = receive,
                                         .receive_at = receive_at,
                                         .receive_bytes = receive_bytes};
    mt_comm_start(comm, &exchange, kind, comm->request);
    size_t own = send_bytes[comm->rank];
    if (own > 0)
        memcpy((char *)receive + receive_at[comm->rank], (const char *)send + send_at[comm->rank], own);
    if (comm->transport != NULL) comm->transport->wait(comm->request);
    mt_timeline_add(comm->job->timeline, MT_SPAN_EXCHANGE, -1, began);
}

void mt_comm_exchange(struct mt_comm *comm, const void *send, const size_t *send_bytes, void *receive,
                      const size_t *receive_bytes)
{
    exchange_as(comm, MT_COMM_EXCHANGE, send, send_bytes, receive, receive_bytes);
}

void mt_comm_hand_over(struct mt_comm *comm, int from, const void *mine, void *received, size_t bytes)
{
    size_t *send_bytes = comm->bytes_of;
    size_t *receive_bytes = comm->bytes_of + comm->size;
    memset(send_bytes, 0, 2 * (size_t)comm->size * sizeof *send_bytes);
    for (size_t at = 0; at < bytes; at += MT_TRANSPORT_MOST_BYTES) {
        size_t piece = bytes - at < MT_TRANSPORT_MOST_BYTES ? bytes - at : MT_TRANSPORT_MOST_BYTES;
        if (comm->rank == from) send_bytes[0] = piece;
        if (comm->rank == 0) receive_bytes[from] = piece;
        const void *source = comm->rank == from ? (const char *)mine + at : mine;
        void *target = comm->rank == 0 ? (char *)received + at : received;
        exchange_as(comm, MT_COMM_HAND_OVER, source, send_bytes, target, receive_bytes);
    }
}

// ------------------------------------------------------------------ small sums

void mt_comm_sum_f64(struct mt_comm *comm, double *values, size_t count)
{
    const size_t most = MT_COMM_PIECE / sizeof *values;
    const double *all = (const double *)(const void *)comm->gathered;
    for (size_t first = 0; !is_alone(comm) && first < count; first += most) {
        size_t piece = count - first < most ? count - first : most;
        mt_comm_gather(comm, values + first, piece * sizeof *values, comm->gathered);
        memcpy(values + first, all, piece * sizeof *values);
        for (int r = 1; r < comm->size; r++)
            for (size_t i = 0; i < piece; i++) values[first + i] += all[(size_t)r * piece + i];
    }
}

/* values = the sum or the largest over ranks, element by element. */
static void reduce_i64(struct mt_comm *comm, int64_t *values, size_t count, bool largest)
{
    const size_t most = MT_COMM_PIECE / sizeof *values;
    const int64_t *all = (const int64_t *)(const void *)comm->gathered;
    for (size_t first = 0; !is_alone(comm) && first < count; first += most) {
        size_t piece = count - first < most ? count - first : most;
        mt_comm_gather(comm, values + first, piece * sizeof *values, comm->gathered);
        memcpy(values + first, all, piece * sizeof *values);
        for (int r = 1; r < comm->size; r++) {
            for (size_t i = 0; i < piece; i++) {
                int64_t other = all[(size_t)r * piece + i];
                int64_t *value = &values[first + i];
                if (!largest) *value += other;
                if (largest && other > *value) *value = other;
            }
        }
    }
}

void mt_comm_sum_i64(struct mt_comm *comm, int64_t *values, size_t count)
{
    reduce_i64(comm, values, count, false);
}

void mt_comm_max_i64(struct mt_comm *comm, int64_t *values, size_t count)
{
    reduce_i64(comm, values, count, true);
}

// ------------------------------------------------------------------ failures

enum mt_status mt_comm_agree(struct mt_comm *comm, struct mt_context *ctx, enum mt_status status)
{
    if (is_alone(comm)) return status;
    int mine = (int)status;
    int *all = (int *)(void *)comm->gathered;
    mt_comm_gather(comm, &mine, sizeof mine, all);
    int failed = -1;
    bool everybody = true;
    for (int r = comm->size; r-- > 0;) {
        everybody = everybody && all[r] != MT_OK;
        if (all[r] != MT_OK) failed = r;
    }
    if (failed < 0) return MT_OK;
    enum mt_status found = (enum mt_status)all[failed];
    comm->failed_rank = failed;
    mt_comm_broadcast(comm, ctx->message, sizeof ctx->message, failed);
    // What went wrong everywhere is nobody's in particular.
    return everybody ? found : mt_fail_within(ctx, found, "rank %d", failed);
}

int mt_comm_failed_rank(const struct mt_comm *comm)
{
    return comm->failed_rank;
}

enum mt_status mt_comm_abort(struct mt_comm *comm, const struct mt_context *ctx, enum mt_status status,
                             FILE *stream)
{
    if (is_alone(comm->job)) return status;
    (void)fprintf(stream, "metier: rank %d of %d: %s\n", comm->job->rank, comm->job->size, ctx->message);
    (void)fflush(stream);
    comm->transport->abort(comm->job->group, 1);
    return status;
}
