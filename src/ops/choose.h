/*
 * Which device computes where nobody names one: `auto` is a GPU where there is one that can be used, else the
 * cpu. The one place that decides it, for every verb.
 */
#ifndef MT_OPS_CHOOSE_H
#define MT_OPS_CHOOSE_H

#include <stdio.h>

#include "comm/comm.h"
#include "metier/device.h"

#define MT_DEVICE_AUTO "auto"

/*
 * *name = `asked` itself, where it is usable here, or what `auto` stands for: the first device built in for
 * that use that is, else "cpu". A GPU that is missing or cannot be used is passed over, of which
 * mt_device_warn_idle tells; one that is there and fails is an error. On many ranks (comm; NULL: alone) all
 * call it, and all get the same name or an error.
 */
enum mt_status mt_device_choose(struct mt_context *ctx, struct mt_comm *comm, const char *asked,
                                enum mt_device_use use, const char **name);

/*
 * Whether a card is there that no device of this program can use. `text` then says which and why, in one
 * sentence without a full stop.
 */
bool mt_card_is_idle(struct mt_context *ctx, char text[MT_MESSAGE_BYTES]);

/* For whoever has just named the device that `auto` chose: a warning where it left an NVIDIA card idle. */
void mt_device_warn_idle(const struct mt_device *device, FILE *stream);

/* Whether `asked` leaves the choice to us. */
bool mt_device_is_automatic(const char *asked);

#endif
