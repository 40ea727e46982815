/* compare.json. */
#include "compare/compare.h"

#include <inttypes.h>
#include <math.h>

#include "compare/asking/asked_file.h"
#include "compare/summary.h"
#include "formats/text/json_text.h"

/* "key": NUMBER */
static void put_number(struct mt_json_text *text, const char *before, const char *key, double number)
{
    mt_json_text_format(text, "%s\"%s\": ", before, key);
    mt_json_text_number(text, number);
}

static void put_string(struct mt_json_text *text, const char *before, const char *key, const char *string)
{
    mt_json_text_format(text, "%s\"%s\": ", before, key);
    mt_json_text_string(text, string);
}

/* {"accuracy": 0.5, ...}: those that are times, or those that are not. */
static void put_figures(struct mt_json_text *text, const double *figure, bool times)
{
    bool first = true;
    mt_json_text_format(text, "{");
    for (int i = 0; i < MT_COMPARE_FIGURES; i++) {
        if (mt_compare_is_time((enum mt_compare_figure)i) != times) continue;
        put_number(text, first ? "" : ", ", mt_compare_figure_row((enum mt_compare_figure)i)->name,
                   figure[i]);
        first = false;
    }
    mt_json_text_format(text, "}");
}

static void put_domains(struct mt_json_text *text, const struct mt_compare_settings *settings,
                        const char *key, const double *values)
{
    mt_json_text_format(text, ",\n   \"%s\": {", key);
    for (size_t d = 0; d < settings->domains; d++)
        put_number(text, d == 0 ? "" : ", ", settings->domain[d].name, values[d]);
    mt_json_text_format(text, "}");
}

/* Of a mix the figures of its parts. */
static void put_parts(struct mt_json_text *text, const struct mt_compare_settings *settings,
                      const struct mt_cell *cell)
{
    size_t count = 0;
    const size_t *parts = mt_compare_parts(settings, cell->domain, &count);
    if (!settings->domain[cell->domain].mix) return;
    mt_json_text_format(text, ",\n   \"by_domain\": {");
    for (size_t i = 0; i < count; i++) {
        bool first = true;
        mt_json_text_format(text, "%s\n    \"%s\": {", i == 0 ? "" : ",", settings->domain[parts[i]].name);
        for (int f = 0; f < MT_COMPARE_FIGURES; f++) {
            if (!mt_compare_is_of_domain((enum mt_compare_figure)f)) continue;
            put_number(text, first ? "" : ", ", mt_compare_figure_row((enum mt_compare_figure)f)->name,
                       cell->result.by_domain[parts[i]][f]);
            first = false;
        }
        mt_json_text_format(text, "}");
    }
    mt_json_text_format(text, "}");
}

/* What a cell or a base scores at the benchmarks. */
static void put_tasks(struct mt_json_text *text, const struct mt_comparison *comparison,
                      const struct mt_cell_result *result)
{
    bool first = true;
    if (comparison->tasks.count == 0) return;
    mt_json_text_format(text, ",\n   \"tasks\": {");
    for (size_t t = 0; t < comparison->tasks.count; t++) {
        const struct mt_cell_task *task = &result->task[t];
        if (!task->known) continue;
        mt_json_text_format(text, first ? "" : ", ");
        mt_json_text_string(text, comparison->tasks.task[t].name);
        put_string(text, ": {", "metric", comparison->tasks.task[t].metric);
        put_number(text, ", ", "value", task->value);
        put_number(text, ", ", "samples", (double)task->samples);
        put_number(text, ", ", "low", task->low);
        put_number(text, ", ", "high", task->high);
        if (task->form != NULL) put_string(text, ", ", "form", task->form);
        mt_json_text_format(text, "}");
        first = false;
    }
    mt_json_text_format(text, "}");
}

/* {"4": {"accuracy": 0.5, "loss": 1.2}, ...}: experts taken away, or steps. */
static void put_probes(struct mt_json_text *text, const char *key, const struct mt_compare_probes *probes,
                       const struct mt_cell_probe *probe)
{
    if (probes->count == 0) return;
    mt_json_text_format(text, ",\n   \"%s\": {", key);
    for (size_t i = 0; i < probes->count; i++) {
        mt_json_text_format(text, "%s\"%" PRId64 "\": ", i == 0 ? "" : ", ", probes->value[i]);
        put_number(text, "{", "accuracy", probe[i].accuracy);
        put_number(text, ", ", "loss", probe[i].loss);
        mt_json_text_format(text, "}");
    }
    mt_json_text_format(text, "}");
}

