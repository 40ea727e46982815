/*
 * Linear maps: hand-computed values, gradients against finite differences in double, dropout that is drawn
 * again alike, and the experts' maps against one map per expert.
 */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "model/layers/linear.h"
#include "support/cmocka_all.h"

#define TOKENS 5
#define IN     4
#define OUT    3
#define RANK   2
#define WORDS  1 // of a row of bits

static struct mt_device *new_device(struct mt_context *ctx, const char *name)
{
    struct mt_device *device = NULL;
    mt_context_init(ctx, NULL);
    assert_int_equal(mt_device_create(ctx, name, 2, &device), MT_OK);
    return device;
}

static void test_by_hand(void **state)
{
    struct mt_context ctx;
    struct mt_device *device = new_device(&ctx, *state);
    float weight[] = {1, 2, 3, 4}; // [2,2]
    float bias[] = {10, 20};
    float a[] = {1, -1};  // [1,2]
    float b[] = {2, 0.5}; // [2,1]
    float dweight[4] = {100, 0, 0, 0};
    float dbias[2] = {0};
    float da[2] = {0};
    float db[2] = {0};
    float low[1];
    float dlow[1];
    float x[] = {3, 1};
    float y[] = {1000, 1000};
    float dy[] = {1, 2};
    float dx[] = {7, 7};
    struct mt_tensor w_view = mt_tensor_2d(weight, MT_F32, 2, 2);
    struct mt_tensor dw_view = mt_tensor_2d(dweight, MT_F32, 2, 2);
    struct mt_tensor a_view = mt_tensor_2d(a, MT_F32, 1, 2);
    struct mt_tensor b_view = mt_tensor_2d(b, MT_F32, 2, 1);
    struct mt_tensor da_view = mt_tensor_2d(da, MT_F32, 1, 2);
    struct mt_tensor db_view = mt_tensor_2d(db, MT_F32, 2, 1);
    struct mt_linear linear = {
        .weight = {.stored = &w_view, .count = 1, .out = 2, .in = 2},
        .bias = mt_tensor_1d(bias, MT_F32, 2),
        .dweight = &dw_view,
        .dbias = mt_tensor_1d(dbias, MT_F32, 2),
        .a = &a_view,
        .b = &b_view,
        .da = &da_view,
        .db = &db_view,
        .rank = 1,
        .lora_scale = 3.0f,
        .dropout = 0.5f, // only in training
    };
    struct mt_pass pass = {.device = device, .tokens = 1, .work.xa = {mt_tensor_1d(dlow, MT_F32, 1)}};
    struct mt_tensor x_tensor = mt_tensor_2d(x, MT_F32, 1, 2);
    struct mt_tensor y_tensor = mt_tensor_2d(y, MT_F32, 1, 2);
    struct mt_tensor dy_tensor = mt_tensor_2d(dy, MT_F32, 1, 2);
    struct mt_tensor dx_tensor = mt_tensor_2d(dx, MT_F32, 1, 2);
    struct mt_lora_trace trace = {.xa = mt_tensor_2d(low, MT_F32, 1, 1)};
    const struct mt_linear_output output = {.linear = &linear, .trace = &trace, .y = &y_tensor};
    const struct mt_linear_gradient gradient = {.linear = &linear, .dy = &dy_tensor, .trace = &trace};
    assert_int_equal(mt_linear_forward(&pass, &output, 1, NULL, &x_tensor, false), MT_OK);
    // W x = (5, 13); A x = 2; s B A x = (12, 3)
    assert_memory_equal(y, ((float[]){27, 36}), sizeof y);
    assert_int_equal(mt_linear_forward(&pass, &output, 1, NULL, &x_tensor, true), MT_OK);
    assert_memory_equal(y, ((float[]){54, 72}), sizeof y);
    assert_int_equal(mt_linear_backward(&pass, &gradient, 1, NULL, &x_tensor, true, &dx_tensor), MT_OK);
    // dl = s B·dy = 9; dx += Wᵀ dy + A dl = (7, 10) + (9, -9)
    assert_memory_equal(dx, ((float[]){23, 8}), sizeof dx);
    assert_memory_equal(dweight, ((float[]){103, 1, 6, 2}), sizeof dweight);
    assert_memory_equal(dbias, ((float[]){1, 2}), sizeof dbias);
    assert_memory_equal(da, ((float[]){27, 9}), sizeof da);
    assert_memory_equal(db, ((float[]){6, 12}), sizeof db);
    // The input's gradient may take the input's place.
    assert_int_equal(mt_linear_backward(&pass, &gradient, 1, NULL, &x_tensor, false, &x_tensor), MT_OK);
    assert_memory_equal(x, ((float[]){16, 1}), sizeof x);
    assert_memory_equal(da, ((float[]){54, 18}), sizeof da);
    mt_device_destroy(device);
}

