/*
 * A model: opening (config, weights, parameters, objective, memory), closing, and what can be asked of it.
 *
 * Memory is counted for the largest batch, allocated once, and laid out anew for every batch, which costs a
 * few thousand additions: every tensor then has exactly the batch's size, and no layer slices anything.
 */
#include <inttypes.h>
#include <stdio.h>

#include "arch/published/paper.h"
#include "arch/published/stacks.h"
#include "arch/rope.h"
#include "model/adapters/router_bias.h"
#include "model/model_struct.h"
#include "objective/objective.h"

#define KEYS_PER_TOKEN 4 // of prompts in a batch: room for those that go on, whose earlier keys come along

// ------------------------------------------------------------------ opening

/* The type of what is never rounded to the activations' 16 bits. */
static enum mt_dtype exact_type(enum mt_dtype activations)
{
    return activations == MT_F64 ? MT_F64 : MT_F32;
}

static enum mt_status check_options(struct mt_context *ctx, struct mt_model_options *options)
{
    if (options->tokens < 1 || options->sequences < 1 || options->positions < 1) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "a batch has %" PRId64 " tokens in %" PRId64 " sequences of %" PRId64
                       " positions, expected at least one of each",
                       options->tokens, options->sequences, options->positions);
    }
    if (options->tokens > INT32_MAX) {
        return mt_fail(ctx, MT_ERR_USAGE, "a batch has %" PRId64 " tokens, expected at most 2^31 - 1",
                       options->tokens);
    }
    if (options->activations != MT_F32 && options->activations != MT_BF16 && options->activations != MT_F64) {
        return mt_fail(ctx, MT_ERR_USAGE, "activations in %s: expected f32, bf16 or f64",
                       mt_dtype_name(options->activations));
    }
    if (options->cache && options->backward)
        return mt_fail(ctx, MT_ERR_USAGE, "a model with a cache has no backward");
    // More tokens than the sequences can hold never come.
    if (options->tokens / options->sequences >= options->positions)
        options->tokens = options->sequences * options->positions;
    if (options->sequences > options->tokens) options->sequences = options->tokens;
    if (options->cache_slots == 0) options->cache_slots = options->sequences;
    if (options->logit_rows == 0 || options->logit_rows > options->tokens)
        options->logit_rows = options->tokens;
    return MT_OK;
}

int64_t mt_model_prompt_keys(const struct mt_model_options *options)
{
    if (!options->cache) return 0;
    int64_t all = options->sequences * options->positions;
    int64_t keys = KEYS_PER_TOKEN * options->tokens;
    if (keys < options->positions) keys = options->positions;
    return keys < all ? keys : all;
}

int64_t mt_model_other_tokens(const struct mt_model_options *options)
{
    int64_t most = options->sequences * (MT_PROMPT_TOKENS - 1);
    return most < options->tokens ? most : options->tokens;
}

/* The parameters, and the biases beside the weights where the checkpoint has no place for them. */
static enum mt_status load_params(struct mt_model *model, const char *directory)
{
    struct mt_safetensors biases = {0};
    enum mt_status status = MT_OK;
    if (!model->options.without_biases && !model->desc.correction_bias)
        status = mt_router_bias_open(model->ctx, directory, MT_ROUTER_BIAS_OF_MODEL, &model->desc, &biases);
    if (status != MT_OK) return status;
    if (biases.tensor_count > 0) model->options.selection.biases = true;
    model->options.selection.forward_only = !model->options.backward;
    status = mt_params_load(model->device, &model->desc, &model->checkpoint, &model->options.selection,
                            &model->params);
    if (status == MT_OK) status = mt_router_bias_apply(&biases, &model->params);
    mt_safetensors_close(&biases);
    return status;
}

