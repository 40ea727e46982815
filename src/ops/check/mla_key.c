/* Argument checks of mla_key. */
#include "ops/check/rope.h"

enum mt_status mt_check_mla_key_forward(const struct mt_device *device,
                                        const struct mt_mla_key_forward_args *args)
{
    enum mt_status status = mt_check_3d(device, "nope", &args->nope, MT_CHECK_FLOAT, MT_ANY, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->nope.dim[0];
    int64_t heads = args->nope.dim[1];
    status = mt_check_2d(device, "shared", &args->shared, MT_CHECK_FLOAT, tokens, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rotated = args->shared.dim[1];
    status =
        mt_check_3d(device, "key", &args->key, MT_CHECK_FLOAT, tokens, heads, args->nope.dim[2] + rotated);
    if (status != MT_OK) return status;
    return mt_check_rotation(device, &args->positions, &args->cosine, &args->sine, tokens, rotated,
                             args->layout);
}

enum mt_status mt_check_mla_key_backward(const struct mt_device *device,
                                         const struct mt_mla_key_backward_args *args)
{
    enum mt_status status =
        mt_check_3d(device, "dnope", &args->dnope, MT_CHECK_FLOAT, MT_ANY, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->dnope.dim[0];
    int64_t heads = args->dnope.dim[1];
    status = mt_check_2d(device, "dshared", &args->dshared, MT_CHECK_FLOAT, tokens, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rotated = args->dshared.dim[1];
    status =
        mt_check_3d(device, "dkey", &args->dkey, MT_CHECK_FLOAT, tokens, heads, args->dnope.dim[2] + rotated);
    if (status != MT_OK) return status;
    return mt_check_rotation(device, &args->positions, &args->cosine, &args->sine, tokens, rotated,
                             args->layout);
}
