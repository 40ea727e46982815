/*
 * Gram-Schmidt in the space of coefficients, and its reverse (span.h), for whoever compiles it: before
 * including it, MT_SPAN_CODE is defined as what goes before a function, `static inline`, and on a GPU its own
 * words too.
 */
#ifndef MT_OPS_SPAN_CODE_H
#define MT_OPS_SPAN_CODE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The vectors v_j made of the rows without one of them; that one's entries are not used. */
struct basis {
    int n;
    double *coefficient; // c [n,n]: c_jm = 0 for m > j
    double *product;     // h [n,n]
    double *square;      // s [n]: |v_j|², or 0 where only rounding is left
    double *shrink;      // w [n]: 1 / (|v_j| + epsilon)², or 0 there
    double *dot;         // t [n,n]: <v_r, v_j> before v_r was taken out of v_j; NULL when nobody will ask
};

MT_SPAN_CODE double dot_product(const double *a, const double *b, int count)
{
    double sum = 0.0;
    for (int m = 0; m < count; m++) sum += a[m] * b[m];
    return sum;
}

MT_SPAN_CODE void add_scaled(double *target, double factor, const double *source, int count)
{
    for (int m = 0; m < count; m++) target[m] += factor * source[m];
}

/* Fills the basis from all rows but `without`. In terms of v: v_j -= <v_r, v_j> w_r v_r. */
MT_SPAN_CODE void orthogonalise(const struct basis *b, const double *gram, int without, double epsilon,
                                double rounding)
{
    int n = b->n;
    for (int j = 0; j < n; j++) {
        if (j == without) continue;
        double *c = b->coefficient + (ptrdiff_t)j * n;
        double *h = b->product + (ptrdiff_t)j * n;
        memset(c, 0, (size_t)n * sizeof *c);
        c[j] = 1.0;
        memcpy(h, gram + (ptrdiff_t)j * n, (size_t)n * sizeof *h);
        for (int r = 0; r < j; r++) {
            if (r == without || b->shrink[r] == 0.0) continue;
            const double *c_r = b->coefficient + (ptrdiff_t)r * n;
            double dot = dot_product(c_r, h, r + 1);
            double factor = -dot * b->shrink[r];
            add_scaled(c, factor, c_r, r + 1);
            add_scaled(h, factor, b->product + (ptrdiff_t)r * n, n);
            if (b->dot != NULL) b->dot[(ptrdiff_t)j * n + r] = dot;
        }
        double square = dot_product(c, h, j + 1);
        bool only_rounding = square <= (double)n * rounding * gram[(ptrdiff_t)j * n + j]; // NaN passes on
        double length = only_rounding ? 0.0 : sqrt(square) + epsilon;
        b->square[j] = only_rounding ? 0.0 : square;
        b->shrink[j] = only_rounding ? 0.0 : 1.0 / (length * length);
    }
}

MT_SPAN_CODE double span_value(const double *gram, int n, int rows, double epsilon, double rounding,
                               double *workspace)
{
    ptrdiff_t square_size = (ptrdiff_t)n * n;
    struct basis b = {0};
    b.n = n;
    b.coefficient = workspace;
    b.product = workspace + square_size;
    b.square = b.product + square_size;
    b.shrink = b.square + n;
    double sum = 0.0;
    for (int a = 0; a < rows; a++) {
        orthogonalise(&b, gram, a, epsilon, rounding);
        for (int r = 0; r < n; r++) {
            if (r == a) continue;
            double q = b.product[(ptrdiff_t)r * n + a] * b.shrink[r];
            sum += q * q * b.square[r];
        }
    }
    return sum / (double)rows;
}

/* What the loss says about each part of a basis. */
struct basis_gradient {
    double *coefficient; // [n,n]
    double *product;     // [n,n]
    double *square;      // [n]
    double *shrink;      // [n]
};

