/*
 * A teacher's answers: every question that is drawn is put to it as in an evaluation, judged by the task's
 * own judge, and kept where it was right. Questions it got wrong are asked again, up to `samples` times, each
 * time in a folder of its own below OUT.teacher: an evaluation that goes on where it was.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/files/folder.h"
#include "base/files/folder_lock.h"
#include "eval/run/line_file.h"
#include "eval/run/runner.h"
#include "recipe/making.h"

#define PATH_BYTES 4096
#define MOST_NOTE  65536

/* An answer that was right. */
struct right_answer {
    const char *id; // all in the arena
    const char *prompt;
    const char *sample; // checksums of prompt and row
    struct mt_text text;
};

/* Right answers of one file of a source. */
struct right_answers {
    struct mt_arena *arena;
    struct right_answer *list;
    size_t count, capacity;
};

struct teaching {
    struct mt_making *making;
    struct mt_arena arena; // of one round
    char folder[PATH_BYTES];
    int lock;
    uint64_t round;
    struct mt_source_row row;
    struct mt_task *tasks; // [task_count] of the round: a file with rows that wait
    size_t task_count;
};

// ------------------------------------------------------------------ the answerer of a round

/* Another round draws other answers to the same question. */
static enum mt_status generate(void *self, const struct mt_question *questions, size_t count,
                               const struct mt_answer_options *options,
                               const struct mt_answer_listener *listener, struct mt_byte_list *answers)
{
    const struct teaching *teaching = self;
    const struct mt_answerer *teacher = &teaching->making->options->teacher->answerer;
    struct mt_answer_options mine = *options;
    mine.seed += teaching->round;
    return teacher->generate(teacher->self, questions, count, &mine, listener, answers);
}

// ------------------------------------------------------------------ reading what was right

static enum mt_status copy_text(struct mt_arena *arena, const char *text, const char **copy)
{
    return mt_arena_copy_text(arena, text, strlen(text), copy);
}

static enum mt_status take_line(void *self, const struct mt_json_node *line)
{
    struct right_answers *right = self;
    struct mt_json_node answers;
    double score = 0.0;
    const char *texts[4] = {NULL};
    enum mt_status status = mt_json_optional_real(line, "score", -1e300, 1e300, &score);
    if (status != MT_OK || score < 1.0) return status;
    status = mt_json_get_array(line, "resps", &answers);
    if (status == MT_OK && mt_json_count(&answers) != 1) return MT_OK;
    if (status == MT_OK) {
        struct mt_json_node answer = mt_json_element(&answers, 0);
        status = mt_json_as_string(&answer, &texts[0]);
    }
    if (status == MT_OK) status = mt_json_get_string(line, "id", &texts[1]);
    if (status == MT_OK) status = mt_json_get_string(line, "prompt_hash", &texts[2]);
    if (status == MT_OK) status = mt_json_get_string(line, "sample_hash", &texts[3]);
    right->list = mt_list_reserve(right->arena->ctx, right->list, &right->capacity, sizeof *right->list,
                                  right->count + 1, &status);
    if (status != MT_OK) return status;
    struct right_answer *made = &right->list[right->count++];
    status = copy_text(right->arena, texts[0], &made->text.text);
    made->text.bytes = strlen(texts[0]);
    if (status == MT_OK) status = copy_text(right->arena, texts[1], &made->id);
    if (status == MT_OK) status = copy_text(right->arena, texts[2], &made->prompt);
    if (status == MT_OK) status = copy_text(right->arena, texts[3], &made->sample);
    return status;
}

static int by_question(const void *left, const void *right)
{
    const struct right_answer *a = left;
    const struct right_answer *b = right;
    int order = strcmp(a->sample, b->sample);
    if (order == 0) order = strcmp(a->prompt, b->prompt);
    return order != 0 ? order : strcmp(a->id, b->id);
}

/* Gives every row of a file that waits its right answer, if there is one. */
static enum mt_status take_answers(struct teaching *teaching, const struct mt_task *task)
{
    struct mt_making *making = teaching->making;
    struct right_answers right = {.arena = making->arena};
    char path[PATH_BYTES];
    enum mt_status status = MT_OK;
    int written = snprintf(path, sizeof path, "%s/samples_%s.jsonl", teaching->folder, task->name);
    if (written < 0 || written >= (int)sizeof path)
        return mt_fail(making->ctx, MT_ERR_USAGE, "%s: the path is too long", teaching->folder);
    status = mt_lines_read(making->ctx, path, take_line, &right, NULL);
    if (right.count > 0) qsort(right.list, right.count, sizeof *right.list, by_question);
    for (size_t i = 0; i < making->count && status == MT_OK && right.count > 0; i++) {
        struct mt_recipe_entry *entry = &making->entries[i];
        const struct mt_source *source = &making->sources[entry->source];
        if (!mt_making_drew(making, i) || entry->answer.text != NULL) continue;
        if (source->files[entry->file].task.name != task->name) continue;
        struct mt_digest_text sum;
        status = mt_source_read(source, entry->file, entry->index, &teaching->row);
        if (status == MT_OK) status = mt_sample_sum(making->ctx, &teaching->row.sample, &sum);
        if (status != MT_OK) break;
        const struct mt_byte_list *text = &teaching->row.sample.prompt;
        struct mt_digest_text prompt = mt_digest_of(text->data, text->count);
        const struct right_answer wanted = {
            .id = teaching->row.sample.id, .prompt = prompt.digits, .sample = sum.digits};
        const struct right_answer *found =
            bsearch(&wanted, right.list, right.count, sizeof *right.list, by_question);
        if (found != NULL) entry->answer = found->text;
    }
    mt_release(making->ctx, right.list, right.capacity * sizeof *right.list);
    return status;
}

