/*
 * ortho, one thread per token, in double, as ref has it. A token's matrices lie in shared memory, an odd
 * number of doubles from one thread's to the next, so that a warp finds the same element of its tokens in
 * different banks; where they are too large for that, in scratch, and tokens are taken in waves where scratch
 * for all of them would be too much.
 *   pairwise  Σ q² B / (B + ε)²                 ∂/∂q = 2 q B / (B + ε)²,  ∂/∂B = q² (ε - B) / (B + ε)³
 *   span      see ops/span.h
 *   cosine    Σ q² / ((A + ε)(B + ε)) / (k(k-1))
 *   signed    Σ q / √((A + ε)(B + ε)) / (k(k-1))
 */
#include <float.h>

#include "ops/cuda/common/common.cuh"
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
    double *workspace; // for span
};

/* Where tokens' matrices are: a token's lie together. */
struct token_space {
    double *scratch;   // NULL: in shared memory
    int64_t size;      // doubles of a token
    int64_t at_once;   // tokens there is room for
    int64_t workspace; // where in a token's memory it begins
};

/* Of forward: the Gram matrix and a workspace; odd, for the banks. */
static int64_t forward_size(int64_t k, enum mt_ortho_form form)
{
    return (k * k + (form == MT_ORTHO_SPAN ? MT_ORTHO_SPAN_VALUE_WORKSPACE(k) : 0)) | 1;
}

/* Of backward: the Gram matrix, the gradient and a workspace. */
static int64_t backward_size(int64_t k, enum mt_ortho_form form)
{
    return (2 * k * k + (form == MT_ORTHO_SPAN ? MT_ORTHO_SPAN_GRADIENT_WORKSPACE(k) : 0)) | 1;
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
__device__ static bool read_token(const struct token &token, const struct mt_tensor &gram,
                                  const struct mt_tensor &weight, const struct mt_tensor &mask, float gate,
                                  int64_t i)
{
    if (cuda_present(mask) && cuda_int1(mask, i) == 0) return false;
    for (int a = 0; a < token.k; a++) {
        for (int b = 0; b < token.k; b++) {
            bool closed = cuda_present(weight) && (cuda_get2(weight, i, a) <= (double)gate ||
                                                   cuda_get2(weight, i, b) <= (double)gate);
            token.gram[a * token.k + b] = closed ? 0.0 : cuda_get3(gram, i, a, b);
        }
    }
    return true;
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

__device__ static double pairwise_loss(const struct token &token, double epsilon)
{
    int k = token.k;
    double sum = 0.0;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            double q = token.gram[a * k + b];
            double square = token.gram[b * k + b];
            double over = inverse(square + epsilon);
            if (a != b) sum += q * q * square * over * over;
        }
    }
    return sum;
}

__device__ static void pairwise_gradient(const struct token &token, double epsilon)
{
    int k = token.k;
    for (int b = 0; b < k; b++) {
        double square = token.gram[b * k + b];
        double over = inverse(square + epsilon);
        double squares = 0.0;
        for (int a = 0; a < k; a++) {
            double q = token.gram[a * k + b];
            token.gradient[a * k + b] = 2.0 * q * square * over * over;
            if (a != b) squares += q * q;
        }
        token.gradient[b * k + b] = squares * (epsilon - square) * over * over * over;
    }
}

__device__ static double cosine_loss(const struct token &token, double epsilon)
{
    int k = token.k;
    double sum = 0.0;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            double q = token.gram[a * k + b];
            double over_a = inverse(token.gram[a * k + a] + epsilon);
            double over_b = inverse(token.gram[b * k + b] + epsilon);
            if (a != b) sum += q * q * over_a * over_b;
        }
    }
    return k > 1 ? sum / (double)(k * (k - 1)) : 0.0;
}

__device__ static void cosine_gradient(const struct token &token, double epsilon)
{
    int k = token.k;
    double mean = inverse((double)(k * (k - 1)));
    for (int a = 0; a < k; a++) {
        double over_a = inverse(token.gram[a * k + a] + epsilon);
        double pulls = 0.0; // Σ_b of the terms (a,b) and (b,a), times A + ε
        for (int b = 0; b < k; b++) {
            double q = token.gram[a * k + b];
            double other = token.gram[b * k + a];
            double over_b = inverse(token.gram[b * k + b] + epsilon);
            token.gradient[a * k + b] = mean * 2.0 * q * over_a * over_b;
            if (a != b) pulls += (q * q + other * other) * over_b;
        }
        token.gradient[a * k + a] = -mean * pulls * over_a * over_a;
    }
}

