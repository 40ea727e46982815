/* Parameters: where they come from, what learns, under which names, and what is refused. */
#include "model/params/params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/model_count.h"
#include "arch/published/stacks.h"
#include "formats/safetensors/checkpoint_writer.h"
#include "ops/device.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/opened_model.h"
#include "tensor/dtype.h"

#define PATTERNS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void make(void **state, const struct mt_arch *model, enum mt_hf_float dtype,
                 struct opened_model *opened)
{
    assert_int_equal(opened_model_make(*state, model, dtype, opened), 0);
}

static void load(struct opened_model *opened, const struct mt_train_selection *selection)
{
    enum mt_status status = opened_model_load(opened, selection);
    if (status != MT_OK) fail_msg("%s", opened->ctx.message);
}

static void finish(void **state, struct opened_model *opened)
{
    assert_int_equal(opened_model_close(*state, opened), 0);
}

static void says(const struct opened_model *opened, const char *words)
{
    if (strstr(opened->ctx.message, words) == NULL) {
        fail_msg("'%s' does not say '%s'", opened->ctx.message, words);
    }
}

static void refused(struct opened_model *opened, const struct mt_train_selection *selection,
                    const char *words)
{
    assert_int_equal(opened_model_load(opened, selection), MT_ERR_USAGE);
    says(opened, words);
}

// ------------------------------------------------------------------ where tensors come from

/* The tensor is the file's own memory, in its own type and shape. */
static void mapped(const struct opened_model *opened, const struct mt_tensor *tensor, const char *name)
{
    const struct mt_safetensors_tensor *stored = mt_checkpoint_find(&opened->checkpoint, name);
    if (stored == NULL) fail_msg("%s is not in the file", name);
    if (tensor->data != stored->data) fail_msg("%s is not used from the mapping", name);
    assert_int_equal(tensor->dtype, MT_BF16);
    assert_int_equal(tensor->rank, stored->rank);
    for (int i = 0; i < tensor->rank; i++) assert_int_equal(tensor->dim[i], stored->dim[i]);
}

static void frozen_deepseek(const struct opened_model *o)
{
    const struct mt_layer_params *dense = &o->params.layer[0];
    const struct mt_layer_params *moe = &o->params.layer[2];
    assert_false(dense->moe);
    assert_true(moe->moe);
    mapped(o, dense->dense.gate.weight.stored, "model.layers.0.mlp.gate_proj.weight");
    mapped(o, dense->dense.down.weight.stored, "model.layers.0.mlp.down_proj.weight");
    mapped(o, &dense->q.bias, "model.layers.0.self_attn.q_proj.bias");
    mapped(o, &dense->norm2.weight, "model.layers.0.post_attention_layernorm.weight");
    mapped(o, moe->router.weight.stored, "model.layers.2.mlp.gate.weight");
    mapped(o, moe->shared.up.weight.stored, "model.layers.2.mlp.shared_experts.up_proj.weight");
    mapped(o, &moe->experts.gate.weight.stored[5], "model.layers.2.mlp.experts.5.gate_proj.weight");
    mapped(o, &moe->experts.down.weight.stored[0], "model.layers.2.mlp.experts.0.down_proj.weight");
    assert_int_equal(moe->experts.gate.weight.count, 6);
    assert_int_equal(moe->experts.gate.weight.out, 10);
    assert_int_equal(moe->experts.gate.weight.in, 24);
    assert_int_equal(moe->experts.down.weight.out, 24);
    assert_int_equal(moe->experts.down.weight.in, 10);
}

static void frozen_latent(const struct opened_model *o)
{
    const struct mt_layer_params *layer = &o->params.layer[1];
    mapped(o, layer->kv_a.weight.stored, "model.layers.1.self_attn.kv_a_proj_with_mqa.weight");
    mapped(o, layer->kv_b.weight.stored, "model.layers.1.self_attn.kv_b_proj.weight");
    mapped(o, &layer->kv_a_norm.weight, "model.layers.1.self_attn.kv_a_layernorm.weight");
    mapped(o, layer->o.weight.stored, "model.layers.1.self_attn.o_proj.weight");
    if (o->desc.query_rank > 0) {
        mapped(o, layer->q_a.weight.stored, "model.layers.1.self_attn.q_a_proj.weight");
        mapped(o, layer->q_b.weight.stored, "model.layers.1.self_attn.q_b_proj.weight");
        mapped(o, &layer->q_a_norm.weight, "model.layers.1.self_attn.q_a_layernorm.weight");
        assert_null(layer->q.weight.stored);
    } else {
        mapped(o, layer->q.weight.stored, "model.layers.1.self_attn.q_proj.weight");
        mapped(o, &layer->kv_a.bias, "model.layers.1.self_attn.kv_a_proj_with_mqa.bias");
        assert_int_equal(layer->correction.dtype, MT_F32);
        assert_int_equal(layer->correction.dim[0], 8);
    }
}

