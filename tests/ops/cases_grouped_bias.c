/*
 * Cases of grouped_bias: loads even, uneven, all on one expert, rows left over after the last; some or all
 * experts without a bias; a single one without offsets; narrow biases, padded rows, bf16 rows.
 */
#include "ops/case_files.h"
#include "ops/expert_loads.h"

enum { Y, BIAS, OFFSETS, DY, DBIAS };

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_offsets_of(c, t[Y].dim[0], &t[OFFSETS]);
}

/* Each expert's row of [n,d]. */
static void vectors_of(const struct op_case *c, const struct mt_tensor *stacked,
                       struct mt_tensor vector[MOST_EXPERTS])
{
    for (int64_t e = 0; e < stacked->dim[0]; e++) {
        bool left_out = c->param[ABSENT] == ABSENT_ALL || (c->param[ABSENT] == ABSENT_SOME && e % 3 == 0);
        struct mt_tensor row = mt_tensor_rows(stacked, e, 1);
        vector[e] = mt_tensor_1d(row.data, row.dtype, row.dim[1]);
        if (left_out) vector[e].rank = 0;
    }
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor bias[MOST_EXPERTS];
    vectors_of(c, &t[BIAS], bias);
    return mt_grouped_bias_forward(
        device,
        &(struct mt_grouped_bias_forward_args){
            .y = t[Y], .bias = bias, .experts = experts_of(c), .offsets = offsets_of(c, &t[OFFSETS])});
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor dbias[MOST_EXPERTS];
    vectors_of(c, &t[DBIAS], dbias);
    return mt_grouped_bias_backward(
        device,
        &(struct mt_grouped_bias_backward_args){
            .dy = t[DY], .dbias = dbias, .experts = experts_of(c), .offsets = offsets_of(c, &t[OFFSETS])});
}

static struct op_case *add(struct case_list *list, int64_t rows, int64_t width, int experts, enum load load,
                           enum absent absent, enum mt_dtype bias_type, int64_t padding)
{
    struct op_case *c = case_new(list, MT_OP_grouped_bias_forward, "R=%d d=%d n=%d load %s bias %s%s%s",
                                 (int)rows, (int)width, experts, load_names[load], mt_dtype_name(bias_type),
                                 padding != 0 ? " padded" : "", absent_names[absent]);
    int64_t wide[] = {rows, width};
    c->backward_op = MT_OP_grouped_bias_backward;
    c->tolerance = 2e-6;
    case_experts(c, experts, load, absent);
    c->fill = fill;
    c->forward = forward;
    c->backward = backward;
    case_slot(c, "y", SLOT_UPDATED, MT_F32, 2, wide);
    case_slot(c, "bias", SLOT_INPUT, bias_type, 2, (int64_t[]){experts_of(c), width});
    case_offsets(c);
    case_grad_in(c, "dy", Y);
    case_grad_out(c, "dbias", BIAS); // gradient of y: dy itself
    c->slot[DBIAS].role = SLOT_GRAD_SUM;
    c->slot[Y].row_padding = padding;
    c->slot[DY].row_padding = padding;
    return c;
}

void cases_grouped_bias(struct case_list *list)
{
    add(list, 1, 8, 1, LOAD_EVEN, ABSENT_NONE, MT_F32, 0);
    add(list, 17, 33, 5, LOAD_UNEVEN, ABSENT_NONE, MT_F32, 3);
    add(list, 24, 65, 6, LOAD_EVEN, ABSENT_SOME, MT_BF16, 0);
    add(list, 9, 127, 4, LOAD_ONE, ABSENT_NONE, MT_F16, 1);
    add(list, 9, 12, 4, LOAD_NONE, ABSENT_NONE, MT_F32, 0);
    add(list, 9, 12, 4, LOAD_EVEN, ABSENT_ALL, MT_F32, 0);
    add(list, 11, 20, 0, LOAD_EVEN, ABSENT_NONE, MT_F32, 0);
    add(list, 1000, 96, 128, LOAD_UNEVEN, ABSENT_NONE, MT_F32, 0);
    add(list, 0, 8, 3, LOAD_EVEN, ABSENT_NONE, MT_F32, 0)->no_gradient = true;
    case_retype(add(list, 40, 64, 6, LOAD_UNEVEN, ABSENT_SOME, MT_BF16, 0), MT_BF16, 2, (int[]){Y, DY});

    struct op_case *speed = add(list, 8192, 2880, 32, LOAD_NEARLY_EVEN, ABSENT_NONE, MT_BF16, 0);
    double elements = 8192.0 * 2880.0;
    speed->only_speed = true;
    speed->bytes = elements * 2 * 4;      // y in and out
    speed->backward_bytes = elements * 4; // dy in only
}
