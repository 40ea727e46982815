/* Cases of unchosen_backward: weights normalised and not, slots without an expert, wide and odd rows. */
#include "ops/case_files.h"
#include "ops/token_fill.h"

enum { DY, OUTPUTS, PROBS, EXPERT, DPROBS };
enum { EXPERTS, NUMBER, NORMALISE, ROUTE };

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_experts((enum route_kind)c->param[ROUTE], c->param[EXPERTS], &t[EXPERT]);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_unchosen_backward(device, &(struct mt_unchosen_backward_args){.dy = t[DY],
                                                                            .outputs = t[OUTPUTS],
                                                                            .probs = t[PROBS],
                                                                            .expert = t[EXPERT],
                                                                            .dprobs = t[DPROBS],
                                                                            .number = (int)c->param[NUMBER],
                                                                            .normalise = c->param[NORMALISE],
                                                                            .epsilon = 1e-3f,
                                                                            .scale = 1.5f});
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t width, int64_t experts,
                           int64_t slots, bool normalise, enum route_kind route)
{
    struct op_case *c = case_new(list, MT_OP_unchosen_backward, "N=%d d=%d n=%d k=%d%s%s", (int)tokens,
                                 (int)width, (int)experts, (int)slots, normalise ? " normalised" : "",
                                 route == ROUTE_DROPPED ? " -1" : "");
    int64_t rows[] = {tokens, width};
    int64_t scores[] = {tokens, experts};
    int64_t chosen[] = {tokens, slots};
    c->param[EXPERTS] = experts;
    c->param[NUMBER] = experts / 2;
    c->param[NORMALISE] = normalise;
    c->param[ROUTE] = route;
    c->fill = fill;
    c->forward = forward;
    case_input(c, "dy", 2, rows);
    case_input(c, "outputs", 2, rows);
    case_input(c, "probs", 2, scores);
    c->slot[PROBS].fill = FILL_UNIFORM;
    case_index(c, "expert", 2, chosen);
    case_slot(c, "dprobs", SLOT_UPDATED, MT_F32, 2, scores);
    return c;
}

void cases_unchosen(struct case_list *list)
{
    add(list, 0, 8, 8, 2, true, ROUTE_SPREAD);
    add(list, 1, 1, 2, 1, false, ROUTE_SPREAD);
    add(list, 9, 33, 7, 2, true, ROUTE_SPREAD);
    add(list, 40, 37, 8, 3, false, ROUTE_DROPPED);
    add(list, 300, 64, 8, 2, true, ROUTE_SKEWED);
    struct op_case *c = add(list, 1001, 200, 64, 6, true, ROUTE_DROPPED); // on threads
    c->slot[DY].row_padding = 2;
    c->slot[OUTPUTS].row_padding = 1;
    c->slot[DPROBS].row_padding = 3;

    c = add(list, 4096, 2048, 64, 6, true, ROUTE_SPREAD);
    c->only_speed = true;
    c->bytes = 2.0 * 4096 * 2048 * 4;
}
