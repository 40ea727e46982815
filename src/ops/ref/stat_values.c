/* stat_values: losses that are sums of products of statistics, their weighted total, and its gradient. */
#include "ops/ref/ref.h"

/* A product of layer l; returns its value. */
static double add_product(const struct mt_stat_values_args *a, const struct mt_stat_product *product,
                          int64_t l)
{
    double over = product->over < 0 ? 1.0 : ref_get2(&a->numbers, l, product->over);
    double weight = a->scale * ref_get2(&a->weight, l, product->loss);
    double value = 0.0;
    double share = over > 0.0 ? product->factor : 0.0;
    for (int i = 0; i < product->power && over > 0.0; i++) share /= over;
    for (int64_t i = 0; i < product->count; i++) {
        double x = ref_get2(&a->numbers, l, product->x + i);
        double y = product->y < 0 ? 1.0 : ref_get2(&a->numbers, l, product->y + i);
        value += share * y * x;
        ref_set2(&a->gradient, l, product->x + i,
                 weight * (share * y) * (product->y == product->x ? 2.0 : 1.0));
    }
    return value;
}

enum mt_status mt_ref_stat_values(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_stat_values_args *a = args;
    double total = 0.0;
    for (int64_t l = 0; l < a->numbers.dim[0]; l++) {
        for (int i = 0; i < a->products_count; i++) {
            const struct mt_stat_product *product = &a->products[i];
            total += ref_get2(&a->weight, l, product->loss) * add_product(a, product, l);
        }
    }
    ref_set1(&a->total, 0, total);
    return MT_OK;
}
