/* The loop: steps, records, evaluations, checkpoints, and every way it ends. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "base/clock.h"
#include "model/adapters/router_bias.h"
#include "model/files/export.h"
#include "train/trainer_internal.h"

#define WARNING_BYTES 4096
#define VERDICT_BYTES (MT_CONCENTRATION_TEXT_BYTES + 64)
#define MANY_CUT      0.1 // share of rows: more that lose their end are a warning

// ------------------------------------------------------------------ what a finished run leaves

bool mt_trainer_has_results(const struct mt_trainer *trainer, const struct mt_run_numbers *numbers)
{
    if (!mt_run_folder_has(trainer->folder.result)) return false;
    return numbers->best_step == 0 || mt_run_folder_has(trainer->folder.best);
}

const char *mt_trainer_bias_file(const struct mt_trainer *trainer)
{
    const struct mt_train_settings *settings = trainer->settings;
    bool moved = !settings->task_only && mt_selection_has_bias(&settings->objective);
    bool own_tensors = trainer->desc.correction_bias; // biases are weights like any other
    bool brought =
        !own_tensors && trainer->model != NULL && mt_router_bias_present(mt_model_params(trainer->model));
    if (!moved && !brought) return NULL;
    if (settings->train == MT_TRAIN_LORA) return MT_ROUTER_BIAS_OF_ADAPTER;
    return own_tensors ? NULL : MT_ROUTER_BIAS_OF_MODEL;
}

/* The model that was trained, with the rows it has read where that is recorded: those of the model it came
 * from, too. */
static enum mt_status write_model(struct mt_trainer *trainer, const struct mt_export_options *options)
{
    const struct mt_train_settings *settings = trainer->settings;
    struct mt_export_options with_rows = *options;
    struct mt_row_hashes rows = {.ctx = trainer->ctx};
    bool recorded = false;
    enum mt_status status = mt_row_hashes_read_model(&rows, settings->model, &recorded);
    if (status == MT_OK && (recorded || settings->record_rows)) {
        status = mt_corpus_add_drawn(&trainer->corpus, settings, &rows);
        with_rows.trained.rows = &rows;
    }
    if (status == MT_OK) status = mt_model_export(trainer->tensors.params, &trainer->desc, &with_rows, NULL);
    mt_row_hashes_free(&rows);
    return status;
}

/* The parameters as they are now, as a folder. One that is there already was written by this very run. */
static enum mt_status write_folder(struct mt_trainer *trainer, const void *self)
{
    const char *directory = self;
    enum mt_status status = mt_run_folder_check(&trainer->folder);
    if (status != MT_OK || mt_run_folder_has(directory)) return status;
    const struct mt_train_settings *settings = trainer->settings;
    const struct mt_chat_template *template = trainer->corpus.template;
    struct mt_trained_texts trained = {.form = trainer->form_text};
    bool best = directory == trainer->folder.best;
    status = mt_trainer_card(trainer, best, &trainer->arena, &trained.card);
    if (status != MT_OK) return status;
    // Whole texts teach nobody to converse.
    if (trainer->corpus.form.answers) trained.chat_template = mt_chat_template_jinja(template);
    if (settings->train == MT_TRAIN_FULL) {
        // The model's own is carried over as it is, with all that belongs to it.
        if (mt_chat_template_is_models(template) && settings->tokenizer == NULL) trained.chat_template = NULL;
        const struct mt_export_options options = {.directory = settings->model,
                                                  .out = directory,
                                                  .progress = trainer->options.terminal,
                                                  .trained = trained};
        return write_model(trainer, &options);
    }
    const struct mt_adapter_write_options options = {.directory = directory,
                                                     .layout = settings->layout,
                                                     .base_model = settings->model,
                                                     .selection = &trainer->selection,
                                                     .biases = true,
                                                     .trained = trained,
                                                     .log = trainer->options.log};
    return mt_adapter_write(trainer->tensors.params, &trainer->desc, &options);
}

static enum mt_status write_result(struct mt_trainer *trainer, const char *directory)
{
    enum mt_status status = mt_trainer_write(trainer, write_folder, directory);
    return mt_comm_agree(trainer->comm, trainer->ctx, status);
}

/* Everything trainable, as it was at its best. */
static enum mt_status take_best(struct mt_trainer *trainer)
{
    struct mt_state_reader *reader = NULL;
    enum mt_status status =
        mt_state_open(trainer->ctx, trainer->folder.checkpoints, trainer->numbers.best_step, &reader);
    if (status == MT_OK) status = mt_state_load(trainer->device, reader, &trainer->tensors);
    mt_state_close(reader);
    return mt_comm_agree(trainer->comm, trainer->ctx, status);
}

