/* Answers from a file. */
#include "eval/run/recorded.h"

#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/files/digest.h"
#include "eval/tasks/task_data.h"
#include "formats/data/dataset.h"

#define BATCH 256

/* Where the answer to a question is: a checksum of task and id, and the row. */
struct recorded_entry {
    struct mt_digest_text key;
    uint64_t row;
    bool matched; // by a question
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

/* Two answers to one question: nobody could say which of them is judged. */
static enum mt_status refuse_twice(struct mt_recorded *recorded)
{
    for (size_t i = 1; i < recorded->count; i++) {
        const struct recorded_entry *one = &recorded->entries[i - 1];
        const struct recorded_entry *other = &recorded->entries[i];
        if (by_key(one, other) != 0) continue;
        uint64_t first = one->row < other->row ? one->row : other->row;
        enum mt_status status = mt_dataset_read(recorded->dataset, first, &recorded->row);
        uint64_t line = recorded->row.line;
        if (status == MT_OK)
            status = mt_dataset_read(recorded->dataset, one->row + other->row - first, &recorded->row);
        if (status != MT_OK) return status;
        return mt_row_fail(
            &recorded->row,
            "line %llu answers the same question (task and id): several answers of one are a list, "
            "\"answers\"",
            (unsigned long long)line);
    }
    return MT_OK;
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
    return status == MT_OK ? refuse_twice(recorded) : status;
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

static struct recorded_entry *find(const struct mt_recorded *recorded, const char *task, const char *id)
{
    struct recorded_entry wanted = {.key = key_of(task, strlen(task), id, strlen(id))};
    if (recorded->count == 0) return NULL;
    struct recorded_entry *found =
        bsearch(&wanted, recorded->entries, recorded->count, sizeof *recorded->entries, by_key);
    if (found != NULL) return found;
    wanted.key = key_of("", 0, id, strlen(id));
    return bsearch(&wanted, recorded->entries, recorded->count, sizeof *recorded->entries, by_key);
}

/* "finish_reason": "length", as servers say it: of one answer, or of each in a list. */
static bool was_cut(const struct mt_row *row, size_t index)
{
    const struct mt_row_field *field = mt_row_field(row, "finish_reason");
    const char *text = field != NULL && field->kind == MT_FIELD_TEXT ? field->text : NULL;
    size_t bytes = text != NULL ? field->bytes : 0;
    if (text == NULL && !mt_row_item(row, "finish_reason", index, &text, &bytes)) return false;
    return mt_text_same((struct mt_text){.text = text, .bytes = bytes}, mt_text_of("length"));
}

static enum mt_status answer_one(struct mt_recorded *recorded, const struct mt_question *question,
                                 size_t samples, struct mt_byte_list *answers)
{
    const struct recorded_entry *entry = find(recorded, question->task, question->id);
    if (entry == NULL) {
        return mt_fail(recorded->ctx, MT_ERR_USAGE, "%s: there is no answer for task %s, id %s",
                       mt_dataset_path(recorded->dataset), question->task, question->id);
    }
    enum mt_status status = mt_dataset_read(recorded->dataset, entry->row, &recorded->row);
    if (status != MT_OK) return status;
    for (size_t i = 0; question->ends != NULL && i < samples; i++)
        question->ends[i].cut = was_cut(&recorded->row, i);
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

// ------------------------------------------------------------------ answers to nothing

/* Marks the answers to a question; there may be several, of which one is read. */
static void match(struct mt_recorded *recorded, const char *task, const char *id)
{
    struct recorded_entry *found = find(recorded, task, id);
    if (found == NULL) return;
    const struct recorded_entry *end = recorded->entries + recorded->count;
    struct recorded_entry *first = found;
    while (first > recorded->entries && by_key(&first[-1], found) == 0) first--;
    for (; first < end && by_key(first, found) == 0; first++) first->matched = true;
}

static enum mt_status match_task(struct mt_recorded *recorded, const struct mt_task *task, const char *folder)
{
    struct mt_task_data *data = NULL;
    struct mt_task_sample sample;
    mt_sample_init(recorded->ctx, &sample);
    enum mt_status status = mt_task_data_open(recorded->ctx, task, folder, &data);
    size_t count = status == MT_OK ? mt_task_data_count(data) : 0;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        status = mt_task_data_sample(data, i, &sample);
        if (status == MT_OK) match(recorded, task->name, sample.id);
    }
    mt_sample_free(&sample);
    mt_task_data_close(data);
    return status;
}

static enum mt_status name_row(struct mt_recorded *recorded, uint64_t number, struct mt_byte_list *names)
{
    static const char *const fields[] = {"task", "id"};
    enum mt_status status = mt_dataset_read(recorded->dataset, number, &recorded->row);
    if (status == MT_OK && names->count > 0) status = mt_byte_list_append_text(names, "; ");
    bool first = true;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && status == MT_OK; i++) {
        const struct mt_row_field *field = mt_row_field(&recorded->row, fields[i]);
        if (field == NULL || field->kind != MT_FIELD_TEXT) continue;
        if (!first) status = mt_byte_list_append_text(names, ", ");
        if (status == MT_OK) status = mt_byte_list_append_text(names, fields[i]);
        if (status == MT_OK) status = mt_byte_list_append_text(names, " ");
        size_t bytes = field->bytes < 64 ? field->bytes : 64;
        if (status == MT_OK) status = mt_byte_list_append(names, field->text, bytes);
        first = false;
    }
    return status;
}

static int by_row(const void *a, const void *b)
{
    const struct recorded_entry *one = a;
    const struct recorded_entry *other = b;
    return one->row < other->row ? -1 : 1;
}

enum mt_status mt_recorded_unmatched(struct mt_recorded *recorded, const struct mt_task_list *list,
                                     const char *data, struct mt_byte_list *names, size_t *count)
{
    enum mt_status status = MT_OK;
    *count = 0;
    for (size_t i = 0; i < list->count && status == MT_OK; i++) {
        if (mt_task_data_exists(&list->tasks[i], data)) status = match_task(recorded, &list->tasks[i], data);
    }
    // In the order of the file for a while.
    if (recorded->count > 0) qsort(recorded->entries, recorded->count, sizeof *recorded->entries, by_row);
    for (size_t i = 0; i < recorded->count && status == MT_OK; i++) {
        if (recorded->entries[i].matched) continue;
        if (*count < MT_RECORDED_NAMED) status = name_row(recorded, recorded->entries[i].row, names);
        ++*count;
    }
    if (recorded->count > 0) qsort(recorded->entries, recorded->count, sizeof *recorded->entries, by_key);
    return status;
}
