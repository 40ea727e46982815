/*
 * Which routed experts of a model stay when others go: equally many in every layer that has experts, in their
 * old order. Where routers choose groups of experts first (n_group, topk_group), every group keeps equally
 * many, because groups are runs of equal length; at least two where a group is judged by its best two, and
 * enough that the chosen groups fill a token's slots. What cannot be is refused with a sentence.
 */
#ifndef MT_MODEL_KEPT_H
#define MT_MODEL_KEPT_H

#include "arch/desc.h"
#include "base/arena.h"

struct mt_kept {
    int keep;                     // in each layer,
    int experts;                  // of so many
    const int32_t *const *expert; // [layers]: their numbers, ascending, [keep]; NULL: a layer without experts
    // Where the choice comes from, for the file; borrowed.
    const char *score;       // NULL: nothing is said
    const char *const *data; // [data_count]
    size_t data_count;
    double share;          // of the data's slots that they serve; NaN: not known
    const int32_t *unused; // [layers with experts]: those that served no token of it; NULL: not known
};

/* Whether so many may stay in each layer. */
enum mt_status mt_kept_check(struct mt_context *ctx, const struct mt_model_desc *desc, int64_t keep);

/* Those that are flagged, [layers] arrays of n flags; refused where a layer or group has more than another.
 */
enum mt_status mt_kept_of_flags(struct mt_context *ctx, const struct mt_model_desc *desc,
                                const bool *const *flags, struct mt_arena *arena, struct mt_kept *kept);

/* The others as flags, as mt_pruning_begin (model/prune.h) takes them away. */
enum mt_status mt_kept_others(const struct mt_kept *kept, const struct mt_model_desc *desc,
                              struct mt_arena *arena, const bool *const **others);

/* Writes the file of experts (model/chosen_experts.h). */
enum mt_status mt_kept_write(struct mt_context *ctx, const struct mt_model_desc *desc,
                             const struct mt_kept *kept, const char *path);

/* Place of an expert among those that stay; -1: it goes. */
int64_t mt_kept_place(const struct mt_kept *kept, int64_t layer, int64_t expert);

#endif
