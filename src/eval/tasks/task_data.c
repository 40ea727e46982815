/* Samples of a task. */
#include "eval/tasks/task_data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/files/file.h"
#include "base/rng.h"
#include "formats/text/printable.h"
#include "formats/text/utf8.h"

#define PATH_BYTES     4096
#define MOST_EXAMPLES  ((size_t)16 << 20) // bytes of a text of examples
#define SHUFFLE_STREAM 0x63686F69u        // apart from the stream that draws examples
#define DRAW_STREAM    0x73686F74u

struct mt_task_data {
    struct mt_context *ctx;
    const struct mt_task *task;
    struct mt_dataset *dataset;
    uint64_t *rows; // [count] of the dataset
    size_t count;
    size_t capacity;
    size_t left_out;              // rows without a right answer
    struct mt_byte_list examples; // the few-shot part of every prompt
    bool all;                     // rows that make no sense are samples, too
};

// ------------------------------------------------------------------ files

/* "{subtask}" in a path. */
static bool path_of(const struct mt_task *task, const char *folder, const char *data, char *path)
{
    char name[PATH_BYTES];
    const char *mark = strstr(data, "{subtask}");
    int written =
        mark == NULL || task->subtask == NULL
            ? snprintf(name, sizeof name, "%s", data)
            : snprintf(name, sizeof name, "%.*s%s%s", (int)(mark - data), data, task->subtask, mark + 9);
    if (written < 0 || (size_t)written >= sizeof name) return false;
    written = name[0] == '/' ? snprintf(path, PATH_BYTES, "%s", name)
                             : snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    if (written < 0 || written >= PATH_BYTES - 4) return false;
    if (mt_dataset_exists(path)) return true;
    memcpy(path + written, ".gz", 4);
    if (mt_dataset_exists(path)) return true;
    path[written] = '\0';
    return false;
}

/* The first of several that is there, and its path; none: NULL, and the path of the first. */
static const char *const *first_of(const struct mt_task *task, const char *folder, const char *const *data,
                                   char *path)
{
    for (size_t i = 0; data[i] != NULL; i++) {
        if (path_of(task, folder, data[i], path)) return &data[i];
    }
    (void)path_of(task, folder, data[0], path);
    return NULL;
}

const char *const *mt_task_data_found(const struct mt_task *task, const char *folder)
{
    char path[PATH_BYTES];
    return first_of(task, folder, task->data, path);
}

bool mt_task_data_exists(const struct mt_task *task, const char *folder)
{
    return mt_task_data_found(task, folder) != NULL;
}

static enum mt_status open_file(struct mt_context *ctx, const struct mt_task *task, const char *folder,
                                const char *const *data, struct mt_dataset **dataset)
{
    char path[PATH_BYTES];
    struct mt_dataset_options options = {
        .format = task->format, .columns = task->columns, .fields = task->fields, .folders = true};
    if (first_of(task, folder, data, path) == NULL) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "task %s: %s (or .gz) is not there%s; docs/evaluation.md says where data comes from",
                       task->name, path, data[1] != NULL ? ", nor is any other file of its data" : "");
    }
    return mt_dataset_open(ctx, path, &options, dataset);
}

/* True when a field is the text, where "{subtask}" is the subtask's name, its underscores or spaces. */
static bool is_text(const struct mt_task *task, const char *text, const struct mt_row_field *field)
{
    bool subtask = strcmp(text, "{subtask}") == 0 && task->subtask != NULL;
    if (subtask) text = task->subtask;
    if (field == NULL || field->kind != MT_FIELD_TEXT || field->bytes != strlen(text)) return false;
    for (size_t i = 0; i < field->bytes; i++) {
        bool space = subtask && text[i] == '_' && field->text[i] == ' ';
        if (field->text[i] != text[i] && !space) return false;
    }
    return true;
}

