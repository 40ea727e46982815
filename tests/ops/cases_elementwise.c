/*
 * Cases of axpby, rank_sum, fill, copy and clamp: every type pair, ranks 1 to 3, padded rows, views that cut
 * the middle dimension. What is moved, filled or clamped must equal ref bit for bit.
 */
#include <math.h>
#include <string.h>

#include <stdio.h>

#include "base/rng.h"
#include "ops/case_files.h"

#define EXACT 1e-30

enum { X, Y, DY, DX, PLACE = DY, FACTOR = DY };
enum { CUT_MIDDLE, IN_PLACE, WITH_FACTOR = CUT_MIDDLE, OWN = CUT_MIDDLE }; // params
enum { ALPHA, BETA };                                                      // reals of axpby
enum { VALUE, LIMIT = VALUE };                                             // reals of fill and clamp

// ------------------------------------------------------------------ axpby

static enum mt_status run_axpby(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_axpby_args args = {.x = t[X], .y = t[Y], .alpha = c->real[ALPHA], .beta = c->real[BETA]};
    if (c->param[WITH_FACTOR]) args.factor = t[FACTOR];
    return mt_axpby(device, &args);
}

static struct op_case *add_axpby(struct case_list *list, int rank, const int64_t *dims, float alpha,
                                 float beta, enum mt_dtype dtype, int64_t padding)
{
    struct op_case *c = case_new(list, MT_OP_axpby, "[%d,%d] alpha %g beta %g %s%s",
                                 rank == 1 ? 1 : (int)dims[0], (int)dims[rank - 1], (double)alpha,
                                 (double)beta, mt_dtype_name(dtype), padding != 0 ? " padded" : "");
    c->real[ALPHA] = alpha;
    c->real[BETA] = beta;
    c->tolerance = dtype == MT_F32 ? 1e-6 : EXACT; // other types are ref's own
    c->forward = run_axpby;
    case_slot(c, "x", SLOT_INPUT, dtype, rank, dims);
    // With beta 0 the old y must not matter: as an output it starts as a value that would be noticed.
    case_slot(c, "y", beta == 0.0f ? SLOT_OUTPUT : SLOT_UPDATED, dtype, rank, dims);
    c->slot[X].row_padding = padding;
    c->slot[Y].row_padding = 2 * padding;
    return c;
}

static void add_factor(struct op_case *c)
{
    case_input(c, "factor", 1, (int64_t[]){1});
    c->param[WITH_FACTOR] = 1;
    size_t used = strlen(c->label);
    (void)snprintf(c->label + used, sizeof c->label - used, " factor");
}

static void axpby_cases(struct case_list *list)
{
    add_axpby(list, 1, (int64_t[]){1}, 2.0f, 1.0f, MT_F32, 0);
    add_axpby(list, 1, (int64_t[]){10007}, -0.5f, 0.25f, MT_F32, 0);
    add_axpby(list, 2, (int64_t[]){5, 33}, 1.0f, 1.0f, MT_F32, 3);
    add_axpby(list, 2, (int64_t[]){3, 9001}, 3.0f, 0.0f, MT_F32, 0);
    add_axpby(list, 2, (int64_t[]){7, 65}, 0.0f, 0.5f, MT_F32, 1);
    add_axpby(list, 2, (int64_t[]){7, 65}, 0.5f, 1.0f, MT_BF16, 1);
    add_axpby(list, 2, (int64_t[]){0, 8}, 0.5f, 1.0f, MT_F32, 0);
    add_factor(add_axpby(list, 1, (int64_t[]){10007}, 2.0f, 0.0f, MT_F32, 0));
    add_factor(add_axpby(list, 2, (int64_t[]){7, 65}, -0.5f, 0.25f, MT_BF16, 1));

    struct op_case *speed = add_axpby(list, 2, (int64_t[]){4096, 2048}, 0.5f, 0.5f, MT_F32, 0);
    speed->only_speed = true;
    speed->bytes = 4096.0 * 2048.0 * 3 * 4; // x, y in; y out
}

// ------------------------------------------------------------------ rank_sum

static enum mt_status run_rank_sum(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_rank_sum(device, &(struct mt_rank_sum_args){.x = t[X], .y = t[Y], .own = (int)c->param[OWN]});
}

