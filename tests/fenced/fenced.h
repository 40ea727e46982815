/*
 * A device with memory of its own, on a machine that has none: the cpu's ops on memory that can be read and
 * written only while an op or a copy runs. Whatever else touches it dies of a signal, an op that is given
 * host memory fails with a sentence, and new memory is full of NaN. What works here works on a GPU as far as
 * memory goes, with the cpu's own bits.
 */
#ifndef MT_TESTS_FENCED_H
#define MT_TESTS_FENCED_H

#include "ops/device.h"

enum mt_status fenced_init(struct mt_device *device, int threads);

#endif
