/*
 * Cases of swiglu: gate and up as halves of one tensor, in place, large and tiny gates, odd widths. The
 * gates of one case reach ±120, where exp overflows and underflows.
 */
#include "ops/case_files.h"

enum { BOTH, Y, DY, DBOTH };
enum { ALIAS };
enum { ALIAS_NONE, ALIAS_GATE, ALIAS_UP };

/* gate and up are the left and right half of one [R,2I]. */
static struct mt_tensor half(const struct mt_tensor *both, int index)
{
    int64_t width = both->dim[1] / 2;
    return mt_tensor_columns(both, index * width, width);
}

static enum mt_status copy(struct mt_device *device, struct mt_tensor x, struct mt_tensor y)
{
    return mt_copy(device, &(struct mt_copy_args){.x = x, .y = y});
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_swiglu_forward_args args = {.gate = half(&t[BOTH], 0), .up = half(&t[BOTH], 1), .y = t[Y]};
    if (c->param[ALIAS] != ALIAS_NONE) {
        struct mt_tensor *operand = c->param[ALIAS] == ALIAS_GATE ? &args.gate : &args.up;
        enum mt_status status = copy(device, *operand, t[Y]);
        if (status != MT_OK) return status;
        *operand = t[Y];
    }
    return mt_swiglu_forward(device, &args);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_swiglu_backward_args args = {
        .dy = t[DY],
        .gate = half(&t[BOTH], 0),
        .up = half(&t[BOTH], 1),
        .dgate = half(&t[DBOTH], 0),
        .dup = half(&t[DBOTH], 1),
    };
    if (c->param[ALIAS] != ALIAS_NONE) {
        enum mt_status status = copy(device, t[BOTH], t[DBOTH]);
        if (status != MT_OK) return status;
        args.gate = args.dgate;
        args.up = args.dup;
    }
    return mt_swiglu_backward(device, &args);
}

static struct op_case *add(struct case_list *list, int64_t rows, int64_t width, int alias, double scale,
                           int64_t padding)
{
    static const char *const names[] = {"", " in place of gate", " in place of up"};
    struct op_case *c =
        case_new(list, MT_OP_swiglu_forward, "R=%d I=%d%s%s%s", (int)rows, (int)width, names[alias],
                 scale > 1 ? " large gates" : "", padding != 0 ? " padded" : "");
    c->backward_op = MT_OP_swiglu_backward;
    c->tolerance = 2e-6;
    c->param[ALIAS] = alias;
    c->forward = forward;
    c->backward = backward;
    case_input(c, "both", 2, (int64_t[]){rows, 2 * width});
    c->slot[BOTH].scale = scale;
    case_output(c, "y", 2, (int64_t[]){rows, width});
    case_grad_in(c, "dy", Y);
    case_grad_out(c, "dboth", BOTH);
    c->slot[Y].row_padding = padding;
    c->slot[DBOTH].row_padding = padding;
    return c;
}

void cases_swiglu(struct case_list *list)
{
    add(list, 1, 1, ALIAS_NONE, 1, 0);
    add(list, 5, 33, ALIAS_NONE, 1, 0);
    add(list, 7, 64, ALIAS_GATE, 1, 3);
    add(list, 7, 31, ALIAS_UP, 1, 0);
    add(list, 9, 100, ALIAS_NONE, 40, 1);
    add(list, 40, 1408, ALIAS_GATE, 1, 0);
    add(list, 2, 9000, ALIAS_NONE, 1, 0);
    add(list, 0, 8, ALIAS_NONE, 1, 0)->no_gradient = true;
    case_retype(add(list, 5, 33, ALIAS_NONE, 1, 0), MT_BF16, 4, (int[]){BOTH, Y, DY, DBOTH});
    case_retype(add(list, 7, 64, ALIAS_UP, 1, 8), MT_BF16, 4, (int[]){BOTH, Y, DY, DBOTH});
    case_retype(add(list, 40, 1408, ALIAS_GATE, 1, 0), MT_BF16, 4, (int[]){BOTH, Y, DY, DBOTH});

    struct op_case *speed = add(list, 8192, 1408, ALIAS_NONE, 1, 0);
    double elements = 8192.0 * 1408.0;
    speed->only_speed = true;
    speed->bytes = elements * 3 * 4;          // gate, up in; y out
    speed->backward_bytes = elements * 5 * 4; // dy, gate, up in; dgate, dup out
}
