/* AdamW over flat memory, the norm of the gradients, and the search for numbers that are none. */
#include "train/optimizer.h"

#include <math.h>

#define CLIP_EPSILON 1e-6 // PyTorch's

/* Some numbers of flat f32 memory. */
static struct mt_tensor numbers_of(const void *memory, size_t first, size_t count)
{
    return mt_tensor_1d((float *)memory + first, MT_F32, (int64_t)count);
}

static struct mt_tensor flat(const struct mt_buffer *buffer)
{
    return mt_tensor_1d(buffer->data, MT_F32, (int64_t)(buffer->bytes / sizeof(float)));
}

static enum mt_status clear(struct mt_device *device, struct mt_tensor tensor)
{
    if (mt_tensor_count(&tensor) == 0) return MT_OK;
    return mt_fill(device, &(struct mt_fill_args){.y = tensor, .value = 0.0f});
}

/* Adds to what the number has, or begins with it. */
static enum mt_status reduce_on(struct mt_optimizer *optimizer, const struct mt_tensor *x,
                                enum mt_reduce_kind kind, bool accumulate)
{
    return mt_reduce(
        optimizer->params->device,
        &(struct mt_reduce_args){.x = *x, .out = optimizer->number, .kind = kind, .accumulate = accumulate});
}

static enum mt_status read_number(const struct mt_optimizer *optimizer, double *result)
{
    return mt_device_download(optimizer->params->device, result, optimizer->number.data, sizeof *result);
}

static enum mt_status reduce(struct mt_optimizer *optimizer, const struct mt_tensor *x,
                             enum mt_reduce_kind kind, double *result)
{
    *result = 0.0;
    if (mt_tensor_count(x) == 0) return MT_OK;
    enum mt_status status = reduce_on(optimizer, x, kind, false);
    return status == MT_OK ? read_number(optimizer, result) : status;
}

size_t mt_optimizer_bytes(const struct mt_optimizer *optimizer)
{
    return 2 * optimizer->buckets.own * sizeof(float);
}

static enum mt_status create(struct mt_optimizer *optimizer, const struct mt_gradient_groups *groups)
{
    struct mt_params *params = optimizer->params;
    struct mt_device *device = params->device;
    enum mt_status status = mt_buckets_create(groups, params, &optimizer->buckets);
    size_t own = optimizer->buckets.own;
    if (status == MT_OK)
        status = mt_device_buffer_create(device, mt_optimizer_bytes(optimizer) + sizeof(double),
                                         &optimizer->memory);
    if (status != MT_OK) return mt_fail_within(mt_device_context(device), status, "moments of the optimizer");
    float *memory = optimizer->memory.data;
    optimizer->first = numbers_of(memory, 0, own);
    optimizer->second = numbers_of(memory, own, own);
    optimizer->number = mt_tensor_1d(memory + 2 * own, MT_F64, 1);
    status = clear(device, optimizer->first);
    if (status == MT_OK) status = clear(device, optimizer->second);
    // A planned reduction over everything: no later one needs more scratch.
    double squares = 0.0;
    struct mt_tensor gradients = flat(&params->gradients);
    mt_device_set_planning(device, true);
    if (status == MT_OK) status = reduce(optimizer, &gradients, MT_REDUCE_SUM_SQUARES, &squares);
    mt_device_set_planning(device, false);
    return status;
}

enum mt_status mt_optimizer_create(struct mt_params *params, const struct mt_gradient_groups *groups,
                                   const struct mt_optimizer_options *options, struct mt_optimizer *optimizer)
{
    *optimizer = (struct mt_optimizer){.params = params, .options = *options};
    // A rank may hold nothing that is trainable, where others do.
    if (params->trained_count == 0)
        return mt_fail(mt_device_context(params->device), MT_ERR_USAGE,
                       "nothing is trainable: there is nothing to optimize");
    enum mt_status status = create(optimizer, groups);
    if (status != MT_OK) mt_optimizer_free(optimizer);
    return status;
}

void mt_optimizer_free(struct mt_optimizer *optimizer)
{
    mt_buffer_release(&optimizer->memory);
    mt_buckets_free(&optimizer->buckets);
    *optimizer = (struct mt_optimizer){0};
}

enum mt_status mt_optimizer_norm(struct mt_optimizer *optimizer, double *norm)
{
    const struct mt_buckets *buckets = &optimizer->buckets;
    double squares = 0.0;
    bool begun = false;
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < buckets->count; i++) {
        const struct mt_bucket *bucket = &buckets->list[i];
        if (bucket->own_count == 0) continue;
        struct mt_tensor own =
            numbers_of(optimizer->params->gradients.data, bucket->own_first, bucket->own_count);
        status = reduce_on(optimizer, &own, MT_REDUCE_SUM_SQUARES, begun);
        begun = true;
    }
    if (status == MT_OK && begun) status = read_number(optimizer, &squares);
    if (status != MT_OK) return status;
    // Every number is in one share; the ranks' sums are added in their order.
    if (buckets->all != NULL) mt_comm_sum_f64(buckets->all, &squares, 1);
    *norm = sqrt(squares);
    return MT_OK;
}

