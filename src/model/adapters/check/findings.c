/*
 * What can be wrong with an adapter: a function and a row each. A function writes the sentence and says
 * whether it applies. docs/adapters.md has the table.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "formats/text/printable.h"
#include "model/adapters/check/check_parts.h"

#define ENORMOUS    3.0  // times the weight it is added to
#define LOST_ROWS   0.45 // of B's rows, of a pair that lost some
#define LOST_PAIRS  0.5  // of all pairs
#define STILL_SHARE 0.5  // of the experts

typedef bool find_function(const struct mt_checked_adapter *checked, struct mt_finding *finding);

static bool say(struct mt_finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool say(struct mt_finding *finding, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
    return true;
}

/* Pairs for which something holds, and the first of them. */
struct counted {
    size_t count;
    const struct mt_checked_pair *first;
};

static struct counted count_pairs(const struct mt_checked_adapter *checked,
                                  bool (*holds)(const struct mt_checked_pair *pair))
{
    struct counted counted = {0};
    for (size_t i = 0; i < checked->pair_count; i++) {
        if (!holds(&checked->pair[i])) continue;
        if (counted.count++ == 0) counted.first = &checked->pair[i];
    }
    return counted;
}

static struct mt_counted pairs_of(struct counted counted)
{
    return mt_counted(counted.count, "pair", "pairs");
}

// ------------------------------------------------------------------ names

static bool is_nowhere(const struct mt_checked_pair *pair)
{
    return pair->kind == MT_CHECKED_NOWHERE;
}

static bool find_unknown(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    struct counted found = count_pairs(checked, is_nowhere);
    if (found.count == 0) return false;
    return say(finding, "%s of %zu %s for a module that the base does not have: %s", pairs_of(found).text,
               checked->pair_count, found.count == 1 ? "is" : "are", mt_printable(found.first->name).text);
}

static bool is_renamed(const struct mt_checked_pair *pair)
{
    return pair->renamed;
}

static bool find_renamed(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    struct counted found = count_pairs(checked, is_renamed);
    if (found.count == 0) return false;
    return say(finding, "%s of %zu %s another name than the base: %s is %s there", pairs_of(found).text,
               checked->pair_count, found.count == 1 ? "has" : "have", mt_printable(found.first->name).text,
               found.first->module);
}

static bool find_stray(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    if (checked->stray_count == 0) return false;
    return say(finding, "%s no part of a LoRA pair: %s",
               mt_counted(checked->stray_count, "tensor of the file is", "tensors of the file are").text,
               mt_printable(checked->stray[0]).text);
}

static bool is_half(const struct mt_checked_pair *pair)
{
    return pair->a == NULL || pair->b == NULL;
}

static bool find_half(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    struct counted found = count_pairs(checked, is_half);
    if (found.count == 0) return false;
    return say(finding, "%s only one of lora_A and lora_B: %s",
               mt_counted(found.count, "module has", "modules have").text,
               mt_printable(found.first->name).text);
}

static bool is_twice(const struct mt_checked_pair *pair)
{
    return pair->twice;
}

static bool find_twice(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    struct counted found = count_pairs(checked, is_twice);
    if (found.count == 0) return false;
    return say(finding, "%s more than one pair: %s",
               mt_counted(found.count, "module has", "modules have").text, found.first->module);
}

// ------------------------------------------------------------------ shapes, ranks

static bool is_misshapen(const struct mt_checked_pair *pair)
{
    return pair->kind != MT_CHECKED_NOWHERE && pair->a != NULL && pair->b != NULL && !pair->fits;
}

