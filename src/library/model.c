/* metier/model.h: opening a model, what is trainable, batches. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "arch/arch.h"
#include "library/lm.h"
#include "metier/selection.h"
#include "model/adapters/adapter.h"

#define ARENA_BLOCK_BYTES 4096
#define DEFAULT_RANK      32
#define DEFAULT_ALPHA     4.0 // times the rank

// ------------------------------------------------------------------ opening

/* One of some words; NULL: the first. */
static enum mt_status read_word(struct mt_context *ctx, const char *what, const char *given,
                                const char *const words[3], int *index)
{
    for (*index = 0; *index < 3; (*index)++) {
        if (given == NULL || strcmp(given, words[*index]) == 0) return MT_OK;
    }
    return mt_fail(ctx, MT_ERR_USAGE, "%s is '%s', expected %s, %s or %s", what, given, words[0], words[1],
                   words[2]);
}

static enum mt_status read_words(struct mt_lm *lm, const struct mt_lm_options *options,
                                 struct mt_model_options *model)
{
    static const char *const recompute[] = {"none", "moe", "full"};
    static const char *const activations[] = {"auto", "f32", "bf16"};
    int word = 0;
    enum mt_status status = read_word(lm->ctx, "recompute", options->recompute, recompute, &word);
    model->recompute = (enum mt_recompute)word;
    if (status == MT_OK) status = read_word(lm->ctx, "activations", options->activations, activations, &word);
    model->activations = word == 0 ? mt_device_activations(lm->device) : word == 1 ? MT_F32 : MT_BF16;
    return status;
}

static enum mt_status check_options(struct mt_context *ctx, const struct mt_lm_options *options)
{
    if (options->tokens < 1)
        return mt_fail(ctx, MT_ERR_USAGE, "tokens is %" PRId64 ", expected at least 1", options->tokens);
    if (options->sequences < 0 || options->positions < 0)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "sequences is %" PRId64 " and positions is %" PRId64 ", expected 0 or more",
                       options->sequences, options->positions);
    if (options->training != MT_LM_FROZEN && options->training != MT_LM_LORA &&
        options->training != MT_LM_FULL)
        return mt_fail(ctx, MT_ERR_USAGE, "there is no training number %d", (int)options->training);
    if (options->rank < 0 || options->rank > INT16_MAX || !(options->alpha >= 0.0) ||
        !isfinite(options->alpha) || !(options->dropout >= 0.0 && options->dropout < 1.0))
        return mt_fail(ctx, MT_ERR_USAGE,
                       "rank is %d, alpha %g and dropout %g; expected 0 to %d, 0 or more, and 0 to below 1",
                       options->rank, options->alpha, options->dropout, INT16_MAX);
    if (options->adapter != NULL && options->training == MT_LM_FULL)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "an adapter is trained with MT_LM_LORA: merge it to train it fully");
    if (options->objective == NULL) return MT_OK;
    if (options->training == MT_LM_FROZEN)
        return mt_fail(ctx, MT_ERR_USAGE, "an objective needs a model that is opened for training");
    return mt_objective_config_check(ctx, options->objective);
}

/* What is trainable; an adapter, already open, brings its own. */
static void select_parameters(struct mt_lm *lm, const struct mt_lm_options *options,
                              const struct mt_adapter *adapter)
{
    static const char *const layers[] = {"model.layers.*", NULL};
    static const char *const everything[] = {"*", NULL};
    struct mt_train_selection *selection = &lm->selection;
    const char *const *targets = options->targets;
    selection->seed = options->seed;
    selection->freeze = options->freeze;
    if (options->training == MT_LM_FULL) selection->full = targets != NULL ? targets : everything;
    if (options->training == MT_LM_LORA) {
        selection->lora = targets != NULL ? targets : layers;
        selection->lora_rank = options->rank > 0 ? options->rank : DEFAULT_RANK;
        selection->lora_alpha = options->alpha > 0.0 ? options->alpha : DEFAULT_ALPHA * selection->lora_rank;
    }
    if (options->adapter != NULL) mt_adapter_select(adapter, selection);
    selection->lora_dropout = options->dropout;
}

static enum mt_status open_model(struct mt_lm *lm, const char *folder, const struct mt_lm_options *options)
{
    struct mt_adapter adapter = {0};
    struct mt_model_options model = {
        .tokens = options->tokens,
        .sequences = options->sequences > 0 ? options->sequences : options->tokens,
        .positions = options->positions > 0 ? options->positions : options->tokens,
        .backward = options->training != MT_LM_FROZEN,
        .keep_hidden = options->training == MT_LM_FROZEN,
        .objective = options->objective,
    };
    enum mt_status status = read_words(lm, options, &model);
    if (status == MT_OK && options->adapter != NULL)
        status = mt_adapter_open_for(lm->ctx, options->adapter, folder, &adapter);
    if (status == MT_OK) {
        select_parameters(lm, options, &adapter);
        model.selection = lm->selection;
        status = mt_model_open(lm->device, folder, &model, &lm->model);
    }
    if (status == MT_OK && options->adapter != NULL)
        status = mt_adapter_apply(&adapter, mt_model_params(lm->model));
    mt_adapter_close(&adapter);
    // What these named is the caller's, or the adapter's.
    lm->selection.full = lm->selection.lora = lm->selection.freeze = NULL;
    return status;
}

