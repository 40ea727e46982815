/*
 * column_stats and slot_stats: worked by hand with masks and segments, that slots are rows of mostly zeros,
 * that masked tokens cannot do harm, and the argument checks. Tests src/ops.
 */
#include <math.h>

#include "base/rng.h"
#include "ops/op_test.h"

static void assert_doubles(const double *got, const double *expected, int count)
{
    for (int i = 0; i < count; i++) {
        if (!(fabs(got[i] - expected[i]) <= 1e-12)) {
            fail_msg("[%d] is %.17g, expected %.17g", i, got[i], expected[i]);
        }
    }
}

static void assert_floats(const float *got, const double *expected, int count)
{
    for (int i = 0; i < count; i++) {
        if (!((double)got[i] == expected[i])) {
            fail_msg("[%d] is %.9g, expected %.9g", i, (double)got[i], expected[i]);
        }
    }
}

// ------------------------------------------------------------------ column_stats

// Four tokens, two experts, three segments of which the last is empty; token 2 is masked.
struct column_example {
    float x[8];
    int32_t mask[4];
    int32_t segment[4];
    double sum[6];
    double squares[6];
    double row_squares[3];
    double rows[3];
};

static struct column_example column_example(void)
{
    return (struct column_example){
        .x = {1, 3, 2, 2, NAN, INFINITY, 1, 1}, .mask = {1, 7, 0, -1}, .segment = {1, 0, 1, 1}};
}

static struct mt_column_stats_forward_args column_args(struct column_example *e)
{
    return (struct mt_column_stats_forward_args){
        .x = mt_tensor_2d(e->x, MT_F32, 4, 2),
        .mask = mt_tensor_1d(e->mask, MT_I32, 4),
        .segment = mt_tensor_1d(e->segment, MT_I32, 4),
        .sum = mt_tensor_2d(e->sum, MT_F64, 3, 2),
        .squares = mt_tensor_2d(e->squares, MT_F64, 3, 2),
        .row_squares = mt_tensor_1d(e->row_squares, MT_F64, 3),
        .rows = mt_tensor_1d(e->rows, MT_F64, 3),
    };
}

static void test_columns(void **state)
{
    struct op_test *test = *state;
    struct column_example e = column_example();
    struct mt_column_stats_forward_args args = column_args(&e);
    assert_int_equal(mt_column_stats_forward(test->device, &args), MT_OK);
    assert_doubles(e.sum, (const double[]){2, 2, 2, 4, 0, 0}, 6);
    assert_doubles(e.squares, (const double[]){4, 4, 2, 10, 0, 0}, 6);
    assert_doubles(e.row_squares, (const double[]){16, 20, 0}, 3);
    assert_doubles(e.rows, (const double[]){1, 2, 0}, 3);
    args.normalise_rows = true;
    assert_int_equal(mt_column_stats_forward(test->device, &args), MT_OK);
    assert_doubles(e.sum, (const double[]){0.5, 0.5, 0.75, 1.25, 0, 0}, 6);
    assert_doubles(e.squares, (const double[]){0.25, 0.25, 0.3125, 0.8125, 0, 0}, 6);
    assert_doubles(e.row_squares, (const double[]){1, 2, 0}, 3);
    assert_doubles(e.rows, (const double[]){1, 2, 0}, 3);
}

/* Token 0 has D = 4: plain R = 4; normalised x' = (1/4, 3/4), g = (12.5, 18), Σ g x' = 16.625. */
static void test_columns_backward(void **state)
{
    struct op_test *test = *state;
    struct column_example e = column_example();
    double dsum[] = {7, 8, 1, 2, 99, 99};
    double dsquares[] = {0, 0, 3, 4, 99, 99};
    double drow_squares[] = {0, 5, 99};
    float dx[] = {100, 100, 100, 100, 100, 100, 100, 100};
    struct mt_column_stats_backward_args args = {
        .x = mt_tensor_2d(e.x, MT_F32, 4, 2),
        .mask = mt_tensor_1d(e.mask, MT_I32, 4),
        .segment = mt_tensor_1d(e.segment, MT_I32, 4),
        .dsum = mt_tensor_2d(dsum, MT_F64, 3, 2),
        .dsquares = mt_tensor_2d(dsquares, MT_F64, 3, 2),
        .drow_squares = mt_tensor_1d(drow_squares, MT_F64, 3),
        .dx = mt_tensor_2d(dx, MT_F32, 4, 2),
    };
    assert_int_equal(mt_column_stats_backward(test->device, &args), MT_OK);
    assert_floats(dx, (const double[]){47, 66, 7, 8, 0, 0, 27, 30}, 8);
    args.accumulate = true;
    assert_int_equal(mt_column_stats_backward(test->device, &args), MT_OK);
    assert_floats(dx, (const double[]){94, 132, 14, 16, 0, 0, 54, 60}, 8);
    args.accumulate = false;
    args.normalise_rows = true;
    assert_int_equal(mt_column_stats_backward(test->device, &args), MT_OK);
    assert_floats(dx, (const double[]){-1.03125, 0.34375, -0.125, 0.125, 0, 0, -0.5, 0.5}, 8);
}

