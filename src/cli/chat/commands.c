/* What a line that begins with / does. A command is a row and a function. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "cli/chat/chat.h"
#include "formats/text/json_text.h"
#include "formats/text/printable.h"

#define NAME_BYTES 4096

struct command {
    const char *name, *argument, *help;
    enum mt_status (*run)(struct chat *chat, const char *argument, bool *quit);
};

static const struct command commands[];

static enum mt_status show_help(struct chat *chat, const char *argument, bool *quit)
{
    (void)chat;
    (void)argument;
    (void)quit;
    for (const struct command *command = commands; command->name != NULL; command++)
        (void)fprintf(stderr, "  %-10s %-8s %s\n", command->name, command->argument, command->help);
    (void)fprintf(stderr, "  Ctrl-C stops an answer, Ctrl-D ends.\n");
    return MT_OK;
}

static enum mt_status begin_again(struct chat *chat, const char *argument, bool *quit)
{
    (void)argument;
    (void)quit;
    return chat_reset(chat);
}

static enum mt_status set_system(struct chat *chat, const char *argument, bool *quit)
{
    (void)quit;
    chat->system.count = 0;
    enum mt_status status = mt_byte_list_append_text(&chat->system, argument);
    if (status == MT_OK) status = chat_reset(chat);
    (void)fprintf(stderr, argument[0] != '\0' ? "(a new conversation, which begins with that)\n"
                                              : "(a new conversation, without a system text)\n");
    return status;
}

/* One row of training data, as messages. */
static enum mt_status save(struct chat *chat, const char *argument, bool *quit)
{
    (void)quit;
    struct mt_json_text text;
    if (argument[0] == '\0') {
        (void)fprintf(stderr, "(/save FILE)\n");
        return MT_OK;
    }
    if (access(argument, F_OK) == 0) {
        (void)fprintf(stderr, "(%s is there already: another name)\n", mt_printable(argument).text);
        return MT_OK;
    }
    mt_json_text_init(&text, chat->ctx);
    mt_json_text_format(&text, "{\"messages\": [");
    for (size_t i = 0; i < chat->count; i++) {
        const struct chat_said *said = &chat->said[i];
        mt_json_text_format(&text, "%s{\"role\": \"%s\", \"content\": ", i > 0 ? ", " : "",
                            mt_role_name(said->role));
        mt_json_text_bytes(&text, chat->texts.data + said->first, said->bytes);
        mt_json_text_format(&text, "}");
    }
    mt_json_text_format(&text, "]}\n");
    enum mt_status status = mt_json_text_save(&text, argument);
    if (status == MT_OK) (void)fprintf(stderr, "(written: %s)\n", mt_printable(argument).text);
    if (status != MT_OK) (void)fprintf(stderr, "(%s)\n", chat->ctx->message);
    return MT_OK;
}

/* What chat_open opens. */
struct opened {
    struct mt_session session;
    struct mt_routing_log *log;
    struct mt_routing_trace trace;
    struct mt_answer answer;
};

static struct opened take_opened(struct chat *chat)
{
    struct opened opened = {
        .session = chat->session, .log = chat->log, .trace = chat->trace, .answer = chat->answer};
    chat->session = (struct mt_session){0};
    chat->log = NULL;
    chat->trace = (struct mt_routing_trace){0};
    chat->answer = (struct mt_answer){0};
    return opened;
}

static void give_opened(struct chat *chat, const struct opened *opened)
{
    chat->session = opened->session;
    chat->log = opened->log;
    chat->trace = opened->trace;
    chat->answer = opened->answer;
}

/* In its place: the log knows the session by that. */
static void close_opened(struct chat *chat)
{
    mt_routing_trace_end(chat->log, &chat->trace);
    mt_routing_log_destroy(chat->log);
    mt_answer_free(&chat->answer);
    mt_session_close(&chat->session);
}

/* The other session is opened first: where that fails, the conversation goes on with this one. */
static enum mt_status set_adapter(struct chat *chat, const char *argument, bool *quit)
{
    (void)quit;
    struct mt_byte_list name = {.ctx = chat->ctx};
    enum mt_status status = mt_byte_list_append(&name, argument, strlen(argument) + 1);
    if (status != MT_OK) return status;
    bool none = argument[0] == '\0' || strcmp(argument, "none") == 0;
    const char *adapter = chat->infer.adapter;
    struct opened before = take_opened(chat);
    chat->infer.adapter = none ? NULL : (const char *)name.data;
    status = chat_open(chat);
    if (status != MT_OK) {
        (void)fprintf(stderr, "(%s)\n", chat->ctx->message);
        close_opened(chat);
        give_opened(chat, &before);
        chat->infer.adapter = adapter;
        mt_byte_list_free(&name);
        return MT_OK;
    }
    struct opened made = take_opened(chat);
    give_opened(chat, &before);
    close_opened(chat);
    give_opened(chat, &made);
    mt_byte_list_free(&chat->adapter);
    chat->adapter = name;
    (void)fprintf(stderr, "(a new conversation, %s)\n",
                  none ? "without an adapter" : mt_printable(chat->infer.adapter).text);
    return chat_reset(chat);
}

static enum mt_status show_experts(struct chat *chat, const char *argument, bool *quit)
{
    (void)quit;
    char *end = NULL;
    errno = 0;
    long long layer = argument[0] != '\0' ? strtoll(argument, &end, 10) : -1;
    if (argument[0] != '\0' && (*end != '\0' || errno != 0 || layer < 0)) {
        (void)fprintf(stderr, "(/experts, or /experts LAYER)\n");
        return MT_OK;
    }
    return chat_show_experts(chat, layer);
}

static enum mt_status end(struct chat *chat, const char *argument, bool *quit)
{
    (void)chat;
    (void)argument;
    *quit = true;
    return MT_OK;
}

static const struct command commands[] = {
    {"/help", "", "this", show_help},
    {"/reset", "", "begins a new conversation", begin_again},
    {"/system", "TEXT", "begins one that starts with TEXT; without TEXT, with nothing", set_system},
    {"/adapter", "DIR", "begins one with another adapter; none: without", set_adapter},
    {"/experts", "LAYER", "the last answer, each token with its experts of a layer", show_experts},
    {"/save", "FILE", "writes the conversation as a row of training data", save},
    {"/quit", "", "ends", end},
    {0},
};

enum mt_status chat_command(struct chat *chat, bool *quit)
{
    char text[NAME_BYTES];
    const struct mt_byte_list *line = &chat->lines.line;
    *quit = false;
    if (line->count >= sizeof text || memchr(line->data, '\0', line->count) != NULL) {
        (void)fprintf(stderr, "(a command is shorter than that)\n");
        return MT_OK;
    }
    memcpy(text, line->data, line->count);
    text[line->count] = '\0';
    char *argument = text + strcspn(text, " ");
    if (*argument != '\0') *argument++ = '\0';
    argument += strspn(argument, " ");
    for (const struct command *command = commands; command->name != NULL; command++) {
        if (strcmp(command->name, text) == 0) return command->run(chat, argument, quit);
    }
    (void)fprintf(stderr, "(%s is not a command; /help lists them)\n", mt_printable(text).text);
    return MT_OK;
}
