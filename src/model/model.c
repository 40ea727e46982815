/*
 * A model at work: opening (config, weights, parameters, objective, memory), one batch forward, one backward.
 *
 * Memory is counted for the largest batch, allocated once, and laid out anew for every batch, which costs a
 * few thousand additions: every tensor then has exactly the batch's size, and no layer slices anything.
 */
#include "model/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/cache.h"
#include "model/expert_ranks.h"
#include "model/replay.h"
#include "model/staging.h"
#include "model/transformer.h"
#include "objective/parts.h"

struct mt_model {
    struct mt_device *device; // borrowed
    struct mt_context *ctx;   // borrowed
    struct mt_model_options options;
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_checkpoint checkpoint;
    struct mt_params params;
    struct mt_objective_config method; // a copy
    struct mt_objective *objective;    // NULL without one
    struct mt_cache cache;             // zeroed without one
    struct mt_expert_ranks ranks;      // zeroed where all experts are here
    struct mt_transformer transformer;
    struct mt_buffer index, kept, shared, work; // the regions' memory
    struct mt_buffer tables;                    // of the rotation
    struct mt_buffer biases;   // of routers that have none of their own, if a method moves them
    int32_t *host;             // [HOST_ROWS, host_row]: index tensors on their way to the device
    struct mt_staging staging; // the same, as they will lie at the start of `index`
    int64_t host_row;          // numbers of each: the most of tokens, sequences + 1, heads + 1
    struct mt_replay replay;   // of passes of one token a sequence
    bool ran;                  // a forward that backward can follow has run
};

// Rows of the host's staging memory.
enum {
    HOST_POSITIONS,
    HOST_SEGMENT,
    HOST_LABELS,
    HOST_ORTHO_MASK,
    HOST_KEY_OFFSETS,
    HOST_KEY_STARTS,
    HOST_HEAD_OFFSETS,
    HOST_PLACES,
    HOST_ROWS
};

#define INDEX_TENSORS 11 // of a batch

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
                       "a batch of %" PRId64 " tokens in %" PRId64 " sequences of %" PRId64 " positions",
                       options->tokens, options->sequences, options->positions);
    }
    if (options->tokens > INT32_MAX) {
        return mt_fail(ctx, MT_ERR_USAGE, "%" PRId64 " tokens in a batch: more than can be counted",
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
    return MT_OK;
}

static enum mt_status read_folder(struct mt_model *model, const char *directory)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/config.json", directory);
    if (length < 0 || (size_t)length >= sizeof path)
        return mt_fail(model->ctx, MT_ERR_USAGE, "%.100s...: the path is too long", directory);
    enum mt_status status = mt_hf_config_read(model->ctx, path, &model->config);
    if (status != MT_OK) return status;
    status = mt_model_describe(model->ctx, &model->config, &model->desc);
    if (status != MT_OK) return mt_fail_within(model->ctx, status, "%s", path);
    status = mt_checkpoint_open(model->ctx, directory, &model->checkpoint);
    if (status != MT_OK) return status;
    model->options.selection.expert_ranks = model->options.expert_ranks;
    model->options.selection.rounded = model->options.backward && model->options.activations == MT_BF16;
    return mt_params_load(model->device, &model->desc, &model->checkpoint, &model->options.selection,
                          &model->params);
}

static int moe_layers(const struct mt_model *model)
{
    int count = 0;
    for (int64_t i = 0; i < model->desc.layers; i++) count += model->params.layer[i].moe ? 1 : 0;
    return count;
}

/* Refuses a term that nothing which learns would feel. */
static enum mt_status check_live(struct mt_model *model, int layers)
{
    size_t bytes = (size_t)layers * sizeof(struct mt_layer_paths);
    void *memory = NULL;
    enum mt_status status =
        mt_allocate_array(model->ctx, (size_t)layers, sizeof(struct mt_layer_paths), &memory);
    if (status != MT_OK) return status;
    mt_params_paths(&model->params, &model->desc, memory);
    status = mt_objective_check_live(model->ctx, &model->method, &model->desc.router, memory, layers);
    mt_release(model->ctx, memory, bytes);
    return status;
}