static enum mt_status write_results(struct mt_trainer *trainer)
{
    const struct mt_run_numbers *numbers = &trainer->numbers;
    enum mt_status status = write_result(trainer, trainer->folder.result);
    if (status != MT_OK || numbers->best_step == 0) return status;
    // One rank looks: it may write before another has looked.
    int64_t wanted = mt_trainer_writes(trainer) && !mt_run_folder_has(trainer->folder.best) ? 1 : 0;
    mt_comm_max_i64(trainer->comm, &wanted, 1);
    if (wanted == 0) return MT_OK;
    if (numbers->best_step != numbers->step) status = take_best(trainer);
    return status == MT_OK ? write_result(trainer, trainer->folder.best) : status;
}

/* What is wrong with the run as a whole; NULL: nothing. */
static const char *verdict_of(const struct mt_trainer *trainer, char text[VERDICT_BYTES])
{
    const struct mt_concentration *seen = &trainer->numbers.concentration;
    const struct mt_objective_config *method = &trainer->settings->objective;
    char why[MT_CONCENTRATION_TEXT_BYTES];
    if (seen->reported == 0 || !mt_concentration_is_drift(seen->start, seen->last)) return NULL;
    const struct mt_concentration_cause cause = {.gamma = method->coefficient[MT_TERM_V],
                                                 .target = method->brake == MT_BRAKE_TARGET,
                                                 .lambda_cp = method->coefficient[MT_TERM_CP]};
    mt_concentration_text(seen->start, seen->last, &cause, why);
    (void)snprintf(text, VERDICT_BYTES, "one expert works where %d are paid for: %s",
                   trainer->desc.router.slots, why);
    return text;
}

/* What the first step's values say about the strength of the terms. */
static enum mt_status warn(struct mt_trainer *trainer)
{
    char text[WARNING_BYTES];
    const struct mt_task_norms task = {.loss = trainer->record.task};
    enum mt_status status = MT_OK;
    if (trainer->numbers.step != 1 || trainer->tensors.objective == NULL) return MT_OK;
    mt_objective_warnings(trainer->tensors.objective, &task, text, sizeof text);
    for (char *line = text; status == MT_OK && *line != '\0';) {
        char *end = strchr(line, '\n');
        if (end != NULL) *end = '\0';
        status = mt_run_log_event(trainer->run_log, trainer->numbers.step, "warning", line);
        line = end != NULL ? end + 1 : line + strlen(line);
    }
    return status;
}

/* Whether tokens drift towards one expert, which a run is told once, as it happens. */
static enum mt_status judge_concentration(struct mt_trainer *trainer)
{
    struct mt_run_numbers *numbers = &trainer->numbers;
    char text[VERDICT_BYTES];
    bool last = numbers->step == trainer->length.steps;
    if (!last && !mt_concentration_due(numbers->step)) return MT_OK;
    bool reported = mt_concentration_look(&numbers->concentration, numbers->step, last,
                                          trainer->record.effective_experts);
    if (!reported || verdict_of(trainer, text) == NULL) return MT_OK;
    return mt_run_log_event(trainer->run_log, numbers->step, "warning", text);
}

static bool is_due(uint64_t step, uint64_t every)
{
    return every > 0 && step % every == 0;
}

/* Evaluates where it is time to; *better says whether this was the best so far. */
static enum mt_status evaluate(struct mt_trainer *trainer, bool *better)
{
    struct mt_run_numbers *numbers = &trainer->numbers;
    struct mt_evaluation_record record;
    bool last = numbers->step == trainer->length.steps;
    *better = false;
    if (trainer->evaluate_every == 0 || !(last || is_due(numbers->step, trainer->evaluate_every)))
        return MT_OK;
    enum mt_status status = mt_trainer_evaluate(trainer, &record);
    if (status != MT_OK) return status;
    *better = isnan(numbers->best_loss) || record.loss < numbers->best_loss;
    numbers->evaluations++;
    numbers->fruitless = *better ? 0 : numbers->fruitless + 1;
    if (*better) {
        numbers->best_loss = record.loss;
        numbers->best_step = numbers->step;
    }
    record.best = *better;
    return mt_run_log_evaluation(trainer->run_log, &record);
}

void mt_trainer_checkpoint_text(const struct mt_trainer *trainer, char text[MT_CHECKPOINT_TEXT_BYTES])
{
    (void)snprintf(text, MT_CHECKPOINT_TEXT_BYTES, "%s/step-%08" PRIu64, trainer->folder.checkpoints,
                   trainer->numbers.step);
}