static void frozen_sparse_block(const struct opened_model *o)
{
    const struct mt_layer_params *layer = &o->params.layer[1];
    mapped(o, layer->router.weight.stored, "model.layers.1.block_sparse_moe.gate.weight");
    mapped(o, &layer->experts.gate.weight.stored[2], "model.layers.1.block_sparse_moe.experts.2.w1.weight");
    mapped(o, &layer->experts.up.weight.stored[2], "model.layers.1.block_sparse_moe.experts.2.w3.weight");
    mapped(o, &layer->experts.down.weight.stored[2], "model.layers.1.block_sparse_moe.experts.2.w2.weight");
    if (o->desc.tied_head) {
        mapped(o, o->params.head.weight.stored, "model.embed_tokens.weight");
    } else {
        mapped(o, &layer->norm1.bias, "model.layers.1.input_layernorm.bias");
        mapped(o, &o->params.norm.bias, "model.norm.bias");
        mapped(o, &o->params.head.bias, "lm_head.bias");
    }
}

static void frozen_normed(const struct opened_model *o)
{
    const struct mt_layer_params *layer = &o->params.layer[0];
    mapped(o, &layer->q_norm.weight, "model.layers.0.self_attn.q_norm.weight");
    mapped(o, &layer->k_norm.weight, "model.layers.0.self_attn.k_norm.weight");
    mapped(o, layer->v.weight.stored, "model.layers.0.self_attn.v_proj.weight");
    mapped(o, o->params.head.weight.stored, "lm_head.weight");
}

static void frozen_gated(const struct opened_model *o)
{
    const struct mt_layer_params *layer = &o->params.layer[2];
    mapped(o, &layer->k.bias, "model.layers.2.self_attn.k_proj.bias");
    mapped(o, layer->shared.down.weight.stored, "model.layers.2.mlp.shared_expert.down_proj.weight");
    mapped(o, layer->shared_gate.weight.stored, "model.layers.2.mlp.shared_expert_gate.weight");
    assert_false(mt_tensor_present(&layer->o.bias));
}

static void everything_frozen(void **state)
{
    static const struct {
        const struct mt_arch *model;
        void (*check)(const struct opened_model *opened);
    } cases[] = {
        {&mt_arch_deepseek, frozen_deepseek},   {&mt_arch_deepseek_v2, frozen_latent},
        {&mt_arch_deepseek_v3, frozen_latent},  {&mt_arch_mixtral, frozen_sparse_block},
        {&mt_arch_phimoe, frozen_sparse_block}, {&mt_arch_olmoe, frozen_normed},
        {&mt_arch_qwen3_moe, frozen_normed},    {&mt_arch_qwen2_moe, frozen_gated},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct mt_arch *model = cases[i].model;
        struct opened_model opened;
        make(state, model, MT_HF_BFLOAT16, &opened);
        load(&opened, NULL);
        assert_int_equal(opened.params.trained_count, 0);
        assert_int_equal(opened.params.masters.bytes, 0);
        assert_int_equal(opened.params.gradients.bytes, 0);
        // Two correction biases of eight f32 are copied: the only writable thing.
        size_t copied = model->defaults.topk == MT_HF_TOPK_NOAUX ? 64 : 0;
        assert_int_equal(opened.params.mapped, opened.checkpoint.data_bytes - copied);
        mapped(&opened, &opened.params.embedding, "model.embed_tokens.weight");
        cases[i].check(&opened);
        finish(state, &opened);
    }
}

/* Every element of a tensor in host memory equals what the file holds. */
static void same_values(const struct opened_model *opened, const struct mt_tensor *tensor, const char *name)
{
    const struct mt_safetensors_tensor *stored = mt_checkpoint_find(&opened->checkpoint, name);
    assert_non_null(stored);
    struct mt_tensor view;
    struct mt_buffer copy;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_safetensors_view(&ctx, stored, &view, &copy), MT_OK);
    assert_true(mt_tensor_same_shape(&view, tensor));
    for (int64_t i = 0; i < mt_tensor_count(tensor); i++) {
        double wanted = mt_load(view.dtype, view.data, i);
        if (mt_load(tensor->dtype, tensor->data, i) != wanted)
            fail_msg("%s differs at %lld", name, (long long)i);
    }
    mt_buffer_release(&copy);
}

/* A device whose memory the host cannot see gets everything uploaded. */
static void device_memory(void **state)
{
    struct opened_model opened;
    make(state, &mt_arch_deepseek_v3, MT_HF_BFLOAT16, &opened);
    opened.device->memory = MT_MEMORY_DEVICE;
    load(&opened,
         &(struct mt_train_selection){.lora = PATTERNS("attention"), .lora_rank = 2, .lora_alpha = 4.0});
    const struct mt_layer_params *layer = &opened.params.layer[2];
    assert_int_equal(opened.params.mapped, 0);
    assert_int_equal(layer->experts.up.weight.stored[7].dtype, MT_BF16);
    const struct mt_safetensors_tensor *stored =
        mt_checkpoint_find(&opened.checkpoint, "model.layers.2.mlp.experts.7.up_proj.weight");
    assert_ptr_not_equal(layer->experts.up.weight.stored[7].data, stored->data);
    same_values(&opened, &layer->experts.up.weight.stored[7], stored->name);
    same_values(&opened, layer->q.weight.stored, "model.layers.2.self_attn.q_proj.weight");
    finish(state, &opened);
}

