/* The router's scores and choices, the rules that change these, dispatch and combine. */
#include <math.h>

#include "base/rng.h"
#include "ops/ref/ref.h"
#include "ops/ref/tokens.h"

// ------------------------------------------------------------------ router_score

/*
 * router_score: p = softmax(z) or sigmoid(z) along the experts.
 * Backward: softmax dz_j = p_j (g_j - Σ_m p_m g_m); sigmoid dz_j = g_j p_j (1 - p_j).
 */

static void softmax_row(const struct mt_tensor *logits, const struct mt_tensor *probs, int64_t i)
{
    int64_t experts = logits->dim[1];
    double highest = -INFINITY;
    for (int64_t j = 0; j < experts; j++) highest = fmax(highest, ref_get2(logits, i, j));
    double sum = 0.0;
    for (int64_t j = 0; j < experts; j++) sum += exp(ref_get2(logits, i, j) - highest);
    for (int64_t j = 0; j < experts; j++) {
        ref_set2(probs, i, j, exp(ref_get2(logits, i, j) - highest) / sum);
    }
}

void mt_ref_router_score_forward(const struct mt_router_score_forward_args *a)
{
    for (int64_t i = 0; i < a->logits.dim[0]; i++) {
        if (a->kind == MT_SCORE_SOFTMAX) {
            softmax_row(&a->logits, &a->probs, i);
            continue;
        }
        for (int64_t j = 0; j < a->logits.dim[1]; j++) {
            ref_set2(&a->probs, i, j, 1.0 / (1.0 + exp(-ref_get2(&a->logits, i, j))));
        }
    }
}

void mt_ref_router_score_backward(const struct mt_router_score_backward_args *a)
{
    int64_t experts = a->probs.dim[1];
    for (int64_t i = 0; i < a->probs.dim[0]; i++) {
        double mean = 0.0; // of g under p
        for (int64_t j = 0; j < experts; j++) mean += ref_get2(&a->probs, i, j) * ref_get2(&a->dprobs, i, j);
        for (int64_t j = 0; j < experts; j++) {
            double p = ref_get2(&a->probs, i, j);
            double g = ref_get2(&a->dprobs, i, j);
            double dz = a->kind == MT_SCORE_SOFTMAX ? p * (g - mean) : g * p * (1.0 - p);
            ref_set2(&a->dlogits, i, j, a->accumulate ? ref_get2(&a->dlogits, i, j) + dz : dz);
        }
    }
}

// ------------------------------------------------------------------ topk

/*
 * topk: the k experts that come first by (score falling, index rising), score = probs + bias. Scores and
 * group sums are rounded to the type of probs, so that every device decides ties alike. NaN comes last,
 * masked or not.
 */

static double rounded(const struct mt_tensor *probs, double value)
{
    return probs->dtype == MT_F32 ? (double)(float)value : value;
}

static double score(const struct mt_tensor *probs, const struct mt_tensor *bias, int64_t i, int64_t j)
{
    return rounded(probs, ref_get2(probs, i, j) + (mt_tensor_present(bias) ? ref_get1(bias, j) : 0.0));
}

static double group_score(const struct mt_topk_args *a, int64_t i, int64_t group)
{
    int64_t size = a->probs.dim[1] / a->groups;
    double best = NAN;
    double second = NAN;
    for (int64_t j = group * size; j < (group + 1) * size; j++) {
        double value = score(&a->probs, &a->bias, i, j);
        if (ref_comes_before(value, 0, best, 0)) {
            second = best;
            best = value;
        } else if (ref_comes_before(value, 0, second, 0)) {
            second = value;
        }
    }
    return a->group_rule == MT_GROUP_MAX ? best : rounded(&a->probs, best + second);
}

/* True when fewer than groups_kept groups stand before this one. */
static bool group_is_kept(const struct mt_topk_args *a, int64_t i, int64_t group)
{
    double own = group_score(a, i, group);
    int before = 0;
    for (int64_t other = 0; other < a->groups; other++) {
        before += ref_comes_before(group_score(a, i, other), other, own, group);
    }
    return before < a->groups_kept;
}