static enum mt_status read_folder(struct mt_model *model, const char *directory)
{
    enum mt_status status = mt_hf_config_read_folder(model->ctx, directory, &model->config);
    if (status != MT_OK) return status;
    status = mt_model_describe(model->ctx, &model->config, &model->desc);
    if (status != MT_OK) return mt_fail_within(model->ctx, status, "%s/config.json", directory);
    status = model->options.without_weights
                 ? mt_paper_checkpoint(model->ctx, &model->config, &model->checkpoint)
                 : mt_stacks_open(model->ctx, directory, &model->config, &model->checkpoint);
    if (status != MT_OK) return status;
    model->options.selection.expert_ranks = model->options.expert_ranks;
    model->options.selection.rounded = model->options.activations == MT_BF16;
    model->options.selection.folder = directory;
    if (model->options.without_weights && !model->options.selection.quantise.on)
        mt_quantise_as_published(&model->config, &model->options.selection.quantise);
    return load_params(model, directory);
}

static int moe_layers(const struct mt_model *model)
{
    int count = 0;
    for (int64_t i = 0; i < model->desc.layers; i++) count += model->params.layer[i].moe ? 1 : 0;
    return count;
}

/* Refuses a term that nothing which is trained would feel. */
static enum mt_status check_live(struct mt_model *model, int layers)
{
    size_t bytes = (size_t)layers * sizeof(struct mt_layer_paths);
    void *memory = NULL;
    enum mt_status status =
        mt_allocate_array(model->ctx, (size_t)layers, sizeof(struct mt_layer_paths), &memory);
    if (status != MT_OK) return status;
    mt_params_paths(&model->params, &model->desc, memory);
    const char *prefix = model->options.objective_prefix != NULL ? model->options.objective_prefix : "";
    status = mt_objective_check_live(model->ctx, &model->method, &model->desc.router, memory, layers, prefix);
    mt_release(model->ctx, memory, bytes);
    return status;
}

static enum mt_status make_objective(struct mt_model *model, const struct mt_objective_config *method)
{
    if (method == NULL) return MT_OK;
    model->method = *method;
    int layers = moe_layers(model);
    if (layers == 0)
        return mt_fail(model->ctx, MT_ERR_USAGE,
                       "no layer has experts, so there is nothing the objective could act on");
    if (model->options.backward) {
        enum mt_status status = check_live(model, layers);
        if (status != MT_OK) return status;
    }
    int of_all = MT_NEEDS_INNER_GRAM | MT_NEEDS_PROXIES | MT_NEEDS_DENSE_BACKWARD;
    if ((mt_objective_needs(&model->method) & of_all) != 0 && model->options.expert_ranks != NULL)
        return mt_fail(model->ctx, MT_ERR_UNSUPPORTED,
                       "method %s needs all experts on one rank, and they are spread over ranks",
                       model->method.method);
    if ((mt_objective_needs(&model->method) & MT_NEEDS_PROXIES) != 0) {
        enum mt_status status = mt_proxies_places(model->device, &model->desc, &model->proxy_places);
        if (status != MT_OK) return status;
        model->transformer.pass.moe.proxy_places = mt_proxies_view(&model->desc, &model->proxy_places);
    }
    struct mt_objective_shape shape = {.layers = layers,
                                       .tokens = model->options.tokens,
                                       .experts = model->desc.experts,
                                       .slots = model->desc.router.slots,
                                       .segments = (int)model->options.sequences,
                                       .width = model->desc.width,
                                       .router = model->desc.router};
    return mt_objective_create_typed(model->device, &model->method, &shape,
                                     exact_type(model->options.activations), &model->objective);
}

/* A method that balances by bias gives one to every router that has none, zeros at first. */
static enum mt_status make_biases(struct mt_model *model)
{
    if (model->objective == NULL) return MT_OK;
    enum mt_status status = mt_selection_check(model->ctx, &model->method, &model->desc.router);
    if (status != MT_OK || !mt_selection_has_bias(&model->method)) return status;
    return mt_router_bias_create(&model->params, &model->desc, &model->biases);
}

