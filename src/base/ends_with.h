/* How a text ends. */
#ifndef MT_BASE_ENDS_WITH_H
#define MT_BASE_ENDS_WITH_H

#include <stdbool.h>
#include <string.h>

static inline bool mt_ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text);
    size_t tail = strlen(ending);
    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

#endif