/* What the selection compares: the score, or the mask's value in a group that was not kept. */
static double masked_score(const struct mt_topk_args *a, int64_t i, int64_t j)
{
    double value = score(&a->probs, &a->bias, i, j);
    if (a->group_rule == MT_GROUP_NONE || isnan(value)) return value;
    int64_t size = a->probs.dim[1] / a->groups;
    if (group_is_kept(a, i, j / size)) return value;
    return a->group_rule == MT_GROUP_MAX ? 0.0 : -INFINITY;
}

void mt_ref_topk(const struct mt_topk_args *a)
{
    int64_t experts = a->probs.dim[1];
    for (int64_t i = 0; i < a->probs.dim[0]; i++) {
        double last = INFINITY; // the slot before; an imagined one stands before everything
        int64_t last_index = -1;
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            double best = 0.0;
            int64_t best_index = -1;
            for (int64_t j = 0; j < experts; j++) {
                double value = masked_score(a, i, j);
                if (!ref_comes_before(last, last_index, value, j)) continue;
                if (best_index < 0 || ref_comes_before(value, j, best, best_index)) {
                    best = value;
                    best_index = j;
                }
            }
            ref_set2(&a->expert, i, s, (double)best_index);
            last = best;
            last_index = best_index;
        }
    }
}

// ------------------------------------------------------------------ topk_weights

/*
 * topk_weights: w_s = scale · p_s, or with normalise scale · p_s / D, D = Σ_m p_m + ε over the chosen.
 * Backward, chosen expert of slot s: scale · g_s, or scale · (g_s / D - Σ_m g_m p_m / D²).
 */

/* The chosen probabilities of token i, added up, plus epsilon; 1 where nothing is normalised. */
static double divisor(const struct mt_tensor *probs, const struct mt_tensor *expert, int64_t i,
                      bool normalise, float epsilon)
{
    if (!normalise) return 1.0;
    double sum = 0.0;
    for (int64_t s = 0; s < expert->dim[1]; s++) {
        int32_t e = ref_int2(expert, i, s);
        if (e >= 0) sum += ref_get2(probs, i, e);
    }
    return sum + (double)epsilon;
}

void mt_ref_topk_weights_forward(const struct mt_topk_weights_forward_args *a)
{
    for (int64_t i = 0; i < a->expert.dim[0]; i++) {
        double denominator = divisor(&a->probs, &a->expert, i, a->normalise, a->epsilon);
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            double weight = e < 0 ? 0.0 : (double)a->scale * ref_get2(&a->probs, i, e) / denominator;
            ref_set2(&a->weight, i, s, weight);
        }
    }
}

void mt_ref_topk_weights_backward(const struct mt_topk_weights_backward_args *a)
{
    int64_t slots = a->expert.dim[1];
    for (int64_t i = 0; i < a->expert.dim[0]; i++) {
        double denominator = divisor(&a->probs, &a->expert, i, a->normalise, a->epsilon);
        double dot = 0.0; // Σ g p over the chosen
        for (int64_t s = 0; s < slots; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            if (e >= 0) dot += ref_get2(&a->dweight, i, s) * ref_get2(&a->probs, i, e);
        }
        double pull = a->normalise ? dot / (denominator * denominator) : 0.0;
        for (int64_t j = 0; j < a->probs.dim[1] && !a->accumulate; j++) ref_set2(&a->dprobs, i, j, 0.0);
        for (int64_t s = 0; s < slots; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            if (e < 0) continue;
            double dp = (double)a->scale * (ref_get2(&a->dweight, i, s) / denominator - pull);
            ref_set2(&a->dprobs, i, e, ref_get2(&a->dprobs, i, e) + dp);
        }
    }
}

// ------------------------------------------------------------------ sparsemixer

