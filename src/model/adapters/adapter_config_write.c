/*
 * adapter_config.json. target_modules has the last word of a name ("q_proj") where every map of that name is
 * adapted, and whole names otherwise. target_parameters has whole names.
 *
 * In the fused layout whatever is called gate, gate_proj, up_proj or down_proj goes to target_parameters, as
 * "….weight", also outside the routed experts: from a list of modules PEFT takes these words for the routed
 * experts of transformers 4, and drops all others. In the per-expert layout a router that is no linear layer
 * does. vLLM does not read target_parameters.
 */
#include "model/adapters/adapter_config_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "base/files/file.h"
#include "formats/text/json_text.h"
#include "model/params/params.h"

static const char *last_word(const char *module)
{
    const char *dot = strrchr(module, '.');
    return dot != NULL ? dot + 1 : module;
}

enum mt_status mt_adapter_targets_open(struct mt_adapter_targets *targets, struct mt_arena *arena,
                                       size_t capacity, const struct mt_model_desc *desc,
                                       enum mt_adapter_layout layout)
{
    void *modules = NULL;
    void *parameters = NULL;
    *targets =
        (struct mt_adapter_targets){.arena = arena, .desc = desc, .layout = layout, .capacity = capacity};
    enum mt_status status = mt_arena_allocate(arena, targets->capacity * sizeof(char *), &modules);
    if (status == MT_OK) status = mt_arena_allocate(arena, targets->capacity * sizeof(char *), &parameters);
    targets->modules = modules;
    targets->parameters = parameters;
    return status;
}

static enum mt_status append(const struct mt_adapter_targets *targets, const char **list, size_t *count,
                             const char *name)
{
    const char *copy = NULL;
    if (*count == targets->capacity)
        return mt_fail(targets->arena->ctx, MT_ERR_INTERNAL, "more targets than counted, at %s", name);
    enum mt_status status = mt_arena_copy_text(targets->arena, name, strlen(name), &copy);
    if (status == MT_OK) list[(*count)++] = copy;
    return status;
}

/* Whether PEFT has to be given a linear layer as a parameter. */
static bool is_parameter(const struct mt_adapter_targets *targets, enum mt_model_part part)
{
    if (mt_adapter_layout_stacks(targets->desc, targets->layout))
        return part == MT_PART_ROUTER || part == MT_PART_SHARED || part == MT_PART_DENSE;
    return targets->layout == MT_ADAPTER_PER_EXPERT && part == MT_PART_ROUTER &&
           !targets->desc->loaders.linear_router;
}

enum mt_status mt_adapter_target_module(struct mt_adapter_targets *targets, const char *module,
                                        enum mt_model_part part)
{
    char name[MT_PARAMS_NAME_BYTES + 16];
    if (part == MT_PART_EXPERTS || part == MT_PART_ROUTER) targets->wrapped = true;
    if (!is_parameter(targets, part)) {
        return append(targets, targets->modules, &targets->module_count, module);
    }
    targets->wrapped = true;
    (void)snprintf(name, sizeof name, "%s.weight", module);
    return append(targets, targets->parameters, &targets->parameter_count, name);
}

enum mt_status mt_adapter_target_stack(struct mt_adapter_targets *targets, int64_t layer, bool gate_up)
{
    char name[MT_PARAMS_NAME_BYTES];
    targets->wrapped = true;
    if (gate_up) targets->gate_up = true;
    (void)snprintf(name, sizeof name, "model.layers.%lld.mlp.experts.%s", (long long)layer,
                   gate_up ? "gate_up_proj" : "down_proj");
    return append(targets, targets->parameters, &targets->parameter_count, name);
}

// ------------------------------------------------------------------ the shortest list of modules

/* By the last word first, so that one word's modules are neighbours. */
static int compare_words(const void *left, const void *right)
{
    const char *a = *(const char *const *)left;
    const char *b = *(const char *const *)right;
    int order = strcmp(last_word(a), last_word(b));
    return order != 0 ? order : strcmp(a, b);
}

/* How many linear layers of the model have this last word in their names. */
static size_t count_in_model(const struct mt_model_desc *desc, const char *word)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(desc->config);
    struct mt_model_tensor tensor;
    size_t count = 0;
    while (mt_model_tensors_next(&walk, &tensor)) {
        char module[MT_MODEL_NAME_BYTES];
        if (tensor.rank != 2) continue;
        mt_params_module_name(tensor.name, module, sizeof module);
        if (strcmp(last_word(module), word) == 0) count++;
    }
    return count;
}

/* Replaces whole names by last words where these say the same; returns the new length. */
static size_t shorten(const struct mt_adapter_targets *targets)
{
    const char **modules = targets->modules;
    size_t count = targets->module_count;
    size_t kept = 0;
    qsort((void *)modules, count, sizeof *modules, compare_words);
    for (size_t first = 0; first < count;) {
        size_t end = first + 1;
        while (end < count && strcmp(last_word(modules[end]), last_word(modules[first])) == 0) end++;
        const char *word = last_word(modules[first]);
        if (end - first == count_in_model(targets->desc, word)) {
            modules[kept++] = word;
        } else {
            for (size_t i = first; i < end; i++) modules[kept++] = modules[i];
        }
        first = end;
    }
    qsort((void *)modules, kept, sizeof *modules, mt_by_text);
    return kept;
}

