/*
 * Cases of dropout_bits: rows that begin inside a block of eight random numbers, words that are not full,
 * padded rows, amounts on and off the grid. Every bit must equal ref's.
 */
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

void cases_dropout_bits(struct case_list *list)
{
    add(list, 0, 8, 0.5f, 0);
    add(list, 1, 1, 0.5f, 0);
    add(list, 3, 8, 0.0f, 0);
    add(list, 9, 35, 0.3f, 2); // rows begin at every number of a block
    add(list, 5, 32, 0.1f, 0);
    add(list, 17, 264, 0.1f, 1);
    add(list, 17, 40, 0.99999f, 0); // nothing is left
    add(list, 6, 1000, 0.05f, 0);
    add(list, 77, 1030, 0.75f, 0);
    add(list, 150, 2048, 0.1f, 0);
    struct op_case *speed = add(list, 4096, 2048, 0.1f, 0);
    speed->only_speed = true;
    speed->bytes = 4096.0 * 2048.0 / 8;
    struct op_case *device = add(list, 98304, 2048, 0.1f, 0);
    device->only_speed = true;
    device->only_device = true;
    device->bytes = 98304.0 * 2048.0 / 8;
}
