/* All rows of all sources, read once: which can be used, and which overlap with a test question. */
#include <inttypes.h>
#include <string.h>

#include "base/files/file.h"
#include "base/progress.h"
#include "recipe/making.h"
#include "text/row_identity.h"

struct reading {
    struct mt_making *making;
    struct mt_row_identifier identifier;
    struct mt_source_row row;
    struct mt_overlap_hit *hits;   // [test_count]
    struct mt_file_writer removed; // options.overlaps, if any
    struct mt_text_writer line;
    struct mt_progress progress;
    int64_t done;
};

/* A line for every test the row overlaps with. */
static enum mt_status list_removed(struct reading *reading, const struct mt_source_file *file)
{
    const struct mt_recipe_report *report = reading->making->report;
    struct mt_text_writer *line = &reading->line;
    if (reading->making->options->overlaps == NULL) return MT_OK;
    line->text.count = 0;
    for (size_t i = 0; i < report->test_count; i++) {
        const struct mt_overlap_hit *hit = &reading->hits[i];
        if (!hit->found) continue;
        mt_text_put_string(line, "{\"source\": ", mt_text_of(file->task.name));
        mt_text_put_string(line, ", \"id\": ", mt_text_of(reading->row.sample.id));
        mt_text_put_string(line, ", \"task\": ", mt_text_of(report->tests[i].task));
        mt_text_put_string(line, ", \"test_id\": ", mt_text_of(hit->id));
        mt_text_put(line, hit->whole ? ", \"by\": \"question\"" : ", \"by\": \"words\"");
        mt_text_put_string(line, ", \"words\": ", hit->words);
        mt_text_put_string(line, ", \"prompt\": ", mt_text_in(&reading->row.sample.prompt));
        mt_text_put(line, "}\n");
    }
    if (line->status != MT_OK) return line->status;
    return mt_file_writer_write(&reading->removed, line->text.data, line->text.count);
}

static enum mt_status look_for_tests(struct reading *reading, size_t source,
                                     const struct mt_source_file *file, bool *found)
{
    struct mt_making *making = reading->making;
    struct mt_recipe_report *report = making->report;
    *found = false;
    if (making->overlap == NULL) return MT_OK;
    enum mt_status status =
        mt_overlap_find(making->overlap, mt_text_in(&reading->row.question),
                        mt_text_in(&reading->row.response), reading->hits, report->test_count, found);
    if (status != MT_OK || !*found) return status;
    report->sources[source].overlapping++;
    for (size_t i = 0; i < report->test_count; i++) {
        size_t cell = source * report->test_count + i;
        if (!reading->hits[i].found) continue;
        *(reading->hits[i].whole ? &report->wholes[cell] : &report->runs[cell]) += 1;
    }
    return list_removed(reading, file);
}

static enum mt_status add_entry(struct mt_making *making, const struct mt_recipe_entry *entry)
{
    enum mt_status status = MT_OK;
    making->entries = mt_list_reserve(making->ctx, making->entries, &making->capacity,
                                      sizeof *making->entries, making->count + 1, &status);
    if (status == MT_OK) making->entries[making->count++] = *entry;
    return status;
}

/* A row that makes no sense is counted; what is wrong with the first is kept for people. */
static enum mt_status note_unusable(struct mt_making *making, struct mt_recipe_source_report *report)
{
    if (report->unusable++ > 0) return MT_OK;
    return mt_arena_copy_text(making->arena, making->ctx->message, strlen(making->ctx->message),
                              &report->problem);
}

/* Whether the row, as it would be written, is one of those to leave out. */
static enum mt_status look_for_excluded(struct reading *reading, size_t source, bool *found)
{
    const struct mt_row_hashes *exclude = reading->making->options->exclude;
    struct mt_text question = mt_text_in(&reading->row.sample.prompt);
    struct mt_text answer = mt_text_in(&reading->row.response);
    struct mt_row_identity identity;
    *found = false;
    if (exclude == NULL) return MT_OK;
    enum mt_status status = mt_row_identify_pair(&reading->identifier, question.text, question.bytes,
                                                 answer.text, answer.bytes, &identity);
    *found = status == MT_OK && mt_row_hashes_know(exclude, &identity);
    reading->making->report->sources[source].excluded += *found ? 1 : 0;
    return status;
}

