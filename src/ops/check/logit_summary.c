/* Argument checks of logit_summary. */
#include "ops/check/check.h"

void mt_check_logit_summary(struct mt_check *c, const struct mt_logit_summary_args *args)
{
    mt_check_2d(c, "logits", &args->logits, MT_CHECK_STAT, MT_ANY, MT_ANY);
    mt_check_1d(c, "highest", &args->highest, MT_CHECK_INDEX, args->logits.dim[0]);
    mt_check_optional_1d(c, "log_sum", &args->log_sum, MT_CHECK_F64, args->logits.dim[0]);
}
