/*
 * dispatch: forward copies rows; backward adds up to k rows per token, GROUP rows to a walk over the
 * columns so that the sum so far is not written and read again for each.
 */
#include <string.h>

#include "ops/cpu/level.h"

#define GROUP 4

bool MT_CPU(dispatch_forward_fits)(const struct mt_dispatch_forward_args *a)
{
    return a->x.dtype == a->rows.dtype;
}

void MT_CPU(dispatch_forward)(struct mt_device *device, const struct mt_dispatch_forward_args *a)
{
    int64_t rows = a->rows.dim[0];
    int64_t width = a->rows.dim[1];
    size_t element = mt_dtype_bytes(a->x.dtype);
    const int32_t *slot_of_row = a->slot_of_row.data;
#pragma omp parallel for num_threads(cpu_threads(device, rows *width)) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        if (slot_of_row[r] < 0) continue;
        int64_t token = slot_of_row[r] / a->slots;
        const char *source = (const char *)a->x.data + (size_t)(token * a->x.stride[0]) * element;
        char *target = (char *)a->rows.data + (size_t)(r * a->rows.stride[0]) * element;
        memcpy(target, source, (size_t)width * element);
    }
}

/* sum += rows, in their order; with `fresh` the sum starts at zero. */
static void add_rows(float *restrict sum, bool fresh, const float *const *row, int count, int64_t width)
{
    const float *a = row[0];
    const float *b = row[1];
    const float *c = row[2];
    const float *d = row[3];
    switch (count) {
    case 1:
#pragma omp simd
        for (int64_t j = 0; j < width; j++) sum[j] = (fresh ? 0.0f : sum[j]) + a[j];
        return;
    case 2:
#pragma omp simd
        for (int64_t j = 0; j < width; j++) sum[j] = (fresh ? 0.0f : sum[j]) + a[j] + b[j];
        return;
    case 3:
#pragma omp simd
        for (int64_t j = 0; j < width; j++) sum[j] = (fresh ? 0.0f : sum[j]) + a[j] + b[j] + c[j];
        return;
    default:
#pragma omp simd
        for (int64_t j = 0; j < width; j++) sum[j] = (fresh ? 0.0f : sum[j]) + a[j] + b[j] + c[j] + d[j];
        return;
    }
}

void MT_CPU(dispatch_backward)(struct mt_device *device, const struct mt_dispatch_backward_args *a)
{
    int64_t tokens = a->dx.dim[0];
    int64_t width = a->dx.dim[1];
    int64_t slots = a->row_of_slot.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, tokens *slots *width)) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        const int32_t *row_of_slot = (const int32_t *)a->row_of_slot.data + i * a->row_of_slot.stride[0];
        float *dx = cpu_row(&a->dx, i);
        const float *row[GROUP] = {NULL};
        bool fresh = !a->accumulate;
        int waiting = 0;
        for (int64_t s = 0; s < slots; s++) {
            if (row_of_slot[s] < 0) continue;
            row[waiting++] = cpu_row(&a->drows, row_of_slot[s]);
            if (waiting < GROUP) continue;
            add_rows(dx, fresh, row, waiting, width);
            fresh = false;
            waiting = 0;
        }
        if (waiting > 0) add_rows(dx, fresh, row, waiting, width);
        if (waiting == 0 && fresh) memset(dx, 0, (size_t)width * sizeof(float));
    }
}
