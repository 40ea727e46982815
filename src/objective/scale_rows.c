/*
 * What scale=once-pow10 scales L_o by: not L_o, but how much of the first k rows of the first layer's router
 * lies in the span of the other rows, as in the authors' code.
 */
#include <math.h>
#include <string.h>

#include "objective/objective.h"
#include "tensor/dtype.h"

#define ROW_EPSILON 1e-6 // the authors'

void mt_scale_place(struct mt_objective *objective, struct mt_objective_memory *memory)
{
    if (!mt_scale_needs_router(&objective->config)) return;
    struct mt_scale_work *work = &objective->scale;
    size_t width = (size_t)objective->shape.width;
    size_t rows = (size_t)objective->shape.experts * width * sizeof(double);
    work->row = mt_carve(&memory->host, width * sizeof(double)); // the widest type
    work->rows = mt_carve(&memory->host, rows);
    work->basis = mt_carve(&memory->host, rows);
}

static double dot(const double *a, const double *b, int64_t width)
{
    double sum = 0.0;
    for (int64_t i = 0; i < width; i++) sum += a[i] * b[i];
    return sum;
}

/* Squared length of the projection of row `own` on the span of the others. */
static double projection(const double *rows, int count, int64_t width, int own, double *basis)
{
    double total = 0.0;
    int found = 0;
    for (int j = 0; j < count; j++) {
        if (j == own) continue;
        double *u = basis + found * width;
        memcpy(u, rows + j * width, (size_t)width * sizeof *u);
        for (int r = 0; r < found; r++) {
            const double *before = basis + r * width;
            double share = dot(before, u, width);
            for (int64_t i = 0; i < width; i++) u[i] -= share * before[i];
        }
        double length = sqrt(dot(u, u, width));
        for (int64_t i = 0; i < width; i++) u[i] /= length + ROW_EPSILON;
        double along = dot(u, rows + own * width, width);
        total += along * along * dot(u, u, width);
        found++;
    }
    return total;
}

/* (1/k) Σ_{a<k} |projection of row a on the span of the other rows|², by modified Gram-Schmidt. */
static double rows_projection(const double *rows, int count, int64_t width, int first_rows, double *basis)
{
    double total = 0.0;
    for (int own = 0; own < first_rows; own++) total += projection(rows, count, width, own, basis);
    return total / first_rows;
}

enum mt_status mt_scale_observe(struct mt_objective *objective, int layer, const struct mt_routing *record)
{
    bool needed = mt_scale_needs_router(&objective->config) && layer == 0 && objective->state->decided == 0.0;
    if (!needed) return MT_OK;
    struct mt_context *ctx = mt_device_context(objective->device);
    const struct mt_tensor *weight = &record->router_weight;
    if (!mt_tensor_present(weight)) {
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "scale=once-pow10 scales L_o by the router's weight (router_weight), which the record lacks");
    }
    int experts = objective->shape.experts;
    int64_t width = objective->shape.width;
    if (weight->rank != 2 || weight->dim[0] != experts || weight->dim[1] != width) {
        return mt_fail(ctx, MT_ERR_SHAPE, "scale=once-pow10: the router's weight is not experts by width");
    }
    const struct mt_scale_work *work = &objective->scale;
    for (int64_t j = 0; j < experts; j++) {
        struct mt_tensor row = mt_tensor_at(weight, j);
        size_t bytes = (size_t)width * mt_dtype_bytes(row.dtype);
        enum mt_status status = mt_device_download(objective->device, work->row, row.data, bytes);
        if (status != MT_OK) return status;
        for (int64_t i = 0; i < width; i++) work->rows[j * width + i] = mt_load(row.dtype, work->row, i);
    }
    objective->state->router_projection =
        rows_projection(work->rows, experts, width, objective->shape.slots, work->basis);
    return MT_OK;
}
