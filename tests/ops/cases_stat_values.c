/* Cases of stat_values: one layer and many, products with and without y, of x with itself, over nothing. */
#include "ops/case_files.h"
#include "tensor/dtype.h"

enum { NUMBERS, WEIGHT, GRADIENT, TOTAL };
enum { COUNT, EMPTY }; // numbers of a product; layer 0 has no tokens

#define LOSSES 3

/* A layer: t [1], x [n], y [n], z [n], one more [1]. */
static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    int64_t count = c->param[COUNT];
    const struct mt_stat_product products[] = {
        {.x = 1, .y = 1 + count, .count = count, .over = 0, .power = 2, .loss = 0, .factor = 1.5},
        {.x = 1 + 2 * count,
         .y = 1 + 2 * count,
         .count = count,
         .over = 0,
         .power = 1,
         .loss = 2,
         .factor = -0.5},
        {.x = 1 + 3 * count, .y = -1, .count = 1, .over = -1, .power = 0, .loss = 2, .factor = 3.0},
    };
    return mt_stat_values(device, &(struct mt_stat_values_args){
                                      .numbers = t[NUMBERS],
                                      .weight = t[WEIGHT],
                                      .gradient = t[GRADIENT],
                                      .total = t[TOTAL],
                                      .products = products,
                                      .products_count = (int)(sizeof products / sizeof products[0]),
                                      .scale = 0.25,
                                  });
}

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    for (int64_t l = 0; l < t[NUMBERS].dim[0]; l++) {
        bool empty = l == 0 && c->param[EMPTY] != 0;
        for (int64_t i = 0; i < t[NUMBERS].dim[1]; i++) {
            double value = i == 0 ? (empty ? 0.0 : 7.0 + (double)l) : (double)((i * 5 + l) % 11) - 3.5;
            mt_store(MT_F64, t[NUMBERS].data, l * t[NUMBERS].stride[0] + i, value);
        }
    }
}

static struct op_case *add(struct case_list *list, int64_t layers, int64_t count, bool empty, int64_t padding)
{
    struct op_case *c = case_new(list, MT_OP_stat_values, "L=%d n=%d%s%s", (int)layers, (int)count,
                                 empty ? " no tokens" : "", padding > 0 ? " padded" : "");
    int64_t numbers[] = {layers, 3 * count + 2};
    int64_t weights[] = {layers, LOSSES};
    c->param[COUNT] = count;
    c->param[EMPTY] = empty;
    c->fill = fill;
    c->forward = forward;
    c->no_gradient = true;
    case_slot(c, "numbers", SLOT_INPUT, MT_F64, 2, numbers);
    c->slot[NUMBERS].fill = FILL_CUSTOM;
    case_slot(c, "weight", SLOT_INPUT, MT_F64, 2, weights);
    case_slot(c, "gradient", SLOT_UPDATED, MT_F64, 2, numbers);
    c->slot[GRADIENT].tolerance = 1e-12;
    case_slot(c, "total", SLOT_OUTPUT, MT_F32, 1, (int64_t[]){1});
    for (int i = NUMBERS; i <= GRADIENT; i++) c->slot[i].row_padding = padding;
    return c;
}

void cases_stat_values(struct case_list *list)
{
    add(list, 1, 1, false, 0);
    add(list, 1, 64, false, 0);
    add(list, 3, 8, true, 0);
    add(list, 27, 65, false, 3);
    add(list, 2, 0, false, 0);
    struct op_case *c = add(list, 27, 64, false, 0);
    c->only_speed = true;
    c->bytes = 27.0 * 64 * 5 * 8;
}
