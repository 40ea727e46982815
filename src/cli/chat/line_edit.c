/*
 * The editor: libedit, with the lines of this conversation to go back to. Nothing is kept in a file.
 *
 * A person types at any moment, also while an answer is written or just before the prompt. libedit would
 * leave the terminal in line mode between two lines. There a Ctrl-D becomes a zero byte once the mode
 * changes, long lines are cut, and Ctrl-C overtakes the keys typed before it. So we stay out of line mode:
 * all keys come to us in order, Ctrl-C and Ctrl-Z among them. Those typed during an answer wait for the next
 * line.
 */
#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/chat/line.h"

#define WAIT_MILLIS  200
#define MOST_HISTORY 1000
#define MOST_AHEAD   (1 << 20) // bytes typed during an answer; more wait in the terminal
#define READ_BYTES   256
#define CTRL_C       0x03
#define CTRL_D       0x04
#define KILL_LINE    0x15 // Ctrl-U
#define CTRL_Z       0x1a

struct chat_line_editor {
    struct mt_context *ctx;       // borrowed
    struct mt_interrupt *signals; // borrowed
    EditLine *line;
    History *history;
    HistEvent event;
    mbstate_t shift;           // of the character that is being read
    bool ended;                // a signal asked for the end, or there are no more keys
    bool stopped;              // Ctrl-C was typed, and nothing was done about it yet
    enum mt_status status;     // of reading keys
    struct termios found;      // the terminal's mode before us
    struct termios between;    // and between two lines
    int line_mode_bytes;       // unread bytes that came while the terminal was in line mode
    struct mt_byte_list ahead; // keys, read but not yet taken
    size_t taken;              // of those
};

static char *prompt(EditLine *line)
{
    (void)line;
    static char text[] = "> ";
    return text;
}

/*
 * Takes the terminal out of line mode, where it is at the beginning and where a shell puts it when it
 * continues us after a Ctrl-Z. False: it was not in line mode.
 */
static bool leave_line_mode(struct chat_line_editor *editor)
{
    struct termios now;
    if (tcgetattr(STDIN_FILENO, &now) != 0 || (now.c_lflag & ICANON) == 0) return false;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &editor->between);
    (void)ioctl(STDIN_FILENO, FIONREAD, &editor->line_mode_bytes);
    return true;
}

static enum mt_status take_key(struct chat_line_editor *editor, unsigned char key)
{
    if (editor->line_mode_bytes > 0) {
        editor->line_mode_bytes--;
        if (key == 0) key = CTRL_D;
    }
    if (key == CTRL_Z) {
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &editor->found);
        (void)kill(0, SIGTSTP); // returns when we are continued
        return MT_OK;
    }
    if (key != CTRL_C) return mt_byte_list_append(&editor->ahead, &key, 1);
    editor->stopped = true;
    editor->ahead.count = 0; // as a terminal does: what was typed before it is thrown away
    editor->taken = 0;
    return MT_OK;
}

/* Waits for keys and takes those that came. */
static enum mt_status read_keys(struct chat_line_editor *editor, int millis)
{
    unsigned char keys[READ_BYTES];
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    if (editor->ahead.count >= MOST_AHEAD || poll(&input, 1, millis) <= 0) return MT_OK;
    ssize_t count = read(STDIN_FILENO, keys, sizeof keys);
    editor->ended = count == 0 || (count < 0 && errno != EINTR);
    enum mt_status status = MT_OK;
    for (ssize_t i = 0; i < count && status == MT_OK; i++) status = take_key(editor, keys[i]);
    return status;
}

/* Sets the editor's mode again and shows the line at hand, after a shell had the terminal. */
static void show_again(EditLine *line)
{
    (void)el_set(line, EL_PREP_TERM, 0);
    (void)el_set(line, EL_PREP_TERM, 1);
    (void)el_set(line, EL_REFRESH);
}

