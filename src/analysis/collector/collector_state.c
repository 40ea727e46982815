/*
 * A collector's sums as bytes, for a run that is interrupted and goes on: a header, the sums of every layer,
 * the arrays of all, then what its kept outputs amount to. Numbers are in this machine's order. Kept vectors
 * themselves are not in it: what is added later keeps vectors of its own, and |cos| is that of both parts'
 * tokens.
 */
#include <string.h>

#include "analysis/collector/collector_sums.h"
#include "formats/text/lists.h"

#define MAGIC 0x3345545541544d52 // "RMTATUE3"

/* What a layer has besides its arrays. */
struct plain_sums {
    int64_t tokens, variance_tokens, batch_tokens, batches;
    double violation, violation_code;
    struct mt_any_order row_variance, weight_shares, score_shares;
    struct mt_cosine_sums cosine;
    int64_t scored[MT_EXPERT_SCORES];
};

struct header {
    uint64_t magic;
    int64_t layers, experts, slots, width, groups;
};

static struct header header_of(const struct mt_collector_options *options)
{
    return (struct header){.magic = MAGIC,
                           .layers = options->layers,
                           .experts = options->experts,
                           .slots = options->slots,
                           .width = options->width,
                           .groups = options->groups};
}

/* Elements of the arrays of all layers together. */
struct lengths {
    size_t numbers, sums, group_tokens, group_loads;
};

static struct lengths lengths_of(const struct mt_collector_options *options)
{
    size_t cells = (size_t)options->layers * (size_t)options->experts;
    return (struct lengths){.numbers = cells * MT_LAYER_ARRAYS,
                            .sums = cells * MT_LAYER_SUMS,
                            .group_tokens = (size_t)options->layers * (size_t)options->groups,
                            .group_loads = cells * (size_t)options->groups};
}

static size_t array_bytes(const struct lengths *lengths)
{
    return lengths->numbers * sizeof(double) + lengths->sums * sizeof(struct mt_any_order) +
           lengths->group_tokens * sizeof(int64_t) + lengths->group_loads * sizeof(uint32_t);
}

enum mt_status mt_collector_pack_sums(const struct mt_collector *collector, struct mt_byte_list *out)
{
    struct header header = header_of(&collector->options);
    struct lengths lengths = lengths_of(&collector->options);
    enum mt_status status = mt_byte_list_append(out, &header, sizeof header);
    for (int i = 0; i < collector->options.layers && status == MT_OK; i++) {
        const struct mt_layer_sums *layer = &collector->layer[i];
        struct plain_sums plain = {.tokens = layer->tokens,
                                   .variance_tokens = layer->variance.tokens,
                                   .batch_tokens = layer->batch.tokens,
                                   .batches = layer->batch.batches,
                                   .violation = layer->batch.violation,
                                   .violation_code = layer->batch.violation_code,
                                   .row_variance = layer->variance.row_variance,
                                   .weight_shares = layer->variance.weight_shares,
                                   .score_shares = layer->variance.score_shares,
                                   .cosine = layer->cosine};
        for (int s = 0; s < MT_EXPERT_SCORES; s++) plain.scored[s] = layer->scored[s];
        status = mt_byte_list_append(out, &plain, sizeof plain);
    }
    if (status == MT_OK)
        status = mt_byte_list_append(out, collector->numbers, lengths.numbers * sizeof(double));
    if (status == MT_OK)
        status = mt_byte_list_append(out, collector->sums, lengths.sums * sizeof(struct mt_any_order));
    if (status == MT_OK)
        status = mt_byte_list_append(out, collector->group_tokens, lengths.group_tokens * sizeof(int64_t));
    if (status != MT_OK) return status;
    return mt_byte_list_append(out, collector->group_loads, lengths.group_loads * sizeof(uint32_t));
}

enum mt_status mt_collector_pack_outputs(struct mt_collector *collector, struct mt_byte_list *out)
{
    enum mt_status status = MT_OK;
    for (int i = 0; i < collector->options.layers && status == MT_OK; i++) {
        struct mt_output_sums sums;
        status = mt_output_sums_of(collector, &collector->layer[i], &sums);
        if (status == MT_OK) status = mt_byte_list_append(out, &sums, sizeof sums);
    }
    return status;
}

static void add_plain(const struct plain_sums *plain, struct mt_layer_sums *layer)
{
    layer->tokens += plain->tokens;
    layer->variance.tokens += plain->variance_tokens;
    layer->batch.tokens += plain->batch_tokens;
    layer->batch.batches += plain->batches;
    layer->batch.violation += plain->violation;
    layer->batch.violation_code += plain->violation_code;
    mt_any_order_merge(&layer->variance.row_variance, &plain->row_variance);
    mt_any_order_merge(&layer->variance.weight_shares, &plain->weight_shares);
    mt_any_order_merge(&layer->variance.score_shares, &plain->score_shares);
    layer->cosine.tokens += plain->cosine.tokens;
    mt_any_order_merge(&layer->cosine.sum, &plain->cosine.sum);
    mt_any_order_merge(&layer->cosine.squares, &plain->cosine.squares);
    for (int s = 0; s < MT_EXPERT_SCORES; s++) layer->scored[s] += plain->scored[s];
}

/* Adds the arrays of all layers; what follows them. The bytes need not be aligned. */
static const unsigned char *add_arrays(struct mt_collector *collector, const struct lengths *lengths,
                                       const unsigned char *at)
{
    for (size_t i = 0; i < lengths->numbers; i++, at += sizeof(double)) {
        double number;
        memcpy(&number, at, sizeof number);
        collector->numbers[i] += number;
    }
    for (size_t i = 0; i < lengths->sums; i++, at += sizeof(struct mt_any_order)) {
        struct mt_any_order sum;
        memcpy(&sum, at, sizeof sum);
        mt_any_order_merge(&collector->sums[i], &sum);
    }
    for (size_t i = 0; i < lengths->group_tokens; i++, at += sizeof(int64_t)) {
        int64_t tokens;
        memcpy(&tokens, at, sizeof tokens);
        collector->group_tokens[i] += tokens;
    }
    for (size_t i = 0; i < lengths->group_loads; i++, at += sizeof(uint32_t)) {
        uint32_t load;
        memcpy(&load, at, sizeof load);
        collector->group_loads[i] += load;
    }
    return at;
}

bool mt_collector_unpack(struct mt_collector *collector, const void *data, size_t bytes)
{
    const struct mt_collector_options *options = &collector->options;
    const unsigned char *at = data;
    size_t layers = (size_t)options->layers;
    struct header expected = header_of(options);
    struct lengths lengths = lengths_of(options);
    struct plain_sums plain;
    struct mt_output_sums outputs;
    size_t whole = sizeof expected + layers * (sizeof plain + sizeof outputs) + array_bytes(&lengths);
    if (bytes != whole || memcmp(at, &expected, sizeof expected) != 0) return false;
    at += sizeof expected;
    for (size_t i = 0; i < layers; i++, at += sizeof plain) {
        memcpy(&plain, at, sizeof plain);
        add_plain(&plain, &collector->layer[i]);
    }
    at = add_arrays(collector, &lengths, at);
    for (size_t i = 0; i < layers; i++, at += sizeof outputs) {
        memcpy(&outputs, at, sizeof outputs);
        mt_output_sums_merge(&collector->layer[i].earlier, &outputs);
    }
    return true;
}
