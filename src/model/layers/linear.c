/*
 * Linear layers. With l = drop(x) Aᵀ, s the pair's scale:
 *   forward   l of all linear layers of the same x (lora_xa); y = x Wᵀ + s · l Bᵀ, in one sum for each; + b
 *   backward  dl = s · dy B and dB += s · dyᵀ l (lora_dxa); dA += dlᵀ drop(x) (lora_da); dW += dyᵀ x;
 *             dx = dy W + the mask of drop on dl A, in one sum for all linear layers of the same x
 *
 * What drop keeps is drawn in forward, once for an x, and kept as bits. An expert without a LoRA pair has
 * absent views there, which count as zeros. A SwiGLU block's sums are made together with its swiglu. An exact
 * linear layer, the router, has products of its own in forward, because they must not be rounded.
 *
 * Where products read roundings of A and B (mt_params_round), these are multiplied as they lie: what
 * they would be multiplied by is in the rank-r products instead, s in l, s and drop's factor in dl.
 */
#include "model/layers/linear.h"

bool mt_linear_has_lora(const struct mt_linear *linear)
{
    return linear->a != NULL;
}

bool mt_linear_is_trained(const struct mt_linear *linear)
{
    return mt_linear_reads_input(linear) || mt_tensor_present(&linear->dbias) || linear->dbiases != NULL;
}

bool mt_linear_reads_input(const struct mt_linear *linear)
{
    return linear->dweight != NULL || linear->da != NULL;
}

struct mt_lora_trace mt_lora_trace_rows(const struct mt_lora_trace *trace, int64_t rows)
{
    struct mt_lora_trace first = {.drawn = trace->drawn};
    if (mt_tensor_present(&trace->xa)) first.xa = mt_tensor_rows(&trace->xa, 0, rows);
    if (mt_tensor_present(&trace->bits)) first.bits = mt_tensor_rows(&trace->bits, 0, rows);
    return first;
}

struct mt_lora_trace mt_linear_plan_lora(struct mt_planner *planner, const struct mt_pass *pass,
                                         const struct mt_linear *linear, int64_t rows,
                                         struct mt_tensor *shared_bits)
{
    struct mt_lora_trace trace = {0};
    if (!mt_linear_has_lora(linear)) return trace;
    trace.xa = mt_plan_2d(planner, pass->type, rows, linear->rank);
    if (linear->dropout <= 0.0f) return trace;
    if (shared_bits != NULL && mt_tensor_present(shared_bits)) {
        trace.bits = *shared_bits;
        trace.drawn = true;
    } else {
        trace.bits = mt_plan_2d(planner, MT_I32, rows, (linear->weight.in + 31) / 32);
    }
    if (shared_bits != NULL) *shared_bits = trace.bits;
    return trace;
}

/* How products of this pass read a pair. */
struct pair {
    const struct mt_tensor *a, *b; // next to rank-r products
    float scale;                   // of what B makes of l, and of dB
    float xa_scale, dxa_scale;     // what l and dl have in them
    bool drops;
    float kept_scale; // what drop multiplies by
    float mask_scale; // what drop's mask on dl A, and on x next to dl, multiplies by
};

static struct pair pair_of(const struct mt_pass *pass, const struct mt_linear *linear)
{
    bool rounded = linear->rounded_a != NULL;
    bool drops = pass->training && linear->dropout > 0.0f;
    float kept = 1.0f / (1.0f - linear->dropout);
    return (struct pair){.a = rounded ? linear->rounded_a : linear->a,
                         .b = rounded ? linear->rounded_b : linear->b,
                         .scale = rounded ? 1.0f : linear->lora_scale,
                         .xa_scale = rounded ? linear->lora_scale : 1.0f,
                         .dxa_scale = linear->lora_scale * (rounded && drops ? kept : 1.0f),
                         .drops = drops,
                         .kept_scale = kept,
                         .mask_scale = rounded ? 1.0f : kept};
}

/* Offsets as ops want them. */
static struct mt_tensor given(const struct mt_tensor *offsets)
{
    return offsets != NULL ? *offsets : (struct mt_tensor){0};
}

