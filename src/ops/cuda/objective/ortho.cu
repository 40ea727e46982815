/*
 * ortho, one thread per token, in double, as ref has it. A token's matrices lie in shared memory, an odd
 * number of doubles from one thread's to the next, so that a warp finds the same element of its tokens in
 * different banks; where they are too large for that, in scratch, and tokens are taken in waves where scratch
 * for all of them would be too much. In shared memory a block reads and writes its tokens' matrices together.
 *   pairwise  Σ q² B / (B + ε)²                 ∂/∂q = 2 q B / (B + ε)²,  ∂/∂B = q² (ε - B) / (B + ε)³
 *   span      see ops/span.h
 *   cosine    Σ q² / ((A + ε)(B + ε)) / (k(k-1))
 *   signed    Σ q / √((A + ε)(B + ε)) / (k(k-1))
 */
#include <float.h>

#include "ops/cuda/common/sums.cuh"
#include "ops/span.h"

#define MT_SPAN_CODE __device__ static inline
#include "ops/span_code.h"

#define MOST_SCRATCH  ((size_t)256 << 20)
#define BLOCK_THREADS 32 // few: thousands of tokens shall reach every multiprocessor

// ------------------------------------------------------------------ a token

/* What a token's loss is made of. */
struct token {
    int k;
    double *gram;      // [k,k]; zero rows and columns where the gate is closed
    double *gradient;  // [k,k]
    double *workspace; // for span; else [k]: the inverses of its squares plus epsilon
};

/* Where tokens' matrices are: a token's lie together. */
struct token_space {
    double *scratch;   // NULL: in shared memory
    int64_t size;      // doubles of a token
    int64_t at_once;   // tokens there is room for: whole blocks
    int64_t workspace; // where in a token's memory it begins
    bool together;     // a block's matrices are read and written by all of its threads
};

/* Of forward: the Gram matrix and a workspace; odd, for the banks. */
static int64_t forward_size(int64_t k, enum mt_ortho_form form)
{
    return (k * k + (form == MT_ORTHO_SPAN ? MT_ORTHO_SPAN_VALUE_WORKSPACE(k) : k)) | 1;
}

/* Of backward: the Gram matrix, the gradient and a workspace. */
static int64_t backward_size(int64_t k, enum mt_ortho_form form)
{
    return (2 * k * k + (form == MT_ORTHO_SPAN ? MT_ORTHO_SPAN_GRADIENT_WORKSPACE(k) : k)) | 1;
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

/* Elements of this block's matrices, the first of which is that of token i - threadIdx.x. */
__device__ static int block_elements(const struct mt_tensor &gram, int64_t i, int squares)
{
    int64_t left = gram.dim[0] - (i - threadIdx.x);
    return (int)(left < BLOCK_THREADS ? left : BLOCK_THREADS) * squares;
}

/* Zero rows and columns where the gate is closed. */
__device__ static void close_gates(const struct token &token, const struct mt_tensor &weight, float gate,
                                   int64_t i)
{
    for (int a = 0; a < token.k && cuda_present(weight); a++) {
        if (!(cuda_get2(weight, i, a) <= (double)gate)) continue;
        for (int b = 0; b < token.k; b++) {
            token.gram[a * token.k + b] = 0.0;
            token.gram[b * token.k + a] = 0.0;
        }
    }
}

__device__ static bool is_masked(const struct mt_tensor &mask, int64_t i)
{
    return cuda_present(mask) && cuda_int1(mask, i) == 0;
}

/* All threads of the block must call it, whether they have a token or not. */
__device__ static void read_gram(const struct token_space &space, const struct token &token,
                                 const struct mt_tensor &gram, int64_t i)
{
    int squares = token.k * token.k;
    if (!space.together) {
        for (int pair = 0; pair < squares && i < gram.dim[0]; pair++)
            token.gram[pair] = cuda_get3(gram, i, pair / token.k, pair % token.k);
        return;
    }
    const float *source = static_cast<const float *>(gram.data) + (i - threadIdx.x) * squares;
    int elements = block_elements(gram, i, squares);
#pragma unroll 4
    for (int e = (int)threadIdx.x; e < elements; e += BLOCK_THREADS)
        shared_tokens[e / squares * (int)space.size + e % squares] = (double)source[e];
    __syncwarp();
}

/* Likewise; the coupling is where the gradient was. */
__device__ static void write_coupling(const struct token_space &space, const struct token &token,
                                      const struct mt_tensor &coupling, int64_t i)
{
    int squares = token.k * token.k;
    if (!space.together) {
        for (int pair = 0; pair < squares && i < coupling.dim[0]; pair++)
            cuda_put3(coupling, i, pair / token.k, pair % token.k, token.gradient[pair]);
        return;
    }
    float *target = static_cast<float *>(coupling.data) + (i - threadIdx.x) * squares;
    int elements = block_elements(coupling, i, squares);
    __syncwarp();
#pragma unroll 4
    for (int e = (int)threadIdx.x; e < elements; e += BLOCK_THREADS)
        target[e] = (float)shared_tokens[e / squares * (int)space.size + squares + e % squares];
}

/* Of gram's entries, for span. */
__device__ static double rounding_of(const struct mt_tensor &gram)
{
    return gram.dtype == MT_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
}

/* 1 / x, or 0 where that does not exist. */
__device__ static double inverse(double x)
{
    return x == 0.0 ? 0.0 : 1.0 / x;
}

// ------------------------------------------------------------------ the forms

/* The workspace of pairwise and cosine. */
__device__ static void find_inverses(const struct token &token, double epsilon)
{
    for (int a = 0; a < token.k; a++) token.workspace[a] = inverse(token.gram[a * token.k + a] + epsilon);
}

/* That of signed: 1 / √(A + ε), or 0 for a row of zeros, which has no direction. */
__device__ static void find_inverse_lengths(const struct token &token, double epsilon)
{
    for (int a = 0; a < token.k; a++) {
        double square = token.gram[a * token.k + a];
        token.workspace[a] = square > 0.0 ? 1.0 / sqrt(square + epsilon) : 0.0;
    }
}

__device__ static double pairwise_loss(const struct token &token)
{
    int k = token.k;
    double sum = 0.0;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            double q = token.gram[a * k + b];
            double over = token.workspace[b];
            if (a != b) sum += q * q * token.gram[b * k + b] * over * over;
        }
    }
    return sum;
}

