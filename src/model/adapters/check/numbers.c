/*
 * The numbers of a pair: what is zero, what is not finite, and how far the pair moves its weight,
 *
 *     |s·B·A|² = s² · sum over k, l of (Bᵀ B)[k,l] · (A Aᵀ)[k,l]
 *
 * and, of a stack, in which order the columns of B lie. A stack that PEFT before 0.19 wrote, with in and out
 * exchanged, has the same sums.
 *
 * The columns of one expert learn from the same tokens, so they are alike: their cos² is larger than that of
 * columns of different experts. Read in the wrong order, a group holds columns of different experts.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/adapters/check/check_parts.h"

#define SAMPLED_ROWS 16
#define ALIKE_FACTOR 1.5 // the right order's columns are more alike, at least so much,
#define ALIKE_ERRORS 8.0 // so many standard errors,
#define ALIKE_STACKS 0.9 // and in so many of the stacks

/* A pair as floats: a [experts·rank, in], b [out, rank·experts], in and out as the file has them. */
struct values {
    float *a, *b;
    size_t a_count, b_count;
    int64_t experts, rank, in, out, columns;
    double *gram; // [rank,rank] of a, then of b
};

/* Column of rank k of expert e. */
static int64_t column(const struct values *values, bool by_expert, int64_t e, int64_t k)
{
    return by_expert ? e * values->rank + k : k * values->experts + e;
}

static enum mt_status read_matrix(struct mt_context *ctx, const struct mt_safetensors_tensor *stored,
                                  float **values, size_t *count, size_t *not_finite)
{
    void *memory = NULL;
    *count = (size_t)(stored->dim[0] * stored->dim[1]);
    enum mt_status status = mt_allocate_array(ctx, *count, sizeof(float), &memory);
    *values = memory;
    for (size_t i = 0; status == MT_OK && i < *count; i++) {
        (*values)[i] = mt_adapter_value(stored, (int64_t)i);
        if (!isfinite((*values)[i])) *not_finite += 1;
    }
    return status;
}

// ------------------------------------------------------------------ sums

/* gram[k,l] of the rows of A of an expert. */
static void gram_a(const struct values *values, int64_t e, double *gram)
{
    for (int64_t k = 0; k < values->rank; k++) {
        const float *one = values->a + (e * values->rank + k) * values->in;
        for (int64_t l = 0; l <= k; l++) {
            const float *other = values->a + (e * values->rank + l) * values->in;
            double sum = 0.0;
            for (int64_t i = 0; i < values->in; i++) sum += (double)one[i] * (double)other[i];
            gram[k * values->rank + l] = sum;
            gram[l * values->rank + k] = sum;
        }
    }
}

/* gram[k,l] of the columns of B of an expert. */
static void gram_b(const struct values *values, bool by_expert, int64_t e, double *gram)
{
    memset(gram, 0, (size_t)(values->rank * values->rank) * sizeof *gram);
    for (int64_t o = 0; o < values->out; o++) {
        const float *row = values->b + o * values->columns;
        for (int64_t k = 0; k < values->rank; k++) {
            double one = (double)row[column(values, by_expert, e, k)];
            if (one == 0.0) continue;
            for (int64_t l = 0; l <= k; l++)
                gram[k * values->rank + l] += one * (double)row[column(values, by_expert, e, l)];
        }
    }
    for (int64_t k = 0; k < values->rank; k++) {
        for (int64_t l = 0; l < k; l++) gram[l * values->rank + k] = gram[k * values->rank + l];
    }
}

/* What a group of columns says of the order. */
struct group {
    int64_t zero;  // columns that are all zero
    double alike;  // sum of cos² over the pairs of others
    int64_t pairs; // of these
};

static struct group look_at_group(const double *gram, int64_t rank)
{
    struct group group = {0};
    for (int64_t k = 0; k < rank; k++) {
        double one = gram[k * rank + k];
        if (one == 0.0) group.zero++;
        for (int64_t l = 0; l < k; l++) {
            double other = gram[l * rank + l];
            double both = gram[k * rank + l];
            if (!(one > 0.0) || !(other > 0.0)) continue;
            group.alike += both / one * (both / other);
            group.pairs++;
        }
    }
    return group;
}

// ------------------------------------------------------------------ zeros

static bool a_is_zero(const double *gram, int64_t rank)
{
    for (int64_t k = 0; k < rank; k++) {
        if (gram[k * rank + k] != 0.0) return false;
    }
    return true;
}

/*
 * Rows of B that are all zero, where they need not be. Of separate pairs of gate and up (B is
 * [B_gate 0; 0 B_up]) the rows of one that has no pair do not count: its half of every expert's A is zero.
 */