/* "FIELD LOW-HIGH" or "FIELD is TEXT", checked when the task was read. */
static bool selected(const struct mt_task *task, const char *rule, const struct mt_row *row)
{
    char field[128];
    if (rule == NULL) return true;
    size_t length = strcspn(rule, " ");
    if (length >= sizeof field) return false;
    memcpy(field, rule, length);
    field[length] = '\0';
    if (strncmp(rule + length, " is ", 4) == 0)
        return is_text(task, rule + length + 4, mt_row_field(row, field));
    char *dash = NULL;
    long long low = strtoll(rule + length, &dash, 10);
    long long high = strtoll(dash + (*dash == '-' ? 1 : 0), NULL, 10);
    const struct mt_row_field *value = mt_row_field(row, field);
    if (value == NULL || value->bytes == 0 || value->bytes > 20) return false;
    char text[24];
    memcpy(text, value->text, value->bytes);
    text[value->bytes] = '\0';
    long long number = strtoll(text, NULL, 10);
    return number >= low && number <= high;
}

/* Lists the rows a rule lets through, with `all` those that make no sense. Without one nothing needs to be
 * read. */
static enum mt_status list_rows(struct mt_context *ctx, const struct mt_task *task,
                                const struct mt_dataset *dataset, const char *rule, bool all, uint64_t **rows,
                                size_t *count, size_t *capacity)
{
    struct mt_row row;
    enum mt_status status = MT_OK;
    mt_row_init(ctx, &row);
    for (uint64_t i = 0; i < mt_dataset_rows(dataset) && status == MT_OK; i++) {
        if (rule != NULL) status = mt_dataset_read(dataset, i, &row);
        bool senseless = all && status == MT_ERR_FORMAT;
        if (senseless) status = MT_OK;
        if (status != MT_OK || (!senseless && !selected(task, rule, &row))) continue;
        *rows = mt_list_reserve(ctx, *rows, capacity, sizeof **rows, *count + 1, &status);
        if (status == MT_OK) (*rows)[(*count)++] = i;
    }
    mt_row_free(&row);
    return status;
}

/* Takes over the rows somebody picked. */
static enum mt_status take_picked(struct mt_task_data *data)
{
    const struct mt_task *task = data->task;
    for (size_t i = 0; i < task->picked_count; i++) {
        if (task->picked[i] >= mt_dataset_rows(data->dataset))
            return mt_fail(data->ctx, MT_ERR_FORMAT, "task %s: %s has become shorter", task->name,
                           mt_dataset_path(data->dataset));
    }
    enum mt_status status = MT_OK;
    data->rows = mt_list_reserve(data->ctx, data->rows, &data->capacity, sizeof *data->rows,
                                 task->picked_count, &status);
    if (status != MT_OK) return status;
    data->count = task->picked_count;
    if (data->count > 0) memcpy(data->rows, task->picked, data->count * sizeof *data->rows);
    return MT_OK;
}

// ------------------------------------------------------------------ samples

void mt_sample_init(struct mt_context *ctx, struct mt_task_sample *sample)
{
    *sample =
        (struct mt_task_sample){.prompt = {.ctx = ctx}, .answer = {.ctx = ctx}, .choice_text = {.ctx = ctx}};
    mt_row_init(ctx, &sample->row);
}

void mt_sample_free(struct mt_task_sample *sample)
{
    mt_row_free(&sample->row);
    mt_byte_list_free(&sample->prompt);
    mt_byte_list_free(&sample->answer);
    mt_byte_list_free(&sample->choice_text);
}

static void add_text(struct mt_digest *digest, const void *text, size_t bytes)
{
    uint64_t length = bytes; // so that no two lists of texts are the same bytes
    mt_digest_add(digest, &length, sizeof length);
    mt_digest_add(digest, text, bytes);
}

enum mt_status mt_sample_sum(struct mt_context *ctx, const struct mt_task_sample *sample,
                             struct mt_digest_text *sum)
{
    struct mt_digest *digest = NULL;
    enum mt_status status = mt_digest_create(ctx, &digest);
    if (status != MT_OK) return status;
    add_text(digest, sample->row.source, sample->row.source_bytes);
    add_text(digest, sample->answer.data, sample->answer.count);
    for (size_t i = 0; i < sample->choice_count; i++)
        add_text(digest, sample->choices[i].text, sample->choices[i].bytes);
    *sum = mt_digest_finish(digest);
    mt_digest_free(digest);
    return MT_OK;
}

