/*
 * Cases of combine: every number of slots with a kernel of its own and some beyond, with and without base,
 * Gram matrix and coupling, in place, with missing slots.
 *
 * The scalar differentiated is <dy,y> + <dgram,gram> with a symmetric dgram, so the coupling that belongs
 * to it is 2·dgram; where these are alone, as a factor of ½ and 4·dgram.
 */
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "ops/case_files.h"
#include "ops/route_fill.h"
#include "tensor/dtype.h"

enum { ROWS, ROW_OF_SLOT, WEIGHT, BASE, Y, GRAM, DGRAM, COUPLING, DY, DROWS, DWEIGHT, FACTOR };
enum { ROUTE, EXPERTS, WITH_BASE, WITH_GRAM, IN_PLACE, ACCUMULATE, ALONE };

struct shape {
    int64_t tokens, width, experts, slots;
};

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    route_fill((enum route_kind)c->param[ROUTE], c->param[EXPERTS], &t[ROW_OF_SLOT], NULL);
    const struct mt_tensor *dgram = &t[DGRAM];
    const struct mt_tensor *coupling = &t[COUPLING];
    double factor = c->param[ALONE] ? 0.5 : 1.0;
    mt_store(t[FACTOR].dtype, t[FACTOR].data, 0, factor);
    int64_t slots = dgram->dim[1];
    for (int64_t i = 0; i < dgram->dim[0]; i++) {
        for (int64_t s = 0; s < slots; s++) {
            for (int64_t m = 0; m < slots; m++) {
                uint64_t pair = (uint64_t)(s < m ? s * slots + m : m * slots + s);
                double value = 0.1 * (double)mt_rng_normal(3, (uint64_t)i, pair);
                value = (double)(float)value; // the run in double sees the same numbers
                mt_store(dgram->dtype, dgram->data, (i * slots + s) * slots + m, value);
                int64_t place = i * coupling->stride[0] + s * coupling->stride[1] + m;
                mt_store(coupling->dtype, coupling->data, place, 2.0 * value / factor);
            }
        }
    }
    if (!c->param[IN_PLACE]) return;
    for (int64_t r = 0; r < t[ROWS].dim[0]; r++) {
        for (int64_t j = 0; j < t[ROWS].dim[1]; j++) {
            double value = mt_load(t[ROWS].dtype, t[ROWS].data, r * t[ROWS].stride[0] + j);
            mt_store(t[DROWS].dtype, t[DROWS].data, r * t[DROWS].stride[0] + j, value);
        }
    }
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_combine_forward_args args = {
        .rows = t[ROWS], .row_of_slot = t[ROW_OF_SLOT], .weight = t[WEIGHT], .y = t[Y]};
    if (c->param[WITH_BASE]) args.base = c->param[IN_PLACE] ? t[Y] : t[BASE];
    if (c->param[WITH_GRAM]) args.gram = t[GRAM];
    args.accumulate = c->param[ACCUMULATE] != 0;
    if (c->param[ALONE]) args.y = (struct mt_tensor){0};
    return mt_combine_forward(device, &args);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_combine_backward_args args = {
        .dy = t[DY],
        .rows = c->param[IN_PLACE] ? t[DROWS] : t[ROWS],
        .row_of_slot = t[ROW_OF_SLOT],
        .weight = t[WEIGHT],
        .drows = t[DROWS],
        .dweight = t[DWEIGHT],
    };
    if (c->param[WITH_GRAM]) args.coupling = t[COUPLING];
    if (c->param[ALONE]) {
        args.dy = (struct mt_tensor){0};
        args.dweight = (struct mt_tensor){0};
        args.factor = t[FACTOR];
    }
    return mt_combine_backward(device, &args);
}

