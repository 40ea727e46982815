/* Argument checks of sparsemixer: two slots, so two experts at the least. */
#include "ops/check/check.h"

static void check_logits(struct mt_check *c, const struct mt_tensor *logits, const struct mt_tensor *expert,
                         float jitter)
{
    mt_check_2d(c, "logits", logits, MT_CHECK_STAT, MT_ANY, MT_ANY);
    mt_check_value(c, logits->dim[1] >= 2, "the number of logits' columns", (double)logits->dim[1],
                   "2 or more");
    mt_check_2d(c, "expert", expert, MT_CHECK_INDEX, logits->dim[0], 2);
    mt_check_value(c, jitter >= 0, "jitter", (double)jitter, "0 or more");
}

void mt_check_sparsemixer_forward(struct mt_check *c, const struct mt_sparsemixer_forward_args *args)
{
    check_logits(c, &args->logits, &args->expert, args->jitter);
    mt_check_2d(c, "weight", &args->weight, MT_CHECK_STAT, args->logits.dim[0], 2);
}

void mt_check_sparsemixer_backward(struct mt_check *c, const struct mt_sparsemixer_backward_args *args)
{
    check_logits(c, &args->logits, &args->expert, args->jitter);
    int64_t tokens = args->logits.dim[0];
    int64_t experts = args->logits.dim[1];
    mt_check_range(c, "expert", &args->expert, 0, experts);
    mt_check_2d(c, "dweight", &args->dweight, MT_CHECK_STAT, tokens, 2);
    mt_check_2d(c, "dlogits", &args->dlogits, MT_CHECK_STAT, tokens, experts);
}