__device__ static void pairwise_gradient(const struct token &token, double epsilon)
{
    int k = token.k;
    for (int b = 0; b < k; b++) {
        double square = token.gram[b * k + b];
        double over = token.workspace[b];
        double squares = 0.0;
        for (int a = 0; a < k; a++) {
            double q = token.gram[a * k + b];
            token.gradient[a * k + b] = 2.0 * q * square * over * over;
            if (a != b) squares += q * q;
        }
        token.gradient[b * k + b] = squares * (epsilon - square) * over * over * over;
    }
}

__device__ static double cosine_loss(const struct token &token)
{
    int k = token.k;
    double sum = 0.0;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            double q = token.gram[a * k + b];
            if (a != b) sum += q * q * token.workspace[a] * token.workspace[b];
        }
    }
    return k > 1 ? sum / (double)(k * (k - 1)) : 0.0;
}

__device__ static void cosine_gradient(const struct token &token)
{
    int k = token.k;
    double mean = inverse((double)(k * (k - 1)));
    for (int a = 0; a < k; a++) {
        double over_a = token.workspace[a];
        double pulls = 0.0; // Σ_b of the terms (a,b) and (b,a), times A + ε
        for (int b = 0; b < k; b++) {
            double q = token.gram[a * k + b];
            double other = token.gram[b * k + a];
            double over_b = token.workspace[b];
            token.gradient[a * k + b] = mean * 2.0 * q * over_a * over_b;
            if (a != b) pulls += (q * q + other * other) * over_b;
        }
        token.gradient[a * k + a] = -mean * pulls * over_a * over_a;
    }
}

__device__ static double signed_loss(const struct token &token)
{
    int k = token.k;
    double sum = 0.0;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            if (a != b) sum += token.gram[a * k + b] * token.workspace[a] * token.workspace[b];
        }
    }
    return k > 1 ? sum / (double)(k * (k - 1)) : 0.0;
}

__device__ static void signed_gradient(const struct token &token)
{
    int k = token.k;
    double mean = inverse((double)(k * (k - 1)));
    for (int a = 0; a < k; a++) {
        double over_a = token.workspace[a];
        double pulls = 0.0; // Σ_b of the terms (a,b) and (b,a), times √(A + ε)
        for (int b = 0; b < k; b++) {
            double over_b = token.workspace[b];
            token.gradient[a * k + b] = mean * over_a * over_b;
            if (a != b) pulls += (token.gram[a * k + b] + token.gram[b * k + a]) * over_b;
        }
        token.gradient[a * k + a] = -0.5 * mean * pulls * over_a * over_a * over_a;
    }
}

// ------------------------------------------------------------------ kernels

__device__ static double loss_of(const struct mt_ortho_forward_args &a, const struct token &token)
{
    double epsilon = (double)a.epsilon;
    switch (a.form) {
    case MT_ORTHO_PAIRWISE: find_inverses(token, epsilon); return pairwise_loss(token);
    case MT_ORTHO_SPAN:
        return span_value(token.gram, token.k, token.k, epsilon, rounding_of(a.gram), token.workspace);
    case MT_ORTHO_COSINE: find_inverses(token, epsilon); return cosine_loss(token);
    case MT_ORTHO_SIGNED: find_inverse_lengths(token, epsilon); return signed_loss(token);
    }
    return 0.0;
}

