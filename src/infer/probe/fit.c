/* Normal equations with a small ridge, inverted by Cholesky's factors. */
#include "infer/probe/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RIDGE 1e-9 // relative to the diagonal
#define FAINT 1e-5 // a part with less than this share of the largest effect cannot be seen
#define SMALL 1e-12
#define FITS  8 // the first with equal weights

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

double mt_fit_preference(const struct mt_fit_values *values, const double *x, double *scratch)
{
    const size_t count = values->count;
    const double typical = mt_fit_typical(values->rest, values->text, count, scratch);
    double sum = 0.0;
    double squares = 0.0;
    for (size_t i = 0; i < count; i++) scratch[i] = values->rest[i] + x[i];
    for (size_t i = 0; i < count;) {
        size_t end = text_end(values->text, count, i);
        double own = hypot(typical, mt_fit_rms(values->rest + i, end - i));
        double other = hypot(typical, mt_fit_rms(scratch + i, end - i));
        double ratio = own > 0.0 && other > 0.0 ? log(other / own) : 0.0;
        sum += ratio;
        squares += ratio * ratio;
        i = end;
    }
    return squares > 0.0 ? sum / sqrt(squares) : 0.0;
}

struct system {
    const struct mt_fit_values *values; // as they are weighted
    int parts;
    double *normal;  // [parts,parts]: XᵀX
    double *factor;  // [parts,parts]: its lower factor, or that without one text
    double *inverse; // [parts,parts]
    double *squares; // [parts]: sums over texts
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

/* Factors the matrix in s->factor. False: the effects of two parts are the same but for rounding. */
static bool factor(struct system *s)
{
    const int n = s->parts;
    double *a = s->factor;
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

/* s->column times the inverse of what was factored. */
static void solve(struct system *s)
{
    const int n = s->parts;
    const double *a = s->factor;
    double *x = s->column;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) x[i] -= a[i * n + k] * x[k];
        x[i] /= a[i * n + i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++) x[i] -= a[k * n + i] * x[k];
        x[i] /= a[i * n + i];
    }
}

static bool invert(struct system *s)
{
    const int n = s->parts;
    memcpy(s->factor, s->normal, (size_t)n * (size_t)n * sizeof *s->factor);
    if (!factor(s)) return false;
    for (int c = 0; c < n; c++) {
        for (int i = 0; i < n; i++) s->column[i] = i == c ? 1.0 : 0.0;
        solve(s);
        for (int i = 0; i < n; i++) s->inverse[i * n + c] = s->column[i];
    }
    return true;
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

/* Adds the squares of how far presences move without the values from i to end. False: then they are unknown.
 */
static bool leave_out(struct system *s, size_t i, size_t end)
{
    const struct mt_fit_values *v = s->values;
    const int n = s->parts;
    for (int p = 0; p < n; p++) {
        const double *x = v->effect + (size_t)p * v->count + i;
        s->column[p] = s->seen[p] ? product(x, s->rest + i, end - i) : 0.0;
        for (int q = 0; q < n; q++) {
            double own = product(x, v->effect + (size_t)q * v->count + i, end - i);
            bool both = s->seen[p] && s->seen[q];
            double left = s->normal[p * n + q] - (both ? own : 0.0);
            s->factor[p * n + q] = p == q ? left + RIDGE * s->normal[p * n + q] : left;
        }
    }
    if (!factor(s)) return false;
    solve(s);
    for (int p = 0; p < n; p++) s->squares[p] += s->column[p] * s->column[p];
    return true;
}

static void find_errors(struct system *s, struct mt_fitted *fitted)
{
    const struct mt_fit_values *v = s->values;
    const int n = s->parts;
    double freedom = v->count > (size_t)n + 1 ? (double)(v->count - (size_t)n) : 1.0;
    double alone = product(s->rest, s->rest, v->count) / freedom;
    bool known = true;
    memset(s->squares, 0, (size_t)n * sizeof *s->squares);
    for (size_t i = 0; i < v->count && known;) {
        size_t end = text_end(v->text, v->count, i);
        known = leave_out(s, i, end);
        i = end;
    }
    for (int p = 0; p < n; p++) {
        double variance = fmax(alone * s->inverse[p * n + p], s->squares[p]);
        fitted[p].error = s->seen[p] && known ? sqrt(variance) : INFINITY;
    }
}

/* Values times the weights of their texts. */
static void weigh(const struct mt_fit_values *plain, const double *weight, double *rest, double *effect)
{
    for (size_t i = 0; i < plain->count; i++) rest[i] = weight[i] * plain->rest[i];
    for (size_t i = 0; i < plain->count * (size_t)plain->parts; i++)
        effect[i] = weight[i % plain->count] * plain->effect[i];
}

/* New weights, by how far each text is from the fit: those of Cauchy's distribution. s->rest is scratch. */
static void find_weights(struct system *s, const struct mt_fit_values *plain, const struct mt_fitted *fitted,
                         double *weight, double *scratch)
{
    size_t count = plain->count;
    for (size_t i = 0; i < count; i++) {
        s->rest[i] = plain->rest[i];
        for (int p = 0; p < s->parts; p++)
            if (s->seen[p]) s->rest[i] -= fitted[p].presence * plain->effect[(size_t)p * count + i];
    }
    double typical = mt_fit_typical(s->rest, plain->text, count, scratch);
    for (size_t i = 0; i < count;) {
        size_t end = text_end(plain->text, count, i);
        double far = typical > 0.0 ? mt_fit_rms(s->rest + i, end - i) / typical : 0.0;
        for (; i < end; i++) weight[i] = 1.0 / sqrt(1.0 + far * far);
    }
}

static enum mt_status make_system(struct mt_arena *arena, size_t parts, size_t count, struct system *s)
{
    enum mt_status status = MT_OK;
    s->normal = mt_arena_array(arena, parts * parts, sizeof *s->normal, &status);
    s->factor = mt_arena_array(arena, parts * parts, sizeof *s->factor, &status);
    s->inverse = mt_arena_array(arena, parts * parts, sizeof *s->inverse, &status);
    s->squares = mt_arena_array(arena, parts, sizeof *s->squares, &status);
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
        make_normal(&s);
        solved = invert(&s);
        if (!solved) break;
        find_presence(&s, fitted);
        if (fit + 1 == FITS) find_errors(&s, fitted);
        find_weights(&s, plain, fitted, weight, scratch);
    }
    for (size_t p = 0; p < parts && !solved; p++) fitted[p] = (struct mt_fitted){.error = INFINITY};
    mt_arena_free(&arena);
    return status;
}
