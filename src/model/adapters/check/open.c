/* Reading an adapter leniently: whatever is odd about it is kept, to be told of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/published/stacks.h"
#include "base/compare.h"
#include "base/files/file.h"
#include "formats/hf/model_folder.h"
#include "formats/text/json.h"
#include "formats/text/printable.h"
#include "model/adapters/check/check_parts.h"
#include "model/adapters/router_bias.h"

#define ARENA_BLOCK_BYTES 65536
#define PREFIX            MT_ADAPTER_NAME_PREFIX

// ------------------------------------------------------------------ adapter_config.json

static enum mt_status keep_text(struct mt_checked_adapter *checked, const char *text, const char **kept)
{
    return mt_arena_copy_text(&checked->read.arena, text, strlen(text), kept);
}

/* What metier cannot read is a finding; what is no config at all is a failure. */
static enum mt_status note_unsupported(struct mt_checked_adapter *checked, enum mt_status status)
{
    if (status != MT_ERR_UNSUPPORTED) return status;
    if (checked->unsupported != NULL) return MT_OK;
    return keep_text(checked, checked->ctx->message, &checked->unsupported);
}

/* A key that may hold anything: its text if it is one. */
static const char *text_of(const struct mt_json_node *object, const char *key)
{
    struct mt_json_node node;
    const char *text = NULL;
    if (!mt_json_member(object, key, &node) || mt_json_kind(&node) != MT_JSON_STRING) return NULL;
    return mt_json_as_string(&node, &text) == MT_OK ? text : NULL;
}

static bool has_unsloth(const struct mt_json_node *root)
{
    struct mt_json_node mapping;
    struct mt_json_node node;
    bool value = false;
    if (!mt_json_member(root, "auto_mapping", &mapping) || mt_json_kind(&mapping) != MT_JSON_OBJECT)
        return false;
    if (!mt_json_member(&mapping, "unsloth_fixed", &node) || mt_json_kind(&node) != MT_JSON_BOOL)
        return false;
    return mt_json_as_bool(&node, &value) == MT_OK && value;
}

static enum mt_status name_writer(struct mt_checked_adapter *checked, const struct mt_json_node *root)
{
    char text[256];
    const char *version = text_of(root, "peft_version");
    for (size_t i = 0; i < checked->read.file.metadata_count; i++) {
        if (strcmp(checked->read.file.metadata[i].key, MT_ADAPTER_LAYOUT_KEY) != 0) continue;
        checked->writer = "metier";
        return MT_OK;
    }
    (void)snprintf(text, sizeof text, "%s%s%s", has_unsloth(root) ? "Unsloth with " : "",
                   version != NULL ? "PEFT " : "PEFT before 0.18, or a program that does not say",
                   version != NULL ? mt_printable(version).text : "");
    return keep_text(checked, text, &checked->writer);
}

/* True when a word of target_modules or target_parameters means the routed experts. */
static bool asks_for_experts(const struct mt_model_names *names, const char *word)
{
    const char *const own[] = {names->gate, names->up,   names->down,   "gate_proj",
                               "up_proj",   "down_proj", "gate_up_proj"};
    const char *last = strrchr(word, '.');
    bool named = false;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        named = named || strcmp(word, own[i]) == 0;
        named = named || (last != NULL && strcmp(last + 1, own[i]) == 0 && strstr(word, "shared") == NULL &&
                          strstr(word, "experts.") != NULL);
    }
    return named;
}

