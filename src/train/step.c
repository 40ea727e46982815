/*
 * One step: the micro-batches of its examples, each forward and backward, then the optimizer, then the biases
 * of routers. Over the micro-batches L_h is the mean over all answer tokens of the step, and each term of the
 * objective the mean of its values weighted by tokens; gradients likewise.
 *
 * From the first forward to the last log line nothing may be allocated. Preparing the data is outside: a row
 * longer than all before it may make a list grow.
 */
#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "ops/streams.h"
#include "train/trainer_internal.h"

// Random numbers of micro-batches: a step has fewer than this many.
#define MICRO_BATCHES_MOST 1048576

static bool logs(const struct mt_trainer *trainer, uint64_t step)
{
    uint64_t every = (uint64_t)trainer->settings->log_every;
    return step == 1 || step == trainer->length.steps || (every > 0 && step % every == 0);
}

/* Steps whose routing is looked at closely: those that are logged, and those that are judged. */
static bool looks(const struct mt_trainer *trainer, uint64_t step)
{
    return logs(trainer, step) || mt_concentration_due(step);
}

static bool measures(const struct mt_trainer *trainer, uint64_t step)
{
    uint64_t every = (uint64_t)trainer->settings->measure_every;
    return every > 0 && trainer->tensors.objective != NULL && (step == 1 || step % every == 0);
}

/* Adds everybody's losses of a round to the step's, in the order of the micro-batches. */
static void add_losses(struct mt_trainer *trainer, const struct mt_step *step, const struct mt_round *round)
{
    struct mt_step_record *record = &trainer->record;
    bool shared = trainer->settings->statistics == MT_STATISTICS_GLOBAL;
    for (size_t i = 0; i < round->count; i++) {
        const struct mt_rank_loss *loss = &trainer->losses[i];
        record->task += loss->task * loss->labels / (double)step->answer_tokens;
        if (!shared) record->loss += loss->terms * loss->tokens / (double)step->tokens;
    }
    if (shared) record->loss += trainer->losses[0].terms * (double)round->tokens / (double)step->tokens;
}

/* Forward: the round's losses are known afterwards, on all ranks. */
static enum mt_status train_forward(struct mt_trainer *trainer, const struct mt_step *step,
                                    const struct mt_round *round, const struct mt_batch *batch)
{
    struct mt_model_loss loss = {0};
    struct mt_span *span = mt_timeline_reserve(trainer->timeline, MT_SPAN_FORWARD, -1);
    enum mt_status status = mt_device_begin_span(trainer->device, span);
    if (status == MT_OK && mt_trainer_takes_part(trainer, round))
        status = mt_model_forward(trainer->model, batch, &loss);
    if (status == MT_OK) status = mt_device_end_span(trainer->device, span);
    status = mt_trainer_fail_alone(trainer, status);
    if (status != MT_OK) return status;
    if (!isfinite(loss.task) || !isfinite(loss.terms)) status = mt_trainer_fail_loss(trainer, &loss);
    const struct mt_rank_loss own = {.task = loss.task,
                                     .terms = loss.terms,
                                     .labels = (double)loss.labels,
                                     .tokens = round->idle ? 0.0 : (double)batch->tokens};
    status = mt_trainer_share_losses(trainer, &own, status);
    if (status == MT_OK) add_losses(trainer, step, round);
    return status;
}

/* The micro-batch of this rank, with all that decides its random numbers, and its choices. */
static enum mt_status take_round(struct mt_trainer *trainer, const struct mt_step *step, size_t index,
                                 double progress, struct mt_round *round, struct mt_batch *batch)
{
    const struct mt_step_record *record = &trainer->record;
    size_t micro_batch = index * (size_t)mt_comm_size(trainer->comm) + (size_t)mt_comm_rank(trainer->comm);
    *batch = (struct mt_batch){.step = record->step * MICRO_BATCHES_MOST + micro_batch,
                               .whole_step = record->step,
                               .training = trainer->settings->noise,
                               .measure = measures(trainer, record->step),
                               .progress = progress,
                               .step_labels = step->answer_tokens,
                               .step_tokens = step->tokens};
    *round = mt_trainer_round(trainer, trainer->corpus.training, step, index, batch);
    if (trainer->settings->statistics == MT_STATISTICS_GLOBAL) batch->shared_tokens = round->tokens;
    if (trainer->choices.ctx == NULL || round->idle) return MT_OK;
    return mt_trainer_fail_alone(trainer, mt_choices_take(&trainer->choices, batch));
}

