/* Cases of bias: in place, odd widths, padded rows, narrow biases, many rows. */
#include "ops/case_files.h"

enum { X, BIAS, Y, DY, DBIAS };
enum { IN_PLACE };

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_bias_forward_args args = {.x = t[X], .bias = t[BIAS], .y = t[Y]};
    if (c->param[IN_PLACE]) {
        enum mt_status status = mt_copy(device, &(struct mt_copy_args){.x = t[X], .y = t[Y]});
        if (status != MT_OK) return status;
        args.x = t[Y];
    }
    return mt_bias_forward(device, &args);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    return mt_bias_backward(device, &(struct mt_bias_backward_args){.dy = t[DY], .dbias = t[DBIAS]});
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t width, bool in_place,
                           enum mt_dtype bias_type, int64_t padding)
{
    struct op_case *c =
        case_new(list, MT_OP_bias_forward, "T=%d d=%d%s bias %s%s", (int)tokens, (int)width,
                 in_place ? " in place" : "", mt_dtype_name(bias_type), padding != 0 ? " padded" : "");
    int64_t wide[] = {tokens, width};
    c->backward_op = MT_OP_bias_backward;
    c->tolerance = 2e-6;
    c->param[IN_PLACE] = in_place;
    c->forward = forward;
    c->backward = backward;
    case_input(c, "x", 2, wide);
    case_slot(c, "bias", SLOT_INPUT, bias_type, 1, (int64_t[]){width});
    case_output(c, "y", 2, wide);
    case_grad_in(c, "dy", Y);
    case_grad_out(c, "dbias", BIAS); // gradient of x: dy itself
    c->slot[DBIAS].role = SLOT_GRAD_SUM;
    c->slot[X].row_padding = padding;
    c->slot[Y].row_padding = padding;
    c->slot[DY].row_padding = padding;
    return c;
}

void cases_bias(struct case_list *list)
{
    add(list, 1, 8, false, MT_F32, 0);
    add(list, 5, 33, true, MT_F32, 3);
    add(list, 33, 65, false, MT_BF16, 0);
    add(list, 3, 127, true, MT_F16, 1);
    add(list, 1000, 96, false, MT_F32, 0);
    add(list, 0, 8, false, MT_F32, 0)->no_gradient = true;

    struct op_case *speed = add(list, 8192, 2048, false, MT_BF16, 0);
    double elements = 8192.0 * 2048.0;
    speed->only_speed = true;
    speed->bytes = elements * 2 * 4;      // x in, y out
    speed->backward_bytes = elements * 4; // dy in only: memcpy's figure counts writes too
}