// ------------------------------------------------------------------ forward

/* The rank-r product as y's sum reads it: an exact linear layer's is rounded for backward alone. */
static struct mt_tensor xa_of(const struct mt_pass *pass, const struct mt_linear_output *output)
{
    const struct mt_linear *linear = output->linear;
    if (!linear->exact || output->trace->xa.dtype == output->y->dtype) return output->trace->xa;
    return mt_pass_view(&pass->work.exact_xa, output->y->dim[0], linear->rank);
}

/* The rank-r products of those linear layers that have a pair, all from one x; first what drop keeps of it,
 * if nobody has drawn that. The pairs of a model have one scale and one dropout. */
static enum mt_status make_xas(const struct mt_pass *pass, const struct mt_linear_output *linears, int count,
                               const struct mt_tensor *offsets, const struct mt_tensor *x, float scale)
{
    struct mt_lora_xa_args xa = {.x = *x,
                                 .experts = linears[0].linear->weight.count,
                                 .offsets = given(offsets),
                                 .exact = linears[0].linear->exact};
    for (int i = 0; i < count; i++) {
        const struct mt_linear *linear = linears[i].linear;
        const struct mt_lora_trace *trace = linears[i].trace;
        if (!mt_linear_has_lora(linear)) continue;
        struct pair pair = pair_of(pass, linear);
        bool first = xa.linears == 0;
        if (first && pair.drops && !trace->drawn) {
            enum mt_status status = mt_dropout_bits(
                pass->device,
                &(struct mt_dropout_bits_args){.bits = trace->bits,
                                               .columns = linear->weight.in,
                                               .amount = linear->dropout,
                                               .seed = pass->seed,
                                               .stream = mt_pass_stream_now(pass, linear->stream)});
            if (status != MT_OK) return status;
        }
        if (first && pair.drops) xa.mask = trace->bits;
        xa.mask_scale = pair.kept_scale;
        xa.alpha = scale * pair.xa_scale;
        xa.a[xa.linears] = linear->exact ? linear->a : pair.a;
        xa.xa[xa.linears++] = xa_of(pass, &linears[i]);
    }
    return xa.linears > 0 ? mt_lora_xa(pass->device, &xa) : MT_OK;
}

enum mt_status mt_linear_make_xa(const struct mt_pass *pass, const struct mt_linear *linear,
                                 const struct mt_tensor *x, float scale, const struct mt_lora_trace *trace)
{
    const struct mt_linear_output output = {.linear = linear, .trace = trace};
    return make_xas(pass, &output, 1, NULL, x, scale);
}

/* What makes output->y of x, once the rank-r product is there; `terms`, two, is borrowed by *sum. */
static enum mt_status sum_of(const struct mt_pass *pass, const struct mt_linear_output *output,
                             const struct mt_tensor *offsets, const struct mt_tensor *x, bool add,
                             struct mt_product_term *terms, struct mt_grouped_sum_args *sum)
{
    const struct mt_linear *linear = output->linear;
    *sum = (struct mt_grouped_sum_args){.terms = terms,
                                        .count = 1,
                                        .experts = linear->weight.count,
                                        .offsets = given(offsets),
                                        .y = *output->y,
                                        .beta = add ? 1.0f : 0.0f};
    terms[0] = (struct mt_product_term){.x = *x, .transpose_weight = true, .alpha = 1.0f};
    if (mt_linear_has_lora(linear)) {
        struct pair pair = pair_of(pass, linear);
        terms[sum->count++] = (struct mt_product_term){
            .x = output->trace->xa, .weight = pair.b, .transpose_weight = true, .alpha = pair.scale};
    }
    return mt_weight_operand(pass->device, &linear->weight, offsets, &terms[0].weight);
}

static bool has_bias(const struct mt_linear *linear)
{
    return mt_tensor_present(&linear->bias) || linear->biases != NULL;
}

