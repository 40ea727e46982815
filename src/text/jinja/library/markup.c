/* Safe text, jinja2's Markup. */
#include "text/jinja/run.h"

struct mt_value jinja_safe(struct mt_marked text)
{
    struct mt_value value = marked_value(text);
    value.safe = true;
    return value;
}

enum mt_status jinja_escape(struct jinja_run *run, struct mt_value value, struct mt_value *result)
{
    static const char special[] = "&<>\"'";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    struct mt_marked text = {0};
    struct jinja_builder builder = {0};
    size_t start = 0;
    *result = value;
    if (value.kind == JINJA_STRING && value.safe) return MT_OK;
    enum mt_status status = jinja_to_text(run, value, &text);
    if (status == MT_OK) status = jinja_spend(run, text.bytes / 16);
    for (size_t at = 0; status == MT_OK && at < text.bytes; at++) {
        const char *found = text.text[at] != '\0' ? strchr(special, text.text[at]) : NULL;
        if (found == NULL) continue;
        status = jinja_put(run, &builder, marked_part(text, start, at));
        for (const char *c = entities[found - special]; status == MT_OK && *c != '\0'; c++)
            status = jinja_put_character(run, &builder, (unsigned char)*c, jinja_mark_at(text, at));
        start = at + 1;
    }
    if (status == MT_OK) status = jinja_put(run, &builder, marked_part(text, start, text.bytes));
    *result = jinja_safe(jinja_built(&builder));
    return status;
}

/* Escapes what join puts together, and what replace puts in. */
static enum mt_status escape_argument(struct jinja_run *run, const char *method, size_t place,
                                      struct mt_value *argument)
{
    struct jinja_list *list = NULL;
    struct jinja_list *escaped = NULL;
    if (strcmp(method, "replace") == 0 && place == 1) return jinja_escape(run, *argument, argument);
    if (strcmp(method, "join") != 0) return MT_OK;
    enum mt_status status = jinja_walk(run, *argument, &list);
    if (status == MT_OK) status = jinja_list_new(run, list->count, &escaped);
    for (size_t i = 0; status == MT_OK && i < list->count; i++) {
        struct mt_value item;
        status = jinja_escape(run, list->items[i], &item);
        if (status == MT_OK) status = jinja_list_add(run, escaped, item);
    }
    *argument = jinja_object(JINJA_LIST, escaped);
    return status;
}

enum mt_status jinja_call_safe_method(struct jinja_run *run, const struct jinja_method *method,
                                      const struct jinja_arguments *arguments, struct mt_value *result)
{
    const char *name = method->function->name;
    struct jinja_arguments given = *arguments;
    struct jinja_list *items = NULL;
    if (strcmp(name, "format") == 0)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "format of safe text is not known here");
    enum mt_status status = jinja_list_new(run, arguments->count, &items);
    for (size_t i = 0; status == MT_OK && i < arguments->count; i++) {
        struct mt_value argument = arguments->items[i];
        status = escape_argument(run, name, i, &argument);
        if (status == MT_OK) status = jinja_list_add(run, items, argument);
    }
    if (status != MT_OK) return status;
    given.items = items->items;
    status = method->function->call(run, method->subject, &given, result);
    if (status != MT_OK) return status;
    if (result->kind == JINJA_STRING) result->safe = true;
    if (result->kind != JINJA_LIST && result->kind != JINJA_TUPLE) return MT_OK;
    const struct jinja_list *parts = result->object; // made by the method, so ours to change
    for (size_t i = 0; i < parts->count; i++) parts->items[i].safe = true;
    return MT_OK;
}
