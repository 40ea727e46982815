#include "cli/shared/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
