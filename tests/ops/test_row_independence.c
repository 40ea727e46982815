/*
 * What an op gives for a row depends on that row alone: a random choice of rows, and each row by itself,
 * give the bits they gave among all others, at every level. Sequences of attention likewise.
 * Tests src/ops/cpu.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "ops/op_test.h"
#include "tensor/dtype.h"

#define ROWS        37
#define MOST_WIDTH  1056
#define MOST_ARRAYS 3
#define WEIGHTS     (600 * 130)
#define SLOTS       3

/* The rows a call works on. */
struct row_call {
    struct mt_device *device;
    int64_t rows;
    float *in[MOST_ARRAYS];  // [rows, in_width]
    float *out[MOST_ARRAYS]; // [rows, out_width]
    const int32_t *label;    // [rows], in [0, 200)
};

/* What all rows share. */
struct shared_operands {
    enum mt_dtype type;
    int64_t width; // of a row
    int64_t columns;
    void *weight;  // WEIGHTS elements of the type
    float *vector; // [MOST_WIDTH]
};

struct row_op {
    const char *name;
    bool weighs; // reads the weight: asked in every type
    int inputs;
    int outputs;
    int64_t out_width[MOST_ARRAYS]; // 0: as wide as a row; -1: as many as the weight has columns
    enum mt_status (*run)(const struct row_call *call, const struct shared_operands *shared);
};

static struct mt_tensor matrix(void *data, int64_t rows, int64_t columns)
{
    return mt_tensor_2d(data, MT_F32, rows, columns);
}

// ------------------------------------------------------------------ the ops

static enum mt_status run_gemm(const struct row_call *call, const struct shared_operands *s)
{
    struct mt_gemm_args args = {.a = matrix(call->in[0], call->rows, s->width),
                                .b = mt_tensor_2d(s->weight, s->type, s->columns, s->width),
                                .c = matrix(call->out[0], call->rows, s->columns),
                                .transpose_b = true,
                                .alpha = 0.7f};
    enum mt_status status = mt_gemm(call->device, &args);
    args.beta = 0.3f;
    args.alpha = -1.3f;
    return status != MT_OK ? status : mt_gemm(call->device, &args);
}

static enum mt_status run_gemm_plain(const struct row_call *call, const struct shared_operands *s)
{
    struct mt_gemm_args args = {.a = matrix(call->in[0], call->rows, s->width),
                                .b = mt_tensor_2d(s->weight, s->type, s->width, s->columns),
                                .c = matrix(call->out[0], call->rows, s->columns),
                                .alpha = 0.7f};
    enum mt_status status = mt_gemm(call->device, &args);
    args.beta = 0.3f;
    return status != MT_OK ? status : mt_gemm(call->device, &args);
}

/* One expert has all rows, before it one without. */
static enum mt_status run_grouped(const struct row_call *call, const struct shared_operands *s)
{
    int32_t offsets[] = {0, 0, (int32_t)call->rows};
    struct mt_tensor weight[2];
    for (int e = 0; e < 2; e++) weight[e] = mt_tensor_2d(s->weight, s->type, s->columns, s->width);
    struct mt_grouped_gemm_args args = {.x = matrix(call->in[0], call->rows, s->width),
                                        .weight = weight,
                                        .experts = 2,
                                        .offsets = mt_tensor_1d(offsets, MT_I32, 3),
                                        .y = matrix(call->out[0], call->rows, s->columns),
                                        .transpose_weight = true,
                                        .alpha = 1.0f};
    return mt_grouped_gemm(call->device, &args);
}

static enum mt_status run_rmsnorm(const struct row_call *call, const struct shared_operands *s)
{
    struct mt_tensor x = matrix(call->in[0], call->rows, s->width);
    struct mt_tensor weight = mt_tensor_1d(s->vector, MT_F32, s->width);
    struct mt_tensor rstd = mt_tensor_1d(call->out[1], MT_F32, call->rows);
    struct mt_rmsnorm_forward_args forward = {.x = x,
                                              .weight = weight,
                                              .y = matrix(call->out[0], call->rows, s->width),
                                              .rstd = rstd,
                                              .epsilon = 1e-5f};
    struct mt_rmsnorm_backward_args backward = {.dy = matrix(call->in[1], call->rows, s->width),
                                                .x = x,
                                                .weight = weight,
                                                .rstd = rstd,
                                                .dx = matrix(call->out[2], call->rows, s->width)};
    enum mt_status status = mt_rmsnorm_forward(call->device, &forward);
    return status != MT_OK ? status : mt_rmsnorm_backward(call->device, &backward);
}

