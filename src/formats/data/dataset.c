/* Datasets: the table of formats, the index, reading a row; and plain text, whose rows are the simplest. */
#include "formats/data/dataset.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formats/data/dataset_private.h"
#include "formats/data/shards.h"

#define FORGET_ROWS 1024
#define FORGET_BYTES                                                                                         \
    ((size_t)32 << 20) // of a file that is being indexed: given back when they have been read

static bool text_next(const struct mt_dataset *dataset, struct mt_row_walk *walk, struct mt_row_span *span);
static enum mt_status text_parse(const struct mt_dataset *dataset, const struct mt_row_span *span,
                                 struct mt_row *row);

static const struct mt_dataset_reader by_name = {.name = "by-name"};
static const struct mt_dataset_reader plain_text = {
    .name = "text", .endings = {".txt", ".text", ".md"}, .next = text_next, .parse = text_parse};

static const struct mt_dataset_reader *const readers[MT_DATASET_FORMATS] = {
    [MT_DATASET_BY_NAME] = &by_name,
    [MT_DATASET_JSONL] = &mt_dataset_jsonl,
    [MT_DATASET_JSON] = &mt_dataset_json,
    [MT_DATASET_CSV] = &mt_dataset_csv,
    [MT_DATASET_TSV] = &mt_dataset_tsv,
    [MT_DATASET_TEXT] = &plain_text,
    [MT_DATASET_PARQUET] = &mt_dataset_parquet,
    [MT_DATASET_ARROW] = &mt_dataset_arrow,
};

/* How the bytes of a dataset are read: those of columnar files have become lines of JSON. */
static const struct mt_dataset_reader *reader_of(const struct mt_dataset *dataset)
{
    enum mt_dataset_format format = dataset->options.format;
    return mt_dataset_is_columnar(format) ? &mt_dataset_jsonl : readers[format];
}

// ------------------------------------------------------------------ names

const char *mt_dataset_format_name(enum mt_dataset_format format)
{
    return readers[format]->name;
}

static bool ends_in(const char *text, size_t length, const char *ending)
{
    size_t ending_length = strlen(ending);
    return length > ending_length && memcmp(text + length - ending_length, ending, ending_length) == 0;
}

enum mt_dataset_format mt_dataset_format_of(const char *path)
{
    size_t length = strlen(path);
    if (ends_in(path, length, ".gz")) length -= strlen(".gz");
    for (int format = 0; format < MT_DATASET_FORMATS; format++) {
        for (size_t i = 0; i < 3 && readers[format]->endings[i] != NULL; i++) {
            if (ends_in(path, length, readers[format]->endings[i])) return (enum mt_dataset_format)format;
        }
    }
    return MT_DATASET_BY_NAME;
}

// ------------------------------------------------------------------ rows

void mt_row_init(struct mt_context *ctx, struct mt_row *row)
{
    *row = (struct mt_row){.ctx = ctx, .file = "", .storage = {.ctx = ctx}};
}

void mt_row_free(struct mt_row *row)
{
    mt_json_free(&row->json);
    mt_byte_list_free(&row->storage);
    mt_release(row->ctx, row->fields, row->field_capacity * sizeof *row->fields);
    mt_row_init(row->ctx, row);
}

