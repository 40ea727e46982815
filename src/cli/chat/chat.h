/* A conversation in the terminal. For src/cli/chat alone. */
#ifndef MT_CLI_CHAT_CHAT_H
#define MT_CLI_CHAT_CHAT_H

#include "base/interrupt.h"
#include "cli/chat/line.h"
#include "cli/cli.h"
#include "cli/infer.h"
#include "infer/routing_log.h"

/* What was said, one text after the other; turns point into it by offset until they are rendered. */
struct chat_said {
    enum mt_role role;
    size_t first, bytes;
};

struct chat {
    struct mt_context *ctx;
    struct infer_settings infer; // the adapter changes with /adapter
    const struct cli_call *given;
    struct mt_session session;
    struct mt_routing_log *log;    // NULL: no layer has experts
    struct mt_routing_trace trace; // of the last answer
    struct mt_interrupt interrupt;
    struct chat_lines lines;
    struct mt_byte_list system;  // what the conversation begins with; empty: nothing
    struct mt_byte_list adapter; // the name in infer.adapter, where /adapter gave it
    struct mt_byte_list texts;
    struct chat_said *said;
    struct mt_turn *turns; // the same, as the template reads it
    size_t count, said_capacity, turn_capacity;
    struct mt_id_list ids;
    struct mt_answer answer;
    size_t shown;
    enum mt_finish why; // the last answer ended
};

/* Opens a session as the settings say, and what belongs to it. */
enum mt_status chat_open(struct chat *chat);

/* Begins a new conversation, with the system's text if there is one. */
enum mt_status chat_reset(struct chat *chat);

enum mt_status chat_say(struct chat *chat, enum mt_role role, const void *text, size_t bytes);

// ------------------------------------------------------------------ commands.c

/* Does what a line that begins with / says. *quit: the conversation is over. What is wrong with it is said,
 * and no failure. */
enum mt_status chat_command(struct chat *chat, bool *quit);

// ------------------------------------------------------------------ experts.c

/* Shows which experts the last answer's tokens used in a layer; -1: the middle one that has experts. */
enum mt_status chat_show_experts(struct chat *chat, int64_t layer);

#endif
