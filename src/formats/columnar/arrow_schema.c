/* Arrow's schema: fields, with what their buffers are and what their values mean. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formats/columnar/arrow.h"
#include "formats/text/printable.h"

/* The union Type, by its numbers. */
enum type {
    TYPE_NULL = 1,
    TYPE_INT,
    TYPE_FLOAT,
    TYPE_BINARY,
    TYPE_UTF8,
    TYPE_BOOL,
    TYPE_DECIMAL,
    TYPE_DATE,
    TYPE_TIME,
    TYPE_TIMESTAMP,
    TYPE_INTERVAL,
    TYPE_LIST,
    TYPE_STRUCT,
    TYPE_UNION,
    TYPE_FIXED_BINARY,
    TYPE_FIXED_LIST,
    TYPE_MAP,
    TYPE_DURATION,
    TYPE_LARGE_BINARY,
    TYPE_LARGE_UTF8,
    TYPE_LARGE_LIST,
    TYPE_RUN_END,
    TYPE_BINARY_VIEW,
    TYPE_UTF8_VIEW,
    TYPE_LIST_VIEW,
    TYPE_LARGE_LIST_VIEW,
    TYPES
};

static const char *const type_names[TYPES] = {[TYPE_INTERVAL] = "an interval",
                                              [TYPE_UNION] = "a union",
                                              [TYPE_RUN_END] = "run-end encoded",
                                              [TYPE_LIST_VIEW] = "a list view",
                                              [TYPE_LARGE_LIST_VIEW] = "a list view"};

