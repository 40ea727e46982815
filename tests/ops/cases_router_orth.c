/*
 * Cases of router_orth, from the router's rows W to their gradient: gram = W Wᵀ, the loss, the coupling,
 * dW = coupling · W. The gradient arriving at the loss is SCALE. What is timed is the op alone, on a matrix
 * of random numbers.
 */
#include "ops/case_files.h"
#include "tensor/dtype.h"

#define SCALE 1.5f

enum { W, GRAM, LOSS, DLOSS, COUPLING, DW };
enum { KIND, GROUPS, OP_ALONE };

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    mt_store(t[DLOSS].dtype, t[DLOSS].data, 0, (double)SCALE);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    enum mt_status status = MT_OK;
    struct mt_gemm_args product = {.a = t[W], .b = t[W], .c = t[GRAM], .transpose_b = true, .alpha = 1.0f};
    if (!c->param[OP_ALONE]) status = mt_gemm(device, &product);
    if (status != MT_OK) return status;
    struct mt_router_orth_forward_args args = {.gram = t[GRAM],
                                               .loss = t[LOSS],
                                               .kind = (enum mt_router_orth_kind)c->param[KIND],
                                               .groups = (int)c->param[GROUPS]};
    return mt_router_orth_forward(device, &args);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_router_orth_backward_args args = {.gram = t[GRAM],
                                                .coupling = t[COUPLING],
                                                .kind = (enum mt_router_orth_kind)c->param[KIND],
                                                .groups = (int)c->param[GROUPS],
                                                .scale = SCALE};
    enum mt_status status = mt_router_orth_backward(device, &args);
    if (status != MT_OK || c->param[OP_ALONE]) return status;
    return mt_gemm(device, &(struct mt_gemm_args){.a = t[COUPLING], .b = t[W], .c = t[DW], .alpha = 1.0f});
}

static struct op_case *add(struct case_list *list, enum mt_router_orth_kind kind, int64_t experts,
                           int64_t width, int groups)
{
    struct op_case *c =
        case_new(list, MT_OP_router_orth_forward, "%s n=%d d=%d groups=%d",
                 kind == MT_ROUTER_ORTH_L1 ? "l1" : "cosine", (int)experts, (int)width, groups);
    int64_t rows[] = {experts, width};
    int64_t square[] = {experts, experts};
    int64_t one[] = {1};
    c->backward_op = MT_OP_router_orth_backward;
    c->param[KIND] = kind;
    c->param[GROUPS] = groups;
    c->fill = fill;
    c->forward = forward;
    c->backward = backward;
    case_input(c, "w", 2, rows);
    case_output(c, "gram", 2, square);
    case_slot(c, "loss", SLOT_OUTPUT, MT_F64, 1, one);
    case_slot(c, "dloss", SLOT_GRAD_IN, MT_F64, 1, one);
    c->slot[DLOSS].of = LOSS;
    c->slot[DLOSS].fill = FILL_CUSTOM;
    case_grad_out(c, "coupling", GRAM);
    c->slot[COUPLING].no_numeric = true; // a step between; symmetric, so not the slope of one entry
    case_grad_out(c, "dw", W);
    return c;
}

static void add_speed(struct case_list *list, enum mt_router_orth_kind kind, int64_t experts)
{
    struct op_case *c = add(list, kind, experts, 1, 1);
    c->slot[GRAM].role = SLOT_INPUT;
    c->param[OP_ALONE] = true;
    c->only_speed = true;
    c->bytes = (double)(experts * experts) * 4;
    c->backward_bytes = 2 * c->bytes;
}

void cases_router_orth(struct case_list *list)
{
    add(list, MT_ROUTER_ORTH_COSINE, 2, 3, 0);
    add(list, MT_ROUTER_ORTH_COSINE, 7, 5, 1);
    add(list, MT_ROUTER_ORTH_COSINE, 12, 9, 3);
    add(list, MT_ROUTER_ORTH_COSINE, 33, 40, 3); // groups and rows that no tile fits
    add(list, MT_ROUTER_ORTH_COSINE, 64, 24, 4);
    add(list, MT_ROUTER_ORTH_COSINE, 150, 17, 0); // enough for several threads
    add(list, MT_ROUTER_ORTH_COSINE, 300, 17, 2);
    struct op_case *small = add(list, MT_ROUTER_ORTH_COSINE, 31, 9, 1);
    small->slot[W].scale = 1e-3;
    small->no_gradient = true; // a finite difference's step would be a hundredth of the entries
    add(list, MT_ROUTER_ORTH_COSINE, 31, 9, 1)->slot[W].scale = 300.0;
    add(list, MT_ROUTER_ORTH_L1, 1, 4, 0);
    add(list, MT_ROUTER_ORTH_L1, 9, 6, 1);
    add(list, MT_ROUTER_ORTH_L1, 64, 24, 0);
    add(list, MT_ROUTER_ORTH_L1, 150, 17, 1);
    for (int kind = MT_ROUTER_ORTH_COSINE; kind <= MT_ROUTER_ORTH_L1; kind++) {
        struct op_case *c = add(list, (enum mt_router_orth_kind)kind, 37, 11, 0);
        c->slot[GRAM].row_padding = 3;
        c->slot[COUPLING].row_padding = 5;
        c = add(list, (enum mt_router_orth_kind)kind, 9, 11, 0);
        c->slot[COUPLING].dtype = MT_F64; // other types go to ref
        c = add(list, (enum mt_router_orth_kind)kind, 9, 11, 0);
        c->slot[GRAM].dtype = MT_F64;
        add_speed(list, (enum mt_router_orth_kind)kind, 64);
        add_speed(list, (enum mt_router_orth_kind)kind, 512);
    }
}
