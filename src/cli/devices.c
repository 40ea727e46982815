/* metier devices: the devices built in, and what each picked on this machine. */
#include <stdio.h>

#include "cli/cli.h"
#include "metier/device.h"
#include "ops/choose.h"
#include "ops/module.h"

static enum mt_status run_verb(struct cli_call *call)
{
    int64_t threads = 0;
    const struct cli_option options[] = {
        {"--threads", CLI_THREADS, &threads, "N", "number of threads (default: all this machine has)"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    for (int i = 0; mt_device_listed(i) != NULL; i++) {
        struct mt_device *device = NULL;
        const char *name = mt_device_listed(i);
        status = mt_device_create(call->ctx, name, (int)threads, &device);
        if (status == MT_OK)
            printf("%-9s %s\n", name, mt_device_description(device));
        else
            printf("%-9s not usable here: %s\n", name, call->ctx->message);
        mt_device_destroy(device);
    }
    char idle[MT_MESSAGE_BYTES];
    if (!mt_cuda_module_is_there() && mt_card_is_idle(call->ctx, idle))
        printf("%-9s not built in: %s\n", "cuda", idle);
    return MT_OK;
}

const struct cli_verb cli_verb_devices = {
    .name = "devices",
    .summary = "list what this machine can compute on, and with which kernels",
    .arguments = "",
    .examples = "  metier devices\n"
                "  METIER_CPU_LEVEL=v3 metier devices --threads 1",
    .ranks = CLI_RANKS_EACH,
    .run = run_verb,
};