static enum mt_status add_bias(const struct mt_pass *pass, const struct mt_linear_output *output,
                               const struct mt_tensor *offsets)
{
    const struct mt_linear *linear = output->linear;
    if (!has_bias(linear)) return MT_OK;
    if (linear->biases != NULL)
        return mt_grouped_bias_forward(pass->device,
                                       &(struct mt_grouped_bias_forward_args){.y = *output->y,
                                                                              .bias = linear->biases,
                                                                              .experts = linear->weight.count,
                                                                              .offsets = given(offsets)});
    return mt_bias_forward(
        pass->device, &(struct mt_bias_forward_args){.x = *output->y, .bias = linear->bias, .y = *output->y});
}

/* y = (y +, with add) x Wᵀ, of one matrix. */
static enum mt_status plain_forward(const struct mt_pass *pass, const struct mt_linear_output *output,
                                    const struct mt_tensor *x, bool add)
{
    const struct mt_tensor *weight = NULL;
    enum mt_status status = mt_weight_operand(pass->device, &output->linear->weight, NULL, &weight);
    if (status != MT_OK) return status;
    return mt_gemm(pass->device, &(struct mt_gemm_args){.a = *x,
                                                        .b = *weight,
                                                        .c = *output->y,
                                                        .transpose_b = true,
                                                        .exact = output->linear->exact,
                                                        .alpha = 1.0f,
                                                        .beta = add ? 1.0f : 0.0f});
}

/* What an exact pair adds to y; backward reads its rank-r product rounded. */
static enum mt_status add_exact_pair(const struct mt_pass *pass, const struct mt_linear_output *output)
{
    const struct mt_linear *linear = output->linear;
    struct mt_tensor xa = xa_of(pass, output);
    enum mt_status status = mt_gemm(pass->device, &(struct mt_gemm_args){.a = xa,
                                                                         .b = *linear->b,
                                                                         .c = *output->y,
                                                                         .transpose_b = true,
                                                                         .exact = true,
                                                                         .alpha = pair_of(pass, linear).scale,
                                                                         .beta = 1.0f});
    if (status != MT_OK || xa.dtype == output->trace->xa.dtype) return status;
    return mt_copy(pass->device, &(struct mt_copy_args){.x = xa, .y = output->trace->xa});
}

enum mt_status mt_linear_forward(const struct mt_pass *pass, const struct mt_linear_output *linears,
                                 int count, const struct mt_tensor *offsets, const struct mt_tensor *x,
                                 bool add)
{
    enum mt_status status = make_xas(pass, linears, count, offsets, x, 1.0f);
    for (int i = 0; i < count && status == MT_OK; i++) {
        const struct mt_linear *linear = linears[i].linear;
        struct mt_product_term terms[2];
        struct mt_grouped_sum_args sum;
        if (offsets == NULL && (linear->exact || !mt_linear_has_lora(linear))) {
            status = plain_forward(pass, &linears[i], x, add);
        } else {
            status = sum_of(pass, &linears[i], offsets, x, add, terms, &sum);
            if (status == MT_OK) status = mt_grouped_sum(pass->device, &sum);
        }
        if (status == MT_OK) status = add_bias(pass, &linears[i], offsets);
        if (status == MT_OK && linear->exact && mt_linear_has_lora(linear))
            status = add_exact_pair(pass, &linears[i]);
    }
    return status;
}

enum mt_status mt_linear_swiglu(const struct mt_pass *pass, const struct mt_linear_output gate_and_up[2],
                                const struct mt_tensor *offsets, const struct mt_tensor *x,
                                const struct mt_tensor *inner)
{
    const struct mt_linear_output *gate = &gate_and_up[0];
    const struct mt_linear_output *up = &gate_and_up[1];
    struct mt_product_term terms[2][2];
    struct mt_grouped_swiglu_args args = {.y = *inner};
    enum mt_status status = MT_OK;
    if (has_bias(gate->linear) || has_bias(up->linear) || pass->desc->swiglu_limit > 0.0f) {
        status = mt_linear_forward(pass, gate_and_up, 2, offsets, x, false);
        if (status != MT_OK) return status;
        return mt_swiglu_forward(pass->device,
                                 &(struct mt_swiglu_forward_args){.gate = *gate->y,
                                                                  .up = *up->y,
                                                                  .y = *inner,
                                                                  .limit = pass->desc->swiglu_limit,
                                                                  .alpha = pass->desc->swiglu_alpha});
    }
    status = make_xas(pass, gate_and_up, 2, offsets, x, 1.0f);
    if (status == MT_OK) status = sum_of(pass, gate, offsets, x, false, terms[0], &args.gate);
    if (status == MT_OK) status = sum_of(pass, up, offsets, x, false, terms[1], &args.up);
    return status == MT_OK ? mt_grouped_swiglu(pass->device, &args) : status;
}

