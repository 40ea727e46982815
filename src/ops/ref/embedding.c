/* embedding: y[t] = table[ids[t]]; backward dtable[ids[t]] += dy[t], in the order of t. */
#include "ops/ref/ref.h"

enum mt_status mt_ref_embedding_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_embedding_forward_args *a = args;
    for (int64_t t = 0; t < a->y.dim[0]; t++) {
        int64_t id = ref_int1(&a->ids, t);
        for (int64_t j = 0; j < a->y.dim[1]; j++) ref_set2(&a->y, t, j, ref_get2(&a->table, id, j));
    }
    return MT_OK;
}

enum mt_status mt_ref_embedding_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_embedding_backward_args *a = args;
    for (int64_t t = 0; t < a->dy.dim[0]; t++) {
        int64_t id = ref_int1(&a->ids, t);
        for (int64_t j = 0; j < a->dy.dim[1]; j++) {
            ref_set2(&a->dtable, id, j, ref_get2(&a->dtable, id, j) + ref_get2(&a->dy, t, j));
        }
    }
    return MT_OK;
}
