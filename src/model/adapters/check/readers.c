/*
 * What single programs leave out or refuse of an adapter that is as it should be: a row each.
 * docs/adapters.md says what was tried and what was read in their code.
 */
#include <string.h>

#include "model/adapters/check/check_parts.h"

static bool names_part(const struct mt_checked_adapter *checked, const char *text)
{
    for (size_t i = 0; i < checked->pair_count; i++) {
        if (mt_checked_is_stack(&checked->pair[i])) continue;
        if (checked->pair[i].module != NULL && strstr(checked->pair[i].module, text) != NULL) return true;
    }
    return false;
}

static bool has_part(const struct mt_checked_adapter *checked, enum mt_model_part part)
{
    for (size_t i = 0; i < checked->pair_count; i++) {
        if (checked->pair[i].kind != MT_CHECKED_NOWHERE && checked->pair[i].part == part) return true;
    }
    return false;
}

static bool has_own_ranks(const struct mt_checked_adapter *checked)
{
    for (size_t i = 0; i < checked->pair_count; i++) {
        if (checked->pair[i].fits && checked->pair[i].rank != checked->read.config_rank) return true;
    }
    return false;
}

static bool has_mlp(const struct mt_checked_adapter *checked)
{
    return has_part(checked, MT_PART_ROUTER) || has_part(checked, MT_PART_EXPERTS) ||
           has_part(checked, MT_PART_SHARED) || has_part(checked, MT_PART_DENSE);
}

bool mt_checked_reader(const struct mt_checked_adapter *checked, int index, const char **program,
                       const char **sentence)
{
    const struct mt_model_desc *desc = &checked->desc;
    bool fused = checked->layout == MT_ADAPTER_FUSED;
    bool experts = has_part(checked, MT_PART_EXPERTS);
    bool stacks = desc->loaders.router != NULL; // transformers 5 has a class
    const struct {
        bool applies;
        const char *program, *sentence;
    } rows[] = {
        {!fused && stacks && has_mlp(checked), "PEFT, transformers 5",
         "may leave out pairs of experts, routers and dense layers: rewrite with --layout auto"},
        {fused && experts, "PEFT, transformers 4",
         "leaves out the routed experts: rewrite with --layout per-expert"},
        {checked->biases && !desc->correction_bias, "PEFT",
         "leaves out the routers' biases: transformers has no place for them"},
        {checked->layout != MT_ADAPTER_VLLM && experts, "vLLM",
         "needs all three pairs of every expert by themselves: rewrite with --layout vllm"},
        {names_part(checked, "kv_b_proj"), "vLLM",
         "never applies the pairs of kv_b_proj: serve the merged model"},
        {names_part(checked, "lm_head") && !desc->loaders.vllm_head, "vLLM",
         "refuses a pair on lm_head of this architecture: serve the merged model"},
        {!fused && has_own_ranks(checked), "vLLM", "reads one rank and one alpha for all pairs, no patterns"},
        {checked->biases, "vLLM", "leaves out the routers' biases: serve the merged model"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!rows[i].applies || index-- > 0) continue;
        *program = rows[i].program;
        *sentence = rows[i].sentence;
        return true;
    }
    return false;
}
