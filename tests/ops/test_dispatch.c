/* dispatch and combine: what a plan promises, transposes, the Gram matrix, in place, the argument checks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "metier/ops.h"

enum { TOKENS = 37, SLOTS = 6, EXPERTS = 16, WIDTH = 45, ROWS = TOKENS * SLOTS };

struct fixture {
    struct mt_context ctx;
    struct mt_device *device[2]; // ref, cpu
    // A routing with missing pairs, and its plan.
    int32_t expert[ROWS];
    int32_t offsets[EXPERTS + 1];
    int32_t row_of_slot[ROWS];
    int32_t slot_of_row[ROWS];
};

static struct mt_tensor floats(float *data, int64_t rows, int64_t columns)
{
    return mt_tensor_2d(data, MT_F32, rows, columns);
}

static struct mt_tensor ints(int32_t *data, int64_t rows, int64_t columns)
{
    return mt_tensor_2d(data, MT_I32, rows, columns);
}

static enum mt_status make_plan(struct fixture *f, struct mt_device *device)
{
    return mt_dispatch_plan(device, &(struct mt_dispatch_plan_args){
                                        .expert = ints(f->expert, TOKENS, SLOTS),
                                        .offsets = mt_tensor_1d(f->offsets, MT_I32, EXPERTS + 1),
                                        .row_of_slot = ints(f->row_of_slot, TOKENS, SLOTS),
                                        .slot_of_row = mt_tensor_1d(f->slot_of_row, MT_I32, ROWS),
                                    });
}

static int setup(void **state)
{
    static struct fixture f;
    mt_context_init(&f.ctx, NULL);
    if (mt_device_create(&f.ctx, "ref", 1, &f.device[0]) != MT_OK) return -1;
    if (mt_device_create(&f.ctx, "cpu", 2, &f.device[1]) != MT_OK) return -1;
    for (int i = 0; i < ROWS; i++) f.expert[i] = (int32_t)mt_rng_below(1, 2, (uint64_t)i, EXPERTS + 2) - 2;
    for (int i = 0; i < ROWS; i++) f.expert[i] = f.expert[i] < -1 ? -1 : f.expert[i];
    for (int s = 0; s < SLOTS; s++) f.expert[5 * SLOTS + s] = -1; // a token without any expert
    *state = &f;
    return make_plan(&f, f.device[0]) == MT_OK ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    mt_device_destroy(f->device[0]);
    mt_device_destroy(f->device[1]);
    return f->ctx.live_bytes == 0 ? 0 : -1;
}

static void fill_normal(float *target, int64_t count, uint64_t stream)
{
    for (int64_t i = 0; i < count; i++) target[i] = mt_rng_normal(3, stream, (uint64_t)i);
}

// ------------------------------------------------------------------ dispatch_plan

static void test_plan_is_a_stable_permutation(void **state)
{
    struct fixture *f = *state;
    for (int d = 0; d < 2; d++) {
        assert_int_equal(make_plan(f, f->device[d]), MT_OK);
        int counts[EXPERTS] = {0};
        int present = 0;
        for (int pair = 0; pair < ROWS; pair++) {
            int32_t row = f->row_of_slot[pair];
            if (f->expert[pair] < 0) {
                assert_int_equal(row, -1);
                continue;
            }
            counts[f->expert[pair]]++;
            present++;
            assert_in_range(row, f->offsets[f->expert[pair]], f->offsets[f->expert[pair] + 1] - 1);
            assert_int_equal(f->slot_of_row[row], pair);
        }
        assert_int_equal(f->offsets[0], 0);
        for (int e = 0; e < EXPERTS; e++) assert_int_equal(f->offsets[e + 1] - f->offsets[e], counts[e]);
        assert_int_equal(f->offsets[EXPERTS], present);
        assert_true(present < ROWS);
        for (int r = 0; r < ROWS; r++) {
            if (r >= present) assert_int_equal(f->slot_of_row[r], -1);
            bool same_expert =
                r > 0 && r < present && f->expert[f->slot_of_row[r]] == f->expert[f->slot_of_row[r - 1]];
            if (same_expert) assert_true(f->slot_of_row[r] > f->slot_of_row[r - 1]);
        }
    }
}

static void test_plan_by_hand(void **state)
{
    struct fixture *f = *state;
    int32_t expert[] = {2, 0, 0, -1, 2, 1};
    for (int d = 0; d < 2; d++) {
        int32_t offsets[5];
        int32_t row_of_slot[6];
        int32_t slot_of_row[6];
        assert_int_equal(mt_dispatch_plan(f->device[d],
                                          &(struct mt_dispatch_plan_args){
                                              .expert = ints(expert, 3, 2),
                                              .offsets = mt_tensor_1d(offsets, MT_I32, 5),
                                              .row_of_slot = ints(row_of_slot, 3, 2),
                                              .slot_of_row = mt_tensor_1d(slot_of_row, MT_I32, 6),
                                          }),
                         MT_OK);
        assert_memory_equal(offsets, ((const int32_t[]){0, 2, 3, 5, 5}), sizeof offsets);
        assert_memory_equal(row_of_slot, ((const int32_t[]){3, 0, 1, -1, 4, 2}), sizeof row_of_slot);
        assert_memory_equal(slot_of_row, ((const int32_t[]){1, 2, 5, 0, 4, -1}), sizeof slot_of_row);
    }
}

static void test_plan_refuses(void **state)
{
    struct fixture *f = *state;
    int32_t expert[] = {0, 4};
    int32_t offsets[5];
    int32_t rows[2];
    int32_t slots[2];
    struct mt_dispatch_plan_args args = {.expert = ints(expert, 1, 2),
                                         .offsets = mt_tensor_1d(offsets, MT_I32, 5),
                                         .row_of_slot = ints(rows, 1, 2),
                                         .slot_of_row = mt_tensor_1d(slots, MT_I32, 2)};
    assert_int_equal(mt_dispatch_plan(f->device[1], &args), MT_ERR_USAGE);
    assert_non_null(strstr(f->ctx.message, "expert"));
    expert[1] = -2;
    assert_int_equal(mt_dispatch_plan(f->device[1], &args), MT_ERR_USAGE);
    expert[1] = 3;
    assert_int_equal(mt_dispatch_plan(f->device[1], &args), MT_OK);
    args.slot_of_row.dim[0] = 1;
    assert_int_equal(mt_dispatch_plan(f->device[1], &args), MT_ERR_SHAPE);
    assert_non_null(strstr(f->ctx.message, "slot_of_row"));
    args.offsets.dim[0] = 1;
    assert_int_equal(mt_dispatch_plan(f->device[1], &args), MT_ERR_USAGE);
    assert_non_null(strstr(f->ctx.message, "offsets"));
}

// ------------------------------------------------------------------ dispatch

static enum mt_status dispatch(struct fixture *f, struct mt_device *device, float *x, float *rows)
{
    return mt_dispatch_forward(device, &(struct mt_dispatch_forward_args){
                                           .x = floats(x, TOKENS, WIDTH),
                                           .slot_of_row = mt_tensor_1d(f->slot_of_row, MT_I32, ROWS),
                                           .rows = floats(rows, ROWS, WIDTH),
                                           .slots = SLOTS,
                                       });
}

/* <dispatch(x), g> = <x, dispatch_backward(g)>: one is the transpose of the other. */
static void test_dispatch_backward_is_the_transpose(void **state)
{
    struct fixture *f = *state;
    static float x[TOKENS * WIDTH], dx[TOKENS * WIDTH], rows[ROWS * WIDTH], g[ROWS * WIDTH];
    fill_normal(x, TOKENS * WIDTH, 1);
    fill_normal(g, (int64_t)ROWS * WIDTH, 2);
    for (int d = 0; d < 2; d++) {
        memset(rows, 0, sizeof rows); // rows without a slot stay so
        assert_int_equal(dispatch(f, f->device[d], x, rows), MT_OK);
        assert_int_equal(mt_dispatch_backward(f->device[d],
                                              &(struct mt_dispatch_backward_args){
                                                  .drows = floats(g, ROWS, WIDTH),
                                                  .row_of_slot = ints(f->row_of_slot, TOKENS, SLOTS),
                                                  .dx = floats(dx, TOKENS, WIDTH),
                                              }),
                         MT_OK);
        double left = 0.0;
        double right = 0.0;
        for (int i = 0; i < ROWS * WIDTH; i++) left += (double)rows[i] * (double)g[i];
        for (int i = 0; i < TOKENS * WIDTH; i++) right += (double)x[i] * (double)dx[i];
        assert_true(fabs(left - right) < 1e-3 * (1.0 + fabs(left)));
        for (int j = 0; j < WIDTH; j++) assert_float_equal(dx[5 * WIDTH + j], 0.0f, 0.0f);
    }
}