enum mt_status mt_arrow_fail(const struct mt_arrow_field *field, const char *format, ...)
{
    char problem[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(problem, sizeof problem, format, arguments);
    va_end(arguments);
    return mt_fail(field->ctx, MT_ERR_FORMAT, "%s %s", field->what, problem);
}

/* SECOND, MILLISECOND, MICROSECOND, NANOSECOND as digits of a fraction; -1: none of them. */
static int digits_of(int64_t unit)
{
    return unit >= 0 && unit <= 3 ? (int)unit * 3 : -1;
}

static void set_fixed(struct mt_arrow_field *field, enum mt_value_kind kind, int64_t width)
{
    field->layout = MT_ARROW_FIXED;
    field->type.kind = kind;
    field->width = (uint64_t)width;
}

static bool set_int(const struct mt_flat_table *type, struct mt_arrow_field *field)
{
    int64_t bits = mt_flat_whole(type, 0, 4, 0);
    field->is_signed = mt_flat_whole(type, 1, 1, 0) != 0;
    set_fixed(field, field->is_signed ? MT_VALUE_SIGNED : MT_VALUE_UNSIGNED, bits / 8);
    return bits == 8 || bits == 16 || bits == 32 || bits == 64;
}

static bool set_decimal(const struct mt_flat_table *type, struct mt_arrow_field *field)
{
    int64_t scale = mt_flat_whole(type, 1, 4, 0);
    int64_t bits = mt_flat_whole(type, 2, 4, 128);
    set_fixed(field, MT_VALUE_DECIMAL, bits / 8);
    field->type.scale = (int)scale;
    return scale >= -MT_DECIMAL_SCALE && scale <= MT_DECIMAL_SCALE &&
           (bits == 32 || bits == 64 || bits == 128 || bits == 256);
}

static bool set_clock(const struct mt_flat_table *type, struct mt_arrow_field *field, int64_t kind)
{
    int64_t bits = 64;
    size_t zone = 0;
    int64_t unit = mt_flat_whole(type, 0, 2, kind == TYPE_TIMESTAMP ? 0 : 1);
    if (kind == TYPE_TIME) bits = mt_flat_whole(type, 1, 4, 32);
    if (kind == TYPE_DATE) bits = unit == 0 ? 32 : 64;
    field->milliseconds = kind == TYPE_DATE && unit == 1;
    set_fixed(field,
              kind == TYPE_DATE   ? MT_VALUE_DATE
              : kind == TYPE_TIME ? MT_VALUE_TIME
                                  : MT_VALUE_TIMESTAMP,
              bits / 8);
    if (kind == TYPE_DURATION) field->type.kind = MT_VALUE_SIGNED;
    field->is_signed = true;
    field->type.digits = digits_of(unit);
    field->type.utc = kind == TYPE_TIMESTAMP && mt_flat_text(type, 1, &zone) != NULL && zone > 0;
    return field->type.digits >= 0 && (bits == 32 || bits == 64);
}

static bool set_sized(const struct mt_flat_table *type, struct mt_arrow_field *field,
                      enum mt_arrow_layout layout)
{
    int64_t width = mt_flat_whole(type, 0, 4, 0);
    if (layout == MT_ARROW_FIXED) set_fixed(field, MT_VALUE_BINARY, width);
    field->layout = layout;
    field->width = (uint64_t)width;
    return width >= 0;
}

static bool set_wide(struct mt_arrow_field *field, enum mt_arrow_layout layout, enum mt_value_kind kind,
                     uint64_t width)
{
    field->layout = layout;
    field->type.kind = kind;
    field->width = width;
    return true;
}

/* What the values are; false: something that is not read. */
static bool set_type(const struct mt_flat_table *type, int64_t kind, struct mt_arrow_field *field)
{
    int64_t precision = 0;
    switch (kind) {
    case TYPE_NULL: return set_wide(field, MT_ARROW_NOTHING, MT_VALUE_NULL, 0);
    case TYPE_BOOL: return set_wide(field, MT_ARROW_BITS, MT_VALUE_BOOL, 0);
    case TYPE_INT: return set_int(type, field);
    case TYPE_FLOAT:
        precision = mt_flat_whole(type, 0, 2, 0);
        set_fixed(field, MT_VALUE_REAL, (int64_t)2 << (precision & 3));
        field->type.bits = 16 << (precision & 3);
        return precision >= 0 && precision <= 2;
    case TYPE_BINARY: return set_wide(field, MT_ARROW_TEXTS, MT_VALUE_BINARY, 4);
    case TYPE_UTF8: return set_wide(field, MT_ARROW_TEXTS, MT_VALUE_TEXT, 4);
    case TYPE_LARGE_BINARY: return set_wide(field, MT_ARROW_TEXTS, MT_VALUE_BINARY, 8);
    case TYPE_LARGE_UTF8: return set_wide(field, MT_ARROW_TEXTS, MT_VALUE_TEXT, 8);
    case TYPE_BINARY_VIEW: return set_wide(field, MT_ARROW_VIEWS, MT_VALUE_BINARY, 16);
    case TYPE_UTF8_VIEW: return set_wide(field, MT_ARROW_VIEWS, MT_VALUE_TEXT, 16);
    case TYPE_DECIMAL: return set_decimal(type, field);
    case TYPE_DATE:
    case TYPE_TIME:
    case TYPE_TIMESTAMP:
    case TYPE_DURATION: return set_clock(type, field, kind);
    case TYPE_FIXED_BINARY: return set_sized(type, field, MT_ARROW_FIXED);
    case TYPE_FIXED_LIST: return set_sized(type, field, MT_ARROW_ARRAYS);
    case TYPE_LIST: return set_wide(field, MT_ARROW_LIST, MT_VALUE_NULL, 4);
    case TYPE_LARGE_LIST: return set_wide(field, MT_ARROW_LIST, MT_VALUE_NULL, 8);
    case TYPE_MAP: return set_wide(field, MT_ARROW_MAP, MT_VALUE_NULL, 4);
    case TYPE_STRUCT: return set_wide(field, MT_ARROW_STRUCT, MT_VALUE_NULL, 0);
    default: return false;
    }
}

/* True when a field has the children its layout needs. */
static bool has_children(const struct mt_arrow_field *field)
{
    const struct mt_arrow_field *child = field->child;
    bool one = child != NULL && child->next == NULL;
    if (field->layout == MT_ARROW_LIST || field->layout == MT_ARROW_ARRAYS) return one;
    if (field->layout != MT_ARROW_MAP) return true;
    bool pair = one && child->layout == MT_ARROW_STRUCT && !child->indexed && child->child != NULL &&
                child->child->next != NULL && child->child->next->next == NULL;
    return pair && child->child->layout <= MT_ARROW_VIEWS;
}

static enum mt_status read_field(struct mt_arrow *arrow, const struct mt_flat_table *table, const char *above,
                                 int depth, struct mt_arrow_field **field);

static enum mt_status read_fields(struct mt_arrow *arrow, const struct mt_flat_vector *list,
                                  const char *above, int depth, struct mt_arrow_field **place)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < list->count && status == MT_OK; i++) {
        struct mt_flat_table table = mt_flat_table_item(list, i);
        status = read_field(arrow, &table, above, depth, place);
        if (status == MT_OK) place = &(*place)->next;
    }
    return status;
}

static enum mt_status new_field(struct mt_arrow *arrow, struct mt_arrow_field **field)
{
    void *memory = NULL;
    if (arrow->field_count == MT_ARROW_MOST_FIELDS)
        return mt_fail(arrow->ctx, MT_ERR_FORMAT, "%s: more than %d fields", arrow->out->file,
                       MT_ARROW_MOST_FIELDS);
    enum mt_status status = mt_arena_allocate(&arrow->arena, sizeof **field, &memory);
    if (status != MT_OK) return status;
    arrow->field_count++;
    *field = memory;
    **field = (struct mt_arrow_field){.ctx = arrow->ctx,
                                      .valid.unpacked.ctx = arrow->ctx,
                                      .offsets.unpacked.ctx = arrow->ctx,
                                      .data.unpacked.ctx = arrow->ctx};
    return MT_OK;
}

