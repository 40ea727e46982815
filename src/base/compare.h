/* Orders for qsort and bsearch, and how a text ends. */
#ifndef MT_BASE_COMPARE_H
#define MT_BASE_COMPARE_H

#include <stdbool.h>
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

static inline bool mt_ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text);
    size_t tail = strlen(ending);
    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

#endif
