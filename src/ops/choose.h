/*
 * Which device computes where nobody names one: `auto` is a GPU where there is one that can be used, else the
 * cpu. The one place that decides it, for every verb.
 */
#ifndef MT_OPS_CHOOSE_H
#define MT_OPS_CHOOSE_H

#include "comm/comm.h"
#include "metier/device.h"

#define MT_DEVICE_AUTO "auto"

/*
 * *name = `asked` itself, where it is usable here, or what `auto` stands for: the first device built in for
 * that use that is, else "cpu". Only a GPU or driver that is missing is passed over in silence; one that is
 * there and fails is an error. On many ranks (comm; NULL: alone) all call it, and all get the same name or an
 * error.
 */
enum mt_status mt_device_choose(struct mt_context *ctx, struct mt_comm *comm, const char *asked,
                                enum mt_device_use use, const char **name);

#endif
