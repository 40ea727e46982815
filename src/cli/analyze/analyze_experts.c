/*
 * metier analyze --experts: the routed experts data goes to, as train's key `experts` reads them. ESFT
 * (2407.01906) by its token selection ratio: in every layer the busiest experts, until together they serve
 * the wanted share of the slots.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/files/file.h"
#include "cli/analyze/analyze.h"
#include "formats/text/json_text.h"

/* The busiest that is not taken yet, the first of equals. */
static int busiest(const double *load, const bool *taken, int experts)
{
    int found = -1;
    for (int j = 0; j < experts; j++) {
        if (!taken[j] && (found < 0 || load[j] > load[found])) found = j;
    }
    return found;
}

/* Takes experts until their loads make up the share; returns how many. */
static int choose(const double *load, int experts, double share, bool *taken)
{
    double total = 0.0;
    double served = 0.0;
    int count = 0;
    for (int j = 0; j < experts; j++) {
        taken[j] = false;
        total += load[j];
    }
    while (count < experts && (count == 0 || served < share * total)) {
        int next = busiest(load, taken, experts);
        taken[next] = true;
        served += load[next];
        count++;
    }
    return count;
}

static enum mt_status put_layer(struct mt_json_text *text, int64_t layer, const bool *taken, int experts,
                                bool first)
{
    enum mt_status status = mt_json_text_format(text, "%s\"%" PRId64 "\": [", first ? "{" : ",\n ", layer);
    bool listed = false;
    for (int j = 0; j < experts && status == MT_OK; j++) {
        if (!taken[j]) continue;
        status = mt_json_text_format(text, "%s%d", listed ? ", " : "", j);
        listed = true;
    }
    return status == MT_OK ? mt_json_text_format(text, "]") : status;
}

enum mt_status analyze_write_experts(const struct analyze *run)
{
    const char *path = run->settings->experts;
    const struct mt_figures *figures = &run->model.figures[run->domains];
    struct mt_json_text text;
    void *taken = NULL;
    int64_t chosen = 0;
    mt_json_text_init(&text, run->ctx);
    enum mt_status status = mt_allocate_array(run->ctx, (size_t)run->experts, sizeof(bool), &taken);
    for (int i = 0; status == MT_OK && i < run->layers; i++) {
        chosen += choose(figures->layer[i].load, run->experts, run->settings->share, taken);
        status = put_layer(&text, run->number[i], taken, run->experts, i == 0);
    }
    if (status == MT_OK) status = mt_json_text_format(&text, "}\n");
    if (status == MT_OK) status = mt_file_write_all(run->ctx, path, text.bytes, text.length);
    if (status == MT_OK && !run->settings->json) {
        printf("written: %s: %.3g of %d experts a layer, which serve %.3g %% of the slots or more\n", path,
               (double)chosen / run->layers, run->experts, 100.0 * run->settings->share);
    }
    mt_release(run->ctx, taken, (size_t)run->experts * sizeof(bool));
    mt_json_text_free(&text);
    return status;
}
