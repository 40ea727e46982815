/*
 * What the objective adds to a MoE layer: objective_cost [THREADS [ROUNDS]].
 *
 * One layer of the size of DeepSeek-V2-Lite's (f32 activations, bf16 expert weights) runs forward and
 * backward on the op table, in turns without and with method paper (L_aux, L_o pairwise, L_v) through the
 * fused stages; once with weight gradients, as in full training, once without. Medians over rounds: layer
 * seconds without the objective with        seconds with it; the difference of the two is mostly the
 * machine's noise objective   the objective's own seconds: its stages and the two combines, in turns with the
 * combines alone, the difference of each turn; a few milliseconds are lost in a pass of seconds, but not here
 *   share       objective / layer
 * The last line is "objective_seconds SECONDS SHARE", SHARE the larger of both, for bench/objective-speed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "median.h"
#include "metier/buffer.h"
#include "metier/objective.h"
#include "tensor/dtype.h"

// Letters as in metier/ops.h.
enum {
    TOKENS = 4096,         // N
    EXPERTS = 64,          // n
    SLOTS = 6,             // k
    WIDTH = 2048,          // d
    HIDDEN = 1408,         // I, inside an expert
    ROWS = TOKENS * SLOTS, // R
    MAX_ROUNDS = 100,
    POOL = 1 << 20, // random numbers drawn; weights repeat them, each expert from another place
};

struct layer {
    struct mt_device *device; // borrowed
    struct mt_objective *objective;
    struct mt_router_config router_config;
    struct mt_buffer memory;
    struct mt_tensor router, drouter;              // [n,d]
    struct mt_tensor gate[EXPERTS], up[EXPERTS];   // bf16 [I,d]
    struct mt_tensor down[EXPERTS];                // bf16 [d,I]
    struct mt_tensor dgate[EXPERTS], dup[EXPERTS]; // f32 [I,d]
    struct mt_tensor ddown[EXPERTS];               // f32 [d,I]
    struct mt_tensor x, y, dy, dx;                 // [N,d]
    struct mt_tensor rows;                         // [R,d], experts' inputs, then their gradients
    struct mt_tensor gated, lifted, inner, dinner; // [R,I]
    struct mt_routing record;                      // its rows: experts' outputs, then their gradients
    struct mt_routing_gradient gradient;           //
    bool weight_gradients;
};

// ------------------------------------------------------------------ memory

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

static void carve_weights(struct carver *carver, struct layer *l)
{
    l->router = carve(carver, mt_tensor_2d(NULL, MT_F32, EXPERTS, WIDTH));
    l->drouter = carve(carver, mt_tensor_2d(NULL, MT_F32, EXPERTS, WIDTH));
    for (int e = 0; e < EXPERTS; e++) {
        l->gate[e] = carve(carver, mt_tensor_2d(NULL, MT_BF16, HIDDEN, WIDTH));
        l->up[e] = carve(carver, mt_tensor_2d(NULL, MT_BF16, HIDDEN, WIDTH));
        l->down[e] = carve(carver, mt_tensor_2d(NULL, MT_BF16, WIDTH, HIDDEN));
        l->dgate[e] = carve(carver, mt_tensor_2d(NULL, MT_F32, HIDDEN, WIDTH));
        l->dup[e] = carve(carver, mt_tensor_2d(NULL, MT_F32, HIDDEN, WIDTH));
        l->ddown[e] = carve(carver, mt_tensor_2d(NULL, MT_F32, WIDTH, HIDDEN));
    }
}

static void carve_activations(struct carver *carver, struct layer *l)
{
    struct mt_tensor *wide[] = {&l->x, &l->y, &l->dy, &l->dx};
    struct mt_tensor *inner[] = {&l->gated, &l->lifted, &l->inner, &l->dinner};
    for (int i = 0; i < 4; i++) *wide[i] = carve(carver, mt_tensor_2d(NULL, MT_F32, TOKENS, WIDTH));
    for (int i = 0; i < 4; i++) *inner[i] = carve(carver, mt_tensor_2d(NULL, MT_F32, ROWS, HIDDEN));
    l->rows = carve(carver, mt_tensor_2d(NULL, MT_F32, ROWS, WIDTH));
}

static void carve_record(struct carver *carver, struct layer *l)
{
    struct mt_routing *r = &l->record;
    r->tokens = TOKENS;
    r->experts = EXPERTS;
    r->slots = SLOTS;
    r->segments = 1;
    struct mt_tensor *scores[] = {&r->logits, &r->probs, &l->gradient.dlogits, &l->gradient.dprobs};
    for (int i = 0; i < 4; i++) *scores[i] = carve(carver, mt_tensor_2d(NULL, MT_F32, TOKENS, EXPERTS));
    r->chosen = carve(carver, mt_tensor_2d(NULL, MT_I32, TOKENS, SLOTS));
    r->greedy = r->chosen; // a plain softmax router: one choice serves all
    r->expert = r->chosen;
    r->weight = carve(carver, mt_tensor_2d(NULL, MT_F32, TOKENS, SLOTS));
    l->gradient.dweight = carve(carver, mt_tensor_2d(NULL, MT_F32, TOKENS, SLOTS));
    r->offsets = carve(carver, mt_tensor_1d(NULL, MT_I32, EXPERTS + 1));
    r->row_of_slot = carve(carver, mt_tensor_2d(NULL, MT_I32, TOKENS, SLOTS));
    r->slot_of_row = carve(carver, mt_tensor_1d(NULL, MT_I32, ROWS));
    r->rows = carve(carver, mt_tensor_2d(NULL, MT_F32, ROWS, WIDTH));
    r->gram = carve(carver, mt_tensor_3d(NULL, MT_F32, TOKENS, SLOTS, SLOTS));
    r->router_weight = l->router;
    l->gradient.drouter_weight = l->drouter;
}

static void carve_all(struct carver *carver, struct layer *l)
{
    carve_weights(carver, l);
    carve_activations(carver, l);
    carve_record(carver, l);
}

// ------------------------------------------------------------------ numbers

/* A tensor filled from a pool of normal numbers, starting at a place of its own. */
static void fill_normal(const struct mt_tensor *tensor, const float *pool, size_t start, float deviation)
{
    int64_t count = mt_tensor_count(tensor);
    for (int64_t i = 0; i < count; i++) {
        float value = deviation * pool[(start + (size_t)i) % POOL];
        if (tensor->dtype == MT_BF16) {
            ((uint16_t *)tensor->data)[i] = mt_float_to_bf16(value);
        } else {
            ((float *)tensor->data)[i] = value;
        }
    }
}