/*
 * Loads of the whole step, for a method that balances these: every micro-batch once through forward, with the
 * noise it will have again. A step of one round is known without.
 */
static enum mt_status count_step(struct mt_trainer *trainer, const struct mt_step *step, double progress)
{
    struct mt_objective *objective = trainer->tensors.objective;
    enum mt_status status = MT_OK;
    bool shared = trainer->settings->statistics == MT_STATISTICS_GLOBAL;
    if (objective == NULL || !mt_objective_counts_steps(&trainer->settings->objective)) return MT_OK;
    bool known = step->micro_batches == 1 || (shared && mt_trainer_rounds(trainer, step) == 1);
    mt_objective_count_begin(objective); // what the step before had is forgotten in any case
    for (size_t i = 0; !known && i < mt_trainer_rounds(trainer, step) && status == MT_OK; i++) {
        struct mt_batch batch;
        struct mt_model_loss loss = {0};
        struct mt_round round;
        status = take_round(trainer, step, i, progress, &round, &batch);
        batch.labels = NULL; // the head has no part in it
        if (status == MT_OK && mt_trainer_takes_part(trainer, &round))
            status = mt_trainer_fail_alone(trainer, mt_model_forward(trainer->model, &batch, &loss));
    }
    mt_objective_count_end(objective);
    size_t count = 0;
    double *counts = mt_objective_counts(objective, &count);
    if (status == MT_OK && !shared && !known) mt_comm_sum_f64(trainer->comm, counts, count);
    return status;
}

/* What is behind the last layer that says it is done is noted without a number. */
static enum mt_status backward(struct mt_trainer *trainer)
{
    trainer->backward = mt_timeline_reserve(trainer->timeline, MT_SPAN_BACKWARD, -1);
    enum mt_status status = mt_device_begin_span(trainer->device, trainer->backward);
    if (status == MT_OK) status = mt_model_backward(trainer->model);
    return status == MT_OK ? mt_device_end_span(trainer->device, trainer->backward) : status;
}

/* One micro-batch on every rank. */
static enum mt_status train_round(struct mt_trainer *trainer, const struct mt_step *step, size_t index,
                                  double progress)
{
    const struct mt_step_record *record = &trainer->record;
    struct mt_batch batch;
    struct mt_round round;
    enum mt_status status = take_round(trainer, step, index, progress, &round, &batch);
    if (status == MT_OK) status = train_forward(trainer, step, &round, &batch);
    if (status != MT_OK) return status;
    mt_trainer_share_state(trainer, &round);
    if (!mt_trainer_takes_part(trainer, &round)) return MT_OK;
    trainer->sends = round.last;
    status = backward(trainer);
    trainer->sends = false;
    const int32_t *source = NULL;
    if (!round.idle)
        source = mt_batches_micro_sources(trainer->corpus.training,
                                          round.first + (size_t)mt_comm_rank(trainer->comm));
    const struct mt_watch_look look = {
        .variances = looks(trainer, record->step), .source = source, .share = (double)batch.shared_tokens};
    if (status == MT_OK) status = mt_watch_model(trainer->watch, trainer->model, &look);
    return mt_trainer_fail_alone(trainer, status);
}

/* What all ranks have found out in a step comes together. */
static enum mt_status join_step(struct mt_trainer *trainer)
{
    struct mt_span *span = mt_timeline_reserve(trainer->timeline, MT_SPAN_WAIT, -1);
    enum mt_status status = mt_device_begin_span(trainer->device, span);
    if (status == MT_OK) status = mt_gradient_sum_finish(trainer->gradient_sum);
    if (status == MT_OK) status = mt_device_end_span(trainer->device, span);
    if (status == MT_OK) status = mt_trainer_share_watch(trainer);
    return mt_trainer_fail_alone(trainer, status);
}