/*
 * SparseMixer-2, slot by slot. With z the logits still allowed and m their maximum, expert j competes
 * unless (m - z_j) / max(|z_j|, m) > 2·jitter; p is the softmax over those that compete.
 * Evaluation: e = argmax z, w = p_e. Training: e = argmax z_j - log(-log u_j) over those that compete,
 * w = p_e · c, c = 1 if e is the argmax or u_n > 0.75, else 1/3.
 * Backward (both): dz_j += g · p_e · (1[j = e] - p_j), the mask and c being constants.
 * A NaN logit is never the maximum before a number, always competes, and makes the weight NaN.
 */

struct contest {
    const struct mt_tensor *logits;
    int64_t i;        // token
    int32_t excluded; // the first slot's choice; -1 in the first slot
    double threshold; // 2·jitter
    double highest;
    int32_t argmax;
    double sum; // Σ exp(z - highest) over those that compete
};

static bool competes(const struct contest *c, int64_t j)
{
    if (j == c->excluded) return false;
    double z = ref_get2(c->logits, c->i, j);
    return !((c->highest - z) / fmax(fabs(z), c->highest) > c->threshold);
}

static double probability(const struct contest *c, int64_t j)
{
    return competes(c, j) ? exp(ref_get2(c->logits, c->i, j) - c->highest) / c->sum : 0.0;
}

static struct contest open_contest(const struct mt_tensor *logits, int64_t i, int32_t excluded, float jitter)
{
    struct contest c = {.logits = logits, .i = i, .excluded = excluded, .threshold = 2.0 * (double)jitter};
    c.highest = -INFINITY;
    c.argmax = excluded == 0 ? 1 : 0;
    for (int32_t j = 0; j < logits->dim[1]; j++) {
        double z = ref_get2(logits, i, j);
        if (j == excluded || !(z > c.highest)) continue;
        c.highest = z;
        c.argmax = j;
    }
    for (int64_t j = 0; j < logits->dim[1]; j++) {
        if (competes(&c, j)) c.sum += exp(ref_get2(logits, i, j) - c.highest);
    }
    return c;
}

/* Gumbel-max: a draw from p. `first` is the element of the draw that belongs to expert 0. */
static int32_t sample(const struct contest *c, const struct mt_sparsemixer_forward_args *a, uint64_t first)
{
    double best = -INFINITY;
    int32_t chosen = c->argmax;
    for (int32_t j = 0; j < c->logits->dim[1]; j++) {
        if (!competes(c, j)) continue;
        double u = (double)mt_rng_unit_open(mt_rng_u32(a->seed, a->stream, first + (uint64_t)j));
        double noisy = ref_get2(c->logits, c->i, j) - log(-log(u));
        if (!(noisy > best)) continue;
        best = noisy;
        chosen = j;
    }
    return chosen;
}

void mt_ref_sparsemixer_forward(const struct mt_sparsemixer_forward_args *a)
{
    uint64_t experts = (uint64_t)a->logits.dim[1];
    for (int64_t i = 0; i < a->logits.dim[0]; i++) {
        int32_t chosen = -1;
        for (int slot = 0; slot < 2; slot++) {
            struct contest c = open_contest(&a->logits, i, chosen, a->jitter);
            double factor = 1.0;
            chosen = c.argmax;
            if (a->training) {
                uint64_t first = ((uint64_t)i * 2 + (uint64_t)slot) * (experts + 1);
                chosen = sample(&c, a, first);
                bool lucky = mt_rng_uniform(a->seed, a->stream, first + experts) > 0.75f;
                if (chosen != c.argmax && !lucky) factor = 1.0 / 3.0;
            }
            ref_set2(&a->expert, i, slot, (double)chosen);
            ref_set2(&a->weight, i, slot, factor * probability(&c, chosen));
        }
    }
}

