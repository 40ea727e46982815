/* Routed experts on rows that lie sorted by expert: y = down(silu(gate(rows)) · up(rows)), and back. */
#include "model/experts/compute.h"

#include "metier/ops.h"

bool mt_experts_are_trained(const struct mt_layer_params *params)
{
    return mt_expert_linear_is_trained(&params->gate) || mt_expert_linear_is_trained(&params->up) ||
           mt_expert_linear_is_trained(&params->down);
}

static struct mt_expert_linear some_of(const struct mt_expert_linear *all, int first, int count)
{
    struct mt_expert_linear some = *all;
    some.weight.count = count;
    some.weight.stored = all->weight.stored + first;
    if (all->weight.quantised != NULL) some.weight.quantised = all->weight.quantised + first;
    if (all->dweight != NULL) some.dweight = all->dweight + first;
    if (all->a == NULL) return some;
    some.a = all->a + first;
    some.b = all->b + first;
    if (all->da != NULL) some.da = all->da + first;
    if (all->db != NULL) some.db = all->db + first;
    if (all->rounded_a != NULL) some.rounded_a = all->rounded_a + first;
    if (all->rounded_b != NULL) some.rounded_b = all->rounded_b + first;
    return some;
}

struct mt_expert_projections mt_experts_projections(const struct mt_layer_params *params, int first,
                                                    int count)
{
    return (struct mt_expert_projections){.gate = some_of(&params->gate, first, count),
                                          .up = some_of(&params->up, first, count),
                                          .down = some_of(&params->down, first, count)};
}

void mt_experts_plan_compute(struct mt_experts *experts, const struct mt_pass *pass,
                             const struct mt_layer_params *params, int64_t rows,
                             const struct mt_experts_planners *planners)
{
    int64_t width = pass->desc->expert_width;
    experts->gate = mt_plan_2d(planners->saved, pass->type, rows, width);
    experts->up = mt_plan_2d(planners->saved, pass->type, rows, width);
    struct mt_tensor bits = {0}; // of what gate and up read
    experts->gate_lora = mt_expert_linear_plan_lora(planners->saved, pass, &params->gate, rows, &bits);
    experts->up_lora = mt_expert_linear_plan_lora(planners->saved, pass, &params->up, rows, &bits);
    experts->down_lora = mt_expert_linear_plan_lora(planners->saved, pass, &params->down, rows, NULL);
    experts->inner = mt_plan_2d(planners->work, pass->type, rows, width);
}

struct mt_experts mt_experts_first_rows(const struct mt_experts *experts, int64_t rows)
{
    struct mt_experts first = *experts;
    first.gate = mt_tensor_rows(&experts->gate, 0, rows);
    first.up = mt_tensor_rows(&experts->up, 0, rows);
    first.inner = mt_tensor_rows(&experts->inner, 0, rows);
    first.gate_lora = mt_lora_trace_rows(&experts->gate_lora, rows);
    first.up_lora = mt_lora_trace_rows(&experts->up_lora, rows);
    first.down_lora = mt_lora_trace_rows(&experts->down_lora, rows);
    return first;
}

enum mt_status mt_experts_gather(const struct mt_pass *pass, const struct mt_routing *record,
                                 const struct mt_tensor *x, const struct mt_tensor *rows)
{
    return mt_dispatch_forward(pass->device, &(struct mt_dispatch_forward_args){
                                                 .x = *x,
                                                 .slot_of_row = record->slot_of_row,
                                                 .row_of_slot = record->row_of_slot,
                                                 .rows = *rows,
                                                 .slots = record->slots,
                                             });
}

enum mt_status mt_experts_compute(const struct mt_pass *pass, const struct mt_expert_projections *projections,
                                  const struct mt_experts *experts, const struct mt_tensor *offsets,
                                  const struct mt_tensor *rows, const struct mt_tensor *y)
{
    const struct mt_projection_output gate = {
        .linear = &projections->gate, .trace = &experts->gate_lora, .y = &experts->gate};
    const struct mt_projection_output up = {
        .linear = &projections->up, .trace = &experts->up_lora, .y = &experts->up};
    const struct mt_projection_output down = {
        .linear = &projections->down, .trace = &experts->down_lora, .y = y};
    // The outputs are made of `inner` alone: they may lie where the rows did.
    enum mt_status status = mt_expert_linear_swiglu(pass, &gate, &up, offsets, rows, &experts->inner);
    if (status != MT_OK) return status;
    return mt_expert_linear_forward(pass, &down, 1, offsets, &experts->inner, false);
}

