/*
 * The routed experts data goes to, as train's key `experts` reads them. ESFT (2407.01906) by its token
 * selection ratio: in every layer the busiest experts, until together they serve the wanted share of the
 * slots.
 */
#include <inttypes.h>

#include "analysis/run/run.h"

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

static void put_layer(struct mt_json_text *text, int64_t layer, const bool *taken, int experts, bool first)
{
    mt_json_text_format(text, "%s\"%" PRId64 "\": [", first ? "{" : ",\n ", layer);
    bool listed = false;
    for (int j = 0; j < experts; j++) {
        if (!taken[j]) continue;
        mt_json_text_format(text, "%s%d", listed ? ", " : "", j);
        listed = true;
    }
    mt_json_text_format(text, "]");
}

enum mt_status mt_analysis_write_experts(const struct mt_analysis *run, double share, const char *path,
                                         int64_t *chosen)
{
    const struct mt_figures *figures = &run->model.figures[run->domains];
    struct mt_json_text text;
    void *taken = NULL;
    *chosen = 0;
    mt_json_text_init(&text, run->ctx);
    enum mt_status status = mt_allocate_array(run->ctx, (size_t)run->experts, sizeof(bool), &taken);
    if (status != MT_OK) return status;
    for (int i = 0; i < run->layers; i++) {
        *chosen += choose(figures->layer[i].load, run->experts, share, taken);
        put_layer(&text, run->number[i], taken, run->experts, i == 0);
    }
    mt_json_text_format(&text, "}\n");
    mt_release(run->ctx, taken, (size_t)run->experts * sizeof(bool));
    return mt_json_text_save(&text, path);
}
