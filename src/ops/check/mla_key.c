/* Argument checks of mla_key. */
#include "ops/check/check.h"

void mt_check_mla_key_forward(struct mt_check *c, const struct mt_mla_key_forward_args *args)
{
    mt_check_3d(c, "nope", &args->nope, MT_CHECK_FLOAT, MT_ANY, MT_ANY, MT_ANY);
    int64_t tokens = args->nope.dim[0];
    int64_t heads = args->nope.dim[1];
    mt_check_2d(c, "shared", &args->shared, MT_CHECK_FLOAT, tokens, MT_ANY);
    int64_t rotated = args->shared.dim[1];
    mt_check_3d(c, "key", &args->key, MT_CHECK_FLOAT, tokens, heads, args->nope.dim[2] + rotated);
    mt_check_rotation(c, &args->positions, &args->cosine, &args->sine, tokens, rotated, args->layout);
}

void mt_check_mla_key_backward(struct mt_check *c, const struct mt_mla_key_backward_args *args)
{
    mt_check_3d(c, "dnope", &args->dnope, MT_CHECK_FLOAT, MT_ANY, MT_ANY, MT_ANY);
    int64_t tokens = args->dnope.dim[0];
    int64_t heads = args->dnope.dim[1];
    mt_check_2d(c, "dshared", &args->dshared, MT_CHECK_FLOAT, tokens, MT_ANY);
    int64_t rotated = args->dshared.dim[1];
    mt_check_3d(c, "dkey", &args->dkey, MT_CHECK_FLOAT, tokens, heads, args->dnope.dim[2] + rotated);
    mt_check_rotation(c, &args->positions, &args->cosine, &args->sine, tokens, rotated, args->layout);
}
