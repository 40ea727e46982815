/*
 * Rows of training data out of other people's files: JSONL, JSON, CSV, TSV and plain text, each plain or .gz;
 * Parquet and Arrow; and shards, where the file's name has a * ("train-*.parquet"), in the order of their
 * names.
 *
 * Opening makes one pass over the file and notes where each row begins (16 bytes a row); after that any row
 * can be read in any order. The file itself is mapped, not read into memory, so it may be larger than memory.
 * A .gz file is first unpacked into an unnamed temporary file in $TMPDIR (or /tmp), which needs as much disk
 * as the text is long. The rows of Parquet and Arrow become lines of JSON there, and so do shards.
 *
 * A row that makes no sense is the row's own failure: reading it gives MT_ERR_FORMAT and "FILE:LINE: what is
 * wrong", and the caller decides whether to go on with the next. Rows are bounded in bytes.
 */
#ifndef MT_FORMATS_DATASET_H
#define MT_FORMATS_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/files/digest.h"
#include "formats/text/json.h"
#include "formats/text/lists.h"

enum mt_dataset_format {
    MT_DATASET_BY_NAME, // by what the file's name ends in, .gz taken off
    MT_DATASET_JSONL,
    MT_DATASET_JSON, // an array of objects, an object that holds one, or an object of objects
    MT_DATASET_CSV,  // RFC 4180
    MT_DATASET_TSV,  // one row a line, tabs between fields, no quoting
    MT_DATASET_PARQUET,
    MT_DATASET_ARROW, // IPC, as a file or a stream
    MT_DATASET_TEXT,
    MT_DATASET_FORMATS
};

/* What a row of a plain text is. */
enum mt_text_rows {
    MT_TEXT_PARAGRAPHS, // lines up to an empty one
    MT_TEXT_LINES,
    MT_TEXT_PIECES, // about piece_bytes, ending with a line where one ends in time
};

struct mt_dataset_options {
    enum mt_dataset_format format;
    const char *columns; // CSV and TSV: "a,b,c", and every line is a row. NULL: the first line names them
    const char *fields;  // "a=x,b=y": whoever asks for the field a gets x, where a row has it; NULL: nothing
                         // is renamed
    bool folders;        // a path may be a folder: every .json file below it is a row, in the order of paths
    enum mt_text_rows text_rows;
    size_t piece_bytes;       // of MT_TEXT_PIECES; 0: 8 KiB
    size_t max_row_bytes;     // 0: 16 MiB
    uint64_t max_unpacked;    // bytes a .gz may unpack to; 0: 256 GiB
    const char *spool_folder; // of temporary files; NULL: $TMPDIR, or /tmp
};

enum mt_field_kind {
    MT_FIELD_TEXT,
    MT_FIELD_OTHER, // a list or an object of JSON: see mt_row_value
};

struct mt_row_field {
    const char *name; // NUL-terminated
    enum mt_field_kind kind;
    const char *text; // of MT_FIELD_TEXT, not terminated
    size_t bytes;
};

/* One row; made with mt_row_init, used for any number of rows of any dataset, freed with mt_row_free. */
struct mt_row {
    struct mt_context *ctx; // borrowed
    const char *file;       // borrowed from the dataset
    uint64_t line;          // where it begins, from 1
    const char *renamed;    // as options.fields; borrowed from the dataset
    const char *source;     // the row as it is in the file; borrowed from the dataset
    size_t source_bytes;
    struct mt_row_field *fields;
    size_t field_count;
    // What the above point into; not for the caller.
    size_t field_capacity;
    struct mt_byte_list storage;
    uint64_t reads;
    struct mt_json json;
};

struct mt_dataset; // opaque; does not change once open

/* Opens and indexes a file. The caller closes. */
enum mt_status mt_dataset_open(struct mt_context *ctx, const char *path,
                               const struct mt_dataset_options *options, struct mt_dataset **dataset);
void mt_dataset_close(struct mt_dataset *dataset); // NULL is allowed

/* The same on bytes of the caller's, which outlive the dataset and are never unpacked. */
enum mt_status mt_dataset_open_memory(struct mt_context *ctx, const char *name, const void *data,
                                      size_t bytes, const struct mt_dataset_options *options,
                                      struct mt_dataset **dataset);

const char *mt_dataset_path(const struct mt_dataset *dataset);
bool mt_dataset_has_lines(const struct mt_dataset *dataset); // a row's source is a line of JSONL
uint64_t mt_dataset_rows(const struct mt_dataset *dataset);
uint64_t mt_dataset_bytes(const struct mt_dataset *dataset); // of the text, unpacked

/* A checksum of the text, unpacked. */
struct mt_digest_text mt_dataset_sum(const struct mt_dataset *dataset);

/* True when a text is what options.fields may be. */
bool mt_dataset_fields_valid(const char *fields);

/* True when there is such a file, or one that a path with a * stands for. */
bool mt_dataset_exists(const char *path);

/* "jsonl", ...; what a configuration calls a format. */
const char *mt_dataset_format_name(enum mt_dataset_format format);

/* What the end of a name promises, be it with .gz behind; MT_DATASET_BY_NAME: nothing sure. */
enum mt_dataset_format mt_dataset_format_of(const char *path);

void mt_row_init(struct mt_context *ctx, struct mt_row *row);
void mt_row_free(struct mt_row *row);

/* Reads row `index` (below mt_dataset_rows). What the row holds lasts until the next read or free. */
enum mt_status mt_dataset_read(const struct mt_dataset *dataset, uint64_t index, struct mt_row *row);

/* The field of that name, or NULL. */
const struct mt_row_field *mt_row_field(const struct mt_row *row, const char *name);

/*
 * The items of a list of JSON in a field: how many (0: the field is no list), and the text of one that is a
 * string. False: it is something else, or there are not so many.
 */
size_t mt_row_items(const struct mt_row *row, const char *name);
bool mt_row_item(const struct mt_row *row, const char *name, size_t index, const char **text, size_t *bytes);

/* A field of a row of JSON as it is in the file. False: there is none, or the row is of another format. */
bool mt_row_value(const struct mt_row *row, const char *name, struct mt_json_node *node);

/* Records "FILE:LINE: MESSAGE" as MT_ERR_FORMAT. */
enum mt_status mt_row_fail(const struct mt_row *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
