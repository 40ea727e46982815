/* A rendering's limits, memory, messages and variables, and text being put together. */
#include "text/jinja/run.h"

#include <stdarg.h>
#include <stdio.h>

#include "formats/text/utf8.h"

struct mt_value mt_jinja_fail(struct jinja_run *run, enum mt_status status, const char *format, ...)
{
    char message[MT_MESSAGE_BYTES * 3 / 4];
    va_list arguments;
    if (mt_jinja_failed(run)) return mt_jinja_none();
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    run->status = mt_fail(run->ctx, status, "%s, line %d: %s", run->template->name, run->line, message);
    return mt_jinja_none();
}

struct mt_value mt_jinja_fail_undefined(struct jinja_run *run, struct mt_value value)
{
    return mt_jinja_fail(run, MT_ERR_FORMAT, "'%.*s' is undefined", marked_width(value.string),
                         value.string.text);
}

struct mt_value mt_jinja_fail_memory(struct jinja_run *run)
{
    return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "the template takes too much memory");
}

struct mt_value mt_jinja_fail_integer(struct jinja_run *run)
{
    return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "an integer does not fit 64 bits");
}

void mt_jinja_spend(struct jinja_run *run, size_t steps)
{
    if (mt_jinja_failed(run)) return;
    if (run->steps_left < steps) {
        run->steps_left = 0;
        (void)mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "the template takes too many steps");
        return;
    }
    run->steps_left -= steps;
}

void *mt_jinja_allocate(struct jinja_run *run, size_t bytes)
{
    void *memory = NULL;
    if (mt_jinja_failed(run)) return NULL;
    if (bytes > run->memory_left) {
        run->memory_left = 0;
        (void)mt_jinja_fail_memory(run);
        return NULL;
    }
    run->memory_left -= bytes;
    mt_jinja_spend(run, 1 + bytes / 1024); // clearing memory is work, too
    if (!mt_jinja_failed(run)) run->status = mt_arena_allocate(&run->arena, bytes, &memory);
    return memory;
}

bool mt_jinja_enter_run(struct jinja_run *run)
{
    run->depth++;
    if (run->depth > JINJA_CALL_DEPTH)
        (void)mt_jinja_fail(run, MT_ERR_UNSUPPORTED,
                            "the template is evaluated deeper than %d calls and parts", JINJA_CALL_DEPTH);
    mt_jinja_spend(run, 1);
    return !mt_jinja_failed(run);
}

void mt_jinja_leave_run(struct jinja_run *run)
{
    run->depth--;
}

bool mt_jinja_check_depth(struct jinja_run *run, int depth)
{
    mt_jinja_spend(run, 1);
    if (depth > JINJA_VALUE_DEPTH)
        (void)mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "values are nested deeper than %d", JINJA_VALUE_DEPTH);
    return !mt_jinja_failed(run);
}

// ------------------------------------------------------------------ lists and dictionaries

struct mt_value mt_jinja_object(int kind, void *object)
{
    return (struct mt_value){.kind = kind, .object = object};
}

struct mt_value mt_jinja_kept(struct jinja_run *run, int kind, const void *object, size_t bytes)
{
    void *copy = mt_jinja_allocate(run, bytes);
    if (copy == NULL) return mt_jinja_none();
    memcpy(copy, object, bytes);
    return mt_jinja_object(kind, copy);
}

struct mt_value mt_jinja_undefined(struct mt_marked name)
{
    return (struct mt_value){.kind = JINJA_UNDEFINED, .string = name};
}

/* Makes room for `needed` items, doubling; the old array is left behind. The array, or NULL: it failed. */
static void *reserve(struct jinja_run *run, void *items, size_t *capacity, size_t item_bytes, size_t needed)
{
    if (mt_jinja_failed(run)) return NULL;
    if (needed <= *capacity) return items;
    size_t wanted = *capacity * 2 > needed ? *capacity * 2 : needed + 2;
    if (wanted > SIZE_MAX / 2 / item_bytes) wanted = SIZE_MAX / 2 / item_bytes;
    void *memory = mt_jinja_allocate(run, wanted * item_bytes);
    if (memory == NULL) return NULL;
    if (items != NULL) memcpy(memory, items, *capacity * item_bytes);
    *capacity = wanted;
    return memory;
}