/* Takes them away again. */
static void remove_biases(struct mt_model *model)
{
    const char *start = model->biases.data;
    for (int64_t i = 0; start != NULL && i < model->desc.layers; i++) {
        struct mt_tensor *correction = &model->params.layer[i].correction;
        const char *data = correction->data;
        if (data >= start && data < start + model->biases.bytes) *correction = (struct mt_tensor){0};
    }
    mt_buffer_release(&model->biases);
}

static enum mt_status make_cache(struct mt_model *model)
{
    if (!model->options.cache) return MT_OK;
    struct mt_cache_shape shape = {.slots = model->options.cache_slots,
                                   .positions = model->options.positions,
                                   .type = model->options.activations};
    enum mt_status status =
        mt_cache_create(model->device, &model->desc, &model->params, &shape, &model->cache);
    if (status == MT_OK) model->transformer.pass.cached.cache = &model->cache;
    return status;
}

static enum mt_status make_tables(struct mt_model *model)
{
    int64_t rows = mt_rope_rows(model->desc.config, model->options.positions);
    int64_t columns = model->desc.rope_width / 2;
    size_t bytes = (size_t)(rows + 1) * (size_t)columns * sizeof(float);
    void *host = NULL;
    enum mt_status status = mt_device_buffer_create(model->device, 2 * bytes, &model->tables);
    if (status == MT_OK) status = mt_allocate(model->ctx, 2 * bytes, &host);
    if (status != MT_OK) return status;
    char *tables = model->tables.data;
    float *cosine = host;
    float *sine = cosine + (rows + 1) * columns;
    mt_rope_tables(model->desc.config, model->desc.rope_width, model->options.positions, cosine, sine);
    for (int64_t i = 0; i < columns; i++) {
        cosine[rows * columns + i] = 1.0f;
        sine[rows * columns + i] = 0.0f;
    }
    status = mt_device_upload(model->device, tables, host, 2 * bytes);
    mt_release(model->ctx, host, 2 * bytes);
    struct mt_pass *pass = &model->transformer.pass;
    struct mt_tensor all_cosine = mt_tensor_2d(tables, MT_F32, rows + 1, columns);
    struct mt_tensor all_sine = mt_tensor_2d(tables + bytes, MT_F32, rows + 1, columns);
    pass->cosine = mt_tensor_rows(&all_cosine, 0, rows);
    pass->sine = mt_tensor_rows(&all_sine, 0, rows);
    pass->cached.still_cosine = mt_tensor_rows(&all_cosine, rows, 1);
    pass->cached.still_sine = mt_tensor_rows(&all_sine, rows, 1);
    return status;
}

static enum mt_status make_transformer(struct mt_model *model)
{
    struct mt_transformer *t = &model->transformer;
    void *layers = NULL;
    void *hidden = NULL;
    size_t count = (size_t)model->desc.layers;
    enum mt_status status = mt_allocate_array(model->ctx, count, sizeof *t->layer, &layers);
    t->layer = layers;
    if (status == MT_OK) status = mt_allocate_array(model->ctx, count + 1, sizeof *t->hidden, &hidden);
    t->hidden = hidden;
    if (status != MT_OK) return status;
    t->params = &model->params;
    t->plan = (struct mt_layer_plan){.backward = model->options.backward,
                                     .hidden = model->options.keep_hidden,
                                     .records = model->options.keep_hidden || mt_model_keeps_records(model),
                                     .recompute = model->options.recompute};
    t->pass.device = model->device;
    t->pass.moe.placement = &mt_experts_local;
    t->pass.desc = &model->desc;
    t->pass.type = model->options.activations;
    t->pass.exact = exact_type(model->options.activations);
    t->pass.seed = model->options.selection.seed;
    return make_tables(model);
}

