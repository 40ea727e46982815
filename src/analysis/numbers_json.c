/* Numbers as JSON. */
#include "analysis/numbers_json.h"

#include <math.h>

#include "base/exact.h"

enum mt_status mt_put_number(struct mt_json_text *text, double number)
{
    char digits[MT_EXACT_BYTES];
    return mt_json_text_format(text, "%s", isfinite(number) ? mt_exact_text(number, digits) : "null");
}

enum mt_status mt_put_rounded(struct mt_json_text *text, double number, int digits)
{
    return isfinite(number) ? mt_json_text_format(text, "%.*g", digits, number)
                            : mt_json_text_format(text, "null");
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
