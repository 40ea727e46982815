/* Cases of dispatch_plan and dispatch: even and uneven loads, pairs without an expert, rows without a pair.
 */
#include <stdio.h>
#include <string.h>

#include "ops/case_files.h"
#include "ops/route_fill.h"

// ------------------------------------------------------------------ dispatch_plan

enum { P_EXPERT, P_OFFSETS, P_ROW_OF_SLOT, P_SLOT_OF_ROW };
enum { P_ROUTE, P_EXPERTS };

static void plan_fill(const struct op_case *c, struct mt_tensor *t)
{
    const struct mt_tensor *expert = &t[P_EXPERT];
    for (int64_t i = 0; i < expert->dim[0]; i++) {
        for (int64_t s = 0; s < expert->dim[1]; s++) {
            ((int32_t *)expert->data)[i * expert->stride[0] + s] =
                route_expert((enum route_kind)c->param[P_ROUTE], i, s, expert->dim[1], c->param[P_EXPERTS]);
        }
    }
}

static enum mt_status plan_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    return mt_dispatch_plan(device, &(struct mt_dispatch_plan_args){
                                        .expert = t[P_EXPERT],
                                        .offsets = t[P_OFFSETS],
                                        .row_of_slot = t[P_ROW_OF_SLOT],
                                        .slot_of_row = t[P_SLOT_OF_ROW],
                                    });
}

static const char *route_name(enum route_kind route)
{
    if (route == ROUTE_DROPPED) return " -1";
    return route == ROUTE_SKEWED ? " skewed" : "";
}

static struct op_case *add_plan(struct case_list *list, int64_t tokens, int64_t experts, int64_t slots,
                                enum route_kind route)
{
    struct op_case *c = case_new(list, MT_OP_dispatch_plan, "N=%d n=%d k=%d%s", (int)tokens, (int)experts,
                                 (int)slots, route_name(route));
    int64_t chosen[] = {tokens, slots};
    int64_t ends[] = {experts + 1};
    int64_t rows[] = {tokens * slots};
    c->param[P_ROUTE] = route;
    c->param[P_EXPERTS] = experts;
    c->fill = plan_fill;
    c->forward = plan_forward;
    case_index(c, "expert", 2, chosen);
    case_slot(c, "offsets", SLOT_OUTPUT, MT_I32, 1, ends);
    case_slot(c, "row_of_slot", SLOT_OUTPUT, MT_I32, 2, chosen);
    case_slot(c, "slot_of_row", SLOT_OUTPUT, MT_I32, 1, rows);
    return c;
}

static void plan_cases(struct case_list *list)
{
    add_plan(list, 0, 4, 2, ROUTE_SPREAD);
    add_plan(list, 1, 1, 1, ROUTE_SPREAD);
    add_plan(list, 1, 8, 2, ROUTE_SPREAD);
    add_plan(list, 1, 64, 6, ROUTE_DROPPED);
    add_plan(list, 33, 16, 1, ROUTE_SKEWED); // one expert gets every token
    add_plan(list, 100, 64, 6, ROUTE_DROPPED);
    add_plan(list, 1000, 8, 2, ROUTE_SKEWED);
    add_plan(list, 301, 512, 3, ROUTE_DROPPED);
    struct op_case *c = add_plan(list, 3001, 128, 8, ROUTE_DROPPED); // enough pairs for threads
    c->slot[P_EXPERT].row_padding = 2;
    c->slot[P_ROW_OF_SLOT].row_padding = 3;

    static const int64_t real[][3] = {{4096, 64, 6}, {4096, 128, 8}, {131072, 64, 6}};
    for (int i = 0; i < 3; i++) {
        c = add_plan(list, real[i][0], real[i][1], real[i][2], ROUTE_SPREAD);
        c->only_speed = true;
        c->bytes = (double)(real[i][0] * real[i][2]) * 4 * 3;
    }
}

// ------------------------------------------------------------------ dispatch

