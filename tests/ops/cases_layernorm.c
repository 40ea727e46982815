/*
 * Cases of layernorm: with and without the fused residual, in place, rows far from zero, odd widths, padded
 * rows, narrow weights, gradients of weight and bias wanted or not.
 */
#include "ops/case_files.h"

enum { X, RESIDUAL, WEIGHT, BIAS, H, Y, MEAN, RSTD, DY, DX, DWEIGHT, DBIAS };
enum { WITH_RESIDUAL, ACCUMULATE, IN_PLACE, VECTORS };
enum { WANT_DWEIGHT = 1, WANT_DBIAS = 2 };
enum { OFFSET };

/* Moves x away from zero. */
static void fill(const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor *x = &t[X];
    for (int64_t i = 0; i < x->dim[0]; i++) {
        for (int64_t j = 0; j < x->dim[1]; j++) {
            int64_t at = i * x->stride[0] + j;
            if (x->dtype == MT_F64) ((double *)x->data)[at] += (double)c->real[OFFSET];
            if (x->dtype == MT_F32) ((float *)x->data)[at] += c->real[OFFSET];
        }
    }
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_layernorm_forward_args args = {
        .x = t[X], .weight = t[WEIGHT], .bias = t[BIAS], .y = t[Y], .mean = t[MEAN], .rstd = t[RSTD]};
    args.epsilon = 1e-5f;
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
    return mt_layernorm_forward(device, &args);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_layernorm_backward_args args = {
        .dy = t[DY],
        .x = c->param[WITH_RESIDUAL] ? t[H] : t[X],
        .weight = t[WEIGHT],
        .mean = t[MEAN],
        .rstd = t[RSTD],
        .dx = t[DX],
        .accumulate = c->param[ACCUMULATE] != 0,
    };
    if (c->param[VECTORS] & WANT_DWEIGHT) args.dweight = t[DWEIGHT];
    if (c->param[VECTORS] & WANT_DBIAS) args.dbias = t[DBIAS];
    if (c->param[IN_PLACE]) {
        enum mt_status status = mt_copy(device, &(struct mt_copy_args){.x = t[DY], .y = t[DX]});
        if (status != MT_OK) return status;
        args.dy = t[DX];
    }
    return mt_layernorm_backward(device, &args);
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t width, bool residual,
                           bool accumulate, enum mt_dtype weight_type, int64_t padding)
{
    struct op_case *c = case_new(list, MT_OP_layernorm_forward, "T=%d d=%d%s%s weight %s%s", (int)tokens,
                                 (int)width, residual ? " +residual" : "", accumulate ? " accumulate" : "",
                                 mt_dtype_name(weight_type), padding != 0 ? " padded" : "");
    int64_t wide[] = {tokens, width};
    int64_t vector[] = {width};
    int64_t rows[] = {tokens};
    c->backward_op = MT_OP_layernorm_backward;
    c->tolerance = 2e-6;
    c->param[WITH_RESIDUAL] = residual;
    c->param[ACCUMULATE] = accumulate;
    c->param[VECTORS] = WANT_DWEIGHT | WANT_DBIAS;
    c->forward = forward;
    c->backward = backward;
    case_input(c, "x", 2, wide);
    case_input(c, "residual", 2, wide);
    case_slot(c, "weight", SLOT_INPUT, weight_type, 1, vector);
    c->slot[WEIGHT].fill = FILL_ONES;
    case_slot(c, "bias", SLOT_INPUT, weight_type, 1, vector);
    case_slot(c, "sum", residual ? SLOT_OUTPUT : SLOT_INPUT, MT_F32, 2, wide);
    case_output(c, "y", 2, wide);
    case_output(c, "mean", 1, rows);
    case_output(c, "rstd", 1, rows);
    case_grad_in(c, "dy", Y);
    case_grad_out(c, "dx", X);
    if (accumulate) c->slot[DX].role = SLOT_GRAD_SUM;
    case_grad_out(c, "dweight", WEIGHT);
    c->slot[DWEIGHT].role = SLOT_GRAD_SUM;
    case_grad_out(c, "dbias", BIAS);
    c->slot[DBIAS].role = SLOT_GRAD_SUM;
    c->slot[X].row_padding = padding;
    c->slot[Y].row_padding = padding;
    c->slot[DX].row_padding = padding;
    return c;
}

/* Wants only some of the vectors' gradients; the others have nothing to check. */
static void want(struct op_case *c, int vectors)
{
    c->param[VECTORS] = vectors;
    c->slot[DWEIGHT].no_numeric = (vectors & WANT_DWEIGHT) == 0;
    c->slot[DBIAS].no_numeric = (vectors & WANT_DBIAS) == 0;
}

void cases_layernorm(struct case_list *list)
{
    add(list, 1, 8, false, false, MT_F32, 0);
    add(list, 5, 33, false, false, MT_F32, 0);
    add(list, 7, 65, true, true, MT_BF16, 3);
    add(list, 3, 128, false, true, MT_F16, 0);
    add(list, 131, 512, true, true, MT_BF16, 0);
    add(list, 2, 5000, false, false, MT_F32, 0);
    add(list, 0, 16, false, false, MT_F32, 0)->no_gradient = true;
    want(add(list, 6, 40, false, false, MT_F32, 0), WANT_DWEIGHT);
    want(add(list, 6, 41, false, false, MT_F32, 0), WANT_DBIAS);
    want(add(list, 6, 42, false, false, MT_BF16, 0), 0);
    add(list, 9, 36, false, false, MT_F32, 2)->param[IN_PLACE] = 1;
    add(list, 9, 37, true, false, MT_F32, 0)->param[IN_PLACE] = 1;

    struct op_case *far = add(list, 4, 2048, false, false, MT_F32, 0);
    far->real[OFFSET] = 1000.0f; // mean a thousand times the spread
    far->fill = fill;
    // Backward starts from the saved f32 mean, half a unit of which is 3e-5 of the spread, on both sides.
    far->no_gradient = true;

    struct op_case *speed = add(list, 4096, 4096, true, true, MT_BF16, 0);
    double elements = 4096.0 * 4096.0;
    speed->only_speed = true;
    speed->bytes = elements * 4 * 4;          // x, residual in; sum, y out
    speed->backward_bytes = elements * 4 * 4; // dy, x, dx in; dx out
}
