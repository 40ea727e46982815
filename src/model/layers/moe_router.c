/*
 * The router: logits = router(x), where a method may add jitter to x in training (ST-MoE); then routing.h.
 * Terms on the router's rows see the weight as it acts, LoRA included: W + s·B·A, with dB += s·dW Aᵀ, dA +=
 * s·Bᵀ dW.
 */
#include "model/layers/moe_router.h"

bool mt_moe_router_has_jitter(const struct mt_pass *pass)
{
    return pass->moe.method != NULL && pass->moe.method->jitter > 0.0;
}

bool mt_moe_router_needs_sum(const struct mt_pass *pass, const struct mt_layer_params *params)
{
    return mt_pass_needs(pass, MT_NEEDS_ROUTER_WEIGHT) && mt_linear_has_lora(&params->router);
}

static enum mt_status add_jitter(const struct mt_pass *pass, const struct mt_moe *moe,
                                 const struct mt_tensor *x, const struct mt_tensor *y)
{
    return mt_random_multiply(pass->device,
                              &(struct mt_random_multiply_args){
                                  .x = *x,
                                  .y = *y,
                                  .kind = MT_RANDOM_JITTER,
                                  .amount = (float)pass->moe.method->jitter,
                                  .seed = pass->moe.method->seed,
                                  .stream = mt_pass_layer_stream(pass, MT_STREAM_ROUTER_JITTER, moe->layer)});
}

bool mt_moe_router_reads_x(const struct mt_pass *pass)
{
    return !pass->training || !mt_moe_router_has_jitter(pass);
}

/* What the router reads: x, or x with jitter. */
static enum mt_status router_input(const struct mt_pass *pass, const struct mt_moe *moe,
                                   const struct mt_tensor *x, struct mt_tensor *input)
{
    *input = *x;
    if (mt_moe_router_reads_x(pass)) return MT_OK;
    *input = moe->router_input;
    return add_jitter(pass, moe, x, input);
}

/* record.router_weight: the weight itself, or with a LoRA pair their sum. */
static enum mt_status show_rows(const struct mt_pass *pass, const struct mt_linear *router,
                                struct mt_moe *moe)
{
    const struct mt_tensor *weight = NULL;
    enum mt_status status = mt_weight_operand(pass->device, &router->weight, NULL, &weight);
    if (status != MT_OK) return status;
    moe->record.router_weight = *weight;
    if (!mt_linear_has_lora(router)) return MT_OK;
    moe->record.router_weight = moe->router_sum;
    status = mt_copy(pass->device, &(struct mt_copy_args){.x = *weight, .y = moe->router_sum});
    if (status != MT_OK) return status;
    return mt_gemm(pass->device, &(struct mt_gemm_args){.a = *router->b,
                                                        .b = *router->a,
                                                        .c = moe->router_sum,
                                                        .alpha = router->lora_scale,
                                                        .beta = 1.0f});
}

enum mt_status mt_moe_router_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                     struct mt_moe *moe, const struct mt_tensor *x)
{
    struct mt_tensor input;
    enum mt_status status = router_input(pass, moe, x, &input);
    if (status != MT_OK) return status;
    const struct mt_linear_output output = {
        .linear = &params->router, .trace = &moe->router_lora, .y = &moe->record.logits};
    status = mt_linear_forward(pass, &output, 1, NULL, &input, false);
    if (status != MT_OK) return status;
    if (mt_pass_needs(pass, MT_NEEDS_ROUTER_WEIGHT)) {
        status = show_rows(pass, &params->router, moe);
        if (status != MT_OK) return status;
    }
    uint64_t stream = mt_pass_layer_stream(pass, MT_STREAM_SAMPLING, moe->layer);
    struct mt_router_policy policy = {.training = pass->training, .seed = pass->seed, .stream = stream};
    if (pass->moe.method != NULL) policy = mt_objective_policy(pass->moe.method, pass->training, stream);
    policy.sequence_stream = mt_pass_sequence_stream(pass, MT_STREAM_POOL, moe->layer);
    policy.first_sequence = pass->moe.first_sequence;
    return mt_routing_forward(pass->device, &pass->desc->router, &policy, &moe->record);
}

