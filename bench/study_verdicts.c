/*
 * Verdicts of study 2 by the rules of docs/lab/study2.md, as Markdown.
 * It reads the compare.json files of the study's parts. scripts/docs/study2 calls it. A method's name says
 * its setting: "lora-paper", "first-metier".
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/stats.h"
#include "formats/text/json.h"

#define MOST_CELLS 2048
#define MOST_SEEDS 64
#define NAME_BYTES 48
#define QUESTIONS  4
#define PAYS       2.0    // points that PAY has to exceed
#define CONFIDENCE 0.9875 // of one-sided bounds: 0.95 with Bonferroni over the four questions
#define DOMAINS    5
#define SEEDS      6 // of a question: no verdict before all are there

static const char *const shapes[] = {"deepseek-v2", "qwen3-moe"};
static const char *const domains[DOMAINS] = {"language", "reasoning", "science", "math", "code"};

/* What a cell gave, in points; NaN: not asked. */
enum figure {
    OWN,
    MIX,
    OTHER,
    ALL,
    OWN_HALF,
    USE,
    MEAN,
    EASY,
    SLOTS,
    SILENT,
    UNION,
    EFFECTIVE,
    MAXVIO,
    MISSES,
    FIGURES
};

static const struct source {
    const char *title;
    const char *path[3]; // members of a cell, from the outside in
    double scale;
} sources[FIGURES] = {
    [OWN] = {"own", {"pruned", "reap_own_25%", "accuracy"}, 100.0},
    [MIX] = {"mix", {"pruned", "reap_mix_25%", "accuracy"}, 100.0},
    [OTHER] = {"other", {"pruned", "reap_other_25%", "accuracy"}, 100.0},
    [ALL] = {"all experts", {"figures", "accuracy", NULL}, 100.0},
    [OWN_HALF] = {"own, 16 kept", {"pruned", "reap_own_50%", "accuracy"}, 100.0},
    [USE] = {"by use", {"pruned", "use_own_25%", "accuracy"}, 100.0},
    [MEAN] = {"by mean", {"pruned", "mean_own_25%", "accuracy"}, 100.0},
    [EASY] = {"by easy-ep", {"pruned", "easy-ep_own_25%", "accuracy"}, 100.0},
    [SLOTS] = {"2 a token", {"experts_per_token", "2", "accuracy"}, 100.0},
    [SILENT] = {"silenced", {"silenced", "routed", "accuracy"}, 100.0},
    [UNION] = {"union of 8", {"pruned", "reap_own_25%", "union"}, 1.0},
    [EFFECTIVE] = {"effective experts", {"figures", "effective_experts", NULL}, 1.0},
    [MAXVIO] = {"MaxVio", {"figures", "maxvio_mix", NULL}, 1.0},
    [MISSES] = {"LRU misses", {"cache", "8", "lru"}, 1.0},
};

struct cell {
    char model[NAME_BYTES];
    char method[NAME_BYTES]; // "base of lora-aux": before training
    int64_t seed;
    double figure[FIGURES];
    double own[DOMAINS], all[DOMAINS]; // by domain, in points: with 8 experts, with all
    double loss, loss_withheld;
};

struct study {
    struct cell cell[MOST_CELLS];
    size_t cells;
};

// ------------------------------------------------------------------ reading

/* A number at a path of members; NaN where there is none. */
static double number_at(const struct mt_json_node *cell, const char *const path[3], double scale)
{
    struct mt_json_node node[4];
    double value = (double)NAN;
    int depth = 0;
    node[0] = *cell;
    while (depth < 3 && path[depth] != NULL) {
        if (mt_json_kind(&node[depth]) != MT_JSON_OBJECT ||
            !mt_json_member(&node[depth], path[depth], &node[depth + 1]))
            return value;
        depth++;
    }
    if (mt_json_kind(&node[depth]) == MT_JSON_NULL) return value;
    return mt_json_as_real(&node[depth], -HUGE_VAL, HUGE_VAL, &value) == MT_OK ? scale * value : (double)NAN;
}

