/* Lines of standard input: from the editor, or cut out of what comes. */
#include "cli/chat/line.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES  (1 << 20) // of what is said at once
#define WAIT_MILLIS 200       // between two looks for a signal while waiting for input
#define READ_BYTES  4096

enum chat_signal chat_signal_seen(struct mt_interrupt *signals)
{
    int signal = mt_interrupt_seen(signals);
    if (signal == 0) return CHAT_SIGNAL_NONE;
    if (signal != SIGINT) return CHAT_SIGNAL_END;
    mt_interrupt_forget(signals); // a key pressed too late to stop an answer does not end the program
    return CHAT_SIGNAL_CLEAR;
}

enum mt_status chat_lines_open(struct mt_context *ctx, struct mt_interrupt *signals, struct chat_lines *lines)
{
    *lines = (struct chat_lines){.ctx = ctx,
                                 .signals = signals,
                                 .terminal = isatty(STDIN_FILENO) == 1,
                                 .input = {.ctx = ctx},
                                 .line = {.ctx = ctx}};
    if (lines->terminal && isatty(STDOUT_FILENO) == 1) lines->editor = chat_line_editor_create(ctx, signals);
    return MT_OK;
}

void chat_lines_close(struct chat_lines *lines)
{
    if (lines->ctx == NULL) return;
    chat_line_editor_destroy(lines->editor);
    mt_byte_list_free(&lines->input);
    mt_byte_list_free(&lines->line);
    *lines = (struct chat_lines){0};
}

static enum mt_status set_line(struct chat_lines *lines, const void *text, size_t bytes)
{
    lines->line.count = 0;
    enum mt_status status = mt_byte_list_append(&lines->line, text, bytes);
    if (status != MT_OK) return status;
    while (lines->line.count > 0 && strchr("\r\n", lines->line.data[lines->line.count - 1]) != NULL)
        lines->line.count--;
    return MT_OK;
}

/* Takes the first line of the input; *taken is false where there is no whole one. */
static enum mt_status take_line(struct chat_lines *lines, bool *taken)
{
    struct mt_byte_list *input = &lines->input;
    const uint8_t *end = input->count > 0 ? memchr(input->data, '\n', input->count) : NULL;
    *taken = end != NULL || (lines->ended && input->count > 0);
    if (!*taken) return MT_OK;
    size_t used = end != NULL ? (size_t)(end - input->data) + 1 : input->count;
    enum mt_status status = set_line(lines, input->data, used);
    if (status != MT_OK) return status;
    memmove(input->data, input->data + used, input->count - used);
    input->count -= used;
    return MT_OK;
}

static enum mt_status read_more(struct chat_lines *lines)
{
    char bytes[READ_BYTES];
    ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return MT_OK;
    if (count < 0) return mt_fail(lines->ctx, MT_ERR_IO, "cannot read standard input: %s", strerror(errno));
    lines->ended = count == 0;
    if (lines->input.count + (size_t)count > LINE_BYTES)
        return mt_fail(lines->ctx, MT_ERR_USAGE, "the line is longer than %d bytes", LINE_BYTES);
    return mt_byte_list_append(&lines->input, bytes, (size_t)count);
}

enum mt_status chat_lines_next(struct chat_lines *lines, bool *got)
{
    if (lines->editor != NULL) {
        int bytes = 0;
        const char *text = NULL;
        enum mt_status status = chat_line_edit(lines->editor, &text, &bytes);
        *got = text != NULL;
        if (status != MT_OK) return status;
        if (bytes > LINE_BYTES)
            return mt_fail(lines->ctx, MT_ERR_USAGE, "the line is longer than %d bytes", LINE_BYTES);
        return *got ? set_line(lines, text, (size_t)bytes) : MT_OK;
    }
    if (lines->terminal) (void)fprintf(stderr, "> ");
    for (;;) {
        enum mt_status status = take_line(lines, got);
        if (status != MT_OK || *got || lines->ended) return status;
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        int ready = poll(&input, 1, WAIT_MILLIS);
        switch (chat_signal_seen(lines->signals)) {
        case CHAT_SIGNAL_NONE: break;
        case CHAT_SIGNAL_CLEAR: (void)fprintf(stderr, "\n(/quit or Ctrl-D ends)\n> "); break;
        case CHAT_SIGNAL_END: return MT_OK;
        }
        if (ready > 0) status = read_more(lines);
        if (status != MT_OK) return status;
    }
}

enum mt_status chat_lines_watch(struct chat_lines *lines, bool *stop)
{
    enum mt_status status = MT_OK;
    *stop = false;
    if (lines->editor != NULL) status = chat_line_watch(lines->editor, stop);
    *stop = *stop || mt_interrupt_seen(lines->signals) != 0;
    return status;
}
