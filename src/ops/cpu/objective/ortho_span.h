/*
 * The algorithm of ops/span.h, one token per lane. Where ops/span.c leaves a row out because only rounding
 * is left of it, its shrink is 0 here, and every step with it adds 0.
 */
#ifndef MT_OPS_CPU_ORTHO_SPAN_H
#define MT_OPS_CPU_ORTHO_SPAN_H

#include <float.h>
#include <math.h>
#include <stdint.h>

// What is computed with: one vector register of doubles, one token per lane.
#if defined(__AVX512F__)
#define LANES 8
#elif defined(__AVX__)
#define LANES 4
#else
#define LANES 2
#endif

typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t lane_mask __attribute__((vector_size(LANES * sizeof(int64_t)))); // -1 or 0 per lane

/* x where the mask is set, else 0, whatever x is there. */
static inline lanes lanes_where(lane_mask mask, lanes x)
{
    return (lanes)((lane_mask)x & mask);
}

/* 1 / x, or 0 where that does not exist. */
static inline lanes lanes_inverse(lanes x)
{
    return lanes_where((lane_mask)(x != 0.0), 1.0 / x);
}

static inline lanes lanes_sqrt(lanes x)
{
    lanes root = x;
    for (int lane = 0; lane < LANES; lane++) root[lane] = sqrt(x[lane]);
    return root;
}

/* The vectors v_j made of the rows without one of them, as in ops/span.c, and the loss's gradient in each. */
struct span {
    int n;
    lanes *coefficient, *dcoefficient; // c [n,n]
    lanes *product, *dproduct;         // h [n,n]
    lanes *square, *dsquare;           // s [n]
    lanes *shrink, *dshrink;           // w [n]
    lanes *dot;                        // t [n,n]
    lanes *before;                     // [n]
};

/* Numbers of workspace; forward has no need of the gradients. */
static inline int64_t span_workspace(int64_t n, bool backward)
{
    return backward ? 5 * n * n + 5 * n : 2 * n * n + 2 * n;
}

static inline struct span span_at(lanes *memory, int64_t n, bool backward)
{
    struct span s = {.n = (int)n, .coefficient = memory, .product = memory + n * n};
    s.square = s.product + n * n;
    s.shrink = s.square + n;
    if (!backward) return s;
    s.dcoefficient = s.shrink + n;
    s.dproduct = s.dcoefficient + n * n;
    s.dsquare = s.dproduct + n * n;
    s.dshrink = s.dsquare + n;
    s.dot = s.dshrink + n;
    s.before = s.dot + n * n;
    return s;
}

static inline lanes span_dot(const lanes *a, const lanes *b, int count)
{
    lanes sum = {0};
    for (int m = 0; m < count; m++) sum += a[m] * b[m];
    return sum;
}

static inline void span_add_scaled(lanes *target, lanes factor, const lanes *source, int count)
{
    for (int m = 0; m < count; m++) target[m] += factor * source[m];
}

static void span_orthogonalise(const struct span *s, const lanes *gram, int without, double epsilon)
{
    int n = s->n;
    for (int j = 0; j < n; j++) {
        if (j == without) continue;
        lanes *c = s->coefficient + j * n;
        lanes *h = s->product + j * n;
        for (int m = 0; m < n; m++) {
            c[m] = (lanes){0};
            h[m] = gram[j * n + m];
        }
        c[j] += 1.0;
        for (int r = 0; r < j; r++) {
            if (r == without) continue;
            const lanes *c_r = s->coefficient + r * n;
            lanes dot = span_dot(c_r, h, r + 1);
            lanes factor = -dot * s->shrink[r];
            span_add_scaled(c, factor, c_r, r + 1);
            span_add_scaled(h, factor, s->product + r * n, n);
            if (s->dot != NULL) s->dot[j * n + r] = dot;
        }
        lanes square = span_dot(c, h, j + 1);
        lane_mask only_rounding = (lane_mask)(square <= (double)n * (double)FLT_EPSILON * gram[j * n + j]);
        s->square[j] = lanes_where(~only_rounding, square);
        lanes length = lanes_sqrt(s->square[j]) + epsilon;
        s->shrink[j] = lanes_where(~only_rounding, 1.0 / (length * length));
    }
}

static inline lanes span_value(const struct span *s, const lanes *gram, double epsilon)
{
    int n = s->n;
    lanes sum = {0};
    for (int a = 0; a < n; a++) {
        span_orthogonalise(s, gram, a, epsilon);
        for (int r = 0; r < n; r++) {
            if (r == a) continue;
            lanes q = s->product[r * n + a] * s->shrink[r];
            sum += q * q * s->square[r];
        }
    }
    return sum / (double)n;
}

/* Loss = Σ_r h_ra² w_r² s_r / n. */
static void span_loss_gradient(const struct span *s, int a)
{
    int n = s->n;
    double weight = 1.0 / (double)n;
    for (int m = 0; m < n * n; m++) {
        s->dcoefficient[m] = (lanes){0};
        s->dproduct[m] = (lanes){0};
    }
    for (int r = 0; r < n; r++) {
        if (r == a) continue;
        lanes h = s->product[r * n + a];
        lanes shrunk = h * s->shrink[r];
        s->dproduct[r * n + a] = weight * 2.0 * shrunk * s->shrink[r] * s->square[r];
        s->dshrink[r] = weight * 2.0 * shrunk * h * s->square[r];
        s->dsquare[r] = weight * shrunk * shrunk;
    }
}

/* span_orthogonalise backwards; gram's gradient is added to `gradient`. */
static void span_reverse(const struct span *s, int without, lanes *gradient)
{
    int n = s->n;
    for (int j = n - 1; j >= 0; j--) {
        if (j == without) continue;
        const lanes *h = s->product + j * n;
        lanes *dc = s->dcoefficient + j * n;
        lanes *dh = s->dproduct + j * n;
        lanes w = s->shrink[j];
        lanes slope = w * lanes_sqrt(w * lanes_inverse(s->square[j])); // -∂w/∂s
        lanes ds = s->dsquare[j] - s->dshrink[j] * slope;
        span_add_scaled(dc, ds, h, j + 1);
        span_add_scaled(dh, ds, s->coefficient + j * n, j + 1);
        for (int m = 0; m < n; m++) s->before[m] = h[m];
        for (int r = j - 1; r >= 0; r--) {
            if (r == without) continue;
            const lanes *c_r = s->coefficient + r * n;
            const lanes *h_r = s->product + r * n;
            lanes dot = s->dot[j * n + r];
            lanes factor = dot * s->shrink[r];
            span_add_scaled(s->before, factor, h_r, n);
            lanes dfactor = -span_dot(dc, c_r, r + 1) - span_dot(dh, h_r, n);
            lanes ddot = dfactor * s->shrink[r];
            s->dshrink[r] += dfactor * dot;
            lanes *dc_r = s->dcoefficient + r * n;
            for (int m = 0; m <= r; m++) dc_r[m] += ddot * s->before[m] - factor * dc[m];
            span_add_scaled(s->dproduct + r * n, -factor, dh, n);
            span_add_scaled(dh, ddot, c_r, r + 1);
        }
        for (int m = 0; m < n; m++) gradient[j * n + m] += dh[m];
    }
}

static inline void span_gradient(const struct span *s, const lanes *gram, double epsilon, lanes *gradient)
{
    for (int m = 0; m < s->n * s->n; m++) gradient[m] = (lanes){0};
    for (int a = 0; a < s->n; a++) {
        span_orthogonalise(s, gram, a, epsilon);
        span_loss_gradient(s, a);
        span_reverse(s, a, gradient);
    }
}

#endif
