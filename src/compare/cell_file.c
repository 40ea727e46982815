/* cell.json, both ways. */
#include "compare/cell.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "compare/asking/asked_file.h"
#include "formats/text/json.h"
#include "formats/text/json_text.h"

#define MOST_STEPS 10000000
#define FILE_BYTES 4096

// ------------------------------------------------------------------ writing

static void put_key(struct mt_json_text *text, bool first, const char *key)
{
    mt_json_text_format(text, first ? "" : ", ");
    mt_json_text_string(text, key);
    mt_json_text_format(text, ": ");
}

static void put_domains(struct mt_json_text *text, const char *key, const double *values,
                        const struct mt_compare_settings *settings)
{
    mt_json_text_format(text, ",\n \"%s\": {", key);
    for (size_t d = 0; d < settings->domains; d++) {
        put_key(text, d == 0, settings->domain[d].name);
        mt_json_text_number(text, values[d]);
    }
    mt_json_text_format(text, "}");
}

/* "by_domain": of a mix the figures of its parts. */
static void put_parts(struct mt_json_text *text, const struct mt_cell *cell,
                      const struct mt_compare_settings *settings)
{
    size_t count = 0;
    const size_t *parts = mt_compare_parts(settings, cell->domain, &count);
    if (cell->base || !settings->domain[cell->domain].mix) return;
    mt_json_text_format(text, ",\n \"by_domain\": {");
    for (size_t i = 0; i < count; i++) {
        bool first = true;
        mt_json_text_format(text, i == 0 ? "\n  " : ",\n  ");
        put_key(text, true, settings->domain[parts[i]].name);
        mt_json_text_format(text, "{");
        for (int f = 0; f < MT_COMPARE_FIGURES; f++) {
            if (!mt_compare_is_of_domain((enum mt_compare_figure)f)) continue;
            put_key(text, first, mt_compare_figure_row((enum mt_compare_figure)f)->name);
            mt_json_text_number(text, cell->result.by_domain[parts[i]][f]);
            first = false;
        }
        mt_json_text_format(text, "}");
    }
    mt_json_text_format(text, "}");
}

/* Those that are known; "asking" tells whether they are of what is asked now. */
static void put_tasks(struct mt_json_text *text, const struct mt_compare_tasks *tasks,
                      const struct mt_cell_result *result)
{
    bool first = true;
    mt_json_text_format(text, ",\n \"tasks\": {");
    for (size_t t = 0; t < tasks->count; t++) {
        const struct mt_cell_task *task = &result->task[t];
        if (!task->known) continue;
        mt_json_text_format(text, first ? "\n  " : ",\n  ");
        put_key(text, true, tasks->task[t].name);
        mt_json_text_format(text, "{\"asking\": \"%s\", \"metric\": ", tasks->task[t].asking);
        mt_json_text_string(text, tasks->task[t].metric);
        put_key(text, false, "value");
        mt_json_text_number(text, task->value);
        put_key(text, false, "low");
        mt_json_text_number(text, task->low);
        put_key(text, false, "high");
        mt_json_text_number(text, task->high);
        mt_json_text_format(text, ", \"samples\": %zu", task->samples);
        if (task->form != NULL) {
            put_key(text, false, "form");
            mt_json_text_string(text, task->form);
            mt_json_text_format(text, ", \"form_differs\": %s", task->form_differs ? "true" : "false");
        }
        mt_json_text_format(text, "}");
        first = false;
    }
    mt_json_text_format(text, "}");
}

static void put_points(struct mt_json_text *text, const struct mt_cell_result *result)
{
    mt_json_text_format(text, ",\n \"tokens\": {\"layer\": %" PRId64 ", \"points\": [", result->point_layer);
    for (size_t i = 0; i < result->points; i++) {
        const struct mt_cell_point *point = &result->point[i];
        // Four digits are more than a picture shows.
        mt_json_text_format(text, i == 0 ? "[" : ", [");
        mt_json_text_rounded(text, point->x, 4);
        mt_json_text_format(text, ", ");
        mt_json_text_rounded(text, point->y, 4);
        mt_json_text_format(text, ", %d]", point->expert);
    }
    mt_json_text_format(text, "]}\n}\n");
}