static double own_of(const struct mt_json_node *cell, const char *domain)
{
    struct mt_json_node pruned, kept, by_domain;
    if (!mt_json_member(cell, "pruned", &pruned) || !mt_json_member(&pruned, "reap_own_25%", &kept) ||
        !mt_json_member(&kept, "domains", &by_domain))
        return number_at(cell, (const char *const[3]){"accuracy", domain, NULL}, 100.0);
    return number_at(&by_domain, (const char *const[3]){domain, "accuracy", NULL}, 100.0);
}

/* A cell that is there twice would count twice. A base is there once in every file. */
static enum mt_status check_new(const struct mt_json_node *node, const struct study *study)
{
    const struct cell *cell = &study->cell[study->cells];
    for (size_t i = 0; i < study->cells && strncmp(cell->method, "base ", 5) != 0; i++) {
        const struct cell *other = &study->cell[i];
        if (other->seed == cell->seed && strcmp(other->model, cell->model) == 0 &&
            strcmp(other->method, cell->method) == 0)
            return mt_json_fail(node, "is %s of %s with seed %" PRId64 " a second time", cell->method,
                                cell->model, cell->seed);
    }
    return MT_OK;
}

/* base: the reference of the comparison whose base it is; NULL of a cell. */
static enum mt_status read_cell(const struct mt_json_node *node, const char *base, struct cell *cell)
{
    const char *model = NULL;
    const char *method = base;
    enum mt_status status = mt_json_get_string(node, "model", &model);
    if (status == MT_OK && base == NULL) status = mt_json_get_string(node, "method", &method);
    if (status == MT_OK && base == NULL)
        status = mt_json_get_integer(node, "seed", 0, INT64_MAX, &cell->seed);
    if (status != MT_OK) return status;
    (void)snprintf(cell->model, sizeof cell->model, "%s", model);
    (void)snprintf(cell->method, sizeof cell->method, "%s%s", base != NULL ? "base of " : "", method);
    for (int f = 0; f < FIGURES; f++) cell->figure[f] = number_at(node, sources[f].path, sources[f].scale);
    for (int d = 0; d < DOMAINS; d++) {
        cell->own[d] = own_of(node, domains[d]);
        cell->all[d] = number_at(node, (const char *const[3]){"accuracy", domains[d], NULL}, 100.0);
    }
    // A model that was made smaller before training has nothing left to take away.
    if (isnan(cell->figure[OWN])) cell->figure[OWN] = cell->figure[ALL];
    cell->loss = number_at(node, (const char *const[3]){"figures", "loss", NULL}, 1.0);
    cell->loss_withheld = number_at(node, (const char *const[3]){"loss", "science", NULL}, 1.0);
    return MT_OK;
}

static enum mt_status read_list(const struct mt_json_node *root, const char *key, const char *base,
                                struct study *study)
{
    struct mt_json_node list;
    bool present = false;
    enum mt_status status = mt_json_optional_array(root, key, &list, &present);
    for (size_t i = 0; status == MT_OK && present && i < mt_json_count(&list); i++) {
        struct mt_json_node node = mt_json_element(&list, i);
        bool known = true;
        status = mt_json_optional_bool(&node, "known", &known);
        if (status != MT_OK || !known) continue; // the verdicts say how many seeds there are
        if (study->cells == MOST_CELLS) return mt_json_fail(&node, "is one cell too many");
        study->cell[study->cells] = (struct cell){0};
        status = read_cell(&node, base, &study->cell[study->cells]);
        if (status == MT_OK) status = check_new(&node, study);
        study->cells++;
    }
    return status;
}

