/* What an axis spans. */
#include "report/axis.h"

#include <math.h>

#define TICKS 5.0  // about so many on an axis
#define SLACK 1e-9 // of a step: 0.3 / 0.1 is a little less than 3

/* 1, 2 or 5 times a power of ten. */
static double round_step(double step)
{
    double power = pow(10, floor(log10(step)));
    double digit = step / power;
    if (digit <= 1) return power;
    if (digit <= 2) return 2 * power;
    return (digit <= 5 ? 5 : 10) * power;
}

struct mt_axis_range mt_axis_around(double low, double high, bool zero, double reach)
{
    if (zero) {
        low = fmin(low, 0);
        high = fmax(high, 0);
    }
    if (low > -reach && high < reach) {
        low = -reach;
        high = reach;
    }
    if (low == high && low != 0) {
        double half = fabs(low) / 4;
        low -= half;
        high += half;
    } else if (low == high) {
        low = zero ? 0 : -0.5;
        high = zero ? 1 : 0.5;
    }
    // Numbers so large that their distance is not one are drawn as if they were halved.
    double half = high / 2 - low / 2;
    struct mt_axis_range range = {.step = round_step(fmin(2 * half, 1e300) / TICKS)};
    range.low = floor(low / range.step + SLACK) * range.step;
    range.high = ceil(high / range.step - SLACK) * range.step;
    if (range.high <= range.low) range.high = range.low + range.step;
    return range;
}
