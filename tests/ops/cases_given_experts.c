/* Cases of given_experts: all, some and no tokens given; with and without counting; padded rows. */
#include "ops/case_files.h"
#include "ops/token_fill.h"

enum { GIVEN, EXPERT, AGREED };
enum { EXPERTS, LEFT_OUT, COUNTED };

/* Every third token is given what it has, in another order; the others a neighbour's experts. */
static void fill(const struct op_case *c, struct mt_tensor *t)
{
    const struct mt_tensor *given = &t[GIVEN];
    int64_t slots = given->dim[1];
    fill_experts(ROUTE_SPREAD, c->param[EXPERTS], &t[EXPERT]);
    for (int64_t i = 0; i < given->dim[0]; i++) {
        bool absent = c->param[LEFT_OUT] > 0 && i % c->param[LEFT_OUT] == 0;
        for (int64_t s = 0; s < slots; s++) {
            int64_t place = i % 3 == 0 ? slots - 1 - s : s;
            int32_t e = route_expert(ROUTE_SPREAD, i % 3 == 0 ? i : i + 1, place, slots, c->param[EXPERTS]);
            ((int32_t *)given->data)[i * given->stride[0] + s] = absent ? -1 : e;
        }
    }
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_given_experts_args args = {
        .given = t[GIVEN], .expert = t[EXPERT], .experts = (int)c->param[EXPERTS]};
    if (c->param[COUNTED]) args.agreed = t[AGREED];
    return mt_given_experts(device, &args);
}

/* left_out: of every so many tokens one is not given; 0: all are, 1: none is. */
static struct op_case *add(struct case_list *list, int64_t tokens, int64_t experts, int64_t slots,
                           int64_t left_out, bool counted)
{
    struct op_case *c =
        case_new(list, MT_OP_given_experts, "N=%d n=%d k=%d%s%s", (int)tokens, (int)experts, (int)slots,
                 left_out == 0   ? ""
                 : left_out == 1 ? " none"
                                 : " some",
                 counted ? " counted" : "");
    int64_t chosen[] = {tokens, slots};
    int64_t sums[] = {tokens, 2};
    c->param[EXPERTS] = experts;
    c->param[LEFT_OUT] = left_out;
    c->param[COUNTED] = counted;
    c->fill = fill;
    c->forward = forward;
    case_index(c, "given", 2, chosen);
    case_slot(c, "expert", SLOT_UPDATED, MT_I32, 2, chosen);
    if (counted) case_slot(c, "agreed", SLOT_OUTPUT, MT_F32, 2, sums);
    return c;
}

void cases_given_experts(struct case_list *list)
{
    add(list, 0, 8, 2, 0, true);
    add(list, 1, 1, 1, 0, true);
    add(list, 7, 8, 2, 3, true);
    add(list, 9, 8, 2, 1, true);
    add(list, 60, 64, 6, 5, false);
    add(list, 5001, 128, 8, 4, true); // on threads
    struct op_case *c = add(list, 301, 64, 7, 4, true);
    c->slot[GIVEN].row_padding = 2;
    c->slot[EXPERT].row_padding = 3;
    c->slot[AGREED].row_padding = 1;
    c = add(list, 16384, 128, 8, 0, true);
    c->only_speed = true;
    c->bytes = 16384.0 * (8 * 3 + 2) * 4;
}
