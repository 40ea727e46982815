/*
 * Cases of swiglu: gate and up as halves of one tensor, in place, large and tiny gates, odd widths. The
 * gates of one case reach ±120, where exp overflows and underflows.
 */
#include <stdio.h>
#include <string.h>

#include "ops/case_files.h"

enum { BOTH, Y, DY, DBOTH, AGAIN };
enum { ALIAS, WITH_Y };
enum { LIMIT, ALPHA };              // reals
enum { Y_NONE, Y_APART, Y_FOR_DY }; // what backward makes of y
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
    struct mt_swiglu_forward_args args = {.gate = half(&t[BOTH], 0),
                                          .up = half(&t[BOTH], 1),
                                          .y = t[Y],
                                          .limit = c->real[LIMIT],
                                          .alpha = c->real[ALPHA]};
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
        .limit = c->real[LIMIT],
        .alpha = c->real[ALPHA],
    };
    if (c->param[WITH_Y] != Y_NONE) args.y = t[AGAIN];
    if (c->param[WITH_Y] == Y_FOR_DY) {
        enum mt_status status = copy(device, t[DY], t[AGAIN]);
        if (status != MT_OK) return status;
        args.dy = t[AGAIN];
    }
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

/* Backward makes y as well: in memory of its own, or in place of dy. */
static struct op_case *add_again(struct case_list *list, int64_t rows, int64_t width, int alias,
                                 int64_t padding, int with_y)
{
    struct op_case *c = add(list, rows, width, alias, 1, padding);
    size_t length = strlen(c->label);
    static const char *const endings[] = {"", " +y", " +y in place of dy"};
    (void)snprintf(c->label + length, sizeof c->label - length, "%s", endings[with_y]);
    c->param[WITH_Y] = with_y;
    case_grad_out(c, "y again", Y);
    c->slot[AGAIN].no_numeric = true; // no gradient: the product itself
    c->slot[AGAIN].row_padding = padding;
    return c;
}

/* A case with a limit that about one gate in six is above. */
static struct op_case *limited(struct op_case *c, float limit, float alpha)
{
    size_t length = strlen(c->label);
    (void)snprintf(c->label + length, sizeof c->label - length, " limit %g alpha %g", (double)limit,
                   (double)alpha);
    c->real[LIMIT] = limit;
    c->real[ALPHA] = alpha;
    return c;
}

/* A layer of DeepSeek-V2-Lite's routed experts, 16,384 tokens, in bf16: for devices. */
static void add_device(struct case_list *list, int with_y)
{
    struct op_case *c = add_again(list, 98304, 1408, ALIAS_NONE, 0, with_y);
    double elements = 98304.0 * 1408.0;
    case_only_timed(c, true);
    case_retype(c, MT_BF16, 5, (int[]){BOTH, Y, DY, DBOTH, AGAIN});
    if (with_y == Y_NONE) c->bytes = elements * 3 * 2;
    c->backward_bytes = elements * (with_y == Y_NONE ? 5 : 6) * 2;
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
    add_again(list, 5, 33, ALIAS_NONE, 0, Y_APART);
    add_again(list, 7, 64, ALIAS_GATE, 3, Y_FOR_DY);
    add_again(list, 9, 1408, ALIAS_UP, 0, Y_APART);
    case_retype(add_again(list, 7, 31, ALIAS_NONE, 0, Y_FOR_DY), MT_BF16, 5,
                (int[]){BOTH, Y, DY, DBOTH, AGAIN});
    case_retype(add_again(list, 9, 1408, ALIAS_GATE, 0, Y_FOR_DY), MT_BF16, 5,
                (int[]){BOTH, Y, DY, DBOTH, AGAIN});
    limited(add(list, 5, 33, ALIAS_NONE, 1, 0), 1.0f, 1.702f);
    limited(add(list, 9, 100, ALIAS_GATE, 40, 1), 7.0f, 1.702f);
    limited(add(list, 40, 1408, ALIAS_UP, 1, 0), 1.0f, -0.5f);
    limited(add_again(list, 7, 64, ALIAS_GATE, 3, Y_FOR_DY), 1.0f, 1.702f);
    case_retype(limited(add(list, 7, 64, ALIAS_UP, 1, 8), 1.0f, 1.702f), MT_BF16, 4,
                (int[]){BOTH, Y, DY, DBOTH});
    add_device(list, Y_NONE);
    add_device(list, Y_APART);

    struct op_case *speed = add(list, 8192, 1408, ALIAS_NONE, 1, 0);
    double elements = 8192.0 * 1408.0;
    speed->only_speed = true;
    speed->bytes = elements * 3 * 4;          // gate, up in; y out
    speed->backward_bytes = elements * 5 * 4; // dy, gate, up in; dgate, dup out
}