static bool find_shape(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    struct counted found = count_pairs(checked, is_misshapen);
    if (found.count == 0) return false;
    const struct mt_checked_pair *pair = found.first;
    char want[96] = "";
    if (pair->experts == 1)
        (void)snprintf(want, sizeof want, ", the base's weight is [%lld, %lld]", (long long)pair->out,
                       (long long)pair->in);
    else
        (void)snprintf(want, sizeof want, ", which fits neither stack of %lld experts of the base",
                       (long long)pair->experts);
    return say(finding, "%s a shape that does not fit: %s has lora_A %s and lora_B %s%s",
               mt_counted(found.count, "pair has", "pairs have").text, mt_printable(pair->name).text,
               mt_safetensors_shape(pair->a->rank, pair->a->dim).text,
               mt_safetensors_shape(pair->b->rank, pair->b->dim).text, want);
}

static bool is_swapped(const struct mt_checked_pair *pair)
{
    return pair->swapped;
}

static bool find_swapped(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    struct counted found = count_pairs(checked, is_swapped);
    if (found.count == 0) return false;
    return say(finding,
               "%s in and out exchanged, as PEFT before 0.19 wrote them: lora_A of %s is %s, and later "
               "versions have the weight's in there",
               mt_counted(found.count, "stack of experts has", "stacks of experts have").text,
               mt_printable(found.first->name).text,
               mt_safetensors_shape(found.first->a->rank, found.first->a->dim).text);
}

static bool has_other_rank(const struct mt_checked_pair *pair)
{
    return pair->fits && pair->rank != pair->config_rank;
}

static bool find_rank(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    struct counted found = count_pairs(checked, has_other_rank);
    if (found.count == 0) return false;
    return say(finding, "%s another rank than adapter_config.json says: %s has %lld, the config says %lld",
               mt_counted(found.count, "pair has", "pairs have").text, mt_printable(found.first->name).text,
               (long long)found.first->rank, (long long)found.first->config_rank);
}

static bool find_pattern(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    const struct mt_adapter *read = &checked->read;
    size_t count = 0;
    size_t first = 0;
    for (size_t i = 0; i < read->ranks.count + read->alphas.count; i++) {
        if (checked->pattern_used[i]) continue;
        if (count++ == 0) first = i;
    }
    if (count == 0) return false;
    bool rank = first < read->ranks.count;
    const char *ending =
        rank ? read->ranks.pattern[first].ending : read->alphas.pattern[first - read->ranks.count].ending;
    return say(
        finding, "%s no pair: \"%s\" of %s",
        mt_counted(count, "pattern of adapter_config.json fits", "patterns of adapter_config.json fit").text,
        mt_printable(ending).text, rank ? "rank_pattern" : "alpha_pattern");
}

// ------------------------------------------------------------------ numbers

static bool is_not_finite(const struct mt_checked_pair *pair)
{
    return pair->numbers.not_finite > 0;
}

static bool find_not_finite(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    struct counted found = count_pairs(checked, is_not_finite);
    if (found.count == 0) return false;
    return say(finding, "%s numbers that are not finite: %s has %zu",
               mt_counted(found.count, "pair has", "pairs have").text, mt_printable(found.first->name).text,
               found.first->numbers.not_finite);
}

static bool is_enormous(const struct mt_checked_pair *pair)
{
    return pair->numbers.weight > 0.0 && pair->numbers.change > ENORMOUS * pair->numbers.weight;
}

static bool find_enormous(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    struct counted found = count_pairs(checked, is_enormous);
    if (found.count == 0) return false;
    const struct mt_checked_numbers *numbers = &found.first->numbers;
    return say(
        finding,
        "%s more than the weight it is added to: that of %s is %.3g times as large (alpha / r is %.3g)",
        mt_counted(found.count, "pair is much", "pairs are each much").text,
        mt_printable(found.first->name).text, numbers->change / numbers->weight, found.first->scale);
}

static bool fits(const struct mt_checked_pair *pair)
{
    return pair->fits;
}

static bool moves(const struct mt_checked_pair *pair)
{
    return pair->fits && !pair->numbers.zero;
}

