/*
 * attention: for query t of head h, over the keys s it sees, with x_s = scale · <q_t, k_s>:
 *   lse = log Σ exp(x_s);  p_s = exp(x_s - lse);  out_t = Σ p_s v_s.
 * Backward, with δ_t = <dout_t, out_t> and dx_s = p_s (<dout_t, v_s> - δ_t):
 *   dq_t = scale Σ_s dx_s k_s;  dk_s = scale Σ_{t,h} dx_s q_t;  dv_s = Σ_{t,h} p_s dout_t.
 * Sums are kept in double for COLUMNS columns at a time, and scores computed again where they are
 * needed: nothing is stored.
 */
#include <math.h>

#include "ops/ref/ref.h"

#define COLUMNS 256

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

enum mt_status mt_ref_attention_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_attention_forward_args *a = args;
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
    return MT_OK;
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

enum mt_status mt_ref_attention_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_attention_backward_args *a = args;
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
    return MT_OK;
}
