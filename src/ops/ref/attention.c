/* Attention, the rotation of positions, and the norms. */
#include <math.h>

#include "ops/ref/ref.h"

#define COLUMNS 256

/* The rotation rope and mla_key share: one pair of a row, by its position's angle. */
struct ref_pair {
    int64_t first;  // column of a
    int64_t second; // column of b
};

/* Columns of pair `i` in a row of `width`. */
static inline struct ref_pair ref_rope_pair(enum mt_rope_layout layout, int64_t width, int64_t i)
{
    if (layout == MT_ROPE_INTERLEAVED) return (struct ref_pair){2 * i, 2 * i + 1};
    return (struct ref_pair){i, i + width / 2};
}

/* (a,b) -> (a·cos - b·sin, a·sin + b·cos), in place; inverse turns sin into -sin. */
static inline void ref_rotate(const struct mt_tensor *cosine, const struct mt_tensor *sine, int64_t position,
                              int64_t i, bool inverse, double *a, double *b)
{
    double c = ref_get2(cosine, position, i);
    double s = ref_get2(sine, position, i) * (inverse ? -1.0 : 1.0);
    double rotated_a = *a * c - *b * s;
    double rotated_b = *a * s + *b * c;
    *a = rotated_a;
    *b = rotated_b;
}

// ------------------------------------------------------------------ attention

/*
 * attention: for query t of head h, over the keys s it sees, with x_s = scale · <q_t, k_s>:
 *   lse = log Σ exp(x_s);  p_s = exp(x_s - lse);  out_t = Σ p_s v_s.
 * Backward, with δ_t = <dout_t, out_t> and dx_s = p_s (<dout_t, v_s> - δ_t):
 *   dq_t = scale Σ_s dx_s k_s;  dk_s = scale Σ_{t,h} dx_s q_t;  dv_s = Σ_{t,h} p_s dout_t.
 * Sums are kept in double for COLUMNS columns at a time, and scores computed again where they are
 * needed: nothing is stored.
 */

struct sequence {
    int64_t q_first, queries; // rows of q
    int64_t k_first, keys;    // rows of k and v
};

struct key_range {
    int64_t first, end; // within the sequence; empty when end <= first
};

static struct sequence sequence_at(const struct mt_tensor *q_offsets, const struct mt_tensor *k_offsets,
                                   int64_t b)
{
    int64_t q_first = ref_int1(q_offsets, b);
    int64_t k_first = ref_int1(k_offsets, b);
    return (struct sequence){q_first, ref_int1(q_offsets, b + 1) - q_first, k_first,
                             ref_int1(k_offsets, b + 1) - k_first};
}

/* The keys that query i of the sequence sees. */
static struct key_range seen_by(const struct sequence *s, int64_t i, int window)
{
    int64_t position = i + s->keys - s->queries;
    int64_t first = window > 0 && position - window + 1 > 0 ? position - window + 1 : 0;
    return (struct key_range){first, position + 1};
}

/* <a[t,h], b[s,g]>. */
static double dot(const struct mt_tensor *a, int64_t t, int64_t h, const struct mt_tensor *b, int64_t s,
                  int64_t g)
{
    double sum = 0.0;
    for (int64_t j = 0; j < a->dim[2]; j++) sum += ref_get3(a, t, h, j) * ref_get3(b, s, g, j);
    return sum;
}

