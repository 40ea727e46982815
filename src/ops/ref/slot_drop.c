/*
 * slot_drop: first what chance drops, token by token; then what capacity drops. Experts do not see each
 * other, so each is filled in its own pass over the slots, and a single counter serves them all.
 */
#include "base/rng.h"
#include "ops/ref/tokens.h"

/* True when slot s of token i loses its draw: share <= threshold · u. */
static bool loses_draw(const struct mt_slot_drop_args *a, int64_t i, int64_t s)
{
    if (s == 0 || !(a->threshold > 0.0f)) return false;
    int64_t slots = a->expert.dim[1];
    double total = 0.0;
    for (int64_t m = 0; m < slots; m++) total += ref_get2(&a->weight, i, m);
    double share = ref_get2(&a->weight, i, s) / total;
    float u = mt_rng_unit(mt_rng_u32(a->seed, a->stream, (uint64_t)(i * slots + s)));
    return share <= (double)a->threshold * (double)u;
}

/* Drops the slots of expert e beyond its capacity, in the order of s, then i. */
static void fill_expert(const struct mt_slot_drop_args *a, int32_t e)
{
    int64_t served = 0;
    for (int64_t s = 0; s < a->kept.dim[1]; s++) {
        for (int64_t i = 0; i < a->kept.dim[0]; i++) {
            if (ref_int2(&a->kept, i, s) != e) continue;
            if (served == a->capacity) {
                ref_set2(&a->kept, i, s, -1.0);
            } else {
                served++;
            }
        }
    }
}

enum mt_status mt_ref_slot_drop(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_slot_drop_args *a = args;
    for (int64_t i = 0; i < a->expert.dim[0]; i++) {
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            bool stays = e >= 0 && token_counts(&a->mask, i) && !loses_draw(a, i, s);
            ref_set2(&a->kept, i, s, stays ? (double)e : -1.0);
        }
    }
    for (int32_t e = 0; e < a->experts && a->capacity > 0; e++) fill_expert(a, e);
    return MT_OK;
}
