/*
 * Cases of expert_pool: with and without a bias, ties, empty sequences, one expert, d that can only be n. Of
 * pool_mask: with and without segments, -inf, padded rows.
 */
#include <math.h>

#include "ops/case_files.h"
#include "ops/token_fill.h"

enum { SUM, ROWS, BIAS, POOL };
enum { LEAST, BIASED, TIED };

static void fill_pool(const struct op_case *c, struct mt_tensor *t)
{
    for (int64_t b = 0; b < t[SUM].dim[0]; b++) {
        ((double *)t[ROWS].data)[b] = (double)(b % 4) * 3.0; // every fourth sequence is empty
        for (int64_t j = 0; j < t[SUM].dim[1] && c->param[TIED]; j++)
            ((double *)t[SUM].data)[b * t[SUM].stride[0] + j] = (double)(j % 3);
    }
}

static enum mt_status run_pool(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_expert_pool_args args = {.sum = t[SUM],
                                       .rows = t[ROWS],
                                       .pool = t[POOL],
                                       .least = (int)c->param[LEAST],
                                       .first = 5,
                                       .seed = 7,
                                       .stream = 11};
    if (c->param[BIASED]) args.bias = t[BIAS];
    return mt_expert_pool(device, &args);
}

static struct op_case *add_pool(struct case_list *list, int64_t sequences, int64_t experts, int64_t least,
                                bool biased, bool tied)
{
    struct op_case *c = case_new(list, MT_OP_expert_pool, "B=%d n=%d k=%d%s%s", (int)sequences, (int)experts,
                                 (int)least, biased ? " bias" : "", tied ? " tied" : "");
    int64_t sums[] = {sequences, experts};
    int64_t each[] = {experts};
    c->param[LEAST] = least;
    c->param[BIASED] = biased;
    c->param[TIED] = tied;
    c->fill = fill_pool;
    c->forward = run_pool;
    case_slot(c, "sum", SLOT_INPUT, MT_F64, 2, sums);
    case_slot(c, "rows", SLOT_INPUT, MT_F64, 1, sums);
    case_input(c, "bias", 1, each);
    case_slot(c, "pool", SLOT_OUTPUT, MT_I32, 2, sums);
    return c;
}

enum { X, SEGMENT, MEMBERS };
enum { SEGMENTED };

static void fill_mask_case(const struct op_case *c, struct mt_tensor *t)
{
    fill_segment((enum segment_kind)c->param[SEGMENTED], t[MEMBERS].dim[0], &t[SEGMENT]);
    for (int64_t b = 0; b < t[MEMBERS].dim[0]; b++) {
        for (int64_t j = 0; j < t[MEMBERS].dim[1]; j++)
            ((int32_t *)t[MEMBERS].data)[b * t[MEMBERS].stride[0] + j] = (b + j) % 3 != 0;
    }
}

static enum mt_status run_mask(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_pool_mask_args args = {.x = t[X], .pool = t[MEMBERS], .value = -INFINITY};
    if (c->param[SEGMENTED] != SEGMENT_NONE) args.segment = t[SEGMENT];
    return mt_pool_mask(device, &args);
}

static struct op_case *add_mask(struct case_list *list, int64_t tokens, int64_t experts, int64_t sequences,
                                enum segment_kind segmented)
{
    struct op_case *c = case_new(list, MT_OP_pool_mask, "N=%d n=%d B=%d%s", (int)tokens, (int)experts,
                                 (int)sequences, segment_name(segmented));
    int64_t rows[] = {tokens, experts};
    int64_t members[] = {sequences, experts};
    c->param[SEGMENTED] = segmented;
    c->fill = fill_mask_case;
    c->forward = run_mask;
    case_slot(c, "x", SLOT_UPDATED, MT_F32, 2, rows);
    case_index(c, "segment", 1, rows);
    case_index(c, "pool", 2, members);
    return c;
}

void cases_expert_pool(struct case_list *list)
{
    add_pool(list, 0, 8, 2, true, false);
    add_pool(list, 1, 1, 1, false, false);
    add_pool(list, 5, 8, 2, true, false);
    add_pool(list, 6, 8, 8, false, false);
    add_pool(list, 9, 33, 4, false, true);
    struct op_case *c = add_pool(list, 130, 300, 8, true, false); // on threads, more experts than threads
    c->slot[SUM].row_padding = 3;
    c->slot[POOL].row_padding = 1;

    add_mask(list, 0, 8, 1, SEGMENT_NONE);
    add_mask(list, 37, 7, 1, SEGMENT_NONE);
    add_mask(list, 37, 33, 5, SEGMENT_RUNS);
    c = add_mask(list, 3001, 64, 17, SEGMENT_SCATTERED);
    c->slot[X].row_padding = 3;
    c->slot[MEMBERS].row_padding = 2;

    c = add_pool(list, 64, 64, 6, true, false);
    c->only_speed = true;
    c->bytes = 64.0 * 64 * 12;
    c = add_mask(list, 16384, 64, 64, SEGMENT_RUNS);
    c->only_speed = true;
    c->bytes = 16384.0 * 64 * 4;
}