/* 1 / √(x + ε), or 0 for a row of zeros, which has no direction. */
__device__ static double inverse_length(double square, double epsilon)
{
    return square > 0.0 ? 1.0 / sqrt(square + epsilon) : 0.0;
}

__device__ static double signed_loss(const struct token &token, double epsilon)
{
    int k = token.k;
    double sum = 0.0;
    for (int a = 0; a < k; a++) {
        double over_a = inverse_length(token.gram[a * k + a], epsilon);
        for (int b = 0; b < k; b++) {
            double over_b = inverse_length(token.gram[b * k + b], epsilon);
            if (a != b) sum += token.gram[a * k + b] * over_a * over_b;
        }
    }
    return k > 1 ? sum / (double)(k * (k - 1)) : 0.0;
}

__device__ static void signed_gradient(const struct token &token, double epsilon)
{
    int k = token.k;
    double mean = inverse((double)(k * (k - 1)));
    for (int a = 0; a < k; a++) {
        double over_a = inverse_length(token.gram[a * k + a], epsilon);
        double pulls = 0.0; // Σ_b of the terms (a,b) and (b,a), times √(A + ε)
        for (int b = 0; b < k; b++) {
            double over_b = inverse_length(token.gram[b * k + b], epsilon);
            token.gradient[a * k + b] = mean * over_a * over_b;
            if (a != b) pulls += (token.gram[a * k + b] + token.gram[b * k + a]) * over_b;
        }
        token.gradient[a * k + a] = -0.5 * mean * pulls * over_a * over_a * over_a;
    }
}

// ------------------------------------------------------------------ kernels

__global__ static void forward_kernel(struct mt_ortho_forward_args a, struct token_space space)
{
    struct token token = token_of(space, (int)a.gram.dim[1]);
    if (cuda_thread() >= space.at_once) return;
    double epsilon = (double)a.epsilon;
    for (int64_t i = cuda_thread(); i < a.gram.dim[0]; i += space.at_once) {
        double loss = 0.0;
        if (read_token(token, a.gram, a.weight, a.mask, a.gate, i)) {
            switch (a.form) {
            case MT_ORTHO_PAIRWISE: loss = pairwise_loss(token, epsilon); break;
            case MT_ORTHO_SPAN:
                loss =
                    span_value(token.gram, token.k, token.k, epsilon, rounding_of(a.gram), token.workspace);
                break;
            case MT_ORTHO_COSINE: loss = cosine_loss(token, epsilon); break;
            case MT_ORTHO_SIGNED: loss = signed_loss(token, epsilon); break;
            }
        }
        cuda_put1(a.loss, i, loss);
    }
}

/* The paper's printed gradient is a coupling by itself: not symmetric, nothing on the diagonal. */
__device__ static void store_printed(const struct mt_ortho_backward_args &a, const struct token &token,
                                     int64_t i)
{
    int k = token.k;
    for (int s = 0; s < k; s++) {
        for (int m = 0; m < k; m++) {
            double over = inverse(token.gram[m * k + m] + (double)a.epsilon);
            cuda_put3(a.coupling, i, s, m, s == m ? 0.0 : (double)a.scale * token.gram[s * k + m] * over);
        }
    }
}

__device__ static void store_exact(const struct mt_ortho_backward_args &a, const struct token &token,
                                   int64_t i)
{
    int k = token.k;
    double epsilon = (double)a.epsilon;
    switch (a.form) {
    case MT_ORTHO_PAIRWISE: pairwise_gradient(token, epsilon); break;
    case MT_ORTHO_SPAN:
        span_gradient(token.gram, k, epsilon, rounding_of(a.gram), token.gradient, token.workspace);
        break;
    case MT_ORTHO_COSINE: cosine_gradient(token, epsilon); break;
    case MT_ORTHO_SIGNED: signed_gradient(token, epsilon); break;
    }
    for (int s = 0; s < k; s++) {
        for (int m = 0; m < k; m++) {
            double both = token.gradient[s * k + m] + token.gradient[m * k + s];
            cuda_put3(a.coupling, i, s, m, (double)a.scale * both);
        }
    }
}