struct jinja_list *mt_jinja_list_new(struct jinja_run *run, size_t capacity)
{
    struct jinja_list *list = mt_jinja_allocate(run, sizeof *list);
    if (list == NULL) return &run->no_list;
    if (capacity > 0) list->items = reserve(run, NULL, &list->capacity, sizeof *list->items, capacity);
    return list;
}

void mt_jinja_list_add(struct jinja_run *run, struct jinja_list *list, struct mt_value item)
{
    void *items = reserve(run, list->items, &list->capacity, sizeof item, list->count + 1);
    if (items == NULL) return;
    list->items = items;
    list->items[list->count++] = item;
}

void mt_jinja_list_add_all(struct jinja_run *run, struct jinja_list *list, const struct mt_value *items,
                           size_t count)
{
    for (size_t i = 0; i < count && !mt_jinja_failed(run); i++) mt_jinja_list_add(run, list, items[i]);
}

struct mt_value mt_jinja_tuple(struct jinja_run *run, const struct mt_value *items, size_t count)
{
    struct jinja_list *list = mt_jinja_list_new(run, count);
    mt_jinja_list_add_all(run, list, items, count);
    return mt_jinja_object(JINJA_TUPLE, list);
}

struct jinja_dict *mt_jinja_dict_new(struct jinja_run *run)
{
    struct jinja_dict *dict = mt_jinja_allocate(run, sizeof *dict);
    return dict != NULL ? dict : &run->no_dict;
}

void mt_jinja_dict_add(struct jinja_run *run, struct jinja_dict *dict, struct mt_value key,
                       struct mt_value value)
{
    void *pairs = reserve(run, dict->pairs, &dict->capacity, sizeof *dict->pairs, dict->count + 1);
    if (pairs == NULL) return;
    dict->pairs = pairs;
    dict->pairs[dict->count++] = (struct jinja_pair){key, value};
}

void mt_jinja_dict_put(struct jinja_run *run, struct jinja_dict *dict, struct mt_value key,
                       struct mt_value value)
{
    if (!mt_jinja_check_key(run, key)) return;
    struct mt_value *place = mt_jinja_dict_find(run, dict, key);
    if (place != NULL)
        *place = value;
    else
        mt_jinja_dict_add(run, dict, key, value);
}

void mt_jinja_dict_put_keywords(struct jinja_run *run, struct jinja_dict *dict,
                                const struct jinja_arguments *arguments)
{
    for (size_t i = 0; i < arguments->keyword_count; i++)
        mt_jinja_dict_put(run, dict, marked_value(arguments->keywords[i].name), arguments->keywords[i].value);
}

struct mt_value mt_jinja_iterator_new(struct jinja_run *run, const struct jinja_list *list)
{
    struct jinja_iterator made = {.failure = run->status};
    const char *message = NULL;
    bool spent = run->steps_left == 0 || run->memory_left == 0;
    if (made.failure == MT_ERR_MEMORY || (made.failure != MT_OK && spent)) return mt_jinja_none();
    run->status = MT_OK;
    if (made.failure != MT_OK)
        run->status = mt_arena_copy_text(&run->arena, run->ctx->message, strlen(run->ctx->message), &message);
    if (list != NULL) made.list = *list;
    made.message = message;
    return mt_jinja_kept(run, JINJA_ITERATOR, &made, sizeof made);
}

// ------------------------------------------------------------------ variables

void mt_jinja_scope_push(struct jinja_run *run, struct jinja_scope *outer)
{
    struct jinja_scope *scope = mt_jinja_allocate(run, sizeof *scope);
    if (scope == NULL) return; // nothing is assigned from here on
    scope->outer = outer;
    run->scope = scope;
}

static struct jinja_variable *find_in(const struct jinja_scope *scope, struct mt_marked name)
{
    struct jinja_variable *variable = scope->variables;
    while (variable != NULL && !marked_equal(variable->name, name)) variable = variable->next;
    return variable;
}

void mt_jinja_assign(struct jinja_run *run, struct mt_marked name, struct mt_value value)
{
    struct jinja_variable *variable = find_in(run->scope, name);
    if (mt_jinja_failed(run)) return;
    if (variable == NULL) {
        variable = mt_jinja_allocate(run, sizeof *variable);
        if (variable == NULL) return;
        *variable = (struct jinja_variable){.name = name, .next = run->scope->variables};
        run->scope->variables = variable;
    }
    variable->value = value;
}

