/*
 * A collector's sums as bytes, for a run that is interrupted and goes on: a header, the sums of every layer,
 * then what its kept outputs amount to. Numbers are 8 bytes each in this machine's order. Kept vectors
 * themselves are not in it: what is added later keeps vectors of its own, and |cos| is that of both parts'
 * tokens.
 */
#include <string.h>

#include "analysis/collector_parts.h"
#include "formats/lists.h"

#define MAGIC 0x3145545541544d52 // "RMTATUE1"

/* What a layer has besides its arrays. */
struct plain_sums {
    int64_t tokens, variance_tokens, batch_tokens, batches, cosine_tokens;
    double row_variance, violation, violation_code, cosine, cosine_squares;
};

struct header {
    uint64_t magic;
    int64_t layers, experts, slots, width;
};

static struct header header_of(const struct mt_collector_options *options)
{
    return (struct header){.magic = MAGIC,
                           .layers = options->layers,
                           .experts = options->experts,
                           .slots = options->slots,
                           .width = options->width};
}

static size_t array_bytes(const struct mt_collector_options *options)
{
    return (size_t)options->layers * MT_LAYER_ARRAYS * (size_t)options->experts * sizeof(double);
}

enum mt_status mt_collector_pack_sums(const struct mt_collector *collector, struct mt_byte_list *out)
{
    struct header header = header_of(&collector->options);
    enum mt_status status = mt_byte_list_append(out, &header, sizeof header);
    for (int i = 0; i < collector->options.layers && status == MT_OK; i++) {
        const struct mt_layer_sums *layer = &collector->layer[i];
        struct plain_sums plain = {.tokens = layer->tokens,
                                   .variance_tokens = layer->variance.tokens,
                                   .batch_tokens = layer->batch.tokens,
                                   .batches = layer->batch.batches,
                                   .cosine_tokens = layer->cosine.tokens,
                                   .row_variance = layer->variance.row_variance,
                                   .violation = layer->batch.violation,
                                   .violation_code = layer->batch.violation_code,
                                   .cosine = layer->cosine.sum,
                                   .cosine_squares = layer->cosine.squares};
        status = mt_byte_list_append(out, &plain, sizeof plain);
    }
    if (status != MT_OK) return status;
    return mt_byte_list_append(out, collector->numbers, array_bytes(&collector->options));
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

static void take_plain(const struct plain_sums *plain, struct mt_layer_sums *layer)
{
    layer->tokens = plain->tokens;
    layer->variance.tokens = plain->variance_tokens;
    layer->variance.row_variance = plain->row_variance;
    layer->batch.tokens = plain->batch_tokens;
    layer->batch.batches = plain->batches;
    layer->batch.violation = plain->violation;
    layer->batch.violation_code = plain->violation_code;
    layer->cosine = (struct mt_cosine_sums){
        .tokens = plain->cosine_tokens, .sum = plain->cosine, .squares = plain->cosine_squares};
}

bool mt_collector_unpack(struct mt_collector *collector, const void *data, size_t bytes)
{
    const struct mt_collector_options *options = &collector->options;
    const unsigned char *at = data;
    size_t layers = (size_t)options->layers;
    struct header expected = header_of(options);
    struct plain_sums plain;
    size_t whole =
        sizeof expected + layers * (sizeof plain + sizeof(struct mt_output_sums)) + array_bytes(options);
    if (bytes != whole || memcmp(at, &expected, sizeof expected) != 0) return false;
    at += sizeof expected;
    for (size_t i = 0; i < layers; i++, at += sizeof plain) {
        memcpy(&plain, at, sizeof plain);
        take_plain(&plain, &collector->layer[i]);
    }
    memcpy(collector->numbers, at, array_bytes(options));
    at += array_bytes(options);
    for (size_t i = 0; i < layers; i++, at += sizeof(struct mt_output_sums))
        memcpy(&collector->layer[i].earlier, at, sizeof(struct mt_output_sums));
    return true;
}