/* Domain by domain, in one row. */
static void put_shares(struct mt_json_text *text, const struct mt_cell_result *result,
                       const struct mt_compare_settings *settings)
{
    if (result->experts == 0) return;
    mt_json_text_format(text, ",\n \"share\": ");
    mt_json_text_numbers(text, result->share, (int)(settings->domains * result->experts));
}

/* [[accuracy, loss], ...], as settings have them. */
static void put_probes(struct mt_json_text *text, const char *key, const struct mt_cell_probe *probe,
                       size_t count)
{
    if (count == 0) return;
    mt_json_text_format(text, ",\n \"%s\": [", key);
    for (size_t i = 0; i < count; i++) {
        mt_json_text_format(text, i == 0 ? "" : ", ");
        mt_json_text_numbers(text, (double[]){probe[i].accuracy, probe[i].loss}, 2);
    }
    mt_json_text_format(text, "]");
}

static void put_result(struct mt_json_text *text, const struct mt_cell_job *job, const struct mt_cell *cell,
                       const char *identity)
{
    const struct mt_cell_result *result = &cell->result;
    mt_json_text_format(text, "{\n \"cell\": ");
    mt_json_text_string(text, cell->name);
    mt_json_text_format(text, ",\n \"identity\": \"%s\",\n \"took\": ", identity);
    mt_json_text_rounded(text, result->took, 3);
    mt_json_text_format(text, ",\n \"figures\": {");
    for (int i = 0; i < MT_COMPARE_FIGURES; i++) {
        put_key(text, i == 0, mt_compare_figure_row((enum mt_compare_figure)i)->name);
        mt_json_text_number(text, result->figure[i]);
    }
    mt_json_text_format(text, "}");
    put_domains(text, "accuracy", result->accuracy, job->settings);
    put_domains(text, "loss", result->loss, job->settings);
    put_parts(text, cell, job->settings);
    put_probes(text, "pruned", result->pruned, job->settings->prune.count);
    put_probes(text, "evaluated_at", result->at, job->settings->at.count);
    mt_cell_asked_put(text, job->settings, result, " ");
    if (job->tasks->count > 0) put_tasks(text, job->tasks, result);
    mt_json_text_format(text, ",\n \"maxvio\": ");
    mt_json_text_numbers(text, result->maxvio, (int)result->steps);
    mt_json_text_format(text, ",\n \"training_loss\": ");
    mt_json_text_numbers(text, result->training_loss, (int)result->steps);
    put_shares(text, result, job->settings);
    put_points(text, result);
}

enum mt_status mt_cell_file_write(const struct mt_cell_job *job, const struct mt_cell *cell,
                                  const char *identity)
{
    struct mt_json_text text;
    char *path = NULL;
    if (cell->result.steps > MOST_STEPS)
        return mt_fail(job->ctx, MT_ERR_USAGE, "%s: more than %d steps", cell->name, MOST_STEPS);
    enum mt_status status = mt_path_join(job->ctx, cell->folder, "cell.json", &path);
    if (status != MT_OK) return status;
    mt_json_text_init(&text, job->ctx);
    put_result(&text, job, cell, identity);
    status = mt_json_text_save(&text, path);
    mt_path_release(job->ctx, path);
    return status;
}

// ------------------------------------------------------------------ reading

/* A number, or null: not known. */
static enum mt_status read_number(const struct mt_json_node *node, double *value)
{
    *value = (double)NAN;
    if (mt_json_kind(node) == MT_JSON_NULL) return MT_OK;
    return mt_json_as_real(node, -HUGE_VAL, HUGE_VAL, value);
}

static enum mt_status read_member(const struct mt_json_node *object, const char *key, double *value)
{
    struct mt_json_node child;
    if (!mt_json_member(object, key, &child)) return mt_json_fail(object, "has no %s", key);
    return read_number(&child, value);
}

static enum mt_status read_domains(const struct mt_json_node *root, const char *key, double *values,
                                   const struct mt_compare_settings *settings)
{
    struct mt_json_node object;
    enum mt_status status = mt_json_get_object(root, key, &object);
    for (size_t d = 0; d < settings->domains && status == MT_OK; d++)
        status = read_member(&object, settings->domain[d].name, &values[d]);
    return status;
}

