/* Collectors of several ranks as one. Sums are those of any order, samples those of the smallest numbers. */
#include "analysis/collector/collector_sums.h"

/* What is no array. */
struct layer_numbers {
    int64_t tokens, variance_tokens, cosine_tokens, choice_count, inputs, outputs;
    struct mt_any_order row_variance, weight_shares, score_shares, cosine, cosine_squares;
    struct mt_output_sums earlier;
    int64_t scored[MT_EXPERT_SCORES];
};

/* One call of gather. What arrives lies in `arrived`, and in the samples, on rank 0 alone. */
struct gathering {
    struct mt_collector *collector;
    struct mt_comm *comm;
    struct layer_numbers *numbers; // [layers]: those of the sending rank
    void *arrived;
    size_t arrived_bytes;
    struct mt_vector_sample inputs, outputs;
};

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Bytes of a layer's choices. */
static size_t choices_bytes(const struct mt_collector *collector)
{
    return (size_t)collector->options.choices * (size_t)collector->options.slots * sizeof(uint16_t);
}

static enum mt_status open_gathering(struct gathering *g)
{
    struct mt_collector *collector = g->collector;
    const struct mt_collector_options *options = &collector->options;
    struct mt_context *ctx = collector->ctx;
    size_t cells = (size_t)options->layers * (size_t)options->experts;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, (size_t)options->layers, sizeof *g->numbers, &memory);
    g->numbers = memory;
    if (status != MT_OK || mt_comm_rank(g->comm) != 0) return status;
    g->arrived_bytes = largest(cells * MT_LAYER_SUMS * sizeof(struct mt_any_order), choices_bytes(collector));
    g->arrived_bytes = largest(g->arrived_bytes, cells * (size_t)options->groups * sizeof(uint32_t));
    g->arrived_bytes =
        largest(g->arrived_bytes, (size_t)options->layers * (size_t)options->groups * sizeof(int64_t));
    status = mt_allocate_array(ctx, 1, g->arrived_bytes, &g->arrived);
    if (status == MT_OK && options->width > 0 && options->inputs > 0)
        status = mt_sample_open(ctx, options->inputs, options->width, options->slots, &g->inputs);
    int64_t output_width = mt_collector_output_width(options);
    if (status == MT_OK && output_width > 0)
        status = mt_sample_open(ctx, options->outputs, output_width, options->slots, &g->outputs);
    return status;
}

static void close_gathering(struct gathering *g)
{
    struct mt_context *ctx = g->collector->ctx;
    mt_sample_close(&g->inputs);
    mt_sample_close(&g->outputs);
    mt_release(ctx, g->arrived, g->arrived_bytes);
    mt_release(ctx, g->numbers, (size_t)g->collector->options.layers * sizeof *g->numbers);
}

static void describe_layers(struct gathering *g)
{
    for (int i = 0; i < g->collector->options.layers; i++) {
        const struct mt_layer_sums *layer = &g->collector->layer[i];
        g->numbers[i] = (struct layer_numbers){.tokens = layer->tokens,
                                               .variance_tokens = layer->variance.tokens,
                                               .cosine_tokens = layer->cosine.tokens,
                                               .choice_count = layer->choice_count,
                                               .inputs = layer->inputs.count,
                                               .outputs = layer->outputs.count,
                                               .row_variance = layer->variance.row_variance,
                                               .weight_shares = layer->variance.weight_shares,
                                               .score_shares = layer->variance.score_shares,
                                               .cosine = layer->cosine.sum,
                                               .cosine_squares = layer->cosine.squares,
                                               .earlier = layer->earlier};
        for (int s = 0; s < MT_EXPERT_SCORES; s++) g->numbers[i].scored[s] = layer->scored[s];
    }
}

static void add_layers(struct gathering *g)
{
    for (int i = 0; i < g->collector->options.layers; i++) {
        struct mt_layer_sums *layer = &g->collector->layer[i];
        const struct layer_numbers *numbers = &g->numbers[i];
        layer->tokens += numbers->tokens;
        layer->variance.tokens += numbers->variance_tokens;
        layer->cosine.tokens += numbers->cosine_tokens;
        if (layer->choice_count < numbers->choice_count) layer->choice_count = numbers->choice_count;
        mt_any_order_merge(&layer->variance.row_variance, &numbers->row_variance);
        mt_any_order_merge(&layer->variance.weight_shares, &numbers->weight_shares);
        mt_any_order_merge(&layer->variance.score_shares, &numbers->score_shares);
        mt_any_order_merge(&layer->cosine.sum, &numbers->cosine);
        mt_any_order_merge(&layer->cosine.squares, &numbers->cosine_squares);
        mt_output_sums_merge(&layer->earlier, &numbers->earlier);
        for (int s = 0; s < MT_EXPERT_SCORES; s++) layer->scored[s] += numbers->scored[s];
    }
}