/* One query of one head; `keys` are rows of k. */
static void forward_query(const struct mt_attention_forward_args *a, int64_t t, int64_t h,
                          struct key_range keys)
{
    int64_t g = h / (a->q.dim[1] / a->k.dim[1]);
    double scale = (double)a->scale;
    double highest = -INFINITY;
    for (int64_t s = keys.first; s < keys.end; s++) {
        double score = scale * dot(&a->q, t, h, &a->k, s, g);
        if (score > highest) highest = score;
    }
    double sum = 0.0;
    for (int64_t s = keys.first; s < keys.end; s++)
        sum += exp(scale * dot(&a->q, t, h, &a->k, s, g) - highest);
    double lse = keys.end > keys.first ? highest + log(sum) : -INFINITY;
    if (mt_tensor_present(&a->lse)) ref_set2(&a->lse, t, h, lse);
    for (int64_t start = 0; start < a->v.dim[2]; start += COLUMNS) {
        int64_t columns = a->v.dim[2] - start < COLUMNS ? a->v.dim[2] - start : COLUMNS;
        double out[COLUMNS] = {0.0};
        for (int64_t s = keys.first; s < keys.end; s++) {
            double p = exp(scale * dot(&a->q, t, h, &a->k, s, g) - lse);
            for (int64_t j = 0; j < columns; j++) out[j] += p * ref_get3(&a->v, s, g, start + j);
        }
        for (int64_t j = 0; j < columns; j++) ref_set3(&a->out, t, h, start + j, out[j]);
    }
}

void mt_ref_attention_forward(const struct mt_attention_forward_args *a)
{
    for (int64_t b = 0; b + 1 < a->q_offsets.dim[0]; b++) {
        struct sequence s = sequence_at(&a->q_offsets, &a->k_offsets, b);
        if (mt_tensor_present(&a->k_starts)) s.k_first = ref_int1(&a->k_starts, b);
        for (int64_t i = 0; i < s.queries; i++) {
            struct key_range keys = seen_by(&s, i, a->window);
            keys.first += s.k_first;
            keys.end += s.k_first;
            for (int64_t h = 0; h < a->q.dim[1]; h++) forward_query(a, s.q_first + i, h, keys);
        }
    }
}

static double probability(const struct mt_attention_backward_args *a, int64_t t, int64_t h, int64_t s,
                          int64_t g)
{
    return exp((double)a->scale * dot(&a->q, t, h, &a->k, s, g) - ref_get2(&a->lse, t, h));
}

/* scale · dx_s: what multiplies k in dq and q in dk. */
static double score_gradient(const struct mt_attention_backward_args *a, int64_t t, int64_t h, int64_t s,
                             int64_t g, double delta)
{
    double dp = dot(&a->dout, t, h, &a->v, s, g);
    return (double)a->scale * probability(a, t, h, s, g) * (dp - delta);
}

/* dq of one query of one head; `keys` are rows of k. */
static void backward_query(const struct mt_attention_backward_args *a, int64_t t, int64_t h,
                           struct key_range keys)
{
    int64_t g = h / (a->q.dim[1] / a->k.dim[1]);
    double delta = dot(&a->dout, t, h, &a->out, t, h);
    for (int64_t start = 0; start < a->q.dim[2]; start += COLUMNS) {
        int64_t columns = a->q.dim[2] - start < COLUMNS ? a->q.dim[2] - start : COLUMNS;
        double dq[COLUMNS] = {0.0};
        for (int64_t s = keys.first; s < keys.end; s++) {
            double dx = score_gradient(a, t, h, s, g, delta);
            for (int64_t j = 0; j < columns; j++) dq[j] += dx * ref_get3(&a->k, s, g, start + j);
        }
        for (int64_t j = 0; j < columns; j++) ref_set3(&a->dq, t, h, start + j, dq[j]);
    }
}

/* dk or dv of key `key` of the sequence, for key head g: the sum over the queries and heads that see it. */
static void backward_key(const struct mt_attention_backward_args *a, const struct sequence *sequence,
                         int64_t key, int64_t g, bool of_value)
{
    const struct mt_tensor *source = of_value ? &a->dout : &a->q;
    const struct mt_tensor *target = of_value ? &a->dv : &a->dk;
    int64_t group = a->q.dim[1] / a->k.dim[1];
    int64_t s = sequence->k_first + key;
    for (int64_t start = 0; start < target->dim[2]; start += COLUMNS) {
        int64_t columns = target->dim[2] - start < COLUMNS ? target->dim[2] - start : COLUMNS;
        double sum[COLUMNS] = {0.0};
        for (int64_t i = 0; i < sequence->queries; i++) {
            struct key_range seen = seen_by(sequence, i, a->window);
            if (key < seen.first || key >= seen.end) continue;
            int64_t t = sequence->q_first + i;
            for (int64_t h = g * group; h < (g + 1) * group; h++) {
                double factor = of_value ? probability(a, t, h, s, g)
                                         : score_gradient(a, t, h, s, g, dot(&a->dout, t, h, &a->out, t, h));
                for (int64_t j = 0; j < columns; j++) sum[j] += factor * ref_get3(source, t, h, start + j);
            }
        }
        for (int64_t j = 0; j < columns; j++) ref_set3(target, s, g, start + j, sum[j]);
    }
}

