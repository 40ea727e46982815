/*
 * The schema of a Parquet file: a list of elements, depth first, becomes a tree of what rows hold. Lists and
 * maps are groups within groups there, in several ways that came one after the other; the rules are those of
 * Parquet's LogicalTypes.md.
 */
#include <stdio.h>
#include <string.h>

#include "formats/columnar/parquet.h"
#include "formats/text/printable.h"

enum repetition { REQUIRED, OPTIONAL, REPEATED };

enum converted {
    CONVERTED_UTF8 = 0,
    CONVERTED_MAP = 1,
    CONVERTED_MAP_KEY_VALUE = 2,
    CONVERTED_LIST = 3,
    CONVERTED_ENUM = 4,
    CONVERTED_DECIMAL = 5,
    CONVERTED_DATE = 6,
    CONVERTED_TIME_MILLIS = 7,
    CONVERTED_TIME_MICROS = 8,
    CONVERTED_TIMESTAMP_MILLIS = 9,
    CONVERTED_TIMESTAMP_MICROS = 10,
    CONVERTED_UINT_8 = 11,
    CONVERTED_UINT_64 = 14,
    CONVERTED_JSON = 19,
    CONVERTED_INTERVAL = 21,
};

/* The members of the union LogicalType, by their number; those of one meaning with a converted type are it.
 */
enum logical {
    LOGICAL_NONE,
    LOGICAL_TIME = 7,
    LOGICAL_TIMESTAMP = 8,
    LOGICAL_UUID = 14,
    LOGICAL_FLOAT16 = 15
};

struct element {
    int64_t physical;
    int64_t length;
    int64_t repetition;
    const uint8_t *name;
    size_t name_bytes;
    int64_t child_count;
    int64_t converted;
    int64_t scale;
    int logical;
    int digits; // of TIME and TIMESTAMP
    bool utc;
    struct element *first;
    struct element *next;
};

struct reading {
    const struct mt_row_text *out;
    struct mt_context *ctx;
    struct mt_thrift *thrift;
    struct mt_arena *arena;
    size_t left; // elements not read
    struct mt_parquet_leaf *leaves;
    size_t leaf_count;
    char path[MT_PARQUET_WHAT_BYTES / 2]; // of the element at hand, made printable
};

// ------------------------------------------------------------------ elements

/* MILLIS, MICROS, NANOS: which member of a union is set. */
static int read_unit(struct mt_thrift *thrift)
{
    struct mt_thrift_field field = {0};
    int digits = -1;
    while (mt_thrift_next(thrift, &field)) {
        if (field.id >= 1 && field.id <= 3) digits = 3 * field.id;
        mt_thrift_skip(thrift, &field);
    }
    return digits;
}

static void read_time(struct mt_thrift *thrift, struct element *element)
{
    struct mt_thrift_field field = {0};
    while (mt_thrift_next(thrift, &field)) {
        if (field.id == 1) {
            element->utc = mt_thrift_flag(thrift, &field);
        } else if (field.id == 2 && mt_thrift_struct(thrift, &field)) {
            element->digits = read_unit(thrift);
        } else {
            mt_thrift_skip(thrift, &field);
        }
    }
}

/* A decimal's scale stands here, too; an integer's sign and bits do not always stand anywhere else. */
static void read_integer(struct mt_thrift *thrift, struct element *element)
{
    struct mt_thrift_field field = {0};
    bool is_signed = true;
    while (mt_thrift_next(thrift, &field)) {
        if (field.id == 2) {
            is_signed = mt_thrift_flag(thrift, &field);
        } else {
            mt_thrift_skip(thrift, &field);
        }
    }
    if (!is_signed) element->converted = CONVERTED_UINT_8;
}

static void read_decimal(struct mt_thrift *thrift, struct element *element)
{
    struct mt_thrift_field field = {0};
    while (mt_thrift_next(thrift, &field)) {
        if (field.id == 1) {
            element->scale = mt_thrift_whole(thrift, &field);
        } else {
            mt_thrift_skip(thrift, &field);
        }
    }
    element->converted = CONVERTED_DECIMAL;
}

