/* metier devices: the devices built in, and what each picked on this machine. */
#include <stdint.h>
#include <stdio.h>

#include "cli/verbs.h"
#include "metier/device.h"

int cli_devices(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv)
{
    int64_t threads = 0;
    const struct cli_option options[] = {
        {"--threads", CLI_INTEGER, &threads, "N", "threads to use (default: all this machine has)"},
    };
    struct cli_arguments arguments;
    enum mt_status status = cli_parse(ctx, verb, options, 1, argc, argv, &arguments);
    if (status == MT_OK && !arguments.help_shown && (threads < 0 || threads > 4096)) {
        status = mt_fail(ctx, MT_ERR_USAGE, "--threads is %lld, expected 0 to 4096", (long long)threads);
    }
    if (status == MT_OK && arguments.positional_count > 0) {
        status = mt_fail(ctx, MT_ERR_USAGE, "unexpected argument '%s'", arguments.positional[0]);
    }
    if (status != MT_OK) return cli_fail(ctx, verb, status);
    if (arguments.help_shown) return 0;
    for (int i = 0; mt_device_listed(i) != NULL; i++) {
        struct mt_device *device = NULL;
        const char *name = mt_device_listed(i);
        status = mt_device_create(ctx, name, (int)threads, &device);
        if (status == MT_OK) {
            printf("%-9s %s\n", name, mt_device_description(device));
        } else {
            printf("%-9s not usable here: %s\n", name, ctx->message);
        }
        mt_device_destroy(device);
    }
    return 0;
}
