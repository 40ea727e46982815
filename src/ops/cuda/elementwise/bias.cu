/*
 * bias: y = x + bias for every row; backward adds dy's column sums to dbias. By expert likewise, so many
 * experts in a launch as its arguments have room for.
 */
#include "ops/cuda/objective/column_sums.cuh"

__global__ static void forward_kernel(struct mt_bias_forward_args a)
{
    int64_t column = cuda_thread();
    if (column >= a.x.dim[1]) return;
    double bias = cuda_get1(a.bias, column);
    for (int64_t row = blockIdx.y; row < a.x.dim[0]; row += gridDim.y) {
        cuda_put2(a.y, row, column, cuda_get2(a.x, row, column) + bias);
    }
}

enum mt_status mt_cuda_bias_forward(struct mt_device *device, const struct mt_bias_forward_args *a)
{
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    forward_kernel<<<cuda_grid(a->x.dim[0], a->x.dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "bias forward");
}

struct dy_term {
    struct mt_tensor dy;

    __device__ double operator()(int64_t row, int64_t column) const
    {
        return cuda_get2(dy, row, column);
    }
};

size_t mt_cuda_bias_backward_scratch(const struct mt_device *, const struct mt_bias_backward_args *a)
{
    return column_sums_bytes(a->dy.dim[1]);
}

enum mt_status mt_cuda_bias_backward(struct mt_device *device, const struct mt_bias_backward_args *a)
{
    column_sums(cuda_stream(device), dy_term{a->dy}, a->dy.dim[0], a->dy.dim[1], a->dbias,
                static_cast<double *>(device->scratch.data));
    return cuda_launched(device, "bias backward");
}

// ------------------------------------------------------------------ by expert

#define AT_ONCE 128 // experts of a launch

/* The vectors of some experts that follow each other, and where their rows begin. */
struct expert_vectors {
    void *data[AT_ONCE];          // NULL: absent
    unsigned char dtype[AT_ONCE]; // enum mt_dtype
    const int32_t *offsets;       // of the first of them; NULL: one expert, all rows
    int count;
};

static struct expert_vectors vectors_of(const struct mt_tensor *list, const struct mt_tensor *offsets,
                                        int first, int count)
{
    struct expert_vectors vectors = {};
    vectors.count = count;
    if (mt_tensor_present(offsets)) vectors.offsets = static_cast<const int32_t *>(offsets->data) + first;
    for (int e = 0; e < count; e++) {
        if (!mt_tensor_present(&list[first + e])) continue;
        vectors.data[e] = list[first + e].data;
        vectors.dtype[e] = (unsigned char)list[first + e].dtype;
    }
    return vectors;
}

__device__ static struct cuda_view vector_of(const struct expert_vectors &vectors, int e)
{
    return {vectors.data[e], (enum mt_dtype)vectors.dtype[e], 0};
}

/* An expert in each blockIdx.z; its rows are shared out among blockIdx.y. */
__global__ static void grouped_forward_kernel(const __grid_constant__ struct expert_vectors vectors,
                                              struct mt_tensor y)
{
    int e = blockIdx.z;
    int64_t column = cuda_thread();
    if (column >= y.dim[1] || vectors.data[e] == NULL) return;
    int64_t row = vectors.offsets != NULL ? vectors.offsets[e] : 0;
    int64_t end = vectors.offsets != NULL ? vectors.offsets[e + 1] : y.dim[0];
    float bias = cuda_load(vector_of(vectors, e), 0, column);
    struct cuda_view view = {y.data, y.dtype, y.stride[0]};
    for (row += blockIdx.y; row < end; row += gridDim.y)
        cuda_store(view, row, column, cuda_load(view, row, column) + bias);
}

/* A thread sums a column of its expert's rows, in their order. */
__global__ static void grouped_backward_kernel(const __grid_constant__ struct expert_vectors vectors,
                                               struct mt_tensor dy)
{
    int e = blockIdx.z;
    int64_t column = cuda_thread();
    if (column >= dy.dim[1] || vectors.data[e] == NULL) return;
    int64_t row = vectors.offsets != NULL ? vectors.offsets[e] : 0;
    int64_t end = vectors.offsets != NULL ? vectors.offsets[e + 1] : dy.dim[0];
    float *dbias = static_cast<float *>(vectors.data[e]) + column;
    double sum = *dbias;
    for (; row < end; row++) sum += cuda_get2(dy, row, column);
    *dbias = (float)sum;
}

/* Blocks for the columns, rows and experts. */
static dim3 grouped_grid(int64_t width, int64_t rows, int experts)
{
    return dim3((unsigned)((width + CUDA_THREADS - 1) / CUDA_THREADS), (unsigned)rows, (unsigned)experts);
}

enum mt_status mt_cuda_grouped_bias_forward(struct mt_device *device,
                                            const struct mt_grouped_bias_forward_args *a)
{
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    int64_t shares = a->y.dim[0] / a->experts + 1; // rows of an expert at a time
    if (shares > 64) shares = 64;
    for (int first = 0; first < a->experts; first += AT_ONCE) {
        int count = a->experts - first < AT_ONCE ? a->experts - first : AT_ONCE;
        struct expert_vectors vectors = vectors_of(a->bias, &a->offsets, first, count);
        dim3 grid = grouped_grid(a->y.dim[1], shares, count);
        grouped_forward_kernel<<<grid, CUDA_THREADS, 0, cuda_stream(device)>>>(vectors, a->y);
    }
    return cuda_launched(device, "grouped_bias forward");
}

enum mt_status mt_cuda_grouped_bias_backward(struct mt_device *device,
                                             const struct mt_grouped_bias_backward_args *a)
{
    if (mt_tensor_count(&a->dy) == 0) return MT_OK;
    for (int first = 0; first < a->experts; first += AT_ONCE) {
        int count = a->experts - first < AT_ONCE ? a->experts - first : AT_ONCE;
        struct expert_vectors vectors = vectors_of(a->dbias, &a->offsets, first, count);
        dim3 grid = grouped_grid(a->dy.dim[1], 1, count);
        grouped_backward_kernel<<<grid, CUDA_THREADS, 0, cuda_stream(device)>>>(vectors, a->dy);
    }
    return cuda_launched(device, "grouped_bias backward");
}
