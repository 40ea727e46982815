/*
 * Expert parallelism: experts divided among ranks (ranks.h). Rows go to the owners of their experts, are
 * computed there together with the other ranks', and come back; in backward gradients go the same way, and
 * before them the rows once more, while the gradients are still being made.
 */
#include "model/experts/compute.h"
#include "model/experts/ranks.h"

static struct mt_mlp_params own_of(const struct mt_pass *pass, const struct mt_mlp_params *params)
{
    return mt_experts_some(params, pass->moe.ranks->first, pass->moe.ranks->owned);
}

static int64_t received_rows(const struct mt_pass *pass, const struct mt_experts *experts)
{
    return pass->moe.ranks->rows[experts->number];
}

// ------------------------------------------------------------------ memory

static int64_t most_rows(const struct mt_pass *pass)
{
    return pass->moe.ranks->capacity;
}

static void plan(struct mt_experts *experts, const struct mt_pass *pass, const struct mt_mlp_params *params,
                 const struct mt_experts_planners *planners)
{
    int64_t capacity = pass->moe.ranks->capacity;
    int64_t width = pass->desc->width;
    mt_mlp_plan(&experts->mlp, pass, params, capacity, &(struct mt_tensor){0}, planners->saved,
                planners->work);
    experts->own = mt_plan_2d(planners->work, pass->type, pass->tokens * pass->desc->router.slots, width);
    experts->own_offsets = mt_plan_1d(planners->index, MT_I32, pass->moe.ranks->owned + 1);
    experts->order = mt_plan_1d(planners->index, MT_I32, capacity);
    experts->send_buffer = mt_plan_2d(planners->work, pass->type, capacity, width);
    experts->received = mt_plan_2d(planners->work, pass->type, capacity, width);
    experts->outputs = mt_plan_2d(planners->work, pass->type, capacity, width);
}

// ------------------------------------------------------------------ forward

static enum mt_status routed(const struct mt_pass *pass, const struct mt_experts *experts,
                             const struct mt_routing *record)
{
    return mt_expert_ranks_route(pass->moe.ranks, experts->number, &record->offsets);
}

/* A part of the caller's work, with what is under way helped along first. */
static enum mt_status do_meanwhile(const struct mt_pass *pass, const struct mt_meanwhile *meanwhile)
{
    mt_expert_ranks_progress(pass->moe.ranks);
    return meanwhile->run(meanwhile->self);
}

/* Rows or gradients of ours to their experts, work done on the way. */
static enum mt_status send(const struct mt_pass *pass, const struct mt_experts *experts,
                           const struct mt_expert_transfer *transfer, const struct mt_meanwhile *meanwhile)
{
    int number = experts->number;
    enum mt_status status = mt_expert_ranks_send_start(pass->moe.ranks, number, transfer);
    if (status == MT_OK) status = do_meanwhile(pass, meanwhile);
    if (status == MT_OK) status = mt_expert_ranks_send_finish(pass->moe.ranks, number, transfer);
    return status == MT_OK ? mt_expert_ranks_offsets(pass->moe.ranks, number, &experts->own_offsets) : status;
}

static enum mt_status forward(const struct mt_pass *pass, const struct mt_mlp_params *params,
                              const struct mt_experts *experts, const struct mt_routing *record,
                              const struct mt_tensor *x, const struct mt_meanwhile *meanwhile)
{
    const struct mt_mlp_params own = own_of(pass, params);
    int64_t rows = received_rows(pass, experts);
    const struct mt_expert_transfer there = {.own = experts->own,
                                             .space = experts->send_buffer,
                                             .sorted = experts->received,
                                             .order = experts->order};
    enum mt_status status = mt_experts_gather(pass, record, x, &experts->own);
    if (status == MT_OK) status = send(pass, experts, &there, meanwhile);
    if (status == MT_OK && rows > 0) {
        const struct mt_mlp first = mt_mlp_first_rows(&experts->mlp, rows);
        const struct mt_tensor received = mt_tensor_rows(&experts->received, 0, rows);
        const struct mt_tensor outputs = mt_tensor_rows(&experts->outputs, 0, rows);
        status = mt_mlp_forward_inner(pass, &own, &first, &experts->own_offsets, &received);
        if (status == MT_OK)
            status = mt_mlp_forward_down(pass, &own, &first, &experts->own_offsets, false, &outputs);
    }
    if (status != MT_OK) return status;
    const struct mt_expert_transfer back = {.own = record->rows,
                                            .space = experts->send_buffer,
                                            .sorted = experts->outputs,
                                            .order = experts->order};
    status = mt_expert_ranks_return_start(pass->moe.ranks, experts->number, &back);
    if (status == MT_OK) status = do_meanwhile(pass, meanwhile);
    return status == MT_OK ? mt_expert_ranks_return_finish(pass->moe.ranks, experts->number, &back) : status;
}

