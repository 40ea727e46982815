/* What works number by number, sums over everything, the embedding and the optimizer. */
#include <math.h>

#include "base/rng.h"
#include "ops/ref/mask.h"
#include "ops/ref/ref.h"

/*
 * Elements in row-major order, whatever the rank and strides: for ops that treat a tensor as a list.
 */
/* Where the i-th element lies, in elements from the start of the tensor's memory. */
static inline int64_t ref_element_offset(const struct mt_tensor *t, int64_t i)
{
    int64_t offset = 0;
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        offset += i % t->dim[axis] * t->stride[axis];
        i /= t->dim[axis];
    }
    return offset;
}

static inline double ref_get_element(const struct mt_tensor *t, int64_t i)
{
    return mt_load(t->dtype, t->data, ref_element_offset(t, i));
}

static inline void ref_set_element(const struct mt_tensor *t, int64_t i, double value)
{
    mt_store(t->dtype, t->data, ref_element_offset(t, i), value);
}

// ------------------------------------------------------------------ axpby

/* axpby: y = factor alpha x + beta y; with beta 0 what y held is never read. */

void mt_ref_axpby(const struct mt_axpby_args *a)
{
    double alpha = (double)a->alpha;
    if (mt_tensor_present(&a->factor)) alpha *= ref_get_element(&a->factor, 0);
    for (int64_t i = 0; i < mt_tensor_count(&a->y); i++) {
        double value = alpha * ref_get_element(&a->x, i);
        if (a->beta != 0.0f) value += (double)a->beta * ref_get_element(&a->y, i);
        ref_set_element(&a->y, i, value);
    }
}

// ------------------------------------------------------------------ rank_sum

/* rank_sum: the rows of x added up in their order, y in the place of its own row. */

void mt_ref_rank_sum(const struct mt_rank_sum_args *a)
{
    for (int64_t i = 0; i < a->y.dim[0]; i++) {
        double sum = 0.0;
        for (int64_t r = 0; r < a->x.dim[0]; r++)
            sum += r == a->own ? ref_get1(&a->y, i) : ref_get2(&a->x, r, i);
        ref_set1(&a->y, i, sum);
    }
}

// ------------------------------------------------------------------ fill

/* fill: every element becomes one value. */

void mt_ref_fill(const struct mt_fill_args *a)
{
    for (int64_t i = 0; i < mt_tensor_count(&a->y); i++) ref_set_element(&a->y, i, (double)a->value);
}

// ------------------------------------------------------------------ copy

/* copy: y = x, rounded once to y's type. */

void mt_ref_copy(const struct mt_copy_args *a)
{
    if (mt_tensor_present(&a->place)) {
        const int32_t *place = a->place.data;
        for (int64_t i = 0; i < a->x.dim[0]; i++) {
            for (int64_t j = 0; j < a->x.dim[1]; j++) ref_set2(&a->y, place[i], j, ref_get2(&a->x, i, j));
        }
        return;
    }
    for (int64_t i = 0; i < mt_tensor_count(&a->y); i++) {
        ref_set_element(&a->y, i, ref_get_element(&a->x, i));
    }
}

// ------------------------------------------------------------------ reduce

/* reduce: sum, sum of squares, largest magnitude (NaN if there is one), or the count of NaN and inf. */

/* The larger; NaN wins, so that it cannot hide behind a number. */
static double larger(double a, double b)
{
    if (isnan(a) || isnan(b)) return NAN;
    return a > b ? a : b;
}

static double combined(enum mt_reduce_kind kind, double total, double x)
{
    switch (kind) {
    case MT_REDUCE_SUM: return total + x;
    case MT_REDUCE_SUM_SQUARES: return total + x * x;
    case MT_REDUCE_MAX_ABS: return larger(total, fabs(x));
    case MT_REDUCE_NONFINITE: return total + (isfinite(x) ? 0.0 : 1.0);
    }
    return total;
}

void mt_ref_reduce(const struct mt_reduce_args *a)
{
    double total = 0.0;
    for (int64_t i = 0; i < mt_tensor_count(&a->x); i++) {
        total = combined(a->kind, total, ref_get_element(&a->x, i));
    }
    if (a->accumulate) {
        double before = ref_get1(&a->out, 0);
        total = a->kind == MT_REDUCE_MAX_ABS ? larger(before, total) : before + total;
    }
    ref_set1(&a->out, 0, total);
}

