/*
 * A pool of experts for each sequence (EMO, 2605.06663): in training its tokens choose from the d experts
 * with the highest mean score over the sequence, d drawn anew between k and n for every sequence, layer and
 * step. What the router chooses by is what is averaged: the score, and the bias where there is one.
 */
#include "metier/objective.h"
#include "metier/selection.h"

static bool is_on(const struct mt_objective_config *config)
{
    return config->pool;
}

static enum mt_status check(struct mt_context *ctx, const struct mt_router_config *router)
{
    if (router->kind == MT_ROUTER_SPARSEMIXER)
        return mt_fail(
            ctx, MT_ERR_UNSUPPORTED,
            "objective.pool: SparseMixer samples its experts and weighs them by a rule of its own, "
            "for which no pool is defined; take another method");
    if (router->group_rule != MT_GROUP_NONE)
        return mt_fail(
            ctx, MT_ERR_UNSUPPORTED,
            "objective.pool: this router chooses groups of experts first, and those may hold fewer "
            "than %d experts of a pool; take another method",
            router->slots);
    return MT_OK;
}

static enum mt_status confine(struct mt_device *device, const struct mt_router_policy *policy,
                              const struct mt_routing *record)
{
    int64_t sequences = record->segments;
    int64_t experts = record->experts;
    double *numbers = record->pool_sums.data;
    struct mt_tensor sum = mt_tensor_2d(numbers, MT_F64, sequences, experts);
    struct mt_tensor rows = mt_tensor_1d(numbers + sequences * experts, MT_F64, sequences);
    enum mt_status status = mt_column_stats_forward(
        device,
        &(struct mt_column_stats_forward_args){
            .x = record->probs, .mask = record->mask, .segment = record->segment, .sum = sum, .rows = rows});
    if (status != MT_OK) return status;
    return mt_expert_pool(device,
                          &(struct mt_expert_pool_args){.sum = sum,
                                                        .rows = rows,
                                                        .bias = record->bias,
                                                        .pool = mt_tensor_rows(&record->pool, 0, sequences),
                                                        .least = record->slots,
                                                        .first = policy->first_sequence,
                                                        .seed = policy->seed,
                                                        .stream = policy->sequence_stream});
}

const struct mt_selection_rule mt_selection_pool = {.is_on = is_on, .check = check, .confine = confine};