static struct op_case *add_rank_sum(struct case_list *list, int ranks, int64_t count, int own,
                                    int64_t padding)
{
    struct op_case *c = case_new(list, MT_OP_rank_sum, "%d ranks, own %d, [%d]%s", ranks, own, (int)count,
                                 padding != 0 ? " padded" : "");
    c->param[OWN] = own;
    c->tolerance = EXACT; // one rounding of the same sum in double
    c->forward = run_rank_sum;
    case_input(c, "x", 2, (int64_t[]){ranks, count});
    case_slot(c, "y", SLOT_UPDATED, MT_F32, 1, &count);
    c->slot[X].row_padding = padding;
    return c;
}

static void rank_sum_cases(struct case_list *list)
{
    add_rank_sum(list, 1, 16, 0, 0);
    add_rank_sum(list, 2, 1, 1, 0);
    add_rank_sum(list, 3, 1537, 1, 5);
    add_rank_sum(list, 8, 512, 7, 0);
    add_rank_sum(list, 2, 0, 0, 0);

    struct op_case *speed = add_rank_sum(list, 8, 262144, 3, 0);
    speed->only_speed = true;
    speed->bytes = 262144.0 * 9 * 4; // x and y in; y out
}

// ------------------------------------------------------------------ fill

/* The tensor, or with CUT_MIDDLE all but the last index of the middle dimension: strides of their own. */
static struct mt_tensor cut(const struct op_case *c, struct mt_tensor t)
{
    if (c->param[CUT_MIDDLE]) t.dim[1] -= 1;
    return t;
}

static enum mt_status run_fill(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_fill(device, &(struct mt_fill_args){.y = cut(c, t[0]), .value = c->real[VALUE]});
}

static struct op_case *add_fill(struct case_list *list, int rank, const int64_t *dims, float value,
                                enum mt_dtype dtype, int64_t padding)
{
    struct op_case *c =
        case_new(list, MT_OP_fill, "rank %d, rows of %d, %g in %s%s", rank, (int)dims[rank - 1],
                 (double)value, mt_dtype_name(dtype), padding != 0 ? " padded" : "");
    c->real[VALUE] = value;
    c->tolerance = EXACT;
    c->forward = run_fill;
    case_slot(c, "y", SLOT_OUTPUT, dtype, rank, dims);
    c->slot[0].row_padding = padding;
    return c;
}

static void fill_cases(struct case_list *list)
{
    add_fill(list, 1, (int64_t[]){1}, 0.0f, MT_F32, 0);
    add_fill(list, 1, (int64_t[]){20001}, -1.25f, MT_F32, 0);
    add_fill(list, 2, (int64_t[]){7, 33}, 0.1f, MT_BF16, 3);
    add_fill(list, 2, (int64_t[]){7, 33}, 0.1f, MT_F16, 0);
    add_fill(list, 2, (int64_t[]){7, 33}, -1.0f, MT_I32, 1);
    add_fill(list, 2, (int64_t[]){7, 33}, 0.1f, MT_F64, 1);
    add_fill(list, 3, (int64_t[]){3, 5, 17}, INFINITY, MT_F32, 2);
    add_fill(list, 3, (int64_t[]){3, 5, 17}, 7.0f, MT_I32, 0)->param[CUT_MIDDLE] = 1;
    add_fill(list, 2, (int64_t[]){0, 8}, 1.0f, MT_F32, 0);

    struct op_case *speed = add_fill(list, 2, (int64_t[]){8192, 2048}, 0.0f, MT_F32, 0);
    speed->only_speed = true;
    speed->bytes = 8192.0 * 2048.0 * 4; // written; nothing is read
}

// ------------------------------------------------------------------ copy

static enum mt_status run_copy(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_copy(device, &(struct mt_copy_args){.x = cut(c, t[X]), .y = cut(c, t[Y])});
}

/* Integers, and float bit patterns of every kind: subnormals, infinities, NaN, values that overflow. */
static void fill_bits(const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    int64_t count = mt_tensor_count(&t[X]); // these cases are contiguous
    for (int64_t i = 0; i < count; i++) {
        uint32_t word = mt_rng_u32(5, 6, (uint64_t)i);
        if (t[X].dtype == MT_I32 || t[X].dtype == MT_F32) {
            memcpy((uint32_t *)t[X].data + i, &word, sizeof word);
        } else if (t[X].dtype != MT_F64) {
            ((uint16_t *)t[X].data)[i] = (uint16_t)(word >> 16);
        }
    }
}

