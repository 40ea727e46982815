/* Where a run's records go: opening, resuming, and one call per kind of record. */
#include "train/log/runlog.h"

#include <inttypes.h>
#include <string.h>

#include "base/files/file.h"
#include "train/log/runlog_records.h"
#include "train/log/terminal_view.h"

#define MOST_LAYERS  65536
#define MOST_EXPERTS 65536

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
    mt_records_event_line(&head, step, kind, "");
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
    mt_records_event_line(&text, options->done.steps, "checkpoint", options->checkpoint);
    return mt_log_file_append(&log->metrics, text.data, text.bytes);
}

static enum mt_status open_parts(struct mt_run_log *log, const struct mt_run_log_options *options,
                                 uint64_t *missing)
{
    struct mt_context *ctx = log->ctx;
    void *line = NULL;
    size_t bytes = mt_records_line_bytes(options->layers, options->experts);
    enum mt_status status = mt_allocate(ctx, bytes, &line);
    if (status != MT_OK) return status;
    log->line = line;
    log->line_bytes = bytes;
    status = open_metrics(log, options, missing);
    if (status != MT_OK || !options->tensorboard) return status;
    status = mt_path_join(ctx, options->directory, "tensorboard", &log->board_directory);
    if (status != MT_OK) return status;
    return mt_tensorboard_open(ctx, log->board_directory, mt_records_scalars(options->layers),
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
    mt_records_step_line(&text, record);
    enum mt_status status = write_line(log, &text);
    if (status == MT_OK && log->board.buffer != NULL) {
        mt_records_step_scalars(&log->board, record);
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
    mt_records_evaluation_line(&text, record);
    enum mt_status status = write_line(log, &text);
    if (status == MT_OK && log->board.buffer != NULL) {
        mt_records_evaluation_scalars(&log->board, record);
        status = mt_tensorboard_record(&log->board, record->step);
    }
    mt_terminal_view_evaluation(&log->view, record);
    return status;
}

enum mt_status mt_run_log_event(struct mt_run_log *log, uint64_t step, const char *kind, const char *text)
{
    if (log == NULL) return MT_OK;
    struct mt_json_line line = new_line(log);
    mt_records_event_line(&line, step, kind, text);
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