static void test_dispatch_refuses(void **state)
{
    struct fixture *f = *state;
    float x[4] = {0};
    float rows[4] = {0};
    int32_t slots[] = {0, 4};
    struct mt_dispatch_forward_args args = {.x = floats(x, 2, 2),
                                            .slot_of_row = mt_tensor_1d(slots, MT_I32, 2),
                                            .rows = floats(rows, 2, 2),
                                            .slots = 2};
    assert_int_equal(mt_dispatch_forward(f->device[1], &args), MT_ERR_USAGE);
    assert_non_null(strstr(f->ctx.message, "slot_of_row"));
    slots[1] = 3;
    assert_int_equal(mt_dispatch_forward(f->device[1], &args), MT_OK);
    int32_t places[] = {0, -1, 1, 2};
    args.row_of_slot = ints(places, 2, 2);
    assert_int_equal(mt_dispatch_forward(f->device[1], &args), MT_ERR_USAGE);
    assert_non_null(strstr(f->ctx.message, "row_of_slot"));
    args.row_of_slot = ints(places, 1, 2);
    assert_int_equal(mt_dispatch_forward(f->device[1], &args), MT_ERR_SHAPE);
    args.row_of_slot = (struct mt_tensor){0};
    args.slots = 0;
    assert_int_equal(mt_dispatch_forward(f->device[1], &args), MT_ERR_USAGE);
    assert_non_null(strstr(f->ctx.message, "slots"));
    struct mt_dispatch_backward_args back = {
        .drows = floats(rows, 2, 2), .row_of_slot = ints(slots, 1, 2), .dx = floats(x, 1, 2)};
    assert_int_equal(mt_dispatch_backward(f->device[1], &back), MT_ERR_USAGE);
    assert_non_null(strstr(f->ctx.message, "row_of_slot"));
}

