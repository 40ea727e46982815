/* PEFT adapters: what the config may say, names, and values. */
#include "model/adapter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "formats/json.h"
#include "formats/printable.h"
#include "model/params_parts.h"
#include "tensor/dtype.h"

#define ARENA_BLOCK_BYTES 16384
#define RANK_MAX          65536

#define FUSED_REASON                                                                                         \
    "adapters on fused experts (transformers 5) are not read; train them with one module per expert"

static const char name_prefix[] = "base_model.model.";
static const char head_name[] = "base_model.model.lm_head.base_layer.weight";

// ------------------------------------------------------------------ the config

/* Absent, null, false, and an empty list or object all mean that a feature is not used. */
static bool is_unused(const struct mt_json_node *root, const char *key)
{
    struct mt_json_node node;
    if (!mt_json_has(root, key)) return true;
    (void)mt_json_member(root, key, &node);
    bool used = true;
    switch (mt_json_kind(&node)) {
    case MT_JSON_BOOL: return mt_json_as_bool(&node, &used) == MT_OK && !used;
    case MT_JSON_ARRAY:
    case MT_JSON_OBJECT: return mt_json_count(&node) == 0;
    default: return false;
    }
}

static enum mt_status refuse(const struct mt_json_node *root, const char *key, const char *reason)
{
    struct mt_json_node node;
    (void)mt_json_member(root, key, &node);
    (void)mt_json_fail(&node, "%s", reason);
    return MT_ERR_UNSUPPORTED;
}

/* What would change the result and is not here must not pass unseen. */
static enum mt_status refuse_features(const struct mt_json_node *root)
{
    static const char *const keys[] = {
        "use_dora",
        "use_qalora",
        "use_bdlora",
        "lora_bias",
        "fan_in_fan_out",
        "rank_pattern",
        "alpha_pattern",
        "modules_to_save",
        "layer_replication",
        "alora_invocation_tokens",
        "trainable_token_indices",
        "velora_config",
        "monteclora_config",
        "kasa_config",
        "arrow_config",
        "lora_ga_config",
    };
    if (!is_unused(root, "target_parameters")) {
        return refuse(
            root, "target_parameters",
            "is given: adapters on fused experts (transformers 5) are not read; train them with one "
            "module per expert");
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!is_unused(root, keys[i])) return refuse(root, keys[i], "is used, which is not supported");
    }
    return MT_OK;
}

/* These ways to begin also change the model's own weights, which here stay as they are. */
static enum mt_status check_beginning(const struct mt_json_node *root)
{
    static const char *const refused[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    struct mt_json_node node;
    const char *text = NULL;
    if (!mt_json_member(root, "init_lora_weights", &node) || mt_json_kind(&node) != MT_JSON_STRING) {
        return MT_OK;
    }
    enum mt_status status = mt_json_as_string(&node, &text);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (strncmp(text, refused[i], strlen(refused[i])) == 0) {
            return refuse(root, "init_lora_weights",
                          "changes the weights below the adapter, which is not supported");
        }
    }
    return MT_OK;
}

static enum mt_status check_word(const struct mt_json_node *root, const char *key, const char *expected)
{
    const char *text = expected;
    enum mt_status status = mt_json_optional_string(root, key, &text);
    if (status != MT_OK || strcmp(text, expected) == 0) return status;
    struct mt_json_node node;
    (void)mt_json_member(root, key, &node);
    (void)mt_json_fail(&node, "is \"%s\", only %s is supported", mt_printable(text).text, expected);
    return MT_ERR_UNSUPPORTED;
}

static enum mt_status read_numbers(const struct mt_json_node *root, struct mt_adapter *adapter)
{
    int64_t rank = 0;
    bool root_scale = false;
    adapter->dropout = 0.0;
    enum mt_status status = mt_json_get_integer(root, "r", 1, RANK_MAX, &rank);
    if (status == MT_OK) status = mt_json_get_real(root, "lora_alpha", 1e-9, 1e9, &adapter->alpha);
    if (status == MT_OK) status = mt_json_optional_real(root, "lora_dropout", 0.0, 0.999, &adapter->dropout);
    if (status == MT_OK) status = mt_json_optional_bool(root, "use_rslora", &root_scale);
    adapter->rank = (int)rank;
    if (root_scale) adapter->alpha *= sqrt((double)rank); // alpha / sqrt(r) instead of alpha / r
    return status;
}

