/* Calls: arguments by name, macros, methods, filters, tests. */
#include "text/jinja/run.h"

bool jinja_given(struct mt_value value)
{
    return value.kind != JINJA_ABSENT && value.kind != JINJA_NONE;
}

enum mt_status jinja_bind(struct jinja_run *run, const char *what, const struct jinja_arguments *arguments,
                          const char *const *names, size_t count, size_t required, struct mt_value *bound)
{
    for (size_t i = 0; i < count; i++) bound[i] = (struct mt_value){.kind = JINJA_ABSENT};
    if (arguments->count > count)
        return jinja_fail(run, MT_ERR_FORMAT, "%s takes at most %zu arguments, got %zu", what, count,
                          arguments->count);
    for (size_t i = 0; i < arguments->count; i++) bound[i] = arguments->items[i];
    for (size_t i = 0; i < arguments->keyword_count; i++) {
        const struct jinja_keyword *keyword = &arguments->keywords[i];
        size_t place = 0;
        while (place < count && !marked_is(keyword->name, names[place])) place++;
        if (place == count || bound[place].kind != JINJA_ABSENT) {
            return jinja_fail(run, MT_ERR_FORMAT, "%s got %s argument '%.*s'", what,
                              place == count ? "an unexpected" : "twice the", marked_width(keyword->name),
                              keyword->name.text);
        }
        bound[place] = keyword->value;
    }
    for (size_t i = 0; i < required; i++) {
        if (bound[i].kind == JINJA_ABSENT)
            return jinja_fail(run, MT_ERR_FORMAT, "%s needs the argument '%s'", what, names[i]);
    }
    return MT_OK;
}

enum mt_status jinja_bound_integer(struct jinja_run *run, const char *what, struct mt_value value,
                                   int64_t fallback, int64_t *integer)
{
    *integer = fallback;
    if (!jinja_given(value) || jinja_as_integer(value, integer)) return MT_OK;
    return jinja_fail(run, MT_ERR_FORMAT, "%s: '%s' object cannot be interpreted as an integer", what,
                      jinja_type_name(value));
}

enum mt_status jinja_bound_truth(struct jinja_run *run, struct mt_value value, bool fallback, bool *truth)
{
    *truth = fallback;
    return value.kind == JINJA_ABSENT ? MT_OK : jinja_truth(run, value, truth);
}

enum mt_status jinja_bound_string(struct jinja_run *run, const char *what, struct mt_value value,
                                  struct mt_marked *text)
{
    if (value.kind != JINJA_STRING)
        return jinja_fail(run, MT_ERR_FORMAT, "%s: expected a str, got '%s'", what, jinja_type_name(value));
    *text = value.string;
    return MT_OK;
}

// ------------------------------------------------------------------ macros

static bool keyword_named(const struct jinja_arguments *arguments, struct mt_marked name,
                          struct mt_value *value)
{
    for (size_t i = 0; i < arguments->keyword_count; i++) {
        if (!marked_equal(arguments->keywords[i].name, name)) continue;
        *value = arguments->keywords[i].value;
        return true;
    }
    return false;
}

/* A parameter's value: by place, by name, by default, or undefined. Defaults may use earlier parameters. */
static enum mt_status bind_parameter(struct jinja_run *run, const struct jinja_node *parameter, size_t place,
                                     const struct jinja_arguments *arguments, size_t *by_name)
{
    struct mt_value value = jinja_undefined(parameter->text);
    enum mt_status status = MT_OK;
    if (place < arguments->count)
        value = arguments->items[place];
    else if (keyword_named(arguments, parameter->text, &value))
        (*by_name)++;
    else if (parameter->a != NULL)
        status = jinja_evaluate(run, parameter->a, &value);
    return status == MT_OK ? jinja_assign(run, parameter->text, value) : status;
}

static bool has_parameter(const struct jinja_node *node, struct mt_marked name)
{
    for (size_t i = 0; i < node->count; i++) {
        if (marked_equal(node->items[i]->text, name)) return true;
    }
    return false;
}

static enum mt_status bind_kwargs(struct jinja_run *run, const struct jinja_node *node,
                                  const struct jinja_arguments *arguments)
{
    struct jinja_dict *dict = NULL;
    enum mt_status status = jinja_dict_new(run, &dict);
    for (size_t i = 0; status == MT_OK && i < arguments->keyword_count; i++) {
        const struct jinja_keyword *keyword = &arguments->keywords[i];
        bool own =
            has_parameter(node, keyword->name) || (node->wants_caller && marked_is(keyword->name, "caller"));
        if (!own) status = jinja_dict_put(run, dict, marked_value(keyword->name), keyword->value);
    }
    return status == MT_OK ? jinja_assign(run, marked_of("kwargs"), jinja_object(JINJA_DICT, dict)) : status;
}

static enum mt_status bind_varargs(struct jinja_run *run, const struct jinja_node *node,
                                   const struct jinja_arguments *arguments)
{
    struct jinja_list *list = NULL;
    enum mt_status status = jinja_list_new(run, 0, &list);
    for (size_t i = node->count; status == MT_OK && i < arguments->count; i++)
        status = jinja_list_add(run, list, arguments->items[i]);
    return status == MT_OK ? jinja_assign(run, marked_of("varargs"), jinja_object(JINJA_TUPLE, list))
                           : status;
}

