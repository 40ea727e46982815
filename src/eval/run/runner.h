/*
 * Going through tasks with an answerer: questions in batches, answers judged and written as they come,
 * figures at the end. A run that was killed or stopped goes on where it was.
 *
 * Several ranks share the samples of every task, each a share of about the same length, and write what they
 * have as parts (eval/run/sample_parts.h); rank 0 brings it together. What comes out is what one rank writes,
 * and a run goes on with another number of ranks.
 */
#ifndef MT_EVAL_RUNNER_H
#define MT_EVAL_RUNNER_H

#include "eval/run/summary.h"

/*
 * Runs all tasks and writes the summary. `results` is [task_count], the caller's. After a stop that is MT_OK,
 * too: what was finished is kept, `stopped` marks what is not, and there is no summary. The status is agreed
 * on; metrics are known to rank 0.
 */
enum mt_status mt_eval_run(struct mt_context *ctx, const struct mt_eval_options *options,
                           struct mt_task_result *results);

#endif
