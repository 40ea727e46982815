/* Verbs that run on all ranks of a job. */
#ifndef MT_CLI_RANKS_H
#define MT_CLI_RANKS_H

#include "cli/cli.h"
#include "comm/comm.h"

/* What one rank does; *exit_status counts when it returns MT_OK, and is 0 beforehand. */
typedef enum mt_status (*cli_rank_fn)(void *self, struct mt_comm *comm, int *exit_status);

/*
 * Finds the other ranks, runs, and sets call->exit_status. A failure that ranks agreed on is told here, once,
 * by the rank it happened to.
 */
enum mt_status cli_run_ranks(struct cli_call *call, cli_rank_fn run, void *self);

/*
 * --experts E: neighbours among the ranks share a model's experts. *ranks is those of this one, for the
 * caller to close; NULL for 1. Agreed on.
 */
enum mt_status cli_split_experts(struct mt_context *ctx, struct mt_comm *comm, int64_t sharing,
                                 struct mt_comm **ranks);

/* What a verb that runs as one program says of several: once, for all of them. */
enum mt_status cli_refuse_ranks(struct cli_call *call);

#endif