static void test_columns_refuse(void **state)
{
    struct op_test *test = *state;
    struct column_example e = column_example();
    const struct mt_column_stats_forward_args good = column_args(&e);
    struct mt_column_stats_forward_args args = good;
    assert_int_equal(mt_column_stats_forward(test->device, &good), MT_OK);
    args.x.dtype = MT_BF16;
    op_test_refused(test, mt_column_stats_forward(test->device, &args), MT_ERR_DTYPE, "x is bf16");
    args = good;
    args.sum = (struct mt_tensor){0};
    op_test_refused(test, mt_column_stats_forward(test->device, &args), MT_ERR_USAGE, "sum is missing");
    args.sum = mt_tensor_2d(e.x, MT_F32, 3, 2);
    op_test_refused(test, mt_column_stats_forward(test->device, &args), MT_ERR_DTYPE, "sum is f32");
    args.sum = mt_tensor_2d(e.sum, MT_F64, 2, 3);
    op_test_refused(test, mt_column_stats_forward(test->device, &args), MT_ERR_SHAPE, "sum is");
    // The rows of sum say how many segments there are: one fewer, and the others no longer fit.
    args.sum = mt_tensor_2d(e.sum, MT_F64, 2, 2);
    op_test_refused(test, mt_column_stats_forward(test->device, &args), MT_ERR_SHAPE, "squares is");
    args.sum = mt_tensor_2d(e.sum, MT_F64, 1, 2);
    args.squares = args.row_squares = args.rows = (struct mt_tensor){0};
    op_test_refused(test, mt_column_stats_forward(test->device, &args), MT_ERR_USAGE, "segment holds 1");
    args = good;
    args.segment = (struct mt_tensor){0};
    op_test_refused(test, mt_column_stats_forward(test->device, &args), MT_ERR_SHAPE, "sum is");
    args = good;
    args.segment.dim[0] = 3;
    op_test_refused(test, mt_column_stats_forward(test->device, &args), MT_ERR_SHAPE, "segment is");
    args = good;
    args.mask.dim[0] = 5;
    op_test_refused(test, mt_column_stats_forward(test->device, &args), MT_ERR_SHAPE, "mask is");
    args = good;
    args.mask = mt_tensor_1d(e.x, MT_F32, 4);
    op_test_refused(test, mt_column_stats_forward(test->device, &args), MT_ERR_DTYPE, "mask is f32");
    args = good;
    args.row_squares.dim[0] = 2;
    op_test_refused(test, mt_column_stats_forward(test->device, &args), MT_ERR_SHAPE, "row_squares is");
    args = good;
    args.rows = mt_tensor_1d(e.x, MT_F32, 3);
    op_test_refused(test, mt_column_stats_forward(test->device, &args), MT_ERR_DTYPE, "rows is f32");
    e.segment[2] = 3; // of a masked token: still refused
    op_test_refused(test, mt_column_stats_forward(test->device, &good), MT_ERR_USAGE, "segment holds 3");
    e.segment[2] = -1;
    op_test_refused(test, mt_column_stats_forward(test->device, &good), MT_ERR_USAGE, "segment holds -1");
}

