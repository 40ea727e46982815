/* Samples of a task. */
#include "eval/tasks/task_data.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/files/file.h"
#include "base/rng.h"
#include "eval/code/row_cases.h"
#include "eval/tasks/choices.h"
#include "eval/tasks/field_place.h"
#include "eval/tasks/python_random.h"
#include "formats/text/printable.h"
#include "formats/text/utf8.h"

#define PATH_BYTES    4096
#define MOST_EXAMPLES ((size_t)16 << 20) // bytes of a text of examples
#define DRAW_STREAM   0x73686F74u

/* Rows of a file by number. */
struct row_list {
    uint64_t *rows;
    size_t count, capacity;
};

struct mt_task_data {
    struct mt_context *ctx;
    const struct mt_task *task;
    struct mt_dataset *dataset;
    struct row_list list; // of the dataset
    struct mt_dropped_rows dropped, dropped_examples;
    struct mt_byte_list examples; // the few-shot part of every prompt
    bool all;                     // rows that make no sense are samples, too
    // Where every sample has examples of its own: the file they come from, and the rows of each.
    struct mt_dataset *pool;
    uint64_t *drawn; // [count · few_shot]
    size_t drawn_capacity;
    unsigned char *orders; // [count · choices]: of shuffle: harness, the places choices are taken from
    size_t choices;
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
    if (name[0] == '/') {
        written = snprintf(path, PATH_BYTES, "%s", name);
    } else if (strncmp(name, "./", 2) == 0 && task->file != NULL) { // beside the task's file
        const char *slash = strrchr(task->file, '/');
        int length = slash != NULL ? (int)(slash - task->file) + 1 : 0;
        written = snprintf(path, PATH_BYTES, "%.*s%s", length, task->file, name + 2);
    } else {
        written = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    }
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
    if (task->compare == MT_COMPARE_LIVECODEBENCH) options.max_row_bytes = MT_ROW_CASES_MOST_ROW;
    if (first_of(task, folder, data, path) == NULL) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "task %s: %s (or .gz) is not there%s; docs/evaluation.md says where data comes from",
                       task->name, path, data[1] != NULL ? ", nor is any other file of its data" : "");
    }
    return mt_dataset_open(ctx, path, &options, dataset);
}

/* True when a field is the text, where "{subtask}" is the subtask's name, its underscores or spaces. */
static bool is_text(const struct mt_task *task, const char *text, struct mt_text field)
{
    bool subtask = strcmp(text, "{subtask}") == 0 && task->subtask != NULL;
    if (subtask) text = task->subtask;
    if (field.bytes != strlen(text)) return false;
    for (size_t i = 0; i < field.bytes; i++) {
        bool space = subtask && text[i] == '_' && field.text[i] == ' ';
        if (field.text[i] != text[i] && !space) return false;
    }
    return true;
}

static bool is_between(const char *range, struct mt_text field)
{
    char text[24];
    char *dash = NULL;
    long long low = strtoll(range, &dash, 10);
    long long high = strtoll(dash + (*dash == '-' ? 1 : 0), NULL, 10);
    if (field.bytes == 0 || field.bytes > 20) return false;
    memcpy(text, field.text, field.bytes);
    text[field.bytes] = '\0';
    long long number = strtoll(text, NULL, 10);
    return number >= low && number <= high;
}

/* "A to B", both counting: texts in the order of their bytes, as dates of ISO 8601 are; of the field as much
 * counts as the bound is long, so that a day is all of its hours. */
static bool is_from_to(const char *bounds, struct mt_text field)
{
    const char *to = strstr(bounds, " to ");
    size_t low = (size_t)(to - bounds);
    size_t high = strlen(to + 4);
    size_t shorter = low < field.bytes ? low : field.bytes;
    int below = memcmp(field.text, bounds, shorter);
    int above = memcmp(field.text, to + 4, high < field.bytes ? high : field.bytes);
    return (below > 0 || (below == 0 && field.bytes >= low)) && above <= 0;
}

/* "FIELD LOW-HIGH", "FIELD is TEXT" or "FIELD from A to B", checked when the task was read. A row without the
 * field makes no sense.
 */
