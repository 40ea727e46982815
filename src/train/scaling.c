/* A step's memory, arithmetic, bytes and seconds on many ranks. */
#include "train/scaling.h"

#include <math.h>

#define FROZEN_OPERATIONS  4.0 // per weight and token: forward 2, backward through it 2
#define TRAINED_OPERATIONS 6.0 // per weight and token: forward 2, backward 2, its own gradient 2
#define ATTENTION_PASSES   3.0 // forward, and twice as much backward
#define ADAPTER_BYTES      8.0 // master, gradient
#define MOMENT_BYTES       8.0 // two, of the numbers a rank moves
#define ROUNDED_BYTES      2.0 // of the master, where activations have 16 bits
#define SUM_BYTES          4.0 // the other ranks' versions of a rank's piece
#define TRANSFERS_THERE    3.0 // of a row: to its expert, its gradient, the row again
#define TRANSFERS_BACK     2.0 // what the expert made of it, and the gradient of the row
#define TRANSFERS          (TRANSFERS_THERE + TRANSFERS_BACK)
#define STATISTICS_NUMBERS 8.0 // per expert and MoE layer: loads, L_aux (3), L_v (3), and a few single ones
#define HIDDEN             0.5 // of the arithmetic: the last backward, behind which gradients hide

/* What a layout's rows are. */
struct rows {
    double own;   // of one rank in one layer
    double bytes; // of one row
    double away;  // share of rows whose expert is on another rank
};

static void find_memory(const struct mt_hf_config *config, const struct mt_layout *layout,
                        const struct mt_model_count *count, const struct rows *rows,
                        struct mt_scaling *scaling)
{
    struct mt_model_memory memory;
    struct mt_quantise_memory stored;
    double sharing = (double)layout->expert_ranks;
    mt_model_memory(config, 0, layout->lora_rank, layout->tokens, &memory);
    double spread = layout->expert_ranks > 1 ? (double)memory.adapters[MT_PART_EXPERTS] : 0.0;
    double common = (double)memory.all_adapters - spread;
    double own = spread / sharing;                   // of this rank's experts
    double copies = (double)layout->ranks / sharing; // ranks that hold the same experts
    double summed = (layout->ranks > 1 ? common : 0.0) + (copies > 1.0 ? own : 0.0);
    mt_quantise_memory(config, &layout->quantise, sharing, &stored);
    scaling->weights = (double)layout->weight_bytes * stored.numbers + stored.codes;
    scaling->unpacked = stored.unpacked;
    double each = layout->row_bytes == 2 ? ADAPTER_BYTES + ROUNDED_BYTES : ADAPTER_BYTES;
    double moved = common / (double)layout->ranks + own / copies;
    scaling->adapters = (common + own) * each + moved * MOMENT_BYTES + summed * SUM_BYTES;
    scaling->activations = (double)mt_model_activation_bytes(config, layout->tokens, layout->row_bytes);
    if (layout->expert_ranks > 1) {
        // Gate and up of every row that may come, kept by each layer; three tensors of rows on their way.
        double room = layout->room > 0.0 ? fmin(layout->room, sharing) : sharing;
        double inner = (double)config->moe_intermediate_size * (double)layout->row_bytes;
        scaling->activations += (room - 1.0) * rows->own * 2.0 * inner * (double)count->moe_layers;
        scaling->activations += 3.0 * room * rows->own * rows->bytes;
    }
    scaling->memory = scaling->weights + scaling->unpacked + scaling->adapters + scaling->activations;
    double ranks = (double)layout->ranks;
    scaling->gradient_bytes =
        2.0 * sizeof(float) * ((ranks - 1.0) / ranks * common + (copies - 1.0) / copies * own);
}

/* Operations of a token in all layers: of routed experts, and of everything. */
struct operations {
    double routed, all;
};

static struct operations find_operations(const struct mt_hf_config *config, const struct mt_layout *layout,
                                         const struct mt_model_count *count)
{
    struct mt_model_memory memory;
    mt_model_memory(config, 0, layout->lora_rank, layout->tokens, &memory);
    double chosen = config->experts > 0 ? (double)config->experts_per_token / (double)config->experts : 0.0;
    double routed_pairs = chosen * (double)memory.adapters[MT_PART_EXPERTS];
    double other_pairs = (double)(memory.all_adapters - memory.adapters[MT_PART_EXPERTS]);
    double routed = (double)count->active[MT_PART_EXPERTS];
    double others = (double)(count->all_active - count->active[MT_PART_EMBEDDING]) - routed;
    // A token looks at half of its sequence, once for the scores and once for the values, 2 operations each.
    double attention = (double)config->layers * (double)layout->length * (double)config->heads *
                       (double)(config->head_dim + config->v_head_dim);
    struct operations operations = {.routed = FROZEN_OPERATIONS * routed + TRAINED_OPERATIONS * routed_pairs};
    operations.all = operations.routed + FROZEN_OPERATIONS * others + TRAINED_OPERATIONS * other_pairs +
                     ATTENTION_PASSES * attention;
    return operations;
}