static enum mt_status fill_layer(struct mt_context *ctx, struct layer *l)
{
    void *block = NULL;
    enum mt_status status = mt_allocate(ctx, POOL * sizeof(float), &block);
    if (status != MT_OK) return status;
    float *pool = block;
    for (uint64_t i = 0; i < POOL; i++) pool[i] = mt_rng_normal(1, 1, i);
    const float small = 1.0f / sqrtf((float)WIDTH);
    // Starts that are no simple multiple of a row's length: rows differ from expert to expert.
    for (size_t e = 0; e < EXPERTS; e++) {
        fill_normal(&l->gate[e], pool, e * 30011, small);
        fill_normal(&l->up[e], pool, e * 30011 + 10007, small);
        fill_normal(&l->down[e], pool, e * 30011 + 20011, small);
    }
    fill_normal(&l->router, pool, 5, small);
    fill_normal(&l->x, pool, 77, 1.0f);
    fill_normal(&l->dy, pool, 12345, 1e-3f);
    mt_release(ctx, block, POOL * sizeof(float));
    return MT_OK;
}

static enum mt_status layer_create(struct mt_device *device, struct layer *l)
{
    struct mt_context *ctx = mt_device_context(device);
    struct carver counter = {0};
    struct mt_objective_config config;
    *l = (struct layer){.device = device};
    carve_all(&counter, l);
    enum mt_status status = mt_device_buffer_create(device, counter.used, &l->memory);
    if (status != MT_OK) return status;
    carve_all(&(struct carver){.memory = l->memory.data}, l);
    status = fill_layer(ctx, l);
    if (status != MT_OK) return status;
    l->router_config = (struct mt_router_config){.kind = MT_ROUTER_SOFTMAX, .slots = SLOTS};
    status = mt_objective_config_method(ctx, "paper", &config);
    if (status != MT_OK) return status;
    struct mt_objective_shape shape = {.layers = 1,
                                       .tokens = TOKENS,
                                       .experts = EXPERTS,
                                       .slots = SLOTS,
                                       .segments = 1,
                                       .width = WIDTH,
                                       .router = l->router_config};
    return mt_objective_create(device, &config, &shape, &l->objective);
}