/* What was measured, of a cell or of the model before training, which took no steps. */
static void put_measured(struct mt_json_text *text, const struct mt_comparison *comparison,
                         const struct mt_cell *cell)
{
    const struct mt_cell_result *result = &cell->result;
    const struct mt_compare_settings *settings = comparison->settings;
    mt_json_text_format(text, ",\n   \"figures\": ");
    put_figures(text, result->figure, false);
    if (!cell->start) {
        mt_json_text_format(text, ",\n   \"times\": ");
        put_figures(text, result->figure, true);
    }
    put_domains(text, settings, "accuracy", result->accuracy);
    put_domains(text, settings, "loss", result->loss);
    put_parts(text, settings, cell);
    put_probes(text, "pruned", &settings->prune, result->pruned);
    put_probes(text, "evaluated_at", &settings->at, result->at);
    mt_cell_asked_put(text, settings, result, "   ");
}

static void put_cell(struct mt_json_text *text, const struct mt_comparison *comparison,
                     const struct mt_cell *cell)
{
    const struct mt_compare_settings *settings = comparison->settings;
    const struct mt_cell_result *result = &cell->result;
    put_string(text, "  {", "model", settings->model[cell->model].name);
    put_string(text, ", ", "method", settings->method[cell->method].name);
    put_string(text, ", ", "domain", settings->domain[cell->domain].name);
    mt_json_text_format(text, ", \"seed\": %" PRIu64 ", \"known\": %s", settings->seed[cell->seed],
                        result->known ? "true" : "false");
    if (cell->failure != NULL) put_string(text, ",\n   ", "failure", cell->failure);
    if (!result->known) return;
    put_measured(text, comparison, cell);
    put_tasks(text, comparison, result);
    mt_json_text_format(text, ",\n   \"maxvio\": ");
    mt_json_text_numbers(text, result->maxvio, (int)result->steps);
    if (result->training_loss == NULL) return;
    mt_json_text_format(text, ",\n   \"training_loss\": ");
    mt_json_text_numbers(text, result->training_loss, (int)result->steps);
}

static void put_cells(struct mt_json_text *text, const struct mt_comparison *comparison)
{
    mt_json_text_format(text, ",\n \"cells\": [\n");
    for (size_t i = 0; i < comparison->cells; i++) {
        put_cell(text, comparison, &comparison->cell[i]);
        mt_json_text_format(text, i + 1 < comparison->cells ? "},\n" : "}\n");
    }
    mt_json_text_format(text, " ]");
}

static void put_summary(struct mt_json_text *text, const char *before, const char *name,
                        const struct mt_compare_summary *summary)
{
    const struct {
        const char *key;
        double number;
    } numbers[] = {
        {"seeds", (double)summary->moments.count},
        {"mean", summary->moments.mean},
        {"std", summary->moments.deviation},
        {"pairs", (double)summary->paired.count},
        {"difference", summary->paired.mean},
        {"error", summary->paired.error},
        {"p", summary->paired.p},
        {"p_holm", summary->holm},
    };
    mt_json_text_format(text, "%s\"%s\": {", before, name);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        put_number(text, i == 0 ? "" : ", ", numbers[i].key, numbers[i].number);
    mt_json_text_format(text, "}");
}

/* A column of one model, over its methods. */
static void put_column(struct mt_json_text *text, const struct mt_comparison *comparison, size_t model,
                       size_t column, const char *before)
{
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    const struct mt_compare_settings *settings = comparison->settings;
    bool time = column < MT_COMPARE_FIGURES && mt_compare_is_time((enum mt_compare_figure)column);
    mt_compare_summarize(comparison, model, column, MT_ALL_DOMAINS, summary);
    // A line of its own for each, so that times can be left out by lines.
    mt_json_text_format(text, "%s    \"%s%s\": {", before, time ? "times of " : "",
                        mt_compare_column_row(comparison, column)->name);
    for (size_t m = 0; m < settings->methods; m++)
        put_summary(text, m == 0 ? "" : ", ", settings->method[m].name, &summary[m]);
    // Of the model before training a mean alone: nothing is tested against it.
    double base = mt_compare_base(comparison, model, column, MT_ALL_DOMAINS).mean;
    if (!time && !isnan(base)) {
        put_number(text, ", \"" MT_COMPARE_BASE "\": {", "mean", base);
        mt_json_text_format(text, "}");
    }
    mt_json_text_format(text, "}");
}

static void put_ranks(struct mt_json_text *text, const struct mt_comparison *comparison, size_t model)
{
    const struct mt_compare_settings *settings = comparison->settings;
    double rank[MT_COMPARE_MOST_METHODS];
    bool first = true;
    mt_compare_ranks(comparison, model, MT_ALL_DOMAINS, rank);
    mt_json_text_format(text, ",\n   \"average_rank\": {");
    for (size_t m = 0; m < settings->methods; m++) {
        if (settings->method[m].in_grid) continue;
        put_number(text, first ? "" : ", ", settings->method[m].name, rank[m]);
        first = false;
    }
    mt_json_text_format(text, "}");
}

