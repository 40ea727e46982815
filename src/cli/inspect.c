/* metier inspect: what a model folder holds, whether it is complete, and what training it would take. */
#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/model_check.h"
#include "arch/model_count.h"
#include "arch/published/stacks.h"
#include "base/amount.h"
#include "cli/cli.h"
#include "cli/shared/json_out.h"
#include "cli/shared/short_number.h"
#include "formats/text/printable.h"

#define RANK_MAX   4096
#define TOKENS_MAX ((int64_t)1 << 18)

enum weights {
    CONFIG_ONLY, // no weights: counts come from the config
    INDEX_ONLY,  // the index without its shards: names only
    FILES,
};

/* What was found out. */
struct inspection {
    const char *directory;
    struct mt_hf_config config;
    struct mt_model_count count;
    struct mt_model_memory memory;
    enum weights weights;
    struct mt_model_check check; // zeroed with CONFIG_ONLY
    size_t file_count;
    size_t tensor_count;
    int64_t data_bytes; // of the files, or what the index says; -1: not known
    size_t dtype_tensors[MT_SAFETENSORS_DTYPE_COUNT];
    uint64_t dtype_bytes[MT_SAFETENSORS_DTYPE_COUNT];
};

/* True when a model could be loaded as far as names, shapes and types tell. */
static bool is_sound(const struct inspection *inspection)
{
    return inspection->check.missing.count == 0 && inspection->check.wrong.count == 0;
}

// ------------------------------------------------------------------ for people

static void print_rope(const struct mt_hf_rope *rope)
{
    printf("  rope         theta %g", rope->theta);
    if (rope->kind == MT_HF_ROPE_LINEAR) printf(", linear x%g", rope->factor);
    if (rope->kind == MT_HF_ROPE_YARN) {
        printf(", yarn x%g from %lld", rope->factor, (long long)rope->original_max_position);
    }
    if (rope->kind == MT_HF_ROPE_LONGROPE) {
        printf(", longrope, %s, from %lld", mt_counted(rope->factor_count, "factor", "factors").text,
               (long long)rope->original_max_position);
    }
    printf("\n");
}

static void print_attention(const struct mt_hf_config *config)
{
    if (mt_hf_config_is_mla(config)) {
        printf("  attention    latent (MLA), %s; query/key %lld + %lld rope, value %lld; kv rank %lld",
               mt_counted((uint64_t)config->heads, "head", "heads").text, (long long)config->qk_nope_head_dim,
               (long long)config->qk_rope_head_dim, (long long)config->v_head_dim,
               (long long)config->kv_lora_rank);
        if (config->q_lora_rank > 0) printf(", query rank %lld", (long long)config->q_lora_rank);
    } else {
        printf("  attention    %s of %lld, %s", mt_counted((uint64_t)config->heads, "head", "heads").text,
               (long long)config->head_dim,
               mt_counted((uint64_t)config->kv_heads, "key/value head", "key/value heads").text);
    }
    if (config->attention_bias) printf(", biases");
    if (config->sliding_window > 0) printf(", window %lld", (long long)config->sliding_window);
    printf("\n");
}

static void print_router(const struct mt_hf_config *config)
{
    static const char *const scorings[] = {
        [MT_HF_SCORING_SOFTMAX] = "softmax",
        [MT_HF_SCORING_SIGMOID] = "sigmoid",
        [MT_HF_SCORING_SPARSEMIXER] = "sparsemixer",
    };
    static const char *const methods[] = {
        [MT_HF_TOPK_GREEDY] = "greedy",
        [MT_HF_TOPK_GROUP_LIMITED] = "group-limited",
        [MT_HF_TOPK_NOAUX] = "with correction bias (noaux_tc)",
    };
    printf("  router       %s, top %lld of %lld %s", scorings[config->scoring],
           (long long)config->experts_per_token, (long long)config->experts, methods[config->topk]);
    if (config->groups > 1) {
        printf(", %lld of %lld groups", (long long)config->topk_groups, (long long)config->groups);
    }
    printf(", weights %s", config->norm_topk_prob ? "normalised" : "as scored");
    if (config->routed_scaling_factor != 1.0) printf(" x%g", config->routed_scaling_factor);
    printf("\n");
}

