/* given_experts: k² comparisons and a copy per token. */
#include <string.h>

#include "ops/cpu/level.h"

static int32_t *index_row(const struct mt_tensor *index, int64_t i)
{
    return (int32_t *)index->data + i * index->stride[0];
}

static int64_t count_agreed(const int32_t *given, const int32_t *expert, int64_t slots)
{
    int64_t count = 0;
    for (int64_t s = 0; s < slots; s++) {
        for (int64_t m = 0; m < slots; m++) count += given[s] == expert[m];
    }
    return count;
}

void MT_CPU(given_experts)(struct mt_device *device, const struct mt_given_experts_args *a)
{
    bool counts = mt_tensor_present(&a->agreed);
    int64_t slots = a->given.dim[1];
    int64_t tokens = a->given.dim[0];
#pragma omp parallel for num_threads(cpu_threads(device, tokens *slots *slots)) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        const int32_t *given = index_row(&a->given, i);
        int32_t *expert = index_row(&a->expert, i);
        bool known = slots > 0 && given[0] >= 0;
        if (counts) {
            float *agreed = cpu_row(&a->agreed, i);
            agreed[0] = known ? (float)count_agreed(given, expert, slots) : 0.0f;
            agreed[1] = known ? (float)slots : 0.0f;
        }
        if (known) memcpy(expert, given, (size_t)slots * sizeof *expert);
    }
}