static enum mt_status read_config(struct mt_adapter *adapter, const char *path)
{
    struct mt_json json;
    enum mt_status status = mt_json_read(adapter->ctx, path, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = mt_json_expect_object(&root);
    if (status == MT_OK) status = check_word(&root, "peft_type", "LORA");
    if (status == MT_OK) status = check_word(&root, "bias", "none");
    if (status == MT_OK) status = refuse_features(&root);
    if (status == MT_OK) status = check_beginning(&root);
    if (status == MT_OK) status = read_numbers(&root, adapter);
    mt_json_free(&json);
    return status;
}

// ------------------------------------------------------------------ names

struct lora_name {
    char module[MT_PARAMS_NAME_BYTES];
    char letter; // 'A' or 'B'
};

/* "base_model.model.MODULE.lora_A[.default].weight" */
static bool parse_name(const char *name, struct lora_name *parsed)
{
    if (strncmp(name, name_prefix, sizeof name_prefix - 1) != 0) return false;
    const char *module = name + sizeof name_prefix - 1;
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
        (void)snprintf(name, sizeof name, "%s%s.lora_%c%s", name_prefix, module, letter, endings[i]);
        found = mt_safetensors_find(&adapter->file, name);
    }
    return found;
}

/* PEFT wraps the fused experts of transformers 5, once per adapted tensor: "….experts.base_layer". */
static bool is_fused(const char *module)
{
    const char *experts = strstr(module, ".experts");
    return experts != NULL && (experts[8] == '\0' || strncmp(experts + 8, ".base_layer", 11) == 0);
}

static enum mt_status check_matrix(const struct mt_adapter *adapter,
                                   const struct mt_safetensors_tensor *stored)
{
    bool number = stored->dtype == MT_SAFETENSORS_F32 || stored->dtype == MT_SAFETENSORS_BF16 ||
                  stored->dtype == MT_SAFETENSORS_F16;
    if (number && stored->rank == 2) return MT_OK;
    return mt_fail(adapter->ctx, MT_ERR_FORMAT,
                   "%s: %s is %s with %d dimensions, expected a matrix of F32, BF16 or F16",
                   adapter->file.path, mt_printable(stored->name).text,
                   mt_safetensors_dtype_name(stored->dtype), stored->rank);
}

/* Every tensor belongs to a pair; the modules are listed in the order of the file, which is sorted. */
static enum mt_status list_modules(struct mt_adapter *adapter)
{
    void *memory = NULL;
    size_t most = adapter->file.tensor_count + 1;
    enum mt_status status = mt_arena_allocate(&adapter->arena, most * sizeof *adapter->modules, &memory);
    adapter->modules = memory;
    for (size_t i = 0; i < adapter->file.tensor_count && status == MT_OK; i++) {
        const struct mt_safetensors_tensor *stored = &adapter->file.tensors[i];
        struct lora_name name;
        if (strcmp(stored->name, head_name) == 0) {
            adapter->head = stored;
            status = check_matrix(adapter, stored);
            continue;
        }
        if (!parse_name(stored->name, &name)) {
            return mt_fail(adapter->ctx, MT_ERR_UNSUPPORTED,
                           "%s: %s is neither the A nor the B of a linear map's LoRA pair",
                           adapter->file.path, mt_printable(stored->name).text);
        }
        if (is_fused(name.module)) {
            return mt_fail(adapter->ctx, MT_ERR_UNSUPPORTED, "%s: %s: " FUSED_REASON, adapter->file.path,
                           mt_printable(stored->name).text);
        }
        if (find_matrix(adapter, name.module, name.letter == 'A' ? 'B' : 'A') == NULL) {
            return mt_fail(adapter->ctx, MT_ERR_FORMAT, "%s: %s has no counterpart", adapter->file.path,
                           mt_printable(stored->name).text);
        }
        status = check_matrix(adapter, stored);
        if (status != MT_OK || name.letter == 'B') continue;
        char *copy = NULL;
        status = mt_arena_copy_text(&adapter->arena, name.module, strlen(name.module), &copy);
        adapter->modules[adapter->module_count++] = copy;
    }
    if (status == MT_OK && adapter->module_count == 0) {
        status = mt_fail(adapter->ctx, MT_ERR_FORMAT, "%s: has no tensors", adapter->file.path);
    }
    return status;
}