static enum mt_status read_file(struct mt_context *ctx, const char *path, struct study *study)
{
    struct mt_json json = {0};
    enum mt_status status = mt_json_read(ctx, path, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    const char *reference = NULL;
    status = mt_json_get_string(&root, "reference", &reference);
    if (status == MT_OK) status = read_list(&root, "base", reference, study);
    if (status == MT_OK) status = read_list(&root, "cells", NULL, study);
    mt_json_free(&json);
    return status;
}

// ------------------------------------------------------------------ pairs

static const struct cell *find(const struct study *study, const char *model, const char *method, int64_t seed)
{
    for (size_t i = 0; i < study->cells; i++) {
        const struct cell *cell = &study->cell[i];
        bool same = strcmp(cell->model, model) == 0 && strcmp(cell->method, method) == 0;
        if (same && (seed < 0 || cell->seed == seed)) return cell;
    }
    return NULL;
}

/* Differences of one figure, and of own − mix. */
struct pairs {
    double value[MOST_SEEDS], spec[MOST_SEEDS];
    size_t count;
};

static struct pairs pairs_of(const struct study *study, const char *model, const char *method,
                             const char *reference, enum figure figure)
{
    struct pairs pairs = {.count = 0};
    for (size_t i = 0; i < study->cells && pairs.count < MOST_SEEDS; i++) {
        const struct cell *cell = &study->cell[i];
        if (strcmp(cell->model, model) != 0 || strcmp(cell->method, method) != 0) continue;
        const struct cell *other = find(study, model, reference, cell->seed);
        if (other == NULL || isnan(cell->figure[figure] - other->figure[figure])) continue;
        pairs.value[pairs.count] = cell->figure[figure] - other->figure[figure];
        pairs.spec[pairs.count++] =
            (cell->figure[OWN] - cell->figure[MIX]) - (other->figure[OWN] - other->figure[MIX]);
    }
    return pairs;
}

/* t with P(T <= t) = q, q above one half. */
static double student_quantile(double q, double freedom)
{
    double low = 0.0;
    double high = 1e6;
    for (int i = 0; i < 200; i++) {
        double middle = 0.5 * (low + high);
        *(mt_student_two_sided(middle, freedom) > 2.0 * (1.0 - q) ? &low : &high) = middle;
    }
    return low;
}

struct bound {
    double mean, low, high; // one-sided bounds each
    double p;               // one-sided, of mean <= PAYS
    size_t count;
};

static struct bound bound_of(const double *value, size_t count, double confidence)
{
    struct mt_moments moments = mt_moments(value, count);
    struct bound bound = {(double)NAN, (double)NAN, (double)NAN, (double)NAN, count};
    bound.mean = moments.mean;
    if (count < MT_LEAST_PAIRS) return bound;
    double error = moments.deviation / sqrt((double)count);
    double freedom = (double)count - 1.0;
    double half = student_quantile(confidence, freedom) * error;
    double t = (moments.mean - PAYS) / error;
    double tail = 0.5 * mt_student_two_sided(t, freedom);
    bound.low = moments.mean - half;
    bound.high = moments.mean + half;
    bound.p = t > 0.0 ? tail : 1.0 - tail;
    return bound;
}

// ------------------------------------------------------------------ gates

static double mean_over(const struct study *study, const char *model, const char *method, size_t offset)
{
    double sum = 0.0;
    size_t count = 0;
    for (size_t i = 0; i < study->cells; i++) {
        const struct cell *cell = &study->cell[i];
        if (strcmp(cell->model, model) != 0 || strcmp(cell->method, method) != 0) continue;
        sum += *(const double *)(const void *)((const char *)cell + offset);
        count++;
    }
    return count > 0 ? sum / (double)count : (double)NAN;
}

#define AT(field) offsetof(struct cell, field)

/* A row of the gates: `measure` has to be at least `least`; NaN: nobody knows it yet. */
static void print_gate(const char *what, const char *model, const char *figure, double measure, double least)
{
    const char *verdict = isnan(measure) ? "not measured yet" : measure >= least ? "holds" : "**fails**";
    printf("| %s | %s | %s | %s |\n", what, model, isnan(measure) ? "–" : figure, verdict);
}

/* L_h before and after: has to fall by a share. */
static void print_fall(const char *what, const char *model, double before, double after, double share)
{
    char figure[64];
    (void)snprintf(figure, sizeof figure, "%.3f → %.3f", before, after);
    print_gate(what, model, figure, 1.0 - after / before, share);
}

/* Two-sided half-width of aux − none, as it is with six seeds. */
static double half_width(const struct study *study, const char *model, const char *aux, const char *none)
{
    struct pairs pairs = pairs_of(study, model, aux, none, OWN);
    struct mt_moments moments = mt_moments(pairs.value, pairs.count);
    return pairs.count < MT_LEAST_PAIRS ? (double)NAN
                                        : student_quantile(0.975, 5.0) * moments.deviation / sqrt(6.0);
}

static void print_gates(const struct study *study)
{
    printf("| gate | shape | figure | |\n|---|---|---|---|\n");
    for (int s = 0; s < 2; s++) {
        const char *model = shapes[s];
        print_fall("L_h of the mix, LoRA", model, mean_over(study, model, "base of lora-aux", AT(loss)),
                   mean_over(study, model, "lora-aux", AT(loss)), 0.1);
        print_fall("L_h of science, LoRA", model,
                   mean_over(study, model, "base of lora-aux", AT(loss_withheld)),
                   mean_over(study, model, "lora-aux", AT(loss_withheld)), 0.5);
        for (int setting = 0; setting < 2; setting++) {
            const char *aux = setting == 0 ? "lora-aux" : "first-aux";
            char what[64], figure[64];
            double cost = mean_over(study, model, aux, AT(figure[ALL])) -
                          mean_over(study, model, aux, AT(figure[SILENT]));
            (void)snprintf(what, sizeof what, "silenced experts cost, %s", aux);
            (void)snprintf(figure, sizeof figure, "%.1f points", cost);
            print_gate(what, model, figure, cost, 20.0);
            if (setting == 1 && s == 1) continue; // from the first step aux − none is of one shape
            double half = half_width(study, model, aux, setting == 0 ? "lora-none" : "first-none");
            (void)snprintf(what, sizeof what, "half-width of aux − none, %s", aux);
            (void)snprintf(figure, sizeof figure, "%.2f points", half);
            print_gate(what, model, figure, -half, -2.0);
        }
    }
    printf("\nNo row that a base has read: `metier compare` draws others, or refuses.\n");
}

// ------------------------------------------------------------------ verdicts

static const struct arm {
    const char *method, *reference;
    const char *control[3];
} arms[2] = {
    {"lora-paper", "lora-aux", {"lora-aux-k1", "lora-pruned", NULL}},
    {"first-metier", "first-aux", {"first-aux-k1", NULL, NULL}},
};

struct answer {
    struct bound pay, all, spec, control[3];
};

static struct answer answer_of(const struct study *study, const struct arm *arm, const char *model)
{
    struct answer answer = {0};
    struct pairs pay = pairs_of(study, model, arm->method, arm->reference, OWN);
    struct pairs all = pairs_of(study, model, arm->method, arm->reference, ALL);
    answer.pay = bound_of(pay.value, pay.count, CONFIDENCE);
    answer.spec = bound_of(pay.spec, pay.count, CONFIDENCE);
    answer.all = bound_of(all.value, all.count, CONFIDENCE);
    for (int c = 0; c < 3 && arm->control[c] != NULL; c++) {
        struct pairs control = pairs_of(study, model, arm->method, arm->control[c], OWN);
        answer.control[c] = bound_of(control.value, control.count, CONFIDENCE);
    }
    return answer;
}

static const char *verdict_of(const struct arm *arm, const struct answer answer[2])
{
    bool pays = true;
    bool specialised = true;
    bool none = true;
    for (int s = 0; s < 2; s++) {
        bool all = answer[s].pay.count == SEEDS && answer[s].all.count == SEEDS;
        for (int c = 0; c < 3 && arm->control[c] != NULL; c++)
            all = all && answer[s].control[c].count == SEEDS;
        if (!all) return "no verdict yet: not all seeds of both shapes and of the controls are there";
        pays = pays && answer[s].pay.low > PAYS && answer[s].all.low > -1.0;
        specialised = specialised && answer[s].spec.low > 1.0;
        for (int c = 0; c < 3 && arm->control[c] != NULL; c++)
            specialised = specialised && answer[s].control[c].low > 0.0;
        none = none && answer[s].pay.high < PAYS;
    }
    if (pays) return specialised ? "pays, by specialisation" : "pays, by concentration";
    return none ? "no payoff" : "open";
}

static void print_bound(const char *arm, const char *model, const char *what, const struct bound *bound,
                        double p)
{
    if (bound->count == 0) return;
    printf("| %s | %s | %s | %zu | %+.2f |", arm, model, what, bound->count, bound->mean);
    if (isnan(bound->low))
        printf(" – | – |");
    else
        printf(" %+.2f | %+.2f |", bound->low, bound->high);
    if (isnan(p))
        printf(" |\n");
    else
        printf(" %.2g |\n", p);
}

static void print_verdicts(const struct study *study)
{
    struct answer answer[2][2];
    double p[QUESTIONS], holm[QUESTIONS];
    for (int a = 0; a < 2; a++) {
        for (int s = 0; s < 2; s++) {
            answer[a][s] = answer_of(study, &arms[a], shapes[s]);
            p[2 * a + s] = answer[a][s].pay.p;
        }
    }
    mt_holm(p, QUESTIONS, holm);
    for (int a = 0; a < 2; a++) printf("- **`%s`: %s**\n", arms[a].method, verdict_of(&arms[a], answer[a]));
    printf("\n| arm | shape | difference | seeds | mean | lower | upper | p (Holm) of PAY ≤ 2 |\n"
           "|---|---|---|---:|---:|---:|---:|---:|\n");
    for (int a = 0; a < 2; a++) {
        for (int s = 0; s < 2; s++) {
            const struct answer *one = &answer[a][s];
            print_bound(arms[a].method, shapes[s], "PAY", &one->pay, holm[2 * a + s]);
            print_bound(arms[a].method, shapes[s], "SPEC", &one->spec, (double)NAN);
            print_bound(arms[a].method, shapes[s], "all experts", &one->all, (double)NAN);
            for (int c = 0; c < 3 && arms[a].control[c] != NULL; c++) {
                char title[NAME_BYTES + 16];
                (void)snprintf(title, sizeof title, "own − own of %s", arms[a].control[c]);
                print_bound(arms[a].method, shapes[s], title, &one->control[c], (double)NAN);
            }
        }
    }
}

// ------------------------------------------------------------------ everything else

/* Methods of a shape in the order they are first met. */
static bool is_first(const struct study *study, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(study->cell[i].model, study->cell[index].model) == 0 &&
            strcmp(study->cell[i].method, study->cell[index].method) == 0)
            return false;
    }
    return true;
}

