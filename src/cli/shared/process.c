/* Standard streams, and how waiting threads spin. */
#define _DEFAULT_SOURCE // setenv
#include "cli/shared/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPINS "1000" // some microseconds

static void take_if_closed(int descriptor, const char *path, int how)
{
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) return;
    int opened = open(path, how); // the lowest that is free, which is this one: those below it are open
    if (opened >= 0 && opened != descriptor) (void)close(opened);
}

static void nothing(int signal_number)
{
    (void)signal_number;
}

void cli_streams_open(void)
{
    // The other direction of each, so that reading and writing them fail as they would have.
    take_if_closed(STDIN_FILENO, "/dev/null", O_WRONLY);
    take_if_closed(STDOUT_FILENO, "/dev/null", O_RDONLY);
    take_if_closed(STDERR_FILENO, "/dev/null", O_RDONLY);
    // A handler, not SIG_IGN: programs that are started from here get their defaults back.
    struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGPIPE, &action, NULL);
    (void)sigaction(SIGXFSZ, &action, NULL);
}

int cli_streams_close(int status)
{
    errno = 0;
    int flushed = fflush(stdout);
    if ((flushed == 0 && !ferror(stdout)) || status != 0) return status;
    // Whoever closes a pipe has read enough and needs no sentence.
    if (errno != EPIPE)
        (void)fprintf(stderr, "metier: cannot write standard output%s%s\n", errno != 0 ? ": " : "",
                      errno != 0 ? strerror(errno) : "");
    return 1;
}

// ------------------------------------------------------------------ threads that wait

/*
 * Measured on two processors with a model of 1.3 million parameters, 30 steps: with others running (load 9)
 * 28 s with the runtime's own spin, 4.4 s with this one; alone 3.5 and 1.6 s. A model of 218 million
 * parameters shows no difference.
 */
void cli_shorten_waiting(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") != NULL || getenv("OMP_WAIT_POLICY") != NULL) return;
    if (setenv("GOMP_SPINCOUNT", SPINS, 1) != 0) return;
    (void)execv("/proc/self/exe", argv);
}
