/* Answers from a file. */
#include "eval/run/recorded.h"

#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/files/digest.h"
#include "formats/data/dataset.h"

#define BATCH 256

/* Where the answer to a question is: a checksum of task and id, and the row. */
struct recorded_entry {
    struct mt_digest_text key;
    uint64_t row;
};

struct mt_recorded {
    struct mt_context *ctx;
    struct mt_dataset *dataset;
    struct recorded_entry *entries; // [rows], by key
    size_t count;
    struct mt_row row;
};

static struct mt_digest_text key_of(const char *task, size_t task_bytes, const char *id, size_t id_bytes)
{
    char text[512];
    size_t length = 0;
    if (task_bytes + id_bytes + 1 <= sizeof text) {
        if (task_bytes > 0) memcpy(text, task, task_bytes);
        text[task_bytes] = '\0';
        memcpy(text + task_bytes + 1, id, id_bytes);
        length = task_bytes + 1 + id_bytes;
    }
    return mt_digest_of(text, length);
}

static int by_key(const void *a, const void *b)
{
    const struct recorded_entry *one = a;
    const struct recorded_entry *other = b;
    return strcmp(one->key.digits, other->key.digits);
}

static enum mt_status index_rows(struct mt_recorded *recorded)
{
    enum mt_status status = MT_OK;
    for (uint64_t i = 0; i < recorded->count && status == MT_OK; i++) {
        status = mt_dataset_read(recorded->dataset, i, &recorded->row);
        if (status != MT_OK) break;
        const struct mt_row_field *task = mt_row_field(&recorded->row, "task");
        const struct mt_row_field *id = mt_row_field(&recorded->row, "id");
        if (id == NULL || id->kind != MT_FIELD_TEXT)
            return mt_row_fail(&recorded->row, "the key 'id' is missing");
        bool told = task != NULL && task->kind == MT_FIELD_TEXT;
        recorded->entries[i] = (struct recorded_entry){
            .key = key_of(told ? task->text : "", told ? task->bytes : 0, id->text, id->bytes), .row = i};
    }
    if (status == MT_OK && recorded->count > 0)
        qsort(recorded->entries, recorded->count, sizeof *recorded->entries, by_key);
    return status;
}

enum mt_status mt_recorded_open(struct mt_context *ctx, const char *path, struct mt_recorded **recorded)
{
    void *memory = NULL;
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL};
    *recorded = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **recorded, &memory);
    if (status != MT_OK) return status;
    struct mt_recorded *made = memory;
    made->ctx = ctx;
    mt_row_init(ctx, &made->row);
    status = mt_dataset_open(ctx, path, &options, &made->dataset);
    if (status == MT_OK) {
        size_t rows = (size_t)mt_dataset_rows(made->dataset);
        status = mt_allocate_array(ctx, rows, sizeof *made->entries, &memory);
        if (status == MT_OK) {
            made->entries = memory;
            made->count = rows;
            status = index_rows(made);
        }
    }
    if (status != MT_OK) {
        mt_recorded_close(made);
        return status;
    }
    *recorded = made;
    return MT_OK;
}

void mt_recorded_close(struct mt_recorded *recorded)
{
    if (recorded == NULL) return;
    mt_row_free(&recorded->row);
    mt_release(recorded->ctx, recorded->entries, recorded->count * sizeof *recorded->entries);
    mt_dataset_close(recorded->dataset);
    mt_release(recorded->ctx, recorded, sizeof *recorded);
}

static const struct recorded_entry *find(const struct mt_recorded *recorded,
                                         const struct mt_question *question)
{
    struct recorded_entry wanted = {
        .key = key_of(question->task, strlen(question->task), question->id, strlen(question->id))};
    if (recorded->count == 0) return NULL;
    const struct recorded_entry *found =
        bsearch(&wanted, recorded->entries, recorded->count, sizeof *recorded->entries, by_key);
    if (found != NULL) return found;
    wanted.key = key_of("", 0, question->id, strlen(question->id));
    return bsearch(&wanted, recorded->entries, recorded->count, sizeof *recorded->entries, by_key);
}

static enum mt_status answer_one(struct mt_recorded *recorded, const struct mt_question *question,
                                 size_t samples, struct mt_byte_list *answers)
{
    const struct recorded_entry *entry = find(recorded, question);
    if (entry == NULL) {
        return mt_fail(recorded->ctx, MT_ERR_USAGE, "%s: there is no answer for task %s, id %s",
                       mt_dataset_path(recorded->dataset), question->task, question->id);
    }
    enum mt_status status = mt_dataset_read(recorded->dataset, entry->row, &recorded->row);
    if (status != MT_OK) return status;
    const struct mt_row_field *answer = mt_row_field(&recorded->row, "answer");
    if (answer != NULL && answer->kind == MT_FIELD_TEXT && samples == 1)
        return mt_byte_list_append(&answers[0], answer->text, answer->bytes);
    for (size_t i = 0; i < samples && status == MT_OK; i++) {
        const char *text = NULL;
        size_t bytes = 0;
        if (!mt_row_item(&recorded->row, "answers", i, &text, &bytes))
            return mt_row_fail(&recorded->row, "%s wanted, as \"answer\" or \"answers\"",
                               mt_counted(samples, "answer is", "answers are").text);
        status = mt_byte_list_append(&answers[i], text, bytes);
    }
    return status;
}

static enum mt_status generate(void *self, const struct mt_question *questions, size_t count,
                               const struct mt_answer_options *options,
                               const struct mt_answer_listener *listener, struct mt_byte_list *answers)
{
    size_t samples = (size_t)options->samples;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK && listener->go_on(listener->self, 0); i++) {
        status = answer_one(self, &questions[i], samples, &answers[i * samples]);
        if (status == MT_OK) status = listener->answered(listener->self, i);
    }
    return status;
}

struct mt_answerer mt_recorded_answerer(struct mt_recorded *recorded)
{
    return (struct mt_answerer){
        .self = recorded, .name = mt_dataset_path(recorded->dataset), .batch = BATCH, .generate = generate};
}
