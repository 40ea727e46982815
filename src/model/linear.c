/*
 * Linear maps. With l = drop(x) Aᵀ:
 *   forward   y = x Wᵀ + b + s · l Bᵀ
 *   backward  dW += dyᵀ x; db += Σ dy; dB += s · dyᵀ l; dl = s · dy B; dA += dlᵀ drop(x);
 *             dx = dy W + the mask of drop on dl A
 * The mask is drawn again wherever it is needed: a draw is a function of (seed, stream, element).
 */
#include "model/linear.h"

bool mt_linear_has_lora(const struct mt_linear *linear)
{
    return mt_tensor_present(&linear->a);
}

bool mt_linear_learns(const struct mt_linear *linear)
{
    return mt_tensor_present(&linear->dweight) || mt_tensor_present(&linear->dbias) ||
           mt_tensor_present(&linear->da);
}

bool mt_linear_reads_input(const struct mt_linear *linear)
{
    return mt_tensor_present(&linear->dweight) || mt_tensor_present(&linear->da);
}

struct mt_tensor mt_linear_plan_low(struct mt_planner *planner, const struct mt_pass *pass,
                                    const struct mt_linear *linear)
{
    if (!mt_linear_has_lora(linear)) return (struct mt_tensor){0};
    enum mt_dtype type = linear->exact ? pass->exact : pass->type;
    return mt_plan_2d(planner, type, pass->tokens, linear->a.dim[0]);
}

static bool drops(const struct mt_pass *pass, const struct mt_linear *linear)
{
    return pass->training && linear->dropout > 0.0f;
}

/* y = (y +, with add) the mask of drop on x. */
static enum mt_status apply_mask(const struct mt_pass *pass, const struct mt_linear *linear,
                                 const struct mt_tensor *x, bool add, const struct mt_tensor *y)
{
    return mt_random_multiply(
        pass->device, &(struct mt_random_multiply_args){.x = *x,
                                                        .y = *y,
                                                        .kind = MT_RANDOM_DROPOUT,
                                                        .amount = linear->dropout,
                                                        .seed = pass->seed,
                                                        .stream = mt_pass_stream_now(pass, linear->stream),
                                                        .accumulate = add});
}

enum mt_status mt_linear_drop(const struct mt_pass *pass, const struct mt_linear *linear,
                              const struct mt_tensor *x, struct mt_tensor *dropped)
{
    *dropped = *x;
    if (!drops(pass, linear)) return MT_OK;
    *dropped = mt_pass_view(&pass->drop_work, x->dim[0], x->dim[1]);
    return apply_mask(pass, linear, x, false, dropped);
}

static enum mt_status lora_forward(const struct mt_pass *pass, const struct mt_linear *linear,
                                   const struct mt_tensor *x, const struct mt_tensor *low,
                                   const struct mt_tensor *y)
{
    struct mt_tensor dropped;
    enum mt_status status = mt_linear_drop(pass, linear, x, &dropped);
    if (status != MT_OK) return status;
    status = mt_gemm(pass->device, &(struct mt_gemm_args){.a = dropped,
                                                          .b = linear->a,
                                                          .c = *low,
                                                          .transpose_b = true,
                                                          .exact = linear->exact,
                                                          .alpha = 1.0f});
    if (status != MT_OK) return status;
    return mt_gemm(pass->device, &(struct mt_gemm_args){.a = *low,
                                                        .b = linear->b,
                                                        .c = *y,
                                                        .transpose_b = true,
                                                        .exact = linear->exact,
                                                        .alpha = linear->lora_scale,
                                                        .beta = 1.0f});
}

enum mt_status mt_linear_forward(const struct mt_pass *pass, const struct mt_linear *linear,
                                 const struct mt_tensor *x, const struct mt_tensor *low, bool add,
                                 const struct mt_tensor *y)
{
    struct mt_device *device = pass->device;
    enum mt_status status = mt_gemm(device, &(struct mt_gemm_args){.a = *x,
                                                                   .b = linear->weight,
                                                                   .c = *y,
                                                                   .transpose_b = true,
                                                                   .exact = linear->exact,
                                                                   .alpha = 1.0f,
                                                                   .beta = add ? 1.0f : 0.0f});
    if (status != MT_OK) return status;
    if (mt_tensor_present(&linear->bias)) {
        status =
            mt_bias_forward(device, &(struct mt_bias_forward_args){.x = *y, .bias = linear->bias, .y = *y});
        if (status != MT_OK) return status;
    }
    return mt_linear_has_lora(linear) ? lora_forward(pass, linear, x, low, y) : MT_OK;
}

