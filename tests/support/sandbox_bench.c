/* Sandboxes under test. */
#define _GNU_SOURCE
#include "support/sandbox_bench.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int sandbox_start_talking(struct mt_context *ctx, struct mt_sandbox_options options, const char *program,
                          struct mt_sandbox *sandbox)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
    options.talk = ends[0];
    enum mt_status status = mt_sandbox_start(ctx, &options, program, strlen(program), sandbox);
    (void)close(ends[0]);
    if (status != MT_OK) (void)fprintf(stderr, "%s\n", ctx->message);
    if (status != MT_OK) (void)close(ends[1]);
    return status == MT_OK ? ends[1] : -1;
}

enum mt_status sandbox_wait_and_step(struct mt_sandbox *sandbox)
{
    struct pollfd waits[MT_SANDBOX_DESCRIPTORS];
    int count = mt_sandbox_descriptors(sandbox, waits);
    (void)poll(waits, (nfds_t)count, (int)(MT_SANDBOX_WATCH_SECONDS * 1000));
    return mt_sandbox_step(sandbox);
}

struct mt_sandbox_options sandbox_patient_options(void)
{
    struct mt_sandbox_options options = mt_sandbox_defaults();
    options.seconds = SANDBOX_PATIENCE;
    options.cpu_seconds = SANDBOX_PATIENCE;
    return options;
}

bool sandbox_no_child_is_left(void)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    for (int i = 0; i < 100 * SANDBOX_PATIENCE; i++) {
        pid_t ended = waitpid(-1, NULL, WNOHANG);
        if (ended < 0) return true;
        if (ended == 0) (void)nanosleep(&moment, NULL);
    }
    return false;
}
