/* slot_stats: a handful of numbers per token, in double. Forward sums in runs of tokens (token_stats.h). */
#include "ops/cpu/objective/token_stats.h"

// A partial vector: for every expert what follows, then row_squares and rows. Side by side, one slot touches
// one cache line.
enum { AT_COUNT, AT_FIRST, AT_SUM, AT_SQUARES, PER_EXPERT };

static const int32_t *expert_row(const struct mt_tensor *expert, int64_t i)
{
    return (const int32_t *)expert->data + i * expert->stride[0];
}

static void add_run(const void *args, const struct token_run *run, double *partial)
{
    const struct mt_slot_stats_forward_args *a = args;
    bool has_weight = mt_tensor_present(&a->weight);
    double row_squares = 0.0;
    double rows = 0.0;
    for (int64_t i = run->start; i < run->stop; i++) {
        if (!token_counts(&a->mask, i)) continue;
        const int32_t *expert = expert_row(&a->expert, i);
        const float *weight = has_weight ? cpu_row(&a->weight, i) : NULL;
        double total = 0.0;
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            if (expert[s] < 0) continue;
            double w = has_weight ? (double)weight[s] : 0.0;
            double *at = partial + (int64_t)expert[s] * PER_EXPERT;
            at[AT_COUNT] += 1.0;
            at[AT_FIRST] += s == 0 ? 1.0 : 0.0;
            at[AT_SUM] += w;
            at[AT_SQUARES] += w * w;
            total += w;
        }
        row_squares += total * total;
        rows += 1.0;
    }
    partial[a->count.dim[1] * PER_EXPERT] += row_squares;
    partial[a->count.dim[1] * PER_EXPERT + 1] += rows;
}

/* statistic[b,j] += partial[j], one field of it, if the statistic is there. */
static void add_field(const struct mt_tensor *statistic, int64_t b, const double *partial, int field)
{
    double *row = stat_row(statistic, b);
    if (row == NULL) return;
    for (int64_t j = 0; j < statistic->dim[1]; j++) row[j] += partial[j * PER_EXPERT + field];
}

static void add_partial(const void *args, int64_t b, const double *partial)
{
    const struct mt_slot_stats_forward_args *a = args;
    add_field(&a->count, b, partial, AT_COUNT);
    add_field(&a->first, b, partial, AT_FIRST);
    add_field(&a->sum, b, partial, AT_SUM);
    add_field(&a->squares, b, partial, AT_SQUARES);
    ref_add1(&a->row_squares, b, partial[a->count.dim[1] * PER_EXPERT]);
    ref_add1(&a->rows, b, partial[a->count.dim[1] * PER_EXPERT + 1]);
}

static struct token_stats stats_of(const struct mt_slot_stats_forward_args *a)
{
    return (struct token_stats){
        .mask = &a->mask,
        .segment = &a->segment,
        .tokens = a->expert.dim[0],
        .segments = a->count.dim[0],
        .width = a->count.dim[1] * PER_EXPERT + 2,
        .elements = mt_tensor_count(&a->expert),
        .args = a,
        .add_run = add_run,
        .add_partial = add_partial,
    };
}

size_t MT_CPU(slot_stats_forward_scratch)(const struct mt_device *device,
                                          const struct mt_slot_stats_forward_args *args)
{
    (void)device;
    struct token_stats stats = stats_of(args);
    return token_stats_scratch(&stats);
}

void MT_CPU(slot_stats_forward)(struct mt_device *device, const struct mt_slot_stats_forward_args *a)
{
    struct token_stats stats = stats_of(a);
    ref_clear(&a->count);
    ref_clear(&a->first);
    ref_clear(&a->sum);
    ref_clear(&a->squares);
    ref_clear(&a->row_squares);
    ref_clear(&a->rows);
    sum_token_stats(device, &stats);
}

static void backward_token(const struct mt_slot_stats_backward_args *a, int64_t i)
{
    int64_t slots = a->expert.dim[1];
    const int32_t *expert = expert_row(&a->expert, i);
    const float *weight = cpu_row(&a->weight, i);
    float *dweight = cpu_row(&a->dweight, i);
    bool counts = token_counts(&a->mask, i);
    int64_t b = token_segment(&a->segment, i);
    const double *dsum = stat_row(&a->dsum, b);
    const double *dsquares = stat_row(&a->dsquares, b);
    double total = 0.0;
    for (int64_t s = 0; s < slots; s++) total += expert[s] >= 0 ? (double)weight[s] : 0.0;
    double both = 2.0 * total * stat_at(&a->drow_squares, b);
    for (int64_t s = 0; s < slots; s++) {
        double dw = 0.0;
        if (counts && expert[s] >= 0) {
            dw = dsum[expert[s]] + both;
            if (dsquares != NULL) dw += 2.0 * (double)weight[s] * dsquares[expert[s]];
        }
        dweight[s] = (float)(a->accumulate ? (double)dweight[s] + dw : dw);
    }
}

void MT_CPU(slot_stats_backward)(struct mt_device *device, const struct mt_slot_stats_backward_args *a)
{
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->expert))) schedule(static)
    for (int64_t i = 0; i < a->expert.dim[0]; i++) backward_token(a, i);
}