/* Read beside another loading: frozen weights lie there once, as they are or in codes; what is trained is its
 * own. */
static void shared_weights(void **state)
{
    static const char *const ways[] = {"none", "nf4"};
    for (size_t i = 0; i < 2; i++) {
        struct opened_model opened;
        struct mt_params beside;
        make(state, &mt_arch_deepseek_v3, MT_HF_BFLOAT16, &opened);
        opened.device->memory = MT_MEMORY_DEVICE;
        struct mt_train_selection selection = {.forward_only = true};
        assert_int_equal(mt_quantise_parse(&opened.ctx, ways[i], &selection.quantise), MT_OK);
        load(&opened, &selection);
        struct mt_params *first = &opened.params;
        selection.shared = first;
        selection.full = PATTERNS("norms");
        selection.lora = PATTERNS("attention", "routed_experts");
        selection.lora_rank = 2;
        selection.lora_alpha = 4.0;
        if (mt_params_load(opened.device, &opened.desc, &opened.checkpoint, &selection, &beside) != MT_OK)
            fail_msg("%s", opened.ctx.message);
        const struct mt_weight *lent = &first->layer[2].experts.up.weight;
        const struct mt_weight *read = &beside.layer[2].experts.up.weight;
        assert_ptr_equal(beside.embedding.data, first->embedding.data);
        assert_ptr_not_equal(beside.norm.weight.data, first->norm.weight.data);
        assert_ptr_not_equal(beside.layer[2].correction.data, first->layer[2].correction.data);
        assert_non_null(beside.layer[2].experts.up.a);
        if (read->quantised != NULL) {
            assert_ptr_equal(read->quantised[7].codes.data, lent->quantised[7].codes.data);
            assert_ptr_not_equal(read->stored[7].data, lent->stored[7].data); // each unpacks for itself
            assert_true(beside.codes.bytes < first->codes.bytes / 8);
        } else {
            assert_ptr_equal(read->stored[7].data, lent->stored[7].data);
        }
        assert_true(beside.copies.bytes < first->copies.bytes / 8); // correction biases
        assert_true(beside.masters.bytes > 0);
        mt_params_free(&beside);
        finish(state, &opened);
    }
}

/* Asked for, the embedding is the only weight that leaves the device's memory; a trained or a tied one stays.
 */
static void embedding_in_host_memory(void **state)
{
    const struct {
        const struct mt_arch *model;
        const char *const *full;
        bool leaves;
    } cases[] = {{&mt_arch_deepseek_v3, NULL, true},
                 {&mt_arch_deepseek_v3, PATTERNS("embedding"), false},
                 {&mt_arch_phimoe, NULL, true},
                 {&mt_arch_mixtral, NULL, false}}; // tied
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct opened_model opened;
        make(state, cases[i].model, MT_HF_BFLOAT16, &opened);
        opened.device->memory = MT_MEMORY_DEVICE;
        struct mt_train_selection selection = {.full = cases[i].full};
        load(&opened, &selection);
        assert_int_equal(opened.params.beside.bytes, 0);
        size_t copies = opened.params.copies.bytes;
        mt_params_free(&opened.params);
        selection.host_embedding = true;
        load(&opened, &selection);
        const struct mt_params *params = &opened.params;
        const struct mt_tensor *table = &params->embedding;
        assert_int_equal(params->beside.bytes > 0, cases[i].leaves);
        if (cases[i].leaves) {
            assert_ptr_equal(table->data, params->beside.data);
            assert_true(params->beside.bytes >= (size_t)mt_tensor_count(table) * 2);
            assert_true(copies - params->copies.bytes >= (size_t)mt_tensor_count(table) * 2);
            same_values(&opened, table, "model.embed_tokens.weight");
        } else {
            assert_int_equal(params->copies.bytes, copies);
        }
        finish(state, &opened);
    }
}

/*
 * Writes the model again: correction biases as BF16 with an odd number of elements, the first of them in
 * front, so that no f32 tensor behind it is aligned.
 */
