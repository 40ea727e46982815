/* Rows on their way to the ranks that own their experts, and back. */
#include "model/experts/ranks.h"

#include <inttypes.h>
#include <math.h>

#include "ops/streams.h"

#define PROGRESS_CALLS 16

int mt_expert_ranks_first(int experts, int rank, int ranks)
{
    return (int)((int64_t)experts * rank / ranks);
}

int mt_expert_ranks_owner(int experts, int expert, int ranks)
{
    int rank = (int)((int64_t)expert * ranks / experts); // right, or one too low
    return mt_expert_ranks_first(experts, rank + 1, ranks) <= expert ? rank + 1 : rank;
}

/* The next bytes of the block; with base NULL they are only counted. */
static void *take(char *base, size_t *used, size_t bytes)
{
    void *memory = base != NULL ? base + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return memory;
}

static size_t lay_out(struct mt_expert_ranks *ranks, const struct mt_expert_ranks_shape *shape, char *base)
{
    size_t size = (size_t)mt_comm_size(ranks->comm);
    size_t layers = (size_t)shape->layers;
    size_t experts = (size_t)shape->experts;
    size_t pieces = size * (size_t)ranks->owned;
    size_t used = 0;
    ranks->sent = take(base, &used, layers * experts * sizeof *ranks->sent);
    ranks->arrived = take(base, &used, layers * pieces * sizeof *ranks->arrived);
    ranks->rows = take(base, &used, layers * sizeof *ranks->rows);
    ranks->away = take(base, &used, layers * sizeof *ranks->away);
    ranks->offsets = take(base, &used, (experts + 1) * sizeof *ranks->offsets);
    ranks->order = take(base, &used, (size_t)ranks->capacity * sizeof *ranks->order);
    ranks->place = take(base, &used, pieces * sizeof *ranks->place);
    ranks->send_bytes = take(base, &used, size * sizeof *ranks->send_bytes);
    ranks->receive_bytes = take(base, &used, size * sizeof *ranks->receive_bytes);
    return used;
}

static enum mt_status make_lanes(struct mt_expert_ranks *ranks, const struct mt_expert_ranks_shape *shape)
{
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && i < MT_EXPERT_LANES; i++) {
        struct mt_expert_lane *lane = &ranks->lane[i];
        status = mt_comm_transfer_create(ranks->comm, &lane->parcel);
        if (status != MT_OK || !ranks->staged) continue;
        status = mt_device_staging_create(ranks->device, (size_t)shape->rows * ranks->row_bytes, &lane->own);
        if (status != MT_OK) return status;
        status = mt_device_staging_create(ranks->device, (size_t)ranks->capacity * ranks->row_bytes,
                                          &lane->arrived);
    }
    return status;
}

enum mt_status mt_expert_ranks_create(struct mt_device *device, struct mt_comm *comm,
                                      const struct mt_expert_ranks_shape *shape,
                                      struct mt_expert_ranks *ranks)
{
    struct mt_context *ctx = mt_device_context(device);
    int size = mt_comm_size(comm);
    int rank = mt_comm_rank(comm);
    *ranks = (struct mt_expert_ranks){.device = device,
                                      .comm = comm,
                                      .sender = shape->sender,
                                      .experts = shape->experts,
                                      .layers = shape->layers};
    ranks->staged = !mt_device_on_host(device) && !shape->direct && shape->sender == NULL;
    if (size > shape->experts) {
        return mt_fail(ctx, MT_ERR_USAGE, "%d experts cannot be spread over %d ranks (parallel.experts)",
                       shape->experts, size);
    }
    ranks->row_bytes = (size_t)shape->width * shape->element;
    if (shape->rows > INT32_MAX / size || (size_t)shape->rows > 2147483648u / ranks->row_bytes) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "%" PRId64 " rows of each of %d ranks are more than can be sent (batch.tokens)",
                       shape->rows, size);
    }
    ranks->capacity = shape->rows * size;
    if (shape->room > 0.0 && shape->room < (double)size)
        ranks->capacity = (int64_t)ceil((double)shape->rows * shape->room);
    ranks->first = mt_expert_ranks_first(shape->experts, rank, size);
    ranks->owned = mt_expert_ranks_first(shape->experts, rank + 1, size) - ranks->first;
    ranks->bytes = lay_out(ranks, shape, NULL);
    enum mt_status status = mt_allocate_array(ctx, 1, ranks->bytes, &ranks->block);
    if (status == MT_OK) {
        (void)lay_out(ranks, shape, ranks->block);
        status = make_lanes(ranks, shape);
    }
    return status == MT_OK ? MT_OK : mt_fail_within(ctx, status, "experts of %d ranks", size);
}

