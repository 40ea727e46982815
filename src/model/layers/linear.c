/*
 * Linear layers: those of a single expert (expert_linear.c), and a bias. An exact linear layer, the router,
 * has products of its own in forward, because they must not be rounded: y = x Wᵀ + b, then += s · drop(x) Aᵀ
 * Bᵀ.
 */
#include "model/layers/linear.h"

bool mt_linear_has_lora(const struct mt_linear *linear)
{
    return mt_tensor_present(&linear->a);
}

bool mt_linear_is_trained(const struct mt_linear *linear)
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

static struct mt_weight weight_of(const struct mt_linear *linear)
{
    return (struct mt_weight){.stored = &linear->weight,
                              .count = 1,
                              .out = linear->weight.dim[0],
                              .in = linear->weight.dim[1],
                              .quantised = linear->quantised};
}

enum mt_status mt_linear_operand(const struct mt_pass *pass, const struct mt_linear *linear,
                                 struct mt_tensor *operand)
{
    const struct mt_weight weight = weight_of(linear);
    const struct mt_tensor *read = NULL;
    enum mt_status status = mt_weight_operand(pass->device, &weight, NULL, &read);
    if (status == MT_OK) *operand = *read;
    return status;
}

struct mt_expert_linear mt_linear_as_expert(const struct mt_linear *linear)
{
    bool lora = mt_linear_has_lora(linear);
    return (struct mt_expert_linear){.weight = weight_of(linear),
                                     .dweight = single(&linear->dweight),
                                     .a = single(&linear->a),
                                     .b = single(&linear->b),
                                     .da = single(&linear->da),
                                     .db = single(&linear->db),
                                     .rounded_a = single(&linear->rounded_a),
                                     .rounded_b = single(&linear->rounded_b),
                                     .rank = lora ? linear->a.dim[0] : 0,
                                     .lora_scale = linear->lora_scale,
                                     .dropout = linear->dropout,
                                     .stream = linear->stream,
                                     .exact = linear->exact};
}

struct mt_lora_trace mt_linear_plan_lora(struct mt_planner *planner, const struct mt_pass *pass,
                                         const struct mt_linear *linear, struct mt_tensor *shared_bits)
{
    struct mt_expert_linear one = mt_linear_as_expert(linear);
    return mt_expert_linear_plan_lora(planner, pass, &one, pass->tokens, shared_bits);
}

// ------------------------------------------------------------------ exact linear layers

/*
 * What the pair adds to y: its rank-r product is made in y's type, and what backward reads of it is rounded
 * to the trace's.
 */
static enum mt_status exact_lora_forward(const struct mt_pass *pass, const struct mt_linear *linear,
                                         const struct mt_tensor *x, const struct mt_lora_trace *trace,
                                         const struct mt_tensor *y)
{
    struct mt_expert_linear one = mt_linear_as_expert(linear);
    struct mt_lora_trace exact = *trace;
    bool rounds = trace->xa.dtype != y->dtype;
    bool factored = mt_tensor_present(&linear->rounded_a); // then the product has the scale in it
    if (rounds) exact.xa = mt_pass_view(&pass->exact_work, x->dim[0], one.rank);
    enum mt_status status = mt_expert_linear_make_xa(pass, &one, NULL, x, 1.0f, &exact);
    if (status != MT_OK) return status;
    status = mt_gemm(pass->device, &(struct mt_gemm_args){.a = exact.xa,
                                                          .b = linear->b,
                                                          .c = *y,
                                                          .transpose_b = true,
                                                          .exact = true,
                                                          .alpha = factored ? 1.0f : linear->lora_scale,
                                                          .beta = 1.0f});
    if (status != MT_OK || !rounds) return status;
    return mt_copy(pass->device, &(struct mt_copy_args){.x = exact.xa, .y = trace->xa});
}

/* *dy of an exact linear layer in the type of activations, as other linear layers' gradients are. */
static enum mt_status round_gradient(const struct mt_pass *pass, const struct mt_linear *linear,
                                     struct mt_tensor *dy)
{
    if (!linear->exact || dy->dtype == pass->type) return MT_OK;
    struct mt_tensor rounded = mt_pass_view(&pass->round_work, dy->dim[0], dy->dim[1]);
    enum mt_status status = mt_copy(pass->device, &(struct mt_copy_args){.x = *dy, .y = rounded});
    *dy = rounded;
    return status;
}

// ------------------------------------------------------------------ all linear layers

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
    struct mt_gemm_args product = {.a = *x,
                                   .c = *y,
                                   .transpose_b = true,
                                   .exact = linear->exact,
                                   .alpha = 1.0f,
                                   .beta = add ? 1.0f : 0.0f};
    enum mt_status status = mt_linear_operand(pass, linear, &product.b);
    if (status == MT_OK) status = mt_gemm(pass->device, &product);
    return status == MT_OK ? add_bias(pass, linear, y) : status;
}

