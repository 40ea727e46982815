/* Opening a run: from the cheapest that can be wrong (settings, folder) to the dearest (the model). */
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/files/file.h"
#include "objective/objective.h"
#include "ops/choose.h"
#include "train/state/inputs.h"
#include "train/trainer_internal.h"

#define ARENA_BLOCK_BYTES 16384

static bool trains_lora(const struct mt_trainer *trainer)
{
    return trainer->settings->train == MT_TRAIN_LORA;
}

static enum mt_status read_description(struct mt_trainer *trainer)
{
    const char *model = trainer->settings->model;
    enum mt_status status = mt_hf_config_read_folder(trainer->ctx, model, &trainer->config);
    if (status != MT_OK) return status;
    status = mt_model_describe(trainer->ctx, &trainer->config, &trainer->desc);
    return status == MT_OK ? MT_OK : mt_fail_within(trainer->ctx, status, "%s/config.json", model);
}

// ------------------------------------------------------------------ the folder and what is in it

/* The newest checkpoint that can be used, the same for all ranks: another machine may see other files. */
static enum mt_status find_checkpoint(struct mt_trainer *trainer, struct mt_state_reader **reader)
{
    const char *folder = trainer->folder.checkpoints;
    enum mt_status status = mt_state_find(trainer->ctx, folder, trainer->options.log, reader);
    status = mt_comm_agree(trainer->comm, trainer->ctx, status);
    if (status != MT_OK) return status;
    int64_t step = *reader != NULL ? (int64_t)mt_state_numbers(*reader)->step : 0;
    int64_t steps[2] = {step, -step};
    mt_comm_max_i64(trainer->comm, steps, 2);
    if (steps[0] == -steps[1]) return MT_OK;
    return mt_fail(trainer->ctx, MT_ERR_IO,
                   "%s: a rank can use the checkpoint of step %" PRId64 ", another only that of step %" PRId64
                   " (0: none): all ranks must see the same files",
                   folder, steps[0], -steps[1]);
}

/* Rank 0 first, unless something was wrong before, in which case it is told here. */
static enum mt_status open_folder(struct mt_trainer *trainer, enum mt_status before,
                                  struct mt_state_reader **reader)
{
    struct mt_run_folder *folder = &trainer->folder;
    enum mt_status status = before;
    if (status == MT_OK) {
        status = mt_run_folder_name(trainer->ctx, trainer->settings->out,
                                    trains_lora(trainer) ? "adapter" : "model", &trainer->arena, folder);
    }
    if (status == MT_OK && !trainer->options.plan_only && mt_trainer_writes(trainer)) {
        status = mt_run_folder_open(folder);
        // A run that has finished saves, and so prunes, no more.
        if (status == MT_OK) status = mt_state_sweep(trainer->ctx, folder->checkpoints);
    }
    // Nobody looks at the checkpoints before they are swept.
    status = mt_comm_agree(trainer->comm, trainer->ctx, status);
    if (status != MT_OK) return status;
    status = find_checkpoint(trainer, reader);
    if (status != MT_OK) return status;
    if (*reader != NULL && !trainer->settings->resume) {
        return mt_fail(trainer->ctx, MT_ERR_USAGE,
                       "%s: holds a run of %" PRIu64
                       " steps, and checkpoint.resume is false; choose another out, or remove the folder",
                       folder->path, mt_state_numbers(*reader)->step);
    }
    if (*reader == NULL && mt_run_folder_has(folder->result)) {
        return mt_fail(trainer->ctx, MT_ERR_USAGE,
                       "%s: is there, but no checkpoint to go on from; choose another out", folder->result);
    }
    if (*reader == NULL) return MT_OK;
    bool spread_open = trainer->settings->expert_ranks == 0;
    status = mt_train_settings_continue(trainer->ctx, mt_state_settings(*reader), &trainer->arena,
                                        &trainer->resolved);
    if (status != MT_OK) return mt_fail_within(trainer->ctx, status, "%s", folder->path);
    // Other ranks than those it was chosen for: once more.
    if (spread_open && mt_comm_size(trainer->comm) % trainer->settings->expert_ranks != 0)
        trainer->resolved.expert_ranks = 0;
    trainer->numbers = *mt_state_numbers(*reader);
    trainer->saved_step = trainer->numbers.step;
    trainer->finished_before = trainer->numbers.finished && !trainer->options.plan_only &&
                               mt_trainer_has_results(trainer, &trainer->numbers);
    return MT_OK;
}

