/*
 * Shares of buckets from card to card. The stream takes one bucket after the other, so that one place for the
 * other ranks' versions serves them all. For the same reason all ranks issue them in one order, from the last
 * layer to the first, even one that has nothing to do in a round and starts them all at its end: streams that
 * wait for each other's buckets would wait for ever.
 */
#include "train/card_sum.h"

#include "ops/streams.h"

struct mt_card_sum {
    const struct mt_buckets *buckets;    // borrowed
    struct mt_device *sender;            // borrowed
    struct mt_buffer versions;           // f32 [ranks, share] of the largest bucket
    struct mt_comm_transfer **transfers; // owned; [buckets]; NULL: nobody else holds the bucket
    size_t *share_bytes, *own_bytes;     // [ranks]: of each rank's share, and of ours for each
    size_t *zeros;                       // [ranks]
    size_t most_ranks;
    size_t *order;           // owned; [ordered]: numbers of the buckets that other ranks hold, too
    size_t ordered, started; // of these
};

static struct mt_context *context_of(const struct mt_card_sum *sum)
{
    return mt_device_context(sum->sender);
}

/* From the last layer to the first, by which backward completes them. */
static enum mt_status find_order(struct mt_card_sum *sum)
{
    const struct mt_buckets *buckets = sum->buckets;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(context_of(sum), buckets->count, sizeof *sum->order, &memory);
    if (status != MT_OK) return status;
    sum->order = memory;
    for (int64_t layer = buckets->params->layers; layer >= -1; layer--)
        for (size_t i = buckets->count; i-- > 0;)
            if (buckets->list[i].comm != NULL && buckets->list[i].layer == layer)
                sum->order[sum->ordered++] = i;
    return MT_OK;
}

static enum mt_status create(struct mt_card_sum *sum)
{
    const struct mt_buckets *buckets = sum->buckets;
    size_t versions = 0;
    void *memory = NULL;
    for (size_t i = 0; i < buckets->count; i++) {
        const struct mt_bucket *bucket = &buckets->list[i];
        if (bucket->comm == NULL) continue;
        size_t ranks = (size_t)mt_comm_size(bucket->comm);
        if (ranks > sum->most_ranks) sum->most_ranks = ranks;
        if (ranks * bucket->own_count > versions) versions = ranks * bucket->own_count;
    }
    if (sum->most_ranks == 0) return MT_OK;
    enum mt_status status =
        mt_allocate_array(context_of(sum), 3 * sum->most_ranks, sizeof *sum->zeros, &memory);
    if (status != MT_OK) return status;
    sum->zeros = memory;
    sum->share_bytes = sum->zeros + sum->most_ranks;
    sum->own_bytes = sum->share_bytes + sum->most_ranks;
    for (size_t r = 0; r < sum->most_ranks; r++) sum->zeros[r] = 0;
    status = mt_allocate_array(context_of(sum), buckets->count, sizeof(void *), &memory);
    if (status != MT_OK) return status;
    sum->transfers = memory;
    for (size_t i = 0; i < buckets->count; i++) sum->transfers[i] = NULL;
    for (size_t i = 0; status == MT_OK && i < buckets->count; i++)
        if (buckets->list[i].comm != NULL)
            status = mt_comm_transfer_create(buckets->list[i].comm, &sum->transfers[i]);
    if (status == MT_OK) status = find_order(sum);
    if (status != MT_OK) return status;
    return mt_device_buffer_create(buckets->params->device, versions * sizeof(float), &sum->versions);
}

enum mt_status mt_card_sum_create(const struct mt_buckets *buckets, struct mt_device *sender,
                                  struct mt_card_sum **sum)
{
    struct mt_context *ctx = mt_device_context(sender);
    void *memory = NULL;
    *sum = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **sum, &memory);
    if (status != MT_OK) return status;
    struct mt_card_sum *made = memory;
    *made = (struct mt_card_sum){.buckets = buckets, .sender = sender};
    status = create(made);
    if (status != MT_OK) {
        mt_card_sum_free(made);
        return status;
    }
    *sum = made;
    return MT_OK;
}

void mt_card_sum_free(struct mt_card_sum *sum)
{
    if (sum == NULL) return;
    struct mt_context *ctx = context_of(sum);
    size_t count = sum->buckets->count;
    for (size_t i = 0; sum->transfers != NULL && i < count; i++) mt_comm_transfer_free(sum->transfers[i]);
    mt_release(ctx, sum->transfers, count * sizeof(void *));
    mt_release(ctx, sum->order, count * sizeof *sum->order);
    mt_release(ctx, sum->zeros, 3 * sum->most_ranks * sizeof *sum->zeros);
    mt_buffer_release(&sum->versions);
    mt_release(ctx, sum, sizeof *sum);
}

