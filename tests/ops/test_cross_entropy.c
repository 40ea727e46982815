/* cross_entropy: refused arguments, hand-computed values, identities, extreme logits; on ref and cpu. */
#include <math.h>
#include <string.h>

#include "metier/ops.h"
#include "support/cmocka_all.h"

#define N 4
#define D 3
#define V 5
#define R 2

static const char *const device_names[] = {"ref", "cpu"};

/* Every operand of a small call, all valid. */
struct fixture {
    struct mt_context ctx;
    struct mt_device *device;
    float hidden[N * D], weight[V * D], bias[V], hidden_xa[N * R], weight_b[V * R];
    int32_t labels[N];
    float loss[N], lse[N], dloss[N];
    float dhidden[N * D], dweight[V * D], dbias[V], dhidden_xa[N * R], dweight_b[V * R];
    struct mt_cross_entropy_args args;
};

static void number(float *values, int count, float start)
{
    for (int i = 0; i < count; i++) values[i] = start + 0.37f * (float)((i * 7) % 11) - 1.5f;
}

static void fixture_open(struct fixture *f, const char *device_name)
{
    memset(f, 0, sizeof *f);
    mt_context_init(&f->ctx, NULL);
    assert_int_equal(mt_device_create(&f->ctx, device_name, 2, &f->device), MT_OK);
    number(f->hidden, N * D, 0.1f);
    number(f->weight, V * D, 0.3f);
    number(f->bias, V, 0.2f);
    number(f->hidden_xa, N * R, 0.5f);
    number(f->weight_b, V * R, 0.4f);
    for (int i = 0; i < N; i++) {
        f->labels[i] = i;
        f->dloss[i] = 1.0f + (float)i;
    }
    f->args = (struct mt_cross_entropy_args){
        .hidden = mt_tensor_2d(f->hidden, MT_F32, N, D),
        .weight = mt_tensor_2d(f->weight, MT_F32, V, D),
        .bias = mt_tensor_1d(f->bias, MT_F32, V),
        .hidden_xa = mt_tensor_2d(f->hidden_xa, MT_F32, N, R),
        .weight_b = mt_tensor_2d(f->weight_b, MT_F32, V, R),
        .labels = mt_tensor_1d(f->labels, MT_I32, N),
        .loss = mt_tensor_1d(f->loss, MT_F32, N),
        .lse = mt_tensor_1d(f->lse, MT_F32, N),
        .dloss = mt_tensor_1d(f->dloss, MT_F32, N),
        .dhidden = mt_tensor_2d(f->dhidden, MT_F32, N, D),
        .dweight = mt_tensor_2d(f->dweight, MT_F32, V, D),
        .dbias = mt_tensor_1d(f->dbias, MT_F32, V),
        .dhidden_xa = mt_tensor_2d(f->dhidden_xa, MT_F32, N, R),
        .dweight_b = mt_tensor_2d(f->dweight_b, MT_F32, V, R),
    };
}

static void fixture_close(struct fixture *f)
{
    mt_device_destroy(f->device);
    assert_int_equal(f->ctx.live_bytes, 0);
}

static void run(struct fixture *f)
{
    enum mt_status status = mt_cross_entropy(f->device, &f->args);
    if (status != MT_OK) fail_msg("%s", f->ctx.message);
}

static void expect_near(double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance)) fail_msg("%.9g, expected %.9g", got, expected);
}

// ------------------------------------------------------------------ refusals

static void expect_refusal(struct fixture *f, enum mt_status expected, const char *part)
{
    enum mt_status status = mt_cross_entropy(f->device, &f->args);
    if (status != expected || strstr(f->ctx.message, part) == NULL ||
        strstr(f->ctx.message, "cross_entropy: ") == NULL) {
        fail_msg("%s (%s), expected %s naming %s", mt_status_text(status), f->ctx.message,
                 mt_status_text(expected), part);
    }
}