static enum mt_status read_row(struct reading *reading, size_t source, size_t file, size_t index)
{
    struct mt_making *making = reading->making;
    const struct mt_source *from = &making->sources[source];
    bool left_out = false;
    enum mt_status status = mt_source_read(from, file, index, &reading->row);
    making->report->sources[source].rows++;
    mt_progress_update(&reading->progress, ++reading->done);
    if (status == MT_ERR_FORMAT) return note_unusable(making, &making->report->sources[source]);
    if (status == MT_OK) status = look_for_tests(reading, source, &from->files[file], &left_out);
    if (status == MT_OK && !left_out) status = look_for_excluded(reading, source, &left_out);
    if (status != MT_OK || left_out) return status;
    const struct mt_recipe_entry entry = {.key = mt_source_key(from, file, index, making->options->seed),
                                          .source = (uint32_t)source,
                                          .file = (uint32_t)file,
                                          .index = index};
    making->report->sources[source].available++;
    return add_entry(making, &entry);
}

static enum mt_status read_source(struct reading *reading, size_t source)
{
    const struct mt_source *from = &reading->making->sources[source];
    struct mt_recipe_source_report *report = &reading->making->report->sources[source];
    enum mt_status status = MT_OK;
    for (size_t f = 0; f < from->file_count && status == MT_OK; f++) {
        const struct mt_task_data *data = from->files[f].data;
        size_t count = data != NULL ? mt_task_data_count(data) : 0;
        *(data != NULL ? &report->files : &report->missing) += 1;
        for (size_t i = 0; i < count && status == MT_OK; i++) status = read_row(reading, source, f, i);
    }
    return status;
}

static int64_t count_rows(const struct mt_making *making)
{
    int64_t rows = 0;
    for (size_t s = 0; s < making->report->source_count; s++) {
        const struct mt_source *source = &making->sources[s];
        for (size_t f = 0; f < source->file_count; f++)
            rows += source->files[f].data != NULL ? (int64_t)mt_task_data_count(source->files[f].data) : 0;
    }
    return rows;
}

enum mt_status mt_making_read_rows(struct mt_making *making)
{
    struct mt_recipe_report *report = making->report;
    const struct mt_recipe_options *options = making->options;
    struct reading reading = {.making = making, .line = {.text = {.ctx = making->ctx}}};
    const struct mt_progress_options shown = {
        .stream = options->terminal, .label = "reading", .unit = "rows", .total = count_rows(making)};
    enum mt_status status = MT_OK;
    size_t cells = report->source_count * report->test_count;
    report->runs = mt_arena_array(making->arena, cells, sizeof *report->runs, &status);
    report->wholes = mt_arena_array(making->arena, cells, sizeof *report->wholes, &status);
    reading.hits = mt_arena_array(making->arena, report->test_count, sizeof *reading.hits, &status);
    mt_source_row_init(making->ctx, &reading.row);
    mt_row_identifier_init(making->ctx, &reading.identifier);
    if (status == MT_OK && options->overlaps != NULL)
        status = mt_file_writer_open(making->ctx, options->overlaps, &reading.removed);
    mt_progress_start(&reading.progress, &shown);
    for (size_t i = 0; i < report->source_count && status == MT_OK; i++) status = read_source(&reading, i);
    mt_progress_finish(&reading.progress);
    if (status == MT_OK && options->overlaps != NULL) status = mt_file_writer_commit(&reading.removed);
    mt_file_writer_abandon(&reading.removed);
    mt_byte_list_free(&reading.line.text);
    mt_row_identifier_free(&reading.identifier);
    mt_source_row_free(&reading.row);
    return status;
}