void mt_expert_ranks_free(struct mt_expert_ranks *ranks)
{
    for (int i = 0; i < MT_EXPERT_LANES; i++) {
        mt_comm_transfer_free(ranks->lane[i].parcel);
        mt_buffer_release(&ranks->lane[i].own);
        mt_buffer_release(&ranks->lane[i].arrived);
    }
    if (ranks->block != NULL) mt_release(mt_device_context(ranks->device), ranks->block, ranks->bytes);
    *ranks = (struct mt_expert_ranks){0};
}

static int32_t *sent_of(const struct mt_expert_ranks *ranks, int layer)
{
    return ranks->sent + (size_t)layer * (size_t)ranks->experts;
}

static int32_t *arrived_of(const struct mt_expert_ranks *ranks, int layer)
{
    return ranks->arrived + (size_t)layer * (size_t)mt_comm_size(ranks->comm) * (size_t)ranks->owned;
}

enum mt_status mt_expert_ranks_route(struct mt_expert_ranks *ranks, int layer,
                                     const struct mt_tensor *offsets)
{
    if (ranks->planning) {
        ranks->rows[layer] = ranks->capacity;
        return MT_OK;
    }
    int size = mt_comm_size(ranks->comm);
    int32_t *sent = sent_of(ranks, layer);
    int32_t *arrived = arrived_of(ranks, layer);
    enum mt_status status = mt_device_download(ranks->device, ranks->offsets, offsets->data,
                                               (size_t)(ranks->experts + 1) * sizeof *ranks->offsets);
    if (status != MT_OK) return status;
    ranks->away[layer] = 0;
    for (int e = 0; e < ranks->experts; e++) {
        sent[e] = ranks->offsets[e + 1] - ranks->offsets[e];
        bool ours = e >= ranks->first && e < ranks->first + ranks->owned;
        if (!ours) ranks->away[layer] += sent[e];
    }
    for (int r = 0; r < size; r++) {
        int theirs = mt_expert_ranks_first(ranks->experts, r + 1, size) -
                     mt_expert_ranks_first(ranks->experts, r, size);
        ranks->send_bytes[r] = (size_t)theirs * sizeof *sent;
        ranks->receive_bytes[r] = (size_t)ranks->owned * sizeof *arrived;
    }
    mt_comm_exchange(ranks->comm, sent, ranks->send_bytes, arrived, ranks->receive_bytes);
    ranks->rows[layer] = 0;
    for (int i = 0; i < size * ranks->owned; i++) ranks->rows[layer] += arrived[i];
    if (ranks->rows[layer] <= ranks->capacity) return MT_OK;
    return mt_fail(mt_device_context(ranks->device), MT_ERR_USAGE,
                   "%" PRId64 " rows chose experts %d to %d, there is room for %" PRId64
                   ": raise parallel.room, or lower batch.tokens",
                   ranks->rows[layer], ranks->first, ranks->first + ranks->owned - 1, ranks->capacity);
}

enum mt_status mt_expert_ranks_offsets(struct mt_expert_ranks *ranks, int layer,
                                       const struct mt_tensor *own_offsets)
{
    if (ranks->planning) return MT_OK;
    const int32_t *arrived = arrived_of(ranks, layer);
    ranks->offsets[0] = 0;
    for (int e = 0; e < ranks->owned; e++) {
        ranks->offsets[e + 1] = ranks->offsets[e];
        for (int r = 0; r < mt_comm_size(ranks->comm); r++)
            ranks->offsets[e + 1] += arrived[r * ranks->owned + e];
    }
    return mt_device_upload(ranks->device, own_offsets->data, ranks->offsets,
                            (size_t)(ranks->owned + 1) * sizeof *ranks->offsets);
}

/* Which row of those sent each sorted row is; back: the other way round. To the device. */
static enum mt_status find_order(struct mt_expert_ranks *ranks, int layer, bool back,
                                 const struct mt_tensor *order)
{
    const int32_t *arrived = arrived_of(ranks, layer);
    int size = mt_comm_size(ranks->comm);
    int64_t begins = 0;
    for (int piece = 0; piece < size * ranks->owned; piece++) { // by sender, then by expert
        ranks->place[piece] = begins;
        begins += arrived[piece];
    }
    int32_t sorted = 0;
    for (int e = 0; e < ranks->owned; e++) {
        for (int r = 0; r < size; r++) {
            int piece = r * ranks->owned + e;
            for (int32_t i = 0; i < arrived[piece]; i++, sorted++) {
                int32_t sent_row = (int32_t)ranks->place[piece] + i;
                if (back) ranks->order[sent_row] = sorted;
                if (!back) ranks->order[sorted] = sent_row;
            }
        }
    }
    return mt_device_upload(ranks->device, order->data, ranks->order, (size_t)sorted * sizeof *ranks->order);
}