/* Each tensor in turn: missing, of the wrong type, of the wrong shape. */
static void refused_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t offset;
        bool needed;
    } fields[] = {
        {"hidden", offsetof(struct mt_cross_entropy_args, hidden), true},
        {"weight", offsetof(struct mt_cross_entropy_args, weight), true},
        {"labels", offsetof(struct mt_cross_entropy_args, labels), true},
        {"loss", offsetof(struct mt_cross_entropy_args, loss), true},
        {"dloss", offsetof(struct mt_cross_entropy_args, dloss), true}, // by the gradients
        {"bias", offsetof(struct mt_cross_entropy_args, bias), true},   // by dbias
        {"hidden_xa", offsetof(struct mt_cross_entropy_args, hidden_xa), true},
        {"weight_b", offsetof(struct mt_cross_entropy_args, weight_b), true},
        {"lse", offsetof(struct mt_cross_entropy_args, lse), false},
        {"dhidden", offsetof(struct mt_cross_entropy_args, dhidden), false},
        {"dweight", offsetof(struct mt_cross_entropy_args, dweight), false},
        {"dbias", offsetof(struct mt_cross_entropy_args, dbias), false},
        {"dhidden_xa", offsetof(struct mt_cross_entropy_args, dhidden_xa), false},
        {"dweight_b", offsetof(struct mt_cross_entropy_args, dweight_b), false},
    };
    struct fixture f;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        fixture_open(&f, "cpu");
        struct mt_tensor *field = (struct mt_tensor *)((char *)&f.args + fields[i].offset);
        struct mt_tensor good = *field;
        *field = (struct mt_tensor){0};
        if (fields[i].needed) {
            expect_refusal(&f, MT_ERR_USAGE, fields[i].name);
        } else {
            assert_int_equal(mt_cross_entropy(f.device, &f.args), MT_OK);
        }
        *field = good;
        field->dtype = good.dtype == MT_I32 ? MT_F32 : MT_I32;
        expect_refusal(&f, MT_ERR_DTYPE, fields[i].name);
        *field = good;
        field->dim[0]++;
        if (i > 0) expect_refusal(&f, MT_ERR_SHAPE, i == 1 ? "bias" : fields[i].name);
        *field = good;
        field->data = NULL;
        expect_refusal(&f, MT_ERR_USAGE, fields[i].name);
        fixture_close(&f);
    }
}

static void refused_values(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "cpu");
    f.labels[2] = V;
    expect_refusal(&f, MT_ERR_USAGE, "labels holds 5 at element 2");
    f.labels[2] = INT32_MIN; // ignored, whatever the number
    run(&f);
    f.args.chunk_rows = -1;
    expect_refusal(&f, MT_ERR_USAGE, "chunk_rows");
    f.args.chunk_rows = 0;
    f.args.weight_b.dim[1] = 1;
    expect_refusal(&f, MT_ERR_SHAPE, "weight_b");
    fixture_close(&f);
    fixture_open(&f, "cpu");
    f.args.weight.dim[0] = 0;
    f.args.bias = f.args.dbias = f.args.dweight = (struct mt_tensor){0};
    f.args.hidden_xa = f.args.dhidden_xa = f.args.weight_b = f.args.dweight_b = (struct mt_tensor){0};
    expect_refusal(&f, MT_ERR_SHAPE, "vocabulary is empty");
    fixture_close(&f);
}

// ------------------------------------------------------------------ values

/* Logits log 1, log 2, log 3: probabilities 1/6, 2/6, 3/6. */
static void values_by_hand(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct mt_context ctx;
        struct mt_device *device = NULL;
        float hidden[] = {1.0f, 2.0f};
        float weight[] = {-2.0f, 1.0f, -2.0f, 1.0f, -2.0f, 1.0f}; // rows orthogonal to hidden
        float bias[] = {0.0f, 0.693147181f, 1.098612289f};
        int32_t labels[] = {2};
        float loss[1], lse[1], dloss[] = {6.0f}, dhidden[2], dweight[6] = {10, 0, 0, 0, 0, 0};
        float dbias[] = {0.0f, 0.0f, 100.0f};
        weight[0] = -1.0f; // logit 0 becomes 1, its bias takes that back
        bias[0] = -1.0f;
        mt_context_init(&ctx, NULL);
        assert_int_equal(mt_device_create(&ctx, device_names[i], 1, &device), MT_OK);
        assert_int_equal(mt_cross_entropy(device,
                                          &(struct mt_cross_entropy_args){
                                              .hidden = mt_tensor_2d(hidden, MT_F32, 1, 2),
                                              .weight = mt_tensor_2d(weight, MT_F32, 3, 2),
                                              .bias = mt_tensor_1d(bias, MT_F32, 3),
                                              .labels = mt_tensor_1d(labels, MT_I32, 1),
                                              .loss = mt_tensor_1d(loss, MT_F32, 1),
                                              .lse = mt_tensor_1d(lse, MT_F32, 1),
                                              .dloss = mt_tensor_1d(dloss, MT_F32, 1),
                                              .dhidden = mt_tensor_2d(dhidden, MT_F32, 1, 2),
                                              .dweight = mt_tensor_2d(dweight, MT_F32, 3, 2),
                                              .dbias = mt_tensor_1d(dbias, MT_F32, 3),
                                          }),
                         MT_OK);
        expect_near((double)loss[0], log(2.0), 1e-6);
        expect_near((double)lse[0], log(6.0), 1e-6);
        static const double g[] = {1.0, 2.0, -3.0};
        for (int v = 0; v < 3; v++) {
            expect_near((double)dweight[2 * v], g[v] * 1.0 + (v == 0 ? 10.0 : 0.0), 1e-5);
            expect_near((double)dweight[2 * v + 1], g[v] * 2.0, 1e-5);
            expect_near((double)dbias[v], g[v] + (v == 2 ? 100.0 : 0.0), 1e-5);
        }
        expect_near((double)dhidden[0], 1.0 * -1.0 + 2.0 * -2.0 + -3.0 * -2.0, 1e-5);
        expect_near((double)dhidden[1], 0.0, 1e-5);
        mt_device_destroy(device);
    }
}

