/*
 * Rows of matrix products, single and grouped by expert, of LoRA pairs, of stored matrices, and of the head.
 * Most take lists of matrices and are checked by hand.
 */
#include <math.h>
#include <stdio.h>

#include "ops/check/rows.h"
#include "ops/dropout.h"
#include "tensor/quantised.h"

#define NO_LOWEST INT32_MIN // of labels: any negative one means "ignored"

// ------------------------------------------------------------------ rows sorted by expert

static void check_experts(struct mt_check *c, const char *name, const struct mt_tensor *expert, int experts,
                          enum mt_check_type type, int64_t rows, int64_t columns)
{
    mt_check_value(c, experts >= 1, "experts", experts, "1 or more");
    if (c->status == MT_OK && expert == NULL)
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "%s is missing", name);
    for (int e = 0; e < experts && c->status == MT_OK; e++) {
        char which[64];
        if (!mt_tensor_present(&expert[e])) continue;
        (void)snprintf(which, sizeof which, "%s[%d]", name, e);
        mt_check_2d(c, which, &expert[e], type, rows, columns);
    }
}

static void check_expert_offsets(struct mt_check *c, const struct mt_tensor *offsets, int experts,
                                 int64_t rows)
{
    mt_check_1d(c, "offsets", offsets, MT_CHECK_INDEX, (int64_t)experts + 1);
    mt_check_offsets(c, "offsets", offsets, rows);
}

static void check_some_offsets(struct mt_check *c, const struct mt_tensor *offsets, int experts, int64_t rows)
{
    if (mt_tensor_present(offsets)) {
        check_expert_offsets(c, offsets, experts, rows);
        return;
    }
    mt_check_value(c, experts == 1, "experts", experts, "1 where there are no offsets");
    mt_check_value(c, rows <= INT32_MAX, "the number of rows", (double)rows, "less than 2^31");
}

static void check_mask(struct mt_check *c, const char *name, const struct mt_tensor *mask, float scale,
                       int64_t rows, int64_t columns)
{
    if (!mt_tensor_present(mask)) return;
    mt_check_2d(c, name, mask, MT_CHECK_INDEX, rows, mt_mask_words(columns));
    bool scales = isfinite(scale) && scale != 0.0f;
    mt_check_value(c, scales, "mask_scale", (double)scale, "a factor other than 0");
}

// ------------------------------------------------------------------ products

static void gemm_more(struct mt_check *c, const void *p)
{
    const struct mt_gemm_args *args = p;
    mt_check_2d(c, "a", &args->a, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->a.dim[args->transpose_a ? 1 : 0];
    int64_t inner = args->a.dim[args->transpose_a ? 0 : 1];
    mt_check_2d(c, "b", &args->b, MT_CHECK_FLOAT, args->transpose_b ? MT_ANY : inner,
                args->transpose_b ? inner : MT_ANY);
    int64_t columns = args->b.dim[args->transpose_b ? 0 : 1];
    mt_check_2d(c, "c", &args->c, MT_CHECK_FLOAT, rows, columns);
    mt_check_value(c, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
}

static void grouped_gemm_more(struct mt_check *c, const void *p)
{
    const struct mt_grouped_gemm_args *args = p;
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->x.dim[0];
    int64_t inner = args->x.dim[1];
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, rows, MT_ANY);
    int64_t columns = args->y.dim[1];
    check_experts(c, "weight", args->weight, args->experts, MT_CHECK_FLOAT,
                  args->transpose_weight ? columns : inner, args->transpose_weight ? inner : columns);
    check_expert_offsets(c, &args->offsets, args->experts, rows);
    mt_check_value(c, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
}

static void head_gemm_more(struct mt_check *c, const void *p)
{
    const struct mt_head_gemm_args *args = p;
    mt_check_3d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY, MT_ANY);
    int64_t heads = args->x.dim[1];
    int64_t inner = args->x.dim[2];
    mt_check_3d(c, "y", &args->y, MT_CHECK_FLOAT, args->x.dim[0], heads, MT_ANY);
    int64_t columns = args->y.dim[2];
    mt_check_value(c, heads <= INT32_MAX, "the number of heads", (double)heads, "less than 2^31");
    if (heads > 0) {
        check_experts(c, "weight", args->weight, (int)heads, MT_CHECK_FLOAT,
                      args->transpose_weight ? columns : inner, args->transpose_weight ? inner : columns);
    }
    for (int64_t h = 0; h < heads && c->status == MT_OK; h++) {
        if (!mt_tensor_present(&args->weight[h]))
            c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "a head has no weight");
    }
    mt_check_value(c, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
}

static void grouped_gemm_dw_more(struct mt_check *c, const void *p)
{
    const struct mt_grouped_gemm_dw_args *args = p;
    mt_check_2d(c, "dy", &args->dy, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->dy.dim[0];
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, rows, MT_ANY);
    check_experts(c, "dweight", args->dweight, args->experts, MT_CHECK_STAT, args->dy.dim[1], args->x.dim[1]);
    check_some_offsets(c, &args->offsets, args->experts, rows);
    mt_check_value(c, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
}

/* A vector of `width` for each expert that has one. */
static void check_vectors(struct mt_check *c, const char *name, const struct mt_tensor *vector, int experts,
                          enum mt_check_type type, int64_t width)
{
    mt_check_value(c, experts >= 1, "experts", experts, "1 or more");
    if (c->status == MT_OK && vector == NULL)
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "%s is missing", name);
    for (int e = 0; e < experts && c->status == MT_OK; e++) {
        char which[64];
        if (!mt_tensor_present(&vector[e])) continue;
        (void)snprintf(which, sizeof which, "%s[%d]", name, e);
        mt_check_1d(c, which, &vector[e], type, width);
    }
}

static void grouped_bias_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_grouped_bias_forward_args *args = p;
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    check_vectors(c, "bias", args->bias, args->experts, MT_CHECK_FLOAT, args->y.dim[1]);
    check_some_offsets(c, &args->offsets, args->experts, args->y.dim[0]);
}