static enum mt_status run_layernorm(const struct row_call *call, const struct shared_operands *s)
{
    struct mt_layernorm_forward_args args = {.x = matrix(call->in[0], call->rows, s->width),
                                             .weight = mt_tensor_1d(s->vector, MT_F32, s->width),
                                             .bias = mt_tensor_1d(s->vector, MT_F32, s->width),
                                             .y = matrix(call->out[0], call->rows, s->width),
                                             .epsilon = 1e-5f};
    return mt_layernorm_forward(call->device, &args);
}

static enum mt_status run_swiglu(const struct row_call *call, const struct shared_operands *s)
{
    struct mt_tensor gate = matrix(call->in[0], call->rows, s->width);
    struct mt_tensor up = matrix(call->in[1], call->rows, s->width);
    struct mt_swiglu_forward_args forward = {
        .gate = gate, .up = up, .y = matrix(call->out[0], call->rows, s->width)};
    struct mt_swiglu_backward_args backward = {.dy = matrix(call->in[2], call->rows, s->width),
                                               .gate = gate,
                                               .up = up,
                                               .dgate = matrix(call->out[1], call->rows, s->width),
                                               .dup = matrix(call->out[2], call->rows, s->width)};
    enum mt_status status = mt_swiglu_forward(call->device, &forward);
    return status != MT_OK ? status : mt_swiglu_backward(call->device, &backward);
}

static enum mt_status run_sigmoid_gate(const struct row_call *call, const struct shared_operands *s)
{
    struct mt_tensor x = matrix(call->in[0], call->rows, s->width);
    struct mt_tensor gates = matrix(call->in[1], call->rows, s->width); // of which the first column counts
    struct mt_tensor gate = mt_tensor_columns(&gates, 0, 1);
    struct mt_sigmoid_gate_forward_args forward = {
        .x = x, .gate = gate, .y = matrix(call->out[0], call->rows, s->width)};
    struct mt_sigmoid_gate_backward_args backward = {.dy = matrix(call->in[2], call->rows, s->width),
                                                     .x = x,
                                                     .gate = gate,
                                                     .dx = matrix(call->out[1], call->rows, s->width),
                                                     .dgate = matrix(call->out[2], call->rows, 1)};
    enum mt_status status = mt_sigmoid_gate_forward(call->device, &forward);
    return status != MT_OK ? status : mt_sigmoid_gate_backward(call->device, &backward);
}

static enum mt_status score(const struct row_call *call, const struct shared_operands *s,
                            enum mt_score_kind kind)
{
    struct mt_tensor probs = matrix(call->out[0], call->rows, s->width);
    struct mt_router_score_forward_args forward = {
        .logits = matrix(call->in[0], call->rows, s->width), .probs = probs, .kind = kind};
    struct mt_router_score_backward_args backward = {.probs = probs,
                                                     .dprobs = matrix(call->in[1], call->rows, s->width),
                                                     .dlogits = matrix(call->out[1], call->rows, s->width),
                                                     .kind = kind};
    enum mt_status status = mt_router_score_forward(call->device, &forward);
    return status != MT_OK ? status : mt_router_score_backward(call->device, &backward);
}

static enum mt_status run_softmax(const struct row_call *call, const struct shared_operands *s)
{
    return score(call, s, MT_SCORE_SOFTMAX);
}

static enum mt_status run_sigmoid(const struct row_call *call, const struct shared_operands *s)
{
    return score(call, s, MT_SCORE_SIGMOID);
}

