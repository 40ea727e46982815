/* Where a run's records go: opening, resuming, and one call per kind of record. */
#include "train/log/runlog.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "train/log/json_line.h"
#include "train/log/record.h"
#include "train/log/tensorboard.h"
#include "train/log/terminal_view.h"

#define MOST_LAYERS  65536
#define MOST_EXPERTS 65536

// ------------------------------------------------------------------ records

// Keys and tags. Numbers of a step are a table, numbers of a layer another: JSON and TensorBoard go through
// the same ones.

#define EVENT_TEXT_MOST 2048 // bytes
#define NAME_BYTES      64   // of a key or tag, its frills included
#define SLACK_BYTES     4096

// Numbers of a step that are neither counts nor a term's.
static const struct step_number {
    const char *key;
    const char *tag;
    size_t offset; // in struct mt_step_record
} step_numbers[] = {
    {"epoch", "run/epoch", offsetof(struct mt_step_record, epoch)},
    {"learning_rate", "run/learning_rate", offsetof(struct mt_step_record, learning_rate)},
    {"loss", "loss/total", offsetof(struct mt_step_record, loss)},
    {"task", "loss/task", offsetof(struct mt_step_record, task)},
    {"gradient_norm", "gradient/norm", offsetof(struct mt_step_record, gradient_norm)},
    {"max_violation", "router/max_violation", offsetof(struct mt_step_record, max_violation)},
    {"max_violation_running", "router/max_violation_running",
     offsetof(struct mt_step_record, max_violation_running)},
    {"load_entropy", "router/load_entropy", offsetof(struct mt_step_record, load_entropy)},
    {"effective_experts", "router/effective_experts", offsetof(struct mt_step_record, effective_experts)},
    {"effective_scores", "router/effective_scores", offsetof(struct mt_step_record, effective_scores)},
    {"experts_90", "router/experts_90", offsetof(struct mt_step_record, experts_90)},
    {"jaccard_90", "router/jaccard_90", offsetof(struct mt_step_record, jaccard_90)},
    {"together_90", "router/together_90", offsetof(struct mt_step_record, together_90)},
    {"agreement", "router/agreement", offsetof(struct mt_step_record, agreement)},
    {"seconds", "run/seconds", offsetof(struct mt_step_record, seconds)},
    {"tokens_per_second", "run/tokens_per_second", offsetof(struct mt_step_record, tokens_per_second)},
};

static const struct layer_number {
    const char *key; // also the tag's end
    size_t offset;   // in struct mt_layer_record
} layer_numbers[] = {
    {"load_entropy", offsetof(struct mt_layer_record, load_entropy)},
    {"max_violation", offsetof(struct mt_layer_record, max_violation)},
    {"max_violation_running", offsetof(struct mt_layer_record, max_violation_running)},
    {"variance_expert_topk", offsetof(struct mt_layer_record, variance_expert_topk)},
    {"variance_expert_full", offsetof(struct mt_layer_record, variance_expert_full)},
    {"variance_token", offsetof(struct mt_layer_record, variance_token)},
    {"effective_experts", offsetof(struct mt_layer_record, effective_experts)},
    {"effective_scores", offsetof(struct mt_layer_record, effective_scores)},
    {"experts_90", offsetof(struct mt_layer_record, experts_90)},
    {"jaccard_90", offsetof(struct mt_layer_record, jaccard_90)},
    {"together_90", offsetof(struct mt_layer_record, together_90)},
    {"agreement", offsetof(struct mt_layer_record, agreement)},
    {"rows_sent", offsetof(struct mt_layer_record, rows_sent)},
};

// What a layer says about each term; keys are "term_o", "weight_o", "gradient_o".
static const struct layer_term {
    const char *prefix;
    size_t offset; // of an array [MT_TERM_COUNT]
} layer_terms[] = {
    {"term", offsetof(struct mt_layer_record, loss)},
    {"weight", offsetof(struct mt_layer_record, weight)},
    {"gradient", offsetof(struct mt_layer_record, gradient)},
};

enum {
    STEP_NUMBERS = sizeof step_numbers / sizeof step_numbers[0],
    LAYER_NUMBERS = sizeof layer_numbers / sizeof layer_numbers[0],
    LAYER_TERMS = sizeof layer_terms / sizeof layer_terms[0],
    LAYER_ARRAYS = 2 + LAYER_NUMBERS + LAYER_TERMS * MT_TERM_COUNT, // with numbers and loads
};

