/* Numbers as JSON. */
#include "analysis/numbers_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum mt_status mt_put_number(struct mt_json_text *text, double number)
{
    char digits[32];
    if (!isfinite(number)) return mt_json_text_format(text, "null");
    for (int precision = 15; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, number);
        if (strtod(digits, NULL) == number) break;
    }
    return mt_json_text_format(text, "%s", digits);
}

enum mt_status mt_put_numbers(struct mt_json_text *text, const double *numbers, int count)
{
    enum mt_status status = mt_json_text_format(text, "[");
    for (int i = 0; status == MT_OK && i < count; i++) {
        if (i > 0) status = mt_json_text_format(text, ", ");
        if (status == MT_OK) status = mt_put_number(text, numbers[i]);
    }
    return status == MT_OK ? mt_json_text_format(text, "]") : status;
}
