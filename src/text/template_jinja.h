/*
 * Conversations through templates in Jinja. A conversation is made into the template's variables once, and
 * can then be rendered up to any turn. What a turn says has the mark mt_turn_mark of its number in the
 * output, tools have MT_TOOLS_MARK, and all else is the template's.
 */
#ifndef MT_TEXT_TEMPLATE_JINJA_H
#define MT_TEXT_TEMPLATE_JINJA_H

#include "text/jinja/jinja.h"
#include "text/template.h"

#define MT_TOOLS_MARK MT_JINJA_MARK_LAST
#define MT_MOST_TURNS (MT_JINJA_MARK_LAST - 1)

static inline unsigned mt_turn_mark(size_t turn)
{
    return (unsigned)turn + 1;
}

struct mt_chat_rendering {
    const struct mt_chat_template *template;    // borrowed
    const struct mt_conversation *conversation; // borrowed
    struct mt_jinja_values *values;
    struct mt_value *messages; // [conversation->count]
    bool texts;                // calls of tools are handed over with their arguments as texts
};

/* Prepares a caller-owned rendering; ended with mt_chat_rendering_end, also after a failure. */
enum mt_status mt_chat_rendering_begin(const struct mt_chat_template *template,
                                       const struct mt_conversation *conversation,
                                       struct mt_chat_rendering *rendering);
void mt_chat_rendering_end(struct mt_chat_rendering *rendering);

/*
 * Renders the first `turns` turns; with `generate` the output ends in what asks for an answer. Arguments of
 * calls are handed over as objects, as transformers' documents ask for; to a template that cannot have them
 * so, as texts. MT_ERR_USAGE and MT_ERR_FORMAT: this conversation cannot be written out.
 */
enum mt_status mt_chat_rendering_run(struct mt_chat_rendering *rendering, size_t turns, bool generate,
                                     struct mt_jinja_output *output);

/* Whether the template says itself what is an assistant's. */
bool mt_chat_rendering_has_generation(const struct mt_chat_rendering *rendering);

#endif