/* The index-th double of a struct's member at `offset`. */
static double number_at(const void *record, size_t offset, int index)
{
    const char *member = (const char *)record + offset;
    return ((const double *)(const void *)member)[index];
}

/* Bytes the longest line can have, newline included, and scalars the largest record. */
static size_t records_line_bytes(size_t layers, int experts)
{
    size_t per_layer =
        LAYER_ARRAYS * (size_t)MT_JSON_NUMBER_BYTES + (size_t)experts * MT_JSON_NUMBER_BYTES + 8;
    size_t names = (LAYER_ARRAYS + STEP_NUMBERS + 2 * MT_TERM_COUNT + 16) * (size_t)NAME_BYTES;
    size_t numbers = (STEP_NUMBERS + 2 * MT_TERM_COUNT + 16) * (size_t)MT_JSON_NUMBER_BYTES;
    // An escaped byte of an event's text takes six.
    return SLACK_BYTES + 6 * EVENT_TEXT_MOST + names + numbers + layers * per_layer;
}

static size_t records_scalars(size_t layers)
{
    return STEP_NUMBERS + 2 * MT_TERM_COUNT + 16 + layers * (LAYER_NUMBERS + LAYER_TERMS * MT_TERM_COUNT);
}

// ------------------------------------------------------------------ JSON

/* An array with one number per layer; null when every one is unknown. */
static void layer_array(struct mt_json_line *text, const struct mt_step_record *record, const char *key,
                        size_t offset, int index)
{
    bool known = false;
    for (size_t l = 0; l < record->layer_count; l++) {
        if (!isnan(number_at(&record->layers[l], offset, index))) known = true;
    }
    if (!known) {
        mt_json_put_number(text, key, NAN);
        return;
    }
    mt_json_put_open(text, key, '[');
    for (size_t l = 0; l < record->layer_count; l++) {
        mt_json_put_number(text, NULL, number_at(&record->layers[l], offset, index));
    }
    mt_json_put_close(text, ']');
}

static void layers_object(struct mt_json_line *text, const struct mt_step_record *record)
{
    char key[NAME_BYTES];
    mt_json_put_open(text, "layers", '{');
    mt_json_put_open(text, "layer", '[');
    for (size_t l = 0; l < record->layer_count; l++) {
        mt_json_put_number(text, NULL, (double)record->layers[l].layer);
    }
    mt_json_put_close(text, ']');
    for (size_t i = 0; i < LAYER_NUMBERS; i++) {
        layer_array(text, record, layer_numbers[i].key, layer_numbers[i].offset, 0);
    }
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        for (size_t i = 0; i < LAYER_TERMS; i++) {
            (void)snprintf(key, sizeof key, "%s_%s", layer_terms[i].prefix, mt_term_name((enum mt_term)term));
            layer_array(text, record, key, layer_terms[i].offset, term);
        }
    }
    mt_json_put_open(text, "load", '[');
    for (size_t l = 0; l < record->layer_count; l++) {
        mt_json_put_open(text, NULL, '[');
        for (int j = 0; j < record->experts && record->layers[l].load != NULL; j++) {
            mt_json_put_number(text, NULL, record->layers[l].load[j]);
        }
        mt_json_put_close(text, ']');
    }
    mt_json_put_close(text, ']');
    mt_json_put_close(text, '}');
}

/* One line each, newline included. */
static void records_step_line(struct mt_json_line *text, const struct mt_step_record *record)
{
    char key[NAME_BYTES];
    mt_json_put_open(text, NULL, '{');
    mt_json_put_string(text, "kind", "step", 16);
    mt_json_put_count(text, "step", record->step);
    mt_json_put_count(text, "steps", record->steps);
    for (size_t i = 0; i < STEP_NUMBERS; i++) {
        mt_json_put_number(text, step_numbers[i].key, number_at(record, step_numbers[i].offset, 0));
    }
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        (void)snprintf(key, sizeof key, "term_%s", mt_term_name((enum mt_term)term));
        mt_json_put_number(text, key, record->term[term]);
        (void)snprintf(key, sizeof key, "weighted_%s", mt_term_name((enum mt_term)term));
        mt_json_put_number(text, key, record->weighted[term]);
    }
    mt_json_put_bool(text, "clipped", record->clipped);
    mt_json_put_number(text, "tokens", (double)record->tokens);
    mt_json_put_number(text, "answer_tokens", (double)record->answer_tokens);
    mt_json_put_number(text, "examples", (double)record->examples);
    mt_json_put_count(text, "tokens_total", record->tokens_total);
    mt_json_put_count(text, "slots", (uint64_t)record->slots);
    if (record->layers != NULL) layers_object(text, record);
    mt_json_put_close(text, '}');
    mt_json_put_newline(text);
}