// ------------------------------------------------------------------ clamp

/* clamp: y = min(max(x, -limit), limit), NaN stays NaN; backward dx = dy where |x| <= limit, else 0. */

void mt_ref_clamp_forward(const struct mt_clamp_forward_args *a)
{
    double limit = (double)a->limit;
    for (int64_t t = 0; t < a->x.dim[0]; t++) {
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            double value = ref_get2(&a->x, t, j);
            if (value < -limit) value = -limit;
            if (value > limit) value = limit;
            ref_set2(&a->y, t, j, value);
        }
    }
}

void mt_ref_clamp_backward(const struct mt_clamp_backward_args *a)
{
    for (int64_t t = 0; t < a->x.dim[0]; t++) {
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            bool inside = fabs(ref_get2(&a->x, t, j)) <= (double)a->limit;
            ref_set2(&a->dx, t, j, inside ? ref_get2(&a->dy, t, j) : 0.0);
        }
    }
}

// ------------------------------------------------------------------ bias

/* bias: y_tj = x_tj + b_j; backward db_j += Σ_t dy_tj. */

void mt_ref_bias_forward(const struct mt_bias_forward_args *a)
{
    for (int64_t t = 0; t < a->x.dim[0]; t++) {
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            ref_set2(&a->y, t, j, ref_get2(&a->x, t, j) + ref_get1(&a->bias, j));
        }
    }
}

void mt_ref_bias_backward(const struct mt_bias_backward_args *a)
{
    for (int64_t j = 0; j < a->dy.dim[1]; j++) {
        double sum = ref_get1(&a->dbias, j);
        for (int64_t t = 0; t < a->dy.dim[0]; t++) sum += ref_get2(&a->dy, t, j);
        ref_set1(&a->dbias, j, sum);
    }
}

// ------------------------------------------------------------------ swiglu

/*
 * swiglu: y = g s u with s = 1/(1 + exp(-g)).
 * Backward: dg = dy u s (1 + g (1 - s)); du = dy g s.
 * With a limit: g = min(gate, limit), u = up clamped, y = g s (u + 1) with s = 1/(1 + exp(-alpha g)).
 * Backward: dg = dy (u + 1) s (1 + alpha g (1 - s)) where gate <= limit; du = dy g s where |up| <= limit.
 */

/* One element: its factors as they are multiplied, and where gradients pass. */
struct swiglu {
    double gate, up, sigmoid;
    double alpha;
    bool through_gate, through_up;
};

static struct swiglu swiglu_of(double gate, double up, float limit, float alpha)
{
    struct swiglu s = {.gate = gate, .up = up, .alpha = 1.0, .through_gate = true, .through_up = true};
    if (limit > 0.0f) {
        double most = (double)limit;
        s.alpha = (double)alpha;
        s.through_gate = gate <= most;
        s.through_up = fabs(up) <= most;
        if (gate > most) s.gate = most;
        if (up > most) s.up = most;
        if (up < -most) s.up = -most;
        s.up += 1.0;
    }
    s.sigmoid = 1.0 / (1.0 + exp(-s.alpha * s.gate));
    return s;
}

void mt_ref_swiglu_forward(const struct mt_swiglu_forward_args *a)
{
    for (int64_t r = 0; r < a->y.dim[0]; r++) {
        for (int64_t j = 0; j < a->y.dim[1]; j++) {
            struct swiglu s = swiglu_of(ref_get2(&a->gate, r, j), ref_get2(&a->up, r, j), a->limit, a->alpha);
            ref_set2(&a->y, r, j, s.gate / (1.0 + exp(-s.alpha * s.gate)) * s.up);
        }
    }
}

void mt_ref_swiglu_backward(const struct mt_swiglu_backward_args *a)
{
    for (int64_t r = 0; r < a->dy.dim[0]; r++) {
        for (int64_t j = 0; j < a->dy.dim[1]; j++) {
            double dy = ref_get2(&a->dy, r, j);
            struct swiglu s = swiglu_of(ref_get2(&a->gate, r, j), ref_get2(&a->up, r, j), a->limit, a->alpha);
            double dgate = dy * s.up * s.sigmoid * (1.0 + s.alpha * s.gate * (1.0 - s.sigmoid));
            ref_set2(&a->dgate, r, j, s.through_gate ? dgate : 0.0);
            ref_set2(&a->dup, r, j, s.through_up ? dy * s.gate * s.sigmoid : 0.0);
            if (mt_tensor_present(&a->y))
                ref_set2(&a->y, r, j, s.gate / (1.0 + exp(-s.alpha * s.gate)) * s.up);
        }
    }
}

