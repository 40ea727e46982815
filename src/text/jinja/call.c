/* Calls: arguments by name, macros, methods, filters. */
#include "text/jinja/run.h"

bool mt_jinja_given(struct mt_value value)
{
    return value.kind != JINJA_ABSENT && value.kind != JINJA_NONE;
}

// ------------------------------------------------------------------ the library

/* Arguments by the names of the function's parameters. */
static void bind(struct jinja_call *call)
{
    const struct jinja_function *function = call->function;
    const struct jinja_arguments *arguments = call->arguments;
    size_t count = 0;
    while (count < JINJA_PARAMETERS && function->parameters[count] != NULL) count++;
    if (arguments->count > count) {
        (void)mt_jinja_fail(call->run, MT_ERR_FORMAT, "%s takes at most %zu arguments, got %zu",
                            function->name, count, arguments->count);
        return;
    }
    for (size_t i = 0; i < arguments->count; i++) call->bound[i] = arguments->items[i];
    for (size_t i = 0; i < arguments->keyword_count; i++) {
        const struct jinja_keyword *keyword = &arguments->keywords[i];
        size_t place = 0;
        while (place < count && !marked_is(keyword->name, function->parameters[place])) place++;
        if (place == count || call->bound[place].kind != JINJA_ABSENT) {
            (void)mt_jinja_fail(call->run, MT_ERR_FORMAT, "%s got %s argument '%.*s'", function->name,
                                place == count ? "an unexpected" : "twice the", marked_width(keyword->name),
                                keyword->name.text);
            return;
        }
        call->bound[place] = keyword->value;
    }
    for (int i = 0; i < function->required; i++) {
        if (call->bound[i].kind == JINJA_ABSENT)
            (void)mt_jinja_fail(call->run, MT_ERR_FORMAT, "%s needs the argument '%s'", function->name,
                                function->parameters[i]);
    }
}

struct mt_value mt_jinja_call_function(struct jinja_run *run, const char *kind,
                                       const struct jinja_function *function, struct mt_value subject,
                                       const struct jinja_arguments *arguments)
{
    struct jinja_call call = {.run = run, .function = function, .subject = subject, .arguments = arguments};
    struct mt_value result = mt_jinja_none();
    if (function->call == NULL)
        return mt_jinja_fail(run, MT_ERR_UNSUPPORTED,
                             "the template uses the %s '%s', which metier does not know", kind,
                             function->name);
    if (function->required != JINJA_OWN_ARGUMENTS) bind(&call);
    if (!mt_jinja_failed(run)) result = function->call(&call);
    if (function->generates)
        return mt_jinja_iterator_new(run, result.kind == JINJA_LIST ? result.object : NULL);
    // cppcheck-suppress returnDanglingLifetime // what a function returns lives in the run's arena
    return result;
}

int64_t mt_jinja_integer_argument(const struct jinja_call *call, int place, int64_t fallback)
{
    int64_t integer = fallback;
    struct mt_value value = call->bound[place];
    if (mt_jinja_given(value) && !mt_jinja_as_integer(value, &integer))
        (void)mt_jinja_fail(call->run, MT_ERR_FORMAT, "%s: '%s' object cannot be interpreted as an integer",
                            call->function->name, mt_jinja_type_name(value));
    return integer;
}

bool mt_jinja_truth_argument(const struct jinja_call *call, int place)
{
    return mt_jinja_truth(call->run, call->bound[place]);
}

struct mt_marked mt_jinja_text_argument(const struct jinja_call *call, int place)
{
    return mt_jinja_need_text(call->run, call->function->name, call->bound[place]);
}