static void grouped_bias_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_grouped_bias_backward_args *args = p;
    mt_check_2d(c, "dy", &args->dy, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    check_vectors(c, "dbias", args->dbias, args->experts, MT_CHECK_STAT, args->dy.dim[1]);
    check_some_offsets(c, &args->offsets, args->experts, args->dy.dim[0]);
}

static void check_term(struct mt_check *c, const struct mt_product_term *term, int experts, int64_t rows,
                       int64_t columns)
{
    mt_check_2d(c, "x", &term->x, MT_CHECK_FLOAT, rows, MT_ANY);
    int64_t inner = term->x.dim[1];
    check_experts(c, "weight", term->weight, experts, MT_CHECK_FLOAT,
                  term->transpose_weight ? columns : inner, term->transpose_weight ? inner : columns);
    check_mask(c, "mask_y", &term->mask_y, term->mask_scale, rows, columns);
    mt_check_value(c, term->alpha != 0.0f, "alpha", (double)term->alpha, "a factor other than 0");
}

static void grouped_sum_more(struct mt_check *c, const void *p)
{
    const struct mt_grouped_sum_args *args = p;
    bool some = args->count >= 1 && args->count <= MT_MAX_TERMS;
    mt_check_value(c, some, "count", args->count, "1 to 6 terms");
    if (c->status == MT_OK && args->terms == NULL)
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "terms are missing");
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->y.dim[0];
    check_some_offsets(c, &args->offsets, args->experts, rows);
    for (int t = 0; t < args->count && c->status == MT_OK; t++) {
        check_term(c, &args->terms[t], args->experts, rows, args->y.dim[1]);
        if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "term %d", t);
    }
}

/* One of the sums, which overwrites. */
static void check_sum(struct mt_check *c, const char *name, const struct mt_grouped_sum_args *sum)
{
    if (c->status != MT_OK) return;
    grouped_sum_more(c, sum);
    mt_check_value(c, sum->beta == 0.0f, "beta", (double)sum->beta, "0: y is overwritten");
    if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "%s", name);
}

static bool same_offsets(const struct mt_tensor *one, const struct mt_tensor *other)
{
    if (!mt_tensor_present(one)) return !mt_tensor_present(other);
    return mt_tensor_present(other) && one->data == other->data;
}

static void grouped_swiglu_more(struct mt_check *c, const void *p)
{
    const struct mt_grouped_swiglu_args *args = p;
    const struct mt_grouped_sum_args *gate = &args->gate;
    const struct mt_grouped_sum_args *up = &args->up;
    check_sum(c, "gate", gate);
    check_sum(c, "up", up);
    bool same = up->experts == gate->experts && same_offsets(&gate->offsets, &up->offsets);
    if (c->status == MT_OK && !same)
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "gate and up have different experts or offsets");
    int64_t rows = gate->y.dim[0];
    int64_t width = gate->y.dim[1];
    mt_check_2d(c, "up", &up->y, MT_CHECK_FLOAT, rows, width);
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, rows, width);
}

static void grouped_swiglu_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_grouped_swiglu_backward_args *args = p;
    check_sum(c, "sum", &args->sum);
    mt_check_op(
        c, MT_OP_swiglu_backward,
        &(struct mt_swiglu_backward_args){
            .dy = args->sum.y, .gate = args->gate, .up = args->up, .dgate = args->dgate, .dup = args->dup});
}

// ------------------------------------------------------------------ LoRA pairs

static void check_linears(struct mt_check *c, int linears)
{
    mt_check_value(c, linears >= 1 && linears <= MT_LORA_LINEARS, "linears", linears, "1 to 3");
}