static enum mt_status find_asked(struct mt_checked_adapter *checked, const struct mt_json_node *root,
                                 const char *key)
{
    struct mt_json_node list;
    if (!mt_json_member(root, key, &list)) return MT_OK;
    bool array = mt_json_kind(&list) == MT_JSON_ARRAY;
    size_t count = array ? mt_json_count(&list) : 1;
    for (size_t i = 0; i < count && checked->asks_experts == NULL; i++) {
        struct mt_json_node word = array ? mt_json_element(&list, i) : list;
        const char *text = NULL;
        if (mt_json_kind(&word) != MT_JSON_STRING || mt_json_as_string(&word, &text) != MT_OK) continue;
        if (!asks_for_experts(&checked->desc.names, text)) continue;
        enum mt_status status = keep_text(checked, text, &checked->asks_experts);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

static enum mt_status read_config(struct mt_checked_adapter *checked, const char *path)
{
    struct mt_json json;
    enum mt_status status = mt_json_read(checked->ctx, path, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = mt_json_expect_object(&root);
    if (status == MT_OK) status = note_unsupported(checked, mt_adapter_config_refuse(&root));
    if (status == MT_OK) status = note_unsupported(checked, mt_adapter_config_numbers(&checked->read, &root));
    if (status == MT_OK) status = find_asked(checked, &root, "target_modules");
    if (status == MT_OK) status = find_asked(checked, &root, "target_parameters");
    if (status == MT_OK) status = name_writer(checked, &root);
    mt_json_free(&json);
    return status;
}

// ------------------------------------------------------------------ adapter_model.safetensors

struct half {
    char module[MT_PARAMS_NAME_BYTES];
    char letter;  // 'A' or 'B'
    bool renamed; // without PEFT's beginning or end
};

/* "[base_model.model.]MODULE.lora_A[.default][.weight]" */
static bool parse_half(const char *name, struct half *half)
{
    static const char *const endings[] = {".weight", ".default.weight", ""};
    half->renamed = strncmp(name, PREFIX, strlen(PREFIX)) != 0 || !mt_ends_with(name, ".weight");
    if (strncmp(name, PREFIX, strlen(PREFIX)) == 0) name += strlen(PREFIX);
    const char *mark = strstr(name, ".lora_");
    if (mark == NULL || mark == name || (size_t)(mark - name) >= sizeof half->module) return false;
    memcpy(half->module, name, (size_t)(mark - name));
    half->module[mark - name] = '\0';
    half->letter = mark[strlen(".lora_")];
    if (half->letter != 'A' && half->letter != 'B') return false;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (strcmp(mark + strlen(".lora_") + 1, endings[i]) == 0) return true;
    }
    return false;
}

static bool is_head_copy(const char *name)
{
    return strcmp(name, PREFIX "lm_head.base_layer.weight") == 0 ||
           strcmp(name, PREFIX "lm_head.base_layer.bias") == 0;
}

static int compare_pairs(const void *left, const void *right)
{
    const struct mt_checked_pair *a = left;
    const struct mt_checked_pair *b = right;
    return strcmp(a->name, b->name);
}

/* One entry for each half, then halves of one module become one pair. */
static enum mt_status list_pairs(struct mt_checked_adapter *checked)
{
    const struct mt_safetensors *file = &checked->read.file;
    enum mt_status status = MT_OK;
    checked->pair =
        mt_arena_array(&checked->read.arena, file->tensor_count + 1, sizeof *checked->pair, &status);
    checked->stray =
        mt_arena_array(&checked->read.arena, file->tensor_count + 1, sizeof *checked->stray, &status);
    for (size_t i = 0; i < file->tensor_count && status == MT_OK; i++) {
        struct half half;
        const struct mt_safetensors_tensor *stored = &file->tensors[i];
        if (is_head_copy(stored->name)) continue;
        if (!parse_half(stored->name, &half)) {
            checked->stray[checked->stray_count++] = stored->name;
            continue;
        }
        struct mt_checked_pair *pair = &checked->pair[checked->pair_count++];
        *(half.letter == 'A' ? &pair->a : &pair->b) = stored;
        pair->renamed = half.renamed;
        status = keep_text(checked, half.module, &pair->name);
    }
    if (status != MT_OK) return status;
    qsort(checked->pair, checked->pair_count, sizeof *checked->pair, compare_pairs);
    size_t kept = 0;
    for (size_t i = 0; i < checked->pair_count; i++) {
        struct mt_checked_pair *pair = &checked->pair[i];
        struct mt_checked_pair *last = kept > 0 ? &checked->pair[kept - 1] : NULL;
        bool same = last != NULL && strcmp(last->name, pair->name) == 0;
        if (same && (pair->a != NULL ? last->a : last->b) == NULL) {
            if (pair->a != NULL) last->a = pair->a;
            if (pair->b != NULL) last->b = pair->b;
            last->renamed = last->renamed || pair->renamed;
        } else {
            checked->pair[kept++] = *pair;
        }
    }
    checked->pair_count = kept;
    return MT_OK;
}

// ------------------------------------------------------------------ what fits what

static int compare_places(const void *left, const void *right)
{
    const struct mt_checked_pair *a = *(const struct mt_checked_pair *const *)left;
    const struct mt_checked_pair *b = *(const struct mt_checked_pair *const *)right;
    return strcmp(a->module, b->module);
}

/* Two pairs for one module: the later one says so. */
static enum mt_status find_twice(struct mt_checked_adapter *checked)
{
    enum mt_status status = MT_OK;
    size_t count = 0;
    struct mt_checked_pair **order = mt_arena_array(&checked->read.arena, checked->pair_count + 1,
                                                    sizeof(struct mt_checked_pair *), &status);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < checked->pair_count; i++) {
        if (checked->pair[i].module != NULL) order[count++] = &checked->pair[i];
    }
    qsort(order, count, sizeof(struct mt_checked_pair *), compare_places);
    for (size_t i = 1; i < count; i++) order[i]->twice = strcmp(order[i - 1]->module, order[i]->module) == 0;
    return MT_OK;
}

/* PEFT looks ranks up by its own names of modules. */
static void apply_patterns(struct mt_checked_adapter *checked, struct mt_checked_pair *pair)
{
    const struct mt_adapter *read = &checked->read;
    const char *name = mt_checked_is_stack(pair) ? pair->module : pair->name;
    mt_adapter_config_rank(read, name, &pair->config_rank, &pair->scale);
    for (size_t i = 0; i < read->ranks.count + read->alphas.count; i++) {
        const struct mt_adapter_pattern *pattern =
            i < read->ranks.count ? &read->ranks.pattern[i] : &read->alphas.pattern[i - read->ranks.count];
        if (mt_adapter_pattern_fits(pattern, name)) checked->pattern_used[i] = true;
    }
}

/* Shapes can leave open whether in and out are exchanged: then they are if those of another stack are. */
static void settle_swapped(struct mt_checked_adapter *checked)
{
    bool any = false;
    for (size_t i = 0; i < checked->pair_count; i++) any = any || checked->pair[i].swapped;
    for (size_t i = 0; i < checked->pair_count && any; i++) {
        struct mt_checked_pair *pair = &checked->pair[i];
        if (mt_checked_is_stack(pair) && pair->fits && pair->in == pair->out) pair->swapped = true;
    }
}

static enum mt_status place_pairs(struct mt_checked_adapter *checked)
{
    struct mt_base_modules modules;
    enum mt_status status = mt_base_modules_list(&checked->read.arena, &checked->config, &modules);
    size_t patterns = checked->read.ranks.count + checked->read.alphas.count;
    checked->pattern_used =
        mt_arena_array(&checked->read.arena, patterns + 1, sizeof *checked->pattern_used, &status);
    for (size_t i = 0; i < checked->pair_count && status == MT_OK; i++) {
        status = mt_checked_place(checked, &modules, &checked->pair[i]);
        if (status == MT_OK) apply_patterns(checked, &checked->pair[i]);
    }
    if (status == MT_OK) status = find_twice(checked);
    if (status == MT_OK) settle_swapped(checked);
    for (size_t i = 0; i < checked->pair_count && status == MT_OK; i++) {
        if (checked->pair[i].fits) status = mt_checked_measure(checked, &checked->pair[i]);
    }
    if (status == MT_OK) mt_checked_judge_order(checked);
    return status;
}

// ------------------------------------------------------------------ all of it

static enum mt_status open_base(struct mt_checked_adapter *checked)
{
    enum mt_status status = mt_hf_config_read_folder(checked->ctx, checked->model, &checked->config);
    if (status == MT_OK) status = mt_model_describe(checked->ctx, &checked->config, &checked->desc);
    return status == MT_OK
               ? mt_stacks_open(checked->ctx, checked->model, &checked->config, &checked->checkpoint)
               : status;
}

static enum mt_status open_adapter(struct mt_checked_adapter *checked)
{
    struct mt_context *ctx = checked->ctx;
    char *config = NULL;
    char *weights = NULL;
    enum mt_status status = mt_model_folder_file(ctx, checked->directory, MT_ADAPTER_CONFIG, &config);
    if (status == MT_OK) status = mt_path_join(ctx, checked->directory, MT_ADAPTER_WEIGHTS, &weights);
    if (status == MT_OK) status = mt_safetensors_open(ctx, weights, &checked->read.file);
    if (status == MT_OK) status = read_config(checked, config);
    if (status == MT_OK) status = list_pairs(checked);
    if (status == MT_OK) status = place_pairs(checked);
    if (status == MT_OK)
        status = mt_checkpoint_has_file(ctx, checked->directory, MT_ROUTER_BIAS_OF_ADAPTER, &checked->biases);
    mt_path_release(ctx, config);
    mt_path_release(ctx, weights);
    return status;
}

/* The layout, as the pairs have it; and what reading the adapter in earnest says. */
static enum mt_status open_in_earnest(struct mt_checked_adapter *checked)
{
    struct mt_adapter adapter = {0};
    checked->layout = MT_ADAPTER_PER_EXPERT;
    for (size_t i = 0; i < checked->pair_count; i++) {
        if (mt_checked_is_stack(&checked->pair[i])) checked->layout = MT_ADAPTER_FUSED;
    }
    enum mt_status status = mt_adapter_open(checked->ctx, checked->directory, &checked->desc, &adapter);
    if (status == MT_OK && adapter.layout == MT_ADAPTER_VLLM) checked->layout = MT_ADAPTER_VLLM;
    mt_adapter_close(&adapter);
    if (status == MT_OK || status == MT_ERR_MEMORY) return status;
    return keep_text(checked, checked->ctx->message, &checked->refused);
}

enum mt_status mt_checked_open(struct mt_context *ctx, const char *directory, const char *model,
                               struct mt_checked_adapter *checked)
{
    *checked = (struct mt_checked_adapter){.ctx = ctx, .directory = directory, .model = model};
    checked->read.ctx = ctx;
    mt_arena_init(&checked->read.arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = open_base(checked);
    if (status == MT_OK) status = open_adapter(checked);
    if (status == MT_OK) status = open_in_earnest(checked);
    if (status != MT_OK) mt_checked_close(checked);
    return status;
}

void mt_checked_close(struct mt_checked_adapter *checked)
{
    mt_adapter_close(&checked->read);
    mt_checkpoint_close(&checked->checkpoint);
    mt_hf_config_free(&checked->config);
    *checked = (struct mt_checked_adapter){0};
}

size_t mt_checked_layers(const struct mt_checked_pair *pair)
{
    size_t projections = pair->kind == MT_CHECKED_GATE_UP ? 2 : 1;
    return mt_checked_is_stack(pair) ? projections * (size_t)pair->numbers.learning : 1;
}