static enum mt_status select_row(const struct mt_task *task, const char *rule, const struct mt_row *row,
                                 struct mt_byte_list *scratch, bool *selected)
{
    char field[128];
    bool there = false;
    size_t length = strcspn(rule, " ");
    *selected = false;
    if (length >= sizeof field) return MT_OK;
    memcpy(field, rule, length);
    field[length] = '\0';
    const struct mt_field_place place = mt_field_place(row, field);
    scratch->count = 0;
    enum mt_status status = mt_field_place_append(&place, scratch, &there);
    if (status != MT_OK) return status;
    if (!there)
        return mt_row_fail(row, "there is no field '%s', by which rows are chosen", mt_printable(field).text);
    bool text = strncmp(rule + length, " is ", 4) == 0;
    bool from = strncmp(rule + length, " from ", 6) == 0;
    if (text) *selected = is_text(task, rule + length + 4, mt_text_in(scratch));
    if (from) *selected = is_from_to(rule + length + 6, mt_text_in(scratch));
    if (!text && !from) *selected = is_between(rule + length, mt_text_in(scratch));
    return MT_OK;
}

/* Lists the rows a rule lets through, with `all` those that make no sense; else they are dropped. Without one
 * nothing needs to be read. */
static enum mt_status list_rows(struct mt_context *ctx, const struct mt_task *task,
                                const struct mt_dataset *dataset, const char *rule, bool all,
                                struct row_list *list, struct mt_dropped_rows *dropped)
{
    struct mt_row row;
    struct mt_byte_list scratch = {.ctx = ctx};
    enum mt_status status = MT_OK;
    mt_row_init(ctx, &row);
    for (uint64_t i = 0; i < mt_dataset_rows(dataset) && status == MT_OK; i++) {
        bool selected = true;
        if (rule != NULL) status = mt_dataset_read(dataset, i, &row);
        if (status == MT_ERR_FORMAT && all) {
            status = MT_OK;
        } else if (status == MT_OK && rule != NULL) {
            status = select_row(task, rule, &row, &scratch, &selected);
        }
        if (status == MT_ERR_FORMAT) {
            status = all ? MT_OK : mt_dropped_rows_add(dropped, &row);
            selected = false;
        }
        if (status != MT_OK || !selected) continue;
        list->rows =
            mt_list_reserve(ctx, list->rows, &list->capacity, sizeof *list->rows, list->count + 1, &status);
        if (status == MT_OK) list->rows[list->count++] = i;
    }
    mt_byte_list_free(&scratch);
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
    struct row_list *list = &data->list;
    list->rows = mt_list_reserve(data->ctx, list->rows, &list->capacity, sizeof *list->rows,
                                 task->picked_count, &status);
    if (status != MT_OK) return status;
    list->count = task->picked_count;
    if (list->count > 0) memcpy(list->rows, task->picked, list->count * sizeof *list->rows);
    return MT_OK;
}

// ------------------------------------------------------------------ samples

static enum mt_status make_id(const struct mt_task *task, uint64_t row, struct mt_task_sample *sample)
{
    if (task->id == NULL) {
        (void)snprintf(sample->id, sizeof sample->id, "%llu", (unsigned long long)row);
        return MT_OK;
    }
    struct mt_byte_list name = {.ctx = sample->row.ctx};
    const struct mt_field_place place = mt_field_place(&sample->row, task->id);
    bool there = false;
    enum mt_status status = mt_field_place_append(&place, &name, &there);
    bool names = there && name.count > 0 && name.count < sizeof sample->id &&
                 memchr(name.data, '\0', name.count) == NULL;
    if (status == MT_OK && !names)
        status =
            mt_row_fail(&sample->row, "the field '%s' does not name the row", mt_printable(task->id).text);
    if (status == MT_OK) {
        memcpy(sample->id, name.data, name.count);
        sample->id[name.count] = '\0';
    }
    mt_byte_list_free(&name);
    return status;
}

/* `order` is that of its choices; NULL: the file's. */
static enum mt_status read_sample(const struct mt_task *task, const struct mt_dataset *dataset, uint64_t row,
                                  const unsigned char *order, struct mt_task_sample *sample)
{
    enum mt_status status = mt_dataset_read(dataset, row, &sample->row);
    if (status == MT_OK) status = make_id(task, row, sample);
    return status == MT_OK ? mt_choices_read(task, row, order, sample) : status;
}

