/*
 * Progress lines. A line is a row of fields; when the terminal is too narrow for all, the bar shrinks,
 * then the note is cut, then fields are left out, the least telling first.
 */
#include "base/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/amount.h"
#include "base/clock.h"
#include "base/columns.h"

#define REDRAW_SECONDS  0.1
#define RATE_SECONDS    10.0 // the rate's memory: older items fade
#define DEFAULT_COLUMNS 80   // when the terminal does not say
#define LINE_BYTES      1024
#define FIELD_BYTES     256
#define BAR_MOST        32 // columns between the bar's ends
#define BAR_LEAST       6
#define GAP             2 // columns between fields

// In the order they are shown.
enum field { FIELD_LABEL, FIELD_PERCENT, FIELD_BAR, FIELD_COUNT, FIELD_RATE, FIELD_TIME, FIELD_NOTE, FIELDS };

// In the order they are left out.
static const enum field expendable[] = {FIELD_RATE, FIELD_COUNT, FIELD_BAR, FIELD_TIME, FIELD_LABEL};

struct line {
    char text[FIELDS][FIELD_BYTES]; // "" is left out
    int columns[FIELDS];
};

static double now_of(const struct mt_progress *p)
{
    return p->options.clock != NULL ? p->options.clock(p->options.clock_self) : mt_clock_seconds();
}

static double fraction_done(const struct mt_progress *p)
{
    double fraction = (double)p->done / (double)p->options.total;
    return fraction < 0.0 ? 0.0 : fraction > 1.0 ? 1.0 : fraction;
}

/* The rate over the whole run: what the last line reports. */
static double overall_rate(const struct mt_progress *p, double now)
{
    double seconds = now - p->start;
    return seconds > 0.0 ? (double)(p->done - p->options.done) / seconds : 0.0;
}

static void update_rate(struct mt_progress *p, double now)
{
    double seconds = now - p->rate_clock;
    if (seconds <= 0.0 || p->done == p->rate_done) return; // a slow item is no standstill
    double latest = (double)(p->done - p->rate_done) / seconds;
    if (latest < 0.0) latest = 0.0; // the work was set back
    double weight = p->rate > 0.0 ? 1.0 - exp(-seconds / RATE_SECONDS) : 1.0;
    p->rate += weight * (latest - p->rate);
    p->rate_clock = now;
    p->rate_done = p->done;
}

static void set_field(struct line *line, enum field field, const char *text, bool utf8)
{
    line->columns[field] = mt_columns_copy(line->text[field], FIELD_BYTES, text, FIELD_BYTES, utf8);
}

/* Everything but the bar; `final` reports the time taken instead of the time left. */
static void fill_fields(const struct mt_progress *p, double now, bool final, struct line *line)
{
    char text[FIELD_BYTES];
    char duration[32];
    memset(line, 0, sizeof *line);
    bool known = p->options.total > 0;
    set_field(line, FIELD_LABEL, p->options.label != NULL ? p->options.label : "", p->utf8);
    if (known) {
        // Rounded down: 100% means all of it.
        (void)snprintf(text, sizeof text, "%3d%%", (int)(100.0 * fraction_done(p)));
        set_field(line, FIELD_PERCENT, text, p->utf8);
        (void)snprintf(text, sizeof text, "%" PRId64 "/%" PRId64, p->done, p->options.total);
    } else {
        (void)snprintf(text, sizeof text, "%" PRId64, p->done);
    }
    if (!p->options.only_share) set_field(line, FIELD_COUNT, text, p->utf8);
    double rate = final ? overall_rate(p, now) : p->rate;
    mt_amount_rate(text, sizeof text, p->rate_told ? p->shown_rate : rate, p->options.unit);
    if (!p->options.only_share) set_field(line, FIELD_RATE, text, p->utf8);
    if (final || !known) {
        mt_amount_duration(duration, sizeof duration, now - p->start);
        (void)snprintf(text, sizeof text, "%s%s", final ? "in " : "", duration);
    } else {
        double left = (double)(p->options.total - p->done) / rate;
        mt_amount_duration(duration, sizeof duration, rate > 0.0 ? left : INFINITY);
        (void)snprintf(text, sizeof text, "%s left", duration);
    }
    set_field(line, FIELD_TIME, text, p->utf8);
    set_field(line, FIELD_NOTE, p->note, p->utf8);
}