/* A run goes on with the files it began with, or it ends as something that no single run would have been. */
static enum mt_status check_inputs(struct mt_trainer *trainer, bool goes_on)
{
    static const struct mt_fingerprint_words words = {
        .since = "this run began",
        .cure = "put it back to go on, or begin another run in another folder (out)"};
    const struct mt_run_folder *folder = &trainer->folder;
    bool known = true;
    // Those of one rank speak for all.
    if (!mt_trainer_writes(trainer) || (trainer->options.plan_only && !goes_on)) return MT_OK;
    mt_fingerprint_init(trainer->ctx, &trainer->inputs);
    enum mt_status status = mt_train_inputs(&trainer->inputs, trainer->settings, trainer->options.templates);
    if (status != MT_OK || !goes_on) return status;
    status = mt_fingerprint_compare(&trainer->inputs, folder->inputs, &words, trainer->finished_before,
                                    trainer->options.log, &known);
    if (status != MT_OK || known) return status;
    mt_log_warning(trainer->options.log,
                   "%s: is missing: metier cannot tell whether data, tokenizer and model have changed since "
                   "this run began",
                   folder->inputs);
    return MT_OK;
}

static enum mt_status write_form(struct mt_trainer *trainer)
{
    const struct mt_trained_texts trained = {.form = trainer->form_text};
    return mt_model_write_trained(trainer->ctx, trainer->folder.path, &trained);
}

/* What travels with all that comes of the run. */
static enum mt_status describe_form(struct mt_trainer *trainer)
{
    struct mt_json_text text;
    mt_json_text_init(&text, trainer->ctx);
    enum mt_status status = mt_form_record_put(&text, &trainer->corpus.form);
    if (status == MT_OK)
        status = mt_arena_copy_text(&trainer->arena, text.bytes, text.length, &trainer->form_text);
    mt_json_text_free(&text);
    return status;
}

/* The config comes first: it is what makes a folder that of a run. */
static enum mt_status write_config(struct mt_trainer *trainer)
{
    if (trainer->options.plan_only || !mt_trainer_writes(trainer)) return MT_OK;
    enum mt_status status = mt_run_folder_check(&trainer->folder);
    if (status == MT_OK) {
        status = mt_file_write_all(trainer->ctx, trainer->folder.config, trainer->settings_text,
                                   strlen(trainer->settings_text));
    }
    if (status == MT_OK) status = write_form(trainer);
    if (status == MT_OK) status = mt_fingerprint_write(&trainer->inputs, trainer->folder.inputs);
    mt_fingerprint_release(&trainer->inputs);
    return status;
}

// ------------------------------------------------------------------ data

/*
 * The data decides order and length of a run: other data under the same names would let it go on as something
 * that no single run would have been.
 */
static enum mt_status check_data(struct mt_trainer *trainer)
{
    struct mt_run_numbers *numbers = &trainer->numbers;
    uint64_t draws = mt_batches_draws(trainer->corpus.training);
    uint64_t bytes = mt_corpus_bytes(&trainer->corpus, trainer->settings);
    bool same = numbers->epoch_draws == draws && numbers->data_bytes == bytes &&
                numbers->steps == trainer->length.steps;
    if (numbers->step > 0 && !same) {
        return mt_fail(trainer->ctx, MT_ERR_USAGE,
                       "%s: the data is not what it was when this run began: %" PRIu64 " bytes and %" PRIu64
                       " rows an epoch, %" PRIu64 " steps in all; now %" PRIu64 ", %" PRIu64 " and %" PRIu64
                       ": put it back to go on, or begin another run in another folder (out)",
                       trainer->folder.path, numbers->data_bytes, numbers->epoch_draws, numbers->steps, bytes,
                       draws, trainer->length.steps);
    }
    numbers->epoch_draws = draws;
    numbers->data_bytes = bytes;
    numbers->steps = trainer->length.steps;
    return MT_OK;
}

