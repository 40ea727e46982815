/* The table of scores, and the choice of the best. */
#include "analysis/expert_scores.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double weighted_length(const struct mt_slot_facts *slot)
{
    return slot->weight * slot->length;
}

static double weighted_length_and_change(const struct mt_slot_facts *slot)
{
    return slot->weight * slot->length * slot->change;
}

static const struct mt_expert_score_kind kinds[MT_EXPERT_SCORES] = {
    [MT_SCORE_USE] = {.name = "use", .formula = "slots served"},
    [MT_SCORE_MEAN] = {.name = "mean", .formula = "mean_i P_ij"},
    [MT_SCORE_REAP] = {.name = "reap",
                       .formula = "mean of s_ij |x_ij| over the tokens i that expert j served",
                       .of_slot = weighted_length,
                       .mean = true,
                       .lengths = true},
    [MT_SCORE_EASY_EP] = {.name = "easy-ep",
                          .formula =
                              "sum_i s_ij |x_ij| (1 - cos(h_i, h_i + sum_m s_im x_im)), h_i the residual "
                              "stream before the layer's experts",
                          .of_slot = weighted_length_and_change,
                          .lengths = true,
                          .change = true},
};

const struct mt_expert_score_kind *mt_expert_score_kind(enum mt_expert_score score)
{
    return &kinds[score];
}

enum mt_status mt_expert_score_named(struct mt_context *ctx, const char *asker, const char *name,
                                     enum mt_expert_score *score)
{
    char names[128] = "";
    size_t used = 0;
    for (int i = 0; i < MT_EXPERT_SCORES; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *score = (enum mt_expert_score)i;
            return MT_OK;
        }
        const char *between = i + 1 < MT_EXPERT_SCORES ? ", " : " or ";
        int written =
            snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? between : "", kinds[i].name);
        if (written > 0 && used + (size_t)written < sizeof names) used += (size_t)written;
    }
    return mt_fail(ctx, MT_ERR_USAGE, "%s is '%.100s', expected %s", asker, name, names);
}

// ------------------------------------------------------------------ the best

static bool better(double a, double b)
{
    return a > b || (isnan(b) && !isnan(a));
}

static void keep_best_of_group(const double *score, int experts, int keep, bool *kept)
{
    for (int j = 0; j < experts; j++) kept[j] = false;
    for (int taken = 0; taken < keep && taken < experts; taken++) {
        int best = -1;
        for (int j = 0; j < experts; j++) {
            if (!kept[j] && (best < 0 || better(score[j], score[best]))) best = j;
        }
        kept[best] = true;
    }
}

void mt_experts_keep_best(const double *score, int experts, int groups, int keep, bool *kept)
{
    int size = experts / groups;
    for (int g = 0; g < groups; g++)
        keep_best_of_group(score + g * size, size, keep / groups, kept + g * size);
}

enum mt_status mt_experts_keep_parse(struct mt_context *ctx, const char *option, const char *text,
                                     int experts, int slots, int *keep)
{
    char *end = NULL;
    errno = 0;
    double number = strtod(text, &end);
    bool digits = text[0] >= '0' && text[0] <= '9' && strspn(text, "0123456789.") == (size_t)(end - text);
    bool share = digits && strcmp(end, "%") == 0;
    if (!share && (!digits || *end != '\0' || strchr(text, '.') != NULL)) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "%s is '%.100s', expected a number of experts or a percentage (16 or 50%%)", option,
                       text);
    }
    if (share && number > 100.0)
        return mt_fail(ctx, MT_ERR_USAGE, "%s is %.100s, expected at most 100%% of the experts", option,
                       text);
    double wanted = share ? floor(number / 100.0 * experts + 0.5) : number;
    if (!(wanted >= slots && wanted <= experts)) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "%s %.100s keeps %.0f of %d experts a layer, expected %d (a token's experts) to %d",
                       option, text, wanted, experts, slots, experts);
    }
    *keep = (int)wanted;
    return MT_OK;
}