/* A block's sum of losses and number of tokens are left in `parts`, where there is one. */
__global__ static void forward_kernel(struct mt_ortho_forward_args a, struct token_space space, double *parts)
{
    cuda_follow();
    struct token token = token_of(space, (int)a.gram.dim[1]);
    double sum = 0.0;
    double rows = 0.0;
    for (int64_t i = cuda_thread(); i - threadIdx.x < a.gram.dim[0]; i += space.at_once) {
        read_gram(space, token, a.gram, i);
        if (i >= a.gram.dim[0]) continue;
        double loss = 0.0;
        if (!is_masked(a.mask, i)) {
            close_gates(token, a.weight, a.gate, i);
            loss = loss_of(a, token);
            rows += 1.0;
        }
        cuda_put1(a.loss, i, loss);
        sum += a.loss.dtype == MT_F32 ? (double)(float)loss : loss;
    }
    sum = warp_sum(sum);
    rows = warp_sum(rows);
    if (threadIdx.x != 0 || parts == NULL) return;
    parts[2 * blockIdx.x] = sum;
    parts[2 * blockIdx.x + 1] = rows;
}

/* One block: adds up the parts. */
__global__ static void sum_kernel(struct mt_ortho_forward_args a, const double *parts, int64_t count)
{
    cuda_follow();
    double sum = 0.0;
    double rows = 0.0;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < count; i += CUDA_THREADS) {
        sum += parts[2 * i];
        rows += parts[2 * i + 1];
    }
    sum = block_sum(sum);
    rows = block_sum(rows);
    if (threadIdx.x != 0) return;
    if (cuda_present(a.sum)) cuda_put1(a.sum, 0, sum);
    if (cuda_present(a.rows)) cuda_put1(a.rows, 0, rows);
}

/* The paper's printed gradient is a coupling by itself: not symmetric, nothing on the diagonal. */
__device__ static void find_printed(const struct mt_ortho_backward_args &a, const struct token &token,
                                    double scale)
{
    int k = token.k;
    find_inverses(token, (double)a.epsilon);
    for (int s = 0; s < k; s++) {
        for (int m = 0; m < k; m++)
            token.gradient[s * k + m] = s == m ? 0.0 : scale * token.gram[s * k + m] * token.workspace[m];
    }
}

__device__ static void find_exact(const struct mt_ortho_backward_args &a, const struct token &token,
                                  double scale)
{
    int k = token.k;
    double epsilon = (double)a.epsilon;
    switch (a.form) {
    case MT_ORTHO_PAIRWISE:
        find_inverses(token, epsilon);
        pairwise_gradient(token, epsilon);
        break;
    case MT_ORTHO_SPAN:
        span_gradient(token.gram, k, epsilon, rounding_of(a.gram), token.gradient, token.workspace);
        break;
    case MT_ORTHO_COSINE:
        find_inverses(token, epsilon);
        cosine_gradient(token);
        break;
    case MT_ORTHO_SIGNED:
        find_inverse_lengths(token, epsilon);
        signed_gradient(token);
        break;
    }
    for (int s = 0; s < k; s++) {
        for (int m = 0; m <= s; m++) {
            double both = scale * (token.gradient[s * k + m] + token.gradient[m * k + s]);
            token.gradient[s * k + m] = both;
            token.gradient[m * k + s] = both;
        }
    }
}

/* The coupling, where the gradient is. */
__device__ static void find_coupling(const struct mt_ortho_backward_args &a, const struct token &token,
                                     double scale, int64_t i)
{
    if (is_masked(a.mask, i)) {
        for (int pair = 0; pair < token.k * token.k; pair++) token.gradient[pair] = 0.0;
        return;
    }
    close_gates(token, a.weight, a.gate, i);
    if (a.printed_gradient) {
        find_printed(a, token, scale);
    } else {
        find_exact(a, token, scale);
    }
}

__global__ static void backward_kernel(struct mt_ortho_backward_args a, struct token_space space)
{
    cuda_follow();
    struct token token = token_of(space, (int)a.gram.dim[1]);
    double scale = (double)(cuda_present(a.factor) ? a.scale * (float)cuda_get1(a.factor, 0) : a.scale);
    // Whole tokens are read before any of them is written: coupling may be gram.
    for (int64_t i = cuda_thread(); i - threadIdx.x < a.gram.dim[0]; i += space.at_once) {
        read_gram(space, token, a.gram, i);
        if (i < a.gram.dim[0]) find_coupling(a, token, scale, i);
        write_coupling(space, token, a.coupling, i);
    }
}

// ------------------------------------------------------------------ launchers

