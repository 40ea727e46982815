/*
 * OUT.json: what the rows were made of. Names and checksums by content, no paths and no times: the same rows
 * have the same manifest on every machine. A file's checksum is of its text, unpacked.
 */
#include <inttypes.h>

#include "base/files/file.h"
#include "recipe/making.h"

/* "NAME": "checksum" of a file that somebody wrote by hand; null: it was not read from one. */
static enum mt_status put_yaml(struct mt_making *making, struct mt_text_writer *text, const char *before,
                               const char *name, const char *path)
{
    struct mt_digest *digest = NULL;
    enum mt_status status = mt_digest_create(making->ctx, &digest);
    if (status == MT_OK && path != NULL) status = mt_file_digest(making->ctx, path, digest);
    mt_text_put_string(text, before, mt_text_of(name));
    mt_text_put(text, ": ");
    if (status == MT_OK && path != NULL)
        mt_text_put_string(text, "", mt_text_of(mt_digest_finish(digest).digits));
    if (path == NULL) mt_text_put(text, "null");
    mt_digest_free(digest);
    return status;
}

static enum mt_status put_recipes(struct mt_making *making, struct mt_text_writer *text,
                                  const struct mt_recipe *recipe, bool first)
{
    enum mt_status status = put_yaml(making, text, first ? "\n    " : ",\n    ", recipe->name, recipe->file);
    for (size_t i = 0; i < recipe->source_count && status == MT_OK; i++)
        status = put_recipes(making, text, recipe->sources[i].recipe, false);
    return status;
}

static void put_files(struct mt_text_writer *text, const struct mt_source *source)
{
    bool first = true;
    mt_text_put(text, ",\n     \"files\": {");
    for (size_t i = 0; i < source->file_count; i++) {
        char name[512];
        if (source->files[i].data == NULL) continue;
        mt_source_file_name(&source->files[i], name, sizeof name);
        mt_text_put_string(text, first ? "" : ", ", mt_text_of(name));
        mt_text_put_string(text, ": ", mt_text_of(mt_task_data_sum(source->files[i].data).digits));
        first = false;
    }
    mt_text_put(text, "}");
}

static void put_source(const struct mt_making *making, struct mt_text_writer *text, size_t index)
{
    const struct mt_recipe_report *report = making->report;
    const struct mt_recipe_source_report *source = &report->sources[index];
    mt_text_put_string(
        text, index > 0 ? ",\n    {\"recipe\": " : "\n    {\"recipe\": ", mt_text_of(source->recipe->name));
    mt_text_put_string(text, ", \"task\": ", mt_text_of(making->sources[index].task));
    put_files(text, &making->sources[index]);
    mt_text_putf(text, ",\n     \"missing\": %zu, \"rows\": %" PRId64 ", \"unusable\": %" PRId64,
                 source->missing, source->rows, source->unusable);
    mt_text_putf(text, ", \"overlapping\": %" PRId64, source->overlapping);
    if (making->options->exclude != NULL) mt_text_putf(text, ", \"excluded\": %" PRId64, source->excluded);
    mt_text_putf(text, ", \"available\": %" PRId64 ", \"wanted\": ", source->available);
    if (source->wanted > 0) mt_text_putf(text, "%" PRId64, source->wanted);
    if (source->wanted == 0) mt_text_put(text, "null");
    mt_text_putf(text, ", \"drawn\": %" PRId64 ", \"written\": %" PRId64 ",\n     \"overlaps\": {",
                 source->drawn, source->right);
    bool first = true;
    for (size_t i = 0; i < report->test_count; i++) {
        size_t cell = index * report->test_count + i;
        if (report->runs[cell] + report->wholes[cell] == 0) continue;
        mt_text_put_string(text, first ? "" : ", ", mt_text_of(report->tests[i].task));
        mt_text_putf(text, ": {\"by_words\": %" PRId64 ", \"by_question\": %" PRId64 "}", report->runs[cell],
                     report->wholes[cell]);
        first = false;
    }
    mt_text_put(text, "}}");
}

static void put_tests(const struct mt_making *making, struct mt_text_writer *text)
{
    const struct mt_recipe_report *report = making->report;
    mt_text_putf(text, "\n  ],\n  \"overlap_words\": %" PRId64 ",\n  \"tests\": [", making->options->words);
    for (size_t i = 0; i < report->test_count; i++) {
        mt_text_put_string(
            text, i > 0 ? ",\n    {\"task\": " : "\n    {\"task\": ", mt_text_of(report->tests[i].task));
        mt_text_putf(text, ", \"files\": %zu, \"missing\": %zu, \"questions\": %" PRId64,
                     report->tests[i].files, report->tests[i].missing, report->tests[i].questions);
        mt_text_put_string(text, ", \"sum\": ", mt_text_of(making->test_sums[i].digits));
        mt_text_put(text, "}");
    }
    mt_text_put(text, "\n  ]");
}

static enum mt_status put_all(struct mt_making *making, const struct mt_digest_text *rows,
                              struct mt_text_writer *text)
{
    const struct mt_recipe_teacher *teacher = making->options->teacher;
    mt_text_put(text, "{\n  \"format\": \"metier recipe\",\n  \"version\": 1");
    mt_text_put_string(text, ",\n  \"recipe\": ", mt_text_of(making->recipe->name));
    mt_text_put(text, ",\n  \"recipes\": {");
    enum mt_status status = put_recipes(making, text, making->recipe, true);
    mt_text_putf(text, "\n  },\n  \"seed\": %" PRIu64 ",\n  \"count\": %" PRId64 ",\n  \"rows\": %" PRId64,
                 making->options->seed, making->report->wanted, making->report->written);
    mt_text_put_string(text, ",\n  \"sum\": ", mt_text_of(rows->digits));
    if (teacher != NULL) {
        mt_text_put(text, ",\n  \"teacher\": ");
        mt_text_put(text, teacher->settings);
        mt_text_putf(text, ",\n  \"teacher_samples\": %" PRId64, teacher->samples);
    }
    mt_text_put(text, ",\n  \"sources\": [");
    for (size_t i = 0; i < making->report->source_count; i++) put_source(making, text, i);
    put_tests(making, text);
    mt_text_put(text, "\n}\n");
    return status == MT_OK ? text->status : status;
}

enum mt_status mt_making_write_manifest(struct mt_making *making, const struct mt_digest_text *rows)
{
    struct mt_text_writer text = {.text = {.ctx = making->ctx}};
    struct mt_text_writer path = {.text = {.ctx = making->ctx}};
    enum mt_status status = put_all(making, rows, &text);
    mt_text_put(&path, making->options->out);
    mt_text_put(&path, ".json");
    if (status == MT_OK) status = path.status;
    if (status == MT_OK) status = mt_byte_list_append(&path.text, "", 1);
    if (status == MT_OK)
        status =
            mt_file_write_all(making->ctx, (const char *)path.text.data, text.text.data, text.text.count);
    mt_byte_list_free(&path.text);
    mt_byte_list_free(&text.text);
    return status;
}
