/*
 * Rows of JSON: a line of JSONL, or a member of a document. A document is not parsed as a whole: a walk that
 * knows strings and brackets finds where its rows begin, and each row is parsed when it is read. So the
 * document may be larger than memory; what is malformed inside a row is found with the row.
 *
 * The rows of a document are the elements of the array at the top, or of the first array of objects that is
 * a member of the object at the top ({"examples": [...]}), or else the members of that object
 * ({"0": {...}, "1": {...}}).
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/exact.h"
#include "formats/data/dataset_private.h"

// ------------------------------------------------------------------ walking through a document

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* The next byte that is not white space, without taking it; '\0' at the end. */
static char peek(struct mt_row_walk *walk)
{
    while (walk->at < walk->bytes && is_space(walk->text[walk->at])) mt_walk_step(walk);
    return walk->at < walk->bytes ? walk->text[walk->at] : '\0';
}

static bool take(struct mt_row_walk *walk, char wanted)
{
    if (peek(walk) != wanted) return false;
    mt_walk_step(walk);
    return true;
}

/* Steps over a string, its first quote included; false when it does not end. */
static bool skip_string(struct mt_row_walk *walk)
{
    mt_walk_step(walk);
    while (walk->at < walk->bytes) {
        char byte = walk->text[walk->at];
        mt_walk_step(walk);
        if (byte == '"') return true;
        if (byte == '\\' && walk->at < walk->bytes) mt_walk_step(walk);
    }
    return false;
}

/* Steps over a value, however deep; false when it does not end. What is in it is not looked at. */
static bool skip_value(struct mt_row_walk *walk)
{
    uint64_t depth = 0;
    (void)peek(walk);
    size_t start = walk->at;
    while (walk->at < walk->bytes) {
        char byte = walk->text[walk->at];
        bool closing = byte == ']' || byte == '}';
        if (depth == 0 && (closing || byte == ',')) break; // a number or a word ends before it
        if (byte == '"') {
            if (!skip_string(walk)) return false;
            if (depth == 0) return true;
            continue;
        }
        mt_walk_step(walk);
        if (byte == '[' || byte == '{') depth++;
        if (closing) depth--;
        if (closing && depth == 0) return true;
    }
    return depth == 0 && walk->at > start;
}

/* Steps over `"key":`; true when that was there. */
static bool skip_key(struct mt_row_walk *walk)
{
    return peek(walk) == '"' && skip_string(walk) && take(walk, ':');
}

static enum mt_status fail_at(const struct mt_dataset *dataset, const struct mt_row_walk *walk,
                              const char *problem)
{
    return mt_fail(dataset->ctx, MT_ERR_FORMAT, "%s:%llu: %s", dataset->path, (unsigned long long)walk->line,
                   problem);
}

/* Looks through the object at the top for an array of objects; the walk stops inside of it, or stays. */
static enum mt_status find_array(const struct mt_dataset *dataset, struct mt_row_walk *walk)
{
    struct mt_row_walk ahead = *walk;
    bool more = peek(&ahead) != '}';
    while (more) {
        if (!skip_key(&ahead)) return fail_at(dataset, &ahead, "not valid JSON: expected a key and a colon");
        struct mt_row_walk inside = ahead;
        if (take(&inside, '[') && peek(&inside) == '{') {
            *walk = inside;
            return MT_OK;
        }
        if (!skip_value(&ahead)) return fail_at(dataset, &ahead, "not valid JSON: the value does not end");
        more = take(&ahead, ',');
    }
    return MT_OK;
}

static enum mt_status rows_start(struct mt_dataset *dataset, struct mt_row_walk *walk)
{
    char first = peek(walk);
    if (first != '[' && first != '{') {
        return fail_at(
            dataset, walk,
            "expected a JSON array of objects, or an object with one (one object a line is jsonl)");
    }
    mt_walk_step(walk);
    dataset->json_opening = first;
    return first == '{' ? find_array(dataset, walk) : MT_OK;
}

/*
 * The next element, or the value of the next member. Called for the index it moves behind the comma; from a
 * row's place it finds the same value again, because a place is where the value begins.
 */
static bool rows_next(const struct mt_dataset *dataset, struct mt_row_walk *walk, struct mt_row_span *span)
{
    (void)dataset;
    char first = peek(walk);
    struct mt_row_walk ahead = *walk;
    if (first == '"' && skip_key(&ahead)) *walk = ahead;
    first = peek(walk);
    if (walk->ended || first == ']' || first == '}' || first == '\0') return false;
    *span = (struct mt_row_span){.text = walk->text + walk->at, .line = walk->line};
    bool whole = skip_value(walk);
    span->bytes = (size_t)(walk->text + walk->at - span->text);
    if (!whole) span->problem = "not valid JSON: the value does not end";
    if (span->bytes == 0) return false;
    walk->ended = !take(walk, ',');
    if (!walk->ended && (peek(walk) == ']' || peek(walk) == '}')) walk->at = walk->bytes; // a comma too many
    return true;
}

