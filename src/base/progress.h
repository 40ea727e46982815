/*
 * Progress of long work. On a terminal: one line, redrawn in place,
 *
 *     training  42% ▕███████▌          ▏ 420/1000  12.3k tok/s  0:47 left  loss 2.31
 *
 * fitted to the terminal's width. Elsewhere (pipe, file): a plain line every few seconds and one at the
 * end. Nothing is allocated. A struct belongs to one thread at a time.
 */
#ifndef MT_BASE_PROGRESS_H
#define MT_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MT_PROGRESS_NOTE_BYTES 160

struct mt_progress_options {
    FILE *stream;                // borrowed; NULL shows nothing
    const char *label;           // what is being done; borrowed until the finish
    const char *unit;            // of the rate: "tok" gives "12.3k tok/s"; NULL: "12.3k/s"; borrowed
    int64_t total;               // items to do, as far as is known: it grows when it is passed; 0: unknown
    int64_t done;                // items done before the start (a resumed run); they count in no rate
    bool only_share;             // items mean nothing to people: neither their count nor a rate is shown
    bool lines;                  // plain lines on a terminal, too: somebody else writes there
    double line_seconds;         // off a terminal: at most one line in so many seconds; 0: 10
    double (*clock)(void *self); // seconds; NULL: the monotonic clock
    void *clock_self;            // borrowed; handed to `clock`
};

struct mt_progress {
    struct mt_progress_options options;
    bool terminal;
    bool utf8;         // block characters and UTF-8 text can be shown
    bool running;      // between start and finish
    int64_t done;      // items, as of the last update
    double start;      // clock at the start
    double drawn;      // clock at the last redraw or line
    double rate_clock; // clock and items when the rate was last brought up to date
    int64_t rate_done;
    double rate;                       // items per second, recent ones weighing most; 0: not known yet
    bool rate_told;                    // by mt_progress_rate: the rate of items is not shown
    double shown_rate;                 // what it was told; 0: nothing to show
    char note[MT_PROGRESS_NOTE_BYTES]; // the free text
};

/* Starts showing progress in a caller-owned struct; on a terminal the line appears at once. */
void mt_progress_start(struct mt_progress *progress, const struct mt_progress_options *options);

/*
 * Shows another rate than that of items from the next redraw on, in options.unit per second: a step is one
 * item and many tokens. The time left still follows the items.
 */
void mt_progress_rate(struct mt_progress *progress, double rate);

/*
 * Sets the free text shown from the next redraw on. Parts kept apart by two spaces are shown whole or not at
 * all, the first ones longest.
 */
void mt_progress_note(struct mt_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* There are `total` items after all. */
void mt_progress_total(struct mt_progress *progress, int64_t total);

/* `done` items are done; redraws when it is time to. Cheap enough to call for every item. */
void mt_progress_update(struct mt_progress *progress, int64_t done);

/* Prints a line that stays, above the progress on a terminal. A newline is added; control characters go. */
void mt_progress_line(struct mt_progress *progress, const char *text);

/* Takes the line off the terminal, for others who write there; the next update shows it again. */
void mt_progress_hide(struct mt_progress *progress);

/* Shows the last state with the time taken and ends the line; where nothing was done, takes it away. A second
 * call does nothing. */
void mt_progress_finish(struct mt_progress *progress);

#endif
