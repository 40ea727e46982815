/* AdamW over flat memory, the norm of the gradients, and the search for numbers that are none. */
#include "train/optimizer.h"

#include <math.h>

#define CLIP_EPSILON 1e-6 // PyTorch's

/* Some bytes of a buffer as numbers. */
static struct mt_tensor numbers_of(const struct mt_buffer *buffer, size_t first, size_t bytes)
{
    char *data = buffer->data;
    return mt_tensor_1d(data != NULL ? data + first : NULL, MT_F32, (int64_t)(bytes / sizeof(float)));
}

static struct mt_tensor flat(const struct mt_buffer *buffer)
{
    return numbers_of(buffer, 0, buffer->bytes);
}

static enum mt_status clear(struct mt_device *device, struct mt_tensor tensor)
{
    if (mt_tensor_count(&tensor) == 0) return MT_OK;
    return mt_fill(device, &(struct mt_fill_args){.y = tensor, .value = 0.0f});
}

static enum mt_status reduce(struct mt_optimizer *optimizer, const struct mt_tensor *x,
                             enum mt_reduce_kind kind, double *result)
{
    struct mt_device *device = optimizer->params->device;
    *result = 0.0;
    if (mt_tensor_count(x) == 0) return MT_OK;
    enum mt_status status =
        mt_reduce(device, &(struct mt_reduce_args){.x = *x, .out = optimizer->number, .kind = kind});
    if (status != MT_OK) return status;
    return mt_device_download(device, result, optimizer->number.data, sizeof *result);
}

size_t mt_optimizer_bytes(size_t masters)
{
    return 2 * masters;
}

enum mt_status mt_optimizer_create(struct mt_params *params, const struct mt_optimizer_options *options,
                                   struct mt_optimizer *optimizer)
{
    struct mt_device *device = params->device;
    struct mt_context *ctx = mt_device_context(device);
    size_t bytes = params->masters.bytes;
    *optimizer = (struct mt_optimizer){.params = params, .options = *options};
    // A rank may hold nothing that is trainable, where others do.
    if (params->trained_count == 0)
        return mt_fail(ctx, MT_ERR_USAGE, "nothing is trainable: there is nothing to optimize");
    enum mt_status status =
        mt_device_buffer_create(device, mt_optimizer_bytes(bytes) + sizeof(double), &optimizer->memory);
    if (status != MT_OK) return mt_fail_within(ctx, status, "moments of the optimizer");
    char *memory = optimizer->memory.data;
    int64_t count = (int64_t)(bytes / sizeof(float));
    optimizer->first = mt_tensor_1d(memory, MT_F32, count);
    optimizer->second = mt_tensor_1d(memory + bytes, MT_F32, count);
    optimizer->number = mt_tensor_1d(memory + 2 * bytes, MT_F64, 1);
    status = clear(device, optimizer->first);
    if (status == MT_OK) status = clear(device, optimizer->second);
    // A planned reduction over everything: no later one needs more scratch.
    double squares = 0.0;
    struct mt_tensor gradients = flat(&params->gradients);
    mt_device_set_planning(device, true);
    if (status == MT_OK) status = reduce(optimizer, &gradients, MT_REDUCE_SUM_SQUARES, &squares);
    mt_device_set_planning(device, false);
    if (status != MT_OK) mt_optimizer_free(optimizer);
    return status;
}

void mt_optimizer_free(struct mt_optimizer *optimizer)
{
    mt_buffer_release(&optimizer->memory);
    *optimizer = (struct mt_optimizer){0};
}

