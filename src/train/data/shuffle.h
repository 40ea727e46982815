/*
 * A shuffled order that nobody has to store: place `index` of a permutation of 0 … count-1, computed from the
 * seed alone. A Feistel network permutes the numbers of an even count of bits; walking along its cycle until
 * the result is below `count` makes that a permutation of any count (fewer than four steps on average).
 */
#ifndef MT_TRAIN_SHUFFLE_H
#define MT_TRAIN_SHUFFLE_H

#include <stdint.h>

/* index < count; `stream` separates permutations of one seed. */
uint64_t mt_shuffle(uint64_t seed, uint64_t stream, uint64_t count, uint64_t index);

#endif