static void print_architecture(const struct inspection *inspection)
{
    const struct mt_hf_config *config = &inspection->config;
    printf("%s  (%s)\n", config->arch->name, inspection->directory);
    printf("  layers       %lld, %lld of them with experts\n", (long long)config->layers,
           (long long)inspection->count.moe_layers);
    printf("  width        hidden %lld, vocabulary %lld%s, positions %lld\n", (long long)config->hidden_size,
           (long long)config->vocab_size, config->tie_word_embeddings ? " (tied)" : "",
           (long long)config->max_position_embeddings);
    print_attention(config);
    print_rope(&config->rope);
    printf("  experts      %lld of width %lld", (long long)config->experts,
           (long long)config->moe_intermediate_size);
    if (config->shared_experts > 0) printf(", %lld shared", (long long)config->shared_experts);
    if (config->shared_width != config->shared_experts * config->moe_intermediate_size) {
        printf(" of width %lld", (long long)config->shared_width);
    }
    if (inspection->count.moe_layers < config->layers) {
        printf("; dense layers of width %lld", (long long)config->intermediate_size);
    }
    printf("\n");
    print_router(config);
}

static void print_parameters(const struct inspection *inspection)
{
    const struct mt_model_count *count = &inspection->count;
    printf("\n  %-16s %10s %8s %10s\n", "parameters", "total", "share", "active");
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) {
        if (count->total[part] == 0) continue;
        printf("  %-16s %10s %7.2f%% %10s\n", mt_model_part_name((enum mt_model_part)part),
               cli_short_count(count->total[part]).text,
               100.0 * (double)count->total[part] / (double)count->all,
               cli_short_count(count->active[part]).text);
    }
    printf("  %-16s %10s %7.2f%% %10s\n", "all", cli_short_count(count->all).text, 100.0,
           cli_short_count(count->all_active).text);
    printf("  active: what one token passes through; %s without the embedding table\n",
           cli_short_count(count->all_active - count->active[MT_PART_EMBEDDING]).text);
}

static void print_findings(const char *title, const struct mt_model_findings *findings)
{
    if (findings->count == 0) return;
    printf("  %s: %zu\n", title, findings->count);
    size_t listed = findings->count < MT_MODEL_CHECK_LISTED ? findings->count : MT_MODEL_CHECK_LISTED;
    for (size_t i = 0; i < listed; i++) {
        const struct mt_model_finding *finding = &findings->listed[i];
        printf("    %s%s%s\n", mt_printable(finding->name).text, finding->text != NULL ? " " : "",
               finding->text != NULL ? finding->text : "");
    }
    if (findings->count > listed) printf("    and %zu more\n", findings->count - listed);
}

static void print_format(const struct inspection *inspection)
{
    static const char *const words[] = {
        [MT_HF_QUANT_FP8] = "fp8 (E4M3) in blocks of 128 x 128",
        [MT_HF_QUANT_NF4] = "bitsandbytes' nf4 in blocks of 64",
        [MT_HF_QUANT_MXFP4] = "mxfp4 in blocks of 32",
    };
    const struct mt_model_check *check = &inspection->check;
    const struct mt_hf_quant *quant = &inspection->config.quant;
    if (quant->method == MT_HF_QUANT_NONE) return;
    printf("  format       %s", words[quant->method]);
    if (check->quantised > 0) {
        printf(": %s, %s parameters in %s, %.2f bits each",
               mt_counted(check->quantised, "matrix", "matrices").text,
               cli_short_count(check->quantised_elements).text,
               cli_short_bytes((double)check->quantised_bytes).text,
               8.0 * (double)check->quantised_bytes / (double)check->quantised_elements);
    }
    printf("\n");
    if (quant->activations)
        printf("               activations are not rounded to 8 bits here, as code for GPUs does\n");
}

