/* Runs read back: samples, verdicts. */
#include "eval/judges/judged_run.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eval/run/line_file.h"

#define ARENA_BYTES ((size_t)1 << 20)
#define PREFIX      "samples_"
#define SUFFIX      ".jsonl"

static const char *const verdict_names[MT_VERDICTS] = {[MT_VERDICT_NONE] = "none",
                                                       [MT_VERDICT_CORRECT] = "correct",
                                                       [MT_VERDICT_INCORRECT] = "incorrect",
                                                       [MT_VERDICT_UNSURE] = "unsure",
                                                       [MT_VERDICT_UNREADABLE] = "unreadable"};

const char *mt_verdict_name(enum mt_verdict verdict)
{
    return verdict_names[verdict];
}

enum mt_verdict mt_verdict_named(const char *name)
{
    int verdict = mt_name_place(verdict_names, MT_VERDICTS, name);
    return verdict != MT_VERDICT_NONE ? (enum mt_verdict)verdict : MT_VERDICTS;
}

// ------------------------------------------------------------------ samples

/* What a line of a file is read into. */
struct run_reader {
    struct mt_judged_run *run;
    struct mt_judged_task *task;
    enum mt_judge judge;
};

static enum mt_status copy(struct run_reader *reading, const char *text, const char **kept)
{
    return mt_arena_copy_text(&reading->run->arena, text, strlen(text), kept);
}

/* The first text of a list; "" where it is empty. */
static enum mt_status copy_first(struct run_reader *reading, const struct mt_json_node *line, const char *key,
                                 const char **kept)
{
    struct mt_json_node list;
    const char *text = "";
    enum mt_status status = mt_json_get_array(line, key, &list);
    if (status == MT_OK && mt_json_count(&list) > 0) {
        struct mt_json_node first = mt_json_element(&list, 0);
        status = mt_json_as_string(&first, &text);
    }
    return status == MT_OK ? copy(reading, text, kept) : status;
}

static enum mt_status hash_question(struct mt_context *ctx, struct mt_judged_sample *sample)
{
    struct mt_digest *digest = NULL;
    enum mt_status status = mt_digest_create(ctx, &digest);
    if (status != MT_OK) return status;
    const char *question = sample->question != NULL ? sample->question : "";
    mt_digest_add(digest, question, strlen(question) + 1); // with its end
    mt_digest_add(digest, sample->reference, strlen(sample->reference));
    sample->question_hash = mt_digest_finish(digest);
    mt_digest_free(digest);
    return MT_OK;
}

static enum mt_status read_sample(void *self, const struct mt_json_node *line)
{
    struct run_reader *reading = self;
    struct mt_judged_task *task = reading->task;
    struct mt_judged_sample sample = {0};
    const char *id = NULL;
    const char *question = NULL;
    const char *reference = NULL;
    double score = NAN;
    enum mt_status status = mt_json_get_string(line, "id", &id);
    if (status == MT_OK) status = mt_json_get_string(line, "target", &reference);
    if (status == MT_OK) status = mt_json_optional_string(line, "prompt", &question);
    if (status == MT_OK) status = mt_json_optional_real(line, "score", -1e300, 1e300, &score);
    if (status == MT_OK) status = copy(reading, id, &sample.id);
    if (status == MT_OK) status = copy(reading, reference, &sample.reference);
    if (status == MT_OK && question != NULL) status = copy(reading, question, &sample.question);
    if (status == MT_OK) status = copy_first(reading, line, "resps", &sample.answer);
    if (status == MT_OK) status = copy_first(reading, line, "filtered_resps", &sample.extracted);
    if (status != MT_OK) return status;
    sample.answer_hash = mt_digest_of(sample.answer, strlen(sample.answer));
    status = hash_question(reading->run->ctx, &sample);
    if (status != MT_OK) return status;
    if (!isnan(score) && !mt_json_has(line, "unjudged"))
        sample.verdicts[MT_JUDGE_RULE] = score >= 1.0 ? MT_VERDICT_CORRECT : MT_VERDICT_INCORRECT;
    task->samples = mt_list_reserve(reading->run->ctx, task->samples, &task->capacity, sizeof *task->samples,
                                    task->count + 1, &status);
    if (status == MT_OK) task->samples[task->count++] = sample;
    return status;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct mt_judged_place *)a)->id, ((const struct mt_judged_place *)b)->id);
}