static enum mt_status make_objective(struct mt_model *model, const struct mt_objective_config *method)
{
    if (method == NULL) return MT_OK;
    model->method = *method;
    int layers = moe_layers(model);
    if (layers == 0)
        return mt_fail(model->ctx, MT_ERR_USAGE, "no layer has experts: the objective has no object");
    if (model->options.backward) {
        enum mt_status status = check_live(model, layers);
        if (status != MT_OK) return status;
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
    if (model->objective == NULL || model->method.bias_rule == MT_BIAS_NONE) return MT_OK;
    if (model->desc.router.kind == MT_ROUTER_SPARSEMIXER)
        return mt_fail(model->ctx, MT_ERR_UNSUPPORTED, "bias_rule: SparseMixer chooses without a bias");
    int64_t experts = model->desc.experts;
    size_t bytes = (size_t)moe_layers(model) * (size_t)experts * sizeof(float);
    enum mt_status status = mt_device_buffer_create(model->device, bytes, &model->biases);
    if (status != MT_OK) return status;
    struct mt_tensor all = mt_tensor_2d(model->biases.data, MT_F32, moe_layers(model), experts);
    int64_t used = 0;
    for (int64_t i = 0; i < model->desc.layers; i++) {
        struct mt_layer_params *layer = &model->params.layer[i];
        if (!layer->moe || mt_tensor_present(&layer->correction)) continue;
        layer->correction = mt_tensor_at(&all, used++);
    }
    return mt_fill(model->device, &(struct mt_fill_args){.y = all, .value = 0.0f});
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
    struct mt_cache_shape shape = {.slots = model->options.sequences,
                                   .positions = model->options.positions,
                                   .type = model->options.activations};
    enum mt_status status =
        mt_cache_create(model->device, &model->desc, &model->params, &shape, &model->cache);
    if (status == MT_OK) model->transformer.pass.cache = &model->cache;
    return status;
}

static enum mt_status make_tables(struct mt_model *model)
{
    int64_t rows = mt_model_rope_rows(&model->desc, model->options.positions);
    int64_t columns = model->desc.rope_width / 2;
    size_t bytes = (size_t)rows * (size_t)columns * sizeof(float);
    void *host = NULL;
    enum mt_status status = mt_device_buffer_create(model->device, 2 * bytes, &model->tables);
    if (status == MT_OK) status = mt_allocate(model->ctx, 2 * bytes, &host);
    if (status != MT_OK) return status;
    char *tables = model->tables.data;
    mt_model_rope_tables(&model->desc, model->options.positions, host, (float *)host + rows * columns);
    status = mt_device_upload(model->device, tables, host, 2 * bytes);
    mt_release(model->ctx, host, 2 * bytes);
    model->transformer.pass.cosine = mt_tensor_2d(tables, MT_F32, rows, columns);
    model->transformer.pass.sine = mt_tensor_2d(tables + bytes, MT_F32, rows, columns);
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
                                     .records = model->options.keep_hidden,
                                     .recompute = model->options.recompute};
    t->pass.device = model->device;
    t->pass.desc = &model->desc;
    t->pass.type = model->options.activations;
    t->pass.exact = exact_type(model->options.activations);
    t->pass.seed = model->options.selection.seed;
    return make_tables(model);
}

static enum mt_status make_ranks(struct mt_model *model)
{
    if (model->options.expert_ranks == NULL) return MT_OK;
    const struct mt_expert_ranks_shape shape = {.experts = model->desc.experts,
                                                .layers = moe_layers(model),
                                                .rows = model->options.tokens * model->desc.router.slots,
                                                .width = model->desc.width,
                                                .room = model->options.expert_room,
                                                .direct = model->options.expert_direct,
                                                .element = mt_dtype_bytes(model->options.activations)};
    model->transformer.pass.ranks = &model->ranks;
    return mt_expert_ranks_create(model->device, model->options.expert_ranks, &shape, &model->ranks);
}