static enum mt_status make_ranks(struct mt_model *model)
{
    if (model->options.expert_ranks == NULL) return MT_OK;
    const struct mt_transformer *t = &model->transformer;
    const struct mt_expert_ranks_shape shape = {.experts = model->desc.experts,
                                                .layers = moe_layers(model),
                                                .rows = model->options.tokens * model->desc.router.slots,
                                                .width = model->desc.width,
                                                .room = model->options.expert_room,
                                                .direct = model->options.expert_direct,
                                                .sender = model->options.expert_sender,
                                                .element = mt_dtype_bytes(t->pass.type)};
    model->transformer.pass.moe.ranks = &model->ranks;
    model->transformer.pass.moe.placement = &mt_experts_parallel;
    return mt_expert_ranks_create(model->device, model->options.expert_ranks, &shape, &model->ranks);
}

void mt_model_lay_out(struct mt_model *model, const struct mt_batch_shape *shape, struct mt_regions *regions)
{
    *regions = (struct mt_regions){.index = {.base = model->index.data},
                                   .kept = {.base = model->kept.data},
                                   .shared = {.base = model->shared.data},
                                   .work = {.base = model->work.data}};
    mt_transformer_plan(&model->transformer, shape, regions);
}

/* A buffer that is there and large enough stays. */
static enum mt_status make_buffer(struct mt_model *model, const char *purpose, size_t bytes,
                                  struct mt_buffer *buffer)
{
    if (buffer->data != NULL && buffer->bytes >= bytes) return MT_OK;
    mt_buffer_release(buffer);
    enum mt_status status = mt_device_buffer_create(model->device, bytes, buffer);
    return status == MT_OK ? MT_OK : mt_fail_within(model->ctx, status, "%s", purpose);
}

static enum mt_status make_memory(struct mt_model *model)
{
    struct mt_regions regions;
    int64_t others = mt_model_other_tokens(&model->options);
    struct mt_batch_shape shape = {.tokens = model->options.tokens,
                                   .sequences = model->options.sequences,
                                   .prompt_sequences = model->options.sequences,
                                   .prompt_tokens = model->options.tokens - others,
                                   .prompt_keys = mt_model_prompt_keys(&model->options),
                                   .mask = true,
                                   .ortho_mask = true,
                                   .given = model->options.choices};
    bool grams = model->transformer.pass.moe.grams;
    model->transformer.pass.moe.grams = mt_model_keeps_records(model); // room for them whoever observes
    mt_model_lay_out(model, &shape, &regions);
    model->transformer.pass.moe.grams = grams;
    enum mt_status status = make_buffer(model, "index tensors", regions.index.bytes, &model->index);
    if (status == MT_OK) status = make_buffer(model, "kept activations", regions.kept.bytes, &model->kept);
    if (status == MT_OK)
        status = make_buffer(model, "shared activations", regions.shared_bytes, &model->shared);
    if (status == MT_OK) status = make_buffer(model, "work memory", regions.work_bytes, &model->work);
    return status;
}

static enum mt_status make_host_rows(struct mt_model *model)
{
    void *host = NULL;
    int64_t row = model->options.tokens + 1; // there are no more sequences than tokens
    int64_t keys = mt_model_prompt_keys(&model->options);
    model->host_row = row > keys ? row : keys;
    enum mt_status status =
        mt_allocate_array(model->ctx, (size_t)model->host_row * HOST_ROWS, sizeof(int32_t), &host);
    model->host = host;
    if (status != MT_OK) return status;
    int choices =
        model->options.choices ? mt_model_moe_layers(&model->desc, NULL) * model->desc.router.slots : 0;
    return mt_staging_create(model->ctx, INDEX_TENSORS + (size_t)choices, (size_t)model->host_row,
                             &model->staging);
}

enum mt_status mt_model_set_objective(struct mt_model *model, const struct mt_objective_config *objective)
{
    mt_objective_destroy(model->objective);
    model->objective = NULL;
    model->ran = false;
    mt_replay_free(&model->replay); // memory may move
    remove_biases(model);
    mt_buffer_release(&model->proxy_places);
    enum mt_status status = make_objective(model, objective);
    if (status == MT_OK) status = make_biases(model);
    model->transformer.pass.moe.method = model->objective != NULL ? &model->method : NULL;
    if (status == MT_OK) status = make_memory(model);
    return status == MT_OK ? mt_model_plan_scratch(model) : status;
}

