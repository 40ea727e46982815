/* Numbers as JSON: the shortest text that reads back as the same double; null for what is not finite. */
#ifndef MT_ANALYSIS_NUMBERS_JSON_H
#define MT_ANALYSIS_NUMBERS_JSON_H

#include "formats/text/json_text.h"

enum mt_status mt_put_number(struct mt_json_text *text, double number);

/* A number to so many digits, for pictures. */
enum mt_status mt_put_rounded(struct mt_json_text *text, double number, int digits);

/* [1, 2, null] */
enum mt_status mt_put_numbers(struct mt_json_text *text, const double *numbers, int count);

#endif
