/* copy between f32, bf16 and f16, and of i32. */
#include "ops/cpu/elementwise/convert.h"
#include "ops/cpu/pieces.h"

/* Rows to the places they are given. */
static void copy_to_places(const struct mt_device *device, const struct mt_copy_args *a)
{
    const int32_t *place = a->place.data;
    int64_t x_bytes = (int64_t)mt_dtype_bytes(a->x.dtype) * a->x.stride[0];
    int64_t y_bytes = (int64_t)mt_dtype_bytes(a->y.dtype) * a->y.stride[0];
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->x))) schedule(static)
    for (int64_t i = 0; i < a->x.dim[0]; i++) {
        const char *x = (const char *)a->x.data + i * x_bytes;
        char *y = (char *)a->y.data + place[i] * y_bytes;
        cpu_convert(a->x.dtype, x, a->y.dtype, y, a->x.dim[1]);
    }
}

bool MT_CPU(copy_fits)(const struct mt_copy_args *a)
{
    return a->x.dtype == a->y.dtype || (cpu_converts(a->x.dtype) && cpu_converts(a->y.dtype));
}

void MT_CPU(copy)(struct mt_device *device, const struct mt_copy_args *a)
{
    if (mt_tensor_present(&a->place)) {
        copy_to_places(device, a);
        return;
    }
    bool flat = mt_tensor_is_contiguous(&a->x) && mt_tensor_is_contiguous(&a->y);
    struct cpu_pieces pieces = cpu_pieces_of(&a->y, flat);
    int64_t x_bytes = (int64_t)mt_dtype_bytes(a->x.dtype);
    int64_t y_bytes = (int64_t)mt_dtype_bytes(a->y.dtype);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->y))) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        const char *x = (const char *)a->x.data + cpu_piece_offset(&pieces, &a->x, piece) * x_bytes;
        char *y = (char *)a->y.data + cpu_piece_offset(&pieces, &a->y, piece) * y_bytes;
        cpu_convert(a->x.dtype, x, a->y.dtype, y, piece.count);
    }
}