static void lay_out(struct mt_model *model, const struct mt_batch_shape *shape, struct mt_regions *regions)
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
    struct mt_batch_shape shape = {.tokens = model->options.tokens,
                                   .sequences = model->options.sequences,
                                   .mask = true,
                                   .ortho_mask = true};
    lay_out(model, &shape, &regions);
    enum mt_status status = make_buffer(model, "index tensors", regions.index.bytes, &model->index);
    if (status == MT_OK) status = make_buffer(model, "kept activations", regions.kept.bytes, &model->kept);
    if (status == MT_OK)
        status = make_buffer(model, "shared activations", regions.shared_bytes, &model->shared);
    if (status == MT_OK) status = make_buffer(model, "work memory", regions.work_bytes, &model->work);
    if (status != MT_OK) return status;
    struct mt_tensor index =
        mt_tensor_1d(model->index.data, MT_I32, (int64_t)(regions.index.bytes / sizeof(int32_t)));
    return mt_fill(model->device, &(struct mt_fill_args){.y = index, .value = 0.0f});
}

static enum mt_status make_host_rows(struct mt_model *model)
{
    void *host = NULL;
    int64_t row = model->options.tokens + 1; // there are no more sequences than tokens
    model->host_row = row > model->desc.heads ? row : model->desc.heads + 1;
    enum mt_status status =
        mt_allocate_array(model->ctx, (size_t)model->host_row * HOST_ROWS, sizeof(int32_t), &host);
    model->host = host;
    if (status != MT_OK) return status;
    return mt_staging_create(model->ctx, INDEX_TENSORS, (size_t)model->host_row, &model->staging);
}

static enum mt_status plan_scratch(struct mt_model *model);

enum mt_status mt_model_set_objective(struct mt_model *model, const struct mt_objective_config *objective)
{
    mt_objective_destroy(model->objective);
    model->objective = NULL;
    model->ran = false;
    remove_biases(model);
    enum mt_status status = make_objective(model, objective);
    if (status == MT_OK) status = make_biases(model);
    model->transformer.pass.method = model->objective != NULL ? &model->method : NULL;
    if (status == MT_OK) status = make_memory(model);
    return status == MT_OK ? plan_scratch(model) : status;
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

// ------------------------------------------------------------------ a batch

static int32_t *host_row(const struct mt_model *model, int row)
{
    return model->host + (int64_t)row * model->host_row;
}

static enum mt_status check_batch(const struct mt_model *model, const struct mt_batch *batch)
{
    struct mt_context *ctx = model->ctx;
    if (batch->tokens < 1 || batch->tokens > model->options.tokens || batch->sequences < 1 ||
        batch->sequences > model->options.sequences) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "the batch has %" PRId64 " tokens in %" PRId64 " sequences; there is room for %" PRId64
                       " in %" PRId64,
                       batch->tokens, batch->sequences, model->options.tokens, model->options.sequences);
    }
    const int32_t *offsets = batch->offsets;
    if (offsets[0] != 0 || offsets[batch->sequences] != batch->tokens)
        return mt_fail(ctx, MT_ERR_USAGE, "the sequences of the batch do not cover its tokens");
    for (int64_t b = 0; b < batch->sequences; b++) {
        int64_t length = (int64_t)offsets[b + 1] - offsets[b];
        if (length < 0) return mt_fail(ctx, MT_ERR_USAGE, "sequence %" PRId64 " ends before it starts", b);
        if (length > model->options.positions) {
            return mt_fail(ctx, MT_ERR_USAGE,
                           "sequence %" PRId64 " has %" PRId64 " tokens, there is room for %" PRId64, b,
                           length, model->options.positions);
        }
    }
    return MT_OK;
}