/* What down read, again. */
static enum mt_status make_inner(const struct mt_pass *pass, const struct mt_experts *experts)
{
    return mt_swiglu_forward(
        pass->device,
        &(struct mt_swiglu_forward_args){.gate = experts->gate, .up = experts->up, .y = experts->inner});
}

/*
 * Back through down where a term couples a token's activations: what it says about them is made first, what
 * comes through down is added, and gate's and up's gradients are made of the sum.
 */
static enum mt_status coupled_backward(const struct mt_pass *pass, const struct mt_experts *experts,
                                       const struct mt_projection_gradient *down,
                                       const struct mt_tensor *offsets)
{
    struct mt_tensor unused = mt_tensor_2d(experts->inner_coupling.data, experts->inner_coupling.dtype,
                                           experts->row_of_slot.dim[0], experts->row_of_slot.dim[1]);
    enum mt_status status = make_inner(pass, experts);
    if (status == MT_OK) // rows of dropped slots, which belong to no token, are nobody's
        status = mt_combine_backward(pass->device, &(struct mt_combine_backward_args){
                                                       .rows = experts->inner,
                                                       .row_of_slot = experts->row_of_slot,
                                                       .weight = unused, // without dy
                                                       .coupling = experts->inner_coupling,
                                                       .drows = experts->dinner,
                                                   });
    if (status == MT_OK)
        status = mt_expert_linear_backward(pass, down, 1, offsets, &experts->inner, true, &experts->dinner);
    if (status != MT_OK) return status;
    return mt_swiglu_backward(pass->device, &(struct mt_swiglu_backward_args){.dy = experts->dinner,
                                                                              .gate = experts->gate,
                                                                              .up = experts->up,
                                                                              .dgate = experts->gate,
                                                                              .dup = experts->up});
}

enum mt_status mt_experts_down_backward(const struct mt_pass *pass,
                                        const struct mt_expert_projections *projections,
                                        const struct mt_experts *experts, const struct mt_tensor *offsets,
                                        const struct mt_tensor *dy, bool below)
{
    const struct mt_projection_gradient down = {
        .linear = &projections->down, .dy = dy, .trace = &experts->down_lora};
    bool trained = mt_expert_linear_is_trained(&projections->down);
    if (!below && !trained) return MT_OK;
    if (!below) {
        enum mt_status status = make_inner(pass, experts);
        if (status != MT_OK) return status;
        return mt_expert_linear_backward(pass, &down, 1, offsets, &experts->inner, false, NULL);
    }
    if (mt_tensor_present(&experts->dinner)) return coupled_backward(pass, experts, &down, offsets);
    const struct mt_swiglu_inner block = {
        .gate = &experts->gate, .up = &experts->up, .inner = &experts->inner};
    enum mt_status status = mt_expert_linear_swiglu_backward(pass, &down, offsets, &block);
    if (status != MT_OK || !trained) return status;
    return mt_expert_linear_backward_own(pass, &down, offsets, &experts->inner);
}

enum mt_status mt_experts_inner_backward(const struct mt_pass *pass,
                                         const struct mt_expert_projections *projections,
                                         const struct mt_experts *experts, const struct mt_tensor *offsets,
                                         const struct mt_tensor *rows, const struct mt_tensor *drows)
{
    const struct mt_projection_gradient both[] = {
        {.linear = &projections->gate, .dy = &experts->gate, .trace = &experts->gate_lora},
        {.linear = &projections->up, .dy = &experts->up, .trace = &experts->up_lora}};
    return mt_expert_linear_backward(pass, both, 2, offsets, rows, false, drows);
}
