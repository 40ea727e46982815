/* Argument checks of dequantize: every matrix has the tensors of its format, all one shape. */
#include <stdio.h>

#include "ops/check/check.h"
#include "tensor/quantised.h"

/* A tensor of a matrix, as its format has it; kernels read it flat. */
static void check_part(struct mt_check *c, int expert, const char *part, const struct mt_tensor *found,
                       const struct mt_tensor *wanted)
{
    char name[64];
    (void)snprintf(name, sizeof name, "stored[%d].%s", expert, part);
    if (c->status != MT_OK || (!mt_tensor_present(wanted) && !mt_tensor_present(found))) return;
    if (!mt_tensor_present(wanted)) {
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "%s is there, expected none", name);
        return;
    }
    enum mt_check_type type = wanted->dtype == MT_U8 ? MT_CHECK_U8 : MT_CHECK_F32;
    if (wanted->rank == 1) mt_check_1d(c, name, found, type, wanted->dim[0]);
    if (wanted->rank == 2) mt_check_2d(c, name, found, type, wanted->dim[0], wanted->dim[1]);
    if (c->status == MT_OK && !mt_tensor_is_contiguous(found))
        c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE, "%s has gaps between its rows", name);
}

static void check_matrix(struct mt_check *c, int expert, const struct mt_quantised *matrix)
{
    mt_check_value(c, (unsigned)matrix->format < MT_QUANTISED_FORMATS, "format", matrix->format, "a format");
    mt_check_value(c, matrix->out > 0 && matrix->in > 0, "a dimension of a stored matrix",
                   (double)(matrix->out < matrix->in ? matrix->out : matrix->in), "1 or more");
    if (c->status != MT_OK) return;
    bool nested = matrix->format == MT_QUANTISED_NF4 && matrix->scales.dtype == MT_U8;
    struct mt_quantised wanted = mt_quantised_shape(matrix->format, nested, matrix->out, matrix->in);
    check_part(c, expert, "codes", &matrix->codes, &wanted.codes);
    check_part(c, expert, "scales", &matrix->scales, &wanted.scales);
    check_part(c, expert, "nested_scales", &matrix->nested_scales, &wanted.nested_scales);
    check_part(c, expert, "nested_map", &matrix->nested_map, &wanted.nested_map);
    check_part(c, expert, "nested_offset", &matrix->nested_offset, &wanted.nested_offset);
}

/* Matrix `expert` and where it goes; `first` is the first one that is there. */
static void check_pair(struct mt_check *c, const struct mt_dequantize_args *args, int expert,
                       const struct mt_quantised *first)
{
    char name[64];
    const struct mt_quantised *matrix = &args->stored[expert];
    const struct mt_tensor *y = &args->y[expert];
    bool alike = matrix->format == first->format && matrix->out == first->out && matrix->in == first->in &&
                 matrix->scales.dtype == first->scales.dtype;
    if (!alike) {
        c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE,
                            "stored[%d] is of another format or shape than the first", expert);
        return;
    }
    check_matrix(c, expert, matrix);
    (void)snprintf(name, sizeof name, "y[%d]", expert);
    mt_check_2d(c, name, y, MT_CHECK_BF16, matrix->out, matrix->in);
    if (c->status == MT_OK && !mt_tensor_is_contiguous(y))
        c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE, "%s has gaps between its rows", name);
}

void mt_check_dequantize(struct mt_check *c, const struct mt_dequantize_args *args)
{
    mt_check_value(c, args->experts >= 1, "experts", args->experts, "1 or more");
    if (c->status == MT_OK && (args->stored == NULL || args->y == NULL))
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "stored or y is missing");
    const struct mt_quantised *first = NULL;
    for (int e = 0; e < args->experts && c->status == MT_OK; e++) {
        if (!mt_quantised_present(&args->stored[e])) continue;
        if (first == NULL) first = &args->stored[e];
        check_pair(c, args, e, first);
    }
    if (c->status == MT_OK && mt_tensor_present(&args->offsets))
        mt_check_expert_offsets(c, &args->offsets, args->experts, INT32_MAX);
}