static void read_logical(struct mt_thrift *thrift, struct element *element)
{
    // STRING, MAP, LIST, ENUM, (DECIMAL), DATE, (TIME), (TIMESTAMP), -, (INTEGER), UNKNOWN, JSON
    static const int16_t same[] = {
        -1, CONVERTED_UTF8, CONVERTED_MAP, CONVERTED_LIST, CONVERTED_ENUM, -1, CONVERTED_DATE, -1, -1, -1, -1,
        -1, CONVERTED_JSON};
    struct mt_thrift_field field = {0};
    while (mt_thrift_next(thrift, &field)) {
        bool time = field.id == LOGICAL_TIME || field.id == LOGICAL_TIMESTAMP;
        if (field.id > 0 && field.id < (int)(sizeof same / sizeof same[0]) && same[field.id] >= 0)
            element->converted = same[field.id];
        element->logical = field.id;
        if (time && mt_thrift_struct(thrift, &field)) {
            read_time(thrift, element);
        } else if (field.id == 5 && mt_thrift_struct(thrift, &field)) {
            read_decimal(thrift, element);
        } else if (field.id == 10 && mt_thrift_struct(thrift, &field)) {
            read_integer(thrift, element);
        } else {
            mt_thrift_skip(thrift, &field);
        }
    }
}

static void read_fields(struct mt_thrift *thrift, struct element *element)
{
    struct mt_thrift_field field = {0};
    *element = (struct element){.physical = -1, .repetition = REQUIRED, .converted = -1};
    while (mt_thrift_next(thrift, &field)) {
        switch (field.id) {
        case 1: element->physical = mt_thrift_whole(thrift, &field); break;
        case 2: element->length = mt_thrift_whole(thrift, &field); break;
        case 3: element->repetition = mt_thrift_whole(thrift, &field); break;
        case 4: element->name = mt_thrift_bytes(thrift, &field, &element->name_bytes); break;
        case 5: element->child_count = mt_thrift_whole(thrift, &field); break;
        case 6: element->converted = mt_thrift_whole(thrift, &field); break;
        case 7: element->scale = mt_thrift_whole(thrift, &field); break;
        case 10:
            if (mt_thrift_struct(thrift, &field)) read_logical(thrift, element);
            break;
        default: mt_thrift_skip(thrift, &field);
        }
    }
}

static enum mt_status fail(const struct reading *reading, const char *problem)
{
    return mt_fail(reading->ctx, MT_ERR_FORMAT, "%s: the schema %s", reading->out->file, problem);
}

/* Reads an element and all below it. */
static enum mt_status read_element(struct reading *reading, int depth, struct element **element)
{
    void *memory = NULL;
    if (reading->left == 0) return fail(reading, "ends early");
    if (depth > MT_PARQUET_MOST_DEPTH) return fail(reading, "is nested too deeply");
    enum mt_status status = mt_arena_allocate(reading->arena, sizeof **element, &memory);
    if (status != MT_OK) return status;
    *element = memory;
    reading->left--;
    read_fields(reading->thrift, *element);
    int64_t count = (*element)->child_count;
    if (reading->thrift->broken) return fail(reading, "is cut off or damaged");
    if (count < 0 || (uint64_t)count > reading->left || (*element)->repetition < REQUIRED ||
        (*element)->repetition > REPEATED)
        return fail(reading, "contradicts itself");
    if ((*element)->name == NULL) (*element)->name = (const uint8_t *)"";
    struct element **place = &(*element)->first;
    for (int64_t i = 0; i < count && status == MT_OK; i++) {
        status = read_element(reading, depth + 1, place);
        if (status == MT_OK) place = &(*place)->next;
    }
    return status;
}

// ------------------------------------------------------------------ leaves

static bool named(const struct element *element, const char *name)
{
    return element->name_bytes == strlen(name) && memcmp(element->name, name, element->name_bytes) == 0;
}

