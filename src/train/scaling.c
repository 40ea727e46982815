/* A step's arithmetic, bytes and seconds on many ranks. */
#include "train/scaling.h"

#include <math.h>

#define FROZEN_OPERATIONS  4.0 // per weight and token: forward 2, backward through it 2
#define TRAINED_OPERATIONS 6.0 // per weight and token: forward 2, backward 2, its own gradient 2
#define ATTENTION_PASSES   3.0 // forward, and twice as much backward
#define AGAIN              2.0 // what forward takes, where backward does it again
#define STATISTICS_NUMBERS 8.0 // per expert and MoE layer: loads, L_aux (3), L_v (3), and a few single ones
#define HIDDEN             0.5 // of the arithmetic: the last backward, behind which gradients hide

/* What a layout's rows are. */
struct rows {
    double own;   // of one rank in one layer
    double bytes; // of one row
    double away;  // share of rows whose expert is on another rank
};

/* Times a row travels: to its expert, its gradient, the row again; what the expert made of it, and the
 * gradient of the row. Recomputation sends the row, and what became of it, once more. */
struct journeys {
    double there, back;
};

static struct journeys journeys_of(const struct mt_layout *layout)
{
    bool again = layout->recompute != MT_RECOMPUTE_NONE;
    return (struct journeys){.there = again ? 4.0 : 3.0, .back = again ? 3.0 : 2.0};
}

/* Operations of a token in all layers: of routed experts, and of everything. */
struct operations {
    double routed, all;
};

static struct operations find_operations(const struct mt_hf_config *config, const struct mt_layout *layout,
                                         const struct mt_model_count *count)
{
    double chosen = config->experts > 0 ? (double)config->experts_per_token / (double)config->experts : 0.0;
    double routed = (double)count->active[MT_PART_EXPERTS];
    double head = (double)count->active[MT_PART_LM_HEAD];
    double others = (double)(count->all_active - count->active[MT_PART_EMBEDDING]) - routed;
    // Of weights that learn themselves only their own gradient is more than what frozen ones take.
    double trained = TRAINED_OPERATIONS - (layout->full ? FROZEN_OPERATIONS : 0.0);
    double pairs_again = layout->full ? 0.0 : AGAIN;
    double routed_again = layout->recompute != MT_RECOMPUTE_NONE ? 1.0 : 0.0;
    double others_again = layout->recompute == MT_RECOMPUTE_FULL ? 1.0 : 0.0;
    // A token looks at half of its sequence, once for the scores and once for the values, 2 operations each.
    double attention = (double)config->layers * (double)layout->length * (double)config->heads *
                       (double)(config->head_dim + config->v_head_dim);
    struct operations operations = {.routed = (FROZEN_OPERATIONS + AGAIN * routed_again) * routed +
                                              (trained + pairs_again * routed_again) * chosen *
                                                  layout->trained_experts};
    operations.all = operations.routed + FROZEN_OPERATIONS * others + AGAIN * others_again * (others - head) +
                     (trained + pairs_again * others_again) * layout->trained_rest +
                     (ATTENTION_PASSES + others_again) * attention;
    return operations;
}

/*
 * Bytes a rank sends whose experts get a share of everybody's rows, one of 0 to 1: its own rows that are not
 * for them, and what becomes of the others' that are.
 */
static double rank_bytes(const struct rows *rows, const struct journeys *journeys, double layers,
                         double sharing, double share)
{
    double there = rows->own * (1.0 - share);
    double back = rows->own * (sharing - 1.0) * share;
    return layers * rows->bytes * (journeys->there * there + journeys->back * back);
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
 * Seconds of the rows' journeys that other work hides, in all layers, `one` in one layer: there and back
 * behind gate and up, and down, of the shared experts; their gradients behind down's backward of these, and
 * the rows once more behind that of the routed experts. A map is a third of a block, 2 operations a weight
 * and token.
 */
static double find_hidden(const struct mt_cluster *cluster, const struct mt_model_count *count, double tokens,
                          double one)
{
    double layers = (double)count->moe_layers;
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
    const struct journeys journeys = journeys_of(layout);
    double transfers = journeys.there + journeys.back;
    double copies = (double)layout->ranks / sharing; // ranks that hold the same experts
    scaling->gradient_bytes = 2.0 * (others / (double)layout->ranks * layout->common_bytes +
                                     (copies - 1.0) / copies * layout->own_bytes);
    struct operations operations = find_operations(config, layout, &count);
    scaling->flops = operations.all * tokens;
    scaling->routed_flops = operations.routed * tokens;
    scaling->compute = scaling->flops / cluster->flops;
    double routed_time = scaling->routed_flops / cluster->flops;

    scaling->expert_bytes = transfers * layers * rows.own * rows.bytes * rows.away;
    scaling->experts = message_time(cluster, transfers * layers, sharing - 1.0, scaling->expert_bytes);
    if (layout->expert_ranks > 1 && layers > 0.0)
        scaling->hidden = find_hidden(cluster, &count, tokens, scaling->experts / transfers / layers);
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
    scaling->hot_rank_bytes =
        rank_bytes(&rows, &journeys, layers, sharing, fmin(1.0, (1.0 + violation) / sharing));
    scaling->hot_expert_bytes =
        rank_bytes(&rows, &journeys, layers, sharing, fmin(1.0, (1.0 + violation / owned) / sharing));
    scaling->balanced = scaling->compute + scaling->experts - scaling->hidden + rest;
    scaling->hot_rank = scaling->balanced + violation * spread;
    scaling->hot_expert = scaling->balanced + violation / owned * spread;
    if (layout->expert_ranks == 1) { // every rank has every expert: nobody waits
        scaling->hot_rank = scaling->balanced;
        scaling->hot_expert = scaling->balanced;
    }
    scaling->efficiency = scaling->compute / scaling->balanced;
}
