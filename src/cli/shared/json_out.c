/* JSON of jansson's values, on standard output. */
#include "cli/shared/json_out.h"

#include <math.h>
#include <stdio.h>

json_t *cli_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

enum mt_status cli_print_json(struct mt_context *ctx, json_t *value, const char *name)
{
    if (value == NULL)
        return mt_fail(ctx, MT_ERR_MEMORY, "%s: cannot be put into JSON (out of memory, or not UTF-8)", name);
    int failed = json_dumpf(value, stdout, JSON_INDENT(2));
    json_decref(value);
    if (failed != 0 || printf("\n") < 0) return mt_fail(ctx, MT_ERR_IO, "cannot write standard output");
    return MT_OK;
}