struct mt_prompt_names mt_sample_names(const struct mt_task *task, const struct mt_task_sample *sample)
{
    return (struct mt_prompt_names){.choices = sample->choice_count > 0 ? sample->choices : NULL,
                                    .choice_count = sample->choice_count,
                                    .subtask = task->subtask,
                                    .choice = -1};
}

static enum mt_status add_choice(const struct mt_task *task, struct mt_task_sample *sample, const char *text,
                                 size_t bytes)
{
    const char *drop = task->choice_drop;
    if (drop != NULL && strlen(drop) == bytes && memcmp(drop, text, bytes) == 0) return MT_OK;
    if (sample->choice_count == MT_SAMPLE_MOST_CHOICES)
        return mt_row_fail(&sample->row, "more than %d choices", MT_SAMPLE_MOST_CHOICES);
    sample->choices[sample->choice_count++] = (struct mt_text){.text = text, .bytes = bytes};
    return MT_OK;
}

/* The choices in the order of the file; the row's own texts, which do not move. */
static enum mt_status find_choices(const struct mt_task *task, struct mt_task_sample *sample)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; task->choices != NULL && task->choices[i] != NULL && status == MT_OK; i++)
        status = add_choice(task, sample, task->choices[i], strlen(task->choices[i]));
    size_t items = task->choice_list != NULL ? mt_row_items(&sample->row, task->choice_list) : 0;
    bool fields = task->choice_fields != NULL && items == 0;
    for (size_t i = 0; fields && task->choice_fields[i] != NULL && status == MT_OK; i++) {
        const struct mt_row_field *field = mt_row_field(&sample->row, task->choice_fields[i]);
        if (field == NULL || field->kind != MT_FIELD_TEXT)
            return mt_row_fail(&sample->row, "there is no field '%s' with a choice", task->choice_fields[i]);
        status = add_choice(task, sample, field->text, field->bytes);
    }
    for (size_t i = 0; i < items && status == MT_OK; i++) {
        const char *text = NULL;
        size_t bytes = 0;
        if (!mt_row_item(&sample->row, task->choice_list, i, &text, &bytes))
            return mt_row_fail(&sample->row, "choice %zu is not a text", i + 1);
        status = add_choice(task, sample, text, bytes);
    }
    bool meant = task->choices != NULL || task->choice_fields != NULL || task->choice_list != NULL;
    if (status == MT_OK && meant && sample->choice_count == 0)
        return mt_row_fail(&sample->row, "there are no choices");
    return status;
}

/* Mixes the choices by seed and row; returns where the first one went. */
static int mix(const struct mt_task *task, uint64_t row, struct mt_task_sample *sample)
{
    int first = 0;
    for (size_t i = sample->choice_count; i > 1; i--) {
        size_t other = (size_t)mt_rng_below(task->seed, SHUFFLE_STREAM + row, i, i);
        struct mt_text kept = sample->choices[i - 1];
        sample->choices[i - 1] = sample->choices[other];
        sample->choices[other] = kept;
        if (first == (int)other) {
            first = (int)(i - 1);
        } else if (first == (int)(i - 1)) {
            first = (int)other;
        }
    }
    return first;
}

/* Which choice the answer names: by label, by letter, by its number from 0, as data sets of the hub do. */
static int named_choice(const struct mt_task *task, const struct mt_task_sample *sample)
{
    const char *text = (const char *)sample->answer.data;
    size_t bytes = sample->answer.count;
    for (size_t i = 0; i < sample->choice_count; i++) {
        const char *label = NULL;
        if (task->choice_labels != NULL) label = task->choice_labels[i];
        if (label != NULL && strlen(label) == bytes && memcmp(label, text, bytes) == 0) return (int)i;
        if (task->choice_labels != NULL && label == NULL) return -1;
        if (task->choice_labels == NULL && bytes == 1 && text[0] == (char)('A' + i)) return (int)i;
    }
    int number = -1;
    for (size_t i = 0; i < bytes && i < 2 && text[i] >= '0' && text[i] <= '9'; i++)
        number = i + 1 == bytes ? (i == 1 ? (text[0] - '0') * 10 : 0) + text[i] - '0' : -1;
    return number < (int)sample->choice_count ? number : -1;
}