/* What is seen across the cells of a model. */
static void put_model(struct mt_json_text *text, const struct mt_comparison *comparison, size_t model)
{
    put_string(text, "  {", "name", comparison->settings->model[model].name);
    put_string(text, ", ", "path", comparison->settings->model[model].path);
    mt_json_text_format(text, ",\n   \"figures\": {\n");
    for (size_t column = 0; column < MT_COMPARE_FIGURES; column++)
        put_column(text, comparison, model, column, column == 0 ? "" : ",\n");
    mt_json_text_format(text, "\n   }");
    size_t probes = mt_compare_probes(comparison) * MT_PROBE_PARTS;
    if (probes > 0) mt_json_text_format(text, ",\n   \"probes\": {\n");
    for (size_t i = 0; i < probes; i++) {
        bool spread = comparison->probe[i / MT_PROBE_PARTS].source == MT_PROBE_SPREAD;
        if (spread && i % MT_PROBE_PARTS == MT_PROBE_CHANGE) continue; // it is a change itself
        put_column(text, comparison, model, mt_compare_probe_column(comparison, 0, MT_PROBE_ACCURACY) + i,
                   i == 0 ? "" : ",\n");
    }
    if (probes > 0) mt_json_text_format(text, "\n   }");
    if (comparison->tasks.count > 0) {
        mt_json_text_format(text, ",\n   \"tasks\": {\n");
        for (size_t t = 0; t < comparison->tasks.count; t++)
            put_column(text, comparison, model, mt_compare_task_column(t), t == 0 ? "" : ",\n");
        mt_json_text_format(text, "\n   }");
        put_ranks(text, comparison, model);
    }
    mt_json_text_format(text, "}");
}

/* The benchmarks: what was asked. */
static void put_task_list(struct mt_json_text *text, const struct mt_comparison *comparison)
{
    mt_json_text_format(text, ",\n \"tasks\": [");
    for (size_t t = 0; t < comparison->tasks.count; t++) {
        const struct mt_compare_task *task = &comparison->tasks.task[t];
        put_string(text, t == 0 ? "\n  {" : ",\n  {", "name", task->name);
        put_string(text, ", ", "task", task->entry->task);
        put_string(text, ", ", "metric", task->metric);
        put_number(text, ", ", "questions", (double)task->questions);
        if (task->max_tokens > 0) put_number(text, ", ", "max_tokens", (double)task->max_tokens);
        if (task->entry->shots >= 0) put_number(text, ", ", "shots", (double)task->entry->shots);
        if (task->entry->template != NULL) put_string(text, ", ", "template", task->entry->template);
        mt_json_text_format(text, "}");
    }
    mt_json_text_format(text, "\n ]");
}

/* The models as they are, without training: a domain after the other, each with the model's benchmarks. */
static void put_bases(struct mt_json_text *text, const struct mt_comparison *comparison)
{
    const struct mt_compare_settings *settings = comparison->settings;
    mt_json_text_format(text, ",\n \"base\": [\n");
    for (size_t i = 0; i < comparison->starts; i++) {
        const struct mt_cell *start = &comparison->start[i];
        const struct mt_cell *base =
            start->model < comparison->bases ? &comparison->base[start->model] : NULL;
        bool known = start->result.known && (base == NULL || base->result.complete);
        put_string(text, "  {", "model", settings->model[start->model].name);
        put_string(text, ", ", "domain", settings->domain[start->domain].name);
        mt_json_text_format(text, ", \"known\": %s", known ? "true" : "false");
        const char *failure = start->failure;
        if (failure == NULL && base != NULL) failure = base->failure;
        if (failure != NULL) put_string(text, ",\n   ", "failure", failure);
        if (start->result.known) put_measured(text, comparison, start);
        if (base != NULL) put_tasks(text, comparison, &base->result);
        mt_json_text_format(text, i + 1 < comparison->starts ? "},\n" : "}\n");
    }
    mt_json_text_format(text, " ]");
}

static void put_all(struct mt_json_text *text, const struct mt_comparison *comparison)
{
    const struct mt_compare_settings *settings = comparison->settings;
    put_string(text, "{\n ", "reference", settings->reference);
    if (comparison->device[0] != '\0') put_string(text, ",\n ", "device", comparison->device);
    if (comparison->tasks.count > 0) put_task_list(text, comparison);
    put_bases(text, comparison);
    put_cells(text, comparison);
    mt_json_text_format(text, ",\n \"models\": [\n");
    for (size_t i = 0; i < settings->models; i++) {
        put_model(text, comparison, i);
        mt_json_text_format(text, i + 1 < settings->models ? ",\n" : "\n");
    }
    mt_json_text_format(text, " ]\n}\n");
}

enum mt_status mt_comparison_write(const struct mt_comparison *comparison, const char *path)
{
    struct mt_json_text text;
    mt_json_text_init(&text, comparison->ctx);
    put_all(&text, comparison);
    return mt_json_text_save(&text, path);
}