/* Bytes of shared memory for a block's tokens of so many doubles; 0 where that is more than there is. */
static size_t shared_bytes(const struct mt_device *device, int64_t size)
{
    size_t bytes = BLOCK_THREADS * (size_t)size * sizeof(double);
    return bytes <= cuda_state_of(device)->shared_bytes ? bytes : 0;
}

/* Tokens whose matrices are in memory at once, in whole blocks. */
static int64_t wave_of(const struct mt_device *device, const struct mt_tensor *gram, int64_t size)
{
    int64_t most = (int64_t)(MOST_SCRATCH / sizeof(double)) / size;
    int64_t tokens = shared_bytes(device, size) > 0 || gram->dim[0] < most ? gram->dim[0] : most;
    return (tokens + BLOCK_THREADS - 1) / BLOCK_THREADS * BLOCK_THREADS;
}

static size_t scratch_bytes(const struct mt_device *device, const struct mt_tensor *gram, int64_t size)
{
    return shared_bytes(device, size) > 0 ? 0 : cuda_doubles(wave_of(device, gram, size) * size);
}

/* Whether matrices [N,k,k] are floats without gaps. */
static bool is_plain(const struct mt_tensor *t)
{
    return t->dtype == MT_F32 && mt_tensor_is_contiguous(t);
}

static struct token_space space_of(const struct mt_device *device, const struct mt_tensor *gram, int64_t size,
                                   int64_t workspace, bool plain)
{
    bool shared = shared_bytes(device, size) > 0;
    double *scratch = shared ? NULL : static_cast<double *>(device->scratch.data);
    return {scratch, size, wave_of(device, gram, size), workspace, shared && plain};
}

static unsigned blocks_of(const struct token_space &space)
{
    return (unsigned)(space.at_once / BLOCK_THREADS);
}

/* A kernel asks for more shared memory than every kernel has. */
static enum mt_status allow_shared(const struct mt_device *device, const void *kernel, size_t bytes)
{
    if (bytes <= 48 << 10) return MT_OK;
    return cuda_status(device,
                       cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                       "ortho's shared memory");
}

static bool wants_sums(const struct mt_ortho_forward_args *a)
{
    return mt_tensor_present(&a->sum) || mt_tensor_present(&a->rows);
}

size_t mt_cuda_ortho_forward_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_ortho_forward_args *a = static_cast<const struct mt_ortho_forward_args *>(args);
    int64_t size = forward_size(a->gram.dim[1], a->form);
    size_t parts = cuda_doubles(2 * wave_of(device, &a->gram, size) / BLOCK_THREADS);
    return scratch_bytes(device, &a->gram, size) + (wants_sums(a) ? parts : 0);
}

size_t mt_cuda_ortho_backward_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_ortho_backward_args *a = static_cast<const struct mt_ortho_backward_args *>(args);
    return scratch_bytes(device, &a->gram, backward_size(a->gram.dim[1], a->form));
}

enum mt_status mt_cuda_ortho_forward(struct mt_device *device, const void *args)
{
    const struct mt_ortho_forward_args *a = static_cast<const struct mt_ortho_forward_args *>(args);
    int64_t k = a->gram.dim[1];
    struct token_space space =
        space_of(device, &a->gram, forward_size(k, a->form), k * k, is_plain(&a->gram));
    size_t shared = shared_bytes(device, space.size);
    char *after = static_cast<char *>(device->scratch.data) + scratch_bytes(device, &a->gram, space.size);
    double *parts = wants_sums(a) ? reinterpret_cast<double *>(after) : NULL;
    unsigned blocks = blocks_of(space);
    enum mt_status status = allow_shared(device, reinterpret_cast<const void *>(forward_kernel), shared);
    if (status == MT_OK && blocks > 0)
        status = cuda_launch(device, "ortho forward", forward_kernel, dim3(blocks), BLOCK_THREADS, shared, *a,
                             space, parts);
    if (status != MT_OK || parts == NULL) return status;
    return cuda_launch(device, "ortho's sum", sum_kernel, dim3(1), CUDA_THREADS, 0, *a, parts,
                       (int64_t)blocks);
}

enum mt_status mt_cuda_ortho_backward(struct mt_device *device, const void *args)
{
    const struct mt_ortho_backward_args *a = static_cast<const struct mt_ortho_backward_args *>(args);
    int64_t k = a->gram.dim[1];
    if (a->gram.dim[0] == 0) return MT_OK;
    bool plain = is_plain(&a->gram) && is_plain(&a->coupling);
    struct token_space space = space_of(device, &a->gram, backward_size(k, a->form), 2 * k * k, plain);
    size_t shared = shared_bytes(device, space.size);
    enum mt_status status = allow_shared(device, reinterpret_cast<const void *>(backward_kernel), shared);
    if (status != MT_OK) return status;
    return cuda_launch(device, "ortho backward", backward_kernel, dim3(blocks_of(space)), BLOCK_THREADS,
                       shared, *a, space);
}
