/*
 * Whatever answers questions: a model, a file of answers, a script in a test. The runner knows nothing more
 * of it.
 */
#ifndef MT_EVAL_ANSWERER_H
#define MT_EVAL_ANSWERER_H

#include "eval/prompt.h"

struct mt_question {
    const char *task; // its name
    const char *id;   // of the sample; both NUL-terminated
    struct mt_text prompt;
};

struct mt_answer_options {
    int64_t max_tokens;
    const char *const *stop; // NULL-terminated, may be empty; an answer ends before the first of them
    int64_t samples;         // answers to each question; more than one asks for sampling
    uint64_t seed;
};

/* One continuation whose log-likelihood is asked for. */
struct mt_scoring {
    const char *task;
    const char *id;
    struct mt_text prefix;
    struct mt_text continuation;
};

struct mt_answerer {
    void *self;       // borrowed; handed to both calls
    const char *name; // of the model, for the summary
    size_t batch;     // questions it likes to get at once; at least 1
    /*
     * Appends the answers to answers[question · samples + sample], lists that are empty and have a context.
     * NULL: it cannot write.
     */
    enum mt_status (*generate)(void *self, const struct mt_question *questions, size_t count,
                               const struct mt_answer_options *options, struct mt_byte_list *answers);
    /* Sums of the continuations' log-probabilities, natural logarithm. NULL: it cannot score. */
    enum mt_status (*score)(void *self, const struct mt_scoring *requests, size_t count, double *scores);
};

/* Runs a program to see whether it ends well; what compare: code needs. */
struct mt_code_judge {
    void *self;
    enum mt_status (*run)(void *self, const char *program, size_t bytes, bool *passed);
};

#endif
