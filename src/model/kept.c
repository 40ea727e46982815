/* Choosing experts that stay. */
#include "model/kept.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "model/chosen_experts.h"

#define ARENA_BLOCK_BYTES 4096

/* Groups that limit a token's choice; 1: none do. */
static int groups_of(const struct mt_model_desc *desc)
{
    return desc->router.groups > 1 ? desc->router.groups : 1;
}

/* The least number of experts that can be kept: every group has what the checks below ask of it. */
static int64_t least_of_groups(const struct mt_model_desc *desc)
{
    int chosen = desc->router.groups_kept;
    int64_t each = (desc->router.slots + chosen - 1) / chosen;
    if (desc->router.group_rule == MT_GROUP_TOP2_SUM && each < 2) each = 2;
    return each * groups_of(desc);
}

static enum mt_status check_groups(struct mt_context *ctx, const struct mt_model_desc *desc, int64_t keep)
{
    int groups = groups_of(desc);
    int chosen = desc->router.groups_kept;
    int64_t each = keep / groups;
    if (groups == 1) return MT_OK;
    if (keep % groups != 0) {
        int64_t least = least_of_groups(desc);
        int64_t below = keep - keep % groups;
        int64_t above = below + groups > least ? below + groups : least;
        char smaller[32] = "";
        if (below >= least) (void)snprintf(smaller, sizeof smaller, "%" PRId64 " or ", below);
        return mt_fail(ctx, MT_ERR_USAGE,
                       "keeping %" PRId64
                       " experts is not possible with n_group %d: every group keeps equally "
                       "many. %s%" PRId64 " would do",
                       keep, groups, smaller, above);
    }
    if (desc->router.group_rule == MT_GROUP_TOP2_SUM && each < 2) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "keeping %" PRId64 " experts leaves each of the %d groups (n_group) %" PRId64
                       ", and the router judges a group by its best two: keep %" PRId64 " or more",
                       keep, groups, each, least_of_groups(desc));
    }
    if (each * chosen < desc->router.slots) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "keeping %" PRId64 " experts leaves %" PRId64
                       " in the %d groups a token chooses from (topk_group), but it needs %d",
                       keep, each * chosen, chosen, desc->router.slots);
    }
    return MT_OK;
}

enum mt_status mt_kept_check(struct mt_context *ctx, const struct mt_model_desc *desc, int64_t keep)
{
    if (mt_model_moe_layers(desc, NULL) == 0)
        return mt_fail(ctx, MT_ERR_USAGE, "no layer of the model has experts");
    if (keep > desc->experts) {
        return mt_fail(ctx, MT_ERR_USAGE, "%" PRId64 " experts cannot be kept: a layer has %d", keep,
                       desc->experts);
    }
    if (keep < desc->router.slots) {
        return mt_fail(ctx, MT_ERR_USAGE, "keeping %" PRId64 " experts is too few: a token needs %d", keep,
                       desc->router.slots);
    }
    return check_groups(ctx, desc, keep);
}

/* Room for `keep` numbers of every layer with experts. */
static enum mt_status make_lists(const struct mt_model_desc *desc, int64_t keep, struct mt_arena *arena,
                                 int32_t ***lists, struct mt_kept *kept)
{
    enum mt_status status = MT_OK;
    *lists = mt_arena_array(arena, (size_t)desc->layers, sizeof **lists, &status);
    for (int64_t layer = 0; layer < desc->layers && status == MT_OK; layer++) {
        if (mt_model_layer_is_moe(desc, layer))
            (*lists)[layer] = mt_arena_array(arena, (size_t)keep, sizeof ***lists, &status);
    }
    *kept = (struct mt_kept){
        .keep = (int)keep, .experts = desc->experts, .expert = (const int32_t *const *)*lists, .share = NAN};
    return status;
}

static int count_flags(const bool *flags, int count)
{
    int flagged = 0;
    for (int j = 0; j < count; j++) flagged += flags[j] ? 1 : 0;
    return flagged;
}

static enum mt_status check_flagged_groups(struct mt_context *ctx, const struct mt_model_desc *desc,
                                           int64_t layer, const bool *flags, int64_t keep)
{
    int groups = groups_of(desc);
    int size = desc->experts / groups;
    for (int g = 0; g < groups; g++) {
        int found = count_flags(flags + g * size, size);
        if (found == keep / groups) continue;
        return mt_fail(ctx, MT_ERR_USAGE,
                       "layer %" PRId64
                       " keeps %d experts of group %d: with n_group %d every group has to keep "
                       "equally many, %" PRId64,
                       layer, found, g, groups, keep / groups);
    }
    return MT_OK;
}

