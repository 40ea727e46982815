/*
 * ortho: refusals, values and couplings computed by hand, what must hold of every form, gates and masks.
 */
#include <math.h>

#include "base/rng.h"
#include "ops/op_test.h"

#define FORMS 3
#define MOST  8 // slots of a token here

static const enum mt_ortho_form forms[FORMS] = {MT_ORTHO_PAIRWISE, MT_ORTHO_SPAN, MT_ORTHO_COSINE};

/* One token's matrix and what came of it. */
struct example {
    int k;
    float gram[MOST * MOST];
    float loss;
    float coupling[MOST * MOST];
};

static void assert_close(double got, double expected)
{
    if (!(fabs(got - expected) <= 2e-7 * (1.0 + fabs(expected)))) {
        fail_msg("%.9g, expected %.9g", got, expected);
    }
}

static void run(const struct op_test *test, struct example *x, enum mt_ortho_form form, float epsilon)
{
    struct mt_ortho_forward_args forward = {.gram = mt_tensor_3d(x->gram, MT_F32, 1, x->k, x->k),
                                            .loss = mt_tensor_1d(&x->loss, MT_F32, 1),
                                            .form = form,
                                            .epsilon = epsilon};
    assert_int_equal(mt_ortho_forward(test->device, &forward), MT_OK);
    struct mt_ortho_backward_args backward = {.gram = forward.gram,
                                              .coupling = mt_tensor_3d(x->coupling, MT_F32, 1, x->k, x->k),
                                              .form = form,
                                              .epsilon = epsilon,
                                              .scale = 1.0f};
    assert_int_equal(mt_ortho_backward(test->device, &backward), MT_OK);
}

/* The Gram matrix of k random rows, row a times scale[a] unless that is NULL. */
static void random_gram(struct example *x, int k, const double *scale)
{
    const int width = 11;
    double rows[MOST * 11];
    x->k = k;
    for (int e = 0; e < k * width; e++) {
        rows[e] = (double)mt_rng_normal(3, 1, (uint64_t)e) * (scale != NULL ? scale[e / width] : 1.0);
    }
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            double dot = 0.0;
            for (int j = 0; j < width; j++) dot += rows[a * width + j] * rows[b * width + j];
            x->gram[a * k + b] = (float)dot;
        }
    }
}

// Two rows of squared lengths 4 and 9 with the inner product 2.
static const struct example two_rows = {.k = 2, .gram = {4, 2, 2, 9}};

static void check_pairwise(const struct op_test *test)
{
    struct example x = two_rows;
    run(test, &x, MT_ORTHO_PAIRWISE, 0.0f);
    assert_close((double)x.loss, 4.0 / 9 + 4.0 / 4);
    run(test, &x, MT_ORTHO_PAIRWISE, 1.0f);
    assert_close((double)x.loss, 4 * 9.0 / 100 + 4 * 4.0 / 25);
    assert_close((double)x.coupling[0], 2 * 4 * (1 - 4) / 125.0);
    assert_close((double)x.coupling[1], 2 * 2 * 9 / 100.0 + 2 * 2 * 4 / 25.0);
    assert_close((double)x.coupling[2], (double)x.coupling[1]);
    assert_close((double)x.coupling[3], 2 * 4 * (1 - 9) / 1000.0);
}

static void check_printed(const struct op_test *test)
{
    struct example x = two_rows;
    struct mt_ortho_backward_args args = {.gram = mt_tensor_3d(x.gram, MT_F32, 1, 2, 2),
                                          .coupling = mt_tensor_3d(x.coupling, MT_F32, 1, 2, 2),
                                          .form = MT_ORTHO_PAIRWISE,
                                          .epsilon = 1.0f,
                                          .scale = 3.0f,
                                          .printed_gradient = true};
    assert_int_equal(mt_ortho_backward(test->device, &args), MT_OK);
    assert_close((double)x.coupling[0], 0.0);
    assert_close((double)x.coupling[1], 3 * 2 / 10.0);
    assert_close((double)x.coupling[2], 3 * 2 / 5.0);
    assert_close((double)x.coupling[3], 0.0);
}

static void check_cosine(const struct op_test *test)
{
    struct example x = two_rows;
    run(test, &x, MT_ORTHO_COSINE, 0.0f);
    assert_close((double)x.loss, 4.0 / (4 * 9));
    run(test, &x, MT_ORTHO_COSINE, 1.0f);
    assert_close((double)x.loss, 4.0 / (5 * 10));
    assert_close((double)x.coupling[0], -2 * 4 / (25.0 * 10));
    assert_close((double)x.coupling[1], 2 * 2 * 2 / (2 * 5.0 * 10));
    assert_close((double)x.coupling[2], (double)x.coupling[1]);
    assert_close((double)x.coupling[3], -2 * 4 / (5.0 * 100));
}