static void test_columns_backward_refuse(void **state)
{
    struct op_test *test = *state;
    struct column_example e = column_example();
    float dx[8];
    const struct mt_column_stats_backward_args good = {
        .x = mt_tensor_2d(e.x, MT_F32, 4, 2),
        .segment = mt_tensor_1d(e.segment, MT_I32, 4),
        .dsum = mt_tensor_2d(e.sum, MT_F64, 3, 2),
        .dx = mt_tensor_2d(dx, MT_F32, 4, 2),
    };
    struct mt_column_stats_backward_args args = good;
    assert_int_equal(mt_column_stats_backward(test->device, &good), MT_OK);
    args.dsum = (struct mt_tensor){0};
    op_test_refused(test, mt_column_stats_backward(test->device, &args), MT_ERR_USAGE, "dsum is missing");
    args = good;
    args.segment = (struct mt_tensor){0};
    op_test_refused(test, mt_column_stats_backward(test->device, &args), MT_ERR_SHAPE, "dsum is");
    args = good;
    args.dsquares = mt_tensor_2d(e.squares, MT_F64, 2, 2);
    op_test_refused(test, mt_column_stats_backward(test->device, &args), MT_ERR_SHAPE, "dsquares is");
    args = good;
    args.drow_squares = mt_tensor_1d(e.row_squares, MT_F64, 4);
    op_test_refused(test, mt_column_stats_backward(test->device, &args), MT_ERR_SHAPE, "drow_squares is");
    args = good;
    args.dx = mt_tensor_2d(dx, MT_F32, 2, 4);
    op_test_refused(test, mt_column_stats_backward(test->device, &args), MT_ERR_SHAPE, "dx is");
    e.segment[0] = 3;
    op_test_refused(test, mt_column_stats_backward(test->device, &good), MT_ERR_USAGE, "segment holds 3");
}

// ------------------------------------------------------------------ slot_stats

// Four tokens with two slots, three experts, two segments; token 2 is masked.
struct slot_example {
    int32_t expert[8];
    float weight[8];
    int32_t mask[4];
    int32_t segment[4];
    double count[6];
    double first[6];
    double sum[6];
    double squares[6];
    double row_squares[2];
};

static struct slot_example slot_example(void)
{
    return (struct slot_example){.expert = {0, 2, -1, 1, 2, 0, 2, -1},
                                 .weight = {1, 2, NAN, 3, NAN, 5, 4, NAN},
                                 .mask = {1, 1, 0, 1},
                                 .segment = {0, 0, 1, 1}};
}

static struct mt_slot_stats_forward_args slot_args(struct slot_example *e)
{
    return (struct mt_slot_stats_forward_args){
        .expert = mt_tensor_2d(e->expert, MT_I32, 4, 2),
        .weight = mt_tensor_2d(e->weight, MT_F32, 4, 2),
        .mask = mt_tensor_1d(e->mask, MT_I32, 4),
        .segment = mt_tensor_1d(e->segment, MT_I32, 4),
        .count = mt_tensor_2d(e->count, MT_F64, 2, 3),
        .first = mt_tensor_2d(e->first, MT_F64, 2, 3),
        .sum = mt_tensor_2d(e->sum, MT_F64, 2, 3),
        .squares = mt_tensor_2d(e->squares, MT_F64, 2, 3),
        .row_squares = mt_tensor_1d(e->row_squares, MT_F64, 2),
    };
}

static void test_slots(void **state)
{
    struct op_test *test = *state;
    struct slot_example e = slot_example();
    struct mt_slot_stats_forward_args args = slot_args(&e);
    assert_int_equal(mt_slot_stats_forward(test->device, &args), MT_OK);
    assert_doubles(e.count, (const double[]){1, 1, 1, 0, 0, 1}, 6);
    assert_doubles(e.first, (const double[]){1, 0, 0, 0, 0, 1}, 6);
    assert_doubles(e.sum, (const double[]){1, 3, 2, 0, 0, 4}, 6);
    assert_doubles(e.squares, (const double[]){1, 9, 4, 0, 0, 16}, 6);
    assert_doubles(e.row_squares, (const double[]){18, 16}, 2);
}

static void test_slots_backward(void **state)
{
    struct op_test *test = *state;
    struct slot_example e = slot_example();
    double dsum[] = {1, 2, 3, 9, 9, 5};
    double dsquares[] = {1, 1, 1, 9, 9, 2};
    double drow_squares[] = {1, 3};
    float dweight[] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    struct mt_slot_stats_backward_args args = {
        .expert = mt_tensor_2d(e.expert, MT_I32, 4, 2),
        .weight = mt_tensor_2d(e.weight, MT_F32, 4, 2),
        .mask = mt_tensor_1d(e.mask, MT_I32, 4),
        .segment = mt_tensor_1d(e.segment, MT_I32, 4),
        .dsum = mt_tensor_2d(dsum, MT_F64, 2, 3),
        .dsquares = mt_tensor_2d(dsquares, MT_F64, 2, 3),
        .drow_squares = mt_tensor_1d(drow_squares, MT_F64, 2),
        .dweight = mt_tensor_2d(dweight, MT_F32, 4, 2),
    };
    assert_int_equal(mt_slot_stats_backward(test->device, &args), MT_OK);
    assert_floats(dweight, (const double[]){9, 13, 0, 14, 0, 0, 45, 0}, 8);
    args.accumulate = true;
    assert_int_equal(mt_slot_stats_backward(test->device, &args), MT_OK);
    assert_floats(dweight, (const double[]){18, 26, 0, 28, 0, 0, 90, 0}, 8);
}

