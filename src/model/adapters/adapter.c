/* PEFT adapters: names, pairs, and values. */
#include "model/adapters/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file.h"
#include "formats/hf/model_folder.h"
#include "formats/text/json.h"
#include "formats/text/printable.h"
#include "model/adapters/adapter_parts.h"
#include "model/adapters/router_bias.h"
#include "tensor/dtype.h"

#define ARENA_BLOCK_BYTES 16384

static const char prefix[] = MT_ADAPTER_NAME_PREFIX;
static const char head_name[] = MT_ADAPTER_NAME_PREFIX "lm_head.base_layer.weight";
static const char head_bias_name[] = MT_ADAPTER_NAME_PREFIX "lm_head.base_layer.bias";

// ------------------------------------------------------------------ names

struct lora_name {
    char module[MT_PARAMS_NAME_BYTES];
    char letter; // 'A' or 'B'
};

/* "base_model.model.MODULE.lora_A[.default].weight" */
static bool parse_name(const char *name, struct lora_name *parsed)
{
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    const char *module = name + sizeof prefix - 1;
    const char *mark = strstr(module, ".lora_");
    if (mark == NULL || mark == module) return false;
    size_t length = (size_t)(mark - module);
    if (length >= sizeof parsed->module) return false;
    memcpy(parsed->module, module, length);
    parsed->module[length] = '\0';
    const char *letter = mark + strlen(".lora_");
    if (*letter != 'A' && *letter != 'B') return false;
    parsed->letter = *letter;
    return strcmp(letter + 1, ".weight") == 0 || strcmp(letter + 1, ".default.weight") == 0;
}

static const struct mt_safetensors_tensor *find_matrix(const struct mt_adapter *adapter, const char *module,
                                                       char letter)
{
    static const char *const endings[] = {".weight", ".default.weight"};
    const struct mt_safetensors_tensor *found = NULL;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0] && found == NULL; i++) {
        char name[MT_PARAMS_NAME_BYTES + 64];
        (void)snprintf(name, sizeof name, "%s%s.lora_%c%s", prefix, module, letter, endings[i]);
        found = mt_safetensors_find(&adapter->file, name);
    }
    return found;
}

/* Wrapped stacks of experts of any model: for those that are met without a description. */
static bool looks_fused(const char *module)
{
    const char *experts = strstr(module, ".experts");
    return experts != NULL && (experts[8] == '\0' || strncmp(experts + 8, ".base_layer", 11) == 0);
}

static enum mt_status check_tensor(const struct mt_adapter *adapter,
                                   const struct mt_safetensors_tensor *stored, int rank)
{
    bool number = stored->dtype == MT_SAFETENSORS_F32 || stored->dtype == MT_SAFETENSORS_BF16 ||
                  stored->dtype == MT_SAFETENSORS_F16;
    if (number && stored->rank == rank) return MT_OK;
    return mt_fail(adapter->ctx, MT_ERR_FORMAT,
                   "%s: %s is %s with %d dimensions, expected %d of F32, BF16 or F16", adapter->file.path,
                   mt_printable(stored->name).text, mt_safetensors_dtype_name(stored->dtype), stored->rank,
                   rank);
}

// ------------------------------------------------------------------ pairs

/*
 * The checkpoint's name of a module transformers 5 calls otherwise: the router of models whose block has
 * another name on disk.
 */
static void module_on_disk(const struct mt_model_desc *desc, char *module, size_t bytes)
{
    int64_t layer = 0;
    const char *rest = mt_adapter_in_layer(module, &layer);
    const char *router = desc != NULL ? desc->loaders.router : NULL;
    if (router == NULL || rest == NULL || strcmp(rest, router) != 0) return;
    (void)snprintf(module, bytes, "model.layers.%lld.%s", (long long)layer, desc->names.router);
}

