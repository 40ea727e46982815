/* The block: memory, data, forward, backward. The program around it is moe_block_main.c. */
#include "examples/moe_block.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

// Random streams: each use of randomness has its own.
enum { STREAM_PARAMETERS = 1, STREAM_TEACHER = 2, STREAM_CENTRE = 3, STREAM_DOMAIN = 4, STREAM_TOKEN = 1000 };

/* Hands out consecutive pieces of a buffer; with no memory behind it, only counts. */
struct carver {
    unsigned char *memory;
    size_t used;
};

static struct mt_tensor carve(struct carver *carver, struct mt_tensor shape)
{
    if (carver->memory != NULL) shape.data = carver->memory + carver->used;
    size_t bytes = (size_t)mt_tensor_count(&shape) * mt_dtype_bytes(shape.dtype);
    carver->used += (bytes + 63) / 64 * 64;
    return shape;
}

static struct mt_tensor carve_2d(struct carver *carver, enum mt_dtype dtype, int64_t d0, int64_t d1)
{
    return carve(carver, mt_tensor_2d(NULL, dtype, d0, d1));
}

/* Views of one flat parameter vector (or of its gradient). */
static void carve_parameters(struct carver *carver, struct mt_tensor *router, struct mt_tensor *gate,
                             struct mt_tensor *up, struct mt_tensor *down)
{
    *router = carve_2d(carver, MT_F32, EXPERTS, WIDTH);
    for (int e = 0; e < EXPERTS; e++) {
        gate[e] = carve_2d(carver, MT_F32, HIDDEN, WIDTH);
        up[e] = carve_2d(carver, MT_F32, HIDDEN, WIDTH);
        down[e] = carve_2d(carver, MT_F32, WIDTH, HIDDEN);
    }
}

static void carve_activations(struct carver *carver, struct moe_block *b)
{
    struct mt_tensor *wide[] = {&b->x, &b->target, &b->y, &b->difference};
    struct mt_tensor *scores[] = {&b->logits, &b->probs, &b->dprobs, &b->dlogits};
    struct mt_tensor *sorted[] = {&b->rows, &b->out, &b->dout};
    struct mt_tensor *inner[] = {&b->gated, &b->lifted, &b->inner, &b->dinner};
    for (int i = 0; i < 4; i++) *wide[i] = carve_2d(carver, MT_F32, TOKENS, WIDTH);
    for (int i = 0; i < 4; i++) *scores[i] = carve_2d(carver, MT_F32, TOKENS, EXPERTS);
    for (int i = 0; i < 3; i++) *sorted[i] = carve_2d(carver, MT_F32, ROWS, WIDTH);
    for (int i = 0; i < 4; i++) *inner[i] = carve_2d(carver, MT_F32, ROWS, HIDDEN);
    b->weight = carve_2d(carver, MT_F32, TOKENS, SLOTS);
    b->dweight = carve_2d(carver, MT_F32, TOKENS, SLOTS);
    b->gram = carve(carver, mt_tensor_3d(NULL, MT_F32, TOKENS, SLOTS, SLOTS));
    b->coupling = carve(carver, mt_tensor_3d(NULL, MT_F32, TOKENS, SLOTS, SLOTS));
    b->squares = carve(carver, mt_tensor_1d(NULL, MT_F64, 1));
}

static void carve_indices(struct carver *carver, struct moe_block *b)
{
    b->expert = carve_2d(carver, MT_I32, TOKENS, SLOTS);
    b->row_of_slot = carve_2d(carver, MT_I32, TOKENS, SLOTS);
    b->slot_of_row = carve(carver, mt_tensor_1d(NULL, MT_I32, ROWS));
    b->offsets = carve(carver, mt_tensor_1d(NULL, MT_I32, EXPERTS + 1));
}

