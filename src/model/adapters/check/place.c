/* Which linear layer of the base a pair is for: by its name, by another name of the same, by its shapes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "model/adapters/check/check_parts.h"
#include "model/params/loading.h"

// ------------------------------------------------------------------ the base's linear layers

static int compare_modules(const void *left, const void *right)
{
    const struct mt_base_module *a = left;
    const struct mt_base_module *b = right;
    return strcmp(a->name, b->name);
}

static size_t count_modules(const struct mt_hf_config *config)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(config);
    struct mt_model_tensor tensor;
    size_t count = 0;
    while (mt_model_tensors_next(&walk, &tensor)) count += mt_params_is_linear(&tensor) ? 1 : 0;
    return count;
}

enum mt_status mt_base_modules_list(struct mt_arena *arena, const struct mt_hf_config *config,
                                    struct mt_base_modules *modules)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(config);
    struct mt_model_tensor tensor;
    enum mt_status status = MT_OK;
    modules->count = 0;
    // One more: a tied head has no tensor, and can have a pair.
    modules->module = mt_arena_array(arena, count_modules(config) + 1, sizeof *modules->module, &status);
    bool head = false;
    while (status == MT_OK && mt_model_tensors_next(&walk, &tensor)) {
        char name[MT_MODEL_NAME_BYTES];
        if (!mt_params_is_linear(&tensor)) continue;
        struct mt_base_module *module = &modules->module[modules->count++];
        *module = (struct mt_base_module){.part = tensor.part,
                                          .layer = tensor.layer,
                                          .expert = tensor.expert,
                                          .out = tensor.dim[0],
                                          .in = tensor.dim[1]};
        mt_params_module_name(tensor.name, name, sizeof name);
        head = head || tensor.part == MT_PART_LM_HEAD;
        status = mt_arena_copy_text(arena, name, strlen(name), &module->name);
    }
    if (status == MT_OK && !head) {
        modules->module[modules->count++] = (struct mt_base_module){.name = "lm_head",
                                                                    .part = MT_PART_LM_HEAD,
                                                                    .layer = -1,
                                                                    .expert = -1,
                                                                    .out = config->vocab_size,
                                                                    .in = config->hidden_size};
    }
    if (status == MT_OK) qsort(modules->module, modules->count, sizeof *modules->module, compare_modules);
    return status;
}

const struct mt_base_module *mt_base_module_find(const struct mt_base_modules *modules, const char *name)
{
    const struct mt_base_module wanted = {.name = name};
    return bsearch(&wanted, modules->module, modules->count, sizeof wanted, compare_modules);
}

// ------------------------------------------------------------------ names

/* A name as this base has it, where programs have others. */
struct spelling {
    char name[MT_PARAMS_NAME_BYTES];
    bool changed;
};

/* "…language_model.layers.3.REST" is "model.layers.3.REST". */
static void spell_layers(struct spelling *spelling)
{
    char rest[MT_PARAMS_NAME_BYTES];
    const char *at = NULL;
    for (const char *next = strstr(spelling->name, "layers."); next != NULL;
         next = strstr(next + 1, "layers."))
        at = next;
    bool head = mt_ends_with(spelling->name, ".lm_head");
    if (at == NULL && !head) return;
    (void)snprintf(rest, sizeof rest, "%s%s", head ? "" : "model.", head ? "lm_head" : at);
    if (strcmp(rest, spelling->name) == 0) return;
    memcpy(spelling->name, rest, sizeof rest);
    spelling->changed = true;
}

/* The base's word for gate, up or down of an expert. */
static const char *expert_word(const struct mt_model_names *names, const char *word)
{
    static const char *const words[][3] = {{"gate_proj", "up_proj", "down_proj"}, {"w1", "w3", "w2"}};
    const char *const own[] = {names->gate, names->up, names->down};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        for (size_t k = 0; k < 3; k++) {
            if (strcmp(word, words[i][k]) == 0) return own[k];
        }
    }
    return NULL;
}

/* "model.layers.3.BLOCK.experts.17.w1" with the base's block and word; the router as the base calls it. */
static void spell_experts(const struct mt_model_desc *desc, struct spelling *spelling)
{
    int64_t layer = 0;
    char name[MT_PARAMS_NAME_BYTES];
    const char *rest = mt_adapter_in_layer(spelling->name, &layer);
    if (rest == NULL) return;
    const char *experts = strstr(rest, ".experts.");
    const char *number = experts != NULL ? experts + strlen(".experts.") : "";
    size_t digits = strspn(number, "0123456789");
    const char *word =
        digits > 0 && number[digits] == '.' ? expert_word(&desc->names, number + digits + 1) : NULL;
    bool router = strcmp(rest, "mlp.gate") == 0 || strcmp(rest, "mlp.router") == 0 ||
                  strcmp(rest, "block_sparse_moe.gate") == 0;
    int length = -1;
    if (word != NULL) {
        length = snprintf(name, sizeof name, "model.layers.%lld.%s.%.*s.%s", (long long)layer,
                          desc->names.experts, (int)digits, number, word);
    } else if (router) {
        length = snprintf(name, sizeof name, "model.layers.%lld.%s", (long long)layer, desc->names.router);
    }
    if (length <= 0 || (size_t)length >= sizeof name || strcmp(name, spelling->name) == 0) return;
    // The router's name in transformers 5 is no other name: PEFT writes it.
    bool usual = word == NULL && desc->loaders.router != NULL && strcmp(rest, desc->loaders.router) == 0;
    memcpy(spelling->name, name, (size_t)length + 1);
    spelling->changed = spelling->changed || !usual;
}

