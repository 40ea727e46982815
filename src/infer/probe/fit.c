/* Normal equations with a small ridge, inverted by Cholesky's factors. */
#include "infer/probe/fit.h"

#include <math.h>
#include <string.h>

#define RIDGE 1e-9 // relative to the diagonal
#define FAINT 1e-5 // a part with less than this share of the largest effect cannot be seen
#define SMALL 1e-12

double mt_fit_rms(const double *numbers, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += numbers[i] * numbers[i];
    return count > 0 ? sqrt(sum / (double)count) : 0.0;
}

static double product(const double *a, const double *b, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

struct system {
    const struct mt_fit_values *values;
    int parts;
    double *normal;  // [parts,parts], then its lower factor
    double *inverse; // [parts,parts]
    double *meat;    // [parts,parts]: Σ over texts of s sᵀ, s = Xᵀ rest
    double *column;  // [parts]
    double *rest;    // [count] what stays unexplained
    bool *seen;      // [parts]
};

static void make_normal(struct system *s)
{
    const struct mt_fit_values *v = s->values;
    double most = 0.0;
    for (int p = 0; p < s->parts; p++) {
        for (int q = 0; q < s->parts; q++)
            s->normal[p * s->parts + q] =
                product(v->effect + (size_t)p * v->count, v->effect + (size_t)q * v->count, v->count);
        double size = s->normal[p * s->parts + p];
        most = size > most ? size : most;
    }
    for (int p = 0; p < s->parts; p++) {
        double *diagonal = &s->normal[p * s->parts + p];
        s->seen[p] = *diagonal > SMALL && *diagonal > FAINT * FAINT * most;
        for (int q = 0; q < s->parts && !s->seen[p]; q++)
            s->normal[p * s->parts + q] = s->normal[q * s->parts + p] = 0.0;
        *diagonal = s->seen[p] ? *diagonal * (1.0 + RIDGE) : 1.0;
    }
}

/* False: the effects of two parts are the same but for rounding. */
static bool factor(struct system *s)
{
    const int n = s->parts;
    double *a = s->normal;
    for (int j = 0; j < n; j++) {
        for (int i = j; i < n; i++) {
            double sum = a[i * n + j];
            for (int k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
            if (i == j && !(sum > 0.0)) return false;
            a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
        }
    }
    return true;
}

static void invert(struct system *s)
{
    const int n = s->parts;
    const double *a = s->normal;
    for (int c = 0; c < n; c++) {
        double *x = s->column;
        for (int i = 0; i < n; i++) {
            x[i] = i == c ? 1.0 : 0.0;
            for (int k = 0; k < i; k++) x[i] -= a[i * n + k] * x[k];
            x[i] /= a[i * n + i];
        }
        for (int i = n - 1; i >= 0; i--) {
            for (int k = i + 1; k < n; k++) x[i] -= a[k * n + i] * x[k];
            x[i] /= a[i * n + i];
        }
        for (int i = 0; i < n; i++) s->inverse[i * n + c] = x[i];
    }
}

static void find_presence(struct system *s, struct mt_fitted *fitted)
{
    const struct mt_fit_values *v = s->values;
    const int n = s->parts;
    for (int p = 0; p < n; p++)
        s->column[p] = s->seen[p] ? product(v->effect + (size_t)p * v->count, v->rest, v->count) : 0.0;
    memcpy(s->rest, v->rest, v->count * sizeof *s->rest);
    for (int p = 0; p < n; p++) {
        double u = product(s->inverse + p * n, s->column, (size_t)n);
        fitted[p] = (struct mt_fitted){.presence = s->seen[p] ? u : 0.0};
        for (size_t i = 0; i < v->count && s->seen[p]; i++)
            s->rest[i] -= u * v->effect[(size_t)p * v->count + i];
    }
}

/* Sums of x · rest over each text, and of their products over texts. */
static void make_meat(struct system *s)
{
    const struct mt_fit_values *v = s->values;
    const int n = s->parts;
    for (size_t i = 0; i < v->count;) {
        size_t end = i;
        while (end < v->count && v->text[end] == v->text[i]) end++;
        for (int p = 0; p < n; p++)
            s->column[p] = product(v->effect + (size_t)p * v->count + i, s->rest + i, end - i);
        for (int p = 0; p < n; p++) {
            for (int q = 0; q < n; q++) s->meat[p * n + q] += s->column[p] * s->column[q];
        }
        i = end;
    }
}

static void find_errors(struct system *s, struct mt_fitted *fitted)
{
    const struct mt_fit_values *v = s->values;
    const int n = s->parts;
    double freedom = v->count > (size_t)n + 1 ? (double)(v->count - (size_t)n) : 1.0;
    double stretch = (double)v->count / freedom;
    double alone = product(s->rest, s->rest, v->count) / freedom;
    make_meat(s);
    for (int p = 0; p < n; p++) {
        double together = 0.0;
        for (int q = 0; q < n; q++)
            together += s->inverse[p * n + q] * product(s->inverse + p * n, s->meat + q * n, (size_t)n);
        double variance = fmax(alone * s->inverse[p * n + p], stretch * together);
        fitted[p].error = s->seen[p] ? sqrt(fmax(variance, 0.0)) : INFINITY;
    }
}

enum mt_status mt_fit(struct mt_context *ctx, const struct mt_fit_values *values, struct mt_fitted *fitted)
{
    struct mt_arena arena;
    enum mt_status status = MT_OK;
    size_t parts = (size_t)values->parts;
    struct system s = {.values = values, .parts = values->parts};
    mt_arena_init(&arena, ctx, 4096);
    s.normal = mt_arena_array(&arena, parts * parts, sizeof *s.normal, &status);
    s.inverse = mt_arena_array(&arena, parts * parts, sizeof *s.inverse, &status);
    s.meat = mt_arena_array(&arena, parts * parts, sizeof *s.meat, &status);
    s.column = mt_arena_array(&arena, parts, sizeof *s.column, &status);
    s.rest = mt_arena_array(&arena, values->count, sizeof *s.rest, &status);
    s.seen = mt_arena_array(&arena, parts, sizeof *s.seen, &status);
    if (status == MT_OK) {
        make_normal(&s);
        bool solved = factor(&s);
        if (solved) {
            invert(&s);
            find_presence(&s, fitted);
            find_errors(&s, fitted);
        }
        for (size_t p = 0; p < parts && !solved; p++) fitted[p] = (struct mt_fitted){.error = INFINITY};
    }
    mt_arena_free(&arena);
    return status;
}
