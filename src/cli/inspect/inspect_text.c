/* metier inspect, for people. */
#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "base/amount.h"
#include "cli/inspect/inspect.h"
#include "cli/shared/short_number.h"
#include "formats/text/printable.h"

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

static void print_weights(const struct inspection *inspection)
{
    const struct mt_model_check *check = &inspection->check;
    printf("\n");
    if (inspection->weights == INSPECT_CONFIG_ONLY) {
        printf("  weights      none here: the counts come from config.json\n");
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
    if (inspection->weights == INSPECT_INDEX_ONLY) {
        printf("  check        only the index is here: names are checked, shapes and types are not\n");
    }
    if (inspect_is_sound(inspection)) {
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
    printf("\n  memory of LoRA training, rank %lld on every linear map of the layers, router included\n",
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

void inspect_print_text(const struct inspection *inspection)
{
    print_architecture(inspection);
    print_parameters(inspection);
    print_weights(inspection);
    print_memory(inspection);
}
