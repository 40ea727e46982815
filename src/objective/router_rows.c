/*
 * What the terms on the router's rows share: a function of G = W Wᵀ, W [n,d] the router's weight. Its
 * gradient is dW = C·W with C = Γ + Γᵀ, Γ the gradient in G, and |dW|² = tr(C G Cᵀ).
 */
#include "objective/parts.h"

// A layer's numbers: the loss itself [1].
size_t mt_router_rows_statistics(const struct mt_objective *objective)
{
    (void)objective;
    return 1;
}

void mt_router_rows_value(const struct mt_objective *objective, struct mt_term_view *views)
{
    for (int l = 0; l < objective->shape.layers; l++) {
        views[l].loss = views[l].statistics[0];
        views[l].gradient[0] = 1.0;
    }
}

void mt_router_rows_place(struct mt_objective *objective, struct mt_objective_memory *memory)
{
    struct mt_router_rows_work *work = &objective->router_rows;
    int64_t experts = objective->shape.experts;
    struct mt_tensor square = mt_tensor_2d(NULL, objective->dtype, experts, experts);
    work->gram = mt_carve_tensor(&memory->device, square);
    work->coupling = mt_carve_tensor(&memory->device, square);
}

int mt_router_rows_needs(const struct mt_objective_config *config)
{
    (void)config;
    return MT_NEEDS_ROUTER_WEIGHT;
}

static enum mt_status find_gram(const struct mt_term_call *call)
{
    return mt_gemm(call->objective->device, &(struct mt_gemm_args){
                                                .a = call->record->router_weight,
                                                .b = call->record->router_weight,
                                                .c = call->objective->router_rows.gram,
                                                .transpose_b = true,
                                                .alpha = 1.0f,
                                            });
}

enum mt_status mt_router_rows_forward(const struct mt_term_call *call, enum mt_router_orth_kind kind,
                                      int groups)
{
    enum mt_status status = find_gram(call);
    if (status != MT_OK) return status;
    return mt_router_orth_forward(call->objective->device,
                                  &(struct mt_router_orth_forward_args){
                                      .gram = call->objective->router_rows.gram,
                                      .loss = mt_tensor_1d(call->statistics, MT_F64, 1),
                                      .kind = kind,
                                      .groups = groups,
                                  });
}

/* C, with the term's weight in it. */
static enum mt_status find_coupling(const struct mt_term_call *call, enum mt_router_orth_kind kind,
                                    int groups)
{
    enum mt_status status = find_gram(call);
    if (status != MT_OK) return status;
    return mt_router_orth_backward(call->objective->device,
                                   &(struct mt_router_orth_backward_args){
                                       .gram = call->objective->router_rows.gram,
                                       .coupling = call->objective->router_rows.coupling,
                                       .kind = kind,
                                       .groups = groups,
                                       .scale = (float)call->host_gradient[0],
                                   });
}

enum mt_status mt_router_rows_backward(const struct mt_term_call *call, enum mt_router_orth_kind kind,
                                       int groups, struct mt_routing_gradient *gradient)
{
    if (!mt_tensor_present(&gradient->drouter_weight)) return MT_OK; // frozen
    enum mt_status status = find_coupling(call, kind, groups);
    if (status != MT_OK) return status;
    return mt_gemm(call->objective->device, &(struct mt_gemm_args){
                                                .a = call->objective->router_rows.coupling,
                                                .b = call->record->router_weight,
                                                .c = gradient->drouter_weight,
                                                .alpha = 1.0f,
                                                .beta = 1.0f,
                                            });
}

enum mt_status mt_router_rows_norm(const struct mt_term_call *call, enum mt_router_orth_kind kind, int groups,
                                   double *norm)
{
    enum mt_status status = find_coupling(call, kind, groups);
    if (status != MT_OK) return status;
    const struct mt_router_rows_work *work = &call->objective->router_rows;
    int64_t experts = call->objective->shape.experts;
    struct mt_tensor gram = mt_tensor_3d(work->gram.data, work->gram.dtype, 1, experts, experts);
    struct mt_tensor coupling = mt_tensor_3d(work->coupling.data, work->coupling.dtype, 1, experts, experts);
    return mt_measure_coupled(call->objective, &gram, &coupling, norm);
}
