/*
 * Buckets of gradients, then of values, on their way round the ranks. Where they lie in memory the host
 * cannot read, they are copied to the host when they set out and back when they have arrived: of the
 * gradients this rank's share alone, of the values the others'.
 */
#include "train/gradient_sum.h"

#include "base/clock.h"
#include "metier/buffer.h"
#include "train/card_sum.h"

#define PROGRESS_CALLS 16

/* A bucket on its way. */
struct journey {
    struct mt_comm_sum *sum; // owned; NULL: nobody else holds the bucket, or cards send it
    bool started;
};

struct mt_gradient_sum {
    const struct mt_buckets *buckets; // borrowed
    struct mt_buffer staging;  // owned; as long as the gradients: these on the host; empty: they are there
    float *host;               // its data, or NULL
    struct journey *journeys;  // owned; [buckets]
    struct mt_card_sum *cards; // owned; NULL: by way of the host
    double waited;             // seconds
};

static enum mt_status create(struct mt_gradient_sum *sum, struct mt_device *sender)
{
    const struct mt_buckets *buckets = sum->buckets;
    struct mt_device *device = buckets->params->device;
    void *memory = NULL;
    if (buckets->count == 0) return MT_OK;
    enum mt_status status =
        mt_allocate_array(mt_device_context(device), buckets->count, sizeof *sum->journeys, &memory);
    sum->journeys = memory;
    if (status == MT_OK && sender != NULL) return mt_card_sum_create(buckets, sender, &sum->cards);
    if (status == MT_OK && buckets->summed > 0 && !mt_device_on_host(device)) {
        status = mt_device_staging_create(device, buckets->params->gradients.bytes, &sum->staging);
        sum->host = sum->staging.data;
    }
    for (size_t i = 0; status == MT_OK && i < buckets->count; i++) {
        const struct mt_bucket *bucket = &buckets->list[i];
        if (bucket->comm != NULL)
            status = mt_comm_sum_create(bucket->comm, bucket->count, &sum->journeys[i].sum);
    }
    return status;
}

enum mt_status mt_gradient_sum_create(const struct mt_buckets *buckets, struct mt_device *sender,
                                      struct mt_gradient_sum **sum)
{
    struct mt_context *ctx = mt_device_context(buckets->params->device);
    void *memory = NULL;
    *sum = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **sum, &memory);
    if (status != MT_OK) return status;
    struct mt_gradient_sum *made = memory;
    *made = (struct mt_gradient_sum){.buckets = buckets};
    status = create(made, sender);
    if (status != MT_OK) {
        mt_gradient_sum_free(made);
        return mt_fail_within(ctx, status, "gradients of all ranks");
    }
    *sum = made;
    return MT_OK;
}

void mt_gradient_sum_free(struct mt_gradient_sum *sum)
{
    if (sum == NULL) return;
    size_t count = sum->buckets->count;
    struct mt_context *ctx = mt_device_context(sum->buckets->params->device);
    for (size_t i = 0; sum->journeys != NULL && i < count; i++) mt_comm_sum_free(sum->journeys[i].sum);
    if (sum->journeys != NULL) mt_release(ctx, sum->journeys, count * sizeof *sum->journeys);
    mt_card_sum_free(sum->cards);
    mt_buffer_release(&sum->staging);
    mt_release(ctx, sum, sizeof *sum);
}

// ------------------------------------------------------------------ copies on the host

/* Where a bucket's numbers travel from and to: where they lie, or on the host. */
static float *begin_of(const struct mt_gradient_sum *sum, const struct mt_buffer *numbers,
                       const struct mt_bucket *bucket)
{
    return (sum->host != NULL ? sum->host : (float *)numbers->data) + bucket->first;
}

static enum mt_status fetch(struct mt_gradient_sum *sum, const struct mt_buffer *numbers, size_t first,
                            size_t count)
{
    struct mt_device *device = sum->buckets->params->device;
    // Other than copying, a host device may still be at work.
    if (sum->host == NULL) return mt_device_synchronise(device);
    if (count == 0) return MT_OK;
    return mt_device_download(device, sum->host + first, (const float *)numbers->data + first,
                              count * sizeof(float));
}

static enum mt_status put_back(struct mt_gradient_sum *sum, const struct mt_buffer *numbers, size_t first,
                               size_t count)
{
    if (sum->host == NULL || count == 0) return MT_OK;
    return mt_device_upload(sum->buckets->params->device, (float *)numbers->data + first, sum->host + first,
                            count * sizeof(float));
}

// ------------------------------------------------------------------ gradients

