/*
 * The report's verdict: did the loss fall, is routing balanced, do experts specialise, is every term alive;
 * of several runs, which is ahead. Sentences follow from numbers of the run alone; what is not measured is
 * said to be.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "objective/concentration.h"
#include "report/output.h"
#include "report/report.h"
#include "report/report_figures.h"

#define TENTH       0.1
#define LEAST       5
#define SEEN        0.01 // a change below this share is none
#define EVEN        0.5  // MaxVio up to which routing is called balanced
#define WORTH       1e-6 // of the whole gradient: a term below that does nothing
#define FEW_OVERLAP 0.5  // of what chance gives
#define DEVIATIONS  1.96

/* Numbers of the first or the last steps: a tenth of them, but five at least. */
struct stretch {
    double mean, error; // standard error of the mean; NaN: not known
};

static struct stretch stretch_of(const struct mt_run *run, int value, bool late)
{
    size_t steps = run->log.steps;
    size_t wanted = (size_t)(TENTH * (double)steps);
    double sum = 0;
    double squares = 0;
    double count = 0;
    if (wanted < LEAST) wanted = steps < 2 * LEAST ? steps / 2 : LEAST;
    for (size_t i = 0; i < wanted; i++) {
        double one = mt_run_at(run, late ? steps - 1 - i : i, value);
        if (isnan(one)) continue;
        sum += one;
        squares += one * one;
        count++;
    }
    double mean = count > 0 ? sum / count : (double)NAN;
    double variance = count > 1 ? fmax(0, squares - count * mean * mean) / (count - 1) : (double)NAN;
    return (struct stretch){mean, sqrt(variance / count)};
}

/* "RUN: " where there are several. */
static const char *of_run(char text[MT_REPORT_NAME_BYTES], const struct mt_run *run, size_t count)
{
    (void)snprintf(text, MT_REPORT_NAME_BYTES, "%.140s%s", count > 1 ? run->name : "", count > 1 ? ": " : "");
    return text;
}

/* Three digits that count; "–" for what is not known. */
static const char *digits(char text[MT_NUMBER_BYTES], double number)
{
    if (!isfinite(number)) return mt_number_text(text, number);
    (void)snprintf(text, MT_NUMBER_BYTES, "%.3g", number);
    return text;
}

// ------------------------------------------------------------------ loss

static double lowest_evaluation(const struct mt_run *run)
{
    double lowest = (double)NAN;
    for (size_t i = 0; i < run->log.evaluations; i++) lowest = fmin(lowest, run->log.evaluation[3 * i + 1]);
    return lowest;
}

static void judge_evaluations(struct mt_page *page, const struct mt_run *run, const char *who)
{
    size_t last = run->log.evaluations;
    if (last == 0) return;
    double begin = run->log.evaluation[1];
    double end = run->log.evaluation[3 * (last - 1) + 1];
    double lowest = lowest_evaluation(run);
    if (isnan(end))
        mt_page_finding(page, MT_TONE_BAD, "The held-out loss is not a number.",
                        "%sthe last evaluation has no finite loss.", who);
    else if (last == 1)
        mt_page_finding(page, MT_TONE_OPEN, "Held-out loss is measured once.",
                        "%sit is %.4g at the end; a smaller evaluation.every shows whether it falls.", who,
                        end);
    else if (end > lowest * (1 + SEEN))
        mt_page_finding(page, MT_TONE_BAD, "It ends past its best.",
                        "%sheld-out loss was %.4g at its lowest and is %.4g at the end: the model learns by "
                        "heart.",
                        who, lowest, end);
    else if (!(end < begin))
        mt_page_finding(page, MT_TONE_OPEN, "Held-out loss did not fall.",
                        "%sit was %.4g at first and is %.4g at the end.", who, begin, end);
    else
        mt_page_finding(page, MT_TONE_GOOD, "What is not trained on gets better, too.",
                        "%sheld-out loss ends at %.4g, its lowest or near it.", who, end);
}