/* What terms on the rows said about W + s·B·A, passed on to the pair. */
static enum mt_status rows_to_lora(const struct mt_pass *pass, const struct mt_linear *router,
                                   const struct mt_moe *moe)
{
    enum mt_status status = mt_gemm(pass->device, &(struct mt_gemm_args){.a = moe->drouter_sum,
                                                                         .b = *router->a,
                                                                         .c = *router->db,
                                                                         .transpose_b = true,
                                                                         .alpha = router->lora_scale,
                                                                         .beta = 1.0f});
    if (status != MT_OK) return status;
    return mt_gemm(pass->device, &(struct mt_gemm_args){.a = *router->b,
                                                        .b = moe->drouter_sum,
                                                        .c = *router->da,
                                                        .transpose_a = true,
                                                        .alpha = router->lora_scale,
                                                        .beta = 1.0f});
}

enum mt_status mt_moe_terms_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                     struct mt_moe *moe)
{
    const struct mt_linear *router = &params->router;
    bool through_lora = mt_pass_needs(pass, MT_NEEDS_ROUTER_WEIGHT) && router->da != NULL;
    enum mt_status status = MT_OK;
    if (mt_pass_needs(pass, MT_NEEDS_ROUTER_WEIGHT)) {
        status = show_rows(pass, router, moe);
        if (status != MT_OK) return status;
    }
    if (through_lora) {
        status = mt_fill(pass->device, &(struct mt_fill_args){.y = moe->drouter_sum, .value = 0.0f});
        if (status != MT_OK) return status;
    }
    struct mt_routing_gradient gradient = {.dlogits = moe->dlogits,
                                           .dprobs = moe->dprobs,
                                           .dweight = moe->dweight,
                                           .inner_coupling = moe->experts.inner_coupling,
                                           .proxy_coupling = moe->proxies.coupling};
    if (router->dweight != NULL) gradient.drouter_weight = *router->dweight;
    if (through_lora) gradient.drouter_weight = moe->drouter_sum;
    if (mt_tensor_present(&moe->proxies.coupling)) {
        status = mt_fill(pass->device, &(struct mt_fill_args){.y = moe->proxies.coupling, .value = 0.0f});
        if (status != MT_OK) return status;
    }
    status = mt_objective_backward(pass->moe.objective, moe->number, &moe->record, &gradient, &moe->drows,
                                   &(struct mt_objective_backward_options){.measure = pass->moe.measure});
    if (status == MT_OK && mt_tensor_present(&moe->proxies.coupling))
        status = mt_proxies_backward(pass, &moe->proxies, &moe->record, &gradient.drouter_weight);
    if (status != MT_OK || !through_lora) return status;
    return rows_to_lora(pass, router, moe);
}

enum mt_status mt_moe_router_scores_backward(const struct mt_pass *pass, const struct mt_moe *moe)
{
    struct mt_routing_gradient gradient = {
        .dlogits = moe->dlogits, .dprobs = moe->dprobs, .dweight = moe->dweight};
    return mt_routing_backward(pass->device, &pass->desc->router, &moe->record, &gradient);
}

enum mt_status mt_moe_router_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                      const struct mt_moe *moe, const struct mt_tensor *x,
                                      const struct mt_tensor *dx)
{
    enum mt_status status = MT_OK;
    struct mt_tensor input = *x;
    if (mt_linear_reads_input(&params->router)) {
        status = router_input(pass, moe, x, &input);
        if (status != MT_OK) return status;
    }
    const struct mt_linear_gradient gradient = {
        .linear = &params->router, .dy = &moe->dlogits, .trace = &moe->router_lora};
    if (dx == NULL || mt_moe_router_reads_x(pass))
        return mt_linear_backward(pass, &gradient, 1, NULL, &input, true, dx);
    const struct mt_tensor *dinput = &moe->drouter_input;
    status = mt_linear_backward(pass, &gradient, 1, NULL, &input, false, dinput);
    if (status != MT_OK) return status;
    status = add_jitter(pass, moe, dinput, dinput);
    if (status != MT_OK) return status;
    return mt_axpby(pass->device,
                    &(struct mt_axpby_args){.x = *dinput, .y = *dx, .alpha = 1.0f, .beta = 1.0f});
}
