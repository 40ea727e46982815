/*
 * The routed experts data goes to, as train's key `experts` reads them: ESFT's two choices (2407.01906), by
 * the mean weight of an expert and by its share of the slots, and that of ExpertSieve (2603.24044), a share
 * of the experts; or those it does not go to, for --prune of metier eval. Scores are taken within a layer, as
 * ESFT's paper has them; its published code divides an expert's by the sum over the layers.
 */
#include <inttypes.h>
#include <string.h>

#include "analysis/run/run.h"

#define ROUNDING 1e-9 // of sums that should reach a threshold exactly

static const struct mt_expert_rule rules[] = {
    {.name = "gate", .reached = "of the experts' weights", .threshold = 0.1, .by_weight = true},
    {.name = "token", .reached = "of the slots", .threshold = 0.2},
    {.name = "sieve", .reached = "of the experts", .threshold = 0.25, .counts = true},
    {.name = "least", .reached = "of the experts", .threshold = 0.25, .counts = true, .least = true},
};

const struct mt_expert_rule *mt_expert_rule_named(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].name, name) == 0) return &rules[i];
    }
    return NULL;
}

/* The highest, or lowest, that is not taken yet, the first of equals. */
static int next_of(const double *score, const bool *taken, int experts, bool least)
{
    int found = -1;
    for (int j = 0; j < experts; j++) {
        if (taken[j]) continue;
        if (found < 0 || (least ? score[j] < score[found] : score[j] > score[found])) found = j;
    }
    return found;
}

/* Takes experts until the threshold is reached, at least one; returns how many. */
static int choose(const struct mt_layer_figures *layer, int experts, const struct mt_expert_rule *rule,
                  double threshold, bool *taken)
{
    const double *score = rule->by_weight ? layer->mean_weight : layer->load;
    double total = 0.0;
    double reached = 0.0;
    int count = 0;
    for (int j = 0; j < experts; j++) {
        taken[j] = false;
        total += rule->counts ? 1.0 : score[j];
    }
    while (count < experts && (count == 0 || reached < (threshold - ROUNDING) * total)) {
        int next = next_of(score, taken, experts, rule->least);
        taken[next] = true;
        reached += rule->counts ? 1.0 : score[next];
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

enum mt_status mt_analysis_write_experts(const struct mt_analysis *run, const struct mt_expert_rule *rule,
                                         double threshold, const char *path, int64_t *chosen)
{
    const struct mt_figures *figures = &run->model.figures[run->domains];
    struct mt_json_text text;
    void *taken = NULL;
    *chosen = 0;
    mt_json_text_init(&text, run->ctx);
    enum mt_status status = mt_allocate_array(run->ctx, (size_t)run->experts, sizeof(bool), &taken);
    if (status != MT_OK) return status;
    for (int i = 0; i < run->layers; i++) {
        *chosen += choose(&figures->layer[i], run->experts, rule, threshold, taken);
        put_layer(&text, run->number[i], taken, run->experts, i == 0);
    }
    mt_json_text_format(&text, "}\n");
    mt_release(run->ctx, taken, (size_t)run->experts * sizeof(bool));
    return mt_json_text_save(&text, path);
}