static void write_unaligned(const struct workplace *place, const struct opened_model *opened)
{
    enum { MOST = 128 };
    struct mt_safetensors_spec specs[MOST];
    const struct mt_safetensors_tensor *sources[MOST] = {0};
    size_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < opened->checkpoint.tensor_count; i++) {
            const struct mt_safetensors_tensor *info = opened->checkpoint.tensors[i].info;
            bool correction = strstr(info->name, "e_score_correction_bias") != NULL;
            if (correction != (pass == 0)) continue;
            assert_true(count < MOST);
            sources[count] = info;
            specs[count++] =
                (struct mt_safetensors_spec){.name = info->name,
                                             .dtype = correction ? MT_SAFETENSORS_BF16 : MT_SAFETENSORS_F32,
                                             .rank = info->rank,
                                             .dim = {info->dim[0], info->dim[1]}};
        }
    }
    struct mt_context ctx;
    struct mt_safetensors_writer writer;
    char path[128];
    mt_context_init(&ctx, NULL);
    (void)workplace_path(place, "model.safetensors", path, sizeof path);
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, specs, count, NULL, 0, &writer), MT_OK);
    for (size_t i = 0; i < count; i++) {
        static const uint16_t bias[] = {0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0}; // 1 … 7
        bool correction = specs[i].dtype == MT_SAFETENSORS_BF16;
        const void *data = correction ? (const void *)bias : sources[i]->data;
        size_t bytes = correction ? sizeof bias : (size_t)sources[i]->bytes;
        assert_int_equal(mt_safetensors_writer_write(&writer, data, bytes), MT_OK);
    }
    assert_int_equal(mt_safetensors_writer_finish(&writer), MT_OK);
}

static void unaligned_and_bf16_correction(void **state)
{
    static const char config[] =
        "{\"model_type\": \"deepseek_v3\", \"first_k_dense_replace\": 1, \"hidden_size\": 8,"
        " \"intermediate_size\": 6, \"kv_lora_rank\": 6, \"max_position_embeddings\": 16,"
        " \"moe_intermediate_size\": 4, \"n_group\": 1, \"topk_group\": 1, \"n_routed_experts\": 7,"
        " \"n_shared_experts\": 1, \"num_attention_heads\": 2, \"num_experts_per_tok\": 2,"
        " \"num_hidden_layers\": 2, \"q_lora_rank\": null, \"qk_nope_head_dim\": 4,"
        " \"qk_rope_head_dim\": 2, \"v_head_dim\": 4, \"vocab_size\": 9}";
    struct opened_model opened;
    assert_int_equal(small_model_make(*state, config, MT_HF_FLOAT32, 3), 0);
    assert_int_equal(opened_model_open(*state, &opened), 0);
    write_unaligned(*state, &opened); // the mapping keeps the old file alive
    mt_checkpoint_close(&opened.checkpoint);
    const struct workplace *place = *state;
    assert_int_equal(mt_checkpoint_open(&opened.ctx, place->directory, &opened.checkpoint), MT_OK);
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("lm_head")});
    assert_int_equal(opened.params.mapped, 0);
    same_values(&opened, &opened.params.embedding, "model.embed_tokens.weight");
    same_values(&opened, opened.params.head.weight.stored, "lm_head.weight");
    same_values(&opened, &opened.params.layer[1].experts.down.weight.stored[6],
                "model.layers.1.mlp.experts.6.down_proj.weight");
    float *bias = opened.params.layer[1].correction.data;
    for (int i = 0; i < 7; i++) assert_true(bias[i] == (float)(i + 1));
    bias[3] += 0.5f; // writable
    finish(state, &opened);
}

/* Roundings of every pair but the head's, as they are and after a change. */
static void roundings(void **state)
{
    struct opened_model opened;
    make(state, &mt_arch_deepseek_v2, MT_HF_BFLOAT16, &opened);
    load(&opened, &(struct mt_train_selection){
                      .lora = PATTERNS("*"), .lora_rank = 4, .lora_alpha = 8.0, .rounded = true});
    struct mt_params *params = &opened.params;
    struct mt_tensor all = mt_params_rounded(params);
    assert_int_equal(all.dim[0], params->masters.bytes / sizeof(float));
    float *masters = params->masters.data;
    for (int64_t i = 0; i < all.dim[0]; i++) masters[i] = 1.0f + 0.001f * (float)(i % 1000);
    assert_int_equal(mt_params_round(params), MT_OK);
    for (int64_t i = 0; i < all.dim[0]; i++)
        assert_int_equal(((const uint16_t *)all.data)[i], mt_float_to_bf16(masters[i]));
    const struct mt_layer_params *layer = &params->layer[1];
    const struct mt_tensor *pairs[][2] = {{layer->o.a, layer->o.rounded_a},
                                          {layer->shared.up.b, layer->shared.up.rounded_b},
                                          {&layer->experts.gate.a[3], &layer->experts.gate.rounded_a[3]},
                                          {&layer->experts.down.b[5], &layer->experts.down.rounded_b[5]}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct mt_tensor *rounded = pairs[i][1];
        assert_int_equal(rounded->dtype, MT_BF16);
        assert_true(mt_tensor_same_shape(pairs[i][0], rounded));
        assert_int_equal((const uint16_t *)rounded->data - (const uint16_t *)all.data,
                         (const float *)pairs[i][0]->data - masters);
    }
    assert_true(layer->router.exact && layer->router.rounded_a != NULL);
    assert_null(params->head.rounded_a);
    finish(state, &opened);
}

