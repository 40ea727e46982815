/* metier inspect --json. Keys are stable: scripts read them. */
#include "cli/inspect/inspect.h"
#include "cli/shared/json_out.h"

/* Parts with their count, without the empty ones. */
static json_t *per_part(const int64_t *counts)
{
    json_t *object = json_object();
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) {
        if (counts[part] == 0) continue;
        (void)json_object_set_new(object, mt_model_part_key((enum mt_model_part)part),
                                  json_integer((json_int_t)counts[part]));
    }
    return object;
}

static json_t *findings(const struct mt_model_findings *found)
{
    json_t *list = json_array();
    for (size_t i = 0; i < found->count && i < MT_MODEL_CHECK_LISTED; i++) {
        const struct mt_model_finding *finding = &found->listed[i];
        json_t *item = finding->text == NULL
                           ? json_pack("{s:s}", "name", finding->name)
                           : json_pack("{s:s, s:s}", "name", finding->name, "problem", finding->text);
        (void)json_array_append_new(list, item);
    }
    return json_pack("{s:I, s:o}", "count", (json_int_t)found->count, "first", list);
}

static json_t *architecture(const struct inspection *inspection)
{
    const struct mt_hf_config *config = &inspection->config;
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "model_type",
        mt_hf_model_name(config->model), "layers", (json_int_t)config->layers, "moe_layers",
        (json_int_t)inspection->count.moe_layers, "hidden_size", (json_int_t)config->hidden_size,
        "vocab_size", (json_int_t)config->vocab_size, "heads", (json_int_t)config->heads, "kv_heads",
        (json_int_t)config->kv_heads, "head_dim", (json_int_t)config->head_dim, "experts",
        (json_int_t)config->experts, "experts_per_token", (json_int_t)config->experts_per_token,
        "shared_experts", (json_int_t)config->shared_experts, "expert_width",
        (json_int_t)config->moe_intermediate_size, "latent_attention", (int)mt_hf_config_is_mla(config));
}

static json_t *parameters(const struct mt_model_count *count)
{
    return json_pack("{s:I, s:I, s:I, s:o, s:o}", "total", (json_int_t)count->all, "active",
                     (json_int_t)count->all_active, "active_without_embedding",
                     (json_int_t)(count->all_active - count->active[MT_PART_EMBEDDING]), "per_part",
                     per_part(count->total), "active_per_part", per_part(count->active));
}

static json_t *weights(const struct inspection *inspection)
{
    static const char *const sources[] = {
        [INSPECT_CONFIG_ONLY] = "config",
        [INSPECT_INDEX_ONLY] = "index",
        [INSPECT_FILES] = "files",
    };
    json_t *dtypes = json_object();
    for (int i = 0; i < MT_SAFETENSORS_DTYPE_COUNT; i++) {
        if (inspection->dtype_tensors[i] == 0) continue;
        (void)json_object_set_new(dtypes, mt_safetensors_dtype_name((enum mt_safetensors_dtype)i),
                                  json_pack("{s:I, s:I}", "tensors", (json_int_t)inspection->dtype_tensors[i],
                                            "bytes", (json_int_t)inspection->dtype_bytes[i]));
    }
    json_t *bytes =
        inspection->data_bytes >= 0 ? json_integer((json_int_t)inspection->data_bytes) : json_null();
    return json_pack("{s:s, s:I, s:I, s:o, s:o, s:I, s:o, s:o, s:o}", "source", sources[inspection->weights],
                     "files", (json_int_t)inspection->file_count, "tensors",
                     (json_int_t)inspection->tensor_count, "bytes", bytes, "dtypes", dtypes, "expected",
                     (json_int_t)inspection->count.tensors, "missing", findings(&inspection->check.missing),
                     "wrong", findings(&inspection->check.wrong), "unexpected",
                     findings(&inspection->check.unexpected));
}

static json_t *memory(const struct mt_model_memory *estimate)
{
    return json_pack(
        "{s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "rank", (json_int_t)estimate->rank,
        "tokens", (json_int_t)estimate->tokens, "adapter_parameters", (json_int_t)estimate->all_adapters,
        "adapters_per_part", per_part(estimate->adapters), "weight_bytes", (json_int_t)estimate->weights,
        "adapter_bytes", (json_int_t)estimate->adapter_bytes, "gradient_bytes",
        (json_int_t)estimate->gradient_bytes, "optimizer_bytes", (json_int_t)estimate->optimizer_bytes,
        "activation_bytes", (json_int_t)estimate->activation_bytes, "total_bytes",
        (json_int_t)estimate->all_bytes, "activation_formula", mt_model_activation_formula());
}

enum mt_status inspect_print_json(struct mt_context *ctx, const struct inspection *inspection)
{
    json_t *root =
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:b}", "directory", inspection->directory, "architecture",
                  architecture(inspection), "parameters", parameters(&inspection->count), "weights",
                  weights(inspection), "lora_memory", memory(&inspection->memory), "complete",
                  (int)(inspection->weights != INSPECT_CONFIG_ONLY && inspect_is_sound(inspection)));
    return cli_print_json(ctx, root, inspection->directory);
}