static void layer_free(struct layer *l)
{
    mt_objective_destroy(l->objective);
    mt_buffer_release(&l->memory);
}

// ------------------------------------------------------------------ forward

static enum mt_status route(struct layer *l)
{
    struct mt_routing *r = &l->record;
    enum mt_status status = mt_gemm(
        l->device, &(struct mt_gemm_args){
                       .a = l->x, .b = l->router, .c = r->logits, .transpose_b = true, .alpha = 1.0f});
    if (status != MT_OK) return status;
    struct mt_router_policy policy = {.training = true};
    status = mt_routing_forward(l->device, &l->router_config, &policy, r);
    if (status != MT_OK) return status;
    status = mt_dispatch_plan(l->device, &(struct mt_dispatch_plan_args){.expert = r->expert,
                                                                         .offsets = r->offsets,
                                                                         .row_of_slot = r->row_of_slot,
                                                                         .slot_of_row = r->slot_of_row});
    if (status != MT_OK) return status;
    return mt_dispatch_forward(
        l->device, &(struct mt_dispatch_forward_args){
                       .x = l->x, .slot_of_row = r->slot_of_row, .rows = l->rows, .slots = SLOTS});
}

/* y = alpha · x · op(W_e) + beta · y for the rows of every expert. */
static enum mt_status product(struct layer *l, struct mt_tensor x, const struct mt_tensor *weight,
                              struct mt_tensor y, bool transpose_weight, float beta)
{
    return mt_grouped_gemm(l->device, &(struct mt_grouped_gemm_args){.x = x,
                                                                     .weight = weight,
                                                                     .experts = EXPERTS,
                                                                     .offsets = l->record.offsets,
                                                                     .y = y,
                                                                     .transpose_weight = transpose_weight,
                                                                     .alpha = 1.0f,
                                                                     .beta = beta});
}

static enum mt_status experts_forward(struct layer *l)
{
    enum mt_status status = product(l, l->rows, l->gate, l->gated, true, 0.0f);
    if (status == MT_OK) status = product(l, l->rows, l->up, l->lifted, true, 0.0f);
    if (status != MT_OK) return status;
    status = mt_swiglu_forward(
        l->device, &(struct mt_swiglu_forward_args){.gate = l->gated, .up = l->lifted, .y = l->inner});
    if (status != MT_OK) return status;
    return product(l, l->inner, l->down, l->record.rows, true, 0.0f);
}

/* Outputs of the experts become the layer's output, and with the objective its statistics and values. */
static enum mt_status combine_forward(struct layer *l, bool with_objective)
{
    struct mt_combine_forward_args combine = {
        .rows = l->record.rows, .row_of_slot = l->record.row_of_slot, .weight = l->record.weight, .y = l->y};
    if (with_objective) combine.gram = l->record.gram;
    enum mt_status status = mt_combine_forward(l->device, &combine);
    if (status != MT_OK || !with_objective) return status;
    status = mt_objective_forward(l->objective, 0, &l->record);
    if (status != MT_OK) return status;
    double total = 0.0;
    struct mt_objective_step step = {.progress = 1.0, .loss_scale = 1.0};
    return mt_objective_finish(l->objective, &step, &total);
}

// ------------------------------------------------------------------ backward

static enum mt_status weight_gradient(struct layer *l, struct mt_tensor dy, struct mt_tensor x,
                                      const struct mt_tensor *dweight)
{
    if (!l->weight_gradients) return MT_OK;
    return mt_grouped_gemm_dw(l->device, &(struct mt_grouped_gemm_dw_args){.dy = dy,
                                                                           .x = x,
                                                                           .dweight = dweight,
                                                                           .experts = EXPERTS,
                                                                           .offsets = l->record.offsets,
                                                                           .alpha = 1.0f});
}

