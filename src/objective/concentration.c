/* When a run is told that one expert works where several are paid for, and what it is told. */
#include "objective/concentration.h"

#include <math.h>
#include <stdio.h>

#define BETWEEN    1.5 // effective experts: below it one is nearer than two
#define SEVERAL    1.2 // to begin with; below it there is little to lose
#define LOST       0.5 // of what there was above 1
#define SURE_AFTER 2   // looks in a row

bool mt_concentration_due(uint64_t step)
{
    return step == 1 || step % MT_CONCENTRATION_EVERY == 0;
}

bool mt_concentration_is_drift(double start, double now)
{
    // Comparisons with what is not known are false.
    return start >= SEVERAL && now < BETWEEN && now < 1.0 + LOST * (start - 1.0);
}

bool mt_concentration_look(struct mt_concentration *memory, uint64_t step, bool last, double effective)
{
    if (!isfinite(effective)) return false;
    if (isnan(memory->start)) memory->start = effective;
    memory->last = effective;
    memory->low = mt_concentration_is_drift(memory->start, effective) ? memory->low + 1 : 0;
    if (memory->low < (last ? 1 : SURE_AFTER) || memory->reported != 0) return false;
    memory->reported = step;
    return true;
}

void mt_concentration_text(double start, double now, const struct mt_concentration_cause *cause,
                           char text[MT_CONCENTRATION_TEXT_BYTES])
{
    char cure[MT_CONCENTRATION_TEXT_BYTES - 64];
    if (cause->gamma > 0.0)
        (void)snprintf(cure, sizeof cure,
                       "L_v has no end of its own: %s, lower objective.gamma (now %g), or train fewer steps",
                       cause->target ? "lower objective.brake_target" : "set objective.brake to target",
                       cause->gamma);
    else if (cause->lambda_cp > 0.0)
        (void)snprintf(cure, sizeof cure,
                       "L_cp pulls scores together: lower objective.lambda_cp (now %g), or train fewer steps",
                       cause->lambda_cp);
    else
        (void)snprintf(cure, sizeof cure, "lower optimizer.lr, or train fewer steps");
    (void)snprintf(text, MT_CONCENTRATION_TEXT_BYTES, "%.2f effective experts a token, %.2f at the start; %s",
                   now, start, cure);
}