static struct mt_moments moments_of(const struct study *study, const struct cell *like, size_t offset)
{
    double value[MOST_SEEDS];
    size_t count = 0;
    for (size_t i = 0; i < study->cells && count < MOST_SEEDS; i++) {
        const struct cell *cell = &study->cell[i];
        if (strcmp(cell->model, like->model) == 0 && strcmp(cell->method, like->method) == 0)
            value[count++] = *(const double *)(const void *)((const char *)cell + offset);
    }
    return mt_moments(value, count);
}

static void print_number(double value)
{
    if (isnan(value))
        printf(" – |");
    else
        printf(" %.*f |", fabs(value) < 10.0 ? 2 : 1, value);
}

static void print_figures(const struct study *study)
{
    printf("| shape | method | seeds |");
    for (int f = 0; f < FIGURES; f++) printf(" %s |", sources[f].title);
    printf("\n|---|---|---:|");
    for (int f = 0; f < FIGURES; f++) printf("---:|");
    printf("\n");
    for (size_t i = 0; i < study->cells; i++) {
        const struct cell *cell = &study->cell[i];
        if (!is_first(study, i)) continue;
        printf("| %s | %s | %zu |", cell->model, cell->method,
               moments_of(study, cell, AT(figure[ALL])).count);
        for (int f = 0; f < FIGURES; f++)
            print_number(moments_of(study, cell, AT(figure) + (size_t)f * sizeof(double)).mean);
        printf("\n");
    }
}

