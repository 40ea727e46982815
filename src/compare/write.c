/* compare.json. */
#include "compare/write.h"

#include <inttypes.h>

#include "analysis/numbers_json.h"
#include "base/files/file.h"
#include "compare/summary.h"

/* "key": NUMBER */
static enum mt_status put_number(struct mt_json_text *text, const char *before, const char *key,
                                 double number)
{
    enum mt_status status = mt_json_text_format(text, "%s\"%s\": ", before, key);
    return status == MT_OK ? mt_put_number(text, number) : status;
}

static enum mt_status put_string(struct mt_json_text *text, const char *before, const char *key,
                                 const char *string)
{
    enum mt_status status = mt_json_text_format(text, "%s\"%s\": ", before, key);
    return status == MT_OK ? mt_json_text_string(text, string) : status;
}

/* {"accuracy": 0.5, ...}: those that are times, or those that are not. */
static enum mt_status put_figures(struct mt_json_text *text, const double *figure, bool times)
{
    bool first = true;
    enum mt_status status = mt_json_text_format(text, "{");
    for (int i = 0; i < MT_COMPARE_FIGURES && status == MT_OK; i++) {
        if (mt_compare_is_time((enum mt_compare_figure)i) != times) continue;
        status = put_number(text, first ? "" : ", ", mt_compare_figure_row((enum mt_compare_figure)i)->name,
                            figure[i]);
        first = false;
    }
    return status == MT_OK ? mt_json_text_format(text, "}") : status;
}

static enum mt_status put_domains(struct mt_json_text *text, const struct mt_compare_settings *settings,
                                  const char *key, const double *values)
{
    enum mt_status status = mt_json_text_format(text, ",\n   \"%s\": {", key);
    for (size_t d = 0; d < settings->domains && status == MT_OK; d++)
        status = put_number(text, d == 0 ? "" : ", ", settings->domain[d].name, values[d]);
    return status == MT_OK ? mt_json_text_format(text, "}") : status;
}

static enum mt_status put_cell(struct mt_json_text *text, const struct mt_comparison *comparison,
                               const struct mt_cell *cell)
{
    const struct mt_compare_settings *settings = comparison->settings;
    const struct mt_cell_result *result = &cell->result;
    enum mt_status status = put_string(text, "  {", "method", settings->method[cell->method].name);
    if (status == MT_OK) status = put_string(text, ", ", "domain", settings->domain[cell->domain].name);
    if (status == MT_OK)
        status = mt_json_text_format(text, ", \"seed\": %" PRIu64 ", \"known\": %s",
                                     settings->seed[cell->seed], result->known ? "true" : "false");
    if (status == MT_OK && cell->failure != NULL)
        status = put_string(text, ",\n   ", "failure", cell->failure);
    if (status != MT_OK || !result->known) return status;
    status = mt_json_text_format(text, ",\n   \"figures\": ");
    if (status == MT_OK) status = put_figures(text, result->figure, false);
    if (status == MT_OK) status = mt_json_text_format(text, ",\n   \"times\": ");
    if (status == MT_OK) status = put_figures(text, result->figure, true);
    if (status == MT_OK) status = put_domains(text, settings, "accuracy", result->accuracy);
    if (status == MT_OK) status = put_domains(text, settings, "loss", result->loss);
    if (status == MT_OK) status = mt_json_text_format(text, ",\n   \"maxvio\": ");
    return status == MT_OK ? mt_put_numbers(text, result->maxvio, (int)result->steps) : status;
}

static enum mt_status put_cells(struct mt_json_text *text, const struct mt_comparison *comparison)
{
    enum mt_status status = mt_json_text_format(text, ",\n \"cells\": [\n");
    for (size_t i = 0; i < comparison->cells && status == MT_OK; i++) {
        status = put_cell(text, comparison, &comparison->cell[i]);
        if (status == MT_OK) status = mt_json_text_format(text, i + 1 < comparison->cells ? "},\n" : "}\n");
    }
    return status == MT_OK ? mt_json_text_format(text, " ]") : status;
}

static enum mt_status put_summary(struct mt_json_text *text, const char *before, const char *name,
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
    enum mt_status status = mt_json_text_format(text, "%s\"%s\": {", before, name);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && status == MT_OK; i++)
        status = put_number(text, i == 0 ? "" : ", ", numbers[i].key, numbers[i].number);
    return status == MT_OK ? mt_json_text_format(text, "}") : status;
}

static enum mt_status put_figure_summaries(struct mt_json_text *text, const struct mt_comparison *comparison,
                                           enum mt_compare_figure figure, const char *before)
{
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    const struct mt_compare_settings *settings = comparison->settings;
    bool time = mt_compare_is_time(figure);
    mt_compare_summarize(comparison, figure, MT_ALL_DOMAINS, summary);
    // A line of its own for each, so that times can be left out by lines.
    enum mt_status status = mt_json_text_format(text, "%s  \"%s%s\": {", before, time ? "times of " : "",
                                                mt_compare_figure_row(figure)->name);
    for (size_t m = 0; m < settings->methods && status == MT_OK; m++)
        status = put_summary(text, m == 0 ? "" : ", ", settings->method[m].name, &summary[m]);
    return status == MT_OK ? mt_json_text_format(text, "}") : status;
}

static enum mt_status put_all(struct mt_json_text *text, const struct mt_comparison *comparison)
{
    const struct mt_compare_settings *settings = comparison->settings;
    enum mt_status status = put_string(text, "{\n ", "model", settings->model);
    if (status == MT_OK) status = put_string(text, ",\n ", "reference", settings->reference);
    if (status == MT_OK && comparison->device[0] != '\0')
        status = put_string(text, ",\n ", "device", comparison->device);
    if (status == MT_OK) status = put_cells(text, comparison);
    if (status == MT_OK) status = mt_json_text_format(text, ",\n \"methods\": {\n");
    for (int i = 0; i < MT_COMPARE_FIGURES && status == MT_OK; i++)
        status = put_figure_summaries(text, comparison, (enum mt_compare_figure)i, i == 0 ? "" : ",\n");
    return status == MT_OK ? mt_json_text_format(text, "\n }\n}\n") : status;
}

enum mt_status mt_comparison_write(const struct mt_comparison *comparison, const char *path)
{
    struct mt_json_text text;
    mt_json_text_init(&text, comparison->ctx);
    enum mt_status status = put_all(&text, comparison);
    if (status == MT_OK) status = mt_file_write_all(comparison->ctx, path, text.bytes, text.length);
    mt_json_text_free(&text);
    return status;
}
