/* fill of two- and four-byte elements: the value becomes a bit pattern, the loop only stores it. */
#include "ops/cpu/pieces.h"

static void fill_words(uint32_t *y, int64_t count, uint32_t pattern)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) y[j] = pattern;
}

static void fill_halves(uint16_t *y, int64_t count, uint16_t pattern)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) y[j] = pattern;
}

bool MT_CPU(fill_fits)(const struct mt_fill_args *a)
{
    return a->y.dtype != MT_F64;
}

void MT_CPU(fill)(struct mt_device *device, const struct mt_fill_args *a)
{
    struct cpu_pieces pieces = cpu_pieces_of(&a->y, mt_tensor_is_contiguous(&a->y));
    uint32_t word = 0;
    uint16_t half = 0;
    bool halves = mt_dtype_bytes(a->y.dtype) == sizeof half;
    mt_store(a->y.dtype, halves ? (void *)&half : (void *)&word, 0, (double)a->value);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->y))) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        int64_t offset = cpu_piece_offset(&pieces, &a->y, piece);
        if (halves) {
            fill_halves((uint16_t *)a->y.data + offset, piece.count, half);
        } else {
            fill_words((uint32_t *)a->y.data + offset, piece.count, word);
        }
    }
}
