/* rope: each pair (a,b) of a head becomes (a·cos - b·sin, a·sin + b·cos) at its token's position. */
#include "ops/ref/rotate.h"

enum mt_status mt_ref_rope(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_rope_args *r = args;
    int64_t width = r->x.dim[2];
    for (int64_t t = 0; t < r->x.dim[0]; t++) {
        int64_t position = ref_int1(&r->positions, t);
        for (int64_t h = 0; h < r->x.dim[1]; h++) {
            for (int64_t i = 0; i < width / 2; i++) {
                struct ref_pair pair = ref_rope_pair(r->layout, width, i);
                // Both are read before either is written: y may be x.
                double a = ref_get3(&r->x, t, h, pair.first);
                double b = ref_get3(&r->x, t, h, pair.second);
                ref_rotate(&r->cosine, &r->sine, position, i, r->inverse, &a, &b);
                ref_set3(&r->y, t, h, pair.first, a);
                ref_set3(&r->y, t, h, pair.second, b);
            }
        }
    }
    return MT_OK;
}
