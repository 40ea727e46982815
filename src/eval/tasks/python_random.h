/*
 * Python's random numbers (`random.Random(seed)`: the Mersenne Twister MT19937, Matsumoto and Nishimura 1998,
 * and how CPython makes numbers below a bound, draws and shuffles out of it). Published figures of
 * lm-evaluation-harness have examples and orders of choices that were drawn so; to ask the same, one has to
 * draw the same.
 */
#ifndef MT_EVAL_PYTHON_RANDOM_H
#define MT_EVAL_PYTHON_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#define MT_PYTHON_RANDOM_WORDS 624

/* Caller-owned. */
struct mt_python_random {
    uint32_t state[MT_PYTHON_RANDOM_WORDS];
    size_t next; // word of the state to hand out
};

/* random.seed(seed). */
void mt_python_random_seed(struct mt_python_random *random, uint64_t seed);

/* random._randbelow(bound), of a bound from 1 to 2^32 - 1. */
uint32_t mt_python_random_below(struct mt_python_random *random, uint32_t bound);

/* random.shuffle(items). */
void mt_python_random_shuffle(struct mt_python_random *random, unsigned char *items, uint32_t count);

/*
 * random.sample(range(count), wanted): `wanted` distinct numbers below `count`. `pool` is the caller's:
 * `count` numbers where count is small beside wanted (mt_python_random_pool), else unused.
 */
void mt_python_random_sample(struct mt_python_random *random, uint32_t count, uint32_t wanted, uint32_t *pool,
                             uint32_t *drawn);

/* How many numbers a pool for such a draw needs; 0: none. */
uint32_t mt_python_random_pool(uint32_t count, uint32_t wanted);

#endif