/* What the method does to the routers' biases after a step. */
static enum mt_status move_biases(struct mt_trainer *trainer)
{
    const struct mt_train_settings *settings = trainer->settings;
    const struct mt_params *params = trainer->tensors.params;
    if (settings->task_only || !mt_selection_has_bias(&settings->objective)) return MT_OK;
    size_t bytes = (size_t)trainer->desc.experts * sizeof *trainer->bias;
    for (size_t i = 0; i < trainer->record.layer_count; i++) {
        const struct mt_layer_record *record = &trainer->record.layers[i];
        const struct mt_layer_params *layer = &params->layer[record->layer];
        if (layer->correction_frozen) continue;
        enum mt_status status =
            mt_device_download(trainer->device, trainer->bias, layer->correction.data, bytes);
        if (status != MT_OK) return status;
        mt_selection_move(&settings->objective,
                          &(struct mt_selection_step){
                              .load = record->load,
                              .measured = record->measured,
                              .experts = trainer->desc.experts,
                              .memory = mt_objective_rule_memory(trainer->tensors.objective, (int)i),
                              .bias = trainer->bias,
                          });
        status = mt_device_upload(trainer->device, layer->correction.data, trainer->bias, bytes);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

static enum mt_status optimize(struct mt_trainer *trainer)
{
    struct mt_step_record *record = &trainer->record;
    enum mt_status status =
        mt_trainer_fail_alone(trainer, mt_optimizer_norm(&trainer->optimizer, &record->gradient_norm));
    if (status != MT_OK) return status;
    if (!isfinite(record->gradient_norm)) return mt_trainer_fail_gradient(trainer, record->gradient_norm);
    status = mt_optimizer_step(&trainer->optimizer, record->step, record->learning_rate,
                               record->gradient_norm, &record->clipped);
    if (status == MT_OK) status = mt_gradient_sum_take_values(trainer->gradient_sum);
    status = mt_trainer_fail_alone(trainer, status);
    return status == MT_OK ? move_biases(trainer) : status;
}

static double epoch_of(const struct mt_trainer *trainer, uint64_t step)
{
    if (trainer->length.epoch_steps > 0) return (double)step / (double)trainer->length.epoch_steps;
    return (double)trainer->numbers.counts.draws / (double)mt_batches_draws(trainer->corpus.training);
}

/* What is known once a step is done. */
static void complete_record(struct mt_trainer *trainer, const struct mt_step *step)
{
    struct mt_step_record *record = &trainer->record;
    struct mt_run_numbers *numbers = &trainer->numbers;
    double now = mt_clock_seconds();
    numbers->step = record->step;
    numbers->tokens += (uint64_t)step->tokens;
    record->loss += record->task;
    record->epoch = epoch_of(trainer, record->step);
    record->tokens = step->tokens;
    record->answer_tokens = step->answer_tokens;
    record->examples = step->examples;
    record->tokens_total = numbers->tokens;
    record->seconds = now - trainer->started;
    double took = now - trainer->step_began;
    record->tokens_per_second = took > 0.0 ? (double)step->tokens / took : 0.0;
}

/* Everything between data and the next data; allocates nothing. */
static enum mt_status compute(struct mt_trainer *trainer, const struct mt_step *step)
{
    struct mt_step_record *record = &trainer->record;
    double share = mt_schedule_share(&trainer->schedule, record->step - 1);
    record->learning_rate = trainer->settings->learning_rate * share;
    enum mt_status status = mt_params_zero_gradients(trainer->tensors.params);
    mt_watch_begin(trainer->watch);
    status = mt_trainer_fail_alone(trainer, status);
    if (status == MT_OK) status = count_step(trainer, step, share);
    for (size_t i = 0; status == MT_OK && i < mt_trainer_rounds(trainer, step); i++)
        status = train_round(trainer, step, i, share);
    if (status == MT_OK) status = join_step(trainer);
    mt_watch_end(trainer->watch);
    if (status != MT_OK) return status;
    mt_watch_fill(trainer->watch, record);
    struct mt_span *span = mt_timeline_reserve(trainer->timeline, MT_SPAN_OPTIMIZER, -1);
    status = mt_device_begin_span(trainer->device, span);
    if (status == MT_OK) status = optimize(trainer);
    if (status == MT_OK) status = mt_device_end_span(trainer->device, span);
    if (status != MT_OK) return status;
    complete_record(trainer, step);
    mt_run_log_progress(trainer->run_log, record);
    return logs(trainer, record->step) ? mt_run_log_step(trainer->run_log, record) : MT_OK;
}

enum mt_status mt_trainer_step(struct mt_trainer *trainer)
{
    struct mt_run_numbers *numbers = &trainer->numbers;
    struct mt_step step;
    trainer->step_began = mt_clock_seconds();
    trainer->record = (struct mt_step_record){.step = numbers->step + 1, .steps = trainer->length.steps};
    double began = mt_timeline_now(trainer->timeline);
    enum mt_status status = mt_batches_next(trainer->corpus.training, &step);
    if (status != MT_OK) return mt_trainer_fail_alone(trainer, status);
    mt_timeline_add(trainer->timeline, MT_SPAN_DATA, -1, began);
    if (step.micro_batches >= MICRO_BATCHES_MOST) {
        return mt_fail(trainer->ctx, MT_ERR_USAGE, "a step of %zu micro-batches has too many to number",
                       step.micro_batches);
    }
    numbers->position = mt_batches_position(trainer->corpus.training);
    numbers->counts = mt_batches_counts(trainer->corpus.training);
    mt_context_forbid_allocation(trainer->ctx, "a training step");
    status = compute(trainer, &step);
    mt_context_forbid_allocation(trainer->ctx, NULL);
    return status;
}

// ------------------------------------------------------------------ evaluation

/* Adds the loss of a step of held-out examples to *sum, in the order of the micro-batches. */
static enum mt_status evaluate_step(struct mt_trainer *trainer, const struct mt_step *step, double *sum,
                                    int64_t *labels)
{
    for (size_t i = 0; i < mt_trainer_rounds(trainer, step); i++) {
        struct mt_batch batch = {.loss_only = true, .progress = 1.0};
        struct mt_model_loss loss = {0};
        struct mt_round round = mt_trainer_round(trainer, trainer->corpus.held_out, step, i, &batch);
        enum mt_status status = MT_OK;
        if (!round.idle || trainer->expert_comm != NULL)
            status = mt_model_forward(trainer->model, &batch, &loss);
        if (status != MT_OK) return status;
        const struct mt_rank_loss own = {.task = loss.task, .labels = (double)loss.labels};
        status = mt_trainer_share_losses(trainer, &own, MT_OK);
        if (status != MT_OK) return status;
        for (size_t k = 0; k < round.count; k++) {
            *sum += trainer->losses[k].task * trainer->losses[k].labels;
            *labels += (int64_t)trainer->losses[k].labels;
        }
    }
    return MT_OK;
}

enum mt_status mt_trainer_evaluate(struct mt_trainer *trainer, struct mt_evaluation_record *record)
{
    struct mt_batches *held_out = trainer->corpus.held_out;
    double began = mt_clock_seconds();
    double sum = 0.0;
    int64_t labels = 0;
    enum mt_status status = mt_batches_seek(held_out, (struct mt_batch_position){0}, NULL);
    for (uint64_t i = 0; status == MT_OK && i < trainer->corpus.held_out_size.steps; i++) {
        struct mt_step step;
        status = mt_batches_next(held_out, &step);
        if (status == MT_OK) status = evaluate_step(trainer, &step, &sum, &labels);
    }
    if (status != MT_OK) return mt_trainer_fail_alone(trainer, status);
    double loss = sum / (double)labels;
    *record = (struct mt_evaluation_record){.step = trainer->numbers.step,
                                            .loss = loss,
                                            .perplexity = exp(loss),
                                            .answer_tokens = labels,
                                            .seconds = mt_clock_seconds() - began};
    if (isfinite(loss)) return MT_OK;
    return mt_fail(trainer->ctx, MT_ERR_NUMERIC, "step %" PRIu64 ": the loss of the held-out data is %g",
                   trainer->numbers.step, loss);
}
