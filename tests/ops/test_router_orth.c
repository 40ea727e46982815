/* router_orth: refusals, values and gradients computed by hand, groups, clamped rows, rows that are parallel.
 */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "ops/op_test.h"

#define MOST 40 // rows here, and columns

struct example {
    int n, d;
    float rows[MOST * MOST];
    double loss;
    float gradient[MOST * MOST];
    double squares;
};

static void assert_close(double got, double expected)
{
    if (!(fabs(got - expected) <= 2e-7 * (1.0 + fabs(expected)))) {
        fail_msg("%.9g, expected %.9g", got, expected);
    }
}

/* Loss and gradient; the gradient is added to zeros. */
static void run(const struct op_test *test, struct example *x, enum mt_router_orth_kind kind, int groups)
{
    struct mt_router_orth_forward_args forward = {.weight = mt_tensor_2d(x->rows, MT_F32, x->n, x->d),
                                                  .loss = mt_tensor_1d(&x->loss, MT_F64, 1),
                                                  .kind = kind,
                                                  .groups = groups};
    assert_int_equal(mt_router_orth_forward(test->device, &forward), MT_OK);
    memset(x->gradient, 0, sizeof x->gradient);
    struct mt_router_orth_backward_args backward = {.weight = forward.weight,
                                                    .dweight = mt_tensor_2d(x->gradient, MT_F32, x->n, x->d),
                                                    .squares = mt_tensor_1d(&x->squares, MT_F64, 1),
                                                    .kind = kind,
                                                    .groups = groups,
                                                    .scale = 1.0f};
    assert_int_equal(mt_router_orth_backward(test->device, &backward), MT_OK);
}

static void random_rows(struct example *x, int n, int d)
{
    x->n = n;
    x->d = d;
    for (int i = 0; i < n * d; i++) x->rows[i] = mt_rng_normal(8, 1, (uint64_t)i);
}

/* Rows of lengths 2 and 3 with the inner product 2: the cosine is 1/3. */
static void check_cosine(const struct op_test *test)
{
    struct example x = {.n = 2, .d = 3, .rows = {2, 0, 0, 1, 2, 2}};
    static const double gradient[] = {0, 1.0 / 9, 1.0 / 9, 8.0 / 81, -2.0 / 81, -2.0 / 81};
    run(test, &x, MT_ROUTER_ORTH_COSINE, 0);
    assert_close(x.loss, 2 * (1.0 / 9) / 4);
    for (int i = 0; i < 6; i++) assert_close((double)x.gradient[i], gradient[i]);
    assert_close(x.squares, 2.0 / 81 + 72.0 / 6561);
    run(test, &x, MT_ROUTER_ORTH_COSINE, 2); // alone in its group a row has nothing to be compared with
    assert_true(fabs(x.loss) < 1e-30);
    for (int i = 0; i < 6; i++) assert_true(fabs((double)x.gradient[i]) < 1e-15);
    struct example one = {.n = 1, .d = 2, .rows = {5, 3}};
    run(test, &one, MT_ROUTER_ORTH_COSINE, 0);
    assert_true(fabs(one.loss) < 1e-30);
    for (int i = 0; i < 2; i++) assert_true(fabs((double)one.gradient[i]) < 1e-15);
}

static void check_l1(const struct op_test *test)
{
    struct example x = {.n = 2, .d = 2, .rows = {2, 0, -0.5f, 0.25f}}; // G: 4, -1, 0.3125
    static const double gradient[] = {5, -0.5, -3, -0.5};
    run(test, &x, MT_ROUTER_ORTH_L1, 1);
    assert_close(x.loss, 3 + 1 + 1 + 0.6875);
    for (int i = 0; i < 4; i++) assert_close((double)x.gradient[i], gradient[i]);
    assert_close(x.squares, 34.5);
}

/* An orthonormal router has nothing to gain, and sign(0) is 0. */
static void check_orthonormal(const struct op_test *test)
{
    for (int kind = MT_ROUTER_ORTH_COSINE; kind <= MT_ROUTER_ORTH_L1; kind++) {
        struct example x = {.n = 20, .d = 20};
        for (int e = 0; e < 20; e++) x.rows[e * 20 + e] = 1.0f;
        run(test, &x, (enum mt_router_orth_kind)kind, 0);
        assert_true(x.loss == 0.0);
        assert_true(x.squares == 0.0);
        for (int i = 0; i < 400; i++) assert_true(x.gradient[i] == 0.0f);
    }
}