static struct op_case *add_copy(struct case_list *list, int rank, const int64_t *dims, enum mt_dtype from,
                                enum mt_dtype to, int64_t padding)
{
    struct op_case *c =
        case_new(list, MT_OP_copy, "rank %d, rows of %d, %s to %s%s", rank, (int)dims[rank - 1],
                 mt_dtype_name(from), mt_dtype_name(to), padding != 0 ? " padded" : "");
    c->tolerance = EXACT;
    c->forward = run_copy;
    case_slot(c, "x", SLOT_INPUT, from, rank, dims);
    case_slot(c, "y", SLOT_OUTPUT, to, rank, dims);
    c->slot[X].row_padding = padding;
    c->slot[Y].row_padding = 2 * padding;
    return c;
}

/* The first two dimensions the other way round, of memory that stays where it is. */
static struct mt_tensor swapped(struct mt_tensor t)
{
    struct mt_tensor view = t;
    view.dim[0] = t.dim[1];
    view.dim[1] = t.dim[0];
    view.stride[0] = t.stride[1];
    view.stride[1] = t.stride[0];
    return view;
}

/* x is [T,H,D], y [H,T,D]. */
static enum mt_status run_swapped(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    return mt_copy(device, &(struct mt_copy_args){.x = t[X], .y = swapped(t[Y])});
}

static void add_swapped(struct case_list *list, enum mt_dtype from, enum mt_dtype to, int64_t padding)
{
    struct op_case *c = add_copy(list, 3, (int64_t[]){5, 3, 19}, from, to, padding);
    (void)snprintf(c->label, sizeof c->label, "[5,3,19] to [3,5,19], %s to %s%s", mt_dtype_name(from),
                   mt_dtype_name(to), padding != 0 ? " padded" : "");
    c->forward = run_swapped;
    c->slot[Y].dim[0] = 3;
    c->slot[Y].dim[1] = 5;
}

static enum mt_status run_placed(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    return mt_copy(device, &(struct mt_copy_args){.x = t[X], .y = t[Y], .place = t[PLACE]});
}

/* Distinct, and in no order. */
static void fill_places(const struct op_case *c, struct mt_tensor *t)
{
    int32_t *place = t[PLACE].data;
    (void)c;
    for (int64_t i = 0; i < t[PLACE].dim[0]; i++) place[i] = (int32_t)((i * 7919 + 3) % t[Y].dim[0]);
}

static struct op_case *add_placed(struct case_list *list, int64_t rows, int64_t places, int64_t width,
                                  enum mt_dtype from, enum mt_dtype to, int64_t padding)
{
    struct op_case *c =
        case_new(list, MT_OP_copy, "%d rows of %d to places of %d, %s to %s%s", (int)rows, (int)width,
                 (int)places, mt_dtype_name(from), mt_dtype_name(to), padding != 0 ? " padded" : "");
    c->tolerance = EXACT;
    c->fill = fill_places;
    c->forward = run_placed;
    case_slot(c, "x", SLOT_INPUT, from, 2, (int64_t[]){rows, width});
    case_slot(c, "y", SLOT_UPDATED, to, 2, (int64_t[]){places, width});
    case_index(c, "place", 1, (int64_t[]){rows});
    c->slot[X].row_padding = padding;
    c->slot[Y].row_padding = 2 * padding;
    return c;
}

static void copy_cases(struct case_list *list)
{
    static const enum mt_dtype floats[] = {MT_F32, MT_BF16, MT_F16, MT_F64};
    for (int from = 0; from < 4; from++) {
        for (int to = 0; to < 4; to++) {
            add_copy(list, 2, (int64_t[]){7, 33}, floats[from], floats[to], 3);
            if (floats[from] == MT_F64) continue;
            struct op_case *bits = add_copy(list, 1, (int64_t[]){70001}, floats[from], floats[to], 0);
            bits->slot[X].fill = FILL_CUSTOM;
            bits->fill = fill_bits;
        }
    }
    add_copy(list, 3, (int64_t[]){4, 3, 19}, MT_F32, MT_BF16, 5);
    add_copy(list, 3, (int64_t[]){4, 3, 19}, MT_BF16, MT_F32, 0)->param[CUT_MIDDLE] = 1;
    add_copy(list, 3, (int64_t[]){4, 3, 19}, MT_F32, MT_F32, 1)->param[CUT_MIDDLE] = 1;
    add_swapped(list, MT_F32, MT_F32, 0);
    add_swapped(list, MT_BF16, MT_BF16, 3);
    add_swapped(list, MT_F32, MT_BF16, 2);
    add_placed(list, 1, 1, 8, MT_F32, MT_F32, 0);
    add_placed(list, 5, 40, 33, MT_F32, MT_F32, 3);
    add_placed(list, 9, 9, 64, MT_BF16, MT_BF16, 0);
    add_placed(list, 7, 100, 17, MT_F32, MT_BF16, 1);
    add_placed(list, 0, 4, 8, MT_F32, MT_F32, 0);
    struct op_case *integers = add_copy(list, 2, (int64_t[]){50, 600}, MT_I32, MT_I32, 0);
    integers->slot[X].fill = FILL_CUSTOM;
    integers->fill = fill_bits;
    add_copy(list, 2, (int64_t[]){0, 8}, MT_F32, MT_BF16, 0);

    static const struct {
        enum mt_dtype from, to;
    } timed[] = {{MT_F32, MT_F32}, {MT_F32, MT_BF16}, {MT_BF16, MT_F32}, {MT_F32, MT_F16}, {MT_F16, MT_F32}};
    for (size_t i = 0; i < sizeof timed / sizeof timed[0]; i++) {
        struct op_case *speed = add_copy(list, 2, (int64_t[]){8192, 2048}, timed[i].from, timed[i].to, 0);
        speed->only_speed = true;
        speed->slot[X].fill = FILL_UNIFORM;
        speed->bytes =
            8192.0 * 2048.0 * (double)(mt_dtype_bytes(timed[i].from) + mt_dtype_bytes(timed[i].to));
    }
}