/* The choice of SLOTS and its weights; indices lie in the output's floats as bits. */
static enum mt_status run_topk(const struct row_call *call, const struct shared_operands *s)
{
    struct mt_tensor expert = mt_tensor_2d(call->out[0], MT_I32, call->rows, SLOTS);
    struct mt_topk_args topk = {.probs = matrix(call->in[0], call->rows, s->width), .expert = expert};
    struct mt_topk_weights_forward_args weights = {.probs = topk.probs,
                                                   .expert = expert,
                                                   .weight = matrix(call->out[1], call->rows, SLOTS),
                                                   .normalise = true,
                                                   .scale = 1.5f};
    enum mt_status status = mt_topk(call->device, &topk);
    return status != MT_OK ? status : mt_topk_weights_forward(call->device, &weights);
}

/* A token's two slots are its rows of the first two inputs. */
static enum mt_status run_combine(const struct row_call *call, const struct shared_operands *s)
{
    int32_t row_of_slot[ROWS][2];
    float weight[ROWS][2];
    float *rows = malloc((size_t)(2 * call->rows * s->width) * sizeof *rows);
    assert_non_null(rows);
    for (int64_t i = 0; i < call->rows; i++) {
        for (int slot = 0; slot < 2; slot++) {
            row_of_slot[i][slot] = (int32_t)(slot * call->rows + i);
            weight[i][slot] = call->in[slot][i * s->width];
            memcpy(rows + row_of_slot[i][slot] * s->width, call->in[slot] + i * s->width,
                   (size_t)s->width * sizeof *rows);
        }
    }
    struct mt_combine_forward_args args = {
        .rows = matrix(rows, 2 * call->rows, s->width),
        .row_of_slot = mt_tensor_2d(row_of_slot, MT_I32, call->rows, 2),
        .weight = matrix(weight, call->rows, 2),
        .base = matrix(call->in[2], call->rows, s->width),
        .y = matrix(call->out[0], call->rows, s->width),
        .gram = mt_tensor_3d(call->out[1], MT_F32, call->rows, 2, 2),
    };
    enum mt_status status = mt_combine_forward(call->device, &args);
    free(rows);
    return status;
}

static enum mt_status run_cross_entropy(const struct row_call *call, const struct shared_operands *s)
{
    float dloss[ROWS];
    int32_t labels[ROWS];
    for (int64_t i = 0; i < call->rows; i++) {
        dloss[i] = 0.25f;
        labels[i] = (int32_t)(call->label[i] % s->columns);
    }
    struct mt_cross_entropy_args args = {
        .hidden = matrix(call->in[0], call->rows, s->width),
        .weight = mt_tensor_2d(s->weight, s->type, s->columns, s->width),
        .labels = mt_tensor_1d(labels, MT_I32, call->rows),
        .loss = mt_tensor_1d(call->out[0], MT_F32, call->rows),
        .lse = mt_tensor_1d(call->out[1], MT_F32, call->rows),
        .dloss = mt_tensor_1d(dloss, MT_F32, call->rows),
        .dhidden = matrix(call->out[2], call->rows, s->width),
    };
    return mt_cross_entropy(call->device, &args);
}

static const struct row_op ops[] = {
    {"gemm NT", true, 1, 1, {-1}, run_gemm},
    {"gemm NN", true, 1, 1, {-1}, run_gemm_plain},
    {"grouped_gemm", true, 1, 1, {-1}, run_grouped},
    {"cross_entropy", true, 1, 3, {1, 1, 0}, run_cross_entropy},
    {"rmsnorm", false, 2, 3, {0, 1, 0}, run_rmsnorm},
    {"layernorm", false, 1, 1, {0}, run_layernorm},
    {"swiglu", false, 3, 3, {0, 0, 0}, run_swiglu},
    {"sigmoid_gate", false, 3, 3, {0, 0, 1}, run_sigmoid_gate},
    {"router_score softmax", false, 2, 2, {0, 0}, run_softmax},
    {"router_score sigmoid", false, 2, 2, {0, 0}, run_sigmoid},
    {"topk", false, 1, 2, {SLOTS, SLOTS}, run_topk},
    {"combine", false, 3, 2, {0, 4}, run_combine},
};

