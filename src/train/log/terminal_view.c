/* What a person sees of a run. */
#include "train/log/terminal_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/amount.h"
#include "base/columns.h"

#define HEADER_ROWS 20 // the table's header comes again after so many
#define LINE_BYTES  2560

/* Text put together piece by piece; what does not fit is cut. */
struct line {
    char text[LINE_BYTES];
    size_t bytes;
};

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int count = vsnprintf(line->text + line->bytes, sizeof line->text - line->bytes, format, args);
    va_end(args);
    if (count > 0) line->bytes += (size_t)count;
    if (line->bytes >= sizeof line->text) line->bytes = sizeof line->text - 1;
}

/* Three digits that matter, always as wide for numbers of one size, so that the live line does not jump. */
static void short_number(char *text, size_t bytes, double value)
{
    double size = fabs(value);
    if (!isfinite(value) || (size > 0.0 && size < 0.001) || size >= 1e5) {
        (void)snprintf(text, bytes, "%.1e", value);
        return;
    }
    int decimals = size >= 99.95     ? 0
                   : size >= 9.995   ? 1
                   : size >= 0.9995  ? 2
                   : size >= 0.0995  ? 3
                   : size >= 0.00995 ? 4
                                     : 5;
    if (size == 0.0) decimals = 2;
    (void)snprintf(text, bytes, "%.*f", decimals, value);
}

static void add_part(struct line *line, const char *name, double value)
{
    char number[32];
    short_number(number, sizeof number, value);
    add(line, "%s%s %s", line->bytes > 0 ? "  " : "", name, number);
}

void mt_terminal_view_start(struct mt_terminal_view *view, FILE *stream, const char *title, uint64_t steps,
                            const struct mt_run_work *done)
{
    *view = (struct mt_terminal_view){.stream = stream, .done = *done};
    if (stream == NULL) return;
    if (title != NULL) {
        char text[LINE_BYTES];
        (void)mt_columns_copy(text, sizeof text, title, LINE_BYTES, mt_columns_locale_is_utf8());
        (void)fprintf(stream, "%s\n", text);
    }
    mt_progress_start(&view->progress, &(struct mt_progress_options){.stream = stream,
                                                                     .unit = "tok",
                                                                     .total = (int64_t)steps,
                                                                     .done = (int64_t)done->steps});
}

static void keep_concentration(struct mt_step_record *record, const struct mt_step_record *known)
{
    record->effective_experts = known->effective_experts;
    record->effective_scores = known->effective_scores;
    record->experts_90 = known->experts_90;
}

void mt_terminal_view_step(struct mt_terminal_view *view, const struct mt_step_record *record)
{
    const struct mt_step_record before = view->last;
    view->last = *record;
    view->last.layers = NULL;
    if (view->seen > 0 && isnan(record->effective_experts)) keep_concentration(&view->last, &before);
    if (view->seen > 0 && isnan(view->first.effective_experts)) keep_concentration(&view->first, record);
    if (view->seen == 0) {
        view->first = view->last;
        for (int term = 0; term < MT_TERM_COUNT; term++) view->on[term] = !isnan(record->term[term]);
    }
    view->seen++;
    if (!view->progress.terminal) return;
    // What tells most comes first: a narrow terminal shows no more.
    struct line note = {.bytes = 0};
    add_part(&note, "L", record->loss);
    if (!isnan(record->max_violation)) add_part(&note, "MaxVio", record->max_violation);
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (view->on[term]) add_part(&note, mt_term_name((enum mt_term)term), record->term[term]);
    }
    if (!isnan(view->last.effective_experts)) {
        add_part(&note, "experts", view->last.effective_experts);
        add(&note, "/%d", record->slots);
    }
    add_part(&note, "L_h", record->task);
    mt_progress_note(&view->progress, "%s", note.text);
    mt_progress_rate(&view->progress, record->tokens_per_second);
    mt_progress_update(&view->progress, (int64_t)record->step);
}

// ------------------------------------------------------------------ the table

static void print(const struct mt_terminal_view *view, struct line *line)
{
    line->text[line->bytes < sizeof line->text - 1 ? line->bytes : sizeof line->text - 2] = '\0';
    add(line, "\n");
    (void)fwrite(line->text, 1, line->bytes, view->stream);
    (void)fflush(view->stream);
}

static void print_header(const struct mt_terminal_view *view)
{
    struct line line = {.bytes = 0};
    add(&line, "%8s  %6s  %8s  %8s  %8s", "step", "epoch", "lr", "L", "L_h");
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (view->on[term]) add(&line, "  %11s", mt_term_name((enum mt_term)term));
    }
    add(&line, "  %8s  %7s  %7s  %8s  %8s", "gradient", "MaxVio", "experts", "tok/s", "left");
    print(view, &line);
}

/* From what the steps since the start took. */
static double seconds_left(const struct mt_terminal_view *view, const struct mt_step_record *record)
{
    double steps = (double)record->step - (double)view->first.step;
    double seconds = record->seconds - view->first.seconds;
    if (!(steps > 0.0) && view->done.steps == 0) {
        steps = (double)record->step;
        seconds = record->seconds;
    }
    if (!(steps > 0.0)) return INFINITY;
    double left = record->steps > record->step ? (double)(record->steps - record->step) : 0.0;
    return left * seconds / steps;
}

