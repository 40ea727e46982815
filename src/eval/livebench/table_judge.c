/* LiveBench's reformatted tables: what was asked for, what of the answer is the table, and whether it is it.
 */
#define _GNU_SOURCE // memmem
#include <string.h>

#include "eval/answers/pattern.h"
#include "eval/livebench/livebench.h"
#include "eval/livebench/table.h"
#include "eval/livebench/text.h"

#define MOST_DROPPED 100 // lines behind a table

// ------------------------------------------------------------------ texts

/* Appends the text with every `old` replaced. */
static enum mt_status replaced(struct mt_text text, const char *old, const char *new,
                               struct mt_byte_list *out)
{
    size_t from = 0;
    enum mt_status status = MT_OK;
    out->count = 0;
    while (status == MT_OK && from < text.bytes) {
        size_t to = mt_text_find(text, from, old);
        status = mt_byte_list_append(out, text.text + from, to - from);
        if (status == MT_OK && to < text.bytes) status = mt_byte_list_append_text(out, new);
        from = to < text.bytes ? to + strlen(old) : to;
    }
    return status;
}

/* Without a sentence in front that only says that a table follows. */
static enum mt_status without_phrase(struct mt_context *ctx, struct mt_text *text)
{
    struct mt_pattern *pattern = NULL;
    struct mt_pattern_match match;
    enum mt_status status = mt_pattern_create(
        ctx, "(*LF)(*UCP)(?i)\\A\\s*(?:Here|Input)\\b.*?\\b(?:format|table)\\s*[:)]\\s*", &pattern);
    if (status != MT_OK) return status;
    if (mt_pattern_find(pattern, text->text, text->bytes, 0, &match)) *text = mt_text_from(*text, match.to);
    status = mt_pattern_status(pattern);
    mt_pattern_free(pattern);
    *text = mt_livebench_stripped(*text);
    return status;
}

/* The part of an answer that should be the table; `one` and `other` hold it. */
static enum mt_status clean(struct mt_context *ctx, struct mt_text answer, struct mt_byte_list *one,
                            struct mt_byte_list *other, struct mt_text *table)
{
    struct mt_text text = mt_livebench_solution(answer);
    struct mt_text inner;
    if (mt_livebench_last_between(text, "```json\n", "```", &inner) ||
        mt_livebench_last_between(text, "```html\n", "```", &inner)) {
        *table = mt_livebench_stripped(inner);
        return without_phrase(ctx, table);
    }
    size_t line_end = mt_text_find(text, 0, "\n");
    if (mt_text_has(text, 0, "```") && line_end < text.bytes) text = mt_text_from(text, line_end + 1);
    enum mt_status status = replaced(text, "&amp;", "&", one);
    if (status == MT_OK) status = replaced(mt_text_in(one), "```", "", other);
    *table = mt_livebench_stripped(mt_text_in(other));
    return status == MT_OK ? without_phrase(ctx, table) : status;
}

// ------------------------------------------------------------------ tables among other words

/* True when a line is the names of the right table, as they are or without white space around each. */
static enum mt_status is_header(const struct mt_table *right, struct mt_text line, char delimiter,
                                struct mt_byte_list *header, bool *matches)
{
    *matches = false;
    for (int stripped = 0; stripped < 2 && !*matches; stripped++) {
        enum mt_status status = MT_OK;
        header->count = 0;
        for (size_t i = 0; i < right->columns && status == MT_OK; i++) {
            struct mt_text name = stripped != 0 ? mt_livebench_stripped(right->names[i]) : right->names[i];
            if (i > 0) status = mt_byte_list_append(header, &delimiter, 1);
            if (status == MT_OK) status = mt_byte_list_append(header, name.text, name.bytes);
        }
        if (status != MT_OK) return status;
        *matches = mt_text_same(mt_livebench_stripped(mt_text_in(header)), line);
    }
    return MT_OK;
}

/* From the line of names on; lines at the end go until what is left is a table. */
static enum mt_status read_below_header(const struct mt_table *right, struct mt_text text, char delimiter,
                                        struct mt_table *table)
{
    struct mt_byte_list header = {.ctx = right->ctx};
    enum mt_status status = MT_OK;
    struct mt_text line;
    bool found = false;
    size_t at = 0;
    size_t next = 0;
    while (!found && status == MT_OK && mt_text_next_line(text, &next, &line)) {
        at = (size_t)(line.text - text.text);
        status = is_header(right, mt_livebench_stripped(line), delimiter, &header, &found);
    }
    table->broken = true;
    size_t end = text.bytes;
    for (int dropped = 0;
         found && status == MT_OK && table->broken && !table->oversize && end > at && dropped < MOST_DROPPED;
         dropped++) {
        mt_table_free(table);
        mt_table_init(right->ctx, table);
        status = mt_table_read_separated(table, (struct mt_text){.text = text.text + at, .bytes = end - at},
                                         delimiter, false);
        const char *last = memrchr(text.text + at, '\n', end - at);
        end = last != NULL ? (size_t)(last - text.text) : at;
    }
    mt_byte_list_free(&header);
    return status;
}

/* True when the line can be a row: an object in which all names stand. */
static bool may_be_row(const struct mt_table *right, struct mt_text line)
{
    if (line.bytes < 2 || line.text[0] != '{' || line.text[line.bytes - 1] != '}') return false;
    for (size_t i = 0; i < right->columns; i++) {
        struct mt_text name = right->names[i];
        if (memmem(line.text, line.bytes, name.text, name.bytes) == NULL) return false;
    }
    return mt_livebench_is_json(line);
}

