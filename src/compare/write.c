/* compare.json. */
#include "compare/compare.h"

#include <inttypes.h>

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

static void put_cell(struct mt_json_text *text, const struct mt_comparison *comparison,
                     const struct mt_cell *cell)
{
    const struct mt_compare_settings *settings = comparison->settings;
    const struct mt_cell_result *result = &cell->result;
    put_string(text, "  {", "method", settings->method[cell->method].name);
    put_string(text, ", ", "domain", settings->domain[cell->domain].name);
    mt_json_text_format(text, ", \"seed\": %" PRIu64 ", \"known\": %s", settings->seed[cell->seed],
                        result->known ? "true" : "false");
    if (cell->failure != NULL) put_string(text, ",\n   ", "failure", cell->failure);
    if (!result->known) return;
    mt_json_text_format(text, ",\n   \"figures\": ");
    put_figures(text, result->figure, false);
    mt_json_text_format(text, ",\n   \"times\": ");
    put_figures(text, result->figure, true);
    put_domains(text, settings, "accuracy", result->accuracy);
    put_domains(text, settings, "loss", result->loss);
    mt_json_text_format(text, ",\n   \"maxvio\": ");
    mt_json_text_numbers(text, result->maxvio, (int)result->steps);
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

static void put_figure_summaries(struct mt_json_text *text, const struct mt_comparison *comparison,
                                 enum mt_compare_figure figure, const char *before)
{
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    const struct mt_compare_settings *settings = comparison->settings;
    bool time = mt_compare_is_time(figure);
    mt_compare_summarize(comparison, figure, MT_ALL_DOMAINS, summary);
    // A line of its own for each, so that times can be left out by lines.
    mt_json_text_format(text, "%s  \"%s%s\": {", before, time ? "times of " : "",
                        mt_compare_figure_row(figure)->name);
    for (size_t m = 0; m < settings->methods; m++)
        put_summary(text, m == 0 ? "" : ", ", settings->method[m].name, &summary[m]);
    mt_json_text_format(text, "}");
}

static void put_all(struct mt_json_text *text, const struct mt_comparison *comparison)
{
    const struct mt_compare_settings *settings = comparison->settings;
    put_string(text, "{\n ", "model", settings->model);
    put_string(text, ",\n ", "reference", settings->reference);
    if (comparison->device[0] != '\0') put_string(text, ",\n ", "device", comparison->device);
    put_cells(text, comparison);
    mt_json_text_format(text, ",\n \"methods\": {\n");
    for (int i = 0; i < MT_COMPARE_FIGURES; i++)
        put_figure_summaries(text, comparison, (enum mt_compare_figure)i, i == 0 ? "" : ",\n");
    mt_json_text_format(text, "\n }\n}\n");
}

enum mt_status mt_comparison_write(const struct mt_comparison *comparison, const char *path)
{
    struct mt_json_text text;
    mt_json_text_init(&text, comparison->ctx);
    put_all(&text, comparison);
    return mt_json_text_save(&text, path);
}
