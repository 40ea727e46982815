/* Between the files of the answerer. */
#ifndef MT_INFER_ANSWERER_PARTS_H
#define MT_INFER_ANSWERER_PARTS_H

#include "infer/answerer.h"
#include "text/plain_text.h"

struct mt_session_answerer {
    struct mt_context *ctx;     // borrowed
    struct mt_session *session; // borrowed
    struct mt_session_answerer_options options;
    struct mt_continuation_maker maker;
    int64_t cut; // prompts
};

/* Tokens the engine has computed since a call began. */
int64_t answerer_tokens(const struct mt_session_answerer *answerer, int64_t before);

/* The ids of a prompt, appended: a plain text, or what a user says. */
enum mt_status answerer_encode(struct mt_session_answerer *answerer, const struct mt_text *prompt,
                               struct mt_id_list *ids);

/* The two calls of struct mt_answerer. */
enum mt_status answerer_generate(void *self, const struct mt_question *questions, size_t count,
                                 const struct mt_answer_options *options,
                                 const struct mt_answer_listener *listener, struct mt_byte_list *answers);
enum mt_status answerer_score(void *self, const struct mt_choice_question *questions, size_t count,
                              const struct mt_answer_listener *listener);

#endif
