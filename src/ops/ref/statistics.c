/* Sums over tokens, and the terms of the objective. */
#include <float.h>
#include <math.h>

#include "ops/ref/ref.h"
#include "ops/ref/tokens.h"
#include "ops/span.h"

#define SHORTEST 1e-12 // what a row's length counts for at the least
#define BLOCK    64    // columns summed at a time
#define MOST     MT_MAX_SLOTS

// ------------------------------------------------------------------ column_stats

/*
 * column_stats: x' = x / D, D = Σ_m x_m with normalise_rows, else 1; sums of x', of x'² and of (Σ_j x'_j)²
 * over the tokens of each segment.
 * Backward, with R = Σ_j x'_j and g_j = dsum_j + 2 x'_j dsquares_j + 2 R drow_squares: dx_j = g_j, or with
 * normalise_rows (g_j - Σ_m g_m x'_m) / D.
 */

static double row_total(const struct mt_tensor *x, int64_t i)
{
    double total = 0.0;
    for (int64_t j = 0; j < x->dim[1]; j++) total += ref_get2(x, i, j);
    return total;
}

void mt_ref_column_stats_forward(const struct mt_column_stats_forward_args *a)
{
    ref_clear(&a->sum);
    ref_clear(&a->squares);
    ref_clear(&a->row_squares);
    ref_clear(&a->rows);
    for (int64_t i = 0; i < a->x.dim[0]; i++) {
        if (!token_counts(&a->mask, i)) continue;
        int64_t b = token_segment(&a->segment, i);
        double divisor = a->normalise_rows ? row_total(&a->x, i) : 1.0;
        double total = 0.0;
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            double x = ref_get2(&a->x, i, j) / divisor;
            total += x;
            ref_add2(&a->sum, b, j, x);
            ref_add2(&a->squares, b, j, x * x);
        }
        ref_add1(&a->row_squares, b, total * total);
        ref_add1(&a->rows, b, 1.0);
    }
}

void mt_ref_column_stats_backward(const struct mt_column_stats_backward_args *a)
{
    int64_t experts = a->x.dim[1];
    for (int64_t i = 0; i < a->x.dim[0]; i++) {
        bool counts = token_counts(&a->mask, i);
        int64_t b = token_segment(&a->segment, i);
        double total = row_total(&a->x, i);
        double divisor = a->normalise_rows ? total : 1.0;
        double both = 2.0 * total / divisor * ref_optional1(&a->drow_squares, b); // the same for every j
        double pull = 0.0;                                                        // Σ g x'
        for (int64_t j = 0; j < experts && a->normalise_rows; j++) {
            double x = ref_get2(&a->x, i, j) / divisor;
            pull += (ref_get2(&a->dsum, b, j) + 2.0 * x * ref_optional2(&a->dsquares, b, j) + both) * x;
        }
        for (int64_t j = 0; j < experts; j++) {
            double x = ref_get2(&a->x, i, j) / divisor;
            double g = ref_get2(&a->dsum, b, j) + 2.0 * x * ref_optional2(&a->dsquares, b, j) + both;
            double dx = counts ? (g - pull) / divisor : 0.0;
            ref_set2(&a->dx, i, j, a->accumulate ? ref_get2(&a->dx, i, j) + dx : dx);
        }
    }
}

// ------------------------------------------------------------------ slot_stats

/*
 * slot_stats: the statistics of column_stats for rows given by their k slots, and how many slots chose each
 * expert. A token's experts are taken to differ: each slot adds by itself, weight² to squares.
 * Backward: dw_s = dsum_e + 2 w_s dsquares_e + 2 drow_squares Σ_m w_m, e the slot's expert.
 */

/* Σ of the weights of a token's slots that have an expert. */
static double token_weight(const struct mt_tensor *expert, const struct mt_tensor *weight, int64_t i)
{
    double total = 0.0;
    for (int64_t s = 0; s < expert->dim[1]; s++) {
        if (ref_int2(expert, i, s) >= 0) total += ref_get2(weight, i, s);
    }
    return total;
}

