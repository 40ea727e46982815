/* metier chat: a conversation in the terminal, word by word. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/amount.h"
#include "base/interrupt.h"
#include "cli/cli.h"
#include "cli/infer.h"
#include "formats/text/printable.h"

#define LINE_BYTES  (1 << 20) // of what is said at once
#define WAIT_MILLIS 200       // between two looks for a signal while waiting for input
#define READ_BYTES  4096

struct settings {
    struct infer_settings infer;
    const char *system;
};

/* What was said, one text after the other; turns point into it by offset until they are rendered. */
struct said {
    enum mt_role role;
    size_t first, bytes;
};

struct chat {
    struct mt_context *ctx;
    const struct settings *settings;
    const struct cli_call *given;
    struct mt_session session;
    struct mt_interrupt interrupt;
    struct mt_byte_list texts;
    struct said *said;
    struct mt_turn *turns; // the same, as the template reads it
    size_t count, said_capacity, turn_capacity;
    struct mt_id_list ids;
    struct mt_answer answer;
    size_t shown;
    struct mt_byte_list input; // read, but not yet taken as a line
    struct mt_byte_list line;
    bool ended; // no more input
    bool terminal;
};

// ------------------------------------------------------------------ reading

/* Moves the first line of the input to chat->line; false: there is no whole one. */
static enum mt_status take_line(struct chat *chat, bool *taken)
{
    struct mt_byte_list *input = &chat->input;
    const uint8_t *end = input->count > 0 ? memchr(input->data, '\n', input->count) : NULL;
    *taken = end != NULL || (chat->ended && input->count > 0);
    if (!*taken) return MT_OK;
    size_t bytes = end != NULL ? (size_t)(end - input->data) : input->count;
    size_t used = end != NULL ? bytes + 1 : bytes;
    chat->line.count = 0;
    enum mt_status status = mt_byte_list_append(&chat->line, input->data, bytes);
    if (status != MT_OK) return status;
    if (bytes > 0 && chat->line.data[bytes - 1] == '\r') chat->line.count--;
    memmove(input->data, input->data + used, input->count - used);
    input->count -= used;
    return MT_OK;
}

static enum mt_status read_more(struct chat *chat)
{
    char bytes[READ_BYTES];
    ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return MT_OK;
    if (count < 0) return mt_fail(chat->ctx, MT_ERR_IO, "cannot read standard input: %s", strerror(errno));
    chat->ended = count == 0;
    if (chat->input.count + (size_t)count > LINE_BYTES)
        return mt_fail(chat->ctx, MT_ERR_USAGE, "a line of more than %d bytes", LINE_BYTES);
    return mt_byte_list_append(&chat->input, bytes, (size_t)count);
}

/* Signals are looked for, so that a key pressed too late to stop an answer does not end the program. */
static bool told_to_end(struct chat *chat)
{
    int signal = mt_interrupt_seen(&chat->interrupt);
    if (signal == 0) return false;
    mt_interrupt_forget(&chat->interrupt);
    if (signal != SIGINT) return true;
    (void)fprintf(stderr, "\n(/quit or Ctrl-D ends)\n> ");
    return false;
}

/* Waits for a line; *got is false at the end. */
static enum mt_status next_line(struct chat *chat, bool *got)
{
    if (chat->terminal) (void)fprintf(stderr, "> ");
    for (;;) {
        enum mt_status status = take_line(chat, got);
        if (status != MT_OK || *got || chat->ended) return status;
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        int ready = poll(&input, 1, WAIT_MILLIS);
        if (told_to_end(chat)) return MT_OK;
        if (ready > 0) status = read_more(chat);
        if (status != MT_OK) return status;
    }
}

// ------------------------------------------------------------------ the conversation