static enum mt_status start(struct mt_gradient_sum *sum, size_t index)
{
    const struct mt_bucket *bucket = &sum->buckets->list[index];
    const struct mt_buffer *gradients = &sum->buckets->params->gradients;
    enum mt_status status = fetch(sum, gradients, bucket->first, bucket->count);
    if (status != MT_OK) return status;
    mt_comm_sum_start(sum->journeys[index].sum, begin_of(sum, gradients, bucket), bucket->count);
    sum->journeys[index].started = true;
    return MT_OK;
}

enum mt_status mt_gradient_sum_layer_done(struct mt_gradient_sum *sum, int64_t layer)
{
    size_t count = sum->buckets->count;
    if (sum->cards != NULL) return mt_card_sum_layer_done(sum->cards, layer);
    // Backward goes from the last layer to the first.
    for (size_t i = count; i-- > 0;) {
        const struct journey *journey = &sum->journeys[i];
        if (journey->sum == NULL || journey->started || sum->buckets->list[i].layer < layer) continue;
        enum mt_status status = start(sum, i);
        if (status != MT_OK) return status;
    }
    // A library without a thread of its own moves a little with every call.
    for (int call = 0; call < PROGRESS_CALLS; call++) {
        for (size_t i = count; i-- > 0;)
            if (sum->journeys[i].started) mt_comm_sum_progress(sum->journeys[i].sum);
    }
    return MT_OK;
}

static enum mt_status finish(struct mt_gradient_sum *sum)
{
    const struct mt_buckets *buckets = sum->buckets;
    enum mt_status status = mt_gradient_sum_layer_done(sum, -1);
    for (size_t i = buckets->count; status == MT_OK && i-- > 0;) {
        const struct mt_bucket *bucket = &buckets->list[i];
        if (bucket->comm == NULL) continue;
        mt_comm_sum_wait(sum->journeys[i].sum);
        sum->journeys[i].started = false;
        status = put_back(sum, &buckets->params->gradients, bucket->own_first, bucket->own_count);
    }
    return status;
}

enum mt_status mt_gradient_sum_finish(struct mt_gradient_sum *sum)
{
    double began = mt_clock_seconds();
    enum mt_status status = sum->cards != NULL ? mt_card_sum_finish(sum->cards) : finish(sum);
    sum->waited += mt_clock_seconds() - began;
    return status;
}

// ------------------------------------------------------------------ values

static enum mt_status take_values(struct mt_gradient_sum *sum, size_t index)
{
    const struct mt_bucket *bucket = &sum->buckets->list[index];
    const struct mt_buffer *masters = &sum->buckets->params->masters;
    size_t own_end = bucket->own_first + bucket->own_count;
    mt_comm_sum_wait(sum->journeys[index].sum);
    enum mt_status status = put_back(sum, masters, bucket->first, bucket->own_first - bucket->first);
    if (status != MT_OK) return status;
    return put_back(sum, masters, own_end, bucket->first + bucket->count - own_end);
}

static enum mt_status hand_round(struct mt_gradient_sum *sum, size_t index)
{
    const struct mt_bucket *bucket = &sum->buckets->list[index];
    const struct mt_buffer *masters = &sum->buckets->params->masters;
    enum mt_status status = fetch(sum, masters, bucket->own_first, bucket->own_count);
    if (status == MT_OK)
        mt_comm_sum_hand_round(sum->journeys[index].sum, begin_of(sum, masters, bucket), bucket->count);
    return status;
}

enum mt_status mt_gradient_sum_hand_round(struct mt_gradient_sum *sum, size_t bucket)
{
    if (sum->buckets->list[bucket].comm == NULL) return MT_OK;
    double began = mt_clock_seconds();
    enum mt_status status =
        sum->cards != NULL ? mt_card_sum_hand_round(sum->cards, bucket) : hand_round(sum, bucket);
    sum->waited += mt_clock_seconds() - began;
    return status;
}

enum mt_status mt_gradient_sum_take_values(struct mt_gradient_sum *sum)
{
    const struct mt_buckets *buckets = sum->buckets;
    if (buckets->summed == 0) return MT_OK;
    double began = mt_clock_seconds();
    enum mt_status status = sum->cards != NULL ? mt_card_sum_take_values(sum->cards) : MT_OK;
    for (size_t i = 0; status == MT_OK && sum->cards == NULL && i < buckets->count; i++)
        if (buckets->list[i].comm != NULL) status = take_values(sum, i);
    if (status == MT_OK) status = mt_params_round(buckets->params);
    sum->waited += mt_clock_seconds() - began;
    return status;
}

double mt_gradient_sum_waited(const struct mt_gradient_sum *sum)
{
    return sum->waited;
}