/* Numbers of an array as doubles in the arena. */
static enum mt_status read_numbers(const struct mt_cell_job *job, const struct mt_json_node *array,
                                   double **numbers)
{
    size_t count = mt_json_count(array);
    enum mt_status status = MT_OK;
    *numbers = mt_arena_array(job->arena, count + 1, sizeof(double), &status);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_json_node element = mt_json_element(array, i);
        status = read_number(&element, &(*numbers)[i]);
    }
    return status;
}

static enum mt_status read_curves(const struct mt_cell_job *job, const struct mt_json_node *root,
                                  struct mt_cell_result *result)
{
    struct mt_json_node array;
    bool present = false;
    enum mt_status status = mt_json_get_array(root, "maxvio", &array);
    if (status != MT_OK) return status;
    result->steps = mt_json_count(&array);
    status = read_numbers(job, &array, &result->maxvio);
    if (status == MT_OK) status = mt_json_optional_array(root, "training_loss", &array, &present);
    if (status != MT_OK || !present) return status; // files of older versions have none
    if (mt_json_count(&array) != result->steps) return mt_json_fail(&array, "is not as long as maxvio");
    return read_numbers(job, &array, &result->training_loss);
}

/* Shares of the experts, [domains, experts]; files of older versions have none. */
static enum mt_status read_shares(const struct mt_cell_job *job, const struct mt_json_node *root,
                                  struct mt_cell_result *result)
{
    struct mt_json_node array;
    bool present = false;
    size_t domains = job->settings->domains;
    enum mt_status status = mt_json_optional_array(root, "share", &array, &present);
    if (status != MT_OK || !present) return status;
    if (mt_json_count(&array) % domains != 0) return mt_json_fail(&array, "has not as many for each domain");
    result->experts = mt_json_count(&array) / domains;
    return read_numbers(job, &array, &result->share);
}

static enum mt_status read_probes(const struct mt_json_node *root, const char *key, size_t count,
                                  struct mt_cell_probe *probe)
{
    struct mt_json_node array;
    if (count == 0) return MT_OK;
    enum mt_status status = mt_json_get_array(root, key, &array);
    if (status == MT_OK && mt_json_count(&array) != count)
        status = mt_json_fail(&array, "has not %zu places", count);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_json_node pair = mt_json_element(&array, i);
        status = mt_json_expect_array(&pair);
        if (status == MT_OK && mt_json_count(&pair) != 2)
            status = mt_json_fail(&pair, "is not [exact, loss]");
        if (status != MT_OK) return status;
        struct mt_json_node accuracy = mt_json_element(&pair, 0);
        struct mt_json_node loss = mt_json_element(&pair, 1);
        status = read_number(&accuracy, &probe[i].accuracy);
        if (status == MT_OK) status = read_number(&loss, &probe[i].loss);
    }
    return status;
}

static enum mt_status read_point(const struct mt_json_node *node, struct mt_cell_point *point)
{
    double number[3] = {0};
    enum mt_status status = mt_json_expect_array(node);
    if (status == MT_OK && mt_json_count(node) != 3) status = mt_json_fail(node, "is not [x, y, expert]");
    for (size_t i = 0; i < 3 && status == MT_OK; i++) {
        struct mt_json_node element = mt_json_element(node, i);
        status = i < 2 ? read_number(&element, &number[i]) : mt_json_as_real(&element, 0, 1e6, &number[i]);
    }
    if (status != MT_OK) return status;
    *point = (struct mt_cell_point){.x = number[0], .y = number[1], .expert = (int)number[2]};
    return MT_OK;
}

static enum mt_status read_points(const struct mt_cell_job *job, const struct mt_json_node *root,
                                  struct mt_cell_result *result)
{
    struct mt_json_node object, array;
    enum mt_status status = mt_json_get_object(root, "tokens", &object);
    if (status == MT_OK) status = mt_json_get_integer(&object, "layer", 0, INT32_MAX, &result->point_layer);
    if (status == MT_OK) status = mt_json_get_array(&object, "points", &array);
    if (status != MT_OK) return status;
    result->points = mt_json_count(&array);
    if (result->points > MT_COMPARE_MOST_POINTS)
        return mt_json_fail(&array, "has more than %d points", MT_COMPARE_MOST_POINTS);
    result->point = mt_arena_array(job->arena, result->points + 1, sizeof *result->point, &status);
    for (size_t i = 0; i < result->points && status == MT_OK; i++) {
        struct mt_json_node element = mt_json_element(&array, i);
        status = read_point(&element, &result->point[i]);
    }
    return status;
}

