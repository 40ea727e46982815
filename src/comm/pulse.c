/* A small sum over ranks that is begun again and again. */
#define _POSIX_C_SOURCE 200809L // nanosleep
#include "comm/pulse.h"

#include <time.h>

#include "base/clock.h"

#define EVERY_SECONDS 0.05    // a sum begins, at most
#define REST_NANOS    1000000 // of a rank that has finished

enum { DONE, WORK, FINISHED, FAILED, STOP, VALUES };

struct mt_pulse {
    struct mt_context *ctx;  // borrowed
    struct mt_comm *comm;    // borrowed
    struct mt_comm_sum *sum; // owned
    float values[VALUES];    // under way, then the sums
    double all[VALUES];      // as of the last sum
    double begun;            // clock, of the last sum
    bool under_way, over;
};

enum mt_status mt_pulse_create(struct mt_comm *comm, struct mt_context *ctx, struct mt_pulse **pulse)
{
    void *memory = NULL;
    struct mt_comm_sum *sum = NULL;
    *pulse = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **pulse, &memory);
    if (status == MT_OK) status = mt_comm_sum_create(comm, VALUES, &sum);
    if (status != MT_OK) {
        mt_release(ctx, memory, sizeof **pulse);
        return status;
    }
    struct mt_pulse *made = memory;
    *made = (struct mt_pulse){.ctx = ctx, .comm = comm, .sum = sum};
    *pulse = made;
    return MT_OK;
}

void mt_pulse_free(struct mt_pulse *pulse)
{
    if (pulse == NULL) return;
    mt_comm_sum_free(pulse->sum);
    mt_release(pulse->ctx, pulse, sizeof *pulse);
}

static void begin(struct mt_pulse *pulse, const struct mt_pulse_state *mine)
{
    pulse->values[DONE] = (float)mine->done;
    pulse->values[WORK] = (float)mine->work;
    pulse->values[FINISHED] = mine->finished ? 1.0f : 0.0f;
    pulse->values[FAILED] = mine->failed ? 1.0f : 0.0f;
    pulse->values[STOP] = mine->stop ? 1.0f : 0.0f;
    pulse->begun = mt_clock_seconds();
    pulse->under_way = true;
    mt_comm_sum_start(pulse->sum, pulse->values, VALUES);
}

bool mt_pulse_beat(struct mt_pulse *pulse, const struct mt_pulse_state *mine)
{
    int ranks = mt_comm_size(pulse->comm);
    if (pulse->over) return true;
    if (!pulse->under_way) {
        if (ranks > 1 && mt_clock_seconds() - pulse->begun < EVERY_SECONDS) return false;
        begin(pulse, mine);
    }
    if (!mt_comm_sum_progress(pulse->sum)) return false;
    pulse->under_way = false;
    for (int i = 0; i < VALUES; i++) pulse->all[i] = (double)pulse->values[i];
    pulse->over = pulse->all[FINISHED] >= (double)ranks || pulse->all[FAILED] > 0.0 || pulse->all[STOP] > 0.0;
    return pulse->over;
}

void mt_pulse_rest(void)
{
    const struct timespec moment = {.tv_nsec = REST_NANOS};
    (void)nanosleep(&moment, NULL);
}

int64_t mt_pulse_done(const struct mt_pulse *pulse)
{
    return (int64_t)pulse->all[DONE];
}

double mt_pulse_work(const struct mt_pulse *pulse)
{
    return pulse->all[WORK];
}
