/*
 * Conversations as other programs' files hold them: lists of messages, in the ways in use.
 *
 *     {"role": "user", "content": "..."}                       OpenAI, transformers, TRL
 *     {"role": "user", "content": [{"type": "text", "text": "..."}, ...]}   the same in parts, which must be
 * text (input_text and output_text are, too)
 *     {"role": "assistant", "content": "...", "weight": 0}                  an answer that is not trained on
 *     {"role": "assistant", "tool_calls": [{"function": {"name", "arguments"}}]}, {"role": "tool", ...}
 *     {"role": "assistant", "function_call": {"name", "arguments"}}, {"role": "function", ...}   before that
 *     {"from": "human", "value": "..."}, also gpt, observation, function_call                    ShareGPT
 *
 * All of them become the first, third and their keys; what else a message holds is kept beside. A message
 * that cannot be read fails the row, which says why.
 */
#ifndef MT_FORMATS_CONVERSATION_H
#define MT_FORMATS_CONVERSATION_H

#include "formats/data/dataset.h"

enum mt_role { MT_ROLE_SYSTEM, MT_ROLE_USER, MT_ROLE_ASSISTANT, MT_ROLE_TOOL, MT_ROLES };

/* The role of a name ("human" and "gpt" are user and assistant), or MT_ROLES. */
enum mt_role mt_role_named(const char *name);

/* "system", "user", "assistant", "tool": what templates call it. */
const char *mt_role_name(enum mt_role role);

struct mt_turn {
    enum mt_role role;
    const char *text; // what it says; not terminated
    size_t bytes;
    const char *input; // of a user: what the instruction is about; NULL: none
    size_t input_bytes;
    bool calls;             // an assistant that calls tools
    bool context;           // of a prompt, or of weight 0: never trained on
    struct json_t *message; // all of it, role and content as above; owned. NULL: role and text are all
};

struct mt_conversation {
    struct mt_context *ctx; // borrowed
    struct mt_turn *turns;  // texts are borrowed from the row, or from `message`
    size_t count;
    size_t capacity;
    struct json_t *tools; // a list; owned. NULL: none
};

/* Empties it; what its turns own is freed, the room is kept. */
void mt_conversation_clear(struct mt_conversation *conversation);
void mt_conversation_free(struct mt_conversation *conversation);

/* Appends a turn, whose message (if any) now belongs to the conversation, also after a failure. */
enum mt_status mt_conversation_add(struct mt_conversation *conversation, const struct mt_turn *turn);

/* Appends the messages of a list in the row. */
enum mt_status mt_conversation_read(struct mt_conversation *conversation, const struct mt_row *row,
                                    const struct mt_json_node *list);

/*
 * Takes the tools of a row's column of that name: a list of JSON, or a text that holds one. None: nothing.
 * `functions`, as OpenAI's files called it before, holds what is inside a tool: each becomes one.
 */
enum mt_status mt_conversation_read_tools(struct mt_conversation *conversation, const struct mt_row *row,
                                          const char *column);

#endif