/* One map with random values; every tensor f64, so that differences are exact to many digits. */
struct random_map {
    double weight[OUT * IN], bias[OUT], a[RANK * IN], b[OUT * RANK], x[TOKENS * IN];
    double dweight[OUT * IN], dbias[OUT], da[RANK * IN], db[OUT * RANK], dx[TOKENS * IN];
    double low[TOKENS * RANK], y[TOKENS * OUT], dy[TOKENS * OUT];
    double xa_work[MT_LORA_LINEARS][TOKENS * RANK];
    uint32_t bits[TOKENS * WORDS];
    struct mt_tensor view[6]; // of weight, a, b; then of their gradients
    struct mt_linear linear;
    struct mt_pass pass;
};

static void fill(double *values, int64_t count, uint64_t stream)
{
    for (int64_t i = 0; i < count; i++) values[i] = (double)mt_rng_normal(3, stream, (uint64_t)i);
}

static void make_map(struct random_map *map, struct mt_device *device, float dropout)
{
    memset(map, 0, sizeof *map);
    fill(map->weight, OUT * IN, 1);
    fill(map->bias, OUT, 2);
    fill(map->a, RANK * IN, 3);
    fill(map->b, OUT * RANK, 4);
    fill(map->x, (int64_t)TOKENS * IN, 5);
    fill(map->dy, (int64_t)TOKENS * OUT, 6);
    const struct mt_tensor views[] = {
        mt_tensor_2d(map->weight, MT_F64, OUT, IN), mt_tensor_2d(map->a, MT_F64, RANK, IN),
        mt_tensor_2d(map->b, MT_F64, OUT, RANK),    mt_tensor_2d(map->dweight, MT_F64, OUT, IN),
        mt_tensor_2d(map->da, MT_F64, RANK, IN),    mt_tensor_2d(map->db, MT_F64, OUT, RANK)};
    memcpy(map->view, views, sizeof views);
    map->linear = (struct mt_linear){
        .weight = {.stored = &map->view[0], .count = 1, .out = OUT, .in = IN},
        .bias = mt_tensor_1d(map->bias, MT_F64, OUT),
        .dweight = &map->view[3],
        .dbias = mt_tensor_1d(map->dbias, MT_F64, OUT),
        .a = &map->view[1],
        .b = &map->view[2],
        .da = &map->view[4],
        .db = &map->view[5],
        .rank = RANK,
        .lora_scale = 0.75f,
        .dropout = dropout,
        .stream = 99,
    };
    map->pass = (struct mt_pass){
        .device = device, .type = MT_F64, .tokens = TOKENS, .training = true, .seed = 8, .step = 2};
    for (int i = 0; i < MT_LORA_LINEARS; i++)
        map->pass.work.xa[i] = mt_tensor_1d(map->xa_work[i], MT_F64, TOKENS * RANK);
}

static struct mt_lora_trace trace_of(struct random_map *map, int64_t rows)
{
    return (struct mt_lora_trace){.xa = mt_tensor_2d(map->low, MT_F64, rows, RANK),
                                  .bits = mt_tensor_2d(map->bits, MT_I32, rows, WORDS)};
}

/* Σ dy · y: a loss whose gradient in y is dy. */
static double loss_of(struct random_map *map)
{
    struct mt_tensor x = mt_tensor_2d(map->x, MT_F64, TOKENS, IN);
    struct mt_lora_trace trace = trace_of(map, TOKENS);
    struct mt_tensor y = mt_tensor_2d(map->y, MT_F64, TOKENS, OUT);
    const struct mt_linear_output output = {.linear = &map->linear, .trace = &trace, .y = &y};
    assert_int_equal(mt_linear_forward(&map->pass, &output, 1, NULL, &x, false), MT_OK);
    double loss = 0.0;
    for (int i = 0; i < TOKENS * OUT; i++) loss += map->dy[i] * map->y[i];
    return loss;
}