/* The experts that tokens are to get. */
static enum mt_status open_choices(struct mt_trainer *trainer)
{
    const struct mt_train_settings *settings = trainer->settings;
    const struct mt_choice_shape shape = {.layers = mt_model_moe_layers(&trainer->desc, NULL),
                                          .slots = trainer->desc.router.slots,
                                          .experts = trainer->desc.experts};
    if (settings->choices == NULL) return MT_OK;
    if (shape.layers == 0)
        return mt_fail(trainer->ctx, MT_ERR_USAGE, "data.choices: the model has no experts to choose");
    if (trainer->desc.router.kind == MT_ROUTER_SPARSEMIXER) {
        return mt_fail(
            trainer->ctx, MT_ERR_UNSUPPORTED,
            "data.choices: the model routes by SparseMixer, which has weights only for its own choices");
    }
    enum mt_status status =
        mt_choices_open(trainer->ctx, settings->choices, &shape, settings->tokens, &trainer->choices);
    return status == MT_OK ? MT_OK : mt_fail_within(trainer->ctx, status, "data.choices");
}

static enum mt_status open_data(struct mt_trainer *trainer)
{
    const struct mt_train_settings *settings = trainer->settings;
    enum mt_status status =
        mt_corpus_open(trainer->ctx, settings, &trainer->config, trainer->options.templates,
                       trainer->options.log, &trainer->corpus);
    if (status != MT_OK) return status;
    bool evaluates = trainer->corpus.held_out != NULL;
    bool survey = trainer->options.plan_only || (evaluates && settings->evaluate_every == 0);
    status = mt_corpus_length(&trainer->corpus, settings, survey, &trainer->length);
    if (status == MT_OK) status = describe_form(trainer);
    if (status == MT_OK) status = check_data(trainer);
    if (status == MT_OK) status = open_choices(trainer);
    if (status != MT_OK || !evaluates) return status;
    trainer->evaluate_every =
        settings->evaluate_every > 0 ? (uint64_t)settings->evaluate_every : trainer->length.epoch_steps;
    return MT_OK;
}

// ------------------------------------------------------------------ the model

/* A run that goes on has its device from before; the settings that are written down name it. */
static enum mt_status choose_device(struct mt_trainer *trainer)
{
    struct mt_train_settings *settings = &trainer->resolved;
    // Until it is known what fits (mt_trainer_fit) the data is cut as if everything did.
    trainer->memory.tokens_open = settings->tokens == 0;
    if (settings->tokens == 0) settings->tokens = mt_train_auto_tokens(settings);
    trainer->automatic_device = mt_device_is_automatic(settings->device);
    return mt_device_choose(trainer->ctx, trainer->comm, settings->device, MT_USE_FAST, &settings->device);
}

/* Keys of the objective and of templates that another model would have a use for. */
static void warn_of_keys_of_models(const struct mt_trainer *trainer)
{
    const struct mt_train_settings *settings = trainer->settings;
    const struct mt_log *log = trainer->options.log;
    if (settings->noise && settings->objective.seed != settings->seed &&
        !mt_objective_draws(&settings->objective, &trainer->desc.router))
        mt_log_warning(log, "objective.seed changes nothing: neither method nor router draws at random");
    if (!settings->noise && mt_selection_pools(&settings->objective))
        mt_log_warning(log, "noise is false, so no pool is drawn: every sequence chooses from all experts");
    if (!mt_chat_template_stands_in(trainer->corpus.template)) return;
    if (settings->template_options != NULL)
        mt_log_warning(log, "data.template_options changes nothing: the model has no chat template");
    if (strcmp(settings->template_date, MT_TEMPLATE_DATE) != 0)
        mt_log_warning(log, "data.template_date changes nothing: the model has no chat template");
}