static void count_zero_rows(const struct values *values, struct mt_checked_pair *pair)
{
    int64_t half = pair->kind == MT_CHECKED_GATE_UP && !pair->swapped ? values->out / 2 : 0;
    bool learns[2] = {false, false}; // first and second half of the ranks
    for (int64_t row = 0; row < values->experts * values->rank; row++) {
        const float *a = values->a + row * values->in;
        bool second = half > 0 && row % values->rank >= values->rank / 2;
        for (int64_t i = 0; i < values->in && !learns[second ? 1 : 0]; i++)
            learns[second ? 1 : 0] = a[i] != 0.0f;
    }
    for (int64_t o = 0; o < values->out; o++) {
        bool zero = true;
        if (half > 0 && !learns[o < half ? 0 : 1]) continue;
        for (int64_t c = 0; c < values->columns && zero; c++)
            zero = values->b[o * values->columns + c] == 0.0f;
        pair->numbers.rows++;
        pair->numbers.zero_rows += zero ? 1 : 0;
    }
}

// ------------------------------------------------------------------ the order of columns

/* Whether B is [B_gate 0; 0 B_up] for every expert, read in this order, and not all zero. */
static bool is_apart(const struct values *values, bool by_expert)
{
    bool any = false;
    if (values->rank % 2 != 0) return false;
    for (int64_t o = 0; o < values->out; o++) {
        bool up = o >= values->out / 2;
        for (int64_t e = 0; e < values->experts; e++) {
            for (int64_t k = 0; k < values->rank; k++) {
                bool second = k >= values->rank / 2;
                float value = values->b[o * values->columns + column(values, by_expert, e, k)];
                if (value == 0.0f) continue;
                if (second != up) return false;
                any = true;
            }
        }
    }
    return any;
}

/* Columns that are zero by whole experts in one order, and not in the other, decide. */
static enum mt_column_order order_of(const struct values *values, const struct mt_checked_pair *pair,
                                     const int64_t broken[2])
{
    if (pair->kind == MT_CHECKED_GATE_UP && !pair->swapped) {
        bool by_rank = is_apart(values, false);
        bool by_expert = is_apart(values, true);
        if (by_rank != by_expert) return by_rank ? MT_COLUMNS_BY_RANK : MT_COLUMNS_BY_EXPERT;
    }
    if (broken[0] == 0 && broken[1] > 0) return MT_COLUMNS_BY_RANK;
    return broken[0] > 0 && broken[1] == 0 ? MT_COLUMNS_BY_EXPERT : MT_COLUMNS_UNKNOWN;
}

/* Looks at every expert of a stack, or at the one linear layer. */
static void look_at_experts(const struct values *values, struct mt_checked_pair *pair)
{
    struct mt_checked_numbers *numbers = &pair->numbers;
    size_t square = (size_t)(values->rank * values->rank);
    double *a = values->gram;
    double *b = values->gram + square;
    double change = 0.0;
    double alike[2] = {0.0, 0.0};
    int64_t pairs[2] = {0, 0};
    int64_t broken[2] = {0, 0}; // experts of whose columns some are zero, or all and the A is not
    for (int64_t e = 0; e < values->experts; e++) {
        gram_a(values, e, a);
        bool learns = !a_is_zero(a, values->rank);
        for (int order = 0; order < (values->experts > 1 && values->rank > 1 ? 2 : 1); order++) {
            gram_b(values, order == 1, e, b);
            struct group group = look_at_group(b, values->rank);
            alike[order] += group.alike;
            pairs[order] += group.pairs;
            if ((group.zero > 0 && group.zero < values->rank) || (!learns && group.zero < values->rank))
                broken[order]++;
            if (order > 0) continue;
            for (size_t i = 0; i < square; i++) change += a[i] * b[i];
            numbers->learning += learns ? 1 : 0;
            numbers->still += learns && group.zero == values->rank ? 1 : 0;
        }
    }
    numbers->change = fabs(pair->scale) * sqrt(fmax(change, 0.0));
    numbers->zero = change == 0.0;
    if (!mt_checked_is_stack(pair) || values->rank < 2) return;
    pair->order = order_of(values, pair, broken);
    for (int order = 0; order < 2; order++)
        pair->alike[order] = pairs[order] > 0 ? alike[order] / (double)pairs[order] : 0.0;
    pair->alike_count = (size_t)pairs[0];
}

// ------------------------------------------------------------------ the weight