void mt_ref_slot_stats_forward(const struct mt_slot_stats_forward_args *a)
{
    bool has_weight = mt_tensor_present(&a->weight);
    ref_clear(&a->count);
    ref_clear(&a->first);
    ref_clear(&a->sum);
    ref_clear(&a->squares);
    ref_clear(&a->row_squares);
    ref_clear(&a->rows);
    for (int64_t i = 0; i < a->expert.dim[0]; i++) {
        if (!token_counts(&a->mask, i)) continue;
        int64_t b = token_segment(&a->segment, i);
        double total = has_weight ? token_weight(&a->expert, &a->weight, i) : 0.0;
        ref_add1(&a->row_squares, b, total * total);
        ref_add1(&a->rows, b, 1.0);
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            if (e < 0) continue;
            double w = has_weight ? ref_get2(&a->weight, i, s) : 0.0;
            ref_add2(&a->count, b, e, 1.0);
            if (s == 0) ref_add2(&a->first, b, e, 1.0);
            ref_add2(&a->sum, b, e, w);
            ref_add2(&a->squares, b, e, w * w);
        }
    }
}

void mt_ref_slot_stats_backward(const struct mt_slot_stats_backward_args *a)
{
    for (int64_t i = 0; i < a->expert.dim[0]; i++) {
        bool counts = token_counts(&a->mask, i);
        int64_t b = token_segment(&a->segment, i);
        double both = 2.0 * token_weight(&a->expert, &a->weight, i) * ref_optional1(&a->drow_squares, b);
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            double dw = 0.0;
            if (counts && e >= 0) {
                double w = ref_get2(&a->weight, i, s);
                dw = ref_get2(&a->dsum, b, e) + 2.0 * w * ref_optional2(&a->dsquares, b, e) + both;
            }
            ref_set2(&a->dweight, i, s, a->accumulate ? ref_get2(&a->dweight, i, s) + dw : dw);
        }
    }
}

// ------------------------------------------------------------------ stat_values

/* stat_values: losses that are sums of products of statistics, their weighted total, and its gradient. */

/* A product of layer l; returns its value. */
static double add_product(const struct mt_stat_values_args *a, const struct mt_stat_product *product,
                          int64_t l)
{
    double over = product->over < 0 ? 1.0 : ref_get2(&a->numbers, l, product->over);
    double weight = a->scale * ref_get2(&a->weight, l, product->loss);
    double value = 0.0;
    double share = over > 0.0 ? product->factor : 0.0;
    for (int i = 0; i < product->power && over > 0.0; i++) share /= over;
    for (int64_t i = 0; i < product->count; i++) {
        double x = ref_get2(&a->numbers, l, product->x + i);
        double y = product->y < 0 ? 1.0 : ref_get2(&a->numbers, l, product->y + i);
        value += share * y * x;
        ref_set2(&a->gradient, l, product->x + i,
                 weight * (share * y) * (product->y == product->x ? 2.0 : 1.0));
    }
    return value;
}

void mt_ref_stat_values(const struct mt_stat_values_args *a)
{
    double total = 0.0;
    for (int64_t l = 0; l < a->numbers.dim[0]; l++) {
        for (int i = 0; i < a->products_count; i++) {
            const struct mt_stat_product *product = &a->products[i];
            total += ref_get2(&a->weight, l, product->loss) * add_product(a, product, l);
        }
    }
    ref_set1(&a->total, 0, total);
}

// ------------------------------------------------------------------ router_zloss

/*
 * router_zloss: lse = m + log Σ_j exp(z_j - m), m = max z; sum = Σ_i lse².
 * Backward: dz_j = scale · factor · 2 lse · exp(z_j - lse).
 */

static double row_lse(const struct mt_tensor *logits, int64_t i)
{
    double highest = -INFINITY;
    for (int64_t j = 0; j < logits->dim[1]; j++) highest = fmax(highest, ref_get2(logits, i, j));
    double sum = 0.0;
    for (int64_t j = 0; j < logits->dim[1]; j++) sum += exp(ref_get2(logits, i, j) - highest);
    return sum == 0.0 ? -INFINITY : highest + log(sum);
}

void mt_ref_router_zloss_forward(const struct mt_router_zloss_forward_args *a)
{
    double sum = 0.0;
    for (int64_t i = 0; i < a->logits.dim[0]; i++) {
        double lse = token_counts(&a->mask, i) ? row_lse(&a->logits, i) : 0.0;
        if (mt_tensor_present(&a->lse)) ref_set1(&a->lse, i, lse);
        sum += lse * lse;
    }
    ref_set1(&a->sum, 0, sum);
}