void mt_ref_sparsemixer_backward(const struct mt_sparsemixer_backward_args *a)
{
    int64_t experts = a->logits.dim[1];
    for (int64_t i = 0; i < a->logits.dim[0]; i++) {
        int32_t e1 = ref_int2(&a->expert, i, 0);
        int32_t e2 = ref_int2(&a->expert, i, 1);
        struct contest first = open_contest(&a->logits, i, -1, a->jitter);
        struct contest second = open_contest(&a->logits, i, e1, a->jitter);
        double g1 = ref_get2(&a->dweight, i, 0) * probability(&first, e1);
        double g2 = ref_get2(&a->dweight, i, 1) * probability(&second, e2);
        for (int64_t j = 0; j < experts; j++) {
            double dz = g1 * ((j == e1 ? 1.0 : 0.0) - probability(&first, j)) +
                        g2 * ((j == e2 ? 1.0 : 0.0) - probability(&second, j));
            ref_set2(&a->dlogits, i, j, a->accumulate ? ref_get2(&a->dlogits, i, j) + dz : dz);
        }
    }
}

// ------------------------------------------------------------------ unchosen_backward

/* unchosen_backward: the definition. */

void mt_ref_unchosen_backward(const struct mt_unchosen_backward_args *a)
{
    for (int64_t i = 0; i < a->dy.dim[0]; i++) {
        double divisor = a->normalise ? (double)a->epsilon : 1.0;
        bool chosen = false;
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            chosen = chosen || e == a->number;
            if (a->normalise && e >= 0) divisor += ref_get2(&a->probs, i, e);
        }
        if (chosen) continue;
        double dot = 0.0;
        for (int64_t c = 0; c < a->dy.dim[1]; c++)
            dot += ref_get2(&a->dy, i, c) * ref_get2(&a->outputs, i, c);
        double before = ref_get2(&a->dprobs, i, a->number);
        ref_set2(&a->dprobs, i, a->number, before + (double)a->scale / divisor * dot);
    }
}

// ------------------------------------------------------------------ slot_drop

/*
 * slot_drop: first what chance drops, token by token; then what capacity drops. Experts do not see each
 * other, so each is filled in its own pass over the slots, and a single counter serves them all.
 */

/* True when slot s of token i loses its draw: share <= threshold · u. */
static bool loses_draw(const struct mt_slot_drop_args *a, int64_t i, int64_t s)
{
    if (s == 0 || !(a->threshold > 0.0f)) return false;
    int64_t slots = a->expert.dim[1];
    double total = 0.0;
    for (int64_t m = 0; m < slots; m++) total += ref_get2(&a->weight, i, m);
    double share = ref_get2(&a->weight, i, s) / total;
    float u = mt_rng_unit(mt_rng_u32(a->seed, a->stream, (uint64_t)(i * slots + s)));
    return share <= (double)a->threshold * (double)u;
}

/* Drops the slots of expert e beyond its capacity, in the order of s, then i. */
static void fill_expert(const struct mt_slot_drop_args *a, int32_t e)
{
    int64_t served = 0;
    for (int64_t s = 0; s < a->kept.dim[1]; s++) {
        for (int64_t i = 0; i < a->kept.dim[0]; i++) {
            if (ref_int2(&a->kept, i, s) != e) continue;
            if (served == a->capacity) {
                ref_set2(&a->kept, i, s, -1.0);
            } else {
                served++;
            }
        }
    }
}

void mt_ref_slot_drop(const struct mt_slot_drop_args *a)
{
    for (int64_t i = 0; i < a->expert.dim[0]; i++) {
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            bool stays = e >= 0 && token_counts(&a->mask, i) && !loses_draw(a, i, s);
            ref_set2(&a->kept, i, s, stays ? (double)e : -1.0);
        }
    }
    for (int32_t e = 0; e < a->experts && a->capacity > 0; e++) fill_expert(a, e);
}

// ------------------------------------------------------------------ given_experts

/* given_experts: token by token, counting what agrees before it is overwritten. */

/* How many of a token's given experts the router has chosen itself. */
static int64_t count_agreed(const struct mt_given_experts_args *a, int64_t i)
{
    int64_t slots = a->given.dim[1];
    int64_t count = 0;
    for (int64_t s = 0; s < slots; s++) {
        for (int64_t m = 0; m < slots; m++) count += ref_int2(&a->given, i, s) == ref_int2(&a->expert, i, m);
    }
    return count;
}

