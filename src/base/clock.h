/* Time that only moves forward, for rates and time limits; not the time of day. */
#ifndef MT_BASE_CLOCK_H
#define MT_BASE_CLOCK_H

/* Seconds since some fixed moment, unmoved by clock adjustments. */
double mt_clock_seconds(void);

#endif