void mt_ref_router_zloss_backward(const struct mt_router_zloss_backward_args *a)
{
    double scale = (double)ref_scale(a->scale, &a->factor);
    for (int64_t i = 0; i < a->logits.dim[0]; i++) {
        bool counts = token_counts(&a->mask, i);
        double lse = counts ? row_lse(&a->logits, i) : 0.0;
        for (int64_t j = 0; j < a->logits.dim[1]; j++) {
            double probability = counts ? exp(ref_get2(&a->logits, i, j) - lse) : 0.0;
            double dz = scale * 2.0 * lse * probability;
            ref_set2(&a->dlogits, i, j, a->accumulate ? ref_get2(&a->dlogits, i, j) + dz : dz);
        }
    }
}

// ------------------------------------------------------------------ router_orth

/*
 * router_orth on the rows w_e [d] of W, pairs e, f of one group (K groups of g = n/K experts):
 *   cosine  Σ (c_ef - δ_ef)² / (K g²), c_ef = <u_e, u_f>, u_e = w_e / l_e, l_e = max(|w_e|, 1e-12)
 *           ∂loss/∂w_e = 4 Σ_f (c_ef - δ_ef) (u_f - c_ef u_e) / l_e / (K g²): what u_f has in common with u_e
 *           is taken out pair by pair, because the length of u_e cannot change; where l_e is clamped, it can
 *   L1      Σ |G_ef - δ_ef|, G_ef = <w_e, w_f>; ∂loss/∂w_e = 2 Σ_f sign(G_ef - δ_ef) w_f
 * One formula for both: ∂loss/∂w_e = factor_e Σ_f pull_ef (r_f - kept_ef r_e), r the rows as they are
 * compared.
 */

/* The rows as they are compared. */
struct rows {
    const struct mt_tensor *weight;
    bool cosine;
    int64_t size; // of a group
};

static struct rows rows_of(const struct mt_tensor *weight, enum mt_router_orth_kind kind, int groups)
{
    return (struct rows){
        .weight = weight,
        .cosine = kind == MT_ROUTER_ORTH_COSINE,
        .size = weight->dim[0] / (groups > 1 ? groups : 1),
    };
}

static double squared_length(const struct rows *r, int64_t e)
{
    double sum = 0.0;
    for (int64_t j = 0; j < r->weight->dim[1]; j++)
        sum += ref_get2(r->weight, e, j) * ref_get2(r->weight, e, j);
    return sum;
}

/* What row e is divided by. */
static double length_of(const struct rows *r, int64_t e)
{
    if (!r->cosine) return 1.0;
    double length = sqrt(squared_length(r, e));
    return length <= SHORTEST ? SHORTEST : length; // NaN stays
}

static double product_of(const struct rows *r, int64_t e, int64_t f)
{
    double of_e = length_of(r, e);
    double of_f = length_of(r, f);
    double sum = 0.0;
    for (int64_t j = 0; j < r->weight->dim[1]; j++) {
        sum += ref_get2(r->weight, e, j) / of_e * (ref_get2(r->weight, f, j) / of_f);
    }
    return sum;
}

static double divisor_of(const struct rows *r)
{
    return r->cosine ? (double)(r->weight->dim[0] * r->size) : 1.0;
}

static double sign_of(double x)
{
    return (double)((x > 0.0) - (x < 0.0));
}

void mt_ref_router_orth_forward(const struct mt_router_orth_forward_args *a)
{
    struct rows rows = rows_of(&a->weight, a->kind, a->groups);
    double sum = 0.0;
    for (int64_t e = 0; e < a->weight.dim[0]; e++) {
        int64_t from = e / rows.size * rows.size;
        for (int64_t f = from; f < from + rows.size; f++) {
            double difference = product_of(&rows, e, f) - (e == f ? 1.0 : 0.0);
            sum += rows.cosine ? difference * difference : fabs(difference);
        }
    }
    ref_set1(&a->loss, 0, sum / divisor_of(&rows));
}