static bool find_nothing(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    size_t fitting = count_pairs(checked, fits).count;
    if (checked->pair_count == 0) return say(finding, "the file has no LoRA pair");
    if (fitting == 0 || count_pairs(checked, moves).count > 0) return false;
    if (count_pairs(checked, is_not_finite).count > 0) return false;
    return say(finding, "lora_A or lora_B is zero in all of the %s that fit the base",
               mt_counted(fitting, "pair", "pairs").text);
}

/* Rows of lora_B that were lost when shards of it were saved as if they were all of it. */
static bool find_lost_rows(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    size_t pairs = 0;
    size_t lost = 0;
    const struct mt_checked_pair *first = NULL;
    for (size_t i = 0; i < checked->pair_count; i++) {
        const struct mt_checked_pair *pair = &checked->pair[i];
        const struct mt_checked_numbers *numbers = &pair->numbers;
        if (!pair->fits || numbers->rows < 2 || pair->part == MT_PART_ROUTER) continue;
        pairs++;
        if (numbers->zero || (double)numbers->zero_rows < LOST_ROWS * (double)numbers->rows) continue;
        if (lost++ == 0) first = pair;
    }
    if (lost == 0 || (double)lost < LOST_PAIRS * (double)pairs) return false;
    return say(
        finding,
        "lora_B of %zu of %s is zero in most of its rows: of %s, in %lld of %lld. One rank's shard was saved "
        "as if it were all of it",
        lost, mt_counted(pairs, "pair", "pairs").text, mt_printable(first->name).text,
        (long long)first->numbers.zero_rows, (long long)first->numbers.rows);
}

static bool find_still(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    int64_t learning = 0;
    int64_t still = 0;
    for (size_t i = 0; i < checked->pair_count; i++) {
        if (checked->pair[i].part != MT_PART_EXPERTS) continue;
        learning += checked->pair[i].numbers.learning;
        still += checked->pair[i].numbers.still;
    }
    if (still == 0 || still == learning || (double)still < STILL_SHARE * (double)learning) return false;
    return say(
        finding,
        "lora_B is zero in %lld of %lld expert pairs whose lora_A is not: those experts are the base's. "
        "Either only one rank's experts were saved after expert-parallel training, or no token reached them",
        (long long)still, (long long)learning);
}

// ------------------------------------------------------------------ experts

static bool is_routed(const struct mt_checked_pair *pair)
{
    return pair->part == MT_PART_EXPERTS && pair->kind != MT_CHECKED_NOWHERE;
}

static bool is_shared(const struct mt_checked_pair *pair)
{
    return pair->part == MT_PART_SHARED && pair->kind == MT_CHECKED_LINEAR;
}

static bool find_untrained(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    if (checked->asks_experts == NULL || mt_model_moe_layers(&checked->desc, NULL) == 0) return false;
    if (count_pairs(checked, is_routed).count > 0 || count_pairs(checked, is_nowhere).count > 0) return false;
    bool shared = count_pairs(checked, is_shared).count > 0;
    return say(
        finding,
        "adapter_config.json asks for %s, which the routed experts have, and no routed expert has a pair%s. "
        "transformers 5 stacks them, and PEFT passes over them without an error",
        mt_printable(checked->asks_experts).text, shared ? "; the shared experts have" : "");
}

static bool find_order(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    if (checked->order != MT_COLUMNS_BY_EXPERT) return false;
    if (checked->order_certain)
        return say(finding,
                   "the columns of lora_B of the stacked experts lie expert by expert; PEFT's order is rank "
                   "by rank, so every expert is given the columns of others");
    double alike[2] = {0.0, 0.0};
    size_t stacks = 0;
    for (size_t i = 0; i < checked->pair_count; i++) {
        if (checked->pair[i].alike_count == 0) continue;
        alike[0] += checked->pair[i].alike[0];
        alike[1] += checked->pair[i].alike[1];
        stacks++;
    }
    return say(finding,
               "the columns of lora_B of %s lie expert by expert (an expert's columns are then alike: mean "
               "cos² %.3f, "
               "read rank by rank %.3f). PEFT's order is rank by rank, so every expert is given the columns "
               "of others",
               mt_counted(stacks, "stack of experts", "stacks of experts").text, alike[1] / (double)stacks,
               alike[0] / (double)stacks);
}

