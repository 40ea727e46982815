/*
 * What was found: which method, by how much, beyond chance or not, at what cost on other domains, in balance
 * and in time. Sentences follow from the numbers of the tables alone.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "compare/page/parts.h"
#include "report/output.h"

/* "MODEL: " where there are several. */
static const char *of_model(char text[MT_COMPARE_TITLE_BYTES], const struct mt_compare_view *view)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    bool several = settings->models > 1;
    (void)snprintf(text, MT_COMPARE_TITLE_BYTES, "%.150s%s", several ? settings->model[view->model].name : "",
                   several ? ": " : "");
    return text;
}

/* How sure a difference is, as a clause. */
static const char *certainty(char text[96], double p)
{
    char number[MT_NUMBER_BYTES];
    if (isnan(p))
        (void)snprintf(text, 96, "too few pairs: this may be chance");
    else if (p < 0.001)
        (void)snprintf(text, 96, "beyond chance (p < 0.001)");
    else
        (void)snprintf(text, 96, "%s (p = %s)",
                       p < MT_COMPARE_SIGNIFICANT ? "beyond chance" : "not beyond chance",
                       mt_fixed_text(number, p, 3, false));
    return text;
}

/* The method with the highest score; `but`: not this one. view->methods: none is known. */
static size_t best_of(const struct mt_compare_view *view, const struct mt_score *scores, size_t but)
{
    size_t best = view->methods;
    for (size_t m = 0; m < view->methods; m++) {
        if (m == but || isnan(scores[m].moments.mean)) continue;
        if (best == view->methods || scores[m].moments.mean > scores[best].moments.mean) best = m;
    }
    return best;
}

/* "+1.2 ± 0.4 points", without ± of a lone pair. */
static const char *points(char text[64], const struct mt_paired *paired)
{
    char number[2][MT_NUMBER_BYTES];
    bool known = !isnan(paired->error);
    (void)snprintf(text, 64, "%s%s%s points", mt_fixed_text(number[0], paired->mean, 1, true),
                   known ? " ± " : "", known ? mt_fixed_text(number[1], paired->error, 1, false) : "");
    return text;
}

static void judge_best(const struct mt_compare_view *view, const struct mt_score *scores, size_t best,
                       size_t other)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    char who[MT_COMPARE_TITLE_BYTES], what[MT_COMPARE_TITLE_BYTES], headline[MT_COMPARE_TITLE_BYTES];
    char sure[96], by[64];
    // Where the reference is ahead, the next one is told.
    size_t shown = best == view->reference ? other : best;
    const struct mt_score *score = &scores[shown];
    if (isnan(score->paired.mean)) {
        mt_page_finding(view->page, MT_TONE_OPEN, "There is nothing to compare yet.",
                        "%sno seed and domain has both %s and %.80s.", of_model(who, view),
                        settings->method[shown].name, settings->reference);
        return;
    }
    bool ahead = score->paired.mean > 0.0;
    bool seen = ahead && score->holm < MT_COMPARE_SIGNIFICANT;
    (void)snprintf(headline, sizeof headline,
                   seen    ? "%.80s is best."
                   : ahead ? "%.80s leads, but not beyond chance."
                           : "No method beats %.80s.",
                   ahead ? settings->method[shown].name : settings->reference);
    mt_page_finding(view->page, seen ? MT_TONE_GOOD : MT_TONE_OPEN, headline,
                    "%sby %s %s has %.1f; that is %s against %.80s: %s.", of_model(who, view),
                    mt_view_score_name(what, view), settings->method[shown].name, score->moments.mean,
                    points(by, &score->paired), settings->reference, certainty(sure, score->holm));
}

static void judge_base(const struct mt_compare_view *view, const struct mt_score *scores, size_t best)
{
    char who[MT_COMPARE_TITLE_BYTES];
    double base = mt_view_base_score(view);
    double gain = scores[best].moments.mean - base;
    if (isnan(base)) return;
    mt_page_finding(view->page, gain > 0.0 ? MT_TONE_GOOD : MT_TONE_BAD,
                    gain > 0.0 ? "Training helps." : "Training does not help.",
                    "%sthe model before training has %.1f points, %s %.1f (%+.1f).", of_model(who, view),
                    base, view->comparison->settings->method[best].name, scores[best].moments.mean, gain);
}

/* A figure beside the score: what is said when the method differs from the reference beyond chance. */
struct side {
    size_t column;
    const char *fine, *worse; // headlines
    const char *what;
};

static const struct side sides[] = {
    {MT_COMPARE_ACCURACY_OTHERS, "It is better on other domains, too.", "It costs on other domains.",
     "whole answers of other domains, in points"},
    {MT_COMPARE_MAXVIO, "Balance is better.", "Balance is worse.", "MaxVio"},
    {MT_COMPARE_OVERLAP, "Experts overlap less.", "Experts overlap more.", "overlap of inputs"},
    {MT_COMPARE_ABS_COS, "A token's experts answer less alike.", "A token's experts answer more alike.",
     "|cos| of expert outputs"},
};

