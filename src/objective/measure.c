/*
 * Norms of single terms' gradients, for the log. A term on the scores is taken back to the logits alone,
 * through a gradient of its own; L_o on rows X with coupling C has |C·X|² = tr(C G Cᵀ), G = X Xᵀ, from
 * matrices already there. Nothing here touches what training adds up.
 */
#include <math.h>

#include "objective/objective.h"
#include "tensor/dtype.h"

#define PIECE_ELEMENTS 16384 // of Gram matrices on the host at a time

void mt_measure_place(struct mt_objective *objective, struct mt_objective_memory *memory)
{
    struct mt_measure_work *work = &objective->measure;
    const struct mt_objective_shape *shape = &objective->shape;
    struct mt_tensor scores = mt_tensor_2d(NULL, objective->dtype, shape->tokens, shape->experts);
    struct mt_tensor slots = mt_tensor_2d(NULL, objective->dtype, shape->tokens, shape->slots);
    work->dlogits = mt_carve_tensor(&memory->device, scores);
    work->dprobs = mt_carve_tensor(&memory->device, scores);
    work->dweight = mt_carve_tensor(&memory->device, slots);
    work->squares = mt_carve_tensor(&memory->device, mt_tensor_1d(NULL, MT_F64, 1));
    int64_t largest = (int64_t)shape->slots * shape->slots;
    work->elements = largest > PIECE_ELEMENTS ? largest : PIECE_ELEMENTS;
    work->raw = mt_carve(&memory->host, (size_t)work->elements * mt_dtype_bytes(objective->dtype));
    work->gram = mt_carve(&memory->host, (size_t)work->elements * sizeof(double));
    work->coupling = mt_carve(&memory->host, (size_t)work->elements * sizeof(double));
}

/* tr(C G Cᵀ) of one pair of p × p matrices. */
static double coupled_squares(const double *coupling, const double *gram, int64_t size)
{
    double total = 0.0;
    for (int64_t s = 0; s < size; s++) {
        for (int64_t a = 0; a < size; a++) {
            double product = 0.0; // (C G)_sa; G is symmetric
            for (int64_t b = 0; b < size; b++) product += coupling[s * size + b] * gram[a * size + b];
            total += product * coupling[s * size + a];
        }
    }
    return total;
}

/* Matrices [start, start + count) of a tensor [M,p,p], as doubles on the host. */
static enum mt_status fetch(const struct mt_objective *objective, const struct mt_tensor *matrices,
                            int64_t start, int64_t count, double *host)
{
    const struct mt_measure_work *work = &objective->measure;
    struct mt_tensor part = mt_tensor_rows(matrices, start, count);
    if (!mt_tensor_is_contiguous(&part)) {
        return mt_fail(mt_device_context(objective->device), MT_ERR_SHAPE,
                       "measuring needs the Gram matrices without gaps between them");
    }
    int64_t elements = mt_tensor_count(&part);
    size_t bytes = (size_t)elements * mt_dtype_bytes(part.dtype);
    enum mt_status status = mt_device_download(objective->device, work->raw, part.data, bytes);
    if (status != MT_OK) return status;
    for (int64_t i = 0; i < elements; i++) host[i] = mt_load(part.dtype, work->raw, i);
    return MT_OK;
}

enum mt_status mt_measure_coupled(struct mt_objective *objective, const struct mt_tensor *gram,
                                  const struct mt_tensor *coupling, double *norm)
{
    const struct mt_measure_work *work = &objective->measure;
    int64_t size = gram->dim[1];
    int64_t step = work->elements / (size * size);
    double total = 0.0;
    for (int64_t start = 0; start < gram->dim[0]; start += step) {
        int64_t count = gram->dim[0] - start < step ? gram->dim[0] - start : step;
        enum mt_status status = fetch(objective, gram, start, count, work->gram);
        if (status != MT_OK) return status;
        status = fetch(objective, coupling, start, count, work->coupling);
        if (status != MT_OK) return status;
        for (int64_t i = 0; i < count; i++) {
            int64_t place = i * size * size;
            total += coupled_squares(work->coupling + place, work->gram + place, size);
        }
    }
    *norm = total < 0.0 ? 0.0 : sqrt(total); // rounding may leave a zero below zero; NaN stays
    return MT_OK;
}

static enum mt_status clear(struct mt_device *device, const struct mt_tensor *tensor)
{
    return mt_fill(device, &(struct mt_fill_args){.y = *tensor, .value = 0.0f});
}

/* The term alone, back to the logits. */
static enum mt_status measure_logits(const struct mt_term_call *call, const struct mt_term_kind *kind,
                                     double *norm)
{
    struct mt_objective *objective = call->objective;
    struct mt_device *device = objective->device;
    const struct mt_measure_work *work = &objective->measure;
    int64_t tokens = call->record->tokens;
    struct mt_routing_gradient alone = {
        .dlogits = mt_tensor_rows(&work->dlogits, 0, tokens),
        .dprobs = mt_tensor_rows(&work->dprobs, 0, tokens),
        .dweight = mt_tensor_rows(&work->dweight, 0, tokens),
    };
    enum mt_status status = clear(device, &alone.dlogits);
    if (status != MT_OK) return status;
    status = clear(device, &alone.dprobs);
    if (status != MT_OK) return status;
    status = clear(device, &alone.dweight);
    if (status != MT_OK) return status;
    status = kind->backward(call, &alone);
    if (status != MT_OK) return status;
    status = mt_routing_backward(device, &objective->shape.router, call->record, &alone);
    if (status != MT_OK) return status;
    status = mt_reduce(device, &(struct mt_reduce_args){
                                   .x = alone.dlogits, .out = work->squares, .kind = MT_REDUCE_SUM_SQUARES});
    if (status != MT_OK) return status;
    double squares = 0.0;
    status = mt_device_download(device, &squares, work->squares.data, sizeof squares);
    *norm = sqrt(squares);
    return status;
}

enum mt_status mt_measure_layer(struct mt_objective *objective, int layer, const struct mt_routing *record)
{
    struct mt_layer_report *report = &objective->layers[layer].report;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        report->gradient[term] = 0.0;
        if (report->weight[term] == 0.0) continue;
        const struct mt_term_kind *kind = mt_term_kind((enum mt_term)term);
        struct mt_term_call call = mt_objective_call(objective, layer, (enum mt_term)term, record);
        double norm = 0.0;
        enum mt_status status =
            kind->norm != NULL ? kind->norm(&call, &norm) : measure_logits(&call, kind, &norm);
        if (status != MT_OK) return status;
        report->gradient[term] = norm / fabs(objective->loss_scale);
    }
    return MT_OK;
}