__global__ static void backward_kernel(struct mt_ortho_backward_args a, struct token_space space)
{
    struct token token = token_of(space, (int)a.gram.dim[1]);
    if (cuda_thread() >= space.at_once) return;
    for (int64_t i = cuda_thread(); i < a.gram.dim[0]; i += space.at_once) {
        // The whole token is read before any of it is written: coupling may be gram.
        if (!read_token(token, a.gram, a.weight, a.mask, a.gate, i)) {
            for (int s = 0; s < token.k; s++) {
                for (int m = 0; m < token.k; m++) cuda_put3(a.coupling, i, s, m, 0.0);
            }
        } else if (a.printed_gradient) {
            store_printed(a, token, i);
        } else {
            store_exact(a, token, i);
        }
    }
}

// ------------------------------------------------------------------ launchers

/* Bytes of shared memory for a block's tokens of so many doubles; 0 where that is more than there is. */
static size_t shared_bytes(const struct mt_device *device, int64_t size)
{
    size_t bytes = BLOCK_THREADS * (size_t)size * sizeof(double);
    return bytes <= cuda_state_of(device)->shared_bytes ? bytes : 0;
}

/* Tokens whose matrices are in scratch at once, where they are there. */
static int64_t wave_of(const struct mt_tensor *gram, int64_t size)
{
    int64_t most = (int64_t)(MOST_SCRATCH / sizeof(double)) / size;
    return gram->dim[0] < most ? gram->dim[0] : most;
}

static size_t scratch_bytes(const struct mt_device *device, const struct mt_tensor *gram, int64_t size)
{
    return shared_bytes(device, size) > 0 ? 0 : (size_t)(wave_of(gram, size) * size) * sizeof(double);
}

static struct token_space space_of(const struct mt_device *device, const struct mt_tensor *gram, int64_t size,
                                   int64_t workspace)
{
    if (shared_bytes(device, size) > 0) return {NULL, size, gram->dim[0], workspace};
    return {static_cast<double *>(device->scratch.data), size, wave_of(gram, size), workspace};
}

static unsigned blocks_of(const struct token_space &space)
{
    return (unsigned)((space.at_once + BLOCK_THREADS - 1) / BLOCK_THREADS);
}

/* A kernel asks for more shared memory than every kernel has. */
static enum mt_status allow_shared(const struct mt_device *device, const void *kernel, size_t bytes)
{
    if (bytes <= 48 << 10) return MT_OK;
    return cuda_status(device,
                       cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                       "ortho's shared memory");
}

size_t mt_cuda_ortho_forward_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_ortho_forward_args *a = static_cast<const struct mt_ortho_forward_args *>(args);
    return scratch_bytes(device, &a->gram, forward_size(a->gram.dim[1], a->form));
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
    if (a->gram.dim[0] == 0) return MT_OK;
    struct token_space space = space_of(device, &a->gram, forward_size(k, a->form), k * k);
    size_t shared = shared_bytes(device, space.size);
    enum mt_status status = allow_shared(device, reinterpret_cast<const void *>(forward_kernel), shared);
    if (status != MT_OK) return status;
    forward_kernel<<<blocks_of(space), BLOCK_THREADS, shared, cuda_stream(device)>>>(*a, space);
    return cuda_launched(device, "ortho forward");
}

enum mt_status mt_cuda_ortho_backward(struct mt_device *device, const void *args)
{
    const struct mt_ortho_backward_args *a = static_cast<const struct mt_ortho_backward_args *>(args);
    int64_t k = a->gram.dim[1];
    if (a->gram.dim[0] == 0) return MT_OK;
    struct token_space space = space_of(device, &a->gram, backward_size(k, a->form), 2 * k * k);
    size_t shared = shared_bytes(device, space.size);
    enum mt_status status = allow_shared(device, reinterpret_cast<const void *>(backward_kernel), shared);
    if (status != MT_OK) return status;
    backward_kernel<<<blocks_of(space), BLOCK_THREADS, shared, cuda_stream(device)>>>(*a, space);
    return cuda_launched(device, "ortho backward");
}