/* One key, or a Ctrl-C that came instead; false: none comes any more. */
static bool read_key(struct chat_line_editor *editor, unsigned char *key)
{
    for (;;) {
        enum chat_signal seen = chat_signal_seen(editor->signals);
        editor->ended = editor->ended || seen == CHAT_SIGNAL_END;
        if (editor->stopped || seen == CHAT_SIGNAL_CLEAR) {
            editor->stopped = false;
            *key = CTRL_C;
            return true;
        }
        if (editor->taken < editor->ahead.count) {
            *key = editor->ahead.data[editor->taken++];
            return true;
        }
        if (editor->ended || editor->status != MT_OK) return false;
        editor->ahead.count = 0;
        editor->taken = 0;
        if (leave_line_mode(editor)) show_again(editor->line);
        editor->status = read_keys(editor, WAIT_MILLIS);
    }
}

/* A character for the editor. libedit's own reader would not look for signals, which are blocked. */
static int read_character(EditLine *line, wchar_t *character)
{
    struct chat_line_editor *editor = NULL;
    unsigned char key = 0;
    (void)el_get(line, EL_CLIENTDATA, &editor);
    while (read_key(editor, &key)) {
        if (key == CTRL_C) {
            editor->shift = (mbstate_t){0};
            (void)fprintf(stderr, "  (/quit or Ctrl-D ends)\n");
            (void)el_set(line, EL_REFRESH);
            *character = KILL_LINE;
            return 1;
        }
        char text = (char)key;
        size_t used = mbrtowc(character, &text, 1, &editor->shift);
        if (used == (size_t)-2) continue; // more bytes belong to it
        if (used == (size_t)-1) {         // no character: shown as what stands for such
            editor->shift = (mbstate_t){0};
            *character = L'?';
        }
        return 1;
    }
    return 0;
}

struct chat_line_editor *chat_line_editor_create(struct mt_context *ctx, struct mt_interrupt *signals)
{
    void *memory = NULL;
    if (mt_allocate_array(ctx, 1, sizeof(struct chat_line_editor), &memory) != MT_OK) return NULL;
    struct chat_line_editor *editor = memory;
    editor->ctx = ctx;
    editor->signals = signals;
    editor->ahead.ctx = ctx;
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
    (void)tcgetattr(STDIN_FILENO, &editor->found);
    (void)el_set(editor->line, EL_SETTY, "-d", "intr=", "susp=", NULL);
    (void)el_set(editor->line, EL_SETTY, "-x", "-icanon", "-echo", "intr=", "susp=", NULL);
    (void)tcgetattr(STDIN_FILENO, &editor->between);
    (void)ioctl(STDIN_FILENO, FIONREAD, &editor->line_mode_bytes);
    return editor;
}

void chat_line_editor_destroy(struct chat_line_editor *editor)
{
    if (editor == NULL) return;
    if (editor->line != NULL) el_end(editor->line);
    if (editor->history != NULL) history_end(editor->history);
    mt_byte_list_free(&editor->ahead);
    mt_release(editor->ctx, editor, sizeof *editor);
}

enum mt_status chat_line_edit(struct chat_line_editor *editor, const char **text, int *bytes)
{
    *bytes = 0;
    (void)leave_line_mode(editor); // before libedit sees it and believes that the user changed the keys
    *text = el_gets(editor->line, bytes);
    if (editor->ended || editor->status != MT_OK || *bytes <= 0) *text = NULL;
    if (*text != NULL && *bytes > 1) (void)history(editor->history, &editor->event, H_ENTER, *text);
    return editor->status;
}

enum mt_status chat_line_watch(struct chat_line_editor *editor, bool *stop)
{
    pid_t owner = tcgetpgrp(STDIN_FILENO);
    *stop = false;
    if (owner > 0 && owner != getpgrp()) return MT_OK; // in the background: the keys are the shell's
    (void)leave_line_mode(editor);
    enum mt_status status = read_keys(editor, 0);
    *stop = editor->stopped || editor->ended;
    editor->stopped = false;
    return status;
}