static enum mt_status add_plain(struct mt_adapter *adapter, const struct mt_model_desc *desc, char *module,
                                size_t module_bytes, const struct mt_safetensors_tensor *a,
                                const struct mt_safetensors_tensor *b)
{
    struct mt_adapter_pair pair = {
        .a = a, .b = b, .out = b->dim[0], .in = a->dim[1], .b_row_step = 1, .b_stride = 1};
    mt_adapter_config_rank(adapter, module, &pair.rank, &pair.scale);
    if (a->dim[0] != pair.rank || b->dim[1] != pair.rank) {
        return mt_fail(adapter->ctx, MT_ERR_SHAPE,
                       "%s: %s is [%lld, %lld] and its counterpart [%lld, %lld], the config says rank %lld",
                       adapter->file.path, mt_printable(a->name).text, (long long)a->dim[0],
                       (long long)a->dim[1], (long long)b->dim[0], (long long)b->dim[1],
                       (long long)pair.rank);
    }
    // What vLLM wants of experts without a pair.
    if (strstr(module, ".experts.") != NULL && mt_adapter_pair_is_zero(&pair)) return MT_OK;
    module_on_disk(desc, module, module_bytes);
    enum mt_status status = mt_arena_copy_text(&adapter->arena, module, strlen(module), &pair.module);
    if (status == MT_OK) adapter->pairs[adapter->module_count++] = pair;
    return status;
}

/* One tensor of the file; with an A the whole pair is added. */
static enum mt_status add_tensor(struct mt_adapter *adapter, const struct mt_model_desc *desc,
                                 const struct mt_safetensors_tensor *stored)
{
    struct lora_name name;
    int64_t layer = 0;
    enum mt_status status = check_tensor(adapter, stored, 2);
    if (status != MT_OK) return status;
    if (!parse_name(stored->name, &name)) {
        return mt_fail(adapter->ctx, MT_ERR_UNSUPPORTED,
                       "%s: %s is neither the A nor the B of a linear layer's LoRA pair", adapter->file.path,
                       mt_printable(stored->name).text);
    }
    const struct mt_safetensors_tensor *other =
        find_matrix(adapter, name.module, name.letter == 'A' ? 'B' : 'A');
    if (other == NULL) {
        return mt_fail(adapter->ctx, MT_ERR_FORMAT, "%s: %s has no counterpart", adapter->file.path,
                       mt_printable(stored->name).text);
    }
    if (name.letter == 'B') return MT_OK;
    status = check_tensor(adapter, other, 2);
    if (status != MT_OK) return status;
    if (desc != NULL && mt_adapter_is_stack(name.module, &layer)) {
        if (adapter->layout != MT_ADAPTER_VLLM) adapter->layout = MT_ADAPTER_FUSED;
        return mt_adapter_add_stack(adapter, desc, stored, other, layer);
    }
    if (looks_fused(name.module)) {
        return mt_fail(adapter->ctx, MT_ERR_UNSUPPORTED,
                       "%s: %s adapts stacked experts, which metier can only read together with their model",
                       adapter->file.path, mt_printable(stored->name).text);
    }
    return add_plain(adapter, desc, name.module, sizeof name.module, stored, other);
}

static int compare_pairs(const void *left, const void *right)
{
    const struct mt_adapter_pair *a = left;
    const struct mt_adapter_pair *b = right;
    return strcmp(a->module, b->module);
}

/* Sorts the pairs, lists their modules, and finds the rank all of them fit into. */
static enum mt_status finish_pairs(struct mt_adapter *adapter)
{
    struct mt_adapter_pair *pairs = adapter->pairs;
    if (adapter->module_count == 0) {
        return mt_fail(adapter->ctx, MT_ERR_FORMAT, "%s: has no pairs, or only zeros", adapter->file.path);
    }
    enum mt_status status = MT_OK;
    adapter->modules =
        mt_arena_array(&adapter->arena, adapter->module_count + 1, sizeof *adapter->modules, &status);
    if (status != MT_OK) return status;
    qsort(pairs, adapter->module_count, sizeof *pairs, compare_pairs);
    int64_t rank = 0;
    for (size_t i = 0; i < adapter->module_count; i++) {
        if (i > 0 && strcmp(pairs[i - 1].module, pairs[i].module) == 0) {
            return mt_fail(adapter->ctx, MT_ERR_FORMAT, "%s: adapts %s twice", adapter->file.path,
                           mt_printable(pairs[i].module).text);
        }
        adapter->modules[i] = pairs[i].module;
        if (pairs[i].rank > rank) rank = pairs[i].rank;
    }
    double divisor = adapter->root_scale ? sqrt((double)adapter->config_rank) : (double)adapter->config_rank;
    adapter->rank = (int)rank;
    adapter->alpha = adapter->config_alpha / divisor * (double)rank;
    if (!adapter->root_scale && rank == adapter->config_rank) adapter->alpha = adapter->config_alpha;
    return MT_OK;
}