static enum mt_status save(struct mt_trainer *trainer)
{
    struct mt_run_numbers *numbers = &trainer->numbers;
    const char *folder = trainer->folder.checkpoints;
    enum mt_status status = mt_trainer_check_values(trainer);
    if (status == MT_OK) status = mt_run_folder_check(&trainer->folder);
    if (status == MT_OK) status = mt_run_log_sync(trainer->run_log, &numbers->metrics_bytes);
    if (status == MT_OK && mt_trainer_writes(trainer))
        status = mt_run_folder_make_checkpoints(&trainer->folder);
    status = mt_comm_agree(trainer->comm, trainer->ctx, status);
    if (status != MT_OK) return status;
    double began = mt_timeline_now(trainer->timeline);
    numbers->seconds = mt_clock_seconds() - trainer->started;
    status = mt_state_save(trainer->device, folder, numbers, &trainer->tensors, trainer->settings_text);
    if (status != MT_OK) return status;
    mt_timeline_add(trainer->timeline, MT_SPAN_SAVE, -1, began);
    trainer->saved_step = numbers->step;
    if (!mt_trainer_writes(trainer)) return MT_OK;
    status = mt_state_prune(trainer->ctx, folder, trainer->settings->checkpoint_keep, numbers->best_step);
    if (status != MT_OK) return status;
    char text[MT_CHECKPOINT_TEXT_BYTES];
    mt_trainer_checkpoint_text(trainer, text);
    return mt_run_log_event(trainer->run_log, numbers->step, "checkpoint", text);
}

/* The run ends here if its steps are done, or if evaluations no longer gain anything. */
static enum mt_status decide_end(struct mt_trainer *trainer)
{
    struct mt_run_numbers *numbers = &trainer->numbers;
    uint64_t patience = (uint64_t)trainer->settings->patience;
    numbers->finished = numbers->step >= trainer->length.steps;
    if (numbers->finished || patience == 0 || numbers->fruitless < patience) return MT_OK;
    numbers->finished = true;
    char text[160];
    (void)snprintf(text, sizeof text, "%s without gain; the best was %.6g after step %" PRIu64,
                   mt_counted(numbers->fruitless, "evaluation", "evaluations").text, numbers->best_loss,
                   numbers->best_step);
    return mt_run_log_event(trainer->run_log, numbers->step, "stopped", text);
}

static enum mt_status go_one_step(struct mt_trainer *trainer)
{
    bool better = false;
    const struct mt_trainer_options *options = &trainer->options;
    enum mt_status status = mt_trainer_step(trainer);
    if (status == MT_OK && options->stepped != NULL)
        options->stepped(options->self, trainer->numbers.step, trainer->length.steps);
    // At every step: a run that has lost its folder is not to go on for hours.
    if (status == MT_OK) status = mt_run_folder_check(&trainer->folder);
    if (status == MT_OK) status = warn(trainer);
    if (status == MT_OK) status = judge_concentration(trainer);
    status = mt_comm_agree(trainer->comm, trainer->ctx, status);
    if (status == MT_OK) status = evaluate(trainer, &better);
    if (status == MT_OK) status = decide_end(trainer);
    status = mt_comm_agree(trainer->comm, trainer->ctx, status);
    if (status != MT_OK) return status;
    const struct mt_run_numbers *numbers = &trainer->numbers;
    bool due = is_due(numbers->step, (uint64_t)trainer->settings->checkpoint_every);
    if (due || better || numbers->finished) status = save(trainer);
    return mt_comm_agree(trainer->comm, trainer->ctx, status);
}

/* Appends ", 6 were truncated"; nothing where there are none. */
static void append_rows(char *text, size_t room, uint64_t rows, const char *fate)
{
    size_t used = strlen(text);
    if (rows == 0 || used >= room) return;
    (void)snprintf(text + used, room - used, ", %" PRIu64 " %s", rows, fate);
}

/*
 * Rows that were drawn and not learned from, or not wholly: nobody should find that out by accident. Rows
 * that are lost are a warning, and so are many that are cut. A few long ones are what data.max_length is for.
 */
static enum mt_status tell_losses(struct mt_trainer *trainer)
{
    const struct mt_batch_counts *counts = &trainer->numbers.counts;
    char lost[256] = "";
    char text[384];
    append_rows(lost, sizeof lost, counts->bad_rows, "were bad and skipped");
    append_rows(lost, sizeof lost, counts->without_answer,
                "had no answer within data.max_length and were skipped");
    bool damage = lost[0] != '\0' || (double)counts->truncated > MANY_CUT * (double)counts->draws;
    append_rows(lost, sizeof lost, counts->truncated, "were truncated to data.max_length");
    if (lost[0] == '\0') return MT_OK;
    (void)snprintf(text, sizeof text, "of %s drawn%s", mt_counted(counts->draws, "row", "rows").text, lost);
    return mt_run_log_event(trainer->run_log, trainer->numbers.step, damage ? "warning" : "data", text);
}

