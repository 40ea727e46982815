/* router_orth: refusals, values and couplings computed by hand, groups, clamped rows. */
#include <math.h>

#include "base/rng.h"
#include "ops/op_test.h"

#define MOST 40 // experts here

struct example {
    int n;
    float gram[MOST * MOST];
    double loss;
    float coupling[MOST * MOST];
};

static void assert_close(double got, double expected)
{
    if (!(fabs(got - expected) <= 2e-7 * (1.0 + fabs(expected)))) {
        fail_msg("%.9g, expected %.9g", got, expected);
    }
}

static void run(const struct op_test *test, struct example *x, enum mt_router_orth_kind kind, int groups)
{
    struct mt_router_orth_forward_args forward = {.gram = mt_tensor_2d(x->gram, MT_F32, x->n, x->n),
                                                  .loss = mt_tensor_1d(&x->loss, MT_F64, 1),
                                                  .kind = kind,
                                                  .groups = groups};
    assert_int_equal(mt_router_orth_forward(test->device, &forward), MT_OK);
    struct mt_router_orth_backward_args backward = {.gram = forward.gram,
                                                    .coupling = mt_tensor_2d(x->coupling, MT_F32, x->n, x->n),
                                                    .kind = kind,
                                                    .groups = groups,
                                                    .scale = 1.0f};
    assert_int_equal(mt_router_orth_backward(test->device, &backward), MT_OK);
}

static void on_devices(void (*check)(const struct op_test *test))
{
    for (int i = 0; i < OP_TEST_DEVICES; i++) {
        struct op_test test;
        op_test_open(&test, op_test_devices[i]);
        check(&test);
        op_test_close(&test);
    }
}

/* The Gram matrix of n random rows. */
static void random_gram(struct example *x, int n)
{
    x->n = n;
    for (int e = 0; e < n; e++) {
        for (int f = 0; f < n; f++) {
            double dot = 0.0;
            for (int j = 0; j < 9; j++) {
                dot += (double)mt_rng_normal(8, (uint64_t)e, (uint64_t)j) *
                       (double)mt_rng_normal(8, (uint64_t)f, (uint64_t)j);
            }
            x->gram[e * n + f] = (float)dot;
        }
    }
}

/* Rows of lengths 2 and 3 with the inner product 2: the cosine is 1/3. */
static void check_cosine(const struct op_test *test)
{
    struct example x = {.n = 2, .gram = {4, 2, 2, 9}};
    run(test, &x, MT_ROUTER_ORTH_COSINE, 0);
    assert_close(x.loss, 2 * (1.0 / 9) / 4);
    assert_close((double)x.coupling[0], -1.0 / 36); // so that the gradient is orthogonal to the row
    assert_close((double)x.coupling[1], 1.0 / 18);
    assert_close((double)x.coupling[2], 1.0 / 18);
    assert_close((double)x.coupling[3], -1.0 / 81);
    run(test, &x, MT_ROUTER_ORTH_COSINE, 2); // alone in its group a row has nothing to be compared with
    assert_true(fabs(x.loss) < 1e-30);
    for (int pair = 0; pair < 4; pair++) assert_true(fabs((double)x.coupling[pair]) < 1e-15);
    struct example one = {.n = 1, .gram = {5}};
    run(test, &one, MT_ROUTER_ORTH_COSINE, 0);
    assert_true(fabs(one.loss) < 1e-30);
    assert_true(fabs((double)one.coupling[0]) < 1e-15);
}

static void check_l1(const struct op_test *test)
{
    struct example x = {.n = 2, .gram = {4, 2, -2, 0.5f}};
    run(test, &x, MT_ROUTER_ORTH_L1, 1);
    assert_close(x.loss, 3 + 2 + 2 + 0.5);
    assert_close((double)x.coupling[0], 2.0);
    assert_close((double)x.coupling[1], 0.0); // the two signs differ
    assert_close((double)x.coupling[2], 0.0);
    assert_close((double)x.coupling[3], -2.0);
}

/* An orthonormal router has nothing to gain, and sign(0) is 0. */
static void check_orthonormal(const struct op_test *test)
{
    for (int kind = MT_ROUTER_ORTH_COSINE; kind <= MT_ROUTER_ORTH_L1; kind++) {
        struct example x = {.n = 20};
        for (int e = 0; e < 20; e++) x.gram[e * 20 + e] = 1.0f;
        run(test, &x, (enum mt_router_orth_kind)kind, 0);
        assert_true(x.loss == 0.0);
        for (int pair = 0; pair < 400; pair++) assert_true(x.coupling[pair] == 0.0f);
    }
}