static enum mt_status check_cached(const struct mt_model *model, const struct mt_batch *batch)
{
    if (batch->cached == NULL) return MT_OK;
    if (!model->options.cache)
        return mt_fail(model->ctx, MT_ERR_USAGE, "a cached batch, but the model was opened without a cache");
    for (int64_t b = 0; b < batch->sequences; b++) {
        const struct mt_cached_sequence *sequence = &batch->cached[b];
        int64_t end = (int64_t)sequence->past + batch->offsets[b + 1] - batch->offsets[b];
        if (sequence->slot < 0 || sequence->slot >= model->options.sequences || sequence->past < 0 ||
            end > sequence->length || sequence->length > model->options.positions) {
            return mt_fail(model->ctx, MT_ERR_USAGE,
                           "sequence %" PRId64 " has tokens up to %" PRId64 " of %" PRId32 " in slot %" PRId32
                           "; there is room for %" PRId64 " in each of %" PRId64,
                           b, end, sequence->length, sequence->slot, model->options.positions,
                           model->options.sequences);
        }
    }
    return MT_OK;
}

/* Attention does not look at the mask: padding that real tokens could see would change them. */
static enum mt_status check_mask(const struct mt_model *model, const struct mt_batch *batch)
{
    for (int64_t b = 0; batch->mask != NULL && b < batch->sequences; b++) {
        for (int64_t i = batch->offsets[b] + 1; i < batch->offsets[b + 1]; i++) {
            if (batch->mask[i] == 0 || batch->mask[i - 1] != 0) continue;
            return mt_fail(model->ctx, MT_ERR_USAGE,
                           "sequence %" PRId64 " has padding before its last token; leave it out", b);
        }
    }
    return MT_OK;
}

/* The row of the rope tables for a sequence's first token in this batch. */
static int64_t first_rope_row(const struct mt_model *model, const struct mt_batch *batch, int64_t b)
{
    if (batch->cached == NULL)
        return mt_model_rope_start(&model->desc, batch->offsets[b + 1] - batch->offsets[b]);
    return mt_model_rope_start(&model->desc, batch->cached[b].length) + batch->cached[b].past;
}

/* Where keys lie in the cache, and how many there are with this batch's. */
static void describe_keys(const struct mt_model *model, const struct mt_batch *batch)
{
    int32_t *offsets = host_row(model, HOST_KEY_OFFSETS);
    int32_t *starts = host_row(model, HOST_KEY_STARTS);
    int32_t *heads = host_row(model, HOST_HEAD_OFFSETS);
    int32_t *places = host_row(model, HOST_PLACES);
    for (int64_t b = 0; batch->cached != NULL && b < batch->sequences; b++) {
        int32_t tokens = batch->offsets[b + 1] - batch->offsets[b];
        offsets[b + 1] = offsets[b] + batch->cached[b].past + tokens;
        starts[b] = (int32_t)(batch->cached[b].slot * model->options.positions);
        for (int32_t i = 0; i < tokens; i++)
            places[batch->offsets[b] + i] = starts[b] + batch->cached[b].past + i;
    }
    for (int64_t h = 0; h <= model->desc.heads; h++) heads[h] = (int32_t)(h * batch->tokens);
}

