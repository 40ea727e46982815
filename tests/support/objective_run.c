/* Steps of the objective over a few layers. */
#include "support/objective_run.h"

#include <string.h>

#include "base/rng.h"

enum { STREAM_LOGITS = 10, STREAM_ROWS = 20, STREAM_ROUTER = 30, STREAM_INNER = 40, STREAM_PROXIES = 50 };

void objective_run_draw(struct objective_run *run, uint64_t seed)
{
    run->step = (struct mt_objective_step){.progress = 1.0, .loss_scale = 1.0};
    for (int i = 0; i < RUN_TOKENS; i++) {
        run->mask[i] = i % 7 != 3;
        run->segment[i] = i / 10;
    }
    mt_routing_ortho_mask(run->mask, run->segment, RUN_TOKENS, run->ortho_mask);
    for (int l = 0; l < RUN_LAYERS; l++) {
        struct run_layer *layer = &run->layer[l];
        uint64_t stream = (uint64_t)l;
        for (uint64_t i = 0; i < RUN_TOKENS * RUN_EXPERTS; i++) {
            layer->logits[i] = mt_rng_normal(seed, STREAM_LOGITS + stream, i);
        }
        for (uint64_t i = 0; i < RUN_ROWS * RUN_WIDTH; i++) {
            layer->rows[i] = (float)(l + 1) * mt_rng_normal(seed, STREAM_ROWS + stream, i);
        }
        for (uint64_t i = 0; i < RUN_EXPERTS * RUN_WIDTH; i++) {
            layer->router_weight[i] = 0.1f * mt_rng_normal(seed, STREAM_ROUTER + stream, i);
        }
        for (uint64_t i = 0; i < RUN_ROWS * RUN_WIDTH; i++) {
            layer->inner[i] = 0.3f + mt_rng_normal(seed, STREAM_INNER + stream, i);
        }
        for (uint64_t i = 0; i < RUN_EXPERTS * RUN_EXPERTS; i++) {
            float length = 1.0f + mt_rng_unit(mt_rng_u32(seed, STREAM_PROXIES + stream, i));
            layer->proxy_squares[i] = length * length;
        }
    }
}

struct mt_objective_shape objective_run_shape(const struct objective_run *run)
{
    return (struct mt_objective_shape){
        .layers = RUN_LAYERS,
        .tokens = RUN_TOKENS,
        .experts = RUN_EXPERTS,
        .slots = RUN_SLOTS,
        .segments = RUN_SEGMENTS,
        .width = RUN_WIDTH,
        .router = run->router,
    };
}

struct mt_routing objective_run_record(struct objective_run *run, int layer)
{
    struct run_layer *l = &run->layer[layer];
    return (struct mt_routing){
        .tokens = RUN_TOKENS,
        .experts = RUN_EXPERTS,
        .slots = RUN_SLOTS,
        .segments = RUN_SEGMENTS,
        .mask = mt_tensor_1d(run->mask, MT_I32, RUN_TOKENS),
        .ortho_mask = mt_tensor_1d(run->ortho_mask, MT_I32, RUN_TOKENS),
        .segment = mt_tensor_1d(run->segment, MT_I32, RUN_TOKENS),
        .logits = mt_tensor_2d(l->logits, MT_F32, RUN_TOKENS, RUN_EXPERTS),
        .probs = mt_tensor_2d(l->probs, MT_F32, RUN_TOKENS, RUN_EXPERTS),
        .greedy = mt_tensor_2d(l->greedy, MT_I32, RUN_TOKENS, RUN_SLOTS),
        .chosen = mt_tensor_2d(l->chosen, MT_I32, RUN_TOKENS, RUN_SLOTS),
        .expert = mt_tensor_2d(l->expert, MT_I32, RUN_TOKENS, RUN_SLOTS),
        .weight = mt_tensor_2d(l->weight, MT_F32, RUN_TOKENS, RUN_SLOTS),
        .offsets = mt_tensor_1d(l->offsets, MT_I32, RUN_EXPERTS + 1),
        .row_of_slot = mt_tensor_2d(l->row_of_slot, MT_I32, RUN_TOKENS, RUN_SLOTS),
        .slot_of_row = mt_tensor_1d(l->slot_of_row, MT_I32, RUN_ROWS),
        .rows = mt_tensor_2d(l->rows, MT_F32, RUN_ROWS, RUN_WIDTH),
        .gram = mt_tensor_3d(l->gram, MT_F32, RUN_TOKENS, RUN_SLOTS, RUN_SLOTS),
        .router_weight = mt_tensor_2d(l->router_weight, MT_F32, RUN_EXPERTS, RUN_WIDTH),
        .inner_gram = mt_tensor_3d(l->inner_gram, MT_F32, RUN_TOKENS, RUN_SLOTS, RUN_SLOTS),
        .proxy_squares = mt_tensor_2d(l->proxy_squares, MT_F32, RUN_EXPERTS, RUN_EXPERTS),
        .pool = mt_tensor_2d(l->pool, MT_I32, RUN_SEGMENTS, RUN_EXPERTS),
        .pool_sums = mt_tensor_1d(l->pool_sums, MT_F64, RUN_SEGMENTS * (RUN_EXPERTS + 1)),
    };
}

static struct mt_tensor inner_of(struct objective_run *run, int layer)
{
    return mt_tensor_2d(run->layer[layer].inner, MT_F32, RUN_ROWS, RUN_WIDTH);
}

