/*
 * ortho in double, as ref has it: the forms that are sums over pairs of rows, one thread for each row of a
 * token. Span, in which a row depends on those before it, is ortho_span.cu's.
 *   pairwise  Σ q² B / (B + ε)²                    ∂/∂q = 2 q B / (B + ε)²,  ∂/∂B = q² (ε - B) / (B + ε)³
 *   cosine    Σ q² / ((A + ε)(B + ε)) / (k(k-1))
 *   signed    Σ q / √((A + ε)(B + ε)) / (k(k-1))
 */
#include "ops/cuda/common/sums.cuh"
#include "ops/cuda/objective/ortho.cuh"

#define MOST_ELEMENTS 4096 // of a block's Gram matrices
static_assert(MOST_ELEMENTS >= MT_MAX_SLOTS * MT_MAX_SLOTS, "a token has room");

/* A block's tokens. */
struct block_tokens {
    int64_t first;
    int k;
    int rows; // of all of them: at most one for each thread
};

/* Rows of a block's tokens, one after the other. */
struct block_rows {
    int first[CUDA_THREADS];     // number of the first row of the row's token
    bool open[CUDA_THREADS];     // neither masked nor behind a closed gate: those are rows of zeros
    double square[CUDA_THREADS]; // B
    double over[CUDA_THREADS];   // 1 / (B + ε); signed: its root
    double part[CUDA_THREADS];   // what the row adds to the loss, or the gradient in B
};

extern __shared__ double elements[]; // of the tokens' Gram matrices, [rows,k]

__device__ static struct block_tokens tokens_of(const struct mt_tensor &gram, int tokens)
{
    int64_t first = (int64_t)blockIdx.x * tokens;
    int64_t left = gram.dim[0] - first;
    int k = (int)gram.dim[1];
    return {first, k, k * (int)(left < tokens ? left : tokens)};
}

/* Where row r of the block begins in [N,k,k]. */
__device__ static int64_t row_place(const struct mt_tensor &t, const struct block_tokens &tokens, int r)
{
    int token = r / tokens.k;
    return (tokens.first + token) * t.stride[0] + (r - token * tokens.k) * t.stride[1];
}

/* 1 / (B + ε), or 0 where that does not exist; signed: its root, 0 for a row of zeros, which has no
 * direction.
 */
__device__ static double over_of(enum mt_ortho_form form, double square, double epsilon)
{
    if (form == MT_ORTHO_SIGNED) return square > 0.0 ? 1.0 / sqrt(square + epsilon) : 0.0;
    return square + epsilon == 0.0 ? 0.0 : 1.0 / (square + epsilon);
}

/* All threads must call it. */
template <class ARGS>
__device__ static void load_rows(const ARGS &a, const struct block_tokens &tokens, struct block_rows *rows)
{
    __shared__ int64_t place[CUDA_THREADS];
    int r = (int)threadIdx.x;
    int k = tokens.k;
    if (r < tokens.rows) {
        int64_t token = tokens.first + r / k;
        int s = r % k;
        bool masked = cuda_present(a.mask) && cuda_int1(a.mask, token) == 0;
        bool closed = cuda_present(a.weight) && cuda_get2(a.weight, token, s) <= (double)a.gate;
        rows->first[r] = r - s;
        rows->open[r] = !masked && !closed;
        place[r] = row_place(a.gram, tokens, r);
    }
    __syncthreads();
    for (int e = r; e < tokens.rows * k; e += CUDA_THREADS) {
        int row = e / k;
        int column = e - row * k;
        bool open = rows->open[row] && rows->open[rows->first[row] + column];
        elements[e] = open ? cuda_get(a.gram, place[row] + column) : 0.0;
    }
    __syncthreads();
    if (r < tokens.rows) {
        double square = elements[r * k + r - rows->first[r]];
        rows->square[r] = square;
        rows->over[r] = over_of(a.form, square, (double)a.epsilon);
    }
    __syncthreads();
}

/* What a pair adds to the row that `over` is not of. */
__device__ static inline double pair_term(enum mt_ortho_form form, double q, double over)
{
    switch (form) {
    case MT_ORTHO_COSINE: return q * q * over;
    case MT_ORTHO_SIGNED: return q * over;
    default: return q * q;
    }
}