/* Groups know nothing of each other: the loss is their mean. */
static void check_groups(const struct op_test *test)
{
    struct example whole;
    random_rows(&whole, 40, 9);
    run(test, &whole, MT_ROUTER_ORTH_COSINE, 2);
    double mean = 0.0;
    for (int group = 0; group < 2; group++) {
        struct example part = {.n = 20, .d = 9};
        memcpy(part.rows, whole.rows + (ptrdiff_t)group * 180, 180 * sizeof(float));
        run(test, &part, MT_ROUTER_ORTH_COSINE, 0);
        mean += part.loss / 2;
        for (int i = 0; i < 180; i++) {
            assert_close((double)whole.gradient[group * 180 + i], (double)part.gradient[i] / 2);
        }
    }
    assert_close(whole.loss, mean);
}

/* A zero row counts as one of length 1e-12: its cosine with itself is 0, and its gradient 0 · row. */
static void check_clamped(const struct op_test *test)
{
    struct example x = {.n = 2, .d = 2, .rows = {0, 0, 2, 0}};
    run(test, &x, MT_ROUTER_ORTH_COSINE, 0);
    assert_close(x.loss, 0.25);
    for (int i = 0; i < 4; i++) assert_true(x.gradient[i] == 0.0f);
}

/* In one dimension every cosine is 1 or -1 and stays so: no gradient at all, not even a rounded one. */
static void check_one_column(const struct op_test *test)
{
    struct example x;
    random_rows(&x, 37, 1);
    run(test, &x, MT_ROUTER_ORTH_COSINE, 0);
    assert_close(x.loss, 36.0 / 37);
    assert_true(x.squares == 0.0);
    for (int i = 0; i < 37; i++) assert_true(x.gradient[i] == 0.0f);
}

/*
 * Rows a small angle apart: turning, which is all the cosine feels, is what remains of a large sum. The
 * gradient stays at right angles to its row, and two rows r ± t, t ⟂ r, have it by hand.
 */
static void check_nearly_parallel(const struct op_test *test)
{
    const float t = 0x1p-11f;
    struct example two = {.n = 2, .d = 2, .rows = {1, t, 1, -t}};
    run(test, &two, MT_ROUTER_ORTH_COSINE, 0);
    double square = (double)t * (double)t;
    double cosine = (1 - square) / (1 + square);
    double along = cosine * (1 - cosine) / (1 + square);               // in the first column
    double across = -cosine * (1 + cosine) / (1 + square) * (double)t; // in the second
    assert_true(fabs((double)two.gradient[0] / along - 1) < 1e-6);
    assert_true(fabs((double)two.gradient[1] / across - 1) < 1e-6);
    struct example x;
    random_rows(&x, 30, 12);
    for (int i = 0; i < 360; i++) x.rows[i] = x.rows[i % 12] + 1e-3f * x.rows[i];
    run(test, &x, MT_ROUTER_ORTH_COSINE, 0);
    for (int e = 0; e < 30; e++) {
        double dot = 0.0;
        double lengths[2] = {0.0, 0.0};
        for (int j = 0; j < 12; j++) {
            double row = (double)x.rows[e * 12 + j];
            double gradient = (double)x.gradient[e * 12 + j];
            dot += row * gradient;
            lengths[0] += row * row;
            lengths[1] += gradient * gradient;
        }
        assert_true(lengths[1] > 0.0);
        assert_true(fabs(dot) < 2e-7 * sqrt(lengths[0] * lengths[1]));
    }
}

