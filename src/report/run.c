/* The folder of a run. */
#include "report/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "formats/text/yaml.h"

#define BLOCK_BYTES 16384
#define KEY_BYTES   512 // of a setting
#define NAME_BYTES  256 // of a metric, or a file
#define VALUE_BYTES 1024
#define MOST_DEPTH  16
#define ENDING      ",none" // of a figure by the only filter there is
#define LARGEST     1e300

/* "RUN/NAME" in the arena; NULL when there is no such file. */
static enum mt_status find_file(struct mt_run *run, const char *name, const char **found)
{
    struct stat info;
    char *path = NULL;
    const char *copy = NULL;
    *found = NULL;
    enum mt_status status = mt_path_join(run->ctx, run->path, name, &path);
    if (status == MT_OK) status = mt_arena_copy_text(&run->arena, path, strlen(path), &copy);
    mt_path_release(run->ctx, path);
    if (status != MT_OK) return status;
    if (stat(copy, &info) == 0) {
        *found = copy;
    } else if (errno != ENOENT && errno != ENOTDIR) {
        return mt_fail(run->ctx, MT_ERR_IO, "%s: %s", copy, strerror(errno));
    }
    return MT_OK;
}

// ------------------------------------------------------------------ results.json and routing_TASK.json

/* The length of a metric's name, before the comma and its filter; 0 when the key is something else. */
static size_t metric_length(const char *key)
{
    size_t length = strcspn(key, ",");
    if (key[length] == '\0') return 0;
    if (length > 7 && strncmp(key + length - 7, "_stderr", 7) == 0) return 0;
    if (length > 5 && strncmp(key + length - 5, "_ci95", 5) == 0) return 0;
    return length < NAME_BYTES / 2 ? length : 0;
}

static enum mt_status optional(const struct mt_json_node *object, const char *key, double *value)
{
    struct mt_json_node child;
    *value = (double)NAN;
    // Others write "N/A" where there is no number.
    if (!mt_json_member(object, key, &child)) return MT_OK;
    if (mt_json_kind(&child) != MT_JSON_REAL && mt_json_kind(&child) != MT_JSON_INTEGER) return MT_OK;
    return mt_json_as_real(&child, -LARGEST, LARGEST, value);
}

static enum mt_status read_interval(const struct mt_json_node *task, const char *key,
                                    struct mt_run_result *result)
{
    struct mt_json_node pair;
    bool present = false;
    result->low = (double)NAN;
    result->high = (double)NAN;
    enum mt_status status = mt_json_optional_array(task, key, &pair, &present);
    if (status != MT_OK || !present || mt_json_count(&pair) != 2) return status;
    struct mt_json_node low = mt_json_element(&pair, 0);
    struct mt_json_node high = mt_json_element(&pair, 1);
    if (mt_json_kind(&low) == MT_JSON_NULL || mt_json_kind(&high) == MT_JSON_NULL) return MT_OK;
    status = mt_json_as_real(&low, -LARGEST, LARGEST, &result->low);
    return status == MT_OK ? mt_json_as_real(&high, -LARGEST, LARGEST, &result->high) : status;
}

static enum mt_status read_samples(const struct mt_json_node *root, const char *task, double *samples)
{
    struct mt_json_node all;
    struct mt_json_node one;
    bool present = false;
    *samples = (double)NAN;
    enum mt_status status = mt_json_optional_object(root, "n-samples", &all, &present);
    if (status != MT_OK || !present || !mt_json_member(&all, task, &one)) return status;
    status = mt_json_expect_object(&one);
    return status == MT_OK ? optional(&one, "effective", samples) : status;
}

static enum mt_status read_text(struct mt_run *run, const struct mt_json_node *object, const char *key,
                                const char **text)
{
    const char *found = NULL;
    enum mt_status status = mt_json_optional_string(object, key, &found);
    if (status != MT_OK || found == NULL) return status;
    return mt_arena_copy_text(&run->arena, found, strlen(found), text);
}

/* The form a task's texts had, and why; results of others, and of older versions, have none. */
static enum mt_status read_form(struct mt_run *run, const struct mt_json_node *root, const char *task,
                                struct mt_run_result *result)
{
    struct mt_json_node all;
    struct mt_json_node one;
    bool present = false;
    enum mt_status status = mt_json_optional_object(root, "configs", &all, &present);
    if (status != MT_OK || !present || !mt_json_member(&all, task, &one)) return status;
    if (mt_json_kind(&one) != MT_JSON_OBJECT) return MT_OK;
    status = read_text(run, &one, "form", &result->form);
    if (status == MT_OK) status = read_text(run, &one, "form_why", &result->why);
    return status == MT_OK ? read_text(run, &one, "form_warning", &result->warning) : status;
}

