/*
 * Shared experts behind a gate, y = sigmoid(x · w) · shared(x), in an MoE layer of a made-up description:
 * values, gradients against finite differences in double, and what is left out where less is trained.
 * Tests src/model/layers/shared_experts.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "model/layers/moe.h"
#include "model/params/loading.h"
#include "support/cmocka_all.h"

#define TOKENS  5
#define WIDTH   4
#define EXPERTS 3
#define INNER   3
#define RANK    2
#define MEMORY  65536

/* The parameters as one list of numbers, so that finite differences can walk over them. */
enum {
    ROUTER,
    GATE,
    UP,
    DOWN,
    SHARED_GATE_PROJ,
    SHARED_UP,
    SHARED_DOWN,
    GATE_WEIGHT,
    GATE_A,
    GATE_B,
    INPUT,
    LISTS
};

static const struct {
    const char *name;
    int64_t rows, columns;
    int count; // matrices
} lists[LISTS] = {
    [ROUTER] = {"router", EXPERTS, WIDTH, 1},
    [GATE] = {"experts' gate", INNER, WIDTH, EXPERTS},
    [UP] = {"experts' up", INNER, WIDTH, EXPERTS},
    [DOWN] = {"experts' down", WIDTH, INNER, EXPERTS},
    [SHARED_GATE_PROJ] = {"shared gate_proj", INNER, WIDTH, 1},
    [SHARED_UP] = {"shared up_proj", INNER, WIDTH, 1},
    [SHARED_DOWN] = {"shared down_proj", WIDTH, INNER, 1},
    [GATE_WEIGHT] = {"shared gate", 1, WIDTH, 1},
    [GATE_A] = {"shared gate A", RANK, WIDTH, 1},
    [GATE_B] = {"shared gate B", 1, RANK, 1},
    [INPUT] = {"x", TOKENS, WIDTH, 1},
};

#define LARGEST (EXPERTS * INNER * WIDTH)

struct layer_run {
    struct mt_context ctx;
    struct mt_device *device;
    double value[LISTS][LARGEST], gradient[LISTS][LARGEST];
    struct mt_tensor view[LISTS][EXPERTS], dview[LISTS][EXPERTS];
    double x[TOKENS * WIDTH], residual[TOKENS * WIDTH], y[TOKENS * WIDTH], dy[TOKENS * WIDTH];
    double work[MT_LORA_LINEARS][TOKENS * EXPERTS * RANK];
    struct mt_model_desc desc;
    struct mt_layer_params params;
    struct mt_pass pass;
    struct mt_moe moe;
    char *memory;
};

static int64_t count_of(int list)
{
    return lists[list].rows * lists[list].columns * lists[list].count;
}

static struct mt_tensor matrix(double (*data)[LARGEST], int list, int64_t number)
{
    int64_t rows = lists[list].rows;
    int64_t columns = lists[list].columns;
    return mt_tensor_2d(data[list] + number * rows * columns, MT_F64, rows, columns);
}

static struct mt_tensor tokens(double *data)
{
    return mt_tensor_2d(data, MT_F64, TOKENS, WIDTH);
}

static void make_views(struct layer_run *run)
{
    for (int list = 0; list < LISTS; list++) {
        for (int i = 0; i < lists[list].count; i++) {
            run->view[list][i] = matrix(run->value, list, i);
            run->dview[list][i] = matrix(run->gradient, list, i);
        }
    }
}

static struct mt_linear linear(struct layer_run *run, int list)
{
    return (struct mt_linear){.weight = {.stored = run->view[list],
                                         .count = lists[list].count,
                                         .out = lists[list].rows,
                                         .in = lists[list].columns},
                              .dweight = run->dview[list]};
}

static void plan(struct layer_run *run)
{
    struct mt_planner all = {.base = run->memory};
    const struct mt_moe_planners planners = {&all, &all, &all, &all, &all};
    mt_moe_plan(&run->moe, &run->pass, &run->params, true, &planners);
    assert_true(all.bytes <= MEMORY);
}