enum mt_status mt_row_fail(const struct mt_row *row, const char *format, ...)
{
    char problem[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(problem, sizeof problem, format, arguments);
    va_end(arguments);
    return mt_fail(row->ctx, MT_ERR_FORMAT, "%s:%llu: %s", row->file, (unsigned long long)row->line, problem);
}

enum mt_status mt_row_add_field(struct mt_row *row, const char *name, struct mt_row_field **field)
{
    enum mt_status status = MT_OK;
    row->fields = mt_list_reserve(row->ctx, row->fields, &row->field_capacity, sizeof *row->fields,
                                  row->field_count + 1, &status);
    if (status != MT_OK) return status;
    *field = &row->fields[row->field_count++];
    **field = (struct mt_row_field){.name = name, .text = ""};
    return MT_OK;
}

/* One "a=x" of fields; *rest moves behind its comma. False: there is none, or it is malformed. */
static bool next_name(const char **rest, const char **name, size_t *name_bytes, const char **other,
                      size_t *other_bytes)
{
    const char *at = *rest;
    size_t bytes = strcspn(at, ",");
    const char *equals = memchr(at, '=', bytes);
    if (equals == NULL) return false;
    *name = at;
    *name_bytes = (size_t)(equals - at);
    *other = equals + 1;
    *other_bytes = bytes - *name_bytes - 1;
    *rest = at + bytes + (at[bytes] == ',' ? 1 : 0);
    return *name_bytes > 0 && *other_bytes > 0 && *other_bytes < MT_FIELD_NAME_BYTES;
}

bool mt_dataset_fields_valid(const char *fields)
{
    const char *name = NULL;
    const char *other = NULL;
    size_t name_bytes = 0;
    size_t other_bytes = 0;
    do {
        if (!next_name(&fields, &name, &name_bytes, &other, &other_bytes)) return false;
    } while (*fields != '\0');
    return true;
}

static bool has_field(const struct mt_row *row, const char *name)
{
    for (size_t i = 0; i < row->field_count; i++) {
        if (strcmp(row->fields[i].name, name) == 0) return true;
    }
    return false;
}

const char *mt_row_name(const struct mt_row *row, const char *name, char text[MT_FIELD_NAME_BYTES])
{
    const char *rest = row->renamed;
    const char *known = NULL;
    const char *other = NULL;
    size_t known_bytes = 0;
    size_t other_bytes = 0;
    while (rest != NULL && *rest != '\0' && next_name(&rest, &known, &known_bytes, &other, &other_bytes)) {
        if (strlen(name) != known_bytes || memcmp(name, known, known_bytes) != 0) continue;
        memcpy(text, other, other_bytes);
        text[other_bytes] = '\0';
        return has_field(row, text) ? text : name;
    }
    return name;
}

const struct mt_row_field *mt_row_field(const struct mt_row *row, const char *name)
{
    char other[MT_FIELD_NAME_BYTES];
    name = mt_row_name(row, name, other);
    for (size_t i = 0; i < row->field_count; i++) {
        if (strcmp(row->fields[i].name, name) == 0) return &row->fields[i];
    }
    return NULL;
}

enum mt_status mt_dataset_read(const struct mt_dataset *dataset, uint64_t index, struct mt_row *row)
{
    assert(index < dataset->rows);
    const struct mt_row_place *place = &dataset->places[index];
    // Each may have brought in pages of the file, which nobody reads again soon.
    if (!dataset->borrowed && ++row->reads % FORGET_ROWS == 0)
        mt_file_forget(&dataset->mapping, dataset->mapping.data, dataset->mapping.bytes);
    mt_json_free(&row->json);
    row->storage.count = 0;
    row->field_count = 0;
    row->file = dataset->path;
    row->line = place->line;
    row->renamed = dataset->fields;
    struct mt_row_walk walk = {.text = dataset->mapping.data,
                               .bytes = dataset->mapping.bytes,
                               .at = (size_t)place->offset,
                               .line = place->line};
    struct mt_row_span span = {0};
    const struct mt_dataset_reader *reader = reader_of(dataset);
    bool found = reader->next(dataset, &walk, &span);
    if (!found) return mt_row_fail(row, "the row is gone: the file was changed while in use");
    if (span.problem != NULL) return mt_row_fail(row, "%s", span.problem);
    row->source = span.text;
    row->source_bytes = span.bytes;
    if (span.bytes > dataset->options.max_row_bytes) {
        return mt_row_fail(row, "a row of %zu bytes, the limit is %zu", span.bytes,
                           dataset->options.max_row_bytes);
    }
    return reader->parse(dataset, &span, row);
}

// ------------------------------------------------------------------ opening

static enum mt_status add_place(struct mt_dataset *dataset, const struct mt_row_span *span)
{
    enum mt_status status = MT_OK;
    dataset->places = mt_list_reserve(dataset->ctx, dataset->places, &dataset->place_capacity,
                                      sizeof *dataset->places, dataset->rows + 1, &status);
    if (status != MT_OK) return status;
    size_t offset = (size_t)(span->text - (const char *)dataset->mapping.data);
    dataset->places[dataset->rows++] = (struct mt_row_place){.offset = offset, .line = span->line};
    return MT_OK;
}

static enum mt_status make_index(struct mt_dataset *dataset)
{
    static const char byte_order_mark[3] = {'\xEF', '\xBB', '\xBF'};
    const struct mt_dataset_reader *reader = reader_of(dataset);
    struct mt_row_walk walk = {.text = dataset->mapping.data, .bytes = dataset->mapping.bytes, .line = 1};
    if (walk.bytes >= 3 && memcmp(walk.text, byte_order_mark, 3) == 0) walk.at = 3;
    if (!dataset->borrowed) mt_file_advise(&dataset->mapping, MT_FILE_SEQUENTIAL);
    enum mt_status status = reader->start != NULL ? reader->start(dataset, &walk) : MT_OK;
    struct mt_row_span span = {0};
    size_t forgotten = walk.at;
    while (status == MT_OK && reader->next(dataset, &walk, &span)) {
        status = add_place(dataset, &span);
        if (dataset->borrowed || walk.at - forgotten < FORGET_BYTES) continue;
        mt_file_forget(&dataset->mapping, walk.text + forgotten, walk.at - forgotten);
        forgotten = walk.at;
    }
    if (status == MT_OK && reader->finish != NULL) status = reader->finish(dataset, &walk);
    if (!dataset->borrowed) mt_file_advise(&dataset->mapping, MT_FILE_RANDOM);
    return status;
}

static void set_defaults(struct mt_dataset_options *options)
{
    if (options->piece_bytes == 0) options->piece_bytes = 8192;
    if (options->max_row_bytes == 0) options->max_row_bytes = (size_t)16 << 20;
    if (options->max_unpacked == 0) options->max_unpacked = (uint64_t)256 << 30;
}

/* A dataset without its bytes. */
static enum mt_status create(struct mt_context *ctx, const char *path,
                             const struct mt_dataset_options *options, struct mt_dataset **dataset)
{
    *dataset = NULL;
    struct mt_dataset_options resolved = *options;
    set_defaults(&resolved);
    if (resolved.format == MT_DATASET_BY_NAME) resolved.format = mt_dataset_format_of(path);
    if (resolved.format == MT_DATASET_BY_NAME) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "%s: the name does not say the format; set one of jsonl, json, csv, tsv, text, "
                       "parquet, arrow",
                       path);
    }
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **dataset, &memory);
    if (status != MT_OK) return status;
    struct mt_dataset *made = memory;
    *made = (struct mt_dataset){.ctx = ctx, .options = resolved, .column_text = {.ctx = ctx}};
    made->gathered.ctx = ctx;
    status = mt_path_join(ctx, "", path, &made->path);
    if (status == MT_OK && resolved.fields != NULL)
        status = mt_path_join(ctx, "", resolved.fields, &made->fields);
    made->options.fields = NULL;
    if (status != MT_OK) mt_dataset_close(made);
    if (status == MT_OK) *dataset = made;
    return status;
}

