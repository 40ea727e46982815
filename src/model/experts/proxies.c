/*
 * The router's rows as tokens: each expert gets all n of them, so that the rows are those of a batch in which
 * every token chose every expert, and linear layers, dispatch and combine work as they do there.
 */
#include "model/experts/proxies.h"

#include "metier/ops.h"

int64_t mt_proxies_rows(const struct mt_model_desc *desc)
{
    return (int64_t)desc->experts * desc->experts;
}

// ------------------------------------------------------------------ places

static int64_t place_count(const struct mt_model_desc *desc)
{
    return 2 * mt_proxies_rows(desc) + desc->experts + 1;
}

enum mt_status mt_proxies_places(struct mt_device *device, const struct mt_model_desc *desc,
                                 struct mt_buffer *places)
{
    struct mt_context *ctx = mt_device_context(device);
    int64_t experts = desc->experts;
    int64_t rows = mt_proxies_rows(desc);
    size_t bytes = (size_t)place_count(desc) * sizeof(int32_t);
    void *memory = NULL;
    enum mt_status status = mt_allocate(ctx, bytes, &memory);
    if (status != MT_OK) return status;
    int32_t *turned = memory;
    int32_t *own = turned + rows;
    int32_t *offsets = own + rows;
    for (int64_t r = 0; r < rows; r++) {
        turned[r] = (int32_t)(r % experts * experts + r / experts);
        own[r] = (int32_t)r;
    }
    for (int64_t j = 0; j <= experts; j++) offsets[j] = (int32_t)(j * experts);
    status = mt_device_buffer_create(device, bytes, places);
    if (status == MT_OK) status = mt_device_upload(device, places->data, memory, bytes);
    mt_release(ctx, memory, bytes);
    return status;
}

struct mt_tensor mt_proxies_view(const struct mt_model_desc *desc, const struct mt_buffer *places)
{
    return mt_tensor_1d(places->data, MT_I32, place_count(desc));
}

// ------------------------------------------------------------------ memory

void mt_proxies_plan(struct mt_proxies *proxies, const struct mt_pass *pass,
                     const struct mt_mlp_params *params, int64_t layer, bool backward,
                     struct mt_planner *work)
{
    int64_t rows = mt_proxies_rows(pass->desc);
    int64_t experts = pass->desc->experts;
    int64_t width = pass->desc->width;
    int32_t *places = pass->moe.proxy_places.data;
    *proxies = (struct mt_proxies){.layer = layer,
                                   .gates = params->gate,
                                   .turned = mt_tensor_2d(places, MT_I32, experts, experts),
                                   .own = mt_tensor_2d(places + rows, MT_I32, rows, 1),
                                   .offsets = mt_tensor_1d(places + 2 * rows, MT_I32, experts + 1)};
    proxies->gates.dropout = 0.0f;
    proxies->gates.biases = NULL; // the response is the weight's alone
    proxies->gates.dbiases = NULL;
    proxies->noisy = mt_plan_2d(work, pass->type, experts, width);
    proxies->rows = mt_plan_2d(work, pass->type, rows, width);
    proxies->response = mt_plan_2d(work, pass->type, rows, pass->desc->expert_width);
    proxies->lora = mt_linear_plan_lora(work, pass, &proxies->gates, rows, NULL);
    if (!backward) return;
    proxies->dnoisy = mt_plan_2d(work, pass->exact, experts, width);
    proxies->coupling = mt_plan_2d(work, pass->exact, experts, experts);
}

// ------------------------------------------------------------------ forward

/* y = (y +) x with a row's noise: x the router's rows or their gradient. */
static enum mt_status add_noise(const struct mt_pass *pass, const struct mt_proxies *proxies,
                                const struct mt_routing *record, const struct mt_tensor *x,
                                const struct mt_tensor *y, bool accumulate)
{
    return mt_row_noise(
        pass->device,
        &(struct mt_row_noise_args){.weight = record->router_weight,
                                    .x = *x,
                                    .y = *y,
                                    .amount = pass->training ? (float)pass->moe.method->erc_noise : 0.0f,
                                    .seed = pass->moe.method->seed,
                                    .stream = mt_pass_layer_stream(pass, MT_STREAM_PROXIES, proxies->layer),
                                    .accumulate = accumulate});
}