// ------------------------------------------------------------------ sigmoid_gate

/* sigmoid_gate: y = s x with s = 1/(1 + exp(-g)). Backward: dx = s dy; dg = s (1 - s) <dy, x>. */

void mt_ref_sigmoid_gate_forward(const struct mt_sigmoid_gate_forward_args *a)
{
    for (int64_t r = 0; r < a->x.dim[0]; r++) {
        double sigmoid = 1.0 / (1.0 + exp(-ref_get2(&a->gate, r, 0)));
        for (int64_t j = 0; j < a->x.dim[1]; j++) ref_set2(&a->y, r, j, sigmoid * ref_get2(&a->x, r, j));
    }
}

void mt_ref_sigmoid_gate_backward(const struct mt_sigmoid_gate_backward_args *a)
{
    for (int64_t r = 0; r < a->dy.dim[0]; r++) {
        double sigmoid = 1.0 / (1.0 + exp(-ref_get2(&a->gate, r, 0)));
        double dot = 0.0;
        for (int64_t j = 0; j < a->dy.dim[1]; j++) {
            double dy = ref_get2(&a->dy, r, j);
            dot += dy * ref_get2(&a->x, r, j);
            ref_set2(&a->dx, r, j, sigmoid * dy); // both were read: it may be either
        }
        ref_set2(&a->dgate, r, 0, sigmoid * (1.0 - sigmoid) * dot);
    }
}

// ------------------------------------------------------------------ random_multiply

/*
 * random_multiply: y = x m, m an f32 made from the element's own random number. Dropout: m = 0 where
 * dropout_bits has a 0, else 1/(1 - amount). Jitter: m = 1 + amount (2u - 1), rounded once, u =
 * mt_rng_unit(word).
 */

static float multiplier(const struct mt_random_multiply_args *a, int64_t row, int64_t column)
{
    int64_t width = a->x.dim[1];
    if (a->kind == MT_RANDOM_DROPOUT) {
        int64_t index = row * mt_mask_words(width) + column / MT_MASK_BITS;
        uint32_t word = ref_mask_word(a->seed, a->stream, mt_dropout_threshold(a->amount), (uint64_t)index);
        return (word >> column % MT_MASK_BITS & 1u) != 0 ? 1.0f / (1.0f - a->amount) : 0.0f;
    }
    float unit = mt_rng_unit(mt_rng_u32(a->seed, a->stream, (uint64_t)(row * width + column)));
    return fmaf(a->amount, 2.0f * unit - 1.0f, 1.0f);
}

void mt_ref_random_multiply(const struct mt_random_multiply_args *a)
{
    for (int64_t t = 0; t < a->x.dim[0]; t++) {
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            double product = ref_get2(&a->x, t, j) * (double)multiplier(a, t, j);
            if (a->accumulate) product += ref_get2(&a->y, t, j);
            ref_set2(&a->y, t, j, product);
        }
    }
}

// ------------------------------------------------------------------ dropout_bits

/* dropout_bits: word w of row r is mask word r ceil(K/32) + w of its stream, without the bits beyond K. */

void mt_ref_dropout_bits(const struct mt_dropout_bits_args *a)
{
    uint32_t threshold = mt_dropout_threshold(a->amount);
    int64_t width = a->bits.dim[1];
    for (int64_t row = 0; row < a->bits.dim[0]; row++) {
        uint32_t *words = (uint32_t *)a->bits.data + row * a->bits.stride[0];
        for (int64_t w = 0; w < width; w++) {
            uint32_t word = ref_mask_word(a->seed, a->stream, threshold, (uint64_t)(row * width + w));
            words[w] = word & mt_mask_used(a->columns, w);
        }
    }
}

// ------------------------------------------------------------------ row_noise

/* row_noise: y = x δ, δ = 1 + amount ε_i (2u - 1), ε_i = min_{m≠i} |w_i - w_m| / (2 |w_i|). */

