/*
 * The chat templates a model's folder brings along, and the tokens they name. They are looked for as
 * transformers 5 does, the first place that has any counts:
 *
 *     chat_template.jinja, additional_chat_templates/NAME.jinja     one file each
 *     tokenizer_config.json, "chat_template"                        a text, or a list of {"name", "template"}
 *     chat_template.json, "chat_template"                           as processors once saved it
 */
#ifndef MT_TEXT_OWN_TEMPLATE_H
#define MT_TEXT_OWN_TEMPLATE_H

#include "base/arena.h"

struct mt_own_templates {
    struct mt_arena arena;  // owns the texts
    const char *standard;   // the one named "default"; NULL: there is none
    const char *with_tools; // the one named "tool_use": of conversations that have tools; NULL: the same
    const char *names;      // of all there are, for messages
    const char *file;       // where they are from; NULL: nowhere
    const char *bos_token, *eos_token, *pad_token, *unk_token; // NULL: none
};

/* Reads them; `tokenizer` is the folder, or a file in it. The caller frees, also after a failure. */
enum mt_status mt_own_templates_read(struct mt_context *ctx, const char *tokenizer,
                                     struct mt_own_templates *own);
void mt_own_templates_free(struct mt_own_templates *own); // a zeroed struct is allowed

#endif