/* Counts among a task's figures that are no figures: of what went wrong. */
static const struct {
    const char *key, *one, *several;
} troubles[] = {
    {"cut", "answer cut at the limit of tokens", "answers cut at the limit of tokens"},
    {"unclosed", "answer that ends within its thoughts", "answers that end within their thoughts"},
    {"empty", "empty answer", "empty answers"},
    {"unjudged", "answer without a verdict", "answers without a verdict"},
    {"cut_prompts", "prompt cut at the beginning", "prompts cut at the beginning"},
    {"not_finite", "log-likelihood that is not finite", "log-likelihoods that are not finite"},
    {"unscored", "question that counts as wrong for it", "questions that count as wrong for it"},
    {"unanswered", "question without an answer", "questions without an answer"},
    {"dropped_rows", "row left out", "rows left out"},
    {"unanswered_rows", "of these for want of a right answer", "of these for want of a right answer"},
    {"dropped_examples", "row of examples left out", "rows of examples left out"}};

static bool is_trouble(const char *key, size_t length)
{
    for (size_t i = 0; i < sizeof troubles / sizeof troubles[0]; i++) {
        if (strlen(troubles[i].key) == length && memcmp(troubles[i].key, key, length) == 0) return true;
    }
    return false;
}

static enum mt_status read_trouble(struct mt_run *run, const struct mt_json_node *task, const char **text)
{
    char sentence[1024] = "";
    size_t used = 0;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof troubles / sizeof troubles[0] && status == MT_OK; i++) {
        char key[NAME_BYTES];
        double count = (double)NAN;
        (void)snprintf(key, sizeof key, "%s" ENDING, troubles[i].key);
        status = optional(task, key, &count);
        if (status != MT_OK || !(count >= 1.0) || used >= sizeof sentence) continue;
        used += (size_t)snprintf(sentence + used, sizeof sentence - used, "%s%.0f %s", used > 0 ? ", " : "",
                                 count, count < 2.0 ? troubles[i].one : troubles[i].several);
    }
    if (status != MT_OK || used == 0) return status;
    return mt_arena_copy_text(&run->arena, sentence, strlen(sentence), text);
}

static enum mt_status read_metric(struct mt_run *run, const struct mt_json_node *root,
                                  const struct mt_json_node *task, const char *key, size_t length,
                                  struct mt_run_result ***end)
{
    char other[NAME_BYTES];
    enum mt_status status = MT_OK;
    struct mt_run_result *result = mt_arena_array(&run->arena, 1, sizeof *result, &status);
    if (status != MT_OK) return status;
    status = mt_arena_copy_text(&run->arena, task->key, strlen(task->key), &result->task);
    size_t shown = strcmp(key + length, ENDING) == 0 ? length : strlen(key);
    if (status == MT_OK) status = mt_arena_copy_text(&run->arena, key, shown, &result->metric);
    if (status == MT_OK) status = optional(task, key, &result->value);
    (void)snprintf(other, sizeof other, "%.*s_stderr%s", (int)length, key, key + length);
    if (status == MT_OK) status = optional(task, other, &result->error);
    (void)snprintf(other, sizeof other, "%.*s_ci95%s", (int)length, key, key + length);
    if (status == MT_OK) status = read_interval(task, other, result);
    if (status == MT_OK) status = read_samples(root, task->key, &result->samples);
    if (status == MT_OK) status = read_form(run, root, task->key, result);
    if (status == MT_OK) status = read_trouble(run, task, &result->trouble);
    if (status != MT_OK) return status;
    **end = result;
    *end = &result->next;
    return MT_OK;
}

