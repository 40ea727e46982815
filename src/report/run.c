/* The folder of a run. */
#include "report/run.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"

#define BLOCK_BYTES 16384

static const struct mt_json_limits analysis_limits = {
    .max_bytes = (size_t)1 << 30, .max_values = (size_t)1 << 26, .max_depth = 32};

enum mt_status mt_run_find(struct mt_run *run, const char *name, const char **found)
{
    struct stat info;
    char *path = NULL;
    char *copy = NULL;
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

static enum mt_status name_run(struct mt_run *run, const char *path)
{
    size_t length = strlen(path);
    char *copy = NULL;
    while (length > 1 && path[length - 1] == '/') length--;
    enum mt_status status = mt_arena_copy_text(&run->arena, path, length, &copy);
    if (status != MT_OK) return status;
    const char *slash = strrchr(copy, '/');
    run->path = copy;
    run->name = slash != NULL && slash[1] != '\0' ? slash + 1 : copy;
    return MT_OK;
}

static enum mt_status read_parts(struct mt_run *run)
{
    const char *log = NULL;
    const char *settings = NULL;
    const char *results = NULL;
    enum mt_status status = mt_run_find(run, "metrics.jsonl", &log);
    if (status == MT_OK) status = mt_run_find(run, "config.yaml", &settings);
    if (status == MT_OK) status = mt_run_find(run, "results.json", &results);
    if (status == MT_OK) status = mt_run_find(run, "analysis.json", &run->analysis_path);
    if (status != MT_OK) return status;
    if (log == NULL && results == NULL && run->analysis_path == NULL)
        return mt_fail(
            run->ctx, MT_ERR_USAGE,
            "%s: neither metrics.jsonl (metier train), results.json (metier eval) nor analysis.json "
            "(metier analyze) is there",
            run->path);
    if (log != NULL) status = mt_run_read_log(run, log);
    if (status == MT_OK && settings != NULL) status = mt_run_read_settings(run, settings);
    if (status == MT_OK && results != NULL) status = mt_run_read_results(run, results);
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

const char *mt_run_setting(const struct mt_run *run, const char *key)
{
    for (const struct mt_run_setting *one = run->settings; one != NULL; one = one->next) {
        if (strcmp(one->key, key) == 0) return one->value;
    }
    return NULL;
}