/* What was in dweight stays in the sum; squares are of what was added, and can be had alone. */
static void check_outputs(const struct op_test *test)
{
    for (int kind = MT_ROUTER_ORTH_COSINE; kind <= MT_ROUTER_ORTH_L1; kind++) {
        struct example x;
        random_rows(&x, 7, 5);
        run(test, &x, (enum mt_router_orth_kind)kind, 0);
        float twice[35];
        memcpy(twice, x.gradient, sizeof twice);
        double squares = 0.0;
        struct mt_router_orth_backward_args args = {.weight = mt_tensor_2d(x.rows, MT_F32, 7, 5),
                                                    .squares = mt_tensor_1d(&squares, MT_F64, 1),
                                                    .kind = (enum mt_router_orth_kind)kind,
                                                    .scale = -2.0f};
        assert_int_equal(mt_router_orth_backward(test->device, &args), MT_OK);
        double sum = 0.0;
        for (int i = 0; i < 35; i++) sum += (double)x.gradient[i] * (double)x.gradient[i];
        assert_close(x.squares / sum, 1.0);
        assert_close(squares / x.squares, 4.0);
        args.squares = (struct mt_tensor){0};
        args.dweight = mt_tensor_2d(twice, MT_F32, 7, 5);
        assert_int_equal(mt_router_orth_backward(test->device, &args), MT_OK);
        for (int i = 0; i < 35; i++) assert_close((double)twice[i], -(double)x.gradient[i]);
    }
}

static void test_values(void **state)
{
    const struct op_test *test = *state;
    check_cosine(test);
    check_l1(test);
    check_orthonormal(test);
    check_groups(test);
    check_clamped(test);
    check_one_column(test);
    check_nearly_parallel(test);
    check_outputs(test);
}

static void test_refusals(void **state)
{
    struct op_test *test = *state;
    float data[36] = {0};
    float target[36] = {0};
    double loss = 0.0;
    struct mt_router_orth_forward_args args = {.kind = (enum mt_router_orth_kind)2, .groups = 4};
    op_test_refused(test, mt_router_orth_forward(test->device, &args), MT_ERR_USAGE, "weight is missing");
    args.weight = mt_tensor_2d(data, MT_F32, 0, 5);
    op_test_refused(test, mt_router_orth_forward(test->device, &args), MT_ERR_USAGE, "loss is missing");
    args.loss = mt_tensor_1d(&loss, MT_F64, 1);
    op_test_refused(test, mt_router_orth_forward(test->device, &args), MT_ERR_USAGE, "weight's rows is 0");
    args.weight = mt_tensor_2d(data, MT_I32, 6, 5);
    op_test_refused(test, mt_router_orth_forward(test->device, &args), MT_ERR_DTYPE, "weight is i32");
    args.weight = mt_tensor_2d(data, MT_F32, 6, 5);
    op_test_refused(test, mt_router_orth_forward(test->device, &args), MT_ERR_USAGE, "kind is 2");
    args.kind = MT_ROUTER_ORTH_L1;
    op_test_refused(test, mt_router_orth_forward(test->device, &args), MT_ERR_USAGE, "groups is 4");
    args.kind = MT_ROUTER_ORTH_COSINE;
    op_test_refused(test, mt_router_orth_forward(test->device, &args), MT_ERR_USAGE, "a divisor");
    args.groups = -1;
    op_test_refused(test, mt_router_orth_forward(test->device, &args), MT_ERR_USAGE, "groups is -1");
    args.groups = 3;
    args.loss = mt_tensor_1d(target, MT_F32, 1);
    op_test_refused(test, mt_router_orth_forward(test->device, &args), MT_ERR_DTYPE, "loss is f32");
    args.loss = mt_tensor_1d(&loss, MT_F64, 1);
    assert_int_equal(mt_router_orth_forward(test->device, &args), MT_OK);

    struct mt_router_orth_backward_args backward = {.weight = args.weight, .groups = 3, .scale = INFINITY};
    op_test_refused(test, mt_router_orth_backward(test->device, &backward), MT_ERR_USAGE,
                    "dweight is missing");
    backward.dweight = mt_tensor_2d(target, MT_F32, 3, 3);
    op_test_refused(test, mt_router_orth_backward(test->device, &backward), MT_ERR_SHAPE,
                    "dweight is f32 [3, 3]");
    backward.dweight = mt_tensor_2d(target, MT_F32, 6, 5);
    backward.squares = mt_tensor_1d(data, MT_F32, 1);
    op_test_refused(test, mt_router_orth_backward(test->device, &backward), MT_ERR_DTYPE, "squares is f32");
    backward.squares = mt_tensor_1d(&loss, MT_F64, 1);
    op_test_refused(test, mt_router_orth_backward(test->device, &backward), MT_ERR_USAGE, "scale is inf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_REF(test_values), ON_CPU(test_values), ON_CPU(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
