/*
 * A run of metier eval read back, with what its judges said: samples_TASK.jsonl, and beside it
 * judge_TASK.jsonl (a language model's verdicts) and review_TASK.jsonl (a person's). A verdict names the
 * checksums of what was judged: the answer, and question with reference. One about others is passed over.
 */
#ifndef MT_EVAL_JUDGED_RUN_H
#define MT_EVAL_JUDGED_RUN_H

#include "base/arena.h"
#include "base/files/digest.h"
#include "eval/text.h"

enum mt_judge { MT_JUDGE_RULE, MT_JUDGE_LLM, MT_JUDGE_HUMAN, MT_JUDGES };

enum mt_verdict {
    MT_VERDICT_NONE, // not asked, or nothing to say
    MT_VERDICT_CORRECT,
    MT_VERDICT_INCORRECT,
    MT_VERDICT_UNSURE,
    MT_VERDICT_UNREADABLE, // a language model answered, but not with a verdict
    MT_VERDICTS
};

/* Texts are NUL-terminated and live in the run's arena. */
struct mt_judged_sample {
    const char *id;
    const char *question;  // NULL: the file does not have it
    const char *reference; // the right answer
    const char *answer;    // the first one the model gave
    const char *extracted; // what the rule found in it
    struct mt_digest_text answer_hash;
    struct mt_digest_text question_hash; // of question and reference
    bool outdated[MT_JUDGES];            // the last verdict is about what has been edited since
    enum mt_verdict verdicts[MT_JUDGES];
};

/* Where a sample is. */
struct mt_judged_place {
    const char *id;
    size_t at;
};

struct mt_judged_task {
    const char *name;
    struct mt_judged_sample *samples; // [count], in the order of the file; of a repeated id the last
    struct mt_judged_place *by_id;    // [count], in order of id
    size_t count, capacity;
    const char
        *judged_by; // the language model whose verdicts count, the last one in the file; NULL: none yet
};

struct mt_judged_run {
    struct mt_context *ctx; // borrowed
    const char *folder;     // in the arena
    struct mt_arena arena;
    struct mt_judged_task *tasks; // [count], by name
    size_t count, capacity;
};

/*
 * Reads a folder; `tasks` is "a,b", or NULL for all there are. A name without samples and a folder without
 * any are refused. The caller frees, whatever happens.
 */
enum mt_status mt_judged_run_read(struct mt_context *ctx, const char *folder, const char *tasks,
                                  struct mt_judged_run *run);
void mt_judged_run_free(struct mt_judged_run *run);

struct mt_judged_task *mt_judged_task_named(const struct mt_judged_run *run, const char *name); // NULL: none
struct mt_judged_sample *mt_judged_sample_named(const struct mt_judged_task *task, const char *id);

/* Takes the language model's verdicts back; returns how many there were. */
size_t mt_judged_forget(struct mt_judged_task *task);

/* "correct", "incorrect", "unsure", "unreadable"; MT_VERDICTS for a word that is none of them. */
const char *mt_verdict_name(enum mt_verdict verdict);
enum mt_verdict mt_verdict_named(const char *name);

/* "FOLDER/KIND_TASK.jsonl" in the arena; kind: "judge" or "review". */
enum mt_status mt_judged_path(struct mt_judged_run *run, const char *kind, const char *task,
                              const char **path);

/* Samples without a verdict of the judge, but with one about what has been edited since. */
size_t mt_judged_outdated(const struct mt_judged_run *run, enum mt_judge judge);

/* True for the checksums of the sample's answer and question; "": one that older versions did not note. */
bool mt_judged_is_about(const struct mt_judged_sample *sample, const char *answer, const char *question);

/* Appends {"id": ..., "answer_hash": ..., "question_hash": ..., "verdict": "correct" -- without the brace
 * that closes it. */
void mt_judged_put_verdict(struct mt_text_writer *line, const struct mt_judged_sample *sample,
                           enum mt_verdict verdict);

#endif