// ------------------------------------------------------------------ combine

/* The Gram matrix is the direct dot products; a token without rows gives zeros. */
static void test_combine_gram_is_the_dot_products(void **state)
{
    struct fixture *f = *state;
    static float rows[ROWS * WIDTH], weight[ROWS], y[TOKENS * WIDTH], gram[ROWS * SLOTS];
    fill_normal(rows, (int64_t)ROWS * WIDTH, 4);
    fill_normal(weight, ROWS, 5);
    for (int d = 0; d < 2; d++) {
        assert_int_equal(mt_combine_forward(f->device[d],
                                            &(struct mt_combine_forward_args){
                                                .rows = floats(rows, ROWS, WIDTH),
                                                .row_of_slot = ints(f->row_of_slot, TOKENS, SLOTS),
                                                .weight = floats(weight, TOKENS, SLOTS),
                                                .y = floats(y, TOKENS, WIDTH),
                                                .gram = mt_tensor_3d(gram, MT_F32, TOKENS, SLOTS, SLOTS),
                                            }),
                         MT_OK);
        for (int i = 0; i < TOKENS * SLOTS * SLOTS; i++) {
            int32_t a = f->row_of_slot[i / SLOTS];
            int32_t b = f->row_of_slot[i / (SLOTS * SLOTS) * SLOTS + i % SLOTS];
            double dot = 0.0;
            for (int j = 0; j < WIDTH && a >= 0 && b >= 0; j++) {
                dot += (double)rows[a * WIDTH + j] * (double)rows[b * WIDTH + j];
            }
            assert_true(fabs((double)gram[i] - dot) <= 1e-4);
        }
        for (int j = 0; j < WIDTH; j++) assert_float_equal(y[5 * WIDTH + j], 0.0f, 0.0f);
    }
}