/* A column of nothing but null is None in pandas' table of such rows, and None is equal to nothing. */
static void spoil_empty_columns(struct mt_table *table)
{
    for (size_t column = 0; column < table->columns; column++) {
        bool empty = true;
        for (size_t row = 0; row < table->rows && empty; row++)
            empty = table->cells[row * table->columns + column].kind == MT_CELL_MISSING;
        for (size_t row = 0; row < table->rows && empty; row++)
            table->cells[row * table->columns + column].kind = MT_CELL_NESTED;
    }
}

/* The lines of a text that are rows, whatever stands between; `rows` holds them. */
static enum mt_status read_row_lines(const struct mt_table *right, struct mt_text text,
                                     struct mt_byte_list *rows, struct mt_table *table)
{
    enum mt_status status = MT_OK;
    struct mt_text line;
    size_t at = 0;
    rows->count = 0;
    while (status == MT_OK && mt_text_next_line(text, &at, &line)) {
        if (!may_be_row(right, line)) continue;
        status = mt_byte_list_append(rows, line.text, line.bytes);
        if (status == MT_OK) status = mt_byte_list_append(rows, "\n", 1);
    }
    if (status == MT_OK) status = mt_table_read_json_lines(table, mt_text_in(rows), false);
    if (status == MT_OK && !table->broken) spoil_empty_columns(table);
    return status;
}

// ------------------------------------------------------------------ judging

/* Everything one answer needs. */
struct table_judging {
    struct mt_byte_list one, other, rows;
    struct mt_table right, table;
};

/* The second look: at a table that stands among other words. TSV gets one only where all of it is no table.
 */
static enum mt_status look_again(struct table_judging *judging, enum mt_table_format format,
                                 struct mt_text text)
{
    struct mt_table *table = &judging->table;
    bool broken = table->broken;
    struct mt_context *ctx = table->ctx;
    bool separated = format == MT_TABLE_CSV || (format == MT_TABLE_TSV && broken);
    if (!separated && format != MT_TABLE_JSONL) return MT_OK;
    mt_table_free(table);
    mt_table_init(ctx, table);
    if (format == MT_TABLE_JSONL) return read_row_lines(&judging->right, text, &judging->rows, table);
    return read_below_header(&judging->right, text, format == MT_TABLE_CSV ? ',' : '\t', table);
}

static enum mt_status judge(struct table_judging *judging, enum mt_table_format format, struct mt_text answer,
                            bool *matches)
{
    struct mt_text text;
    enum mt_status status = clean(judging->table.ctx, answer, &judging->one, &judging->other, &text);
    if (status == MT_OK) status = mt_table_read(&judging->table, format, text);
    if (status != MT_OK) return status;
    *matches = mt_tables_equal(&judging->right, &judging->table);
    if (*matches) return MT_OK;
    status = look_again(judging, format, text);
    *matches = status == MT_OK && mt_tables_equal(&judging->right, &judging->table);
    return status;
}

enum mt_status mt_livebench_table_matches(struct mt_context *ctx, struct mt_text format, struct mt_text right,
                                          struct mt_text answer, bool *matches)
{
    enum mt_table_format known = mt_table_format_named(format);
    struct table_judging judging = {.one = {.ctx = ctx}, .other = {.ctx = ctx}, .rows = {.ctx = ctx}};
    *matches = false;
    if (known == MT_TABLE_FORMATS)
        return mt_fail(ctx, MT_ERR_FORMAT, "tables of the format '%.*s' are not known",
                       (int)(format.bytes < 40 ? format.bytes : 40), format.text);
    mt_table_init(ctx, &judging.right);
    mt_table_init(ctx, &judging.table);
    enum mt_status status = mt_table_read(&judging.right, known, right);
    if (status == MT_OK && judging.right.broken)
        status = mt_fail(ctx, MT_ERR_FORMAT, "ground_truth is not a table in the requested format");
    if (status == MT_OK) status = judge(&judging, known, answer, matches);
    mt_table_free(&judging.table);
    mt_table_free(&judging.right);
    mt_byte_list_free(&judging.one);
    mt_byte_list_free(&judging.other);
    mt_byte_list_free(&judging.rows);
    return status;
}

/* The word behind a mark, up to `behind`. */
static bool word_after(struct mt_text text, const char *mark, const char *behind, struct mt_text *word)
{
    size_t at = mt_text_find(text, 0, mark);
    if (at == text.bytes) return false;
    size_t from = at + strlen(mark);
    size_t end = mt_text_find(text, from, behind);
    *word = mt_livebench_stripped((struct mt_text){.text = text.text + from, .bytes = end - from});
    return true;
}

enum mt_status mt_livebench_table(struct mt_context *ctx, const struct mt_row *row, struct mt_text answer,
                                  double *score)
{
    const struct mt_row_field *right = mt_row_field(row, "ground_truth");
    struct mt_text question;
    struct mt_text format;
    bool matches = false;
    *score = 0.0;
    if (right == NULL || right->kind != MT_FIELD_TEXT) return mt_row_fail(row, "ground_truth must be a text");
    if (!mt_row_item(row, "turns", 0, &question.text, &question.bytes))
        return mt_row_fail(row, "turns must be a list that begins with the question");
    if (!word_after(question, "format to ", " format", &format) &&
        !word_after(question, "Target Format: ", "\n", &format))
        return mt_row_fail(row, "the question does not say which format is asked for");
    struct mt_text table = {.text = right->text, .bytes = right->bytes};
    enum mt_status status = mt_livebench_table_matches(ctx, format, table, answer, &matches);
    *score = matches ? 1.0 : 0.0;
    if (status != MT_ERR_FORMAT) return status;
    return mt_fail_within(ctx, status, "%s:%llu", row->file, (unsigned long long)row->line);
}