// ------------------------------------------------------------------ full training

static void everything_trained(void **state)
{
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        struct opened_model opened;
        struct mt_model_count count;
        make(state, model, MT_HF_BFLOAT16, &opened);
        load(&opened, &(struct mt_train_selection){.full = PATTERNS("*")});
        mt_model_count(&opened.config, &count);
        int64_t corrections = model->defaults.topk == MT_HF_TOPK_NOAUX ? 2 : 0;
        assert_int_equal(opened.params.trained_count, count.tensors - corrections);
        assert_int_equal(opened.params.trained_elements, count.all - opened.config.experts * corrections);
        assert_int_equal(opened.params.mapped, 0);
        const char *masters = opened.params.masters.data;
        for (size_t i = 0; i < opened.params.trained_count; i++) {
            const struct mt_param *param = &opened.params.trained[i];
            same_values(&opened, &param->value, param->name);
            assert_true(mt_tensor_same_shape(&param->value, &param->grad));
            assert_true((const char *)param->value.data >= masters); // in the order of the list
            masters = param->value.data;
            for (int64_t e = 0; e < mt_tensor_count(&param->grad); e++) {
                assert_true(((const float *)param->grad.data)[e] == 0.0f);
            }
        }
        finish(state, &opened);
    }
}

/* A tied head learns once, and both of its gradients arrive in the same place. */
static void tied_head(void **state)
{
    struct opened_model opened;
    make(state, &mt_arch_mixtral, MT_HF_BFLOAT16, &opened);
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("embedding")});
    assert_int_equal(opened.params.trained_count, 1);
    assert_string_equal(opened.params.trained[0].name, "model.embed_tokens.weight");
    assert_ptr_equal(opened.params.head.weight.stored->data, opened.params.embedding.data);
    assert_ptr_equal(opened.params.head.dweight->data, opened.params.dembedding.data);
    assert_ptr_equal(opened.params.dembedding.data, opened.params.trained[0].grad.data);
    refused(&opened, &(struct mt_train_selection){.full = PATTERNS("lm_head")},
            "targets: 'lm_head' matches no");
    finish(state, &opened);
}

static void zero_gradients(void **state)
{
    struct opened_model opened;
    make(state, &mt_arch_olmoe, MT_HF_FLOAT32, &opened);
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("norms")});
    float *gradients = opened.params.gradients.data;
    size_t count = opened.params.gradients.bytes / sizeof(float);
    for (size_t i = 0; i < count; i++) gradients[i] = NAN;
    assert_int_equal(mt_params_zero_gradients(&opened.params), MT_OK);
    for (size_t i = 0; i < count; i++) assert_true(gradients[i] == 0.0f);
    finish(state, &opened);
}

// ------------------------------------------------------------------ LoRA

static void lora_pairs(void **state)
{
    struct opened_model opened;
    make(state, &mt_arch_deepseek, MT_HF_BFLOAT16, &opened);
    load(&opened, &(struct mt_train_selection){.lora = PATTERNS("attention", "router", "routed_experts",
                                                                "shared_experts", "dense_mlp", "lm_head"),
                                               .lora_rank = 4,
                                               .lora_alpha = 6.0,
                                               .lora_dropout = 0.25,
                                               .seed = 5});
    // 3 layers of 4 attention maps, 1 dense MLP, 2 layers of a router, 6 experts and one shared MLP, the
    // head.
    assert_int_equal(opened.params.trained_count, 2 * (3 * 4 + 3 + 2 * (1 + 6 * 3 + 3) + 1));
    const struct mt_layer_params *layer = &opened.params.layer[1];
    mapped(&opened, layer->q.weight.stored, "model.layers.1.self_attn.q_proj.weight");
    assert_true(layer->q.lora_scale == 1.5f && layer->q.dropout == 0.25f);
    assert_true(layer->experts.gate.lora_scale == 1.5f && layer->experts.gate.dropout == 0.25f);
    assert_true(opened.params.lora_scale == 1.5f);
    assert_int_equal(layer->experts.gate.rank, 4);
    assert_null(layer->experts.gate.dweight);
    assert_null(layer->q.dweight);
    assert_true(layer->q.stream != layer->k.stream && layer->experts.gate.stream != layer->experts.up.stream);
    const struct mt_param *a = opened_model_trained(
        &opened, "base_model.model.model.layers.1.mlp.experts.3.down_proj.lora_A.weight");
    const struct mt_param *b = opened_model_trained(
        &opened, "base_model.model.model.layers.1.mlp.experts.3.down_proj.lora_B.weight");
    assert_true(a != NULL && b == a + 1);
    assert_ptr_equal(a->value.data, layer->experts.down.a[3].data);
    assert_ptr_equal(b->grad.data, layer->experts.down.db[3].data);
    assert_int_equal(a->value.dim[0], 4);
    assert_int_equal(a->value.dim[1], 10);
    assert_int_equal(b->value.dim[0], 24);
    assert_int_equal(b->value.dim[1], 4);
    assert_int_equal(a->part, MT_PART_EXPERTS);
    assert_int_equal(a->layer, 1);
    assert_int_equal(a->expert, 3);
    assert_non_null(opened_model_trained(&opened, "base_model.model.lm_head.lora_A.weight"));
    finish(state, &opened);
}