/* Memory for what the model does not keep itself. */
static enum mt_status open_rest(struct mt_lm *lm, const char *folder, const struct mt_lm_options *options)
{
    const struct mt_model_desc *desc = mt_model_description(lm->model);
    const char *template = options->chat_template;
    enum mt_status status = mt_arena_copy_text(&lm->arena, folder, strlen(folder), &lm->folder);
    if (status == MT_OK && template != NULL)
        status = mt_arena_copy_text(&lm->arena, template, strlen(template), &lm->template_name);
    if (status == MT_OK) status = mt_library_templates(&lm->arena, &lm->templates);
    lm->moe_count = mt_model_moe_layers(desc, NULL);
    lm->moe_layers = mt_arena_array(&lm->arena, (size_t)lm->moe_count, sizeof *lm->moe_layers, &status);
    if (status != MT_OK) return status;
    (void)mt_model_moe_layers(desc, lm->moe_layers);
    if (options->objective == NULL) return MT_OK;
    lm->method = *options->objective;
    if (!mt_selection_has_bias(&lm->method)) return MT_OK;
    size_t stride = (size_t)desc->experts + mt_selection_measures(&lm->method, desc->experts);
    lm->loads = mt_arena_array(&lm->arena, (size_t)lm->moe_count * stride, sizeof *lm->loads, &status);
    lm->bias = mt_arena_array(&lm->arena, (size_t)desc->experts, sizeof *lm->bias, &status);
    return status;
}

enum mt_status mt_lm_open(struct mt_device *device, const char *folder, const struct mt_lm_options *options,
                          struct mt_lm **lm)
{
    struct mt_context *ctx = mt_device_context(device);
    void *memory = NULL;
    enum mt_status status = mt_given(ctx, "mt_lm_open", "lm", lm);
    if (status != MT_OK) return status;
    *lm = NULL;
    status = mt_given(NULL, "mt_lm_open", "device", device);
    if (status == MT_OK) status = mt_given(ctx, "mt_lm_open", "folder", folder);
    if (status == MT_OK) status = mt_given(ctx, "mt_lm_open", "options", options);
    if (status == MT_OK) status = check_options(ctx, options);
    if (status == MT_OK) status = mt_allocate_array(ctx, 1, sizeof **lm, &memory);
    if (status != MT_OK) return status;
    struct mt_lm *made = memory;
    *made = (struct mt_lm){.ctx = ctx, .device = device, .training = options->training};
    mt_arena_init(&made->arena, ctx, ARENA_BLOCK_BYTES);
    mt_lm_texts_init(made);
    status = open_model(made, folder, options);
    if (status == MT_OK) status = open_rest(made, folder, options);
    if (status == MT_OK)
        *lm = made;
    else
        mt_lm_close(made);
    return status;
}

void mt_lm_close(struct mt_lm *lm)
{
    if (lm == NULL) return;
    mt_lm_texts_close(lm);
    mt_model_close(lm->model);
    mt_arena_free(&lm->arena);
    mt_release(lm->ctx, lm, sizeof *lm);
}

void mt_lm_info(const struct mt_lm *lm, struct mt_lm_info *info)
{
    if (info == NULL) return;
    *info = (struct mt_lm_info){0};
    if (lm == NULL) return;
    const struct mt_model_desc *desc = mt_model_description(lm->model);
    struct mt_model_bytes bytes = mt_model_bytes(lm->model);
    *info = (struct mt_lm_info){
        .architecture = desc->config->arch->name,
        .layers = desc->layers,
        .moe_layers = lm->moe_count,
        .width = desc->width,
        .vocabulary = desc->vocabulary,
        .experts = desc->experts,
        .slots = desc->router.slots,
        .trainable = lm->training != MT_LM_FROZEN ? mt_model_params(lm->model)->trained_elements : 0,
        .bytes = bytes.copies + bytes.codes + bytes.unpacked + bytes.masters + bytes.gradients +
                 bytes.activations + bytes.work};
}

// ------------------------------------------------------------------ what is trainable

const char *mt_lm_part(int index)
{
    return index >= 0 && index < MT_MODEL_PART_COUNT ? mt_model_part_key((enum mt_model_part)index) : NULL;
}