static void check_signed(const struct op_test *test)
{
    struct example x = two_rows;
    run(test, &x, MT_ORTHO_SIGNED, 0.0f);
    assert_close((double)x.loss, 2.0 / 6);
    assert_close((double)x.coupling[0], -1.0 / 12);
    assert_close((double)x.coupling[1], 1.0 / 6);
    assert_close((double)x.coupling[2], 1.0 / 6);
    assert_close((double)x.coupling[3], -1.0 / 27);
}

static void check_span(const struct op_test *test)
{
    struct example x = two_rows;
    run(test, &x, MT_ORTHO_SPAN, 0.0f);
    assert_close((double)x.loss, (4.0 / 9 + 4.0 / 4) / 2);
    // Lengths 3 and 2, ε = 1: u = x/4 and x/3; <u,x>² <u,u>, and s / (√s + 1)⁴ has the slope
    // (√s + 1)⁻⁴ - 2 √s (√s + 1)⁻⁵.
    run(test, &x, MT_ORTHO_SPAN, 1.0f);
    assert_close((double)x.loss, (4 * 9 / 256.0 + 4 * 4 / 81.0) / 2);
    assert_close((double)x.coupling[0], 4 * (1 / 81.0 - 4 / 243.0));
    assert_close((double)x.coupling[1], (2 * 2 * 9 / 256.0 + 2 * 2 * 4 / 81.0) / 2);
    assert_close((double)x.coupling[2], (double)x.coupling[1]);
    assert_close((double)x.coupling[3], 4 * (1 / 256.0 - 6 / 1024.0));
}

static void check_orthogonal(const struct op_test *test)
{
    for (int form = 0; form < FORMS; form++) {
        struct example x = {.k = 5};
        for (int a = 0; a < 5; a++) x.gram[a * 5 + a] = (float)(a + 1);
        run(test, &x, forms[form], 1e-6f);
        assert_true(x.loss == 0.0f);
        for (int pair = 0; pair < 25; pair++) assert_true(x.coupling[pair] == 0.0f);
    }
}

static void check_identical(const struct op_test *test)
{
    for (int k = 2; k <= MOST; k++) {
        struct example x = {.k = k};
        for (int pair = 0; pair < k * k; pair++) x.gram[pair] = 7.3f;
        run(test, &x, MT_ORTHO_PAIRWISE, 0.0f);
        assert_close((double)x.loss, k * (k - 1) * (double)7.3f);
        run(test, &x, MT_ORTHO_SPAN, 0.0f); // the whole row lies in the span, once
        assert_close((double)x.loss, (double)7.3f);
        for (int pair = 0; pair < k * k; pair++) assert_true(isfinite(x.coupling[pair]));
        run(test, &x, MT_ORTHO_COSINE, 0.0f);
        assert_close((double)x.loss, 1.0);
    }
}

static void check_scale_free(const struct op_test *test)
{
    static const double scale[MOST] = {1, 10, 0.01, 3, 1000, 0.5, 7, 2};
    struct example plain;
    struct example scaled;
    random_gram(&plain, 6, NULL);
    random_gram(&scaled, 6, scale);
    run(test, &plain, MT_ORTHO_COSINE, 0.0f);
    run(test, &scaled, MT_ORTHO_COSINE, 0.0f);
    assert_close((double)scaled.loss, (double)plain.loss);
    assert_true(plain.loss > 0.01f);
}

/* The row's share of the others' span is A - 1/(G⁻¹)_aa; G⁻¹ by elimination. */
static double span_by_inverse(const struct example *x)
{
    int k = x->k;
    double work[MOST][2 * MOST] = {0};
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) work[a][b] = (double)x->gram[a * k + b];
        work[a][k + a] = 1.0;
    }
    for (int pivot = 0; pivot < k; pivot++) {
        double first = work[pivot][pivot];
        for (int b = 0; b < 2 * k; b++) work[pivot][b] /= first;
        for (int a = 0; a < k; a++) {
            double factor = a == pivot ? 0.0 : work[a][pivot];
            for (int b = 0; b < 2 * k; b++) work[a][b] -= factor * work[pivot][b];
        }
    }
    double sum = 0.0;
    for (int a = 0; a < k; a++) sum += (double)x->gram[a * k + a] - 1.0 / work[a][k + a];
    return sum / k;
}