/* Makes a field one of indexes; what it was is that of the dictionary's values. */
static enum mt_status make_indexed(struct mt_arrow *arrow, const struct mt_flat_table *encoding,
                                   struct mt_arrow_field *field)
{
    struct mt_flat_table index = mt_flat_child(encoding, 1);
    struct mt_arrow_field *values = NULL;
    enum mt_status status = new_field(arrow, &values);
    if (status != MT_OK) return status;
    *values = *field;
    field->values = values;
    field->child = NULL;
    field->indexed = true;
    field->dictionary = mt_flat_whole(encoding, 0, 8, 0);
    field->layout = MT_ARROW_FIXED;
    field->width = 4;
    field->is_signed = true;
    if (index.at != 0 && !set_int(&index, field))
        return mt_arrow_fail(field, "has indexes that are not whole numbers");
    return MT_OK;
}

static enum mt_status read_field(struct mt_arrow *arrow, const struct mt_flat_table *table, const char *above,
                                 int depth, struct mt_arrow_field **place)
{
    char path[200];
    size_t bytes = 0;
    if (depth > MT_ARROW_MOST_DEPTH)
        return mt_fail(arrow->ctx, MT_ERR_FORMAT, "%s: the schema is nested too deeply", arrow->out->file);
    enum mt_status status = new_field(arrow, place);
    if (status != MT_OK) return status;
    struct mt_arrow_field *field = *place;
    const char *name = mt_flat_text(table, 0, &bytes);
    status = mt_arena_copy_text(&arrow->arena, name != NULL ? name : "", bytes, &field->name);
    if (status != MT_OK) return status;
    field->name_bytes = bytes;
    (void)snprintf(path, sizeof path, "%.90s%s%.100s", above, above[0] != '\0' ? "." : "",
                   mt_printable_bytes(field->name, bytes).text);
    (void)snprintf(field->what, sizeof field->what, "%.180s: column '%s'", arrow->out->file, path);
    int64_t kind = (uint8_t)mt_flat_whole(table, 2, 1, 0);
    struct mt_flat_table type = mt_flat_child(table, 3);
    struct mt_flat_vector children = mt_flat_items(table, 5, 4);
    struct mt_flat_table encoding = mt_flat_child(table, 4);
    if (table->buffer->broken) return MT_OK; // the caller says so, of the schema
    if (!set_type(&type, kind, field))
        return mt_arrow_fail(field, "has a type that is not read: %s (number %lld)",
                             kind < TYPES && type_names[kind] != NULL ? type_names[kind] : "unknown",
                             (long long)kind);
    status = read_fields(arrow, &children, path, depth + 1, &field->child);
    if (status != MT_OK || table->buffer->broken) return status;
    if (!has_children(field)) return mt_arrow_fail(field, "does not have the children of its type");
    return encoding.at != 0 ? make_indexed(arrow, &encoding, field) : MT_OK;
}

enum mt_status mt_arrow_schema_read(struct mt_arrow *arrow, const struct mt_flat_table *schema)
{
    struct mt_flat_vector fields = mt_flat_items(schema, 1, 4);
    if (mt_flat_whole(schema, 0, 2, 0) != 0)
        return mt_fail(arrow->ctx, MT_ERR_FORMAT,
                       "%s: its numbers are big-endian, which metier does not read", arrow->out->file);
    enum mt_status status = read_fields(arrow, &fields, "", 1, &arrow->columns);
    if (status != MT_OK) return status;
    if (schema->buffer->broken)
        return mt_fail(arrow->ctx, MT_ERR_FORMAT, "%s: the schema is damaged", arrow->out->file);
    if (arrow->columns == NULL)
        return mt_fail(arrow->ctx, MT_ERR_FORMAT, "%s: has no columns", arrow->out->file);
    return MT_OK;
}

enum mt_status mt_arrow_field_copy(struct mt_arrow *arrow, const struct mt_arrow_field *field,
                                   struct mt_arrow_field **copy)
{
    enum mt_status status = MT_OK;
    struct mt_arrow_field *made = mt_arena_array(&arrow->arena, 1, sizeof *made, &status);
    if (status != MT_OK) return status;
    *made = *field;
    made->next = NULL;
    made->child = NULL;
    *copy = made;
    struct mt_arrow_field **place = &made->child;
    for (const struct mt_arrow_field *child = field->child; child != NULL && status == MT_OK;
         child = child->next) {
        status = mt_arrow_field_copy(arrow, child, place);
        if (status == MT_OK) place = &(*place)->next;
    }
    return status;
}

const struct mt_arrow_field *mt_arrow_indexed(const struct mt_arrow_field *first, int64_t dictionary)
{
    const struct mt_arrow_field *found = NULL;
    for (const struct mt_arrow_field *field = first; field != NULL && found == NULL; field = field->next) {
        if (field->indexed && field->dictionary == dictionary) return field;
        found = mt_arrow_indexed(field->indexed ? field->values : field->child, dictionary);
    }
    return found;
}
