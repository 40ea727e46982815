/* Around LoRA's kernels of Hopper: what they take, maps for the copy engine, launches. */
#include "ops/cuda/lora/lora_hopper.cuh"
#include "ops/cuda/products/tensor_map.cuh"

// ------------------------------------------------------------------ what fits

bool cuda_lora_reads(const struct mt_tensor *rows)
{
    return rows->dtype == MT_BF16 && rows->dim[0] > 0 && rows->dim[1] > 0 && rows->dim[1] <= INT32_MAX / 2 &&
           rows->dim[1] % 8 == 0 && rows->stride[0] % 8 == 0 &&
           reinterpret_cast<uintptr_t>(rows->data) % 16 == 0;
}

bool cuda_lora_matrices_fit(const struct mt_tensor *list, int experts)
{
    const struct mt_tensor *any = cuda_uniform(list, experts);
    return any != NULL && any->dtype == MT_F32 && any->stride[0] % 4 == 0;
}

bool cuda_lora_suits(const struct mt_device *device, int64_t rows, int experts,
                     const struct mt_tensor *offsets)
{
    const struct cuda_state *state = cuda_state_of(device);
    int64_t least = mt_tensor_present(offsets) ? LORA_LEAST : LORA_DENSE;
    return state->hopper && state->bf16 && experts <= LORA_EXPERTS && rows >= least &&
           rows <= INT32_MAX / (MT_LORA_LINEARS + 1) && 2 * state->multiprocessors < CUDA_MEETINGS;
}

bool cuda_lora_mask_fits(const struct mt_tensor *mask)
{
    if (!mt_tensor_present(mask)) return true;
    return mask->stride[0] % 4 == 0 && reinterpret_cast<uintptr_t>(mask->data) % 16 == 0;
}

// ------------------------------------------------------------------ maps

/* Boxes [lines,columns] of a matrix: of bf16, or of a mask's words. */
static enum mt_status make_map(const struct mt_device *device, const struct mt_tensor *matrix, int lines,
                               int columns, CUtensorMap *map)
{
    struct map_shape shape = {};
    shape.words = matrix->dtype == MT_I32;
    shape.once = true;
    shape.data = matrix->data;
    shape.dimensions = 2;
    shape.size[0] = (uint64_t)matrix->dim[1];
    shape.size[1] = (uint64_t)matrix->dim[0];
    shape.stride[0] = (uint64_t)matrix->stride[0] * (shape.words ? 4 : 2);
    shape.box[0] = (uint32_t)columns;
    shape.box[1] = (uint32_t)lines;
    return cuda_make_map(device, &shape, map);
}

enum mt_status cuda_lora_boxes(const struct mt_device *device, const struct mt_tensor *rows,
                               struct lora_boxes *boxes)
{
    enum mt_status status = make_map(device, rows, LORA_ROWS, WGMMA_LINE, &boxes->whole);
    return status == MT_OK ? make_map(device, rows, LORA_TAIL, WGMMA_LINE, &boxes->tail) : status;
}

enum mt_status cuda_lora_mask_boxes(const struct mt_device *device, const struct mt_tensor *mask, int words,
                                    struct lora_boxes *boxes)
{
    enum mt_status status = make_map(device, mask, LORA_ROWS, words, &boxes->whole);
    return status == MT_OK ? make_map(device, mask, LORA_TAIL, words, &boxes->tail) : status;
}

// ------------------------------------------------------------------ launch

static enum mt_status allow_shared(const struct mt_device *device, const struct lora_launch *launch)
{
    return cuda_allow_shared(device, launch->kernel, launch->shared_bytes,
                             "shared memory for LoRA's products");
}

/* `attributes` has room for two. */
static cudaLaunchConfig_t config_of(const struct mt_device *device, const struct lora_launch *launch,
                                    cudaLaunchAttribute *attributes)
{
    cudaLaunchConfig_t config = {};
    attributes[0] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1] = {};
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = (unsigned)launch->blocks;
    attributes[1].val.clusterDim.y = 1;
    attributes[1].val.clusterDim.z = 1;
    config.gridDim = launch->grid;
    config.blockDim = dim3((unsigned)launch->threads);
    config.dynamicSmemBytes = launch->shared_bytes;
    config.stream = cuda_stream(device);
    config.attrs = attributes;
    config.numAttrs = launch->blocks > 1 ? 2 : 1;
    return config;
}

enum mt_status cuda_lora_launch(struct mt_device *device, const struct lora_launch *launch, const void *call,
                                const char *what)
{
    enum mt_status status = allow_shared(device, launch);
    if (status != MT_OK) return status;
    cudaLaunchAttribute attributes[2];
    cudaLaunchConfig_t config = config_of(device, launch, attributes);
    attributes[0].val.programmaticStreamSerializationAllowed = cuda_starts_early(device) ? 1 : 0;
    void *arguments[] = {const_cast<void *>(call)};
    return cuda_status(device, cudaLaunchKernelExC(&config, launch->kernel, arguments), what);
}

int cuda_lora_clusters(const struct mt_device *device, const struct lora_launch *launch)
{
    cudaLaunchAttribute attributes[2];
    cudaLaunchConfig_t config = config_of(device, launch, attributes);
    int most = 0;
    bool asked = allow_shared(device, launch) == MT_OK &&
                 cudaOccupancyMaxActiveClusters(&most, launch->kernel, &config) == cudaSuccess;
    return asked ? most : 0;
}
