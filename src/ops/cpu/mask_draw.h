/*
 * Dropout's mask words, many side by side, one per SIMD lane (ops/dropout.h says what they are).
 *
 * Numbers are compared with the threshold from their highest bit down. An element is open while its bits are
 * the threshold's. After the two upper parts, eight bits, one word in eight still has an open element: these
 * are gathered, and only for them the lower parts are drawn.
 */
#ifndef MT_OPS_CPU_MASK_DRAW_H
#define MT_OPS_CPU_MASK_DRAW_H

#include "ops/cpu/philox.h"
#include "ops/dropout.h"

#define MASK_STRETCH   512 // words drawn together: few lanes are left empty by the open ones
#define MASK_ALL_PARTS 2   // from this part up a part is drawn for every word

_Static_assert(MASK_STRETCH % PHILOX_BLOCKS == 0, "a stretch is whole groups of lanes");

/* What a call draws. */
struct mask_draw {
    struct philox_keys keys;
    uint64_t stream;
    uint32_t threshold;
    int last_part; // the lowest that is drawn
};

static inline struct mask_draw mask_draw_of(float amount, uint64_t seed, uint64_t stream)
{
    uint32_t threshold = mt_dropout_threshold(amount);
    return (struct mask_draw){
        .keys = philox_keys_of(seed),
        .stream = stream,
        .threshold = threshold,
        .last_part = mt_dropout_last_part(threshold),
    };
}

/* PHILOX_BLOCKS mask words on their way, in lanes as philox_state has blocks. */
struct mask_lanes {
    philox_numbers index[PHILOX_REGISTERS]; // of the words in the stream
    philox_vector open[PHILOX_REGISTERS];   // bits of elements that are as the threshold so far
    philox_vector below[PHILOX_REGISTERS];  // of those below it
};

/* Narrows the search by the four bits of a part. */
VECTOR_INLINE void compare_part(const struct mask_draw *draw, int part, struct mask_lanes *lanes)
{
    philox_numbers block[PHILOX_REGISTERS];
    struct philox_state s;
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) block[r] = lanes->index[r] * MT_DROPOUT_PARTS + (uint64_t)part;
    philox_draw(&draw->keys, draw->stream, block, 7, &s);
    UNROLL
    for (int bit = 3; bit >= 0; bit--) {
        if ((draw->threshold >> (4 * part + bit) & 1u) != 0) {
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

/* The upper parts of PHILOX_BLOCKS words from `first` on; `kept` has what is not below the threshold. */
static inline void compare_upper_parts(const struct mask_draw *draw, uint64_t first, uint32_t *open,
                                       uint32_t *kept)
{
    struct mask_lanes lanes;
    philox_numbers lane = {0};
    for (int i = 0; i < PHILOX_LANES; i++) lane[i] = (uint64_t)i;
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) {
        lanes.index[r] = lane + (first + (uint64_t)(r * PHILOX_LANES));
        lanes.open[r] = (philox_vector){0} + UINT32_MAX;
        lanes.below[r] = (philox_vector){0};
    }
    for (int part = MT_DROPOUT_PARTS - 1; part >= MASK_ALL_PARTS && part >= draw->last_part; part--)
        compare_part(draw, part, &lanes);
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) lanes.below[r] = ~lanes.below[r];
    store_lanes(lanes.open, open);
    store_lanes(lanes.below, kept);
}

/*
 * A lower part of up to PHILOX_BLOCKS words, of which place[i] says where they are behind `first`. The places
 * of those that stay open come to the front of `still`, which may be `place`; returns their number.
 */
static inline int compare_lower_part(const struct mask_draw *draw, int part, uint64_t first,
                                     const int16_t *place, int count, uint32_t *open, uint32_t *kept,
                                     int16_t *still)
{
    uint64_t index[PHILOX_BLOCKS] = {0};
    uint32_t now_open[PHILOX_BLOCKS] = {0};
    uint32_t now_below[PHILOX_BLOCKS];
    struct mask_lanes lanes;
    for (int i = 0; i < count; i++) {
        index[i] = first + (uint64_t)place[i];
        now_open[i] = open[place[i]];
    }
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) {
        philox_words words;
        memcpy(&lanes.index[r], index + r * PHILOX_LANES, sizeof lanes.index[r]);
        memcpy(&words, now_open + r * PHILOX_LANES, sizeof words);
        lanes.open[r] = __builtin_convertvector(words, philox_vector);
        lanes.below[r] = (philox_vector){0};
    }
    compare_part(draw, part, &lanes);
    store_lanes(lanes.open, now_open);
    store_lanes(lanes.below, now_below);
    int found = 0;
    for (int i = 0; i < count; i++) {
        int16_t at = place[i];
        open[at] = now_open[i];
        kept[at] &= ~now_below[i];
        still[found] = at;
        found += now_open[i] != 0;
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
    uint32_t open[MASK_STRETCH];
    int16_t place[MASK_STRETCH]; // of words with open elements
    int listed = 0;
    if (draw->last_part == MT_DROPOUT_PARTS) {
        memset(kept, draw->threshold == 0 ? 0xFF : 0, (size_t)count * sizeof kept[0]);
        return;
    }
    for (int i = 0; i < count; i += PHILOX_BLOCKS) {
        compare_upper_parts(draw, first + (uint64_t)i, open + i, kept + i);
        for (int j = i; j < i + PHILOX_BLOCKS; j++) {
            place[listed] = (int16_t)j;
            listed += open[j] != 0;
        }
    }
    for (int part = MASK_ALL_PARTS - 1; part >= draw->last_part; part--) {
        int found = 0;
        for (int i = 0; i < listed; i += PHILOX_BLOCKS) {
            int together = listed - i < PHILOX_BLOCKS ? listed - i : PHILOX_BLOCKS;
            found += compare_lower_part(draw, part, first, place + i, together, open, kept, place + found);
        }
        listed = found;
    }
}

#endif
