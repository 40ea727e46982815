/*
 * Routers' rows through experts: n products [n,d] × [d,f] a layer on the device, of which only the lengths of
 * the rows, n² numbers, come back. A row's length is taken from rmsnorm: 1/rstd² = |row|²/f + epsilon.
 */
#include "analysis/run/weights.h"

#include <math.h>

#include "model/layers/linear.h"

#define LEAST_SQUARE 1e-30f // of a row, over its numbers: what is shorter has no length

enum mt_status mt_router_weight(struct mt_device *device, const struct mt_linear *router,
                                const struct mt_tensor *target)
{
    const struct mt_tensor *weight = NULL;
    enum mt_status status = mt_weight_operand(device, &router->weight, NULL, &weight);
    if (status == MT_OK) status = mt_copy(device, &(struct mt_copy_args){.x = *weight, .y = *target});
    if (status != MT_OK || !mt_linear_has_lora(router)) return status;
    return mt_gemm(device, &(struct mt_gemm_args){.a = *router->b,
                                                  .b = *router->a,
                                                  .c = *target,
                                                  .exact = true,
                                                  .alpha = router->lora_scale,
                                                  .beta = 1.0f});
}

/* Memory of the device, and the host's copy of what comes back. */
struct measuring {
    struct mt_device *device;
    int64_t experts, width, inner, rank; // n, d, f, r
    struct mt_buffer memory;
    struct mt_tensor rows;   // f32 [n,d]
    struct mt_tensor made;   // f32 [n,f]: what an expert makes of them
    struct mt_tensor narrow; // f32 [n,r]
    struct mt_tensor ones;   // f32 [f]
    struct mt_tensor square; // f32 [n,n]
    float *host;             // [n,n]
    double *norms;           // [n,n]
    void *owned;             // both
    size_t owned_bytes;
    struct mt_comm *ranks; // that share the experts; NULL: all are here
};

static enum mt_status open_measuring(struct measuring *m)
{
    struct mt_context *ctx = mt_device_context(m->device);
    int64_t n = m->experts;
    int64_t numbers = n * m->width + n * m->inner + n * m->rank + m->inner + n * n;
    enum mt_status status = mt_device_buffer_create(m->device, (size_t)numbers * sizeof(float), &m->memory);
    m->owned_bytes = (size_t)(n * n) * (sizeof(double) + sizeof(float));
    if (status == MT_OK) status = mt_allocate(ctx, m->owned_bytes, &m->owned);
    if (status != MT_OK) return status;
    float *rows = m->memory.data;
    float *made = rows + n * m->width;
    float *narrow = made + n * m->inner;
    float *ones = narrow + n * m->rank;
    m->rows = mt_tensor_2d(rows, MT_F32, n, m->width);
    m->made = mt_tensor_2d(made, MT_F32, n, m->inner);
    m->narrow = mt_tensor_2d(narrow, MT_F32, n, m->rank);
    m->ones = mt_tensor_1d(ones, MT_F32, m->inner);
    m->square = mt_tensor_2d(ones + m->inner, MT_F32, n, n);
    m->norms = m->owned;
    void *behind = m->norms + n * n;
    m->host = behind;
    return mt_fill(m->device, &(struct mt_fill_args){.y = m->ones, .value = 1.0f});
}

static enum mt_status fetch_square(const struct measuring *m)
{
    return mt_device_download(m->device, m->host, m->square.data,
                              (size_t)(m->experts * m->experts) * sizeof(float));
}

