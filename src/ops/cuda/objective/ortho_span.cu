/*
 * ortho's span form, one thread per token, in double, as ref has it (ops/span.h). A token's matrices lie in
 * shared memory, an odd number of doubles from one thread's to the next, so that a warp finds the same
 * element of its tokens in different banks; where they are too large for that, in scratch, and tokens are
 * taken in waves where scratch for all of them would be too much.
 */
#include <float.h>

#include "ops/cuda/common/sums.cuh"
#include "ops/cuda/objective/ortho.cuh"
#include "ops/span.h"

#define MT_SPAN_CODE __device__ static inline
#include "ops/span_code.h"

#define MOST_SCRATCH  ((size_t)256 << 20)
#define BLOCK_THREADS 32 // few: thousands of tokens shall reach every multiprocessor

// ------------------------------------------------------------------ a token

/* What a token's loss is made of. */
struct token {
    int k;
    double *gram;     // [k,k]; zero rows and columns where the gate is closed
    double *gradient; // [k,k]; backward's
    double *workspace;
};

/* Where tokens' matrices are: a token's lie together. */
struct token_space {
    double *scratch;   // NULL: in shared memory
    int64_t size;      // doubles of a token
    int64_t at_once;   // tokens there is room for
    int64_t workspace; // where in a token's memory it begins
};

/* Of forward: the Gram matrix and a workspace; odd, for the banks. */
static int64_t forward_size(int64_t k)
{
    return (k * k + MT_ORTHO_SPAN_VALUE_WORKSPACE(k)) | 1;
}

/* Of backward: the Gram matrix, the gradient and a workspace. */
static int64_t backward_size(int64_t k)
{
    return (2 * k * k + MT_ORTHO_SPAN_GRADIENT_WORKSPACE(k)) | 1;
}

extern __shared__ double shared_tokens[];

/* This thread's. */
__device__ static struct token token_of(const struct token_space &space, int k)
{
    double *memory = space.scratch != NULL ? space.scratch + cuda_thread() * space.size
                                           : shared_tokens + threadIdx.x * space.size;
    struct token token = {k, memory, memory + k * k, memory + space.workspace};
    return token;
}

/* False for a masked token, which is not read at all. */
template <class ARGS>
__device__ static bool read_token(const ARGS &args, const struct token &token, int64_t i)
{
    if (cuda_present(args.mask) && cuda_int1(args.mask, i) == 0) return false;
    for (int a = 0; a < token.k; a++) {
        for (int b = 0; b < token.k; b++) {
            bool closed = cuda_present(args.weight) && (cuda_get2(args.weight, i, a) <= (double)args.gate ||
                                                        cuda_get2(args.weight, i, b) <= (double)args.gate);
            token.gram[a * token.k + b] = closed ? 0.0 : cuda_get3(args.gram, i, a, b);
        }
    }
    return true;
}

/* Of gram's entries. */
__device__ static double rounding_of(const struct mt_tensor &gram)
{
    return gram.dtype == MT_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
}

// ------------------------------------------------------------------ kernels

__global__ static void forward_kernel(struct mt_ortho_forward_args a, struct token_space space, double *parts)
{
    cuda_follow();
    struct token token = token_of(space, (int)a.gram.dim[1]);
    int64_t i = cuda_thread() < space.at_once ? cuda_thread() : a.gram.dim[0];
    double sum = 0.0;
    double rows = 0.0;
    for (; i < a.gram.dim[0]; i += space.at_once) {
        double loss = 0.0;
        if (read_token(a, token, i)) {
            loss = span_value(token.gram, token.k, token.k, (double)a.epsilon, rounding_of(a.gram),
                              token.workspace);
            rows += 1.0;
        }
        cuda_put1(a.loss, i, loss);
        sum += a.loss.dtype == MT_F32 ? (double)(float)loss : loss;
    }
    sum = warp_sum(sum);
    rows = warp_sum(rows);
    if (threadIdx.x != 0) return;
    parts[2 * blockIdx.x] = sum;
    parts[2 * blockIdx.x + 1] = rows;
}

__global__ static void backward_kernel(struct mt_ortho_backward_args a, struct token_space space)
{
    cuda_follow();
    struct token token = token_of(space, (int)a.gram.dim[1]);
    int k = token.k;
    double scale = (double)(cuda_present(a.factor) ? a.scale * (float)cuda_get1(a.factor, 0) : a.scale);
    if (cuda_thread() >= space.at_once) return;
    for (int64_t i = cuda_thread(); i < a.gram.dim[0]; i += space.at_once) {
        // The whole token is read before any of it is written: coupling may be gram.
        bool counts = read_token(a, token, i);
        if (counts)
            span_gradient(token.gram, k, (double)a.epsilon, rounding_of(a.gram), token.gradient,
                          token.workspace);
        for (int s = 0; s < k; s++) {
            for (int m = 0; m < k; m++) {
                double both = counts ? token.gradient[s * k + m] + token.gradient[m * k + s] : 0.0;
                cuda_put3(a.coupling, i, s, m, scale * both);
            }
        }
    }
}