// ------------------------------------------------------------------ backward

/* *dy of an exact linear layer in the type of activations, as other linear layers' gradients are. */
static enum mt_status round_gradient(const struct mt_pass *pass, struct mt_linear_gradient *projection,
                                     struct mt_tensor *rounded)
{
    const struct mt_tensor *dy = projection->dy;
    if (!projection->linear->exact || dy->dtype == pass->type) return MT_OK;
    *rounded = mt_pass_view(&pass->work.rounded, dy->dim[0], dy->dim[1]);
    projection->dy = rounded;
    return mt_copy(pass->device, &(struct mt_copy_args){.x = *dy, .y = *rounded});
}

/* dW_e += dy_eᵀ x_e for the experts that have one. */
static enum mt_status add_weight_gradient(const struct mt_pass *pass,
                                          const struct mt_linear_gradient *projection,
                                          const struct mt_tensor *offsets, const struct mt_tensor *x)
{
    if (projection->linear->dweight == NULL) return MT_OK;
    return mt_grouped_gemm_dw(pass->device,
                              &(struct mt_grouped_gemm_dw_args){.dy = *projection->dy,
                                                                .x = *x,
                                                                .dweight = projection->linear->dweight,
                                                                .experts = projection->linear->weight.count,
                                                                .offsets = given(offsets),
                                                                .alpha = 1.0f,
                                                                .beta = 1.0f});
}

static enum mt_status add_bias_gradient(const struct mt_pass *pass,
                                        const struct mt_linear_gradient *projection,
                                        const struct mt_tensor *offsets)
{
    const struct mt_linear *linear = projection->linear;
    const struct mt_tensor *dbias = &linear->dbias;
    if (linear->dbiases != NULL)
        return mt_grouped_bias_backward(
            pass->device, &(struct mt_grouped_bias_backward_args){.dy = *projection->dy,
                                                                  .dbias = linear->dbiases,
                                                                  .experts = linear->weight.count,
                                                                  .offsets = given(offsets)});
    if (!mt_tensor_present(dbias)) return MT_OK;
    return mt_bias_backward(pass->device,
                            &(struct mt_bias_backward_args){.dy = *projection->dy, .dbias = *dbias});
}

/* The gradient of linear layer i's rank-r product, between the two halves of a backward. */
static struct mt_tensor dxa_of(const struct mt_pass *pass, const struct mt_linear_gradient *linears, int i)
{
    return mt_pass_view(&pass->work.xa[i], linears[i].dy->dim[0], linears[i].linear->rank);
}

/* dxa and dB of those linear layers whose pair is trained or, with `below`, leads to a gradient of x. */
static enum mt_status make_dxas(const struct mt_pass *pass, const struct mt_linear_gradient *linears,
                                int count, const struct mt_tensor *offsets, bool below)
{
    struct mt_lora_dxa_args args = {.experts = linears[0].linear->weight.count, .offsets = given(offsets)};
    for (int i = 0; i < count; i++) {
        const struct mt_linear *linear = linears[i].linear;
        if (!mt_linear_has_lora(linear) || (!below && linear->da == NULL)) continue;
        struct pair read = pair_of(pass, linear);
        struct mt_lora_pair_gradient *pair = &args.linear[args.linears++];
        *pair = (struct mt_lora_pair_gradient){.dy = *linears[i].dy,
                                               .b = linear->b,
                                               .db = linear->db,
                                               .scale = read.dxa_scale,
                                               .db_scale = read.scale,
                                               .dxa = dxa_of(pass, linears, i)};
        if (linear->db != NULL) pair->xa = linears[i].trace->xa;
    }
    return args.linears > 0 ? mt_lora_dxa(pass->device, &args) : MT_OK;
}

