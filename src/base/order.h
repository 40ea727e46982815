/* Orders for qsort and bsearch. */
#ifndef MT_BASE_ORDER_H
#define MT_BASE_ORDER_H

#include <string.h>

/* double, rising. */
static inline int mt_by_number(const void *a, const void *b)
{
    double one = *(const double *)a;
    double other = *(const double *)b;
    return (one > other) - (one < other);
}

/* const char *, as strcmp has it. */
static inline int mt_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

#endif
