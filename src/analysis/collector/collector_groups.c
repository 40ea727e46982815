/* Tokens with names: their groups, and batches made of whole groups in their order. */
#include <string.h>

#include "analysis/collector/collector_parts.h"
#include "objective/loads.h"

enum mt_status mt_collector_take_arrays(struct mt_collector *collector)
{
    struct mt_context *ctx = collector->ctx;
    size_t layers = (size_t)collector->options.layers;
    size_t n = (size_t)collector->options.experts;
    size_t groups = (size_t)collector->options.groups;
    void *memory[4] = {NULL};
    enum mt_status status = mt_allocate_array(ctx, layers * MT_LAYER_ARRAYS * n, sizeof(double), &memory[0]);
    if (status == MT_OK)
        status = mt_allocate_array(ctx, layers * MT_LAYER_SUMS * n, sizeof(struct mt_any_order), &memory[1]);
    if (status == MT_OK && groups > 0)
        status = mt_allocate_array(ctx, layers * groups, sizeof(int64_t), &memory[2]);
    if (status == MT_OK && groups > 0)
        status = mt_allocate_array(ctx, layers * n * groups, sizeof(uint32_t), &memory[3]);
    collector->numbers = memory[0];
    collector->sums = memory[1];
    collector->group_tokens = memory[2];
    collector->group_loads = memory[3];
    return status;
}

void mt_collector_free_arrays(struct mt_collector *collector)
{
    struct mt_context *ctx = collector->ctx;
    size_t layers = (size_t)collector->options.layers;
    size_t n = (size_t)collector->options.experts;
    size_t groups = (size_t)collector->options.groups;
    mt_release(ctx, collector->numbers, layers * MT_LAYER_ARRAYS * n * sizeof(double));
    mt_release(ctx, collector->sums, layers * MT_LAYER_SUMS * n * sizeof(struct mt_any_order));
    mt_release(ctx, collector->group_tokens, layers * groups * sizeof(int64_t));
    mt_release(ctx, collector->group_loads, layers * groups * n * sizeof(uint32_t));
}

void mt_collector_name(struct mt_collector *collector, const struct mt_token_names *names)
{
    collector->named = names != NULL;
    collector->names = names != NULL ? *names : (struct mt_token_names){0};
}

void mt_collector_count_group(struct mt_collector *collector, struct mt_layer_sums *layer, int64_t token,
                              const int32_t *expert)
{
    int64_t group = collector->names.group[token];
    uint32_t *load = layer->group_load + group * collector->options.experts;
    for (int s = 0; s < collector->options.slots; s++) {
        if (expert[s] >= 0) load[expert[s]]++;
    }
    layer->group_tokens[group]++;
}

void mt_collector_batches(const struct mt_collector *collector, const struct mt_layer_sums *layer,
                          double *work, struct mt_batch_sums *sums)
{
    const struct mt_collector_options *options = &collector->options;
    size_t n = (size_t)options->experts;
    int64_t tokens = 0;
    *sums = (struct mt_batch_sums){.batches = layer->batch.batches,
                                   .violation = layer->batch.violation,
                                   .violation_code = layer->batch.violation_code};
    memset(work, 0, n * sizeof *work);
    for (int64_t g = 0; g < options->groups; g++) {
        const uint32_t *load = layer->group_load + (size_t)g * n;
        if (layer->group_tokens[g] == 0) continue;
        for (size_t j = 0; j < n; j++) work[j] += (double)load[j];
        tokens += layer->group_tokens[g];
        if (tokens < options->batch_tokens) continue;
        struct mt_load_figures figures;
        mt_load_judge(work, options->experts, &figures);
        sums->batches++;
        sums->violation += figures.max_violation;
        sums->violation_code += figures.max_violation_code;
        memset(work, 0, n * sizeof *work);
        tokens = 0;
    }
}