static void check_gradient(struct random_map *map, double *values, const double *gradient, int count)
{
    const double step = 1e-3;
    for (int i = 0; i < count; i++) {
        double start = values[i];
        values[i] = start + step;
        double above = loss_of(map);
        values[i] = start - step;
        double below = loss_of(map);
        values[i] = start;
        assert_true(fabs((above - below) / (2.0 * step) - gradient[i]) < 1e-9);
    }
}

static void test_gradients(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_device *device = new_device(&ctx, "ref");
    const float dropouts[] = {0.0f, 0.4f};
    for (int i = 0; i < 4; i++) {
        struct random_map map;
        make_map(&map, device, dropouts[i % 2]);
        map.linear.exact = i >= 2;
        (void)loss_of(&map);
        struct mt_tensor x = mt_tensor_2d(map.x, MT_F64, TOKENS, IN);
        struct mt_lora_trace trace = trace_of(&map, TOKENS);
        struct mt_tensor dy = mt_tensor_2d(map.dy, MT_F64, TOKENS, OUT);
        struct mt_tensor dx = mt_tensor_2d(map.dx, MT_F64, TOKENS, IN);
        const struct mt_linear_gradient gradient = {.linear = &map.linear, .dy = &dy, .trace = &trace};
        assert_int_equal(mt_linear_backward(&map.pass, &gradient, 1, NULL, &x, false, &dx), MT_OK);
        check_gradient(&map, map.x, map.dx, TOKENS * IN);
        check_gradient(&map, map.weight, map.dweight, OUT * IN);
        check_gradient(&map, map.bias, map.dbias, OUT);
        check_gradient(&map, map.a, map.da, RANK * IN);
        check_gradient(&map, map.b, map.db, OUT * RANK);
    }
    mt_device_destroy(device);
}

/*
 * Maps of one x taken together give what each gives alone, dx being their sum, when each draws what the first
 * draws. One of them has no pair.
 */
static void test_together_as_alone(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_device *device = new_device(&ctx, "ref");
    struct random_map map[MT_LORA_LINEARS];
    struct mt_linear_output outputs[MT_LORA_LINEARS];
    struct mt_linear_gradient gradients[MT_LORA_LINEARS];
    struct mt_tensor dy[MT_LORA_LINEARS];
    struct mt_tensor y[MT_LORA_LINEARS];
    struct mt_lora_trace trace[MT_LORA_LINEARS];
    double sum[TOKENS * IN] = {0};
    double alone_y[MT_LORA_LINEARS][TOKENS * OUT];
    double da[MT_LORA_LINEARS][RANK * IN];
    double db[MT_LORA_LINEARS][OUT * RANK];
    for (int i = 0; i < MT_LORA_LINEARS; i++) {
        make_map(&map[i], device, 0.4f);
        fill(map[i].a, RANK * IN, 20 + (uint64_t)i);
        if (i == 1) map[i].linear.a = map[i].linear.b = map[i].linear.da = map[i].linear.db = NULL;
        struct mt_tensor x = mt_tensor_2d(map[i].x, MT_F64, TOKENS, IN);
        struct mt_tensor dx = mt_tensor_2d(map[i].dx, MT_F64, TOKENS, IN);
        y[i] = mt_tensor_2d(map[i].y, MT_F64, TOKENS, OUT);
        dy[i] = mt_tensor_2d(map[i].dy, MT_F64, TOKENS, OUT);
        trace[i] = trace_of(&map[i], TOKENS);
        (void)loss_of(&map[i]);
        outputs[i] = (struct mt_linear_output){.linear = &map[i].linear, .trace = &trace[i], .y = &y[i]};
        gradients[i] =
            (struct mt_linear_gradient){.linear = &map[i].linear, .dy = &dy[i], .trace = &trace[i]};
        assert_int_equal(mt_linear_backward(&map[i].pass, &gradients[i], 1, NULL, &x, false, &dx), MT_OK);
        for (int j = 0; j < TOKENS * IN; j++) sum[j] += map[i].dx[j];
        memcpy(alone_y[i], map[i].y, sizeof alone_y[i]);
        memcpy(da[i], map[i].da, sizeof da[i]);
        memcpy(db[i], map[i].db, sizeof db[i]);
        memset(map[i].y, 0, sizeof map[i].y);
        memset(map[i].da, 0, sizeof map[i].da);
        memset(map[i].db, 0, sizeof map[i].db);
        map[i].linear.stream += (uint64_t)i; // the first one's counts
        trace[i].bits = trace[0].bits;
    }
    struct mt_tensor x = mt_tensor_2d(map[0].x, MT_F64, TOKENS, IN);
    struct mt_tensor dx = mt_tensor_2d(map[0].dx, MT_F64, TOKENS, IN);
    memset(map[0].bits, 0, sizeof map[0].bits);
    assert_int_equal(mt_linear_forward(&map[0].pass, outputs, MT_LORA_LINEARS, NULL, &x, false), MT_OK);
    assert_int_equal(mt_linear_backward(&map[0].pass, gradients, MT_LORA_LINEARS, NULL, &x, false, &dx),
                     MT_OK);
    for (int j = 0; j < TOKENS * IN; j++) assert_true(fabs(map[0].dx[j] - sum[j]) < 1e-12);
    for (int i = 0; i < MT_LORA_LINEARS; i++) {
        assert_memory_equal(map[i].y, alone_y[i], sizeof alone_y[i]);
        assert_memory_equal(map[i].da, da[i], sizeof da[i]);
        assert_memory_equal(map[i].db, db[i], sizeof db[i]);
    }
    mt_device_destroy(device);
}