static int by_id_and_place(const void *a, const void *b)
{
    int order = by_id(a, b);
    if (order != 0) return order;
    return ((const struct mt_judged_place *)a)->at < ((const struct mt_judged_place *)b)->at ? -1 : 1;
}

static void sort_places(struct mt_judged_task *task)
{
    for (size_t i = 0; i < task->count; i++)
        task->by_id[i] = (struct mt_judged_place){.id = task->samples[i].id, .at = i};
    if (task->count > 0) qsort(task->by_id, task->count, sizeof *task->by_id, by_id_and_place);
}

/* Keeps the last sample of every id, in the order of the file. */
static enum mt_status index_samples(struct mt_judged_run *run, struct mt_judged_task *task)
{
    enum mt_status status = MT_OK;
    size_t kept = 0;
    task->by_id = mt_arena_array(&run->arena, task->count, sizeof *task->by_id, &status);
    if (status != MT_OK) return status;
    sort_places(task);
    for (size_t i = 0; i + 1 < task->count; i++) {
        if (by_id(&task->by_id[i], &task->by_id[i + 1]) == 0) task->samples[task->by_id[i].at].id = NULL;
    }
    for (size_t i = 0; i < task->count; i++) {
        if (task->samples[i].id != NULL) task->samples[kept++] = task->samples[i];
    }
    task->count = kept;
    sort_places(task);
    return MT_OK;
}

struct mt_judged_sample *mt_judged_sample_named(const struct mt_judged_task *task, const char *id)
{
    const struct mt_judged_place wanted = {.id = id};
    if (task->count == 0) return NULL;
    const struct mt_judged_place *found =
        bsearch(&wanted, task->by_id, task->count, sizeof *task->by_id, by_id);
    return found != NULL ? &task->samples[found->at] : NULL;
}

struct mt_judged_task *mt_judged_task_named(const struct mt_judged_run *run, const char *name)
{
    for (size_t i = 0; i < run->count; i++) {
        if (strcmp(run->tasks[i].name, name) == 0) return &run->tasks[i];
    }
    return NULL;
}

// ------------------------------------------------------------------ verdicts

bool mt_judged_is_about(const struct mt_judged_sample *sample, const char *answer, const char *question)
{
    return strcmp(sample->answer_hash.digits, answer) == 0 &&
           (question[0] == '\0' || strcmp(sample->question_hash.digits, question) == 0);
}

size_t mt_judged_outdated(const struct mt_judged_run *run, enum mt_judge judge)
{
    size_t count = 0;
    for (size_t i = 0; i < run->count; i++) {
        for (size_t k = 0; k < run->tasks[i].count; k++)
            count += run->tasks[i].samples[k].outdated[judge] ? 1 : 0;
    }
    return count;
}

size_t mt_judged_forget(struct mt_judged_task *task)
{
    size_t count = 0;
    for (size_t i = 0; i < task->count; i++) {
        if (task->samples[i].verdicts[MT_JUDGE_LLM] != MT_VERDICT_NONE) count++;
        task->samples[i].verdicts[MT_JUDGE_LLM] = MT_VERDICT_NONE;
        task->samples[i].outdated[MT_JUDGE_LLM] = false;
    }
    return count;
}

/* Verdicts of two judges are never mixed: behind a line of another, what was read before does not count. */
static enum mt_status take_judge(struct run_reader *reading, const char *judge)
{
    struct mt_judged_task *task = reading->task;
    if (reading->judge != MT_JUDGE_LLM || (task->judged_by != NULL && strcmp(task->judged_by, judge) == 0))
        return MT_OK;
    (void)mt_judged_forget(task);
    return copy(reading, judge, &task->judged_by);
}