bool mt_lm_param(const struct mt_lm *lm, size_t index, struct mt_lm_param *param)
{
    if (lm == NULL || param == NULL) return false;
    const struct mt_params *params = mt_model_params(lm->model);
    if (lm->training == MT_LM_FROZEN || index >= params->trained_count) return false;
    const struct mt_param *found = &params->trained[index];
    *param = (struct mt_lm_param){.name = found->name,
                                  .part = mt_model_part_key(found->part),
                                  .layer = found->layer,
                                  .expert = found->expert,
                                  .value = found->value,
                                  .gradient = found->grad};
    return true;
}

enum mt_status mt_lm_values_written(struct mt_lm *lm)
{
    enum mt_status status = mt_given(NULL, "mt_lm_values_written", "lm", lm);
    if (status != MT_OK) return status;
    return mt_params_round(mt_model_params(lm->model));
}

enum mt_status mt_lm_clear_gradients(struct mt_lm *lm)
{
    enum mt_status status = mt_given(NULL, "mt_lm_clear_gradients", "lm", lm);
    if (status != MT_OK || lm->training == MT_LM_FROZEN) return status;
    return mt_params_zero_gradients(mt_model_params(lm->model));
}

// ------------------------------------------------------------------ batches

static enum mt_status check_batch(const struct mt_lm *lm, const struct mt_lm_batch *batch,
                                  const struct mt_lm_loss *loss)
{
    enum mt_status status = mt_given(NULL, "mt_lm_forward", "lm", lm);
    if (status == MT_OK) status = mt_given(lm->ctx, "mt_lm_forward", "batch", batch);
    if (status == MT_OK) status = mt_given(lm->ctx, "mt_lm_forward", "ids", batch->ids);
    if (status == MT_OK) status = mt_given(lm->ctx, "mt_lm_forward", "loss", loss);
    if (status != MT_OK) return status;
    if (batch->offsets == NULL && (batch->sequences < 0 || batch->sequences > 1))
        return mt_fail(lm->ctx, MT_ERR_USAGE,
                       "the batch has %" PRId64 " sequences, but no offsets that say where they begin",
                       batch->sequences);
    if (batch->step_labels < 0 || batch->step_tokens < 0 || !(batch->progress >= 0.0) ||
        !isfinite(batch->progress))
        return mt_fail(lm->ctx, MT_ERR_USAGE,
                       "step_labels is %" PRId64 ", step_tokens %" PRId64 ", progress %g; expected 0 or more",
                       batch->step_labels, batch->step_tokens, batch->progress);
    return MT_OK;
}

static enum mt_status check_ids(struct mt_lm *lm, const struct mt_lm_batch *batch, int64_t most)
{
    int64_t vocabulary = mt_model_description(lm->model)->vocabulary;
    for (int64_t i = 0; i < batch->tokens && i < most; i++) {
        bool known = batch->ids[i] >= 0 && batch->ids[i] < vocabulary;
        if (known && (batch->labels == NULL || batch->labels[i] < vocabulary)) continue;
        return mt_fail(lm->ctx, MT_ERR_USAGE,
                       "token %" PRId64 " of the batch is %" PRId32 "%s; the model knows %" PRId64 " tokens",
                       i, known ? batch->labels[i] : batch->ids[i], known ? " by its label" : "", vocabulary);
    }
    return MT_OK;
}

static enum mt_status check_loss(struct mt_lm *lm, const struct mt_lm_loss *loss)
{
    if (isfinite(loss->task) && isfinite(loss->terms)) return MT_OK;
    return mt_fail(lm->ctx, MT_ERR_NUMERIC, "the loss is %g, the objective's terms are %g", loss->task,
                   loss->terms);
}

/* What rules that move biases will ask for. */
static void add_loads(struct mt_lm *lm)
{
    size_t experts = (size_t)mt_model_description(lm->model)->experts;
    size_t measured = mt_selection_measures(&lm->method, (int)experts);
    for (int i = 0; i < lm->moe_count; i++) {
        const struct mt_layer_report *report = mt_objective_layer(mt_model_objective(lm->model), i);
        double *own = lm->loads + (size_t)i * (experts + measured);
        for (size_t e = 0; e < experts; e++) own[e] += report->load[e];
        for (size_t e = 0; e < measured; e++) own[experts + e] += report->measured[e];
    }
}

