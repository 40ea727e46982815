/* Matrix products, single and grouped by expert, LoRA pairs, stored matrices, and the head. */
#include <math.h>

#include "ops/ref/mask.h"
#include "ops/ref/ref.h"
#include "tensor/quantised.h"

#define COLUMNS 64 // of dhidden summed in double at a time, before they are rounded once

// ------------------------------------------------------------------ gemm

/* gemm: c_ij = alpha Σ_p op(a)_ip op(b)_pj + beta c_ij. */

void mt_ref_gemm(const struct mt_gemm_args *g)
{
    int64_t inner = g->a.dim[g->transpose_a ? 0 : 1];
    for (int64_t i = 0; i < g->c.dim[0]; i++) {
        for (int64_t j = 0; j < g->c.dim[1]; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < inner; p++) {
                double a = g->transpose_a ? ref_get2(&g->a, p, i) : ref_get2(&g->a, i, p);
                double b = g->transpose_b ? ref_get2(&g->b, j, p) : ref_get2(&g->b, p, j);
                sum += a * b;
            }
            double value = (double)g->alpha * sum;
            if (g->beta != 0.0f) value += (double)g->beta * ref_get2(&g->c, i, j);
            ref_set2(&g->c, i, j, value);
        }
    }
}

// ------------------------------------------------------------------ grouped_gemm

/*
 * grouped_gemm: with e the expert of row r, y_rj = alpha Σ_p x_rp op(W_e)_pj + beta y_rj.
 * An absent W_e leaves beta y_rj.
 * head_gemm: the same with h for e, over all rows of each head.
 * grouped_gemm_dw: dW_e,ij = alpha Σ_r dy_ri x_rj + beta dW_e,ij over the rows r of expert e.
 */

/* y = beta y. */
static void scale(const struct mt_tensor *y, float beta)
{
    for (int64_t i = 0; i < y->dim[0]; i++) {
        for (int64_t j = 0; j < y->dim[1]; j++) {
            ref_set2(y, i, j, beta == 0.0f ? 0.0 : (double)beta * ref_get2(y, i, j));
        }
    }
}

void mt_ref_grouped_gemm(const struct mt_grouped_gemm_args *g)
{
    for (int e = 0; e < g->experts; e++) {
        int32_t first = ref_int1(&g->offsets, e);
        int32_t count = ref_int1(&g->offsets, e + 1) - first;
        struct mt_gemm_args one = {
            .a = mt_tensor_rows(&g->x, first, count),
            .b = g->weight[e],
            .c = mt_tensor_rows(&g->y, first, count),
            .transpose_b = g->transpose_weight,
            .alpha = g->alpha,
            .beta = g->beta,
        };
        if (!mt_tensor_present(&g->weight[e])) {
            scale(&one.c, g->beta);
            continue;
        }
        mt_ref_gemm(&one);
    }
}

void mt_ref_head_gemm(const struct mt_head_gemm_args *g)
{
    for (int64_t h = 0; h < g->x.dim[1]; h++) {
        mt_ref_gemm(&(struct mt_gemm_args){.a = mt_tensor_head(&g->x, h),
                                           .b = g->weight[h],
                                           .c = mt_tensor_head(&g->y, h),
                                           .transpose_b = g->transpose_weight,
                                           .alpha = g->alpha,
                                           .beta = g->beta});
    }
}

/* dW_ij = alpha Σ_r dy_ri x_rj + beta dW_ij over rows [first, end). */
static void add_gradient(const struct mt_grouped_gemm_dw_args *g, const struct mt_tensor *dweight,
                         int64_t first, int64_t end)
{
    for (int64_t i = 0; i < dweight->dim[0]; i++) {
        for (int64_t j = 0; j < dweight->dim[1]; j++) {
            double sum = 0.0;
            for (int64_t r = first; r < end; r++) sum += ref_get2(&g->dy, r, i) * ref_get2(&g->x, r, j);
            double value = (double)g->alpha * sum;
            if (g->beta != 0.0f) value += (double)g->beta * ref_get2(dweight, i, j);
            ref_set2(dweight, i, j, value);
        }
    }
}

