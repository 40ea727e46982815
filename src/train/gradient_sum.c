/*
 * Buckets of gradients on their way round the ranks. Where gradients lie in memory the host cannot read, a
 * bucket is copied to the host when it sets out and back when it has arrived.
 */
#include "train/gradient_sum.h"

#include "base/clock.h"
#include "metier/buffer.h"

#define PROGRESS_CALLS 16

struct bucket {
    struct mt_comm *comm; // borrowed: who adds up
    size_t first, count;  // among the numbers of the gradients' buffer
    int64_t layer;        // the lowest that adds to it; -1: the embedding does; layers: none does
    struct mt_comm_sum *sum;
    bool started;
};

struct mt_gradient_sum {
    const struct mt_params *params; // borrowed
    struct mt_buffer staging; // owned; as long as the gradients: these on the host; empty: they are there
    float *host;              // its data, or NULL
    struct bucket *buckets;   // owned; [bucket_count], those of a group along its layers
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

/* A stretch of the gradients whose sums are over the same ranks. */
struct stretch {
    struct mt_comm *comm;
    size_t first, end; // numbers
};

/* Cuts a stretch; with buckets NULL they are only counted. */
static size_t cut(const struct mt_params *params, const struct stretch *stretch, size_t bucket_bytes,
                  struct bucket *buckets)
{
    size_t count = 0;
    const struct bucket none = {.comm = stretch->comm, .first = stretch->first, .layer = params->layers};
    struct bucket open = none;
    if (mt_comm_size(stretch->comm) == 1) return 0;
    for (size_t i = 0; i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        if (!mt_param_is_here(param)) continue;
        size_t place = place_of(params, param);
        if (place < stretch->first || place >= stretch->end) continue;
        // A bucket that is large enough ends before this parameter.
        open.count = place - open.first;
        if (open.count * sizeof(float) >= bucket_bytes) {
            if (buckets != NULL) buckets[count] = open;
            count++;
            open = none;
            open.first = place;
        }
        int64_t layer = layer_of(params, param);
        if (layer < open.layer) open.layer = layer;
    }
    open.count = stretch->end - open.first;
    if (open.count == 0) return count;
    if (buckets != NULL) buckets[count] = open;
    return count + 1;
}

/* All buckets of both groups. */
static size_t cut_all(const struct mt_gradient_groups *groups, const struct mt_params *params,
                      size_t bucket_bytes, struct bucket *buckets)
{
    size_t end = params->gradients.bytes / sizeof(float);
    size_t common = groups->copies != NULL ? params->common_bytes / sizeof(float) : end;
    const struct stretch everywhere = {.comm = groups->all, .end = common};
    const struct stretch own = {.comm = groups->copies, .first = common, .end = end};
    size_t count = cut(params, &everywhere, bucket_bytes, buckets);
    if (groups->copies == NULL) return count;
    return count + cut(params, &own, bucket_bytes, buckets != NULL ? buckets + count : NULL);
}

enum mt_status mt_gradient_sum_create(const struct mt_gradient_groups *groups, const struct mt_params *params,
                                      size_t bucket_bytes, struct mt_gradient_sum **sum)
{
    struct mt_context *ctx = mt_device_context(params->device);
    void *memory = NULL;
    *sum = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **sum, &memory);
    if (status != MT_OK) return status;
    struct mt_gradient_sum *made = memory;
    *made = (struct mt_gradient_sum){.params = params};
    made->bucket_count = cut_all(groups, params, bucket_bytes, NULL);
    if (made->bucket_count > 0) {
        status = mt_allocate_array(ctx, made->bucket_count, sizeof *made->buckets, &memory);
        if (status == MT_OK) {
            made->buckets = memory;
            (void)cut_all(groups, params, bucket_bytes, made->buckets);
        }
        if (status == MT_OK && !mt_device_on_host(params->device)) {
            status = mt_device_staging_create(params->device, params->gradients.bytes, &made->staging);
            made->host = made->staging.data;
        }
    }
    for (size_t i = 0; status == MT_OK && i < made->bucket_count; i++)
        status = mt_comm_sum_create(made->buckets[i].comm, made->buckets[i].count, &made->buckets[i].sum);
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
    mt_buffer_release(&sum->staging);
    mt_release(ctx, sum, sizeof *sum);
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
    // A library without a thread of its own moves a little with every call.
    for (int call = 0; call < PROGRESS_CALLS; call++) {
        for (size_t i = sum->bucket_count; i-- > 0;)
            if (sum->buckets[i].started) mt_comm_sum_progress(sum->buckets[i].sum);
    }
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
