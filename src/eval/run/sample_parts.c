/* Samples among ranks: sharing them out, and the parts of their file: finding, sorting, joining. */
#include "eval/run/sample_parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "eval/run/line_file.h"

#define MOST_BYTES ((size_t)8 << 30)
#define DOC_ID     "{\"doc_id\": "

// ------------------------------------------------------------------ shares

struct sized {
    uint64_t size;
    size_t number;
};

/* Falling sizes; the same ones in their order. */
static int larger_first(const void *a, const void *b)
{
    const struct sized *x = a;
    const struct sized *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x->number < y->number ? -1 : (x->number > y->number ? 1 : 0);
}

static int least(const uint64_t *totals, int shares)
{
    int best = 0;
    for (int i = 1; i < shares; i++) {
        if (totals[i] < totals[best]) best = i;
    }
    return best;
}

enum mt_status mt_shares_make(struct mt_context *ctx, const uint64_t *sizes, size_t count, int shares,
                              int32_t *owner)
{
    void *memory[2] = {NULL};
    enum mt_status status = mt_allocate_array(ctx, count, sizeof(struct sized), &memory[0]);
    if (status == MT_OK) status = mt_allocate_array(ctx, (size_t)shares, sizeof(uint64_t), &memory[1]);
    struct sized *pieces = memory[0];
    uint64_t *totals = memory[1];
    size_t used = 0;
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        owner[i] = -1;
        if (sizes[i] > 0) pieces[used++] = (struct sized){.size = sizes[i], .number = i};
    }
    if (used > 1) qsort(pieces, used, sizeof *pieces, larger_first);
    for (size_t i = 0; i < used; i++) {
        int share = least(totals, shares);
        totals[share] += pieces[i].size;
        owner[pieces[i].number] = share;
    }
    mt_release(ctx, memory[0], count * sizeof(struct sized));
    mt_release(ctx, memory[1], (size_t)shares * sizeof(uint64_t));
    return status;
}

// ------------------------------------------------------------------ parts

struct part_line {
    uint64_t number;     // of its sample
    size_t source;       // 0: the file
    struct mt_text text; // with the newline
};

/* A file in memory. */
struct part_file {
    int part;
    void *data;
    size_t bytes;
};

struct collecting {
    struct mt_context *ctx;
    const char *out, *task;
    struct part_file *sources; // the file, then its parts
    size_t source_count, source_capacity;
    struct part_line *lines;
    size_t line_count, line_capacity;
    bool sorted; // the file's own lines are
};

enum mt_status mt_sample_part_path(struct mt_context *ctx, const char *out, const char *task, int part,
                                   char path[MT_SAMPLE_PATH_BYTES])
{
    int written = part == 0 ? snprintf(path, MT_SAMPLE_PATH_BYTES, "%s/samples_%s.jsonl", out, task)
                            : snprintf(path, MT_SAMPLE_PATH_BYTES, "%s/part_%d_%s.jsonl", out, part, task);
    if (written > 0 && written < MT_SAMPLE_PATH_BYTES) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "the path of the results is too long");
}

/* The number in "part_NUMBER_TASK.jsonl"; 0: the file is something else. */
static int part_of_file(const char *file, const char *task)
{
    static const char before[] = "part_";
    static const char after[] = ".jsonl";
    char *end = NULL;
    if (strncmp(file, before, sizeof before - 1) != 0) return 0;
    const char *digits = file + sizeof before - 1;
    if (*digits < '1' || *digits > '9') return 0;
    long number = strtol(digits, &end, 10);
    size_t length = strlen(task);
    bool whole = *end == '_' && strncmp(end + 1, task, length) == 0 && strcmp(end + 1 + length, after) == 0;
    return whole && number > 0 && number < 1 << 30 ? (int)number : 0;
}

static enum mt_status add_source(struct collecting *c, int part)
{
    enum mt_status status = MT_OK;
    c->sources = mt_list_reserve(c->ctx, c->sources, &c->source_capacity, sizeof *c->sources,
                                 c->source_count + 1, &status);
    if (status == MT_OK) c->sources[c->source_count++] = (struct part_file){.part = part};
    return status;
}

static int by_part(const void *a, const void *b)
{
    return ((const struct part_file *)a)->part - ((const struct part_file *)b)->part;
}

static enum mt_status find_sources(struct collecting *c)
{
    char path[MT_SAMPLE_PATH_BYTES];
    enum mt_status status = mt_sample_part_path(c->ctx, c->out, c->task, 0, path);
    if (status == MT_OK && access(path, F_OK) == 0) status = add_source(c, 0);
    if (status != MT_OK) return status;
    DIR *directory = opendir(c->out);
    if (directory == NULL)
        return mt_fail(c->ctx, MT_ERR_IO, "%s: cannot read it: %s", c->out, strerror(errno));
    for (struct dirent *entry = readdir(directory); entry != NULL && status == MT_OK;
         entry = readdir(directory)) {
        int part = part_of_file(entry->d_name, c->task);
        if (part > 0) status = add_source(c, part);
    }
    (void)closedir(directory);
    if (status == MT_OK && c->source_count > 1)
        qsort(c->sources, c->source_count, sizeof *c->sources, by_part);
    return status;
}