/* The right answer: of choices, the letter or the label's own text. */
static enum mt_status make_answer(const struct mt_task *task, uint64_t row, struct mt_task_sample *sample)
{
    struct mt_prompt_names names = mt_sample_names(task, sample);
    sample->answer.count = 0;
    sample->gold = -1;
    enum mt_status status = mt_prompt_render(task->answer, &sample->row, &names, &sample->answer);
    if (status != MT_OK || sample->choice_count == 0) return status;
    sample->gold = task->shuffle ? mix(task, row, sample) : named_choice(task, sample);
    if (sample->gold < 0) {
        return mt_row_fail(&sample->row, "the answer '%s' is none of the %zu choices",
                           mt_printable_bytes((const char *)sample->answer.data, sample->answer.count).text,
                           sample->choice_count);
    }
    sample->answer.count = 0;
    if (task->choice_labels != NULL)
        return mt_byte_list_append(&sample->answer, sample->choices[sample->gold].text,
                                   sample->choices[sample->gold].bytes);
    char letter = (char)('A' + sample->gold);
    return mt_byte_list_append(&sample->answer, &letter, 1);
}

static enum mt_status make_id(const struct mt_task *task, uint64_t row, struct mt_task_sample *sample)
{
    if (task->id == NULL) {
        (void)snprintf(sample->id, sizeof sample->id, "%llu", (unsigned long long)row);
        return MT_OK;
    }
    const struct mt_row_field *field = mt_row_field(&sample->row, task->id);
    if (field == NULL || field->kind != MT_FIELD_TEXT || field->bytes == 0 ||
        field->bytes >= sizeof sample->id || memchr(field->text, '\0', field->bytes) != NULL)
        return mt_row_fail(&sample->row, "the field '%s' does not name the row", task->id);
    memcpy(sample->id, field->text, field->bytes);
    sample->id[field->bytes] = '\0';
    return MT_OK;
}

static enum mt_status read_sample(const struct mt_task *task, const struct mt_dataset *dataset, uint64_t row,
                                  struct mt_task_sample *sample)
{
    sample->choice_count = 0;
    enum mt_status status = mt_dataset_read(dataset, row, &sample->row);
    if (status == MT_OK) status = make_id(task, row, sample);
    if (status == MT_OK) status = find_choices(task, sample);
    return status == MT_OK ? make_answer(task, row, sample) : status;
}

enum mt_status mt_task_data_sample(const struct mt_task_data *data, size_t index,
                                   struct mt_task_sample *sample)
{
    enum mt_status status = read_sample(data->task, data->dataset, data->rows[index], sample);
    if (status != MT_OK) return status;
    struct mt_prompt_names names = mt_sample_names(data->task, sample);
    sample->prompt.count = 0;
    if (data->task->description != NULL)
        status = mt_prompt_render(data->task->description, &sample->row, &names, &sample->prompt);
    if (status == MT_OK && data->examples.count > 0)
        status = mt_byte_list_append(&sample->prompt, data->examples.data, data->examples.count);
    if (status != MT_OK) return status;
    sample->shared = sample->prompt.count;
    return mt_prompt_render(data->task->prompt, &sample->row, &names, &sample->prompt);
}

/* Nothing but white space, TeX's too. */
static bool is_blank(struct mt_text text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        bool tex = text.text[i] == '\\' && i + 1 < text.bytes && strchr(",;:! ", text.text[i + 1]) != NULL;
        if (!tex && strchr(" \t\r\n", text.text[i]) == NULL) return false;
        if (tex) i++;
    }
    return true;
}

bool mt_sample_answered(const struct mt_task *task, const struct mt_task_sample *sample)
{
    if (task->compare != MT_COMPARE_MATH || task->kind == MT_TASK_CHOOSE) return true;
    return !is_blank(mt_text_in(&sample->answer));
}