/* Every method's paired differences to its setting's aux, with 95 % intervals. */
static void print_differences(const struct study *study)
{
    static const enum figure shown[] = {OWN, MIX, ALL, OWN_HALF, OTHER, SLOTS};
    size_t count = sizeof shown / sizeof shown[0];
    printf("| shape | method |");
    for (size_t f = 0; f < count; f++) printf(" Δ %s |", sources[shown[f]].title);
    printf("\n|---|---|");
    for (size_t f = 0; f < count; f++) printf("---:|");
    printf("\n");
    for (size_t i = 0; i < study->cells; i++) {
        const struct cell *cell = &study->cell[i];
        char reference[NAME_BYTES];
        (void)snprintf(reference, sizeof reference, "%.*s-aux", (int)strcspn(cell->method, "-"),
                       cell->method);
        bool other = strcmp(cell->method, reference) != 0 && strncmp(cell->method, "base ", 5) != 0;
        if (!other || !is_first(study, i)) continue;
        printf("| %s | %s |", cell->model, cell->method);
        for (size_t f = 0; f < count; f++) {
            struct pairs pairs = pairs_of(study, cell->model, cell->method, reference, shown[f]);
            struct bound bound = bound_of(pairs.value, pairs.count, 0.975);
            if (pairs.count == 0)
                printf(" – |");
            else if (isnan(bound.low))
                printf(" %+.1f |", bound.mean);
            else
                printf(" %+.1f (%+.1f to %+.1f) |", bound.mean, bound.low, bound.high);
        }
        printf("\n");
    }
}