enum { D_X, D_SLOT_OF_ROW, D_ROW_OF_SLOT, D_ROWS, D_DROWS, D_DX };
enum { D_ROUTE, D_EXPERTS, D_SLOTS, D_ACCUMULATE, D_BY_TOKEN };

static void dispatch_fill(const struct op_case *c, struct mt_tensor *t)
{
    route_fill((enum route_kind)c->param[D_ROUTE], c->param[D_EXPERTS], &t[D_ROW_OF_SLOT], &t[D_SLOT_OF_ROW]);
}

static enum mt_status dispatch_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_dispatch_forward_args args = {
        .x = t[D_X],
        .slot_of_row = t[D_SLOT_OF_ROW],
        .rows = t[D_ROWS],
        .slots = (int)c->param[D_SLOTS],
    };
    if (c->param[D_BY_TOKEN]) args.row_of_slot = t[D_ROW_OF_SLOT];
    return mt_dispatch_forward(device, &args);
}

static enum mt_status dispatch_backward(struct mt_device *device, const struct op_case *c,
                                        struct mt_tensor *t)
{
    return mt_dispatch_backward(device, &(struct mt_dispatch_backward_args){
                                            .drows = t[D_DROWS],
                                            .row_of_slot = t[D_ROW_OF_SLOT],
                                            .dx = t[D_DX],
                                            .accumulate = c->param[D_ACCUMULATE] != 0,
                                        });
}

static struct op_case *add_dispatch(struct case_list *list, int64_t tokens, int64_t width, int64_t experts,
                                    int64_t slots, enum route_kind route, bool accumulate)
{
    struct op_case *c =
        case_new(list, MT_OP_dispatch_forward, "N=%d d=%d n=%d k=%d%s%s", (int)tokens, (int)width,
                 (int)experts, (int)slots, route_name(route), accumulate ? " accumulate" : "");
    int64_t wide[] = {tokens, width};
    int64_t chosen[] = {tokens, slots};
    int64_t rows[] = {tokens * slots, width};
    c->backward_op = MT_OP_dispatch_backward;
    c->param[D_ROUTE] = route;
    c->param[D_EXPERTS] = experts;
    c->param[D_SLOTS] = slots;
    c->param[D_ACCUMULATE] = accumulate;
    c->fill = dispatch_fill;
    c->forward = dispatch_forward;
    c->backward = dispatch_backward;
    case_input(c, "x", 2, wide);
    case_index(c, "slot_of_row", 1, rows);
    case_index(c, "row_of_slot", 2, chosen);
    case_output(c, "rows", 2, rows);
    // Rows without a slot keep what they held.
    if (route == ROUTE_DROPPED) c->slot[D_ROWS].role = SLOT_UPDATED;
    case_grad_in(c, "drows", D_ROWS);
    case_grad_out(c, "dx", D_X);
    if (accumulate) c->slot[D_DX].role = SLOT_GRAD_SUM;
    return c;
}

/* With row_of_slot given to forward. */
static struct op_case *add_by_token(struct case_list *list, int64_t tokens, int64_t width, int64_t experts,
                                    int64_t slots, enum route_kind route)
{
    struct op_case *c = add_dispatch(list, tokens, width, experts, slots, route, false);
    size_t length = strlen(c->label);
    (void)snprintf(c->label + length, sizeof c->label - length, " by token");
    c->param[D_BY_TOKEN] = 1;
    return c;
}

/* A layer of DeepSeek-V2-Lite's routed experts, 16,384 tokens, in bf16: for devices. */
static void add_dispatch_device(struct case_list *list, bool by_token)
{
    struct op_case *c = by_token ? add_by_token(list, 16384, 2048, 64, 6, ROUTE_SPREAD)
                                 : add_dispatch(list, 16384, 2048, 64, 6, ROUTE_SPREAD, false);
    static const int wide[] = {D_X, D_ROWS, D_DROWS, D_DX};
    c->only_speed = true;
    c->only_device = true;
    for (int i = 0; i < 4; i++) c->slot[wide[i]].fill = FILL_REPEATED;
    case_retype(c, MT_BF16, 4, wide);
    c->bytes = 16384.0 * 2048.0 * 7 * 2;
    c->backward_bytes = by_token ? 0.0 : c->bytes;
}

