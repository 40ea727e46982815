/* tests/cli/eval/endpoint_server.py as a child process, for tests that ask an endpoint. */
#ifndef TESTS_ENDPOINT_SERVER_H
#define TESTS_ENDPOINT_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "support/workplace.h"

struct endpoint_server {
    pid_t process;
    long port;
};

/* Starts it with files in the workplace; false: there is no python3. Stop it before a test may fail. */
bool endpoint_server_start(const struct workplace *place, struct endpoint_server *server);
void endpoint_server_stop(const struct endpoint_server *server);

#endif