static enum mt_status combine_back(struct fixture *f, struct mt_device *device, float *dy, float *rows,
                                   float *weight, float *coupling, float *drows, float *dweight)
{
    return mt_combine_backward(device, &(struct mt_combine_backward_args){
                                           .dy = floats(dy, TOKENS, WIDTH),
                                           .rows = floats(rows, ROWS, WIDTH),
                                           .row_of_slot = ints(f->row_of_slot, TOKENS, SLOTS),
                                           .weight = floats(weight, TOKENS, SLOTS),
                                           .coupling = mt_tensor_3d(coupling, MT_F32, TOKENS, SLOTS, SLOTS),
                                           .drows = floats(drows, ROWS, WIDTH),
                                           .dweight = floats(dweight, TOKENS, SLOTS),
                                       });
}

static void test_combine_backward_in_place_has_the_same_bits(void **state)
{
    struct fixture *f = *state;
    static float rows[ROWS * WIDTH], drows[ROWS * WIDTH], dy[TOKENS * WIDTH], coupling[ROWS * SLOTS];
    static float weight[ROWS], dweight[ROWS], dweight_in_place[ROWS];
    fill_normal(dy, TOKENS * WIDTH, 6);
    fill_normal(weight, ROWS, 7);
    fill_normal(coupling, (int64_t)ROWS * SLOTS, 8); // not symmetric: each row reads its own
    for (int d = 0; d < 2; d++) {
        fill_normal(rows, (int64_t)ROWS * WIDTH, 9);
        memcpy(drows, rows, sizeof rows); // rows of no slot stay as they are
        assert_int_equal(combine_back(f, f->device[d], dy, rows, weight, coupling, drows, dweight), MT_OK);
        assert_int_equal(combine_back(f, f->device[d], dy, rows, weight, coupling, rows, dweight_in_place),
                         MT_OK);
        assert_memory_equal(rows, drows, sizeof rows);
        assert_memory_equal(dweight, dweight_in_place, sizeof dweight);
        for (int s = 0; s < SLOTS; s++) assert_float_equal(dweight[5 * SLOTS + s], 0.0f, 0.0f);
    }
}

static void test_combine_by_hand(void **state)
{
    struct fixture *f = *state;
    float rows[] = {1.0f, 2.0f, 3.0f, -1.0f};
    int32_t row_of_slot[] = {1, 0};
    float weight[] = {0.5f, 2.0f};
    float base[] = {10.0f, 20.0f};
    float dy[] = {1.0f, -1.0f};
    float coupling[] = {0.0f, 1.0f, 2.0f, 0.0f};
    for (int d = 0; d < 2; d++) {
        float y[2];
        float gram[4];
        float drows[4];
        float dweight[2];
        assert_int_equal(mt_combine_forward(f->device[d],
                                            &(struct mt_combine_forward_args){
                                                .rows = floats(rows, 2, 2),
                                                .row_of_slot = ints(row_of_slot, 1, 2),
                                                .weight = floats(weight, 1, 2),
                                                .base = floats(base, 1, 2),
                                                .y = floats(y, 1, 2),
                                                .gram = mt_tensor_3d(gram, MT_F32, 1, 2, 2),
                                            }),
                         MT_OK);
        assert_memory_equal(y, ((const float[]){13.5f, 23.5f}), sizeof y);
        assert_memory_equal(gram, ((const float[]){10.0f, 1.0f, 1.0f, 5.0f}), sizeof gram);
        assert_int_equal(mt_combine_backward(f->device[d],
                                             &(struct mt_combine_backward_args){
                                                 .dy = floats(dy, 1, 2),
                                                 .rows = floats(rows, 2, 2),
                                                 .row_of_slot = ints(row_of_slot, 1, 2),
                                                 .weight = floats(weight, 1, 2),
                                                 .coupling = mt_tensor_3d(coupling, MT_F32, 1, 2, 2),
                                                 .drows = floats(drows, 2, 2),
                                                 .dweight = floats(dweight, 1, 2),
                                             }),
                         MT_OK);
        // Slot 0 has row 1: 0.5·dy + 1·row 0; slot 1 has row 0: 2·dy + 2·row 1.
        assert_memory_equal(drows, ((const float[]){8.0f, -4.0f, 1.5f, 1.5f}), sizeof drows);
        assert_memory_equal(dweight, ((const float[]){4.0f, -1.0f}), sizeof dweight);
    }
}