/* Columns [start, start + count) of Σ_f pull_ef (r_f - kept_ef r_e). */
static void pull_row(const struct rows *r, int64_t e, int64_t start, int64_t count, double *pulled)
{
    double own = length_of(r, e);
    bool turns = r->cosine && own > SHORTEST; // a row that keeps its length
    for (int64_t j = 0; j < count; j++) pulled[j] = 0.0;
    int64_t from = e / r->size * r->size;
    for (int64_t f = from; f < from + r->size; f++) {
        double product = product_of(r, e, f);
        double difference = product - (e == f ? 1.0 : 0.0);
        double pull = r->cosine ? difference : sign_of(difference);
        double other = length_of(r, f);
        for (int64_t j = 0; j < count; j++) {
            double along = turns ? product * (ref_get2(r->weight, e, start + j) / own) : 0.0;
            pulled[j] += pull * (ref_get2(r->weight, f, start + j) / other - along);
        }
    }
}

void mt_ref_router_orth_backward(const struct mt_router_orth_backward_args *a)
{
    struct rows rows = rows_of(&a->weight, a->kind, a->groups);
    double squares = 0.0;
    for (int64_t e = 0; e < a->weight.dim[0]; e++) {
        double factor =
            (double)a->scale * (rows.cosine ? 4.0 : 2.0) / divisor_of(&rows) / length_of(&rows, e);
        for (int64_t start = 0; start < a->weight.dim[1]; start += BLOCK) {
            int64_t left = a->weight.dim[1] - start;
            int64_t count = left < BLOCK ? left : BLOCK;
            double pulled[BLOCK];
            pull_row(&rows, e, start, count, pulled);
            for (int64_t j = 0; j < count; j++) {
                double gradient = factor * pulled[j];
                squares += gradient * gradient;
                if (!mt_tensor_present(&a->dweight)) continue;
                ref_set2(&a->dweight, e, start + j, ref_get2(&a->dweight, e, start + j) + gradient);
            }
        }
    }
    if (mt_tensor_present(&a->squares)) ref_set1(&a->squares, 0, squares);
}

// ------------------------------------------------------------------ dominance

/*
 * dominance: Σ over i and j ≠ i of [M_ij - α M_ii]₊ + [M_ji - α M_ii]₊, over n². An entry off the diagonal is
 * in two of these, one with the diagonal of its row and one with that of its column.
 */

static double entry(const struct mt_tensor *squares, int64_t i, int64_t j)
{
    return sqrt(ref_get2(squares, i, j));
}

/* Entry (i,j) less α times entry (d,d). */
static double excess(const struct mt_tensor *squares, double alpha, int64_t i, int64_t j, int64_t d)
{
    return entry(squares, i, j) - alpha * entry(squares, d, d);
}

void mt_ref_dominance_forward(const struct mt_dominance_forward_args *a)
{
    int64_t experts = a->squares.dim[0];
    double alpha = (double)a->alpha;
    double sum = 0.0;
    for (int64_t i = 0; i < experts; i++) {
        for (int64_t j = 0; j < experts; j++) {
            if (i == j) continue;
            sum += fmax(excess(&a->squares, alpha, i, j, i), 0.0);
            sum += fmax(excess(&a->squares, alpha, i, j, j), 0.0);
        }
    }
    ref_set1(&a->loss, 0, sum / (double)(experts * experts));
}

/* ∂loss/∂M[i,j], times n². */
static double slope(const struct mt_tensor *squares, double alpha, int64_t i, int64_t j)
{
    if (i != j)
        return (excess(squares, alpha, i, j, i) > 0.0 ? 1.0 : 0.0) +
               (excess(squares, alpha, i, j, j) > 0.0 ? 1.0 : 0.0);
    double above = 0.0;
    for (int64_t m = 0; m < squares->dim[0]; m++) {
        if (m == i) continue;
        above += excess(squares, alpha, i, m, i) > 0.0 ? 1.0 : 0.0;
        above += excess(squares, alpha, m, i, i) > 0.0 ? 1.0 : 0.0;
    }
    return -alpha * above;
}

void mt_ref_dominance_backward(const struct mt_dominance_backward_args *a)
{
    int64_t experts = a->squares.dim[0];
    double share = ref_get1(&a->dloss, 0) / (double)(experts * experts);
    double sum = 0.0;
    for (int64_t i = 0; i < experts; i++) {
        for (int64_t j = 0; j < experts; j++) {
            double gradient = share * slope(&a->squares, (double)a->alpha, i, j);
            double length = entry(&a->squares, i, j);
            sum += gradient * gradient;
            if (mt_tensor_present(&a->coupling))
                ref_set2(&a->coupling, i, j, length > 0.0 ? gradient / length : 0.0);
        }
    }
    if (mt_tensor_present(&a->sum)) ref_set1(&a->sum, 0, sum);
}