static struct op_case *add(struct case_list *list, struct shape shape, bool base, bool gram,
                           enum route_kind route, bool in_place)
{
    struct op_case *c =
        case_new(list, MT_OP_combine_forward, "N=%d d=%d n=%d k=%d%s%s%s%s", (int)shape.tokens,
                 (int)shape.width, (int)shape.experts, (int)shape.slots, base ? " +base" : "",
                 gram ? " +gram" : "", route == ROUTE_DROPPED ? " -1" : "", in_place ? " in place" : "");
    int64_t rows[] = {route_rows(route, shape.tokens, shape.slots), shape.width};
    int64_t chosen[] = {shape.tokens, shape.slots};
    int64_t wide[] = {shape.tokens, shape.width};
    int64_t square[] = {shape.tokens, shape.slots, shape.slots};
    c->backward_op = MT_OP_combine_backward;
    c->param[ROUTE] = route;
    c->param[EXPERTS] = shape.experts;
    c->param[WITH_BASE] = base;
    c->param[WITH_GRAM] = gram;
    c->param[IN_PLACE] = in_place;
    c->fill = fill;
    c->forward = forward;
    c->backward = backward;
    case_input(c, "rows", 2, rows);
    case_index(c, "row_of_slot", 2, chosen);
    case_input(c, "weight", 2, chosen);
    c->slot[WEIGHT].fill = FILL_UNIFORM;
    case_input(c, "base", 2, wide);
    case_output(c, "y", 2, wide);
    if (in_place) c->slot[Y].role = SLOT_UPDATED;
    case_slot(c, "gram", gram ? SLOT_OUTPUT : SLOT_INPUT, MT_F32, 3, square);
    case_slot(c, "dgram", gram ? SLOT_GRAD_IN : SLOT_INPUT, MT_F32, 3, square);
    c->slot[DGRAM].of = GRAM;
    c->slot[DGRAM].fill = FILL_CUSTOM;
    case_input(c, "coupling", 3, square);
    c->slot[COUPLING].fill = FILL_CUSTOM;
    case_grad_in(c, "dy", Y);
    case_grad_out(c, "drows", ROWS);
    if (in_place) {
        c->slot[DROWS].role = SLOT_GRAD_SUM;
        c->slot[DROWS].fill = FILL_CUSTOM;
        c->slot[DROWS].no_numeric = true; // holds the rows before: what is left is not old plus gradient
    }
    case_grad_out(c, "dweight", WEIGHT);
    case_input(c, "factor", 1, (int64_t[]){1});
    c->slot[FACTOR].fill = FILL_CUSTOM;
    return c;
}

/* y is added to, as where shared experts have been there. */
static struct op_case *add_accumulating(struct case_list *list, struct shape shape, bool base, bool gram)
{
    struct op_case *c = add(list, shape, base, gram, ROUTE_DROPPED, false);
    c->param[ACCUMULATE] = 1;
    c->slot[Y].role = SLOT_UPDATED;
    size_t used = strlen(c->label);
    (void)snprintf(c->label + used, sizeof c->label - used, " accumulate");
    return c;
}

/* The Gram matrices and what comes back through them alone: no y, no dy. */
static struct op_case *add_alone(struct case_list *list, struct shape shape, enum route_kind route,
                                 bool in_place)
{
    struct op_case *c = add(list, shape, false, true, route, in_place);
    c->param[ALONE] = 1;
    c->slot[Y].role = SLOT_INPUT;
    c->slot[DY].role = SLOT_INPUT;
    c->slot[DWEIGHT].role = SLOT_INPUT;
    c->no_gradient = in_place; // nothing is left that could be told from old plus gradient
    size_t used = strlen(c->label);
    (void)snprintf(c->label + used, sizeof c->label - used, " alone");
    return c;
}

/* States the least traffic: each row, base, y, dy, drows and matrix once. */
static void time_case(struct op_case *c, struct shape shape, bool base, bool gram)
{
    double wide = (double)(shape.tokens * shape.width) * 4;
    double square = gram ? (double)(shape.tokens * shape.slots * shape.slots) * 4 : 0.0;
    c->only_speed = true;
    c->bytes = wide * (double)(shape.slots + 1 + base) + square;
    c->backward_bytes = wide * (double)(2 * shape.slots + 1) + square;
}

/* A layer of DeepSeek-V2-Lite's routed experts, 16,384 tokens, in bf16: for devices. */
static void add_device(struct case_list *list, bool gram, bool in_place)
{
    struct shape shape = {16384, 2048, 64, 6};
    struct op_case *c = add(list, shape, true, gram, ROUTE_SPREAD, in_place);
    time_case(c, shape, true, gram);
    c->only_device = true;
    static const int activations[] = {ROWS, BASE, Y, DY, DROWS};
    for (int i = 0; i < 5; i++) {
        if (c->slot[activations[i]].fill != FILL_CUSTOM) c->slot[activations[i]].fill = FILL_REPEATED;
    }
    case_retype(c, MT_BF16, 5, activations);
    double square = gram ? (double)(shape.tokens * shape.slots * shape.slots) * 4 : 0.0;
    c->bytes = in_place ? 0.0 : (c->bytes + square) / 2;
    c->backward_bytes = (c->backward_bytes + square) / 2;
}