/*
 * Bytes a rank sends whose experts get a share of everybody's rows, one of 0 to 1: its own rows that are not
 * for them, and what becomes of the others' that are.
 */
static double rank_bytes(const struct rows *rows, double layers, double sharing, double share)
{
    double there = rows->own * (1.0 - share);
    double back = rows->own * (sharing - 1.0) * share;
    return layers * rows->bytes * (TRANSFERS_THERE * there + TRANSFERS_BACK * back);
}

/* Seconds of `rounds` messages to each of a rank's peers, neighbours first, that share the bytes evenly. */
static double message_time(const struct mt_cluster *cluster, double rounds, double peers, double bytes)
{
    double near = cluster->node_ranks > 0 ? fmin(peers, (double)cluster->node_ranks - 1.0) : 0.0;
    double far = peers - near;
    if (peers <= 0.0) return 0.0;
    double time =
        far > 0.0 ? far * (rounds * cluster->wire.latency + bytes / peers / cluster->wire.bandwidth) : 0.0;
    if (near > 0.0) time += near * (rounds * cluster->node.latency + bytes / peers / cluster->node.bandwidth);
    return time;
}

/*
 * Seconds of the rows' journeys that other work hides, in all layers: there and back behind gate and up, and
 * down, of the shared experts; their gradients behind down's backward of these, and the rows once more behind
 * that of the routed experts. A map is a third of a block, 2 operations a weight and token.
 */
static double find_hidden(const struct mt_cluster *cluster, const struct mt_model_count *count, double tokens,
                          double journeys)
{
    double layers = (double)count->moe_layers;
    double one = journeys / TRANSFERS / layers;
    double shared = 2.0 / 3.0 * (double)count->active[MT_PART_SHARED] * tokens / layers / cluster->flops;
    double routed = 2.0 / 3.0 * (double)count->active[MT_PART_EXPERTS] * tokens / layers / cluster->flops;
    return layers * (fmin(one, 2.0 * shared) + 2.0 * fmin(one, shared) + fmin(one, routed));
}

void mt_scaling_predict(const struct mt_hf_config *config, const struct mt_cluster *cluster,
                        const struct mt_layout *layout, struct mt_scaling *scaling)
{
    struct mt_model_count count;
    mt_model_count(config, &count);
    double sharing = (double)layout->expert_ranks;
    double others = (double)(layout->ranks - 1);
    double layers = (double)count.moe_layers;
    double tokens = (double)layout->tokens;
    const struct rows rows = {.own = tokens * (double)config->experts_per_token,
                              .bytes = (double)config->hidden_size * (double)layout->row_bytes,
                              .away = (sharing - 1.0) / sharing};
    *scaling = (struct mt_scaling){0};
    find_memory(config, layout, &count, &rows, scaling);
    struct operations operations = find_operations(config, layout, &count);
    scaling->flops = operations.all * tokens;
    scaling->routed_flops = operations.routed * tokens;
    scaling->compute = scaling->flops / cluster->flops;
    double routed_time = scaling->routed_flops / cluster->flops;

    scaling->expert_bytes = TRANSFERS * layers * rows.own * rows.bytes * rows.away;
    scaling->experts = message_time(cluster, TRANSFERS * layers, sharing - 1.0, scaling->expert_bytes);
    if (layout->expert_ranks > 1 && layers > 0.0)
        scaling->hidden = find_hidden(cluster, &count, tokens, scaling->experts);
    scaling->statistics_bytes =
        others * sizeof(double) * layers * STATISTICS_NUMBERS * (double)config->experts;
    // Everybody's numbers go to everybody along a tree.
    double rounds = others > 0.0 ? log2(others + 1.0) / others : 0.0;
    scaling->statistics = message_time(cluster, rounds, others, scaling->statistics_bytes);
    // Gradients to the ranks that move them, then values to all.
    double half = message_time(cluster, 1.0, others, scaling->gradient_bytes / 2.0);
    scaling->gradients = half + fmax(0.0, half - HIDDEN * scaling->compute);

    double rest = scaling->gradients + scaling->statistics;
    double spread = routed_time + scaling->experts; // what waits for the fullest rank
    double owned = (double)config->experts / sharing;
    double violation = layout->max_violation;
    scaling->hot_rank_bytes = rank_bytes(&rows, layers, sharing, fmin(1.0, (1.0 + violation) / sharing));
    scaling->hot_expert_bytes =
        rank_bytes(&rows, layers, sharing, fmin(1.0, (1.0 + violation / owned) / sharing));
    scaling->balanced = scaling->compute + scaling->experts - scaling->hidden + rest;
    scaling->hot_rank = scaling->balanced + violation * spread;
    scaling->hot_expert = scaling->balanced + violation / owned * spread;
    if (layout->expert_ranks == 1) { // every rank has every expert: nobody waits
        scaling->hot_rank = scaling->balanced;
        scaling->hot_expert = scaling->balanced;
    }
    scaling->efficiency = scaling->compute / scaling->balanced;
}
