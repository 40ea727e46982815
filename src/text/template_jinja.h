/*
 * Conversations through templates. A conversation is made into the template's variables once, and can then be
 * rendered up to any turn. What a turn says has the mark mt_turn_mark of its number in the output, tools have
 * MT_TOOLS_MARK, and all else is the template's.
 *
 * To a template that is encoded apart, `content` is what an instruction says and `input` what it is about,
 * with MT_INPUT_MARK; bos_token (undefined where there is none), eos_token and pad_token write one byte each
 * that stands for the token, with a mark of its own. A text that is learnt as a whole is the variable `text`
 * of a conversation without turns.
 */
#ifndef MT_TEXT_TEMPLATE_JINJA_H
#define MT_TEXT_TEMPLATE_JINJA_H

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