void mt_ref_grouped_gemm_dw(const struct mt_grouped_gemm_dw_args *g)
{
    bool sorted = mt_tensor_present(&g->offsets);
    for (int e = 0; e < g->experts; e++) {
        if (!mt_tensor_present(&g->dweight[e])) continue;
        int64_t first = sorted ? ref_int1(&g->offsets, e) : 0;
        int64_t end = sorted ? ref_int1(&g->offsets, e + 1) : g->x.dim[0];
        add_gradient(g, &g->dweight[e], first, end);
    }
}

/* grouped_bias: y_rj += b_e,j for the rows r of expert e; backward db_e,j += Σ_r dy_rj over these rows. */

void mt_ref_grouped_bias_forward(const struct mt_grouped_bias_forward_args *a)
{
    bool sorted = mt_tensor_present(&a->offsets);
    for (int e = 0; e < a->experts; e++) {
        if (!mt_tensor_present(&a->bias[e])) continue;
        int64_t end = sorted ? ref_int1(&a->offsets, e + 1) : a->y.dim[0];
        for (int64_t r = sorted ? ref_int1(&a->offsets, e) : 0; r < end; r++) {
            for (int64_t j = 0; j < a->y.dim[1]; j++)
                ref_set2(&a->y, r, j, ref_get2(&a->y, r, j) + ref_get1(&a->bias[e], j));
        }
    }
}

void mt_ref_grouped_bias_backward(const struct mt_grouped_bias_backward_args *a)
{
    bool sorted = mt_tensor_present(&a->offsets);
    for (int e = 0; e < a->experts; e++) {
        if (!mt_tensor_present(&a->dbias[e])) continue;
        int64_t first = sorted ? ref_int1(&a->offsets, e) : 0;
        int64_t end = sorted ? ref_int1(&a->offsets, e + 1) : a->dy.dim[0];
        for (int64_t j = 0; j < a->dy.dim[1]; j++) {
            double sum = ref_get1(&a->dbias[e], j);
            for (int64_t r = first; r < end; r++) sum += ref_get2(&a->dy, r, j);
            ref_set1(&a->dbias[e], j, sum);
        }
    }
}

// ------------------------------------------------------------------ grouped_sum

/*
 * grouped_sum: with e the expert of row r, y_rj = beta y_rj + Σ_t alpha_t m_trj Σ_p x_trp
 * op(W_t,e)_pj, m being mask_scale or 0 where there is a mask, else 1. An absent W_t,e leaves its term out.
 */

/* m_rj Σ_p x_rp op(W)_pj. */
static double product_of(const struct mt_product_term *term, const struct mt_tensor *weight, int64_t r,
                         int64_t j)
{
    double sum = 0.0;
    for (int64_t p = 0; p < term->x.dim[1]; p++) {
        double w = term->transpose_weight ? ref_get2(weight, j, p) : ref_get2(weight, p, j);
        sum += ref_get2(&term->x, r, p) * w;
    }
    return sum * ref_masked(&term->mask_y, term->mask_scale, r, j);
}

static void sum_row(const struct mt_grouped_sum_args *a, int e, int64_t r)
{
    for (int64_t j = 0; j < a->y.dim[1]; j++) {
        double sum = a->beta == 0.0f ? 0.0 : (double)a->beta * ref_get2(&a->y, r, j);
        for (int t = 0; t < a->count; t++) {
            const struct mt_product_term *term = &a->terms[t];
            if (mt_tensor_present(&term->weight[e]))
                sum += (double)term->alpha * product_of(term, &term->weight[e], r, j);
        }
        ref_set2(&a->y, r, j, sum);
    }
}