/* What the values of a leaf mean; false: a combination that does not exist, or is not read. */
static bool type_of(const struct element *element, struct mt_value_type *type)
{
    static const enum mt_value_kind plain[MT_PARQUET_TYPES] = {
        MT_VALUE_BOOL, MT_VALUE_SIGNED, MT_VALUE_SIGNED, MT_VALUE_INT96,
        MT_VALUE_REAL, MT_VALUE_REAL,   MT_VALUE_BINARY, MT_VALUE_BINARY};
    int64_t physical = element->physical;
    int64_t converted = element->converted;
    bool whole = physical == MT_PARQUET_INT32 || physical == MT_PARQUET_INT64;
    bool bytes = physical == MT_PARQUET_BYTE_ARRAY || physical == MT_PARQUET_FIXED;
    *type = (struct mt_value_type){.kind = plain[physical], .scale = (int)element->scale};
    if (physical == MT_PARQUET_FLOAT) type->bits = 32;
    if (element->logical == LOGICAL_UUID || element->logical == LOGICAL_FLOAT16) {
        bool uuid = element->logical == LOGICAL_UUID;
        type->kind = uuid ? MT_VALUE_UUID : MT_VALUE_REAL;
        type->bits = 16;
        return physical == MT_PARQUET_FIXED && element->length == (uuid ? 16 : 2);
    }
    if (element->logical == LOGICAL_TIME || element->logical == LOGICAL_TIMESTAMP) {
        bool time = element->logical == LOGICAL_TIME;
        type->kind = time ? MT_VALUE_TIME : MT_VALUE_TIMESTAMP;
        type->digits = element->digits;
        type->utc = element->utc && !time;
        return whole && element->digits > 0;
    }
    switch (converted) {
    case CONVERTED_UTF8:
    case CONVERTED_ENUM:
    case CONVERTED_JSON: type->kind = MT_VALUE_TEXT; return bytes;
    case CONVERTED_DECIMAL: {
        bool fits = physical != MT_PARQUET_FIXED || element->length <= MT_DECIMAL_BYTES;
        type->kind = MT_VALUE_DECIMAL;
        return (whole || bytes) && fits && element->scale >= 0 && element->scale <= MT_DECIMAL_SCALE;
    }
    case CONVERTED_DATE: type->kind = MT_VALUE_DATE; return physical == MT_PARQUET_INT32;
    case CONVERTED_TIME_MILLIS:
    case CONVERTED_TIME_MICROS:
        type->kind = MT_VALUE_TIME;
        type->digits = converted == CONVERTED_TIME_MILLIS ? 3 : 6;
        return whole;
    case CONVERTED_TIMESTAMP_MILLIS:
    case CONVERTED_TIMESTAMP_MICROS:
        type->kind = MT_VALUE_TIMESTAMP;
        type->digits = converted == CONVERTED_TIMESTAMP_MILLIS ? 3 : 6;
        return whole;
    case CONVERTED_INTERVAL: return false;
    default:
        if (whole && converted >= CONVERTED_UINT_8 && converted <= CONVERTED_UINT_64)
            type->kind = MT_VALUE_UNSIGNED;
        return true;
    }
}

static enum mt_status add_leaf(struct reading *reading, const struct element *element, unsigned defined,
                               unsigned repeated)
{
    static const size_t sizes[MT_PARQUET_TYPES] = {0, 4, 8, 12, 4, 8, 0, 0};
    if (reading->leaf_count == MT_PARQUET_MOST_LEAVES) return fail(reading, "has more than 4096 columns");
    struct mt_parquet_leaf *leaf = &reading->leaves[reading->leaf_count];
    *leaf = (struct mt_parquet_leaf){.ctx = reading->ctx,
                                     .max_definition = defined,
                                     .max_repetition = repeated,
                                     .page = {.ctx = reading->ctx},
                                     .previous = {.ctx = reading->ctx},
                                     .dictionary = {.ctx = reading->ctx}};
    (void)snprintf(leaf->what, sizeof leaf->what, "%.180s: column '%s'", reading->out->file, reading->path);
    if (element->physical < 0 || element->physical >= MT_PARQUET_TYPES)
        return mt_parquet_fail(leaf, "has the unknown type %lld", (long long)element->physical);
    leaf->physical = (enum mt_parquet_physical)element->physical;
    leaf->fixed = sizes[element->physical];
    if (leaf->physical == MT_PARQUET_FIXED) {
        if (element->length < 1 || element->length > (int64_t)1 << 24)
            return mt_parquet_fail(leaf, "has values of %lld bytes", (long long)element->length);
        leaf->fixed = (size_t)element->length;
    }
    if (!type_of(element, &leaf->type))
        return mt_parquet_fail(
            leaf, "has a type that is not read (converted type %lld, logical type %d of type %lld)",
            (long long)element->converted, element->logical, (long long)element->physical);
    reading->leaf_count++;
    return MT_OK;
}

// ------------------------------------------------------------------ the tree

static enum mt_status make_node(struct reading *reading, const struct element *element, unsigned defined,
                                unsigned repeated, bool item, struct mt_parquet_node **node);

static enum mt_status make_children(struct reading *reading, const struct element *element, unsigned defined,
                                    unsigned repeated, struct mt_parquet_node *node)
{
    struct mt_parquet_node **place = &node->child;
    enum mt_status status = MT_OK;
    if (element->first == NULL) return fail(reading, "has a group without members");
    for (const struct element *child = element->first; child != NULL && status == MT_OK;
         child = child->next) {
        status = make_node(reading, child, defined, repeated, false, place);
        if (status == MT_OK) place = &(*place)->next;
    }
    return status;
}