/* "0.6758 ± 0.012"; without an error where one step is all there is. */
static const char *with_error(char text[2 * MT_NUMBER_BYTES], const struct stretch *stretch)
{
    bool known = isfinite(stretch->error);
    int length = snprintf(text, 2 * MT_NUMBER_BYTES, "%.4g", stretch->mean);
    if (known && length > 0 && length < MT_NUMBER_BYTES)
        (void)snprintf(text + length, MT_NUMBER_BYTES, " ± %.2g", stretch->error);
    return text;
}

static void judge_loss(struct mt_page *page, const struct mt_run *run, size_t count)
{
    char who[MT_REPORT_NAME_BYTES], from[2 * MT_NUMBER_BYTES], to[2 * MT_NUMBER_BYTES], change[64] = "";
    struct stretch early = stretch_of(run, MT_RUN_TASK, false);
    struct stretch late = stretch_of(run, MT_RUN_TASK, true);
    // Batches differ: what two standard errors hide is no change. Without errors there is nothing to tell by.
    double noise = 2 * hypot(early.error, late.error);
    double share = 100 * (late.mean / early.mean - 1);
    bool moved = fabs(late.mean - early.mean) > noise;
    bool fell = moved && late.mean < early.mean;
    if (!run->has_log) return;
    (void)of_run(who, run, count);
    if (isfinite(share)) (void)snprintf(change, sizeof change, " (%+.1f %%)", share);
    if (isnan(early.mean) || isnan(late.mean)) {
        bool few = run->log.steps < 2;
        mt_page_finding(page, few ? MT_TONE_OPEN : MT_TONE_BAD, "Whether the loss fell is not known.",
                        "%s%s.", who,
                        few ? "the log has one step" : "the first or the last steps have no finite loss");
        judge_evaluations(page, run, who);
        return;
    }
    const char *headline =
        !moved ? "The loss did not move beyond its noise." : (fell ? "The loss fell." : "The loss rose.");
    if (isnan(noise)) headline = "Too few steps to tell whether the loss fell.";
    mt_page_finding(page, !moved ? MT_TONE_OPEN : (fell ? MT_TONE_GOOD : MT_TONE_BAD), headline,
                    "%s$L_h$ went from %s in the first steps to %s in the last%s.", who,
                    with_error(from, &early), with_error(to, &late), change);
    judge_evaluations(page, run, who);
}

// ------------------------------------------------------------------ balance

/* Experts of a layer that served nothing in the last tenth of the steps, over all layers. */
static size_t idle_experts(const struct mt_run *run)
{
    size_t idle = 0;
    for (size_t i = 0; i < run->log.layers * run->log.experts; i++) idle += run->log.load[i] == 0 ? 1 : 0;
    return idle;
}

static void judge_balance(struct mt_page *page, const struct mt_run *run, size_t count)
{
    char who[MT_REPORT_NAME_BYTES];
    double early = stretch_of(run, MT_RUN_MAX_VIOLATION, false).mean;
    double late = mt_run_late_mean(run, MT_RUN_MAX_VIOLATION);
    size_t idle = run->log.load != NULL ? idle_experts(run) : 0;
    if (!run->has_log || isnan(late)) return;
    bool even = late <= EVEN && idle == 0;
    char start[64] = "";
    if (!isnan(early)) (void)snprintf(start, sizeof start, ", %.3g at the start", early);
    mt_page_finding(
        page, even ? MT_TONE_GOOD : (idle > 0 || late > early * (1 + SEEN) ? MT_TONE_BAD : MT_TONE_OPEN),
        even ? "Routing is balanced." : (idle > 0 ? "Some experts are idle." : "Routing is uneven."),
        "%sthe busiest expert of a layer serves %.2f times its fair share (MaxVio %.3g%s)%s%s%s.",
        of_run(who, run, count), 1 + late, late, start, idle > 0 ? "; " : "",
        idle > 0 ? mt_counted(idle, "expert", "experts").text : "",
        idle > 0 ? " of all layers served nothing in the last tenth of the steps" : "");
}

// ------------------------------------------------------------------ concentration

