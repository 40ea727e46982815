/*
 * Attention blocks against finite differences, in double on ref: every kind of q-k norm with and without
 * clipping, biases, fewer key heads than heads, a window; latent attention with compressed queries and
 * without. Tests src/model/layers/attention_grouped.c and src/model/layers/attention_latent.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "model/layers/attention_grouped.h"
#include "model/layers/attention_latent.h"
#include "support/cmocka_all.h"

#define TOKENS    7
#define WIDTH     6
#define MOST      24   // tensors of a block that learn
#define MOST_REAL 4096 // elements of all of them
#define REGION    65536
#define STEP      1e-5
#define TOLERANCE 1e-7

/* Parameters with their gradients, and everything a block needs. */
struct block {
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_model_desc desc;
    struct mt_layer_params params;
    struct mt_attention_grouped grouped;
    struct mt_attention_latent latent;
    struct mt_pass pass;
    double values[MOST_REAL], gradients[MOST_REAL];
    int64_t used;
    struct mt_tensor value[MOST], gradient[MOST];
    int count;
    int32_t positions[TOKENS], offsets[3];
    float cosine[TOKENS * 8], sine[TOKENS * 8];
    double x[TOKENS * WIDTH], y[TOKENS * WIDTH], dy[TOKENS * WIDTH], dx[TOKENS * WIDTH];
    char *saved, *work;
};

/* A random tensor that learns; rank 1 when rows is 0. */
static void add_tensor(struct block *block, int64_t rows, int64_t columns, struct mt_tensor *value,
                       struct mt_tensor *gradient)
{
    int64_t count = (rows > 0 ? rows : 1) * columns;
    assert_true(block->used + count <= MOST_REAL && block->count < MOST);
    double *values = block->values + block->used;
    double *gradients = block->gradients + block->used;
    for (int64_t i = 0; i < count; i++)
        values[i] =
            0.5 * (double)mt_rng_normal(17, (uint64_t)block->count, (uint64_t)i) + (rows == 0 ? 0.7 : 0.0);
    *value = rows > 0 ? mt_tensor_2d(values, MT_F64, rows, columns) : mt_tensor_1d(values, MT_F64, columns);
    *gradient =
        rows > 0 ? mt_tensor_2d(gradients, MT_F64, rows, columns) : mt_tensor_1d(gradients, MT_F64, columns);
    block->value[block->count] = *value;
    block->gradient[block->count++] = *gradient;
    block->used += count;
}

static void add_linear(struct block *block, int64_t out, int64_t in, struct mt_linear *linear)
{
    struct mt_tensor *value = &block->value[block->count];
    linear->dweight = &block->gradient[block->count];
    linear->weight = (struct mt_weight){.stored = value, .count = 1, .out = out, .in = in};
    add_tensor(block, out, in, value, linear->dweight);
    if (block->desc.attention_bias) add_tensor(block, 0, out, &linear->bias, &linear->dbias);
}

static struct block *new_block(void)
{
    struct block *block = calloc(1, sizeof *block);
    assert_non_null(block);
    mt_context_init(&block->ctx, NULL);
    assert_int_equal(mt_device_create(&block->ctx, "ref", 1, &block->device), MT_OK);
    block->saved = calloc(1, REGION);
    block->work = calloc(1, REGION);
    assert_true(block->saved != NULL && block->work != NULL);
    return block;
}

static void free_block(struct block *block)
{
    mt_device_destroy(block->device);
    free(block->saved);
    free(block->work);
    free(block);
}