/* Bytes of each rank's share of a bucket, which lie one behind the other, and of ours for everybody. */
static void count_bytes(struct mt_card_sum *sum, const struct mt_bucket *bucket)
{
    int ranks = mt_comm_size(bucket->comm);
    for (int r = 0; r < ranks; r++) {
        sum->share_bytes[r] = mt_comm_share_of(bucket->count, r, ranks).count * sizeof(float);
        sum->own_bytes[r] = bucket->own_count * sizeof(float);
    }
}

static struct mt_span *reserve(const struct mt_card_sum *sum, size_t index, enum mt_span_kind kind)
{
    return mt_timeline_reserve(mt_comm_timeline(sum->buckets->list[index].comm), kind, (int32_t)index);
}

static enum mt_status start(struct mt_card_sum *sum, size_t index)
{
    const struct mt_params *params = sum->buckets->params;
    const struct mt_bucket *bucket = &sum->buckets->list[index];
    float *gradients = params->gradients.data;
    int64_t own = (int64_t)bucket->own_count;
    struct mt_span *span = reserve(sum, index, MT_SPAN_SUM);
    enum mt_status status = mt_device_follow(sum->sender, params->device);
    if (status == MT_OK) status = mt_device_begin_span(sum->sender, span);
    if (status != MT_OK) return status;
    count_bytes(sum, bucket);
    mt_comm_transfer_start(sum->transfers[index],
                           &(struct mt_comm_load){.send = gradients + bucket->first,
                                                  .send_bytes = sum->share_bytes,
                                                  .receive = sum->versions.data,
                                                  .receive_bytes = sum->own_bytes,
                                                  .is_sum = true,
                                                  .on_cards = true,
                                                  .stream = mt_device_stream(sum->sender)});
    status = mt_rank_sum(sum->sender,
                         &(struct mt_rank_sum_args){
                             .x = mt_tensor_2d(sum->versions.data, MT_F32, mt_comm_size(bucket->comm), own),
                             .y = mt_tensor_1d(gradients + bucket->own_first, MT_F32, own),
                             .own = mt_comm_rank(bucket->comm)});
    return status == MT_OK ? mt_device_end_span(sum->sender, span) : status;
}

enum mt_status mt_card_sum_layer_done(struct mt_card_sum *sum, int64_t layer)
{
    enum mt_status status = MT_OK;
    while (status == MT_OK && sum->started < sum->ordered &&
           sum->buckets->list[sum->order[sum->started]].layer >= layer) {
        status = start(sum, sum->order[sum->started]);
        sum->started++;
    }
    return status;
}

enum mt_status mt_card_sum_finish(struct mt_card_sum *sum)
{
    enum mt_status status = mt_card_sum_layer_done(sum, -1);
    sum->started = 0;
    return status == MT_OK ? mt_device_follow(sum->buckets->params->device, sum->sender) : status;
}

enum mt_status mt_card_sum_hand_round(struct mt_card_sum *sum, size_t index)
{
    const struct mt_params *params = sum->buckets->params;
    const struct mt_bucket *bucket = &sum->buckets->list[index];
    float *values = params->masters.data;
    struct mt_span *span = reserve(sum, index, MT_SPAN_VALUES);
    enum mt_status status = mt_device_follow(sum->sender, params->device);
    if (status == MT_OK) status = mt_device_begin_span(sum->sender, span);
    if (status != MT_OK) return status;
    count_bytes(sum, bucket);
    mt_comm_transfer_start(sum->transfers[index],
                           &(struct mt_comm_load){.send = values + bucket->own_first,
                                                  .send_bytes = sum->own_bytes,
                                                  .send_at = sum->zeros,
                                                  .receive = values + bucket->first,
                                                  .receive_bytes = sum->share_bytes,
                                                  .is_sum = true,
                                                  .on_cards = true,
                                                  .stream = mt_device_stream(sum->sender)});
    return mt_device_end_span(sum->sender, span);
}

enum mt_status mt_card_sum_take_values(struct mt_card_sum *sum)
{
    return mt_device_follow(sum->buckets->params->device, sum->sender);
}