static void print_weights(const struct inspection *inspection)
{
    const struct mt_model_check *check = &inspection->check;
    printf("\n");
    if (inspection->weights == CONFIG_ONLY) {
        printf("  weights      none here: the counts come from config.json\n");
        print_format(inspection);
        return;
    }
    printf("  weights      %s in %s", mt_counted(inspection->tensor_count, "tensor", "tensors").text,
           mt_counted(inspection->file_count, "file", "files").text);
    if (inspection->data_bytes >= 0) printf(", %s", cli_short_bytes((double)inspection->data_bytes).text);
    printf("\n");
    for (int i = 0; i < MT_SAFETENSORS_DTYPE_COUNT; i++) {
        if (inspection->dtype_tensors[i] == 0) continue;
        printf("  %-12s %s, %s\n", mt_safetensors_dtype_name((enum mt_safetensors_dtype)i),
               mt_counted(inspection->dtype_tensors[i], "tensor", "tensors").text,
               cli_short_bytes((double)inspection->dtype_bytes[i]).text);
    }
    print_format(inspection);
    if (inspection->weights == INDEX_ONLY) {
        printf("  check        only the index is here: names are checked, shapes and types are not\n");
    }
    if (is_sound(inspection)) {
        printf("  check        all %zu expected tensors are there%s\n", check->expected,
               check->unexpected.count + check->unread == 0 ? ", and no others" : "");
    }
    if (check->unread > 0) {
        printf("  not read     %s no part of the model itself (prediction layers, rotary tables, a tied\n"
               "               head)\n",
               mt_counted(check->unread, "tensor that is", "tensors that are").text);
    }
    print_findings("missing", &check->missing);
    print_findings("of another shape or type", &check->wrong);
    print_findings("unexpected (not read)", &check->unexpected);
}

static void print_memory(const struct inspection *inspection)
{
    const struct mt_model_memory *memory = &inspection->memory;
    const char *source = inspection->data_bytes >= 0                 ? "as stored"
                         : inspection->config.dtype == MT_HF_FLOAT32 ? "float32, as config.json says"
                                                                     : "2 bytes each";
    printf("\n  memory of LoRA training, rank %lld on every linear layer, router included\n",
           (long long)memory->rank);
    printf("  %-16s %10s   %s\n", "weights", cli_short_bytes((double)memory->weights).text, source);
    printf("  %-16s %10s   f32, %s parameters\n", "adapters",
           cli_short_bytes((double)memory->adapter_bytes).text, cli_short_count(memory->all_adapters).text);
    printf("  %-16s %10s   f32\n", "gradients", cli_short_bytes((double)memory->gradient_bytes).text);
    printf("  %-16s %10s   AdamW, two f32 moments\n", "optimizer",
           cli_short_bytes((double)memory->optimizer_bytes).text);
    printf("  %-16s %10s   estimate for %s a step, nothing recomputed\n", "activations",
           cli_short_bytes((double)memory->activation_bytes).text,
           mt_counted((uint64_t)memory->tokens, "token", "tokens").text);
    printf("  %-16s %10s\n", "all", cli_short_bytes((double)memory->all_bytes).text);
    const char *formula = mt_model_activation_formula();
    const char *second = strchr(formula, ';');
    printf("  activations = %.*s,\n    where%s\n", (int)(second - formula), formula, second + 1);
}

static void print_text(const struct inspection *inspection)
{
    print_architecture(inspection);
    print_parameters(inspection);
    print_weights(inspection);
    print_memory(inspection);
}