static enum mt_status experts_backward(struct layer *l)
{
    struct mt_tensor doutput = l->record.rows;
    enum mt_status status = weight_gradient(l, doutput, l->inner, l->ddown);
    if (status == MT_OK) status = product(l, doutput, l->down, l->dinner, false, 0.0f);
    if (status != MT_OK) return status;
    status = mt_swiglu_backward(
        l->device,
        &(struct mt_swiglu_backward_args){
            .dy = l->dinner, .gate = l->gated, .up = l->lifted, .dgate = l->gated, .dup = l->lifted});
    if (status == MT_OK) status = weight_gradient(l, l->gated, l->rows, l->dgate);
    if (status == MT_OK) status = weight_gradient(l, l->lifted, l->rows, l->dup);
    if (status == MT_OK) status = product(l, l->gated, l->gate, l->rows, false, 0.0f);
    if (status == MT_OK) status = product(l, l->lifted, l->up, l->rows, false, 1.0f);
    if (status != MT_OK) return status;
    return mt_dispatch_backward(l->device,
                                &(struct mt_dispatch_backward_args){
                                    .drows = l->rows, .row_of_slot = l->record.row_of_slot, .dx = l->dx});
}

static enum mt_status router_backward(struct layer *l)
{
    struct mt_tensor dlogits = l->gradient.dlogits;
    enum mt_status status = mt_routing_backward(l->device, &l->router_config, &l->record, &l->gradient);
    if (status != MT_OK) return status;
    status = mt_gemm(l->device, &(struct mt_gemm_args){
                                    .a = dlogits, .b = l->router, .c = l->dx, .alpha = 1.0f, .beta = 1.0f});
    if (status != MT_OK) return status;
    return mt_gemm(
        l->device,
        &(struct mt_gemm_args){
            .a = dlogits, .b = l->x, .c = l->drouter, .transpose_a = true, .alpha = 1.0f, .beta = 1.0f});
}

static enum mt_status clear_gradients(struct layer *l)
{
    struct mt_tensor tensors[] = {l->gradient.dlogits, l->gradient.dprobs, l->drouter};
    enum mt_status status = MT_OK;
    for (int i = 0; i < 3 && status == MT_OK; i++) {
        status = mt_fill(l->device, &(struct mt_fill_args){.y = tensors[i]});
    }
    return status;
}

/* The way back; gradients of the expert outputs take the place of these. */
static enum mt_status combine_backward(struct layer *l, bool with_objective)
{
    enum mt_status status = MT_OK;
    struct mt_combine_backward_args combine = {.dy = l->dy,
                                               .rows = l->record.rows,
                                               .row_of_slot = l->record.row_of_slot,
                                               .weight = l->record.weight,
                                               .drows = l->record.rows,
                                               .dweight = l->gradient.dweight};
    if (with_objective) {
        // The Gram matrix is not needed any more: the coupling takes its place.
        combine.coupling = l->record.gram;
        status = mt_objective_coupling(l->objective, 0, &l->record, &combine.coupling);
        if (status != MT_OK) return status;
    }
    status = mt_combine_backward(l->device, &combine);
    if (status != MT_OK || !with_objective) return status;
    struct mt_objective_backward_options options = {.measure = false};
    return mt_objective_backward(l->objective, 0, &l->record, &l->gradient, NULL, &options);
}

// ------------------------------------------------------------------ measuring

/* Forward and backward of the whole layer. */
static enum mt_status run_layer(struct layer *l, bool with_objective, double *seconds)
{
    double start = mt_clock_seconds();
    enum mt_status status = route(l);
    if (status == MT_OK) status = experts_forward(l);
    if (status == MT_OK) status = combine_forward(l, with_objective);
    if (status == MT_OK) status = clear_gradients(l);
    if (status == MT_OK) status = combine_backward(l, with_objective);
    if (status == MT_OK) status = experts_backward(l);
    if (status == MT_OK) status = router_backward(l);
    *seconds = mt_clock_seconds() - start;
    return status;
}