void cases_combine(struct case_list *list)
{
    for (int64_t slots = 1; slots <= 10; slots++) {
        struct shape shape = {6, 37, 16, slots};
        add(list, shape, slots % 2 == 0, true, ROUTE_SPREAD, false);
        add(list, shape, slots % 2 == 1, false, ROUTE_DROPPED, false);
        add(list, shape, true, true, ROUTE_DROPPED, true);
    }
    for (int64_t slots = 2; slots <= 9; slots++) // of each turn the CPU takes, and past the last kernel
        add_accumulating(list, (struct shape){6, 37, 16, slots}, slots % 2 == 0, slots % 4 > 1);
    add_accumulating(list, (struct shape){9, 520, 64, 6}, true, true);
    static const int halves[] = {ROWS, DROWS};
    for (int64_t slots = 1; slots <= 10; slots += 3) {
        add_alone(list, (struct shape){6, 37, 16, slots}, ROUTE_DROPPED, slots % 2 == 0);
        case_retype(add_alone(list, (struct shape){7, 64, 16, slots}, ROUTE_DROPPED, slots % 2 == 1), MT_BF16,
                    2, halves);
    }
    add_alone(list, (struct shape){9, 520, 64, 6}, ROUTE_SPREAD, false);
    case_retype(add_alone(list, (struct shape){11, 2072, 64, 8}, ROUTE_DROPPED, false), MT_BF16, 2, halves);
    add(list, (struct shape){0, 32, 8, 2}, true, true, ROUTE_SPREAD, false)->no_gradient = true; // no element
    add(list, (struct shape){1, 1, 1, 1}, false, true, ROUTE_SPREAD, false);
    add(list, (struct shape){3, 3, 8, 6}, false, true, ROUTE_SPREAD, false);   // narrower than a vector
    add(list, (struct shape){2, 16, 128, 64}, true, true, ROUTE_SPREAD, true); // the most slots
    add(list, (struct shape){9, 64, 64, 6}, true, false, ROUTE_SPREAD, true);
    add(list, (struct shape){40, 520, 128, 8}, true, true, ROUTE_SPREAD, false);
    struct op_case *c = add(list, (struct shape){40, 131, 64, 6}, true, true, ROUTE_DROPPED, false);
    c->slot[ROWS].row_padding = 3;
    c->slot[ROW_OF_SLOT].row_padding = 2;
    c->slot[BASE].row_padding = 1;
    c->slot[Y].row_padding = 5;
    c->slot[GRAM].row_padding = 2;
    c->slot[COUPLING].row_padding = 1;
    c->slot[DY].row_padding = 4;
    c->slot[DROWS].row_padding = 7;
    c->slot[DWEIGHT].row_padding = 1;
    c = add(list, (struct shape){9, 40, 64, 6}, true, true, ROUTE_DROPPED, false);
    c->slot[ROWS].dim[0] += 3; // rows of no slot: untouched, and without influence
    c->slot[DROWS].dim[0] += 3;
    c->slot[DROWS].role = SLOT_GRAD_SUM;
    c->slot[DROWS].no_numeric = true; // overwritten where a slot has the row, untouched elsewhere
    c = add(list, (struct shape){5, 24, 8, 2}, true, true, ROUTE_SPREAD, false);
    c->slot[ROWS].dtype = MT_BF16; // other types go to ref
    c->slot[BASE].dtype = MT_F16;

    static const int activations[] = {ROWS, BASE, Y, DY, DROWS};
    for (int64_t slots = 1; slots <= 9; slots++) {
        case_retype(add(list, (struct shape){7, 64, 16, slots}, slots % 2 == 0, slots % 3 != 0, ROUTE_DROPPED,
                        slots % 2 == 1),
                    MT_BF16, 5, activations);
    }
    case_retype(add(list, (struct shape){5, 2072, 64, 6}, true, true, ROUTE_SPREAD, true), MT_BF16, 5,
                activations);
    // The residual stream in f32, the experts' rows in bf16.
    case_retype(add(list, (struct shape){6, 2048, 64, 6}, true, true, ROUTE_DROPPED, false), MT_BF16, 2,
                (int[]){ROWS, DROWS});

    // Rows in bf16, their gradient in f32.
    case_retype(add(list, (struct shape){11, 64, 16, 6}, true, true, ROUTE_DROPPED, false), MT_BF16, 1,
                (int[]){ROWS});
    for (int gram = 0; gram <= 1; gram++) {
        add_device(list, gram != 0, false);
        add_device(list, gram != 0, true);
    }

    static const struct shape real[] = {{4096, 2048, 64, 6}, {2048, 2048, 128, 8}, {4096, 4096, 8, 2}};
    for (int i = 0; i < 3; i++) {
        for (int gram = 0; gram <= 1; gram++) {
            time_case(add(list, real[i], true, gram != 0, ROUTE_SPREAD, false), real[i], true, gram != 0);
        }
        for (int gram = 0; gram <= 1; gram++) {
            c = add(list, real[i], true, gram != 0, ROUTE_SPREAD, true);
            time_case(c, real[i], true, gram != 0);
            c->bytes = 0; // y would grow call by call; forward in place is timed by nobody
        }
    }
}