// ------------------------------------------------------------------ open, select, apply

enum mt_status mt_adapter_open(struct mt_context *ctx, const char *directory, struct mt_adapter *adapter)
{
    *adapter = (struct mt_adapter){.ctx = ctx};
    mt_arena_init(&adapter->arena, ctx, ARENA_BLOCK_BYTES);
    char *config = NULL;
    char *weights = NULL;
    enum mt_status status = mt_path_join(ctx, directory, MT_ADAPTER_CONFIG, &config);
    if (status == MT_OK) status = mt_path_join(ctx, directory, MT_ADAPTER_WEIGHTS, &weights);
    if (status == MT_OK) status = read_config(adapter, config);
    if (status == MT_OK) status = mt_safetensors_open(ctx, weights, &adapter->file);
    if (status == MT_OK) status = list_modules(adapter);
    mt_path_release(ctx, config);
    mt_path_release(ctx, weights);
    if (status != MT_OK) mt_adapter_close(adapter);
    return status;
}

void mt_adapter_close(struct mt_adapter *adapter)
{
    mt_safetensors_close(&adapter->file);
    if (adapter->arena.ctx != NULL) mt_arena_free(&adapter->arena);
    *adapter = (struct mt_adapter){0};
}

void mt_adapter_select(const struct mt_adapter *adapter, struct mt_train_selection *selection)
{
    selection->lora = adapter->modules;
    selection->lora_rank = adapter->rank;
    selection->lora_alpha = adapter->alpha;
    selection->lora_dropout = adapter->dropout;
}

static enum mt_status apply_one(const struct mt_adapter *adapter, struct mt_params *params,
                                const struct mt_param *param, const struct lora_name *name)
{
    const struct mt_safetensors_tensor *stored = find_matrix(adapter, name->module, name->letter);
    if (stored == NULL) {
        return mt_fail(adapter->ctx, MT_ERR_FORMAT, "%s: %s is missing", adapter->file.path, param->name);
    }
    if (stored->dim[0] != param->value.dim[0] || stored->dim[1] != param->value.dim[1]) {
        return mt_fail(adapter->ctx, MT_ERR_SHAPE, "%s: %s is [%lld, %lld], expected [%lld, %lld]",
                       adapter->file.path, param->name, (long long)stored->dim[0], (long long)stored->dim[1],
                       (long long)param->value.dim[0], (long long)param->value.dim[1]);
    }
    return mt_params_upload_f32(params->device, stored, &param->value);
}

/* The head an adapter carries along is read by nobody, and must not be another than the model's. */
static enum mt_status check_head(const struct mt_adapter *adapter, const struct mt_params *params)
{
    if (adapter->head == NULL || !mt_device_on_host(params->device)) return MT_OK;
    const struct mt_tensor *own = &params->head.weight;
    struct mt_tensor carried;
    struct mt_buffer copy;
    enum mt_status status = mt_safetensors_view(adapter->ctx, adapter->head, &carried, &copy);
    if (status != MT_OK) return status;
    bool same = mt_tensor_same_shape(&carried, own);
    int64_t count = same ? mt_tensor_count(own) : 0;
    for (int64_t i = 0; i < count && same; i++) {
        same = mt_load(carried.dtype, carried.data, i) == mt_load(own->dtype, own->data, i);
    }
    mt_buffer_release(&copy);
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
    return mt_fail(adapter->ctx, MT_ERR_FORMAT, "%s: names a matrix twice", adapter->file.path);
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
    return check_head(adapter, params);
}

enum mt_status mt_params_load_adapter(struct mt_params *params, const char *directory)
{
    struct mt_adapter adapter;
    enum mt_status status = mt_adapter_open(mt_device_context(params->device), directory, &adapter);
    if (status != MT_OK) return status;
    status = mt_adapter_apply(&adapter, params);
    mt_adapter_close(&adapter);
    return status;
}