static enum mt_status say(struct chat *chat, enum mt_role role, const void *text, size_t bytes)
{
    enum mt_status status = MT_OK;
    chat->said = mt_list_reserve(chat->ctx, chat->said, &chat->said_capacity, sizeof *chat->said,
                                 chat->count + 1, &status);
    chat->turns = mt_list_reserve(chat->ctx, chat->turns, &chat->turn_capacity, sizeof *chat->turns,
                                  chat->count + 1, &status);
    size_t first = chat->texts.count;
    if (status == MT_OK) status = mt_byte_list_append(&chat->texts, text, bytes);
    if (status != MT_OK) return status;
    chat->said[chat->count++] = (struct said){.role = role, .first = first, .bytes = bytes};
    return MT_OK;
}

static enum mt_status reset(struct chat *chat)
{
    chat->count = 0;
    chat->texts.count = 0;
    if (chat->settings->system == NULL) return MT_OK;
    return say(chat, MT_ROLE_SYSTEM, chat->settings->system, strlen(chat->settings->system));
}

/* Takes back what was said last. */
static void unsay(struct chat *chat)
{
    chat->count--;
    chat->texts.count = chat->said[chat->count].first;
}

static enum mt_status show(struct chat *chat)
{
    const struct mt_answer *answer = &chat->answer;
    if (answer->settled > chat->shown)
        chat->shown += mt_show_text(stdout, (const char *)answer->text.data + chat->shown,
                                    answer->settled - chat->shown);
    if (fflush(stdout) == 0 && !ferror(stdout)) return MT_OK;
    return mt_fail(chat->ctx, MT_ERR_IO, "cannot write standard output: %s", strerror(errno));
}

static enum mt_status take_token(void *self, int32_t id, bool *stop)
{
    struct chat *chat = self;
    enum mt_status status = mt_answer_push(&chat->answer, id);
    *stop = chat->answer.stopped || mt_interrupt_seen(&chat->interrupt) != 0;
    return status == MT_OK ? show(chat) : status;
}

static enum mt_status encode(struct chat *chat)
{
    for (size_t i = 0; i < chat->count; i++) {
        const struct said *said = &chat->said[i];
        chat->turns[i] = (struct mt_turn){
            .role = said->role, .text = (const char *)chat->texts.data + said->first, .bytes = said->bytes};
    }
    const struct mt_conversation conversation = {
        .ctx = chat->ctx, .turns = chat->turns, .count = chat->count};
    chat->ids.count = 0;
    return mt_session_encode_conversation(&chat->session, &conversation, &chat->ids);
}

/* One answer, printed as it comes. */
static enum mt_status answer(struct chat *chat)
{
    struct mt_generation request = cli_infer_request(&chat->settings->infer, &chat->session);
    request.ids = chat->ids.data;
    request.count = (int64_t)chat->ids.count;
    request.number = chat->count;
    request.self = chat;
    request.token = take_token;
    chat->shown = 0;
    enum mt_status status = mt_answer_clear(&chat->answer);
    if (status == MT_OK) status = mt_engine_add_generation(chat->session.engine, &request);
    for (bool working = true; status == MT_OK && working;)
        status = mt_engine_step(chat->session.engine, &working);
    if (status == MT_OK) status = mt_answer_end(&chat->answer);
    if (status == MT_OK) status = show(chat);
    if (status != MT_OK) return status;
    printf("\n");
    if (mt_interrupt_seen(&chat->interrupt) == SIGINT) mt_interrupt_forget(&chat->interrupt);
    return say(chat, MT_ROLE_ASSISTANT, chat->answer.text.data, chat->answer.text.count);
}

static enum mt_status hear(struct chat *chat)
{
    enum mt_status status = say(chat, MT_ROLE_USER, chat->line.data, chat->line.count);
    if (status == MT_OK) status = encode(chat);
    if (status != MT_OK) return status;
    if ((int64_t)chat->ids.count < chat->session.context) return answer(chat);
    unsay(chat);
    (void)fprintf(stderr,
                  "(that makes %s, and there is room for %" PRId64
                  "; say less, /reset, or start with a larger --context)\n",
                  mt_counted(chat->ids.count, "token", "tokens").text, chat->session.context);
    return MT_OK;
}

static bool line_is(const struct chat *chat, const char *word)
{
    return chat->line.count == strlen(word) && memcmp(chat->line.data, word, chat->line.count) == 0;
}

