/*
 * Statistics over the tokens of each segment. Tokens are cut into runs: neighbours of one segment, within
 * one of a fixed number of blocks. Each run sums into a partial vector of its own, and the partial vectors
 * are added to the statistics in the order of the tokens. The cut depends on mask and segment alone.
 *
 * Segments that are themselves runs of tokens, as sequences are, give at most one run per segment more than
 * there are blocks. Where segments are scattered there would be too many: then one run follows the other on
 * one thread, with one partial vector.
 */
#ifndef MT_OPS_CPU_TOKEN_STATS_H
#define MT_OPS_CPU_TOKEN_STATS_H

#include <string.h>

#include "ops/cpu/column_sums.h"
#include "ops/ref/tokens.h"

/* Tokens [start, stop), of which those that count belong to one segment. */
struct token_run {
    int64_t start;
    int64_t stop;
    int64_t segment;
};

/* What is summed, and where it goes. */
struct token_stats {
    const struct mt_tensor *mask;
    const struct mt_tensor *segment;
    int64_t tokens;
    int64_t segments;
    int64_t width;    // doubles of a partial vector
    int64_t elements; // of all tokens: is it worth threads?
    const void *args; // handed to both calls
    /* Adds a run's tokens to a partial vector. */
    void (*add_run)(const void *args, const struct token_run *run, double *partial);
    /* Adds a partial vector to the statistics of a segment. */
    void (*add_partial)(const void *args, int64_t segment, const double *partial);
};

static inline int64_t token_runs_limit(const struct token_stats *stats)
{
    return COLUMN_SUM_BLOCKS + stats->segments;
}

/* Runs and partial vectors. */
static inline size_t token_stats_scratch(const struct token_stats *stats)
{
    size_t each = sizeof(struct token_run) + (size_t)stats->width * sizeof(double);
    return (size_t)token_runs_limit(stats) * each;
}

/* The first run at or after token `from`; false when no token is left that counts. */
static inline bool next_run(const struct token_stats *stats, const struct row_blocks *blocks, int64_t from,
                            struct token_run *run)
{
    while (from < stats->tokens && !token_counts(stats->mask, from)) from++;
    if (from >= stats->tokens) return false;
    int64_t end = row_block_end(blocks, from / blocks->each);
    *run = (struct token_run){.start = from, .stop = end, .segment = token_segment(stats->segment, from)};
    if (!mt_tensor_present(stats->segment)) return true;
    for (int64_t i = from + 1; i < end; i++) {
        if (ref_int1(stats->segment, i) == run->segment || !token_counts(stats->mask, i)) continue;
        run->stop = i;
        break;
    }
    return true;
}

/* Lists the runs; -1 when there are more than the limit. */
static inline int64_t list_runs(const struct token_stats *stats, const struct row_blocks *blocks,
                                struct token_run *runs)
{
    int64_t count = 0;
    struct token_run run = {0};
    while (next_run(stats, blocks, run.stop, &run)) {
        if (count == token_runs_limit(stats)) return -1;
        runs[count++] = run;
    }
    return count;
}

/* Sums everything. The statistics have been zeroed. */
static inline void sum_token_stats(const struct mt_device *device, const struct token_stats *stats)
{
    struct row_blocks blocks = row_blocks_of(stats->tokens, true);
    struct token_run *runs = device->scratch.data;                         // [limit]
    double *partials = (double *)(void *)(runs + token_runs_limit(stats)); // [limit, width]
    size_t partial_bytes = (size_t)stats->width * sizeof(double);
    int64_t count = list_runs(stats, &blocks, runs);
    if (count < 0) {
        struct token_run run = {0};
        while (next_run(stats, &blocks, run.stop, &run)) {
            memset(partials, 0, partial_bytes);
            stats->add_run(stats->args, &run, partials);
            stats->add_partial(stats->args, run.segment, partials);
        }
        return;
    }
#pragma omp parallel for num_threads(cpu_threads(device, stats->elements)) schedule(static)
    for (int64_t r = 0; r < count; r++) {
        double *partial = partials + r * stats->width;
        memset(partial, 0, partial_bytes);
        stats->add_run(stats->args, &runs[r], partial);
    }
    for (int64_t r = 0; r < count; r++) {
        stats->add_partial(stats->args, runs[r].segment, partials + r * stats->width);
    }
}

/* Row b of a statistic [B,n]; NULL where it is absent. */
static inline double *stat_row(const struct mt_tensor *statistic, int64_t b)
{
    return mt_tensor_present(statistic) ? (double *)statistic->data + b * statistic->stride[0] : NULL;
}

/* Element b of a statistic's gradient [B]; 0 where it is absent. */
static inline double stat_at(const struct mt_tensor *statistic, int64_t b)
{
    return mt_tensor_present(statistic) ? ((const double *)statistic->data)[b] : 0.0;
}

#endif
