/*
 * The inside of a chat template (template_open.c), and conversations through it (template_jinja.c). A
 * conversation is made into the template's variables once, and can then be rendered up to any turn. What a
 * turn says has the mark mt_turn_mark of its number in the output, tools have MT_TOOLS_MARK, and all else is
 * the template's.
 *
 * To a template that is encoded apart, `content` is what an instruction says and `input` what it is about,
 * with MT_INPUT_MARK; bos_token (undefined where there is none), eos_token and pad_token write one byte each
 * that stands for the token, with a mark of its own. A text that is learnt as a whole is the variable `text`
 * of a conversation without turns.
 */
#ifndef MT_TEXT_TEMPLATE_JINJA_H
#define MT_TEXT_TEMPLATE_JINJA_H

#include <time.h>

#include "base/arena.h"
#include "formats/data/conversation.h"
#include "text/jinja/jinja.h"
#include "text/template.h"

#define MT_TOOLS_MARK MT_JINJA_MARK_LAST
#define MT_INPUT_MARK (MT_JINJA_MARK_LAST - 1)
#define MT_BOS_MARK   (MT_JINJA_MARK_LAST - 2)
#define MT_EOS_MARK   (MT_JINJA_MARK_LAST - 3)
#define MT_PAD_MARK   (MT_JINJA_MARK_LAST - 4)
#define MT_MOST_TURNS (MT_JINJA_MARK_LAST - 5)

static inline unsigned mt_turn_mark(size_t turn)
{
    return (unsigned)turn + 1;
}

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

/* What is written out, by which template; all borrowed. */
struct mt_chat_asked {
    const struct mt_chat_template *template;
    const struct mt_conversation *conversation;
    const struct mt_row_field *text; // to learn as a whole, instead of turns; NULL: none
    bool bos;                        // the model has a token that begins texts
};

struct mt_chat_rendering {
    struct mt_chat_asked asked;
    struct mt_jinja_values *values;
    struct mt_value *messages; // [conversation->count]
    bool texts;                // calls of tools are handed over with their arguments as texts
};

/* Prepares a caller-owned rendering; ended with mt_chat_rendering_end, also after a failure. */
enum mt_status mt_chat_rendering_begin(const struct mt_chat_asked *asked,
                                       struct mt_chat_rendering *rendering);
void mt_chat_rendering_end(struct mt_chat_rendering *rendering);

/*
 * Renders the first `turns` turns; with `generate` the output ends in what asks for an answer. Arguments of
 * calls are handed over as objects, as transformers' documents ask for; to a template that cannot have them
 * so, as texts. MT_ERR_USAGE and MT_ERR_FORMAT: this conversation cannot be written out.
 */
enum mt_status mt_chat_rendering_run(struct mt_chat_rendering *rendering, size_t turns, bool generate,
                                     struct mt_jinja_output *output);

/* Whether prompts and answers are encoded apart. */
bool mt_chat_rendering_is_apart(const struct mt_chat_rendering *rendering);

/* Whether the template says itself what is an assistant's. */
bool mt_chat_rendering_has_generation(const struct mt_chat_rendering *rendering);

#endif