static enum mt_status create_parameters(struct moe_block *b, uint64_t seed)
{
    struct carver counter = {0};
    carve_parameters(&counter, &b->router, b->gate, b->up, b->down);
    size_t bytes = counter.used; // of one copy
    enum mt_status status = mt_device_buffer_create(b->device, 4 * bytes, &b->parameter_memory);
    if (status != MT_OK) return status;
    unsigned char *memory = b->parameter_memory.data;
    memset(memory, 0, 4 * bytes);
    struct mt_tensor *copies[] = {&b->parameters, &b->gradients, &b->first_moment, &b->second_moment};
    for (size_t i = 0; i < 4; i++) {
        *copies[i] = mt_tensor_1d(memory + i * bytes, MT_F32, (int64_t)(bytes / sizeof(float)));
    }
    carve_parameters(&(struct carver){.memory = b->parameters.data}, &b->router, b->gate, b->up, b->down);
    carve_parameters(&(struct carver){.memory = b->gradients.data}, &b->drouter, b->dgate, b->dup, b->ddown);
    float *values = b->parameters.data;
    for (int64_t i = 0; i < b->parameters.dim[0]; i++) {
        values[i] = mt_rng_normal(seed, STREAM_PARAMETERS, (uint64_t)i) / sqrtf((float)WIDTH);
    }
    return MT_OK;
}

enum mt_status moe_block_create(struct mt_device *device, uint64_t seed, struct moe_block *block)
{
    memset(block, 0, sizeof *block);
    block->device = device;
    enum mt_status status = create_parameters(block, seed);
    if (status != MT_OK) return status;
    struct carver counter = {0};
    carve_activations(&counter, block);
    status = mt_device_buffer_create(device, counter.used, &block->activation_memory);
    if (status != MT_OK) return status;
    carve_activations(&(struct carver){.memory = block->activation_memory.data}, block);
    counter = (struct carver){0};
    carve_indices(&counter, block);
    status = mt_device_buffer_create(device, counter.used, &block->index_memory);
    if (status != MT_OK) return status;
    carve_indices(&(struct carver){.memory = block->index_memory.data}, block);
    return MT_OK;
}

void moe_block_free(struct moe_block *block)
{
    mt_buffer_release(&block->parameter_memory);
    mt_buffer_release(&block->activation_memory);
    mt_buffer_release(&block->index_memory);
}

/*
 * Domain c has a centre and a linear map of its own. A token is its domain's centre plus noise; its target
 * is the domain's map of the noise. One expert cannot be right for two domains.
 */
void moe_block_draw(struct moe_block *block, uint64_t seed, uint64_t step)
{
    float *x = block->x.data;
    float *target = block->target.data;
    for (int t = 0; t < TOKENS; t++) {
        uint64_t token = step * TOKENS + (uint64_t)t;
        uint64_t domain = mt_rng_below(seed, STREAM_DOMAIN, token, DOMAINS);
        float noise[WIDTH];
        block->domain[t] = (int32_t)domain;
        for (int j = 0; j < WIDTH; j++) {
            noise[j] = mt_rng_normal(seed, STREAM_TOKEN, token * WIDTH + (uint64_t)j);
            x[t * WIDTH + j] = noise[j] + mt_rng_normal(seed, STREAM_CENTRE, domain * WIDTH + (uint64_t)j);
        }
        // Every output is one signed component of the noise: cheap to apply, different for every domain.
        for (int j = 0; j < WIDTH; j++) {
            uint32_t word = mt_rng_u32(seed, STREAM_TEACHER, domain * WIDTH + (uint64_t)j);
            target[t * WIDTH + j] = noise[(word >> 1) % WIDTH] * ((word & 1u) != 0 ? 1.0f : -1.0f);
        }
    }
}

static enum mt_status experts_forward(struct moe_block *b)
{
    struct mt_device *device = b->device;
    struct mt_grouped_gemm_args product = {.x = b->rows,
                                           .weight = b->gate,
                                           .experts = EXPERTS,
                                           .offsets = b->offsets,
                                           .y = b->gated,
                                           .transpose_weight = true,
                                           .alpha = 1.0f};
    enum mt_status status = mt_grouped_gemm(device, &product);
    if (status != MT_OK) return status;
    product.weight = b->up;
    product.y = b->lifted;
    status = mt_grouped_gemm(device, &product);
    if (status != MT_OK) return status;
    status = mt_swiglu_forward(
        device, &(struct mt_swiglu_forward_args){.gate = b->gated, .up = b->lifted, .y = b->inner});
    if (status != MT_OK) return status;
    product.x = b->inner;
    product.weight = b->down;
    product.y = b->out;
    return mt_grouped_gemm(device, &product);
}

