/*
 * Tasks put to a session's model, or to any other answerer, with all that belongs to it: the folder of
 * results is held and says whose answers it has (infer/answers_folder.h), programs go to the judge, routing
 * is watched. Each task is put in the form it fixes, or else in that of the run (text/text_form.h). `metier
 * eval` and `metier compare` both do it this way.
 *
 *     mt_task_evaluation_open     device, forms of the texts and folder, before a model is opened; sessions
 * are then opened with `form` mt_task_evaluation_run      questions, figures mt_task_evaluation_close
 */
#ifndef MT_INFER_TASK_EVALUATION_H
#define MT_INFER_TASK_EVALUATION_H

#include "eval/run/task_judge.h"
#include "infer/answerer.h"
#include "infer/answers_folder.h"
#include "infer/task_routing.h"

/* Everything is borrowed until it is closed. */
struct mt_task_evaluation_options {
    const struct mt_task_list *list;
    const char *data;                // folder of data
    struct mt_answers_source source; // whose answers these are, and where they go
    const char *device;              // of a model: what computes, or auto
    struct mt_task_judge *judge;     // open
    struct mt_comm *comm;            // the ranks that share the samples
    const struct mt_log *log;
    FILE *terminal;     // progress; NULL: none
    int64_t limit;      // samples of a task at most; 0: all
    bool again;         // what is in the folder is put aside (OUT/before-1), and all is asked anew
    bool room_to_think; // tasks whose chat template thinks get MT_THINKING_TOKENS where they ask for less
    bool skip_missing;  // tasks without data are left out, not refused
    size_t unmatched;   // answers of a file that match no question: noted
    bool (*stop)(void *self);
    void (*progressed)(void *self, size_t done, size_t count); // samples of the task at hand; NULL: nobody
    void *self;                                                // handed to both
};

#define MT_THINKING_TOKENS 8192 // tasks' own limits are those of base models, which do not think first

struct mt_task_evaluation {
    struct mt_context *ctx; // borrowed
    struct mt_task_evaluation_options options;
    char device[MT_ANSWERS_DEVICE_BYTES]; // that computes, where a model answers
    struct mt_arena arena;                // of the texts of forms
    struct mt_text_form form;             // of the questions that leave it open
    struct mt_text_form *forms;           // [list->count]
    struct mt_task_result *results;       // [list->count]
    int64_t thinking;                     // MT_THINKING_TOKENS where a task got them, else 0
    bool watched;                         // routing is in the folder, too
    int lock;                             // of the folder, rank 0's; the others hold it
};

/* Opens a caller-owned evaluation on all ranks; closed whatever it returned. Agreed on. */
enum mt_status mt_task_evaluation_open(struct mt_context *ctx,
                                       const struct mt_task_evaluation_options *options,
                                       struct mt_task_evaluation *evaluation);
void mt_task_evaluation_close(struct mt_task_evaluation *evaluation);

/* What answers, and who watches. */
struct mt_task_answering {
    struct mt_session *session;            // a model; NULL: another answerer
    bool routing;                          // which experts it uses is looked at
    const struct mt_answerer *answerer;    // where there is no session
    const struct mt_task_watcher *watcher; // likewise; NULL: none
};

/* Puts all tasks; `results` has what came of it, `stopped` among it. Agreed on. */
enum mt_status mt_task_evaluation_run(struct mt_task_evaluation *evaluation,
                                      const struct mt_task_answering *answering);

#endif
