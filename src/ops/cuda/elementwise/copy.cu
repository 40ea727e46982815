/* copy: y = x, converting between types. */
#include "ops/cuda/common/rows.cuh"
#include "ops/cuda/common/wide.cuh"

#define KERNEL_COPIES (1 << 20) // elements from which on
#define FEW_WORDS     (1 << 14) // of four bytes

__global__ static void copy_kernel(struct mt_copy_args a, int64_t rows, int64_t width)
{
    int64_t column = cuda_thread();
    if (column >= width) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        double value = cuda_get(a.x, cuda_row_offset(a.x, row) + column);
        cuda_put(a.y, cuda_row_offset(a.y, row) + column, value);
    }
}

/* Rows to the places they are given. */
__global__ static void place_kernel(struct mt_copy_args a)
{
    cuda_follow();
    int64_t column = cuda_thread();
    if (column >= a.x.dim[1]) return;
    for (int64_t row = blockIdx.y; row < a.x.dim[0]; row += gridDim.y) {
        cuda_put2(a.y, cuda_int1(a.place, row), column, cuda_get2(a.x, row, column));
    }
}

__global__ static void wide_kernel(struct mt_copy_args a, struct wide_shape shape)
{
    for (int64_t i = cuda_thread(); i < shape.rows * shape.eights; i += cuda_thread_count()) {
        struct wide_place place = wide_place_at(shape, i);
        float value[CUDA_WIDE];
        wide_load2(a.x, place, value);
        wide_store2(a.y, place, value);
    }
}

/* Follows the kernel before sooner than the library's own copy does. */
__global__ static void words_kernel(uint32_t *y, const uint32_t *x, int64_t count)
{
    cuda_follow();
    for (int64_t i = cuda_thread(); i < count; i += cuda_thread_count()) y[i] = x[i];
}

/* Without gaps and of one type. */
static enum mt_status copy_bytes(struct mt_device *device, void *y, const void *x, size_t bytes)
{
    int64_t words = (int64_t)(bytes / sizeof(uint32_t));
    uintptr_t odd = reinterpret_cast<uintptr_t>(y) | reinterpret_cast<uintptr_t>(x) | bytes;
    if (odd % sizeof(uint32_t) == 0 && words <= FEW_WORDS)
        return cuda_launch(device, "copy", words_kernel, dim3(cuda_blocks(words)), CUDA_THREADS, 0,
                           static_cast<uint32_t *>(y), static_cast<const uint32_t *>(x), words);
    cudaError_t error = cudaMemcpyAsync(y, x, bytes, cudaMemcpyDeviceToDevice, cuda_stream(device));
    return cuda_status(device, error, "copy");
}

enum mt_status mt_cuda_copy(struct mt_device *device, const struct mt_copy_args *a)
{
    int64_t count = mt_tensor_count(&a->x);
    if (count == 0) return MT_OK;
    if (mt_tensor_present(&a->place)) {
        dim3 grid = cuda_grid(a->x.dim[0], a->x.dim[1]);
        return cuda_launch(device, "copy to places", place_kernel, grid, CUDA_THREADS, 0, *a);
    }
    bool wide = a->y.rank == 2 && cuda_is_wide(&a->x) && cuda_is_wide(&a->y);
    // The library's own copy is slower than a kernel where there is much to copy.
    bool plain = !(wide && count >= KERNEL_COPIES) && a->x.dtype == a->y.dtype &&
                 mt_tensor_is_contiguous(&a->x) && mt_tensor_is_contiguous(&a->y);
    if (plain) {
        size_t bytes = (size_t)count * mt_dtype_bytes(a->y.dtype);
        return copy_bytes(device, a->y.data, a->x.data, bytes);
    }
    if (wide) {
        bool flat = mt_tensor_is_contiguous(&a->x) && mt_tensor_is_contiguous(&a->y);
        struct wide_shape shape = wide_shape_of(&a->y, flat);
        unsigned blocks = cuda_blocks(shape.rows * shape.eights);
        wide_kernel<<<blocks, CUDA_THREADS, 0, cuda_stream(device)>>>(*a, shape);
        return cuda_launched(device, "copy");
    }
    int64_t rows = cuda_row_count(&a->y);
    int64_t width = cuda_row_width(&a->y);
    copy_kernel<<<cuda_grid(rows, width), CUDA_THREADS, 0, cuda_stream(device)>>>(*a, rows, width);
    return cuda_launched(device, "copy");
}