void mt_ref_grouped_sum(const struct mt_grouped_sum_args *a)
{
    bool sorted = mt_tensor_present(&a->offsets);
    for (int e = 0; e < a->experts; e++) {
        int64_t first = sorted ? ref_int1(&a->offsets, e) : 0;
        int64_t end = sorted ? ref_int1(&a->offsets, e + 1) : a->y.dim[0];
        for (int64_t r = first; r < end; r++) sum_row(a, e, r);
    }
}

// ------------------------------------------------------------------ grouped_swiglu

/*
 * grouped_swiglu: gate and up as grouped_sum makes them, then swiglu of what they hold; backward: the sum,
 * then swiglu's backward of what it holds.
 */

void mt_ref_grouped_swiglu(const struct mt_grouped_swiglu_args *a)
{
    mt_ref_grouped_sum(&a->gate);
    mt_ref_grouped_sum(&a->up);
    mt_ref_swiglu_forward(&(struct mt_swiglu_forward_args){.gate = a->gate.y, .up = a->up.y, .y = a->y});
}

void mt_ref_grouped_swiglu_backward(const struct mt_grouped_swiglu_backward_args *a)
{
    mt_ref_grouped_sum(&a->sum);
    mt_ref_swiglu_backward(&(struct mt_swiglu_backward_args){
        .dy = a->sum.y, .gate = a->gate, .up = a->up, .dgate = a->dgate, .dup = a->dup, .y = a->sum.y});
}

// ------------------------------------------------------------------ lora

/*
 * The ops of LoRA pairs, for every linear and the rows r of every expert; m is mask_scale or 0 with a mask,
 * else 1, and an absent matrix counts as zeros: lora_xa    xa_rj = alpha Σ_p m_rp x_rp A_jp lora_dxa   dxa_rj
 * = scale Σ_p dy_rp B_pj;  dB_ij += scale Σ_r dy_ri xa_rj lora_da     dA_ij += Σ_r dxa_ri m_rj x_rj
 */

/* Rows of one expert. */
struct row_range {
    int64_t first, end;
};

/* Expert e's; all of them where there are no offsets. */
static struct row_range rows_of(const struct mt_tensor *offsets, int e, int64_t rows)
{
    if (!mt_tensor_present(offsets)) return (struct row_range){0, rows};
    return (struct row_range){ref_int1(offsets, e), ref_int1(offsets, e + 1)};
}

static void xa_of_rows(const struct mt_lora_xa_args *l, int i, int e, struct row_range rows)
{
    const struct mt_tensor *a = &l->a[i][e];
    int64_t steps = mt_tensor_present(a) ? l->x.dim[1] : 0;
    for (int64_t r = rows.first; r < rows.end; r++) {
        for (int64_t j = 0; j < l->xa[i].dim[1]; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < steps; p++)
                sum += ref_masked(&l->mask, l->mask_scale, r, p) * ref_get2(&l->x, r, p) * ref_get2(a, j, p);
            ref_set2(&l->xa[i], r, j, (double)l->alpha * sum);
        }
    }
}

void mt_ref_lora_xa(const struct mt_lora_xa_args *l)
{
    for (int e = 0; e < l->experts; e++) {
        struct row_range rows = rows_of(&l->offsets, e, l->x.dim[0]);
        for (int i = 0; i < l->linears; i++) xa_of_rows(l, i, e, rows);
    }
}

static void dxa_of_rows(const struct mt_lora_pair_gradient *linear, int e, struct row_range rows)
{
    const struct mt_tensor *b = &linear->b[e];
    int64_t steps = mt_tensor_present(b) ? linear->dy.dim[1] : 0;
    for (int64_t r = rows.first; r < rows.end; r++) {
        for (int64_t j = 0; j < linear->dxa.dim[1]; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < steps; p++) sum += ref_get2(&linear->dy, r, p) * ref_get2(b, p, j);
            ref_set2(&linear->dxa, r, j, (double)linear->scale * sum);
        }
    }
}

