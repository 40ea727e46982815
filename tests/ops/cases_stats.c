/*
 * Cases of column_stats and slot_stats: one segment and many, in runs and scattered, empty ones; masks; with
 * and without the optional statistics; padded rows; pairs without an expert.
 */
#include <stdio.h>
#include <string.h>

#include "ops/case_files.h"
#include "ops/token_fill.h"

enum { WANT_ALL, WANT_SUM }; // which optional statistics are asked for

/* A statistic and its gradient are f64. */
static int add_statistic(struct op_case *c, const char *name, int rank, const int64_t *dims)
{
    return case_slot(c, name, SLOT_OUTPUT, MT_F64, rank, dims);
}

static void add_statistic_gradient(struct op_case *c, const char *name, int of)
{
    c->slot[case_grad_in(c, name, of)].dtype = MT_F64;
}

// ------------------------------------------------------------------ column_stats

enum { C_X, C_MASK, C_SEGMENT, C_SUM, C_SQUARES, C_ROW_SQUARES, C_ROWS, C_DSUM, C_DSQUARES, C_DROWS, C_DX };
enum { C_NORMALISE, C_MASKED, C_SEGMENTED, C_WANTED, C_ACCUMULATE };

static void columns_fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_mask((enum mask_kind)c->param[C_MASKED], &t[C_MASK]);
    fill_segment((enum segment_kind)c->param[C_SEGMENTED], t[C_SUM].dim[0], &t[C_SEGMENT]);
}

static enum mt_status columns_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_column_stats_forward_args args = {
        .x = t[C_X], .sum = t[C_SUM], .normalise_rows = c->param[C_NORMALISE] != 0};
    if (c->param[C_MASKED] != MASK_NONE) args.mask = t[C_MASK];
    if (c->param[C_SEGMENTED] != SEGMENT_NONE) args.segment = t[C_SEGMENT];
    if (c->param[C_WANTED] == WANT_ALL) {
        args.squares = t[C_SQUARES];
        args.row_squares = t[C_ROW_SQUARES];
        args.rows = t[C_ROWS];
    }
    return mt_column_stats_forward(device, &args);
}

static enum mt_status columns_backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_column_stats_backward_args args = {.x = t[C_X],
                                                 .dsum = t[C_DSUM],
                                                 .dx = t[C_DX],
                                                 .normalise_rows = c->param[C_NORMALISE] != 0,
                                                 .accumulate = c->param[C_ACCUMULATE] != 0};
    if (c->param[C_MASKED] != MASK_NONE) args.mask = t[C_MASK];
    if (c->param[C_SEGMENTED] != SEGMENT_NONE) args.segment = t[C_SEGMENT];
    if (c->param[C_WANTED] == WANT_ALL) {
        args.dsquares = t[C_DSQUARES];
        args.drow_squares = t[C_DROWS];
    }
    return mt_column_stats_backward(device, &args);
}

struct stats_shape {
    int64_t tokens;
    int64_t experts;
    int64_t slots; // of slot_stats
    int64_t segments;
    enum segment_kind segmented;
    enum mask_kind masked;
};

static struct op_case *add_columns(struct case_list *list, const struct stats_shape *shape, bool normalise,
                                   int wanted, bool accumulate)
{
    struct op_case *c =
        case_new(list, MT_OP_column_stats_forward, "N=%d n=%d B=%d%s%s%s%s%s", (int)shape->tokens,
                 (int)shape->experts, (int)shape->segments, segment_name(shape->segmented),
                 mask_name(shape->masked), normalise ? " normalised" : "",
                 wanted == WANT_SUM ? " sum only" : "", accumulate ? " accumulate" : "");
    int64_t wide[] = {shape->tokens, shape->experts};
    int64_t columns[] = {shape->segments, shape->experts};
    c->backward_op = MT_OP_column_stats_backward;
    c->param[C_NORMALISE] = normalise;
    c->param[C_MASKED] = shape->masked;
    c->param[C_SEGMENTED] = shape->segmented;
    c->param[C_WANTED] = wanted;
    c->param[C_ACCUMULATE] = accumulate;
    c->fill = columns_fill;
    c->forward = columns_forward;
    c->backward = columns_backward;
    case_input(c, "x", 2, wide);
    c->slot[C_X].fill = FILL_UNIFORM; // scores: a row's sum is far from 0
    case_index(c, "mask", 1, wide);
    case_index(c, "segment", 1, wide);
    add_statistic(c, "sum", 2, columns);
    add_statistic(c, "squares", 2, columns);
    add_statistic(c, "row_squares", 1, columns);
    add_statistic(c, "rows", 1, columns);
    add_statistic_gradient(c, "dsum", C_SUM);
    add_statistic_gradient(c, "dsquares", C_SQUARES);
    add_statistic_gradient(c, "drow_squares", C_ROW_SQUARES);
    case_grad_out(c, "dx", C_X);
    if (accumulate) c->slot[C_DX].role = SLOT_GRAD_SUM;
    return c;
}

static void column_cases(struct case_list *list)
{
    for (int normalise = 0; normalise <= 1; normalise++) {
        bool normal = normalise != 0;
        add_columns(list, &(struct stats_shape){.tokens = 5, .experts = 7, .segments = 1}, normal, WANT_ALL,
                    false);
        add_columns(list,
                    &(struct stats_shape){.tokens = 40,
                                          .experts = 8,
                                          .segments = 3,
                                          .segmented = SEGMENT_SCATTERED,
                                          .masked = MASK_SOME},
                    normal, WANT_ALL, true);
    }
}

