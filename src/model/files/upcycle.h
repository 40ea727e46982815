/*
 * A model whose experts start alike, as upcycling a dense model makes one: in every layer all routed experts
 * become copies of one of them, with a little noise where that is asked for. Routers and everything else
 * stay.
 */
#ifndef MT_MODEL_UPCYCLE_H
#define MT_MODEL_UPCYCLE_H

#include <stdint.h>
#include <stdio.h>

#include "metier/context.h"

struct mt_upcycle_options {
    const char *directory; // the model's folder; weights in codes are refused
    const char *out;       // must not exist, or be empty
    int64_t expert;        // that is copied
    double noise;          // standard deviation, over the root mean square of the matrix's row; 0: none
    uint64_t seed;         // of the noise, which depends on it and the tensor's name, nothing else
    FILE *progress;        // borrowed; NULL: none is shown
};

struct mt_upcycle_result {
    size_t tensors; // written, of experts
    size_t files;
    uint64_t bytes;
};

enum mt_status mt_model_upcycle(struct mt_context *ctx, const struct mt_upcycle_options *options,
                                struct mt_upcycle_result *result);

#endif
