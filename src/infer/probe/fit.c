/* Normal equations with a small ridge, inverted by Cholesky's factors. */
#include "infer/probe/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RIDGE 1e-9 // relative to the diagonal
#define FAINT 1e-5 // a part with less than this share of the largest effect cannot be seen
#define SMALL 1e-12
#define FITS  4   // the first with equal weights
#define LEAST 0.2 // weight of a text

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

/* Where the values of the text end that begins at i. */
static size_t text_end(const size_t *text, size_t count, size_t i)
{
    size_t end = i;
    while (end < count && text[end] == text[i]) end++;
    return end;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double mt_fit_typical(const double *numbers, const size_t *text, size_t count, double *scratch)
{
    size_t texts = 0;
    for (size_t i = 0; i < count; i = text_end(text, count, i))
        scratch[texts++] = mt_fit_rms(numbers + i, text_end(text, count, i) - i);
    if (texts == 0) return 0.0;
    qsort(scratch, texts, sizeof *scratch, compare_numbers);
    return 0.5 * (scratch[texts / 2] + scratch[(texts - 1) / 2]);
}

struct system {
    const struct mt_fit_values *values; // as they are weighted
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
        size_t end = text_end(v->text, v->count, i);
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

/* Values times the weights of their texts. */
static void weigh(const struct mt_fit_values *plain, const double *weight, double *rest, double *effect)
{
    for (size_t i = 0; i < plain->count; i++) rest[i] = weight[i] * plain->rest[i];
    for (size_t i = 0; i < plain->count * (size_t)plain->parts; i++)
        effect[i] = weight[i % plain->count] * plain->effect[i];
}

/* New weights, by how far each text is from the fit; s->rest is scratch. */
static void find_weights(struct system *s, const struct mt_fit_values *plain, const struct mt_fitted *fitted,
                         double *weight, double *scratch)
{
    size_t count = plain->count;
    for (size_t i = 0; i < count; i++) {
        s->rest[i] = plain->rest[i];
        for (int p = 0; p < s->parts; p++)
            if (s->seen[p]) s->rest[i] -= fitted[p].presence * plain->effect[(size_t)p * count + i];
    }
    double far = 2.0 * mt_fit_typical(s->rest, plain->text, count, scratch);
    for (size_t i = 0; i < count;) {
        size_t end = text_end(plain->text, count, i);
        double rms = mt_fit_rms(s->rest + i, end - i);
        double own = rms > far ? fmax(far / rms, LEAST) : 1.0;
        for (; i < end; i++) weight[i] = own;
    }
}

static enum mt_status make_system(struct mt_arena *arena, size_t parts, size_t count, struct system *s)
{
    enum mt_status status = MT_OK;
    s->normal = mt_arena_array(arena, parts * parts, sizeof *s->normal, &status);
    s->inverse = mt_arena_array(arena, parts * parts, sizeof *s->inverse, &status);
    s->meat = mt_arena_array(arena, parts * parts, sizeof *s->meat, &status);
    s->column = mt_arena_array(arena, parts, sizeof *s->column, &status);
    s->rest = mt_arena_array(arena, count, sizeof *s->rest, &status);
    s->seen = mt_arena_array(arena, parts, sizeof *s->seen, &status);
    return status;
}

enum mt_status mt_fit(struct mt_context *ctx, const struct mt_fit_values *plain, struct mt_fitted *fitted)
{
    struct mt_arena arena;
    size_t parts = (size_t)plain->parts;
    struct mt_fit_values weighted = *plain;
    struct system s = {.values = &weighted, .parts = plain->parts};
    mt_arena_init(&arena, ctx, 4096);
    enum mt_status status = make_system(&arena, parts, plain->count, &s);
    double *weight = mt_arena_array(&arena, plain->count, sizeof *weight, &status);
    double *scratch = mt_arena_array(&arena, plain->count, sizeof *scratch, &status);
    double *rest = mt_arena_array(&arena, plain->count, sizeof *rest, &status);
    double *effect = mt_arena_array(&arena, parts * plain->count, sizeof *effect, &status);
    for (size_t i = 0; i < plain->count && status == MT_OK; i++) weight[i] = 1.0;
    weighted.rest = rest;
    weighted.effect = effect;
    bool solved = true;
    for (int fit = 0; fit < FITS && solved && status == MT_OK; fit++) {
        weigh(plain, weight, rest, effect);
        memset(s.meat, 0, parts * parts * sizeof *s.meat);
        make_normal(&s);
        solved = factor(&s);
        if (!solved) break;
        invert(&s);
        find_presence(&s, fitted);
        find_errors(&s, fitted);
        find_weights(&s, plain, fitted, weight, scratch);
    }
    for (size_t p = 0; p < parts && !solved; p++) fitted[p] = (struct mt_fitted){.error = INFINITY};
    mt_arena_free(&arena);
    return status;
}