static void test_combine_refuses(void **state)
{
    struct fixture *f = *state;
    float rows[130] = {0};
    float weight[65] = {0};
    float y[2] = {0};
    float gram[4] = {0};
    int32_t row_of_slot[65] = {0, 2};
    struct mt_combine_forward_args args = {.rows = floats(rows, 2, 2),
                                           .row_of_slot = ints(row_of_slot, 1, 2),
                                           .weight = floats(weight, 1, 2),
                                           .y = floats(y, 1, 2),
                                           .gram = mt_tensor_3d(gram, MT_F32, 1, 2, 2)};
    assert_int_equal(mt_combine_forward(f->device[1], &args), MT_ERR_USAGE);
    assert_non_null(strstr(f->ctx.message, "row_of_slot"));
    row_of_slot[1] = 1;
    assert_int_equal(mt_combine_forward(f->device[1], &args), MT_OK);
    args.gram.dim[1] = 1;
    assert_int_equal(mt_combine_forward(f->device[1], &args), MT_ERR_SHAPE);
    assert_non_null(strstr(f->ctx.message, "gram"));
    float many[65] = {0};
    args.row_of_slot = ints(row_of_slot, 1, 65);
    args.weight = floats(many, 1, 65);
    args.gram = (struct mt_tensor){0};
    assert_int_equal(mt_combine_forward(f->device[1], &args), MT_ERR_USAGE);
    assert_non_null(strstr(f->ctx.message, "row_of_slot"));
    struct mt_combine_backward_args back = {.dy = floats(y, 1, 2),
                                            .rows = floats(rows, 2, 2),
                                            .row_of_slot = ints(row_of_slot, 1, 2),
                                            .weight = floats(weight, 1, 2),
                                            .coupling = mt_tensor_3d(gram, MT_F32, 1, 2, 2),
                                            .drows = floats(rows, 2, 2),
                                            .dweight = floats(weight, 1, 2)};
    assert_int_equal(mt_combine_backward(f->device[1], &back), MT_OK);
    back.drows = floats(rows, 3, 2);
    assert_int_equal(mt_combine_backward(f->device[1], &back), MT_ERR_SHAPE);
    assert_non_null(strstr(f->ctx.message, "drows"));
    back.drows = floats(rows, 2, 2);
    back.coupling.dtype = MT_I32;
    assert_int_equal(mt_combine_backward(f->device[1], &back), MT_ERR_DTYPE);
    assert_non_null(strstr(f->ctx.message, "coupling"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_is_a_stable_permutation),
        cmocka_unit_test(test_plan_by_hand),
        cmocka_unit_test(test_plan_refuses),
        cmocka_unit_test(test_dispatch_backward_is_the_transpose),
        cmocka_unit_test(test_dispatch_refuses),
        cmocka_unit_test(test_combine_gram_is_the_dot_products),
        cmocka_unit_test(test_combine_backward_in_place_has_the_same_bits),
        cmocka_unit_test(test_combine_by_hand),
        cmocka_unit_test(test_combine_refuses),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