enum mt_status mt_optimizer_norm(struct mt_optimizer *optimizer, double *norm)
{
    const struct mt_params *params = optimizer->params;
    const struct mt_buffer *gradients = &params->gradients;
    // What every rank holds counts once; what is spread, each part once, in the order of the ranks.
    size_t common = params->expert_ranks != NULL ? params->common_bytes : gradients->bytes;
    struct mt_tensor everywhere = numbers_of(gradients, 0, common);
    struct mt_tensor own = numbers_of(gradients, common, gradients->bytes - common);
    double squares = 0.0;
    double own_squares = 0.0;
    enum mt_status status = reduce(optimizer, &everywhere, MT_REDUCE_SUM_SQUARES, &squares);
    if (status == MT_OK) status = reduce(optimizer, &own, MT_REDUCE_SUM_SQUARES, &own_squares);
    if (status != MT_OK) return status;
    if (params->expert_ranks != NULL) mt_comm_sum_f64(params->expert_ranks, &own_squares, 1);
    *norm = sqrt(squares + own_squares);
    return MT_OK;
}

enum mt_status mt_optimizer_step(struct mt_optimizer *optimizer, uint64_t step, double learning_rate,
                                 double norm, bool *clipped)
{
    const struct mt_optimizer_options *options = &optimizer->options;
    double scale = 1.0;
    if (options->clip > 0.0) scale = fmin(1.0, options->clip / (norm + CLIP_EPSILON));
    *clipped = scale < 1.0;
    if (optimizer->params->masters.bytes == 0) return MT_OK; // others hold all that is trainable
    return mt_adamw(optimizer->params->device,
                    &(struct mt_adamw_args){.param = flat(&optimizer->params->masters),
                                            .grad = flat(&optimizer->params->gradients),
                                            .m = optimizer->first,
                                            .v = optimizer->second,
                                            .param_copy = mt_params_rounded(optimizer->params),
                                            .learning_rate = (float)learning_rate,
                                            .beta1 = (float)options->beta1,
                                            .beta2 = (float)options->beta2,
                                            .epsilon = (float)options->epsilon,
                                            .weight_decay = (float)options->weight_decay,
                                            .grad_scale = (float)scale,
                                            .step = (int64_t)step});
}

/* How many numbers of a tensor are not finite; rows of a matrix count as one long row. */
static enum mt_status count_bad(struct mt_optimizer *optimizer, struct mt_tensor tensor, double *bad)
{
    tensor = mt_tensor_1d(tensor.data, tensor.dtype, mt_tensor_count(&tensor));
    return reduce(optimizer, &tensor, MT_REDUCE_NONFINITE, bad);
}

/* The part of flat memory that belongs to a parameter. */
static struct mt_tensor part_of(const struct mt_params *params, const struct mt_param *param,
                                const struct mt_tensor *all)
{
    ptrdiff_t offset = (char *)param->value.data - (char *)params->masters.data;
    return mt_tensor_1d((char *)all->data + offset, MT_F32, mt_tensor_count(&param->value));
}

enum mt_status mt_optimizer_check(struct mt_optimizer *optimizer, const struct mt_param **bad)
{
    const struct mt_params *params = optimizer->params;
    const struct mt_tensor all[] = {flat(&params->masters), optimizer->first, optimizer->second};
    *bad = NULL;
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        double count = 0.0;
        enum mt_status status = count_bad(optimizer, all[k], &count);
        if (status != MT_OK) return status;
        for (size_t i = 0; count > 0.0 && i < params->trained_count; i++) {
            double found = 0.0;
            if (!mt_param_is_here(&params->trained[i])) continue;
            status = count_bad(optimizer, part_of(params, &params->trained[i], &all[k]), &found);
            if (status != MT_OK) return status;
            if (found == 0.0) continue;
            *bad = &params->trained[i];
            return MT_OK;
        }
    }
    return MT_OK;
}

enum mt_status mt_optimizer_find_bad_gradient(struct mt_optimizer *optimizer, const struct mt_param **bad)
{
    const struct mt_params *params = optimizer->params;
    *bad = NULL;
    for (size_t i = 0; i < params->trained_count; i++) {
        double found = 0.0;
        if (!mt_param_is_here(&params->trained[i])) continue;
        enum mt_status status = count_bad(optimizer, params->trained[i].grad, &found);
        if (status != MT_OK) return status;
        if (found == 0.0) continue;
        *bad = &params->trained[i];
        return MT_OK;
    }
    return MT_OK;
}
