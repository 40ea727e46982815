/*
 * Cases of random_multiply: both kinds, rows that begin inside a block of four random words or end inside a
 * mask word, padded rows, in place. Which elements are dropped and what the others become must equal ref bit
 * for bit.
 */
#include <stdio.h>
#include <string.h>

#include "ops/case_files.h"

enum { X, Y, DY, DX };
enum { KIND, IN_PLACE, ACCUMULATE };
enum { AMOUNT };

#define EXACT 1e-30

static enum mt_status multiply(struct mt_device *device, const struct op_case *c, struct mt_tensor x,
                               struct mt_tensor y)
{
    struct mt_random_multiply_args args = {
        .x = x,
        .y = y,
        .kind = (enum mt_random_kind)c->param[KIND],
        .amount = c->real[AMOUNT],
        .seed = 0x123456789ABCDEF0u,
        .stream = 0x0FEDCBA987654321u,
        .accumulate = c->param[ACCUMULATE] != 0,
    };
    if (c->param[IN_PLACE]) {
        enum mt_status status = mt_copy(device, &(struct mt_copy_args){.x = x, .y = y});
        if (status != MT_OK) return status;
        args.x = y;
    }
    return mt_random_multiply(device, &args);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return multiply(device, c, t[X], t[Y]);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return multiply(device, c, t[DY], t[DX]);
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t width, enum mt_random_kind kind,
                           float amount, bool in_place, int64_t padding)
{
    struct op_case *c = case_new(list, MT_OP_random_multiply, "T=%d d=%d %s %g%s%s", (int)tokens, (int)width,
                                 kind == MT_RANDOM_DROPOUT ? "dropout" : "jitter", (double)amount,
                                 in_place ? " in place" : "", padding != 0 ? " padded" : "");
    int64_t dims[] = {tokens, width};
    c->param[KIND] = kind;
    c->param[IN_PLACE] = in_place;
    c->real[AMOUNT] = amount;
    c->tolerance = EXACT;
    c->forward = forward;
    c->backward = backward;
    case_input(c, "x", 2, dims);
    case_output(c, "y", 2, dims);
    case_grad_in(c, "dy", Y);
    case_grad_out(c, "dx", X);
    c->slot[X].row_padding = padding;
    c->slot[DX].row_padding = padding;
    return c;
}

/* y += instead of y =. */
static struct op_case *add_sum(struct case_list *list, int64_t tokens, int64_t width,
                               enum mt_random_kind kind, int64_t padding)
{
    struct op_case *c = add(list, tokens, width, kind, 0.3f, false, padding);
    size_t used = strlen(c->label);
    (void)snprintf(c->label + used, sizeof c->label - used, " accumulate");
    c->param[ACCUMULATE] = 1;
    c->tolerance = 1e-7; // ref rounds once, floats are rounded twice
    c->slot[Y].role = SLOT_UPDATED;
    c->slot[DX].role = SLOT_GRAD_SUM;
    return c;
}

static void narrow(struct op_case *c)
{
    case_retype(c, MT_BF16, 4, (int[]){X, Y, DY, DX});
    c->tolerance = 0x1p-8; // of its last place; what is dropped is 0 either way
}

void cases_random_multiply(struct case_list *list)
{
    for (int number = MT_RANDOM_DROPOUT; number <= MT_RANDOM_JITTER; number++) {
        enum mt_random_kind kind = (enum mt_random_kind)number;
        add(list, 1, 1, kind, 0.5f, false, 0);
        add(list, 5, 33, kind, 0.1f, false, 0);
        add(list, 9, 34, kind, 0.3f, false, 3); // rows begin at word 0, 2, 0, 2 of a block
        add(list, 9, 35, kind, 0.9f, true, 1);  // at every word
        add(list, 3, 8195, kind, 0.05f, false, 2);
        add(list, 37, 1000, kind, 0.01f, true, 0);
        add(list, 4, 16, kind, 0.0f, false, 0);
        add(list, 11, 64, kind, 0.2f, true, 8);
        add_sum(list, 9, 35, kind, 1);
        add_sum(list, 37, 1000, kind, 0);
        narrow(add(list, 5, 33, kind, 0.1f, false, 0));
        narrow(add(list, 37, 1000, kind, 0.1f, true, 0));
        narrow(add_sum(list, 11, 64, kind, 8));
        add(list, 0, 8, kind, 0.5f, false, 0)->no_gradient = true;

        struct op_case *speed = add(list, 4096, 2048, kind, 0.1f, false, 0);
        speed->only_speed = true;
        speed->bytes = 4096.0 * 2048.0 * 2 * 4; // x in, y out
    }
}
