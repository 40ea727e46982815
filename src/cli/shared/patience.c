/*
 * Measured on two processors with a model of 1.3 million parameters, 30 steps: with others running (load 9)
 * 28 s with the runtime's own spin, 4.4 s with this one; alone 3.5 and 1.6 s. A model of 218 million
 * parameters shows no difference.
 */
#define _DEFAULT_SOURCE // setenv
#include "cli/shared/patience.h"

#include <stdlib.h>
#include <unistd.h>

#define SPINS "1000" // some microseconds

void cli_shorten_waiting(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") != NULL || getenv("OMP_WAIT_POLICY") != NULL) return;
    if (setenv("GOMP_SPINCOUNT", SPINS, 1) != 0) return;
    (void)execv("/proc/self/exe", argv);
}
