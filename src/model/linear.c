/*
 * Linear maps: those of a single expert (expert_linear.c), and a bias. An exact map, the router, has products
 * of its own, because they must not be rounded, and drops by multiplying a copy of x. With l = drop(x) Aᵀ:
 *
 *   forward   y = x Wᵀ + b + s · l Bᵀ
 *   backward  dW += dyᵀ x; db += Σ dy; dB += s · dyᵀ l; dl = s · dy B; dA += dlᵀ drop(x);
 *             dx = dy W + the mask of drop on dl A
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

/* A list of one, or NULL for what is absent. */
static const struct mt_tensor *single(const struct mt_tensor *tensor)
{
    return mt_tensor_present(tensor) ? tensor : NULL;
}

struct mt_expert_linear mt_linear_as_expert(const struct mt_linear *linear)
{
    bool lora = mt_linear_has_lora(linear);
    return (struct mt_expert_linear){.experts = 1,
                                     .weight = &linear->weight,
                                     .dweight = single(&linear->dweight),
                                     .a = single(&linear->a),
                                     .b = single(&linear->b),
                                     .da = single(&linear->da),
                                     .db = single(&linear->db),
                                     .rounded_a = single(&linear->rounded_a),
                                     .rounded_b = single(&linear->rounded_b),
                                     .out = linear->weight.dim[0],
                                     .in = linear->weight.dim[1],
                                     .rank = lora ? linear->a.dim[0] : 0,
                                     .lora_scale = linear->lora_scale,
                                     .dropout = linear->dropout,
                                     .stream = linear->stream};
}

struct mt_lora_trace mt_linear_plan_lora(struct mt_planner *planner, const struct mt_pass *pass,
                                         const struct mt_linear *linear, struct mt_tensor *shared_bits)
{
    struct mt_expert_linear one = mt_linear_as_expert(linear);
    if (!linear->exact || !mt_linear_has_lora(linear))
        return mt_expert_linear_plan_lora(planner, pass, &one, pass->tokens, shared_bits);
    return (struct mt_lora_trace){.low = mt_plan_2d(planner, pass->exact, pass->tokens, one.rank)};
}

// ------------------------------------------------------------------ exact maps

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

/* drop(x): x itself when nothing is dropped, else a draw of this step in pass->drop_work. */
static enum mt_status drop(const struct mt_pass *pass, const struct mt_linear *linear,
                           const struct mt_tensor *x, struct mt_tensor *dropped)
{
    *dropped = *x;
    if (!drops(pass, linear)) return MT_OK;
    *dropped = mt_pass_view(&pass->drop_work, x->dim[0], x->dim[1]);
    return apply_mask(pass, linear, x, false, dropped);
}

static enum mt_status exact_lora_forward(const struct mt_pass *pass, const struct mt_linear *linear,
                                         const struct mt_tensor *x, const struct mt_tensor *low,
                                         const struct mt_tensor *y)
{
    struct mt_tensor dropped;
    enum mt_status status = drop(pass, linear, x, &dropped);
    if (status != MT_OK) return status;
    status = mt_gemm(
        pass->device,
        &(struct mt_gemm_args){
            .a = dropped, .b = linear->a, .c = *low, .transpose_b = true, .exact = true, .alpha = 1.0f});
    if (status != MT_OK) return status;
    return mt_gemm(pass->device, &(struct mt_gemm_args){.a = *low,
                                                        .b = linear->b,
                                                        .c = *y,
                                                        .transpose_b = true,
                                                        .exact = true,
                                                        .alpha = linear->lora_scale,
                                                        .beta = 1.0f});
}

/* dx += the mask of drop on dlow A. */
static enum mt_status low_to_input(const struct mt_pass *pass, const struct mt_linear *linear,
                                   const struct mt_tensor *dlow, const struct mt_tensor *dx)
{
    struct mt_gemm_args product = {.a = *dlow, .b = linear->a, .c = *dx, .alpha = 1.0f, .beta = 1.0f};
    if (!drops(pass, linear)) return mt_gemm(pass->device, &product);
    product.c = mt_pass_view(&pass->drop_work, dx->dim[0], dx->dim[1]);
    product.beta = 0.0f;
    enum mt_status status = mt_gemm(pass->device, &product);
    if (status != MT_OK) return status;
    return apply_mask(pass, linear, &product.c, true, dx);
}

