/* The inside of a chat template, for its three files: keys (template_keys.c), Jinja (template_jinja.c), and
 * the choice between them (template_open.c). */
#ifndef MT_TEXT_TEMPLATE_PRIVATE_H
#define MT_TEXT_TEMPLATE_PRIVATE_H

#include <time.h>

#include "base/arena.h"
#include "text/jinja/jinja.h"
#include "text/template.h"

#define MT_TEMPLATE_KEYS_BYTES 65536 // of a file of keys

/* The chat templates a model brings along, and the tokens they name. */
struct mt_own_templates {
    struct mt_arena arena;  // owns the texts
    const char *standard;   // the one named "default"; NULL: there is none
    const char *with_tools; // the one named "tool_use": of conversations that have tools; NULL: the same
    const char *names;      // of all there are, for messages
    const char *file;       // where they are from; NULL: nowhere
    const char *bos_token, *eos_token, *pad_token, *unk_token; // NULL: none
};

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
    struct mt_byte_list source; // as it was read
    struct mt_byte_list bytes;  // of all texts
    struct mt_piece_list pieces;
    struct mt_chat_template_text texts[MT_CHAT_TEMPLATE_KEYS];
    bool trim; // white space around what a message says is dropped
};

/* An empty template; `name` stands in messages. The caller frees, also after a failure. */
enum mt_status mt_chat_template_create(struct mt_context *ctx, const char *name,
                                       struct mt_chat_template **template);

#endif