/* Appends a filled-in template, cleaned as the task wants it. */
static enum mt_status append_clean(const struct mt_task *task, const char *template, const struct mt_row *row,
                                   const struct mt_prompt_names *names, struct mt_byte_list *out)
{
    size_t begin = out->count;
    enum mt_status status = mt_prompt_render(template, row, names, out);
    if (out->count > begin)
        out->count = begin + mt_clean_text(task->clean, (char *)out->data + begin, out->count - begin);
    return status;
}

/* One example: the prompt, then what is scored of the right choice, or the separator and the answer; then an
 * empty line.
 */
static enum mt_status append_example(const struct mt_task *task, const struct mt_task_sample *sample,
                                     struct mt_byte_list *out)
{
    struct mt_prompt_names names = mt_sample_names(task, sample);
    names.choice = sample->gold; // {choice} of an example is the right one
    enum mt_status status = append_clean(task, task->prompt, &sample->row, &names, out);
    if (status == MT_OK && task->few_shot_answer == NULL && task->kind == MT_TASK_CHOOSE) {
        status = mt_prompt_render(task->continuation, &sample->row, &names, out);
        return status == MT_OK ? mt_byte_list_append_text(out, "\n\n") : status;
    }
    if (status == MT_OK) status = mt_byte_list_append_text(out, task->separator);
    if (status == MT_OK && task->few_shot_answer != NULL) {
        status = mt_prompt_render(task->few_shot_answer, &sample->row, &names, out);
    } else if (status == MT_OK) {
        status = mt_byte_list_append(out, sample->answer.data, sample->answer.count);
    }
    return status == MT_OK ? mt_byte_list_append_text(out, "\n\n") : status;
}

/* The examples that were drawn for this sample alone. */
static enum mt_status append_own_examples(const struct mt_task_data *data, size_t index,
                                          struct mt_byte_list *out)
{
    size_t shots = (size_t)data->task->few_shot;
    struct mt_task_sample example;
    enum mt_status status = MT_OK;
    mt_sample_init(data->ctx, &example);
    for (size_t i = 0; i < shots && status == MT_OK; i++) {
        status = read_sample(data->task, data->pool, data->drawn[index * shots + i], NULL, &example);
        if (status == MT_OK) status = append_example(data->task, &example, out);
    }
    mt_sample_free(&example);
    return status;
}

/* Appends description, examples and the question as it is put for one choice, or for all of them (-1). */
static enum mt_status append_prompt(const struct mt_task_data *data, size_t index,
                                    const struct mt_task_sample *sample, int choice, struct mt_byte_list *out,
                                    size_t *shared)
{
    struct mt_prompt_names names = mt_sample_names(data->task, sample);
    size_t begin = out->count;
    enum mt_status status = MT_OK;
    if (data->task->description != NULL)
        status = mt_prompt_render(data->task->description, &sample->row, &names, out);
    if (status == MT_OK && data->examples.count > 0)
        status = mt_byte_list_append(out, data->examples.data, data->examples.count);
    *shared = out->count - begin;
    if (status == MT_OK && data->drawn != NULL) status = append_own_examples(data, index, out);
    names.choice = choice;
    return status == MT_OK ? append_clean(data->task, data->task->prompt, &sample->row, &names, out) : status;
}

/* True when a template names one choice: then it is put for each of them. */
static bool has_choice(const char *template)
{
    return strstr(template, "{choice}") != NULL || strstr(template, "{choice|") != NULL;
}

