/* Loss-free balancing: the selection bias moves against the loads of the step that just ended (2408.15664).
 */
#include "metier/objective.h"

void mt_bias_update(enum mt_bias_rule rule, double rate, const double *load, int experts, float *bias)
{
    double mean = 0.0;
    for (int j = 0; j < experts; j++) mean += load[j] / experts;
    if (rule == MT_BIAS_NONE || !(mean > 0.0)) return;
    for (int j = 0; j < experts; j++) {
        double error = mean - load[j];
        double sign = (error > 0.0) - (error < 0.0);
        // The proportional rule is in shares of the mean, so that the rate does not depend on the batch's
        // size.
        double push = rule == MT_BIAS_SIGN ? sign : error / mean;
        bias[j] = (float)((double)bias[j] + rate * push);
    }
}