static enum mt_status list_pairs(struct mt_adapter *adapter, const struct mt_model_desc *desc)
{
    size_t most = 0;
    for (size_t i = 0; i < adapter->file.tensor_count; i++) {
        struct lora_name name;
        int64_t layer = 0;
        if (!parse_name(adapter->file.tensors[i].name, &name) || name.letter == 'B') continue;
        bool stack = desc != NULL && mt_adapter_is_stack(name.module, &layer);
        most += stack ? mt_adapter_stack_most(desc) : 1;
    }
    enum mt_status status = MT_OK;
    adapter->pairs = mt_arena_array(&adapter->arena, most + 1, sizeof *adapter->pairs, &status);
    for (size_t i = 0; i < adapter->file.tensor_count && status == MT_OK; i++) {
        const struct mt_safetensors_tensor *stored = &adapter->file.tensors[i];
        if (strcmp(stored->name, head_name) == 0) {
            adapter->head = stored;
            status = check_tensor(adapter, stored, 2);
        } else if (strcmp(stored->name, head_bias_name) == 0) {
            adapter->head_bias = stored;
            status = check_tensor(adapter, stored, 1);
        } else {
            status = add_tensor(adapter, desc, stored);
        }
    }
    return status == MT_OK ? finish_pairs(adapter) : status;
}

/* PEFT cannot have dropout with stacked experts, so what was trained with is beside its own number. */
static enum mt_status read_dropout(struct mt_adapter *adapter, const char *text)
{
    char *end = NULL;
    adapter->dropout = strtod(text, &end);
    if (end != text && *end == '\0' && adapter->dropout >= 0.0 && adapter->dropout <= 0.999) return MT_OK;
    return mt_fail(adapter->ctx, MT_ERR_FORMAT, "%s: the metadata " MT_ADAPTER_DROPOUT_KEY " is '%s'",
                   adapter->file.path, mt_printable(text).text);
}

/* The layout is per-expert unless vllm's is named here, or stacked experts are met later. */
static enum mt_status read_metadata(struct mt_adapter *adapter)
{
    enum mt_status status = MT_OK;
    adapter->layout = MT_ADAPTER_PER_EXPERT;
    for (size_t i = 0; i < adapter->file.metadata_count && status == MT_OK; i++) {
        const struct mt_safetensors_metadata *entry = &adapter->file.metadata[i];
        if (strcmp(entry->key, MT_ADAPTER_DROPOUT_KEY) == 0) status = read_dropout(adapter, entry->value);
        if (strcmp(entry->key, MT_ADAPTER_QUANTISE_KEY) == 0) {
            status = mt_quantise_parse(adapter->ctx, entry->value, &adapter->quantise);
            if (status != MT_OK)
                return mt_fail_within(adapter->ctx, status, "%s: the metadata " MT_ADAPTER_QUANTISE_KEY,
                                      adapter->file.path);
            adapter->quantise.cache = false; // files are written where somebody asks for them
        }
        if (strcmp(entry->key, MT_ADAPTER_LAYOUT_KEY) == 0 && strcmp(entry->value, "vllm") == 0)
            adapter->layout = MT_ADAPTER_VLLM;
    }
    return status;
}

// ------------------------------------------------------------------ open, select, read

enum mt_status mt_adapter_open(struct mt_context *ctx, const char *directory,
                               const struct mt_model_desc *desc, struct mt_adapter *adapter)
{
    *adapter = (struct mt_adapter){.ctx = ctx};
    mt_arena_init(&adapter->arena, ctx, ARENA_BLOCK_BYTES);
    char *config = NULL;
    char *weights = NULL;
    enum mt_status status = mt_model_folder_file(ctx, directory, MT_ADAPTER_CONFIG, &config);
    if (status == MT_OK) status = mt_path_join(ctx, directory, MT_ADAPTER_WEIGHTS, &weights);
    if (status == MT_OK) status = mt_adapter_read_config(adapter, config);
    if (status == MT_OK) status = mt_safetensors_open(ctx, weights, &adapter->file);
    if (status == MT_OK) status = read_metadata(adapter);
    if (status == MT_OK) status = list_pairs(adapter, desc);
    if (status == MT_OK)
        status = mt_router_bias_open(ctx, directory, MT_ROUTER_BIAS_OF_ADAPTER, desc, &adapter->biases);
    mt_path_release(ctx, config);
    mt_path_release(ctx, weights);
    if (status != MT_OK) mt_adapter_close(adapter);
    return status;
}