/* offset: of the first domain's figure in a cell. */
static void print_domains(const struct study *study, size_t offset)
{
    printf("| shape | method |");
    for (int d = 0; d < DOMAINS; d++) printf(" %s |", domains[d]);
    printf("\n|---|---|");
    for (int d = 0; d < DOMAINS; d++) printf("---:|");
    printf("\n");
    for (size_t i = 0; i < study->cells; i++) {
        const struct cell *cell = &study->cell[i];
        if (!is_first(study, i)) continue;
        printf("| %s | %s |", cell->model, cell->method);
        for (int d = 0; d < DOMAINS; d++)
            print_number(moments_of(study, cell, offset + (size_t)d * sizeof(double)).mean);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    static struct study study;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (int i = 1; i < argc; i++) {
        if (read_file(&ctx, argv[i], &study) == MT_OK) continue;
        (void)fprintf(stderr, "study_verdicts: %s\n", ctx.message);
        return 1;
    }
    if (study.cells == 0) {
        (void)fprintf(stderr, "usage: study_verdicts COMPARE.json...\n");
        return 2;
    }
    printf("### Gates\n\n");
    print_gates(&study);
    printf("\n### Verdicts\n\n");
    print_verdicts(&study);
    printf("\n### Differences to `aux` of the same setting, points, 95 %% intervals\n\n");
    print_differences(&study);
    printf("\n### Means over seeds\n\n");
    print_figures(&study);
    printf("\n### Exact answers by domain, 8 of 32 experts, chosen for the domain\n\n");
    print_domains(&study, AT(own));
    printf("\n### Exact answers by domain, all experts\n\n");
    print_domains(&study, AT(all));
    return 0;
}