// ------------------------------------------------------------------ lines

/* A line that does not begin as ours do goes behind the others. */
static uint64_t number_of(const char *text, size_t bytes)
{
    uint64_t number = 0;
    size_t at = sizeof DOC_ID - 1;
    if (bytes <= at || memcmp(text, DOC_ID, at) != 0) return UINT64_MAX;
    for (; at < bytes && text[at] >= '0' && text[at] <= '9' && number < UINT64_MAX / 16; at++)
        number = number * 10 + (uint64_t)(text[at] - '0');
    return number;
}

static enum mt_status add_lines(struct collecting *c, size_t source)
{
    const struct mt_text text = {.text = c->sources[source].data, .bytes = c->sources[source].bytes};
    struct mt_text next;
    enum mt_status status = MT_OK;
    size_t at = 0;
    while (status == MT_OK && mt_lines_next(text, &at, &next)) {
        c->lines = mt_list_reserve(c->ctx, c->lines, &c->line_capacity, sizeof *c->lines, c->line_count + 1,
                                   &status);
        if (status != MT_OK) break;
        const struct part_line line = {
            .number = number_of(next.text, next.bytes), .source = source, .text = next};
        if (c->line_count > 0 && c->lines[c->line_count - 1].number > line.number) c->sorted = false;
        c->lines[c->line_count++] = line;
    }
    return status;
}

static enum mt_status read_sources(struct collecting *c)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < c->source_count; i++) {
        char path[MT_SAMPLE_PATH_BYTES];
        struct part_file *source = &c->sources[i];
        status = mt_sample_part_path(c->ctx, c->out, c->task, source->part, path);
        if (status == MT_OK)
            status = mt_file_read_all(c->ctx, path, MOST_BYTES, &source->data, &source->bytes);
        if (status == MT_OK) status = add_lines(c, i);
    }
    return status;
}

static int in_order(const void *a, const void *b)
{
    const struct part_line *x = a;
    const struct part_line *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    return x->text.text < y->text.text ? -1 : (x->text.text > y->text.text ? 1 : 0); // of one source
}

// ------------------------------------------------------------------ the file

static enum mt_status write_file(struct collecting *c)
{
    char path[MT_SAMPLE_PATH_BYTES];
    struct mt_file_writer writer = {0};
    enum mt_status status = mt_sample_part_path(c->ctx, c->out, c->task, 0, path);
    if (c->line_count > 1) qsort(c->lines, c->line_count, sizeof *c->lines, in_order);
    if (status == MT_OK) status = mt_file_writer_open(c->ctx, path, &writer);
    for (size_t i = 0; status == MT_OK && i < c->line_count; i++) {
        const struct part_line *line = &c->lines[i];
        if (i > 0 && mt_text_same(line->text, c->lines[i - 1].text)) continue;
        status = mt_file_writer_write(&writer, line->text.text, line->text.bytes);
    }
    if (status == MT_OK) return mt_file_writer_commit(&writer);
    mt_file_writer_abandon(&writer);
    return status;
}

/* A line that is damaged is named where it lies: before anything is moved. */
static enum mt_status check_sources(const struct collecting *c)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < c->source_count; i++) {
        char path[MT_SAMPLE_PATH_BYTES];
        status = mt_sample_part_path(c->ctx, c->out, c->task, c->sources[i].part, path);
        if (status == MT_OK) status = mt_lines_read(c->ctx, path, NULL, NULL, NULL);
    }
    return status;
}

static enum mt_status remove_parts(const struct collecting *c)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < c->source_count; i++) {
        char path[MT_SAMPLE_PATH_BYTES];
        if (c->sources[i].part == 0) continue;
        status = mt_sample_part_path(c->ctx, c->out, c->task, c->sources[i].part, path);
        if (status == MT_OK && unlink(path) != 0)
            status = mt_fail(c->ctx, MT_ERR_IO, "%s: cannot remove it: %s", path, strerror(errno));
    }
    return status;
}

enum mt_status mt_sample_parts_collect(struct mt_context *ctx, const char *out, const char *task)
{
    struct collecting c = {.ctx = ctx, .out = out, .task = task, .sorted = true};
    enum mt_status status = find_sources(&c);
    bool parts = c.source_count > 0 && c.sources[c.source_count - 1].part > 0;
    if (status == MT_OK) status = read_sources(&c);
    bool moves = parts || !c.sorted;
    if (status == MT_OK && moves) status = check_sources(&c);
    if (status == MT_OK && moves) status = write_file(&c);
    if (status == MT_OK) status = remove_parts(&c);
    for (size_t i = 0; i < c.source_count; i++) mt_release(ctx, c.sources[i].data, c.sources[i].bytes);
    mt_release(ctx, c.sources, c.source_capacity * sizeof *c.sources);
    mt_release(ctx, c.lines, c.line_capacity * sizeof *c.lines);
    return status;
}