static enum mt_status check_flags(struct mt_context *ctx, const struct mt_model_desc *desc,
                                  const bool *const *flags, int64_t *keep)
{
    int64_t first = -1;
    enum mt_status status = MT_OK;
    for (int64_t layer = 0; layer < desc->layers && status == MT_OK; layer++) {
        if (!mt_model_layer_is_moe(desc, layer)) continue;
        int found = flags[layer] != NULL ? count_flags(flags[layer], desc->experts) : 0;
        if (first < 0) {
            first = layer;
            *keep = found;
            status = mt_kept_check(ctx, desc, found);
            if (status != MT_OK) return mt_fail_within(ctx, status, "layer %" PRId64, layer);
        }
        if (found != *keep) {
            return mt_fail(ctx, MT_ERR_USAGE,
                           "layer %" PRId64 " keeps %" PRId64 " experts and layer %" PRId64
                           " %d: a model folder has equally many in each layer",
                           first, *keep, layer, found);
        }
        status = check_flagged_groups(ctx, desc, layer, flags[layer], *keep);
    }
    return first < 0 ? mt_kept_check(ctx, desc, 0) : status;
}

enum mt_status mt_kept_of_flags(struct mt_context *ctx, const struct mt_model_desc *desc,
                                const bool *const *flags, struct mt_arena *arena, struct mt_kept *kept)
{
    int64_t keep = 0;
    int32_t **lists = NULL;
    enum mt_status status = check_flags(ctx, desc, flags, &keep);
    if (status == MT_OK) status = make_lists(desc, keep, arena, &lists, kept);
    for (int64_t layer = 0; layer < desc->layers && status == MT_OK; layer++) {
        int count = 0;
        for (int32_t j = 0; lists[layer] != NULL && j < desc->experts; j++) {
            if (flags[layer][j]) lists[layer][count++] = j;
        }
    }
    return status;
}

enum mt_status mt_kept_others(const struct mt_kept *kept, const struct mt_model_desc *desc,
                              struct mt_arena *arena, const bool *const **others)
{
    enum mt_status status = MT_OK;
    bool **flags = mt_arena_array(arena, (size_t)desc->layers, sizeof *flags, &status);
    for (int64_t layer = 0; layer < desc->layers && status == MT_OK; layer++) {
        if (kept->expert[layer] == NULL) continue;
        flags[layer] = mt_arena_array(arena, (size_t)desc->experts, sizeof **flags, &status);
        for (int j = 0; j < desc->experts && status == MT_OK; j++)
            flags[layer][j] = mt_kept_place(kept, layer, j) < 0;
    }
    *others = (const bool *const *)flags;
    return status;
}

enum mt_status mt_kept_write(struct mt_context *ctx, const struct mt_model_desc *desc,
                             const struct mt_kept *kept, const char *path)
{
    struct mt_arena arena;
    enum mt_status status = MT_OK;
    int layers = mt_model_moe_layers(desc, NULL);
    size_t experts = (size_t)kept->experts;
    mt_arena_init(&arena, ctx, ARENA_BLOCK_BYTES);
    int64_t *number = mt_arena_array(&arena, (size_t)layers, sizeof *number, &status);
    bool *chosen = mt_arena_array(&arena, (size_t)layers * experts, sizeof *chosen, &status);
    if (status == MT_OK) (void)mt_model_moe_layers(desc, number);
    for (int i = 0; i < layers * kept->keep && status == MT_OK; i++) {
        int layer = i / kept->keep;
        chosen[(size_t)layer * experts + (size_t)kept->expert[number[layer]][i % kept->keep]] = true;
    }
    if (status == MT_OK)
        status = mt_chosen_experts_write(ctx,
                                         &(struct mt_chosen_experts){.experts = kept->experts,
                                                                     .layers = layers,
                                                                     .number = number,
                                                                     .chosen = chosen,
                                                                     .score = kept->score,
                                                                     .data = kept->data,
                                                                     .data_count = kept->data_count,
                                                                     .share = kept->share,
                                                                     .unused = kept->unused},
                                         path);
    mt_arena_free(&arena);
    return status;
}

int64_t mt_kept_place(const struct mt_kept *kept, int64_t layer, int64_t expert)
{
    for (int64_t i = 0; i < kept->keep; i++) {
        if (kept->expert[layer][i] == expert) return i;
    }
    return -1;
}