static void records_evaluation_line(struct mt_json_line *text, const struct mt_evaluation_record *record)
{
    mt_json_put_open(text, NULL, '{');
    mt_json_put_string(text, "kind", "evaluation", 16);
    mt_json_put_count(text, "step", record->step);
    mt_json_put_number(text, "loss", record->loss);
    mt_json_put_number(text, "perplexity", record->perplexity);
    mt_json_put_number(text, "answer_tokens", (double)record->answer_tokens);
    mt_json_put_bool(text, "best", record->best);
    mt_json_put_number(text, "seconds", record->seconds);
    mt_json_put_close(text, '}');
    mt_json_put_newline(text);
}

static void records_event_line(struct mt_json_line *text, uint64_t step, const char *kind, const char *event)
{
    mt_json_put_open(text, NULL, '{');
    mt_json_put_string(text, "kind", "event", 16);
    mt_json_put_count(text, "step", step);
    mt_json_put_string(text, "event", kind, NAME_BYTES);
    mt_json_put_string(text, "text", event, EVENT_TEXT_MOST);
    mt_json_put_close(text, '}');
    mt_json_put_newline(text);
}

// ------------------------------------------------------------------ TensorBoard

static void layer_scalars(struct mt_tensorboard *board, const struct mt_layer_record *layer)
{
    char tag[NAME_BYTES];
    for (size_t i = 0; i < LAYER_NUMBERS; i++) {
        (void)snprintf(tag, sizeof tag, "layer/%02lld/%s", (long long)layer->layer, layer_numbers[i].key);
        mt_tensorboard_scalar(board, tag, number_at(layer, layer_numbers[i].offset, 0));
    }
    for (size_t i = 0; i < LAYER_TERMS; i++) {
        for (int term = 0; term < MT_TERM_COUNT; term++) {
            (void)snprintf(tag, sizeof tag, "layer/%02lld/%s_%s", (long long)layer->layer,
                           layer_terms[i].prefix, mt_term_name((enum mt_term)term));
            mt_tensorboard_scalar(board, tag, number_at(layer, layer_terms[i].offset, term));
        }
    }
}

static void records_step_scalars(struct mt_tensorboard *board, const struct mt_step_record *record)
{
    char tag[NAME_BYTES];
    for (size_t i = 0; i < STEP_NUMBERS; i++) {
        mt_tensorboard_scalar(board, step_numbers[i].tag, number_at(record, step_numbers[i].offset, 0));
    }
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        (void)snprintf(tag, sizeof tag, "term/%s", mt_term_name((enum mt_term)term));
        mt_tensorboard_scalar(board, tag, record->term[term]);
        (void)snprintf(tag, sizeof tag, "weighted/%s", mt_term_name((enum mt_term)term));
        mt_tensorboard_scalar(board, tag, record->weighted[term]);
    }
    mt_tensorboard_scalar(board, "run/tokens_total", (double)record->tokens_total);
    for (size_t l = 0; record->layers != NULL && l < record->layer_count; l++) {
        layer_scalars(board, &record->layers[l]);
    }
}

static void records_evaluation_scalars(struct mt_tensorboard *board,
                                       const struct mt_evaluation_record *record)
{
    mt_tensorboard_scalar(board, "evaluation/loss", record->loss);
    mt_tensorboard_scalar(board, "evaluation/perplexity", record->perplexity);
}

// ------------------------------------------------------------------ the log

struct mt_run_log {
    struct mt_context *ctx; // borrowed
    size_t layers;          // a record has at the most
    int experts;
    struct mt_log_file metrics;
    struct mt_tensorboard board; // closed: not wanted
    char *board_directory;       // owned; NULL: not wanted
    char *line;                  // owned; room for the longest line
    size_t line_bytes;
    const struct mt_log *quiet_log; // borrowed; NULL: the terminal shows everything, or there is none
    struct mt_terminal_view view;
};

// ------------------------------------------------------------------ opening

