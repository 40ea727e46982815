/*
 * Chat templates: how a conversation is written out for a model. Models bring one along, in Jinja; others are
 * small files of
 *
 *     # ChatML
 *     start            = ""
 *     user.before      = "<|im_start|>user\n"
 *     user.after       = "<|im_end|>\n"
 *     assistant.prompt = "<|im_start|>assistant\n"
 *     assistant.end    = "<|im_end|>"
 *
 * lines; docs/data.md lists the keys. A text has the escapes \n \t \" \\ and the marks {bos}, {eos}, {pad}
 * (the model's tokens, by id), {bos?} (nothing where the model has none) and {{ for a brace. What the file
 * says is trusted to write special tokens ("<|im_end|>"); what a conversation says is not.
 *
 * Rendering gives pieces, in order: text of the template, text of the conversation, tokens; each with whether
 * it is trained on. Trained are an assistant's words with what ends them, and nothing else.
 */
#ifndef MT_TEXT_TEMPLATE_H
#define MT_TEXT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "formats/data/conversation.h"
#include "formats/text/lists.h"

struct mt_chat_template; // opaque; does not change once read

enum mt_piece_kind {
    MT_PIECE_TEMPLATE, // text in which special tokens are meant
    MT_PIECE_CONTENT,  // text in which nothing is special
    MT_PIECE_BOS,
    MT_PIECE_BOS_IF_ANY,
    MT_PIECE_EOS,
    MT_PIECE_PAD,
};

struct mt_piece {
    enum mt_piece_kind kind;
    bool trained;
    const char *text; // of the first two kinds; borrowed from the template or the conversation
    size_t bytes;
};

struct mt_piece_list {
    struct mt_context *ctx; // borrowed
    struct mt_piece *data;
    size_t count;
    size_t capacity;
};
void mt_piece_list_free(struct mt_piece_list *pieces);

/* The date templates are told where what they write must not depend on the day. */
#define MT_TEMPLATE_DATE "2024-07-26"

/* Which template is wanted, and what it needs to know. */
struct mt_template_choice {
    const char *name;   // "model": the model's own; a name of `folder` ("chatml"); a file, .jinja or of keys
    const char *text;   // of a file of keys, which `name` then only names in messages; NULL: it is opened
    const char *folder; // of the templates that come along; NULL: only files
    const char
        *model; // the tokenizer's folder, or a file in it: brings the model's own and its tokens. NULL: none
    const char *options; // of a template in Jinja: "enable_thinking=false,..."; NULL: none
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

/* False for a name that stands for a file of keys, or for nothing; the model's own is seen when opened. */
bool mt_chat_template_may_be_jinja(const char *name);

/* The text of the model's own chat template, in the arena; NULL: it has none. */
enum mt_status mt_chat_template_own(struct mt_arena *arena, const char *model, const char **text);

/* The text of a file in Jinja, in the arena. */
enum mt_status mt_chat_template_text(struct mt_arena *arena, const char *path, const char **text);

/* True for `plain` where the model's own was wanted and there is none. */
bool mt_chat_template_stands_in(const struct mt_chat_template *template);

/* True when it came with the model. */
bool mt_chat_template_is_models(const struct mt_chat_template *template);

/* True for a template in Jinja, which is rendered by template_jinja.h. */
bool mt_chat_template_is_jinja(const struct mt_chat_template *template);

/* The text of a template in Jinja; NULL: it is a file of keys. */
const char *mt_chat_template_jinja(const struct mt_chat_template *template);

/* The text of a file of keys, NUL-terminated; NULL: the template is in Jinja. */
const char *mt_chat_template_keys(const struct mt_chat_template *template);

/* What messages call it. */
const char *mt_chat_template_name(const struct mt_chat_template *template);

/* Reads a template of keys; `path` is a file, or the name of one of those that come along ("chatml"), looked
 * for in `folder` (NULL: only files). The caller frees. */
enum mt_status mt_chat_template_read(struct mt_context *ctx, const char *folder, const char *path,
                                     struct mt_chat_template **template);

/* The same from memory; `name` stands in messages. */
enum mt_status mt_chat_template_parse(struct mt_context *ctx, const char *name, const char *text,
                                      size_t bytes, struct mt_chat_template **template);
void mt_chat_template_free(struct mt_chat_template *template); // NULL is allowed

/*
 * Appends the pieces of a conversation. With `generate` it ends in what asks for an answer; without, as a
 * finished one. MT_ERR_USAGE when the template cannot say it (a system message where there is none).
 */
enum mt_status mt_chat_template_render(const struct mt_chat_template *template, const struct mt_turn *turns,
                                       size_t count, bool generate, struct mt_piece_list *pieces);

/* Appends the pieces of a text to learn as a whole: trained from its first token to {eos}. */
enum mt_status mt_chat_template_render_text(const struct mt_chat_template *template, const char *text,
                                            size_t bytes, struct mt_piece_list *pieces);

#endif