/* Keys that another device or more ranks would have a use for: a file may be for many machines. */
static void warn_of_idle_keys(const struct mt_trainer *trainer)
{
    const struct mt_train_settings *settings = trainer->settings;
    const struct mt_log *log = trainer->options.log;
    if (!mt_trainer_writes(trainer)) return;
    if (settings->threads > 0 && !mt_device_on_host(trainer->device))
        mt_log_warning(log, "threads is %lld, which changes nothing: %s computes on a GPU",
                       (long long)settings->threads, settings->device);
    if (settings->statistics == MT_STATISTICS_LOCAL && mt_comm_size(trainer->comm) == 1)
        mt_log_warning(log, "parallel.statistics is local, which changes nothing: there is one rank");
    if (settings->tokenizer != NULL)
        mt_log_warning(
            log,
            "the run reads its texts with the tokenizer of %s, but what it writes is used with the "
            "model's own: eval, generate and chat will not find this one",
            settings->tokenizer);
    warn_of_keys_of_models(trainer);
}

static enum mt_status open_device(struct mt_trainer *trainer)
{
    enum mt_status status =
        mt_device_create(trainer->ctx, trainer->settings->device, trainer->threads, &trainer->device);
    if (status != MT_OK) return status;
    if (trainer->options.plan_only) mt_device_set_dry(trainer->device);
    if (trainer->options.terminal != NULL) {
        (void)fprintf(trainer->options.terminal, "device: %s\n", mt_device_description(trainer->device));
        if (trainer->automatic_device) mt_device_warn_idle(trainer->device, trainer->options.terminal);
    }
    warn_of_idle_keys(trainer);
    return MT_OK;
}

enum mt_status mt_trainer_model_options(struct mt_trainer *trainer, const struct mt_fit_sizes *sizes,
                                        struct mt_model_options *options)
{
    *options = mt_train_model_options(trainer->settings, &trainer->selection, trainer->device, sizes);
    options->expert_ranks = trainer->expert_comm;
    if (trainer->settings->transfer == MT_TRANSFER_AUTO) options->expert_sender = trainer->sender;
    return mt_trainer_find_transfer(trainer, &options->expert_direct);
}

static enum mt_status open_model(struct mt_trainer *trainer)
{
    const struct mt_train_settings *settings = trainer->settings;
    struct mt_model_options options;
    enum mt_status status =
        mt_train_settings_text(trainer->ctx, settings, &trainer->arena, &trainer->settings_text);
    if (status == MT_OK)
        status = mt_trainer_model_options(trainer, &mt_trainer_chosen(trainer)->sizes, &options);
    if (status != MT_OK) return status;
    status = mt_model_open(trainer->device, settings->model, &options, &trainer->model);
    // Codes that are kept in a file are mapped; they were counted as memory.
    if (status == MT_OK) trainer->memory.mapped = mt_model_bytes(trainer->model).mapped;
    if (status == MT_OK && settings->adapter != NULL)
        status = mt_adapter_apply(&trainer->adapter, mt_model_params(trainer->model));
    return status;
}

static enum mt_status find_paths(struct mt_trainer *trainer)
{
    struct mt_arena *arena = &trainer->arena;
    enum mt_status status = MT_OK;
    trainer->moe_layers = mt_model_moe_layers(&trainer->desc, NULL);
    trainer->paths = mt_arena_array(arena, (size_t)trainer->moe_layers, sizeof *trainer->paths, &status);
    trainer->bias = mt_arena_array(arena, (size_t)trainer->desc.experts, sizeof *trainer->bias, &status);
    if (status == MT_OK) mt_params_paths(mt_model_params(trainer->model), &trainer->desc, trainer->paths);
    return status;
}