/* An input and what is dropped of it, sorted by expert, for so many linears. */
static void check_input(struct mt_check *c, const struct mt_tensor *x, const struct mt_tensor *mask,
                        float mask_scale, int linears, int experts, const struct mt_tensor *offsets)
{
    check_linears(c, linears);
    mt_check_2d(c, "x", x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    check_mask(c, "mask", mask, mask_scale, x->dim[0], x->dim[1]);
    check_some_offsets(c, offsets, experts, x->dim[0]);
}

/* A linear's middle and its A, or their gradients, beside x. */
static void check_linear(struct mt_check *c, const struct mt_tensor *x, const char *middle_name,
                         const struct mt_tensor *middle, const char *matrix_name,
                         const struct mt_tensor *matrix, int experts, enum mt_check_type type)
{
    mt_check_2d(c, middle_name, middle, MT_CHECK_FLOAT, x->dim[0], MT_ANY);
    check_experts(c, matrix_name, matrix, experts, type, middle->dim[1], x->dim[1]);
}

static void lora_xa_more(struct mt_check *c, const void *p)
{
    const struct mt_lora_xa_args *args = p;
    check_input(c, &args->x, &args->mask, args->mask_scale, args->linears, args->experts, &args->offsets);
    mt_check_value(c, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
    if (c->status == MT_OK && args->exact && mt_tensor_present(&args->offsets))
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "an exact lora_xa takes no offsets");
    for (int i = 0; i < args->linears && c->status == MT_OK; i++) {
        check_linear(c, &args->x, "xa", &args->xa[i], "a", args->a[i], args->experts, MT_CHECK_FLOAT);
        if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "linear %d", i);
    }
}

static void check_pair(struct mt_check *c, const struct mt_lora_pair_gradient *linear, int experts,
                       int64_t rows)
{
    mt_check_2d(c, "dy", &linear->dy, MT_CHECK_FLOAT, rows, MT_ANY);
    mt_check_2d(c, "dxa", &linear->dxa, MT_CHECK_FLOAT, rows, MT_ANY);
    int64_t out = linear->dy.dim[1];
    int64_t rank = linear->dxa.dim[1];
    check_experts(c, "b", linear->b, experts, MT_CHECK_FLOAT, out, rank);
    mt_check_value(c, linear->scale != 0.0f, "scale", (double)linear->scale, "a factor other than 0");
    if (linear->db == NULL) return;
    mt_check_value(c, linear->db_scale != 0.0f, "db_scale", (double)linear->db_scale,
                   "a factor other than 0");
    mt_check_2d(c, "xa", &linear->xa, MT_CHECK_FLOAT, rows, rank);
    check_experts(c, "db", linear->db, experts, MT_CHECK_STAT, out, rank);
}

static void lora_dxa_more(struct mt_check *c, const void *p)
{
    const struct mt_lora_dxa_args *args = p;
    check_linears(c, args->linears);
    mt_check_2d(c, "dxa", &args->linear[0].dxa, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->linear[0].dxa.dim[0];
    check_some_offsets(c, &args->offsets, args->experts, rows);
    for (int i = 0; i < args->linears && c->status == MT_OK; i++) {
        check_pair(c, &args->linear[i], args->experts, rows);
        if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "linear %d", i);
    }
}

static void lora_da_more(struct mt_check *c, const void *p)
{
    const struct mt_lora_da_args *args = p;
    check_input(c, &args->x, &args->mask, args->mask_scale, args->linears, args->experts, &args->offsets);
    for (int i = 0; i < args->linears && c->status == MT_OK; i++) {
        check_linear(c, &args->x, "dxa", &args->dxa[i], "da", args->da[i], args->experts, MT_CHECK_STAT);
        if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "linear %d", i);
    }
}

// ------------------------------------------------------------------ stored matrices: the tensors of their
// format, all of one shape

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
static void check_stored(struct mt_check *c, const struct mt_dequantize_args *args, int expert,
                         const struct mt_quantised *first)
{
    char name[64];
    const struct mt_quantised *matrix = &args->stored[expert];
    const struct mt_tensor *y = &args->y[expert];
    bool alike = matrix->format == first->format && matrix->out == first->out && matrix->in == first->in &&
                 matrix->scales.dtype == first->scales.dtype;
    if (!alike) {
        c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE,
                            "stored[%d] has a different format or shape than the first", expert);
        return;
    }
    check_matrix(c, expert, matrix);
    (void)snprintf(name, sizeof name, "y[%d]", expert);
    mt_check_2d(c, name, y, MT_CHECK_BF16, matrix->out, matrix->in);
    if (c->status == MT_OK && !mt_tensor_is_contiguous(y))
        c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE, "%s has gaps between its rows", name);
}

