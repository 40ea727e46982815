/*
 * What learns. A pattern is a part's key ("attention"), or a glob on the names of tensors or of their modules
 * (the name without ".weight" or ".bias"); '*' matches dots too. Frozen wins over selected, and of the routed
 * experts only the chosen ones learn, where a list is given.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/printable.h"
#include "model/params_parts.h"

enum list { LIST_FULL, LIST_LORA, LIST_FREEZE, LIST_COUNT };

static const char *const list_names[LIST_COUNT] = {"full", "lora", "freeze"};

struct choice {
    const struct mt_params_item *item;
    bool in[LIST_COUNT];
};

struct choices {
    struct choice *choice; // sorted by the tensor's name
    size_t count;
    size_t taken; // by the pattern at hand from what would learn
};

static int compare_choices(const void *left, const void *right)
{
    const struct choice *a = left;
    const struct choice *b = right;
    return strcmp(a->item->tensor.name, b->item->tensor.name);
}

static int compare_name(const void *name, const void *entry)
{
    const struct choice *choice = entry;
    return strcmp(name, choice->item->tensor.name);
}

/* LoRA adapts matrices that map one vector to another, so not the embedding. */
static bool is_linear_map(const struct mt_model_tensor *tensor)
{
    return tensor->rank == 2 && tensor->part != MT_PART_EMBEDDING;
}

/* Puts a tensor on a list if it belongs there; the correction bias is no part's and only ever frozen. */
static size_t mark(struct choices *choices, struct choice *choice, enum list list, bool by_part)
{
    if (list == LIST_LORA && !is_linear_map(&choice->item->tensor)) return 0;
    if (choice->item->correction && (by_part || list != LIST_FREEZE)) return 0;
    choice->in[list] = true;
    if (choice->item->correction || choice->in[LIST_FULL] || choice->in[LIST_LORA]) choices->taken++;
    return 1;
}

static size_t mark_part(struct choices *choices, enum list list, enum mt_model_part part)
{
    size_t marked = 0;
    for (size_t i = 0; i < choices->count; i++) {
        if (choices->choice[i].item->tensor.part == part)
            marked += mark(choices, &choices->choice[i], list, true);
    }
    return marked;
}

static size_t mark_name(struct choices *choices, enum list list, const char *pattern)
{
    static const char *const endings[] = {"", ".weight", ".bias"};
    size_t marked = 0;
    char name[MT_PARAMS_NAME_BYTES];
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        int length = snprintf(name, sizeof name, "%s%s", pattern, endings[i]);
        if (length >= (int)sizeof name) continue; // longer than any tensor's name
        struct choice *found =
            bsearch(name, choices->choice, choices->count, sizeof *choices->choice, compare_name);
        if (found != NULL) marked += mark(choices, found, list, false);
    }
    return marked;
}

static size_t mark_glob(struct choices *choices, enum list list, const char *pattern)
{
    size_t marked = 0;
    for (size_t i = 0; i < choices->count; i++) {
        char module[MT_MODEL_NAME_BYTES];
        const char *name = choices->choice[i].item->tensor.name;
        mt_params_module_name(name, module, sizeof module);
        if (fnmatch(pattern, module, 0) == 0 || fnmatch(pattern, name, 0) == 0) {
            marked += mark(choices, &choices->choice[i], list, false);
        }
    }
    return marked;
}

static size_t mark_pattern(struct choices *choices, enum list list, const char *pattern)
{
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) {
        if (strcmp(pattern, mt_model_part_key((enum mt_model_part)part)) == 0) {
            return mark_part(choices, list, (enum mt_model_part)part);
        }
    }
    // A plain name is looked up: adapters name thousands of modules.
    if (strpbrk(pattern, "*?[\\") == NULL) return mark_name(choices, list, pattern);
    return mark_glob(choices, list, pattern);
}

/* "attention, router, ...": the parts of this model that the list can take. */
static void list_parts(const struct choices *choices, enum list list, char *text, size_t bytes)
{
    text[0] = '\0';
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) {
        bool there = false;
        for (size_t i = 0; i < choices->count && !there; i++) {
            const struct mt_model_tensor *tensor = &choices->choice[i].item->tensor;
            there = tensor->part == (enum mt_model_part)part && (list != LIST_LORA || is_linear_map(tensor));
        }
        size_t used = strlen(text);
        if (!there) continue;
        (void)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "",
                       mt_model_part_key((enum mt_model_part)part));
    }
}

static enum mt_status mark_list(struct mt_context *ctx, struct choices *choices, enum list list,
                                const char *const *patterns)
{
    for (; patterns != NULL && *patterns != NULL; patterns++) {
        choices->taken = 0;
        size_t marked = mark_pattern(choices, list, *patterns);
        if (marked > 0 && choices->taken > 0) continue;
        if (marked > 0)
            return mt_fail(ctx, MT_ERR_USAGE,
                           "%s: '%s' names nothing that would learn: it changes nothing, leave it out",
                           list_names[list], mt_printable(*patterns).text);
        char parts[256];
        list_parts(choices, list, parts, sizeof parts);
        return mt_fail(ctx, MT_ERR_USAGE,
                       "%s: '%s' matches no %s of this model; expected %s, or a glob on names such as "
                       "model.layers.*.self_attn.q_proj",
                       list_names[list], mt_printable(*patterns).text,
                       list == LIST_LORA ? "linear map" : "tensor", parts);
    }
    return MT_OK;
}