void mt_ref_given_experts(const struct mt_given_experts_args *a)
{
    int64_t slots = a->given.dim[1];
    for (int64_t i = 0; i < a->given.dim[0]; i++) {
        bool given = slots > 0 && ref_int2(&a->given, i, 0) >= 0;
        if (mt_tensor_present(&a->agreed)) {
            ref_set2(&a->agreed, i, 0, given ? (double)count_agreed(a, i) : 0.0);
            ref_set2(&a->agreed, i, 1, given ? (double)slots : 0.0);
        }
        for (int64_t s = 0; given && s < slots; s++)
            ref_set2(&a->expert, i, s, (double)ref_int2(&a->given, i, s));
    }
}

// ------------------------------------------------------------------ balance_quantile

/*
 * balance_quantile: both selections walk down from the largest, each step to the next in the order (value
 * falling, place rising). Scores and margins are rounded to the type of probs, so that every device selects
 * the same number.
 */

static double token_score(const struct mt_balance_quantile_args *a, int64_t i, int64_t j)
{
    return score(&a->probs, &a->bias, i, j);
}

static bool counts(const struct mt_balance_quantile_args *a, int64_t i)
{
    return !mt_tensor_present(&a->mask) || ref_int1(&a->mask, i) != 0;
}

/* Masked tokens come last, with what is not a number. */
static double margin(const struct mt_balance_quantile_args *a, int64_t i, int64_t j)
{
    return counts(a, i) ? ref_get2(&a->margin, j, i) : NAN;
}

/* The value `before` others stand before, among `count` numbers of a row: a token's scores, or a margin's. */
static double select_one(const struct mt_balance_quantile_args *a,
                         double (*value_of)(const struct mt_balance_quantile_args *, int64_t, int64_t),
                         int64_t row, bool of_token, int64_t count, int64_t before)
{
    double last = INFINITY;
    int64_t last_place = -1;
    for (int64_t step = 0; step <= before; step++) {
        double best = NAN;
        int64_t best_place = count;
        for (int64_t p = 0; p < count; p++) {
            double value = of_token ? value_of(a, row, p) : value_of(a, p, row);
            if (!ref_comes_before(last, last_place, value, p)) continue;
            if (best_place == count || ref_comes_before(value, p, best, best_place)) {
                best = value;
                best_place = p;
            }
        }
        last = best;
        last_place = best_place;
    }
    return last;
}

void mt_ref_balance_quantile(const struct mt_balance_quantile_args *a)
{
    int64_t tokens = a->probs.dim[0];
    int64_t experts = a->probs.dim[1];
    int64_t unmasked = 0;
    for (int64_t i = 0; i < tokens; i++) {
        bool own = counts(a, i);
        unmasked += own;
        double threshold = own ? select_one(a, token_score, i, true, experts, a->slots) : 0.0;
        for (int64_t j = 0; j < experts; j++)
            ref_set2(&a->margin, j, i, own ? rounded(&a->probs, ref_get2(&a->probs, i, j) - threshold) : 0.0);
    }
    int64_t before = unmasked * a->slots / experts;
    if (before > unmasked - 1) before = unmasked - 1;
    for (int64_t j = 0; j < experts; j++) {
        double found = unmasked > 0 ? select_one(a, margin, j, false, tokens, before) : 0.0;
        ref_set1(&a->sum, j, (double)unmasked * found);
    }
    ref_set1(&a->rows, 0, (double)unmasked);
}

// ------------------------------------------------------------------ expert_pool

/*
 * expert_pool: an expert is in when fewer than d come before it. pool_mask: element by element.
 */

static double mean_score(const struct mt_expert_pool_args *a, int64_t b, int64_t j)
{
    double rows = ref_get1(&a->rows, b);
    float mean = (float)(ref_get2(&a->sum, b, j) / (rows > 1.0 ? rows : 1.0));
    double bias = mt_tensor_present(&a->bias) ? ref_get1(&a->bias, j) : 0.0;
    return (double)(float)((double)mean + bias);
}