/* dA of those linear layers that have one, from dxa[i]. */
static enum mt_status add_das(const struct mt_pass *pass, const struct mt_linear_gradient *linears, int count,
                              const struct mt_tensor *offsets, const struct mt_tensor *x,
                              const struct mt_tensor *dxa)
{
    struct mt_lora_da_args args = {
        .x = *x, .experts = linears[0].linear->weight.count, .offsets = given(offsets)};
    for (int i = 0; i < count; i++) {
        const struct mt_linear *linear = linears[i].linear;
        if (linear->da == NULL) continue;
        struct pair pair = pair_of(pass, linear);
        if (pair.drops) args.mask = linears[i].trace->bits;
        args.mask_scale = pair.mask_scale;
        args.da[args.linears] = linear->da;
        args.dxa[args.linears++] = dxa[i];
    }
    return args.linears > 0 ? mt_lora_da(pass->device, &args) : MT_OK;
}

/* The term of dx that comes through the pair: drop's mask on dxa·A_e. */
static struct mt_product_term xa_term(const struct mt_pass *pass, const struct mt_linear *linear,
                                      const struct mt_tensor *dxa, const struct mt_lora_trace *trace)
{
    struct pair pair = pair_of(pass, linear);
    struct mt_product_term term = {.x = *dxa, .weight = pair.a, .alpha = 1.0f};
    if (pair.drops) {
        term.mask_y = trace->bits;
        term.mask_scale = pair.mask_scale;
    }
    return term;
}

enum mt_status mt_linear_xa_backward(const struct mt_pass *pass, const struct mt_linear *linear,
                                     const struct mt_tensor *dxa, const struct mt_tensor *x,
                                     const struct mt_lora_trace *trace, const struct mt_tensor *dx)
{
    const struct mt_linear_gradient gradient = {.linear = linear, .trace = trace};
    enum mt_status status = add_das(pass, &gradient, 1, NULL, x, dxa);
    if (status != MT_OK || dx == NULL) return status;
    struct mt_product_term term = xa_term(pass, linear, dxa, trace);
    return mt_grouped_sum(
        pass->device,
        &(struct mt_grouped_sum_args){.terms = &term, .count = 1, .experts = 1, .y = *dx, .beta = 1.0f});
}

/* Adds to a sum the terms of dx that lead back through linear layer i and its pair: `terms` has room for two
 * more. */
static enum mt_status add_terms(const struct mt_pass *pass, const struct mt_linear_gradient *linears, int i,
                                struct mt_product_term *terms, struct mt_grouped_sum_args *sum)
{
    const struct mt_linear *linear = linears[i].linear;
    struct mt_product_term *term = &terms[sum->count++];
    *term = (struct mt_product_term){.x = *linears[i].dy, .alpha = 1.0f};
    if (mt_linear_has_lora(linear)) {
        struct mt_tensor dxa = dxa_of(pass, linears, i);
        terms[sum->count++] = xa_term(pass, linear, &dxa, linears[i].trace);
    }
    const struct mt_tensor *offsets = mt_tensor_present(&sum->offsets) ? &sum->offsets : NULL;
    return mt_weight_operand(pass->device, &linear->weight, offsets, &term->weight);
}

/* dx = (dx +, with add) what leads back through all linear layers and their pairs, in as few sums as there
 * can be. */
static enum mt_status make_dx(const struct mt_pass *pass, const struct mt_linear_gradient *linears, int count,
                              const struct mt_tensor *offsets, bool add, const struct mt_tensor *dx)
{
    struct mt_product_term terms[MT_MAX_TERMS];
    struct mt_grouped_sum_args sum = {.terms = terms,
                                      .experts = linears[0].linear->weight.count,
                                      .offsets = given(offsets),
                                      .y = *dx,
                                      .beta = add ? 1.0f : 0.0f};
    for (int i = 0; i < count; i++) {
        enum mt_status status = add_terms(pass, linears, i, terms, &sum);
        if (status != MT_OK) return status;
        if (i + 1 < count && sum.count + 2 <= MT_MAX_TERMS) continue;
        status = mt_grouped_sum(pass->device, &sum);
        if (status != MT_OK) return status;
        sum.count = 0;
        sum.beta = 1.0f;
    }
    return MT_OK;
}

