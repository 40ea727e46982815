/* The page, put together. */
#include "eval/pages/review_page.h"

#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "base/rng.h"
#include "eval/text_writer.h"

#define MOST_DATA  ((size_t)256 << 20)
#define MOST_SHARE ((size_t)4 << 20)

static void put_verdict(struct mt_text_writer *writer, const char *name, enum mt_verdict verdict)
{
    mt_put(writer, name);
    mt_put(writer, verdict == MT_VERDICT_NONE ? "" : mt_verdict_name(verdict));
    mt_put(writer, "\"");
}

static void put_sample(struct mt_text_writer *writer, const struct mt_judged_task *task,
                       const struct mt_judged_sample *sample)
{
    mt_put_string(writer, "{\"task\": ", task->name);
    mt_put_string(writer, ", \"id\": ", sample->id);
    mt_put_string(writer, ", \"answer_hash\": ", sample->answer_hash.digits);
    mt_put_string(writer, ", \"question\": ", sample->question);
    mt_put_string(writer, ", \"reference\": ", sample->reference);
    mt_put_string(writer, ", \"answer\": ", sample->answer);
    mt_put_string(writer, ", \"extracted\": ", sample->extracted);
    put_verdict(writer, ", \"rule\": \"", sample->verdicts[MT_JUDGE_RULE]);
    put_verdict(writer, ", \"llm\": \"", sample->verdicts[MT_JUDGE_LLM]);
    put_verdict(writer, ", \"human\": \"", sample->verdicts[MT_JUDGE_HUMAN]);
    mt_put(writer, "}");
}

/* The last part of a path that is not empty. */
static void put_folder_name(struct mt_text_writer *writer, const char *folder)
{
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && folder[start - 1] != '/') start--;
    struct mt_text name = {.text = folder + start, .bytes = end - start};
    if (writer->status == MT_OK) writer->status = mt_results_append_string(&writer->text, name);
}

/*
 * The samples in order; with options->sample some of them, each set of that size being equally likely: sample
 * i of those left is taken with the chance wanted / left.
 */
static size_t put_samples(struct mt_text_writer *writer, const struct mt_judged_run *run,
                          const struct mt_review_options *options)
{
    uint64_t left = 0;
    uint64_t index = 0;
    size_t count = 0;
    for (size_t i = 0; i < run->count; i++) left += run->tasks[i].count;
    uint64_t wanted = options->sample > 0 ? (uint64_t)options->sample : left;
    mt_put(writer, "{\"run\": ");
    put_folder_name(writer, run->folder);
    mt_put(writer, ", \"samples\": [");
    for (size_t i = 0; i < run->count; i++) {
        const struct mt_judged_task *task = &run->tasks[i];
        for (size_t k = 0; k < task->count && writer->status == MT_OK; k++, left--, index++) {
            if (wanted < left && mt_rng_below(options->seed, 0, index, left) >= wanted) continue;
            mt_put(writer, count > 0 ? ",\n" : "\n");
            put_sample(writer, task, &task->samples[k]);
            wanted--;
            count++;
            if (writer->status == MT_OK && writer->text.count > MOST_DATA)
                writer->status = mt_fail(run->ctx, MT_ERR_USAGE,
                                         "the page would be larger than %zu MiB; --tasks or --sample make it "
                                         "smaller",
                                         MOST_DATA >> 20);
        }
    }
    mt_put(writer, "\n]}");
    return count;
}

/* Copies JSON so that no HTML parser sees anything in it: outside of strings JSON has none of these
 * characters. */
static enum mt_status append_harmless(struct mt_byte_list *out, const struct mt_byte_list *json)
{
    enum mt_status status = MT_OK;
    size_t from = 0;
    for (size_t i = 0; i < json->count && status == MT_OK; i++) {
        uint8_t byte = json->data[i];
        if (byte != '<' && byte != '>' && byte != '&') continue;
        char escaped[8];
        (void)snprintf(escaped, sizeof escaped, "\\u%04x", byte);
        status = mt_byte_list_append(out, json->data + from, i - from);
        if (status == MT_OK) status = mt_byte_list_append_text(out, escaped);
        from = i + 1;
    }
    return status == MT_OK ? mt_byte_list_append(out, json->data + from, json->count - from) : status;
}

static enum mt_status append_file(struct mt_context *ctx, const char *folder, const char *name,
                                  struct mt_byte_list *out)
{
    char *path = NULL;
    void *data = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_path_join(ctx, folder, name, &path);
    if (status == MT_OK) status = mt_file_read_all(ctx, path, MOST_SHARE, &data, &bytes);
    if (status == MT_OK) status = mt_byte_list_append(out, data, bytes);
    mt_release(ctx, data, bytes);
    mt_path_release(ctx, path);
    return status;
}

/* Fills the frame: a single pass, so nothing that was put in is looked at again. */
static enum mt_status fill(struct mt_context *ctx, const struct mt_review_options *options,
                           const struct mt_byte_list *json, struct mt_byte_list *page)
{
    struct mt_byte_list frame = {.ctx = ctx};
    struct mt_digest_text nonce = mt_digest_of(json->data, json->count);
    enum mt_status status = append_file(ctx, options->share, "review.html", &frame);
    if (status == MT_OK) status = mt_byte_list_append(&frame, "", 1); // its end
    const char *at = (const char *)frame.data;
    while (status == MT_OK && *at != '\0') {
        size_t plain = strcspn(at, "{");
        status = mt_byte_list_append(page, at, plain);
        at += plain;
        if (status != MT_OK || *at == '\0') break;
        size_t length = strcspn(at, "}") + 1;
        if (strncmp(at, "{style}", length) == 0) {
            status = append_file(ctx, options->share, "review.css", page);
        } else if (strncmp(at, "{script}", length) == 0) {
            status = append_file(ctx, options->share, "review.js", page);
        } else if (strncmp(at, "{data}", length) == 0) {
            status = append_harmless(page, json);
        } else if (strncmp(at, "{nonce}", length) == 0) {
            status = mt_byte_list_append_text(page, nonce.digits);
        } else {
            status = mt_fail(ctx, MT_ERR_FORMAT, "%s/review.html: a brace that is no place of ours",
                             options->share);
        }
        at += length;
    }
    mt_byte_list_free(&frame);
    return status;
}

enum mt_status mt_review_page_write(struct mt_context *ctx, const struct mt_judged_run *run,
                                    const struct mt_review_options *options, const char *path, size_t *count)
{
    struct mt_text_writer writer = {.text = {.ctx = ctx}};
    struct mt_byte_list page = {.ctx = ctx};
    size_t put_on = put_samples(&writer, run, options);
    enum mt_status status = writer.status;
    if (status == MT_OK) status = fill(ctx, options, &writer.text, &page);
    if (status == MT_OK) status = mt_file_write_all(ctx, path, page.data, page.count);
    if (count != NULL) *count = put_on;
    mt_byte_list_free(&page);
    mt_byte_list_free(&writer.text);
    return status;
}