// ------------------------------------------------------------------ ESFT

static bool expert_learns(const struct mt_train_selection *selection, const struct mt_model_tensor *tensor)
{
    if (selection->experts == NULL || tensor->expert < 0) return true;
    const bool *flags = selection->experts[tensor->layer];
    return flags == NULL || flags[tensor->expert];
}

/* A list of experts that changes nothing is a mistake of whoever wrote it. */
static enum mt_status check_experts(struct mt_context *ctx, const struct mt_model_desc *desc,
                                    const struct mt_train_selection *selection, const struct choices *choices)
{
    if (selection->experts == NULL) return MT_OK;
    for (int64_t layer = 0; layer < desc->layers; layer++) {
        const bool *flags = selection->experts[layer];
        if (mt_model_layer_is_moe(desc, layer) || flags == NULL) continue;
        return mt_fail(ctx, MT_ERR_USAGE, "experts are chosen in layer %lld, which has none",
                       (long long)layer);
    }
    for (size_t i = 0; i < choices->count; i++) {
        const struct choice *choice = &choices->choice[i];
        bool selected = choice->in[LIST_FULL] || choice->in[LIST_LORA];
        if (choice->item->tensor.expert >= 0 && selected && !choice->in[LIST_FREEZE]) return MT_OK;
    }
    return mt_fail(ctx, MT_ERR_USAGE,
                   "experts are chosen, but neither full nor lora selects any routed expert");
}

// ------------------------------------------------------------------ numbers and result

static enum mt_status check_numbers(struct mt_context *ctx, const struct mt_train_selection *selection)
{
    if (selection->lora == NULL || selection->lora[0] == NULL) return MT_OK;
    if (selection->lora_rank < 1) {
        return mt_fail(ctx, MT_ERR_USAGE, "the LoRA rank is %d, expected at least 1", selection->lora_rank);
    }
    if (!(selection->lora_alpha > 0.0 && selection->lora_alpha <= 1e9)) {
        return mt_fail(ctx, MT_ERR_USAGE, "LoRA's alpha is %g, expected a number above 0",
                       selection->lora_alpha);
    }
    if (!(selection->lora_dropout >= 0.0 && selection->lora_dropout < 1.0)) {
        return mt_fail(ctx, MT_ERR_USAGE, "LoRA's dropout is %g, expected 0 or more and less than 1",
                       selection->lora_dropout);
    }
    return MT_OK;
}

static enum mt_status decide(struct mt_context *ctx, const struct mt_train_selection *selection,
                             const struct choice *choice, enum mt_learning *learning)
{
    *learning = MT_LEARNING_NONE;
    if (choice->in[LIST_FREEZE] || !expert_learns(selection, &choice->item->tensor)) return MT_OK;
    if (choice->in[LIST_FULL] && choice->in[LIST_LORA]) {
        return mt_fail(ctx, MT_ERR_USAGE, "%s is selected both for full training and for LoRA",
                       choice->item->tensor.name);
    }
    if (choice->in[LIST_FULL]) *learning = MT_LEARNING_FULL;
    if (choice->in[LIST_LORA]) *learning = MT_LEARNING_LORA;
    return MT_OK;
}

static enum mt_status select_marked(struct mt_context *ctx, const struct mt_model_desc *desc,
                                    const struct mt_train_selection *selection, struct choices *choices,
                                    struct mt_params_items *items, struct mt_params *params)
{
    enum mt_status status = check_numbers(ctx, selection);
    if (status == MT_OK) status = mark_list(ctx, choices, LIST_FULL, selection->full);
    if (status == MT_OK) status = mark_list(ctx, choices, LIST_LORA, selection->lora);
    if (status == MT_OK) status = mark_list(ctx, choices, LIST_FREEZE, selection->freeze);
    if (status == MT_OK) status = check_experts(ctx, desc, selection, choices);
    for (size_t i = 0; status == MT_OK && i < choices->count; i++) {
        const struct choice *choice = &choices->choice[i];
        struct mt_params_item *item = &items->item[choice->item - items->item];
        status = decide(ctx, selection, choice, &item->learning);
        if (item->correction) {
            params->layer[item->tensor.layer].correction_frozen = choice->in[LIST_FREEZE];
        }
    }
    return status;
}

enum mt_status mt_params_select(struct mt_context *ctx, const struct mt_model_desc *desc,
                                const struct mt_train_selection *selection, struct mt_params_items *items,
                                struct mt_params *params)
{
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, items->count, sizeof(struct choice), &memory);
    if (status != MT_OK) return status;
    struct choices choices = {.choice = memory, .count = items->count};
    for (size_t i = 0; i < items->count; i++) choices.choice[i].item = &items->item[i];
    qsort(choices.choice, choices.count, sizeof *choices.choice, compare_choices);
    status = select_marked(ctx, desc, selection, &choices, items, params);
    mt_release(ctx, memory, items->count * sizeof *choices.choice);
    return status;
}
