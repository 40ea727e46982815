/* Batches as large as can come, run with the device computing nothing: it then knows its scratch. */
#include <string.h>

#include "model/model_struct.h"

/*
 * A pass with the device computing nothing. Index tensors hold zeros, which are legal everywhere: what passes
 * of another layout left there need not be.
 */
static enum mt_status plan_forward(struct mt_model *model, const struct mt_batch *batch)
{
    struct mt_model_loss loss;
    void *zeros = NULL;
    enum mt_status status = mt_allocate_array(model->ctx, 1, model->index.bytes, &zeros);
    if (status == MT_OK)
        status = mt_device_upload(model->device, model->index.data, zeros, model->index.bytes);
    mt_release(model->ctx, zeros, model->index.bytes);
    return status == MT_OK ? mt_model_forward(model, batch, &loss) : status;
}

/*
 * With a cache: the batch goes through it as well, as prompts, in short sequences and as a short pass
 * (mt_pass_is_short), and as many tokens' logits are wanted as can be.
 */
static enum mt_status plan_cached(struct mt_model *model, const struct mt_batch *batch)
{
    void *memory = NULL;
    size_t sequence_bytes = (size_t)batch->sequences * sizeof(struct mt_cached_sequence);
    size_t bytes = sequence_bytes + 2 * (size_t)(batch->sequences + 1) * sizeof(int32_t);
    enum mt_status status = mt_allocate_array(model->ctx, 1, bytes, &memory);
    if (status != MT_OK) return status;
    struct mt_cached_sequence *sequences = memory;
    int32_t *prompts = (int32_t *)(sequences + batch->sequences); // the longest come last
    int32_t *others = prompts + batch->sequences + 1;
    struct mt_batch cached = *batch;
    int64_t short_one =
        model->options.positions < MT_PROMPT_TOKENS ? model->options.positions : MT_PROMPT_TOKENS - 1;
    for (int64_t b = 0; b < batch->sequences; b++) {
        int64_t left = (batch->sequences - b - 1) * model->options.positions;
        int64_t end = others[b] + short_one;
        prompts[b + 1] = (int32_t)(left < batch->tokens ? batch->tokens - left : 0);
        others[b + 1] = (int32_t)(end < batch->tokens ? end : batch->tokens);
        sequences[b].slot = (int32_t)(b % model->options.cache_slots);
        sequences[b].length = (int32_t)model->options.positions;
    }
    cached.cached = sequences;
    cached.offsets = others;
    cached.tokens = others[batch->sequences];
    status = plan_forward(model, &cached);
    if (status == MT_OK && cached.tokens > MT_REPLAY_TOKENS) { // short ones need other scratch, too
        for (int64_t b = 1; b <= batch->sequences; b++)
            others[b] = others[b] < MT_REPLAY_TOKENS ? others[b] : MT_REPLAY_TOKENS;
        cached.tokens = MT_REPLAY_TOKENS;
        status = plan_forward(model, &cached);
    }
    cached.offsets = prompts;
    cached.tokens = batch->tokens;
    if (status == MT_OK) status = plan_forward(model, &cached);
    mt_release(model->ctx, memory, bytes);
    if (status != MT_OK) return status;
    // Nothing is written while planning, so it does not matter that this memory is something else's.
    int64_t rows = model->options.logit_rows;
    struct mt_tensor logits = mt_tensor_2d(model->work.data, MT_F32, rows, model->desc.vocabulary);
    return mt_head_logits_of(&model->transformer.pass, &model->params, &model->transformer.head, rows,
                             &logits);
}

/* The planned batch through everything that a real one may go through. */
static enum mt_status plan_passes(struct mt_model *model, struct mt_batch *batch)
{
    batch->loss_only = true;
    enum mt_status status = plan_forward(model, batch);
    if (status == MT_OK && model->options.cache) status = plan_cached(model, batch);
    if (status != MT_OK || !model->options.backward) return status;
    batch->loss_only = false;
    batch->training = true;
    batch->measure = model->objective != NULL;
    status = plan_forward(model, batch);
    return status == MT_OK ? mt_model_backward(model) : status;
}

/* All ids and labels are 0. The objective takes part, and afterwards has seen nothing. */
enum mt_status mt_model_plan_scratch(struct mt_model *model)
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
