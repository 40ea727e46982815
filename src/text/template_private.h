/* The inside of a chat template: opened by template_open.c, rendered by template_jinja.c. */
#ifndef MT_TEXT_TEMPLATE_PRIVATE_H
#define MT_TEXT_TEMPLATE_PRIVATE_H

#include <time.h>

#include "base/arena.h"
#include "text/jinja/jinja.h"
#include "text/template.h"

/* The chat templates a model brings along, and the tokens they name. */
struct mt_own_templates {
    struct mt_arena arena;  // owns the texts
    const char *standard;   // the one named "default"; NULL: there is none
    const char *with_tools; // the one named "tool_use": of conversations that have tools; NULL: the same
    const char *names;      // of all there are, for messages
    const char *file;       // where they are from; NULL: nowhere
    const char *bos_token, *eos_token, *pad_token, *unk_token; // NULL: none
};

struct mt_chat_template {
    struct mt_context *ctx;      // borrowed
    char *name;                  // owned
    struct mt_jinja *jinja;      // of own.standard
    struct mt_jinja *with_tools; // for conversations that have tools; NULL: the same
    struct mt_own_templates own; // its text, and the tokens it can name
    const char *options;         // "name=value,..."; NULL: none; in own.arena
    struct tm now;               // what it is told the date is
    bool apart;                  // `jinja` begins with MT_TEMPLATE_APART
    bool stands_in;              // for the template the model does not have
    bool models_own;             // it came with the model
};

#endif