/* Fills the host's rows and counts labels. */
static int64_t describe_tokens(const struct mt_model *model, const struct mt_batch *batch)
{
    int32_t *positions = host_row(model, HOST_POSITIONS);
    int32_t *segment = host_row(model, HOST_SEGMENT);
    int32_t *labels = host_row(model, HOST_LABELS);
    int64_t count = 0;
    int32_t number = 0; // of sequences that have tokens
    for (int64_t b = 0; b < batch->sequences; b++) {
        int64_t start = first_rope_row(model, batch, b);
        for (int64_t i = batch->offsets[b]; i < batch->offsets[b + 1]; i++) {
            positions[i] = (int32_t)(start + i - batch->offsets[b]);
            segment[i] = number;
            bool padding = batch->mask != NULL && batch->mask[i] == 0;
            labels[i] = batch->labels == NULL || padding ? -1 : batch->labels[i];
            if (labels[i] >= 0) count++;
        }
        if (batch->offsets[b + 1] > batch->offsets[b]) number++;
    }
    mt_routing_ortho_mask(batch->mask, segment, batch->tokens, host_row(model, HOST_ORTHO_MASK));
    return count;
}

static int64_t count_unmasked(const struct mt_batch *batch)
{
    if (batch->mask == NULL) return batch->tokens;
    int64_t count = 0;
    for (int64_t i = 0; i < batch->tokens; i++) count += batch->mask[i] != 0;
    return count;
}

/* The batch's index tensors, to the device. */
static enum mt_status send_indices(struct mt_model *model, const struct mt_batch *batch)
{
    const struct mt_transformer *t = &model->transformer;
    const struct mt_pass *pass = &t->pass;
    const struct {
        const struct mt_tensor *target;
        const int32_t *values;
    } sent[INDEX_TENSORS] = {
        {&pass->ids, batch->ids},
        {&pass->offsets, batch->offsets},
        {&pass->positions, host_row(model, HOST_POSITIONS)},
        {&pass->segment, host_row(model, HOST_SEGMENT)},
        {&t->labels, host_row(model, HOST_LABELS)},
        {&pass->mask, batch->mask},
        {&pass->ortho_mask, host_row(model, HOST_ORTHO_MASK)},
        {&pass->key_offsets, host_row(model, HOST_KEY_OFFSETS)},
        {&pass->key_starts, host_row(model, HOST_KEY_STARTS)},
        {&pass->places, host_row(model, HOST_PLACES)},
        {&pass->head_offsets, host_row(model, HOST_HEAD_OFFSETS)},
    };
    for (int i = 0; i < INDEX_TENSORS; i++)
        mt_staging_put(&model->staging, &model->index, sent[i].target, sent[i].values);
    return mt_staging_send(&model->staging, model->device, &model->index);
}

/* Lays memory out for the batch and sends its index tensors to the device. */
static enum mt_status ready(struct mt_model *model, const struct mt_batch *batch, int64_t *labels)
{
    enum mt_status status = check_batch(model, batch);
    if (status == MT_OK) status = check_mask(model, batch);
    if (status == MT_OK) status = check_cached(model, batch);
    if (status != MT_OK) return status;
    struct mt_transformer *t = &model->transformer;
    struct mt_pass *pass = &t->pass;
    struct mt_regions regions;
    struct mt_batch_shape shape = {
        .tokens = batch->tokens,
        .sequences = batch->sequences,
        .mask = batch->mask != NULL,
        .ortho_mask = model->objective != NULL && model->method.exclude_first,
    };
    pass->unmasked = count_unmasked(batch); // the records laid out next carry it
    lay_out(model, &shape, &regions);
    *labels = describe_tokens(model, batch);
    describe_keys(model, batch);
    pass->sequence = batch->cached;
    pass->objective = batch->loss_only ? NULL : model->objective;
    pass->measure = batch->measure;
    pass->training = batch->training;
    pass->step = batch->step;
    return send_indices(model, batch);
}

/* What the gradients of the objective's terms are multiplied with: the batch's share of the step's tokens. */
static double terms_scale(const struct mt_model *model, const struct mt_batch *batch)
{
    int64_t unmasked = model->transformer.pass.unmasked;
    if (batch->shared_tokens > 0) unmasked = batch->shared_tokens;
    if (batch->step_tokens == 0 || unmasked == 0) return 1.0;
    return (double)unmasked / (double)batch->step_tokens;
}