static enum mt_status bind_macro(struct jinja_run *run, const struct jinja_node *node,
                                 const struct jinja_arguments *arguments)
{
    size_t by_name = 0;
    struct mt_value caller = jinja_undefined(marked_of("caller"));
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < node->count; i++)
        status = bind_parameter(run, node->items[i], i, arguments, &by_name);
    if (status == MT_OK && node->wants_caller && !has_parameter(node, marked_of("caller"))) {
        by_name += keyword_named(arguments, marked_of("caller"), &caller);
        status = jinja_assign(run, marked_of("caller"), caller);
    }
    if (status == MT_OK && node->wants_kwargs)
        status = bind_kwargs(run, node, arguments);
    else if (status == MT_OK && by_name < arguments->keyword_count)
        return jinja_fail(run, MT_ERR_FORMAT, "macro '%.*s' got an argument it does not know",
                          marked_width(node->text), node->text.text);
    if (status == MT_OK && node->wants_varargs)
        status = bind_varargs(run, node, arguments);
    else if (status == MT_OK && arguments->count > node->count)
        return jinja_fail(run, MT_ERR_FORMAT, "macro '%.*s' takes not more than %zu arguments",
                          marked_width(node->text), node->text.text, node->count);
    return status;
}

static enum mt_status call_macro(struct jinja_run *run, const struct jinja_macro *macro,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct jinja_scope *scope = run->scope;
    struct mt_marked text = {0};
    enum mt_status status = jinja_scope_push(run, macro->scope);
    if (status == MT_OK) status = bind_macro(run, macro->node, arguments);
    if (status == MT_OK) status = jinja_capture(run, macro->node->c, &text);
    run->scope = scope;
    *result = marked_value(text);
    return status;
}

static enum mt_status call_entry(struct jinja_run *run, const char *kind, const struct jinja_function *entry,
                                 struct mt_value subject, const struct jinja_arguments *arguments,
                                 struct mt_value *result)
{
    if (entry->call == NULL) {
        return jinja_fail(run, MT_ERR_UNSUPPORTED,
                          "the template uses the %s '%s', which metier does not know", kind, entry->name);
    }
    return entry->call(run, subject, arguments, result);
}

enum mt_status jinja_call(struct jinja_run *run, struct mt_value callee,
                          const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct mt_value nothing = {.kind = JINJA_ABSENT};
    int line = run->line;
    enum mt_status status = jinja_enter_run(run);
    if (status != MT_OK) {
        // said already
    } else if (callee.kind == JINJA_UNDEFINED) {
        status = jinja_fail_undefined(run, callee);
    } else if (callee.kind == JINJA_MACRO) {
        status = call_macro(run, callee.object, arguments, result);
    } else if (callee.kind == JINJA_FUNCTION) {
        status = call_entry(run, "function", callee.function, nothing, arguments, result);
    } else if (callee.kind == JINJA_METHOD) {
        const struct jinja_method *method = callee.object;
        bool safe = method->subject.kind == JINJA_STRING && method->subject.safe;
        status = safe && method->function->call != NULL
                     ? jinja_call_safe_method(run, method, arguments, result)
                     : call_entry(run, "method", method->function, method->subject, arguments, result);
    } else if (callee.kind == JINJA_LOOP && arguments->count == 1) {
        status = jinja_loop_again(run, callee.object, arguments->items[0], result);
    } else if (callee.kind == JINJA_JOINER) {
        struct jinja_joiner *joiner = callee.object;
        *result = joiner->used ? joiner->separator : marked_value(marked_of(""));
        joiner->used = true;
    } else {
        status = jinja_fail(run, MT_ERR_FORMAT, "'%s' object is not callable", jinja_type_name(callee));
    }
    jinja_leave_run(run);
    if (status == MT_OK) run->line = line;
    return status;
}

enum mt_status jinja_call_filter(struct jinja_run *run, struct mt_marked name, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    const struct jinja_function *filter = jinja_find_filter(name);
    if (filter == NULL) {
        return jinja_fail(run, MT_ERR_UNSUPPORTED,
                          "the template uses the filter '%.*s', which metier does not know",
                          marked_width(name), name.text);
    }
    enum mt_status status = jinja_enter_run(run);
    if (status == MT_OK) status = call_entry(run, "filter", filter, subject, arguments, result);
    jinja_leave_run(run);
    return status;
}

enum mt_status jinja_call_test(struct jinja_run *run, struct mt_marked name, struct mt_value subject,
                               const struct jinja_arguments *arguments, bool *holds)
{
    struct mt_value result = {0};
    const struct jinja_function *test = jinja_find_test(name);
    if (test == NULL) {
        return jinja_fail(run, MT_ERR_UNSUPPORTED,
                          "the template uses the test '%.*s', which metier does not know", marked_width(name),
                          name.text);
    }
    enum mt_status status = call_entry(run, "test", test, subject, arguments, &result);
    *holds = status == MT_OK && result.truth;
    return status;
}