/* to[i] = from[order[i]], for the rows that arrived. */
static enum mt_status reorder(struct mt_expert_ranks *ranks, int layer, const struct mt_tensor *order,
                              const struct mt_tensor *from, const struct mt_tensor *to)
{
    int64_t rows = ranks->rows[layer];
    return mt_dispatch_forward(
        ranks->device, &(struct mt_dispatch_forward_args){.x = mt_tensor_rows(from, 0, rows),
                                                          .slot_of_row = mt_tensor_rows(order, 0, rows),
                                                          .rows = mt_tensor_rows(to, 0, rows),
                                                          .slots = 1});
}

static size_t bytes_of_row(const struct mt_tensor *rows)
{
    return (size_t)rows->dim[1] * mt_dtype_bytes(rows->dtype);
}

/* Bytes to and from each rank. */
static void count_bytes(struct mt_expert_ranks *ranks, int layer, const struct mt_expert_transfer *transfer)
{
    size_t row = bytes_of_row(&transfer->own);
    int size = mt_comm_size(ranks->comm);
    const int32_t *sent = sent_of(ranks, layer);
    const int32_t *arrived = arrived_of(ranks, layer);
    for (int r = 0; r < size; r++) {
        size_t there = 0;
        size_t here = 0;
        int end = mt_expert_ranks_first(ranks->experts, r + 1, size);
        for (int e = mt_expert_ranks_first(ranks->experts, r, size); e < end; e++) there += (size_t)sent[e];
        for (int e = 0; e < ranks->owned; e++) here += (size_t)arrived[r * ranks->owned + e];
        ranks->send_bytes[r] = there * row;
        ranks->receive_bytes[r] = here * row;
    }
}

/* Where the rows lie that a rank has for itself, among all it has for anybody. */
struct stay {
    size_t first, count, all; // bytes
};

static struct stay find_stay(const struct mt_expert_ranks *ranks, const size_t *bytes)
{
    int rank = mt_comm_rank(ranks->comm);
    struct stay stay = {.count = bytes[rank]};
    for (int r = 0; r < mt_comm_size(ranks->comm); r++) {
        if (r < rank) stay.first += bytes[r];
        stay.all += bytes[r];
    }
    return stay;
}

/* Everything but what stays, from the device to the host, or to the device. */
static enum mt_status stage(const struct mt_expert_ranks *ranks, const struct stay *stay, void *device,
                            void *host, bool up)
{
    size_t behind = stay->first + stay->count;
    const size_t first[2] = {0, behind};
    const size_t count[2] = {stay->first, stay->all - behind};
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && i < 2; i++) {
        char *inside = (char *)device + first[i];
        char *outside = (char *)host + first[i];
        status = up ? mt_device_upload(ranks->device, inside, outside, count[i])
                    : mt_device_download(ranks->device, outside, inside, count[i]);
    }
    return status;
}

/* What stays goes from one tensor to its place in the other. */
static enum mt_status keep(const struct mt_expert_ranks *ranks, const struct mt_tensor *from,
                           const struct stay *there, const struct mt_tensor *to, const struct stay *here)
{
    size_t row = bytes_of_row(from);
    int64_t rows = (int64_t)(there->count / row);
    if (rows == 0) return MT_OK;
    return mt_copy(ranks->device,
                   &(struct mt_copy_args){.x = mt_tensor_rows(from, (int64_t)(there->first / row), rows),
                                          .y = mt_tensor_rows(to, (int64_t)(here->first / row), rows)});
}

/* Rows of the device may be sent from now on; the host waits unless the cards send. */
static enum mt_status be_ready(const struct mt_expert_ranks *ranks)
{
    return ranks->sender != NULL ? mt_device_follow(ranks->sender, ranks->device)
                                 : mt_device_synchronise(ranks->device);
}

static enum mt_status set_out(const struct mt_expert_ranks *ranks, int lane, struct mt_comm_load *load)
{
    struct mt_comm_transfer *parcel = ranks->lane[lane].parcel;
    load->on_cards = ranks->sender != NULL;
    if (!load->on_cards) {
        mt_comm_transfer_start(parcel, load);
        return MT_OK;
    }
    struct mt_span *span = mt_timeline_reserve(mt_comm_timeline(ranks->comm), MT_SPAN_ROWS, lane);
    enum mt_status status = mt_device_begin_span(ranks->sender, span);
    load->stream = mt_device_stream(ranks->sender);
    mt_comm_transfer_start(parcel, load);
    return status == MT_OK ? mt_device_end_span(ranks->sender, span) : status;
}

/* What was sent is used from now on. */
static enum mt_status arrive(const struct mt_expert_ranks *ranks, int lane)
{
    mt_comm_transfer_wait(ranks->lane[lane].parcel);
    if (ranks->sender == NULL) return MT_OK;
    struct mt_span *span = mt_timeline_reserve(mt_comm_timeline(ranks->comm), MT_SPAN_EXCHANGE, lane);
    enum mt_status status = mt_device_begin_span(ranks->device, span);
    if (status == MT_OK) status = mt_device_follow(ranks->device, ranks->sender);
    return status == MT_OK ? mt_device_end_span(ranks->device, span) : status;
}