/* Σ over the other rows a of the token of row r, b in it: of G_ab and, with `both`, of G_ba. */
__device__ static double pair_sum(const struct block_tokens &tokens, const struct block_rows &rows, int r,
                                  enum mt_ortho_form form, bool both)
{
    int first = rows.first[r];
    double sum = 0.0;
    for (int other = first; other < first + tokens.k; other++) {
        if (other == r) continue;
        double over = rows.over[other];
        sum += pair_term(form, elements[other * tokens.k + r - first], over);
        if (both) sum += pair_term(form, elements[r * tokens.k + other - first], over);
    }
    return sum;
}

/* 1 / (k(k-1)), where the form is a mean. */
__device__ static double mean_of(enum mt_ortho_form form, int k)
{
    if (form == MT_ORTHO_PAIRWISE) return 1.0;
    return k > 1 ? 1.0 / (double)(k * (k - 1)) : 0.0;
}

// ------------------------------------------------------------------ forward

/* A block's sum of losses and number of tokens are left in `parts`. */
__global__ static void __launch_bounds__(CUDA_THREADS)
    forward_kernel(struct mt_ortho_forward_args a, int tokens_of_block, double *parts)
{
    cuda_follow();
    __shared__ struct block_rows rows;
    struct block_tokens tokens = tokens_of(a.gram, tokens_of_block);
    int r = (int)threadIdx.x;
    load_rows(a, tokens, &rows);
    if (r < tokens.rows) {
        double over = rows.over[r];
        double factor = a.form == MT_ORTHO_PAIRWISE ? rows.square[r] * over * over : over;
        rows.part[r] = pair_sum(tokens, rows, r, a.form, false) * factor;
    }
    __syncthreads();
    double loss = 0.0;
    double count = 0.0;
    if (r < tokens.rows && rows.first[r] == r) {
        int64_t token = tokens.first + r / tokens.k;
        for (int s = 0; s < tokens.k; s++) loss += rows.part[r + s];
        loss *= mean_of(a.form, tokens.k);
        cuda_put1(a.loss, token, loss);
        if (a.loss.dtype == MT_F32) loss = (double)(float)loss;
        count = cuda_present(a.mask) && cuda_int1(a.mask, token) == 0 ? 0.0 : 1.0;
    }
    loss = block_sum(loss);
    count = block_sum(count);
    if (r != 0) return;
    parts[2 * blockIdx.x] = loss;
    parts[2 * blockIdx.x + 1] = count;
}

/* One block. */
__global__ static void __launch_bounds__(CUDA_THREADS)
    sum_kernel(struct mt_ortho_forward_args a, const double *parts, int64_t blocks)
{
    cuda_follow();
    double sum = 0.0;
    double rows = 0.0;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < blocks; i += CUDA_THREADS) {
        sum += parts[2 * i];
        rows += parts[2 * i + 1];
    }
    sum = block_sum(sum);
    rows = block_sum(rows);
    if (threadIdx.x != 0) return;
    if (cuda_present(a.sum)) cuda_put1(a.sum, 0, sum);
    if (cuda_present(a.rows)) cuda_put1(a.rows, 0, rows);
}

enum mt_status ortho_add_parts(const struct mt_device *device, const struct mt_ortho_forward_args *a,
                               const double *parts, int64_t blocks)
{
    if (!mt_tensor_present(&a->sum) && !mt_tensor_present(&a->rows)) return MT_OK;
    return cuda_launch(device, "ortho's sum", sum_kernel, dim3(1), CUDA_THREADS, 0, *a, parts, blocks);
}

// ------------------------------------------------------------------ backward

/* The gradient in B of row r. */
__device__ static double own_slope(const struct mt_ortho_backward_args &a, const struct block_tokens &tokens,
                                   const struct block_rows &rows, int r)
{
    double over = rows.over[r];
    double sum = pair_sum(tokens, rows, r, a.form, a.form != MT_ORTHO_PAIRWISE);
    switch (a.form) {
    case MT_ORTHO_COSINE: return -mean_of(a.form, tokens.k) * sum * over * over;
    case MT_ORTHO_SIGNED: return -0.5 * mean_of(a.form, tokens.k) * sum * over * over * over;
    default: return sum * ((double)a.epsilon - rows.square[r]) * over * over * over;
    }
}