void mt_ref_attention_backward(const struct mt_attention_backward_args *a)
{
    for (int64_t b = 0; b + 1 < a->q_offsets.dim[0]; b++) {
        struct sequence s = sequence_at(&a->q_offsets, &a->k_offsets, b);
        for (int64_t i = 0; i < s.queries; i++) {
            struct key_range keys = seen_by(&s, i, a->window);
            keys.first += s.k_first;
            keys.end += s.k_first;
            for (int64_t h = 0; h < a->q.dim[1]; h++) backward_query(a, s.q_first + i, h, keys);
        }
        for (int64_t key = 0; key < s.keys; key++) {
            for (int64_t g = 0; g < a->k.dim[1]; g++) {
                backward_key(a, &s, key, g, false);
                backward_key(a, &s, key, g, true);
            }
        }
    }
}

// ------------------------------------------------------------------ attention_sink

/*
 * attention_sink: out = s out with s = 1/(1 + exp(sink - lse)), lse = log(exp(lse) + exp(sink)); backward
 * dsink_h -= Σ_t exp(sink_h - lse_th) <dout_th, out_th>, of out and lse as forward left them.
 */

void mt_ref_attention_sink_forward(const struct mt_attention_sink_forward_args *a)
{
    for (int64_t t = 0; t < a->out.dim[0]; t++) {
        for (int64_t h = 0; h < a->out.dim[1]; h++) {
            double lse = ref_get2(&a->lse, t, h);
            double sink = ref_get1(&a->sink, h);
            double share = 1.0 / (1.0 + exp(sink - lse));
            double larger = fmax(lse, sink);
            ref_set2(&a->lse, t, h, larger + log1p(exp(-fabs(lse - sink))));
            for (int64_t j = 0; j < a->out.dim[2]; j++)
                ref_set3(&a->out, t, h, j, share * ref_get3(&a->out, t, h, j));
        }
    }
}

void mt_ref_attention_sink_backward(const struct mt_attention_sink_backward_args *a)
{
    for (int64_t h = 0; h < a->out.dim[1]; h++) {
        double sum = ref_get1(&a->dsink, h);
        for (int64_t t = 0; t < a->out.dim[0]; t++) {
            double probability = exp(ref_get1(&a->sink, h) - ref_get2(&a->lse, t, h));
            sum -= probability * dot(&a->dout, t, h, &a->out, t, h);
        }
        ref_set1(&a->dsink, h, sum);
    }
}

// ------------------------------------------------------------------ rope

/* rope: each pair (a,b) of a head becomes (a·cos - b·sin, a·sin + b·cos) at its token's position. */

void mt_ref_rope(const struct mt_rope_args *r)
{
    int64_t width = r->x.dim[2];
    for (int64_t t = 0; t < r->x.dim[0]; t++) {
        int64_t position = ref_int1(&r->positions, t);
        for (int64_t h = 0; h < r->x.dim[1]; h++) {
            for (int64_t i = 0; i < width / 2; i++) {
                struct ref_pair pair = ref_rope_pair(r->layout, width, i);
                // Both are read before either is written: y may be x.
                double a = ref_get3(&r->x, t, h, pair.first);
                double b = ref_get3(&r->x, t, h, pair.second);
                ref_rotate(&r->cosine, &r->sine, position, i, r->inverse, &a, &b);
                ref_set3(&r->y, t, h, pair.first, a);
                ref_set3(&r->y, t, h, pair.second, b);
            }
        }
    }
}

// ------------------------------------------------------------------ mla_key