/* A bucket's share of the roundings; absent where there are none. */
static struct mt_tensor rounded_of(const struct mt_params *params, const struct mt_bucket *bucket)
{
    struct mt_tensor rounded = mt_params_rounded(params);
    if (!mt_tensor_present(&rounded)) return rounded;
    return mt_tensor_1d((uint16_t *)rounded.data + bucket->own_first, rounded.dtype,
                        (int64_t)bucket->own_count);
}

enum mt_status mt_optimizer_step(struct mt_optimizer *optimizer, uint64_t step, double learning_rate,
                                 double norm, bool *clipped)
{
    const struct mt_optimizer_options *options = &optimizer->options;
    const struct mt_params *params = optimizer->params;
    double scale = 1.0;
    enum mt_status status = MT_OK;
    if (options->clip > 0.0) scale = fmin(1.0, options->clip / (norm + CLIP_EPSILON));
    *clipped = scale < 1.0;
    for (size_t i = 0; status == MT_OK && i < optimizer->buckets.count; i++) {
        const struct mt_bucket *bucket = &optimizer->buckets.list[i];
        const struct mt_adamw_args args = {
            .param = numbers_of(params->masters.data, bucket->own_first, bucket->own_count),
            .grad = numbers_of(params->gradients.data, bucket->own_first, bucket->own_count),
            .m = numbers_of(optimizer->first.data, bucket->moment, bucket->own_count),
            .v = numbers_of(optimizer->second.data, bucket->moment, bucket->own_count),
            .param_copy = rounded_of(params, bucket),
            .learning_rate = (float)learning_rate,
            .beta1 = (float)options->beta1,
            .beta2 = (float)options->beta2,
            .epsilon = (float)options->epsilon,
            .weight_decay = (float)options->weight_decay,
            .grad_scale = (float)scale,
            .step = (int64_t)step};
        if (bucket->own_count > 0) status = mt_adamw(params->device, &args);
        if (status == MT_OK && optimizer->hook.moved != NULL)
            status = optimizer->hook.moved(optimizer->hook.self, i);
    }
    return status;
}

/* How many numbers of a tensor are not finite; rows of a matrix count as one long row. */
static enum mt_status count_bad(struct mt_optimizer *optimizer, struct mt_tensor tensor, double *bad)
{
    tensor = mt_tensor_1d(tensor.data, tensor.dtype, mt_tensor_count(&tensor));
    return reduce(optimizer, &tensor, MT_REDUCE_NONFINITE, bad);
}

/* Whose number of the masters, or of some moments, is not finite. */
static enum mt_status find_bad(struct mt_optimizer *optimizer, struct mt_tensor all, bool moments,
                               const struct mt_param **bad)
{
    const struct mt_params *params = optimizer->params;
    double count = 0.0;
    enum mt_status status = count_bad(optimizer, all, &count);
    for (size_t i = 0; status == MT_OK && count > 0.0 && i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        struct mt_own_part own = mt_buckets_part(&optimizer->buckets, param);
        double found = 0.0;
        if (!mt_param_is_here(param)) continue;
        status = count_bad(
            optimizer, moments ? numbers_of(all.data, own.moment, (size_t)own.count) : param->value, &found);
        if (status != MT_OK || found == 0.0) continue;
        *bad = param;
        break;
    }
    return status;
}

enum mt_status mt_optimizer_check(struct mt_optimizer *optimizer, const struct mt_param **bad)
{
    *bad = NULL;
    enum mt_status status = find_bad(optimizer, flat(&optimizer->params->masters), false, bad);
    if (status == MT_OK && *bad == NULL) status = find_bad(optimizer, optimizer->first, true, bad);
    if (status == MT_OK && *bad == NULL) status = find_bad(optimizer, optimizer->second, true, bad);
    return status;
}

enum mt_status mt_optimizer_find_bad_gradient(struct mt_optimizer *optimizer, const struct mt_param **bad)
{
    const struct mt_params *params = optimizer->params;
    *bad = NULL;
    for (size_t i = 0; i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        struct mt_own_part part = mt_buckets_part(&optimizer->buckets, param);
        double found = 0.0;
        if (part.count == 0) continue;
        enum mt_status status = count_bad(
            optimizer, numbers_of(param->grad.data, (size_t)part.first, (size_t)part.count), &found);
        if (status != MT_OK) return status;
        if (found == 0.0) continue;
        *bad = param;
        return MT_OK;
    }
    return MT_OK;
}
