/* A small sum over ranks that is begun again and again. */
#define _POSIX_C_SOURCE 200809L // nanosleep
#include "comm/rank_progress.h"

#include <time.h>

#include "base/clock.h"

#define EVERY_SECONDS 0.05    // a sum begins, at most
#define REST_NANOS    1000000 // of a rank that has finished

enum { DONE, WORK, FINISHED, FAILED, STOP, VALUES };

enum stage { IDLE, ADDING, HANDING_ROUND };

struct mt_rank_progress {
    struct mt_context *ctx;  // borrowed
    struct mt_comm *comm;    // borrowed
    struct mt_comm_sum *sum; // owned
    float values[VALUES];    // under way, then the sums
    double all[VALUES];      // as of the last sum
    double begun;            // clock, of the last sum
    enum stage stage;        // of the sum under way
    bool over;
};

enum mt_status mt_rank_progress_create(struct mt_comm *comm, struct mt_context *ctx,
                                       struct mt_rank_progress **progress)
{
    void *memory = NULL;
    struct mt_comm_sum *sum = NULL;
    *progress = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **progress, &memory);
    if (status == MT_OK) status = mt_comm_sum_create(comm, VALUES, &sum);
    if (status != MT_OK) {
        mt_release(ctx, memory, sizeof **progress);
        return status;
    }
    struct mt_rank_progress *made = memory;
    *made = (struct mt_rank_progress){.ctx = ctx, .comm = comm, .sum = sum};
    *progress = made;
    return MT_OK;
}

void mt_rank_progress_free(struct mt_rank_progress *progress)
{
    if (progress == NULL) return;
    mt_comm_sum_free(progress->sum);
    mt_release(progress->ctx, progress, sizeof *progress);
}

static void begin(struct mt_rank_progress *progress, const struct mt_rank_progress_state *mine)
{
    progress->values[DONE] = (float)mine->done;
    progress->values[WORK] = (float)mine->work;
    progress->values[FINISHED] = mine->finished ? 1.0f : 0.0f;
    progress->values[FAILED] = mine->failed ? 1.0f : 0.0f;
    progress->values[STOP] = mine->stop ? 1.0f : 0.0f;
    progress->begun = mt_clock_seconds();
    progress->stage = ADDING;
    mt_comm_sum_start(progress->sum, progress->values, VALUES);
}

bool mt_rank_progress_update(struct mt_rank_progress *progress, const struct mt_rank_progress_state *mine)
{
    int ranks = mt_comm_size(progress->comm);
    if (progress->over) return true;
    if (progress->stage == IDLE) {
        if (ranks > 1 && mt_clock_seconds() - progress->begun < EVERY_SECONDS) return false;
        begin(progress, mine);
    }
    if (!mt_comm_sum_progress(progress->sum)) return false;
    if (progress->stage == ADDING) {
        progress->stage = HANDING_ROUND;
        mt_comm_sum_hand_round(progress->sum, progress->values, VALUES);
        if (!mt_comm_sum_progress(progress->sum)) return false;
    }
    progress->stage = IDLE;
    for (int i = 0; i < VALUES; i++) progress->all[i] = (double)progress->values[i];
    progress->over =
        progress->all[FINISHED] >= (double)ranks || progress->all[FAILED] > 0.0 || progress->all[STOP] > 0.0;
    return progress->over;
}

void mt_rank_progress_rest(void)
{
    const struct timespec moment = {.tv_nsec = REST_NANOS};
    (void)nanosleep(&moment, NULL);
}

int64_t mt_rank_progress_done(const struct mt_rank_progress *progress)
{
    return (int64_t)progress->all[DONE];
}

double mt_rank_progress_work(const struct mt_rank_progress *progress)
{
    return progress->all[WORK];
}