enum mt_status mt_adapter_open_for(struct mt_context *ctx, const char *directory, const char *model_directory,
                                   struct mt_adapter *adapter)
{
    struct mt_hf_config config = {0};
    struct mt_model_desc desc;
    *adapter = (struct mt_adapter){0};
    enum mt_status status = mt_hf_config_read_folder(ctx, model_directory, &config);
    if (status == MT_OK) {
        status = mt_model_describe(ctx, &config, &desc);
        if (status == MT_OK) status = mt_adapter_open(ctx, directory, &desc, adapter);
        mt_hf_config_free(&config);
    }
    return status;
}

void mt_adapter_close(struct mt_adapter *adapter)
{
    mt_safetensors_close(&adapter->file);
    mt_safetensors_close(&adapter->biases);
    if (adapter->arena.ctx != NULL) mt_arena_free(&adapter->arena);
    *adapter = (struct mt_adapter){0};
}

void mt_adapter_select(const struct mt_adapter *adapter, struct mt_train_selection *selection)
{
    selection->lora = adapter->modules;
    selection->lora_rank = adapter->rank;
    selection->lora_alpha = adapter->alpha;
    selection->lora_dropout = adapter->dropout;
    selection->biases = adapter->biases.tensor_count > 0;
    selection->quantise = adapter->quantise;
}

static int compare_module(const void *module, const void *entry)
{
    const struct mt_adapter_pair *pair = entry;
    return strcmp(module, pair->module);
}

const struct mt_adapter_pair *mt_adapter_find(const struct mt_adapter *adapter, const char *module)
{
    return bsearch(module, adapter->pairs, adapter->module_count, sizeof *adapter->pairs, compare_module);
}

float mt_adapter_value(const struct mt_safetensors_tensor *stored, int64_t index)
{
    // By copying: a tensor in the file may lie at any address.
    uint16_t half = 0;
    float value = 0.0f;
    if (stored->dtype == MT_SAFETENSORS_F32) {
        mt_safetensors_read(stored, index, 1, &value);
        return value;
    }
    mt_safetensors_read(stored, index, 1, &half);
    return stored->dtype == MT_SAFETENSORS_BF16 ? mt_bf16_to_float(half) : mt_f16_to_float(half);
}

static void read_a(const struct mt_adapter_pair *pair, int64_t rank, float *a)
{
    for (int64_t k = 0; k < rank; k++) {
        for (int64_t i = 0; i < pair->in; i++) {
            bool own = k < pair->rank;
            a[k * pair->in + i] = own ? mt_adapter_value(pair->a, (pair->a_row + k) * pair->in + i) : 0.0f;
        }
    }
}

static void read_b(const struct mt_adapter *adapter, const struct mt_adapter_pair *pair, int64_t rank,
                   float *b)
{
    double scale = adapter->alpha / (double)adapter->rank;
    // Exactly 1 unless the config has patterns of its own for this map.
    double factor = fabs(pair->scale - scale) <= 1e-12 * scale ? 1.0 : pair->scale / scale;
    for (int64_t o = 0; o < pair->out; o++) {
        int64_t row = (pair->b_row + o * pair->b_row_step) * pair->b->dim[1] + pair->b_column;
        for (int64_t k = 0; k < rank; k++) {
            float value = k < pair->rank ? mt_adapter_value(pair->b, row + k * pair->b_stride) : 0.0f;
            b[o * rank + k] = (float)(factor * (double)value);
        }
    }
}

void mt_adapter_read_pair(const struct mt_adapter *adapter, const struct mt_adapter_pair *pair, int64_t rank,
                          float *a, float *b)
{
    if (a != NULL) read_a(pair, rank, a);
    if (b != NULL) read_b(adapter, pair, rank, b);
}

// ------------------------------------------------------------------ apply

