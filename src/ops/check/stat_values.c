/* Argument checks of stat_values. */
#include <math.h>

#include "ops/check/check.h"

/* `count` numbers from `first` on are among `numbers`. */
static bool is_within(int64_t first, int64_t count, int64_t numbers)
{
    return first >= 0 && count >= 0 && count <= numbers && first <= numbers - count;
}

static void check_product(struct mt_check *c, const struct mt_stat_product *product, int64_t numbers,
                          int64_t losses)
{
    bool x = is_within(product->x, product->count, numbers);
    mt_check_value(c, x, "a product's x", (double)product->x, "numbers of a layer");
    bool y = product->y == -1 || is_within(product->y, product->count, numbers);
    mt_check_value(c, y, "a product's y", (double)product->y, "numbers of a layer, or -1");
    bool over = product->over == -1 || is_within(product->over, 1, numbers);
    mt_check_value(c, over, "a product's over", (double)product->over, "a number of a layer, or -1");
    bool loss = product->loss >= 0 && product->loss < losses;
    mt_check_value(c, loss, "a product's loss", (double)product->loss, "one that has a weight");
    bool power = product->power >= 0 && product->power <= 2;
    mt_check_value(c, power, "a product's power", (double)product->power, "0 to 2");
}

void mt_check_stat_values(struct mt_check *c, const struct mt_stat_values_args *args)
{
    mt_check_2d(c, "numbers", &args->numbers, MT_CHECK_F64, MT_ANY, MT_ANY);
    mt_check_2d(c, "weight", &args->weight, MT_CHECK_F64, args->numbers.dim[0], MT_ANY);
    mt_check_like(c, "gradient", &args->gradient, MT_CHECK_F64, &args->numbers);
    mt_check_1d(c, "total", &args->total, MT_CHECK_F32, 1);
    mt_check_value(c, isfinite(args->scale), "scale", args->scale, "a finite number");
    bool few = args->products_count >= 0 && args->products_count <= MT_STAT_PRODUCTS;
    mt_check_value(c, few, "the number of products", (double)args->products_count, "0 to 32");
    for (int i = 0; few && i < args->products_count; i++) {
        check_product(c, &args->products[i], args->numbers.dim[1], args->weight.dim[1]);
    }
}