// ------------------------------------------------------------------ slot_stats

enum {
    S_EXPERT,
    S_WEIGHT,
    S_MASK,
    S_SEGMENT,
    S_COUNT,
    S_FIRST,
    S_SUM,
    S_SQUARES,
    S_ROW_SQUARES,
    S_DSUM,
    S_DSQUARES,
    S_DROWS,
    S_DWEIGHT
};
enum { S_ROUTE, S_MASKED, S_SEGMENTED, S_WANTED, S_ACCUMULATE };

static void slots_fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_experts((enum route_kind)c->param[S_ROUTE], t[S_COUNT].dim[1], &t[S_EXPERT]);
    fill_mask((enum mask_kind)c->param[S_MASKED], &t[S_MASK]);
    fill_segment((enum segment_kind)c->param[S_SEGMENTED], t[S_COUNT].dim[0], &t[S_SEGMENT]);
}

static enum mt_status slots_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_slot_stats_forward_args args = {
        .expert = t[S_EXPERT], .weight = t[S_WEIGHT], .count = t[S_COUNT], .sum = t[S_SUM]};
    if (c->param[S_MASKED] != MASK_NONE) args.mask = t[S_MASK];
    if (c->param[S_SEGMENTED] != SEGMENT_NONE) args.segment = t[S_SEGMENT];
    if (c->param[S_WANTED] == WANT_ALL) {
        args.first = t[S_FIRST];
        args.squares = t[S_SQUARES];
        args.row_squares = t[S_ROW_SQUARES];
    }
    return mt_slot_stats_forward(device, &args);
}

static enum mt_status slots_backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_slot_stats_backward_args args = {.expert = t[S_EXPERT],
                                               .weight = t[S_WEIGHT],
                                               .dsum = t[S_DSUM],
                                               .dweight = t[S_DWEIGHT],
                                               .accumulate = c->param[S_ACCUMULATE] != 0};
    if (c->param[S_MASKED] != MASK_NONE) args.mask = t[S_MASK];
    if (c->param[S_SEGMENTED] != SEGMENT_NONE) args.segment = t[S_SEGMENT];
    if (c->param[S_WANTED] == WANT_ALL) {
        args.dsquares = t[S_DSQUARES];
        args.drow_squares = t[S_DROWS];
    }
    return mt_slot_stats_backward(device, &args);
}

static struct op_case *add_slots(struct case_list *list, const struct stats_shape *shape,
                                 enum route_kind route, int wanted, bool accumulate)
{
    struct op_case *c =
        case_new(list, MT_OP_slot_stats_forward, "N=%d n=%d k=%d B=%d%s%s%s%s%s", (int)shape->tokens,
                 (int)shape->experts, (int)shape->slots, (int)shape->segments, segment_name(shape->segmented),
                 mask_name(shape->masked), route == ROUTE_DROPPED ? " -1" : "",
                 wanted == WANT_SUM ? " sum only" : "", accumulate ? " accumulate" : "");
    int64_t chosen[] = {shape->tokens, shape->slots};
    int64_t columns[] = {shape->segments, shape->experts};
    c->backward_op = MT_OP_slot_stats_backward;
    c->param[S_ROUTE] = route;
    c->param[S_MASKED] = shape->masked;
    c->param[S_SEGMENTED] = shape->segmented;
    c->param[S_WANTED] = wanted;
    c->param[S_ACCUMULATE] = accumulate;
    c->fill = slots_fill;
    c->forward = slots_forward;
    c->backward = slots_backward;
    case_index(c, "expert", 2, chosen);
    case_input(c, "weight", 2, chosen);
    c->slot[S_WEIGHT].fill = FILL_UNIFORM;
    case_index(c, "mask", 1, chosen);
    case_index(c, "segment", 1, chosen);
    add_statistic(c, "count", 2, columns);
    add_statistic(c, "first", 2, columns);
    add_statistic(c, "sum", 2, columns);
    add_statistic(c, "squares", 2, columns);
    add_statistic(c, "row_squares", 1, columns);
    add_statistic_gradient(c, "dsum", S_SUM);
    add_statistic_gradient(c, "dsquares", S_SQUARES);
    add_statistic_gradient(c, "drow_squares", S_ROW_SQUARES);
    case_grad_out(c, "dweight", S_WEIGHT);
    if (accumulate) c->slot[S_DWEIGHT].role = SLOT_GRAD_SUM;
    return c;
}

static void slot_cases(struct case_list *list)
{
    add_slots(list, &(struct stats_shape){.tokens = 5, .experts = 7, .slots = 2, .segments = 1}, ROUTE_SPREAD,
              WANT_ALL, false);
    add_slots(list,
              &(struct stats_shape){.tokens = 40,
                                    .experts = 8,
                                    .slots = 3,
                                    .segments = 3,
                                    .segmented = SEGMENT_SCATTERED,
                                    .masked = MASK_SOME},
              ROUTE_DROPPED, WANT_ALL, true);
}

void cases_stats(struct case_list *list)
{
    column_cases(list);
    slot_cases(list);
}