/* No answer can be right where the data has none: a solution without a box, an empty field. */
static enum mt_status leave_out_unanswered(struct mt_task_data *data)
{
    struct mt_task_sample sample;
    enum mt_status status = MT_OK;
    size_t kept = 0;
    if (data->task->compare != MT_COMPARE_MATH || data->task->kind == MT_TASK_CHOOSE) return MT_OK;
    if (data->all || data->task->picked != NULL) return MT_OK;
    mt_sample_init(data->ctx, &sample);
    for (size_t i = 0; i < data->count && status == MT_OK; i++) {
        status = read_sample(data->task, data->dataset, data->rows[i], &sample);
        if (status == MT_OK && mt_sample_answered(data->task, &sample)) data->rows[kept++] = data->rows[i];
    }
    data->left_out = data->count - kept;
    data->count = kept;
    mt_sample_free(&sample);
    return status;
}

// ------------------------------------------------------------------ examples

/* One example: its own template, or the prompt, a space and the answer; then an empty line. */
static enum mt_status append_example(struct mt_task_data *data, struct mt_task_sample *sample)
{
    const struct mt_task *task = data->task;
    struct mt_prompt_names names = mt_sample_names(task, sample);
    const char *template = task->few_shot_example != NULL ? task->few_shot_example : task->prompt;
    if (task->few_shot_example != NULL) names.choice = sample->gold; // {letter} of the right one
    enum mt_status status = mt_prompt_render(template, &sample->row, &names, &data->examples);
    if (status == MT_OK && task->few_shot_example == NULL) {
        status = mt_byte_list_append_text(&data->examples, " ");
        if (status == MT_OK)
            status = mt_byte_list_append(&data->examples, sample->answer.data, sample->answer.count);
    }
    return status == MT_OK ? mt_byte_list_append_text(&data->examples, "\n\n") : status;
}

/*
 * Examples out of a text: what stands before the first, below a line of dashes where there is one, and the
 * first so many pieces that begin with "Q: ".
 */
static enum mt_status take_examples(struct mt_task_data *data, const char *path, struct mt_text text)
{
    static const char line[] = "\n-----\n";
    static const char begin[] = "\nQ: ";
    size_t dashes = mt_text_find(text, 0, line);
    if (dashes < text.bytes) text = mt_text_from(text, dashes + sizeof line - 2);
    size_t end = mt_text_find(text, 0, begin);
    for (int64_t i = 0; i < data->task->few_shot; i++) {
        if (end == text.bytes)
            return mt_fail(data->ctx, MT_ERR_USAGE, "task %s: %s wanted, %s has %lld", data->task->name,
                           mt_counted((uint64_t)data->task->few_shot, "example is", "examples are").text,
                           path, (long long)i);
        end = mt_text_find(text, end + 1, begin);
    }
    text.bytes = end;
    text = mt_text_trimmed(text);
    enum mt_status status = mt_byte_list_append(&data->examples, text.text, text.bytes);
    return status == MT_OK ? mt_byte_list_append_text(&data->examples, "\n\n") : status;
}

static enum mt_status read_examples(struct mt_task_data *data, const char *folder)
{
    char path[PATH_BYTES];
    void *text = NULL;
    size_t bytes = 0;
    if (!path_of(data->task, folder, data->task->few_shot_text, path))
        return mt_fail(data->ctx, MT_ERR_USAGE, "task %s: %s with the examples is not there",
                       data->task->name, path);
    enum mt_status status = mt_file_read_all(data->ctx, path, MOST_EXAMPLES, &text, &bytes);
    if (status != MT_OK) return status;
    if (mt_utf8_valid(text, bytes)) {
        status = take_examples(data, path, (struct mt_text){.text = text, .bytes = bytes});
    } else {
        status = mt_fail(data->ctx, MT_ERR_FORMAT, "%s: is not UTF-8", path);
    }
    mt_release(data->ctx, text, bytes);
    return status;
}