/* routing_TASK.json, where `metier eval` left one. A name that would lead out of the folder has none. */
static enum mt_status read_routing(struct mt_run *run, const char *task, struct mt_run_routing ***end)
{
    char name[NAME_BYTES];
    const char *path = NULL;
    int length = snprintf(name, sizeof name, "routing_%s.json", task);
    if (length < 0 || (size_t)length >= sizeof name || strchr(task, '/') != NULL) return MT_OK;
    enum mt_status status = find_file(run, name, &path);
    if (status != MT_OK || path == NULL) return status;
    struct mt_run_routing *routing = mt_arena_array(&run->arena, 1, sizeof *routing, &status);
    if (status != MT_OK) return status;
    *routing = (struct mt_run_routing){.path = path};
    status = mt_arena_copy_text(&run->arena, task, strlen(task), &routing->task);
    if (status == MT_OK) status = mt_json_read(run->ctx, path, &mt_json_file_limits, &routing->json);
    if (status != MT_OK) return status;
    **end = routing;
    *end = &routing->next;
    return MT_OK;
}

static enum mt_status read_results(struct mt_run *run, const char *path)
{
    struct mt_json json = {0};
    struct mt_json_node results;
    struct mt_json_node task;
    struct mt_run_result **end = &run->results;
    struct mt_run_routing **routing_end = &run->routing;
    void *position = NULL;
    enum mt_status status = mt_json_read(run->ctx, path, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = mt_json_expect_object(&root);
    if (status == MT_OK) status = mt_json_get_object(&root, "results", &results);
    while (status == MT_OK && mt_json_next(&results, &position, &task)) {
        struct mt_json_node member;
        void *inner = NULL;
        status = mt_json_expect_object(&task);
        while (status == MT_OK && mt_json_next(&task, &inner, &member)) {
            size_t length = metric_length(member.key);
            if (length > 0 && !is_trouble(member.key, length))
                status = read_metric(run, &root, &task, member.key, length, &end);
        }
        if (status == MT_OK) status = read_routing(run, task.key, &routing_end);
    }
    mt_json_free(&json);
    return status;
}

// ------------------------------------------------------------------ config.yaml

/* The end of the list of settings. */
struct cursor {
    struct mt_run *run;
    struct mt_run_setting **end;
};

static enum mt_status add(struct cursor *cursor, const char *key, const char *value)
{
    struct mt_arena *arena = &cursor->run->arena;
    enum mt_status status = MT_OK;
    struct mt_run_setting *setting = mt_arena_array(arena, 1, sizeof *setting, &status);
    if (status == MT_OK) status = mt_arena_copy_text(arena, key, strlen(key), &setting->key);
    if (status == MT_OK) status = mt_arena_copy_text(arena, value, strlen(value), &setting->value);
    if (status != MT_OK) return status;
    *cursor->end = setting;
    cursor->end = &setting->next;
    return MT_OK;
}

/* A list of plain texts, "a, b"; false when it holds anything else. */
static bool join(const struct mt_yaml_node *list, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct mt_yaml_node *item = list->first; item != NULL; item = item->next) {
        if (item->kind != MT_YAML_SCALAR) return false;
        int wrote = snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "", item->text);
        if (wrote < 0) return false;
        used += (size_t)wrote;
        if (used >= bytes) return true; // cut
    }
    return true;
}

// The parser bounds the nesting (mt_yaml_file_limits), and with it the recursion.
static enum mt_status flatten(struct cursor *cursor, const struct mt_yaml_node *node, const char *prefix,
                              int depth)
{
    char key[KEY_BYTES];
    char value[VALUE_BYTES];
    size_t index = 0;
    enum mt_status status = MT_OK;
    if (node->kind == MT_YAML_SCALAR) return add(cursor, prefix, node->text);
    if (depth == MOST_DEPTH) return MT_OK;
    if (node->kind == MT_YAML_LIST && join(node, value, sizeof value)) return add(cursor, prefix, value);
    for (const struct mt_yaml_node *child = node->first; child != NULL && status == MT_OK;
         child = child->next) {
        if (child->key != NULL) {
            (void)snprintf(key, sizeof key, "%.240s%s%.240s", prefix, prefix[0] != '\0' ? "." : "",
                           child->key);
        } else {
            (void)snprintf(key, sizeof key, "%.240s[%zu]", prefix, index);
        }
        index++;
        status = flatten(cursor, child, key, depth + 1);
    }
    return status;
}

static enum mt_status read_settings(struct mt_run *run, const char *path)
{
    struct mt_yaml_node *root = NULL;
    struct cursor cursor = {.run = run, .end = &run->settings};
    enum mt_status status = mt_yaml_read(run->ctx, path, &mt_yaml_file_limits, &run->arena, &root);
    return status == MT_OK ? flatten(&cursor, root, "", 0) : status;
}