// ------------------------------------------------------------------ all rows, and some

/* Memory for one call, and its labels. */
struct row_memory {
    struct row_call call;
    int32_t label[ROWS];
};

static float *floats(size_t count)
{
    float *memory = calloc(count, sizeof *memory);
    assert_non_null(memory);
    return memory;
}

static void open_memory(struct row_memory *memory)
{
    memory->call.label = memory->label;
    for (int i = 0; i < MOST_ARRAYS; i++) {
        memory->call.in[i] = floats((size_t)ROWS * MOST_WIDTH);
        memory->call.out[i] = floats((size_t)ROWS * MOST_WIDTH);
    }
}

static void close_memory(struct row_memory *memory)
{
    for (int i = 0; i < MOST_ARRAYS; i++) {
        free(memory->call.in[i]);
        free(memory->call.out[i]);
    }
}

static int64_t output_width(const struct row_op *op, int output, const struct shared_operands *shared)
{
    if (op->out_width[output] > 0) return op->out_width[output];
    return op->out_width[output] == 0 ? shared->width : shared->columns;
}

/* Runs the op on the rows listed and compares with what they gave among all. */
static void check_rows(const struct row_op *op, const struct shared_operands *shared,
                       const struct row_memory *all, struct row_memory *some, const int64_t *row,
                       int64_t rows)
{
    size_t row_bytes = (size_t)shared->width * sizeof(float);
    some->call.rows = rows;
    for (int64_t r = 0; r < rows; r++) {
        some->label[r] = all->label[row[r]];
        for (int i = 0; i < op->inputs; i++) {
            memcpy(some->call.in[i] + r * shared->width, all->call.in[i] + row[r] * shared->width, row_bytes);
        }
    }
    assert_int_equal(op->run(&some->call, shared), MT_OK);
    for (int i = 0; i < op->outputs; i++) {
        int64_t width = output_width(op, i, shared);
        for (int64_t r = 0; r < rows; r++) {
            const float *expected = all->call.out[i] + row[r] * width;
            const float *got = some->call.out[i] + r * width;
            if (memcmp(expected, got, (size_t)width * sizeof(float)) == 0) continue;
            fail_msg("%s, %s weights, width %d, columns %d: output %d of row %d among %d is not what it is "
                     "among %d",
                     op->name, mt_dtype_name(shared->type), (int)shared->width, (int)shared->columns, i,
                     (int)row[r], (int)rows, ROWS);
        }
    }
}

static void check_op(struct mt_device *device, const struct row_op *op, const struct shared_operands *shared)
{
    static const int64_t counts[] = {1, 3, 4, 8, 9, 17};
    struct row_memory all;
    struct row_memory some;
    open_memory(&all);
    open_memory(&some);
    all.call.device = device;
    some.call.device = device;
    all.call.rows = ROWS;
    for (uint64_t i = 0; i < ROWS; i++) all.label[i] = (int32_t)(mt_rng_u32(3, 0, i) % 200);
    for (uint64_t i = 0; i < MOST_ARRAYS; i++) {
        for (uint64_t j = 0; j < (uint64_t)(ROWS * shared->width); j++) {
            all.call.in[i][j] = 4.0f * mt_rng_uniform(4, i, j) - 2.0f;
        }
    }
    assert_int_equal(op->run(&all.call, shared), MT_OK);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        int64_t row[ROWS];
        for (int64_t r = 0; r < counts[c]; r++) row[r] = mt_rng_u32(5, c, (uint64_t)r) % ROWS;
        check_rows(op, shared, &all, &some, row, counts[c]);
    }
    for (int64_t r = 0; r < ROWS; r += 9) check_rows(op, shared, &all, &some, &r, 1);
    close_memory(&all);
    close_memory(&some);
}

