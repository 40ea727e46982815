/*
 * Which kernel computes an op. Where several can, they stand in a table, the best first, and the first that
 * fits is taken. Scratch and run ask the same table with the same arguments, so that they are always of one
 * kernel.
 *
 * A kernel's file exports its variant; the op's file has the table. `fits` looks at the device, at types,
 * shapes and strides, and at whether addresses are aligned: a piece of scratch is aligned to 256 bytes, as
 * NULL is while scratch is being measured.
 */
#ifndef MT_OPS_CUDA_VARIANTS_CUH
#define MT_OPS_CUDA_VARIANTS_CUH

#include "ops/cuda/common/common.cuh"

template <class ARGS> struct cuda_variant {
    bool (*fits)(const struct mt_device *device, const ARGS *args);    // NULL: always
    size_t (*bytes)(const struct mt_device *device, const ARGS *args); // of scratch; NULL: none
    enum mt_status (*run)(struct mt_device *device, const ARGS *args, void *scratch);
};

/* The number of the variant that is taken. The last one of a table always fits. */
template <class ARGS>
static inline int cuda_choose(const struct cuda_variant<ARGS> *const *table, const struct mt_device *device,
                              const ARGS *args)
{
    int i = 0;
    while (table[i]->fits != NULL && !table[i]->fits(device, args)) i++;
    return i;
}

template <class ARGS>
static inline size_t cuda_bytes(const struct cuda_variant<ARGS> *const *table, const struct mt_device *device,
                                const ARGS *args)
{
    const struct cuda_variant<ARGS> *variant = table[cuda_choose(table, device, args)];
    return variant->bytes != NULL ? variant->bytes(device, args) : 0;
}

template <class ARGS>
static inline enum mt_status cuda_run(const struct cuda_variant<ARGS> *const *table, struct mt_device *device,
                                      const ARGS *args, void *scratch)
{
    return table[cuda_choose(table, device, args)]->run(device, args, scratch);
}

/* The op's two functions in the device's table. */
#define CUDA_OP(name, table)                                                                                 \
    size_t mt_cuda_##name##_scratch(const struct mt_device *device, const struct mt_##name##_args *args)     \
    {                                                                                                        \
        return cuda_bytes(table, device, args);                                                              \
    }                                                                                                        \
    enum mt_status mt_cuda_##name(struct mt_device *device, const struct mt_##name##_args *args)             \
    {                                                                                                        \
        return cuda_run(table, device, args, device->scratch.data);                                          \
    }

#endif