void mt_terminal_view_row(struct mt_terminal_view *view, const struct mt_step_record *record)
{
    if (view->stream == NULL || view->progress.terminal) return;
    if (view->seen == 0) mt_terminal_view_step(view, record);
    if (view->rows % HEADER_ROWS == 0) print_header(view);
    view->rows++;
    struct line line = {.bytes = 0};
    char rate[32];
    char left[32];
    mt_amount_count(rate, sizeof rate,
                    record->tokens_per_second > 0.0 ? (uint64_t)record->tokens_per_second : 0);
    mt_amount_duration(left, sizeof left, seconds_left(view, record));
    add(&line, "%8" PRIu64 "  %6.2f  %8.2e  %8.4f  %8.4f", record->step, record->epoch, record->learning_rate,
        record->loss, record->task);
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (view->on[term]) add(&line, "  %11.4g", record->term[term]);
    }
    add(&line, "  %8.3g  %7.3f  %7.2f  %8s  %8s", record->gradient_norm, record->max_violation,
        record->effective_experts, rate, left);
    print(view, &line);
}

// ------------------------------------------------------------------ lines that stay

void mt_terminal_view_evaluation(struct mt_terminal_view *view, const struct mt_evaluation_record *record)
{
    struct line line = {.bytes = 0};
    char tokens[32];
    char duration[32];
    mt_amount_count(tokens, sizeof tokens, record->answer_tokens > 0 ? (uint64_t)record->answer_tokens : 0);
    mt_amount_duration(duration, sizeof duration, record->seconds);
    add(&line, "step %" PRIu64 ": held-out loss %.4f, perplexity %.4g, %s tokens in %s%s", record->step,
        record->loss, record->perplexity, tokens, duration, record->best ? ", the best so far" : "");
    mt_progress_line(&view->progress, line.text);
}

void mt_terminal_view_event(struct mt_terminal_view *view, uint64_t step, const char *kind, const char *text)
{
    struct line line = {.bytes = 0};
    add(&line, "step %" PRIu64 ": %s: %s", step, kind, text);
    mt_progress_line(&view->progress, line.text);
}

// ------------------------------------------------------------------ the end

static void print_change(const struct mt_terminal_view *view, const char *name, double first, double last)
{
    char from[32];
    char to[32];
    (void)snprintf(from, sizeof from, "%#.4g", first);
    (void)snprintf(to, sizeof to, "%#.4g", last);
    if (isnan(first) && isnan(last)) return;
    (void)fprintf(view->stream, "  %-12s %10s %s %s\n", name, from, view->progress.utf8 ? "→" : "->", to);
}

/* ", 12.3k tokens in 1:40, 123 tok/s" and the end of the line. */
static void print_work(const struct mt_terminal_view *view, uint64_t tokens, double seconds)
{
    char amount[32];
    char duration[32];
    char rate[48];
    mt_amount_count(amount, sizeof amount, tokens);
    mt_amount_duration(duration, sizeof duration, seconds);
    mt_amount_rate(rate, sizeof rate, seconds > 0.0 ? (double)tokens / seconds : 0.0, "tok");
    (void)fprintf(view->stream, ", %s token%s in %s%s%s\n", amount, tokens == 1 ? "" : "s", duration,
                  rate[0] != '\0' ? ", " : "", rate);
}

static void print_summary(const struct mt_terminal_view *view, const char *metrics, const char *board,
                          const char *verdict)
{
    const struct mt_step_record *first = &view->first;
    const struct mt_step_record *last = &view->last;
    const struct mt_run_work *before = &view->done;
    bool resumed = before->steps > 0;
    char experts[32];
    (void)fprintf(view->stream, "\n%ssteps %" PRIu64 " to %" PRIu64 " of %" PRIu64,
                  resumed ? "this part: " : "", first->step, last->step, last->steps);
    print_work(view, last->tokens_total - before->tokens, last->seconds - before->seconds);
    if (resumed) {
        (void)fprintf(view->stream, "the whole: %s", mt_counted(last->step, "step", "steps").text);
        print_work(view, last->tokens_total, last->seconds);
    }
    print_change(view, "L", first->loss, last->loss);
    print_change(view, "L_h", first->task, last->task);
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (view->on[term])
            print_change(view, mt_term_name((enum mt_term)term), first->term[term], last->term[term]);
    }
    print_change(view, "MaxVio", first->max_violation, last->max_violation);
    print_change(view, "load entropy", first->load_entropy, last->load_entropy);
    (void)snprintf(experts, sizeof experts, "experts of %d", last->slots);
    print_change(view, experts, first->effective_experts, last->effective_experts);
    print_change(view, "serving 90 %", first->experts_90, last->experts_90);
    if (verdict != NULL) (void)fprintf(view->stream, "  %s\n", verdict);
    (void)fprintf(view->stream, "  %-12s %s\n", "metrics", metrics);
    if (board != NULL) (void)fprintf(view->stream, "  %-12s %s\n", "tensorboard", board);
    (void)fflush(view->stream);
}

void mt_terminal_view_finish(struct mt_terminal_view *view, const char *metrics, const char *board,
                             const char *verdict)
{
    if (view->stream == NULL) return;
    if (view->progress.terminal) mt_progress_finish(&view->progress);
    if (view->seen > 0) print_summary(view, metrics, board, verdict);
    view->stream = NULL;
}
