/*
 * A batch through a model: checked, described to the device, forward, backward. What only batches with a
 * cache have is in cached_batch.c, and the same without computing in batch_plan.c.
 */
#include <inttypes.h>
#include <string.h>

#include "arch/rope.h"
#include "model/model_struct.h"

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
    if (batch->chosen != NULL && !model->options.choices)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "the batch brings choices of experts, but the model was opened without room for them");
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
        return mt_rope_start(model->desc.config, batch->offsets[b + 1] - batch->offsets[b]);
    return mt_rope_start(model->desc.config, batch->cached[b].length) + batch->cached[b].past;
}

/* Fills the host's rows and counts labels. */
static int64_t describe_tokens(const struct mt_model *model, const struct mt_batch *batch)
{
    int32_t *positions = mt_model_host_row(model, HOST_POSITIONS);
    int32_t *segment = mt_model_host_row(model, HOST_SEGMENT);
    int32_t *labels = mt_model_host_row(model, HOST_LABELS);
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
    mt_routing_ortho_mask(batch->mask, segment, batch->tokens, mt_model_host_row(model, HOST_ORTHO_MASK));
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
        {&pass->positions, mt_model_host_row(model, HOST_POSITIONS)},
        {&pass->segment, mt_model_host_row(model, HOST_SEGMENT)},
        {&t->labels, mt_model_host_row(model, HOST_LABELS)},
        {&pass->moe.mask, batch->mask},
        {&pass->moe.ortho_mask, mt_model_host_row(model, HOST_ORTHO_MASK)},
        {&pass->cached.key_offsets, mt_model_host_row(model, HOST_KEY_OFFSETS)},
        {&pass->cached.key_starts, mt_model_host_row(model, HOST_KEY_STARTS)},
        {&pass->cached.places, mt_model_host_row(model, HOST_PLACES)},
        {&pass->cached.prompt_offsets, mt_model_host_row(model, HOST_PROMPT_OFFSETS)},
        {&pass->cached.prompt_key_offsets, mt_model_host_row(model, HOST_PROMPT_KEY_OFFSETS)},
        {&pass->cached.prompt_key_places, mt_model_host_row(model, HOST_PROMPT_KEY_PLACES)},
        {&pass->cached.prompt_turns, mt_model_host_row(model, HOST_ZEROS)},
        {&pass->moe.given, batch->chosen},
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
    if (status == MT_OK) status = mt_cached_batch_check(model, batch);
    struct mt_transformer *t = &model->transformer;
    struct mt_pass *pass = &t->pass;
    if (status == MT_OK && t->observer.before != NULL) status = t->observer.before(t->observer.self);
    if (status != MT_OK) return status;
    struct mt_regions regions;
    struct mt_batch_shape shape = {
        .tokens = batch->tokens,
        .sequences = batch->sequences,
        .mask = batch->mask != NULL,
        .ortho_mask = model->objective != NULL && model->method.exclude_first,
        .given = batch->chosen != NULL,
    };
    mt_cached_batch_count(batch, &shape);
    // A planning run stands for every batch: its prompts may see as much as there is room for.
    if (model->ranks.planning && shape.prompt_keys > 0)
        shape.prompt_keys = mt_model_prompt_keys(&model->options);
    pass->moe.unmasked = count_unmasked(batch); // the records laid out next carry it
    mt_model_lay_out(model, &shape, &regions);
    *labels = describe_tokens(model, batch);
    mt_cached_batch_describe(model, batch);
    pass->cached.sequence = batch->cached;
    pass->moe.objective = batch->loss_only ? NULL : model->objective;
    pass->moe.measure = batch->measure;
    pass->training = batch->training;
    pass->step = batch->step;
    pass->moe.whole_step = batch->whole_step > 0 ? batch->whole_step : batch->step;
    pass->moe.first_sequence = batch->first_sequence;
    return send_indices(model, batch);
}

/* What the gradients of the objective's terms are multiplied with: the batch's share of the step's tokens. */
static double terms_scale(const struct mt_model *model, const struct mt_batch *batch)
{
    int64_t unmasked = model->transformer.pass.moe.unmasked;
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

static enum mt_status forward(struct mt_model *model, const struct mt_batch *batch,
                              struct mt_model_loss *loss)
{
    const struct mt_layer_observer *observer = &model->transformer.observer;
    struct mt_batch padded = *batch;
    bool repeated = mt_cached_batch_repeats(model, batch);
    int64_t labels = 0;
    *loss = (struct mt_model_loss){0};
    model->ran = false;
    if (repeated) mt_cached_batch_pad(model, &padded);
    enum mt_status status = ready(model, &padded, &labels);
    if (status != MT_OK) return status;
    status = repeated ? mt_replay_run(&model->replay, model->device, padded.tokens, run_layers, model)
                      : run_layers(model);
    if (status == MT_OK && observer->after != NULL) status = observer->after(observer->self, batch->tokens);
    if (status == MT_OK) status = task_loss(model, batch, labels, loss);
    if (status != MT_OK) return status;
    if (model->transformer.pass.moe.objective != NULL) {
        struct mt_objective_step step = {.progress = batch->progress,
                                         .loss_scale = terms_scale(model, batch)};
        status = mt_objective_finish(model->objective, &step, &loss->terms);
        if (status != MT_OK) return status;
    }
    model->ran = model->options.backward && !batch->loss_only;
    return MT_OK;
}

enum mt_status mt_model_forward(struct mt_model *model, const struct mt_batch *batch,
                                struct mt_model_loss *loss)
{
    struct mt_layer_observer *observer = &model->transformer.observer;
    struct mt_layer_observer seen_by = *observer;
    if (batch->unseen) *observer = (struct mt_layer_observer){0};
    enum mt_status status = forward(model, batch, loss);
    *observer = seen_by;
    return status;
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
