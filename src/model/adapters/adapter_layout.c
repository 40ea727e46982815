/* The layouts an adapter can be written in: their names, which one fits a model, and what their readers lack.
 */
#include <string.h>

#include "model/adapters/adapter_parts.h"

static const char *const layout_names[MT_ADAPTER_LAYOUTS] = {
    [MT_ADAPTER_AUTO] = "auto",
    [MT_ADAPTER_PER_EXPERT] = "per-expert",
    [MT_ADAPTER_FUSED] = "fused",
    [MT_ADAPTER_VLLM] = "vllm",
};

const char *mt_adapter_layout_name(enum mt_adapter_layout layout)
{
    return layout_names[layout];
}

bool mt_adapter_layout_find(const char *word, enum mt_adapter_layout *layout)
{
    for (int i = 0; i < MT_ADAPTER_LAYOUTS; i++) {
        if (strcmp(word, layout_names[i]) != 0) continue;
        *layout = (enum mt_adapter_layout)i;
        return true;
    }
    return false;
}

/* Without a class in transformers 5 whatever loads the model has one module for each expert. */
static bool has_stacked_experts(const struct mt_model_desc *desc)
{
    return desc->loaders.router != NULL;
}

enum mt_adapter_layout mt_adapter_layout_for(const struct mt_model_desc *desc, enum mt_adapter_layout layout)
{
    if (layout != MT_ADAPTER_AUTO) return layout;
    return has_stacked_experts(desc) ? MT_ADAPTER_FUSED : MT_ADAPTER_PER_EXPERT;
}

bool mt_adapter_layout_stacks(const struct mt_model_desc *desc, enum mt_adapter_layout layout)
{
    return layout == MT_ADAPTER_FUSED || (layout == MT_ADAPTER_VLLM && desc->stored.stacked);
}

enum mt_status mt_adapter_layout_check(struct mt_context *ctx, const struct mt_model_desc *desc,
                                       enum mt_adapter_layout layout)
{
    if (layout != MT_ADAPTER_FUSED || has_stacked_experts(desc)) return MT_OK;
    return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                   "the fused layout stacks experts as transformers 5 does, but transformers 5 has no class "
                   "for this model: choose auto, per-expert or vllm");
}

// ------------------------------------------------------------------ what readers lack

static bool adapts_name(const struct mt_params *params, const char *part_of_name)
{
    for (size_t i = 0; i < params->trained_count; i++) {
        if (strstr(params->trained[i].name, part_of_name) != NULL) return true;
    }
    return false;
}

static bool adapts_mlp(const struct mt_params *params)
{
    for (size_t i = 0; i < params->trained_count; i++) {
        enum mt_model_part part = params->trained[i].part;
        if (part == MT_PART_ROUTER || part == MT_PART_EXPERTS || part == MT_PART_SHARED ||
            part == MT_PART_DENSE)
            return true;
    }
    return false;
}

const char *mt_adapter_layout_warning(const struct mt_params *params, const struct mt_model_desc *desc,
                                      enum mt_adapter_layout layout, int index)
{
    bool vllm = layout == MT_ADAPTER_VLLM;
    const struct {
        bool applies;
        const char *sentence;
    } warnings[] = {
        {vllm && adapts_name(params, ".kv_b_proj.lora_"),
         "vLLM never applies the pairs of kv_b_proj: leave kv_b_proj out of the targets, or serve the merged "
         "model (metier merge)"},
        {vllm && adapts_name(params, "lm_head.lora_") && !desc->loaders.vllm_head,
         "vLLM refuses a pair on lm_head for this architecture: leave lm_head out of the targets, or serve "
         "the merged model (metier merge)"},
        {layout == MT_ADAPTER_PER_EXPERT && has_stacked_experts(desc) && adapts_mlp(params),
         "the per-expert layout is for transformers 4: from it PEFT with transformers 5 may make another "
         "model without an error, which lora.layout auto avoids"},
    };
    for (size_t i = 0; i < sizeof warnings / sizeof warnings[0]; i++) {
        if (warnings[i].applies && index-- == 0) return warnings[i].sentence;
    }
    return NULL;
}