/* The pair's own gradients; leaves dl in `dlow`. */
static enum mt_status exact_lora_backward(const struct mt_pass *pass, const struct mt_linear *linear,
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
    status = drop(pass, linear, x, &dropped);
    if (status != MT_OK) return status;
    return mt_gemm(
        device,
        &(struct mt_gemm_args){
            .a = *dlow, .b = dropped, .c = linear->da, .transpose_a = true, .alpha = 1.0f, .beta = 1.0f});
}

/* Everything but the bias. */
static enum mt_status exact_backward(const struct mt_pass *pass, const struct mt_linear *linear,
                                     const struct mt_tensor *dy, const struct mt_tensor *x,
                                     const struct mt_tensor *low, bool add, const struct mt_tensor *dx)
{
    struct mt_device *device = pass->device;
    enum mt_status status = MT_OK;
    if (mt_tensor_present(&linear->dweight)) {
        status = mt_gemm(
            device,
            &(struct mt_gemm_args){
                .a = *dy, .b = *x, .c = linear->dweight, .transpose_a = true, .alpha = 1.0f, .beta = 1.0f});
        if (status != MT_OK) return status;
    }
    bool lora = mt_linear_has_lora(linear);
    struct mt_tensor dlow = {0};
    if (lora && (dx != NULL || mt_tensor_present(&linear->da))) {
        dlow = mt_pass_view(&pass->low_work[0], dy->dim[0], linear->a.dim[0]);
        status = exact_lora_backward(pass, linear, dy, x, low, &dlow);
        if (status != MT_OK) return status;
    }
    if (dx == NULL) return MT_OK;
    status = mt_gemm(device,
                     &(struct mt_gemm_args){
                         .a = *dy, .b = linear->weight, .c = *dx, .alpha = 1.0f, .beta = add ? 1.0f : 0.0f});
    return status == MT_OK && lora ? low_to_input(pass, linear, &dlow, dx) : status;
}

// ------------------------------------------------------------------ all maps

static enum mt_status add_bias(const struct mt_pass *pass, const struct mt_linear *linear,
                               const struct mt_tensor *y)
{
    if (!mt_tensor_present(&linear->bias)) return MT_OK;
    return mt_bias_forward(pass->device,
                           &(struct mt_bias_forward_args){.x = *y, .bias = linear->bias, .y = *y});
}

/* y = (y +, with add) x Wᵀ + b. */
static enum mt_status plain_forward(const struct mt_pass *pass, const struct mt_linear *linear,
                                    const struct mt_tensor *x, bool add, const struct mt_tensor *y)
{
    enum mt_status status = mt_gemm(pass->device, &(struct mt_gemm_args){.a = *x,
                                                                         .b = linear->weight,
                                                                         .c = *y,
                                                                         .transpose_b = true,
                                                                         .exact = linear->exact,
                                                                         .alpha = 1.0f,
                                                                         .beta = add ? 1.0f : 0.0f});
    return status == MT_OK ? add_bias(pass, linear, y) : status;
}

/* The maps that have a pair through expert_linear.h, none of them exact; then the others. */
static enum mt_status forward_some(const struct mt_pass *pass, const struct mt_linear_output *maps, int count,
                                   const struct mt_tensor *x, bool add)
{
    struct mt_expert_linear one[MT_LORA_MAPS];
    struct mt_map_output paired[MT_LORA_MAPS];
    int pairs = 0;
    for (int i = 0; i < count; i++) {
        if (!mt_linear_has_lora(maps[i].linear)) continue;
        one[pairs] = mt_linear_as_expert(maps[i].linear);
        paired[pairs] = (struct mt_map_output){.linear = &one[pairs], .trace = maps[i].trace, .y = maps[i].y};
        pairs++;
    }
    enum mt_status status = MT_OK;
    if (pairs > 0) status = mt_expert_linear_forward(pass, paired, pairs, NULL, x, add);
    for (int i = 0; i < count && status == MT_OK; i++) {
        const struct mt_linear *linear = maps[i].linear;
        status = mt_linear_has_lora(linear) ? add_bias(pass, linear, maps[i].y)
                                            : plain_forward(pass, linear, x, add, maps[i].y);
    }
    return status;
}

enum mt_status mt_linear_forward_together(const struct mt_pass *pass, const struct mt_linear_output *maps,
                                          int count, const struct mt_tensor *x)
{
    return forward_some(pass, maps, count, x, false);
}