static void open_run(struct layer_run *run)
{
    memset(run, 0, sizeof *run);
    mt_context_init(&run->ctx, NULL);
    assert_int_equal(mt_device_create(&run->ctx, "ref", 1, &run->device), MT_OK);
    run->memory = calloc(1, MEMORY);
    assert_non_null(run->memory);
    for (int list = 0; list < LISTS; list++) {
        for (int64_t i = 0; i < count_of(list); i++)
            run->value[list][i] = (double)mt_rng_normal(7, (uint64_t)list, (uint64_t)i);
    }
    for (int i = 0; i < TOKENS * WIDTH; i++) {
        run->residual[i] = (double)mt_rng_normal(8, 1, (uint64_t)i);
        run->dy[i] = (double)mt_rng_normal(8, 2, (uint64_t)i);
    }
    run->desc =
        (struct mt_model_desc){.width = WIDTH,
                               .experts = EXPERTS,
                               .expert_width = INNER,
                               .shared_width = INNER,
                               .router = {.kind = MT_ROUTER_SOFTMAX, .slots = 2, .scale = 1.0f},
                               .names = {.router = "mlp.gate", .shared_gate = "mlp.shared_expert_gate"}};
    struct mt_layer_params *params = &run->params;
    *params = (struct mt_layer_params){.moe = true};
    make_views(run);
    params->router = linear(run, ROUTER);
    params->experts.gate = linear(run, GATE);
    params->experts.up = linear(run, UP);
    params->experts.down = linear(run, DOWN);
    params->shared.gate = linear(run, SHARED_GATE_PROJ);
    params->shared.up = linear(run, SHARED_UP);
    params->shared.down = linear(run, SHARED_DOWN);
    params->shared_gate = linear(run, GATE_WEIGHT);
    run->params.router.exact = true;
    struct mt_linear *gate = &run->params.shared_gate;
    gate->rank = RANK;
    gate->a = run->view[GATE_A];
    gate->b = run->view[GATE_B];
    gate->da = run->dview[GATE_A];
    gate->db = run->dview[GATE_B];
    gate->lora_scale = 0.5f;
    run->pass = (struct mt_pass){.device = run->device,
                                 .desc = &run->desc,
                                 .type = MT_F64,
                                 .exact = MT_F64,
                                 .tokens = TOKENS,
                                 .sequences = 1,
                                 .moe.unmasked = TOKENS,
                                 .moe.placement = &mt_experts_local};
    for (int i = 0; i < MT_LORA_LINEARS; i++)
        run->pass.work.xa[i] = mt_tensor_1d(run->work[i], MT_F64, TOKENS * EXPERTS * RANK);
    plan(run);
}

static void close_run(struct layer_run *run)
{
    free(run->memory);
    mt_device_destroy(run->device);
    assert_int_equal(run->ctx.live_bytes, 0);
}

/* <dy, y>, the loss whose gradient in y is dy. */
static double forward(struct layer_run *run)
{
    struct mt_tensor x = tokens(run->x);
    struct mt_tensor residual = tokens(run->residual);
    struct mt_tensor y = tokens(run->y);
    double loss = 0.0;
    memcpy(run->x, run->value[INPUT], sizeof run->x);
    assert_int_equal(mt_moe_forward(&run->pass, &run->params, &run->moe, &x, &residual, &y), MT_OK);
    for (int i = 0; i < TOKENS * WIDTH; i++) loss += run->dy[i] * run->y[i];
    return loss;
}

static void backward(struct layer_run *run, bool want_x)
{
    struct mt_tensor x = tokens(run->x);
    struct mt_tensor dy = tokens(run->dy);
    struct mt_tensor dx = tokens(run->gradient[INPUT]);
    assert_int_equal(mt_moe_backward(&run->pass, &run->params, &run->moe, &dy, &x, want_x ? &dx : NULL),
                     MT_OK);
}

