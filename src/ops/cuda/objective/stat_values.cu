/* stat_values in one block, of whose warps each takes products in turn. */
#include "ops/cuda/common/sums.cuh"

/* The products, which lie in the host's memory. */
struct product_list {
    struct mt_stat_product product[MT_STAT_PRODUCTS];
};

/* A product of layer l, by the warp; this lane's part of its value. */
__device__ static double add_product(const struct mt_stat_values_args &a,
                                     const struct mt_stat_product &product, int64_t l)
{
    double over = product.over < 0 ? 1.0 : cuda_get2(a.numbers, l, product.over);
    double weight = a.scale * cuda_get2(a.weight, l, product.loss);
    double value = 0.0;
    double share = over > 0.0 ? product.factor : 0.0;
    for (int i = 0; i < product.power && over > 0.0; i++) share /= over;
    for (int64_t i = cuda_lane(); i < product.count; i += 32) {
        double x = cuda_get2(a.numbers, l, product.x + i);
        double y = product.y < 0 ? 1.0 : cuda_get2(a.numbers, l, product.y + i);
        value += share * y * x;
        cuda_put2(a.gradient, l, product.x + i, weight * (share * y) * (product.y == product.x ? 2.0 : 1.0));
    }
    return value;
}

__global__ static void __launch_bounds__(CUDA_THREADS)
    values_kernel(struct mt_stat_values_args a, struct product_list list)
{
    cuda_follow();
    double total = 0.0;
    int64_t products = a.numbers.dim[0] * a.products_count;
    for (int64_t p = threadIdx.x / 32; p < products; p += CUDA_WARPS) {
        int64_t l = p / a.products_count;
        const struct mt_stat_product &product = list.product[p % a.products_count];
        total += cuda_get2(a.weight, l, product.loss) * add_product(a, product, l);
    }
    total = block_sum(total);
    if (threadIdx.x == 0) cuda_put1(a.total, 0, total);
}

enum mt_status mt_cuda_stat_values(struct mt_device *device, const struct mt_stat_values_args *a)
{
    struct product_list list = {};
    for (int i = 0; i < a->products_count; i++) list.product[i] = a->products[i];
    return cuda_launch(device, "stat_values", values_kernel, dim3(1), CUDA_THREADS, 0, *a, list);
}