static double squared_distance(const struct mt_tensor *weight, int64_t i, int64_t m)
{
    double sum = 0.0;
    for (int64_t j = 0; j < weight->dim[1]; j++) {
        double difference = ref_get2(weight, i, j) - ref_get2(weight, m, j);
        sum += difference * difference;
    }
    return sum;
}

static double squared_length(const struct mt_tensor *weight, int64_t i)
{
    double sum = 0.0;
    for (int64_t j = 0; j < weight->dim[1]; j++) sum += ref_get2(weight, i, j) * ref_get2(weight, i, j);
    return sum;
}

static double epsilon_of(const struct mt_tensor *weight, int64_t i)
{
    double nearest = INFINITY;
    for (int64_t m = 0; m < weight->dim[0]; m++) {
        if (m != i) nearest = fmin(nearest, squared_distance(weight, i, m));
    }
    double length = squared_length(weight, i);
    return isfinite(nearest) && length > 0.0 ? 0.5 * sqrt(nearest / length) : 0.0;
}

void mt_ref_row_noise(const struct mt_row_noise_args *a)
{
    int64_t width = a->weight.dim[1];
    for (int64_t i = 0; i < a->weight.dim[0]; i++) {
        double epsilon = a->amount > 0.0f ? (double)a->amount * epsilon_of(&a->weight, i) : 0.0;
        for (int64_t j = 0; j < width; j++) {
            uint32_t word = mt_rng_u32(a->seed, a->stream, (uint64_t)(i * width + j));
            double noisy = ref_get2(&a->x, i, j) * (1.0 + epsilon * (2.0 * (double)mt_rng_unit(word) - 1.0));
            ref_set2(&a->y, i, j, a->accumulate ? ref_get2(&a->y, i, j) + noisy : noisy);
        }
    }
}

// ------------------------------------------------------------------ embedding

/* embedding: y[t] = table[ids[t]]; backward dtable[ids[t]] += dy[t], in the order of t. */

void mt_ref_embedding_forward(const struct mt_embedding_forward_args *a)
{
    for (int64_t t = 0; t < a->y.dim[0]; t++) {
        int64_t id = ref_int1(&a->ids, t);
        for (int64_t j = 0; j < a->y.dim[1]; j++) ref_set2(&a->y, t, j, ref_get2(&a->table, id, j));
    }
}

void mt_ref_embedding_backward(const struct mt_embedding_backward_args *a)
{
    for (int64_t t = 0; t < a->dy.dim[0]; t++) {
        int64_t id = ref_int1(&a->ids, t);
        for (int64_t j = 0; j < a->dy.dim[1]; j++) {
            ref_set2(&a->dtable, id, j, ref_get2(&a->dtable, id, j) + ref_get2(&a->dy, t, j));
        }
    }
}

// ------------------------------------------------------------------ adamw

/*
 * adamw: g = grad·grad_scale; m = β1 m + (1-β1) g; v = β2 v + (1-β2) g²;
 * p = p (1 - lr·decay) - lr (m/(1-β1^step)) / (sqrt(v/(1-β2^step)) + ε).
 */

void mt_ref_adamw(const struct mt_adamw_args *a)
{
    double beta1 = (double)a->beta1;
    double beta2 = (double)a->beta2;
    double rate = (double)a->learning_rate;
    double correction1 = 1.0 - pow(beta1, (double)a->step);
    double correction2 = 1.0 - pow(beta2, (double)a->step);
    for (int64_t i = 0; i < mt_tensor_count(&a->param); i++) {
        double g = ref_get_element(&a->grad, i) * (double)a->grad_scale;
        double m = beta1 * ref_get_element(&a->m, i) + (1.0 - beta1) * g;
        double v = beta2 * ref_get_element(&a->v, i) + (1.0 - beta2) * g * g;
        double step = m / correction1 / (sqrt(v / correction2) + (double)a->epsilon);
        double decayed = ref_get_element(&a->param, i) * (1.0 - rate * (double)a->weight_decay);
        ref_set_element(&a->m, i, m);
        ref_set_element(&a->v, i, v);
        ref_set_element(&a->param, i, decayed - rate * step);
        // The copy is of what was stored, so that a restart from param gives the same copy.
        if (mt_tensor_present(&a->param_copy)) {
            ref_set_element(&a->param_copy, i, ref_get_element(&a->param, i));
        }
    }
}
