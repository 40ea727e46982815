/*
 * Sums that do not depend on the order of what is added: several ranks, or an engine that computes many
 * sequences together, add the same numbers in another order and must get the same bits.
 *
 * A number is cut into a multiple of 2^-24 and a rest, the rest rounded to a multiple of 2^-50. Both are then
 * added without any rounding, as long as numbers stay below 2^27, their sum below 2^29, and there are at most
 * 2^28 of them. What is lost is at most 2^-51 of each number.
 */
#ifndef MT_BASE_ANY_ORDER_H
#define MT_BASE_ANY_ORDER_H

struct mt_any_order {
    double high, low; // zeroed: nothing was added
};

/* sum += value. Adding a large number and taking it away again leaves what its last binary place can hold. */
static inline void mt_any_order_add(struct mt_any_order *sum, double value)
{
    const double to_24_places = 0x1.8p28; // 1.5 · 2^(52-24)
    const double to_50_places = 0x1.8p2;  // 1.5 · 2^(52-50)
    double high = (value + to_24_places) - to_24_places;
    double low = ((value - high) + to_50_places) - to_50_places;
    sum->high += high;
    sum->low += low;
}

/* sum += other, likewise without rounding. */
static inline void mt_any_order_merge(struct mt_any_order *sum, const struct mt_any_order *other)
{
    sum->high += other->high;
    sum->low += other->low;
}

static inline double mt_any_order_value(const struct mt_any_order *sum)
{
    return sum->high + sum->low;
}

#endif