// ------------------------------------------------------------------ the rest

static bool find_unsupported(const struct mt_checked_adapter *checked, struct mt_finding *finding)
{
    if (checked->unsupported == NULL) return false;
    return say(finding, "it is more than LoRA pairs: %s. Only its pairs were looked at",
               checked->unsupported);
}

/* Rows of the table; the last says what none of the others has found. */
static const struct {
    const char *name;
    find_function *find;
    const char *affected;
    const char *fix;
    bool mends;
} checks[] = {
    {"unknown-module", find_unknown, "PEFT and vLLM leave these pairs out, mostly without an error",
     "see whether --model is the base it was trained on", false},
    {"other-names", find_renamed, "PEFT and vLLM leave these pairs out, mostly without an error",
     "--repair OUT writes the base's names", true},
    {"stray-tensors", find_stray, "programs leave them out, or refuse the adapter",
     "if they were trained (modules_to_save, DoRA), merge with the program that wrote them", false},
    {"half-pair", find_half, "PEFT starts the other half again: zero, or random", "save the adapter again",
     false},
    {"two-pairs", find_twice, "which of them counts differs from program to program",
     "save the adapter again", false},
    {"shape", find_shape, "every program refuses it", "see whether --model is the base it was trained on",
     false},
    {"peft-0.18-stacks", find_swapped,
     "PEFT 0.19 and later refuse it, or add it wrongly where both sizes are the same; a merge may leave it "
     "out",
     "--repair OUT writes the stacks of later versions", true},
    {"expert-order", find_order,
     "PEFT, vLLM and merges; Unsloth until September 2026, which writes it, reads it right",
     "--repair OUT writes PEFT's order", true},
    {"rank", find_rank, "every program: the scale alpha / r is another, or the adapter is refused",
     "write the right r or rank_pattern into adapter_config.json", false},
    {"unused-pattern", find_pattern, "PEFT gives those modules the usual rank and alpha",
     "write the names of the pairs into the pattern, or remove it", false},
    {"not-finite", find_not_finite, "every program: answers are garbage",
     "use an earlier checkpoint of the training", false},
    {"enormous", find_enormous, "every program: answers are likely garbage",
     "see whether lora_alpha and use_rslora are those of the training", false},
    {"changes-nothing", find_nothing, "every program: it is the base",
     "save the adapter again, after it was trained", false},
    {"lost-shards", find_lost_rows, "every program: most of what was trained is not there",
     "gather the shards before saving: it cannot be mended from this file", false},
    {"still-experts", find_still, "every program: those experts are the base's",
     "gather all ranks' experts before saving: it cannot be mended from this file", false},
    {"experts-untrained", find_untrained, "every program: the routed experts are the base's",
     "train again with target_parameters mlp.experts.gate_up_proj and mlp.experts.down_proj", false},
    {"more-than-lora", find_unsupported, "metier reads LoRA pairs only",
     "merge it with the program that wrote it", false},
};

void mt_checked_find(const struct mt_checked_adapter *checked, struct mt_findings *findings)
{
    findings->count = 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        struct mt_finding *finding = &findings->finding[findings->count];
        if (!checks[i].find(checked, finding)) continue;
        finding->name = checks[i].name;
        finding->affected = checks[i].affected;
        finding->fix = checks[i].fix;
        finding->mends = checks[i].mends;
        findings->count++;
    }
    if (findings->count > 0 || checked->refused == NULL) return;
    struct mt_finding *finding = &findings->finding[findings->count++];
    *finding = (struct mt_finding){
        .name = "refused", .affected = "metier, perhaps others", .fix = "save the adapter again"};
    (void)say(finding, "metier does not read it: %s", checked->refused);
}
