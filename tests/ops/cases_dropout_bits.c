/*
 * Cases of dropout_bits: words that are not full, padded rows, stretches that end inside a row, amounts that
 * need some, all or none of their random words. Every bit must equal ref's.
 */
#include <math.h>

#include "ops/case_files.h"

enum { BITS };
enum { COLUMNS };
enum { AMOUNT };

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_dropout_bits(device, &(struct mt_dropout_bits_args){.bits = t[BITS],
                                                                  .columns = c->param[COLUMNS],
                                                                  .amount = c->real[AMOUNT],
                                                                  .seed = 0x123456789ABCDEF0u,
                                                                  .stream = 0x0FEDCBA987654321u});
}

static struct op_case *add(struct case_list *list, int64_t rows, int64_t columns, float amount,
                           int64_t padding)
{
    struct op_case *c = case_new(list, MT_OP_dropout_bits, "R=%d K=%d %g%s", (int)rows, (int)columns,
                                 (double)amount, padding != 0 ? " padded" : "");
    int64_t dims[] = {rows, (columns + 31) / 32};
    c->param[COLUMNS] = columns;
    c->real[AMOUNT] = amount;
    c->forward = forward;
    c->no_gradient = true;
    case_slot(c, "bits", SLOT_OUTPUT, MT_I32, 2, dims);
    c->slot[BITS].row_padding = padding;
    return c;
}

// A block is seven rounds of two multiplications, of which the first two rounds have one each that is the
// same for all blocks. A word needs two blocks for the upper eight bits of its numbers, a third if one of its
// 32 numbers is not decided by these, a fourth if one is not by twelve.
#define BLOCK_MULTIPLICATIONS (2.0 * 7.0 - 2.0)

static double blocks_of_a_word(void)
{
    double third = 1.0 - pow(1.0 - 0x1p-8, 32.0);
    double fourth = 1.0 - pow(1.0 - 0x1p-12, 32.0);
    return 2.0 + third + fourth;
}

/* Of an amount that needs all four parts. */
static void time_case(struct op_case *c)
{
    double words = (double)c->slot[BITS].dim[0] * (double)c->slot[BITS].dim[1];
    c->only_speed = true;
    c->bytes = words * 4;
    c->multiplications = words * blocks_of_a_word() * BLOCK_MULTIPLICATIONS;
}

void cases_dropout_bits(struct case_list *list)
{
    add(list, 0, 8, 0.5f, 0);
    add(list, 1, 1, 0.5f, 0);
    add(list, 3, 8, 0.0f, 0);
    add(list, 9, 35, 0.3f, 2);
    add(list, 5, 32, 0.1f, 0);
    add(list, 17, 264, 0.1f, 1);
    add(list, 17, 40, 0.99999f, 0); // nothing is left
    add(list, 5, 300, 0.5f, 0);     // the highest bit decides
    add(list, 5, 300, 0.0625f, 0);  // the highest part
    add(list, 5, 300, 0.125f + 0x1p-7f, 3);
    add(list, 5, 300, 0.125f + 0x1p-11f, 0);
    add(list, 6, 1000, 0.05f, 0);
    add(list, 77, 1030, 0.75f, 0);
    add(list, 150, 2048, 0.1f, 0);
    time_case(add(list, 4096, 2048, 0.1f, 0));
    struct op_case *device = add(list, 98304, 2048, 0.1f, 0);
    time_case(device);
    device->only_device = true;
}