static enum mt_status read_verdict(void *self, const struct mt_json_node *line)
{
    struct run_reader *reading = self;
    const char *id = NULL;
    const char *answer = NULL;
    const char *question = "";
    const char *word = NULL;
    const char *judge = "";
    enum mt_status status = mt_json_get_string(line, "id", &id);
    if (status == MT_OK) status = mt_json_get_string(line, "answer_hash", &answer);
    if (status == MT_OK) status = mt_json_optional_string(line, "question_hash", &question);
    if (status == MT_OK) status = mt_json_get_string(line, "verdict", &word);
    if (status == MT_OK) status = mt_json_optional_string(line, "model", &judge); // all that older lines say
    if (status == MT_OK) status = mt_json_optional_string(line, "judged_by", &judge);
    if (status != MT_OK) return status;
    enum mt_verdict verdict = mt_verdict_named(word);
    if (verdict == MT_VERDICTS)
        return mt_json_fail(line, "has a verdict that is not correct, incorrect, unsure or unreadable");
    status = take_judge(reading, judge);
    struct mt_judged_sample *sample = mt_judged_sample_named(reading->task, id);
    if (sample == NULL) return status;
    sample->outdated[reading->judge] = !mt_judged_is_about(sample, answer, question);
    sample->verdicts[reading->judge] = sample->outdated[reading->judge] ? MT_VERDICT_NONE : verdict;
    return status;
}

enum mt_status mt_judged_path(struct mt_judged_run *run, const char *kind, const char *task,
                              const char **path)
{
    size_t bytes = strlen(run->folder) + strlen(kind) + strlen(task) + 16;
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(&run->arena, bytes, &memory);
    if (status != MT_OK) return status;
    (void)snprintf(memory, bytes, "%s/%s_%s" SUFFIX, run->folder, kind, task);
    *path = memory;
    return MT_OK;
}

static enum mt_status read_verdicts(struct mt_judged_run *run, struct mt_judged_task *task,
                                    enum mt_judge judge, const char *kind)
{
    struct run_reader reading = {.run = run, .task = task, .judge = judge};
    const char *path = NULL;
    enum mt_status status = mt_judged_path(run, kind, task->name, &path);
    if (status != MT_OK || access(path, F_OK) != 0) return status;
    return mt_lines_read(run->ctx, path, read_verdict, &reading, NULL);
}

void mt_judged_put_verdict(struct mt_text_writer *line, const struct mt_judged_sample *sample,
                           enum mt_verdict verdict)
{
    mt_text_put_string(line, "{\"id\": ", mt_text_of(sample->id));
    mt_text_put_string(line, ", \"answer_hash\": ", mt_text_of(sample->answer_hash.digits));
    mt_text_put_string(line, ", \"question_hash\": ", mt_text_of(sample->question_hash.digits));
    mt_text_put_string(line, ", \"verdict\": ", mt_text_of(mt_verdict_name(verdict)));
}

// ------------------------------------------------------------------ folders

/* The task of a file's name, in the arena; NULL: the file is something else. */
static enum mt_status task_of_file(struct mt_judged_run *run, const char *file, const char **name)
{
    size_t length = strlen(file);
    size_t around = strlen(PREFIX) + strlen(SUFFIX);
    *name = NULL;
    if (length <= around || strncmp(file, PREFIX, strlen(PREFIX)) != 0 ||
        strcmp(file + length - strlen(SUFFIX), SUFFIX) != 0)
        return MT_OK;
    return mt_arena_copy_text(&run->arena, file + strlen(PREFIX), length - around, name);
}

