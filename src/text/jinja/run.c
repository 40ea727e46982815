/* A rendering's limits, memory, messages and variables. */
#include "text/jinja/run.h"

#include <stdarg.h>
#include <stdio.h>

enum mt_status jinja_fail(struct jinja_run *run, enum mt_status status, const char *format, ...)
{
    char message[MT_MESSAGE_BYTES * 3 / 4];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return mt_fail(run->ctx, status, "%s, line %d: %s", run->template->name, run->line, message);
}

enum mt_status jinja_fail_undefined(struct jinja_run *run, struct mt_value value)
{
    return jinja_fail(run, MT_ERR_FORMAT, "'%.*s' is undefined", marked_width(value.string),
                      value.string.text);
}

enum mt_status jinja_spend(struct jinja_run *run, size_t steps)
{
    if (run->steps_left < steps) {
        run->steps_left = 0;
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "the template takes too many steps");
    }
    run->steps_left -= steps;
    return MT_OK;
}

enum mt_status jinja_allocate(struct jinja_run *run, size_t bytes, void **memory)
{
    *memory = NULL;
    if (bytes > run->memory_left) {
        run->memory_left = 0;
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "the template takes too much memory");
    }
    run->memory_left -= bytes;
    // Clearing memory is work, too.
    enum mt_status status = jinja_spend(run, 1 + bytes / 1024);
    return status == MT_OK ? mt_arena_allocate(&run->arena, bytes, memory) : status;
}

enum mt_status jinja_enter_run(struct jinja_run *run)
{
    run->depth++;
    if (run->depth > JINJA_CALL_DEPTH)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "the template is evaluated deeper than %d calls and parts",
                          JINJA_CALL_DEPTH);
    return jinja_spend(run, 1);
}

void jinja_leave_run(struct jinja_run *run)
{
    run->depth--;
}

// ------------------------------------------------------------------ lists and dictionaries

struct mt_value jinja_object(int kind, void *object)
{
    return (struct mt_value){.kind = kind, .object = object};
}

struct mt_value jinja_undefined(struct mt_marked name)
{
    return (struct mt_value){.kind = JINJA_UNDEFINED, .string = name};
}

/* Makes room for `needed` items, doubling; the old array is left behind. */
static enum mt_status reserve(struct jinja_run *run, void **items, size_t *capacity, size_t item_bytes,
                              size_t needed)
{
    if (needed <= *capacity) return MT_OK;
    void *memory = NULL;
    size_t wanted = *capacity * 2 > needed ? *capacity * 2 : needed + 2;
    if (wanted > SIZE_MAX / 2 / item_bytes) wanted = SIZE_MAX / 2 / item_bytes;
    enum mt_status status = jinja_allocate(run, wanted * item_bytes, &memory);
    if (status != MT_OK) return status;
    if (*items != NULL) memcpy(memory, *items, *capacity * item_bytes);
    *items = memory;
    *capacity = wanted;
    return MT_OK;
}

enum mt_status jinja_list_new(struct jinja_run *run, size_t capacity, struct jinja_list **list)
{
    void *memory = NULL;
    void *items = NULL;
    enum mt_status status = jinja_allocate(run, sizeof **list, &memory);
    if (status != MT_OK) return status;
    *list = memory;
    status = reserve(run, &items, &(*list)->capacity, sizeof(struct mt_value), capacity);
    (*list)->items = items;
    return status;
}

enum mt_status jinja_list_add(struct jinja_run *run, struct jinja_list *list, struct mt_value item)
{
    void *items = list->items;
    enum mt_status status = reserve(run, &items, &list->capacity, sizeof *list->items, list->count + 1);
    if (status != MT_OK) return status;
    list->items = items;
    list->items[list->count++] = item;
    return MT_OK;
}

enum mt_status jinja_dict_new(struct jinja_run *run, struct jinja_dict **dict)
{
    void *memory = NULL;
    enum mt_status status = jinja_allocate(run, sizeof **dict, &memory);
    *dict = memory;
    return status;
}

