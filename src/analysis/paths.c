/* Paths of tokens: pairs of first choices, sorted and counted. */
#include "analysis/paths.h"

#include <math.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* -p ln p of the runs of equal numbers. */
static double entropy_of(uint32_t *numbers, size_t count)
{
    double sum = 0.0;
    qsort(numbers, count, sizeof *numbers, by_size);
    for (size_t start = 0, end = 0; start < count; start = end) {
        while (end < count && numbers[end] == numbers[start]) end++;
        double share = (double)(end - start) / (double)count;
        sum -= share * log(share);
    }
    return sum;
}

enum mt_status mt_paths(struct mt_context *ctx, const uint16_t *before, const uint16_t *here, int64_t tokens,
                        int slots, int experts, struct mt_path_figures *figures)
{
    void *memory = NULL;
    size_t count = tokens > 0 ? (size_t)tokens : 0;
    size_t k = (size_t)slots;
    *figures = (struct mt_path_figures){(double)NAN, (double)NAN};
    if (count == 0) return MT_OK;
    enum mt_status status = mt_allocate_array(ctx, count, sizeof(uint32_t), &memory);
    if (status != MT_OK) return status;
    uint32_t *numbers = memory;
    for (size_t i = 0; i < count; i++) numbers[i] = before[i * k];
    double apart = entropy_of(numbers, count);
    for (size_t i = 0; i < count; i++) numbers[i] = here[i * k];
    apart += entropy_of(numbers, count);
    for (size_t i = 0; i < count; i++) numbers[i] = (uint32_t)before[i * k] * (uint32_t)experts + here[i * k];
    figures->entropy = entropy_of(numbers, count);
    figures->information = fmax(0.0, apart - figures->entropy);
    mt_release(ctx, memory, count * sizeof(uint32_t));
    return MT_OK;
}