enum mt_status mt_linear_low_to_input(const struct mt_pass *pass, const struct mt_linear *linear,
                                      const struct mt_tensor *dlow, const struct mt_tensor *dx)
{
    struct mt_device *device = pass->device;
    struct mt_gemm_args product = {.a = *dlow, .b = linear->a, .c = *dx, .alpha = 1.0f, .beta = 1.0f};
    if (!drops(pass, linear)) return mt_gemm(device, &product);
    product.c = mt_pass_view(&pass->drop_work, dx->dim[0], dx->dim[1]);
    product.beta = 0.0f;
    enum mt_status status = mt_gemm(device, &product);
    if (status != MT_OK) return status;
    return apply_mask(pass, linear, &product.c, true, dx);
}

/* The pair's own gradients; leaves dl in `dlow`. */
static enum mt_status lora_backward(const struct mt_pass *pass, const struct mt_linear *linear,
                                    const struct mt_tensor *dy, const struct mt_tensor *x,
                                    const struct mt_tensor *low, const struct mt_tensor *dlow)
{
    struct mt_device *device = pass->device;
    enum mt_status status = mt_gemm(
        device, &(struct mt_gemm_args){.a = *dy, .b = linear->b, .c = *dlow, .alpha = linear->lora_scale});
    if (status != MT_OK || !mt_tensor_present(&linear->da)) return status;
    status = mt_gemm(device, &(struct mt_gemm_args){.a = *dy,
                                                    .b = *low,
                                                    .c = linear->db,
                                                    .transpose_a = true,
                                                    .alpha = linear->lora_scale,
                                                    .beta = 1.0f});
    if (status != MT_OK) return status;
    struct mt_tensor dropped;
    status = mt_linear_drop(pass, linear, x, &dropped);
    if (status != MT_OK) return status;
    return mt_gemm(
        device,
        &(struct mt_gemm_args){
            .a = *dlow, .b = dropped, .c = linear->da, .transpose_a = true, .alpha = 1.0f, .beta = 1.0f});
}

/* Gradients of weight and bias. */
static enum mt_status own_backward(const struct mt_pass *pass, const struct mt_linear *linear,
                                   const struct mt_tensor *dy, const struct mt_tensor *x)
{
    struct mt_device *device = pass->device;
    if (mt_tensor_present(&linear->dweight)) {
        enum mt_status status = mt_gemm(
            device,
            &(struct mt_gemm_args){
                .a = *dy, .b = *x, .c = linear->dweight, .transpose_a = true, .alpha = 1.0f, .beta = 1.0f});
        if (status != MT_OK) return status;
    }
    if (!mt_tensor_present(&linear->dbias)) return MT_OK;
    return mt_bias_backward(device, &(struct mt_bias_backward_args){.dy = *dy, .dbias = linear->dbias});
}

enum mt_status mt_linear_backward(const struct mt_pass *pass, const struct mt_linear *linear,
                                  const struct mt_tensor *dy, const struct mt_tensor *x,
                                  const struct mt_tensor *low, bool add, const struct mt_tensor *dx)
{
    // Everything that reads x comes before dx is written: they may be the same memory.
    enum mt_status status = own_backward(pass, linear, dy, x);
    if (status != MT_OK) return status;
    bool lora = mt_linear_has_lora(linear);
    struct mt_tensor dlow = {0};
    if (lora && (dx != NULL || mt_tensor_present(&linear->da))) {
        dlow = mt_pass_view(&pass->low_work, dy->dim[0], linear->a.dim[0]);
        status = lora_backward(pass, linear, dy, x, low, &dlow);
        if (status != MT_OK) return status;
    }
    if (dx == NULL) return MT_OK;
    status = mt_gemm(pass->device,
                     &(struct mt_gemm_args){
                         .a = *dy, .b = linear->weight, .c = *dx, .alpha = 1.0f, .beta = add ? 1.0f : 0.0f});
    if (status != MT_OK || !lora) return status;
    return mt_linear_low_to_input(pass, linear, &dlow, dx);
}
