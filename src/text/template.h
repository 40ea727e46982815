/*
 * Chat templates, in Jinja: how a conversation is written out for a model. Models bring one along, some come
 * along with the program, others are files. What a template says is trusted to write special tokens
 * ("<|im_end|>"); what a conversation says is not.
 *
 * A template that begins with MT_TEMPLATE_APART has prompts and answers encoded apart, and its tokens by id;
 * docs/data.md says what it may name besides. All others are encoded as a whole, as transformers does.
 */
#ifndef MT_TEXT_TEMPLATE_H
#define MT_TEXT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct mt_chat_template; // opaque; does not change once read

#define MT_TEMPLATE_APART "{#- metier: encode apart -#}"

/* The date templates are told where what they write must not depend on the day. */
#define MT_TEMPLATE_DATE "2024-07-26"

/* Which template is wanted, and what it needs to know. */
struct mt_template_choice {
    const char *name;   // "model": the model's own; a name of `folder` ("chatml"); a file
    const char *folder; // of the templates that come along; NULL: only files
    const char *model; // the tokenizer's folder, or a file in it: the model's own, and its tokens. NULL: none
    const char *options; // "enable_thinking=false,..."; NULL: none
    const char *date;    // that it is told is today's, YYYY-MM-DD; NULL: today's
};

/* Opens a template. A model without one of its own gets `plain`. The caller frees. */
enum mt_status mt_chat_template_open(struct mt_context *ctx, const struct mt_template_choice *choice,
                                     struct mt_chat_template **template);

/*
 * The file that a template's name stands for; NULL: the model's own, which lies in the tokenizer's folder.
 * The caller releases it with mt_path_release.
 */
enum mt_status mt_chat_template_file(struct mt_context *ctx, const char *folder, const char *name,
                                     char **path);

/* False for the name of a template that comes along: none of them has options or dates. */
bool mt_chat_template_has_variables(const char *name);

/* Refuses a file of keys, NAME.tmpl, which older versions read, with how to write it in Jinja. */
enum mt_status mt_chat_template_check_name(struct mt_context *ctx, const char *name);

/* The text of the model's own chat template, in the arena; NULL: it has none. */
enum mt_status mt_chat_template_own(struct mt_arena *arena, const char *model, const char **text);

/* The text of a file, in the arena. */
enum mt_status mt_chat_template_text(struct mt_arena *arena, const char *path, const char **text);

/* True for `plain` where the model's own was wanted and there is none. */
bool mt_chat_template_stands_in(const struct mt_chat_template *template);

/* True when it came with the model. */
bool mt_chat_template_is_models(const struct mt_chat_template *template);

/* Its text. */
const char *mt_chat_template_jinja(const struct mt_chat_template *template);

/* What messages call it. */
const char *mt_chat_template_name(const struct mt_chat_template *template);

void mt_chat_template_free(struct mt_chat_template *template); // NULL is allowed

#endif
