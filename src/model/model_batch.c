/*
 * A batch through a model: checked, described to the device, forward, backward; and the same without
 * computing, which finds out how much scratch the device needs.
 */
#include <inttypes.h>
#include <string.h>

#include "arch/rope.h"
#include "model/model_struct.h"

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
    if (batch->chosen != NULL && !model->options.choices)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "a batch with choices of experts, but the model has no room for them");
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

/* The sequences at the end of a cached batch that count as prompts. */
static void count_prompts(const struct mt_batch *batch, struct mt_batch_shape *shape)
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
    count_prompts(batch, &shape);
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

static enum mt_status check_cached(const struct mt_model *model, const struct mt_batch *batch)
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
    int32_t *places = host_row(model, HOST_PLACES);
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
    int32_t *offsets = host_row(model, HOST_PROMPT_OFFSETS);
    int32_t *key_offsets = host_row(model, HOST_PROMPT_KEY_OFFSETS);
    int32_t *places = host_row(model, HOST_PROMPT_KEY_PLACES);
    int64_t count = model->transformer.pass.prompt_sequences;
    for (int64_t i = 0; i < count; i++) {
        int64_t b = batch->sequences - count + i;
        int32_t tokens = batch->offsets[b + 1] - batch->offsets[b];
        int32_t keys = batch->cached[b].past + tokens;
        int32_t start = (int32_t)(batch->cached[b].slot * model->options.positions);
        offsets[i + 1] = offsets[i] + tokens;
        key_offsets[i + 1] = key_offsets[i] + keys;
        for (int32_t k = 0; k < keys; k++) places[key_offsets[i] + k] = start + k;
    }
    key_offsets[count] = (int32_t)model->transformer.pass.prompt_keys; // more only where a pass is planned
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
        {&pass->prompt_offsets, host_row(model, HOST_PROMPT_OFFSETS)},
        {&pass->prompt_key_offsets, host_row(model, HOST_PROMPT_KEY_OFFSETS)},
        {&pass->prompt_key_places, host_row(model, HOST_PROMPT_KEY_PLACES)},
        {&pass->prompt_turns, host_row(model, HOST_ZEROS)},
        {&pass->given, batch->chosen},
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
    if (status == MT_OK) status = check_prompts(model, batch);
    struct mt_transformer *t = &model->transformer;
    struct mt_pass *pass = &t->pass;
    if (status == MT_OK && pass->observer.before != NULL) status = pass->observer.before(pass->observer.self);
    if (status != MT_OK) return status;
    struct mt_regions regions;
    struct mt_batch_shape shape = {
        .tokens = batch->tokens,
        .sequences = batch->sequences,
        .mask = batch->mask != NULL,
        .ortho_mask = model->objective != NULL && model->method.exclude_first,
        .given = batch->chosen != NULL,
    };
    count_prompts(batch, &shape);
    // A planning run stands for every batch: its prompts may see as much as there is room for.
    if (model->ranks.planning && shape.prompt_keys > 0)
        shape.prompt_keys = mt_model_prompt_keys(&model->options);
    pass->unmasked = count_unmasked(batch); // the records laid out next carry it
    mt_model_lay_out(model, &shape, &regions);
    *labels = describe_tokens(model, batch);
    describe_keys(model, batch);
    describe_prompts(model, batch);
    pass->sequence = batch->cached;
    pass->objective = batch->loss_only ? NULL : model->objective;
    pass->measure = batch->measure;
    pass->training = batch->training;
    pass->step = batch->step;
    pass->whole_step = batch->whole_step > 0 ? batch->whole_step : batch->step;
    pass->first_sequence = batch->first_sequence;
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

/* Whether the pass is one of those that come again and again: a token of each sequence, and nobody looks on
 * within it.
 */
static bool repeats(const struct mt_model *model, const struct mt_batch *batch)
{
    const struct mt_pass *pass = &model->transformer.pass;
    bool objective = model->objective != NULL && !batch->loss_only;
    if (batch->cached == NULL || batch->tokens != batch->sequences ||
        batch->sequences > model->options.sequences || batch->sequences > MT_REPLAY_TOKENS ||
        batch->training || batch->labels != NULL || batch->mask != NULL || objective ||
        pass->placement->waits || pass->observer.look != NULL)
        return false;
    for (int64_t b = 0; b <= batch->sequences; b++) {
        if (batch->offsets[b] != b) return false;
    }
    return true;
}

/*
 * Puts copies of the last token behind a pass that repeats. They compute what that one computes, write the
 * same to the same place of the cache, and nobody asks for what comes of them.
 */
static void pad(struct mt_model *model, struct mt_batch *batch)
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

enum mt_status mt_model_forward(struct mt_model *model, const struct mt_batch *batch,
                                struct mt_model_loss *loss)
{
    const struct mt_layer_observer *observer = &model->transformer.pass.observer;
    struct mt_batch padded = *batch;
    bool repeated = repeats(model, batch);
    int64_t labels = 0;
    *loss = (struct mt_model_loss){0};
    model->ran = false;
    if (repeated) pad(model, &padded);
    enum mt_status status = ready(model, &padded, &labels);
    if (status != MT_OK) return status;
    status = repeated ? mt_replay_run(&model->replay, model->device, padded.tokens, run_layers, model)
                      : run_layers(model);
    if (status == MT_OK && observer->after != NULL) status = observer->after(observer->self, batch->tokens);
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

/*
 * A batch as large as can come, run with the device computing nothing: it then knows its scratch. All ids and
 * labels are 0. The objective takes part, and afterwards has seen nothing.
 */
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
