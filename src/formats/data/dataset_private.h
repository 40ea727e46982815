/* What the files of the dataset readers share: the bytes of a file, where rows begin, what a format can do.
 */
#ifndef MT_FORMATS_DATASET_PRIVATE_H
#define MT_FORMATS_DATASET_PRIVATE_H

#include "base/files/file.h"
#include "formats/data/dataset.h"

/* Where a row begins. */
struct mt_row_place {
    uint64_t offset;
    uint64_t line;
};

/* Finds rows front to back: the same walk makes the index and, from a row's place, finds the row's end. */
struct mt_row_walk {
    const char *text; // the whole file
    size_t bytes;
    size_t at; // the next byte to look at
    uint64_t line;
    bool ended; // of a JSON document: no comma followed the last row
};

/* The bytes of one row. `problem` is what already finding it showed to be wrong, or NULL. */
struct mt_row_span {
    const char *text;
    size_t bytes;
    uint64_t line;
    const char *problem;
};

struct mt_dataset {
    struct mt_context *ctx; // borrowed
    char *path;             // owned
    struct mt_dataset_options options;
    struct mt_file_mapping mapping;
    bool borrowed;                // the bytes are the caller's or `gathered`, not mapped
    struct mt_byte_list gathered; // of a folder: its files, a line each; columnar rows in memory
    char *fields;                 // owned; options.fields, or NULL
    struct mt_row_place *places;  // [rows]
    size_t rows;
    size_t place_capacity;
    struct mt_byte_list column_text; // names, each with its NUL
    size_t *columns;                 // [column_count], where in column_text
    size_t column_count;
    size_t column_capacity;
    char json_opening; // of a JSON document: '[' or '{'
};

struct mt_dataset_reader {
    const char *name;
    const char *endings[3]; // of file names
    // Steps over what lies before the first row; may fail for the whole file. NULL: nothing does.
    enum mt_status (*start)(struct mt_dataset *dataset, struct mt_row_walk *walk);
    // The next row at or after walk->at, which moves behind it; false: there is none.
    bool (*next)(const struct mt_dataset *dataset, struct mt_row_walk *walk, struct mt_row_span *span);
    // After the last row: whether the file ended as it should. NULL: any end will do.
    enum mt_status (*finish)(struct mt_dataset *dataset, struct mt_row_walk *walk);
    // Fills the row's fields.
    enum mt_status (*parse)(const struct mt_dataset *dataset, const struct mt_row_span *span,
                            struct mt_row *row);
};

/* Maps a file's bytes, unpacking a .gz first. The caller unmaps. */
enum mt_status mt_dataset_map(struct mt_context *ctx, const char *path,
                              const struct mt_dataset_options *options, struct mt_file_mapping *mapping);

/* True for formats whose rows have to be written as lines of JSON before they can be read. */
bool mt_dataset_is_columnar(enum mt_dataset_format format);

/* Puts the rows of a columnar file, or of the shards of dataset->path, in place of the mapping, a line of
 * JSON for each. `memory`: the file is the mapping itself, and the rows stay in memory. */
enum mt_status mt_dataset_write_rows(struct mt_dataset *dataset, bool memory);

bool mt_dataset_is_folder(const char *path);

/* The files of a folder, in place of a mapping. */
enum mt_status mt_dataset_gather(struct mt_dataset *dataset);

/* What the file calls a field: the name itself, or another of that many bytes, in the caller's buffer. */
#define MT_FIELD_NAME_BYTES 128
const char *mt_row_name(const struct mt_row *row, const char *name, char other[MT_FIELD_NAME_BYTES]);

/* Moves the walk by one byte, counting lines. */
static inline void mt_walk_step(struct mt_row_walk *walk)
{
    if (walk->text[walk->at] == '\n') walk->line++;
    walk->at++;
}

/* Takes the rest of the line, without its end; the walk moves to the next. And the next line that is not
 * blank; false at the end. */
struct mt_row_span mt_walk_line(struct mt_row_walk *walk);
bool mt_walk_full_line(struct mt_row_walk *walk, struct mt_row_span *span);

/* Appends an empty field to a row. */
enum mt_status mt_row_add_field(struct mt_row *row, const char *name, struct mt_row_field **field);

extern const struct mt_dataset_reader mt_dataset_jsonl, mt_dataset_json; // dataset_json.c
extern const struct mt_dataset_reader mt_dataset_csv, mt_dataset_tsv;    // dataset_table.c
extern const struct mt_dataset_reader mt_dataset_parquet,
    mt_dataset_arrow; // dataset_columnar.c, read as jsonl

#endif