/* d of a sequence. */
static int64_t drawn(const struct mt_expert_pool_args *a, int64_t b)
{
    uint64_t sizes = (uint64_t)(a->sum.dim[1] - a->least + 1);
    uint64_t word = mt_rng_u32(a->seed, a->stream, a->first + (uint64_t)b);
    return a->least + (int64_t)((word * sizes) >> 32);
}

void mt_ref_expert_pool(const struct mt_expert_pool_args *a)
{
    int64_t experts = a->sum.dim[1];
    for (int64_t b = 0; b < a->sum.dim[0]; b++) {
        int64_t size = drawn(a, b);
        for (int64_t j = 0; j < experts; j++) {
            int64_t before = 0;
            for (int64_t m = 0; m < experts; m++)
                before += ref_comes_before(mean_score(a, b, m), m, mean_score(a, b, j), j);
            ref_set2(&a->pool, b, j, before < size ? 1.0 : 0.0);
        }
    }
}

void mt_ref_pool_mask(const struct mt_pool_mask_args *a)
{
    for (int64_t i = 0; i < a->x.dim[0]; i++) {
        int64_t b = token_segment(&a->segment, i);
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            if (ref_int2(&a->pool, b, j) == 0) ref_set2(&a->x, i, j, (double)a->value);
        }
    }
}

// ------------------------------------------------------------------ dispatch_plan

/* dispatch_plan: a stable counting sort of the (token, slot) pairs by expert. */

void mt_ref_dispatch_plan(const struct mt_dispatch_plan_args *a)
{
    int64_t tokens = a->expert.dim[0];
    int64_t slots = a->expert.dim[1];
    int64_t row = 0;
    ref_set1(&a->offsets, 0, 0.0);
    for (int64_t e = 0; e < a->offsets.dim[0] - 1; e++) {
        for (int64_t i = 0; i < tokens; i++) {
            for (int64_t s = 0; s < slots; s++) {
                if (ref_int2(&a->expert, i, s) != e) continue;
                ref_set2(&a->row_of_slot, i, s, (double)row);
                ref_set1(&a->slot_of_row, row, (double)(i * slots + s));
                row++;
            }
        }
        ref_set1(&a->offsets, e + 1, (double)row);
    }
    for (; row < tokens * slots; row++) ref_set1(&a->slot_of_row, row, -1.0);
    for (int64_t i = 0; i < tokens; i++) {
        for (int64_t s = 0; s < slots; s++) {
            if (ref_int2(&a->expert, i, s) < 0) ref_set2(&a->row_of_slot, i, s, -1.0);
        }
    }
}

// ------------------------------------------------------------------ dispatch

/* dispatch: rows[r] = x[slot_of_row[r] / k]. Backward: dx[i] = Σ_s drows[row_of_slot[i,s]]. */

void mt_ref_dispatch_forward(const struct mt_dispatch_forward_args *a)
{
    for (int64_t r = 0; r < a->rows.dim[0]; r++) {
        int32_t slot = ref_int1(&a->slot_of_row, r);
        if (slot < 0) continue;
        for (int64_t j = 0; j < a->rows.dim[1]; j++) {
            ref_set2(&a->rows, r, j, ref_get2(&a->x, slot / a->slots, j));
        }
    }
}

void mt_ref_dispatch_backward(const struct mt_dispatch_backward_args *a)
{
    for (int64_t i = 0; i < a->dx.dim[0]; i++) {
        for (int64_t j = 0; j < a->dx.dim[1]; j++) {
            double sum = a->accumulate ? ref_get2(&a->dx, i, j) : 0.0;
            for (int64_t s = 0; s < a->row_of_slot.dim[1]; s++) {
                int32_t row = ref_int2(&a->row_of_slot, i, s);
                if (row >= 0) sum += ref_get2(&a->drows, row, j);
            }
            ref_set2(&a->dx, i, j, sum);
        }
    }
}

