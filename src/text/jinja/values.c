/* Values from the caller: constructors, and trees read from JSON. */
#include <math.h>

#include "formats/text/lists.h"
#include "formats/text/utf8.h"
#include "text/jinja/run.h"

enum mt_status mt_jinja_values_create(struct mt_context *ctx, struct mt_jinja_values **values)
{
    void *memory = NULL;
    *values = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **values, &memory);
    if (status != MT_OK) return status;
    *values = memory;
    (*values)->ctx = ctx;
    mt_arena_init(&(*values)->arena, ctx, (size_t)16 << 10);
    return MT_OK;
}

void mt_jinja_values_free(struct mt_jinja_values *values)
{
    if (values == NULL) return;
    mt_arena_free(&values->arena);
    mt_release(values->ctx, values, sizeof *values);
}

enum mt_status mt_jinja_values_set(struct mt_jinja_values *values, const char *name, struct mt_value value)
{
    for (struct jinja_variable *v = values->scope.variables; v != NULL; v = v->next) {
        if (!marked_is(v->name, name)) continue;
        v->value = value;
        return MT_OK;
    }
    void *memory = NULL;
    char *copy = NULL;
    enum mt_status status = mt_arena_allocate(&values->arena, sizeof(struct jinja_variable), &memory);
    if (status == MT_OK) status = mt_arena_copy_text(&values->arena, name, strlen(name), &copy);
    if (status != MT_OK) return status;
    struct jinja_variable *variable = memory;
    *variable = (struct jinja_variable){values->scope.variables, marked_of(copy), value};
    values->scope.variables = variable;
    return MT_OK;
}

struct mt_value mt_jinja_none(void)
{
    return (struct mt_value){.kind = JINJA_NONE};
}

struct mt_value mt_jinja_bool(bool truth)
{
    return (struct mt_value){.kind = JINJA_BOOL, .truth = truth};
}

struct mt_value mt_jinja_integer(int64_t integer)
{
    return (struct mt_value){.kind = JINJA_INTEGER, .integer = integer};
}

struct mt_value mt_jinja_real(double real)
{
    return (struct mt_value){.kind = JINJA_REAL, .real = real};
}

static enum mt_status repair(struct mt_jinja_values *values, const char *text, size_t bytes,
                             struct mt_marked *copy)
{
    struct mt_byte_list list = {.ctx = values->ctx};
    char *made = NULL;
    enum mt_status status = mt_utf8_append_repaired(&list, (const uint8_t *)text, bytes);
    if (status == MT_OK)
        status = mt_arena_copy_text(&values->arena, list.count != 0 ? (const char *)list.data : "",
                                    list.count, &made);
    *copy = (struct mt_marked){made, NULL, list.count};
    mt_byte_list_free(&list);
    return status;
}

enum mt_status mt_jinja_string(struct mt_jinja_values *values, const char *text, size_t bytes, unsigned mark,
                               struct mt_value *value)
{
    struct mt_marked made = {0};
    void *marks = NULL;
    if (mark > MT_JINJA_MARK_LAST)
        return mt_fail(values->ctx, MT_ERR_USAGE, "mark %u is larger than %d", mark, MT_JINJA_MARK_LAST);
    enum mt_status status = repair(values, bytes != 0 ? text : "", bytes, &made);
    if (status == MT_OK && mark != MT_JINJA_TRUSTED && made.bytes != 0) {
        status = mt_arena_allocate(&values->arena, made.bytes * sizeof(uint16_t), &marks);
        for (size_t i = 0; status == MT_OK && i < made.bytes; i++) ((uint16_t *)marks)[i] = (uint16_t)mark;
    }
    made.marks = marks;
    *value = marked_value(made);
    return status;
}

enum mt_status mt_jinja_list(struct mt_jinja_values *values, struct mt_value *list)
{
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(&values->arena, sizeof(struct jinja_list), &memory);
    *list = mt_jinja_object(JINJA_LIST, memory);
    return status;
}

enum mt_status mt_jinja_list_append(struct mt_jinja_values *values, struct mt_value list,
                                    struct mt_value item)
{
    if (list.kind != JINJA_LIST) return mt_fail(values->ctx, MT_ERR_USAGE, "not a list to append to");
    struct jinja_list *target = list.object;
    void *items = target->items;
    enum mt_status status =
        mt_jinja_arena_grow(&values->arena, &items, &target->capacity, sizeof item, target->count + 1);
    if (status != MT_OK) return status;
    target->items = items;
    target->items[target->count++] = item;
    return MT_OK;
}

