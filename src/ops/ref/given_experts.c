/* given_experts: token by token, counting what agrees before it is overwritten. */
#include "ops/ref/ref.h"

/* How many of a token's given experts the router has chosen itself. */
static int64_t count_agreed(const struct mt_given_experts_args *a, int64_t i)
{
    int64_t slots = a->given.dim[1];
    int64_t count = 0;
    for (int64_t s = 0; s < slots; s++) {
        for (int64_t m = 0; m < slots; m++) count += ref_int2(&a->given, i, s) == ref_int2(&a->expert, i, m);
    }
    return count;
}

enum mt_status mt_ref_given_experts(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_given_experts_args *a = args;
    int64_t slots = a->given.dim[1];
    for (int64_t i = 0; i < a->given.dim[0]; i++) {
        bool given = slots > 0 && ref_int2(&a->given, i, 0) >= 0;
        if (mt_tensor_present(&a->agreed)) {
            ref_set2(&a->agreed, i, 0, given ? (double)count_agreed(a, i) : 0.0);
            ref_set2(&a->agreed, i, 1, given ? (double)slots : 0.0);
        }
        for (int64_t s = 0; given && s < slots; s++)
            ref_set2(&a->expert, i, s, (double)ref_int2(&a->given, i, s));
    }
    return MT_OK;
}
