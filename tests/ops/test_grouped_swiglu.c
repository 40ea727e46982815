/* grouped_swiglu and its backward: hand-computed values, the very bits of the ops they stand for, refusals.
 */
#include "ops/op_test.h"

#define ROWS    3
#define INNER   2
#define OUTER   2
#define EXPERTS 2

/* A block of two experts, one row each; the third row is nobody's. Weights are [INNER,OUTER]. */
struct block {
    float x[ROWS * OUTER];
    float weight[3][EXPERTS][INNER * OUTER]; // of gate, up; of the backward's sum
    int32_t offsets[EXPERTS + 1];
    float gate[ROWS * INNER], up[ROWS * INNER], y[ROWS * INNER];
    struct mt_tensor view[3][EXPERTS];
    struct mt_product_term term[3];
};

/* Terms and weights as the ops want them; after copying a block, too. */
static void block_views(struct block *b)
{
    for (int i = 0; i < 3; i++) {
        for (int e = 0; e < EXPERTS; e++) b->view[i][e] = mt_tensor_2d(b->weight[i][e], MT_F32, INNER, OUTER);
        b->term[i] = (struct mt_product_term){.x = mt_tensor_2d(b->x, MT_F32, ROWS, OUTER),
                                              .weight = b->view[i],
                                              .transpose_weight = i < 2,
                                              .alpha = 1.0f};
    }
}

static void block_init(struct block *b)
{
    *b = (struct block){.x = {1, 2, 3, 4, 5, 6},
                        .weight = {{{1, 0, 0, 0}, {0, 0, 1, -1}}, // gate: rows (1,0), (0,-1)
                                   {{1, 1, 2, 1}, {1, 0, 0, 1}},  // up: (3,4), (3,4)
                                   {{1, 0, 0, 2}, {0, 1, 1, 0}}},
                        .offsets = {0, 1, 2},
                        .gate = {0, 0, 0, 0, 7, 8},
                        .up = {0, 0, 0, 0, 9, 10}};
    block_views(b);
}

static struct mt_grouped_sum_args sum_of(struct block *b, int i, float *y)
{
    return (struct mt_grouped_sum_args){.terms = &b->term[i],
                                        .count = 1,
                                        .experts = EXPERTS,
                                        .offsets = mt_tensor_1d(b->offsets, MT_I32, EXPERTS + 1),
                                        .y = mt_tensor_2d(y, MT_F32, ROWS, INNER)};
}

static struct mt_grouped_swiglu_args forward_of(struct block *b)
{
    struct mt_grouped_swiglu_args args = {.gate = sum_of(b, 0, b->gate),
                                          .y = mt_tensor_2d(b->y, MT_F32, ROWS, INNER)};
    args.up = sum_of(b, 1, b->up);
    return args;
}

static struct mt_grouped_swiglu_backward_args backward_of(struct block *b)
{
    struct mt_tensor gate = mt_tensor_2d(b->gate, MT_F32, ROWS, INNER);
    struct mt_tensor up = mt_tensor_2d(b->up, MT_F32, ROWS, INNER);
    return (struct mt_grouped_swiglu_backward_args){
        .sum = sum_of(b, 2, b->y), .gate = gate, .up = up, .dgate = gate, .dup = up};
}

static void test_by_hand(void **state)
{
    struct op_test *test = *state;
    struct block b;
    block_init(&b);
    struct mt_grouped_swiglu_args args = forward_of(&b);
    assert_int_equal(mt_grouped_swiglu(test->device, &args), MT_OK);
    assert_memory_equal(b.gate, ((float[]){1, 0, 0, -1, 7, 8}), sizeof b.gate); // the last row stays
    assert_memory_equal(b.up, ((float[]){3, 4, 3, 4, 9, 10}), sizeof b.up);
    const float y[] = {3 * 0.731058579f, 0, 0, -4 * 0.268941421f};
    for (int j = 0; j < 4; j++) assert_float_equal(b.y[j], y[j], 1e-6f);

    struct mt_grouped_swiglu_backward_args back = backward_of(&b);
    assert_int_equal(mt_grouped_swiglu_backward(test->device, &back), MT_OK);
    // d is (1,4) and (4,3); silu'(1) = 0.927670512, silu'(0) = 1/2, silu'(-1) = 0.0723294880
    const float dgate[] = {1 * 3 * 0.927670512f, 4 * 4 * 0.5f, 4 * 3 * 0.5f, 3 * 4 * 0.0723294880f};
    const float dup[] = {0.731058579f, 0, 0, -3 * 0.268941421f};
    for (int j = 0; j < 4; j++) {
        assert_float_equal(b.gate[j], dgate[j], 1e-6f);
        assert_float_equal(b.up[j], dup[j], 1e-6f);
        assert_float_equal(b.y[j], y[j], 1e-6f);
    }
}