static enum mt_status route(struct moe_block *b)
{
    struct mt_device *device = b->device;
    enum mt_status status =
        mt_gemm(device, &(struct mt_gemm_args){
                            .a = b->x, .b = b->router, .c = b->logits, .transpose_b = true, .alpha = 1.0f});
    if (status != MT_OK) return status;
    status = mt_router_score_forward(
        device, &(struct mt_router_score_forward_args){.logits = b->logits, .probs = b->probs});
    if (status != MT_OK) return status;
    status = mt_topk(device, &(struct mt_topk_args){.probs = b->probs, .expert = b->expert});
    if (status != MT_OK) return status;
    status = mt_topk_weights_forward(
        device,
        &(struct mt_topk_weights_forward_args){
            .probs = b->probs, .expert = b->expert, .weight = b->weight, .normalise = true, .scale = 1.0f});
    if (status != MT_OK) return status;
    return mt_dispatch_plan(device, &(struct mt_dispatch_plan_args){.expert = b->expert,
                                                                    .offsets = b->offsets,
                                                                    .row_of_slot = b->row_of_slot,
                                                                    .slot_of_row = b->slot_of_row});
}

static enum mt_status forward(struct moe_block *b, double *loss)
{
    struct mt_device *device = b->device;
    enum mt_status status = route(b);
    if (status != MT_OK) return status;
    status = mt_dispatch_forward(
        device, &(struct mt_dispatch_forward_args){
                    .x = b->x, .slot_of_row = b->slot_of_row, .rows = b->rows, .slots = SLOTS});
    if (status != MT_OK) return status;
    status = experts_forward(b);
    if (status != MT_OK) return status;
    status = mt_combine_forward(
        device,
        &(struct mt_combine_forward_args){
            .rows = b->out, .row_of_slot = b->row_of_slot, .weight = b->weight, .y = b->y, .gram = b->gram});
    if (status != MT_OK) return status;
    // difference = y - target; loss = its mean square.
    status = mt_copy(device, &(struct mt_copy_args){.x = b->y, .y = b->difference});
    if (status != MT_OK) return status;
    status = mt_axpby(
        device, &(struct mt_axpby_args){.x = b->target, .y = b->difference, .alpha = -1.0f, .beta = 1.0f});
    if (status != MT_OK) return status;
    status = mt_reduce(device, &(struct mt_reduce_args){
                                   .x = b->difference, .out = b->squares, .kind = MT_REDUCE_SUM_SQUARES});
    if (status != MT_OK) return status;
    *loss = *(const double *)b->squares.data / (TOKENS * WIDTH);
    return MT_OK;
}

/*
 * L_o, cosine form: the mean over tokens and ordered pairs of cos² = G_ab² / (G_aa G_bb). Its gradient in the
 * Gram matrix, symmetrised and times beta, is the coupling that combine_backward applies to the rows.
 */
static double orthogonality(struct moe_block *b, float beta)
{
    const float *gram = b->gram.data;
    float *coupling = b->coupling.data;
    double total = 0.0;
    const double share = 1.0 / ((double)TOKENS * SLOTS * (SLOTS - 1));
    memset(coupling, 0, sizeof(float) * TOKENS * SLOTS * SLOTS);
    for (int t = 0; t < TOKENS; t++, gram += SLOTS * SLOTS, coupling += SLOTS * SLOTS) {
        for (int a = 0; a < SLOTS; a++) {
            for (int m = 0; m < SLOTS; m++) {
                if (a == m) continue;
                double g = (double)gram[a * SLOTS + m];
                double norm_a = (double)gram[a * SLOTS + a] + 1e-12;
                double norm_m = (double)gram[m * SLOTS + m] + 1e-12;
                double cosine = g * g / (norm_a * norm_m);
                total += cosine * share;
                // Off the diagonal Γ + Γᵀ = 4g/(norms); on it the pair (a,m) and its mirror each pull once.
                coupling[a * SLOTS + m] += (float)((double)beta * share * 4.0 * g / (norm_a * norm_m));
                coupling[a * SLOTS + a] -= (float)((double)beta * share * 4.0 * cosine / norm_a);
            }
        }
    }
    return total;
}

/* L_aux (Switch, over k slots): α · n · Σ_j f_j P_j, f the share of slots; adds α n f_j / N to dprobs. */
static double balance(struct moe_block *b, float alpha)
{
    const int32_t *offsets = b->offsets.data;
    float *dprobs = b->dprobs.data;
    int32_t largest = 0;
    for (int e = 0; e < EXPERTS; e++) {
        int32_t load = offsets[e + 1] - offsets[e];
        if (load > largest) largest = load;
        float pull = alpha * (float)EXPERTS * (float)load / (float)ROWS / (float)TOKENS;
        for (int t = 0; t < TOKENS; t++) dprobs[t * EXPERTS + e] += pull;
    }
    double mean = (double)ROWS / EXPERTS;
    return ((double)largest - mean) / mean;
}