enum mt_status mt_model_set_slots(struct mt_model *model, int slots)
{
    int most = (int)model->config.experts_per_token;
    struct mt_router_config router = model->desc.router;
    if (slots < 0 || slots > most)
        return mt_fail(model->ctx, MT_ERR_USAGE, "%d experts per token, but the model has only %d", slots,
                       most);
    router.slots = slots == 0 ? most : slots;
    enum mt_status status = mt_router_config_check(model->ctx, &router, model->desc.experts);
    if (status != MT_OK) return status;
    mt_replay_free(&model->replay); // records of passes with other slots
    model->ran = false;
    model->desc.router.slots = router.slots;
    return MT_OK;
}

void mt_model_silence(struct mt_model *model, bool silent)
{
    mt_replay_free(&model->replay);
    model->ran = false;
    model->transformer.pass.moe.silent = silent;
}

enum mt_status mt_model_open(struct mt_device *device, const char *directory,
                             const struct mt_model_options *options, struct mt_model **model)
{
    *model = NULL;
    struct mt_context *ctx = mt_device_context(device);
    struct mt_model_options checked = *options;
    enum mt_status status = check_options(ctx, &checked);
    void *memory = NULL;
    if (status == MT_OK) status = mt_allocate_array(ctx, 1, sizeof **model, &memory);
    if (status != MT_OK) return status;
    struct mt_model *made = memory;
    made->device = device;
    made->ctx = ctx;
    made->options = checked;
    status = read_folder(made, directory);
    if (status == MT_OK) status = make_cache(made);
    if (status == MT_OK) status = make_transformer(made);
    if (status == MT_OK) status = make_ranks(made);
    if (status == MT_OK) status = make_host_rows(made);
    if (status == MT_OK) status = mt_model_set_objective(made, options->objective);
    // The selection's lists belong to the caller, and are not read again.
    made->options.selection = (struct mt_train_selection){.seed = checked.selection.seed};
    made->options.objective = NULL;
    made->options.objective_prefix = NULL;
    if (status != MT_OK) {
        mt_model_close(made);
        return status;
    }
    *model = made;
    return MT_OK;
}

void mt_model_close(struct mt_model *model)
{
    if (model == NULL) return;
    size_t layers = (size_t)model->desc.layers;
    mt_objective_destroy(model->objective);
    mt_replay_free(&model->replay);
    mt_buffer_release(&model->index);
    mt_buffer_release(&model->kept);
    mt_buffer_release(&model->shared);
    mt_buffer_release(&model->work);
    mt_buffer_release(&model->tables);
    mt_buffer_release(&model->biases);
    mt_buffer_release(&model->proxy_places);
    mt_cache_destroy(&model->cache);
    mt_expert_ranks_free(&model->ranks);
    mt_staging_free(&model->staging);
    mt_release(model->ctx, model->host, (size_t)model->host_row * HOST_ROWS * sizeof(int32_t));
    mt_release(model->ctx, model->transformer.layer, layers * sizeof *model->transformer.layer);
    mt_release(model->ctx, model->transformer.hidden, (layers + 1) * sizeof *model->transformer.hidden);
    mt_params_free(&model->params);
    mt_checkpoint_close(&model->checkpoint);
    mt_hf_config_free(&model->config);
    mt_release(model->ctx, model, sizeof *model);
}

// ------------------------------------------------------------------ questions

enum mt_dtype mt_model_activations(const struct mt_model *model)
{
    return model->options.activations;
}

const struct mt_model_desc *mt_model_description(const struct mt_model *model)
{
    return &model->desc;
}

struct mt_params *mt_model_params(struct mt_model *model)
{
    return &model->params;
}

struct mt_objective *mt_model_objective(struct mt_model *model)
{
    return model->objective;
}