/* Two sequences; angles of no particular kind. */
static void make_pass(struct block *block)
{
    int64_t pairs = block->desc.rope_width / 2;
    memcpy(block->offsets, ((int32_t[]){0, 5, TOKENS}), sizeof block->offsets);
    for (int i = 0; i < TOKENS; i++) block->positions[i] = i < 5 ? i : i - 5;
    for (int i = 0; i < TOKENS * pairs; i++) {
        block->cosine[i] = cosf(0.3f * (float)i);
        block->sine[i] = sinf(0.3f * (float)i);
    }
    for (int i = 0; i < TOKENS * WIDTH; i++) {
        block->x[i] = (double)mt_rng_normal(5, 100, (uint64_t)i);
        block->dy[i] = (double)mt_rng_normal(5, 101, (uint64_t)i);
    }
    block->pass = (struct mt_pass){
        .device = block->device,
        .desc = &block->desc,
        .type = MT_F64,
        .exact = MT_F64,
        .tokens = TOKENS,
        .sequences = 2,
        .positions = mt_tensor_1d(block->positions, MT_I32, TOKENS),
        .offsets = mt_tensor_1d(block->offsets, MT_I32, 3),
        .cosine = mt_tensor_2d(block->cosine, MT_F32, TOKENS, pairs),
        .sine = mt_tensor_2d(block->sine, MT_F32, TOKENS, pairs),
    };
    struct mt_planner saved = {.base = block->saved};
    struct mt_planner work = {.base = block->work};
    if (block->desc.attention == MT_ATTENTION_LATENT) {
        mt_attention_latent_plan(&block->latent, &block->pass, &block->params, true, &saved, &work);
    } else {
        mt_attention_grouped_plan(&block->grouped, &block->pass, &block->params, block->desc.window, true,
                                  &saved, &work);
    }
    assert_true(saved.bytes <= REGION && work.bytes <= REGION);
}

/* Σ dy · y. */
static double loss_of(struct block *block)
{
    struct mt_tensor x = mt_tensor_2d(block->x, MT_F64, TOKENS, WIDTH);
    struct mt_tensor y = mt_tensor_2d(block->y, MT_F64, TOKENS, WIDTH);
    enum mt_status status =
        block->desc.attention == MT_ATTENTION_LATENT
            ? mt_attention_latent_forward(&block->pass, &block->params, &block->latent, &x, &y)
            : mt_attention_grouped_forward(&block->pass, &block->params, &block->grouped, &x, &y);
    if (status != MT_OK) fail_msg("forward: %s", block->ctx.message);
    double loss = 0.0;
    for (int i = 0; i < TOKENS * WIDTH; i++) loss += block->dy[i] * block->y[i];
    return loss;
}

static void backward(struct block *block, bool want_input)
{
    struct mt_tensor x = mt_tensor_2d(block->x, MT_F64, TOKENS, WIDTH);
    struct mt_tensor dy = mt_tensor_2d(block->dy, MT_F64, TOKENS, WIDTH);
    struct mt_tensor dx = mt_tensor_2d(block->dx, MT_F64, TOKENS, WIDTH);
    const struct mt_tensor *wanted = want_input ? &dx : NULL;
    memset(block->gradients, 0, sizeof block->gradients);
    // Work memory belongs to nobody between the two.
    memset(block->work, 0x5A, REGION);
    enum mt_status status =
        block->desc.attention == MT_ATTENTION_LATENT
            ? mt_attention_latent_backward(&block->pass, &block->params, &block->latent, &dy, &x, wanted)
            : mt_attention_grouped_backward(&block->pass, &block->params, &block->grouped, &dy, &x, wanted);
    if (status != MT_OK) fail_msg("backward: %s", block->ctx.message);
}

static void check_elements(struct block *block, const char *what, double *values, const double *gradients,
                           int64_t count)
{
    for (int64_t i = 0; i < count; i += 1 + count / 12) { // a dozen of each tensor
        double start = values[i];
        values[i] = start + STEP;
        double above = loss_of(block);
        values[i] = start - STEP;
        double below = loss_of(block);
        values[i] = start;
        double measured = (above - below) / (2.0 * STEP);
        if (!(fabs(measured - gradients[i]) <= TOLERANCE * (1.0 + fabs(measured))))
            fail_msg("%s, element %d: measured %.9g, computed %.9g", what, (int)i, measured, gradients[i]);
    }
}

static void check_block(struct block *block, const char *what)
{
    make_pass(block);
    (void)loss_of(block);
    backward(block, true);
    double *expected = malloc(sizeof block->gradients);
    assert_non_null(expected);
    memcpy(expected, block->gradients, sizeof block->gradients);
    check_elements(block, what, block->x, block->dx, (int64_t)TOKENS * WIDTH);
    for (int i = 0; i < block->count; i++) {
        char name[96];
        (void)snprintf(name, sizeof name, "%s, tensor %d", what, i);
        int64_t offset = (double *)block->gradient[i].data - block->gradients;
        check_elements(block, name, block->value[i].data, expected + offset,
                       mt_tensor_count(&block->value[i]));
    }
    // Without the input's gradient the rest is the same.
    (void)loss_of(block);
    backward(block, false);
    assert_memory_equal(expected, block->gradients, sizeof block->gradients);
    free(expected);
}