/* Loss = Σ_r h_ra² w_r² s_r, times `weight`. */
MT_SPAN_CODE void loss_gradient(const struct basis *b, struct basis_gradient *d, int a, double weight)
{
    int n = b->n;
    memset(d->coefficient, 0, (size_t)n * (size_t)n * sizeof(double));
    memset(d->product, 0, (size_t)n * (size_t)n * sizeof(double));
    for (int r = 0; r < n; r++) {
        double h = b->product[(ptrdiff_t)r * n + a];
        double w = r == a ? 0.0 : b->shrink[r];
        double s = r == a ? 0.0 : b->square[r];
        d->product[(ptrdiff_t)r * n + a] = weight * 2.0 * h * w * w * s;
        d->shrink[r] = weight * 2.0 * h * h * w * s;
        d->square[r] = weight * h * h * w * w;
    }
}

/*
 * orthogonalise backwards: from what the loss says about the basis to what it says about gram, added to
 * gradient. `before` [n] is space for v_j's products before a step.
 */
MT_SPAN_CODE void reverse(const struct basis *b, struct basis_gradient *d, int without, double *gradient,
                          double *before)
{
    int n = b->n;
    for (int j = n - 1; j >= 0; j--) {
        if (j == without) continue;
        const double *h = b->product + (ptrdiff_t)j * n;
        double *dc = d->coefficient + (ptrdiff_t)j * n;
        double *dh = d->product + (ptrdiff_t)j * n;
        if (b->shrink[j] != 0.0) {
            // w = (√s + ε)⁻²: ∂w/∂s = -w^{3/2} / √s.
            double w = b->shrink[j];
            double ds = d->square[j] - d->shrink[j] * w * sqrt(w / b->square[j]);
            add_scaled(dc, ds, h, j + 1);
            add_scaled(dh, ds, b->coefficient + (ptrdiff_t)j * n, j + 1);
        }
        memcpy(before, h, (size_t)n * sizeof *before);
        for (int r = j - 1; r >= 0; r--) {
            if (r == without || b->shrink[r] == 0.0) continue;
            const double *c_r = b->coefficient + (ptrdiff_t)r * n;
            const double *h_r = b->product + (ptrdiff_t)r * n;
            double dot = b->dot[(ptrdiff_t)j * n + r];
            double factor = dot * b->shrink[r];
            add_scaled(before, factor, h_r, n);
            double dfactor = -dot_product(dc, c_r, r + 1) - dot_product(dh, h_r, n);
            double ddot = dfactor * b->shrink[r];
            d->shrink[r] += dfactor * dot;
            add_scaled(d->coefficient + (ptrdiff_t)r * n, -factor, dc, r + 1);
            add_scaled(d->coefficient + (ptrdiff_t)r * n, ddot, before, r + 1);
            add_scaled(d->product + (ptrdiff_t)r * n, -factor, dh, n);
            add_scaled(dh, ddot, c_r, r + 1);
        }
        add_scaled(gradient + (ptrdiff_t)j * n, 1.0, dh, n);
    }
}

MT_SPAN_CODE void span_gradient(const double *gram, int n, double epsilon, double rounding, double *gradient,
                                double *workspace)
{
    ptrdiff_t square_size = (ptrdiff_t)n * n;
    struct basis b = {0};
    b.n = n;
    b.coefficient = workspace;
    b.product = b.coefficient + square_size;
    b.dot = b.product + square_size;
    struct basis_gradient d = {0};
    d.coefficient = b.dot + square_size;
    d.product = d.coefficient + square_size;
    double *vectors = d.product + square_size;
    b.square = vectors;
    b.shrink = vectors + n;
    d.square = vectors + 2 * (ptrdiff_t)n;
    d.shrink = vectors + 3 * (ptrdiff_t)n;
    double *before = vectors + 4 * (ptrdiff_t)n;
    memset(gradient, 0, (size_t)square_size * sizeof *gradient);
    for (int a = 0; a < n; a++) {
        orthogonalise(&b, gram, a, epsilon, rounding);
        loss_gradient(&b, &d, a, 1.0 / (double)n);
        reverse(&b, &d, a, gradient, before);
    }
}

#endif