/* Slots written out as rows give the same statistics. */
static void test_slots_are_rows(void **state)
{
    struct op_test *test = *state;
    enum { TOKENS = 300, EXPERTS = 16, SLOTS = 4, SEGMENTS = 3 };
    static float row[TOKENS * EXPERTS];
    static float weight[TOKENS * SLOTS];
    static int32_t expert[TOKENS * SLOTS];
    static int32_t segment[TOKENS];
    memset(row, 0, sizeof row);
    for (int i = 0; i < TOKENS; i++) {
        segment[i] = (int32_t)mt_rng_below(5, 0, (uint64_t)i, SEGMENTS);
        for (int s = 0; s < SLOTS; s++) {
            int at = i * SLOTS + s;
            weight[at] = mt_rng_normal(5, 1, (uint64_t)at);
            expert[at] = (i * 7 + s * 5) % EXPERTS;
            if ((i + s) % 6 == 0) expert[at] = -1;
            if (expert[at] >= 0) row[i * EXPERTS + expert[at]] = weight[at];
        }
    }
    double of_slots[2 * SEGMENTS * EXPERTS + SEGMENTS];
    double of_rows[2 * SEGMENTS * EXPERTS + SEGMENTS];
    double count[SEGMENTS * EXPERTS];
    double *squares = of_slots + SEGMENTS * EXPERTS;
    struct mt_slot_stats_forward_args slots = {
        .expert = mt_tensor_2d(expert, MT_I32, TOKENS, SLOTS),
        .weight = mt_tensor_2d(weight, MT_F32, TOKENS, SLOTS),
        .segment = mt_tensor_1d(segment, MT_I32, TOKENS),
        .count = mt_tensor_2d(count, MT_F64, SEGMENTS, EXPERTS),
        .sum = mt_tensor_2d(of_slots, MT_F64, SEGMENTS, EXPERTS),
        .squares = mt_tensor_2d(squares, MT_F64, SEGMENTS, EXPERTS),
        .row_squares = mt_tensor_1d(squares + SEGMENTS * EXPERTS, MT_F64, SEGMENTS),
    };
    assert_int_equal(mt_slot_stats_forward(test->device, &slots), MT_OK);
    squares = of_rows + SEGMENTS * EXPERTS;
    struct mt_column_stats_forward_args rows = {
        .x = mt_tensor_2d(row, MT_F32, TOKENS, EXPERTS),
        .segment = mt_tensor_1d(segment, MT_I32, TOKENS),
        .sum = mt_tensor_2d(of_rows, MT_F64, SEGMENTS, EXPERTS),
        .squares = mt_tensor_2d(squares, MT_F64, SEGMENTS, EXPERTS),
        .row_squares = mt_tensor_1d(squares + SEGMENTS * EXPERTS, MT_F64, SEGMENTS),
    };
    assert_int_equal(mt_column_stats_forward(test->device, &rows), MT_OK);
    assert_doubles(of_slots, of_rows, 2 * SEGMENTS * EXPERTS + SEGMENTS);
}