/* Indexes a dataset whose bytes are in place. */
static enum mt_status finish_opening(struct mt_dataset **dataset)
{
    enum mt_status status = make_index(*dataset);
    (*dataset)->options.columns = NULL; // borrowed for the time of opening only
    (*dataset)->options.spool_folder = NULL;
    if (status == MT_OK) return MT_OK;
    mt_dataset_close(*dataset);
    *dataset = NULL;
    return status;
}

enum mt_status mt_dataset_open(struct mt_context *ctx, const char *path,
                               const struct mt_dataset_options *options, struct mt_dataset **dataset)
{
    bool folder = options->folders && mt_dataset_is_folder(path);
    struct mt_dataset_options wanted = *options;
    if (folder) wanted.format = MT_DATASET_JSONL;
    enum mt_status status = create(ctx, path, &wanted, dataset);
    if (status != MT_OK) return status;
    struct mt_dataset *made = *dataset;
    if (folder) {
        status = mt_dataset_gather(made);
    } else if (mt_dataset_is_columnar(made->options.format) || mt_shards_named(path)) {
        status = mt_dataset_write_rows(made, false);
    } else {
        status = mt_dataset_map(ctx, path, &made->options, &made->mapping);
    }
    if (status == MT_OK) return finish_opening(dataset);
    mt_dataset_close(made);
    *dataset = NULL;
    return status;
}

enum mt_status mt_dataset_open_memory(struct mt_context *ctx, const char *name, const void *data,
                                      size_t bytes, const struct mt_dataset_options *options,
                                      struct mt_dataset **dataset)
{
    enum mt_status status = create(ctx, name, options, dataset);
    if (status != MT_OK) return status;
    (*dataset)->borrowed = true;
    (*dataset)->mapping = (struct mt_file_mapping){.data = bytes > 0 ? data : NULL, .bytes = bytes};
    if (mt_dataset_is_columnar((*dataset)->options.format)) status = mt_dataset_write_rows(*dataset, true);
    if (status == MT_OK) return finish_opening(dataset);
    mt_dataset_close(*dataset);
    *dataset = NULL;
    return status;
}

