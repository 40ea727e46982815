/*
 * topk, one warp per token: each slot is one walk of the lanes over the experts that come after the slot
 * before. Scores and group sums are rounded as ref rounds them, so that ties are decided alike. NaN comes
 * last.
 */
#include "ops/cuda/common/sums.cuh"

/* True when item a stands before item b in the order of selection. */
__device__ static bool comes_before(double a, int64_t a_index, double b, int64_t b_index)
{
    if (isnan(a) != isnan(b)) return isnan(b);
    if (!isnan(a) && a != b) return a > b;
    return a_index < b_index;
}

__device__ static double rounded(const struct mt_topk_args &a, double value)
{
    return a.probs.dtype == MT_F32 ? (double)(float)value : value;
}

__device__ static double score(const struct mt_topk_args &a, int64_t i, int64_t j)
{
    double bias = cuda_present(a.bias) ? cuda_get1(a.bias, j) : 0.0;
    return rounded(a, cuda_get2(a.probs, i, j) + bias);
}

__device__ static double group_score(const struct mt_topk_args &a, int64_t i, int64_t group)
{
    int64_t size = a.probs.dim[1] / a.groups;
    double best = nan("");
    double second = nan("");
    for (int64_t j = group * size; j < (group + 1) * size; j++) {
        double value = score(a, i, j);
        if (comes_before(value, 0, best, 0)) {
            second = best;
            best = value;
        } else if (comes_before(value, 0, second, 0)) {
            second = value;
        }
    }
    return a.group_rule == MT_GROUP_MAX ? best : rounded(a, best + second);
}

/* What the selection compares: the score, or the mask's value in a group that fell behind. */
__device__ static double masked_score(const struct mt_topk_args &a, int64_t i, int64_t j,
                                      const double *group_scores)
{
    double value = score(a, i, j);
    if (a.group_rule == MT_GROUP_NONE || isnan(value)) return value;
    int64_t group = j / (a.probs.dim[1] / a.groups);
    int before = 0;
    for (int64_t other = 0; other < a.groups; other++) {
        before += comes_before(group_scores[other], other, group_scores[group], group);
    }
    if (before < a.groups_kept) return value;
    return a.group_rule == MT_GROUP_MAX ? 0.0 : -INFINITY;
}

/* Dynamic shared memory: group scores, [warp][group]. */
__global__ static void topk_kernel(struct mt_topk_args a)
{
    extern __shared__ double shared_scores[];
    int64_t i = cuda_warp();
    if (i >= a.probs.dim[0]) return;
    double *group_scores = shared_scores + (int64_t)(threadIdx.x / 32) * a.groups;
    for (int64_t g = cuda_lane(); g < a.groups; g += 32) group_scores[g] = group_score(a, i, g);
    __syncwarp();
    double last = INFINITY; // the slot before; an imagined one stands before everything
    int last_index = -1;
    for (int64_t s = 0; s < a.expert.dim[1]; s++) {
        double best = 0.0;
        int best_index = -1;
        for (int j = cuda_lane(); j < a.probs.dim[1]; j += 32) {
            double value = masked_score(a, i, j, group_scores);
            if (!comes_before(last, last_index, value, j)) continue;
            if (best_index < 0 || comes_before(value, j, best, best_index)) {
                best = value;
                best_index = j;
            }
        }
        for (int offset = 16; offset > 0; offset /= 2) {
            double other = __shfl_xor_sync(CUDA_EVERY, best, offset);
            int other_index = __shfl_xor_sync(CUDA_EVERY, best_index, offset);
            if (other_index < 0) continue;
            if (best_index < 0 || comes_before(other, other_index, best, best_index)) {
                best = other;
                best_index = other_index;
            }
        }
        if (cuda_lane() == 0) cuda_int_row(a.expert, i)[s] = best_index;
        last = best;
        last_index = best_index;
    }
}

// ------------------------------------------------------------------ few experts, no groups

#define LANE_EXPERTS 8 // that a lane holds at the most

/*
 * A number that is larger the earlier its score comes in the order of selection: the score's bits, turned so
 * that they compare like the score. NaN is below every number, and 0 is left for experts already chosen.
 */
__device__ static inline unsigned order_key(float score)
{
    unsigned bits = __float_as_uint(score + 0.0f); // -0 is 0
    if (isnan(score)) return 1;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/* One warp per token, whose scores stay in registers. f32, at most 32 · PARTS experts. */
template <int PARTS>
__global__ static void __launch_bounds__(CUDA_THREADS) plain_kernel(struct mt_topk_args a)
{
    cuda_follow();
    int64_t i = cuda_warp();
    if (i >= a.probs.dim[0]) return;
    int experts = (int)a.probs.dim[1];
    int slots = (int)a.expert.dim[1];
    int lane = cuda_lane();
    const float *probs = static_cast<const float *>(a.probs.data) + i * a.probs.stride[0];
    int32_t *chosen = cuda_int_row(a.expert, i);
    unsigned key[PARTS];
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        int j = 32 * part + lane;
        float value = j < experts ? probs[j] : 0.0f;
        if (cuda_present(a.bias) && j < experts) value = (float)((double)value + cuda_get1(a.bias, j));
        key[part] = j < experts ? order_key(value) : 0;
    }
    for (int s = 0; s < slots; s++) {
        unsigned own = key[0];
#pragma unroll
        for (int part = 1; part < PARTS; part++) own = key[part] > own ? key[part] : own;
        unsigned best = __reduce_max_sync(CUDA_EVERY, own);
        unsigned expert = 32 * PARTS;
#pragma unroll
        for (int part = PARTS - 1; part >= 0; part--) {
            if (key[part] == best) expert = 32 * part + lane;
        }
        expert = __reduce_min_sync(CUDA_EVERY, expert); // of equals the lowest
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            if (expert == 32 * part + lane) key[part] = 0;
        }
        if (lane == 0) chosen[s] = (int32_t)expert;
    }
}

static enum mt_status run_plain(struct mt_device *device, const struct mt_topk_args *a)
{
    auto kernel = plain_kernel<LANE_EXPERTS>;
    if (a->probs.dim[1] <= 128) kernel = plain_kernel<4>;
    if (a->probs.dim[1] <= 64) kernel = plain_kernel<2>;
    return cuda_launch(device, "topk", kernel, dim3(cuda_warp_blocks(a->probs.dim[0])), CUDA_THREADS, 0, *a);
}

static bool is_plain(const struct mt_topk_args *a)
{
    return a->group_rule == MT_GROUP_NONE && a->probs.dtype == MT_F32 &&
           a->probs.dim[1] <= 32 * LANE_EXPERTS && a->expert.dim[1] <= a->probs.dim[1];
}

// ------------------------------------------------------------------ launcher

enum mt_status mt_cuda_topk(struct mt_device *device, const struct mt_topk_args *a)
{
    if (mt_tensor_count(&a->expert) == 0) return MT_OK;
    if (is_plain(a)) return run_plain(device, a);
    size_t shared = (size_t)a->groups * CUDA_WARPS * sizeof(double);
    topk_kernel<<<cuda_warp_blocks(a->probs.dim[0]), CUDA_THREADS, shared, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "topk");
}
