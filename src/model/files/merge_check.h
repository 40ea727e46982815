/*
 * What was merged: a model folder against its base, weight by weight, and against what an adapter says. Only
 * weights in floats can be compared.
 */
#ifndef MT_MODEL_MERGE_CHECK_H
#define MT_MODEL_MERGE_CHECK_H

#include "arch/model_tensors.h"
#include "metier/context.h"

struct mt_merge_checked {
    size_t tensors;
    size_t changed;  // other numbers than the base's
    size_t missing;  // not in the merged folder, or of another shape
    double change;   // root mean square of the change, relative to that of the base's weights
    size_t pairs;    // of the adapter
    double expected; // the same of what the adapter adds
    double off;      // root mean square of what is neither base nor adapter, relative likewise
};

struct mt_merge_check {
    struct mt_merge_checked part[MT_MODEL_PART_COUNT];
    double rounding; // of the merged weights' type, relative
};

/* `adapter` may be NULL. */
enum mt_status mt_merge_check(struct mt_context *ctx, const char *base, const char *merged,
                              const char *adapter, struct mt_merge_check *check);

#endif
