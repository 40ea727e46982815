/* metier chat: a conversation in the terminal, word by word. */
#include "cli/chat/chat.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/amount.h"
#include "formats/text/printable.h"

// ------------------------------------------------------------------ the conversation

enum mt_status chat_say(struct chat *chat, enum mt_role role, const void *text, size_t bytes)
{
    enum mt_status status = MT_OK;
    chat->said = mt_list_reserve(chat->ctx, chat->said, &chat->said_capacity, sizeof *chat->said,
                                 chat->count + 1, &status);
    chat->turns = mt_list_reserve(chat->ctx, chat->turns, &chat->turn_capacity, sizeof *chat->turns,
                                  chat->count + 1, &status);
    size_t first = chat->texts.count;
    if (status == MT_OK) status = mt_byte_list_append(&chat->texts, text, bytes);
    if (status != MT_OK) return status;
    chat->said[chat->count++] = (struct chat_said){.role = role, .first = first, .bytes = bytes};
    return MT_OK;
}

enum mt_status chat_reset(struct chat *chat)
{
    chat->count = 0;
    chat->texts.count = 0;
    if (chat->system.count == 0) return MT_OK;
    return chat_say(chat, MT_ROLE_SYSTEM, chat->system.data, chat->system.count);
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
    *stop = chat->answer.stopped;
    return status == MT_OK ? show(chat) : status;
}

static enum mt_status encode(struct chat *chat)
{
    for (size_t i = 0; i < chat->count; i++) {
        const struct chat_said *said = &chat->said[i];
        chat->turns[i] = (struct mt_turn){
            .role = said->role, .text = (const char *)chat->texts.data + said->first, .bytes = said->bytes};
    }
    const struct mt_conversation conversation = {
        .ctx = chat->ctx, .turns = chat->turns, .count = chat->count};
    chat->ids.count = 0;
    return mt_session_encode_conversation(&chat->session, &conversation, &chat->ids);
}

static enum mt_status take_end(void *self, enum mt_finish why)
{
    struct chat *chat = self;
    chat->why = why;
    return MT_OK;
}

/* Room to remember the experts of one more answer. Without it the answer is as good. */
static void begin_trace(struct chat *chat)
{
    if (chat->log == NULL) return;
    mt_routing_trace_end(chat->log, &chat->trace);
    (void)mt_routing_trace_begin(chat->log, chat->ctx, chat, chat->session.context, &chat->trace);
}

/* Says where an answer was cut: what follows is not the model's end. */
static void mark_cut(const struct chat *chat)
{
    const struct mt_counted tokens = mt_counted(chat->answer.ids.count, "token", "tokens");
    if (chat->why == MT_FINISH_LENGTH)
        (void)fprintf(stderr, "(cut after %s; --max-new and --context give more room)\n", tokens.text);
    if (chat->why == MT_FINISH_CALLER && !chat->answer.stopped)
        (void)fprintf(stderr, "(stopped after %s)\n", tokens.text);
}

/* Computes until the answer ends or is stopped, which may be before its first token. */
static enum mt_status compute(struct chat *chat)
{
    bool working = true;
    bool stop = false;
    enum mt_status status = MT_OK;
    chat->why = MT_FINISH_CALLER;
    while (status == MT_OK && working && !stop) {
        status = mt_engine_step(chat->session.engine, &working);
        if (status == MT_OK) status = chat_lines_watch(&chat->lines, &stop);
    }
    mt_engine_forget(chat->session.engine); // what a stop left there
    return status;
}

/* One answer, printed as it comes. */
static enum mt_status answer(struct chat *chat)
{
    struct mt_generation request = cli_infer_request(&chat->infer, &chat->session);
    request.ids = chat->ids.data;
    request.count = (int64_t)chat->ids.count;
    request.number = chat->count;
    request.self = chat;
    request.token = take_token;
    request.finished = take_end;
    chat->shown = 0;
    begin_trace(chat);
    enum mt_status status = mt_answer_clear(&chat->answer);
    if (status == MT_OK) status = mt_engine_add_generation(chat->session.engine, &request);
    if (status == MT_OK) status = compute(chat);
    if (status == MT_OK) status = mt_answer_end(&chat->answer);
    if (status == MT_OK) status = show(chat);
    if (status != MT_OK) return status;
    printf("\n");
    (void)fflush(stdout);
    mark_cut(chat);
    if (mt_interrupt_seen(&chat->interrupt) == SIGINT) mt_interrupt_forget(&chat->interrupt);
    if (chat->why == MT_FINISH_CALLER && chat->answer.ids.count == 0) {
        unsay(chat); // a question without an answer would be asked again with the next one
        return MT_OK;
    }
    return chat_say(chat, MT_ROLE_ASSISTANT, chat->answer.text.data, chat->answer.text.count);
}