static enum mt_status rows_finish(struct mt_dataset *dataset, struct mt_row_walk *walk)
{
    char closing = peek(walk);
    if (closing != ']' && closing != '}') {
        return fail_at(dataset, walk, "not valid JSON: the list of rows does not end as one");
    }
    mt_walk_step(walk);
    char after = peek(walk);
    bool inside =
        dataset->json_opening == '{' && closing == ']'; // the array was a member of the object at the top
    if (inside ? after == ',' || after == '}' : walk->at == walk->bytes) return MT_OK;
    return fail_at(dataset, walk, "not valid JSON: something follows the list of rows");
}

// ------------------------------------------------------------------ one row

/* Keeps a number or a word as the text it would have in JSON. */
static enum mt_status store_scalar(struct mt_row *row, const struct mt_json_node *node,
                                   struct mt_row_field *field)
{
    char text[MT_EXACT_BYTES];
    const json_t *value = node->value;
    switch (mt_json_kind(node)) {
    case MT_JSON_BOOL: (void)snprintf(text, sizeof text, json_is_true(value) ? "true" : "false"); break;
    case MT_JSON_INTEGER:
        (void)snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
        break;
    case MT_JSON_REAL: (void)mt_exact_text(json_real_value(value), text); break;
    default: text[0] = '\0'; break; // null: an empty text
    }
    size_t start = row->storage.count;
    enum mt_status status = mt_byte_list_append_text(&row->storage, text);
    if (status != MT_OK) return status;
    field->text = (const char *)row->storage.data + start;
    field->bytes = row->storage.count - start;
    return MT_OK;
}

static enum mt_status read_field(struct mt_row *row, const struct mt_json_node *node)
{
    struct mt_row_field *field = NULL;
    enum mt_status status = mt_row_add_field(row, node->key, &field);
    if (status != MT_OK) return status;
    switch (mt_json_kind(node)) {
    case MT_JSON_STRING:
        field->text = json_string_value(node->value);
        field->bytes = json_string_length(node->value);
        return MT_OK;
    case MT_JSON_ARRAY:
    case MT_JSON_OBJECT: field->kind = MT_FIELD_OTHER; return MT_OK;
    default: return store_scalar(row, node, field);
    }
}

static enum mt_status row_parse(const struct mt_dataset *dataset, const struct mt_row_span *span,
                                struct mt_row *row)
{
    const struct mt_json_limits limits = {
        .max_bytes = dataset->options.max_row_bytes, .max_values = 1000000, .max_depth = 64};
    char where[512];
    (void)snprintf(where, sizeof where, "%.480s:%llu", row->file, (unsigned long long)row->line);
    enum mt_status status = mt_json_parse(row->ctx, where, span->text, span->bytes, &limits, &row->json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&row->json);
    if (mt_json_kind(&root) != MT_JSON_OBJECT) return mt_row_fail(row, "a row must be a JSON object");
    // Numbers become text of at most 32 bytes each: with the room made now, none of it moves later.
    size_t members = mt_json_count(&root);
    status = mt_byte_list_reserve(&row->storage, 32 * members);
    void *position = NULL;
    struct mt_json_node member;
    while (status == MT_OK && mt_json_next(&root, &position, &member)) status = read_field(row, &member);
    return status;
}

static bool line_next(const struct mt_dataset *dataset, struct mt_row_walk *walk, struct mt_row_span *span)
{
    (void)dataset;
    return mt_walk_full_line(walk, span);
}

const struct mt_dataset_reader mt_dataset_jsonl = {
    .name = "jsonl", .endings = {".jsonl", ".ndjson"}, .next = line_next, .parse = row_parse};
const struct mt_dataset_reader mt_dataset_json = {.name = "json",
                                                  .endings = {".json"},
                                                  .start = rows_start,
                                                  .next = rows_next,
                                                  .finish = rows_finish,
                                                  .parse = row_parse};

// ------------------------------------------------------------------ lists in a row

static const json_t *list_in(const struct mt_row *row, const char *name)
{
    char other[MT_FIELD_NAME_BYTES];
    name = mt_row_name(row, name, other);
    const json_t *list = row->json.root != NULL ? json_object_get(row->json.root, name) : NULL;
    return json_is_array(list) ? list : NULL;
}

size_t mt_row_items(const struct mt_row *row, const char *name)
{
    return json_array_size(list_in(row, name));
}

bool mt_row_item(const struct mt_row *row, const char *name, size_t index, const char **text, size_t *bytes)
{
    const json_t *item = json_array_get(list_in(row, name), index);
    if (!json_is_string(item)) return false;
    *text = json_string_value(item);
    *bytes = json_string_length(item);
    return true;
}

bool mt_row_value(const struct mt_row *row, const char *name, struct mt_json_node *node)
{
    char other[MT_FIELD_NAME_BYTES];
    const json_t *value = json_object_get(row->json.root, mt_row_name(row, name, other));
    if (value == NULL) return false;
    *node = (struct mt_json_node){.ctx = row->ctx, .file = row->file, .key = name, .value = value};
    return true;
}