/* Distinct rows: the first ones, or a partial shuffle of their numbers. */
static enum mt_status pick_examples(struct mt_task_data *data, const char *folder)
{
    const struct mt_task *task = data->task;
    struct mt_dataset *dataset = NULL;
    struct mt_task_sample sample;
    uint64_t *rows = NULL;
    size_t count = 0;
    size_t capacity = 0;
    if (task->few_shot == 0) return MT_OK;
    if (task->few_shot_text != NULL) return read_examples(data, folder);
    mt_sample_init(data->ctx, &sample);
    enum mt_status status = open_file(data->ctx, task, folder, task->few_shot_data, &dataset);
    if (status == MT_OK)
        status = list_rows(data->ctx, task, dataset, task->few_shot_rows, false, &rows, &count, &capacity);
    if (status == MT_OK && (uint64_t)task->few_shot > count) {
        status = mt_fail(data->ctx, MT_ERR_USAGE, "task %s: %s wanted, %s has %s", task->name,
                         mt_counted((uint64_t)task->few_shot, "example is", "examples are").text,
                         mt_dataset_path(dataset), mt_counted(count, "row", "rows").text);
    }
    for (size_t i = 0; status == MT_OK && i < (size_t)task->few_shot; i++) {
        size_t other = i;
        if (task->few_shot_pick == MT_PICK_DRAWN)
            other += (size_t)mt_rng_below(task->seed, DRAW_STREAM, i, count - i);
        uint64_t row = rows[other];
        rows[other] = rows[i];
        rows[i] = row;
        status = read_sample(task, dataset, row, &sample);
        if (status == MT_OK) status = append_example(data, &sample);
    }
    mt_release(data->ctx, rows, capacity * sizeof *rows);
    mt_sample_free(&sample);
    mt_dataset_close(dataset);
    return status;
}

static enum mt_status open_data(struct mt_context *ctx, const struct mt_task *task, const char *folder,
                                bool all, struct mt_task_data **data)
{
    void *memory = NULL;
    *data = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **data, &memory);
    if (status != MT_OK) return status;
    struct mt_task_data *made = memory;
    made->ctx = ctx;
    made->task = task;
    made->all = all;
    made->examples.ctx = ctx;
    status = open_file(ctx, task, folder, task->data, &made->dataset);
    if (status == MT_OK && task->picked != NULL) {
        status = take_picked(made);
    } else if (status == MT_OK) {
        status =
            list_rows(ctx, task, made->dataset, task->rows, all, &made->rows, &made->count, &made->capacity);
    }
    if (status == MT_OK) status = leave_out_unanswered(made);
    if (status == MT_OK && made->count == 0 && !all)
        status = mt_fail(ctx, MT_ERR_FORMAT, "task %s: %s has no rows for it", task->name,
                         mt_dataset_path(made->dataset));
    if (status == MT_OK) status = pick_examples(made, folder);
    if (status != MT_OK) {
        mt_task_data_close(made);
        return status;
    }
    *data = made;
    return MT_OK;
}

enum mt_status mt_task_data_open(struct mt_context *ctx, const struct mt_task *task, const char *folder,
                                 struct mt_task_data **data)
{
    return open_data(ctx, task, folder, false, data);
}

enum mt_status mt_task_data_open_all(struct mt_context *ctx, const struct mt_task *task, const char *folder,
                                     struct mt_task_data **data)
{
    return open_data(ctx, task, folder, true, data);
}

void mt_task_data_close(struct mt_task_data *data)
{
    if (data == NULL) return;
    mt_dataset_close(data->dataset);
    mt_byte_list_free(&data->examples);
    mt_release(data->ctx, data->rows, data->capacity * sizeof *data->rows);
    mt_release(data->ctx, data, sizeof *data);
}

size_t mt_task_data_count(const struct mt_task_data *data)
{
    return data->count;
}

uint64_t mt_task_data_row(const struct mt_task_data *data, size_t index)
{
    return data->rows[index];
}

struct mt_digest_text mt_task_data_sum(const struct mt_task_data *data)
{
    return mt_dataset_sum(data->dataset);
}

size_t mt_task_data_left_out(const struct mt_task_data *data)
{
    return data->left_out;
}