static bool listed(const char *tasks, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = tasks; at != NULL;) {
        const char *comma = strchr(at, ',');
        size_t part = comma != NULL ? (size_t)(comma - at) : strlen(at);
        if (part == length && strncmp(at, name, length) == 0) return true;
        at = comma != NULL ? comma + 1 : NULL;
    }
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct mt_judged_task *)a)->name, ((const struct mt_judged_task *)b)->name);
}

static enum mt_status find_tasks(struct mt_judged_run *run, const char *tasks)
{
    enum mt_status status = MT_OK;
    DIR *directory = opendir(run->folder);
    if (directory == NULL)
        return mt_fail(run->ctx, MT_ERR_IO, "%s: cannot read it: %s", run->folder, strerror(errno));
    for (struct dirent *entry = readdir(directory); entry != NULL && status == MT_OK;
         entry = readdir(directory)) {
        const char *name = NULL;
        status = task_of_file(run, entry->d_name, &name);
        if (status != MT_OK || name == NULL || (tasks != NULL && !listed(tasks, name))) continue;
        run->tasks = mt_list_reserve(run->ctx, run->tasks, &run->capacity, sizeof *run->tasks, run->count + 1,
                                     &status);
        if (status == MT_OK) run->tasks[run->count++] = (struct mt_judged_task){.name = name};
    }
    (void)closedir(directory);
    if (status == MT_OK && run->count > 0) qsort(run->tasks, run->count, sizeof *run->tasks, by_name);
    return status;
}

/* Every name asked for has its file. */
static enum mt_status check_names(struct mt_judged_run *run, const char *tasks)
{
    if (run->count == 0 && tasks == NULL)
        return mt_fail(run->ctx, MT_ERR_USAGE, "%s has no samples_TASK.jsonl: it is not a run of metier eval",
                       run->folder);
    for (const char *at = tasks; at != NULL;) {
        const char *comma = strchr(at, ',');
        size_t length = comma != NULL ? (size_t)(comma - at) : strlen(at);
        const char *name = NULL;
        enum mt_status status = mt_arena_copy_text(&run->arena, at, length, &name);
        if (status != MT_OK) return status;
        if (mt_judged_task_named(run, name) == NULL)
            return mt_fail(run->ctx, MT_ERR_USAGE, "%s holds no samples of a task '%s'", run->folder, name);
        at = comma != NULL ? comma + 1 : NULL;
    }
    return MT_OK;
}

static enum mt_status read_task(struct mt_judged_run *run, struct mt_judged_task *task)
{
    struct run_reader reading = {.run = run, .task = task};
    const char *path = NULL;
    enum mt_status status = mt_judged_path(run, "samples", task->name, &path);
    if (status == MT_OK) status = mt_lines_read(run->ctx, path, read_sample, &reading, NULL);
    if (status == MT_OK) status = index_samples(run, task);
    if (status == MT_OK) status = read_verdicts(run, task, MT_JUDGE_LLM, "judge");
    if (status == MT_OK) status = read_verdicts(run, task, MT_JUDGE_HUMAN, "review");
    return status;
}

enum mt_status mt_judged_run_read(struct mt_context *ctx, const char *folder, const char *tasks,
                                  struct mt_judged_run *run)
{
    *run = (struct mt_judged_run){.ctx = ctx};
    mt_arena_init(&run->arena, ctx, ARENA_BYTES);
    enum mt_status status = mt_arena_copy_text(&run->arena, folder, strlen(folder), &run->folder);
    if (status != MT_OK) return status;
    status = find_tasks(run, tasks);
    if (status == MT_OK) status = check_names(run, tasks);
    for (size_t i = 0; i < run->count && status == MT_OK; i++) status = read_task(run, &run->tasks[i]);
    return status;
}

void mt_judged_run_free(struct mt_judged_run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        struct mt_judged_task *task = &run->tasks[i];
        mt_release(run->ctx, task->samples, task->capacity * sizeof *task->samples);
    }
    mt_release(run->ctx, run->tasks, run->capacity * sizeof *run->tasks);
    mt_arena_free(&run->arena);
    *run = (struct mt_judged_run){0};
}