/* A: uniform in ±1/sqrt(in), by name and seed alone. B: zero. */
static void lora_values(void **state)
{
    static const char name[] = "base_model.model.model.layers.1.self_attn.o_proj.lora_A.weight";
    struct opened_model opened;
    struct mt_train_selection selection = {
        .lora = PATTERNS("*.o_proj"), .lora_rank = 64, .lora_alpha = 1.0, .seed = 9};
    float first[64 * 24];
    make(state, &mt_arch_olmoe, MT_HF_FLOAT32, &opened);
    load(&opened, &selection);
    const struct mt_param *a = opened_model_trained(&opened, name);
    assert_non_null(a);
    memcpy(first, a->value.data, sizeof first);
    double bound = 1.0 / sqrt(24.0);
    double squares = 0.0;
    for (size_t i = 0; i < 64 * 24; i++) {
        assert_true(fabs((double)first[i]) <= bound);
        squares += (double)first[i] * (double)first[i] / (64.0 * 24.0);
    }
    assert_true(fabs(squares / (bound * bound / 3.0) - 1.0) < 0.1);
    for (int64_t i = 0; i < mt_tensor_count(&a[1].value); i++) {
        assert_true(((const float *)a[1].value.data)[i] == 0.0f);
    }
    selection.lora = PATTERNS("attention", "routed_experts");
    load(&opened, &selection);
    assert_memory_equal(opened_model_trained(&opened, name)->value.data, first, sizeof first);
    selection.seed = 10;
    load(&opened, &selection);
    assert_memory_not_equal(opened_model_trained(&opened, name)->value.data, first, sizeof first);
    finish(state, &opened);
}

// ------------------------------------------------------------------ selection

static void parts_globs_and_freeze(void **state)
{
    struct opened_model opened;
    make(state, &mt_arch_deepseek_v3, MT_HF_BFLOAT16, &opened);
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("router")});
    assert_int_equal(opened.params.trained_count, 2); // never the correction bias
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("model.layers.*.self_attn.o_proj")});
    assert_int_equal(opened.params.trained_count, 6); // weight and bias of three layers
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("model.layers.2.self_attn.o_proj.bias")});
    assert_int_equal(opened.params.trained_count, 1);
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("model.layers.[01].mlp.*"),
                                               .freeze = PATTERNS("router", "*.experts.[1-7].*")});
    // The dense MLP, one expert and the shared MLP.
    assert_int_equal(opened.params.trained_count, 3 + 3 + 3);
    load(&opened, &(struct mt_train_selection){.lora = PATTERNS("router", "attention"),
                                               .freeze = PATTERNS("router"),
                                               .lora_rank = 1,
                                               .lora_alpha = 1.0});
    assert_null(opened_model_trained(&opened, "base_model.model.model.layers.1.mlp.gate.lora_A.weight"));
    assert_false(opened.params.layer[1].correction_frozen);
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("router"),
                                               .freeze = PATTERNS("*.e_score_correction_bias")});
    assert_int_equal(opened.params.trained_count, 2);
    assert_true(opened.params.layer[1].correction_frozen && opened.params.layer[2].correction_frozen);
    finish(state, &opened);
}

static void full_and_lora_together(void **state)
{
    struct opened_model opened;
    make(state, &mt_arch_olmoe, MT_HF_BFLOAT16, &opened);
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("router", "norms"),
                                               .lora = PATTERNS("routed_experts"),
                                               .lora_rank = 2,
                                               .lora_alpha = 2.0});
    assert_true(mt_tensor_present(opened.params.layer[0].router.dweight));
    assert_true(mt_tensor_present(&opened.params.layer[0].experts.up.a[6]));
    assert_int_equal(opened.params.layer[0].router.weight.stored->dtype, MT_F32);
    assert_int_equal(opened.params.layer[0].experts.up.weight.stored[6].dtype, MT_BF16);
    finish(state, &opened);
}

