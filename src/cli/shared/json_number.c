/* Numbers for jansson, which refuses those that are not finite. */
#include "cli/shared/json_number.h"

#include <math.h>

json_t *cli_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