// ------------------------------------------------------------------ backward

/* The rows on their way once more, apart from the gradients; the outputs are used up by now. */
static struct mt_expert_transfer rows_again(const struct mt_experts *experts)
{
    return (struct mt_expert_transfer){.own = experts->own,
                                       .space = experts->outputs,
                                       .sorted = experts->send_buffer,
                                       .order = experts->order,
                                       .lane = 1};
}

static enum mt_status prepare_backward(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                       const struct mt_experts *experts, const struct mt_routing *record,
                                       const struct mt_tensor *x)
{
    if (!mt_mlp_reads_input(params)) return MT_OK;
    const struct mt_expert_transfer again = rows_again(experts);
    enum mt_status status = mt_experts_gather(pass, record, x, &experts->own);
    return status == MT_OK ? mt_expert_ranks_send_start(pass->moe.ranks, experts->number, &again) : status;
}

/* From the outputs' gradient, in `received`, to the rows', there as well. */
static enum mt_status received_backward(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                        const struct mt_experts *experts, bool want_rows)
{
    const struct mt_mlp_params own = own_of(pass, params);
    const struct mt_expert_transfer again = rows_again(experts);
    int64_t rows = received_rows(pass, experts);
    const struct mt_mlp first = mt_mlp_first_rows(&experts->mlp, rows);
    const struct mt_tensor gradient = mt_tensor_rows(&experts->received, 0, rows);
    const struct mt_tensor input = mt_tensor_rows(&experts->send_buffer, 0, rows);
    bool below = want_rows || mt_mlp_reads_input(params);
    enum mt_status status = MT_OK;
    if (rows > 0)
        status = mt_mlp_backward_down(pass, &own, &first, &experts->own_offsets, &gradient, want_rows);
    // A rank that was sent nothing still takes part.
    if (status == MT_OK && mt_mlp_reads_input(params))
        status = mt_expert_ranks_send_finish(pass->moe.ranks, experts->number, &again);
    if (status != MT_OK || !below || rows == 0) return status;
    return mt_mlp_backward_inner(pass, &own, &first, &experts->own_offsets, NULL, &input, false,
                                 want_rows ? &gradient : NULL);
}

static enum mt_status backward(const struct mt_pass *pass, const struct mt_mlp_params *params,
                               const struct mt_experts *experts, const struct mt_routing *record,
                               const struct mt_tensor *x, const struct mt_tensor *drows, bool want_rows,
                               const struct mt_meanwhile *meanwhile)
{
    (void)record;
    (void)x;
    const struct mt_expert_transfer transfer = {
        .own = *drows, .space = experts->send_buffer, .sorted = experts->received, .order = experts->order};
    enum mt_status status = send(pass, experts, &transfer, meanwhile);
    if (status == MT_OK) status = received_backward(pass, params, experts, want_rows);
    if (status != MT_OK || !want_rows) return status;
    status = mt_expert_ranks_return_start(pass->moe.ranks, experts->number, &transfer);
    return status == MT_OK ? mt_expert_ranks_return_finish(pass->moe.ranks, experts->number, &transfer)
                           : status;
}

const struct mt_placement mt_experts_parallel = {
    .waits = true,
    .most_rows = most_rows,
    .plan = plan,
    .routed = routed,
    .forward = forward,
    .prepare_backward = prepare_backward,
    .backward = backward,
};
