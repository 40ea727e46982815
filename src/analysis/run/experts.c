/*
 * The routed experts data goes to: ESFT's two choices (2407.01906), by the mean weight of an expert and by
 * its share of the slots, that of ExpertSieve (2603.24044), a share of the experts, and the best by a score
 * (analysis/expert_scores.h). Scores are taken within a layer, as ESFT's paper has them; its published code
 * divides an expert's by the sum over the layers.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analysis/run/run.h"
#include "model/chosen_experts.h"

#define ROUNDING 1e-9 // of sums that should reach a threshold exactly

static const struct mt_expert_rule rules[] = {
    {.name = "gate", .reached = "of the experts' weights", .threshold = 0.1, .by_weight = true},
    {.name = "token", .reached = "of the slots", .threshold = 0.2},
    {.name = "sieve", .reached = "of the experts", .threshold = 0.25, .counts = true},
    {.name = "best"},
};

const struct mt_expert_rule *mt_expert_rule_named(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].name, name) == 0) return &rules[i];
    }
    return NULL;
}

/* What the flagged experts reach together, of 1. */
static double reached(const double *score, int experts, bool counts, const bool *taken)
{
    double total = 0.0;
    double sum = 0.0;
    for (int j = 0; j < experts; j++) {
        double one = counts ? 1.0 : score[j];
        total += one;
        if (taken[j]) sum += one;
    }
    return sum / total;
}

/* How many of the highest it takes to reach the threshold, at least one. `taken` is room for n flags. */
static int count_to_reach(const double *score, int experts, const struct mt_expert_choice *choice,
                          bool *taken)
{
    int low = 1;
    int high = experts;
    while (low < high) {
        int middle = low + (high - low) / 2;
        mt_experts_keep_best(score, experts, 1, middle, taken);
        bool enough = reached(score, experts, choice->rule->counts, taken) >= choice->threshold - ROUNDING;
        if (enough)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Chooses in one layer; adds to what came of it. */
static enum mt_status choose(const struct mt_analysis *run, int index, struct mt_expert_choice *choice,
                             bool *taken)
{
    const struct mt_layer_figures *layer = &run->model.figures[run->domains].layer[index];
    const struct mt_expert_rule *rule = choice->rule;
    const double *score = rule->by_weight ? layer->mean_weight : layer->load;
    double slots = 0.0;
    double served = 0.0;
    if (rule->reached == NULL) score = layer->score[choice->score];
    for (int j = 0; j < run->experts; j++) {
        if (!isfinite(score[j]))
            return mt_fail(run->ctx, MT_ERR_FORMAT,
                           "layer %" PRId64 ": the score of expert %d is not a number%s", layer->number, j,
                           layer->tokens == 0 ? ": the data has no token" : "");
        slots += layer->load[j];
    }
    if (slots == 0.0)
        return mt_fail(run->ctx, MT_ERR_FORMAT,
                       "layer %" PRId64 ": no token of the data is routed to an expert", layer->number);
    int count = rule->reached == NULL ? run->keep : count_to_reach(score, run->experts, choice, taken);
    mt_experts_keep_best(score, run->experts, rule->reached == NULL ? run->groups : 1, count, taken);
    for (int j = 0; j < run->experts; j++) served += taken[j] ? layer->load[j] : 0.0;
    choice->chosen += count;
    choice->share += served / slots / run->layers;
    choice->least_share = fmin(choice->least_share, served / slots);
    return MT_OK;
}

enum mt_status mt_analysis_write_experts(const struct mt_analysis *run, struct mt_expert_choice *choice,
                                         const char *path)
{
    size_t flags = (size_t)run->layers * (size_t)run->experts;
    bool *taken = NULL;
    void *memory = NULL;
    const char *score = choice->rule->name;
    if (choice->rule->reached == NULL) score = mt_expert_score_kind(choice->score)->name;
    choice->chosen = 0;
    choice->share = 0.0;
    choice->least_share = 1.0;
    enum mt_status status = mt_allocate_array(run->ctx, flags, sizeof *taken, &memory);
    taken = memory;
    for (int i = 0; status == MT_OK && i < run->layers; i++)
        status = choose(run, i, choice, taken + (size_t)i * (size_t)run->experts);
    if (status == MT_OK)
        status = mt_chosen_experts_write(run->ctx,
                                         &(struct mt_chosen_experts){.experts = run->experts,
                                                                     .layers = run->layers,
                                                                     .number = run->number,
                                                                     .chosen = taken,
                                                                     .score = score,
                                                                     .data = run->settings->data,
                                                                     .data_count = run->settings->data_count,
                                                                     .share = choice->share},
                                         path);
    mt_release(run->ctx, memory, flags * sizeof *taken);
    return status;
}