/*
 * mla_key: key[t,h] = [nope[t,h] | rope(shared[t])].
 * Backward: dnope[t,h] = dkey[t,h,:Dn]; dshared[t] = rope⁻¹(Σ_h dkey[t,h,Dn:]).
 */

void mt_ref_mla_key_forward(const struct mt_mla_key_forward_args *m)
{
    int64_t heads = m->nope.dim[1];
    int64_t plain = m->nope.dim[2];
    int64_t rotated = m->shared.dim[1];
    for (int64_t t = 0; t < m->nope.dim[0]; t++) {
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t j = 0; j < plain; j++) ref_set3(&m->key, t, h, j, ref_get3(&m->nope, t, h, j));
        }
        int64_t position = ref_int1(&m->positions, t);
        for (int64_t i = 0; i < rotated / 2; i++) {
            struct ref_pair pair = ref_rope_pair(m->layout, rotated, i);
            double a = ref_get2(&m->shared, t, pair.first);
            double b = ref_get2(&m->shared, t, pair.second);
            ref_rotate(&m->cosine, &m->sine, position, i, false, &a, &b);
            for (int64_t h = 0; h < heads; h++) {
                ref_set3(&m->key, t, h, plain + pair.first, a);
                ref_set3(&m->key, t, h, plain + pair.second, b);
            }
        }
    }
}

void mt_ref_mla_key_backward(const struct mt_mla_key_backward_args *m)
{
    int64_t heads = m->dnope.dim[1];
    int64_t plain = m->dnope.dim[2];
    int64_t rotated = m->dshared.dim[1];
    for (int64_t t = 0; t < m->dnope.dim[0]; t++) {
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t j = 0; j < plain; j++) ref_set3(&m->dnope, t, h, j, ref_get3(&m->dkey, t, h, j));
        }
        int64_t position = ref_int1(&m->positions, t);
        for (int64_t i = 0; i < rotated / 2; i++) {
            struct ref_pair pair = ref_rope_pair(m->layout, rotated, i);
            double a = 0.0;
            double b = 0.0;
            for (int64_t h = 0; h < heads; h++) {
                a += ref_get3(&m->dkey, t, h, plain + pair.first);
                b += ref_get3(&m->dkey, t, h, plain + pair.second);
            }
            ref_rotate(&m->cosine, &m->sine, position, i, true, &a, &b);
            ref_set2(&m->dshared, t, pair.first, a);
            ref_set2(&m->dshared, t, pair.second, b);
        }
    }
}

// ------------------------------------------------------------------ rmsnorm

/*
 * rmsnorm: y_j = w_j h_j r, r = 1/sqrt(mean h² + ε), h = x (+ residual).
 * Backward, with g_j = dy_j w_j: dh_j = r g_j - h_j r³ mean(g·h); dw_j = Σ_t dy_j h_j r.
 */

void mt_ref_rmsnorm_forward(const struct mt_rmsnorm_forward_args *a)
{
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    bool has_residual = mt_tensor_present(&a->residual);
    const struct mt_tensor *h = has_residual ? &a->sum : &a->x;
    for (int64_t t = 0; t < tokens; t++) {
        double squares = 0.0;
        for (int64_t j = 0; j < width; j++) {
            if (has_residual) ref_set2(&a->sum, t, j, ref_get2(&a->x, t, j) + ref_get2(&a->residual, t, j));
            double value = ref_get2(h, t, j);
            squares += value * value;
        }
        double rstd = 1.0 / sqrt(squares / (double)width + (double)a->epsilon);
        for (int64_t j = 0; j < width; j++) {
            ref_set2(&a->y, t, j, ref_get2(h, t, j) * rstd * ref_get1(&a->weight, j));
        }
        if (mt_tensor_present(&a->rstd)) ref_set1(&a->rstd, t, rstd);
    }
}

