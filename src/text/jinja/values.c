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
    (*values)->run = (struct jinja_run){
        .ctx = ctx, .memory_left = SIZE_MAX, .steps_left = SIZE_MAX, .scope = &(*values)->scope};
    mt_arena_init(&(*values)->run.arena, ctx, (size_t)16 << 10);
    return MT_OK;
}

enum mt_status mt_jinja_values_status(const struct mt_jinja_values *values)
{
    return values->run.status;
}

void mt_jinja_values_free(struct mt_jinja_values *values)
{
    if (values == NULL) return;
    mt_arena_free(&values->run.arena);
    mt_release(values->run.ctx, values, sizeof *values);
}

/* A copy that lasts as long as the values. */
static struct mt_marked keep(struct mt_jinja_values *values, const void *text, size_t bytes)
{
    char *copy = mt_jinja_allocate(&values->run, bytes + 1);
    if (copy == NULL) return marked_of("");
    if (bytes != 0) memcpy(copy, text, bytes);
    return (struct mt_marked){copy, NULL, bytes};
}

void mt_jinja_values_set(struct mt_jinja_values *values, const char *name, struct mt_value value)
{
    struct mt_marked kept = keep(values, name, strlen(name));
    mt_jinja_assign(&values->run, kept, value);
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

struct mt_value mt_jinja_string(struct mt_jinja_values *values, const char *text, size_t bytes, unsigned mark)
{
    struct jinja_run *run = &values->run;
    struct mt_byte_list repaired = {.ctx = run->ctx};
    if (mt_jinja_failed(run)) return mt_jinja_none();
    if (mark > MT_JINJA_MARK_LAST) {
        run->status = mt_fail(run->ctx, MT_ERR_USAGE, "mark %u is larger than %d", mark, MT_JINJA_MARK_LAST);
        return mt_jinja_none();
    }
    run->status = mt_utf8_append_repaired(&repaired, (const uint8_t *)text, bytes);
    struct mt_marked made = keep(values, repaired.data, repaired.count);
    mt_byte_list_free(&repaired);
    if (mark == MT_JINJA_TRUSTED || made.bytes == 0) return marked_value(made);
    uint16_t *marks = mt_jinja_allocate(run, made.bytes * sizeof *marks);
    for (size_t i = 0; marks != NULL && i < made.bytes; i++) marks[i] = (uint16_t)mark;
    made.marks = marks;
    return marked_value(made);
}

struct mt_value mt_jinja_list(struct mt_jinja_values *values)
{
    return mt_jinja_object(JINJA_LIST, mt_jinja_list_new(&values->run, 0));
}

void mt_jinja_list_append(struct mt_jinja_values *values, struct mt_value list, struct mt_value item)
{
    struct jinja_run *run = &values->run;
    if (!mt_jinja_failed(run) && list.kind != JINJA_LIST)
        run->status = mt_fail(run->ctx, MT_ERR_USAGE, "not a list to append to");
    if (!mt_jinja_failed(run)) mt_jinja_list_add(run, list.object, item);
}

struct mt_value mt_jinja_dict(struct mt_jinja_values *values)
{
    return mt_jinja_object(JINJA_DICT, mt_jinja_dict_new(&values->run));
}

void mt_jinja_dict_set(struct mt_jinja_values *values, struct mt_value dict, const char *key,
                       struct mt_value value)
{
    struct jinja_run *run = &values->run;
    if (!mt_jinja_failed(run) && dict.kind != JINJA_DICT)
        run->status = mt_fail(run->ctx, MT_ERR_USAGE, "not a dictionary to set a key of");
    struct mt_value name = mt_jinja_string(values, key, strlen(key), MT_JINJA_TRUSTED);
    if (!mt_jinja_failed(run)) mt_jinja_dict_put(run, dict.object, name, value);
}

static struct mt_value from_object(struct mt_jinja_values *values, const struct mt_json_node *node,
                                   unsigned mark)
{
    void *position = NULL;
    struct mt_json_node child;
    struct mt_value made = mt_jinja_dict(values);
    while (mt_json_next(node, &position, &child) && !mt_jinja_failed(&values->run)) {
        struct mt_value key = mt_jinja_string(values, child.key, strlen(child.key), mark);
        struct mt_value item = mt_jinja_from_json(values, &child, mark);
        // JSON's own reader has refused keys that come twice.
        mt_jinja_dict_add(&values->run, made.object, key, item);
    }
    return made;
}

static struct mt_value from_array(struct mt_jinja_values *values, const struct mt_json_node *node,
                                  unsigned mark)
{
    size_t count = mt_json_count(node);
    struct mt_value made = mt_jinja_list(values);
    for (size_t i = 0; i < count && !mt_jinja_failed(&values->run); i++) {
        struct mt_json_node child = mt_json_element(node, i);
        struct mt_value item = mt_jinja_from_json(values, &child, mark);
        mt_jinja_list_append(values, made, item);
    }
    return made;
}

struct mt_value mt_jinja_from_json(struct mt_jinja_values *values, const struct mt_json_node *node,
                                   unsigned mark)
{
    struct mt_value value = mt_jinja_none();
    const char *text = "";
    enum mt_status status = MT_OK;
    if (mt_jinja_failed(&values->run)) return value;
    switch (mt_json_kind(node)) {
    case MT_JSON_OBJECT: return from_object(values, node, mark);
    case MT_JSON_ARRAY: return from_array(values, node, mark);
    case MT_JSON_STRING:
        values->run.status = mt_json_as_string(node, &text);
        return mt_jinja_string(values, text, strlen(text), mark);
    case MT_JSON_BOOL:
        value.kind = JINJA_BOOL;
        status = mt_json_as_bool(node, &value.truth);
        break;
    case MT_JSON_INTEGER:
        value.kind = JINJA_INTEGER;
        status = mt_json_as_integer(node, INT64_MIN, INT64_MAX, &value.integer);
        break;
    case MT_JSON_REAL:
        value.kind = JINJA_REAL;
        status = mt_json_as_real(node, -HUGE_VAL, HUGE_VAL, &value.real);
        break;
    case MT_JSON_NULL: break;
    }
    values->run.status = status;
    return value;
}
