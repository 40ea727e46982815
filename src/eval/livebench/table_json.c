/*
 * Tables of JSON, as pandas' read_json takes them: an object whose values are rows (its keys label them), a
 * list of rows, or a row a line; a row is an object. Names are all keys there are, cells without one are
 * missing.
 */
#include <float.h>
#include <string.h>

#include "eval/livebench/table.h"
#include "eval/livebench/text.h"
#include "formats/text/json.h"

static const struct mt_json_limits limits = {
    .max_bytes = (size_t)16 << 20, .max_values = 1000000, .max_depth = 64, .integers_as_real = true};

/* Appends the text with NaN, which JSON has not, as null. */
static enum mt_status without_nan(struct mt_text text, struct mt_byte_list *out)
{
    enum mt_status status = mt_byte_list_reserve(out, text.bytes + 1);
    bool in_string = false;
    for (size_t i = 0; i < text.bytes && status == MT_OK; i++) {
        char byte = text.text[i];
        if (in_string && byte == '\\' && i + 1 < text.bytes) {
            status = mt_byte_list_append(out, text.text + i++, 2);
            continue;
        }
        if (byte == '"') in_string = !in_string;
        bool nan = !in_string && mt_text_has(text, i, "NaN");
        status = nan ? mt_byte_list_append_text(out, "null") : mt_byte_list_append(out, &byte, 1);
        if (nan) i += strlen("NaN") - 1;
    }
    return status;
}

/* *readable is false where the text is no JSON. The caller frees both. */
static enum mt_status parse(struct mt_context *ctx, struct mt_text text, struct mt_byte_list *source,
                            struct mt_json *json, bool *readable)
{
    source->count = 0;
    enum mt_status status = without_nan(text, source);
    if (status == MT_OK) status = mt_json_parse(ctx, "a table", source->data, source->count, &limits, json);
    *readable = status == MT_OK;
    return status == MT_ERR_MEMORY ? status : MT_OK;
}

static enum mt_status read_cell(struct mt_table *table, const struct mt_json_node *node,
                                struct mt_table_cell *cell)
{
    enum mt_status status = MT_OK;
    const char *text = NULL;
    const char *copy = NULL;
    bool truth = false;
    *cell = (struct mt_table_cell){.kind = MT_CELL_MISSING};
    switch (mt_json_kind(node)) {
    case MT_JSON_NULL: break;
    case MT_JSON_BOOL:
        status = mt_json_as_bool(node, &truth);
        *cell = (struct mt_table_cell){.kind = MT_CELL_NUMBER, .number = truth ? 1.0 : 0.0};
        break;
    case MT_JSON_INTEGER:
    case MT_JSON_REAL:
        cell->kind = MT_CELL_NUMBER;
        status = mt_json_as_real(node, -DBL_MAX, DBL_MAX, &cell->number);
        break;
    case MT_JSON_STRING:
        status = mt_json_as_string(node, &text);
        if (status == MT_OK) status = mt_arena_copy_text(&table->arena, text, strlen(text), &copy);
        if (status == MT_OK)
            *cell =
                (struct mt_table_cell){.kind = MT_CELL_TEXT, .text = {.text = copy, .bytes = strlen(copy)}};
        break;
    case MT_JSON_ARRAY:
    case MT_JSON_OBJECT: cell->kind = MT_CELL_NESTED; break;
    }
    return status;
}

static enum mt_status read_row(struct mt_table *table, const struct mt_json_node *object, size_t row)
{
    struct mt_json_node member;
    void *position = NULL;
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && !table->broken && mt_json_next(object, &position, &member); i++) {
        struct mt_text name = {.text = member.key, .bytes = strlen(member.key)};
        struct mt_table_cell cell;
        size_t column = 0;
        status = mt_table_column(table, name, i, &column);
        if (status == MT_OK) status = read_cell(table, &member, &cell);
        if (status == MT_OK) status = mt_table_put(table, row, column, cell);
    }
    return status;
}

/* Rows of an object's members or a list's elements; broken where one is no row. */
static enum mt_status read_rows(struct mt_table *table, const struct mt_json_node *root)
{
    bool list = mt_json_kind(root) == MT_JSON_ARRAY;
    size_t count = mt_json_count(root);
    void *position = NULL;
    enum mt_status status = MT_OK;
    for (size_t row = 0; status == MT_OK && row < count && !table->broken; row++) {
        struct mt_json_node node;
        if (list) {
            node = mt_json_element(root, row);
        } else {
            (void)mt_json_next(root, &position, &node);
        }
        if (mt_json_kind(&node) == MT_JSON_OBJECT) {
            status = read_row(table, &node, row);
        } else {
            table->broken = true;
        }
    }
    return status == MT_OK ? mt_table_finish(table, count) : status;
}

enum mt_status mt_table_read_json(struct mt_table *table, struct mt_text text)
{
    struct mt_byte_list source = {.ctx = table->ctx};
    struct mt_json json = {0};
    bool readable = false;
    enum mt_status status = parse(table->ctx, text, &source, &json, &readable);
    struct mt_json_node root = {0};
    if (readable) root = mt_json_root(&json);
    if (status == MT_OK && !readable) {
        status = mt_table_read_json_lines(table, text, true);
    } else if (status == MT_OK) {
        status = read_rows(table, &root);
        if (status == MT_OK && !table->broken) mt_table_infer_json(table);
    }
    mt_json_free(&json);
    mt_byte_list_free(&source);
    return status;
}

/* One line; broken where it is no object. */
static enum mt_status read_line(struct mt_table *table, struct mt_text line, struct mt_byte_list *source,
                                size_t row)
{
    struct mt_json json = {0};
    bool readable = false;
    enum mt_status status = parse(table->ctx, line, source, &json, &readable);
    if (status != MT_OK) return status;
    struct mt_json_node root = {0};
    if (readable) root = mt_json_root(&json);
    if (readable && mt_json_kind(&root) == MT_JSON_OBJECT) {
        status = read_row(table, &root, row);
    } else {
        table->broken = true;
    }
    mt_json_free(&json);
    return status;
}

enum mt_status mt_table_read_json_lines(struct mt_table *table, struct mt_text text, bool infer)
{
    struct mt_byte_list source = {.ctx = table->ctx};
    struct mt_text line;
    size_t at = 0;
    size_t rows = 0;
    enum mt_status status = MT_OK;
    while (status == MT_OK && !table->broken && mt_text_next_line(text, &at, &line)) {
        line = mt_livebench_stripped(line);
        if (line.bytes > 0) status = read_line(table, line, &source, rows++);
    }
    if (rows == 0) table->broken = true;
    if (status == MT_OK) status = mt_table_finish(table, rows);
    if (status == MT_OK && infer && !table->broken) mt_table_infer_json(table);
    mt_byte_list_free(&source);
    return status;
}