// ------------------------------------------------------------------ the text

static enum mt_status put_list(struct mt_json_text *text, const char *key, const char *const *list,
                               size_t count)
{
    enum mt_status status = mt_json_text_format(text, "  \"%s\": [", key);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        status = mt_json_text_format(text, "%s\n    ", i > 0 ? "," : "");
        if (status == MT_OK) status = mt_json_text_string(text, list[i]);
    }
    return status == MT_OK ? mt_json_text_format(text, "%s]", count > 0 ? "\n  " : "") : status;
}

/*
 * A number of its own for the stacks of gate and up. PEFT (0.21) warns of patterns that no module of
 * target_modules matches, although it applies them to parameters. So where there is a module, the pattern
 * names it as well, behind one that gives it what it has anyway: the first that matches counts.
 */
static enum mt_status put_pattern(struct mt_json_text *text, const char *key, const char *module,
                                  double usual, double stacked)
{
    enum mt_status status = mt_json_text_format(text, "  \"%s\": {", key);
    if (status == MT_OK && module != NULL) {
        status = mt_json_text_string(text, module);
        if (status == MT_OK) status = mt_json_text_format(text, ": %.15g, \"", usual);
        if (status == MT_OK) status = mt_json_text_format(text, "%s|", module);
    } else if (status == MT_OK) {
        status = mt_json_text_format(text, "\"");
    }
    if (status != MT_OK) return status;
    return mt_json_text_format(text, "mlp.experts.gate_up_proj\": %.15g},\n", stacked);
}

static enum mt_status put_numbers(struct mt_json_text *text, const struct mt_adapter_targets *targets,
                                  const struct mt_train_selection *selection)
{
    double dropout = targets->wrapped ? 0.0 : selection->lora_dropout;
    enum mt_status status =
        mt_json_text_format(text, "  \"r\": %d,\n  \"lora_alpha\": %.15g,\n  \"lora_dropout\": %.9g,\n",
                            selection->lora_rank, selection->lora_alpha, dropout);
    if (status != MT_OK) return status;
    if (!targets->gate_up) {
        return mt_json_text_format(text, "  \"rank_pattern\": {},\n  \"alpha_pattern\": {},\n");
    }
    // Gate and up side by side: twice the rank, and twice alpha, for the same scale.
    const char *module = targets->module_count > 0 ? targets->modules[0] : NULL;
    double rank = selection->lora_rank;
    double alpha = selection->lora_alpha;
    status = put_pattern(text, "rank_pattern", module, rank, 2.0 * rank);
    return status == MT_OK ? put_pattern(text, "alpha_pattern", module, alpha, 2.0 * alpha) : status;
}

static enum mt_status put_config(struct mt_json_text *text, const struct mt_adapter_targets *targets,
                                 const struct mt_adapter_write_options *options)
{
    enum mt_status status = mt_json_text_format(text, "{\n  \"peft_type\": \"LORA\",\n"
                                                      "  \"task_type\": \"CAUSAL_LM\",\n"
                                                      "  \"base_model_name_or_path\": ");
    if (status == MT_OK) {
        status = options->base_model != NULL ? mt_json_text_string(text, options->base_model)
                                             : mt_json_text_format(text, "null");
    }
    if (status == MT_OK) {
        status = mt_json_text_format(text, ",\n  \"inference_mode\": true,\n  \"bias\": \"none\",\n"
                                           "  \"fan_in_fan_out\": false,\n  \"init_lora_weights\": true,\n"
                                           "  \"use_rslora\": false,\n  \"use_dora\": false,\n"
                                           "  \"modules_to_save\": null,\n");
    }
    if (status == MT_OK) status = put_numbers(text, targets, options->selection);
    if (status == MT_OK) status = put_list(text, "target_modules", targets->modules, shorten(targets));
    if (status == MT_OK) status = mt_json_text_format(text, ",\n");
    if (status == MT_OK && targets->parameter_count == 0) {
        status = mt_json_text_format(text, "  \"target_parameters\": null");
    } else if (status == MT_OK) {
        status = put_list(text, "target_parameters", targets->parameters, targets->parameter_count);
    }
    return status == MT_OK ? mt_json_text_format(text, "\n}\n") : status;
}

enum mt_status mt_adapter_write_config(const struct mt_adapter_targets *targets,
                                       const struct mt_adapter_write_options *options, const char *path)
{
    struct mt_json_text text;
    mt_json_text_init(&text, targets->arena->ctx);
    enum mt_status status = put_config(&text, targets, options);
    if (status == MT_OK) status = mt_file_write_all(targets->arena->ctx, path, text.bytes, text.length);
    mt_json_text_free(&text);
    return status;
}