static void check_span_identity(const struct op_test *test)
{
    for (int k = 2; k <= MOST; k++) {
        struct example x;
        random_gram(&x, k, NULL);
        run(test, &x, MT_ORTHO_SPAN, 0.0f);
        assert_close((double)x.loss, span_by_inverse(&x));
    }
}

/*
 * Slots 1 and 4 of six are behind the gate and hold NaN; the second token is masked and is NaN all over. The
 * first must be what its four open slots alone would give, up to the mean over slots that a form takes.
 */
static void check_gate_and_mask(const struct op_test *test)
{
    static const int open[] = {0, 2, 3, 5};
    static const double share[FORMS] = {1.0, 4.0 / 6, 4.0 * 3 / (6 * 5)};
    float weight[12] = {0.5f, 0.1f, 0.3f, 0.2f, 0.05f, 0.4f, 1, 1, 1, 1, 1, 1};
    int32_t mask[2] = {1, 0};
    for (int form = 0; form < FORMS; form++) {
        struct example whole;
        struct example part = {.k = 4};
        float gram[72];
        float coupling[72];
        float loss[2];
        random_gram(&whole, 6, NULL);
        for (int e = 0; e < 72; e++) gram[e] = NAN;
        for (int pair = 0; pair < 16; pair++) {
            int place = open[pair / 4] * 6 + open[pair % 4];
            part.gram[pair] = whole.gram[place];
            gram[place] = whole.gram[place];
        }
        run(test, &part, forms[form], 1e-6f);
        struct mt_ortho_forward_args forward = {.gram = mt_tensor_3d(gram, MT_F32, 2, 6, 6),
                                                .weight = mt_tensor_2d(weight, MT_F32, 2, 6),
                                                .mask = mt_tensor_1d(mask, MT_I32, 2),
                                                .loss = mt_tensor_1d(loss, MT_F32, 2),
                                                .form = forms[form],
                                                .epsilon = 1e-6f,
                                                .gate = 0.1f};
        assert_int_equal(mt_ortho_forward(test->device, &forward), MT_OK);
        assert_close((double)loss[0], share[form] * (double)part.loss);
        assert_true(loss[1] == 0.0f);
        struct mt_ortho_backward_args backward = {.gram = forward.gram,
                                                  .weight = forward.weight,
                                                  .mask = forward.mask,
                                                  .coupling = mt_tensor_3d(coupling, MT_F32, 2, 6, 6),
                                                  .form = forms[form],
                                                  .epsilon = 1e-6f,
                                                  .gate = 0.1f,
                                                  .scale = 1.0f};
        assert_int_equal(mt_ortho_backward(test->device, &backward), MT_OK);
        for (int pair = 0; pair < 16; pair++) {
            int place = open[pair / 4] * 6 + open[pair % 4];
            assert_close((double)coupling[place], share[form] * (double)part.coupling[pair]);
            coupling[place] = 0.0f;
        }
        for (int e = 0; e < 72; e++) assert_true(coupling[e] == 0.0f);
    }
}

/* Zero rows and ε = 0: every division by zero is a term that is not there. NaN is not swallowed. */
static void check_zeros_and_nan(const struct op_test *test)
{
    static const float epsilons[] = {0.0f, 1e-12f, 1e-6f};
    for (int form = 0; form < FORMS; form++) {
        for (int e = 0; e < 3; e++) {
            struct example x = {.k = 3};
            run(test, &x, forms[form], epsilons[e]);
            assert_true(x.loss == 0.0f);
            for (int pair = 0; pair < 9; pair++) assert_true(x.coupling[pair] == 0.0f);
            // One row that is not zero has nothing to overlap with.
            x.gram[4] = 5.0f;
            run(test, &x, forms[form], epsilons[e]);
            assert_true(x.loss == 0.0f);
            for (int pair = 0; pair < 9; pair++) assert_true(x.coupling[pair] == 0.0f);
        }
        struct example x;
        random_gram(&x, 3, NULL);
        x.gram[1] = NAN;
        x.gram[3] = NAN;
        run(test, &x, forms[form], 1e-6f);
        assert_true(isnan(x.loss));
        assert_true(isnan(x.coupling[1]));
    }
}