/* Columns of the whole line: fields and the gaps between them. */
static int line_columns(const struct line *line)
{
    int columns = 0;
    for (int field = 0; field < FIELDS; field++) {
        if (line->columns[field] > 0) columns += line->columns[field] + (columns > 0 ? GAP : 0);
    }
    return columns;
}

/* A bar of `inside` columns between its ends; with block characters in eighths of a column. */
static void draw_bar(const struct mt_progress *p, int inside, struct line *line)
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    char text[FIELD_BYTES] = "";
    int steps = p->utf8 ? 8 : 1;
    int filled = (int)(fraction_done(p) * inside * steps);
    (void)strcat(text, p->utf8 ? "▕" : "[");
    for (int column = 0; column < inside; column++) {
        const char *cell = p->utf8 ? "█" : "#";
        if (column == filled / steps) cell = p->utf8 ? eighths[filled % steps] : ".";
        if (column > filled / steps) cell = p->utf8 ? " " : ".";
        (void)strcat(text, cell);
    }
    (void)strcat(text, p->utf8 ? "▏" : "]");
    set_field(line, FIELD_BAR, text, p->utf8);
}

static void leave_out(struct line *line, enum field field)
{
    line->text[field][0] = '\0';
    line->columns[field] = 0;
}

/* Cuts the note to so many columns, between parts where it has parts. */
static void shorten_note(const struct mt_progress *p, int columns, struct line *line)
{
    char kept[FIELD_BYTES];
    char *note = line->text[FIELD_NOTE];
    (void)mt_columns_copy(kept, sizeof kept, note, columns, p->utf8);
    size_t bytes = strlen(kept);
    if (strncmp(note + bytes, "  ", 2) != 0) {
        for (size_t end = bytes; end >= 2; end--) {
            if (strncmp(kept + end - 2, "  ", 2) != 0) continue;
            bytes = end - 2;
            break;
        }
    }
    kept[bytes] = '\0';
    line->columns[FIELD_NOTE] = mt_columns_copy(note, FIELD_BYTES, kept, FIELD_BYTES, p->utf8);
}

/* Makes the line fit: a full bar if possible, then a smaller one, a shorter note, fewer fields. */
static void fit_line(const struct mt_progress *p, int width, struct line *line)
{
    bool has_bar = p->options.total > 0;
    if (has_bar) draw_bar(p, BAR_LEAST, line);
    int spare = width - line_columns(line);
    if (spare < 0 && line->columns[FIELD_NOTE] > 0) {
        int note = line->columns[FIELD_NOTE] + spare;
        if (note > 0) {
            shorten_note(p, note, line);
            spare = width - line_columns(line); // a whole part of the note may have gone
        } else {
            leave_out(line, FIELD_NOTE);
        }
    }
    for (size_t i = 0; i < sizeof expendable / sizeof expendable[0] && line_columns(line) > width; i++) {
        leave_out(line, expendable[i]);
    }
    if (has_bar && line->columns[FIELD_BAR] > 0 && spare > 0) {
        int inside = BAR_LEAST + spare;
        draw_bar(p, inside < BAR_MOST ? inside : BAR_MOST, line);
    }
}

static void draw(const struct mt_progress *p, double now, bool final)
{
    struct line line;
    char joined[LINE_BYTES] = "";
    char fitted[LINE_BYTES];
    char out[LINE_BYTES + 16];
    fill_fields(p, now, final, &line);
    // The last column stays free: writing it makes some terminals wrap.
    int columns = mt_columns_of_terminal(p->options.stream);
    int width = (columns > 0 ? columns : DEFAULT_COLUMNS) - 1;
    fit_line(p, width, &line);
    size_t used = 0;
    for (int field = 0; field < FIELDS; field++) {
        if (line.columns[field] == 0) continue;
        used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%s", used > 0 ? "  " : "",
                                 line.text[field]);
        if (used >= sizeof joined) break;
    }
    (void)mt_columns_copy(fitted, sizeof fitted, joined, width, p->utf8);
    int length = snprintf(out, sizeof out, "\r%s\033[K%s", fitted, final ? "\n" : "");
    (void)fwrite(out, 1, (size_t)length, p->options.stream);
    (void)fflush(p->options.stream);
}

