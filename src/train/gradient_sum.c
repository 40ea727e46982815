/*
 * Buckets of gradients on their way round the ranks. Where gradients lie in memory the host cannot read, a
 * bucket is copied to the host when it sets out and back when it has arrived.
 */
#include "train/gradient_sum.h"

#include "base/clock.h"

struct bucket {
    size_t first, count; // among the numbers of the gradients' buffer
    int64_t layer;       // the lowest that adds to it; -1: the embedding does; layers: none does
    struct mt_comm_sum *sum;
    bool started;
};

struct mt_gradient_sum {
    struct mt_comm *comm;           // borrowed
    const struct mt_params *params; // borrowed
    float *host;                    // owned; [count]: the gradients on the host; NULL: they are there already
    size_t count;                   // numbers in all
    struct bucket *buckets;         // owned; [bucket_count], those of the last layers first
    size_t bucket_count;
    double waited; // seconds
};

/* The lowest layer whose backward adds to a parameter's gradient. */
static int64_t layer_of(const struct mt_params *params, const struct mt_param *param)
{
    if (param->layer >= 0) return param->layer;
    // The gradient of a table that is embedding and head is complete when the embedding's is.
    return param->grad.data == params->dembedding.data ? -1 : params->layers;
}

static size_t place_of(const struct mt_params *params, const struct mt_param *param)
{
    return (size_t)((const float *)param->grad.data - (const float *)params->gradients.data);
}

/* Cuts the gradients; with buckets NULL they are only counted. */
static size_t cut(const struct mt_params *params, size_t bucket_bytes, struct bucket *buckets, size_t total)
{
    size_t count = 0;
    struct bucket open = {.layer = params->layers};
    for (size_t i = 0; i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        int64_t layer = layer_of(params, param);
        size_t end = i + 1 < params->trained_count ? place_of(params, &params->trained[i + 1]) : total;
        if (layer < open.layer) open.layer = layer;
        open.count = end - open.first;
        if (open.count * sizeof(float) < bucket_bytes && end < total) continue;
        count++;
        if (buckets != NULL) buckets[count - 1] = open;
        open = (struct bucket){.first = end, .layer = params->layers};
    }
    return count;
}

enum mt_status mt_gradient_sum_create(struct mt_comm *comm, const struct mt_params *params,
                                      size_t bucket_bytes, struct mt_gradient_sum **sum)
{
    struct mt_context *ctx = mt_device_context(params->device);
    void *memory = NULL;
    *sum = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **sum, &memory);
    if (status != MT_OK) return status;
    struct mt_gradient_sum *made = memory;
    *made = (struct mt_gradient_sum){
        .comm = comm, .params = params, .count = params->gradients.bytes / sizeof(float)};
    if (mt_comm_size(comm) > 1) {
        made->bucket_count = cut(params, bucket_bytes, NULL, made->count);
        status = mt_allocate_array(ctx, made->bucket_count, sizeof *made->buckets, &memory);
        if (status == MT_OK) {
            made->buckets = memory;
            (void)cut(params, bucket_bytes, made->buckets, made->count);
        }
        if (status == MT_OK && !mt_device_on_host(params->device)) {
            status = mt_allocate(ctx, params->gradients.bytes, &memory);
            if (status == MT_OK) made->host = memory;
        }
    }
    for (size_t i = 0; status == MT_OK && i < made->bucket_count; i++)
        status = mt_comm_sum_create(comm, made->buckets[i].count, &made->buckets[i].sum);
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
    struct mt_context *ctx = mt_device_context(sum->params->device);
    for (size_t i = 0; sum->buckets != NULL && i < sum->bucket_count; i++)
        mt_comm_sum_free(sum->buckets[i].sum);
    if (sum->buckets != NULL) mt_release(ctx, sum->buckets, sum->bucket_count * sizeof *sum->buckets);
    if (sum->host != NULL) mt_release(ctx, sum->host, sum->params->gradients.bytes);
    mt_release(ctx, sum, sizeof *sum);
}

size_t mt_gradient_sum_bytes(const struct mt_gradient_sum *sum)
{
    return sum->count * sizeof(float);
}

static enum mt_status start(struct mt_gradient_sum *sum, struct bucket *bucket)
{
    struct mt_device *device = sum->params->device;
    float *gradients = (float *)sum->params->gradients.data + bucket->first;
    float *values = sum->host != NULL ? sum->host + bucket->first : gradients;
    enum mt_status status = MT_OK;
    // Other than copying, a host device may still be at work.
    if (sum->host == NULL) status = mt_device_synchronise(device);
    if (sum->host != NULL)
        status = mt_device_download(device, values, gradients, bucket->count * sizeof(float));
    if (status != MT_OK) return status;
    mt_comm_sum_start(bucket->sum, values, bucket->count);
    bucket->started = true;
    return MT_OK;
}

enum mt_status mt_gradient_sum_layer_done(struct mt_gradient_sum *sum, int64_t layer)
{
    // Backward goes from the last layer to the first.
    for (size_t i = sum->bucket_count; i-- > 0;) {
        struct bucket *bucket = &sum->buckets[i];
        if (bucket->started || bucket->layer < layer) continue;
        enum mt_status status = start(sum, bucket);
        if (status != MT_OK) return status;
    }
    for (size_t i = sum->bucket_count; i-- > 0;)
        if (sum->buckets[i].started) mt_comm_sum_progress(sum->buckets[i].sum);
    return MT_OK;
}

double mt_gradient_sum_waited(const struct mt_gradient_sum *sum)
{
    return sum->waited;
}

enum mt_status mt_gradient_sum_finish(struct mt_gradient_sum *sum)
{
    double began = mt_clock_seconds();
    enum mt_status status = mt_gradient_sum_layer_done(sum, -1);
    for (size_t i = sum->bucket_count; status == MT_OK && i-- > 0;) {
        struct bucket *bucket = &sum->buckets[i];
        mt_comm_sum_wait(bucket->sum);
        bucket->started = false;
        if (sum->host == NULL) continue;
        status = mt_device_upload(sum->params->device, (float *)sum->params->gradients.data + bucket->first,
                                  sum->host + bucket->first, bucket->count * sizeof(float));
    }
    sum->waited += mt_clock_seconds() - began;
    return status;
}