static void check_one_slot(const struct op_test *test)
{
    for (int form = 0; form < FORMS; form++) {
        struct example x = {.k = 1, .gram = {3}, .loss = 1, .coupling = {1}};
        run(test, &x, forms[form], 0.0f);
        assert_true(x.loss == 0.0f);
        assert_true(x.coupling[0] == 0.0f);
    }
}

static void test_hand_computed(void **state)
{
    const struct op_test *test = *state;
    check_pairwise(test);
    check_printed(test);
    check_cosine(test);
    check_signed(test);
    check_span(test);
}

static void test_identities(void **state)
{
    const struct op_test *test = *state;
    check_orthogonal(test);
    check_identical(test);
    check_scale_free(test);
    check_span_identity(test);
}

static void test_edges(void **state)
{
    const struct op_test *test = *state;
    check_gate_and_mask(test);
    check_zeros_and_nan(test);
    check_one_slot(test);
}

static void test_forward_refusals(void **state)
{
    struct op_test *test = *state;
    float data[32] = {0};
    int32_t mask[4] = {0};
    struct mt_ortho_forward_args args = {.form = (enum mt_ortho_form)4, .epsilon = -1.0f, .gate = NAN};
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_USAGE, "gram is missing");
    args.gram = mt_tensor_3d(data, MT_F32, 2, 65, 65);
    args.loss = mt_tensor_1d(data + 20, MT_F32, 2);
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_USAGE, "gram's slots is 65");
    args.gram = mt_tensor_3d(data, MT_F32, 2, 3, 4);
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_SHAPE, "gram is f32 [2, 3, 4]");
    args.gram = mt_tensor_3d(data, MT_BF16, 2, 3, 3);
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_DTYPE, "gram is bf16");
    args.gram = mt_tensor_3d(data, MT_F32, 2, 3, 3);
    args.loss = (struct mt_tensor){0};
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_USAGE, "loss is missing");
    args.loss = mt_tensor_1d(data, MT_F32, 3);
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_SHAPE, "loss is f32 [3]");
    args.loss = mt_tensor_1d(data + 20, MT_F32, 2);
    args.weight = mt_tensor_2d(data, MT_F32, 3, 2);
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_SHAPE, "weight is f32 [3, 2]");
    args.weight = (struct mt_tensor){0};
    args.mask = mt_tensor_1d(data, MT_F32, 2);
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_DTYPE, "mask is f32");
    args.mask = mt_tensor_1d(mask, MT_I32, 4);
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_SHAPE, "mask is i32 [4]");
    args.mask = mt_tensor_1d(mask, MT_I32, 2);
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_USAGE, "form is 4");
    args.form = MT_ORTHO_SPAN;
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_USAGE, "epsilon is -1");
    args.epsilon = INFINITY;
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_USAGE, "epsilon is inf");
    args.epsilon = 0.0f;
    op_test_refused(test, mt_ortho_forward(test->device, &args), MT_ERR_USAGE, "gate is nan");
}

static void test_backward_refusals(void **state)
{
    struct op_test *test = *state;
    float data[18] = {0};
    float target[18];
    struct mt_ortho_backward_args args = {.gram = mt_tensor_3d(data, MT_F32, 2, 3, 3),
                                          .form = MT_ORTHO_COSINE,
                                          .scale = NAN,
                                          .printed_gradient = true};
    op_test_refused(test, mt_ortho_backward(test->device, &args), MT_ERR_USAGE, "coupling is missing");
    args.coupling = mt_tensor_3d(target, MT_F32, 1, 3, 3);
    op_test_refused(test, mt_ortho_backward(test->device, &args), MT_ERR_SHAPE, "coupling is f32 [1, 3, 3]");
    args.coupling = mt_tensor_3d(target, MT_F32, 2, 3, 3);
    op_test_refused(test, mt_ortho_backward(test->device, &args), MT_ERR_USAGE, "scale is nan");
    args.scale = 1.0f;
    op_test_refused(test, mt_ortho_backward(test->device, &args), MT_ERR_USAGE,
                    "form is 2, expected pairwise with printed_gradient");
    args.form = (enum mt_ortho_form) - 1;
    op_test_refused(test, mt_ortho_backward(test->device, &args), MT_ERR_USAGE, "form is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_REF(test_hand_computed),
                                       ON_CPU(test_hand_computed),
                                       ON_REF(test_identities),
                                       ON_CPU(test_identities),
                                       ON_REF(test_edges),
                                       ON_CPU(test_edges),
                                       ON_CPU(test_forward_refusals),
                                       ON_CPU(test_backward_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