static void test_slots_refuse(void **state)
{
    struct op_test *test = *state;
    struct slot_example e = slot_example();
    const struct mt_slot_stats_forward_args good = slot_args(&e);
    struct mt_slot_stats_forward_args args = good;
    assert_int_equal(mt_slot_stats_forward(test->device, &good), MT_OK);
    args.expert = mt_tensor_2d(e.weight, MT_F32, 4, 2);
    op_test_refused(test, mt_slot_stats_forward(test->device, &args), MT_ERR_DTYPE, "expert is f32");
    args = good;
    args.weight = (struct mt_tensor){0};
    op_test_refused(test, mt_slot_stats_forward(test->device, &args), MT_ERR_USAGE, "weight is missing");
    args.sum = args.squares = args.row_squares = (struct mt_tensor){0};
    assert_int_equal(mt_slot_stats_forward(test->device, &args), MT_OK); // counts need no weights
    args = good;
    args.weight = mt_tensor_2d(e.weight, MT_F32, 2, 4);
    op_test_refused(test, mt_slot_stats_forward(test->device, &args), MT_ERR_SHAPE, "weight is");
    args = good;
    args.count = (struct mt_tensor){0};
    op_test_refused(test, mt_slot_stats_forward(test->device, &args), MT_ERR_USAGE, "count is missing");
    args.first = args.sum = args.squares = args.row_squares = args.rows = (struct mt_tensor){0};
    args.count = mt_tensor_2d(e.count, MT_F64, 2, 2); // says that there are two experts
    op_test_refused(test, mt_slot_stats_forward(test->device, &args), MT_ERR_USAGE, "expert holds 2");
    args.count = mt_tensor_2d(e.count, MT_F64, 1, 3); // and here, one segment
    op_test_refused(test, mt_slot_stats_forward(test->device, &args), MT_ERR_USAGE, "segment holds 1");
    args = good;
    args.segment = (struct mt_tensor){0};
    op_test_refused(test, mt_slot_stats_forward(test->device, &args), MT_ERR_SHAPE, "count is");
    args = good;
    args.first = mt_tensor_2d(e.first, MT_F64, 3, 2);
    op_test_refused(test, mt_slot_stats_forward(test->device, &args), MT_ERR_SHAPE, "first is");
    args = good;
    args.sum = mt_tensor_2d(e.weight, MT_F32, 2, 3);
    op_test_refused(test, mt_slot_stats_forward(test->device, &args), MT_ERR_DTYPE, "sum is f32");
    args = good;
    args.squares = mt_tensor_2d(e.squares, MT_F64, 1, 3);
    op_test_refused(test, mt_slot_stats_forward(test->device, &args), MT_ERR_SHAPE, "squares is");
    args = good;
    args.row_squares = mt_tensor_1d(e.row_squares, MT_F64, 1);
    op_test_refused(test, mt_slot_stats_forward(test->device, &args), MT_ERR_SHAPE, "row_squares is");
    args = good;
    args.mask.dim[0] = 3;
    op_test_refused(test, mt_slot_stats_forward(test->device, &args), MT_ERR_SHAPE, "mask is");
    e.expert[1] = -2;
    op_test_refused(test, mt_slot_stats_forward(test->device, &good), MT_ERR_USAGE, "expert holds -2");
}

static void test_slots_backward_refuse(void **state)
{
    struct op_test *test = *state;
    struct slot_example e = slot_example();
    float dweight[8];
    const struct mt_slot_stats_backward_args good = {
        .expert = mt_tensor_2d(e.expert, MT_I32, 4, 2),
        .weight = mt_tensor_2d(e.weight, MT_F32, 4, 2),
        .segment = mt_tensor_1d(e.segment, MT_I32, 4),
        .dsum = mt_tensor_2d(e.sum, MT_F64, 2, 3),
        .dweight = mt_tensor_2d(dweight, MT_F32, 4, 2),
    };
    struct mt_slot_stats_backward_args args = good;
    assert_int_equal(mt_slot_stats_backward(test->device, &good), MT_OK);
    args.weight = (struct mt_tensor){0};
    op_test_refused(test, mt_slot_stats_backward(test->device, &args), MT_ERR_USAGE, "weight is missing");
    args = good;
    args.dsum = mt_tensor_2d(e.sum, MT_F64, 3, 2);
    op_test_refused(test, mt_slot_stats_backward(test->device, &args), MT_ERR_USAGE, "expert holds 2");
    args = good;
    args.dsquares = mt_tensor_2d(e.squares, MT_F64, 2, 2);
    op_test_refused(test, mt_slot_stats_backward(test->device, &args), MT_ERR_SHAPE, "dsquares is");
    args = good;
    args.drow_squares = mt_tensor_1d(e.row_squares, MT_F64, 1);
    op_test_refused(test, mt_slot_stats_backward(test->device, &args), MT_ERR_SHAPE, "drow_squares is");
    args = good;
    args.dweight = mt_tensor_2d(dweight, MT_F32, 4, 1);
    op_test_refused(test, mt_slot_stats_backward(test->device, &args), MT_ERR_SHAPE, "dweight is");
    e.segment[3] = 2;
    op_test_refused(test, mt_slot_stats_backward(test->device, &good), MT_ERR_USAGE, "segment holds 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_REF(test_columns),
        ON_CPU(test_columns),
        ON_REF(test_columns_backward),
        ON_CPU(test_columns_backward),
        ON_REF(test_columns_refuse),
        ON_CPU(test_columns_refuse),
        ON_REF(test_columns_backward_refuse),
        ON_CPU(test_columns_backward_refuse),
        ON_REF(test_slots),
        ON_CPU(test_slots),
        ON_REF(test_slots_backward),
        ON_CPU(test_slots_backward),
        ON_REF(test_slots_are_rows),
        ON_CPU(test_slots_are_rows),
        ON_REF(test_slots_refuse),
        ON_CPU(test_slots_refuse),
        ON_REF(test_slots_backward_refuse),
        ON_CPU(test_slots_backward_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
