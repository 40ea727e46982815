/* What an axis spans: round numbers around the data. share/report/report.js has the same rules. */
#ifndef MT_REPORT_AXIS_H
#define MT_REPORT_AXIS_H

#include <stdbool.h>

struct mt_axis_range {
    double low, high; // multiples of the step
    double step;      // between ticks: 1, 2 or 5 times a power of ten
};

/*
 * Around numbers from `low` to `high`. `zero`: 0 lies on the axis. `reach`: numbers that stay below it on
 * both sides are shown on an axis from -reach to reach, so that next to nothing looks like it; 0: none.
 * Equal numbers lie in the middle, or at the end where all are 0 and 0 is the base line.
 */
struct mt_axis_range mt_axis_around(double low, double high, bool zero, double reach);

#endif
