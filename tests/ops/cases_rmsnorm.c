/*
 * Cases of rmsnorm: with and without the fused residual, odd and wide widths, one row, none, padded rows,
 * narrow weights, in place, without dweight.
 */
#include "ops/case_files.h"

enum { X, RESIDUAL, WEIGHT, H, Y, RSTD, DY, DX, DWEIGHT };
enum { WITH_RESIDUAL, ACCUMULATE, IN_PLACE, NO_DWEIGHT };

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_rmsnorm_forward_args args = {
        .x = t[X], .weight = t[WEIGHT], .y = t[Y], .rstd = t[RSTD], .epsilon = 1e-6f};
    if (c->param[WITH_RESIDUAL]) {
        args.residual = t[RESIDUAL];
        args.sum = t[H];
    }
    if (c->param[IN_PLACE]) {
        // The inputs are copied to where the outputs go: sum is then residual, or y is x.
        struct mt_tensor *target = c->param[WITH_RESIDUAL] ? &t[H] : &t[Y];
        struct mt_tensor *source = c->param[WITH_RESIDUAL] ? &t[RESIDUAL] : &t[X];
        enum mt_status status = mt_copy(device, &(struct mt_copy_args){.x = *source, .y = *target});
        if (status != MT_OK) return status;
        *(c->param[WITH_RESIDUAL] ? &args.residual : &args.x) = *target;
    }
    return mt_rmsnorm_forward(device, &args);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_rmsnorm_backward_args args = {
        .dy = t[DY],
        .x = c->param[WITH_RESIDUAL] ? t[H] : t[X],
        .weight = t[WEIGHT],
        .rstd = t[RSTD],
        .dx = t[DX],
        .accumulate = c->param[ACCUMULATE] != 0,
    };
    if (!c->param[NO_DWEIGHT]) args.dweight = t[DWEIGHT];
    if (c->param[IN_PLACE]) {
        enum mt_status status = mt_copy(device, &(struct mt_copy_args){.x = t[DY], .y = t[DX]});
        if (status != MT_OK) return status;
        args.dy = t[DX];
    }
    return mt_rmsnorm_backward(device, &args);
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t width, bool residual,
                           bool accumulate, enum mt_dtype weight_type, int64_t padding)
{
    struct op_case *c = case_new(list, MT_OP_rmsnorm_forward, "T=%d d=%d%s%s weight %s%s", (int)tokens,
                                 (int)width, residual ? " +residual" : "", accumulate ? " accumulate" : "",
                                 mt_dtype_name(weight_type), padding != 0 ? " padded" : "");
    int64_t wide[] = {tokens, width};
    int64_t vector[] = {width};
    int64_t rows[] = {tokens};
    c->backward_op = MT_OP_rmsnorm_backward;
    c->tolerance = 2e-6;
    c->param[WITH_RESIDUAL] = residual;
    c->param[ACCUMULATE] = accumulate;
    c->forward = forward;
    c->backward = backward;
    case_input(c, "x", 2, wide);
    case_input(c, "residual", 2, wide);
    case_slot(c, "weight", SLOT_INPUT, weight_type, 1, vector);
    c->slot[WEIGHT].fill = FILL_ONES;
    case_slot(c, "sum", residual ? SLOT_OUTPUT : SLOT_INPUT, MT_F32, 2, wide);
    case_output(c, "y", 2, wide);
    case_output(c, "rstd", 1, rows);
    case_grad_in(c, "dy", Y);
    case_grad_out(c, "dx", X);
    if (accumulate) c->slot[DX].role = SLOT_GRAD_SUM;
    case_grad_out(c, "dweight", WEIGHT);
    c->slot[DWEIGHT].role = SLOT_GRAD_SUM;
    c->slot[X].row_padding = padding;
    c->slot[Y].row_padding = padding;
    c->slot[DX].row_padding = padding;
    return c;
}

void cases_rmsnorm(struct case_list *list)
{
    add(list, 1, 8, false, false, MT_F32, 0);
    add(list, 5, 33, false, false, MT_F32, 0);
    add(list, 7, 65, true, true, MT_BF16, 3);
    add(list, 3, 128, false, true, MT_F16, 0);
    add(list, 131, 512, true, true, MT_BF16, 0);
    add(list, 2, 5000, false, false, MT_F32, 0);
    add(list, 0, 16, false, false, MT_F32, 0)->no_gradient = true;
    add(list, 9, 36, false, false, MT_F32, 2)->param[IN_PLACE] = 1;
    add(list, 9, 37, true, false, MT_F32, 0)->param[IN_PLACE] = 1;

    static const int activations[] = {X, RESIDUAL, H, Y, DY, DX};
    case_retype(add(list, 7, 65, true, true, MT_BF16, 3), MT_BF16, 6, activations);
    case_retype(add(list, 9, 72, true, false, MT_BF16, 8), MT_BF16, 6, activations);
    case_retype(add(list, 5, 2048, false, false, MT_BF16, 0), MT_BF16, 6, activations);
    case_retype(add(list, 33, 512, true, true, MT_F32, 0), MT_BF16, 6, activations);
    case_retype(add(list, 6, 1000, true, true, MT_BF16, 8), MT_BF16, 6, activations);
    case_retype(add(list, 5, 2560, true, true, MT_BF16, 0), MT_BF16, 6, activations);
    add(list, 5, 2056, true, true, MT_BF16, 0); // more than a block of eights
    // The residual stream in f32, what leaves the norm in bf16.
    case_retype(add(list, 33, 512, true, true, MT_BF16, 0), MT_BF16, 2, (int[]){Y, DY});

    struct op_case *frozen = add(list, 6, 42, false, false, MT_BF16, 0);
    frozen->param[NO_DWEIGHT] = 1;
    frozen->slot[DWEIGHT].no_numeric = true; // not wanted, so not written

    // A layer of DeepSeek-V2-Lite's, 16,384 tokens, the weight frozen: for devices.
    for (int residual = 0; residual <= 1; residual++) {
        struct op_case *device = add(list, 16384, 2048, residual != 0, true, MT_BF16, 0);
        case_retype(device, MT_BF16, 6, activations);
        device->only_speed = true;
        device->only_device = true;
        device->param[NO_DWEIGHT] = 1;
        device->bytes = 16384.0 * 2048.0 * (residual != 0 ? 4 : 2) * 2;
        device->backward_bytes = residual != 0 ? 0.0 : 16384.0 * 2048.0 * 4 * 2;
    }

    struct op_case *c = add(list, 4096, 2048, true, true, MT_BF16, 0);
    double elements = 4096.0 * 2048.0;
    c->only_speed = true;
    c->bytes = elements * 4 * 4;          // x, residual in; sum, y out
    c->backward_bytes = elements * 4 * 4; // dy, x, dx in; dx out
}
