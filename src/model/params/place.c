/* From the name of a tensor to its place in struct mt_params. */
#include <stdio.h>
#include <string.h>

#include "model/params/loading.h"

enum place_kind {
    PLACE_LINEAR,
    PLACE_NORM,
};

struct place_row {
    const char *module; // inside a layer: after "model.layers.L."
    enum place_kind kind;
    size_t offset; // in struct mt_layer_params
};

#define LINEAR(module, field)                                                                                \
    {                                                                                                        \
        (module), PLACE_LINEAR, offsetof(struct mt_layer_params, field)                                      \
    }
#define NORM(module, field)                                                                                  \
    {                                                                                                        \
        (module), PLACE_NORM, offsetof(struct mt_layer_params, field)                                        \
    }

/* Router and routed experts are not here: their names come with the architecture. */
static const struct place_row rows[] = {
    LINEAR("self_attn.q_proj", q),
    LINEAR("self_attn.k_proj", k),
    LINEAR("self_attn.v_proj", v),
    LINEAR("self_attn.o_proj", o),
    LINEAR("self_attn.q_a_proj", q_a),
    LINEAR("self_attn.q_b_proj", q_b),
    LINEAR("self_attn.kv_a_proj_with_mqa", kv_a),
    LINEAR("self_attn.kv_b_proj", kv_b),
    NORM("self_attn.q_norm", q_norm),
    NORM("self_attn.k_norm", k_norm),
    NORM("self_attn.q_a_layernorm", q_a_norm),
    NORM("self_attn.kv_a_layernorm", kv_a_norm),
    NORM("input_layernorm", norm1),
    NORM("post_attention_layernorm", norm2),
    LINEAR("mlp.gate_proj", dense.gate),
    LINEAR("mlp.up_proj", dense.up),
    LINEAR("mlp.down_proj", dense.down),
    LINEAR("mlp.shared_experts.gate_proj", shared.gate),
    LINEAR("mlp.shared_experts.up_proj", shared.up),
    LINEAR("mlp.shared_experts.down_proj", shared.down),
    LINEAR("mlp.shared_expert.gate_proj", shared.gate), // Qwen2-MoE has one
    LINEAR("mlp.shared_expert.up_proj", shared.up),
    LINEAR("mlp.shared_expert.down_proj", shared.down),
};

/* The part of a name after its last dot. */
static const char *last_word(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

static bool is_bias(const char *tensor_name)
{
    return strcmp(last_word(tensor_name), "bias") == 0;
}

void mt_params_correction_name(const struct mt_model_desc *desc, int64_t layer, char *name, size_t bytes)
{
    const char *owner = desc->names.correction != NULL ? desc->names.correction : desc->names.router;
    (void)snprintf(name, bytes, "model.layers.%lld.%s.e_score_correction_bias", (long long)layer, owner);
}

void mt_params_module_name(const char *tensor_name, char *module, size_t bytes)
{
    (void)snprintf(module, bytes, "%s", tensor_name);
    const char *word = last_word(tensor_name);
    bool strip = word > tensor_name && (strcmp(word, "weight") == 0 || strcmp(word, "bias") == 0);
    if (strip) module[word - 1 - tensor_name] = '\0';
}

static struct mt_params_place linear_place(struct mt_linear *linear, bool bias)
{
    if (bias) return (struct mt_params_place){.value = &linear->bias, .gradient = &linear->dbias};
    return (struct mt_params_place){.linear = linear};
}

static struct mt_params_place norm_place(struct mt_norm_weight *norm, bool bias)
{
    if (bias) return (struct mt_params_place){.value = &norm->bias, .gradient = &norm->dbias};
    return (struct mt_params_place){.value = &norm->weight, .gradient = &norm->dweight};
}

static bool find_outside_layers(struct mt_params *params, const char *module, bool bias,
                                struct mt_params_place *place)
{
    if (strcmp(module, "model.embed_tokens") == 0) {
        *place = (struct mt_params_place){.value = &params->embedding, .gradient = &params->dembedding};
    } else if (strcmp(module, "model.norm") == 0) {
        *place = norm_place(&params->norm, bias);
    } else if (strcmp(module, "lm_head") == 0) {
        *place = linear_place(&params->head, bias);
    } else {
        return false;
    }
    return true;
}

static bool find_expert(struct mt_mlp_params *experts, const struct mt_model_names *names, int64_t expert,
                        const char *projection, bool bias, struct mt_params_place *place)
{
    const char *const projection_names[] = {names->gate, names->up, names->down};
    struct mt_linear *const linears[] = {&experts->gate, &experts->up, &experts->down};
    for (int i = 0; i < 3; i++) {
        if (strcmp(projection, projection_names[i]) != 0) continue;
        *place = (struct mt_params_place){.linear = bias ? NULL : linears[i],
                                          .biased = bias ? linears[i] : NULL,
                                          .index = (int)expert,
                                          .projection = i};
        return true;
    }
    return false;
}

/* `inner` is the module's name inside the layer. */
static bool find_in_layer(struct mt_layer_params *layer, const struct mt_model_names *names,
                          const char *inner, bool bias, struct mt_params_place *place)
{
    if (strcmp(inner, names->router) == 0) {
        *place = linear_place(&layer->router, bias);
        return true;
    }
    if (strcmp(last_word(inner), "e_score_correction_bias") == 0) {
        *place = (struct mt_params_place){.value = &layer->correction};
        return true;
    }
    if (strcmp(inner, "self_attn.sinks") == 0) {
        *place = (struct mt_params_place){.value = &layer->sinks, .gradient = &layer->dsinks};
        return true;
    }
    if (names->shared_gate != NULL && strcmp(inner, names->shared_gate) == 0) {
        *place = linear_place(&layer->shared_gate, bias);
        return true;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(inner, rows[i].module) != 0) continue;
        void *field = (char *)layer + rows[i].offset;
        *place = rows[i].kind == PLACE_LINEAR ? linear_place(field, bias) : norm_place(field, bias);
        return true;
    }
    return false;
}

enum mt_status mt_params_find_place(struct mt_params *params, const struct mt_model_desc *desc,
                                    const struct mt_model_tensor *tensor, struct mt_params_place *place)
{
    char module[MT_MODEL_NAME_BYTES];
    bool bias = is_bias(tensor->name);
    mt_params_module_name(tensor->name, module, sizeof module);
    bool found = false;
    if (tensor->layer < 0) {
        found = find_outside_layers(params, module, bias, place);
    } else {
        struct mt_layer_params *layer = &params->layer[tensor->layer];
        char prefix[64];
        int length = snprintf(prefix, sizeof prefix, "model.layers.%lld.", (long long)tensor->layer);
        found = tensor->expert >= 0 ? find_expert(&layer->experts, &desc->names, tensor->expert,
                                                  last_word(module), bias, place)
                                    : find_in_layer(layer, &desc->names, module + length, bias, place);
    }
    if (found) return MT_OK;
    return mt_fail(mt_device_context(params->device), MT_ERR_INTERNAL, "tensor %s has no place",
                   tensor->name);
}