enum mt_status jinja_dict_put(struct jinja_run *run, struct jinja_dict *dict, struct mt_value key,
                              struct mt_value value)
{
    struct mt_value *place = NULL;
    enum mt_status status = jinja_check_key(run, key);
    if (status == MT_OK) status = jinja_dict_find(run, dict, key, &place);
    if (status != MT_OK) return status;
    if (place != NULL) {
        *place = value;
        return MT_OK;
    }
    void *pairs = dict->pairs;
    status = reserve(run, &pairs, &dict->capacity, sizeof *dict->pairs, dict->count + 1);
    if (status != MT_OK) return status;
    dict->pairs = pairs;
    dict->pairs[dict->count++] = (struct jinja_pair){key, value};
    return MT_OK;
}

enum mt_status jinja_pair_tuple(struct jinja_run *run, struct mt_value a, struct mt_value b,
                                struct mt_value *tuple)
{
    struct jinja_list *list = NULL;
    enum mt_status status = jinja_list_new(run, 2, &list);
    if (status == MT_OK) status = jinja_list_add(run, list, a);
    if (status == MT_OK) status = jinja_list_add(run, list, b);
    *tuple = jinja_object(JINJA_TUPLE, list);
    return status;
}

enum mt_status jinja_iterator_new(struct jinja_run *run, enum mt_status failure,
                                  const struct jinja_list *list, struct mt_value *iterator)
{
    void *memory = NULL;
    char *message = NULL;
    bool spent = run->steps_left == 0 || run->memory_left == 0 || run->depth > JINJA_CALL_DEPTH;
    if (failure == MT_ERR_MEMORY || (failure != MT_OK && spent)) return failure;
    enum mt_status status = jinja_allocate(run, sizeof(struct jinja_iterator), &memory);
    if (status == MT_OK && failure != MT_OK)
        status = mt_arena_copy_text(&run->arena, run->ctx->message, strlen(run->ctx->message), &message);
    if (status != MT_OK) return status;
    struct jinja_iterator *made = memory;
    if (list != NULL) made->list = *list;
    made->failure = failure;
    made->message = message;
    *iterator = jinja_object(JINJA_ITERATOR, made);
    return MT_OK;
}

// ------------------------------------------------------------------ variables

enum mt_status jinja_scope_push(struct jinja_run *run, struct jinja_scope *outer)
{
    void *memory = NULL;
    enum mt_status status = jinja_allocate(run, sizeof *run->scope, &memory);
    if (status != MT_OK) return status;
    struct jinja_scope *scope = memory;
    scope->outer = outer;
    run->scope = scope;
    return MT_OK;
}

static struct jinja_variable *find_in(const struct jinja_scope *scope, struct mt_marked name)
{
    struct jinja_variable *variable = scope->variables;
    while (variable != NULL && !marked_equal(variable->name, name)) variable = variable->next;
    return variable;
}

enum mt_status jinja_assign(struct jinja_run *run, struct mt_marked name, struct mt_value value)
{
    struct jinja_variable *variable = find_in(run->scope, name);
    if (variable == NULL) {
        void *memory = NULL;
        enum mt_status status = jinja_allocate(run, sizeof *variable, &memory);
        if (status != MT_OK) return status;
        variable = memory;
        variable->name = name;
        variable->next = run->scope->variables;
        run->scope->variables = variable;
    }
    variable->value = value;
    return MT_OK;
}

struct mt_value jinja_lookup(const struct jinja_run *run, struct mt_marked name)
{
    for (const struct jinja_scope *scope = run->scope; scope != NULL; scope = scope->outer) {
        const struct jinja_variable *variable = find_in(scope, name);
        if (variable != NULL) return variable->value;
    }
    const struct jinja_function *function = jinja_find_global(name);
    if (function == NULL) return jinja_undefined(name);
    return (struct mt_value){.kind = JINJA_FUNCTION, .function = function};
}
