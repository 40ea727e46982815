/*
 * Cases of router_orth, from the router's rows W to their gradient, which is added to what dw held. The
 * gradient arriving at the loss is SCALE.
 */
#include "ops/case_files.h"
#include "tensor/dtype.h"

#define SCALE 1.5f

enum { W, LOSS, DLOSS, DW, SQUARES };
enum { KIND, GROUPS };

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    mt_store(t[DLOSS].dtype, t[DLOSS].data, 0, (double)SCALE);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_router_orth_forward(device, &(struct mt_router_orth_forward_args){
                                              .weight = t[W],
                                              .loss = t[LOSS],
                                              .kind = (enum mt_router_orth_kind)c->param[KIND],
                                              .groups = (int)c->param[GROUPS],
                                          });
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_router_orth_backward(device, &(struct mt_router_orth_backward_args){
                                               .weight = t[W],
                                               .dweight = t[DW],
                                               .squares = t[SQUARES],
                                               .kind = (enum mt_router_orth_kind)c->param[KIND],
                                               .groups = (int)c->param[GROUPS],
                                               .scale = SCALE,
                                           });
}

static struct op_case *add(struct case_list *list, enum mt_router_orth_kind kind, int64_t experts,
                           int64_t width, int groups)
{
    struct op_case *c =
        case_new(list, MT_OP_router_orth_forward, "%s n=%d d=%d groups=%d",
                 kind == MT_ROUTER_ORTH_L1 ? "l1" : "cosine", (int)experts, (int)width, groups);
    int64_t rows[] = {experts, width};
    int64_t one[] = {1};
    c->backward_op = MT_OP_router_orth_backward;
    c->param[KIND] = kind;
    c->param[GROUPS] = groups;
    c->fill = fill;
    c->forward = forward;
    c->backward = backward;
    case_input(c, "w", 2, rows);
    case_slot(c, "loss", SLOT_OUTPUT, MT_F64, 1, one);
    case_slot(c, "dloss", SLOT_GRAD_IN, MT_F64, 1, one);
    c->slot[DLOSS].of = LOSS;
    c->slot[DLOSS].fill = FILL_CUSTOM;
    case_grad_out(c, "dw", W);
    c->slot[DW].role = SLOT_GRAD_SUM;
    case_slot(c, "squares", SLOT_GRAD_OUT, MT_F64, 1, one);
    c->slot[SQUARES].of = LOSS;
    c->slot[SQUARES].no_numeric = true;                           // not a gradient, but of one
    c->slot[LOSS].tolerance = c->slot[SQUARES].tolerance = 1e-12; // doubles of doubles
    return c;
}

static void add_speed(struct case_list *list, enum mt_router_orth_kind kind, int64_t experts, int64_t width)
{
    struct op_case *c = add(list, kind, experts, width, 1);
    c->only_speed = true;
    c->flops = 2.0 * (double)(experts * experts * width);
    c->backward_flops = 2.0 * c->flops;
}

void cases_router_orth(struct case_list *list)
{
    add(list, MT_ROUTER_ORTH_COSINE, 2, 3, 0);
    add(list, MT_ROUTER_ORTH_COSINE, 7, 5, 1);
    add(list, MT_ROUTER_ORTH_COSINE, 12, 9, 3);
    add(list, MT_ROUTER_ORTH_COSINE, 33, 40, 3); // groups that no band fits
    add(list, MT_ROUTER_ORTH_COSINE, 64, 24, 4);
    add(list, MT_ROUTER_ORTH_COSINE, 150, 17, 0); // enough for several threads
    add(list, MT_ROUTER_ORTH_COSINE, 300, 17, 2);
    add(list, MT_ROUTER_ORTH_COSINE, 6, 700, 0); // several blocks of columns
    add(list, MT_ROUTER_ORTH_COSINE, 31, 1, 0)->no_gradient =
        true; // all zeros; test_router_orth.c asks for it
    struct op_case *small = add(list, MT_ROUTER_ORTH_COSINE, 31, 9, 1);
    small->slot[W].scale = 1e-3;
    small->no_gradient = true; // a finite difference's step would be a hundredth of the entries
    add(list, MT_ROUTER_ORTH_COSINE, 31, 9, 1)->slot[W].scale = 300.0;
    add(list, MT_ROUTER_ORTH_L1, 1, 4, 0);
    add(list, MT_ROUTER_ORTH_L1, 9, 6, 1);
    add(list, MT_ROUTER_ORTH_L1, 64, 24, 0);
    add(list, MT_ROUTER_ORTH_L1, 150, 17, 1);
    add(list, MT_ROUTER_ORTH_L1, 5, 700, 0);
    for (int kind = MT_ROUTER_ORTH_COSINE; kind <= MT_ROUTER_ORTH_L1; kind++) {
        struct op_case *c = add(list, (enum mt_router_orth_kind)kind, 37, 11, 0);
        c->slot[W].row_padding = 3;
        c->slot[DW].row_padding = 5;
        add(list, (enum mt_router_orth_kind)kind, 18, 300, 0)->slot[W].dtype = MT_BF16;
        add(list, (enum mt_router_orth_kind)kind, 18, 20, 0)->slot[W].dtype = MT_F16;
        add(list, (enum mt_router_orth_kind)kind, 9, 11, 0)->slot[DW].dtype = MT_F64; // other types go to ref
        add(list, (enum mt_router_orth_kind)kind, 9, 11, 0)->slot[W].dtype = MT_F64;
        add_speed(list, (enum mt_router_orth_kind)kind, 64, 2048);
        add_speed(list, (enum mt_router_orth_kind)kind, 256, 7168);
    }
}