static const struct mt_json_limits analysis_limits = {
    .max_bytes = (size_t)1 << 30, .max_values = (size_t)1 << 26, .max_depth = 32};

static enum mt_status name_run(struct mt_run *run, const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    enum mt_status status = mt_arena_copy_text(&run->arena, path, length, &run->path);
    if (status != MT_OK) return status;
    const char *slash = strrchr(run->path, '/');
    run->name = slash != NULL && slash[1] != '\0' ? slash + 1 : run->path;
    return MT_OK;
}

static enum mt_status read_parts(struct mt_run *run)
{
    const char *log = NULL;
    const char *settings = NULL;
    const char *results = NULL;
    enum mt_status status = find_file(run, "metrics.jsonl", &log);
    if (status == MT_OK) status = find_file(run, "config.yaml", &settings);
    if (status == MT_OK) status = find_file(run, "results.json", &results);
    if (status == MT_OK) status = find_file(run, "analysis.json", &run->analysis_path);
    if (status != MT_OK) return status;
    if (log == NULL && results == NULL && run->analysis_path == NULL)
        return mt_fail(run->ctx, MT_ERR_USAGE,
                       "%s: has no metrics.jsonl (metier train), results.json (metier eval) or analysis.json "
                       "(metier analyze)",
                       run->path);
    if (log != NULL) status = mt_run_read_log(run, log);
    if (status == MT_OK && settings != NULL) status = read_settings(run, settings);
    if (status == MT_OK && results != NULL) status = read_results(run, results);
    if (status == MT_OK && run->analysis_path != NULL)
        status = mt_json_read(run->ctx, run->analysis_path, &analysis_limits, &run->analysis);
    return status;
}

enum mt_status mt_run_read(struct mt_context *ctx, const char *path, struct mt_run *run)
{
    *run = (struct mt_run){.ctx = ctx};
    mt_arena_init(&run->arena, ctx, BLOCK_BYTES);
    enum mt_status status = name_run(run, path);
    return status == MT_OK ? read_parts(run) : status;
}

void mt_run_free(struct mt_run *run)
{
    if (run->ctx == NULL) return;
    mt_release(run->ctx, run->log.numbers, run->log.number_capacity * sizeof(double));
    mt_release(run->ctx, run->log.violation, run->log.violation_capacity * sizeof(double));
    mt_release(run->ctx, run->log.evaluation, run->log.evaluation_capacity * sizeof(double));
    mt_json_free(&run->analysis);
    for (struct mt_run_routing *one = run->routing; one != NULL; one = one->next) mt_json_free(&one->json);
    mt_arena_free(&run->arena);
    *run = (struct mt_run){0};
}

double mt_run_at(const struct mt_run *run, size_t step, int value)
{
    if (step >= run->log.steps) return (double)NAN;
    return run->log.numbers[step * MT_RUN_VALUES + (size_t)value];
}

double mt_run_first(const struct mt_run *run, int value)
{
    double first = (double)NAN;
    for (size_t i = 0; i < run->log.steps && isnan(first); i++) first = mt_run_at(run, i, value);
    return first;
}

double mt_run_late_mean(const struct mt_run *run, int value)
{
    double sum = 0;
    double count = 0;
    for (size_t i = 0; i < run->log.steps; i++) {
        double number = mt_run_at(run, i, value);
        if (mt_run_at(run, i, MT_RUN_STEP) <= run->log.late || isnan(number)) continue;
        sum += number;
        count++;
    }
    return count > 0 ? sum / count : (double)NAN;
}

double mt_run_layer_mean(const struct mt_run *run, size_t layer, int value)
{
    const struct mt_run_layer *one = &run->log.layer[layer];
    return one->count[value] > 0 ? one->sum[value] / one->count[value] : (double)NAN;
}

double mt_run_seconds_per_step(const struct mt_run *run)
{
    size_t steps = run->log.steps;
    if (!run->has_log || steps == 0) return (double)NAN;
    return mt_run_at(run, steps - 1, MT_RUN_SECONDS) / mt_run_at(run, steps - 1, MT_RUN_STEP);
}

const char *mt_run_setting(const struct mt_run *run, const char *key)
{
    for (const struct mt_run_setting *one = run->settings; one != NULL; one = one->next) {
        if (strcmp(one->key, key) == 0) return one->value;
    }
    return NULL;
}
