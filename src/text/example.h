/*
 * From a row of data to what the model is trained on: token ids, and for each the token it should predict.
 *
 * The form says what a row's fields mean; a mapping says which columns hold them ("instruction=question").
 * An answer's tokens are labels; everything else has the label MT_NO_LABEL. Labels are shifted already, as
 * struct mt_batch wants them: labels[i] is the token after ids[i], or no label.
 *
 * What a template writes is encoded as a whole, as transformers does (example_whole.c). A template can have
 * the prompt and the answer encoded apart (template.h), because that is where the model begins when it is
 * used: a token then never holds the end of one and the start of the other. Where the conversation itself
 * spells a special token ("</s>"), that message is encoded apart and its special tokens as ordinary text. So
 * data cannot end its own turn.
 */
#ifndef MT_TEXT_EXAMPLE_H
#define MT_TEXT_EXAMPLE_H

#include "formats/data/conversation.h"
#include "formats/data/dataset.h"
#include "formats/tokenizer/tokenizer.h"
#include "text/template.h"

#define MT_NO_LABEL (-100)

enum mt_example_form {
    MT_FORM_AUTO, // the first of the others whose fields the row has
    MT_FORM_MESSAGES,
    MT_FORM_INSTRUCTION, // instruction, input (may be absent or empty), output
    MT_FORM_PROMPT,      // prompt, completion: texts, or lists of messages (TRL)
    MT_FORM_QUESTION,    // question, answer
    MT_FORM_TEXT,        // text, all of it trained on
    MT_FORMS
};

/* "auto", "messages", ...; MT_FORMS for an unknown name. */
enum mt_example_form mt_example_form_named(const char *name);

/* Ids of the model's own tokens; -1: it has none. */
struct mt_special_ids {
    int32_t bos, eos, pad;
    bool asks_bos; // tokenizer_config.json wants bos in front of texts (add_bos_token)
};

struct mt_example_options {
    const struct mt_tokenizer *tokenizer;    // borrowed
    const struct mt_chat_template *template; // borrowed
    struct mt_special_ids special;
    const int32_t *stops; // borrowed: ids that end texts, besides eos
    size_t stop_count;
    struct mt_byte_list *foreign; // borrowed: gets what the template writes as special tokens and the
                                  // tokenizer does not have, "<|a|>, <|b|>"; NULL: nobody wants to know
    int64_t max_length;           // tokens; what is longer loses its end. 0: no limit
    int64_t vocabulary;           // tokens the model has: a row that becomes another is refused. 0: any
};

/* How the rows of one file are read. */
struct mt_example_source {
    enum mt_example_form form;
    const char *mapping; // "instruction=question,output=answer"; NULL: the fields have their own names
};

/* One example; zeroed with the contexts of its lists set (mt_example_init), used again and again. */
struct mt_example {
    struct mt_id_list ids;
    struct mt_id_list labels;
    int64_t answer_tokens; // labels that are tokens
    int64_t lost_tokens;   // cut off at max_length
    int64_t lost_answer;   // of those, how many were to be learnt
    bool messages;         // the row held a list of them
    bool text;             // the row is a text that is learnt as a whole
    bool spaced;           // its last answer begins with a space
    // Of what is encoded as a whole, answers: asked for otherwise than they are written out; not found in
    // what is written, and so not trained on; without a special token that ends them.
    int64_t other_prompts;
    int64_t lost_turns;
    int64_t unended;
};
void mt_example_init(struct mt_context *ctx, struct mt_example *example);
void mt_example_free(struct mt_example *example);

struct mt_example_maker; // one per thread

/* The caller frees; the tokenizer and the template outlive it. */
enum mt_status mt_example_maker_create(struct mt_context *ctx, const struct mt_example_options *options,
                                       struct mt_example_maker **maker);
void mt_example_maker_free(struct mt_example_maker *maker); // NULL is allowed

/* Refuses a mapping that does not read as one, or names a field no form has. */
enum mt_status mt_example_check_source(struct mt_context *ctx, const struct mt_example_source *source);

/*
 * Makes the example of a row. MT_ERR_FORMAT: the row does not hold one, "FILE:LINE: ..." says why. An example
 * with answer_tokens 0 teaches nothing: its answer is empty, or lies beyond max_length.
 */
enum mt_status mt_example_make(struct mt_example_maker *maker, const struct mt_example_source *source,
                               const struct mt_row *row, struct mt_example *example);

/*
 * Appends the ids of a conversation that waits for an answer, encoded as a prompt is when it is trained on.
 * MT_ERR_USAGE when the template cannot say it.
 */
enum mt_status mt_example_prompt(struct mt_example_maker *maker, const struct mt_conversation *conversation,
                                 struct mt_id_list *ids);

/* Where an answer lies in ids: [prompt, answered). What is behind it ends it. */
struct mt_answer_place {
    size_t prompt;
    size_t answered;
};

/*
 * Replaces `ids` by those of a conversation that ends in an answer, as they are trained on, and says where
 * its words lie. Where what ends an answer is text that is encoded together with its last word, it counts as
 * part of the answer. MT_ERR_USAGE when the template cannot say it, or nothing is left of the answer.
 */
enum mt_status mt_example_answer(struct mt_example_maker *maker, const struct mt_conversation *conversation,
                                 struct mt_id_list *ids, struct mt_answer_place *place);

#endif
