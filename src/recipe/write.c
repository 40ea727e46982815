/* From a recipe to its file of rows: tests, rows, shares, the draw, the teacher, the file. */
#include "recipe/write.h"

#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/files/file.h"
#include "recipe/making.h"

#define WRITE_BYTES ((size_t)1 << 16)
#define ENDLESS     (INT64_C(1) << 50) // rows nobody has

// ------------------------------------------------------------------ opening

static enum mt_status open_sources(struct mt_making *making)
{
    const struct mt_recipe_options *options = making->options;
    struct mt_recipe_report *report = making->report;
    const struct mt_recipe *const *leaves = NULL;
    size_t count = 0;
    enum mt_status status = mt_recipe_leaves(making->recipe, making->arena, &leaves, &count);
    report->sources = mt_arena_array(making->arena, count, sizeof *report->sources, &status);
    making->sources = mt_arena_array(making->arena, count, sizeof *making->sources, &status);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        report->sources[i].recipe = leaves[i];
        report->source_count = i + 1;
        status = mt_source_open(making->ctx, leaves[i], options->tasks, options->data, options->skip_missing,
                                making->arena, &making->sources[i]);
    }
    return status;
}

// ------------------------------------------------------------------ the draw

static int by_source(const struct mt_recipe_entry *a, const struct mt_recipe_entry *b)
{
    if (a->source != b->source) return a->source < b->source ? -1 : 1;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int by_key(const void *left, const void *right)
{
    const struct mt_recipe_entry *a = left;
    const struct mt_recipe_entry *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return by_source(a, b);
}

/* What every source would give if nobody ever ran out: for telling who did. */
static enum mt_status find_wanted(struct mt_making *making, int64_t *numbers, int64_t *wanted)
{
    struct mt_recipe_report *report = making->report;
    for (size_t i = 0; i < report->source_count; i++) numbers[i] = ENDLESS;
    enum mt_status status =
        mt_recipe_share(making->ctx, making->recipe, making->options->count, numbers, wanted);
    for (size_t i = 0; i < report->source_count && status == MT_OK; i++)
        report->sources[i].wanted = wanted[i] < ENDLESS / 2 ? wanted[i] : 0;
    report->wanted = making->options->count > 0 ? making->options->count : making->recipe->count;
    return status;
}

/* Puts each source's rows into the order of their keys, and says how many of the first are drawn. */
static enum mt_status draw(struct mt_making *making)
{
    struct mt_recipe_report *report = making->report;
    enum mt_status status = MT_OK;
    size_t first = 0;
    int64_t *numbers = mt_arena_array(making->arena, report->source_count, sizeof *numbers, &status);
    int64_t *taken = mt_arena_array(making->arena, report->source_count, sizeof *taken, &status);
    making->starts = mt_arena_array(making->arena, report->source_count, sizeof *making->starts, &status);
    if (status == MT_OK) status = find_wanted(making, numbers, taken);
    for (size_t i = 0; i < report->source_count && status == MT_OK; i++)
        numbers[i] = report->sources[i].available;
    if (status == MT_OK)
        status = mt_recipe_share(making->ctx, making->recipe, making->options->count, numbers, taken);
    for (size_t i = 0; i < report->source_count && status == MT_OK; i++) {
        size_t count = (size_t)report->sources[i].available;
        report->sources[i].drawn = taken[i];
        report->sources[i].right = taken[i];
        making->starts[i] = first;
        if (count > 0) qsort(making->entries + first, count, sizeof *making->entries, by_key);
        first += count;
    }
    return status;
}

/* Leaves the entries that are written, all of them in the order of their keys. */
static void mix(struct mt_making *making)
{
    bool taught = making->options->teacher != NULL;
    size_t kept = 0;
    for (size_t i = 0; i < making->count; i++) {
        const struct mt_recipe_entry *entry = &making->entries[i];
        if (!mt_making_drew(making, i) || (taught && entry->answer.text == NULL)) continue;
        making->entries[kept] = *entry;
        kept++;
    }
    making->count = kept;
    if (kept > 0) qsort(making->entries, kept, sizeof *making->entries, by_key);
}

/* What is missing of what was asked for. */
static void tell_of_shortage(const struct mt_making *making)
{
    const struct mt_recipe_report *report = making->report;
    int64_t drawn = 0;
    for (size_t i = 0; i < report->source_count; i++) {
        const struct mt_recipe_source_report *source = &report->sources[i];
        drawn += source->drawn;
        if (source->drawn < source->wanted)
            mt_log_warning(making->options->log, "%s has %s, %lld were asked for", source->recipe->name,
                           mt_counted((uint64_t)source->available, "row", "rows").text,
                           (long long)source->wanted);
        if (source->missing > 0)
            mt_log_warning(making->options->log, "%s: %s not there and left out", source->recipe->name,
                           mt_counted(source->missing, "file is", "files are").text);
        if (source->unusable > 0)
            mt_log_warning(making->options->log, "%s: %s left out; the first: %s", source->recipe->name,
                           mt_counted((uint64_t)source->unusable, "row cannot be used and is",
                                      "rows cannot be used and are")
                               .text,
                           source->problem);
    }
    if (report->source_count > 1 && drawn < report->wanted)
        mt_log_warning(making->options->log, "%s has %s in all, %lld were asked for", making->recipe->name,
                       mt_counted((uint64_t)drawn, "row", "rows").text, (long long)report->wanted);
    for (size_t i = 0; i < report->test_count; i++) {
        if (report->tests[i].missing > 0)
            mt_log_warning(making->options->log,
                           "%s: %s not there: rows were not compared with these questions",
                           report->tests[i].task,
                           mt_counted(report->tests[i].missing, "test file is", "test files are").text);
    }
}

// ------------------------------------------------------------------ the file

static void put_row(struct mt_text_writer *line, const struct mt_source *source,
                    const struct mt_recipe_entry *entry, const struct mt_source_row *row)
{
    const struct mt_task *task = &source->files[entry->file].task;
    struct mt_text response = entry->answer.text != NULL ? entry->answer : mt_text_in(&row->response);
    mt_text_put_string(line, "{\"prompt\": ", mt_text_in(&row->sample.prompt));
    mt_text_put_string(line, ", \"completion\": ", mt_text_trimmed(response));
    mt_text_put_string(line, ", \"domain\": ", mt_text_of(mt_domain_name(task->domain)));
    mt_text_put_string(line, ", \"task\": ", mt_text_of(source->task));
    mt_text_put_string(line, ", \"source\": ", mt_text_of(task->name));
    mt_text_put_string(line, ", \"id\": ", mt_text_of(row->sample.id));
    mt_text_put(line, "}\n");
}

static enum mt_status write_rows(struct mt_making *making, struct mt_file_writer *writer)
{
    struct mt_text_writer line = {.text = {.ctx = making->ctx}};
    struct mt_source_row row;
    enum mt_status status = MT_OK;
    mt_source_row_init(making->ctx, &row);
    for (size_t i = 0; i < making->count && status == MT_OK; i++) {
        const struct mt_recipe_entry *entry = &making->entries[i];
        const struct mt_source *source = &making->sources[entry->source];
        status = mt_source_read(source, entry->file, entry->index, &row);
        if (status == MT_OK) put_row(&line, source, entry, &row);
        if (status == MT_OK) status = line.status;
        if (status != MT_OK || (line.text.count < WRITE_BYTES && i + 1 < making->count)) continue;
        status = mt_file_writer_write(writer, line.text.data, line.text.count);
        line.text.count = 0;
    }
    mt_source_row_free(&row);
    mt_byte_list_free(&line.text);
    return status;
}

/* The manifest first: rows without one would not say what they are. */
static enum mt_status write_files(struct mt_making *making)
{
    struct mt_file_writer writer = {0};
    struct mt_digest *digest = NULL;
    enum mt_status status = mt_digest_create(making->ctx, &digest);
    if (status == MT_OK) status = mt_file_writer_open(making->ctx, making->options->out, &writer);
    writer.digest = digest;
    if (status == MT_OK) status = write_rows(making, &writer);
    making->report->written = (int64_t)making->count;
    if (status == MT_OK) {
        struct mt_digest_text sum = mt_digest_finish(digest);
        status = mt_making_write_manifest(making, &sum);
    }
    if (status == MT_OK) status = mt_file_writer_commit(&writer);
    mt_file_writer_abandon(&writer);
    mt_digest_free(digest);
    return status;
}

static enum mt_status make(struct mt_making *making)
{
    enum mt_status status = open_sources(making);
    if (status == MT_OK) status = mt_making_read_tests(making);
    if (status == MT_OK) status = mt_making_read_rows(making);
    if (status == MT_OK) status = draw(making);
    if (status != MT_OK) return status;
    tell_of_shortage(making);
    if (making->options->teacher != NULL && making->count > 0) status = mt_making_ask_teacher(making);
    if (status != MT_OK || making->report->stopped) return status;
    bool taught = making->options->teacher != NULL && making->count > 0;
    mix(making);
    if (making->count == 0)
        return mt_fail(making->ctx, MT_ERR_USAGE, "recipe %s: %s", making->recipe->name,
                       taught ? "the teacher answered no question right" : "no row is left to train on");
    return write_files(making);
}

enum mt_status mt_recipe_write(struct mt_context *ctx, const struct mt_recipe *recipe,
                               const struct mt_recipe_options *options, struct mt_arena *arena,
                               struct mt_recipe_report *report)
{
    struct mt_making making = {
        .ctx = ctx, .recipe = recipe, .options = options, .report = report, .arena = arena};
    *report = (struct mt_recipe_report){.arena = arena};
    enum mt_status status = make(&making);
    for (size_t i = 0; i < report->source_count; i++) mt_source_close(&making.sources[i]);
    mt_overlap_free(making.overlap);
    mt_release(ctx, making.entries, making.capacity * sizeof *making.entries);
    return status;
}