/* The linear layers that have a pair through expert_linear.h, none of them exact; then the others. */
static enum mt_status forward_some(const struct mt_pass *pass, const struct mt_linear_output *linears,
                                   int count, const struct mt_tensor *x, bool add)
{
    struct mt_expert_linear one[MT_LORA_LINEARS];
    struct mt_projection_output paired[MT_LORA_LINEARS];
    int pairs = 0;
    for (int i = 0; i < count; i++) {
        if (!mt_linear_has_lora(linears[i].linear)) continue;
        one[pairs] = mt_linear_as_expert(linears[i].linear);
        paired[pairs] = (struct mt_projection_output){
            .linear = &one[pairs], .trace = linears[i].trace, .y = linears[i].y};
        pairs++;
    }
    enum mt_status status = MT_OK;
    if (pairs > 0) status = mt_expert_linear_forward(pass, paired, pairs, NULL, x, add);
    for (int i = 0; i < count && status == MT_OK; i++) {
        const struct mt_linear *linear = linears[i].linear;
        status = mt_linear_has_lora(linear) ? add_bias(pass, linear, linears[i].y)
                                            : plain_forward(pass, linear, x, add, linears[i].y);
    }
    return status;
}

enum mt_status mt_linear_forward_together(const struct mt_pass *pass, const struct mt_linear_output *linears,
                                          int count, const struct mt_tensor *x)
{
    return forward_some(pass, linears, count, x, false);
}

enum mt_status mt_linear_forward(const struct mt_pass *pass, const struct mt_linear *linear,
                                 const struct mt_tensor *x, const struct mt_lora_trace *trace, bool add,
                                 const struct mt_tensor *y)
{
    if (!linear->exact) {
        struct mt_linear_output projection = {.linear = linear, .trace = trace, .y = y};
        return forward_some(pass, &projection, 1, x, add);
    }
    enum mt_status status = plain_forward(pass, linear, x, add, y);
    if (status != MT_OK || !mt_linear_has_lora(linear)) return status;
    return exact_lora_forward(pass, linear, x, trace, y);
}

enum mt_status mt_linear_swiglu(const struct mt_pass *pass, const struct mt_linear_output *gate,
                                const struct mt_linear_output *up, const struct mt_tensor *x,
                                const struct mt_tensor *inner)
{
    bool biased = mt_tensor_present(&gate->linear->bias) || mt_tensor_present(&up->linear->bias);
    if (!biased) {
        struct mt_expert_linear one[] = {mt_linear_as_expert(gate->linear), mt_linear_as_expert(up->linear)};
        struct mt_projection_output first = {.linear = &one[0], .trace = gate->trace, .y = gate->y};
        struct mt_projection_output second = {.linear = &one[1], .trace = up->trace, .y = up->y};
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
    struct mt_linear_gradient projection = {.linear = linear, .dy = dy, .trace = trace};
    return mt_linear_backward_together(pass, &projection, 1, x, add, dx);
}

enum mt_status mt_linear_swiglu_backward(const struct mt_pass *pass, const struct mt_linear *down,
                                         const struct mt_tensor *dy, const struct mt_lora_trace *trace,
                                         const struct mt_swiglu_inner *block)
{
    struct mt_expert_linear one = mt_linear_as_expert(down);
    struct mt_projection_gradient projection = {.linear = &one, .dy = dy, .trace = trace};
    return mt_expert_linear_swiglu_backward(pass, &projection, NULL, block);
}

enum mt_status mt_linear_backward_own(const struct mt_pass *pass, const struct mt_linear *linear,
                                      const struct mt_tensor *dy, const struct mt_tensor *x,
                                      const struct mt_lora_trace *trace)
{
    enum mt_status status = bias_backward(pass, linear, dy);
    if (status != MT_OK) return status;
    struct mt_expert_linear one = mt_linear_as_expert(linear);
    struct mt_projection_gradient projection = {.linear = &one, .dy = dy, .trace = trace};
    return mt_expert_linear_backward_own(pass, &projection, NULL, x);
}

enum mt_status mt_linear_backward_together(const struct mt_pass *pass,
                                           const struct mt_linear_gradient *linears, int count,
                                           const struct mt_tensor *x, bool add, const struct mt_tensor *dx)
{
    struct mt_expert_linear one[MT_LORA_LINEARS];
    struct mt_projection_gradient all[MT_LORA_LINEARS];
    struct mt_tensor dy[MT_LORA_LINEARS];
    for (int i = 0; i < count; i++) {
        enum mt_status status = bias_backward(pass, linears[i].linear, linears[i].dy);
        if (status != MT_OK) return status;
        dy[i] = *linears[i].dy;
        status = round_gradient(pass, linears[i].linear, &dy[i]);
        if (status != MT_OK) return status;
        one[i] = mt_linear_as_expert(linears[i].linear);
        all[i] = (struct mt_projection_gradient){.linear = &one[i], .dy = &dy[i], .trace = linears[i].trace};
    }
    return mt_expert_linear_backward(pass, all, count, NULL, x, add, dx);
}