/* The two combines alone, or with the objective, on the outputs of the last forward. */
static enum mt_status run_combines(struct layer *l, bool with_objective, double *seconds)
{
    enum mt_status status = mt_copy(l->device, &(struct mt_copy_args){.x = l->rows, .y = l->record.rows});
    if (status != MT_OK) return status;
    double start = mt_clock_seconds();
    status = combine_forward(l, with_objective);
    if (status == MT_OK) status = combine_backward(l, with_objective);
    *seconds = mt_clock_seconds() - start;
    return status;
}

struct cost {
    double layer, with; // medians
};

static enum mt_status measure_layer(struct layer *l, int rounds, struct cost *cost)
{
    double layer[MAX_ROUNDS];
    double with[MAX_ROUNDS];
    enum mt_status status = run_layer(l, true, &with[0]); // the first one grows scratch and touches memory
    for (int i = 0; i < rounds && status == MT_OK; i++) {
        status = run_layer(l, false, &layer[i]);
        if (status == MT_OK) status = run_layer(l, true, &with[i]);
    }
    if (status != MT_OK) return status;
    cost->layer = bench_median(layer, rounds);
    cost->with = bench_median(with, rounds);
    return MT_OK;
}

static enum mt_status measure_objective(struct layer *l, int rounds, double *objective)
{
    double differences[MAX_ROUNDS];
    enum mt_status status = route(l);
    if (status == MT_OK) status = experts_forward(l);
    // The experts' inputs are not needed any more: their place keeps the outputs for every round.
    if (status == MT_OK) {
        status = mt_copy(l->device, &(struct mt_copy_args){.x = l->record.rows, .y = l->rows});
    }
    for (int i = 0; i < rounds && status == MT_OK; i++) {
        double plain = 0.0;
        double with = 0.0;
        status = run_combines(l, false, &plain);
        if (status == MT_OK) status = run_combines(l, true, &with);
        differences[i] = with - plain;
    }
    if (status == MT_OK) *objective = bench_median(differences, rounds);
    return status;
}

static enum mt_status report(struct layer *l, int rounds)
{
    static const char *const labels[] = {"with weight gradients", "without weight gradients"};
    double objective = 0.0;
    double largest = 0.0;
    printf("N=%d n=%d k=%d d=%d I=%d, f32 activations, bf16 weights; %s; %d rounds, medians in seconds\n",
           TOKENS, EXPERTS, SLOTS, WIDTH, HIDDEN, mt_device_description(l->device), rounds);
    printf("%-26s %10s %10s %12s %10s %9s\n", "", "layer", "with", "difference", "objective", "share");
    for (int i = 0; i < 2; i++) {
        struct cost cost;
        l->weight_gradients = i == 0;
        enum mt_status status = measure_layer(l, rounds, &cost);
        if (status == MT_OK) status = measure_objective(l, MAX_ROUNDS / 4, &objective);
        if (status != MT_OK) return status;
        double share = objective / cost.layer;
        printf("%-26s %10.4f %10.4f %+12.4f %10.4f %8.2f%%\n", labels[i], cost.layer, cost.with,
               cost.with - cost.layer, objective, 100.0 * share);
        (void)fflush(stdout);
        if (share > largest) largest = share;
    }
    printf("objective_seconds %.6f %.6f\n", objective, largest);
    return MT_OK;
}

int main(int argc, char **argv)
{
    long threads = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 5;
    if (threads < 0 || threads > 1024 || rounds < 1 || rounds > MAX_ROUNDS) {
        (void)fprintf(stderr, "usage: objective_cost [THREADS [ROUNDS]]\n");
        return 2;
    }
    struct mt_context ctx;
    struct mt_device *device = NULL;
    struct layer layer = {0};
    mt_context_init(&ctx, NULL);
    enum mt_status status = mt_device_create(&ctx, "cpu", (int)threads, &device);
    if (status == MT_OK) status = layer_create(device, &layer);
    if (status == MT_OK) status = report(&layer, (int)rounds);
    if (status != MT_OK) (void)fprintf(stderr, "objective_cost: %s\n", ctx.message);
    layer_free(&layer);
    mt_device_destroy(device);
    return status == MT_OK ? 0 : 1;
}
