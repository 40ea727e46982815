/* Between LoRA's kernels of Hopper: what they take, maps for the copy engine, sums of the shares' gradients.
 */
#include "ops/cuda/lora_hopper.cuh"
#include "ops/cuda/tensor_map.cuh"

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
           rows <= INT32_MAX / (MT_LORA_MAPS + 1);
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

enum mt_status cuda_lora_shared(const struct mt_device *device, const void *kernel, size_t bytes)
{
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    return cuda_status(device, error, "shared memory for LoRA's products");
}

// ------------------------------------------------------------------ sums of parts

#define PARTS_AT_ONCE 16   // on their way to a thread
#define BLOCKS        1024 // of a launch, about

/* The parts of one gradient: `first`, then those of the next shares. */
struct part_list {
    int first; // counted through all shares
    int share;
    int count; // shares; 0: nothing to add
    bool gaps; // some shares may have no rows
    int64_t all;
};

/* The share in which an index is. */
__device__ static int share_of(int64_t index, int64_t all, int shares)
{
    int share = (int)(index * shares / all);
    while (share_begin(all, share + 1, shares) <= index) share++;
    return share;
}

__device__ static struct part_list find_parts(const struct lora_rows &rows, int e, int turn)
{
    struct part_list list = {};
    int64_t before = rows.offsets != NULL ? rows.offsets[0] : 0;
    int64_t count = (rows.offsets != NULL ? rows.offsets[rows.experts] : rows.rows) - before;
    int64_t first = (rows.offsets != NULL ? rows.offsets[e] : 0) - before + turn * count;
    int64_t end = (rows.offsets != NULL ? rows.offsets[e + 1] : rows.rows) - before + turn * count;
    if (first == end) return list;
    list.all = count * rows.turns;
    list.gaps = list.all < rows.shares;
    list.share = share_of(first, list.all, rows.shares);
    int last = share_of(end - 1, list.all, rows.shares);
    if (last == list.share) return list; // the share added it by itself
    list.count = last + 1 - list.share;
    list.first = list.share * 2 + (share_begin(list.all, list.share, rows.shares) < first ? 1 : 0);
    return list;
}

/* Whether share i of the list has rows. */
__device__ static bool has_rows(const struct part_list &list, int shares, int i)
{
    return !list.gaps ||
           share_begin(list.all, list.share + i, shares) < share_begin(list.all, list.share + i + 1, shares);
}

__device__ static inline void add_four(float4 *sum, const float4 &value)
{
    sum->x += value.x;
    sum->y += value.y;
    sum->z += value.z;
    sum->w += value.w;
}

/* COUNT parts, `jump` floats apart. */
template <int COUNT>
__device__ static inline const float *add_values(float4 *sum, const float *place, int64_t jump)
{
    float4 value[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        value[i] = *reinterpret_cast<const float4 *>(place);
        place += jump;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) add_four(sum, value[i]);
    return place;
}

/* The sum of the parts, in order, at one place of each. */
__device__ static float4 sum_parts(const struct part_list &list, const struct lora_parts &parts,
                                   const float *at)
{
    const int64_t jump = 2 * parts.gap;
    float4 sum = *reinterpret_cast<const float4 *>(at + list.first * parts.gap);
    const float *place = at + (list.share + 1) * jump;
    int left = list.count - 1;
    for (; left >= PARTS_AT_ONCE && !list.gaps; left -= PARTS_AT_ONCE)
        place = add_values<PARTS_AT_ONCE>(&sum, place, jump);
    for (; left >= 4 && !list.gaps; left -= 4) place = add_values<4>(&sum, place, jump);
    for (; left > 0; left--, place += jump) {
        if (has_rows(list, parts.rows.shares, list.count - left)) add_values<1>(&sum, place, jump);
    }
    return sum;
}

/* Four columns a thread at a time; a block's are of one expert and map. */
__global__ static void add_parts_kernel(const __grid_constant__ struct lora_parts parts)
{
    __shared__ struct part_list list;
    int map = (int)blockIdx.z;
    float *gradient = parts.gradient[map][blockIdx.y];
    if (gradient == NULL) return;
    if (threadIdx.x == 0) list = find_parts(parts.rows, (int)blockIdx.y, parts.rows.turns > 1 ? map : 0);
    __syncthreads();
    if (list.count == 0) return;
    int quarters = (int)((parts.columns[map] + 3) / 4);
    int64_t count = parts.lines[map] * quarters;
    for (int64_t i = cuda_thread(); i < count; i += cuda_thread_count()) {
        int64_t line = i / quarters;
        int64_t column = (i - line * quarters) * 4;
        float4 sum = sum_parts(list, parts, parts.part + map * parts.apart + line * parts.width + column);
        float *target = gradient + line * parts.stride[map] + column;
        if (column + 4 <= parts.columns[map]) {
            float4 old = *reinterpret_cast<float4 *>(target);
            *reinterpret_cast<float4 *>(target) =
                make_float4(old.x + sum.x, old.y + sum.y, old.z + sum.z, old.w + sum.w);
            continue;
        }
        const float three[3] = {sum.x, sum.y, sum.z};
#pragma unroll
        for (int j = 0; j < 3; j++) {
            if (column + j < parts.columns[map]) target[j] += three[j];
        }
    }
}

enum mt_status cuda_lora_add_parts(struct mt_device *device, const struct lora_parts *parts)
{
    int64_t most = 0;
    for (int i = 0; i < parts->maps; i++) {
        int64_t count = parts->lines[i] * ((parts->columns[i] + 3) / 4);
        if (count > most) most = count;
    }
    int64_t matrices = (int64_t)parts->rows.experts * parts->maps;
    int blocks = lora_least((most + CUDA_THREADS - 1) / CUDA_THREADS, (BLOCKS + matrices - 1) / matrices);
    dim3 grid((unsigned)blocks, (unsigned)parts->rows.experts, (unsigned)parts->maps);
    add_parts_kernel<<<grid, CUDA_THREADS, 0, cuda_stream(device)>>>(*parts);
    return cuda_launched(device, "adding LoRA's gradients");
}
