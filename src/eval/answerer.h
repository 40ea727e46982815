/*
 * Whatever answers questions: a model, an endpoint, a file of answers, a script in a test. The runner knows
 * nothing more of it.
 */
#ifndef MT_EVAL_ANSWERER_H
#define MT_EVAL_ANSWERER_H

#include "eval/code/code_trial.h"

/* How an answer ended, as far as whoever gave it knows. */
struct mt_answer_end {
    bool cut;        // by the limit of tokens, or for want of room
    bool opened;     // its prompt had begun the model's thinking already: <think> stands in it
    bool prompt_cut; // its prompt was too long and lost its beginning
};

struct mt_question {
    const char *task; // its name
    const char *id;   // of the sample; both NUL-terminated
    uint64_t number;  // of the sample in its task: draws depend on it, not on what else is asked
    struct mt_text prompt;
    size_t shared; // bytes of it that stand before every question of the task: description, examples
    struct mt_answer_end *ends; // [samples], zeroed, the asker's: filled in; NULL: nobody wants to know
};

struct mt_answer_options {
    int64_t max_tokens;
    const char *const *stop; // NULL-terminated, may be empty; an answer ends before the first of them
    int64_t samples;         // answers to each question; more than one asks for sampling
    uint64_t seed;
};

struct mt_choice_score {
    double log_likelihood; // sum of the log-probabilities of its tokens, natural logarithm
    bool greedy;           // each of its tokens was the most likely one
    bool prompt_cut;       // as of an answer's end
};

/* How likely given continuations of one prefix are. */
struct mt_choice_question {
    const char *task;
    const char *id;
    uint64_t number; // of the sample in its task
    struct mt_text prefix;
    // [count]: every continuation has a prefix of its own, as long as they share `shared`; NULL: `prefix` is
    // that of all. Answerers get questions of one prefix (run/prefixes.h).
    const struct mt_text *prefixes;
    size_t shared;                       // as a question's
    const struct mt_text *continuations; // [count], borrowed
    size_t count;
    struct mt_choice_score *scores; // [count], the asker's; filled in
};

/* How a call is getting on, for whoever asked; in the thread that asked. */
struct mt_answer_listener {
    void *self; // borrowed
    /* All that question `index` asked for is there. A failure ends the call with that status. */
    enum mt_status (*answered)(void *self, size_t index);
    /* Question `index` gets no answer, others may; `why` is for people. Never after `answered`. */
    enum mt_status (*failed)(void *self, size_t index, const char *why);
    /* Asked often. `tokens`: computed since the call began. False: come back now, without the rest. */
    bool (*go_on)(void *self, int64_t tokens);
};

struct mt_answerer {
    void *self;       // borrowed; handed to both calls
    const char *name; // of the model, for the summary
    size_t batch;     // questions it likes to get at once; at least 1
    /*
     * Appends the answers to answers[question · samples + sample], lists that are empty and have a context.
     * Questions are finished in any order. NULL: it cannot write.
     */
    enum mt_status (*generate)(void *self, const struct mt_question *questions, size_t count,
                               const struct mt_answer_options *options,
                               const struct mt_answer_listener *listener, struct mt_byte_list *answers);
    /* Fills in the scores of all questions, in any order. NULL: it cannot score. */
    enum mt_status (*score)(void *self, const struct mt_choice_question *questions, size_t count,
                            const struct mt_answer_listener *listener);
    /* After a task's last question, where answering takes several ranks: until all of them have had theirs.
     * `status` is how it ended here. NULL: this one answers alone. */
    enum mt_status (*rest)(void *self, enum mt_status status);
};

#define MT_CODE_WHY_BYTES 240

/* What came of one program, or of one answer that a program judged. */
struct mt_code_verdict {
    bool passed;
    double score;                // of a judge that is a program; NaN: it gave none
    char why[MT_CODE_WHY_BYTES]; // a line, NUL-terminated; ""
};

/* Runs programs against their tests; what compare: code needs. */
struct mt_code_judge {
    void *self;
    enum mt_status (*run)(void *self, const struct mt_code_trial *trials, size_t count,
                          struct mt_code_verdict *verdicts);
};

#endif