struct mt_value mt_jinja_lookup(const struct jinja_run *run, struct mt_marked name)
{
    for (const struct jinja_scope *scope = run->scope; scope != NULL; scope = scope->outer) {
        const struct jinja_variable *variable = find_in(scope, name);
        if (variable != NULL) return variable->value;
    }
    const struct jinja_function *function = mt_jinja_find_global(name);
    if (function == NULL) return mt_jinja_undefined(name);
    return (struct mt_value){.kind = JINJA_FUNCTION, .function = function};
}

// ------------------------------------------------------------------ text being put together

uint16_t mt_jinja_mark_at(struct mt_marked text, size_t at)
{
    return text.marks != NULL && at < text.bytes ? text.marks[at] : 0;
}

struct mt_marked mt_jinja_built(const struct jinja_builder *builder)
{
    return (struct mt_marked){builder->bytes != 0 ? builder->text : "", builder->marks, builder->bytes};
}

struct mt_value mt_jinja_built_value(const struct jinja_builder *builder)
{
    return marked_value(mt_jinja_built(builder));
}

/* Makes room for text and, where it has or gets some, for its marks. */
static bool reserve_text(struct jinja_builder *builder, size_t extra, bool marked)
{
    struct jinja_run *run = builder->run;
    bool marks = marked || builder->marks != NULL;
    if (mt_jinja_failed(run)) return false;
    if (builder->capacity - builder->bytes < extra) {
        if (extra > run->memory_left) {
            (void)mt_jinja_fail_memory(run);
            return false;
        }
        size_t needed = builder->bytes + extra;
        size_t wanted = builder->capacity * 2 > needed ? builder->capacity * 2 : needed + 16;
        char *text = mt_jinja_allocate(run, wanted);
        uint16_t *grown = builder->marks != NULL ? mt_jinja_allocate(run, wanted * sizeof *grown) : NULL;
        if (mt_jinja_failed(run)) return false;
        if (builder->bytes != 0) memcpy(text, builder->text, builder->bytes);
        if (grown != NULL) memcpy(grown, builder->marks, builder->bytes * sizeof *grown);
        builder->text = text;
        builder->marks = grown;
        builder->capacity = wanted;
    }
    if (marks && builder->marks == NULL)
        builder->marks = mt_jinja_allocate(run, builder->capacity * sizeof *builder->marks);
    return !mt_jinja_failed(run);
}

void mt_jinja_put(struct jinja_builder *builder, struct mt_marked text)
{
    if (text.bytes == 0 || !reserve_text(builder, text.bytes, text.marks != NULL)) return;
    memcpy(builder->text + builder->bytes, text.text, text.bytes);
    if (text.marks != NULL)
        memcpy(builder->marks + builder->bytes, text.marks, text.bytes * sizeof *text.marks);
    builder->bytes += text.bytes;
}

void mt_jinja_put_text(struct jinja_builder *builder, const char *text)
{
    mt_jinja_put(builder, marked_of(text));
}

void mt_jinja_put_repeated(struct jinja_builder *builder, struct mt_marked text, size_t times)
{
    if (text.bytes == 0 || times == 0) return;
    if (times > builder->run->memory_left / text.bytes) {
        (void)mt_jinja_fail_memory(builder->run);
        return;
    }
    if (!reserve_text(builder, text.bytes * times, false)) return;
    for (size_t i = 0; i < times && !mt_jinja_failed(builder->run); i++) mt_jinja_put(builder, text);
}

void mt_jinja_put_character(struct jinja_builder *builder, uint32_t character, uint16_t mark)
{
    uint8_t bytes[4];
    uint16_t marks[4] = {mark, mark, mark, mark};
    size_t count = mt_utf8_encode(character, bytes);
    mt_jinja_put(builder, (struct mt_marked){(const char *)bytes, mark != 0 ? marks : NULL, count});
}

void mt_jinja_put_ascii(struct jinja_builder *builder, const char *text, uint16_t mark)
{
    for (; *text != '\0'; text++) mt_jinja_put_character(builder, (unsigned char)*text, mark);
}