/* What is dropped of an x is kept once for all its maps. */
static void test_bits_are_planned_once(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_device *device = new_device(&ctx, "ref");
    struct random_map map;
    make_map(&map, device, 0.4f);
    static _Alignas(64) char memory[4096];
    struct mt_planner planner = {.base = memory};
    struct mt_tensor bits = {0};
    struct mt_linear plain = map.linear;
    plain.a = NULL;
    struct mt_lora_trace none = mt_linear_plan_lora(&planner, &map.pass, &plain, TOKENS, &bits);
    assert_false(mt_tensor_present(&none.xa) || mt_tensor_present(&none.bits) || mt_tensor_present(&bits));
    struct mt_lora_trace first = mt_linear_plan_lora(&planner, &map.pass, &map.linear, TOKENS, &bits);
    struct mt_lora_trace second = mt_linear_plan_lora(&planner, &map.pass, &map.linear, TOKENS, &bits);
    struct mt_lora_trace apart = mt_linear_plan_lora(&planner, &map.pass, &map.linear, TOKENS, NULL);
    assert_ptr_equal(first.bits.data, second.bits.data);
    assert_ptr_not_equal(first.xa.data, second.xa.data);
    assert_ptr_not_equal(first.bits.data, apart.bits.data);
    assert_true(second.drawn && !first.drawn && !apart.drawn);
    mt_device_destroy(device);
}

/* Another step drops other elements; evaluation drops none. */
static void test_dropout_follows_the_step(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_device *device = new_device(&ctx, "ref");
    struct random_map map;
    make_map(&map, device, 0.4f);
    double first = loss_of(&map);
    assert_true(first == loss_of(&map));
    map.pass.step = 3;
    double second = loss_of(&map);
    assert_true(first != second);
    map.pass.training = false;
    double evaluated = loss_of(&map);
    map.pass.step = 4;
    assert_true(evaluated == loss_of(&map));
    assert_true(evaluated != first && evaluated != second);
    mt_device_destroy(device);
}

// ------------------------------------------------------------------ experts

#define EXPERTS 3

