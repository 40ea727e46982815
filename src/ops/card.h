/*
 * NVIDIA cards of this machine, as their driver shows them. Nothing of CUDA is needed for that, so that a
 * program built without it can say what it leaves idle.
 */
#ifndef MT_OPS_CARD_H
#define MT_OPS_CARD_H

#include "ops/device.h"

#define MT_CARD_LEAST_MAJOR 8 // copies into shared memory beside other work, and bf16 on the tensor cores

struct mt_nvidia_card {
    char name[96];    // "NVIDIA GeForce RTX 4090"
    int major, minor; // its compute capability
};

/* The card with the highest compute capability; false if there is no driver, or it shows no card. */
bool mt_card_find(struct mt_nvidia_card *card);

/* Whether kernels can be built for it: they need compute capability MT_CARD_LEAST_MAJOR.0. */
bool mt_card_is_recent(const struct mt_nvidia_card *card);

/* The failure of a card that is not. */
enum mt_status mt_card_refuse(const struct mt_device *device, const struct mt_nvidia_card *card);

#endif