void mt_ref_rmsnorm_backward(const struct mt_rmsnorm_backward_args *a)
{
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    for (int64_t t = 0; t < tokens; t++) {
        double rstd = ref_get1(&a->rstd, t);
        double dot = 0.0;
        for (int64_t j = 0; j < width; j++) {
            double dy = ref_get2(&a->dy, t, j);
            double x = ref_get2(&a->x, t, j);
            dot += dy * ref_get1(&a->weight, j) * x;
            if (mt_tensor_present(&a->dweight)) {
                ref_set1(&a->dweight, j, ref_get1(&a->dweight, j) + dy * x * rstd);
            }
        }
        double mean = dot / (double)width;
        for (int64_t j = 0; j < width; j++) {
            double g = ref_get2(&a->dy, t, j) * ref_get1(&a->weight, j);
            double dx = rstd * g - ref_get2(&a->x, t, j) * rstd * rstd * rstd * mean;
            if (a->accumulate) dx += ref_get2(&a->dx, t, j);
            ref_set2(&a->dx, t, j, dx);
        }
    }
}

// ------------------------------------------------------------------ layernorm

/*
 * layernorm: y_j = w_j n_j + b_j, n_j = (h_j - μ) r, μ = mean h, r = 1/sqrt(mean (h-μ)² + ε),
 * h = x (+ residual).
 * Backward, with g_j = dy_j w_j: dh_j = r (g_j - mean(g) - n_j mean(g·n)); dw_j = Σ_t dy_j n_j;
 * db_j = Σ_t dy_j.
 */

void mt_ref_layernorm_forward(const struct mt_layernorm_forward_args *a)
{
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    bool has_residual = mt_tensor_present(&a->residual);
    const struct mt_tensor *h = has_residual ? &a->sum : &a->x;
    for (int64_t t = 0; t < tokens; t++) {
        double total = 0.0;
        for (int64_t j = 0; j < width; j++) {
            if (has_residual) ref_set2(&a->sum, t, j, ref_get2(&a->x, t, j) + ref_get2(&a->residual, t, j));
            total += ref_get2(h, t, j);
        }
        double mean = total / (double)width;
        double squares = 0.0;
        for (int64_t j = 0; j < width; j++) {
            double centred = ref_get2(h, t, j) - mean;
            squares += centred * centred;
        }
        double rstd = 1.0 / sqrt(squares / (double)width + (double)a->epsilon);
        for (int64_t j = 0; j < width; j++) {
            double normed = (ref_get2(h, t, j) - mean) * rstd;
            ref_set2(&a->y, t, j, normed * ref_get1(&a->weight, j) + ref_get1(&a->bias, j));
        }
        if (mt_tensor_present(&a->mean)) {
            ref_set1(&a->mean, t, mean);
            ref_set1(&a->rstd, t, rstd);
        }
    }
}

static void add_to(const struct mt_tensor *vector, int64_t j, double value)
{
    if (mt_tensor_present(vector)) ref_set1(vector, j, ref_get1(vector, j) + value);
}

void mt_ref_layernorm_backward(const struct mt_layernorm_backward_args *a)
{
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    for (int64_t t = 0; t < tokens; t++) {
        double mean = ref_get1(&a->mean, t);
        double rstd = ref_get1(&a->rstd, t);
        double sum_g = 0.0;
        double sum_gn = 0.0;
        for (int64_t j = 0; j < width; j++) {
            double dy = ref_get2(&a->dy, t, j);
            double normed = (ref_get2(&a->x, t, j) - mean) * rstd;
            double g = dy * ref_get1(&a->weight, j);
            sum_g += g;
            sum_gn += g * normed;
            add_to(&a->dweight, j, dy * normed);
            add_to(&a->dbias, j, dy);
        }
        double mean_g = sum_g / (double)width;
        double mean_gn = sum_gn / (double)width;
        for (int64_t j = 0; j < width; j++) {
            double normed = (ref_get2(&a->x, t, j) - mean) * rstd;
            double g = ref_get2(&a->dy, t, j) * ref_get1(&a->weight, j);
            double dx = rstd * (g - mean_g - normed * mean_gn);
            ref_set2(&a->dx, t, j, a->accumulate ? ref_get2(&a->dx, t, j) + dx : dx);
        }
    }
}