static enum mt_status talk(struct chat *chat)
{
    bool got = true;
    enum mt_status status = reset(chat);
    while (status == MT_OK && got) {
        status = next_line(chat, &got);
        if (status != MT_OK || !got || line_is(chat, "/quit")) break;
        if (line_is(chat, "/reset")) {
            status = reset(chat);
        } else if (chat->line.count > 0) {
            status = hear(chat);
        }
        int signal = mt_interrupt_seen(&chat->interrupt);
        got = signal == 0 || signal == SIGINT; // SIGTERM during an answer; Ctrl-C just after one is nothing
    }
    if (chat->terminal) (void)fprintf(stderr, "\n");
    return status;
}

static enum mt_status run(struct chat *chat)
{
    const struct infer_settings *infer = &chat->settings->infer;
    enum mt_status status = cli_infer_open_found(chat->ctx, infer, &chat->session);
    if (status == MT_OK) status = cli_infer_check_drawing(infer, &chat->session, chat->given);
    if (status != MT_OK) return status;
    struct mt_log log;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    cli_infer_warn_of_texts(&chat->session, &log);
    if (chat->session.template != NULL && !mt_session_talks(&chat->session)) cli_infer_warn_of_plain(&log);
    const char *const *stops = infer->stops.count > 0 ? infer->stops.item : NULL;
    status = mt_answer_create(chat->ctx, chat->session.tokenizer, stops, &chat->answer);
    return status == MT_OK ? talk(chat) : status;
}

static void close_all(struct chat *chat)
{
    mt_answer_free(&chat->answer);
    mt_byte_list_free(&chat->texts);
    mt_byte_list_free(&chat->input);
    mt_byte_list_free(&chat->line);
    mt_id_list_free(&chat->ids);
    mt_release(chat->ctx, chat->said, chat->said_capacity * sizeof *chat->said);
    mt_release(chat->ctx, chat->turns, chat->turn_capacity * sizeof *chat->turns);
    mt_session_close(&chat->session);
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {0};
    cli_infer_settings_init(&settings.infer);
    settings.infer.own_template = true;
    struct cli_option options[INFER_OPTIONS + 2] = {
        {"--system", CLI_TEXT, &settings.system, "TEXT", "what the conversation begins with"},
    };
    cli_infer_options(&settings.infer, options + 1);
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    if (call->positional_count != 1) return mt_fail(call->ctx, MT_ERR_USAGE, "expected one model folder");
    status = cli_infer_check(&settings.infer, call);
    if (status != MT_OK) return status;
    settings.infer.directory = call->positional[0];
    struct chat chat = {.ctx = call->ctx,
                        .settings = &settings,
                        .given = call,
                        .texts = {.ctx = call->ctx},
                        .ids = {.ctx = call->ctx},
                        .input = {.ctx = call->ctx},
                        .line = {.ctx = call->ctx},
                        .terminal = isatty(STDIN_FILENO) != 0};
    mt_interrupt_begin(&chat.interrupt, NULL, NULL); // before the device makes threads
    status = run(&chat);
    mt_interrupt_end(&chat.interrupt);
    close_all(&chat);
    return status;
}

const struct cli_verb cli_verb_chat = {
    .name = "chat",
    .summary = "talk with a model in the terminal",
    .arguments = "DIR",
    .counts_arguments = true,
    .details =
        "DIR is a Hugging Face model folder. The conversation is written out as the run was trained that\n"
        "made the model or the adapter, else by the model's own chat template, unless --template names\n"
        "another: one of those that come along (share/templates) or a file. Sampling is\n"
        "as generation_config.json says, greedy where it says nothing, unless options say otherwise.\n"
        "/reset begins a new conversation, /quit or Ctrl-D ends; Ctrl-C stops an answer.",
    .examples = "  metier chat models/Moonlight-16B-A3B-Instruct\n"
                "  metier chat models/moe --adapter runs/first/adapter --temperature 0.7\n"
                "  metier chat models/moe --template chatml --system 'You answer in one sentence.'",
    .run = run_verb,
};