static enum mt_status open_optimizer(struct mt_trainer *trainer)
{
    const struct mt_train_settings *settings = trainer->settings;
    const struct mt_optimizer_options options = {.beta1 = settings->beta1,
                                                 .beta2 = settings->beta2,
                                                 .epsilon = settings->epsilon,
                                                 .weight_decay = settings->weight_decay,
                                                 .clip = settings->clip};
    struct mt_params *params = mt_model_params(trainer->model);
    const struct mt_gradient_groups groups = mt_trainer_groups(trainer);
    enum mt_status status = mt_optimizer_create(params, &groups, &options, &trainer->optimizer);
    if (status != MT_OK) return status;
    trainer->schedule =
        mt_schedule_make(settings->schedule, trainer->length.steps, settings->warmup, settings->final_rate);
    status = mt_watch_create_for_model(trainer->device, trainer->model, settings->tokens,
                                       (int)mt_batches_sources(trainer->corpus.training),
                                       settings->task_only ? NULL : &settings->objective, &trainer->watch);
    if (status != MT_OK) return status;
    trainer->tensors = (struct mt_run_tensors){.params = params,
                                               .first = trainer->optimizer.first,
                                               .second = trainer->optimizer.second,
                                               .buckets = &trainer->optimizer.buckets,
                                               .comm = trainer->comm,
                                               .objective = mt_model_objective(trainer->model)};
    trainer->tensors.running = mt_watch_running(trainer->watch, &trainer->tensors.running_count);
    return MT_OK;
}

// ------------------------------------------------------------------ going on, or beginning

static enum mt_status go_on(struct mt_trainer *trainer, const struct mt_state_reader *reader)
{
    enum mt_status status = mt_state_load(trainer->device, reader, &trainer->tensors);
    if (status != MT_OK) return status;
    return mt_batches_seek(trainer->corpus.training, trainer->numbers.position, &trainer->numbers.counts);
}

static enum mt_status open_log(struct mt_trainer *trainer)
{
    char title[512];
    char checkpoint[MT_CHECKPOINT_TEXT_BYTES];
    if (!mt_trainer_writes(trainer)) return MT_OK;
    mt_trainer_checkpoint_text(trainer, checkpoint);
    (void)snprintf(title, sizeof title, "%s, %s, %s -> %s", trainer->settings->model,
                   trains_lora(trainer) ? "LoRA" : "full", trainer->settings->objective.method,
                   trainer->folder.path);
    const struct mt_run_log_options options = {.directory = trainer->folder.path,
                                               .tensorboard = trainer->settings->tensorboard,
                                               .terminal = trainer->options.terminal,
                                               .log = trainer->options.log,
                                               .steps = trainer->length.steps,
                                               .done = {.steps = trainer->numbers.step,
                                                        .tokens = trainer->numbers.tokens,
                                                        .seconds = trainer->numbers.seconds},
                                               .metrics_bytes = trainer->numbers.metrics_bytes,
                                               .checkpoint = trainer->numbers.step > 0 ? checkpoint : NULL,
                                               .title = title,
                                               .layers = (size_t)trainer->moe_layers,
                                               .experts = trainer->desc.experts};
    enum mt_status status = mt_run_log_open(trainer->ctx, &options, &trainer->run_log);
    if (status != MT_OK || trainer->numbers.step == 0) return status;
    char text[96];
    (void)snprintf(text, sizeof text, "going on after step %" PRIu64, trainer->numbers.step);
    return mt_run_log_event(trainer->run_log, trainer->numbers.step, "resumed", text);
}

/* Whoever came for the paper's objective and named no method is told. */
static enum mt_status tell_default(struct mt_trainer *trainer)
{
    if (trainer->settings->method_given || trainer->numbers.step > 0) return MT_OK;
    return mt_run_log_event(trainer->run_log, 0, "method",
                            MT_TRAIN_DEFAULT_METHOD
                            " by default, as nothing was better (docs/lab/results.md); "
                            "method: paper asks for the paper's objective");
}

/* What those who load the adapter would not apply. */
static enum mt_status warn_of_layout(struct mt_trainer *trainer)
{
    enum mt_status status = MT_OK;
    const char *sentence = trains_lora(trainer) ? "" : NULL;
    enum mt_adapter_layout layout = mt_adapter_layout_for(&trainer->desc, trainer->settings->layout);
    for (int i = 0; sentence != NULL && status == MT_OK; i++) {
        sentence = mt_adapter_layout_warning(mt_model_params(trainer->model), &trainer->desc, layout, i);
        if (sentence != NULL)
            status = mt_run_log_event(trainer->run_log, trainer->numbers.step, "warning", sentence);
    }
    return status;
}