static enum mt_status hear(struct chat *chat)
{
    const struct mt_byte_list *line = &chat->lines.line;
    enum mt_status status = chat_say(chat, MT_ROLE_USER, line->data, line->count);
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

static enum mt_status talk(struct chat *chat)
{
    bool got = true;
    bool quit = false;
    enum mt_status status = chat_reset(chat);
    while (status == MT_OK && got && !quit) {
        const struct mt_byte_list *line = &chat->lines.line;
        status = chat_lines_next(&chat->lines, &got);
        if (status != MT_OK || !got) break;
        if (line->count > 0 && line->data[0] == '/') {
            status = chat_command(chat, &quit);
        } else if (line->count > 0) {
            status = hear(chat);
        }
        int signal = mt_interrupt_seen(&chat->interrupt);
        got = signal == 0 || signal == SIGINT; // SIGTERM during an answer; Ctrl-C just after one is nothing
    }
    if (chat->lines.terminal) (void)fprintf(stderr, "\n");
    return status;
}

// ------------------------------------------------------------------ opening

enum mt_status chat_open(struct chat *chat)
{
    const struct infer_settings *infer = &chat->infer;
    enum mt_status status = cli_infer_open_found(chat->ctx, infer, &chat->session);
    if (status == MT_OK) status = cli_infer_check_drawing(infer, &chat->session, chat->given);
    const char *const *stops = infer->stops.count > 0 ? infer->stops.item : NULL;
    if (status == MT_OK) status = mt_answer_create(chat->ctx, chat->session.tokenizer, stops, &chat->answer);
    if (status == MT_OK) status = mt_routing_log_create(&chat->session, &chat->log);
    if (status != MT_OK) return status;
    struct mt_log log;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    cli_infer_warn_of_texts(&chat->session, &log);
    if (chat->session.template != NULL && !mt_session_talks(&chat->session)) cli_infer_warn_of_plain(&log);
    return MT_OK;
}

static void show_banner(const struct chat *chat)
{
    const struct mt_model_desc *desc = mt_model_description(chat->session.model);
    if (!chat->lines.terminal) return;
    (void)fprintf(stderr, "%s%s%s: %" PRId64 " layers", mt_printable(chat->infer.directory).text,
                  chat->infer.adapter != NULL ? " with " : "",
                  chat->infer.adapter != NULL ? mt_printable(chat->infer.adapter).text : "", desc->layers);
    if (chat->log != NULL)
        (void)fprintf(stderr, ", %d of %d experts a token", desc->router.slots, desc->experts);
    (void)fprintf(stderr, "; room for %" PRId64 " tokens. /help lists commands\n", chat->session.context);
}

static enum mt_status run(struct chat *chat, const char *system)
{
    enum mt_status status = chat_open(chat);
    if (status == MT_OK && system != NULL) status = mt_byte_list_append_text(&chat->system, system);
    if (status == MT_OK) status = chat_lines_open(chat->ctx, &chat->interrupt, &chat->lines);
    if (status != MT_OK || mt_interrupt_seen(&chat->interrupt) != 0) return status; // stopped while loading
    show_banner(chat);
    return talk(chat);
}

static void close_all(struct chat *chat)
{
    if (chat->log != NULL) mt_routing_trace_end(chat->log, &chat->trace);
    mt_routing_log_destroy(chat->log);
    mt_answer_free(&chat->answer);
    chat_lines_close(&chat->lines);
    mt_byte_list_free(&chat->texts);
    mt_byte_list_free(&chat->system);
    mt_byte_list_free(&chat->adapter);
    mt_id_list_free(&chat->ids);
    mt_release(chat->ctx, chat->said, chat->said_capacity * sizeof *chat->said);
    mt_release(chat->ctx, chat->turns, chat->turn_capacity * sizeof *chat->turns);
    mt_session_close(&chat->session);
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct chat chat = {.ctx = call->ctx,
                        .given = call,
                        .texts = {.ctx = call->ctx},
                        .system = {.ctx = call->ctx},
                        .adapter = {.ctx = call->ctx},
                        .ids = {.ctx = call->ctx}};
    const char *system = NULL;
    cli_infer_settings_init(&chat.infer);
    chat.infer.own_template = true;
    struct cli_option options[INFER_OPTIONS + 2] = {
        {"--system", CLI_TEXT, &system, "TEXT", "system message"},
    };
    cli_infer_options(&chat.infer, options + 1);
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    if (call->positional_count != 1) return mt_fail(call->ctx, MT_ERR_USAGE, "expected one model folder");
    status = cli_infer_check(&chat.infer, call);
    if (status != MT_OK) return status;
    chat.infer.directory = call->positional[0];
    mt_interrupt_begin(&chat.interrupt, NULL, NULL); // before the device makes threads
    status = run(&chat, system);
    int signal = mt_interrupt_seen(&chat.interrupt);
    mt_interrupt_end(&chat.interrupt);
    close_all(&chat);
    if (signal != 0) call->exit_status = 128 + signal;
    return status;
}

const struct cli_verb cli_verb_chat = {
    .name = "chat",
    .summary = "chat with a model in the terminal",
    .arguments = "DIR",
    .counts_arguments = true,
    .details =
        "DIR is a Hugging Face model folder. The conversation has the form in which the adapter or model "
        "was\n"
        "trained, else that of the model's own chat template. --template overrides both with a template of\n"
        "share/templates or a file. Sampling follows generation_config.json, and is greedy if that file "
        "sets\n"
        "none; options override single values.\n"
        "A line that begins with / is a command, and /help lists them. /experts shows the experts of the "
        "last\n"
        "answer's tokens, /adapter DIR changes the adapter, /save FILE saves the conversation. Ctrl-C stops\n"
        "an answer, Ctrl-D ends.",
    .examples = "  metier chat models/Moonlight-16B-A3B-Instruct\n"
                "  metier chat models/moe --adapter runs/first/adapter --temperature 0.7\n"
                "  metier chat models/moe --template chatml --system 'You answer in one sentence.'",
    .run = run_verb,
};