// ------------------------------------------------------------------ a round

/* The rows of a file that have no right answer yet, in their order. */
static enum mt_status pick(struct teaching *teaching, size_t source, size_t file, struct mt_task *task)
{
    const struct mt_making *making = teaching->making;
    const struct mt_source_file *from = &making->sources[source].files[file];
    enum mt_status status = MT_OK;
    size_t count = 0;
    *task = from->task;
    for (int pass = 0; pass < 2 && status == MT_OK; pass++) {
        uint64_t *rows = NULL;
        if (pass == 1) rows = mt_arena_array(&teaching->arena, count, sizeof *rows, &status);
        task->picked = rows;
        task->picked_count = count;
        count = 0;
        for (size_t i = 0; i < making->count && status == MT_OK; i++) {
            const struct mt_recipe_entry *entry = &making->entries[i];
            if (entry->source != source || entry->file != file) continue;
            if (!mt_making_drew(making, i) || entry->answer.text != NULL) continue;
            if (rows != NULL) rows[count] = mt_task_data_row(from->data, entry->index);
            count++;
        }
    }
    task->samples = 1;
    task->metrics[0] = MT_METRIC_ACCURACY;
    task->metric_count = 1;
    if (making->options->teacher->max_tokens > 0) task->max_tokens = making->options->teacher->max_tokens;
    return status;
}

static enum mt_status list_tasks(struct teaching *teaching)
{
    const struct mt_making *making = teaching->making;
    enum mt_status status = MT_OK;
    size_t files = 0;
    for (size_t s = 0; s < making->report->source_count; s++) files += making->sources[s].file_count;
    teaching->tasks = mt_arena_array(&teaching->arena, files, sizeof *teaching->tasks, &status);
    teaching->task_count = 0;
    for (size_t s = 0; s < making->report->source_count; s++) {
        for (size_t f = 0; f < making->sources[s].file_count && status == MT_OK; f++) {
            struct mt_task *task = &teaching->tasks[teaching->task_count];
            if (making->sources[s].files[f].data == NULL) continue;
            status = pick(teaching, s, f, task);
            teaching->task_count += status == MT_OK && task->picked_count > 0 ? 1 : 0;
        }
    }
    return status;
}

static enum mt_status ask(struct teaching *teaching)
{
    struct mt_making *making = teaching->making;
    const struct mt_recipe_options *options = making->options;
    enum mt_status status = mt_folder_make(making->ctx, teaching->folder);
    struct mt_task_result *results =
        mt_arena_array(&teaching->arena, teaching->task_count, sizeof *results, &status);
    const struct mt_answerer answerer = {.self = teaching,
                                         .name = options->teacher->answerer.name,
                                         .batch = options->teacher->answerer.batch,
                                         .generate = generate};
    const struct mt_eval_options asked = {.tasks = teaching->tasks,
                                          .task_count = teaching->task_count,
                                          .data = options->data,
                                          .out = teaching->folder,
                                          .answerer = &answerer,
                                          .judge = options->teacher->judge,
                                          .stop = options->stop,
                                          .self = options->stop_self,
                                          .terminal = options->terminal,
                                          .log = options->log};
    if (status == MT_OK) status = mt_eval_run(making->ctx, &asked, results);
    for (size_t i = 0; i < teaching->task_count && status == MT_OK; i++) {
        making->report->stopped = making->report->stopped || results[i].stopped;
        making->report->unanswered += (int64_t)results[i].failed;
        if (!making->report->stopped) status = take_answers(teaching, &teaching->tasks[i]);
    }
    return status;
}

static enum mt_status run_round(struct teaching *teaching, const char *top)
{
    struct mt_making *making = teaching->making;
    mt_arena_init(&teaching->arena, making->ctx, MOST_NOTE);
    int written =
        snprintf(teaching->folder, sizeof teaching->folder, "%s/round-%" PRIu64, top, teaching->round + 1);
    enum mt_status status = MT_OK;
    if (written < 0 || written >= (int)sizeof teaching->folder)
        status = mt_fail(making->ctx, MT_ERR_USAGE, "%s: the path is too long", top);
    if (status == MT_OK) status = list_tasks(teaching);
    if (status == MT_OK && teaching->task_count > 0) status = ask(teaching);
    mt_arena_free(&teaching->arena);
    return status;
}