/* How much the file of choices holds. */
static enum mt_status tell_choices(struct mt_trainer *trainer)
{
    char text[512];
    const struct mt_choices *choices = &trainer->choices;
    if (choices->ctx == NULL) return MT_OK;
    (void)snprintf(text, sizeof text,
                   "%.300s has the experts of %zu sequences, %" PRId64
                   " tokens, in %d MoE layers, %d of %d each",
                   trainer->settings->choices, choices->index.count, choices->tokens, choices->shape.layers,
                   choices->shape.slots, choices->shape.experts);
    return mt_run_log_event(trainer->run_log, trainer->numbers.step, "choices", text);
}

/* How many ranks share the experts, where that was left to us. */
static enum mt_status tell_spread(struct mt_trainer *trainer)
{
    const char *why = trainer->memory.spread;
    if (why[0] == '\0') return MT_OK;
    return mt_run_log_event(trainer->run_log, trainer->numbers.step, "parallel", why);
}

/* What nobody may have meant. */
static enum mt_status warn(struct mt_trainer *trainer)
{
    enum mt_status status = warn_of_layout(trainer);
    if (status != MT_OK) return status;
    if (trainer->numbers.step > 0 || trainer->schedule.warmup < trainer->length.steps) return MT_OK;
    return mt_run_log_event(trainer->run_log, 0, "warning",
                            "every step is warm-up, the first with a learning rate of 0: set "
                            "optimizer.warmup to 0, or train longer");
}

static enum mt_status open_rest(struct mt_trainer *trainer, const struct mt_state_reader *reader)
{
    enum mt_status status = open_data(trainer);
    // From here on there are threads.
    if (status == MT_OK && trainer->options.signals)
        mt_interrupt_begin(&trainer->interrupt, trainer->options.terminal,
                           "the step at hand is finished and saved");
    if (status == MT_OK) status = open_device(trainer);
    status = mt_comm_agree(trainer->comm, trainer->ctx, status); // what fits, all of them find out together
    if (status == MT_OK) status = mt_trainer_fit(trainer);
    if (status == MT_OK) status = mt_trainer_split_experts(trainer);
    if (status == MT_OK) status = mt_trainer_open_cards(trainer);
    if (status == MT_OK) status = open_model(trainer);
    if (status == MT_OK) status = find_paths(trainer);
    if (status == MT_OK) status = open_optimizer(trainer);
    if (status == MT_OK) status = mt_trainer_join_ranks(trainer);
    if (status != MT_OK || trainer->options.plan_only) return status;
    if (reader != NULL) status = go_on(trainer, reader);
    if (status == MT_OK) status = write_config(trainer);
    if (status == MT_OK) status = open_log(trainer);
    if (status == MT_OK) status = tell_spread(trainer);
    if (status == MT_OK) status = mt_trainer_tell_cards(trainer);
    if (status == MT_OK) status = tell_choices(trainer);
    if (status == MT_OK) status = tell_default(trainer);
    return status == MT_OK ? warn(trainer) : status;
}

enum mt_status mt_trainer_open(struct mt_context *ctx, const struct mt_trainer_options *options,
                               struct mt_trainer **trainer)
{
    void *memory = NULL;
    *trainer = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **trainer, &memory);
    if (options->comm != NULL) status = mt_comm_agree(options->comm, ctx, status);
    if (status != MT_OK) {
        mt_release(ctx, memory, sizeof **trainer);
        return status;
    }
    struct mt_trainer *made = memory;
    struct mt_state_reader *reader = NULL;
    made->ctx = ctx;
    made->options = *options;
    made->resolved = *options->settings;
    made->settings = &made->resolved;
    made->numbers.best_loss = (double)NAN;
    made->numbers.concentration = MT_CONCENTRATION_NONE;
    mt_arena_init(&made->arena, ctx, ARENA_BLOCK_BYTES);
    status = mt_trainer_open_ranks(made);
    if (made->comm == NULL) {
        mt_trainer_close(made);
        return status;
    }
    if (status == MT_OK) status = read_description(made);
    if (status == MT_OK)
        status =
            mt_train_select(ctx, made->settings, &made->desc, &made->arena, &made->adapter, &made->selection);
    made->selection.log = options->log;
    status = open_folder(made, status, &reader);
    if (status == MT_OK) status = check_inputs(made, reader != NULL);
    status = mt_comm_agree(made->comm, ctx, status); // the choice takes all of them
    if (status == MT_OK && !made->finished_before) status = choose_device(made);
    if (status == MT_OK && !made->finished_before) status = open_rest(made, reader);
    mt_state_close(reader);
    status = mt_comm_agree(made->comm, ctx, mt_trainer_fail_memory(made, status));
    made->started = mt_clock_seconds() - made->numbers.seconds;
    if (status != MT_OK) {
        mt_trainer_close(made);
        return status;
    }
    *trainer = made;
    return MT_OK;
}