/* A number of the settings; 0 where there is none. */
static double setting_of(const struct mt_run *run, const char *key)
{
    const char *text = mt_run_setting(run, key);
    return text != NULL ? strtod(text, NULL) : 0;
}

/* A run whose tokens drifted towards one expert: of the steps at the end, beside the first that is known. */
static void judge_concentration(struct mt_page *page, const struct mt_run *run, size_t count)
{
    char who[MT_REPORT_NAME_BYTES], why[MT_CONCENTRATION_TEXT_BYTES], headline[96];
    char paid[MT_NUMBER_BYTES] = "several";
    double slots = mt_run_first(run, MT_RUN_SLOTS);
    double start = mt_run_first(run, MT_RUN_EFFECTIVE_EXPERTS);
    double late = mt_run_late_mean(run, MT_RUN_EFFECTIVE_EXPERTS);
    if (!run->has_log || !mt_concentration_is_drift(start, late)) return;
    const char *brake = mt_run_setting(run, "objective.brake");
    const struct mt_concentration_cause cause = {.gamma = setting_of(run, "objective.gamma"),
                                                 .target = brake != NULL && strcmp(brake, "target") == 0,
                                                 .lambda_cp = setting_of(run, "objective.lambda_cp")};
    mt_concentration_text(start, late, &cause, why);
    if (!isnan(slots)) (void)snprintf(paid, sizeof paid, "%.0f", slots);
    (void)snprintf(headline, sizeof headline, "One expert works where %s are paid for.", paid);
    mt_page_finding(page, MT_TONE_BAD, headline, "%s%s.", of_run(who, run, count), why);
}

// ------------------------------------------------------------------ specialisation

/* A mean over layers of all data; NaN: not measured. */
static double analysed(struct mt_page *page, const struct mt_run *run, const char *name)
{
    struct mt_json_node overall;
    struct mt_json_node mean;
    if (run->analysis.root == NULL) return (double)NAN;
    struct mt_json_node root = mt_json_root(&run->analysis);
    if (!mt_page_check(page, mt_json_get_object(&root, "overall", &overall))) return (double)NAN;
    if (!mt_page_check(page, mt_json_get_object(&overall, "mean", &mean))) return (double)NAN;
    return mt_report_number(page, &mean, name);
}

static void judge_specialisation(struct mt_page *page, const struct mt_run *run, size_t count)
{
    char who[MT_REPORT_NAME_BYTES], number[2][MT_NUMBER_BYTES], by_chance[64] = "";
    double overlap = analysed(page, run, "overlap_in");
    double silhouette = analysed(page, run, "silhouette_in");
    if (isnan(overlap)) {
        if (count == 1)
            mt_page_finding(page, MT_TONE_OPEN, "Whether experts specialise is not measured.",
                            "metier analyze --model DIR --data FILE --out RUN does.");
        return;
    }
    struct mt_json_node root = mt_json_root(&run->analysis);
    double experts = mt_report_number(page, &root, "experts");
    double chance = experts > 1 ? 1 - 1 / experts : (double)NAN;
    bool apart = overlap < FEW_OVERLAP * chance;
    if (!isnan(chance))
        (void)snprintf(by_chance, sizeof by_chance, ", where chance would send %.0f %%", 100 * chance);
    mt_page_finding(page, apart ? MT_TONE_GOOD : MT_TONE_OPEN,
                    apart ? "Experts have their own inputs." : "Experts share their inputs.",
                    "%sof a token's nearest neighbours %.0f %% go to another expert first%s; silhouette %s; "
                    "|cos| between a token's expert outputs %s.",
                    of_run(who, run, count), 100 * overlap, by_chance, digits(number[0], silhouette),
                    digits(number[1], analysed(page, run, "abs_cos")));
}

// ------------------------------------------------------------------ terms