void mt_dataset_close(struct mt_dataset *dataset)
{
    if (dataset == NULL) return;
    struct mt_context *ctx = dataset->ctx;
    if (!dataset->borrowed) mt_file_unmap(&dataset->mapping);
    mt_path_release(ctx, dataset->path);
    mt_path_release(ctx, dataset->fields);
    mt_byte_list_free(&dataset->gathered);
    mt_byte_list_free(&dataset->column_text);
    mt_release(ctx, dataset->places, dataset->place_capacity * sizeof *dataset->places);
    mt_release(ctx, dataset->columns, dataset->column_capacity * sizeof *dataset->columns);
    mt_release(ctx, dataset, sizeof *dataset);
}

const char *mt_dataset_path(const struct mt_dataset *dataset)
{
    return dataset->path;
}

bool mt_dataset_has_lines(const struct mt_dataset *dataset)
{
    return reader_of(dataset) == &mt_dataset_jsonl;
}

uint64_t mt_dataset_rows(const struct mt_dataset *dataset)
{
    return dataset->rows;
}

uint64_t mt_dataset_bytes(const struct mt_dataset *dataset)
{
    return dataset->mapping.bytes;
}

struct mt_digest_text mt_dataset_sum(const struct mt_dataset *dataset)
{
    return mt_digest_of(dataset->mapping.data, dataset->mapping.bytes);
}

// ------------------------------------------------------------------ lines and plain text

struct mt_row_span mt_walk_line(struct mt_row_walk *walk)
{
    struct mt_row_span span = {.text = walk->text + walk->at, .line = walk->line};
    size_t left = walk->bytes - walk->at;
    const char *end = memchr(span.text, '\n', left);
    span.bytes = end != NULL ? (size_t)(end - span.text) : left;
    walk->at += span.bytes + (end != NULL ? 1 : 0);
    walk->line += end != NULL ? 1 : 0;
    if (span.bytes > 0 && span.text[span.bytes - 1] == '\r') span.bytes--;
    return span;
}

static bool is_blank(const struct mt_row_span *span)
{
    for (size_t i = 0; i < span->bytes; i++) {
        if (span->text[i] != ' ' && span->text[i] != '\t' && span->text[i] != '\r') return false;
    }
    return true;
}

bool mt_walk_full_line(struct mt_row_walk *walk, struct mt_row_span *span)
{
    while (walk->at < walk->bytes) {
        *span = mt_walk_line(walk);
        if (!is_blank(span)) return true;
    }
    return false;
}

/* Grows the span line by line: to the next blank line, or to about `piece_bytes`. */
static void grow(const struct mt_dataset *dataset, struct mt_row_walk *walk, struct mt_row_span *span)
{
    bool pieces = dataset->options.text_rows == MT_TEXT_PIECES;
    while (walk->at < walk->bytes) {
        struct mt_row_walk ahead = *walk;
        struct mt_row_span line = mt_walk_line(&ahead);
        size_t bytes = (size_t)(line.text - span->text) + line.bytes;
        if (pieces ? bytes > dataset->options.piece_bytes : is_blank(&line)) return;
        *walk = ahead;
        span->bytes = bytes;
    }
}

/* A line longer than a piece is cut, between characters of UTF-8. */
static void cut_piece(const struct mt_dataset *dataset, struct mt_row_walk *walk, struct mt_row_span *span)
{
    size_t most = dataset->options.piece_bytes;
    if (span->bytes <= most) return;
    size_t end = most;
    while (end > 0 && most - end < 4 && ((unsigned char)span->text[end] & 0xC0u) == 0x80) end--;
    span->bytes = end > 0 ? end : most;
    walk->at = (size_t)(span->text - walk->text) + span->bytes;
    walk->line = span->line;
}

static bool text_next(const struct mt_dataset *dataset, struct mt_row_walk *walk, struct mt_row_span *span)
{
    if (!mt_walk_full_line(walk, span)) return false;
    if (dataset->options.text_rows != MT_TEXT_LINES) grow(dataset, walk, span);
    if (dataset->options.text_rows == MT_TEXT_PIECES) cut_piece(dataset, walk, span);
    return true;
}

static enum mt_status text_parse(const struct mt_dataset *dataset, const struct mt_row_span *span,
                                 struct mt_row *row)
{
    (void)dataset;
    struct mt_row_field *field = NULL;
    enum mt_status status = mt_row_add_field(row, "text", &field);
    if (status != MT_OK) return status;
    field->text = span->text;
    field->bytes = span->bytes;
    return MT_OK;
}