/* True when the repeated member of a list is the item itself, and not a group around it. */
static bool is_item(const struct element *list, const struct element *repeated)
{
    const struct element *inner = repeated->first;
    size_t bytes = list->name_bytes;
    if (inner == NULL || inner->next != NULL || inner->repetition == REPEATED) return true;
    bool tuple = repeated->name_bytes == bytes + 6 && memcmp(repeated->name, list->name, bytes) == 0 &&
                 memcmp(repeated->name + bytes, "_tuple", 6) == 0;
    return tuple || named(repeated, "array");
}

/* A list's or a map's items, which `repeated` is or has. */
static enum mt_status make_items(struct reading *reading, const struct element *element,
                                 const struct element *repeated, struct mt_parquet_node *node)
{
    unsigned defined = node->defined + 1;
    node->filled = defined;
    node->repeated++;
    if (node->kind == MT_PARQUET_LIST) {
        bool item = repeated == element || is_item(element, repeated);
        return make_node(reading, item ? repeated : repeated->first, defined, node->repeated, item,
                         &node->child);
    }
    if (repeated->first->first != NULL) return fail(reading, "has a map whose keys are not plain values");
    return make_children(reading, repeated, defined, node->repeated, node);
}

/* What a group is; *repeated: the member that holds items. */
static enum mt_parquet_kind kind_of(const struct element *element, const struct element **repeated)
{
    const struct element *only = element->first;
    bool holds = only != NULL && only->next == NULL && only->repetition == REPEATED;
    *repeated = only;
    if (only == NULL)
        return element->child_count > 0 || element->physical < 0 ? MT_PARQUET_STRUCT : MT_PARQUET_LEAF;
    if (holds && element->converted == CONVERTED_LIST) return MT_PARQUET_LIST;
    bool map = element->converted == CONVERTED_MAP || element->converted == CONVERTED_MAP_KEY_VALUE;
    bool pair = holds && only->first != NULL && only->first->next != NULL && only->first->next->next == NULL;
    return map && pair ? MT_PARQUET_MAP : MT_PARQUET_STRUCT;
}

/* Appends to the path of columns; returns where it ended, to cut it off again. */
static size_t lengthen(struct reading *reading, const struct element *element)
{
    size_t end = strlen(reading->path);
    (void)snprintf(reading->path + end, sizeof reading->path - end, "%s%.100s", end > 0 ? "." : "",
                   mt_printable_bytes((const char *)element->name, element->name_bytes).text);
    return end;
}

/* `item`: of a list without a group of its own, whose repetition is the list's already. */
static enum mt_status make_node(struct reading *reading, const struct element *element, unsigned defined,
                                unsigned repeated, bool item, struct mt_parquet_node **node)
{
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(reading->arena, sizeof **node, &memory);
    if (status != MT_OK) return status;
    struct mt_parquet_node *made = memory;
    const struct element *items = element;
    bool list = element->repetition == REPEATED && !item;
    if (element->repetition == OPTIONAL) defined++;
    size_t end = lengthen(reading, element);
    *made = (struct mt_parquet_node){.kind = list ? MT_PARQUET_LIST : kind_of(element, &items),
                                     .name = (const char *)element->name,
                                     .name_bytes = element->name_bytes,
                                     .defined = defined,
                                     .repeated = repeated,
                                     .first_leaf = reading->leaf_count};
    *node = made;
    switch (made->kind) {
    case MT_PARQUET_LEAF: status = add_leaf(reading, element, defined, repeated); break;
    case MT_PARQUET_STRUCT: status = make_children(reading, element, defined, repeated, made); break;
    default: status = make_items(reading, element, items, made);
    }
    made->leaf_count = reading->leaf_count - made->first_leaf;
    reading->path[end] = '\0';
    return status;
}

enum mt_status mt_parquet_schema_read(struct mt_thrift *thrift, size_t count, const struct mt_row_text *out,
                                      struct mt_arena *arena, struct mt_parquet_schema *schema)
{
    struct reading reading = {.out = out,
                              .ctx = out->ctx,
                              .thrift = thrift,
                              .arena = arena,
                              .left = count,
                              .leaves = schema->leaves};
    struct element *root = NULL;
    enum mt_status status = read_element(&reading, 0, &root);
    if (status == MT_OK && reading.left > 0) status = fail(&reading, "has elements behind its end");
    if (status != MT_OK) return status;
    struct mt_parquet_node *node = NULL;
    void *memory = NULL;
    status = mt_arena_allocate(arena, sizeof *node, &memory);
    if (status != MT_OK) return status;
    schema->root = node = memory;
    *node = (struct mt_parquet_node){.kind = MT_PARQUET_STRUCT};
    status = make_children(&reading, root, 0, 0, node);
    schema->leaf_count = reading.leaf_count;
    node->leaf_count = reading.leaf_count;
    return status;
}