/* square[e,i] = rstd of what expert e makes of row i. */
static enum mt_status run_expert(const struct measuring *m, const struct mt_linear *gate,
                                 const struct mt_tensor *weight, int64_t e)
{
    struct mt_device *device = m->device;
    bool lora = gate->a != NULL && mt_tensor_present(&gate->a[e]);
    enum mt_status status = mt_gemm(
        device,
        &(struct mt_gemm_args){
            .a = m->rows, .b = *weight, .c = m->made, .transpose_b = true, .exact = true, .alpha = 1.0f});
    if (status == MT_OK && lora)
        status = mt_gemm(device, &(struct mt_gemm_args){.a = m->rows,
                                                        .b = gate->a[e],
                                                        .c = m->narrow,
                                                        .transpose_b = true,
                                                        .exact = true,
                                                        .alpha = 1.0f});
    if (status == MT_OK && lora)
        status = mt_gemm(device, &(struct mt_gemm_args){.a = m->narrow,
                                                        .b = gate->b[e],
                                                        .c = m->made,
                                                        .transpose_b = true,
                                                        .exact = true,
                                                        .alpha = gate->lora_scale,
                                                        .beta = 1.0f});
    if (status != MT_OK) return status;
    struct mt_tensor rstd = mt_tensor_1d((float *)m->square.data + e * m->experts, MT_F32, m->experts);
    return mt_rmsnorm_forward(
        device, &(struct mt_rmsnorm_forward_args){
                    .x = m->made, .weight = m->ones, .y = m->made, .rstd = rstd, .epsilon = LEAST_SQUARE});
}

static enum mt_status measure_norms(const struct measuring *m, const struct mt_linear *gate,
                                    struct mt_coupling_figures *figures)
{
    const struct mt_tensor *weight = NULL;
    int64_t count = m->experts * m->experts;
    enum mt_status status = mt_weight_operand(m->device, &gate->weight, NULL, &weight);
    for (int64_t e = 0; e < m->experts && status == MT_OK; e++) {
        if (mt_tensor_present(&weight[e])) status = run_expert(m, gate, &weight[e], e);
    }
    if (status == MT_OK) status = fetch_square(m);
    if (status != MT_OK) return status;
    for (int64_t i = 0; i < count; i++) {
        double rstd = (double)m->host[i];
        bool here = mt_tensor_present(&weight[i / m->experts]);
        m->norms[i] =
            here ? sqrt(fmax(0.0, (1.0 / (rstd * rstd) - (double)LEAST_SQUARE) * (double)m->inner)) : 0.0;
    }
    if (m->ranks != NULL) mt_comm_sum_f64(m->ranks, m->norms, (size_t)count); // each has its experts'
    mt_coupling_norms(m->norms, (int)m->experts, figures);
    return MT_OK;
}

static enum mt_status measure_layer(const struct measuring *m, const struct mt_layer_params *layer,
                                    struct mt_coupling_figures *figures)
{
    *figures = (struct mt_coupling_figures){(double)NAN, (double)NAN, (double)NAN, (double)NAN};
    enum mt_status status = mt_router_weight(m->device, &layer->router, &m->rows);
    if (status == MT_OK)
        status = mt_gemm(m->device, &(struct mt_gemm_args){.a = m->rows,
                                                           .b = m->rows,
                                                           .c = m->square,
                                                           .transpose_b = true,
                                                           .exact = true,
                                                           .alpha = 1.0f});
    if (status == MT_OK) status = fetch_square(m);
    if (status != MT_OK) return status;
    mt_coupling_rows(m->host, (int)m->experts, figures);
    return measure_norms(m, &layer->experts.gate, figures);
}

enum mt_status mt_model_coupling(struct mt_model *model, struct mt_coupling_figures *figures)
{
    const struct mt_model_desc *desc = mt_model_description(model);
    const struct mt_params *params = mt_model_params(model);
    struct measuring m = {.device = mt_model_device(model),
                          .experts = desc->experts,
                          .width = desc->width,
                          .ranks = params->expert_ranks};
    enum mt_status status = MT_OK;
    for (int64_t i = 0; i < params->layers; i++) {
        if (!params->layer[i].moe) continue;
        m.inner = params->layer[i].experts.gate.weight.out;
        if (params->layer[i].experts.gate.rank > m.rank) m.rank = params->layer[i].experts.gate.rank;
    }
    status = open_measuring(&m);
    for (int64_t i = 0; i < params->layers && status == MT_OK; i++) {
        if (params->layer[i].moe) status = measure_layer(&m, &params->layer[i], figures++);
    }
    mt_buffer_release(&m.memory);
    mt_release(mt_device_context(m.device), m.owned, m.owned_bytes);
    return status;
}

void mt_figures_take_coupling(struct mt_figures *figures, const struct mt_coupling_figures *coupling)
{
    for (int i = 0; i < figures->layers; i++) figures->layer[i].coupling = coupling[i];
    mt_figures_mean(figures);
}