static void judge_terms(struct mt_page *page, const struct mt_run *run, size_t count)
{
    char who[MT_REPORT_NAME_BYTES];
    char alive[256] = "";
    char dead[256] = "";
    bool on = false;
    double whole = mt_run_late_mean(run, MT_RUN_GRADIENT_NORM);
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        double pull = mt_run_late_mean(run, MT_RUN_GRADIENT + term);
        if (!run->has_log || isnan(mt_run_late_mean(run, MT_RUN_TERM + term))) continue;
        on = true;
        if (isnan(pull)) continue;
        char *list = pull > (isnan(whole) ? 0 : WORTH * whole) ? alive : dead;
        size_t length = strlen(list);
        (void)snprintf(list + length, sizeof alive - length, "%sL_%s (%.2g)", length > 0 ? ", " : "",
                       mt_term_name((enum mt_term)term), pull);
    }
    if (dead[0] != '\0')
        mt_page_finding(page, MT_TONE_BAD, "A term does nothing.",
                        "%sgradient norms in the last tenth: %s%s%s.", of_run(who, run, count), dead,
                        alive[0] != '\0' ? "; alive: " : "", alive);
    else if (alive[0] != '\0')
        mt_page_finding(page, MT_TONE_GOOD, "Every term is alive.",
                        "%snorms of their gradients in the last tenth of the steps: %s.",
                        of_run(who, run, count), alive);
    else if (on && count == 1)
        mt_page_finding(page, MT_TONE_OPEN, "Whether every term pulls is not measured.",
                        "The key log.measure_every makes metier train look at their gradients.");
}

// ------------------------------------------------------------------ several runs

/* What runs are held against each other by: the lowest held-out loss, or the training loss. */
static double score_of(const struct mt_run *run, bool held_out)
{
    if (!run->has_log) return (double)NAN;
    return held_out ? lowest_evaluation(run) : mt_run_late_mean(run, MT_RUN_TASK);
}

static void judge_runs(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    char number[4][MT_NUMBER_BYTES];
    bool held_out = true;
    size_t best = 0;
    for (size_t r = 0; r < count; r++) held_out &= runs[r].log.evaluations > 0;
    for (size_t r = 1; r < count; r++) {
        double score = score_of(&runs[r], held_out);
        if (score < score_of(&runs[best], held_out) || isnan(score_of(&runs[best], held_out))) best = r;
    }
    double score = score_of(&runs[best], held_out);
    if (isnan(score)) return;
    for (size_t r = 0; r < count; r++) {
        double other = score_of(&runs[r], held_out);
        if (r == best || isnan(other)) continue;
        mt_page_finding(page, MT_TONE_PLAIN,
                        r == 0 || (best == 0 && r == 1) ? "One is ahead." : "And of the others:",
                        "%.140s has the lower %s: %.4g, %.4g below %.140s; MaxVio %s against %s, %s s a "
                        "step against %s. One run each: the difference may be chance.",
                        runs[best].name, held_out ? "held-out loss" : "training loss", score, other - score,
                        runs[r].name, digits(number[0], mt_run_late_mean(&runs[best], MT_RUN_MAX_VIOLATION)),
                        digits(number[1], mt_run_late_mean(&runs[r], MT_RUN_MAX_VIOLATION)),
                        digits(number[2], mt_run_seconds_per_step(&runs[best])),
                        digits(number[3], mt_run_seconds_per_step(&runs[r])));
    }
}

static const struct mt_run_result *find(const struct mt_run *run, const struct mt_run_result *wanted)
{
    for (const struct mt_run_result *one = run->results; one != NULL; one = one->next) {
        if (strcmp(one->task, wanted->task) == 0 && strcmp(one->metric, wanted->metric) == 0) return one;
    }
    return NULL;
}

/* Figures of tasks that differ from the first run's by more than chance, counted. */
static void judge_tasks(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    for (size_t r = 1; r < count; r++) {
        size_t higher = 0;
        size_t lower = 0;
        size_t all = 0;
        for (const struct mt_run_result *one = runs[r].results; one != NULL; one = one->next) {
            const struct mt_run_result *base = find(&runs[0], one);
            if (base == NULL || isnan(one->value) || isnan(base->value)) continue;
            double error = DEVIATIONS * hypot(one->error, base->error);
            all++;
            higher += one->value - base->value > error ? 1 : 0;
            lower += base->value - one->value > error ? 1 : 0;
        }
        if (all == 0) continue;
        mt_page_finding(page, higher + lower == 0 ? MT_TONE_OPEN : MT_TONE_PLAIN,
                        "On benchmarks:", "of %s %.140s is above %.140s beyond chance in %zu, below in %zu.",
                        mt_counted(all, "figure", "figures").text, runs[r].name, runs[0].name, higher, lower);
    }
}