// ------------------------------------------------------------------ --json: keys are stable, scripts read
// them

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
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "model_type", config->arch->name,
        "layers", (json_int_t)config->layers, "moe_layers", (json_int_t)inspection->count.moe_layers,
        "hidden_size", (json_int_t)config->hidden_size, "vocab_size", (json_int_t)config->vocab_size, "heads",
        (json_int_t)config->heads, "kv_heads", (json_int_t)config->kv_heads, "head_dim",
        (json_int_t)config->head_dim, "experts", (json_int_t)config->experts, "experts_per_token",
        (json_int_t)config->experts_per_token, "shared_experts", (json_int_t)config->shared_experts,
        "expert_width", (json_int_t)config->moe_intermediate_size, "latent_attention",
        (int)mt_hf_config_is_mla(config));
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
        [CONFIG_ONLY] = "config",
        [INDEX_ONLY] = "index",
        [FILES] = "files",
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
    const struct mt_model_check *check = &inspection->check;
    json_t *codes =
        json_pack("{s:s, s:I, s:I, s:I}", "format", mt_hf_quant_name(inspection->config.quant.method),
                  "tensors", (json_int_t)check->quantised, "parameters",
                  (json_int_t)check->quantised_elements, "bytes", (json_int_t)check->quantised_bytes);
    return json_pack(
        "{s:s, s:o, s:I, s:I, s:o, s:o, s:I, s:o, s:o, s:o}", "source", sources[inspection->weights],
        "quantised", codes, "files", (json_int_t)inspection->file_count, "tensors",
        (json_int_t)inspection->tensor_count, "bytes", bytes, "dtypes", dtypes, "expected",
        (json_int_t)inspection->count.tensors, "missing", findings(&inspection->check.missing), "wrong",
        findings(&inspection->check.wrong), "unexpected", findings(&inspection->check.unexpected));
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

static enum mt_status print_json(struct mt_context *ctx, const struct inspection *inspection)
{
    json_t *root =
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:b}", "directory", inspection->directory, "architecture",
                  architecture(inspection), "parameters", parameters(&inspection->count), "weights",
                  weights(inspection), "lora_memory", memory(&inspection->memory), "complete",
                  (int)(inspection->weights != CONFIG_ONLY && is_sound(inspection)));
    return cli_print_json(ctx, root, inspection->directory);
}

// ------------------------------------------------------------------ looking

static enum mt_status inspect_files(struct mt_context *ctx, struct inspection *inspection)
{
    struct mt_checkpoint checkpoint;
    enum mt_status status = mt_stacks_open(ctx, inspection->directory, &inspection->config, &checkpoint);
    if (status != MT_OK) return status;
    inspection->weights = FILES;
    inspection->file_count = checkpoint.shard_count;
    inspection->data_bytes = (int64_t)checkpoint.data_bytes;
    for (size_t s = 0; s < checkpoint.shard_count; s++) { // as they lie in the files, in stacks or not
        const struct mt_safetensors *shard = &checkpoint.shards[s];
        inspection->tensor_count += shard->tensor_count;
        for (size_t i = 0; i < shard->tensor_count; i++) {
            const struct mt_safetensors_tensor *info = &shard->tensors[i];
            inspection->dtype_tensors[info->dtype]++;
            inspection->dtype_bytes[info->dtype] += info->bytes;
        }
    }
    status = mt_model_check_checkpoint(ctx, &inspection->config, &checkpoint, &inspection->check);
    mt_checkpoint_close(&checkpoint);
    return status;
}

/* Uses the index alone when none of its shards is there; *alone tells. */
static enum mt_status inspect_index(struct mt_context *ctx, struct inspection *inspection, bool *alone)
{
    char *path = NULL;
    struct mt_checkpoint_index index;
    *alone = false;
    enum mt_status status = mt_path_join(ctx, inspection->directory, MT_CHECKPOINT_INDEX, &path);
    if (status != MT_OK) return status;
    status = mt_checkpoint_index_read(ctx, path, NULL, 0, &index);
    mt_path_release(ctx, path);
    if (status != MT_OK) return status;
    bool any = false;
    for (size_t i = 0; i < index.shard_count && status == MT_OK && !any; i++) {
        status = mt_checkpoint_has_file(ctx, inspection->directory, index.shards[i], &any);
    }
    if (status == MT_OK && !any) {
        *alone = true;
        inspection->weights = INDEX_ONLY;
        inspection->file_count = index.shard_count;
        inspection->tensor_count = index.name_count;
        inspection->data_bytes = index.total_size;
        status = mt_model_check_index(ctx, &inspection->config, &index, &inspection->check);
    }
    mt_checkpoint_index_free(&index);
    return status;
}