// ------------------------------------------------------------------ joint_mass

/*
 * joint_mass: product = m m', m = Σ_s P[e_s] / S, S = Σ_j P_j or, without normalise_rows, 1.
 * Backward: dP_j += dproduct m' (how often j was chosen - m) / S; without normalise_rows the m is not there.
 */

static double row_sum(const struct mt_tensor *probs, int64_t i)
{
    double sum = 0.0;
    for (int64_t j = 0; j < probs->dim[1]; j++) sum += ref_get2(probs, i, j);
    return sum;
}

static double mass_of(const struct mt_tensor *probs, const struct mt_tensor *expert, bool normalise,
                      int64_t i)
{
    double mass = 0.0;
    for (int64_t s = 0; s < expert->dim[1]; s++) {
        int32_t chosen = ref_int2(expert, i, s);
        if (chosen >= 0) mass += ref_get2(probs, i, chosen);
    }
    return normalise ? mass / row_sum(probs, i) : mass;
}

void mt_ref_joint_mass_forward(const struct mt_joint_mass_forward_args *a)
{
    for (int64_t i = 0; i < a->probs.dim[0]; i++) {
        double product = 0.0;
        if (token_counts(&a->mask, i))
            product = mass_of(&a->probs, &a->expert, a->normalise_rows, i) *
                      mass_of(&a->other_probs, &a->other_expert, a->normalise_rows, i);
        ref_set1(&a->product, i, product);
    }
}

void mt_ref_joint_mass_backward(const struct mt_joint_mass_backward_args *a)
{
    for (int64_t i = 0; i < a->probs.dim[0]; i++) {
        if (!token_counts(&a->mask, i)) continue;
        double pull =
            ref_get1(&a->dproduct, 0) * mass_of(&a->other_probs, &a->other_expert, a->normalise_rows, i);
        if (a->normalise_rows) {
            pull /= row_sum(&a->probs, i);
            double mass = mass_of(&a->probs, &a->expert, true, i);
            for (int64_t j = 0; j < a->probs.dim[1]; j++) ref_add2(&a->dprobs, i, j, -pull * mass);
        }
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            int32_t chosen = ref_int2(&a->expert, i, s);
            if (chosen >= 0) ref_add2(&a->dprobs, i, chosen, pull);
        }
    }
}

// ------------------------------------------------------------------ ortho

/*
 * ortho, for a token with Gram matrix G of its k rows (q = G_ab, A = G_aa, B = G_bb), sums over a ≠ b:
 *   pairwise  Σ q² B / (B + ε)²                 ∂/∂q = 2 q B / (B + ε)²,  ∂/∂B = q² (ε - B) / (B + ε)³
 *   span      see ops/span.h
 *   cosine    Σ q² / ((A + ε)(B + ε)) / (k(k-1))
 *   signed    Σ q / √((A + ε)(B + ε)) / (k(k-1))
 * Backward: coupling = scale · factor · (Γ + Γᵀ), Γ_ab = ∂ loss / ∂ G_ab. A division by zero (ε = 0, zero
 * row) is a term that is not there.
 */

/* What a token's loss is made of, in double. */
struct token {
    int k;
    double gram[MOST * MOST]; // [k,k]; zero rows and columns where the gate is closed
};

/* False for a masked token, which is not read at all. */
static bool read_token(struct token *token, const struct mt_tensor *gram, const struct mt_tensor *weight,
                       const struct mt_tensor *mask, float gate, int64_t i)
{
    if (mt_tensor_present(mask) && ref_int1(mask, i) == 0) return false;
    int k = (int)gram->dim[1];
    token->k = k;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            bool closed = mt_tensor_present(weight) &&
                          (ref_get2(weight, i, a) <= (double)gate || ref_get2(weight, i, b) <= (double)gate);
            token->gram[a * k + b] = closed ? 0.0 : ref_get3(gram, i, a, b);
        }
    }
    return true;
}

/* Of gram's entries, for span. */
static double rounding_of(const struct mt_tensor *gram)
{
    return gram->dtype == MT_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
}

static double span_loss(const struct token *token, double epsilon, double rounding)
{
    double workspace[MT_ORTHO_SPAN_VALUE_WORKSPACE(MOST)];
    return mt_ortho_span_value(token->gram, token->k, token->k, epsilon, rounding, workspace);
}