/* The mean over labels, and what backward starts from. */
static enum mt_status task_loss(struct mt_model *model, const struct mt_batch *batch, int64_t labels,
                                struct mt_model_loss *loss)
{
    struct mt_transformer *t = &model->transformer;
    bool gradients = model->options.backward && !batch->loss_only;
    loss->labels = labels;
    if (batch->labels == NULL) {
        if (!gradients) return MT_OK;
        return mt_fill(model->device, &(struct mt_fill_args){.y = t->dhidden, .value = 0.0f});
    }
    int64_t all_labels = batch->step_labels > 0 ? batch->step_labels : labels;
    double weight = labels > 0 ? 1.0 / (double)all_labels : 0.0;
    enum mt_status status = mt_transformer_loss(t, (float)weight, gradients);
    if (status != MT_OK) return status;
    status = mt_reduce(model->device, &(struct mt_reduce_args){
                                          .x = t->head.loss, .out = t->head.loss_sum, .kind = MT_REDUCE_SUM});
    double sum = 0.0;
    if (status == MT_OK) status = mt_device_download(model->device, &sum, t->head.loss_sum.data, sizeof sum);
    if (status == MT_OK && labels > 0) loss->task = sum / (double)labels;
    return status;
}

static enum mt_status run_layers(void *self)
{
    struct mt_model *model = self;
    return mt_transformer_forward(&model->transformer);
}

/* Whether the pass is one of those that come again and again: a token of each sequence, and nobody looks on.
 */
static bool repeats(const struct mt_model *model, const struct mt_batch *batch)
{
    const struct mt_pass *pass = &model->transformer.pass;
    return batch->cached != NULL && batch->tokens == batch->sequences && !batch->training &&
           batch->mask == NULL && pass->objective == NULL && pass->ranks == NULL &&
           pass->observer.look == NULL;
}

static enum mt_status forward_layers(struct mt_model *model, const struct mt_batch *batch)
{
    if (!repeats(model, batch)) return run_layers(model);
    return mt_replay_run(&model->replay, model->device, batch->tokens, run_layers, model);
}

enum mt_status mt_model_forward(struct mt_model *model, const struct mt_batch *batch,
                                struct mt_model_loss *loss)
{
    int64_t labels = 0;
    *loss = (struct mt_model_loss){0};
    model->ran = false;
    enum mt_status status = ready(model, batch, &labels);
    if (status == MT_OK) status = forward_layers(model, batch);
    if (status == MT_OK) status = task_loss(model, batch, labels, loss);
    if (status != MT_OK) return status;
    if (model->transformer.pass.objective != NULL) {
        struct mt_objective_step step = {.progress = batch->progress,
                                         .loss_scale = terms_scale(model, batch)};
        status = mt_objective_finish(model->objective, &step, &loss->terms);
        if (status != MT_OK) return status;
    }
    model->ran = model->options.backward && !batch->loss_only;
    return MT_OK;
}

void mt_model_set_layer_hook(struct mt_model *model, const struct mt_layer_hook *hook)
{
    model->transformer.hook = *hook;
}

enum mt_status mt_model_backward(struct mt_model *model)
{
    if (!model->ran) {
        return mt_fail(model->ctx, MT_ERR_USAGE,
                       "backward needs a forward before it, and a model opened for both");
    }
    model->ran = false; // activations are used up
    return mt_transformer_backward(&model->transformer);
}

