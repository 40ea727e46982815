/* Standard error, as standard output is for results. */
#include "cli/shared/device.h"

#include <stdio.h>

void cli_name_device(const struct mt_device *device, int64_t threads, bool automatic)
{
    bool idle = threads > 0 && !mt_device_on_host(device);
    (void)fprintf(stderr, "device: %s%s\n", mt_device_description(device),
                  idle ? " (a number of threads changes nothing there)" : "");
    if (automatic) mt_device_warn_idle(device, stderr);
}

enum mt_status cli_open_device(struct mt_context *ctx, const char *asked, enum mt_device_use use, int threads,
                               struct mt_device **device)
{
    const char *name = NULL;
    *device = NULL;
    enum mt_status status = mt_device_choose(ctx, NULL, asked, use, &name);
    if (status == MT_OK) status = mt_device_create(ctx, name, threads, device);
    if (status == MT_OK) cli_name_device(*device, threads, mt_device_is_automatic(asked));
    return status;
}
