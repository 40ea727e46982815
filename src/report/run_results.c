/* results.json of `metier eval`, in lm-evaluation-harness's layout (docs/evaluation.md). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/run.h"

#define KEY_BYTES 256
#define ENDING    ",none"
#define LARGEST   1e300

static enum mt_status copy_text(struct mt_run *run, const char *text, size_t length, const char **copy)
{
    char *made = NULL;
    enum mt_status status = mt_arena_copy_text(&run->arena, text, length, &made);
    *copy = made;
    return status;
}

/* The length of a metric's name; 0 when the key is something else. */
static size_t metric_length(const char *key)
{
    size_t length = strlen(key);
    size_t ending = strlen(ENDING);
    if (length <= ending || strcmp(key + length - ending, ENDING) != 0) return 0;
    length -= ending;
    if (length > 7 && strncmp(key + length - 7, "_stderr", 7) == 0) return 0;
    if (length > 5 && strncmp(key + length - 5, "_ci95", 5) == 0) return 0;
    return length < KEY_BYTES / 2 ? length : 0;
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

static enum mt_status read_metric(struct mt_run *run, const struct mt_json_node *root,
                                  const struct mt_json_node *task, const char *key, size_t length,
                                  struct mt_run_result ***end)
{
    char other[KEY_BYTES];
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(&run->arena, sizeof(struct mt_run_result), &memory);
    if (status != MT_OK) return status;
    struct mt_run_result *result = memory;
    status = copy_text(run, task->key, strlen(task->key), &result->task);
    if (status == MT_OK) status = copy_text(run, key, length, &result->metric);
    if (status == MT_OK) status = optional(task, key, &result->value);
    (void)snprintf(other, sizeof other, "%.*s_stderr" ENDING, (int)length, key);
    if (status == MT_OK) status = optional(task, other, &result->error);
    (void)snprintf(other, sizeof other, "%.*s_ci95" ENDING, (int)length, key);
    if (status == MT_OK) status = read_interval(task, other, result);
    if (status == MT_OK) status = read_samples(root, task->key, &result->samples);
    if (status != MT_OK) return status;
    **end = result;
    *end = &result->next;
    return MT_OK;
}

/* routing_TASK.json, where `metier eval` left one. A name that would lead out of the folder has none. */
static enum mt_status read_routing(struct mt_run *run, const char *task, struct mt_run_routing ***end)
{
    char name[KEY_BYTES];
    const char *path = NULL;
    void *memory = NULL;
    int length = snprintf(name, sizeof name, "routing_%s.json", task);
    if (length < 0 || (size_t)length >= sizeof name || strchr(task, '/') != NULL) return MT_OK;
    enum mt_status status = mt_run_find(run, name, &path);
    if (status != MT_OK || path == NULL) return status;
    status = mt_arena_allocate(&run->arena, sizeof(struct mt_run_routing), &memory);
    if (status != MT_OK) return status;
    struct mt_run_routing *routing = memory;
    *routing = (struct mt_run_routing){.path = path};
    status = copy_text(run, task, strlen(task), &routing->task);
    if (status == MT_OK) status = mt_json_read(run->ctx, path, &mt_json_file_limits, &routing->json);
    if (status != MT_OK) return status;
    **end = routing;
    *end = &routing->next;
    return MT_OK;
}

enum mt_status mt_run_read_results(struct mt_run *run, const char *path)
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
            if (length > 0) status = read_metric(run, &root, &task, member.key, length, &end);
        }
        if (status == MT_OK) status = read_routing(run, task.key, &routing_end);
    }
    mt_json_free(&json);
    return status;
}