/* "model.layers.3.BLOCK.experts" with or without ".base_layer"; *usual: as transformers 5 calls the block. */
static bool is_stack(const char *name, int64_t *layer, bool *usual)
{
    const char *rest = mt_adapter_in_layer(name, layer);
    *usual = mt_adapter_is_stack(name, layer);
    return *usual ||
           (rest != NULL && (mt_ends_with(rest, ".experts") || mt_ends_with(rest, ".experts.base_layer")));
}

// ------------------------------------------------------------------ shapes

static bool is_matrix(const struct mt_safetensors_tensor *stored)
{
    bool number = stored->dtype == MT_SAFETENSORS_F32 || stored->dtype == MT_SAFETENSORS_BF16 ||
                  stored->dtype == MT_SAFETENSORS_F16;
    return number && stored->rank == 2;
}

static void fit_linear(struct mt_checked_pair *pair)
{
    if (!is_matrix(pair->a) || !is_matrix(pair->b)) return;
    pair->rank = pair->a->dim[0];
    pair->fits = pair->rank > 0 && pair->b->dim[1] == pair->rank && pair->a->dim[1] == pair->in &&
                 pair->b->dim[0] == pair->out;
}

/* Which stack it is, and whether in and out are exchanged. Where the shapes leave that open, they are not. */
static void fit_stack(const struct mt_model_desc *desc, struct mt_checked_pair *pair)
{
    const struct {
        enum mt_checked_kind kind;
        int64_t in, out;
    } stacks[] = {{MT_CHECKED_GATE_UP, desc->width, 2 * desc->expert_width},
                  {MT_CHECKED_DOWN, desc->expert_width, desc->width}};
    if (!is_matrix(pair->a) || !is_matrix(pair->b)) return;
    int64_t ranks = pair->a->dim[0];
    for (int swapped = 0; swapped < 2 && !pair->fits; swapped++) {
        for (size_t i = 0; i < 2 && !pair->fits; i++) {
            int64_t in = swapped != 0 ? stacks[i].out : stacks[i].in;
            int64_t out = swapped != 0 ? stacks[i].in : stacks[i].out;
            if (pair->a->dim[1] != in || pair->b->dim[0] != out) continue;
            pair->kind = stacks[i].kind;
            pair->in = stacks[i].in;
            pair->out = stacks[i].out;
            pair->swapped = swapped != 0;
            pair->fits = ranks > 0 && pair->b->dim[1] == ranks && ranks % pair->experts == 0;
        }
    }
    pair->rank = pair->fits ? ranks / pair->experts : 0;
}

static void place_stack(const struct mt_checked_adapter *checked, struct mt_checked_pair *pair, int64_t layer)
{
    const struct mt_model_desc *desc = &checked->desc;
    if (layer >= desc->layers || !mt_model_layer_is_moe(desc, layer)) return;
    pair->kind = MT_CHECKED_DOWN;
    pair->part = MT_PART_EXPERTS;
    pair->layer = layer;
    pair->experts = desc->experts;
    if (pair->a != NULL && pair->b != NULL) fit_stack(desc, pair);
}

enum mt_status mt_checked_place(struct mt_checked_adapter *checked, const struct mt_base_modules *modules,
                                struct mt_checked_pair *pair)
{
    struct spelling spelling = {.changed = false};
    int64_t layer = 0;
    bool usual = false;
    pair->kind = MT_CHECKED_NOWHERE;
    pair->layer = -1;
    pair->expert = -1;
    pair->experts = 1;
    const struct mt_base_module *module = mt_base_module_find(modules, pair->name);
    (void)snprintf(spelling.name, sizeof spelling.name, "%s", pair->name);
    if (module == NULL) {
        spell_layers(&spelling);
        spell_experts(&checked->desc, &spelling);
        module = mt_base_module_find(modules, spelling.name);
    }
    if (module != NULL) {
        pair->kind = MT_CHECKED_LINEAR;
        pair->module = module->name;
        pair->part = module->part;
        pair->layer = module->layer;
        pair->expert = module->expert;
        pair->out = module->out;
        pair->in = module->in;
        if (pair->a != NULL && pair->b != NULL) fit_linear(pair);
    } else if (is_stack(spelling.name, &layer, &usual)) {
        place_stack(checked, pair, layer);
    }
    if (pair->kind == MT_CHECKED_NOWHERE) return MT_OK;
    pair->renamed = pair->renamed || spelling.changed || (module == NULL && !usual);
    if (module != NULL) return MT_OK;
    // What a stack is called for rank patterns, and for messages.
    char name[MT_PARAMS_NAME_BYTES];
    int length = snprintf(name, sizeof name, "model.layers.%lld.mlp.experts.%s", (long long)layer,
                          pair->kind == MT_CHECKED_GATE_UP ? "gate_up_proj" : "down_proj");
    return mt_arena_copy_text(&checked->read.arena, name, (size_t)length, &pair->module);
}
