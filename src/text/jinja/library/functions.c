/* Global functions: range, dict, namespace, joiner, cycler, raise_exception, strftime_now. */
#include <time.h>

#include "text/jinja/library/library.h"

#define RANGE_MOST 100000 // items, as in jinja2's sandbox
#define RANGE_EDGE ((int64_t)1 << 53)

static struct mt_value make_range(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    const struct jinja_arguments *arguments = call->arguments;
    int64_t bounds[3] = {0, 0, 1};
    if (arguments->keyword_count != 0 || arguments->count == 0 || arguments->count > 3)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "range takes one to three integers");
    for (size_t i = 0; i < arguments->count; i++) {
        size_t place = arguments->count == 1 ? 1 : i;
        if (!mt_jinja_as_integer(arguments->items[i], &bounds[place]))
            return mt_jinja_fail(run, MT_ERR_FORMAT, "range: '%s' object cannot be interpreted as an integer",
                                 mt_jinja_type_name(arguments->items[i]));
        if (bounds[place] > RANGE_EDGE || bounds[place] < -RANGE_EDGE)
            return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "a range beyond 2^53 is not known here");
    }
    if (bounds[2] == 0) return mt_jinja_fail(run, MT_ERR_FORMAT, "range: the step must not be zero");
    const struct jinja_range range = {bounds[0], bounds[1], bounds[2]};
    if (mt_jinja_range_count(&range) > RANGE_MOST)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "a range may have at most %d items", RANGE_MOST);
    return mt_jinja_kept(run, JINJA_RANGE, &range, sizeof range);
}

/* Pairs from a dictionary or a list of pairs, then keywords. */
static struct mt_value make_dict(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    const struct jinja_arguments *arguments = call->arguments;
    const char *what = call->function->name;
    struct jinja_dict *dict = mt_jinja_dict_new(run);
    if (arguments->count > 1)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "%s takes at most one argument, got %zu", what,
                             arguments->count);
    if (arguments->count == 1 && arguments->items[0].kind == JINJA_DICT) {
        const struct jinja_dict *given = arguments->items[0].object;
        for (size_t i = 0; i < given->count && !mt_jinja_failed(run); i++)
            mt_jinja_dict_put(run, dict, given->pairs[i].key, given->pairs[i].value);
    } else if (arguments->count == 1) {
        const struct jinja_list *list = mt_jinja_walk(run, arguments->items[0]);
        for (size_t i = 0; i < list->count && !mt_jinja_failed(run); i++) {
            const struct jinja_list *pair = mt_jinja_walk(run, list->items[i]);
            if (pair->count != 2)
                return mt_jinja_fail(run, MT_ERR_FORMAT, "%s: item %zu has length %zu; 2 is required", what,
                                     i, pair->count);
            mt_jinja_dict_put(run, dict, pair->items[0], pair->items[1]);
        }
    }
    mt_jinja_dict_put_keywords(run, dict, arguments);
    return mt_jinja_object(call->function->variant, dict);
}

static struct mt_value make_namespace(const struct jinja_call *call)
{
    struct mt_value made = make_dict(call);
    const struct jinja_dict *dict = made.object;
    for (size_t i = 0; !mt_jinja_failed(call->run) && i < dict->count; i++) {
        struct mt_value key = dict->pairs[i].key;
        if (key.kind == JINJA_STRING && key.string.bytes > 0 && key.string.text[0] == '_')
            return mt_jinja_fail(call->run, MT_ERR_FORMAT, "a namespace cannot have the attribute '%.*s'",
                                 marked_width(key.string), key.string.text);
    }
    return made;
}

static struct mt_value make_joiner(const struct jinja_call *call)
{
    bool given = call->bound[0].kind != JINJA_ABSENT;
    const struct jinja_joiner joiner = {given ? call->bound[0] : marked_value(marked_of(", ")), false};
    return mt_jinja_kept(call->run, JINJA_JOINER, &joiner, sizeof joiner);
}

static struct mt_value make_cycler(const struct jinja_call *call)
{
    struct jinja_cycler cycler = {0};
    if (call->arguments->count == 0 || call->arguments->keyword_count != 0)
        return mt_jinja_fail(call->run, MT_ERR_FORMAT, "cycler needs items");
    mt_jinja_list_add_all(call->run, &cycler.items, call->arguments->items, call->arguments->count);
    return mt_jinja_kept(call->run, JINJA_CYCLER, &cycler, sizeof cycler);
}

static struct mt_value raise_exception(const struct jinja_call *call)
{
    struct mt_marked text = mt_jinja_to_text(call->run, call->bound[0]);
    int width = text.bytes < 600 ? (int)text.bytes : 600;
    if (!mt_jinja_failed(call->run))
        call->run->status = mt_fail(call->run->ctx, MT_ERR_USAGE,
                                    "the chat template refuses this conversation: %.*s", width, text.text);
    return mt_jinja_none();
}

static struct mt_value strftime_now(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    struct jinja_builder out = {.run = run};
    char text[512];
    char copy[256];
    struct mt_marked format = mt_jinja_text_argument(call, 0);
    if (run->options->now == NULL)
        return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "the template asks for the date, and none is given");
    if (format.bytes + 2 > sizeof copy || memchr(format.text, '\0', format.bytes) != NULL)
        return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "strftime_now: the format is too long");
    // One character more, so that an empty result and one that does not fit differ.
    memcpy(copy, format.text, format.bytes);
    copy[format.bytes] = '.';
    copy[format.bytes + 1] = '\0';
    size_t bytes = strftime(text, sizeof text, copy, run->options->now);
    if (bytes == 0) return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "strftime_now: the date is too long");
    mt_jinja_put(&out, (struct mt_marked){text, NULL, bytes - 1});
    return mt_jinja_built_value(&out);
}

const struct jinja_function mt_jinja_globals[] = {
    {"range", make_range, .required = JINJA_OWN_ARGUMENTS},
    {"dict", make_dict, .required = JINJA_OWN_ARGUMENTS, .variant = JINJA_DICT},
    {"namespace", make_namespace, .required = JINJA_OWN_ARGUMENTS, .variant = JINJA_NAMESPACE},
    {"joiner", make_joiner, .parameters = {"sep"}},
    {"cycler", make_cycler, .required = JINJA_OWN_ARGUMENTS},
    {"raise_exception", raise_exception, .parameters = {"message"}, .required = 1},
    {"strftime_now", strftime_now, .parameters = {"format"}, .required = 1},
    {.name = "lipsum"},
    {.name = "self"},
    {0},
};
