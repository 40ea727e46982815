/* Global functions: range, dict, namespace, joiner, cycler, raise_exception, strftime_now. */
#include <time.h>

#include "text/jinja/library/library.h"

#define RANGE_MOST 100000 // items, as in jinja2's sandbox
#define RANGE_EDGE ((int64_t)1 << 53)

static enum mt_status make_range(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    int64_t bounds[3] = {0, 0, 1};
    void *memory = NULL;
    (void)subject;
    if (arguments->keyword_count != 0 || arguments->count == 0 || arguments->count > 3)
        return jinja_fail(run, MT_ERR_FORMAT, "range takes one to three integers");
    for (size_t i = 0; i < arguments->count; i++) {
        size_t place = arguments->count == 1 ? 1 : i;
        if (!jinja_as_integer(arguments->items[i], &bounds[place])) {
            return jinja_fail(run, MT_ERR_FORMAT, "range: '%s' object cannot be interpreted as an integer",
                              jinja_type_name(arguments->items[i]));
        }
        if (bounds[place] > RANGE_EDGE || bounds[place] < -RANGE_EDGE)
            return jinja_fail(run, MT_ERR_UNSUPPORTED, "a range beyond 2^53 is not known here");
    }
    if (bounds[2] == 0) return jinja_fail(run, MT_ERR_FORMAT, "range: the step must not be zero");
    struct jinja_range range = {bounds[0], bounds[1], bounds[2]};
    if (jinja_range_count(&range) > RANGE_MOST)
        return jinja_fail(run, MT_ERR_FORMAT, "a range may have at most %d items", RANGE_MOST);
    enum mt_status status = jinja_allocate(run, sizeof range, &memory);
    if (status != MT_OK) return status;
    *(struct jinja_range *)memory = range;
    *result = jinja_object(JINJA_RANGE, memory);
    return MT_OK;
}

/* Pairs from a dictionary or a list of pairs, then keywords. */
static enum mt_status fill_dict(struct jinja_run *run, const char *what,
                                const struct jinja_arguments *arguments, struct jinja_dict *dict)
{
    struct jinja_list *list = NULL;
    enum mt_status status = MT_OK;
    if (arguments->count > 1)
        return jinja_fail(run, MT_ERR_FORMAT, "%s takes at most one argument, got %zu", what,
                          arguments->count);
    if (arguments->count == 1 && arguments->items[0].kind == JINJA_DICT) {
        const struct jinja_dict *given = arguments->items[0].object;
        for (size_t i = 0; status == MT_OK && i < given->count; i++)
            status = jinja_dict_put(run, dict, given->pairs[i].key, given->pairs[i].value);
    } else if (arguments->count == 1) {
        status = jinja_walk(run, arguments->items[0], &list);
        for (size_t i = 0; status == MT_OK && i < list->count; i++) {
            struct jinja_list *pair = NULL;
            status = jinja_walk(run, list->items[i], &pair);
            if (status == MT_OK && pair->count != 2)
                return jinja_fail(run, MT_ERR_FORMAT, "%s: item %zu has length %zu; 2 is required", what, i,
                                  pair->count);
            if (status == MT_OK) status = jinja_dict_put(run, dict, pair->items[0], pair->items[1]);
        }
    }
    for (size_t i = 0; status == MT_OK && i < arguments->keyword_count; i++) {
        const struct jinja_keyword *keyword = &arguments->keywords[i];
        status = jinja_dict_put(run, dict, marked_value(keyword->name), keyword->value);
    }
    return status;
}

static enum mt_status make_dict(struct jinja_run *run, struct mt_value subject,
                                const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct jinja_dict *dict = NULL;
    (void)subject;
    enum mt_status status = jinja_dict_new(run, &dict);
    if (status == MT_OK) status = fill_dict(run, "dict", arguments, dict);
    *result = jinja_object(JINJA_DICT, dict);
    return status;
}