enum mt_status mt_linear_forward(const struct mt_pass *pass, const struct mt_linear *linear,
                                 const struct mt_tensor *x, const struct mt_lora_trace *trace, bool add,
                                 const struct mt_tensor *y)
{
    if (!linear->exact) {
        struct mt_linear_output map = {.linear = linear, .trace = trace, .y = y};
        return forward_some(pass, &map, 1, x, add);
    }
    enum mt_status status = plain_forward(pass, linear, x, add, y);
    if (status != MT_OK || !mt_linear_has_lora(linear)) return status;
    return exact_lora_forward(pass, linear, x, &trace->low, y);
}

enum mt_status mt_linear_swiglu(const struct mt_pass *pass, const struct mt_linear_output *gate,
                                const struct mt_linear_output *up, const struct mt_tensor *x,
                                const struct mt_tensor *inner)
{
    bool biased = mt_tensor_present(&gate->linear->bias) || mt_tensor_present(&up->linear->bias);
    if (!biased && (mt_linear_has_lora(gate->linear) || mt_linear_has_lora(up->linear))) {
        struct mt_expert_linear one[] = {mt_linear_as_expert(gate->linear), mt_linear_as_expert(up->linear)};
        struct mt_map_output first = {.linear = &one[0], .trace = gate->trace, .y = gate->y};
        struct mt_map_output second = {.linear = &one[1], .trace = up->trace, .y = up->y};
        return mt_expert_linear_swiglu(pass, &first, &second, NULL, x, inner);
    }
    const struct mt_linear_output both[] = {*gate, *up};
    enum mt_status status = mt_linear_forward_together(pass, both, 2, x);
    if (status != MT_OK) return status;
    return mt_swiglu_forward(pass->device,
                             &(struct mt_swiglu_forward_args){.gate = *gate->y, .up = *up->y, .y = *inner});
}

static enum mt_status bias_backward(const struct mt_pass *pass, const struct mt_linear *linear,
                                    const struct mt_tensor *dy)
{
    if (!mt_tensor_present(&linear->dbias)) return MT_OK;
    return mt_bias_backward(pass->device, &(struct mt_bias_backward_args){.dy = *dy, .dbias = linear->dbias});
}

enum mt_status mt_linear_backward(const struct mt_pass *pass, const struct mt_linear *linear,
                                  const struct mt_tensor *dy, const struct mt_tensor *x,
                                  const struct mt_lora_trace *trace, bool add, const struct mt_tensor *dx)
{
    enum mt_status status = bias_backward(pass, linear, dy);
    if (status != MT_OK) return status;
    if (linear->exact) return exact_backward(pass, linear, dy, x, &trace->low, add, dx);
    struct mt_expert_linear one = mt_linear_as_expert(linear);
    struct mt_map_gradient map = {.linear = &one, .dy = dy, .trace = trace};
    return mt_expert_linear_backward(pass, &map, 1, NULL, x, add, dx);
}

enum mt_status mt_linear_swiglu_backward(const struct mt_pass *pass, const struct mt_linear *down,
                                         const struct mt_tensor *dy, const struct mt_lora_trace *trace,
                                         const struct mt_swiglu_inner *block)
{
    struct mt_expert_linear one = mt_linear_as_expert(down);
    struct mt_map_gradient map = {.linear = &one, .dy = dy, .trace = trace};
    return mt_expert_linear_swiglu_backward(pass, &map, NULL, block);
}

enum mt_status mt_linear_backward_own(const struct mt_pass *pass, const struct mt_linear *linear,
                                      const struct mt_tensor *dy, const struct mt_tensor *x,
                                      const struct mt_lora_trace *trace)
{
    enum mt_status status = bias_backward(pass, linear, dy);
    if (status != MT_OK) return status;
    struct mt_expert_linear one = mt_linear_as_expert(linear);
    struct mt_map_gradient map = {.linear = &one, .dy = dy, .trace = trace};
    return mt_expert_linear_backward_own(pass, &map, NULL, x);
}

enum mt_status mt_linear_backward_together(const struct mt_pass *pass, const struct mt_linear_gradient *maps,
                                           int count, const struct mt_tensor *x, bool add,
                                           const struct mt_tensor *dx)
{
    struct mt_expert_linear one[MT_LORA_MAPS];
    struct mt_map_gradient all[MT_LORA_MAPS];
    for (int i = 0; i < count; i++) {
        enum mt_status status = bias_backward(pass, maps[i].linear, maps[i].dy);
        if (status != MT_OK) return status;
        one[i] = mt_linear_as_expert(maps[i].linear);
        all[i] = (struct mt_map_gradient){.linear = &one[i], .dy = maps[i].dy, .trace = maps[i].trace};
    }
    return mt_expert_linear_backward(pass, all, count, NULL, x, add, dx);
}