/* 1 / x, or 0 where that does not exist. */
static double inverse(double x)
{
    return x == 0.0 ? 0.0 : 1.0 / x;
}

static double pairwise_loss(const struct token *token, double epsilon)
{
    int k = token->k;
    double sum = 0.0;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            double q = token->gram[a * k + b];
            double square = token->gram[b * k + b];
            double over = inverse(square + epsilon);
            if (a != b) sum += q * q * square * over * over;
        }
    }
    return sum;
}

static void pairwise_gradient(const struct token *token, double epsilon, double *gradient)
{
    int k = token->k;
    for (int b = 0; b < k; b++) {
        double square = token->gram[b * k + b];
        double over = inverse(square + epsilon);
        double squares = 0.0;
        for (int a = 0; a < k; a++) {
            double q = token->gram[a * k + b];
            gradient[a * k + b] = 2.0 * q * square * over * over;
            if (a != b) squares += q * q;
        }
        gradient[b * k + b] = squares * (epsilon - square) * over * over * over;
    }
}

static double cosine_loss(const struct token *token, double epsilon)
{
    int k = token->k;
    double sum = 0.0;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            double q = token->gram[a * k + b];
            double over_a = inverse(token->gram[a * k + a] + epsilon);
            double over_b = inverse(token->gram[b * k + b] + epsilon);
            if (a != b) sum += q * q * over_a * over_b;
        }
    }
    return k > 1 ? sum / (double)(k * (k - 1)) : 0.0;
}

static void cosine_gradient(const struct token *token, double epsilon, double *gradient)
{
    int k = token->k;
    double mean = inverse((double)(k * (k - 1)));
    for (int a = 0; a < k; a++) {
        double over_a = inverse(token->gram[a * k + a] + epsilon);
        double pulls = 0.0; // Σ_b of the terms (a,b) and (b,a), times A + ε
        for (int b = 0; b < k; b++) {
            double q = token->gram[a * k + b];
            double other = token->gram[b * k + a];
            double over_b = inverse(token->gram[b * k + b] + epsilon);
            gradient[a * k + b] = mean * 2.0 * q * over_a * over_b;
            if (a != b) pulls += (q * q + other * other) * over_b;
        }
        gradient[a * k + a] = -mean * pulls * over_a * over_a;
    }
}

/* 1 / √(x + ε), or 0 for a row of zeros, which has no direction. */
static double inverse_length(double square, double epsilon)
{
    return square > 0.0 ? 1.0 / sqrt(square + epsilon) : 0.0;
}

static double signed_loss(const struct token *token, double epsilon)
{
    int k = token->k;
    double sum = 0.0;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            double over_a = inverse_length(token->gram[a * k + a], epsilon);
            double over_b = inverse_length(token->gram[b * k + b], epsilon);
            if (a != b) sum += token->gram[a * k + b] * over_a * over_b;
        }
    }
    return k > 1 ? sum / (double)(k * (k - 1)) : 0.0;
}

static void signed_gradient(const struct token *token, double epsilon, double *gradient)
{
    int k = token->k;
    double mean = inverse((double)(k * (k - 1)));
    for (int a = 0; a < k; a++) {
        double over_a = inverse_length(token->gram[a * k + a], epsilon);
        double pulls = 0.0; // Σ_b of the terms (a,b) and (b,a), times √(A + ε)
        for (int b = 0; b < k; b++) {
            double over_b = inverse_length(token->gram[b * k + b], epsilon);
            gradient[a * k + b] = mean * over_a * over_b;
            if (a != b) pulls += (token->gram[a * k + b] + token->gram[b * k + a]) * over_b;
        }
        gradient[a * k + a] = -0.5 * mean * pulls * over_a * over_a * over_a;
    }
}

