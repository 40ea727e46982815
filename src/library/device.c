/* metier/device.h: which device is best. */
#include "metier/device.h"

#include "base/given.h"
#include "ops/choose.h"

enum mt_status mt_device_best(struct mt_context *ctx, enum mt_device_use use, const char **name)
{
    enum mt_status status = mt_given(NULL, "mt_device_best", "ctx", ctx);
    if (status == MT_OK) status = mt_given(ctx, "mt_device_best", "name", name);
    if (status != MT_OK) return status;
    if (use != MT_USE_ASKED && use != MT_USE_EXACT && use != MT_USE_FAST)
        return mt_fail(ctx, MT_ERR_USAGE, "mt_device_best: there is no use number %d", (int)use);
    return mt_device_choose(ctx, NULL, MT_DEVICE_AUTO, use, name);
}
