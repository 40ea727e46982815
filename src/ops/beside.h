/*
 * Work beside other work. On a device that works on its own, small ops leave most of it idle; what does not
 * wait for them may be computed meanwhile. Results are the same, bit by bit.
 *
 * What is issued from begin to end waits for what was issued before begin, and not for what comes after end.
 * After mt_device_join everything waits for both. Between end and join nobody reads what is made beside,
 * writes what is read there, or makes floats of codes if that was done beside, too (model/params/weight.h).
 * Where a device has no such thing, ops just come one after the other.
 */
#ifndef MT_OPS_BESIDE_H
#define MT_OPS_BESIDE_H

#include "metier/device.h"

/* No begin before the join of the last one. end is called whatever came of begin and the ops after it. */
enum mt_status mt_device_beside_begin(struct mt_device *device);
enum mt_status mt_device_beside_end(struct mt_device *device);

/* Called after an end whatever came of the ops after it; nothing where nothing is apart. */
enum mt_status mt_device_join(struct mt_device *device);

#endif
