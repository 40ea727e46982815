/* Cases of sigmoid_gate: in place, odd widths, padded rows, gates where exp overflows, 16-bit rows. */
#include "ops/case_files.h"

enum { X, GATE, Y, DY, DX, DGATE };
enum { IN_PLACE };

static enum mt_status copy(struct mt_device *device, struct mt_tensor x, struct mt_tensor y)
{
    return mt_copy(device, &(struct mt_copy_args){.x = x, .y = y});
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_sigmoid_gate_forward_args args = {.x = t[X], .gate = t[GATE], .y = t[Y]};
    if (c->param[IN_PLACE]) {
        enum mt_status status = copy(device, t[X], t[Y]);
        if (status != MT_OK) return status;
        args.x = t[Y];
    }
    return mt_sigmoid_gate_forward(device, &args);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_sigmoid_gate_backward_args args = {
        .dy = t[DY], .x = t[X], .gate = t[GATE], .dx = t[DX], .dgate = t[DGATE]};
    if (c->param[IN_PLACE]) {
        enum mt_status status = copy(device, t[DY], t[DX]);
        if (status == MT_OK) status = copy(device, t[GATE], t[DGATE]);
        if (status != MT_OK) return status;
        args.dy = t[DX];
        args.gate = t[DGATE];
    }
    return mt_sigmoid_gate_backward(device, &args);
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t width, bool in_place, double scale,
                           int64_t padding)
{
    struct op_case *c =
        case_new(list, MT_OP_sigmoid_gate_forward, "T=%d d=%d%s%s%s", (int)tokens, (int)width,
                 in_place ? " in place" : "", scale > 1 ? " large gates" : "", padding != 0 ? " padded" : "");
    c->backward_op = MT_OP_sigmoid_gate_backward;
    c->tolerance = 2e-6;
    c->param[IN_PLACE] = in_place;
    c->forward = forward;
    c->backward = backward;
    case_input(c, "x", 2, (int64_t[]){tokens, width});
    case_input(c, "gate", 2, (int64_t[]){tokens, 1});
    c->slot[GATE].scale = scale;
    case_output(c, "y", 2, (int64_t[]){tokens, width});
    case_grad_in(c, "dy", Y);
    case_grad_out(c, "dx", X);
    case_grad_out(c, "dgate", GATE);
    if (padding != 0) case_pad(c, padding);
    return c;
}

void cases_sigmoid_gate(struct case_list *list)
{
    const int rows[] = {X, GATE, Y, DY, DX, DGATE};
    add(list, 1, 1, false, 1, 0);
    add(list, 5, 33, true, 1, 3);
    add(list, 9, 100, false, 40, 0);
    add(list, 300, 512, true, 1, 0);
    add(list, 0, 8, false, 1, 0)->no_gradient = true;
    case_retype(add(list, 5, 33, false, 1, 0), MT_BF16, 6, rows);
    case_retype(add(list, 7, 64, true, 1, 8), MT_BF16, 6, rows);

    struct op_case *speed = add(list, 8192, 2048, false, 1, 0);
    double elements = 8192.0 * 2048.0;
    speed->only_speed = true;
    speed->bytes = elements * 2 * 4;          // x in, y out
    speed->backward_bytes = elements * 3 * 4; // dy, x in; dx out
}