// ------------------------------------------------------------------ the picture

/* Loss and balance over time, of all runs. */
static void add_picture(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *figure =
        mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_LINES,
                                                      .title = "Loss and balance",
                                                      .meaning = "Lower is better in all of them.",
                                                      .series = "run",
                                                      .x = "step",
                                                      .y = "value",
                                                      .panel = "figure"});
    static const struct {
        int value;
        const char *title;
    } panels[] = {{MT_RUN_TASK, "training loss"}, {MT_RUN_MAX_VIOLATION, "MaxVio"}};
    for (size_t p = 0; p < sizeof panels / sizeof panels[0]; p++) {
        mt_figure_panel(figure, panels[p].title);
        for (size_t r = 0; r < count; r++) {
            for (size_t i = 0; i < runs[r].log.steps; i++) {
                double y = mt_run_at(&runs[r], i, panels[p].value);
                if (!isnan(y)) mt_figure_point(figure, runs[r].name, mt_run_at(&runs[r], i, MT_RUN_STEP), y);
            }
        }
    }
    mt_figure_panel(figure, "held-out loss");
    for (size_t r = 0; r < count; r++) {
        for (size_t i = 0; i < runs[r].log.evaluations; i++)
            mt_figure_point(figure, runs[r].name, runs[r].log.evaluation[3 * i],
                            runs[r].log.evaluation[3 * i + 1]);
    }
}

/* A task that was not put as the run was trained; the first stands for those that follow. */
static void judge_forms(struct mt_page *page, const struct mt_run *run, size_t count)
{
    char who[MT_REPORT_NAME_BYTES];
    const char *before = "";
    for (const struct mt_run_result *one = run->results; one != NULL; one = one->next) {
        if (one->warning == NULL || strcmp(before, one->warning) == 0) continue;
        mt_page_finding(page, MT_TONE_OPEN, "Asked in another form than trained.", "%s%.100s is %.500s.",
                        of_run(who, run, count), one->task, one->warning);
        before = one->warning;
    }
}

void mt_report_verdict(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    bool logged = false;
    for (size_t r = 0; r < count; r++) logged |= runs[r].has_log;
    mt_page_verdict(page, "Verdict");
    if (count > 1) judge_runs(page, runs, count);
    judge_tasks(page, runs, count);
    for (size_t r = 0; r < count; r++) judge_forms(page, &runs[r], count);
    for (size_t r = 0; r < count; r++) judge_loss(page, &runs[r], count);
    for (size_t r = 0; r < count; r++) judge_balance(page, &runs[r], count);
    for (size_t r = 0; r < count; r++) judge_concentration(page, &runs[r], count);
    for (size_t r = 0; r < count; r++) judge_specialisation(page, &runs[r], count);
    for (size_t r = 0; r < count; r++) judge_terms(page, &runs[r], count);
    for (size_t r = 0; r < count; r++) {
        if (runs[r].log.warnings > 0)
            mt_page_finding(page, MT_TONE_BAD, "The log has warnings.", "%.140s: %s%.600s", runs[r].name,
                            mt_counted(runs[r].log.warnings, "warning: ", "warnings; the last: ").text,
                            runs[r].log.warning);
        if (runs[r].log.note != NULL)
            mt_page_finding(page, MT_TONE_PLAIN, "Long rows were cut.", "%.140s: %.600s.", runs[r].name,
                            runs[r].log.note);
    }
    if (!logged)
        mt_page_finding(page, MT_TONE_OPEN, "Training is not logged here.",
                        "metier train writes metrics.jsonl into the folder of a run.");
    if (logged) add_picture(page, runs, count);
}
