/* A template taken apart; what its reading and its rendering share. */
#ifndef MT_TEXT_TEMPLATE_PARTS_H
#define MT_TEXT_TEMPLATE_PARTS_H

#include <time.h>

#include "text/jinja/jinja.h"
#include "text/own_template.h"
#include "text/template.h"

enum mt_chat_template_key {
    MT_KEY_START,
    MT_KEY_FINISH,
    MT_KEY_SYSTEM_DEFAULT,
    MT_KEY_SYSTEM_DEFAULT_WITH_INPUT,
    MT_KEY_SYSTEM_BEFORE,
    MT_KEY_SYSTEM_AFTER,
    MT_KEY_SYSTEM_JOIN,
    MT_KEY_USER_BEFORE,
    MT_KEY_USER_AFTER,
    MT_KEY_ASSISTANT_PROMPT,
    MT_KEY_ASSISTANT_START,
    MT_KEY_ASSISTANT_END,
    MT_KEY_ASSISTANT_AFTER,
    MT_KEY_ASSISTANT_BETWEEN,
    MT_KEY_INPUT_JOIN,
    MT_KEY_TEXT_END,
    MT_KEY_TRIM,
    MT_CHAT_TEMPLATE_KEYS
};

/* What one key says, cut at its marks: pieces[first] … of the template. */
struct mt_chat_template_text {
    bool given;
    size_t first;
    size_t count;
};

struct mt_chat_template {
    struct mt_context *ctx; // borrowed
    char *name;             // owned
    // Of a template in Jinja; the rest is then empty.
    struct mt_jinja *jinja;      // NULL: a file of keys
    struct mt_jinja *with_tools; // for conversations that have tools; NULL: the same
    struct mt_own_templates own; // the tokens it can name
    const char *options;         // "name=value,..."; NULL: none; in own.arena
    struct tm now;               // what it is told the date is
    bool stands_in;              // for the template the model does not have
    bool models_own;             // it came with the model
    // Of a file of keys.
    struct mt_byte_list bytes; // of all texts
    struct mt_piece_list pieces;
    struct mt_chat_template_text texts[MT_CHAT_TEMPLATE_KEYS];
    bool trim; // white space around what a message says is dropped
};

/* Refuses a name nothing has: lists those of the folder. */
enum mt_status mt_chat_template_unknown(struct mt_context *ctx, const char *folder, const char *name);

#endif