static void add_dispatch_type(struct case_list *list, enum mt_dtype x, enum mt_dtype rows)
{
    struct op_case *c = add_dispatch(list, 6, 33, 8, 2, ROUTE_DROPPED, false);
    c->slot[D_X].dtype = x;
    c->slot[D_ROWS].dtype = rows;
    (void)snprintf(c->label, sizeof c->label, "x %s rows %s", mt_dtype_name(x), mt_dtype_name(rows));
}

static void dispatch_cases(struct case_list *list)
{
    add_dispatch(list, 0, 16, 4, 2, ROUTE_SPREAD, false)->no_gradient = true; // no element to check
    add_dispatch(list, 1, 1, 4, 1, ROUTE_SPREAD, false);
    add_dispatch(list, 1, 8, 64, 6, ROUTE_SPREAD, true);
    add_dispatch(list, 5, 33, 8, 2, ROUTE_SKEWED, false);
    add_dispatch(list, 14, 20, 16, 3, ROUTE_DROPPED, true);
    add_dispatch(list, 14, 20, 16, 4, ROUTE_DROPPED, false);
    add_dispatch(list, 14, 7, 16, 11, ROUTE_DROPPED, false);
    struct op_case *c = add_dispatch(list, 150, 130, 64, 6, ROUTE_DROPPED, true);
    c->slot[D_X].row_padding = 2;
    c->slot[D_ROWS].row_padding = 3;
    c->slot[D_DROWS].row_padding = 1;
    c->slot[D_DX].row_padding = 5;
    add_dispatch_type(list, MT_BF16, MT_BF16);
    c = add_dispatch(list, 30, 2056, 64, 6, ROUTE_DROPPED, true);
    case_retype(c, MT_BF16, 4, (int[]){D_X, D_ROWS, D_DROWS, D_DX});
    c = add_dispatch(list, 30, 64, 64, 6, ROUTE_SPREAD, false);
    case_retype(c, MT_BF16, 3, (int[]){D_X, D_ROWS, D_DROWS});
    add_dispatch_type(list, MT_F16, MT_F32);
    add_dispatch_type(list, MT_F32, MT_BF16);

    add_by_token(list, 5, 33, 8, 2, ROUTE_SPREAD);
    add_by_token(list, 14, 64, 16, 4, ROUTE_DROPPED);
    add_by_token(list, 3, 64, 128, 40, ROUTE_DROPPED); // more slots than lanes of a warp
    case_retype(add_by_token(list, 30, 2056, 64, 6, ROUTE_DROPPED), MT_BF16, 4,
                (int[]){D_X, D_ROWS, D_DROWS, D_DX});
    case_retype(add_by_token(list, 9, 64, 64, 6, ROUTE_SPREAD), MT_BF16, 1, (int[]){D_X});
    add_dispatch_device(list, false);
    add_dispatch_device(list, true);

    static const int64_t real[][4] = {{4096, 2048, 64, 6}, {2048, 2048, 128, 8}, {4096, 4096, 8, 2}};
    for (int i = 0; i < 3; i++) {
        c = add_dispatch(list, real[i][0], real[i][1], real[i][2], real[i][3], ROUTE_SPREAD, false);
        c->only_speed = true;
        c->bytes = (double)(real[i][0] * real[i][1] * (1 + real[i][3])) * 4; // x in, rows out
        c->backward_bytes = c->bytes;                                        // drows in, dx out
    }
}

void cases_dispatch(struct case_list *list)
{
    plan_cases(list);
    dispatch_cases(list);
}