static void add_db(const struct mt_lora_pair_gradient *linear, int e, struct row_range rows)
{
    const struct mt_tensor *db = &linear->db[e];
    if (!mt_tensor_present(db)) return;
    for (int64_t i = 0; i < db->dim[0]; i++) {
        for (int64_t j = 0; j < db->dim[1]; j++) {
            double sum = 0.0;
            for (int64_t r = rows.first; r < rows.end; r++)
                sum += ref_get2(&linear->dy, r, i) * ref_get2(&linear->xa, r, j);
            ref_set2(db, i, j, ref_get2(db, i, j) + (double)linear->db_scale * sum);
        }
    }
}

void mt_ref_lora_dxa(const struct mt_lora_dxa_args *l)
{
    for (int e = 0; e < l->experts; e++) {
        struct row_range rows = rows_of(&l->offsets, e, l->linear[0].dxa.dim[0]);
        for (int i = 0; i < l->linears; i++) {
            dxa_of_rows(&l->linear[i], e, rows);
            if (l->linear[i].db != NULL) add_db(&l->linear[i], e, rows);
        }
    }
}

static void add_da(const struct mt_lora_da_args *l, int i, int e, struct row_range rows)
{
    const struct mt_tensor *da = &l->da[i][e];
    if (!mt_tensor_present(da)) return;
    for (int64_t k = 0; k < da->dim[0]; k++) {
        for (int64_t j = 0; j < da->dim[1]; j++) {
            double sum = 0.0;
            for (int64_t r = rows.first; r < rows.end; r++)
                sum += ref_get2(&l->dxa[i], r, k) * ref_masked(&l->mask, l->mask_scale, r, j) *
                       ref_get2(&l->x, r, j);
            ref_set2(da, k, j, ref_get2(da, k, j) + sum);
        }
    }
}

void mt_ref_lora_da(const struct mt_lora_da_args *l)
{
    for (int e = 0; e < l->experts; e++) {
        struct row_range rows = rows_of(&l->offsets, e, l->x.dim[0]);
        for (int i = 0; i < l->linears; i++) add_da(l, i, e, rows);
    }
}

// ------------------------------------------------------------------ dequantize

/* dequantize: y_e = code value · scale in f32, rounded to bf16; experts without rows are skipped. */

void mt_ref_dequantize(const struct mt_dequantize_args *a)
{
    bool sorted = mt_tensor_present(&a->offsets);
    for (int e = 0; e < a->experts; e++) {
        bool unused = sorted && ref_int1(&a->offsets, e) == ref_int1(&a->offsets, e + 1);
        if (unused || !mt_quantised_present(&a->stored[e])) continue;
        mt_dequantise(&a->stored[e], MT_BF16, a->y[e].data);
    }
}

// ------------------------------------------------------------------ cross_entropy

/*
 * cross_entropy: z_v = Σ_j h_j W_vj (+ b_v) (+ Σ_s l_s A_vs), lse = log Σ_v exp z_v, loss = lse - z_label.
 * Gradient of a row, with g_v = (exp(z_v - lse) - [v = label]) · dloss:
 * dh_j = Σ_v g_v W_vj; dW_vj += g_v h_j; db_v += g_v; dl_s = Σ_v g_v A_vs; dA_vs += g_v l_s.
 * Logits are recomputed wherever they are needed: nothing of size V is kept.
 */

static double logit(const struct mt_cross_entropy_args *a, int64_t row, int64_t v)
{
    double sum = mt_tensor_present(&a->bias) ? ref_get1(&a->bias, v) : 0.0;
    for (int64_t j = 0; j < a->hidden.dim[1]; j++) {
        sum += ref_get2(&a->hidden, row, j) * ref_get2(&a->weight, v, j);
    }
    if (!mt_tensor_present(&a->hidden_xa)) return sum;
    for (int64_t s = 0; s < a->hidden_xa.dim[1]; s++) {
        sum += ref_get2(&a->hidden_xa, row, s) * ref_get2(&a->weight_b, v, s);
    }
    return sum;
}