/* What differs beyond chance has a finding of its own, what does not share one. */
static void judge_sides(const struct mt_compare_view *view, size_t method)
{
    const struct mt_comparison *comparison = view->comparison;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char who[MT_COMPARE_TITLE_BYTES], sure[96], number[MT_NUMBER_BYTES], rest[512] = "";
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        const struct mt_compare_figure_row *row = mt_compare_column_row(comparison, sides[i].column);
        mt_compare_summarize(comparison, view->model, sides[i].column, MT_ALL_DOMAINS, summary);
        const struct mt_paired *paired = &summary[method].paired;
        bool fine = (paired->mean > 0.0) == (row->better > 0);
        (void)mt_fixed_text(number, row->factor * paired->mean, row->decimals, true);
        if (isnan(paired->mean)) continue;
        if (summary[method].holm < MT_COMPARE_SIGNIFICANT) {
            mt_page_finding(view->page, fine ? MT_TONE_GOOD : MT_TONE_BAD,
                            fine ? sides[i].fine : sides[i].worse,
                            "%s%s of %s is %.*f, %s against %.80s: %s.", of_model(who, view), sides[i].what,
                            comparison->settings->method[method].name, row->decimals,
                            row->factor * summary[method].moments.mean, number,
                            comparison->settings->reference, certainty(sure, summary[method].holm));
            continue;
        }
        size_t length = strlen(rest);
        (void)snprintf(rest + length, sizeof rest - length, "%s%s %s", length > 0 ? ", " : "", sides[i].what,
                       number);
    }
    if (rest[0] != '\0')
        mt_page_finding(view->page, MT_TONE_OPEN, "No other difference is beyond chance.",
                        "%s%s against %.80s: %s.", of_model(who, view),
                        comparison->settings->method[method].name, comparison->settings->reference, rest);
}

static double ratio(const struct mt_compare_view *view, size_t method, enum mt_compare_figure figure)
{
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    mt_compare_summarize(view->comparison, view->model, figure, MT_ALL_DOMAINS, summary);
    return summary[method].moments.mean / summary[view->reference].moments.mean;
}

static void judge_cost(const struct mt_compare_view *view, size_t best)
{
    char who[MT_COMPARE_TITLE_BYTES], memory[64] = "";
    double time = ratio(view, best, MT_COMPARE_PROCESSOR);
    double bytes = ratio(view, best, MT_COMPARE_MEMORY);
    if (isnan(time)) return;
    if (!isnan(bytes)) (void)snprintf(memory, sizeof memory, " and %+.1f %% memory", 100.0 * (bytes - 1.0));
    mt_page_finding(view->page, MT_TONE_PLAIN, "What it costs.",
                    "%sa step of %s takes %+.1f %% processor time%s against %.80s.", of_model(who, view),
                    view->comparison->settings->method[best].name, 100.0 * (time - 1.0), memory,
                    view->comparison->settings->reference);
}

void mt_page_compare_verdict(const struct mt_compare_view *view)
{
    struct mt_score scores[MT_COMPARE_MOST_METHODS];
    mt_view_scores(view, scores);
    size_t best = best_of(view, scores, view->methods);
    size_t other = best_of(view, scores, view->reference);
    if (best == view->methods) return;
    if (view->methods > 1 && other < view->methods) judge_best(view, scores, best, other);
    judge_base(view, scores, best);
    // What a reader would choose instead of the reference is looked at, even where it is not ahead.
    size_t shown = best == view->reference ? other : best;
    if (shown >= view->methods) return;
    judge_sides(view, shown);
    judge_cost(view, shown);
}

/* A bar of the first picture: where it ends, and how far its whiskers reach; NaN: not known. */
struct bar {
    double middle, away;
};

static struct bar bar_of(const struct mt_score *score, bool several)
{
    return several ? (struct bar){score->paired.mean, score->paired.error}
                   : (struct bar){score->moments.mean, score->moments.deviation};
}

/* Whether any bar has whiskers: with one pair nothing is known of chance. */
static bool has_whiskers(struct mt_compare_view view, bool several)
{
    struct mt_score scores[MT_COMPARE_MOST_METHODS];
    bool any = false;
    for (view.model = 0; view.model < view.comparison->settings->models; view.model++) {
        mt_view_scores(&view, scores);
        for (size_t m = 0; m < view.methods; m++)
            any = any || (isfinite(bar_of(&scores[m], several).away) && !(several && m == view.reference));
    }
    return any;
}

void mt_page_compare_picture(const struct mt_comparison *comparison, struct mt_page *page)
{
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_score scores[MT_COMPARE_MOST_METHODS];
    char title[MT_COMPARE_TITLE_BYTES], what[MT_COMPARE_TITLE_BYTES], name[MT_COMPARE_TITLE_BYTES];
    struct mt_compare_view view = mt_compare_view_of(comparison, page, 0);
    bool several = view.methods > 1;
    bool whiskers = has_whiskers(view, several);
    (void)snprintf(title, sizeof title, several ? "Points against %.80s" : "Points", settings->reference);
    (void)snprintf(what, sizeof what, whiskers ? "By %s; whiskers are %s." : "By %s. No whiskers: %s.",
                   mt_view_score_name(name, &view),
                   !whiskers ? "one seed does not show what is chance"
                   : several ? "standard errors of paired differences"
                             : "standard deviations over seeds");
    struct mt_figure *bars =
        mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_BARS,
                                                      .title = title,
                                                      .meaning = what,
                                                      .series = "model",
                                                      .x = "method",
                                                      .y = several ? "difference in points" : "points",
                                                      .reach = several ? MT_COMPARE_REACH : 0.0,
                                                      .band = whiskers});
    for (view.model = 0; view.model < settings->models; view.model++) {
        mt_view_scores(&view, scores);
        // The model before training, without whiskers: nothing is tested against it.
        double base = mt_view_base_score(&view) - (several ? scores[view.reference].moments.mean : 0.0);
        if (!isnan(base))
            mt_figure_bar(bars, settings->model[view.model].name, MT_COMPARE_BASE, base, (double)NAN,
                          (double)NAN);
        for (size_t m = 0; m < view.methods; m++) {
            struct bar bar = bar_of(&scores[m], several);
            if (several && m == view.reference) continue;
            mt_figure_bar(bars, settings->model[view.model].name, settings->method[m].name, bar.middle,
                          bar.middle - bar.away, bar.middle + bar.away);
        }
    }
}