static enum mt_status read_task(struct mt_arena *arena, const struct mt_json_node *node,
                                struct mt_cell_task *task)
{
    int64_t samples = 0;
    const char *form = NULL; // files of older versions have none
    enum mt_status status = read_member(node, "value", &task->value);
    if (status == MT_OK) status = read_member(node, "low", &task->low);
    if (status == MT_OK) status = read_member(node, "high", &task->high);
    if (status == MT_OK) status = mt_json_get_integer(node, "samples", 0, INT64_MAX, &samples);
    task->samples = (size_t)samples;
    if (status == MT_OK) status = mt_json_optional_string(node, "form", &form);
    if (status == MT_OK) status = mt_json_optional_bool(node, "form_differs", &task->form_differs);
    if (status == MT_OK && form != NULL) status = mt_arena_copy_text(arena, form, strlen(form), &task->form);
    task->known = status == MT_OK;
    return status;
}

/* Benchmarks of the comparison that the file has, asked as they are asked now. */
static enum mt_status read_tasks(const struct mt_cell_job *job, const struct mt_json_node *root,
                                 struct mt_cell_result *result)
{
    struct mt_json_node all, one;
    enum mt_status status = MT_OK;
    bool any = mt_json_member(root, "tasks", &all); // files of older versions have none
    for (size_t t = 0; any && t < job->tasks->count && status == MT_OK; t++) {
        const struct mt_compare_task *task = &job->tasks->task[t];
        const char *asking = NULL;
        if (!mt_json_member(&all, task->name, &one)) continue;
        status = mt_json_get_string(&one, "asking", &asking);
        if (status == MT_OK && strcmp(asking, task->asking) == 0)
            status = read_task(job->arena, &one, &result->task[t]);
    }
    return status;
}

/* Figures; one that files of older versions do not have is not known. */
static enum mt_status read_figures(const struct mt_json_node *root, double *figure)
{
    struct mt_json_node figures, child;
    enum mt_status status = mt_json_get_object(root, "figures", &figures);
    for (int i = 0; i < MT_COMPARE_FIGURES && status == MT_OK; i++) {
        const char *name = mt_compare_figure_row((enum mt_compare_figure)i)->name;
        figure[i] = (double)NAN;
        if (i >= MT_COMPARE_GINI && !mt_json_member(&figures, name, &child)) continue;
        status = read_member(&figures, name, &figure[i]);
    }
    return status;
}

/* The figures of the domains trained on: of a mix as the file has them, else the cell's own. */
static enum mt_status read_parts(const struct mt_json_node *root, struct mt_cell *cell,
                                 const struct mt_compare_settings *settings)
{
    struct mt_json_node all, one;
    size_t count = 0;
    const size_t *parts = mt_compare_parts(settings, cell->domain, &count);
    enum mt_status status = MT_OK;
    for (size_t d = 0; d < MT_COMPARE_MOST_DOMAINS; d++) {
        for (int f = 0; f < MT_COMPARE_FIGURES; f++) {
            bool own = !cell->base && d == cell->domain && mt_compare_is_of_domain((enum mt_compare_figure)f);
            cell->result.by_domain[d][f] = own ? cell->result.figure[f] : (double)NAN;
        }
    }
    if (cell->base || !settings->domain[cell->domain].mix) return MT_OK;
    status = mt_json_get_object(root, "by_domain", &all);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        double *figure = cell->result.by_domain[parts[i]];
        status = mt_json_get_object(&all, settings->domain[parts[i]].name, &one);
        for (int f = 0; f < MT_COMPARE_FIGURES && status == MT_OK; f++) {
            const char *name = mt_compare_figure_row((enum mt_compare_figure)f)->name;
            struct mt_json_node child;
            if (mt_json_member(&one, name, &child)) status = read_number(&child, &figure[f]);
        }
    }
    return status;
}