static void chosen_experts(void **state)
{
    static const bool some[8] = {false, true, false, false, false, false, true, false};
    const bool *const flags[] = {NULL, some, NULL};
    struct opened_model opened;
    make(state, &mt_arch_deepseek_v3, MT_HF_BFLOAT16, &opened);
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("routed_experts"), .experts = flags});
    assert_int_equal(opened.params.trained_count, 3 * (2 + 8));
    const struct mt_linear *gate = &opened.params.layer[1].experts.gate;
    for (int e = 0; e < 8; e++) {
        assert_int_equal(mt_tensor_present(&gate->dweight[e]), some[e]);
        assert_int_equal(gate->weight.stored[e].dtype, some[e] ? MT_F32 : MT_BF16);
    }
    load(&opened,
         &(struct mt_train_selection){
             .lora = PATTERNS("routed_experts"), .experts = flags, .lora_rank = 2, .lora_alpha = 2.0});
    gate = &opened.params.layer[1].experts.gate;
    for (int e = 0; e < 8; e++) {
        assert_int_equal(mt_tensor_present(&gate->a[e]), some[e]);
        assert_int_equal(mt_tensor_present(&gate->db[e]), some[e]);
        assert_int_equal(mt_tensor_present(&opened.params.layer[2].experts.gate.a[e]), true);
    }
    refused(&opened, &(struct mt_train_selection){.full = PATTERNS("attention"), .experts = flags},
            "the targets have no routed expert among them");
    const bool *const dense[] = {some, NULL, NULL};
    refused(&opened, &(struct mt_train_selection){.full = PATTERNS("routed_experts"), .experts = dense},
            "layer 0, which has none");
    finish(state, &opened);
}

static void refused_selections(void **state)
{
    struct opened_model opened;
    make(state, &mt_arch_olmoe, MT_HF_BFLOAT16, &opened);
    refused(&opened, &(struct mt_train_selection){.full = PATTERNS("attention", "shared_experts")},
            "targets: 'shared_experts' matches no tensor of this model. It has the parts embedding, ");
    refused(&opened, &(struct mt_train_selection){.freeze = PATTERNS("*.q_a_proj")}, "freeze: '*.q_a_proj'");
    struct mt_train_selection lora = {.lora = PATTERNS("norms"), .lora_rank = 2, .lora_alpha = 2.0};
    refused(&opened, &lora,
            "targets: 'norms' matches no linear layer of this model. It has the parts attention, ");
    lora.lora = PATTERNS("model.layers.7.self_attn.q_proj");
    refused(&opened, &lora, "'model.layers.7.self_attn.q_proj'");
    lora.lora = PATTERNS("attention");
    lora.full = PATTERNS("*.self_attn.k_proj");
    refused(&opened, &lora, "self_attn.k_proj.weight is selected both for full training and for LoRA");
    lora.full = NULL;
    lora.lora_rank = 0;
    refused(&opened, &lora, "rank is 0");
    lora.lora_rank = 2;
    lora.lora_alpha = NAN;
    refused(&opened, &lora, "alpha is nan");
    lora.lora_alpha = 1.0;
    lora.lora_dropout = 1.0;
    refused(&opened, &lora, "dropout is 1");
    finish(state, &opened);
}

// ------------------------------------------------------------------ paths

static void paths(void **state)
{
    struct opened_model opened;
    struct mt_layer_paths path[2];
    make(state, &mt_arch_qwen3_moe, MT_HF_BFLOAT16, &opened); // layers 0 and 2 have experts
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("lm_head", "model.norm")});
    mt_params_paths(&opened.params, &opened.desc, path);
    for (int i = 0; i < 2; i++) assert_false(path[i].router || path[i].experts || path[i].below);
    load(&opened,
         &(struct mt_train_selection){.lora = PATTERNS("model.layers.0.mlp.gate", "*.experts.3.up_proj"),
                                      .lora_rank = 1,
                                      .lora_alpha = 1.0});
    mt_params_paths(&opened.params, &opened.desc, path);
    assert_true(path[0].router && path[0].experts && !path[0].below);
    assert_true(!path[1].router && path[1].experts && path[1].below);
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("model.layers.2.post_attention_layernorm")});
    mt_params_paths(&opened.params, &opened.desc, path);
    assert_true(!path[0].below && path[1].below);
    load(&opened, &(struct mt_train_selection){.full = PATTERNS("embedding")});
    mt_params_paths(&opened.params, &opened.desc, path);
    assert_true(path[0].below && path[1].below);
    finish(state, &opened);
}

// ------------------------------------------------------------------ files that do not fit

/* Weights of one config under another. */
static void misfit(void **state, const char *weights, const char *config, enum mt_status status,
                   const char *words)
{
    struct opened_model opened;
    assert_int_equal(small_model_make(*state, weights, MT_HF_FLOAT32, 1), 0);
    assert_int_equal(workplace_write(*state, "config.json", config, strlen(config)), 0);
    assert_int_equal(opened_model_open(*state, &opened), 0);
    assert_int_equal(opened_model_load(&opened, NULL), status);
    says(&opened, words);
    finish(state, &opened);
}