static enum mt_status make_namespace(struct jinja_run *run, struct mt_value subject,
                                     const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct jinja_dict *dict = NULL;
    (void)subject;
    enum mt_status status = jinja_dict_new(run, &dict);
    if (status == MT_OK) status = fill_dict(run, "namespace", arguments, dict);
    for (size_t i = 0; status == MT_OK && i < dict->count; i++) {
        struct mt_value key = dict->pairs[i].key;
        if (key.kind == JINJA_STRING && key.string.bytes > 0 && key.string.text[0] == '_')
            return jinja_fail(run, MT_ERR_FORMAT, "a namespace cannot have the attribute '%.*s'",
                              marked_width(key.string), key.string.text);
    }
    *result = jinja_object(JINJA_NAMESPACE, dict);
    return status;
}

static enum mt_status make_joiner(struct jinja_run *run, struct mt_value subject,
                                  const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"sep"};
    struct mt_value separator;
    void *memory = NULL;
    (void)subject;
    enum mt_status status = jinja_bind(run, "joiner", arguments, names, 1, 0, &separator);
    if (status == MT_OK) status = jinja_allocate(run, sizeof(struct jinja_joiner), &memory);
    if (status != MT_OK) return status;
    struct jinja_joiner *joiner = memory;
    joiner->separator = separator.kind != JINJA_ABSENT ? separator : marked_value(marked_of(", "));
    *result = jinja_object(JINJA_JOINER, joiner);
    return MT_OK;
}

static enum mt_status make_cycler(struct jinja_run *run, struct mt_value subject,
                                  const struct jinja_arguments *arguments, struct mt_value *result)
{
    void *memory = NULL;
    (void)subject;
    if (arguments->count == 0 || arguments->keyword_count != 0)
        return jinja_fail(run, MT_ERR_FORMAT, "cycler needs items");
    enum mt_status status = jinja_allocate(run, sizeof(struct jinja_cycler), &memory);
    if (status != MT_OK) return status;
    struct jinja_cycler *cycler = memory;
    for (size_t i = 0; status == MT_OK && i < arguments->count; i++)
        status = jinja_list_add(run, &cycler->items, arguments->items[i]);
    *result = jinja_object(JINJA_CYCLER, cycler);
    return status;
}

static enum mt_status raise_exception(struct jinja_run *run, struct mt_value subject,
                                      const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"message"};
    struct mt_value message;
    struct mt_marked text = {0};
    (void)subject;
    *result = mt_jinja_none();
    enum mt_status status = jinja_bind(run, "raise_exception", arguments, names, 1, 1, &message);
    if (status == MT_OK) status = jinja_to_text(run, message, &text);
    if (status != MT_OK) return status;
    int width = text.bytes < 600 ? (int)text.bytes : 600;
    return mt_fail(run->ctx, MT_ERR_USAGE, "the chat template refuses this conversation: %.*s", width,
                   text.text);
}

static enum mt_status strftime_now(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"format"};
    struct mt_value bound;
    struct mt_marked format = {0};
    struct jinja_builder builder = {0};
    char text[512];
    char copy[256];
    (void)subject;
    enum mt_status status = jinja_bind(run, "strftime_now", arguments, names, 1, 1, &bound);
    if (status == MT_OK) status = jinja_bound_string(run, "strftime_now", bound, &format);
    if (status != MT_OK) return status;
    if (run->options->now == NULL)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "the template asks for the date, and none is given");
    if (format.bytes + 2 > sizeof copy || memchr(format.text, '\0', format.bytes) != NULL)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "strftime_now: the format is too long");
    // One character more, so that an empty result and one that does not fit differ.
    memcpy(copy, format.text, format.bytes);
    copy[format.bytes] = '.';
    copy[format.bytes + 1] = '\0';
    size_t bytes = strftime(text, sizeof text, copy, run->options->now);
    if (bytes == 0) return jinja_fail(run, MT_ERR_UNSUPPORTED, "strftime_now: the date is too long");
    status = jinja_put(run, &builder, (struct mt_marked){text, NULL, bytes - 1});
    *result = marked_value(jinja_built(&builder));
    return status;
}

static const struct jinja_function entries[] = {
    {"range", make_range},          {"dict", make_dict},     {"namespace", make_namespace},
    {"joiner", make_joiner},        {"cycler", make_cycler}, {"raise_exception", raise_exception},
    {"strftime_now", strftime_now}, {"lipsum", NULL},        {"self", NULL},
};
const struct jinja_table jinja_globals = {entries, sizeof entries / sizeof entries[0]};