/* With a cache: the batch goes through it as well, and every token's logits are wanted. */
static enum mt_status plan_cached(struct mt_model *model, const struct mt_batch *batch)
{
    void *memory = NULL;
    size_t bytes = (size_t)batch->sequences * sizeof(struct mt_cached_sequence);
    enum mt_status status = mt_allocate_array(model->ctx, 1, bytes, &memory);
    if (status != MT_OK) return status;
    struct mt_cached_sequence *sequences = memory;
    struct mt_model_loss loss;
    struct mt_batch cached = *batch;
    for (int64_t b = 0; b < batch->sequences; b++) {
        sequences[b].slot = (int32_t)b;
        sequences[b].length = (int32_t)model->options.positions;
    }
    cached.cached = sequences;
    status = mt_model_forward(model, &cached, &loss);
    mt_release(model->ctx, memory, bytes);
    if (status != MT_OK) return status;
    // Nothing is written while planning, so it does not matter that this memory is something else's.
    struct mt_tensor logits = mt_tensor_2d(model->work.data, MT_F32, batch->tokens, model->desc.vocabulary);
    return mt_head_logits_of(&model->transformer.pass, &model->params, &model->transformer.head,
                             batch->tokens, &logits);
}

/* The planned batch through everything that a real one may go through. */
static enum mt_status plan_passes(struct mt_model *model, struct mt_batch *batch)
{
    struct mt_model_loss loss;
    batch->loss_only = true;
    enum mt_status status = mt_model_forward(model, batch, &loss);
    if (status == MT_OK && model->options.cache) status = plan_cached(model, batch);
    if (status != MT_OK || !model->options.backward) return status;
    batch->loss_only = false;
    batch->training = true;
    batch->measure = model->objective != NULL;
    status = mt_model_forward(model, batch, &loss);
    return status == MT_OK ? mt_model_backward(model) : status;
}

/*
 * A batch as large as can come, run with the device computing nothing: it then knows its scratch. All ids and
 * labels are 0, and index tensors hold zeros, which are legal everywhere. The objective takes part, and
 * afterwards has seen nothing.
 */
static enum mt_status plan_scratch(struct mt_model *model)
{
    int64_t tokens = model->options.tokens;
    int64_t sequences = model->options.sequences;
    size_t count = (size_t)(tokens + sequences + 1);
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(model->ctx, count, sizeof(int32_t), &memory);
    if (status != MT_OK) return status;
    int32_t *zeros = memory;
    int32_t *offsets = zeros + tokens;
    for (int64_t b = 0; b < sequences; b++) {
        int64_t end = offsets[b] + model->options.positions;
        offsets[b + 1] = (int32_t)(end < tokens ? end : tokens);
    }
    struct mt_batch batch = {.tokens = tokens,
                             .sequences = sequences,
                             .ids = zeros,
                             .offsets = offsets,
                             .labels = zeros,
                             .progress = 1.0}; // a brake that follows the learning rate is open
    mt_device_set_planning(model->device, true);
    model->ranks.planning = true;
    status = plan_passes(model, &batch);
    model->ranks.planning = false;
    mt_device_set_planning(model->device, false);
    mt_release(model->ctx, memory, count * sizeof(int32_t));
    if (model->objective != NULL) {
        size_t numbers = 0;
        double *state = mt_objective_state(model->objective, &numbers);
        memset(state, 0, numbers * sizeof *state);
    }
    return status;
}

// ------------------------------------------------------------------ questions

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
    bool kept = mt_transformer_keeps_hidden(&model->transformer);
    return kept && model->params.layer[layer].moe ? &model->transformer.layer[layer].moe.record : NULL;
}

const int64_t *mt_model_rows_sent(const struct mt_model *model)
{
    return model->ranks.away;
}

void mt_model_observe(struct mt_model *model, const struct mt_layer_observer *observer)
{
    model->transformer.pass.observer = observer != NULL ? *observer : (struct mt_layer_observer){0};
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
    if (!model->options.cache || count < 1 || count > t->pass.tokens) {
        return mt_fail(model->ctx, MT_ERR_USAGE,
                       "logits of %" PRId64 " tokens: a batch of a model with a cache has %" PRId64, count,
                       model->options.cache ? t->pass.tokens : 0);
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

struct mt_device *mt_model_device(const struct mt_model *model)
{
    return model->device;
}
