/*
 * A session as the answerer of an evaluation: many questions in the engine together. What comes out depends
 * on the question, not on the batch.
 *
 * Answers are greedy where one is asked for, and drawn where there are several (pass@k). Prompts that leave
 * no room for the answer lose their beginning, as lm-evaluation-harness cuts them; texts whose likelihood is
 * asked for are encoded as it does (text/plain_text.h). With a chat template a prompt is what a user says and
 * a continuation the answer, with the tokens that training on them has: the space that would part them in a
 * plain text goes, unless the run was trained with it (text/text_form.h).
 */
#ifndef MT_INFER_ANSWERER_H
#define MT_INFER_ANSWERER_H

#include "eval/answerer.h"
#include "infer/session.h"

/* Requests of question number q, as the engine sees them, have numbers from q times this on. */
#define MT_ANSWERER_NUMBERS (UINT64_C(1) << 16)

struct mt_session_answerer_options {
    const char *name;   // of the model, for the summary; borrowed
    double temperature; // negative: 0 for one answer, 0.8 for several
    double top_p;       // 0: 1
    uint64_t seed;      // added to the task's
    bool watched;       // somebody counts tokens: each once, but what stands before every question of a task
                  // (mt_question.shared) with the first question alone, and a prompt with its first answer
};

struct mt_session_answerer; // opaque

/* The session outlives it. The caller destroys. */
enum mt_status mt_session_answerer_create(struct mt_session *session,
                                          const struct mt_session_answerer_options *options,
                                          struct mt_session_answerer **answerer);
void mt_session_answerer_destroy(struct mt_session_answerer *answerer); // NULL is allowed

/* What a runner is given, valid until it is destroyed. */
struct mt_answerer mt_session_answerer_face(struct mt_session_answerer *answerer);

#endif