void mt_ref_ortho_forward(const struct mt_ortho_forward_args *a)
{
    double total = 0.0;
    for (int64_t i = 0; i < a->gram.dim[0]; i++) {
        struct token token;
        double epsilon = (double)a->epsilon;
        double loss = 0.0;
        if (read_token(&token, &a->gram, &a->weight, &a->mask, a->gate, i)) {
            switch (a->form) {
            case MT_ORTHO_PAIRWISE: loss = pairwise_loss(&token, epsilon); break;
            case MT_ORTHO_SPAN: loss = span_loss(&token, epsilon, rounding_of(&a->gram)); break;
            case MT_ORTHO_COSINE: loss = cosine_loss(&token, epsilon); break;
            case MT_ORTHO_SIGNED: loss = signed_loss(&token, epsilon); break;
            }
        }
        ref_set1(&a->loss, i, loss);
        total += ref_get1(&a->loss, i); // as it was rounded
    }
    if (mt_tensor_present(&a->sum)) ref_set1(&a->sum, 0, total);
    if (mt_tensor_present(&a->rows)) ref_set1(&a->rows, 0, ref_tokens(&a->mask, a->gram.dim[0]));
}

/* The paper's printed gradient is a coupling by itself: not symmetric, nothing on the diagonal. */
static void store_printed(const struct mt_ortho_backward_args *a, const struct token *token, double scale,
                          int64_t i)
{
    int k = token->k;
    for (int s = 0; s < k; s++) {
        for (int m = 0; m < k; m++) {
            double over = inverse(token->gram[m * k + m] + (double)a->epsilon);
            double coupling = s == m ? 0.0 : scale * token->gram[s * k + m] * over;
            ref_set3(&a->coupling, i, s, m, coupling);
        }
    }
}

static void store_exact(const struct mt_ortho_backward_args *a, const struct token *token, double scale,
                        int64_t i)
{
    int k = token->k;
    double epsilon = (double)a->epsilon;
    double gradient[MOST * MOST]; // [k,k]
    double workspace[MT_ORTHO_SPAN_GRADIENT_WORKSPACE(MOST)];
    switch (a->form) {
    case MT_ORTHO_PAIRWISE: pairwise_gradient(token, epsilon, gradient); break;
    case MT_ORTHO_SPAN:
        mt_ortho_span_gradient(token->gram, k, epsilon, rounding_of(&a->gram), gradient, workspace);
        break;
    case MT_ORTHO_COSINE: cosine_gradient(token, epsilon, gradient); break;
    case MT_ORTHO_SIGNED: signed_gradient(token, epsilon, gradient); break;
    }
    for (int s = 0; s < k; s++) {
        for (int m = 0; m < k; m++) {
            ref_set3(&a->coupling, i, s, m, scale * (gradient[s * k + m] + gradient[m * k + s]));
        }
    }
}

void mt_ref_ortho_backward(const struct mt_ortho_backward_args *a)
{
    int64_t slots = a->gram.dim[1];
    double scale = (double)ref_scale(a->scale, &a->factor);
    for (int64_t i = 0; i < a->gram.dim[0]; i++) {
        struct token token;
        if (!read_token(&token, &a->gram, &a->weight, &a->mask, a->gate, i)) {
            for (int64_t pair = 0; pair < slots * slots; pair++) {
                ref_set3(&a->coupling, i, pair / slots, pair % slots, 0.0);
            }
        } else if (a->printed_gradient) {
            store_printed(a, &token, scale, i);
        } else {
            store_exact(a, &token, scale, i);
        }
    }
}

// ------------------------------------------------------------------ logit_summary

/* logit_summary: the first of the highest, or -1 where a logit is not finite; log Σ exp. */

static int64_t highest_of(const struct mt_tensor *logits, int64_t r)
{
    int64_t highest = -1;
    for (int64_t j = 0; j < logits->dim[1]; j++) {
        double x = ref_get2(logits, r, j);
        if (!isfinite(x)) return -1;
        if (highest < 0 || x > ref_get2(logits, r, highest)) highest = j;
    }
    return highest;
}

static double log_sum_of(const struct mt_tensor *logits, int64_t r, int64_t highest)
{
    double sum = 0.0;
    if (highest < 0) return (double)NAN;
    double most = ref_get2(logits, r, highest);
    for (int64_t j = 0; j < logits->dim[1]; j++) sum += exp(ref_get2(logits, r, j) - most);
    return most + log(sum);
}

void mt_ref_logit_summary(const struct mt_logit_summary_args *a)
{
    int32_t *out = a->highest.data;
    for (int64_t r = 0; r < a->logits.dim[0]; r++) {
        int64_t highest = highest_of(&a->logits, r);
        out[r] = (int32_t)highest;
        if (mt_tensor_present(&a->log_sum)) ref_set1(&a->log_sum, r, log_sum_of(&a->logits, r, highest));
    }
}
