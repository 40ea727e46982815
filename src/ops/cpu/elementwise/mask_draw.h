/*
 * Dropout's mask words, many side by side, one per SIMD lane (ops/dropout.h says what they are).
 *
 * Numbers are compared with the threshold from their highest bit down. An element is open while its bits are
 * the threshold's. After the two upper parts, eight bits, one word in eight still has an open element: these
 * are gathered, and only for them the lower parts are drawn.
 */
#ifndef MT_OPS_CPU_MASK_DRAW_H
#define MT_OPS_CPU_MASK_DRAW_H

#include "ops/cpu/elementwise/philox.h"
#include "ops/dropout.h"
#include "ops/ref/mask.h"

#define MASK_STRETCH   1024 // words drawn together: few lanes are left empty by the open ones
#define MASK_ALL_PARTS 2    // from this part up a part is drawn for every word
#define MASK_LISTED    4    // words whose places are listed together

_Static_assert(MASK_STRETCH % PHILOX_BLOCKS == 0, "a stretch is whole groups of lanes");

/* What a call draws. */
struct mask_draw {
    uint64_t seed;
    uint64_t stream;
    uint32_t threshold;
    int last_part; // the lowest that is drawn
};

static inline struct mask_draw mask_draw_of(float amount, uint64_t seed, uint64_t stream)
{
    uint32_t threshold = mt_dropout_threshold(amount);
    return (struct mask_draw){
        .seed = seed,
        .stream = stream,
        .threshold = threshold,
        .last_part = mt_dropout_last_part(threshold),
    };
}

/* A stretch of mask words on its way. Numbers of blocks are lower halves: the upper one is in the keys. */
struct mask_stretch {
    struct philox_keys keys;
    uint32_t block; // the first of the first word's
    uint32_t threshold;
    uint32_t open[MASK_STRETCH];               // bits of elements that are as the threshold so far
    int16_t place[MASK_STRETCH + MASK_LISTED]; // of words with open elements, and room
    int listed;
};

/* PHILOX_BLOCKS mask words, in lanes as philox_state has blocks. */
struct mask_lanes {
    philox_vector block[PHILOX_REGISTERS]; // the first of each word's
    philox_vector open[PHILOX_REGISTERS];  // the upper halves of lanes, if they have any, are 0
    philox_vector below[PHILOX_REGISTERS]; // bits of elements below the threshold
};

/* Narrows the search by the four bits of a part. */
VECTOR_INLINE void compare_part(const struct mask_stretch *m, int part, struct mask_lanes *lanes)
{
    philox_vector block[PHILOX_REGISTERS];
    struct philox_state s;
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) block[r] = lanes->block[r] + (uint32_t)part;
    philox_draw(&m->keys, block, 7, &s);
    UNROLL
    for (int bit = 3; bit >= 0; bit--) {
        if ((m->threshold >> (4 * part + bit) & 1u) != 0) {
            UNROLL
            for (int r = 0; r < PHILOX_REGISTERS; r++) {
                lanes->below[r] |= lanes->open[r] & ~s.word[bit][r];
                lanes->open[r] &= s.word[bit][r];
            }
        } else {
            UNROLL
            for (int r = 0; r < PHILOX_REGISTERS; r++) lanes->open[r] &= ~s.word[bit][r];
        }
    }
}

/* The words of lanes. */
VECTOR_INLINE void store_lanes(const philox_vector value[PHILOX_REGISTERS], uint32_t *words)
{
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) {
        philox_words narrow = __builtin_convertvector(value[r], philox_words);
        memcpy(words + r * PHILOX_LANES, &narrow, sizeof narrow);
    }
}

/* A bit for every lane that is not 0. */
VECTOR_INLINE uint32_t lanes_set(philox_vector value)
{
#if defined(__AVX512F__)
    typedef long long numbers __attribute__((vector_size(64)));
    return __builtin_ia32_cmpq512_mask((numbers)value, (numbers){0}, 4 /* not equal */, 0xFF);
#elif defined(__AVX2__)
    typedef double numbers __attribute__((vector_size(32)));
    return ~(uint32_t)__builtin_ia32_movmskpd256((numbers)(value == 0)) & 15u;
#else
    uint32_t set = 0;
    for (int i = 0; i < PHILOX_LANES; i++) set |= (uint32_t)(value[i] != 0) << i;
    return set;
#endif
}

/* Appends to the list the places, from `place` on, of the set ones among MASK_LISTED bits. */
static inline void list_places(struct mask_stretch *m, uint32_t set, int place)
{
    static const uint64_t places[1 << MASK_LISTED] = {
        // 16 bits each, the first lowest
        0, 0,       1,       0x10000,     2,       0x20000,     0x20001,     0x200010000,
        3, 0x30000, 0x30001, 0x300010000, 0x30002, 0x300020000, 0x300020001, 0x3000200010000,
    };
    uint64_t found = places[set] + (uint64_t)place * 0x0001000100010001u;
    memcpy(m->place + m->listed, &found, sizeof found);
    m->listed += __builtin_popcount(set);
}

