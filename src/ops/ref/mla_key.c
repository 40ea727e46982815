/*
 * mla_key: key[t,h] = [nope[t,h] | rope(shared[t])].
 * Backward: dnope[t,h] = dkey[t,h,:Dn]; dshared[t] = rope⁻¹(Σ_h dkey[t,h,Dn:]).
 */
#include "ops/ref/rotate.h"

enum mt_status mt_ref_mla_key_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_mla_key_forward_args *m = args;
    int64_t heads = m->nope.dim[1];
    int64_t plain = m->nope.dim[2];
    int64_t rotated = m->shared.dim[1];
    for (int64_t t = 0; t < m->nope.dim[0]; t++) {
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t j = 0; j < plain; j++) ref_set3(&m->key, t, h, j, ref_get3(&m->nope, t, h, j));
        }
        int64_t position = ref_int1(&m->positions, t);
        for (int64_t i = 0; i < rotated / 2; i++) {
            struct ref_pair pair = ref_rope_pair(m->layout, rotated, i);
            double a = ref_get2(&m->shared, t, pair.first);
            double b = ref_get2(&m->shared, t, pair.second);
            ref_rotate(&m->cosine, &m->sine, position, i, false, &a, &b);
            for (int64_t h = 0; h < heads; h++) {
                ref_set3(&m->key, t, h, plain + pair.first, a);
                ref_set3(&m->key, t, h, plain + pair.second, b);
            }
        }
    }
    return MT_OK;
}

enum mt_status mt_ref_mla_key_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_mla_key_backward_args *m = args;
    int64_t heads = m->dnope.dim[1];
    int64_t plain = m->dnope.dim[2];
    int64_t rotated = m->dshared.dim[1];
    for (int64_t t = 0; t < m->dnope.dim[0]; t++) {
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t j = 0; j < plain; j++) ref_set3(&m->dnope, t, h, j, ref_get3(&m->dkey, t, h, j));
        }
        int64_t position = ref_int1(&m->positions, t);
        for (int64_t i = 0; i < rotated / 2; i++) {
            struct ref_pair pair = ref_rope_pair(m->layout, rotated, i);
            double a = 0.0;
            double b = 0.0;
            for (int64_t h = 0; h < heads; h++) {
                a += ref_get3(&m->dkey, t, h, plain + pair.first);
                b += ref_get3(&m->dkey, t, h, plain + pair.second);
            }
            ref_rotate(&m->cosine, &m->sine, position, i, true, &a, &b);
            ref_set2(&m->dshared, t, pair.first, a);
            ref_set2(&m->dshared, t, pair.second, b);
        }
    }
    return MT_OK;
}
