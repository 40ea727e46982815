/* A person's marks, checked and stored. */
#include "eval/pages/review_marks.h"

#include <string.h>

#include "base/files/file.h"
#include "formats/text/json.h"
#include "formats/text/printable.h"

static const struct mt_json_limits marks_limits = {
    .max_bytes = (size_t)256 << 20, .max_values = 20000000, .max_depth = 8};

static enum mt_status enter_mark(const struct mt_judged_run *run, const struct mt_json_node *mark)
{
    const char *name = NULL;
    const char *id = NULL;
    const char *hash = NULL;
    const char *word = NULL;
    enum mt_status status = mt_json_expect_object(mark);
    if (status == MT_OK) status = mt_json_get_string(mark, "task", &name);
    if (status == MT_OK) status = mt_json_get_string(mark, "id", &id);
    if (status == MT_OK) status = mt_json_get_string(mark, "answer_hash", &hash);
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
    if (strcmp(sample->answer_hash.digits, hash) != 0)
        return mt_json_fail(mark, "is about another answer to sample '%s' of task %s than the run has now",
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
    struct mt_byte_list text = {.ctx = ctx};
    const char *path = NULL;
    enum mt_status status = mt_judged_path(run, "review", task->name, &path);
    for (size_t i = 0; i < task->count && status == MT_OK; i++) {
        const struct mt_judged_sample *sample = &task->samples[i];
        enum mt_verdict verdict = sample->verdicts[MT_JUDGE_HUMAN];
        if (verdict == MT_VERDICT_NONE) continue;
        status = mt_judged_append_verdict(&text, sample, verdict);
        if (status == MT_OK) status = mt_byte_list_append_text(&text, "}\n");
    }
    if (status == MT_OK && text.count > 0) status = mt_file_write_all(ctx, path, text.data, text.count);
    mt_byte_list_free(&text);
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
