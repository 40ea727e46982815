/*
 * Cases of column_stats and slot_stats: one segment and many, in runs and scattered, empty ones; masks; with
 * and without the optional statistics; padded rows; pairs without an expert.
 */
#include "ops/case_files.h"
#include "ops/token_fill.h"

enum { WANT_ALL, WANT_SUM, WANT_COUNT }; // which optional statistics are asked for

/* A statistic and its gradient are f64. One that is not asked for stays what it was. */
static void add_statistic(struct op_case *c, const char *name, int rank, const int64_t *dims, bool wanted)
{
    case_slot(c, name, wanted ? SLOT_OUTPUT : SLOT_INPUT, MT_F64, rank, dims);
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
    c->tolerance = 1e-12;
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
    add_statistic(c, "sum", 2, columns, true);
    add_statistic(c, "squares", 2, columns, wanted == WANT_ALL);
    add_statistic(c, "row_squares", 1, columns, wanted == WANT_ALL);
    add_statistic(c, "rows", 1, columns, wanted == WANT_ALL);
    add_statistic_gradient(c, "dsum", C_SUM);
    add_statistic_gradient(c, "dsquares", C_SQUARES);
    add_statistic_gradient(c, "drow_squares", C_ROW_SQUARES);
    case_grad_out(c, "dx", C_X);
    if (accumulate) c->slot[C_DX].role = SLOT_GRAD_SUM;
    c->slot[C_DX].tolerance = 2e-7;
    return c;
}

static void pad_columns(struct op_case *c)
{
    c->slot[C_X].row_padding = 3;
    c->slot[C_SUM].row_padding = 2;
    c->slot[C_SQUARES].row_padding = 5;
    c->slot[C_DSUM].row_padding = 1;
    c->slot[C_DSQUARES].row_padding = 4;
    c->slot[C_DX].row_padding = 7;
}