/* Rank `from` sends `mine`; rank 0 finds it in `arrived`. */
static bool bring(const struct gathering *g, const void *mine, size_t bytes, int from)
{
    mt_comm_hand_over(g->comm, from, mine, g->arrived, bytes);
    return mt_comm_rank(g->comm) == 0;
}

static void bring_arrays(const struct gathering *g, int from)
{
    struct mt_collector *collector = g->collector;
    size_t layers = (size_t)collector->options.layers;
    size_t n = (size_t)collector->options.experts;
    size_t groups = layers * (size_t)collector->options.groups;
    size_t count = layers * MT_LAYER_ARRAYS * n;
    if (bring(g, collector->numbers, count * sizeof(double), from)) {
        const double *arrived = g->arrived;
        for (size_t i = 0; i < count; i++) collector->numbers[i] += arrived[i];
    }
    count = layers * MT_LAYER_SUMS * n;
    if (bring(g, collector->sums, count * sizeof(struct mt_any_order), from)) {
        const struct mt_any_order *arrived = g->arrived;
        for (size_t i = 0; i < count; i++) mt_any_order_merge(&collector->sums[i], &arrived[i]);
    }
    if (bring(g, collector->group_tokens, groups * sizeof(int64_t), from)) {
        const int64_t *arrived = g->arrived;
        for (size_t i = 0; i < groups; i++) collector->group_tokens[i] += arrived[i];
    }
    if (bring(g, collector->group_loads, groups * n * sizeof(uint32_t), from)) {
        const uint32_t *arrived = g->arrived;
        for (size_t i = 0; i < groups * n; i++) collector->group_loads[i] += arrived[i];
    }
}

/* A token's choices are with the rank that saw it; elsewhere there are zeros. */
static void bring_choices(const struct gathering *g, int from)
{
    size_t bytes = choices_bytes(g->collector);
    for (int i = 0; bytes > 0 && i < g->collector->options.layers; i++) {
        uint16_t *choices = g->collector->layer[i].choices;
        if (!bring(g, choices, bytes, from)) continue;
        const uint16_t *arrived = g->arrived;
        for (size_t k = 0; k < bytes / sizeof *choices; k++) choices[k] = choices[k] | arrived[k];
    }
}

static void bring_sample(const struct gathering *g, struct mt_vector_sample *mine,
                         struct mt_vector_sample *arrived, int64_t count, int from)
{
    size_t tokens = (size_t)count;
    if (mine->ctx == NULL) return;
    mt_comm_hand_over(g->comm, from, mine->number, arrived->number, tokens * sizeof *mine->number);
    mt_comm_hand_over(g->comm, from, mine->vectors, arrived->vectors,
                      tokens * (size_t)mine->width * sizeof(float));
    mt_comm_hand_over(g->comm, from, mine->experts, arrived->experts,
                      tokens * (size_t)mine->slots * sizeof(int32_t));
    if (mt_comm_rank(g->comm) != 0) return;
    arrived->count = count;
    mt_sample_merge(mine, arrived);
}

static void bring_all(struct gathering *g, int from)
{
    int layers = g->collector->options.layers;
    if (mt_comm_rank(g->comm) == from) describe_layers(g);
    mt_comm_hand_over(g->comm, from, g->numbers, g->numbers, (size_t)layers * sizeof *g->numbers);
    if (mt_comm_rank(g->comm) == 0) add_layers(g);
    bring_arrays(g, from);
    bring_choices(g, from);
    for (int i = 0; i < layers; i++) {
        struct mt_layer_sums *layer = &g->collector->layer[i];
        bring_sample(g, &layer->inputs, &g->inputs, g->numbers[i].inputs, from);
        bring_sample(g, &layer->outputs, &g->outputs, g->numbers[i].outputs, from);
    }
}

enum mt_status mt_collector_gather(struct mt_collector *collector, struct mt_comm *comm)
{
    struct gathering g = {.collector = collector, .comm = comm};
    int rank = mt_comm_rank(comm);
    if (mt_comm_size(comm) == 1) return MT_OK;
    // Whoever sends must know that somebody listens.
    enum mt_status status = mt_comm_agree(comm, collector->ctx, open_gathering(&g));
    for (int from = 1; status == MT_OK && from < mt_comm_size(comm); from++) {
        if (rank == 0 || rank == from) bring_all(&g, from);
    }
    close_gathering(&g);
    return status;
}