// ------------------------------------------------------------------ launchers

/* Bytes of shared memory for a block's tokens of so many doubles; 0 where that is more than there is. Sums
 * need some, too.
 */
static size_t shared_bytes(const struct mt_device *device, int64_t size)
{
    size_t bytes = BLOCK_THREADS * (size_t)size * sizeof(double);
    return bytes + 1024 <= cuda_state_of(device)->shared_bytes ? bytes : 0;
}

/* Tokens whose matrices are in memory at once. */
static int64_t wave_of(const struct mt_device *device, const struct mt_tensor *gram, int64_t size)
{
    int64_t most = (int64_t)(MOST_SCRATCH / sizeof(double)) / size;
    return shared_bytes(device, size) > 0 || gram->dim[0] < most ? gram->dim[0] : most;
}

static size_t scratch_bytes(const struct mt_device *device, const struct mt_tensor *gram, int64_t size)
{
    return shared_bytes(device, size) > 0 ? 0 : cuda_doubles(wave_of(device, gram, size) * size);
}

static struct token_space space_of(const struct mt_device *device, const struct mt_tensor *gram, int64_t size,
                                   int64_t workspace, void *scratch)
{
    bool shared = shared_bytes(device, size) > 0;
    return {shared ? NULL : static_cast<double *>(scratch), size, wave_of(device, gram, size), workspace};
}

static int64_t blocks_of(int64_t at_once)
{
    return (at_once + BLOCK_THREADS - 1) / BLOCK_THREADS;
}

/* More than 48 KB of shared memory have to be asked for. */
static enum mt_status allow_shared(const struct mt_device *device, const void *kernel, size_t bytes)
{
    return bytes <= 48 << 10 ? MT_OK : cuda_allow_shared(device, kernel, bytes, "ortho's shared memory");
}

static bool forward_fits(const struct mt_device *, const struct mt_ortho_forward_args *a)
{
    return a->form == MT_ORTHO_SPAN;
}

static bool backward_fits(const struct mt_device *, const struct mt_ortho_backward_args *a)
{
    return a->form == MT_ORTHO_SPAN;
}

static size_t forward_bytes(const struct mt_device *device, const struct mt_ortho_forward_args *a)
{
    int64_t size = forward_size(a->gram.dim[1]);
    return scratch_bytes(device, &a->gram, size) +
           ortho_parts_bytes(blocks_of(wave_of(device, &a->gram, size)));
}

static size_t backward_bytes(const struct mt_device *device, const struct mt_ortho_backward_args *a)
{
    return scratch_bytes(device, &a->gram, backward_size(a->gram.dim[1]));
}

static enum mt_status run_forward(struct mt_device *device, const struct mt_ortho_forward_args *a,
                                  void *scratch)
{
    int64_t k = a->gram.dim[1];
    struct token_space space = space_of(device, &a->gram, forward_size(k), k * k, scratch);
    size_t shared = shared_bytes(device, space.size);
    char *after = static_cast<char *>(scratch) + scratch_bytes(device, &a->gram, space.size);
    double *parts = reinterpret_cast<double *>(after);
    int64_t blocks = blocks_of(space.at_once);
    enum mt_status status = allow_shared(device, reinterpret_cast<const void *>(forward_kernel), shared);
    if (status == MT_OK && blocks > 0)
        status = cuda_launch(device, "ortho forward", forward_kernel, dim3((unsigned)blocks), BLOCK_THREADS,
                             shared, *a, space, parts);
    return status == MT_OK ? ortho_add_parts(device, a, parts, blocks) : status;
}

static enum mt_status run_backward(struct mt_device *device, const struct mt_ortho_backward_args *a,
                                   void *scratch)
{
    int64_t k = a->gram.dim[1];
    if (a->gram.dim[0] == 0) return MT_OK;
    struct token_space space = space_of(device, &a->gram, backward_size(k), 2 * k * k, scratch);
    size_t shared = shared_bytes(device, space.size);
    enum mt_status status = allow_shared(device, reinterpret_cast<const void *>(backward_kernel), shared);
    if (status != MT_OK) return status;
    return cuda_launch(device, "ortho backward", backward_kernel, dim3((unsigned)blocks_of(space.at_once)),
                       BLOCK_THREADS, shared, *a, space);
}

const struct cuda_variant<struct mt_ortho_forward_args> cuda_ortho_span = {
    forward_fits, forward_bytes, run_forward
};
const struct cuda_variant<struct mt_ortho_backward_args> cuda_ortho_span_backward = {
    backward_fits, backward_bytes, run_backward
};