enum mt_status mt_lm_forward(struct mt_lm *lm, const struct mt_lm_batch *batch, struct mt_lm_loss *loss)
{
    enum mt_status status = check_batch(lm, batch, loss);
    if (status != MT_OK) return status;
    bool trains = lm->training != MT_LM_FROZEN && batch->labels != NULL && !batch->evaluation;
    int32_t whole[2] = {0, batch->tokens > 0 && batch->tokens <= INT32_MAX ? (int32_t)batch->tokens : 0};
    struct mt_batch given = {.tokens = batch->tokens,
                             .sequences = batch->offsets != NULL ? batch->sequences : 1,
                             .ids = batch->ids,
                             .offsets = batch->offsets != NULL ? batch->offsets : whole,
                             .labels = batch->labels,
                             .mask = batch->mask,
                             .step = lm->forwards,
                             .training = trains,
                             .loss_only = !trains,
                             .progress = batch->progress > 0.0 ? batch->progress : 1.0,
                             .step_labels = batch->step_labels,
                             .step_tokens = batch->step_tokens};
    struct mt_model_loss found = {0};
    lm->tokens = 0;
    lm->backward_ready = lm->logits_ready = false;
    status = check_ids(lm, batch, INT32_MAX);
    if (status == MT_OK) status = mt_model_forward(lm->model, &given, &found);
    if (status != MT_OK) return status;
    lm->forwards++;
    lm->tokens = batch->tokens;
    lm->backward_ready = trains;
    lm->logits_ready = true;
    if (trains && lm->loads != NULL) add_loads(lm);
    *loss = (struct mt_lm_loss){.task = found.task, .terms = found.terms, .labels = found.labels};
    return check_loss(lm, loss);
}

enum mt_status mt_lm_backward(struct mt_lm *lm)
{
    enum mt_status status = mt_given(NULL, "mt_lm_backward", "lm", lm);
    if (status != MT_OK) return status;
    if (!lm->backward_ready)
        return mt_fail(lm->ctx, MT_ERR_USAGE,
                       "call backward once after a forward with labels, in a model opened for training");
    lm->backward_ready = lm->logits_ready = false;
    return mt_model_backward(lm->model);
}

enum mt_status mt_lm_logits(struct mt_lm *lm, float *logits)
{
    struct mt_buffer buffer = {0};
    enum mt_status status = mt_given(NULL, "mt_lm_logits", "lm", lm);
    if (status == MT_OK) status = mt_given(lm->ctx, "mt_lm_logits", "logits", logits);
    if (status != MT_OK) return status;
    int64_t vocabulary = mt_model_description(lm->model)->vocabulary;
    if (!lm->logits_ready)
        return mt_fail(lm->ctx, MT_ERR_USAGE, "read logits after a forward and before its backward");
    size_t bytes = (size_t)lm->tokens * (size_t)vocabulary * sizeof *logits;
    status = mt_device_buffer_create(lm->device, bytes, &buffer);
    if (status != MT_OK) return status;
    struct mt_tensor there = mt_tensor_2d(buffer.data, MT_F32, lm->tokens, vocabulary);
    status = mt_model_logits(lm->model, &there);
    if (status == MT_OK) status = mt_device_download(lm->device, logits, buffer.data, bytes);
    mt_buffer_release(&buffer);
    return status;
}

const struct mt_routing *mt_lm_routing(const struct mt_lm *lm, int64_t moe_layer)
{
    if (lm == NULL || lm->tokens == 0 || moe_layer < 0 || moe_layer >= lm->moe_count) return NULL;
    return mt_model_routing(lm->model, lm->moe_layers[moe_layer]);
}

const struct mt_layer_report *mt_lm_terms(const struct mt_lm *lm, int64_t moe_layer)
{
    const struct mt_objective *objective = lm != NULL ? mt_model_objective(lm->model) : NULL;
    if (objective == NULL || moe_layer < 0 || moe_layer >= lm->moe_count) return NULL;
    return mt_objective_layer(objective, (int)moe_layer);
}

enum mt_status mt_lm_move_biases(struct mt_lm *lm)
{
    int experts = mt_model_description(lm->model)->experts;
    size_t bytes = (size_t)experts * sizeof *lm->bias;
    enum mt_status status = MT_OK;
    for (int i = 0; lm->loads != NULL && status == MT_OK && i < lm->moe_count; i++) {
        const struct mt_layer_params *layer = &mt_model_params(lm->model)->layer[lm->moe_layers[i]];
        size_t stride = (size_t)experts + mt_selection_measures(&lm->method, experts);
        double *load = lm->loads + (size_t)i * stride;
        if (!layer->correction_frozen) {
            status = mt_device_download(lm->device, lm->bias, layer->correction.data, bytes);
            if (status != MT_OK) return status;
            mt_selection_move(&lm->method,
                              &(struct mt_selection_step){
                                  .load = load,
                                  .measured = load + experts,
                                  .experts = experts,
                                  .memory = mt_objective_rule_memory(mt_model_objective(lm->model), i),
                                  .bias = lm->bias,
                              });
            status = mt_device_upload(lm->device, layer->correction.data, lm->bias, bytes);
        }
        memset(load, 0, stride * sizeof *load);
    }
    return status;
}
