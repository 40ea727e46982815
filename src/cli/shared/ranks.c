/* Starting and ending a verb on all ranks. */
#include "cli/shared/ranks.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/amount.h"

enum mt_status cli_run_ranks(struct cli_call *call, cli_rank_fn run, void *self)
{
    struct mt_comm *comm = NULL;
    enum mt_status status = mt_comm_open(call->ctx, &comm);
    if (status != MT_OK) return status;
    status = run(self, comm, &call->exit_status);
    int failed = mt_comm_failed_rank(comm);
    bool told_elsewhere = failed >= 0 && failed != mt_comm_rank(comm);
    if (status != MT_OK) call->exit_status = told_elsewhere ? 1 : cli_fail(call->ctx, call->verb, status);
    // The message is out before a rank's end makes the launcher talk.
    (void)fflush(stderr);
    mt_comm_close(comm);
    return MT_OK;
}

enum mt_status cli_split_experts(struct mt_context *ctx, struct mt_comm *comm, int64_t sharing,
                                 struct mt_comm **ranks)
{
    int all = mt_comm_size(comm);
    *ranks = NULL;
    if (sharing == 1) return MT_OK;
    if (sharing < 1 || all % sharing != 0)
        return mt_fail(ctx, MT_ERR_USAGE, "--experts is %" PRId64 ", which does not divide the %s", sharing,
                       mt_counted((uint64_t)all, "rank", "ranks").text);
    return mt_comm_split(comm, mt_comm_rank(comm) / (int)sharing, ranks);
}

static enum mt_status refuse(void *self, struct mt_comm *comm, int *exit_status)
{
    struct mt_context *ctx = self;
    char sharing[128] = "";
    size_t bytes = 0;
    (void)exit_status;
    for (const struct cli_verb *const *verb = cli_verbs; *verb != NULL && bytes < sizeof sharing; verb++) {
        if ((*verb)->ranks != CLI_RANKS_SHARE) continue;
        bytes += (size_t)snprintf(sharing + bytes, sizeof sharing - bytes, "%s%s", bytes > 0 ? ", " : "",
                                  (*verb)->name);
    }
    enum mt_status status = mt_fail(ctx, MT_ERR_USAGE,
                                    "%d ranks were started, but this verb runs as one: start it without "
                                    "mpirun, srun or metier launch. Ranks can share the work of %s",
                                    mt_comm_size(comm), sharing);
    return mt_comm_agree(comm, ctx, status);
}

enum mt_status cli_refuse_ranks(struct cli_call *call)
{
    return cli_run_ranks(call, refuse, call->ctx);
}