/* The upper parts of PHILOX_BLOCKS words from `place` on; `kept` has what is not below the threshold. */
static inline void compare_upper_parts(struct mask_stretch *m, int last_part, int place, uint32_t *kept)
{
    struct mask_lanes lanes;
    philox_vector lane = {0};
    for (uint32_t i = 0; i < PHILOX_LANES; i++) lane[i] = i * MT_DROPOUT_PARTS;
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) {
        lanes.block[r] = lane + (m->block + (uint32_t)(place + r * PHILOX_LANES) * MT_DROPOUT_PARTS);
        lanes.open[r] = (philox_vector){0} + UINT32_MAX;
        lanes.below[r] = (philox_vector){0};
    }
    for (int part = MT_DROPOUT_PARTS - 1; part >= MASK_ALL_PARTS && part >= last_part; part--)
        compare_part(m, part, &lanes);
    store_lanes(lanes.open, m->open + place);
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) {
        uint32_t set = lanes_set(lanes.open[r]);
        lanes.below[r] = ~lanes.below[r];
        UNROLL
        for (int i = 0; i < PHILOX_LANES; i += MASK_LISTED)
            list_places(m, set >> i & ((1u << MASK_LISTED) - 1u), place + r * PHILOX_LANES + i);
    }
    store_lanes(lanes.below, kept + place);
}

/*
 * A lower part of listed words [from, from + count), at most PHILOX_BLOCKS. Those that stay open are listed
 * again, from `still` on, which is not after `from`; returns their number.
 */
static inline int compare_lower_part(struct mask_stretch *m, int part, int from, int count, int still,
                                     uint32_t *kept)
{
    uint32_t block[PHILOX_BLOCKS] = {0};
    uint32_t open[PHILOX_BLOCKS] = {0};
    uint32_t below[PHILOX_BLOCKS];
    struct mask_lanes lanes;
    for (int i = 0; i < count; i++) {
        int16_t place = m->place[from + i];
        block[i] = m->block + (uint32_t)place * MT_DROPOUT_PARTS;
        open[i] = m->open[place];
    }
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) {
        philox_words words;
        memcpy(&words, block + r * PHILOX_LANES, sizeof words);
        lanes.block[r] = __builtin_convertvector(words, philox_vector);
        memcpy(&words, open + r * PHILOX_LANES, sizeof words);
        lanes.open[r] = __builtin_convertvector(words, philox_vector);
        lanes.below[r] = (philox_vector){0};
    }
    compare_part(m, part, &lanes);
    store_lanes(lanes.open, open);
    store_lanes(lanes.below, below);
    int found = 0;
    for (int i = 0; i < count; i++) {
        int16_t place = m->place[from + i];
        m->open[place] = open[i];
        kept[place] &= ~below[i];
        m->place[still + found] = place;
        found += open[i] != 0;
    }
    return found;
}

/*
 * What dropout keeps, of words `first` on: `count` of them, at most MASK_STRETCH, for which `kept` has room
 * in any case.
 */
static inline void draw_mask(const struct mask_draw *draw, uint64_t first, int count,
                             uint32_t kept[MASK_STRETCH])
{
    if (draw->last_part == MT_DROPOUT_PARTS) {
        memset(kept, draw->threshold == 0 ? 0xFF : 0, (size_t)count * sizeof kept[0]);
        return;
    }
    uint64_t block = first * MT_DROPOUT_PARTS;
    struct mask_stretch m; // its arrays are written before they are read
    m.keys = philox_keys_of(draw->seed, draw->stream, block);
    m.block = (uint32_t)block;
    m.threshold = draw->threshold;
    m.listed = 0;
    if ((block + MASK_STRETCH * MT_DROPOUT_PARTS - 1) >> 32 != m.keys.upper) {
        for (int i = 0; i < count; i++)
            kept[i] = ref_mask_word(draw->seed, draw->stream, draw->threshold, first + (uint64_t)i);
        return;
    }
    for (int i = 0; i < count; i += PHILOX_BLOCKS) compare_upper_parts(&m, draw->last_part, i, kept);
    for (int part = MASK_ALL_PARTS - 1; part >= draw->last_part; part--) {
        int found = 0;
        for (int i = 0; i < m.listed; i += PHILOX_BLOCKS) {
            int together = m.listed - i < PHILOX_BLOCKS ? m.listed - i : PHILOX_BLOCKS;
            found += compare_lower_part(&m, part, i, together, found, kept);
        }
        m.listed = found;
    }
}

#endif
