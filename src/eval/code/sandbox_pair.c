/* Two programs that talk: starting them joined, and what the two ends say together. */
#define _GNU_SOURCE
#include "eval/code/sandbox_pair.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define PROGRAM_GONE 3   // exit status of a judge that says so (src/eval/code/python/tests.py)
#define WAIT_SECONDS 1.0 // for the end of such a program

enum mt_status mt_sandbox_pair_start(struct mt_context *ctx, const struct mt_sandbox_options *options,
                                     struct mt_text program, struct mt_text judge,
                                     struct mt_sandbox_pair *pair)
{
    memset(pair, 0, sizeof *pair);
    pair->judged = judge.bytes > 0;
    pair->result.outcome = MT_SANDBOX_COULD_NOT_START;
    int ends[2] = {0, 0};
    if (pair->judged && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return mt_fail(ctx, MT_ERR_IO, "cannot join two programs: %s", strerror(errno));
    struct mt_sandbox_options own = *options;
    own.talk = ends[0];
    enum mt_status status = mt_sandbox_start(ctx, &own, program.text, program.bytes, &pair->program);
    own.talk = ends[1];
    if (status == MT_OK && pair->judged)
        status = mt_sandbox_start(ctx, &own, judge.text, judge.bytes, &pair->judge);
    // With ours closed, the end of one program is the end of the other's channel.
    for (int i = 0; i < 2 && pair->judged; i++) (void)close(ends[i]);
    if (status != MT_OK) mt_sandbox_pair_stop(pair);
    pair->running = status == MT_OK;
    return status;
}

int mt_sandbox_pair_descriptors(const struct mt_sandbox_pair *pair,
                                struct pollfd waits[MT_SANDBOX_PAIR_DESCRIPTORS])
{
    int count = mt_sandbox_descriptors(&pair->program, waits);
    count += mt_sandbox_descriptors(&pair->judge, waits + count);
    return count;
}

void mt_sandbox_pair_stop(struct mt_sandbox_pair *pair)
{
    mt_sandbox_stop(&pair->program);
    mt_sandbox_stop(&pair->judge);
    pair->running = false;
}

/* The judge's word, unless the program ended before it in a way of its own. */
static void conclude(struct mt_sandbox_pair *pair, bool program_ended)
{
    const struct mt_sandbox_result *program = &pair->program.result;
    const struct mt_sandbox_result *judge = &pair->judge.result;
    bool own_end = !pair->judged || (program_ended && program->outcome != MT_SANDBOX_PASSED);
    pair->result = own_end ? *program : *judge;
    if (!pair->judged) return;
    if (program->peak_memory > pair->result.peak_memory) pair->result.peak_memory = program->peak_memory;
    if (judge->seconds > pair->result.seconds) pair->result.seconds = judge->seconds;
}

/* A judge that found the program gone is seen to end, at times, before the program. */
static bool awaits_program(struct mt_sandbox_pair *pair)
{
    if (!pair->judged || !pair->program.running || pair->judge.result.exit_status != PROGRAM_GONE)
        return false;
    double now = mt_clock_seconds();
    if (pair->judge_ended == 0) pair->judge_ended = now;
    return now - pair->judge_ended < WAIT_SECONDS;
}

enum mt_status mt_sandbox_pair_step(struct mt_sandbox_pair *pair)
{
    if (!pair->running) return MT_OK;
    enum mt_status status = mt_sandbox_step(&pair->program);
    if (status == MT_OK) status = mt_sandbox_step(&pair->judge);
    bool program_ended = !pair->program.running;
    bool ended = pair->judged ? !pair->judge.running : program_ended;
    if (status == MT_OK && (!ended || awaits_program(pair))) return MT_OK;
    mt_sandbox_pair_stop(pair);
    if (status == MT_OK) conclude(pair, program_ended);
    return status;
}