static void identities(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        fixture_open(&f, device_names[i]);
        run(&f);
        float loss[N];
        memcpy(loss, f.loss, sizeof loss);
        // Probabilities sum to 1, so the gradients of a row's logits sum to 0.
        double sum = 0.0;
        for (int v = 0; v < V; v++) sum += (double)f.dbias[v];
        expect_near(sum, 0.0, 1e-5);
        // Adding the same number to every logit moves lse and leaves the loss.
        float lse = f.lse[1];
        for (int v = 0; v < V; v++) f.bias[v] += 4.0f;
        run(&f);
        expect_near((double)f.lse[1], (double)lse + 4.0, 1e-5);
        for (int row = 0; row < N; row++) expect_near((double)f.loss[row], (double)loss[row], 1e-5);
        for (int v = 0; v < V; v++) f.bias[v] -= 4.0f;
        // The low-rank pair is a part of the columns: [hidden | hidden_xa] · [weight | weight_b]ᵀ.
        float wide_hidden[N * (D + R)];
        float wide_weight[V * (D + R)];
        for (int row = 0; row < N; row++) {
            memcpy(wide_hidden + row * (D + R), f.hidden + row * D, D * sizeof(float));
            memcpy(wide_hidden + row * (D + R) + D, f.hidden_xa + row * R, R * sizeof(float));
        }
        for (int v = 0; v < V; v++) {
            memcpy(wide_weight + v * (D + R), f.weight + v * D, D * sizeof(float));
            memcpy(wide_weight + v * (D + R) + D, f.weight_b + v * R, R * sizeof(float));
        }
        struct mt_cross_entropy_args wide = {
            .hidden = mt_tensor_2d(wide_hidden, MT_F32, N, D + R),
            .weight = mt_tensor_2d(wide_weight, MT_F32, V, D + R),
            .bias = f.args.bias,
            .labels = f.args.labels,
            .loss = f.args.loss,
        };
        assert_int_equal(mt_cross_entropy(f.device, &wide), MT_OK);
        for (int row = 0; row < N; row++) expect_near((double)f.loss[row], (double)loss[row], 1e-5);
        fixture_close(&f);
    }
}

static void chunks_do_not_matter(void **state)
{
    (void)state;
    struct fixture whole;
    struct fixture parts;
    fixture_open(&whole, "cpu");
    run(&whole);
    for (int chunk = 1; chunk <= 2 * N; chunk++) {
        fixture_open(&parts, "cpu");
        parts.args.chunk_rows = chunk;
        run(&parts);
        for (int i = 0; i < N; i++) expect_near((double)parts.loss[i], (double)whole.loss[i], 1e-6);
        for (int i = 0; i < N * D; i++) expect_near((double)parts.dhidden[i], (double)whole.dhidden[i], 1e-5);
        for (int i = 0; i < V * D; i++) expect_near((double)parts.dweight[i], (double)whole.dweight[i], 1e-5);
        fixture_close(&parts);
    }
    fixture_close(&whole);
}