static enum mt_status inspect_weights(struct mt_context *ctx, struct inspection *inspection)
{
    bool single = false;
    bool indexed = false;
    bool alone = false;
    inspection->weights = CONFIG_ONLY;
    inspection->data_bytes = -1;
    enum mt_status status = mt_checkpoint_has_file(ctx, inspection->directory, MT_CHECKPOINT_SINGLE, &single);
    if (status == MT_OK) {
        status = mt_checkpoint_has_file(ctx, inspection->directory, MT_CHECKPOINT_INDEX, &indexed);
    }
    if (status != MT_OK || (!single && !indexed)) return status;
    if (!single) status = inspect_index(ctx, inspection, &alone);
    if (status == MT_OK && !alone) status = inspect_files(ctx, inspection);
    return status;
}

/* The bytes of the weights as stored, or as the config says they would be. */
static int64_t weight_bytes(const struct inspection *inspection)
{
    if (inspection->data_bytes >= 0) return inspection->data_bytes;
    return inspection->count.all * (inspection->config.dtype == MT_HF_FLOAT32 ? 4 : 2);
}

static enum mt_status inspect(struct mt_context *ctx, int64_t rank, int64_t tokens,
                              struct inspection *inspection)
{
    enum mt_status status = mt_hf_config_read_folder(ctx, inspection->directory, &inspection->config);
    if (status == MT_OK) status = inspect_weights(ctx, inspection);
    if (status != MT_OK) return status;
    mt_model_count(&inspection->config, &inspection->count);
    mt_model_memory(&inspection->config, weight_bytes(inspection), rank, tokens, &inspection->memory);
    return MT_OK;
}

static enum mt_status run_verb(struct cli_call *call)
{
    bool json = false;
    int64_t rank = 32;
    int64_t tokens = 4096;
    const struct cli_option options[] = {
        {"--json", CLI_FLAG, &json, NULL, "one JSON object instead of tables"},
        {"--rank", CLI_INTEGER, &rank, "R", "LoRA rank of the memory estimate (default 32)"},
        {"--tokens", CLI_INTEGER, &tokens, "N", "tokens of one step in the memory estimate (default 4096)"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    if (call->positional_count != 1)
        return mt_fail(call->ctx, MT_ERR_USAGE, "expected one directory, got %d; --help shows how",
                       call->positional_count);
    const struct cli_limit limits[] = {{"--rank", rank, 1, RANK_MAX}, {"--tokens", tokens, 1, TOKENS_MAX}};
    status = cli_check_limits(call->ctx, limits, 2);
    if (status != MT_OK) return status;
    struct inspection inspection = {.directory = call->positional[0]};
    status = inspect(call->ctx, rank, tokens, &inspection);
    if (!is_sound(&inspection)) call->exit_status = 2;
    if (status == MT_OK && json) status = print_json(call->ctx, &inspection);
    if (status == MT_OK && !json) print_text(&inspection);
    mt_model_check_free(&inspection.check);
    mt_hf_config_free(&inspection.config);
    return status;
}

const struct cli_verb cli_verb_inspect = {
    .name = "inspect",
    .summary =
        "show what a model folder holds: architecture, parameters, missing tensors, memory to train it",
    .arguments = "DIR",
    .counts_arguments = true,
    .details =
        "DIR is a Hugging Face model folder. config.json is enough for the counts. With\n"
        "model.safetensors.index.json metier also checks the tensors' names, and with the weights their\n"
        "shapes and types. The exit status is 2 if a tensor is missing or has another shape.",
    .examples = "  hf download allenai/OLMoE-1B-7B-0924 --local-dir models/OLMoE-1B-7B    # metier downloads "
                "nothing\n"
                "  metier inspect models/OLMoE-1B-7B\n"
                "  metier inspect models/Mixtral-8x7B --json\n"
                "  metier inspect models/Moonlight-16B-A3B --rank 8 --tokens 16384",
    .run = run_verb,
};
