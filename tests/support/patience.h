/* How many times as long as usual tests may take: METIER_TEST_PATIENCE, for emulated processors. */
#ifndef MT_TEST_PATIENCE_H
#define MT_TEST_PATIENCE_H

#include <stdlib.h>

static inline double test_patience(void)
{
    const char *text = getenv("METIER_TEST_PATIENCE");
    double times = text != NULL ? strtod(text, NULL) : 1.0;
    return times > 1.0 ? times : 1.0;
}

#endif
