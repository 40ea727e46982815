/* The editor: libedit, with the lines of this conversation to go back to. Nothing is kept in a file. */
#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/chat/line.h"

#define WAIT_MILLIS  200
#define MOST_HISTORY 1000
#define KILL_LINE    0x15 // Ctrl-U

struct chat_line_editor {
    struct mt_context *ctx;       // borrowed
    struct mt_interrupt *signals; // borrowed
    EditLine *line;
    History *history;
    HistEvent event;
    mbstate_t shift; // of the character that is being read
    bool ended;      // a signal asked for the end
};

static char *prompt(EditLine *line)
{
    (void)line;
    static char text[] = "> ";
    return text;
}

/* One byte; 0: none comes any more. *clear: a Ctrl-C came instead. */
static int read_byte(struct chat_line_editor *editor, unsigned char *byte, bool *clear)
{
    for (;;) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        int ready = poll(&input, 1, WAIT_MILLIS);
        enum chat_signal seen = chat_signal_seen(editor->signals);
        *clear = seen == CHAT_SIGNAL_CLEAR;
        if (*clear) return 1;
        editor->ended = seen == CHAT_SIGNAL_END;
        if (editor->ended) return 0;
        if (ready <= 0) continue;
        ssize_t count = read(STDIN_FILENO, byte, 1);
        if (count >= 0) return (int)count;
        if (errno != EINTR) return 0;
    }
}

/* A character for the editor. libedit's own reader would not look for signals, which are blocked. */
static int read_character(EditLine *line, wchar_t *character)
{
    struct chat_line_editor *editor = NULL;
    unsigned char byte = 0;
    bool clear = false;
    (void)el_get(line, EL_CLIENTDATA, &editor);
    for (;;) {
        int count = read_byte(editor, &byte, &clear);
        if (count <= 0) return count;
        if (clear) {
            (void)fprintf(stderr, "  (/quit or Ctrl-D ends)\n");
            (void)el_set(line, EL_REFRESH);
            *character = KILL_LINE;
            return 1;
        }
        char text = (char)byte;
        size_t used = mbrtowc(character, &text, 1, &editor->shift);
        if (used == (size_t)-2) continue; // more bytes belong to it
        if (used == (size_t)-1) {         // no character: shown as what stands for such
            editor->shift = (mbstate_t){0};
            *character = L'?';
        }
        return 1;
    }
}

struct chat_line_editor *chat_line_editor_create(struct mt_context *ctx, struct mt_interrupt *signals)
{
    void *memory = NULL;
    if (mt_allocate_array(ctx, 1, sizeof(struct chat_line_editor), &memory) != MT_OK) return NULL;
    struct chat_line_editor *editor = memory;
    editor->ctx = ctx;
    editor->signals = signals;
    editor->history = history_init();
    editor->line = el_init("metier", stdin, stdout, stderr);
    if (editor->history == NULL || editor->line == NULL) {
        chat_line_editor_destroy(editor);
        return NULL;
    }
    (void)history(editor->history, &editor->event, H_SETSIZE, MOST_HISTORY);
    (void)history(editor->history, &editor->event, H_SETUNIQUE, 1);
    (void)el_set(editor->line, EL_PROMPT, prompt);
    (void)el_set(editor->line, EL_EDITOR, "emacs");
    (void)el_set(editor->line, EL_HIST, history, editor->history);
    (void)el_set(editor->line, EL_CLIENTDATA, editor);
    (void)el_set(editor->line, EL_GETCFN, read_character);
    (void)el_source(editor->line, NULL); // the user's .editrc
    return editor;
}

void chat_line_editor_destroy(struct chat_line_editor *editor)
{
    if (editor == NULL) return;
    if (editor->line != NULL) el_end(editor->line);
    if (editor->history != NULL) history_end(editor->history);
    mt_release(editor->ctx, editor, sizeof *editor);
}

const char *chat_line_edit(struct chat_line_editor *editor, int *bytes)
{
    *bytes = 0;
    const char *text = el_gets(editor->line, bytes);
    if (editor->ended || text == NULL || *bytes <= 0) return NULL;
    if (*bytes > 1) (void)history(editor->history, &editor->event, H_ENTER, text);
    return text;
}
