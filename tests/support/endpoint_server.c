/* Starting the endpoint of tests, and reading the port it writes down. */
#define _DEFAULT_SOURCE // usleep
#include "support/endpoint_server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED 77

void endpoint_server_stop(const struct endpoint_server *server)
{
    (void)kill(server->process, SIGKILL);
    (void)waitpid(server->process, NULL, 0);
}

bool endpoint_server_start(const struct workplace *place, struct endpoint_server *server)
{
    char script[1024];
    char path[512];
    (void)snprintf(script, sizeof script, "%s/cli/eval/endpoint_server.py", getenv("METIER_TESTS"));
    *server = (struct endpoint_server){.process = fork()};
    if (server->process < 0) return false;
    if (server->process == 0) {
        (void)execlp("python3", "python3", script, place->directory, (char *)NULL);
        _exit(SKIPPED);
    }
    while (server->port == 0) {
        FILE *file = fopen(workplace_path(place, "port", path, sizeof path), "r");
        char digits[16] = "";
        if (file != NULL && fgets(digits, sizeof digits, file) != NULL)
            server->port = strtol(digits, NULL, 10);
        if (file != NULL) (void)fclose(file);
        if (waitpid(server->process, NULL, WNOHANG) == server->process) return false;
        (void)usleep(20000);
    }
    return true;
}