static enum mt_status read_result(const struct mt_cell_job *job, const struct mt_json_node *root,
                                  struct mt_cell *cell, const char *identity)
{
    struct mt_cell_result *result = &cell->result;
    const char *found = NULL;
    *result = (struct mt_cell_result){0};
    enum mt_status status = mt_json_get_string(root, "identity", &found);
    if (status == MT_OK && strcmp(found, identity) != 0)
        status = mt_fail(job->ctx, MT_ERR_USAGE,
                         "%s/cell.json: was made with other settings; choose another out, or remove it (and "
                         "%s/data if the problems have changed)",
                         cell->folder, job->settings->out);
    struct mt_json_node took;
    if (status == MT_OK && mt_json_member(root, "took", &took)) status = read_number(&took, &result->took);
    if (status == MT_OK) status = read_figures(root, result->figure);
    if (status == MT_OK) status = read_domains(root, "accuracy", result->accuracy, job->settings);
    if (status == MT_OK) status = read_domains(root, "loss", result->loss, job->settings);
    if (status == MT_OK) status = read_parts(root, cell, job->settings);
    if (status == MT_OK && !cell->base)
        status = read_probes(root, "pruned", job->settings->prune.count, result->pruned);
    if (status == MT_OK && !cell->base)
        status = read_probes(root, "evaluated_at", job->settings->at.count, result->at);
    if (status == MT_OK && !cell->base) status = mt_cell_asked_read(job, root, result);
    if (status == MT_OK) status = read_curves(job, root, result);
    if (status == MT_OK) status = read_shares(job, root, result);
    if (status == MT_OK) status = read_points(job, root, result);
    if (status == MT_OK) status = read_tasks(job, root, result);
    result->known = status == MT_OK;
    result->complete = result->known;
    for (size_t t = 0; t < job->tasks->count; t++)
        result->complete = result->complete && (result->task[t].known || !mt_cell_asks(job, cell, t));
    return status;
}

enum mt_status mt_cell_file_read(const struct mt_cell_job *job, struct mt_cell *cell, const char *identity)
{
    char path[FILE_BYTES];
    struct mt_json json = {0};
    int length = snprintf(path, sizeof path, "%s/cell.json", cell->folder);
    if (length < 0 || (size_t)length >= sizeof path)
        return mt_fail(job->ctx, MT_ERR_USAGE, "%.100s...: the path is too long", cell->folder);
    if (access(path, F_OK) != 0) return MT_OK;
    enum mt_status status = mt_json_read(job->ctx, path, &mt_json_file_limits, &json);
    if (status == MT_OK) {
        struct mt_json_node root = mt_json_root(&json);
        status = read_result(job, &root, cell, identity);
    }
    mt_json_free(&json);
    return status;
}

// ------------------------------------------------------------------ why it failed

enum mt_status mt_cell_failure_write(const struct mt_cell_job *job, const struct mt_cell *cell)
{
    char *path = NULL;
    if (job->ranks != NULL && mt_comm_rank(job->ranks) > 0) return MT_OK; // the first one's
    enum mt_status status = mt_path_join(job->ctx, cell->folder, "failure.txt", &path);
    if (status == MT_OK && cell->failure != NULL && access(cell->folder, F_OK) == 0)
        status = mt_file_write_all(job->ctx, path, cell->failure, strlen(cell->failure));
    if (status == MT_OK && cell->failure == NULL) (void)unlink(path);
    mt_path_release(job->ctx, path);
    return status;
}

enum mt_status mt_cell_failure_read(const struct mt_cell_job *job, struct mt_cell *cell)
{
    char *path = NULL;
    void *text = NULL;
    size_t bytes = 0;
    cell->failure = NULL;
    enum mt_status status = mt_path_join(job->ctx, cell->folder, "failure.txt", &path);
    if (status == MT_OK && access(path, F_OK) == 0) {
        status = mt_file_read_all(job->ctx, path, FILE_BYTES, &text, &bytes);
        if (status == MT_OK) status = mt_arena_copy_text(job->arena, text, bytes, &cell->failure);
        mt_release(job->ctx, text, bytes);
    }
    mt_path_release(job->ctx, path);
    return status;
}