static void print_plain(const struct mt_progress *p, double now, bool final)
{
    struct line line;
    char out[LINE_BYTES];
    fill_fields(p, now, final, &line);
    char percent[16] = "";
    const char *percent_text = line.text[FIELD_PERCENT];
    if (percent_text[0] != '\0') {
        const char *form = line.columns[FIELD_COUNT] > 0 ? " (%.8s)" : "%.8s";
        (void)snprintf(percent, sizeof percent, form, percent_text + strspn(percent_text, " "));
    }
    int length =
        snprintf(out, sizeof out - 1, "%s%s%s%s%s%s, %s%s%s", line.text[FIELD_LABEL],
                 line.columns[FIELD_LABEL] > 0 ? ": " : "", line.text[FIELD_COUNT], percent,
                 line.columns[FIELD_RATE] > 0 ? ", " : "", line.text[FIELD_RATE], line.text[FIELD_TIME],
                 line.columns[FIELD_NOTE] > 0 ? ", " : "", line.text[FIELD_NOTE]);
    if (length < 0) return;
    size_t bytes = (size_t)length < sizeof out - 2 ? (size_t)length : sizeof out - 2;
    out[bytes++] = '\n';
    (void)fwrite(out, 1, bytes, p->options.stream);
    (void)fflush(p->options.stream);
}

/* A terminal that can move its cursor back. */
static bool is_capable_terminal(FILE *stream)
{
    const char *kind = getenv("TERM");
    return isatty(fileno(stream)) == 1 && kind != NULL && kind[0] != '\0' && strcmp(kind, "dumb") != 0;
}

void mt_progress_start(struct mt_progress *progress, const struct mt_progress_options *options)
{
    *progress = (struct mt_progress){.options = *options, .done = options->done, .rate_done = options->done};
    if (options->stream == NULL) return;
    progress->running = true;
    progress->terminal = !options->lines && is_capable_terminal(options->stream);
    progress->utf8 = mt_columns_locale_is_utf8();
    progress->start = now_of(progress);
    progress->drawn = progress->start;
    progress->rate_clock = progress->start;
    if (progress->options.line_seconds <= 0.0) progress->options.line_seconds = 10.0;
    if (progress->terminal) draw(progress, progress->start, false);
}

void mt_progress_note(struct mt_progress *progress, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(progress->note, sizeof progress->note, format, args);
    va_end(args);
}

void mt_progress_total(struct mt_progress *progress, int64_t total)
{
    progress->options.total = total;
}

void mt_progress_rate(struct mt_progress *progress, double rate)
{
    progress->rate_told = true;
    progress->shown_rate = rate > 0.0 ? rate : 0.0;
}

void mt_progress_line(struct mt_progress *progress, const char *text)
{
    char kept[LINE_BYTES];
    char out[LINE_BYTES + 16];
    if (progress->options.stream == NULL) return;
    (void)mt_columns_copy(kept, sizeof kept, text, LINE_BYTES, progress->utf8);
    bool live = progress->running && progress->terminal;
    int length = snprintf(out, sizeof out, "%s%s\n", live ? "\r\033[K" : "", kept);
    (void)fwrite(out, 1, (size_t)length, progress->options.stream);
    (void)fflush(progress->options.stream);
    if (live) draw(progress, now_of(progress), false);
}

void mt_progress_hide(struct mt_progress *progress)
{
    if (!progress->running || !progress->terminal) return;
    (void)fputs("\r\033[K", progress->options.stream);
    (void)fflush(progress->options.stream);
    progress->drawn = (double)-INFINITY;
}

void mt_progress_update(struct mt_progress *progress, int64_t done)
{
    progress->done = done;
    // A total that is passed was an estimate.
    if (progress->options.total > 0 && done > progress->options.total) progress->options.total = done;
    if (!progress->running) return;
    double now = now_of(progress);
    double wait = progress->terminal ? REDRAW_SECONDS : progress->options.line_seconds;
    if (now - progress->drawn < wait) return;
    progress->drawn = now;
    update_rate(progress, now);
    if (progress->terminal) {
        draw(progress, now, false);
    } else {
        print_plain(progress, now, false);
    }
}

void mt_progress_finish(struct mt_progress *progress)
{
    if (!progress->running) return;
    // What failed before its first item is told by its failure.
    bool begun = progress->done != progress->options.done || progress->done == progress->options.total;
    if (!begun) mt_progress_hide(progress);
    progress->running = false;
    if (!begun) return;
    double now = now_of(progress);
    if (progress->terminal) {
        draw(progress, now, true);
    } else {
        print_plain(progress, now, true);
    }
}
