/* From settings to a model's options, and to what a rank holds. */
#include "train/opening.h"

#include "model/chosen_experts.h"
#include "train/data/corpus.h"
#include "train/optimizer.h"
#include "train/watch.h"

#define SLACK ((size_t)16 << 20) // on the host: what saving, exporting and logging take for a while

enum mt_status mt_train_select(struct mt_context *ctx, const struct mt_train_settings *settings,
                               const struct mt_model_desc *desc, struct mt_arena *arena,
                               struct mt_adapter *adapter, struct mt_train_selection *selection)
{
    enum mt_status status = MT_OK;
    *selection = (struct mt_train_selection){.freeze = settings->freeze, .seed = settings->seed};
    if (settings->experts != NULL)
        status = mt_chosen_experts_read(ctx, settings->experts, desc, arena, &selection->experts);
    if (status != MT_OK) return status;
    if (settings->train != MT_TRAIN_LORA) {
        selection->full = settings->targets;
        return mt_train_quantise(ctx, settings, &selection->quantise);
    }
    status = mt_adapter_layout_check(ctx, desc, settings->layout);
    if (status != MT_OK) return status;
    selection->lora = settings->targets;
    selection->lora_rank = (int)settings->lora_rank;
    selection->lora_alpha = settings->lora_alpha;
    if (settings->adapter != NULL) {
        status = mt_adapter_open(ctx, settings->adapter, desc, adapter);
        if (status != MT_OK) return status;
        mt_adapter_select(adapter, selection);
    }
    selection->lora_dropout = settings->lora_dropout;
    return mt_train_quantise(ctx, settings, &selection->quantise);
}

static enum mt_dtype activations_of(const struct mt_train_settings *settings, const struct mt_device *device)
{
    switch (settings->activations) {
    case MT_ACTIVATIONS_F32: return MT_F32;
    case MT_ACTIVATIONS_BF16: return MT_BF16;
    default: return mt_device_activations(device);
    }
}

struct mt_model_options mt_train_model_options(const struct mt_train_settings *settings,
                                               const struct mt_train_selection *selection,
                                               const struct mt_device *device,
                                               const struct mt_fit_sizes *sizes)
{
    struct mt_model_options options = {
        .tokens = sizes->tokens,
        .sequences = mt_corpus_most_sequences(settings, sizes->tokens),
        .positions = settings->max_length,
        .recompute = sizes->recompute,
        .backward = true,
        .objective = settings->task_only ? NULL : &settings->objective,
        .objective_prefix = "objective.",
        .selection = *selection,
        .expert_room = settings->expert_room,
        .activations = activations_of(settings, device),
        .choices = settings->choices != NULL,
    };
    options.selection.host_embedding = sizes->host_embedding;
    return options;
}

bool mt_train_embedding_may_leave(const struct mt_train_settings *settings, const struct mt_model_desc *desc,
                                  const struct mt_device *device)
{
    return settings->train == MT_TRAIN_LORA && !desc->tied_head && !mt_device_on_host(device);
}

struct mt_fit_freedom mt_train_freedom(const struct mt_train_settings *settings, bool tokens_open)
{
    bool cut = tokens_open && settings->batching != MT_LAYOUT_PACKED;
    bool recompute = settings->recompute == MT_TRAIN_RECOMPUTE_AUTO;
    return (struct mt_fit_freedom){
        .recompute = recompute,
        .least_tokens = cut ? settings->max_length : settings->tokens,
        .step_tokens = cut ? settings->examples * settings->max_length : settings->tokens,
        .first = {.recompute = recompute ? MT_RECOMPUTE_NONE
                                         : (enum mt_recompute)(settings->recompute - MT_TRAIN_RECOMPUTE_NONE),
                  .tokens = settings->tokens,
                  .expert_ranks = settings->expert_ranks}};
}

// ------------------------------------------------------------------ what a rank holds

static void count_trained(const struct mt_params *params, struct mt_rank_memory *memory)
{
    for (size_t i = 0; i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        int64_t numbers = mt_tensor_count(&param->value);
        if (param->part == MT_PART_EXPERTS)
            memory->trained_experts += numbers;
        else if (param->part == MT_PART_EMBEDDING)
            memory->trained_embedding += numbers;
        else
            memory->trained_rest += numbers;
    }
}

/* Opens all that holds memory. */
static enum mt_status open_all(struct mt_device *dry, const char *folder,
                               const struct mt_model_options *options, int sources,
                               const struct mt_gradient_groups *groups, struct mt_rank_memory *memory)
{
    struct mt_model *model = NULL;
    struct mt_optimizer optimizer = {0};
    struct mt_watch *watch = NULL;
    enum mt_status status = mt_model_open(dry, folder, options, &model);
    if (status == MT_OK)
        status = mt_optimizer_create(mt_model_params(model), groups, &(struct mt_optimizer_options){0},
                                     &optimizer);
    if (status == MT_OK)
        status = mt_watch_create_for_model(dry, model, options->tokens, sources, options->objective, &watch);
    if (status == MT_OK) {
        const struct mt_params *params = mt_model_params(model);
        *memory = (struct mt_rank_memory){.model = mt_model_bytes(model),
                                          .moments = mt_optimizer_bytes(&optimizer),
                                          .buffers = mt_device_dry_bytes(dry),
                                          .summed = optimizer.buckets.summed * sizeof(float),
                                          .common = params->common_bytes,
                                          .own = params->gradients.bytes - params->common_bytes,
                                          .live = mt_device_context(dry)->live_bytes,
                                          .narrow = mt_model_activations(model) == MT_BF16};
        count_trained(params, memory);
    }
    mt_watch_destroy(watch);
    mt_optimizer_free(&optimizer);
    mt_model_close(model);
    return status;
}

enum mt_status mt_rank_memory(struct mt_device *dry, const struct mt_train_settings *settings,
                              struct mt_model_options *options, const struct mt_fit_sizes *sizes, int rank,
                              int ranks, int sources, struct mt_rank_memory *memory)
{
    struct mt_context *ctx = mt_device_context(dry);
    int sharing = (int)sizes->expert_ranks;
    struct mt_gradient_groups groups = {0};
    enum mt_status status = mt_comm_open_on_paper(ctx, rank, ranks, &groups.all);
    options->expert_ranks = NULL;
    if (status == MT_OK && sharing > 1)
        status = mt_comm_open_on_paper(ctx, rank / sharing, ranks / sharing, &groups.copies);
    if (status == MT_OK && sharing > 1)
        status = mt_comm_open_on_paper(ctx, rank % sharing, sharing, &options->expert_ranks);
    options->expert_direct = true; // what is staged lies in memory of the host
    if (status == MT_OK) status = open_all(dry, settings->model, options, sources, &groups, memory);
    mt_comm_close(options->expert_ranks);
    mt_comm_close(groups.copies);
    mt_comm_close(groups.all);
    options->expert_ranks = NULL;
    return status;
}

size_t mt_rank_memory_bytes(const struct mt_device *dry, const struct mt_rank_memory *memory)
{
    if (!mt_device_on_host(dry)) return memory->buffers;
    // Also weights as they lie in the file, lists, and what the others' gradients are added to.
    return memory->buffers + memory->model.mapped + memory->live + memory->summed + SLACK;
}