struct mt_model_bytes mt_model_bytes(const struct mt_model *model)
{
    return (struct mt_model_bytes){
        .mapped = model->params.mapped,
        .copies = model->params.copies.bytes,
        .beside = model->params.beside.bytes,
        .codes = model->params.codes.bytes,
        .unpacked = model->params.unpacked.bytes,
        .masters = model->params.masters.bytes + model->params.rounded.bytes,
        .gradients = model->params.gradients.bytes,
        .activations = model->kept.bytes + model->index.bytes,
        .work = model->shared.bytes + model->work.bytes + model->tables.bytes +
                mt_device_scratch_bytes(model->device),
        .cache = model->cache.buffer.bytes,
    };
}

const struct mt_tensor *mt_model_hidden(const struct mt_model *model, int64_t layer)
{
    bool kept = mt_transformer_keeps_hidden(&model->transformer);
    return kept ? &model->transformer.hidden[layer + 1] : NULL;
}

const struct mt_routing *mt_model_routing(const struct mt_model *model, int64_t layer)
{
    bool kept = mt_transformer_keeps_hidden(&model->transformer) || mt_model_keeps_records(model);
    return kept && model->params.layer[layer].moe ? &model->transformer.layer[layer].moe.record : NULL;
}

const int64_t *mt_model_rows_sent(const struct mt_model *model)
{
    return model->ranks.away;
}

bool mt_model_keeps_records(const struct mt_model *model)
{
    return model->options.cache && !mt_device_on_host(model->device);
}

void mt_model_observe(struct mt_model *model, const struct mt_layer_observer *observer)
{
    struct mt_transformer *t = &model->transformer;
    t->observer = observer != NULL ? *observer : (struct mt_layer_observer){0};
    bool grams = t->observer.after != NULL;
    if (grams != t->pass.moe.grams)
        mt_replay_free(&model->replay); // recorded passes do without, or make them
    t->pass.moe.grams = grams;
}

enum mt_status mt_model_logits(struct mt_model *model, const struct mt_tensor *logits)
{
    const struct mt_transformer *t = &model->transformer;
    return mt_head_logits(&t->pass, t->params, &t->head, logits);
}

enum mt_status mt_model_logits_of(struct mt_model *model, const int32_t *rows, int64_t count,
                                  const struct mt_tensor *logits)
{
    const struct mt_transformer *t = &model->transformer;
    int64_t most = t->pass.tokens < model->options.logit_rows ? t->pass.tokens : model->options.logit_rows;
    if (!model->options.cache || count < 1 || count > most) {
        return mt_fail(model->ctx, MT_ERR_USAGE,
                       "logits of %" PRId64 " tokens: a batch of a model with a cache has %" PRId64, count,
                       model->options.cache ? most : 0);
    }
    enum mt_status status =
        mt_device_upload(model->device, t->head.rows.data, rows, (size_t)count * sizeof *rows);
    if (status != MT_OK) return status;
    return mt_head_logits_of(&t->pass, t->params, &t->head, count, logits);
}

enum mt_status mt_model_copy_slot(struct mt_model *model, int64_t from, int64_t to, int64_t tokens)
{
    bool known = from >= 0 && to >= 0 && from < model->cache.slots && to < model->cache.slots;
    if (!known || from == to || tokens < 0 || tokens > model->cache.positions) {
        return mt_fail(model->ctx, MT_ERR_USAGE,
                       "%" PRId64 " tokens of slot %" PRId64 " to slot %" PRId64 ": there are %" PRId64
                       " slots of %" PRId64 " tokens",
                       tokens, from, to, model->cache.slots, model->cache.positions);
    }
    return tokens > 0 ? mt_cache_copy(&model->cache, from, to, tokens) : MT_OK;
}

struct mt_comm *mt_model_expert_ranks(const struct mt_model *model)
{
    return model->options.expert_ranks;
}

struct mt_device *mt_model_device(const struct mt_model *model)
{
    return model->device;
}
