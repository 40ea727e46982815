/* Placeholder of the interpreter: the interface, refusing everything. */
#include "text/jinja/jinja.h"

enum mt_status mt_jinja_parse(struct mt_context *ctx, const char *name, const char *text, size_t bytes,
                              struct mt_jinja **template)
{
    (void)text;
    (void)bytes;
    *template = NULL;
    return mt_fail(ctx, MT_ERR_UNSUPPORTED, "%s: chat templates in Jinja are not read yet", name);
}