enum mt_status mt_expert_ranks_send_start(struct mt_expert_ranks *ranks, int layer,
                                          const struct mt_expert_transfer *transfer)
{
    if (ranks->planning) return MT_OK;
    const struct mt_expert_lane *lane = &ranks->lane[transfer->lane];
    count_bytes(ranks, layer, transfer);
    struct stay own = find_stay(ranks, ranks->send_bytes);
    struct stay arrived = find_stay(ranks, ranks->receive_bytes);
    enum mt_status status =
        ranks->staged ? stage(ranks, &own, transfer->own.data, lane->own.data, false) : be_ready(ranks);
    if (status != MT_OK) return status;
    status =
        set_out(ranks, transfer->lane,
                &(struct mt_comm_load){.send = ranks->staged ? lane->own.data : transfer->own.data,
                                       .send_bytes = ranks->send_bytes,
                                       .receive = ranks->staged ? lane->arrived.data : transfer->space.data,
                                       .receive_bytes = ranks->receive_bytes});
    if (status != MT_OK) return status;
    return keep(ranks, &transfer->own, &own, &transfer->space, &arrived);
}

enum mt_status mt_expert_ranks_send_finish(struct mt_expert_ranks *ranks, int layer,
                                           const struct mt_expert_transfer *transfer)
{
    if (ranks->planning) return reorder(ranks, layer, &transfer->order, &transfer->space, &transfer->sorted);
    const struct mt_expert_lane *lane = &ranks->lane[transfer->lane];
    enum mt_status status = arrive(ranks, transfer->lane);
    if (status != MT_OK || ranks->rows[layer] == 0) return status; // perhaps nobody chose our experts
    if (ranks->staged) {
        count_bytes(ranks, layer, transfer);
        struct stay arrived = find_stay(ranks, ranks->receive_bytes);
        status = stage(ranks, &arrived, transfer->space.data, lane->arrived.data, true);
    }
    if (status == MT_OK) status = find_order(ranks, layer, false, &transfer->order);
    if (status != MT_OK) return status;
    return reorder(ranks, layer, &transfer->order, &transfer->space, &transfer->sorted);
}

enum mt_status mt_expert_ranks_return_start(struct mt_expert_ranks *ranks, int layer,
                                            const struct mt_expert_transfer *transfer)
{
    if (ranks->planning) return reorder(ranks, layer, &transfer->order, &transfer->sorted, &transfer->space);
    const struct mt_expert_lane *lane = &ranks->lane[transfer->lane];
    enum mt_status status = MT_OK;
    count_bytes(ranks, layer, transfer);
    struct stay own = find_stay(ranks, ranks->send_bytes);
    struct stay arrived = find_stay(ranks, ranks->receive_bytes);
    if (ranks->rows[layer] > 0) {
        status = find_order(ranks, layer, true, &transfer->order);
        if (status == MT_OK)
            status = reorder(ranks, layer, &transfer->order, &transfer->sorted, &transfer->space);
        if (status != MT_OK) return status;
    }
    status = ranks->staged ? stage(ranks, &arrived, transfer->space.data, lane->arrived.data, false)
                           : be_ready(ranks);
    if (status != MT_OK) return status;
    status = set_out(ranks, transfer->lane,
                     &(struct mt_comm_load){.send = ranks->staged ? lane->arrived.data : transfer->space.data,
                                            .send_bytes = ranks->receive_bytes, // what came goes back
                                            .receive = ranks->staged ? lane->own.data : transfer->own.data,
                                            .receive_bytes = ranks->send_bytes});
    if (status != MT_OK) return status;
    return keep(ranks, &transfer->space, &arrived, &transfer->own, &own);
}

enum mt_status mt_expert_ranks_return_finish(struct mt_expert_ranks *ranks, int layer,
                                             const struct mt_expert_transfer *transfer)
{
    if (ranks->planning) return MT_OK;
    const struct mt_expert_lane *lane = &ranks->lane[transfer->lane];
    enum mt_status status = arrive(ranks, transfer->lane);
    if (status != MT_OK || !ranks->staged) return status;
    count_bytes(ranks, layer, transfer);
    struct stay own = find_stay(ranks, ranks->send_bytes);
    return stage(ranks, &own, transfer->own.data, lane->own.data, true);
}

void mt_expert_ranks_progress(struct mt_expert_ranks *ranks)
{
    // A library without a thread of its own moves a little with every call.
    for (int call = 0; !ranks->planning && call < PROGRESS_CALLS; call++)
        for (int i = 0; i < MT_EXPERT_LANES; i++) (void)mt_comm_transfer_progress(ranks->lane[i].parcel);
}