/* Leaves between two steps; *signal is what asked for it. */
static bool is_interrupted(struct mt_trainer *trainer, int *signal)
{
    // A signal may reach some ranks only, and those at different steps.
    int64_t seen = mt_interrupt_seen(&trainer->interrupt);
    mt_comm_max_i64(trainer->comm, &seen, 1);
    *signal = (int)seen;
    return *signal != 0 || trainer->numbers.step == trainer->options.stop_after;
}

static enum mt_status stop(struct mt_trainer *trainer, int signal)
{
    char text[64];
    enum mt_status status = MT_OK;
    if (trainer->saved_step != trainer->numbers.step) status = save(trainer);
    if (status != MT_OK) return status;
    if (signal != 0) (void)snprintf(text, sizeof text, "by signal %d", signal);
    if (signal == 0) (void)snprintf(text, sizeof text, "as was asked for");
    return mt_run_log_event(trainer->run_log, trainer->numbers.step, "interrupted", text);
}

/* Adds to a failure's message what is left to go on from. */
static enum mt_status fail(struct mt_trainer *trainer, enum mt_status status)
{
    char message[MT_MESSAGE_BYTES];
    status = mt_trainer_fail_memory(trainer, status);
    (void)snprintf(message, sizeof message, "%s", trainer->ctx->message);
    // The log may be what failed: whether this arrives there changes nothing any more.
    (void)mt_run_log_event(trainer->run_log, trainer->numbers.step, "failed", message);
    // Without its folder a run has no checkpoints, and whatever failed may have failed for that.
    if (mt_run_folder_check(&trainer->folder) != MT_OK) {
        if (strcmp(trainer->ctx->message, message) == 0) return status;
        return mt_fail_within(trainer->ctx, status, "%.500s", message);
    }
    if (trainer->saved_step == 0)
        return mt_fail(trainer->ctx, status, "%.900s; no checkpoint had been written yet", message);
    return mt_fail(trainer->ctx, status, "%.900s; the checkpoint of step %" PRIu64 " is kept", message,
                   trainer->saved_step);
}

/* The last records: no checkpoint follows that would bring them to disk. */
static enum mt_status sync_log(struct mt_trainer *trainer)
{
    uint64_t bytes = 0;
    return mt_run_log_sync(trainer->run_log, &bytes);
}

enum mt_status mt_trainer_run(struct mt_trainer *trainer, struct mt_run_outcome *outcome)
{
    const struct mt_run_numbers *numbers = &trainer->numbers;
    enum mt_status status = MT_OK;
    enum mt_run_end end = trainer->finished_before ? MT_RUN_FINISHED_BEFORE : MT_RUN_FINISHED;
    int signal = 0;
    struct mt_timeline_summary summary = {0};
    char verdict[VERDICT_BYTES];
    mt_trainer_begin_timeline(trainer);
    while (status == MT_OK && !numbers->finished && end != MT_RUN_INTERRUPTED) {
        status = go_one_step(trainer);
        bool leave = status == MT_OK && !numbers->finished && is_interrupted(trainer, &signal);
        if (leave) end = MT_RUN_INTERRUPTED;
    }
    if (status == MT_OK) status = mt_trainer_end_timeline(trainer, &summary);
    if (status == MT_OK && end == MT_RUN_INTERRUPTED) status = stop(trainer, signal);
    if (status == MT_OK && end == MT_RUN_FINISHED) status = tell_losses(trainer);
    status = mt_comm_agree(trainer->comm, trainer->ctx, status);
    if (status == MT_OK && end != MT_RUN_FINISHED_BEFORE) status = mt_trainer_tell_ranks(trainer);
    if (status == MT_OK) status = sync_log(trainer);
    mt_run_log_summary(trainer->run_log,
                       verdict_of(trainer, verdict)); // what follows may draw a progress line of its own
    status = mt_comm_agree(trainer->comm, trainer->ctx, status);
    if (status == MT_OK && end == MT_RUN_FINISHED) status = write_results(trainer);
    status = mt_comm_agree(trainer->comm, trainer->ctx, status);
    bool has_best = numbers->best_step > 0 && numbers->finished;
    *outcome = (struct mt_run_outcome){.end = end,
                                       .signal = signal,
                                       .step = numbers->step,
                                       .best_step = numbers->best_step,
                                       .best_loss = numbers->best_loss,
                                       .overlap = summary.overlap,
                                       .lost_spans = summary.lost,
                                       .sent_bytes = mt_trainer_sent(trainer),
                                       .result = trainer->folder.result,
                                       .bias_file = mt_trainer_bias_file(trainer),
                                       .peak_bytes = mt_trainer_peak(trainer),
                                       .limit_bytes = trainer->memory.bound.buffers,
                                       .best = has_best ? trainer->folder.best : NULL};
    return status == MT_OK ? MT_OK : fail(trainer, status);
}
