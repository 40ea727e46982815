/* Python's random numbers. */
#include "eval/tasks/python_random.h"

#include <stdbool.h>

#define WORDS  MT_PYTHON_RANDOM_WORDS
#define MIDDLE 397
#define SMALL  21 // sample(): up to so many numbers a pool is smaller than a set

static void seed_by_number(struct mt_python_random *random, uint32_t seed)
{
    random->state[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) {
        uint32_t before = random->state[i - 1];
        random->state[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
}

void mt_python_random_seed(struct mt_python_random *random, uint64_t seed)
{
    // init_by_array of the seed's words of 32 bits, the lowest first.
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t length = key[1] != 0 ? 2 : 1;
    uint32_t *state = random->state;
    seed_by_number(random, 19650218u);
    uint32_t i = 1;
    for (uint32_t k = 0; k < WORDS; k++) {
        uint32_t j = k % length;
        state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1664525u)) + key[j] + j;
        if (++i == WORDS) {
            state[0] = state[WORDS - 1];
            i = 1;
        }
    }
    for (uint32_t k = 1; k < WORDS; k++) {
        state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1566083941u)) - i;
        if (++i == WORDS) {
            state[0] = state[WORDS - 1];
            i = 1;
        }
    }
    state[0] = 0x80000000u;
    random->next = WORDS;
}

static void twist(struct mt_python_random *random)
{
    uint32_t *state = random->state;
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t mixed = (state[i] & 0x80000000u) | (state[(i + 1) % WORDS] & 0x7FFFFFFFu);
        state[i] = state[(i + MIDDLE) % WORDS] ^ (mixed >> 1) ^ ((mixed & 1) != 0 ? 0x9908B0DFu : 0);
    }
    random->next = 0;
}

static uint32_t next_word(struct mt_python_random *random)
{
    if (random->next == WORDS) twist(random);
    uint32_t word = random->state[random->next++];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9D2C5680u;
    word ^= (word << 15) & 0xEFC60000u;
    return word ^ (word >> 18);
}

uint32_t mt_python_random_below(struct mt_python_random *random, uint32_t bound)
{
    int bits = 1;
    while (bits < 32 && (bound >> bits) != 0) bits++;
    uint32_t number = next_word(random) >> (32 - bits);
    while (number >= bound) number = next_word(random) >> (32 - bits);
    return number;
}

void mt_python_random_shuffle(struct mt_python_random *random, unsigned char *items, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = mt_python_random_below(random, i);
        unsigned char kept = items[i - 1];
        items[i - 1] = items[other];
        items[other] = kept;
    }
}

uint32_t mt_python_random_pool(uint32_t count, uint32_t wanted)
{
    uint64_t set = SMALL; // sample()'s own guess of what a set of so many numbers takes
    uint64_t power = 1;
    while (wanted > 5 && power < (uint64_t)wanted * 3) power *= 4;
    if (wanted > 5) set += power;
    return count <= set ? count : 0;
}

void mt_python_random_sample(struct mt_python_random *random, uint32_t count, uint32_t wanted, uint32_t *pool,
                             uint32_t *drawn)
{
    bool pooled = mt_python_random_pool(count, wanted) > 0;
    for (uint32_t i = 0; pooled && i < count; i++) pool[i] = i;
    for (uint32_t i = 0; i < wanted; i++) {
        if (pooled) {
            uint32_t at = mt_python_random_below(random, count - i);
            drawn[i] = pool[at];
            pool[at] = pool[count - i - 1];
            continue;
        }
        bool again = true;
        while (again) {
            drawn[i] = mt_python_random_below(random, count);
            again = false;
            for (uint32_t k = 0; k < i; k++) again = again || drawn[k] == drawn[i];
        }
    }
}