static void dequantize_more(struct mt_check *c, const void *p)
{
    const struct mt_dequantize_args *args = p;
    mt_check_value(c, args->experts >= 1, "experts", args->experts, "1 or more");
    if (c->status == MT_OK && (args->stored == NULL || args->y == NULL))
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "stored or y is missing");
    const struct mt_quantised *first = NULL;
    for (int e = 0; e < args->experts && c->status == MT_OK; e++) {
        if (!mt_quantised_present(&args->stored[e])) continue;
        if (first == NULL) first = &args->stored[e];
        check_stored(c, args, e, first);
    }
    if (c->status == MT_OK && mt_tensor_present(&args->offsets))
        check_expert_offsets(c, &args->offsets, args->experts, INT32_MAX);
}

// ------------------------------------------------------------------ the head

/* A tensor that makes sense only together with another one. */
static void check_needs(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                        const char *needed_name, const struct mt_tensor *needed)
{
    if (c->status != MT_OK || !mt_tensor_present(tensor) || mt_tensor_present(needed)) return;
    c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "%s is given without %s", name, needed_name);
}

static void cross_entropy_more(struct mt_check *c, const void *p)
{
    const struct mt_cross_entropy_args *args = p;
    const struct {
        const char *name;
        const struct mt_tensor *tensor;
    } gradients[] = {
        {"dhidden", &args->dhidden},       {"dweight", &args->dweight},     {"dbias", &args->dbias},
        {"dhidden_xa", &args->dhidden_xa}, {"dweight_b", &args->dweight_b},
    };
    if (args->weight.dim[0] == 0)
        c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE, "weight has no rows: the vocabulary is empty");
    check_needs(c, "hidden_xa", &args->hidden_xa, "weight_b", &args->weight_b);
    check_needs(c, "weight_b", &args->weight_b, "hidden_xa", &args->hidden_xa);
    check_needs(c, "dhidden_xa", &args->dhidden_xa, "hidden_xa", &args->hidden_xa);
    check_needs(c, "dweight_b", &args->dweight_b, "hidden_xa", &args->hidden_xa);
    check_needs(c, "dbias", &args->dbias, "bias", &args->bias);
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++)
        check_needs(c, gradients[i].name, gradients[i].tensor, "dloss", &args->dloss);
    mt_check_value(c, args->chunk_rows >= 0, "chunk_rows", (double)args->chunk_rows,
                   "0 (the device chooses) or more");
    mt_check_range(c, "labels", &args->labels, NO_LOWEST, args->weight.dim[0]);
}

// ------------------------------------------------------------------ rows

static const struct mt_check_row rows[] = {
    MT_ROW_BY_HAND(gemm, gemm_more),
    MT_ROW_BY_HAND(grouped_gemm, grouped_gemm_more),
    MT_ROW_BY_HAND(head_gemm, head_gemm_more),
    MT_ROW_BY_HAND(grouped_gemm_dw, grouped_gemm_dw_more),
    MT_ROW_BY_HAND(grouped_bias_forward, grouped_bias_forward_more),
    MT_ROW_BY_HAND(grouped_bias_backward, grouped_bias_backward_more),
    MT_ROW_BY_HAND(grouped_sum, grouped_sum_more),
    MT_ROW_BY_HAND(grouped_swiglu, grouped_swiglu_more),
    MT_ROW_BY_HAND(grouped_swiglu_backward, grouped_swiglu_backward_more),
    MT_ROW_BY_HAND(lora_xa, lora_xa_more),
    MT_ROW_BY_HAND(lora_dxa, lora_dxa_more),
    MT_ROW_BY_HAND(lora_da, lora_da_more),
    MT_ROW_BY_HAND(dequantize, dequantize_more),
    // R rows of width W, V words, a LoRA pair of rank r
    MT_ROW(cross_entropy, dweight_b, cross_entropy_more, {"hidden", MT_CHECK_FLOAT, "RW"},
           {"weight", MT_CHECK_FLOAT, "VW"}, {"bias", MT_CHECK_FLOAT, "V?"},
           {"hidden_xa", MT_CHECK_FLOAT, "Rr?"}, {"weight_b", MT_CHECK_FLOAT, "Vr?"},
           {"labels", MT_CHECK_INDEX, "R"}, {"loss", MT_CHECK_STAT, "R"}, {"lse", MT_CHECK_STAT, "R?"},
           {"dloss", MT_CHECK_STAT, "R?"}, {"dhidden", MT_CHECK_FLOAT, "RW?"},
           {"dweight", MT_CHECK_STAT, "VW?"}, {"dbias", MT_CHECK_STAT, "V?"},
           {"dhidden_xa", MT_CHECK_FLOAT, "Rr?"}, {"dweight_b", MT_CHECK_STAT, "Vr?"}),
};

const struct mt_check_family mt_check_products = {rows, sizeof rows / sizeof rows[0]};