/* Frobenius norm of a stored weight, from some of its rows. 0: not stored as floats. */
static double weight_norm(const struct mt_checkpoint *checkpoint, const char *module, int64_t out, int64_t in)
{
    char name[MT_PARAMS_NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s.weight", module);
    const struct mt_safetensors_tensor *stored = mt_checkpoint_find(checkpoint, name);
    if (stored == NULL || stored->rank != 2 || stored->dim[0] != out || stored->dim[1] != in) return 0.0;
    if (stored->dtype != MT_SAFETENSORS_F32 && stored->dtype != MT_SAFETENSORS_BF16 &&
        stored->dtype != MT_SAFETENSORS_F16)
        return 0.0;
    int64_t step = out > SAMPLED_ROWS ? out / SAMPLED_ROWS : 1;
    double squares = 0.0;
    int64_t rows = 0;
    for (int64_t row = 0; row < out; row += step, rows++) {
        for (int64_t i = 0; i < in; i++) {
            double value = (double)mt_adapter_value(stored, row * in + i);
            squares += value * value;
        }
    }
    return sqrt(squares / (double)rows * (double)out);
}

/* Of all experts of a stack, as if they were like the first one. */
static double stack_norm(const struct mt_checked_adapter *checked, const struct mt_checked_pair *pair)
{
    const struct mt_model_desc *desc = &checked->desc;
    const char *const words[] = {desc->names.gate, desc->names.up, desc->names.down};
    bool down = pair->kind == MT_CHECKED_DOWN;
    double squares = 0.0;
    for (int i = down ? 2 : 0; i < (down ? 3 : 2); i++) {
        char module[MT_PARAMS_NAME_BYTES];
        (void)snprintf(module, sizeof module, "model.layers.%lld.%s.0.%s", (long long)pair->layer,
                       desc->names.experts, words[i]);
        double norm = weight_norm(&checked->checkpoint, module, down ? pair->out : pair->out / 2, pair->in);
        if (norm == 0.0) return 0.0;
        squares += norm * norm;
    }
    return sqrt(squares * (double)pair->experts);
}

// ------------------------------------------------------------------ all of it

enum mt_status mt_checked_measure(struct mt_checked_adapter *checked, struct mt_checked_pair *pair)
{
    struct mt_context *ctx = checked->ctx;
    size_t square = (size_t)(pair->rank * pair->rank);
    struct values values = {.experts = pair->experts,
                            .rank = pair->rank,
                            .in = pair->a->dim[1],
                            .out = pair->b->dim[0],
                            .columns = pair->b->dim[1]};
    void *gram = NULL;
    enum mt_status status = read_matrix(ctx, pair->a, &values.a, &values.a_count, &pair->numbers.not_finite);
    if (status == MT_OK)
        status = read_matrix(ctx, pair->b, &values.b, &values.b_count, &pair->numbers.not_finite);
    if (status == MT_OK) status = mt_allocate_array(ctx, 2 * square, sizeof(double), &gram);
    values.gram = gram;
    if (status == MT_OK && pair->numbers.not_finite == 0) {
        look_at_experts(&values, pair);
        count_zero_rows(&values, pair);
        pair->numbers.weight = mt_checked_is_stack(pair)
                                   ? stack_norm(checked, pair)
                                   : weight_norm(&checked->checkpoint, pair->module, pair->out, pair->in);
    }
    mt_release(ctx, gram, 2 * square * sizeof(double));
    mt_release(ctx, values.a, values.a_count * sizeof(float));
    mt_release(ctx, values.b, values.b_count * sizeof(float));
    return status;
}

/* How alike columns are over all stacks, against what directions drawn at random have. */
static enum mt_column_order order_by_likeness(const struct mt_checked_adapter *checked)
{
    double alike[2] = {0.0, 0.0}; // sums over pairs of columns
    double chance = 0.0;
    double pairs = 0.0;
    double leaning = 0.0;
    size_t stacks = 0;
    for (size_t i = 0; i < checked->pair_count; i++) {
        const struct mt_checked_pair *pair = &checked->pair[i];
        if (!mt_checked_is_stack(pair) || pair->alike_count == 0) continue;
        double count = (double)pair->alike_count;
        for (int order = 0; order < 2; order++) alike[order] += count * pair->alike[order];
        chance += count / (double)pair->b->dim[0];
        pairs += count;
        leaning += pair->alike[1] > pair->alike[0] ? 1.0 : 0.0;
        stacks++;
    }
    if (stacks == 0) return MT_COLUMNS_UNKNOWN;
    int better = alike[1] > alike[0] ? 1 : 0;
    double error = sqrt(2.0 / pairs) * chance; // of a sum of cos² of random directions
    double agree = (better == 1 ? leaning : (double)stacks - leaning) / (double)stacks;
    bool tells = agree >= ALIKE_STACKS && alike[better] > ALIKE_FACTOR * alike[1 - better] &&
                 alike[better] - alike[1 - better] > ALIKE_ERRORS * error;
    if (!tells) return MT_COLUMNS_UNKNOWN;
    return better == 1 ? MT_COLUMNS_BY_EXPERT : MT_COLUMNS_BY_RANK;
}

void mt_checked_judge_order(struct mt_checked_adapter *checked)
{
    int64_t certain[MT_COLUMNS_BY_EXPERT + 1] = {0};
    for (size_t i = 0; i < checked->pair_count; i++) {
        if (mt_checked_is_stack(&checked->pair[i])) certain[checked->pair[i].order]++;
    }
    checked->order_certain = (certain[MT_COLUMNS_BY_RANK] > 0) != (certain[MT_COLUMNS_BY_EXPERT] > 0);
    if (!checked->order_certain)
        checked->order = order_by_likeness(checked);
    else
        checked->order = certain[MT_COLUMNS_BY_RANK] > 0 ? MT_COLUMNS_BY_RANK : MT_COLUMNS_BY_EXPERT;
}
