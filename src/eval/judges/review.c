/* A person's review of answers: the page, and the marks it saves. */
#include "eval/judges/review.h"

#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "base/rng.h"
#include "eval/judges/agreement.h"
#include "formats/text/json.h"
#include "formats/text/printable.h"

#define MOST_DATA  ((size_t)256 << 20)
#define MOST_SHARE ((size_t)4 << 20)

static void put_sample(struct mt_text_writer *writer, const struct mt_judged_task *task,
                       const struct mt_judged_sample *sample)
{
    mt_text_put_string(writer, "{\"task\": ", mt_text_of(task->name));
    mt_text_put_string(writer, ", \"id\": ", mt_text_of(sample->id));
    mt_text_put_string(writer, ", \"answer_hash\": ", mt_text_of(sample->answer_hash.digits));
    mt_text_put_string(writer, ", \"question_hash\": ", mt_text_of(sample->question_hash.digits));
    mt_text_put_string(writer, ", \"question\": ", mt_text_of(sample->question));
    mt_text_put_string(writer, ", \"reference\": ", mt_text_of(sample->reference));
    mt_text_put_string(writer, ", \"answer\": ", mt_text_of(sample->answer));
    mt_text_put_string(writer, ", \"extracted\": ", mt_text_of(sample->extracted));
    for (int judge = 0; judge < MT_JUDGES; judge++) {
        enum mt_verdict verdict = sample->verdicts[judge];
        mt_text_putf(writer, ", \"%s\": \"%s\"", mt_judge_name((enum mt_judge)judge),
                     verdict == MT_VERDICT_NONE ? "" : mt_verdict_name(verdict));
    }
    mt_text_put(writer, "}");
}

/* The last part of a path that is not empty. */
static struct mt_text last_part(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    return (struct mt_text){.text = path + start, .bytes = end - start};
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
    mt_text_put_string(writer, "{\"run\": ", last_part(run->folder));
    mt_text_put(writer, ", \"samples\": [");
    for (size_t i = 0; i < run->count; i++) {
        const struct mt_judged_task *task = &run->tasks[i];
        for (size_t k = 0; k < task->count && writer->status == MT_OK; k++, left--, index++) {
            if (wanted < left && mt_rng_below(options->seed, 0, index, left) >= wanted) continue;
            mt_text_put(writer, count > 0 ? ",\n" : "\n");
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
    mt_text_put(writer, "\n]}");
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
            status = mt_fail(ctx, MT_ERR_FORMAT, "%s/review.html: an unknown name in braces", options->share);
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

// ------------------------------------------------------------------ marks

static const struct mt_json_limits marks_limits = {
    .max_bytes = (size_t)256 << 20, .max_values = 20000000, .max_depth = 8};

static enum mt_status enter_mark(const struct mt_judged_run *run, const struct mt_json_node *mark)
{
    const char *name = NULL;
    const char *id = NULL;
    const char *answer = NULL;
    const char *question = "";
    const char *word = NULL;
    enum mt_status status = mt_json_expect_object(mark);
    if (status == MT_OK) status = mt_json_get_string(mark, "task", &name);
    if (status == MT_OK) status = mt_json_get_string(mark, "id", &id);
    if (status == MT_OK) status = mt_json_get_string(mark, "answer_hash", &answer);
    if (status == MT_OK) status = mt_json_optional_string(mark, "question_hash", &question);
    if (status == MT_OK) status = mt_json_get_string(mark, "verdict", &word);
    if (status != MT_OK) return status;
    enum mt_verdict verdict = mt_verdict_named(word);
    if (verdict == MT_VERDICTS || verdict == MT_VERDICT_UNREADABLE)
        return mt_json_fail(mark, "has the verdict '%s', expected correct, incorrect or unsure",
                            mt_printable(word).text);
    const struct mt_judged_task *task = mt_judged_task_named(run, name);
    if (task == NULL)
        return mt_json_fail(mark, "is about task '%s', of which %s holds no samples", mt_printable(name).text,
                            run->folder);
    struct mt_judged_sample *sample = mt_judged_sample_named(task, id);
    if (sample == NULL)
        return mt_json_fail(mark, "is about sample '%s', which task %s does not have", mt_printable(id).text,
                            task->name);
    if (!mt_judged_is_about(sample, answer, question))
        return mt_json_fail(mark,
                            "is about another question, right answer or answer of sample '%s' of task %s "
                            "than the run has now",
                            mt_printable(id).text, task->name);
    sample->verdicts[MT_JUDGE_HUMAN] = verdict;
    return MT_OK;
}

static enum mt_status enter_marks(const struct mt_judged_run *run, const struct mt_json_node *root,
                                  size_t *count)
{
    const char *format = NULL;
    int64_t version = 0;
    struct mt_json_node marks;
    enum mt_status status = mt_json_expect_object(root);
    if (status == MT_OK) status = mt_json_get_string(root, "format", &format);
    if (status == MT_OK && strcmp(format, "metier-review") != 0)
        return mt_json_fail(root, "has the format '%s', expected metier-review: the file a review page saves",
                            mt_printable(format).text);
    if (status == MT_OK) status = mt_json_get_integer(root, "version", 1, 1, &version);
    if (status == MT_OK) status = mt_json_get_array(root, "marks", &marks);
    if (status != MT_OK) return status;
    *count = mt_json_count(&marks);
    for (size_t i = 0; i < *count && status == MT_OK; i++) {
        struct mt_json_node mark = mt_json_element(&marks, i);
        status = enter_mark(run, &mark);
    }
    return status;
}

/* Nothing where no sample of the task is marked. */
static enum mt_status write_task(struct mt_context *ctx, struct mt_judged_run *run,
                                 const struct mt_judged_task *task)
{
    struct mt_text_writer writer = {.text = {.ctx = ctx}};
    const char *path = NULL;
    for (size_t i = 0; i < task->count; i++) {
        enum mt_verdict verdict = task->samples[i].verdicts[MT_JUDGE_HUMAN];
        if (verdict == MT_VERDICT_NONE) continue;
        mt_judged_put_verdict(&writer, &task->samples[i], verdict);
        mt_text_put(&writer, "}\n");
    }
    enum mt_status status = writer.status;
    if (status == MT_OK) status = mt_judged_path(run, "review", task->name, &path);
    if (status == MT_OK && writer.text.count > 0)
        status = mt_file_write_all(ctx, path, writer.text.data, writer.text.count);
    mt_byte_list_free(&writer.text);
    return status;
}

enum mt_status mt_review_marks_merge(struct mt_context *ctx, struct mt_judged_run *run, const char *path,
                                     size_t *count)
{
    struct mt_json json = {0};
    size_t marks = 0;
    enum mt_status status = mt_json_read(ctx, path, &marks_limits, &json);
    if (status == MT_OK) {
        struct mt_json_node root = mt_json_root(&json);
        status = enter_marks(run, &root, &marks);
    }
    mt_json_free(&json);
    for (size_t i = 0; i < run->count && status == MT_OK; i++) status = write_task(ctx, run, &run->tasks[i]);
    if (count != NULL) *count = marks;
    return status;
}
