/* metier/device.h: which device is best. */
#include "metier/device.h"

#include "ops/choose.h"

enum mt_status mt_device_best(struct mt_context *ctx, enum mt_device_use use, const char **name)
{
    return mt_device_choose(ctx, NULL, MT_DEVICE_AUTO, use, name);
}
