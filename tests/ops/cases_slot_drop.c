/* Cases of slot_drop: by chance, by capacity, both, neither; masks; in place; padded rows. */
#include "ops/case_files.h"
#include "ops/token_fill.h"

enum { EXPERT, WEIGHT, MASK, KEPT };
enum { EXPERTS, CAPACITY, MASKED, ROUTE, IN_PLACE };
enum { THRESHOLD };

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    enum route_kind route = (enum route_kind)c->param[ROUTE];
    fill_experts(route, c->param[EXPERTS], &t[EXPERT]);
    fill_mask((enum mask_kind)c->param[MASKED], &t[MASK]);
    if (c->param[IN_PLACE]) fill_experts(route, c->param[EXPERTS], &t[KEPT]);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_slot_drop_args args = {.expert = c->param[IN_PLACE] ? t[KEPT] : t[EXPERT],
                                     .kept = t[KEPT],
                                     .experts = (int)c->param[EXPERTS],
                                     .capacity = c->param[CAPACITY],
                                     .threshold = c->real[THRESHOLD],
                                     .seed = 77,
                                     .stream = 5};
    if (c->real[THRESHOLD] > 0.0f) args.weight = t[WEIGHT];
    if (c->param[MASKED] != MASK_NONE) args.mask = t[MASK];
    return mt_slot_drop(device, &args);
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t experts, int64_t slots,
                           int64_t capacity, float threshold, enum mask_kind masked, enum route_kind route)
{
    struct op_case *c = case_new(list, MT_OP_slot_drop, "N=%d n=%d k=%d capacity %d threshold %g%s%s",
                                 (int)tokens, (int)experts, (int)slots, (int)capacity, (double)threshold,
                                 mask_name(masked), route == ROUTE_DROPPED ? " -1" : "");
    int64_t chosen[] = {tokens, slots};
    c->param[EXPERTS] = experts;
    c->param[CAPACITY] = capacity;
    c->param[MASKED] = masked;
    c->param[ROUTE] = route;
    c->real[THRESHOLD] = threshold;
    c->fill = fill;
    c->forward = forward;
    case_index(c, "expert", 2, chosen);
    case_input(c, "weight", 2, chosen);
    c->slot[WEIGHT].fill = FILL_UNIFORM;
    case_index(c, "mask", 1, chosen);
    case_slot(c, "kept", SLOT_OUTPUT, MT_I32, 2, chosen);
    return c;
}

void cases_slot_drop(struct case_list *list)
{
    add(list, 0, 8, 2, 3, 0.2f, MASK_NONE, ROUTE_SPREAD);
    add(list, 1, 1, 1, 0, 0.0f, MASK_NONE, ROUTE_SPREAD);
    add(list, 5, 7, 2, 0, 0.0f, MASK_NONE, ROUTE_SPREAD); // a copy
    add(list, 9, 8, 2, 0, 0.0f, MASK_SOME, ROUTE_DROPPED);
    add(list, 60, 8, 3, 10, 0.6f, MASK_SOME, ROUTE_DROPPED);
    add(list, 300, 8, 2, 1, 0.0f, MASK_NONE, ROUTE_SKEWED); // all but the first token are turned away
    add(list, 301, 64, 6, 0, 0.2f, MASK_ENDS, ROUTE_SPREAD);
    add(list, 77, 16, 1, 4, 0.9f, MASK_NONE, ROUTE_SPREAD); // slot 0 alone: chance drops nothing
    add(list, 50, 8, 2, 6, 0.2f, MASK_EMPTY, ROUTE_SPREAD);
    add(list, 3001, 64, 6, 281, 5.0f, MASK_NONE, ROUTE_SPREAD); // most lose, on threads
    add(list, 40, 128, 70, 20, 0.02f, MASK_SOME, ROUTE_SPREAD); // a token's slots in several draws
    struct op_case *c = add(list, 4003, 64, 7, 400, 0.2f, MASK_SOME, ROUTE_DROPPED);
    c->slot[EXPERT].row_padding = 2;
    c->slot[WEIGHT].row_padding = 3;
    c->slot[KEPT].row_padding = 1;
    for (int i = 0; i < 2; i++) {
        c = add(list, 200, 16, 4, 30, i == 0 ? 0.0f : 0.3f, MASK_SOME, ROUTE_SPREAD);
        c->param[IN_PLACE] = 1;
        c->slot[KEPT].role = SLOT_UPDATED;
    }

    static const int64_t real[][3] = {{4096, 64, 6}, {16384, 64, 6}, {4096, 8, 2}};
    for (int i = 0; i < 3; i++) {
        for (int chance = 0; chance <= 1; chance++) {
            int64_t capacity = real[i][0] * real[i][2] * 5 / 4 / real[i][1];
            c = add(list, real[i][0], real[i][1], real[i][2], capacity, chance != 0 ? 0.2f : 0.0f, MASK_NONE,
                    ROUTE_SPREAD);
            c->only_speed = true;
            c->bytes = (double)(real[i][0] * real[i][2]) * 4 * (chance != 0 ? 3 : 2); // weight with chance
        }
    }
}
