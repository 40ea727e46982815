/* The verbs, in the order --help lists them. */
#include "cli/verbs.h"

const struct cli_verb cli_verbs[] = {
    {
        .name = "devices",
        .summary = "what can compute here, and with which kernels",
        .arguments = "",
        .examples = "  metier devices\n  METIER_CPU_LEVEL=v3 metier devices --threads 1",
        .run = cli_devices,
    },
    {0},
};