static enum mt_status apply_one(const struct mt_adapter *adapter, struct mt_params *params,
                                const struct mt_param *param, const struct lora_name *name)
{
    const struct mt_adapter_pair *pair = mt_adapter_find(adapter, name->module);
    bool is_a = name->letter == 'A';
    if (pair == NULL) {
        return mt_fail(adapter->ctx, MT_ERR_FORMAT, "%s: %s is missing", adapter->file.path, param->name);
    }
    int64_t rows = is_a ? adapter->rank : pair->out;
    int64_t columns = is_a ? pair->in : adapter->rank;
    if (rows != param->value.dim[0] || columns != param->value.dim[1]) {
        return mt_fail(adapter->ctx, MT_ERR_SHAPE, "%s: %s is [%lld, %lld], expected [%lld, %lld]",
                       adapter->file.path, param->name, (long long)rows, (long long)columns,
                       (long long)param->value.dim[0], (long long)param->value.dim[1]);
    }
    if (!mt_param_is_here(param)) return MT_OK; // its rank takes it
    void *memory = NULL;
    size_t count = (size_t)(rows * columns);
    enum mt_status status = mt_allocate_array(adapter->ctx, count, sizeof(float), &memory);
    if (status != MT_OK) return status;
    mt_adapter_read_pair(adapter, pair, adapter->rank, is_a ? memory : NULL, is_a ? NULL : memory);
    status = mt_device_upload(params->device, param->value.data, memory, count * sizeof(float));
    mt_release(adapter->ctx, memory, count * sizeof(float));
    return status;
}

/* The head an adapter carries along is read by nobody, and must not be another than the model's. */
static enum mt_status check_head(const struct mt_adapter *adapter, const struct mt_params *params,
                                 const struct mt_safetensors_tensor *stored, const struct mt_tensor *own)
{
    if (stored == NULL || !mt_device_on_host(params->device)) return MT_OK;
    bool same = mt_tensor_present(own) && own->rank == stored->rank;
    for (int axis = 0; axis < stored->rank && same; axis++) same = own->dim[axis] == stored->dim[axis];
    int64_t count = same ? mt_tensor_count(own) : 0;
    for (int64_t i = 0; i < count && same; i++) {
        same = (double)mt_adapter_value(stored, i) == mt_load(own->dtype, own->data, i);
    }
    if (same) return MT_OK;
    return mt_fail(adapter->ctx, MT_ERR_UNSUPPORTED, "%s: carries an lm_head that is not the model's",
                   adapter->file.path);
}

/* Names a module of the adapter that the parameters have no pair for. */
static enum mt_status fail_unused(const struct mt_adapter *adapter, const struct mt_params *params)
{
    for (size_t i = 0; i < adapter->module_count; i++) {
        bool used = false;
        struct lora_name name;
        for (size_t p = 0; p < params->trained_count && !used; p++) {
            used =
                parse_name(params->trained[p].name, &name) && strcmp(name.module, adapter->modules[i]) == 0;
        }
        if (used) continue;
        return mt_fail(adapter->ctx, MT_ERR_USAGE, "%s: adapts %s, which has no LoRA pair here",
                       adapter->file.path, mt_printable(adapter->modules[i]).text);
    }
    return mt_fail(adapter->ctx, MT_ERR_INTERNAL, "%s: some pair was not used", adapter->file.path);
}

enum mt_status mt_adapter_apply(const struct mt_adapter *adapter, struct mt_params *params)
{
    double scale = adapter->alpha / (double)adapter->rank;
    size_t applied = 0;
    bool pairs = params->lora_scale != 0.0f;
    if (pairs && fabs((double)params->lora_scale - scale) > 1e-6 * scale) {
        return mt_fail(adapter->ctx, MT_ERR_USAGE, "%s: has the scale alpha / r = %g, here it is %g",
                       adapter->file.path, scale, (double)params->lora_scale);
    }
    for (size_t i = 0; i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        struct lora_name name;
        if (!parse_name(param->name, &name)) continue; // trained as it is
        enum mt_status status = apply_one(adapter, params, param, &name);
        if (status != MT_OK) return status;
        applied++;
    }
    if (applied != 2 * adapter->module_count) return fail_unused(adapter, params);
    const struct mt_tensor *head = NULL;
    enum mt_status status = mt_weight_operand(params->device, &params->head.weight, NULL, &head);
    if (status == MT_OK) status = check_head(adapter, params, adapter->head, head);
    if (status == MT_OK) status = check_head(adapter, params, adapter->head_bias, &params->head.bias);
    if (status == MT_OK) status = mt_router_bias_apply(&adapter->biases, params);
    return status == MT_OK ? mt_params_round(params) : status;
}

enum mt_status mt_params_load_adapter(struct mt_params *params, const struct mt_model_desc *desc,
                                      const char *directory)
{
    struct mt_adapter adapter;
    enum mt_status status = mt_adapter_open(mt_device_context(params->device), directory, desc, &adapter);
    if (status != MT_OK) return status;
    status = mt_adapter_apply(&adapter, params);
    mt_adapter_close(&adapter);
    return status;
}