/* rows and response. */
static enum mt_status respond(const struct mt_pass *pass, const struct mt_proxies *proxies,
                              const struct mt_routing *record)
{
    const struct mt_tensor *turned = &proxies->turned;
    enum mt_status status = add_noise(pass, proxies, record, &record->router_weight, &proxies->noisy, false);
    if (status != MT_OK) return status;
    status = mt_dispatch_forward(
        pass->device, &(struct mt_dispatch_forward_args){
                          .x = proxies->noisy,
                          .slot_of_row = mt_tensor_1d(turned->data, MT_I32, mt_tensor_count(turned)),
                          .rows = proxies->rows,
                          .slots = pass->desc->experts,
                      });
    if (status != MT_OK) return status;
    const struct mt_linear_output output = {
        .linear = &proxies->gates, .trace = &proxies->lora, .y = &proxies->response};
    return mt_linear_forward(pass, &output, 1, &proxies->offsets, &proxies->rows, false);
}

/* [n,n] as n·n matrices of one number. */
static struct mt_tensor singles(const struct mt_tensor *matrix)
{
    return mt_tensor_3d(matrix->data, matrix->dtype, mt_tensor_count(matrix), 1, 1);
}

/* For combine, which multiplies with no weight where there is neither y nor dy: finite numbers. */
static struct mt_tensor unused_weight(const struct mt_routing *record)
{
    const struct mt_tensor *squares = &record->proxy_squares;
    return mt_tensor_2d(squares->data, squares->dtype, mt_tensor_count(squares), 1);
}

enum mt_status mt_proxies_forward(const struct mt_pass *pass, const struct mt_proxies *proxies,
                                  const struct mt_routing *record)
{
    enum mt_status status = respond(pass, proxies, record);
    if (status != MT_OK) return status;
    return mt_combine_forward(pass->device, &(struct mt_combine_forward_args){
                                                .rows = proxies->response,
                                                .row_of_slot = proxies->own,
                                                .weight = unused_weight(record),
                                                .gram = singles(&record->proxy_squares),
                                            });
}

// ------------------------------------------------------------------ backward

enum mt_status mt_proxies_backward(const struct mt_pass *pass, const struct mt_proxies *proxies,
                                   const struct mt_routing *record, const struct mt_tensor *drouter_weight)
{
    bool below = mt_tensor_present(drouter_weight);
    if (!below && !mt_linear_is_trained(&proxies->gates)) return MT_OK;
    enum mt_status status = respond(pass, proxies, record);
    if (status != MT_OK) return status;
    status = mt_combine_backward(pass->device, &(struct mt_combine_backward_args){
                                                   .rows = proxies->response,
                                                   .row_of_slot = proxies->own,
                                                   .weight = unused_weight(record),
                                                   .coupling = singles(&proxies->coupling),
                                                   .drows = proxies->response,
                                               });
    if (status != MT_OK) return status;
    const struct mt_linear_gradient gradient = {
        .linear = &proxies->gates, .dy = &proxies->response, .trace = &proxies->lora};
    status = mt_linear_backward(pass, &gradient, 1, &proxies->offsets, &proxies->rows, false,
                                below ? &proxies->rows : NULL);
    if (status != MT_OK || !below) return status;
    status = mt_dispatch_backward(
        pass->device, &(struct mt_dispatch_backward_args){
                          .drows = proxies->rows, .row_of_slot = proxies->turned, .dx = proxies->dnoisy});
    if (status != MT_OK) return status;
    return add_noise(pass, proxies, record, &proxies->dnoisy, drouter_weight, true);
}