static void test_gradients(void **state)
{
    (void)state;
    struct layer_run *run = malloc(sizeof *run);
    assert_non_null(run);
    open_run(run);
    (void)forward(run);
    backward(run, true);
    for (int list = 0; list < LISTS; list++) {
        for (int64_t i = 0; i < count_of(list); i++) {
            const double step = 1e-6;
            double kept = run->value[list][i];
            run->value[list][i] = kept + step;
            double above = forward(run);
            run->value[list][i] = kept - step;
            double below = forward(run);
            run->value[list][i] = kept;
            double expected = (above - below) / (2.0 * step);
            double got = run->gradient[list][i];
            if (fabs(got - expected) > 1e-7 * (1.0 + fabs(expected)))
                fail_msg("%s, number %d: %.12g, by differences %.12g", lists[list].name, (int)i, got,
                         expected);
        }
    }
    close_run(run);
    free(run);
}

/* A gate of 0 halves what the shared experts say; without a gate nothing is scaled. */
static void test_values(void **state)
{
    (void)state;
    struct layer_run *run = malloc(sizeof *run);
    double halved[TOKENS * WIDTH];
    double whole[TOKENS * WIDTH];
    assert_non_null(run);
    open_run(run);
    memset(run->value[GATE_WEIGHT], 0, sizeof run->value[GATE_WEIGHT]);
    memset(run->value[GATE_B], 0, sizeof run->value[GATE_B]);
    (void)forward(run);
    memcpy(halved, run->y, sizeof halved);
    run->desc.names.shared_gate = NULL;
    plan(run);
    (void)forward(run);
    memcpy(whole, run->y, sizeof whole);
    memset(run->value[SHARED_DOWN], 0, sizeof run->value[SHARED_DOWN]);
    (void)forward(run);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        assert_true(fabs(halved[i] - (whole[i] + run->y[i]) / 2.0) < 1e-12);
    close_run(run);
    free(run);
}

/* The gate alone is trained, and nothing below: its gradient has the same bits. */
static void test_gate_alone(void **state)
{
    (void)state;
    struct layer_run *run = malloc(sizeof *run);
    double all[WIDTH];
    assert_non_null(run);
    open_run(run);
    (void)forward(run);
    backward(run, true);
    memcpy(all, run->gradient[GATE_WEIGHT], sizeof all);
    memset(run->gradient, 0, sizeof run->gradient);
    const struct mt_linear gate = run->params.shared_gate;
    struct mt_mlp_params *const blocks[] = {&run->params.experts, &run->params.shared};
    for (int i = 0; i < 2; i++)
        blocks[i]->gate.dweight = blocks[i]->up.dweight = blocks[i]->down.dweight = NULL;
    run->params.router.dweight = run->params.shared_gate.da = run->params.shared_gate.db = NULL;
    assert_true(mt_moe_is_trained(&run->params));
    (void)forward(run);
    backward(run, false);
    assert_memory_equal(all, run->gradient[GATE_WEIGHT], sizeof all);
    run->params.shared_gate = gate;
    run->params.shared_gate.dweight = NULL;
    assert_true(mt_moe_is_trained(&run->params)); // by its pair
    close_run(run);
    free(run);
}

/* Its tensor has a place where the description names it, and is one that LoRA adapts. */
static void test_place(void **state)
{
    (void)state;
    struct mt_layer_params layer = {.moe = true};
    struct mt_params params = {.layer = &layer, .layers = 1};
    struct mt_model_desc desc = {.names = {.router = "mlp.gate", .shared_gate = "mlp.shared_expert_gate"}};
    struct mt_model_tensor tensor = {.name = "model.layers.0.mlp.shared_expert_gate.weight",
                                     .part = MT_PART_SHARED,
                                     .expert = -1,
                                     .rank = 2,
                                     .dim = {1, WIDTH}};
    struct mt_params_place place;
    assert_int_equal(mt_params_find_place(&params, &desc, &tensor, &place), MT_OK);
    assert_ptr_equal(place.linear, &layer.shared_gate);
    assert_int_equal(place.index, 0);
    assert_true(mt_params_is_linear(&tensor));
    struct mt_linear *linears[MT_LAYER_LINEARS];
    bool listed = false;
    mt_layer_linears(&layer, linears);
    for (int i = 0; i < MT_LAYER_LINEARS; i++) listed = listed || linears[i] == &layer.shared_gate;
    assert_true(listed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients), cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_gate_alone), cmocka_unit_test(test_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
