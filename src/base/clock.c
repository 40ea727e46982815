/* The system's monotonic clock. */
#include "base/clock.h"

#include <time.h>

double mt_clock_seconds(void)
{
    struct timespec now;
    // Cannot fail: the clock is one POSIX demands, the address is valid.
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