/* Groups are blocks of the matrix: their mean is the loss, and nothing couples across. */
static void check_groups(const struct op_test *test)
{
    struct example whole;
    random_gram(&whole, 40);
    run(test, &whole, MT_ROUTER_ORTH_COSINE, 2);
    double mean = 0.0;
    for (int group = 0; group < 2; group++) {
        struct example part = {.n = 20};
        for (int pair = 0; pair < 400; pair++) {
            part.gram[pair] = whole.gram[(group * 20 + pair / 20) * 40 + group * 20 + pair % 20];
        }
        run(test, &part, MT_ROUTER_ORTH_COSINE, 0);
        mean += part.loss / 2;
        for (int pair = 0; pair < 400; pair++) {
            float coupling = whole.coupling[(group * 20 + pair / 20) * 40 + group * 20 + pair % 20];
            assert_close((double)coupling, (double)part.coupling[pair] / 2);
        }
        for (int pair = 0; pair < 400; pair++) {
            float across = whole.coupling[(group * 20 + pair / 20) * 40 + (1 - group) * 20 + pair % 20];
            assert_true(across == 0.0f);
        }
    }
    assert_close(whole.loss, mean);
}

/* A zero row counts as one of length 1e-12: its cosine with itself is 0, and its gradient 0 · row. */
static void check_clamped(const struct op_test *test)
{
    struct example x = {.n = 2, .gram = {0, 0, 0, 4}};
    run(test, &x, MT_ROUTER_ORTH_COSINE, 0);
    assert_close(x.loss, 0.25);
    for (int pair = 0; pair < 4; pair++) assert_true(isfinite(x.coupling[pair]));
    assert_true(x.coupling[1] == 0.0f);
    assert_true(x.coupling[2] == 0.0f);
    assert_true(fabs((double)x.coupling[3]) < 1e-15);
}

static void test_values(void **state)
{
    (void)state;
    on_devices(check_cosine);
    on_devices(check_l1);
    on_devices(check_orthonormal);
    on_devices(check_groups);
    on_devices(check_clamped);
}

static void test_refusals(void **state)
{
    (void)state;
    struct op_test test;
    op_test_open(&test, "cpu");
    float data[36] = {0};
    float target[36];
    double loss = 0.0;
    struct mt_router_orth_forward_args args = {.kind = (enum mt_router_orth_kind)2, .groups = 4};
    op_test_refused(&test, mt_router_orth_forward(test.device, &args), MT_ERR_USAGE, "gram is missing");
    args.gram = mt_tensor_2d(data, MT_F32, 0, 0);
    op_test_refused(&test, mt_router_orth_forward(test.device, &args), MT_ERR_USAGE, "gram's rows is 0");
    args.gram = mt_tensor_2d(data, MT_F32, 6, 5);
    op_test_refused(&test, mt_router_orth_forward(test.device, &args), MT_ERR_SHAPE, "gram is f32 [6, 5]");
    args.gram = mt_tensor_2d(data, MT_F32, 6, 6);
    op_test_refused(&test, mt_router_orth_forward(test.device, &args), MT_ERR_USAGE, "kind is 2");
    args.kind = MT_ROUTER_ORTH_L1;
    op_test_refused(&test, mt_router_orth_forward(test.device, &args), MT_ERR_USAGE, "groups is 4");
    args.kind = MT_ROUTER_ORTH_COSINE;
    op_test_refused(&test, mt_router_orth_forward(test.device, &args), MT_ERR_USAGE, "a divisor");
    args.groups = -1;
    op_test_refused(&test, mt_router_orth_forward(test.device, &args), MT_ERR_USAGE, "groups is -1");
    args.groups = 3;
    op_test_refused(&test, mt_router_orth_forward(test.device, &args), MT_ERR_USAGE, "loss is missing");
    args.loss = mt_tensor_1d(target, MT_F32, 1);
    op_test_refused(&test, mt_router_orth_forward(test.device, &args), MT_ERR_DTYPE, "loss is f32");
    args.loss = mt_tensor_1d(&loss, MT_F64, 1);
    assert_int_equal(mt_router_orth_forward(test.device, &args), MT_OK);

    struct mt_router_orth_backward_args backward = {.gram = args.gram, .groups = 3, .scale = INFINITY};
    op_test_refused(&test, mt_router_orth_backward(test.device, &backward), MT_ERR_USAGE,
                    "coupling is missing");
    backward.coupling = mt_tensor_2d(target, MT_F32, 3, 3);
    op_test_refused(&test, mt_router_orth_backward(test.device, &backward), MT_ERR_SHAPE,
                    "coupling is f32 [3, 3]");
    backward.coupling = mt_tensor_2d(target, MT_F32, 6, 6);
    op_test_refused(&test, mt_router_orth_backward(test.device, &backward), MT_ERR_USAGE, "scale is inf");
    op_test_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
