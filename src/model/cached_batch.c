/*
 * What a batch has that goes on from earlier ones: where its keys lie in the cache, which of its sequences
 * are prompts, and passes that are recorded because they come again and again.
 */
#include <inttypes.h>
#include <string.h>

#include "model/model_struct.h"

void mt_cached_batch_count(const struct mt_batch *batch, struct mt_batch_shape *shape)
{
    int64_t b = batch->cached != NULL ? batch->sequences : 0;
    for (; b > 0; b--) {
        int64_t tokens = (int64_t)batch->offsets[b] - batch->offsets[b - 1];
        if (tokens < MT_PROMPT_TOKENS) return;
        shape->prompt_sequences++;
        shape->prompt_tokens += tokens;
        shape->prompt_keys += batch->cached[b - 1].past + tokens;
    }
}

static enum mt_status check_prompts(const struct mt_model *model, const struct mt_batch *batch)
{
    struct mt_batch_shape shape = {0};
    if (batch->cached == NULL) return MT_OK;
    mt_cached_batch_count(batch, &shape);
    int64_t room = mt_model_prompt_keys(&model->options);
    if (shape.prompt_keys > room) {
        return mt_fail(model->ctx, MT_ERR_USAGE,
                       "the prompts of the batch see %" PRId64 " tokens together; there is room for %" PRId64,
                       shape.prompt_keys, room);
    }
    for (int64_t b = 0; b < batch->sequences - shape.prompt_sequences; b++) {
        if (batch->offsets[b + 1] - batch->offsets[b] < MT_PROMPT_TOKENS) continue;
        return mt_fail(model->ctx, MT_ERR_USAGE,
                       "sequence %" PRId64 " has %d tokens or more, but one with fewer comes after it", b,
                       MT_PROMPT_TOKENS);
    }
    return MT_OK;
}

static enum mt_status check_slots(const struct mt_model *model, const struct mt_batch *batch)
{
    if (batch->cached == NULL) return MT_OK;
    if (!model->options.cache)
        return mt_fail(model->ctx, MT_ERR_USAGE, "a cached batch, but the model was opened without a cache");
    for (int64_t b = 0; b < batch->sequences; b++) {
        const struct mt_cached_sequence *sequence = &batch->cached[b];
        int64_t end = (int64_t)sequence->past + batch->offsets[b + 1] - batch->offsets[b];
        if (sequence->slot < 0 || sequence->slot >= model->options.cache_slots || sequence->past < 0 ||
            end > sequence->length || sequence->length > model->options.positions) {
            return mt_fail(model->ctx, MT_ERR_USAGE,
                           "sequence %" PRId64 " has tokens up to %" PRId64 " of %" PRId32 " in slot %" PRId32
                           "; there is room for %" PRId64 " in each of %" PRId64,
                           b, end, sequence->length, sequence->slot, model->options.positions,
                           model->options.cache_slots);
        }
    }
    return MT_OK;
}

enum mt_status mt_cached_batch_check(const struct mt_model *model, const struct mt_batch *batch)
{
    enum mt_status status = check_slots(model, batch);
    return status == MT_OK ? check_prompts(model, batch) : status;
}

/* Where keys lie in the cache, and how many there are with this batch's. */
static void describe_keys(const struct mt_model *model, const struct mt_batch *batch)
{
    int32_t *offsets = mt_model_host_row(model, HOST_KEY_OFFSETS);
    int32_t *starts = mt_model_host_row(model, HOST_KEY_STARTS);
    int32_t *places = mt_model_host_row(model, HOST_PLACES);
    for (int64_t b = 0; batch->cached != NULL && b < batch->sequences; b++) {
        int32_t tokens = batch->offsets[b + 1] - batch->offsets[b];
        offsets[b + 1] = offsets[b] + batch->cached[b].past + tokens;
        starts[b] = (int32_t)(batch->cached[b].slot * model->options.positions);
        for (int32_t i = 0; i < tokens; i++)
            places[batch->offsets[b] + i] = starts[b] + batch->cached[b].past + i;
    }
}

/* The prompts by themselves: their tokens, their keys, and where in the cache those lie. */
static void describe_prompts(const struct mt_model *model, const struct mt_batch *batch)
{
    int32_t *offsets = mt_model_host_row(model, HOST_PROMPT_OFFSETS);
    int32_t *key_offsets = mt_model_host_row(model, HOST_PROMPT_KEY_OFFSETS);
    int32_t *places = mt_model_host_row(model, HOST_PROMPT_KEY_PLACES);
    int64_t count = model->transformer.pass.cached.prompt_sequences;
    for (int64_t i = 0; i < count; i++) {
        int64_t b = batch->sequences - count + i;
        int32_t tokens = batch->offsets[b + 1] - batch->offsets[b];
        int32_t keys = batch->cached[b].past + tokens;
        int32_t start = (int32_t)(batch->cached[b].slot * model->options.positions);
        offsets[i + 1] = offsets[i] + tokens;
        key_offsets[i + 1] = key_offsets[i] + keys;
        for (int32_t k = 0; k < keys; k++) places[key_offsets[i] + k] = start + k;
    }
    key_offsets[count] =
        (int32_t)model->transformer.pass.cached.prompt_keys; // more only where a pass is planned
}

void mt_cached_batch_describe(const struct mt_model *model, const struct mt_batch *batch)
{
    describe_keys(model, batch);
    describe_prompts(model, batch);
}

bool mt_cached_batch_repeats(const struct mt_model *model, const struct mt_batch *batch)
{
    const struct mt_transformer *t = &model->transformer;
    bool objective = model->objective != NULL && !batch->loss_only;
    if (batch->cached == NULL || batch->tokens != batch->sequences ||
        batch->sequences > model->options.sequences || batch->sequences > MT_REPLAY_TOKENS ||
        batch->training || batch->labels != NULL || batch->mask != NULL || objective ||
        t->pass.moe.placement->waits || t->observer.look != NULL)
        return false;
    for (int64_t b = 0; b <= batch->sequences; b++) {
        if (batch->offsets[b] != b) return false;
    }
    return true;
}

void mt_cached_batch_pad(struct mt_model *model, struct mt_batch *batch)
{
    struct mt_padding *padding = &model->padding;
    int64_t own = batch->tokens;
    int64_t tokens = mt_replay_padded(&model->replay, model->device, own, model->options.cache_slots);
    if (tokens == own) return;
    memcpy(padding->ids, batch->ids, (size_t)own * sizeof *padding->ids);
    memcpy(padding->cached, batch->cached, (size_t)own * sizeof *padding->cached);
    for (int64_t i = 0; i <= tokens; i++) padding->offsets[i] = (int32_t)i;
    for (int64_t i = own; i < tokens; i++) {
        padding->ids[i] = batch->ids[own - 1];
        padding->cached[i] = batch->cached[own - 1];
    }
    batch->tokens = tokens;
    batch->sequences = tokens;
    batch->ids = padding->ids;
    batch->offsets = padding->offsets;
    batch->cached = padding->cached;
}