static void check_level(struct mt_device *device)
{
    static const int64_t sizes[][2] = {{7, 3}, {33, 128}, {64, 31}, {130, 600}, {801, 70}, {1056, 70}};
    static const enum mt_dtype types[] = {MT_F32, MT_BF16, MT_F16};
    struct shared_operands shared = {.weight = floats(WEIGHTS), .vector = floats(MOST_WIDTH)};
    for (uint64_t i = 0; i < MOST_WIDTH; i++) shared.vector[i] = mt_rng_uniform(2, 0, i) + 0.5f;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        shared.type = types[t];
        for (int64_t i = 0; i < WEIGHTS; i++) {
            double value = (double)mt_rng_uniform(1, 0, (uint64_t)i) - 0.5;
            // Whole lines of weights whose products, or themselves, are below the normal range.
            if (i / 4000 % 3 == 0) value *= 0x1p-125;
            mt_store(shared.type, shared.weight, i, value);
        }
        for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
            shared.width = sizes[size][0];
            shared.columns = sizes[size][1];
            for (size_t op = 0; op < sizeof ops / sizeof ops[0]; op++) {
                if (t == 0 || ops[op].weighs) check_op(device, &ops[op], &shared);
            }
        }
    }
    free(shared.weight);
    free(shared.vector);
}

// ------------------------------------------------------------------ sequences of attention

#define HEADS     4
#define KEY_HEADS 2
#define HEAD      24
#define SEQUENCES 4
#define TOKENS    450

/* One call over sequences given by their ends; the arrays start at the first of them. */
static void attend(struct mt_device *device, float *q, float *kv, int32_t *offsets, int64_t sequences,
                   float *out)
{
    int64_t tokens = offsets[sequences];
    struct mt_attention_forward_args args = {
        .q = mt_tensor_3d(q, MT_F32, tokens, HEADS, HEAD),
        .k = mt_tensor_3d(kv, MT_F32, tokens, KEY_HEADS, HEAD),
        .v = mt_tensor_3d(kv, MT_F32, tokens, KEY_HEADS, HEAD),
        .q_offsets = mt_tensor_1d(offsets, MT_I32, sequences + 1),
        .k_offsets = mt_tensor_1d(offsets, MT_I32, sequences + 1),
        .out = mt_tensor_3d(out, MT_F32, tokens, HEADS, HEAD),
        .scale = 0.2f,
    };
    assert_int_equal(mt_attention_forward(device, &args), MT_OK);
}

static void check_sequences(struct mt_device *device)
{
    int32_t offsets[SEQUENCES + 1] = {0, 1, 4, 150, TOKENS};
    size_t count = (size_t)TOKENS * HEADS * HEAD;
    float *q = floats(count);
    float *kv = floats(count);
    float *together = floats(count);
    float *alone = floats(count);
    for (uint64_t i = 0; i < count; i++) {
        q[i] = 4.0f * mt_rng_uniform(6, 0, i) - 2.0f;
        kv[i] = 4.0f * mt_rng_uniform(6, 1, i) - 2.0f;
    }
    attend(device, q, kv, offsets, SEQUENCES, together);
    for (int b = 0; b < SEQUENCES; b++) {
        int32_t own[] = {0, offsets[b + 1] - offsets[b]};
        int64_t start = (int64_t)offsets[b] * HEADS * HEAD;
        attend(device, q + start, kv + (int64_t)offsets[b] * KEY_HEADS * HEAD, own, 1, alone);
        assert_memory_equal(together + start, alone, (size_t)own[1] * HEADS * HEAD * sizeof(float));
    }
    free(q);
    free(kv);
    free(together);
    free(alone);
}

static void test_every_level(void **state)
{
    (void)state;
    static const char *const levels[] = {"v1", "v3", "v4", "amx", "neon", "sve", "bf16", "base"};
    for (size_t level = 0; level < sizeof levels / sizeof levels[0]; level++) {
        struct mt_context ctx;
        struct mt_device *device = NULL;
        mt_context_init(&ctx, NULL);
        assert_int_equal(setenv("METIER_CPU_LEVEL", levels[level], 1), 0);
        enum mt_status status = mt_device_create(&ctx, "cpu", 2, &device);
        assert_int_equal(unsetenv("METIER_CPU_LEVEL"), 0);
        if (status != MT_OK) continue; // a level the machine lacks
        check_level(device);
        check_sequences(device);
        mt_device_destroy(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_level)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
