/* dropout_bits: words are numbered through the rows, so a stretch of them is drawn as if rows had no end. */
#include "ops/cpu/elementwise/mask_draw.h"
#include "ops/cpu/level.h"

/* Words [first, first + count) of the tensor. */
static void store_stretch(const struct mt_dropout_bits_args *a, int64_t first, int64_t count,
                          const uint32_t *kept)
{
    int64_t width = a->bits.dim[1];
    int64_t row = first / width;
    int64_t w = first % width;
    for (int64_t done = 0; done < count; row++, w = 0) {
        uint32_t *words = (uint32_t *)a->bits.data + row * a->bits.stride[0];
        int64_t now = cpu_min(width - w, count - done);
        memcpy(words + w, kept + done, (size_t)now * sizeof kept[0]);
        if (w + now == width) words[width - 1] &= mt_mask_used(a->columns, width - 1);
        done += now;
    }
}

void MT_CPU(dropout_bits)(struct mt_device *device, const struct mt_dropout_bits_args *a)
{
    struct mask_draw draw = mask_draw_of(a->amount, a->seed, a->stream);
    int64_t total = mt_tensor_count(&a->bits);
#pragma omp parallel for num_threads(cpu_threads(device, total *MT_MASK_BITS)) schedule(static)
    for (int64_t first = 0; first < total; first += MASK_STRETCH) {
        int64_t count = cpu_min(MASK_STRETCH, total - first);
        uint32_t kept[MASK_STRETCH];
        draw_mask(&draw, (uint64_t)first, (int)count, kept);
        store_stretch(a, first, count, kept);
    }
}