/* The bytes of a line at `at` if it is that event of the step; 0: it is another, or not whole. */
static enum mt_status find_event(struct mt_run_log *log, uint64_t at, uint64_t step, const char *kind,
                                 size_t *bytes)
{
    char expected[128];
    struct mt_json_line head = {.data = expected, .room = sizeof expected - 1};
    size_t count = 0;
    *bytes = 0;
    records_event_line(&head, step, kind, "");
    expected[head.bytes] = '\0';
    char *end = strstr(expected, "\"text\"");
    enum mt_status status = mt_log_file_read(&log->metrics, at, log->line, log->line_bytes, &count);
    if (status != MT_OK || end == NULL || count < (size_t)(end - expected)) return status;
    const char *newline = memchr(log->line, '\n', count);
    bool same = memcmp(log->line, expected, (size_t)(end - expected)) == 0;
    if (same && newline != NULL && newline[-1] == '}') *bytes = (size_t)(newline - log->line) + 1;
    return MT_OK;
}

/*
 * Events that tell of a checkpoint come after it, so where it saw the end of the log they are not: a run that
 * goes on from it keeps them. *saved: the event of the checkpoint itself is there.
 */
static enum mt_status find_kept(struct mt_run_log *log, const struct mt_run_log_options *options,
                                uint64_t *end, bool *saved)
{
    static const char *const kinds[] = {"checkpoint", "interrupted", "failed"};
    enum mt_status status = MT_OK;
    *end = options->metrics_bytes;
    *saved = false;
    if (options->checkpoint == NULL || log->metrics.bytes <= *end) return MT_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && status == MT_OK; i++) {
        size_t bytes = 0;
        status = find_event(log, *end, options->done.steps, kinds[i], &bytes);
        if (i == 0) *saved = bytes > 0;
        *end += bytes;
    }
    return status;
}

/* Cuts metrics.jsonl to where the checkpoint saw its end; *missing: so many bytes are not there. */
static enum mt_status open_metrics(struct mt_run_log *log, const struct mt_run_log_options *options,
                                   uint64_t *missing)
{
    *missing = 0;
    enum mt_status status =
        mt_log_file_open(log->ctx, options->directory, "metrics.jsonl", false, NULL, &log->metrics);
    if (status != MT_OK) return status;
    if (log->metrics.bytes < options->metrics_bytes) *missing = options->metrics_bytes - log->metrics.bytes;
    uint64_t end = 0;
    bool saved = false;
    status = find_kept(log, options, &end, &saved);
    if (status == MT_OK) status = mt_log_file_cut(&log->metrics, end);
    if (status == MT_OK) status = mt_log_file_cut_line(&log->metrics);
    if (status != MT_OK || saved || options->checkpoint == NULL) return status;
    // Killed between the checkpoint and its event.
    struct mt_json_line text = {.data = log->line, .room = log->line_bytes};
    records_event_line(&text, options->done.steps, "checkpoint", options->checkpoint);
    return mt_log_file_append(&log->metrics, text.data, text.bytes);
}

static enum mt_status open_parts(struct mt_run_log *log, const struct mt_run_log_options *options,
                                 uint64_t *missing)
{
    struct mt_context *ctx = log->ctx;
    void *line = NULL;
    size_t bytes = records_line_bytes(options->layers, options->experts);
    enum mt_status status = mt_allocate(ctx, bytes, &line);
    if (status != MT_OK) return status;
    log->line = line;
    log->line_bytes = bytes;
    status = open_metrics(log, options, missing);
    if (status != MT_OK || !options->tensorboard) return status;
    status = mt_path_join(ctx, options->directory, "tensorboard", &log->board_directory);
    if (status != MT_OK) return status;
    return mt_tensorboard_open(ctx, log->board_directory, records_scalars(options->layers),
                               options->done.steps, &log->board);
}

static void free_log(struct mt_run_log *log)
{
    struct mt_context *ctx = log->ctx;
    mt_log_file_close(&log->metrics);
    mt_tensorboard_close(&log->board);
    mt_path_release(ctx, log->board_directory);
    mt_release(ctx, log->line, log->line_bytes);
    mt_release(ctx, log, sizeof *log);
}