struct mt_marked mt_jinja_need_text(struct jinja_run *run, const char *what, struct mt_value value)
{
    if (value.kind == JINJA_STRING) return value.string;
    (void)mt_jinja_fail(run, MT_ERR_FORMAT, "%s: expected a str, got '%s'", what, mt_jinja_type_name(value));
    return marked_of("");
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

static bool has_parameter(const struct jinja_node *node, struct mt_marked name)
{
    for (size_t i = 0; i < node->count; i++) {
        if (marked_equal(node->items[i]->text, name)) return true;
    }
    return false;
}

static void bind_kwargs(struct jinja_run *run, const struct jinja_node *node,
                        const struct jinja_arguments *arguments)
{
    struct jinja_dict *dict = mt_jinja_dict_new(run);
    for (size_t i = 0; i < arguments->keyword_count; i++) {
        const struct jinja_keyword *keyword = &arguments->keywords[i];
        bool own =
            has_parameter(node, keyword->name) || (node->wants_caller && marked_is(keyword->name, "caller"));
        if (!own) mt_jinja_dict_put(run, dict, marked_value(keyword->name), keyword->value);
    }
    mt_jinja_assign(run, marked_of("kwargs"), mt_jinja_object(JINJA_DICT, dict));
}

/* Parameters by place, by name, by default, or undefined. Defaults may use earlier parameters. */
static void bind_macro(struct jinja_run *run, const struct jinja_node *node,
                       const struct jinja_arguments *arguments)
{
    size_t by_name = 0;
    for (size_t i = 0; i < node->count && !mt_jinja_failed(run); i++) {
        const struct jinja_node *parameter = node->items[i];
        struct mt_value value = mt_jinja_undefined(parameter->text);
        if (i < arguments->count)
            value = arguments->items[i];
        else if (keyword_named(arguments, parameter->text, &value))
            by_name++;
        else if (parameter->a != NULL)
            value = mt_jinja_evaluate(run, parameter->a);
        mt_jinja_assign(run, parameter->text, value);
    }
    struct mt_marked named = marked_of("caller");
    if (node->wants_caller && !has_parameter(node, named)) {
        struct mt_value caller = mt_jinja_undefined(named);
        by_name += keyword_named(arguments, named, &caller);
        mt_jinja_assign(run, named, caller);
    }
    if (node->wants_kwargs)
        bind_kwargs(run, node, arguments);
    else if (by_name < arguments->keyword_count)
        (void)mt_jinja_fail(run, MT_ERR_FORMAT, "macro '%.*s' got an argument it does not know",
                            marked_width(node->text), node->text.text);
    bool more = arguments->count > node->count;
    if (node->wants_varargs)
        mt_jinja_assign(run, marked_of("varargs"),
                        mt_jinja_tuple(run, more ? arguments->items + node->count : NULL,
                                       more ? arguments->count - node->count : 0));
    else if (more)
        (void)mt_jinja_fail(run, MT_ERR_FORMAT, "macro '%.*s' takes not more than %zu arguments",
                            marked_width(node->text), node->text.text, node->count);
}

static struct mt_value call_macro(struct jinja_run *run, const struct jinja_macro *macro,
                                  const struct jinja_arguments *arguments)
{
    struct jinja_scope *scope = run->scope;
    mt_jinja_scope_push(run, macro->scope);
    bind_macro(run, macro->node, arguments);
    struct mt_marked text = mt_jinja_capture(run, macro->node->c);
    run->scope = scope;
    return marked_value(text);
}

// ------------------------------------------------------------------ methods of safe text

/* Escapes what join puts together, and what replace puts in. */
static struct mt_value escape_argument(struct jinja_run *run, const char *method, size_t place,
                                       struct mt_value argument)
{
    if (strcmp(method, "replace") == 0 && place == 1) return mt_jinja_escape(run, argument);
    if (strcmp(method, "join") != 0) return argument;
    const struct jinja_list *list = mt_jinja_walk(run, argument);
    struct jinja_list *escaped = mt_jinja_list_new(run, list->count);
    for (size_t i = 0; i < list->count && !mt_jinja_failed(run); i++) {
        struct mt_value item = mt_jinja_escape(run, list->items[i]);
        mt_jinja_list_add(run, escaped, item);
    }
    return mt_jinja_object(JINJA_LIST, escaped);
}

static struct mt_value call_safe_method(struct jinja_run *run, const struct jinja_method *method,
                                        const struct jinja_arguments *arguments)
{
    const char *name = method->function->name;
    struct jinja_arguments given = *arguments;
    if (strcmp(name, "format") == 0)
        return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "format of safe text is not known here");
    struct jinja_list *items = mt_jinja_list_new(run, arguments->count);
    for (size_t i = 0; i < arguments->count; i++) {
        struct mt_value argument = escape_argument(run, name, i, arguments->items[i]);
        mt_jinja_list_add(run, items, argument);
    }
    if (mt_jinja_failed(run)) return mt_jinja_none();
    given.items = items->items;
    struct mt_value result = mt_jinja_call_function(run, "method", method->function, method->subject, &given);
    if (result.kind == JINJA_STRING) result.safe = true;
    if (result.kind != JINJA_LIST && result.kind != JINJA_TUPLE) return result;
    const struct jinja_list *parts = result.object; // made by the method, so ours to change
    for (size_t i = 0; i < parts->count; i++) parts->items[i].safe = true;
    return result;
}

// ------------------------------------------------------------------ calls

static struct mt_value call_value(struct jinja_run *run, struct mt_value callee,
                                  const struct jinja_arguments *arguments)
{
    const struct mt_value nothing = {.kind = JINJA_ABSENT};
    const struct jinja_method *method = callee.object;
    struct jinja_joiner *joiner = callee.object;
    bool used = false;
    switch (callee.kind) {
    case JINJA_UNDEFINED: return mt_jinja_fail_undefined(run, callee);
    case JINJA_MACRO: return call_macro(run, callee.object, arguments);
    case JINJA_FUNCTION: return mt_jinja_call_function(run, "function", callee.function, nothing, arguments);
    case JINJA_METHOD:
        if (method->subject.kind == JINJA_STRING && method->subject.safe && method->function->call != NULL)
            return call_safe_method(run, method, arguments);
        return mt_jinja_call_function(run, "method", method->function, method->subject, arguments);
    case JINJA_LOOP:
        if (arguments->count == 1) return mt_jinja_loop_again(run, callee.object, arguments->items[0]);
        break;
    case JINJA_JOINER:
        used = joiner->used;
        joiner->used = true;
        return used ? joiner->separator : marked_value(marked_of(""));
    default: break;
    }
    return mt_jinja_fail(run, MT_ERR_FORMAT, "'%s' object is not callable", mt_jinja_type_name(callee));
}

struct mt_value mt_jinja_call(struct jinja_run *run, struct mt_value callee,
                              const struct jinja_arguments *arguments)
{
    int line = run->line;
    bool entered = mt_jinja_enter_run(run);
    struct mt_value result = entered ? call_value(run, callee, arguments) : mt_jinja_none();
    mt_jinja_leave_run(run);
    run->line = line;
    return result;
}

struct mt_value mt_jinja_call_filter(struct jinja_run *run, struct mt_marked name, struct mt_value subject,
                                     const struct jinja_arguments *arguments)
{
    const struct jinja_function *filter = mt_jinja_find_filter(name);
    if (filter == NULL)
        return mt_jinja_fail(run, MT_ERR_UNSUPPORTED,
                             "the template uses the filter '%.*s', which metier does not know",
                             marked_width(name), name.text);
    bool entered = mt_jinja_enter_run(run);
    struct mt_value result =
        entered ? mt_jinja_call_function(run, "filter", filter, subject, arguments) : mt_jinja_none();
    mt_jinja_leave_run(run);
    return result;
}
