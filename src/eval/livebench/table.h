/*
 * Tables as texts: read in one of six formats, columns typed by what they hold, compared cell by cell. What
 * LiveBench's judge gets from pandas (read_csv, read_json, read_html, then values by row and name), without
 * the rest of pandas. Texts are valid UTF-8.
 *
 * A column of separated or marked-up text is numbers where all of it is (what is missing aside), truth values
 * where all of it is, else texts; a column of JSON keeps its values' types, but texts that are all numbers
 * become such. Truth values are the numbers 1 and 0.
 */
#ifndef MT_EVAL_LIVEBENCH_TABLE_H
#define MT_EVAL_LIVEBENCH_TABLE_H

#include "base/arena.h"
#include "eval/text.h"

enum mt_table_format {
    MT_TABLE_JSON,     // an object of rows, a list of rows, or a row a line
    MT_TABLE_JSONL,    // a row a line
    MT_TABLE_CSV,      // names first; quotes as usual
    MT_TABLE_TSV,      // the same with tabs
    MT_TABLE_HTML,     // <table>; the first rows of <th> are the names
    MT_TABLE_MARKDOWN, // names, a line that is left out, rows; a bar at both ends
    MT_TABLE_FORMATS
};

/* "json", "JSONL", ...; MT_TABLE_FORMATS for an unknown name. */
enum mt_table_format mt_table_format_named(struct mt_text name);

enum mt_table_kind {
    MT_CELL_MISSING,
    MT_CELL_NUMBER,
    MT_CELL_TEXT,
    MT_CELL_NESTED, // a list or object of JSON: equal to nothing
};

struct mt_table_cell {
    enum mt_table_kind kind;
    double number;
    struct mt_text text;
};

struct mt_table_entry {
    size_t row, column;
    struct mt_table_cell cell;
};

/* A table in the making and read. Texts lie in the arena or in what was read, which stays as long. */
struct mt_table {
    struct mt_context *ctx; // borrowed
    struct mt_arena arena;
    struct mt_text *names; // [columns], as written
    size_t columns, name_capacity;
    struct mt_table_entry *entries; // in the order they were read
    size_t entry_count, entry_capacity;
    struct mt_table_cell *cells; // [rows, columns]; after mt_table_finish
    size_t rows, cell_capacity;
    bool broken;   // what was read is no such table
    bool oversize; // or one beyond all measure: then broken, too
};

/* Prepares a caller-owned table; mt_table_free gives its memory back. */
void mt_table_init(struct mt_context *ctx, struct mt_table *table);
void mt_table_free(struct mt_table *table); // a zeroed struct is allowed

/*
 * Reads a text into a table that is empty; broken where it is none. The text outlives the table. With `infer`
 * false texts of JSON stay texts.
 */
enum mt_status mt_table_read(struct mt_table *table, enum mt_table_format format, struct mt_text text);
enum mt_status mt_table_read_json_lines(struct mt_table *table, struct mt_text text, bool infer);

/*
 * True when both have the same names (in any order, without white space around), as many rows, and equal
 * cells: numbers closer than 1e-6, texts without white space around, missing ones both missing. A column
 * called "index" is not looked at.
 */
bool mt_tables_equal(const struct mt_table *one, const struct mt_table *other);

// ------------------------------------------------------------------ for the readers

/* The column of a name, made where there is none; `hint` is looked at first. */
enum mt_status mt_table_column(struct mt_table *table, struct mt_text name, size_t hint, size_t *column);

/* Appends a column, whose name may be there already or empty: it then gets one as pandas makes it. */
enum mt_status mt_table_add_column(struct mt_table *table, struct mt_text name);

/* Appends a cell; where there are two of one place the later one counts. */
enum mt_status mt_table_put(struct mt_table *table, size_t row, size_t column, struct mt_table_cell cell);

/* Lays the cells out. `rows` is at least the largest row number + 1. */
enum mt_status mt_table_finish(struct mt_table *table, size_t rows);

/* Types of columns: of texts from text, and of JSON. */
void mt_table_infer_texts(struct mt_table *table);
void mt_table_infer_json(struct mt_table *table);

enum mt_status mt_table_read_separated(struct mt_table *table, struct mt_text text, char delimiter,
                                       bool skip_spaces);
enum mt_status mt_table_read_markdown(struct mt_table *table, struct mt_text text);
enum mt_status mt_table_read_json(struct mt_table *table, struct mt_text text);
enum mt_status mt_table_read_html(struct mt_table *table, struct mt_text text);

#endif