static void check_grouped(enum mt_qk_norm qk_norm, float clip, int window, bool bias)
{
    struct block *block = new_block();
    block->desc = (struct mt_model_desc){
        .width = WIDTH,
        .norm_epsilon = 1e-5f,
        .attention = MT_ATTENTION_GROUPED,
        .heads = 4,
        .key_heads = 2,
        .head_width = 4,
        .value_width = 4,
        .rope_width = 4,
        .attention_bias = bias,
        .qk_norm = qk_norm,
        .clip = clip,
        .window = window,
        .score_scale = 0.6f,
        .rope_layout = MT_ROPE_HALF,
    };
    struct mt_layer_params *params = &block->params;
    add_linear(block, 16, WIDTH, &params->q);
    add_linear(block, 8, WIDTH, &params->k);
    add_linear(block, 8, WIDTH, &params->v);
    add_linear(block, WIDTH, 16, &params->o);
    if (qk_norm != MT_QK_NORM_NONE) {
        bool whole = qk_norm == MT_QK_NORM_WHOLE;
        add_tensor(block, 0, whole ? 16 : 4, &params->q_norm.weight, &params->q_norm.dweight);
        add_tensor(block, 0, whole ? 8 : 4, &params->k_norm.weight, &params->k_norm.dweight);
    }
    char what[96];
    (void)snprintf(what, sizeof what, "norm %d clip %g window %d bias %d", (int)qk_norm, (double)clip, window,
                   (int)bias);
    assert_true(mt_attention_grouped_is_trained(params));
    check_block(block, what);
    free_block(block);
}

static void test_grouped(void **state)
{
    (void)state;
    for (int norm = MT_QK_NORM_NONE; norm <= MT_QK_NORM_HEAD; norm++) {
        check_grouped((enum mt_qk_norm)norm, 0.0f, 0, false);
        check_grouped((enum mt_qk_norm)norm, 0.8f, 0, true);
        check_grouped((enum mt_qk_norm)norm, 0.8f, 2, false);
    }
}

static void check_latent(int64_t query_rank, enum mt_rope_layout layout)
{
    struct block *block = new_block();
    block->desc = (struct mt_model_desc){
        .width = WIDTH,
        .latent_epsilon = 1e-6f,
        .attention = MT_ATTENTION_LATENT,
        .heads = 3,
        .key_heads = 3,
        .head_width = 7,
        .nope_width = 3,
        .rope_width = 4,
        .value_width = 5,
        .query_rank = query_rank,
        .latent_rank = 6,
        .score_scale = 0.6f,
        .rope_layout = layout,
    };
    struct mt_layer_params *params = &block->params;
    if (query_rank > 0) {
        add_linear(block, query_rank, WIDTH, &params->q_a);
        add_tensor(block, 0, query_rank, &params->q_a_norm.weight, &params->q_a_norm.dweight);
        add_linear(block, 21, query_rank, &params->q_b);
    } else {
        add_linear(block, 21, WIDTH, &params->q);
    }
    add_linear(block, 10, WIDTH, &params->kv_a);
    add_tensor(block, 0, 6, &params->kv_a_norm.weight, &params->kv_a_norm.dweight);
    add_linear(block, 24, 6, &params->kv_b);
    add_linear(block, WIDTH, 15, &params->o);
    assert_true(mt_attention_latent_is_trained(params));
    check_block(block, query_rank > 0 ? "latent, compressed queries" : "latent");
    free_block(block);
}

static void test_latent(void **state)
{
    (void)state;
    check_latent(0, MT_ROPE_INTERLEAVED);
    check_latent(5, MT_ROPE_INTERLEAVED);
    check_latent(5, MT_ROPE_HALF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grouped),
        cmocka_unit_test(test_latent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