enum mt_status mt_task_data_sample(const struct mt_task_data *data, size_t index,
                                   struct mt_task_sample *sample)
{
    const unsigned char *order = data->orders != NULL ? data->orders + index * data->choices : NULL;
    enum mt_status status = read_sample(data->task, data->dataset, data->list.rows[index], order, sample);
    if (status != MT_OK) return status;
    bool each = has_choice(data->task->prompt) && sample->choice_count > 0;
    sample->prompt.count = 0;
    sample->input_text.count = 0;
    sample->input_count = each ? sample->choice_count : 0;
    status = append_prompt(data, index, sample, each ? 0 : -1, &sample->prompt, &sample->shared);
    for (size_t i = 0; i < sample->input_count && status == MT_OK; i++) {
        size_t shared = 0;
        size_t begin = sample->input_text.count;
        status = append_prompt(data, index, sample, (int)i, &sample->input_text, &shared);
        sample->inputs[i] = (struct mt_text){.text = "", .bytes = sample->input_text.count - begin};
    }
    const char *at = (const char *)sample->input_text.data; // the bytes no longer move
    for (size_t i = 0; i < sample->input_count && status == MT_OK; i++) {
        if (sample->inputs[i].bytes > 0) sample->inputs[i].text = at;
        at += sample->inputs[i].bytes;
    }
    return status;
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

/* Whether an answer is held against the right one; else the row itself says what is right. */
static bool has_right_answer(const struct mt_task *task)
{
    switch (task->compare) {
    case MT_COMPARE_TEXT:
    case MT_COMPARE_MATH:
    case MT_COMPARE_LIST:
    case MT_COMPARE_NUMBERS:
    case MT_COMPARE_OPTION: return true;
    default: return mt_task_has_choices(task);
    }
}

bool mt_sample_answered(const struct mt_task *task, const struct mt_task_sample *sample)
{
    return !has_right_answer(task) || !is_blank(mt_text_in(&sample->answer));
}

static bool is_number(struct mt_text text)
{
    char digits[64];
    char *end = NULL;
    text = mt_text_trimmed(text);
    if (text.bytes == 0 || text.bytes >= sizeof digits) return false;
    memcpy(digits, text.text, text.bytes);
    digits[text.bytes] = '\0';
    double value = strtod(digits, &end);
    return *end == '\0' && isfinite(value);
}

/* Writes out all that is made of a sample later on, so that what is missing is found before anything is
 * asked.
 */
static enum mt_status try_sample(const struct mt_task_data *data, size_t index, struct mt_task_sample *sample,
                                 struct mt_byte_list *scratch)
{
    const struct mt_task *task = data->task;
    const struct mt_text nothing = mt_text_of("");
    enum mt_status status = mt_task_data_sample(data, index, sample);
    if (status != MT_OK) return status;
    if (!mt_sample_answered(task, sample)) return mt_row_fail(&sample->row, MT_ROW_UNANSWERED);
    if (task->compare == MT_COMPARE_NUMBERS && !mt_task_has_choices(task) &&
        !is_number(mt_text_in(&sample->answer)))
        return mt_row_fail(&sample->row, "the answer '%s' is not a number",
                           mt_printable_bytes((const char *)sample->answer.data, sample->answer.count).text);
    struct mt_prompt_names names = mt_sample_names(task, sample);
    names.choice = sample->choice_count > 0 ? 0 : -1;
    names.completion = &nothing;
    const char *const templates[] = {task->kind == MT_TASK_CHOOSE ? task->continuation : NULL, task->program,
                                     task->tests, task->given, task->calls};
    for (size_t i = 0; i < sizeof templates / sizeof templates[0] && status == MT_OK; i++) {
        scratch->count = 0;
        if (templates[i] != NULL) status = mt_prompt_render(templates[i], &sample->row, &names, scratch);
    }
    bool cases = status == MT_OK && task->compare == MT_COMPARE_LIVECODEBENCH;
    return cases ? mt_row_cases_check(&sample->row) : status;
}

/* Leaves out rows that cannot be asked or judged: one that is read in a wrong way would only lower a figure.
 */
static enum mt_status drop_rows(struct mt_task_data *data)
{
    struct mt_task_sample sample;
    struct mt_byte_list scratch = {.ctx = data->ctx};
    struct row_list *list = &data->list;
    enum mt_status status = MT_OK;
    size_t kept = 0;
    mt_sample_init(data->ctx, &sample);
    for (size_t i = 0; i < list->count && status == MT_OK; i++) {
        status = try_sample(data, i, &sample, &scratch);
        if (status == MT_OK) list->rows[kept++] = list->rows[i];
        if (status == MT_ERR_FORMAT) status = mt_dropped_rows_add(&data->dropped, &sample.row);
    }
    list->count = kept;
    mt_byte_list_free(&scratch);
    mt_sample_free(&sample);
    return status;
}

/* A task without a row asks nothing: says what became of the file's rows. */
static enum mt_status refuse_empty(struct mt_task_data *data)
{
    const struct mt_task *task = data->task;
    const char *path = mt_dataset_path(data->dataset);
    uint64_t rows = mt_dataset_rows(data->dataset);
    uint64_t dropped = data->dropped.count;
    struct mt_byte_list why = {.ctx = data->ctx};
    enum mt_status status = mt_dropped_rows_describe(&data->dropped, &why);
    if (status != MT_OK) {
        mt_byte_list_free(&why);
        return status;
    }
    if (rows == 0)
        status = mt_fail(data->ctx, MT_ERR_FORMAT, "task %s: %s has no rows", task->name, path);
    else if (dropped == 0)
        status = mt_fail(data->ctx, MT_ERR_FORMAT, "task %s: rows: '%s' keeps none of the %s of %s",
                         task->name, mt_printable(task->rows != NULL ? task->rows : "").text,
                         mt_counted(rows, "row", "rows").text, path);
    else
        status = mt_fail(data->ctx, MT_ERR_FORMAT, "task %s: %s: none of %s can be used%s: %.*s", task->name,
                         path, mt_counted(rows, "row", "rows").text,
                         dropped < rows ? " (`rows` leaves out the others)" : "",
                         (int)(why.count < 1200 ? why.count : 1200), (const char *)why.data);
    mt_byte_list_free(&why);
    return status;
}

// ------------------------------------------------------------------ examples

/* The prompt's own words, before its field and behind it. */
struct prompt_words {
    struct mt_text before, behind;
};

/* Of a task whose examples are a text: its prompt has one field, and words on both sides. */
static enum mt_status find_words(const struct mt_task_data *data, struct prompt_words *words)
{
    struct mt_text prompt = mt_text_of(data->task->prompt);
    size_t open = mt_text_find(prompt, 0, "{");
    size_t close = mt_text_find(prompt, 0, "}");
    bool one = open > 0 && open < close && mt_text_find(prompt, close, "{") == prompt.bytes;
    if (one) {
        words->before = (struct mt_text){.text = prompt.text, .bytes = open};
        words->behind = mt_text_trimmed(mt_text_from(prompt, close + 1));
    }
    if (one && words->behind.bytes > 0) return MT_OK;
    return mt_fail(data->ctx, MT_ERR_USAGE,
                   "task %s: with few_shot_text, the prompt must be text, one field, and text",
                   data->task->name);
}

/*
 * One worked example out of a text, appended as the prompt puts it: the text's own white space between
 * question and answer does not count.
 */
static enum mt_status take_example(struct mt_task_data *data, const char *path, struct mt_text piece,
                                   const struct prompt_words *words)
{
    const struct mt_task *task = data->task;
    const char *field = strchr(task->prompt, '}');
    struct mt_text question = mt_text_from(piece, words->before.bytes);
    char behind[256];
    (void)snprintf(behind, sizeof behind, "%.*s", (int)words->behind.bytes, words->behind.text);
    size_t at = mt_text_find(question, 0, behind);
    if (at == question.bytes)
        return mt_fail(data->ctx, MT_ERR_FORMAT,
                       "task %s: %s has an example without \"%s\", which the prompt uses", task->name, path,
                       mt_printable(behind).text);
    struct mt_text answer = mt_text_trimmed(mt_text_from(question, at + words->behind.bytes));
    question.bytes = at;
    question = mt_text_trimmed(question);
    struct mt_byte_list *out = &data->examples;
    enum mt_status status = mt_byte_list_append(out, words->before.text, words->before.bytes);
    if (status == MT_OK) status = mt_byte_list_append(out, question.text, question.bytes);
    if (status == MT_OK) status = mt_byte_list_append_text(out, field + 1);
    if (status == MT_OK) status = mt_byte_list_append_text(out, task->separator);
    if (status == MT_OK) status = mt_byte_list_append(out, answer.text, answer.bytes);
    return status == MT_OK ? mt_byte_list_append_text(out, "\n\n") : status;
}

/*
 * Examples out of a text: what stands before the first, below a line of dashes where there is one, and the
 * first so many pieces, each beginning on a line of its own as the prompt begins.
 */
static enum mt_status take_examples(struct mt_task_data *data, const char *path, struct mt_text text)
{
    static const char line[] = "\n-----\n";
    struct prompt_words words = {0};
    char begin[256];
    enum mt_status status = find_words(data, &words);
    if (status != MT_OK) return status;
    (void)snprintf(begin, sizeof begin, "\n%.*s", (int)words.before.bytes, words.before.text);
    size_t dashes = mt_text_find(text, 0, line);
    if (dashes < text.bytes) text = mt_text_from(text, dashes + sizeof line - 2);
    size_t at = mt_text_find(text, 0, begin);
    struct mt_text lead = mt_text_trimmed((struct mt_text){.text = text.text, .bytes = at});
    if (lead.bytes > 0) status = mt_byte_list_append(&data->examples, lead.text, lead.bytes);
    if (lead.bytes > 0 && status == MT_OK) status = mt_byte_list_append_text(&data->examples, "\n\n");
    for (int64_t i = 0; i < data->task->few_shot && status == MT_OK; i++) {
        if (at == text.bytes)
            return mt_fail(data->ctx, MT_ERR_USAGE, "task %s: %s wanted, %s has %lld", data->task->name,
                           mt_counted((uint64_t)data->task->few_shot, "example is", "examples are").text,
                           path, (long long)i);
        size_t end = mt_text_find(text, at + 1, begin);
        struct mt_text piece = {.text = text.text + at + 1, .bytes = end - at - 1};
        status = take_example(data, path, piece, &words);
        at = end;
    }
    return status;
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

/* For every sample the rows that lm-evaluation-harness would draw, which asks them in this order. */
static enum mt_status draw_for_each(struct mt_task_data *data, const uint64_t *rows, size_t count)
{
    size_t shots = (size_t)data->task->few_shot;
    struct mt_python_random random = {0};
    void *memory = NULL;
    if (count > UINT32_MAX)
        return mt_fail(data->ctx, MT_ERR_LIMIT, "task %s: too many rows of examples", data->task->name);
    uint32_t pool = mt_python_random_pool((uint32_t)count, (uint32_t)shots);
    enum mt_status status = mt_allocate_array(data->ctx, pool + shots, sizeof(uint32_t), &memory);
    uint32_t *numbers = memory;
    if (status == MT_OK)
        data->drawn = mt_list_reserve(data->ctx, data->drawn, &data->drawn_capacity, sizeof *data->drawn,
                                      data->list.count * shots, &status);
    mt_python_random_seed(&random, data->task->seed);
    for (size_t i = 0; i < data->list.count && status == MT_OK; i++) {
        mt_python_random_sample(&random, (uint32_t)count, (uint32_t)shots, numbers + shots, numbers);
        for (size_t k = 0; k < shots; k++) data->drawn[i * shots + k] = rows[numbers[k]];
    }
    mt_release(data->ctx, memory, (pool + shots) * sizeof(uint32_t));
    return status;
}

/* The order of every sample's choices, as lm-evaluation-harness shuffles them: one stream over all rows. */
static enum mt_status draw_orders(struct mt_task_data *data)
{
    const char *const *names = data->task->choices != NULL ? data->task->choices : data->task->choice_fields;
    struct mt_python_random random = {0};
    void *memory = NULL;
    size_t choices = 0;
    if (data->task->shuffle != MT_SHUFFLE_HARNESS || data->list.count == 0) return MT_OK;
    while (names[choices] != NULL) choices++;
    if (choices > MT_SAMPLE_MOST_CHOICES)
        return mt_fail(data->ctx, MT_ERR_USAGE, "task %s: more than %d choices", data->task->name,
                       MT_SAMPLE_MOST_CHOICES);
    enum mt_status status = mt_allocate_array(data->ctx, data->list.count, choices, &memory);
    if (status != MT_OK) return status;
    data->orders = memory;
    data->choices = choices;
    mt_python_random_seed(&random, data->task->seed);
    for (size_t i = 0; i < data->list.count; i++) {
        unsigned char *order = data->orders + i * choices;
        for (size_t k = 0; k < choices; k++) order[k] = (unsigned char)k;
        mt_python_random_shuffle(&random, order, (uint32_t)choices);
    }
    return MT_OK;
}

/* Distinct rows: the first ones, or a partial shuffle of their numbers. */
static enum mt_status pick_examples(struct mt_task_data *data, const char *folder)
{
    const struct mt_task *task = data->task;
    struct mt_dataset *dataset = NULL;
    struct mt_task_sample sample;
    struct row_list list = {0};
    if (task->few_shot_text != NULL) return read_examples(data, folder);
    if (task->few_shot == 0) return MT_OK;
    mt_sample_init(data->ctx, &sample);
    enum mt_status status = open_file(data->ctx, task, folder, task->few_shot_data, &dataset);
    if (status == MT_OK)
        status =
            list_rows(data->ctx, task, dataset, task->few_shot_rows, false, &list, &data->dropped_examples);
    if (status == MT_OK && (uint64_t)task->few_shot > list.count) {
        status = mt_fail(data->ctx, MT_ERR_USAGE, "task %s: %s wanted, %s has %s", task->name,
                         mt_counted((uint64_t)task->few_shot, "example is", "examples are").text,
                         mt_dataset_path(dataset), mt_counted(list.count, "row", "rows").text);
    }
    bool own = task->few_shot_pick == MT_PICK_HARNESS;
    if (status == MT_OK && own) status = draw_for_each(data, list.rows, list.count);
    if (status == MT_OK && own) {
        data->pool = dataset;
        dataset = NULL;
    }
    for (size_t i = 0; !own && status == MT_OK && i < (size_t)task->few_shot; i++) {
        size_t other = i;
        if (task->few_shot_pick == MT_PICK_DRAWN)
            other += (size_t)mt_rng_below(task->seed, DRAW_STREAM, i, list.count - i);
        uint64_t row = list.rows[other];
        list.rows[other] = list.rows[i];
        list.rows[i] = row;
        status = read_sample(task, dataset, row, NULL, &sample);
        if (status == MT_OK) status = append_example(task, &sample, &data->examples);
    }
    mt_release(data->ctx, list.rows, list.capacity * sizeof *list.rows);
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
    bool picked = task->picked != NULL;
    if (status == MT_OK && picked) status = take_picked(made);
    if (status == MT_OK && !picked)
        status = list_rows(ctx, task, made->dataset, task->rows, all, &made->list, &made->dropped);
    if (status == MT_OK && !picked && !all) status = drop_rows(made);
    if (status == MT_OK && made->list.count == 0 && !all) status = refuse_empty(made);
    if (status == MT_OK) status = draw_orders(made);
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
    mt_dataset_close(data->pool);
    mt_release(data->ctx, data->orders, data->list.count * data->choices);
    mt_byte_list_free(&data->examples);
    mt_release(data->ctx, data->drawn, data->drawn_capacity * sizeof *data->drawn);
    mt_release(data->ctx, data->list.rows, data->list.capacity * sizeof *data->list.rows);
    mt_release(data->ctx, data, sizeof *data);
}

size_t mt_task_data_count(const struct mt_task_data *data)
{
    return data->list.count;
}

uint64_t mt_task_data_row(const struct mt_task_data *data, size_t index)
{
    return data->list.rows[index];
}

struct mt_digest_text mt_task_data_sum(const struct mt_task_data *data)
{
    return mt_dataset_sum(data->dataset);
}

const struct mt_dropped_rows *mt_task_data_dropped(const struct mt_task_data *data, bool examples)
{
    return examples ? &data->dropped_examples : &data->dropped;
}

enum mt_status mt_task_data_warn(const struct mt_task_data *data, const struct mt_log *log)
{
    enum mt_status status = MT_OK;
    for (int i = 0; i < 2 && status == MT_OK; i++) {
        const struct mt_dropped_rows *dropped = mt_task_data_dropped(data, i == 1);
        bool meant =
            data->task->unanswered == MT_UNANSWERED_LEAVE_OUT && dropped->count == dropped->unanswered;
        struct mt_byte_list why = {.ctx = data->ctx};
        if (dropped->count == 0 || meant) continue;
        status = mt_dropped_rows_describe(dropped, &why);
        if (status == MT_OK)
            mt_log_warning(log, "task %s: %s of %s left out: %.*s", data->task->name,
                           mt_counted(dropped->count, "row", "rows").text,
                           i == 1 ? "few_shot_data" : mt_dataset_path(data->dataset), (int)why.count,
                           (const char *)why.data);
        mt_byte_list_free(&why);
    }
    return status;
}

const char *mt_task_data_path(const struct mt_task_data *data)
{
    return mt_dataset_path(data->dataset);
}