/* On the cpu both are the ops one after the other, bit for bit. */
static void test_same_bits(void **state)
{
    struct op_test *test = *state;
    struct block b;
    struct block apart;
    block_init(&b);
    block_init(&apart);
    struct mt_grouped_swiglu_args args = forward_of(&b);
    struct mt_grouped_swiglu_args parts = forward_of(&apart);
    struct mt_swiglu_forward_args swiglu = {.gate = parts.gate.y, .up = parts.up.y, .y = parts.y};
    assert_int_equal(mt_grouped_swiglu(test->device, &args), MT_OK);
    assert_int_equal(mt_grouped_sum(test->device, &parts.gate), MT_OK);
    assert_int_equal(mt_grouped_sum(test->device, &parts.up), MT_OK);
    assert_int_equal(mt_swiglu_forward(test->device, &swiglu), MT_OK);
    assert_memory_equal(b.y, apart.y, sizeof b.y);

    struct mt_grouped_swiglu_backward_args back = backward_of(&b);
    struct mt_grouped_swiglu_backward_args last = backward_of(&apart);
    struct mt_swiglu_backward_args gradient = {.dy = last.sum.y,
                                               .gate = last.gate,
                                               .up = last.up,
                                               .dgate = last.dgate,
                                               .dup = last.dup,
                                               .y = last.sum.y};
    assert_int_equal(mt_grouped_swiglu_backward(test->device, &back), MT_OK);
    assert_int_equal(mt_grouped_sum(test->device, &last.sum), MT_OK);
    assert_int_equal(mt_swiglu_backward(test->device, &gradient), MT_OK);
    assert_memory_equal(b.gate, apart.gate, sizeof b.gate);
    assert_memory_equal(b.up, apart.up, sizeof b.up);
    assert_memory_equal(b.y, apart.y, sizeof b.y);
}

static void test_refusals(void **state)
{
    struct op_test *test = *state;
    struct block b;
    block_init(&b);
    struct mt_grouped_swiglu_args args = forward_of(&b);
    args.gate.beta = 1.0f;
    op_test_refused(test, mt_grouped_swiglu(test->device, &args), MT_ERR_USAGE, "gate: beta is 1");
    args = forward_of(&b);
    args.up.count = 0;
    op_test_refused(test, mt_grouped_swiglu(test->device, &args), MT_ERR_USAGE, "up: count is 0");
    args = forward_of(&b);
    args.up.experts = 1;
    args.up.offsets.dim[0] = 2;
    op_test_refused(test, mt_grouped_swiglu(test->device, &args), MT_ERR_USAGE,
                    "different experts or offsets");
    args = forward_of(&b);
    int32_t offsets[] = {0, 2, 2};
    args.up.offsets = mt_tensor_1d(offsets, MT_I32, EXPERTS + 1);
    op_test_refused(test, mt_grouped_swiglu(test->device, &args), MT_ERR_USAGE,
                    "different experts or offsets");
    args = forward_of(&b);
    args.y.dim[0] = 2;
    op_test_refused(test, mt_grouped_swiglu(test->device, &args), MT_ERR_SHAPE, "y is f32 [2, 2]");
    struct mt_grouped_swiglu_backward_args back = backward_of(&b);
    back.sum.beta = 0.5f;
    op_test_refused(test, mt_grouped_swiglu_backward(test->device, &back), MT_ERR_USAGE, "sum: beta is 0.5");
    back = backward_of(&b);
    back.dup.rank = 0;
    op_test_refused(test, mt_grouped_swiglu_backward(test->device, &back), MT_ERR_USAGE, "dup is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_REF(test_by_hand), ON_CPU(test_by_hand), ON_CPU(test_same_bits),
                                       ON_CPU(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