/* The parameters' gradients that make_dxas has left over: those that read x. */
static enum mt_status add_own(const struct mt_pass *pass, const struct mt_linear_gradient *linears, int count,
                              const struct mt_tensor *offsets, const struct mt_tensor *x)
{
    struct mt_tensor dxa[MT_LORA_LINEARS] = {{0}};
    for (int i = 0; i < count; i++) {
        enum mt_status status = add_weight_gradient(pass, &linears[i], offsets, x);
        if (status != MT_OK) return status;
        if (linears[i].linear->da != NULL) dxa[i] = dxa_of(pass, linears, i);
    }
    return add_das(pass, linears, count, offsets, x, dxa);
}

enum mt_status mt_linear_backward(const struct mt_pass *pass, const struct mt_linear_gradient *linears,
                                  int count, const struct mt_tensor *offsets, const struct mt_tensor *x,
                                  bool add, const struct mt_tensor *dx)
{
    struct mt_linear_gradient all[MT_LORA_LINEARS] = {{0}};
    struct mt_tensor rounded;
    enum mt_status status = MT_OK;
    for (int i = 0; i < count && status == MT_OK; i++) {
        all[i] = linears[i];
        status = add_bias_gradient(pass, &all[i], offsets);
        if (status == MT_OK) status = round_gradient(pass, &all[i], &rounded);
    }
    // Everything that reads x comes before dx is written: they may be the same memory.
    if (status == MT_OK) status = make_dxas(pass, all, count, offsets, dx != NULL);
    if (status == MT_OK) status = add_own(pass, all, count, offsets, x);
    if (status != MT_OK || dx == NULL) return status;
    return make_dx(pass, all, count, offsets, add, dx);
}

/* With a limit: what down read is made first, and its gradient in the same place afterwards. */
static enum mt_status limited_backward(const struct mt_pass *pass, const struct mt_linear_gradient *down,
                                       const struct mt_tensor *offsets, const struct mt_swiglu_inner *block)
{
    float limit = pass->desc->swiglu_limit;
    float alpha = pass->desc->swiglu_alpha;
    enum mt_status status = mt_swiglu_forward(
        pass->device,
        &(struct mt_swiglu_forward_args){
            .gate = *block->gate, .up = *block->up, .y = *block->inner, .limit = limit, .alpha = alpha});
    if (status == MT_OK)
        status = mt_linear_backward(pass, down, 1, offsets, block->inner, false, block->inner);
    if (status != MT_OK) return status;
    return mt_swiglu_backward(pass->device, &(struct mt_swiglu_backward_args){.dy = *block->inner,
                                                                              .gate = *block->gate,
                                                                              .up = *block->up,
                                                                              .dgate = *block->gate,
                                                                              .dup = *block->up,
                                                                              .limit = limit,
                                                                              .alpha = alpha});
}

enum mt_status mt_linear_swiglu_backward(const struct mt_pass *pass, const struct mt_linear_gradient *down,
                                         const struct mt_tensor *offsets, const struct mt_swiglu_inner *block)
{
    if (pass->desc->swiglu_limit > 0.0f) return limited_backward(pass, down, offsets, block);
    struct mt_product_term terms[2];
    struct mt_grouped_swiglu_backward_args args = {.sum = {.terms = terms,
                                                           .experts = down->linear->weight.count,
                                                           .offsets = given(offsets),
                                                           .y = *block->inner},
                                                   .gate = *block->gate,
                                                   .up = *block->up,
                                                   .dgate = *block->gate,
                                                   .dup = *block->up};
    enum mt_status status = make_dxas(pass, down, 1, offsets, true);
    if (status == MT_OK) status = add_terms(pass, down, 0, terms, &args.sum);
    if (status == MT_OK) status = mt_grouped_swiglu_backward(pass->device, &args);
    if (status == MT_OK) status = add_bias_gradient(pass, down, offsets);
    return status == MT_OK ? add_own(pass, down, 1, offsets, block->inner) : status;
}