/* The coupling of rows s and m of a token without the scale; q = G_sm, back = G_ms. */
__device__ static double coupling_of(const struct mt_ortho_backward_args &a, const struct block_rows &rows,
                                     int s, int m, double q, double back, double mean)
{
    double over_s = rows.over[s];
    double over_m = rows.over[m];
    // The paper's printed gradient is a coupling by itself: not symmetric, nothing on the diagonal.
    if (a.printed_gradient) return s == m ? 0.0 : q * over_m;
    if (s == m) return 2.0 * rows.part[s];
    switch (a.form) {
    case MT_ORTHO_COSINE: return 2.0 * mean * (q + back) * over_s * over_m;
    case MT_ORTHO_SIGNED: return 2.0 * mean * over_s * over_m;
    default: return 2.0 * (q * rows.square[m] * over_m * over_m + back * rows.square[s] * over_s * over_s);
    }
}

/* All of a block's tokens are read before any is written: coupling may be gram. */
__global__ static void __launch_bounds__(CUDA_THREADS)
    backward_kernel(struct mt_ortho_backward_args a, int tokens_of_block)
{
    cuda_follow();
    __shared__ struct block_rows rows;
    __shared__ int64_t place[CUDA_THREADS];
    struct block_tokens tokens = tokens_of(a.gram, tokens_of_block);
    int r = (int)threadIdx.x;
    int k = tokens.k;
    load_rows(a, tokens, &rows);
    if (r < tokens.rows) {
        rows.part[r] = own_slope(a, tokens, rows, r);
        place[r] = row_place(a.coupling, tokens, r);
    }
    __syncthreads();
    double scale = (double)(cuda_present(a.factor) ? a.scale * (float)cuda_get1(a.factor, 0) : a.scale);
    double mean = mean_of(a.form, k);
    for (int e = r; e < tokens.rows * k; e += CUDA_THREADS) {
        int row = e / k;
        int column = e - row * k;
        int other = rows.first[row] + column;
        double back = elements[other * k + row - rows.first[row]];
        double coupling = coupling_of(a, rows, row, other, elements[e], back, mean);
        cuda_put(a.coupling, place[row] + column, scale * coupling);
    }
}

// ------------------------------------------------------------------ launchers

/* Tokens of a block: a thread for each of their rows, and room for their elements. */
static int64_t block_size(const struct mt_tensor *gram)
{
    int64_t k = gram->dim[1];
    int64_t by_rows = CUDA_THREADS / k;
    int64_t by_elements = MOST_ELEMENTS / (k * k);
    return by_rows < by_elements ? by_rows : by_elements;
}

static int64_t blocks_of(const struct mt_tensor *gram)
{
    return (gram->dim[0] + block_size(gram) - 1) / block_size(gram);
}

static size_t shared_bytes(const struct mt_tensor *gram)
{
    return (size_t)(block_size(gram) * gram->dim[1] * gram->dim[1]) * sizeof(double);
}

static size_t forward_bytes(const struct mt_device *, const struct mt_ortho_forward_args *a)
{
    return ortho_parts_bytes(blocks_of(&a->gram));
}

static enum mt_status run_forward(struct mt_device *device, const struct mt_ortho_forward_args *a,
                                  void *scratch)
{
    double *parts = static_cast<double *>(scratch);
    int64_t blocks = blocks_of(&a->gram);
    enum mt_status status = MT_OK;
    if (blocks > 0)
        status = cuda_launch(device, "ortho forward", forward_kernel, dim3((unsigned)blocks), CUDA_THREADS,
                             shared_bytes(&a->gram), *a, (int)block_size(&a->gram), parts);
    return status == MT_OK ? ortho_add_parts(device, a, parts, blocks) : status;
}

static enum mt_status run_backward(struct mt_device *device, const struct mt_ortho_backward_args *a, void *)
{
    if (a->gram.dim[0] == 0) return MT_OK;
    return cuda_launch(device, "ortho backward", backward_kernel, dim3((unsigned)blocks_of(&a->gram)),
                       CUDA_THREADS, shared_bytes(&a->gram), *a, (int)block_size(&a->gram));
}

static const struct cuda_variant<struct mt_ortho_forward_args> pairs = {
    NULL, forward_bytes, run_forward
};
static const struct cuda_variant<struct mt_ortho_backward_args> pairs_backward = {
    NULL, NULL, run_backward
};

static const struct cuda_variant<struct mt_ortho_forward_args> *const forward[] = {
    &cuda_ortho_span, &pairs
};
static const struct cuda_variant<struct mt_ortho_backward_args> *const backward[] = {
    &cuda_ortho_span_backward, &pairs_backward
};

CUDA_OP(ortho_forward, forward)
CUDA_OP(ortho_backward, backward)