/* Experts with rows, without, and without a pair: each must give what a map of its own gives. */
static void test_experts_are_maps(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_device *device = new_device(&ctx, "ref");
    struct random_map map[EXPERTS];
    struct mt_tensor weight[EXPERTS];
    struct mt_tensor dweight[EXPERTS];
    struct mt_tensor a[EXPERTS] = {{0}};
    struct mt_tensor b[EXPERTS] = {{0}};
    struct mt_tensor da[EXPERTS] = {{0}};
    struct mt_tensor db[EXPERTS] = {{0}};
    int32_t offsets[] = {0, 2, 2, TOKENS};
    for (int e = 0; e < EXPERTS; e++) {
        make_map(&map[e], device, 0.0f);
        fill(map[e].weight, OUT * IN, 10 + (uint64_t)e);
        weight[e] = map[e].view[0];
        dweight[e] = map[e].view[3];
        if (e == 0) continue; // has no pair
        a[e] = map[e].view[1];
        b[e] = map[e].view[2];
        da[e] = map[e].view[4];
        db[e] = map[e].view[5];
    }
    struct mt_linear experts = {.weight = {.stored = weight, .count = EXPERTS, .out = OUT, .in = IN},
                                .dweight = dweight,
                                .a = a,
                                .b = b,
                                .da = da,
                                .db = db,
                                .rank = RANK,
                                .lora_scale = 0.75f};
    struct random_map rows;
    make_map(&rows, device, 0.0f);
    struct mt_tensor offset_tensor = mt_tensor_1d(offsets, MT_I32, EXPERTS + 1);
    struct mt_tensor x = mt_tensor_2d(rows.x, MT_F64, TOKENS, IN);
    struct mt_tensor y = mt_tensor_2d(rows.y, MT_F64, TOKENS, OUT);
    struct mt_lora_trace trace = trace_of(&rows, TOKENS);
    struct mt_tensor dy = mt_tensor_2d(rows.dy, MT_F64, TOKENS, OUT);
    struct mt_tensor dx = mt_tensor_2d(rows.dx, MT_F64, TOKENS, IN);
    struct mt_linear_output output = {.linear = &experts, .trace = &trace, .y = &y};
    assert_int_equal(mt_linear_forward(&rows.pass, &output, 1, &offset_tensor, &x, false), MT_OK);
    struct mt_linear_gradient gradient = {.linear = &experts, .dy = &dy, .trace = &trace};
    assert_int_equal(mt_linear_backward(&rows.pass, &gradient, 1, &offset_tensor, &x, false, &dx), MT_OK);
    for (int e = 0; e < EXPERTS; e++) {
        struct random_map alone;
        make_map(&alone, device, 0.0f);
        memcpy(alone.weight, map[e].weight, sizeof alone.weight);
        alone.linear.bias = alone.linear.dbias = (struct mt_tensor){0};
        if (e == 0) alone.linear.a = alone.linear.b = alone.linear.da = alone.linear.db = NULL;
        int64_t count = offsets[e + 1] - offsets[e];
        struct mt_tensor own_x = mt_tensor_rows(&x, offsets[e], count);
        struct mt_tensor own_dy = mt_tensor_rows(&dy, offsets[e], count);
        struct mt_tensor own_y = mt_tensor_2d(alone.y, MT_F64, count, OUT);
        struct mt_lora_trace own_trace = trace_of(&alone, count);
        struct mt_tensor own_dx = mt_tensor_2d(alone.dx, MT_F64, count, IN);
        const struct mt_linear_output own_output = {
            .linear = &alone.linear, .trace = &own_trace, .y = &own_y};
        const struct mt_linear_gradient own_gradient = {
            .linear = &alone.linear, .dy = &own_dy, .trace = &own_trace};
        assert_int_equal(mt_linear_forward(&alone.pass, &own_output, 1, NULL, &own_x, false), MT_OK);
        assert_int_equal(mt_linear_backward(&alone.pass, &own_gradient, 1, NULL, &own_x, false, &own_dx),
                         MT_OK);
        assert_memory_equal(alone.y, rows.y + (int64_t)offsets[e] * OUT,
                            (size_t)(count * OUT) * sizeof(double));
        assert_memory_equal(alone.dx, rows.dx + (int64_t)offsets[e] * IN,
                            (size_t)(count * IN) * sizeof(double));
        assert_memory_equal(alone.dweight, map[e].dweight, sizeof alone.dweight);
        assert_memory_equal(alone.da, map[e].da, sizeof alone.da);
        assert_memory_equal(alone.db, map[e].db, sizeof alone.db);
    }
    mt_device_destroy(device);
}

int main(void)
{
    static char ref_name[] = "ref";
    static char cpu_name[] = "cpu";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_by_hand, ref_name),
        cmocka_unit_test_prestate(test_by_hand, cpu_name),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_together_as_alone),
        cmocka_unit_test(test_bits_are_planned_once),
        cmocka_unit_test(test_dropout_follows_the_step),
        cmocka_unit_test(test_experts_are_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
