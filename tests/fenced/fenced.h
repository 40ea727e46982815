/*
 * A device with memory of its own, on a machine that has none: the cpu's ops on memory that can be read and
 * written only while an op or a copy runs. Whatever else touches it dies of a signal, an op that is given
 * host memory fails with a sentence, and new memory is full of NaN. What works here works on a GPU as far as
 * memory goes, with the cpu's own bits. It takes down what it is told to record, and does it again when
 * asked.
 */
#ifndef MT_TESTS_FENCED_H
#define MT_TESTS_FENCED_H

#include "ops/device.h"

enum mt_status fenced_init(struct mt_device *device, int threads);

/* How often something recorded was done again. */
int fenced_replayed(const struct mt_device *device);

/*
 * The same as a card that is there where METIER_FENCED_CARD says how many bytes of memory it has, with what
 * a GPU's own devices prefer: activations in f32, or in bf16. Elsewhere they refuse as those do.
 */
enum mt_status fenced_card_init(struct mt_device *device, int threads);
enum mt_status fenced_card_bf16_init(struct mt_device *device, int threads);

#endif