static enum mt_status forward_layer(struct objective_run *run, int layer)
{
    struct mt_routing record = objective_run_record(run, layer);
    struct mt_router_policy policy = mt_objective_policy(&run->config, true, (uint64_t)layer);
    enum mt_status status = mt_routing_forward(run->device, &run->router, &policy, &record);
    if (status != MT_OK) return status;
    status =
        mt_dispatch_plan(run->device, &(struct mt_dispatch_plan_args){.expert = record.expert,
                                                                      .offsets = record.offsets,
                                                                      .row_of_slot = record.row_of_slot,
                                                                      .slot_of_row = record.slot_of_row});
    if (status != MT_OK) return status;
    status = mt_combine_forward(run->device,
                                &(struct mt_combine_forward_args){
                                    .rows = record.rows,
                                    .row_of_slot = record.row_of_slot,
                                    .weight = record.weight,
                                    .y = mt_tensor_2d(run->layer[layer].y, MT_F32, RUN_TOKENS, RUN_WIDTH),
                                    .gram = record.gram,
                                });
    if (status != MT_OK) return status;
    status = mt_combine_forward(run->device, &(struct mt_combine_forward_args){
                                                 .rows = inner_of(run, layer),
                                                 .row_of_slot = record.row_of_slot,
                                                 .weight = record.weight,
                                                 .gram = record.inner_gram,
                                             });
    if (status != MT_OK) return status;
    return mt_objective_forward(run->objective, layer, &record);
}

enum mt_status objective_run_forward(struct objective_run *run, double *total)
{
    for (int layer = 0; layer < RUN_LAYERS; layer++) {
        enum mt_status status = forward_layer(run, layer);
        if (status != MT_OK) return status;
    }
    return mt_objective_finish(run->objective, &run->step, total);
}

static enum mt_status backward_layer(struct objective_run *run, int layer)
{
    struct run_layer *l = &run->layer[layer];
    struct mt_routing record = objective_run_record(run, layer);
    struct mt_tensor coupling = mt_tensor_3d(l->coupling, MT_F32, RUN_TOKENS, RUN_SLOTS, RUN_SLOTS);
    struct mt_tensor drows = mt_tensor_2d(l->drows, MT_F32, RUN_ROWS, RUN_WIDTH);
    memset(l->y, 0, sizeof l->y); // the task has no say here: what arrives is the objective's alone
    memset(l->drows, 0, sizeof l->drows);
    memset(l->dlogits, 0, sizeof l->dlogits);
    memset(l->dprobs, 0, sizeof l->dprobs);
    memset(l->drouter_weight, 0, sizeof l->drouter_weight);
    memset(l->inner_coupling, 0, sizeof l->inner_coupling);
    memset(l->dinner, 0, sizeof l->dinner);
    memset(l->proxy_coupling, 0, sizeof l->proxy_coupling);
    struct mt_routing_gradient gradient = {
        .dlogits = mt_tensor_2d(l->dlogits, MT_F32, RUN_TOKENS, RUN_EXPERTS),
        .dprobs = mt_tensor_2d(l->dprobs, MT_F32, RUN_TOKENS, RUN_EXPERTS),
        .dweight = mt_tensor_2d(l->dweight, MT_F32, RUN_TOKENS, RUN_SLOTS),
        .drouter_weight = mt_tensor_2d(l->drouter_weight, MT_F32, RUN_EXPERTS, RUN_WIDTH),
        .inner_coupling = mt_tensor_3d(l->inner_coupling, MT_F32, RUN_TOKENS, RUN_SLOTS, RUN_SLOTS),
        .proxy_coupling = mt_tensor_2d(l->proxy_coupling, MT_F32, RUN_EXPERTS, RUN_EXPERTS),
    };
    enum mt_status status = mt_objective_coupling(run->objective, layer, &record, &coupling);
    if (status != MT_OK) return status;
    status = mt_combine_backward(run->device, &(struct mt_combine_backward_args){
                                                  .dy = mt_tensor_2d(l->y, MT_F32, RUN_TOKENS, RUN_WIDTH),
                                                  .rows = record.rows,
                                                  .row_of_slot = record.row_of_slot,
                                                  .weight = record.weight,
                                                  .coupling = coupling,
                                                  .drows = drows,
                                                  .dweight = gradient.dweight,
                                              });
    if (status != MT_OK) return status;
    const struct mt_objective_backward_options options = {.measure = run->measure};
    status = mt_objective_backward(run->objective, layer, &record, &gradient, &drows, &options);
    if (status != MT_OK) return status;
    status =
        mt_combine_backward(run->device, &(struct mt_combine_backward_args){
                                             .rows = inner_of(run, layer),
                                             .row_of_slot = record.row_of_slot,
                                             .weight = record.weight,
                                             .coupling = gradient.inner_coupling,
                                             .drows = mt_tensor_2d(l->dinner, MT_F32, RUN_ROWS, RUN_WIDTH),
                                         });
    if (status != MT_OK) return status;
    return mt_routing_backward(run->device, &run->router, &record, &gradient);
}

enum mt_status objective_run_backward(struct objective_run *run)
{
    for (int layer = RUN_LAYERS - 1; layer >= 0; layer--) {
        enum mt_status status = backward_layer(run, layer);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}
