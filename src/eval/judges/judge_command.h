/*
 * A judge that is a program: it reads rows on its standard input, a JSON object a line, and writes a verdict
 * for each in the same order, {"score": 0.5, "reason": "..."}. What it does not say is no verdict; it never
 * makes an answer wrong.
 */
#ifndef MT_EVAL_JUDGE_COMMAND_H
#define MT_EVAL_JUDGE_COMMAND_H

#include "eval/answerer.h"

#define MT_COMMAND_PROBLEM_BYTES 512

struct mt_judge_command {
    const char *const
        *arguments;              // the program, found as a shell finds it, and its arguments; NULL-terminated
    const char *folder;          // it is started in; NULL: this process's
    double seconds, row_seconds; // it may take, and more for each row
};

/* The time judges get: a minute to start, ten seconds a row. */
struct mt_judge_command mt_judge_command_for(const char *const *arguments, const char *folder);

/*
 * Starts the program, gives it `count` rows, reads as many verdicts and ends it with all it started. A row
 * without a verdict has the score NaN and says why. `problem` is "" or a sentence. MT_OK whatever the program
 * did; another status is a failure of this process (memory, descriptors).
 */
enum mt_status mt_judge_command_run(struct mt_context *ctx, const struct mt_judge_command *command,
                                    struct mt_text rows, size_t count, struct mt_code_verdict *verdicts,
                                    char problem[MT_COMMAND_PROBLEM_BYTES]);

#endif