void mt_trainer_close(struct mt_trainer *trainer)
{
    if (trainer == NULL) return;
    struct mt_context *ctx = trainer->ctx;
    mt_gradient_sum_free(trainer->gradient_sum);
    mt_run_log_close(trainer->run_log);
    mt_watch_destroy(trainer->watch);
    mt_optimizer_free(&trainer->optimizer);
    mt_model_close(trainer->model);
    mt_device_destroy(trainer->sender);
    mt_device_destroy(trainer->device);
    mt_adapter_close(&trainer->adapter);
    mt_choices_close(&trainer->choices);
    mt_corpus_close(&trainer->corpus);
    mt_hf_config_free(&trainer->config);
    mt_fingerprint_release(&trainer->inputs);
    mt_run_folder_close(&trainer->folder);
    mt_interrupt_end(&trainer->interrupt);
    mt_trainer_close_ranks(trainer);
    mt_arena_free(&trainer->arena);
    mt_release(ctx, trainer, sizeof *trainer);
}

// ------------------------------------------------------------------ questions

/* What a step sends. */
static struct mt_layout layout_of(const struct mt_trainer *trainer, const struct mt_params *params)
{
    const struct mt_run_length *length = &trainer->length;
    int64_t ranks = mt_comm_size(trainer->comm);
    int64_t steps = length->epoch_steps > 0 ? (int64_t)length->epoch_steps : 1;
    return (struct mt_layout){.ranks = ranks,
                              .expert_ranks = trainer->settings->expert_ranks,
                              .tokens = (int64_t)length->epoch.tokens / steps / ranks,
                              .length = trainer->settings->max_length,
                              .row_bytes = (int64_t)mt_dtype_bytes(mt_model_activations(trainer->model)),
                              .recompute = mt_trainer_chosen(trainer)->sizes.recompute,
                              .common_bytes = (double)params->common_bytes,
                              .own_bytes = (double)(params->gradients.bytes - params->common_bytes)};
}

void mt_trainer_outline(const struct mt_trainer *trainer, struct mt_run_outline *outline)
{
    struct mt_params *params = mt_model_params(trainer->model);
    *outline = (struct mt_run_outline){.settings_text = trainer->settings_text,
                                       .settings = trainer->settings,
                                       .fit = &trainer->memory.fit,
                                       .bound = trainer->memory.bound,
                                       .spread = trainer->memory.spread,
                                       .desc = &trainer->desc,
                                       .params = params,
                                       .length = trainer->length,
                                       .layout = layout_of(trainer, params),
                                       .held_out = trainer->corpus.held_out_size,
                                       .corpus = &trainer->corpus,
                                       .model = mt_model_bytes(trainer->model),
                                       .moments = mt_optimizer_bytes(&trainer->optimizer),
                                       .paths = trainer->paths,
                                       .moe_layers = trainer->moe_layers,
                                       .steps_done = trainer->numbers.step,
                                       .bias_file = mt_trainer_bias_file(trainer),
                                       .device = trainer->device,
                                       .host_bytes = trainer->ctx->live_bytes};
}

struct mt_model *mt_trainer_model(struct mt_trainer *trainer)
{
    return trainer->model;
}