#define OLMOE(experts, layers, bias, vocabulary)                                                             \
    "{\"model_type\": \"olmoe\", \"attention_bias\": " bias                                                  \
    ", \"hidden_size\": 8, \"intermediate_size\": 4,"                                                        \
    " \"max_position_embeddings\": 64, \"num_attention_heads\": 2, \"num_experts\": " experts ","            \
    " \"num_experts_per_tok\": 2, \"num_hidden_layers\": " layers ", \"vocab_size\": " vocabulary "}"

#define GPT_OSS(heads, key_heads, head_dim, bias)                                                            \
    "{\"model_type\": \"gpt_oss\", \"attention_bias\": " bias ", \"head_dim\": " head_dim                    \
    ", \"hidden_size\": 16, \"intermediate_size\": 6,"                                                       \
    " \"max_position_embeddings\": 64, \"num_attention_heads\": " heads ", \"num_experts_per_tok\": 2,"      \
    " \"num_hidden_layers\": 1, \"num_key_value_heads\": " key_heads ", \"num_local_experts\": 3,"           \
    " \"vocab_size\": 9}"

static void files_that_do_not_fit(void **state)
{
    misfit(state, GPT_OSS("4", "2", "4", "true"), GPT_OSS("2", "1", "8", "true"), MT_ERR_SHAPE,
           "wrong: model.layers.0.self_attn.sinks is F32 [4], expected [2] in F32, BF16 or F16");
    misfit(state, GPT_OSS("4", "2", "4", "false"), GPT_OSS("4", "2", "4", "true"), MT_ERR_FORMAT,
           "missing: model.layers.0.self_attn.q_proj.bias, ");
    misfit(state, OLMOE("3", "1", "false", "9"), OLMOE("4", "1", "false", "9"), MT_ERR_FORMAT,
           "missing: model.layers.0.mlp.experts.3.gate_proj.weight, ");
    misfit(state, OLMOE("3", "2", "false", "9"), OLMOE("3", "1", "false", "9"), MT_ERR_FORMAT,
           "unexpected: model.layers.1.input_layernorm.weight, ");
    misfit(state, OLMOE("3", "2", "false", "9"), OLMOE("3", "1", "false", "9"), MT_ERR_FORMAT, "and 14 more");
    misfit(state, OLMOE("3", "1", "false", "9"), OLMOE("3", "1", "false", "11"), MT_ERR_SHAPE,
           "wrong: model.embed_tokens.weight is F32 [9, 8], expected [11, 8] in F32, BF16 or F16, "
           "lm_head.weight");
    misfit(state, OLMOE("3", "1", "true", "9"), OLMOE("4", "1", "false", "9"), MT_ERR_FORMAT,
           "unexpected: model.layers.0.self_attn.k_proj.bias");
}

// ------------------------------------------------------------------ memory

static enum mt_status load_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    char path[128];
    struct opened_model opened = {0};
    (void)workplace_path(place, "config.json", path, sizeof path);
    enum mt_status status = mt_hf_config_read(ctx, path, NULL, 0, &opened.config);
    if (status == MT_OK) status = mt_model_describe(ctx, &opened.config, &opened.desc);
    if (status == MT_OK) status = mt_stacks_open(ctx, place->directory, &opened.config, &opened.checkpoint);
    if (status == MT_OK) status = mt_device_create(ctx, "cpu", 1, &opened.device);
    if (status == MT_OK) {
        status = opened_model_load(&opened, &(struct mt_train_selection){.full = PATTERNS("norms"),
                                                                         .lora = PATTERNS("routed_experts"),
                                                                         .lora_rank = 2,
                                                                         .lora_alpha = 2.0,
                                                                         .rounded = true});
    }
    mt_params_free(&opened.params);
    mt_device_destroy(opened.device);
    mt_checkpoint_close(&opened.checkpoint);
    mt_hf_config_free(&opened.config);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    assert_int_equal(small_model_make(*state, small_model_config(&mt_arch_deepseek_v3), MT_HF_BFLOAT16, 1),
                     0);
    assert_every_allocation_may_fail(load_once, *state, 21);
}

int main(void)
{
#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(everything_frozen),
        AT_A_PLACE(device_memory),
        AT_A_PLACE(shared_weights),
        AT_A_PLACE(embedding_in_host_memory),
        AT_A_PLACE(unaligned_and_bf16_correction),
        AT_A_PLACE(everything_trained),
        AT_A_PLACE(tied_head),
        AT_A_PLACE(zero_gradients),
        AT_A_PLACE(lora_pairs),
        AT_A_PLACE(lora_values),
        AT_A_PLACE(roundings),
        AT_A_PLACE(parts_globs_and_freeze),
        AT_A_PLACE(full_and_lora_together),
        AT_A_PLACE(chosen_experts),
        AT_A_PLACE(refused_selections),
        AT_A_PLACE(paths),
        AT_A_PLACE(files_that_do_not_fit),
        AT_A_PLACE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