// tokens, experts, slots, segments, how they lie, mask. The larger have enough elements for threads.
static const struct stats_shape shapes[] = {
    {1, 1, 1, 1, SEGMENT_NONE, MASK_NONE},
    {5, 7, 2, 1, SEGMENT_NONE, MASK_NONE},
    {1, 8, 2, 3, SEGMENT_LAST, MASK_NONE},
    {40, 8, 3, 3, SEGMENT_SCATTERED, MASK_SOME},
    {37, 33, 6, 4, SEGMENT_RUNS, MASK_ENDS},
    {64, 16, 1, 64, SEGMENT_SCATTERED, MASK_NONE}, // as many segments as tokens
    {50, 9, 2, 100, SEGMENT_RUNS, MASK_NONE},      // more
    {333, 64, 8, 1, SEGMENT_NONE, MASK_SOME},
    {700, 65, 6, 5, SEGMENT_RUNS, MASK_ENDS},
    {2500, 8, 8, 7, SEGMENT_RUNS, MASK_NONE},
    {300, 128, 6, 3, SEGMENT_SCATTERED, MASK_SOME}, // more runs than there is scratch for
    {160, 256, 2, 2, SEGMENT_LAST, MASK_SOME},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static const struct stats_shape shapes_without_gradient[] = {
    {0, 8, 2, 1, SEGMENT_NONE, MASK_NONE},
    {0, 8, 2, 3, SEGMENT_RUNS, MASK_SOME},
    {9, 8, 2, 2, SEGMENT_RUNS, MASK_EMPTY},
};
enum { SHAPES_WITHOUT_GRADIENT = sizeof shapes_without_gradient / sizeof shapes_without_gradient[0] };

static void column_cases(struct case_list *list)
{
    for (int normalise = 0; normalise <= 1; normalise++) {
        for (int i = 0; i < SHAPES; i++) {
            // A normalised row of one expert is 1, whatever x: the gradient is nothing but rounding errors,
            // which accumulation holds against a number.
            bool constant = normalise != 0 && shapes[i].experts == 1;
            struct op_case *c = add_columns(list, &shapes[i], normalise != 0,
                                            i % 3 == 2 ? WANT_SUM : WANT_ALL, i % 2 == 1 || constant);
            c->no_gradient = constant;
            if (i % 4 == 3) pad_columns(c);
        }
        for (int i = 0; i < SHAPES_WITHOUT_GRADIENT; i++) {
            add_columns(list, &shapes_without_gradient[i], normalise != 0, WANT_ALL, i == 2)->no_gradient =
                true;
        }
    }
    struct op_case *c = add_columns(list, &shapes[3], true, WANT_ALL, false);
    c->slot[C_X].dtype = MT_F64; // handed to ref
    c->slot[C_DX].dtype = MT_F64;

    static const struct stats_shape real[] = {
        {4096, 64, 6, 1, SEGMENT_NONE, MASK_NONE},      {4096, 64, 6, 8, SEGMENT_RUNS, MASK_ENDS},
        {4096, 64, 6, 8, SEGMENT_SCATTERED, MASK_NONE}, {16384, 64, 6, 1, SEGMENT_NONE, MASK_NONE},
        {4096, 8, 6, 1, SEGMENT_NONE, MASK_NONE},       {4096, 16, 6, 1, SEGMENT_NONE, MASK_NONE},
        {4096, 128, 6, 1, SEGMENT_NONE, MASK_NONE},     {4096, 256, 6, 1, SEGMENT_NONE, MASK_NONE},
        {16384, 64, 6, 32, SEGMENT_RUNS, MASK_NONE},    {16384, 6, 6, 1, SEGMENT_NONE, MASK_NONE},
    };
    for (int i = 0; i < (int)(sizeof real / sizeof real[0]); i++) {
        for (int normalise = 0; normalise <= (i < 2 ? 1 : 0); normalise++) {
            c = add_columns(list, &real[i], normalise != 0, WANT_ALL, true);
            double elements = (double)(real[i].tokens * real[i].experts);
            c->only_speed = true;
            c->bytes = elements * 4;              // x in
            c->backward_bytes = elements * 4 * 3; // x, dx in; dx out
        }
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
    S_ROWS,
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
    struct mt_slot_stats_forward_args args = {.expert = t[S_EXPERT], .count = t[S_COUNT]};
    if (c->param[S_WANTED] != WANT_COUNT) {
        args.weight = t[S_WEIGHT];
        args.sum = t[S_SUM];
    }
    if (c->param[S_MASKED] != MASK_NONE) args.mask = t[S_MASK];
    if (c->param[S_SEGMENTED] != SEGMENT_NONE) args.segment = t[S_SEGMENT];
    if (c->param[S_WANTED] == WANT_ALL) {
        args.first = t[S_FIRST];
        args.squares = t[S_SQUARES];
        args.row_squares = t[S_ROW_SQUARES];
        args.rows = t[S_ROWS];
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
    static const char *const route_names[] = {"", " -1", " skewed"};
    static const char *const wanted_names[] = {"", " sum only", " counts only"};
    struct op_case *c = case_new(
        list, MT_OP_slot_stats_forward, "N=%d n=%d k=%d B=%d%s%s%s%s%s", (int)shape->tokens,
        (int)shape->experts, (int)shape->slots, (int)shape->segments, segment_name(shape->segmented),
        mask_name(shape->masked), route_names[route], wanted_names[wanted], accumulate ? " accumulate" : "");
    int64_t chosen[] = {shape->tokens, shape->slots};
    int64_t columns[] = {shape->segments, shape->experts};
    c->tolerance = 1e-12;
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
    add_statistic(c, "count", 2, columns, true);
    add_statistic(c, "first", 2, columns, wanted == WANT_ALL);
    add_statistic(c, "sum", 2, columns, wanted != WANT_COUNT);
    add_statistic(c, "squares", 2, columns, wanted == WANT_ALL);
    add_statistic(c, "row_squares", 1, columns, wanted == WANT_ALL);
    add_statistic(c, "rows", 1, columns, wanted == WANT_ALL);
    add_statistic_gradient(c, "dsum", S_SUM);
    add_statistic_gradient(c, "dsquares", S_SQUARES);
    add_statistic_gradient(c, "drow_squares", S_ROW_SQUARES);
    case_grad_out(c, "dweight", S_WEIGHT);
    if (accumulate) c->slot[S_DWEIGHT].role = SLOT_GRAD_SUM;
    c->slot[S_DWEIGHT].tolerance = 2e-7;
    return c;
}

static void pad_slots(struct op_case *c)
{
    c->slot[S_EXPERT].row_padding = 3;
    c->slot[S_WEIGHT].row_padding = 1;
    c->slot[S_COUNT].row_padding = 2;
    c->slot[S_FIRST].row_padding = 4;
    c->slot[S_SUM].row_padding = 6;
    c->slot[S_SQUARES].row_padding = 5;
    c->slot[S_DSUM].row_padding = 1;
    c->slot[S_DSQUARES].row_padding = 7;
    c->slot[S_DWEIGHT].row_padding = 2;
}

static void slot_cases(struct case_list *list)
{
    static const enum route_kind routes[] = {ROUTE_SPREAD, ROUTE_DROPPED, ROUTE_SKEWED};
    for (int i = 0; i < SHAPES; i++) {
        struct op_case *c =
            add_slots(list, &shapes[i], routes[i % 3], i % 3 == 2 ? WANT_SUM : WANT_ALL, i % 2 == 1);
        if (i % 4 == 3) pad_slots(c);
    }
    for (int i = 0; i < SHAPES_WITHOUT_GRADIENT; i++) {
        add_slots(list, &shapes_without_gradient[i], ROUTE_SPREAD, WANT_ALL, i == 2)->no_gradient = true;
    }
    struct op_case *c = add_slots(list, &shapes[3], ROUTE_DROPPED, WANT_ALL, false);
    c->slot[S_WEIGHT].dtype = MT_F64; // handed to ref
    c->slot[S_DWEIGHT].dtype = MT_F64;
    c = add_slots(list, &shapes[4], ROUTE_DROPPED, WANT_COUNT, false); // without weights
    c->no_gradient = true;
    c->backward = NULL;
    add_slots(list, &(struct stats_shape){4000, 64, 6, 3, SEGMENT_RUNS, MASK_SOME}, ROUTE_DROPPED, WANT_ALL,
              false);

    static const struct stats_shape real[] = {
        {4096, 64, 6, 1, SEGMENT_NONE, MASK_NONE},      {4096, 64, 6, 8, SEGMENT_RUNS, MASK_ENDS},
        {4096, 64, 6, 8, SEGMENT_SCATTERED, MASK_NONE}, {16384, 64, 6, 1, SEGMENT_NONE, MASK_NONE},
        {4096, 8, 2, 1, SEGMENT_NONE, MASK_NONE},       {4096, 64, 1, 1, SEGMENT_NONE, MASK_NONE},
        {4096, 128, 8, 1, SEGMENT_NONE, MASK_NONE},     {16384, 64, 6, 32, SEGMENT_RUNS, MASK_NONE},
    };
    for (int i = 0; i < (int)(sizeof real / sizeof real[0]); i++) {
        c = add_slots(list, &real[i], ROUTE_SPREAD, WANT_ALL, true);
        double pairs = (double)(real[i].tokens * real[i].slots);
        c->only_speed = true;
        c->bytes = pairs * 4 * 2;          // expert, weight in
        c->backward_bytes = pairs * 4 * 4; // the same, dweight in; dweight out
    }
}

void cases_stats(struct case_list *list)
{
    column_cases(list);
    slot_cases(list);
}
