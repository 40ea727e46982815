/*
 * embedding: rows of the table, converted to floats. Backward cuts the columns among the threads: every
 * piece walks all tokens in order, so a token that occurs often is summed in one order, without locks,
 * and nothing of the size of the vocabulary is touched.
 */
#include "ops/cpu/elementwise/convert.h"

#define COLUMN_PIECE 512 // columns of dtable a thread owns at a time

bool MT_CPU(embedding_forward_fits)(const struct mt_embedding_forward_args *a)
{
    return cpu_converts(a->table.dtype) && cpu_converts(a->y.dtype);
}

void MT_CPU(embedding_forward)(struct mt_device *device, const struct mt_embedding_forward_args *a)
{
    int64_t tokens = a->y.dim[0];
    int64_t width = a->y.dim[1];
    int64_t table_row = a->table.stride[0] * (int64_t)mt_dtype_bytes(a->table.dtype);
    int64_t y_row = a->y.stride[0] * (int64_t)mt_dtype_bytes(a->y.dtype);
    const int32_t *ids = a->ids.data;
#pragma omp parallel for num_threads(cpu_threads(device, tokens *width)) schedule(static)
    for (int64_t t = 0; t < tokens; t++) {
        cpu_convert(a->table.dtype, (const char *)a->table.data + ids[t] * table_row, a->y.dtype,
                    (char *)a->y.data + t * y_row, width);
    }
}

void MT_CPU(embedding_backward)(struct mt_device *device, const struct mt_embedding_backward_args *a)
{
    int64_t tokens = a->dy.dim[0];
    int64_t width = a->dy.dim[1];
    int64_t pieces = (width + COLUMN_PIECE - 1) / COLUMN_PIECE;
    const int32_t *ids = a->ids.data;
#pragma omp parallel for num_threads(cpu_threads(device, tokens *width)) schedule(static)
    for (int64_t piece = 0; piece < pieces; piece++) {
        int64_t start = piece * COLUMN_PIECE;
        int64_t count = cpu_min(COLUMN_PIECE, width - start);
        for (int64_t t = 0; t < tokens; t++) {
            const float *restrict dy = cpu_row(&a->dy, t) + start;
            float *restrict dtable = cpu_row(&a->dtable, ids[t]) + start;
#pragma omp simd
            for (int64_t j = 0; j < count; j++) dtable[j] += dy[j];
        }
    }
}