/* An ignored row may hold anything: nothing of it reaches a result, except its own lse. */
static void ignored_rows(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        fixture_open(&f, device_names[i]);
        f.labels[1] = -1;
        for (int j = 0; j < D; j++) f.hidden[1 * D + j] = NAN;
        for (int j = 0; j < D; j++) f.dhidden[1 * D + j] = 7.0f;
        f.dloss[1] = NAN;
        run(&f);
        assert_true(f.loss[1] == 0.0f);
        assert_true(isnan(f.lse[1]));
        for (int j = 0; j < D; j++) assert_true(f.dhidden[1 * D + j] == 0.0f);
        for (int j = 0; j < R; j++) assert_true(f.dhidden_xa[1 * R + j] == 0.0f);
        for (int v = 0; v < V; v++) assert_true(isfinite(f.dbias[v]));
        for (int v = 0; v < V * D; v++) assert_true(isfinite(f.dweight[v]));
        for (int row = 0; row < N; row++) assert_true(isfinite(f.loss[row]));
        fixture_close(&f);
    }
}

static void extreme_logits(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        fixture_open(&f, device_names[i]);
        for (int v = 0; v < V; v++) f.bias[v] = -1e30f;
        f.bias[0] = 1e30f;
        f.bias[4] = -INFINITY; // masked out of the vocabulary
        run(&f);
        assert_true(f.loss[0] == 0.0f); // the label has all the probability
        for (int row = 1; row < N; row++) expect_near((double)f.loss[row] / 2e30, 1.0, 1e-6);
        assert_true(f.dbias[4] == 0.0f);
        expect_near((double)f.dbias[0], 2.0 + 3.0 + 4.0, 1e-5);
        expect_near((double)f.dbias[1], -2.0, 1e-5);
        for (int j = 0; j < N * D; j++) assert_true(isfinite(f.dhidden[j]));
        // Not a number in one row stays in that row.
        fixture_close(&f);
        fixture_open(&f, device_names[i]);
        f.hidden[2 * D] = NAN;
        run(&f);
        assert_true(isnan(f.loss[2]) && isnan(f.lse[2]));
        assert_true(isfinite(f.loss[0]) && isfinite(f.loss[1]) && isfinite(f.loss[3]));
        fixture_close(&f);
    }
}

/* The scratch memory of a large call: a chunk of logits, far from [N,V]. Planning touches no operand. */
static void logits_never_exist_at_once(void **state)
{
    (void)state;
    enum { ROWS = 20000, VOCABULARY = 150000, WIDTH = 2048 };
    static int32_t labels[ROWS];
    float stand_in[1];
    struct mt_context ctx;
    struct mt_device *device = NULL;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_device_create(&ctx, "cpu", 2, &device), MT_OK);
    mt_device_set_planning(device, true);
    struct mt_cross_entropy_args args = {
        .hidden = mt_tensor_2d(stand_in, MT_F32, ROWS, WIDTH),
        .weight = mt_tensor_2d(stand_in, MT_BF16, VOCABULARY, WIDTH),
        .labels = mt_tensor_1d(labels, MT_I32, ROWS),
        .loss = mt_tensor_1d(stand_in, MT_F32, ROWS),
        .dloss = mt_tensor_1d(stand_in, MT_F32, ROWS),
        .chunk_rows = 8,
    };
    assert_int_equal(mt_cross_entropy(device, &args), MT_OK);
    assert_true(mt_device_scratch_bytes(device) < (size_t)8 << 20);
    args.dhidden = mt_tensor_2d(stand_in, MT_F32, ROWS, WIDTH);
    assert_int_equal(mt_cross_entropy(device, &args), MT_OK);
    assert_true(mt_device_scratch_bytes(device) < (size_t)16 << 20);
    args.chunk_rows = 0;
    assert_int_equal(mt_cross_entropy(device, &args), MT_OK);
    assert_true(mt_device_scratch_bytes(device) < (size_t)200 << 20); // [N,V] would be 12 GB
    mt_device_destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_tensors),      cmocka_unit_test(refused_values),
        cmocka_unit_test(values_by_hand),       cmocka_unit_test(identities),
        cmocka_unit_test(chunks_do_not_matter), cmocka_unit_test(ignored_rows),
        cmocka_unit_test(extreme_logits),       cmocka_unit_test(logits_never_exist_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