// ------------------------------------------------------------------ combine

/*
 * combine, for a token with expert rows x_s: y = (y +) base + Σ_s w_s x_s, gram[s,m] = <x_s, x_m>.
 * Backward: dw_s = <dy, x_s>, dx_s = w_s dy + Σ_m C[s,m] x_m, C the coupling times factor.
 */

static void gram_of_token(const struct mt_combine_forward_args *a, int64_t i)
{
    int64_t slots = a->row_of_slot.dim[1];
    for (int64_t s = 0; s < slots; s++) {
        for (int64_t m = 0; m < slots; m++) {
            int32_t row = ref_int2(&a->row_of_slot, i, s);
            int32_t other = ref_int2(&a->row_of_slot, i, m);
            double dot = 0.0;
            for (int64_t j = 0; j < a->rows.dim[1] && row >= 0 && other >= 0; j++) {
                dot += ref_get2(&a->rows, row, j) * ref_get2(&a->rows, other, j);
            }
            ref_set3(&a->gram, i, s, m, dot);
        }
    }
}

void mt_ref_combine_forward(const struct mt_combine_forward_args *a)
{
    for (int64_t i = 0; i < a->row_of_slot.dim[0]; i++) {
        for (int64_t j = 0; j < a->rows.dim[1] && mt_tensor_present(&a->y); j++) {
            double sum = mt_tensor_present(&a->base) ? ref_get2(&a->base, i, j) : 0.0;
            if (a->accumulate) sum += ref_get2(&a->y, i, j);
            for (int64_t s = 0; s < a->row_of_slot.dim[1]; s++) {
                int32_t row = ref_int2(&a->row_of_slot, i, s);
                if (row >= 0) sum += ref_get2(&a->weight, i, s) * ref_get2(&a->rows, row, j);
            }
            ref_set2(&a->y, i, j, sum);
        }
        if (mt_tensor_present(&a->gram)) gram_of_token(a, i);
    }
}

/* factor · Σ_m coupling[i,s,m] · column[m]; slots without a row have a zero there. */
static double coupled(const struct mt_combine_backward_args *a, int64_t i, int64_t s, const double *column)
{
    double sum = 0.0;
    for (int64_t m = 0; m < a->row_of_slot.dim[1] && mt_tensor_present(&a->coupling); m++) {
        if (ref_int2(&a->row_of_slot, i, m) >= 0) sum += ref_get3(&a->coupling, i, s, m) * column[m];
    }
    return mt_tensor_present(&a->factor) ? ref_get1(&a->factor, 0) * sum : sum;
}

void mt_ref_combine_backward(const struct mt_combine_backward_args *a)
{
    int64_t slots = a->row_of_slot.dim[1];
    bool has_dy = mt_tensor_present(&a->dy);
    for (int64_t i = 0; i < a->row_of_slot.dim[0]; i++) {
        double dweight[MT_MAX_SLOTS] = {0};
        for (int64_t j = 0; j < a->rows.dim[1]; j++) {
            double dy = has_dy ? ref_get2(&a->dy, i, j) : 0.0;
            double column[MT_MAX_SLOTS] = {0}; // x_s[j], read before drows, maybe the same memory, is written
            for (int64_t s = 0; s < slots; s++) {
                int32_t row = ref_int2(&a->row_of_slot, i, s);
                if (row >= 0) column[s] = ref_get2(&a->rows, row, j);
                dweight[s] += dy * column[s];
            }
            for (int64_t s = 0; s < slots; s++) {
                int32_t row = ref_int2(&a->row_of_slot, i, s);
                if (row < 0) continue;
                ref_set2(&a->drows, row, j, ref_get2(&a->weight, i, s) * dy + coupled(a, i, s, column));
            }
        }
        for (int64_t s = 0; s < slots && has_dy; s++) {
            bool has_row = ref_int2(&a->row_of_slot, i, s) >= 0;
            ref_set2(&a->dweight, i, s, has_row ? dweight[s] : 0.0);
        }
    }
}