// ------------------------------------------------------------------ all of it

/* Judges that find nothing right or wrong, and sources without one. */
static enum mt_status check_tasks(const struct mt_making *making)
{
    for (size_t s = 0; s < making->report->source_count; s++) {
        const struct mt_source *source = &making->sources[s];
        const char *name = source->recipe->name;
        if (source->recipe->task == NULL)
            return mt_fail(making->ctx, MT_ERR_USAGE,
                           "recipe %s names no task, so a teacher's answers cannot be judged", name);
        if (source->files[0].task.compare == MT_COMPARE_NUMBERS)
            return mt_fail(
                making->ctx, MT_ERR_USAGE,
                "recipe %s: answers of task %s are neither right nor wrong, so a teacher cannot write them",
                name, source->recipe->task);
    }
    return MT_OK;
}

/* Answers of one teacher, asked in one way, are in a folder. */
static enum mt_status claim(struct mt_context *ctx, const char *folder, const char *settings)
{
    char path[PATH_BYTES];
    void *noted = NULL;
    size_t bytes = 0;
    int written = snprintf(path, sizeof path, "%s/teacher.json", folder);
    if (written < 0 || written >= (int)sizeof path)
        return mt_fail(ctx, MT_ERR_USAGE, "%s: the path is too long", folder);
    if (access(path, F_OK) != 0) return mt_file_write_all(ctx, path, settings, strlen(settings));
    enum mt_status status = mt_file_read_all(ctx, path, MOST_NOTE, &noted, &bytes);
    if (status != MT_OK) return status;
    bool same = bytes == strlen(settings) && memcmp(noted, settings, bytes) == 0;
    mt_release(ctx, noted, bytes);
    if (same) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE,
                   "%s holds answers of another teacher, or of one with other settings: remove it, or "
                   "choose another --out",
                   folder);
}

static void count_right(const struct mt_making *making)
{
    struct mt_recipe_source_report *sources = making->report->sources;
    for (size_t i = 0; i < making->report->source_count; i++) sources[i].right = 0;
    for (size_t i = 0; i < making->count; i++) {
        bool right = mt_making_drew(making, i) && making->entries[i].answer.text != NULL;
        sources[making->entries[i].source].right += right ? 1 : 0;
    }
}

/* Draws as many rows more as are missing of what was wanted; false: nothing is, or there are no more. */
static bool draw_more(const struct mt_making *making, const int64_t *wanted)
{
    bool more = false;
    for (size_t i = 0; i < making->report->source_count; i++) {
        struct mt_recipe_source_report *source = &making->report->sources[i];
        int64_t missing = wanted[i] - source->right;
        int64_t left = source->available - source->drawn;
        int64_t added = missing < left ? missing : left;
        source->drawn += added;
        more = more || added > 0;
    }
    return more;
}

/* Every question that is drawn, up to `samples` times. */
static enum mt_status ask_rounds(struct teaching *teaching, const char *top)
{
    struct mt_making *making = teaching->making;
    enum mt_status status = MT_OK;
    for (int64_t i = 0; i < making->options->teacher->samples && status == MT_OK; i++) {
        if (making->report->stopped) break;
        teaching->round = (uint64_t)i;
        making->report->unanswered = 0;
        status = run_round(teaching, top);
    }
    count_right(making);
    return status;
}

enum mt_status mt_making_ask_teacher(struct mt_making *making)
{
    const struct mt_recipe_teacher *teacher = making->options->teacher;
    struct mt_context *ctx = making->ctx;
    struct teaching teaching = {.making = making, .lock = MT_FOLDER_UNLOCKED};
    char top[PATH_BYTES];
    int written = snprintf(top, sizeof top, "%s.teacher", making->options->out);
    if (written < 0 || written >= (int)sizeof top - 64)
        return mt_fail(ctx, MT_ERR_USAGE, "%s: the path is too long", making->options->out);
    enum mt_status status = check_tasks(making);
    if (status == MT_OK) status = mt_folder_make(ctx, top);
    if (status == MT_OK) status = mt_folder_lock(ctx, top, "asking a teacher", &teaching.lock);
    if (status == MT_OK) status = claim(ctx, top, teacher->settings);
    mt_source_row_init(ctx, &teaching.row);
    int64_t *wanted = mt_arena_array(making->arena, making->report->source_count, sizeof *wanted, &status);
    for (size_t i = 0; i < making->report->source_count && status == MT_OK; i++)
        wanted[i] = making->report->sources[i].drawn;
    for (bool more = true; more && status == MT_OK;) {
        status = ask_rounds(&teaching, top);
        more = status == MT_OK && teacher->fill && !making->report->stopped && draw_more(making, wanted);
    }
    mt_source_row_free(&teaching.row);
    mt_folder_unlock(teaching.lock);
    return status;
}
