/*
 * Lines a person types: at a terminal with editing and the lines before (libedit), elsewhere as they come. A
 * build without libedit reads terminals as pipes.
 */
#ifndef MT_CLI_CHAT_LINE_H
#define MT_CLI_CHAT_LINE_H

#include <stdbool.h>

#include "base/interrupt.h"
#include "formats/text/lists.h"

struct chat_line_editor; // of line_edit.c

struct chat_lines {
    struct mt_context *ctx;          // borrowed
    struct mt_interrupt *signals;    // borrowed
    bool terminal;                   // the input is one
    struct chat_line_editor *editor; // NULL: lines are read as they come
    struct mt_byte_list input;       // read, but not yet taken as a line
    struct mt_byte_list line;        // the line at hand, without its end
    bool ended;                      // there is no more input
};

/* What was done about a signal while a line was waited for. */
enum chat_signal {
    CHAT_SIGNAL_NONE,
    CHAT_SIGNAL_CLEAR, // Ctrl-C: the line begun is thrown away
    CHAT_SIGNAL_END,
};

/* Looks for a signal, and answers a Ctrl-C on the terminal. */
enum chat_signal chat_signal_seen(struct mt_interrupt *signals);

/* Prepares a caller-owned reader of standard input; `signals` have begun. The caller closes. */
enum mt_status chat_lines_open(struct mt_context *ctx, struct mt_interrupt *signals,
                               struct chat_lines *lines);
void chat_lines_close(struct chat_lines *lines); // a zeroed one is allowed

/* Waits for lines->line; *got is false at the end of the input, or when a signal ends it. */
enum mt_status chat_lines_next(struct chat_lines *lines, bool *got);

/* Between two tokens of an answer: *stop says whether Ctrl-C or a signal asks for its end. Other keys are
 * kept for the next line. */
enum mt_status chat_lines_watch(struct chat_lines *lines, bool *stop);

// ------------------------------------------------------------------ line_edit.c, or line_plain.c

/* NULL without memory, or in a build without libedit. */
struct chat_line_editor *chat_line_editor_create(struct mt_context *ctx, struct mt_interrupt *signals);
void chat_line_editor_destroy(struct chat_line_editor *editor); // NULL is allowed

/* The next line, with its end, valid until the next call; *text is NULL: there is none. It is remembered. */
enum mt_status chat_line_edit(struct chat_line_editor *editor, const char **text, int *bytes);

/* What chat_lines_watch does at an editor. */
enum mt_status chat_line_watch(struct chat_line_editor *editor, bool *stop);

#endif
