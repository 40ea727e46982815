/*
 * Multiplications of 32-bit words in vectors, in chains that do not wait for each other: the low half of a
 * product, with the high half in it, is the next factor. Compiled once per instruction-set level, YARDSTICK
 * being the level's own name of the function.
 */
#include "ops/cpu/elementwise/philox.h"
#include "ops/yardstick.h"

#define CHAINS 8

uint64_t YARDSTICK(int64_t count)
{
    philox_vector word[CHAINS];
    const philox_vector factor = (philox_vector){0} + 0xD2511F53u;
    UNROLL
    for (int i = 0; i < CHAINS; i++) word[i] = (philox_vector){0} + (uint32_t)(i + 1);
    for (int64_t done = 0; done < count; done += (int64_t)CHAINS * PHILOX_LANES) {
        UNROLL
        for (int i = 0; i < CHAINS; i++) {
            philox_vector low;
            philox_vector high;
            multiply_words(factor, word[i], &low, &high);
            word[i] = low ^ high;
        }
    }
    uint64_t sum = 0; // so that nothing is left out
    for (int i = 0; i < CHAINS; i++) sum += (uint64_t)word[i][0];
    return sum;
}
