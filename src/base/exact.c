/* Doubles in as few digits as say them exactly. */
#include "base/exact.h"

#include <stdio.h>
#include <stdlib.h>

const char *mt_exact_text(double number, char text[MT_EXACT_BYTES])
{
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, MT_EXACT_BYTES, "%.*g", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    return text;
}