enum mt_status mt_jinja_dict(struct mt_jinja_values *values, struct mt_value *dict)
{
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(&values->arena, sizeof(struct jinja_dict), &memory);
    *dict = mt_jinja_object(JINJA_DICT, memory);
    return status;
}

static enum mt_status add_pair(struct mt_jinja_values *values, struct jinja_dict *dict, struct mt_value key,
                               struct mt_value value)
{
    void *pairs = dict->pairs;
    enum mt_status status =
        mt_jinja_arena_grow(&values->arena, &pairs, &dict->capacity, sizeof *dict->pairs, dict->count + 1);
    if (status != MT_OK) return status;
    dict->pairs = pairs;
    dict->pairs[dict->count++] = (struct jinja_pair){key, value};
    return MT_OK;
}

enum mt_status mt_jinja_dict_set(struct mt_jinja_values *values, struct mt_value dict, struct mt_value key,
                                 struct mt_value value)
{
    if (dict.kind != JINJA_DICT || key.kind != JINJA_STRING)
        return mt_fail(values->ctx, MT_ERR_USAGE, "a dictionary and a string as key are needed");
    struct jinja_dict *target = dict.object;
    for (size_t i = 0; i < target->count; i++) {
        if (!marked_equal(target->pairs[i].key.string, key.string)) continue;
        target->pairs[i].value = value;
        return MT_OK;
    }
    return add_pair(values, target, key, value);
}

enum mt_status mt_jinja_dict_set_named(struct mt_jinja_values *values, struct mt_value dict, const char *key,
                                       struct mt_value value)
{
    struct mt_value made;
    enum mt_status status = mt_jinja_string(values, key, strlen(key), MT_JINJA_TRUSTED, &made);
    return status == MT_OK ? mt_jinja_dict_set(values, dict, made, value) : status;
}

static enum mt_status from_object(struct mt_jinja_values *values, const struct mt_json_node *node,
                                  unsigned mark, struct mt_value *value)
{
    void *position = NULL;
    struct mt_json_node child;
    enum mt_status status = mt_jinja_dict(values, value);
    while (status == MT_OK && mt_json_next(node, &position, &child)) {
        struct mt_value key;
        struct mt_value item;
        status = mt_jinja_string(values, child.key, strlen(child.key), mark, &key);
        if (status == MT_OK) status = mt_jinja_from_json(values, &child, mark, &item);
        // JSON's own reader has refused keys that come twice.
        if (status == MT_OK) status = add_pair(values, value->object, key, item);
    }
    return status;
}

static enum mt_status from_array(struct mt_jinja_values *values, const struct mt_json_node *node,
                                 unsigned mark, struct mt_value *value)
{
    size_t count = mt_json_count(node);
    enum mt_status status = mt_jinja_list(values, value);
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        struct mt_json_node child = mt_json_element(node, i);
        struct mt_value item;
        status = mt_jinja_from_json(values, &child, mark, &item);
        if (status == MT_OK) status = mt_jinja_list_append(values, *value, item);
    }
    return status;
}

static enum mt_status from_scalar(struct mt_jinja_values *values, const struct mt_json_node *node,
                                  unsigned mark, struct mt_value *value)
{
    enum mt_status status = MT_OK;
    *value = mt_jinja_none();
    switch (mt_json_kind(node)) {
    case MT_JSON_BOOL: value->kind = JINJA_BOOL; return mt_json_as_bool(node, &value->truth);
    case MT_JSON_INTEGER:
        value->kind = JINJA_INTEGER;
        return mt_json_as_integer(node, INT64_MIN, INT64_MAX, &value->integer);
    case MT_JSON_REAL:
        value->kind = JINJA_REAL;
        return mt_json_as_real(node, -HUGE_VAL, HUGE_VAL, &value->real);
    case MT_JSON_STRING: {
        const char *text = NULL;
        status = mt_json_as_string(node, &text);
        return status == MT_OK ? mt_jinja_string(values, text, strlen(text), mark, value) : status;
    }
    default: return MT_OK;
    }
}

enum mt_status mt_jinja_from_json(struct mt_jinja_values *values, const struct mt_json_node *node,
                                  unsigned mark, struct mt_value *value)
{
    enum mt_json_kind kind = mt_json_kind(node);
    if (kind == MT_JSON_OBJECT) return from_object(values, node, mark, value);
    if (kind == MT_JSON_ARRAY) return from_array(values, node, mark, value);
    return from_scalar(values, node, mark, value);
}