// ------------------------------------------------------------------ clamp

static enum mt_status clamp_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_clamp_forward_args args = {.x = t[X], .y = t[Y], .limit = c->real[LIMIT]};
    if (c->param[IN_PLACE]) {
        enum mt_status status = mt_copy(device, &(struct mt_copy_args){.x = t[X], .y = t[Y]});
        if (status != MT_OK) return status;
        args.x = t[Y];
    }
    return mt_clamp_forward(device, &args);
}

static enum mt_status clamp_backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_clamp_backward_args args = {.dy = t[DY], .x = t[X], .dx = t[DX], .limit = c->real[LIMIT]};
    if (c->param[IN_PLACE]) {
        enum mt_status status = mt_copy(device, &(struct mt_copy_args){.x = t[DY], .y = t[DX]});
        if (status != MT_OK) return status;
        args.dy = t[DX];
    }
    return mt_clamp_backward(device, &args);
}

/* NaN, infinities and the limit itself, in the first places. */
static void fill_specials(const struct op_case *c, struct mt_tensor *t)
{
    float specials[] = {NAN, INFINITY, -INFINITY, c->real[LIMIT], -c->real[LIMIT], 0.0f};
    memcpy(t[X].data, specials, sizeof specials);
}

static struct op_case *add_clamp(struct case_list *list, int64_t tokens, int64_t width, float limit,
                                 bool in_place, int64_t padding)
{
    struct op_case *c = case_new(list, MT_OP_clamp_forward, "T=%d d=%d limit %g%s%s", (int)tokens, (int)width,
                                 (double)limit, in_place ? " in place" : "", padding != 0 ? " padded" : "");
    int64_t dims[] = {tokens, width};
    c->backward_op = MT_OP_clamp_backward;
    c->param[IN_PLACE] = in_place;
    c->real[LIMIT] = limit;
    c->tolerance = EXACT;
    c->forward = clamp_forward;
    c->backward = clamp_backward;
    case_input(c, "x", 2, dims);
    case_output(c, "y", 2, dims);
    case_grad_in(c, "dy", Y);
    case_grad_out(c, "dx", X);
    c->slot[X].row_padding = padding;
    c->slot[DX].row_padding = 2 * padding;
    return c;
}

static void clamp_cases(struct case_list *list)
{
    add_clamp(list, 1, 1, 0.5f, false, 0);
    add_clamp(list, 9, 33, 0.7f, false, 3);
    add_clamp(list, 9, 64, 0.7f, true, 1);
    add_clamp(list, 30, 1000, 1.0f, true, 0);
    add_clamp(list, 0, 8, 1.0f, false, 0)->no_gradient = true;
    struct op_case *specials = add_clamp(list, 3, 40, 1.5f, false, 0);
    specials->fill = fill_specials;
    specials->no_gradient = true; // no slope at the limit

    struct op_case *speed = add_clamp(list, 4096, 2048, 1.0f, false, 0);
    speed->only_speed = true;
    speed->bytes = 4096.0 * 2048.0 * 2 * 4;          // x in, y out
    speed->backward_bytes = 4096.0 * 2048.0 * 3 * 4; // dy, x in; dx out
}

void cases_elementwise(struct case_list *list)
{
    axpby_cases(list);
    rank_sum_cases(list);
    fill_cases(list);
    copy_cases(list);
    clamp_cases(list);
}
