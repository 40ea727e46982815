/* One pass over problems: accuracy and loss. */
#include "compare/asking/answers.h"

#include <math.h>

#include "model/collect.h"
#include "train/data/corpus.h"

#define LOGIT_NUMBERS ((int64_t)1 << 24) // computed at once, unless one sequence has more
#define EXAMPLES      64                 // of a step in order, where training has no number

/* Sequences of the batch whose every label is the most likely token. */
static int64_t count_solved(const struct mt_batch *batch, const int32_t *highest)
{
    int64_t solved = 0;
    for (int64_t b = 0; b < batch->sequences; b++) {
        bool right = true;
        for (int64_t t = batch->offsets[b]; t < batch->offsets[b + 1] && right; t++)
            right = batch->labels[t] < 0 || highest[t] == batch->labels[t];
        solved += right ? 1 : 0;
    }
    return solved;
}

static enum mt_status run_batch(struct mt_answering *a, struct mt_batch *batch, struct mt_answers *answers)
{
    struct mt_model_loss loss;
    batch->progress = 1.0;
    batch->loss_only = true;
    enum mt_status status = mt_model_forward(a->model, batch, &loss);
    if (status != MT_OK) return status;
    int64_t vocabulary = mt_model_description(a->model)->vocabulary;
    const struct mt_logit_summary_args summary = {
        .logits = mt_tensor_2d(a->logits.data, MT_F32, batch->tokens, vocabulary),
        .highest = mt_tensor_1d(a->highest.data, MT_I32, batch->tokens)};
    status = mt_model_logits(a->model, &summary.logits);
    if (status == MT_OK) status = mt_logit_summary(a->device, &summary);
    if (status == MT_OK)
        status =
            mt_device_download(a->device, a->host, a->highest.data, (size_t)batch->tokens * sizeof *a->host);
    if (status != MT_OK) return status;
    answers->problems += batch->sequences;
    answers->solved += count_solved(batch, a->host);
    answers->labels += loss.labels;
    answers->loss += loss.task * (double)loss.labels;
    return MT_OK;
}

/* The first so many sequences of a batch. */
static void cut(struct mt_batch *batch, int64_t sequences)
{
    if (batch->sequences <= sequences) return;
    batch->sequences = sequences;
    batch->tokens = batch->offsets[sequences];
}

static enum mt_status run_batches(struct mt_answering *a, struct mt_batches *batches, int64_t most,
                                  struct mt_answers *answers)
{
    while (most == 0 || answers->problems < most) {
        struct mt_step step;
        enum mt_status status = mt_batches_next(batches, &step);
        if (status != MT_OK || step.epoch > 0) return status;
        for (size_t i = 0; i < step.micro_batches && status == MT_OK; i++) {
            struct mt_batch batch = {0};
            mt_batches_micro(batches, i, &batch);
            if (most > 0 && a->exact) cut(&batch, most - answers->problems);
            if (batch.sequences > 0) status = run_batch(a, &batch, answers);
        }
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

enum mt_status mt_answering_run(struct mt_answering *a, const char *path, int64_t most,
                                struct mt_collector *collector, struct mt_answers *answers)
{
    struct mt_corpus corpus = {0};
    // Packing depends on how a method batches; the first so many rows are to be the same for all methods.
    bool in_order = most > 0 && a->exact;
    int64_t examples = a->training->examples;
    const struct mt_train_source source = {.path = path, .weight = 1.0};
    const struct mt_train_settings reading = {.model = a->training->model,
                                              .tokenizer = a->training->tokenizer,
                                              .adapter = a->training->adapter,
                                              .sources = &source,
                                              .source_count = 1,
                                              .template_name = a->training->template_name,
                                              .template_options = a->training->template_options,
                                              .template_date = a->training->template_date,
                                              .max_length = a->training->max_length,
                                              .batching = in_order ? MT_LAYOUT_IN_ORDER : MT_LAYOUT_PACKED,
                                              .examples = in_order && examples == 0 ? EXAMPLES : examples,
                                              .tokens = a->batch_tokens,
                                              .seed = MT_ANSWERING_SEED};
    *answers = (struct mt_answers){0};
    enum mt_status status = mt_corpus_open(a->job->ctx, &reading, mt_model_description(a->model)->config,
                                           a->job->templates, a->job->log, &corpus);
    if (status == MT_OK) {
        if (collector != NULL) mt_model_collect(a->model, collector);
        status = run_batches(a, corpus.training, most, answers);
        if (collector != NULL) mt_model_collect(a->model, NULL);
    }
    mt_corpus_close(&corpus);
    return status;
}

double mt_answers_accuracy(const struct mt_answers *answers)
{
    return answers->problems > 0 ? (double)answers->solved / (double)answers->problems : (double)NAN;
}

double mt_answers_loss(const struct mt_answers *answers)
{
    return answers->labels > 0 ? answers->loss / (double)answers->labels : (double)NAN;
}

enum mt_status mt_answering_open(const struct mt_cell_job *job, const struct mt_train_settings *training,
                                 struct mt_model *model, struct mt_answering *a)
{
    int64_t vocabulary = mt_model_description(model)->vocabulary;
    void *memory = NULL;
    *a = (struct mt_answering){
        .job = job, .training = training, .model = model, .device = mt_model_device(model)};
    a->batch_tokens = LOGIT_NUMBERS / vocabulary;
    if (a->batch_tokens < training->max_length) a->batch_tokens = training->max_length;
    if (a->batch_tokens > training->tokens) a->batch_tokens = training->tokens;
    size_t tokens = (size_t)a->batch_tokens;
    enum mt_status status = mt_allocate_array(job->ctx, tokens, sizeof *a->host, &memory);
    a->host = memory;
    if (status == MT_OK) status = mt_device_buffer_create(a->device, tokens * sizeof *a->host, &a->highest);
    if (status != MT_OK) return status;
    return mt_device_buffer_create(a->device, tokens * (size_t)vocabulary * sizeof(float), &a->logits);
}

void mt_answering_close(struct mt_answering *a)
{
    if (a->job == NULL) return;
    mt_buffer_release(&a->logits);
    mt_buffer_release(&a->highest);
    mt_release(a->job->ctx, a->host, (size_t)a->batch_tokens * sizeof *a->host);
    *a = (struct mt_answering){0};
}