static double log_sum_exp(const struct mt_cross_entropy_args *a, int64_t row)
{
    int64_t vocabulary = a->weight.dim[0];
    double highest = -INFINITY;
    for (int64_t v = 0; v < vocabulary; v++) highest = fmax(highest, logit(a, row, v));
    double reference = isinf(highest) && highest < 0.0 ? 0.0 : highest; // all of them -inf: lse is -inf
    double sum = 0.0;
    for (int64_t v = 0; v < vocabulary; v++) sum += exp(logit(a, row, v) - reference);
    return sum == 0.0 ? -INFINITY : reference + log(sum);
}

static double logit_gradient(const struct mt_cross_entropy_args *a, int64_t row, int64_t v, double lse)
{
    double onehot = v == ref_int1(&a->labels, row) ? 1.0 : 0.0;
    return (exp(logit(a, row, v) - lse) - onehot) * ref_get1(&a->dloss, row);
}

/* Row of dhidden (or dhidden_xa) = Σ_v g_v · row v of the weight (or weight_b). */
static void input_gradient(const struct mt_cross_entropy_args *a, int64_t row, double lse,
                           const struct mt_tensor *weight, const struct mt_tensor *target)
{
    int64_t width = target->dim[1];
    for (int64_t start = 0; start < width; start += COLUMNS) {
        double sum[COLUMNS] = {0};
        int64_t columns = width - start < COLUMNS ? width - start : COLUMNS;
        for (int64_t v = 0; v < weight->dim[0]; v++) {
            double g = logit_gradient(a, row, v, lse);
            for (int64_t j = 0; j < columns; j++) sum[j] += g * ref_get2(weight, v, start + j);
        }
        for (int64_t j = 0; j < columns; j++) ref_set2(target, row, start + j, sum[j]);
    }
}

/* Row v of dweight (or dweight_b) += g_v · the row of hidden (or hidden_xa). */
static void weight_gradient(double g, const struct mt_tensor *hidden, int64_t row,
                            const struct mt_tensor *target, int64_t v)
{
    if (!mt_tensor_present(target)) return;
    for (int64_t j = 0; j < target->dim[1]; j++) {
        ref_set2(target, v, j, ref_get2(target, v, j) + g * ref_get2(hidden, row, j));
    }
}

static void row_gradients(const struct mt_cross_entropy_args *a, int64_t row, double lse)
{
    if (mt_tensor_present(&a->dhidden)) input_gradient(a, row, lse, &a->weight, &a->dhidden);
    if (mt_tensor_present(&a->dhidden_xa)) input_gradient(a, row, lse, &a->weight_b, &a->dhidden_xa);
    for (int64_t v = 0; v < a->weight.dim[0]; v++) {
        double g = logit_gradient(a, row, v, lse);
        weight_gradient(g, &a->hidden, row, &a->dweight, v);
        weight_gradient(g, &a->hidden_xa, row, &a->dweight_b, v);
        if (mt_tensor_present(&a->dbias)) ref_set1(&a->dbias, v, ref_get1(&a->dbias, v) + g);
    }
}

static void clear_row(const struct mt_tensor *tensor, int64_t row)
{
    if (!mt_tensor_present(tensor)) return;
    for (int64_t j = 0; j < tensor->dim[1]; j++) ref_set2(tensor, row, j, 0.0);
}

void mt_ref_cross_entropy(const struct mt_cross_entropy_args *a)
{
    for (int64_t row = 0; row < a->hidden.dim[0]; row++) {
        int32_t label = ref_int1(&a->labels, row);
        bool has_lse = mt_tensor_present(&a->lse);
        double lse = label >= 0 || has_lse ? log_sum_exp(a, row) : 0.0;
        if (has_lse) ref_set1(&a->lse, row, lse);
        if (label < 0) {
            ref_set1(&a->loss, row, 0.0);
            clear_row(&a->dhidden, row);
            clear_row(&a->dhidden_xa, row);
            continue;
        }
        ref_set1(&a->loss, row, lse - logit(a, row, label));
        if (mt_tensor_present(&a->dloss)) row_gradients(a, row, lse);
    }
}