static enum mt_status weight_gradient(struct moe_block *b, struct mt_tensor dy, struct mt_tensor x,
                                      const struct mt_tensor *dweight)
{
    return mt_grouped_gemm_dw(
        b->device,
        &(struct mt_grouped_gemm_dw_args){
            .dy = dy, .x = x, .dweight = dweight, .experts = EXPERTS, .offsets = b->offsets, .alpha = 1.0f});
}

static enum mt_status experts_backward(struct moe_block *b)
{
    struct mt_device *device = b->device;
    enum mt_status status = weight_gradient(b, b->dout, b->inner, b->ddown);
    if (status != MT_OK) return status;
    status = mt_grouped_gemm(device, &(struct mt_grouped_gemm_args){.x = b->dout,
                                                                    .weight = b->down,
                                                                    .experts = EXPERTS,
                                                                    .offsets = b->offsets,
                                                                    .y = b->dinner,
                                                                    .alpha = 1.0f});
    if (status != MT_OK) return status;
    // The gradients of gate and up take the place of their values: nothing needs those any more.
    status = mt_swiglu_backward(
        device, &(struct mt_swiglu_backward_args){
                    .dy = b->dinner, .gate = b->gated, .up = b->lifted, .dgate = b->gated, .dup = b->lifted});
    if (status != MT_OK) return status;
    status = weight_gradient(b, b->gated, b->rows, b->dgate);
    if (status != MT_OK) return status;
    return weight_gradient(b, b->lifted, b->rows, b->dup);
}

static enum mt_status router_backward(struct moe_block *b, float alpha, double *violation)
{
    struct mt_device *device = b->device;
    enum mt_status status =
        mt_topk_weights_backward(device, &(struct mt_topk_weights_backward_args){.probs = b->probs,
                                                                                 .expert = b->expert,
                                                                                 .dweight = b->dweight,
                                                                                 .dprobs = b->dprobs,
                                                                                 .normalise = true,
                                                                                 .scale = 1.0f});
    if (status != MT_OK) return status;
    *violation = balance(b, alpha);
    status =
        mt_router_score_backward(device, &(struct mt_router_score_backward_args){
                                             .probs = b->probs, .dprobs = b->dprobs, .dlogits = b->dlogits});
    if (status != MT_OK) return status;
    return mt_gemm(device,
                   &(struct mt_gemm_args){
                       .a = b->dlogits, .b = b->x, .c = b->drouter, .transpose_a = true, .alpha = 1.0f});
}

enum mt_status moe_block_step(struct moe_block *block, int64_t step, float learning_rate, float alpha,
                              float beta, struct moe_step *report)
{
    struct mt_device *device = block->device;
    enum mt_status status = forward(block, &report->loss);
    if (status != MT_OK) return status;
    report->cosine = orthogonality(block, beta);
    // dy = 2 (y - target) / (N d), in place.
    status = mt_axpby(device, &(struct mt_axpby_args){.x = block->difference,
                                                      .y = block->difference,
                                                      .alpha = 2.0f / (TOKENS * WIDTH)});
    if (status != MT_OK) return status;
    status = mt_combine_backward(device, &(struct mt_combine_backward_args){.dy = block->difference,
                                                                            .rows = block->out,
                                                                            .row_of_slot = block->row_of_slot,
                                                                            .weight = block->weight,
                                                                            .coupling = block->coupling,
                                                                            .drows = block->dout,
                                                                            .dweight = block->dweight});
    if (status != MT_OK) return status;
    status = experts_backward(block);
    if (status != MT_OK) return status;
    status = router_backward(block, alpha, &report->violation);
    if (status != MT_OK || learning_rate == 0.0f) return status;
    return mt_adamw(device, &(struct mt_adamw_args){.param = block->parameters,
                                                    .grad = block->gradients,
                                                    .m = block->first_moment,
                                                    .v = block->second_moment,
                                                    .learning_rate = learning_rate,
                                                    .beta1 = 0.9f,
                                                    .beta2 = 0.999f,
                                                    .epsilon = 1e-8f,
                                                    .grad_scale = 1.0f,
                                                    .step = step});
}