enum mt_status mt_run_log_open(struct mt_context *ctx, const struct mt_run_log_options *options,
                               struct mt_run_log **log)
{
    *log = NULL;
    if (options->layers > MOST_LAYERS || options->experts < 0 || options->experts > MOST_EXPERTS) {
        return mt_fail(ctx, MT_ERR_USAGE, "a log for %zu layers of %d experts", options->layers,
                       options->experts);
    }
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **log, &memory);
    if (status != MT_OK) return status;
    struct mt_run_log *made = memory;
    made->ctx = ctx;
    made->layers = options->layers;
    made->experts = options->experts;
    made->quiet_log = options->terminal == NULL ? options->log : NULL;
    uint64_t missing = 0;
    status = open_parts(made, options, &missing);
    if (status != MT_OK) {
        free_log(made);
        return status;
    }
    mt_terminal_view_start(&made->view, options->terminal, options->title, options->steps, &options->done);
    if (missing > 0) {
        char text[128];
        (void)snprintf(text, sizeof text,
                       "metrics.jsonl is %" PRIu64
                       " bytes shorter than at the checkpoint: records are missing",
                       missing);
        status = mt_run_log_event(made, options->done.steps, "warning", text);
        if (status != MT_OK) {
            mt_run_log_close(made);
            return status;
        }
    }
    *log = made;
    return MT_OK;
}

// ------------------------------------------------------------------ records

static struct mt_json_line new_line(struct mt_run_log *log)
{
    return (struct mt_json_line){.data = log->line, .room = log->line_bytes};
}

static enum mt_status write_line(struct mt_run_log *log, const struct mt_json_line *text)
{
    if (text->full) {
        return mt_fail(log->ctx, MT_ERR_INTERNAL, "%s: a record is longer than %zu bytes", log->metrics.path,
                       log->line_bytes);
    }
    return mt_log_file_append(&log->metrics, text->data, text->bytes);
}

enum mt_status mt_run_log_step(struct mt_run_log *log, const struct mt_step_record *record)
{
    if (log == NULL) return MT_OK;
    if (record->layers != NULL && (record->layer_count > log->layers || record->experts > log->experts)) {
        return mt_fail(log->ctx, MT_ERR_USAGE,
                       "a record of %zu layers and %d experts for a log of %zu layers and %d experts",
                       record->layer_count, record->experts, log->layers, log->experts);
    }
    struct mt_json_line text = new_line(log);
    records_step_line(&text, record);
    enum mt_status status = write_line(log, &text);
    if (status == MT_OK && log->board.buffer != NULL) {
        records_step_scalars(&log->board, record);
        status = mt_tensorboard_record(&log->board, record->step);
    }
    mt_terminal_view_row(&log->view, record);
    return status;
}

void mt_run_log_progress(struct mt_run_log *log, const struct mt_step_record *record)
{
    if (log != NULL) mt_terminal_view_step(&log->view, record);
}

enum mt_status mt_run_log_evaluation(struct mt_run_log *log, const struct mt_evaluation_record *record)
{
    if (log == NULL) return MT_OK;
    struct mt_json_line text = new_line(log);
    records_evaluation_line(&text, record);
    enum mt_status status = write_line(log, &text);
    if (status == MT_OK && log->board.buffer != NULL) {
        records_evaluation_scalars(&log->board, record);
        status = mt_tensorboard_record(&log->board, record->step);
    }
    mt_terminal_view_evaluation(&log->view, record);
    return status;
}

enum mt_status mt_run_log_event(struct mt_run_log *log, uint64_t step, const char *kind, const char *text)
{
    if (log == NULL) return MT_OK;
    struct mt_json_line line = new_line(log);
    records_event_line(&line, step, kind, text);
    enum mt_status status = write_line(log, &line);
    // A failure is told by whoever is handed it.
    if (strcmp(kind, "failed") != 0) mt_terminal_view_event(&log->view, step, kind, text);
    // What somebody who wants no progress still has to know.
    if (strcmp(kind, "warning") == 0)
        mt_log_warning(log->quiet_log, "%s: step %" PRIu64 ": %s", log->metrics.path, step, text);
    return status;
}

enum mt_status mt_run_log_sync(struct mt_run_log *log, uint64_t *metrics_bytes)
{
    if (log == NULL) return MT_OK;
    *metrics_bytes = log->metrics.bytes;
    enum mt_status status = mt_log_file_sync(&log->metrics);
    if (status != MT_OK || log->board.buffer == NULL) return status;
    return mt_log_file_sync(&log->board.file);
}

void mt_run_log_summary(struct mt_run_log *log, const char *verdict)
{
    if (log != NULL) mt_terminal_view_finish(&log->view, log->metrics.path, log->board_directory, verdict);
}

void mt_run_log_close(struct mt_run_log *log)
{
    if (log == NULL) return;
    mt_run_log_summary(log, NULL);
    free_log(log);
}
