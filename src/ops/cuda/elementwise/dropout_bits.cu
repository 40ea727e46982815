/*
 * dropout_bits: a warp makes a stretch of words, several a lane. After the two upper parts one word in eight
 * has open elements: these are put into a list, so that the lower parts are drawn for them with full warps.
 * Words are numbered through the rows, as if rows had no end.
 */
#include "ops/cuda/elementwise/mask_draw.cuh"

#define LANE_WORDS 8                 // of a stretch, each lane's
#define STRETCH    (32 * LANE_WORDS) // words
#define ALL_PARTS  2                 // from this part up a part is drawn for every word

/* The words of a warp's stretch that have open elements. */
struct open_list {
    struct mask_word word[STRETCH];
    uint8_t place[STRETCH]; // in the stretch
};

/* FLAT: rows are without gaps and their words full. */
template <bool FLAT>
__device__ static inline void store_word(const struct mt_dropout_bits_args &a, int64_t index, uint32_t below)
{
    if (FLAT) {
        static_cast<uint32_t *>(a.bits.data)[index] = ~below;
        return;
    }
    int64_t row = index / a.bits.dim[1];
    int64_t w = index - row * a.bits.dim[1];
    int64_t left = a.columns - w * MT_MASK_BITS;
    uint32_t used = left >= MT_MASK_BITS ? 0xffffffffu : (1u << left) - 1u;
    cuda_int_row(a.bits, row)[w] = (int32_t)(~below & used);
}

/* The upper parts of a stretch; stores what they decide and returns how many words are on the list. */
template <bool FLAT>
__device__ static inline int upper_parts(const struct mt_dropout_bits_args &a, const struct mask_draw &draw,
                                         int64_t first, int64_t total, struct open_list *list)
{
    int listed = 0;
#pragma unroll 2
    for (int i = 0; i < LANE_WORDS; i++) {
        int place = i * 32 + cuda_lane();
        struct mask_word word = mask_word_begin(draw);
#pragma unroll
        for (int part = MT_DROPOUT_PARTS - 1; part >= ALL_PARTS; part--) {
            if (part >= draw.last_part) mask_word_part(draw, (uint64_t)(first + place), part, word);
        }
        bool inside = first + place < total;
        bool open = inside && word.open != 0 && draw.last_part < ALL_PARTS;
        if (inside && !open) store_word<FLAT>(a, first + place, word.below);
        unsigned all = __ballot_sync(CUDA_EVERY, open);
        int at = listed + __popc(all & ((1u << cuda_lane()) - 1u));
        if (open) {
            list->word[at] = word;
            list->place[at] = (uint8_t)place;
        }
        listed += __popc(all);
    }
    __syncwarp();
    return listed;
}

template <bool FLAT> __global__ static void bits_kernel(struct mt_dropout_bits_args a, struct mask_draw draw)
{
    __shared__ struct open_list lists[CUDA_WARPS];
    struct open_list *list = &lists[threadIdx.x / 32];
    int64_t total = a.bits.dim[0] * a.bits.dim[1];
    int64_t step = (int64_t)gridDim.x * CUDA_WARPS * STRETCH;
    for (int64_t first = cuda_warp() * STRETCH; first < total; first += step) {
        int listed = upper_parts<FLAT>(a, draw, first, total, list);
        for (int i = cuda_lane(); i < listed; i += 32) {
            struct mask_word word = list->word[i];
            int64_t index = first + list->place[i];
            for (int part = ALL_PARTS - 1; part >= draw.last_part && word.open != 0; part--)
                mask_word_part(draw, (uint64_t)index, part, word);
            store_word<FLAT>(a, index, word.below);
        }
        __syncwarp(); // the list is read before the next stretch writes it
    }
}

enum mt_status mt_cuda_dropout_bits(struct mt_device *device, const struct mt_dropout_bits_args *a)
{
    int64_t count = mt_tensor_count(&a->bits);
    if (count == 0) return MT_OK;
    struct mask_draw draw = mask_draw_of(a->amount, a->seed, a->stream);
    unsigned blocks = cuda_blocks((count + LANE_WORDS - 1) / LANE_WORDS);
    if (mt_tensor_is_contiguous(&a->bits) && a->columns % MT_MASK_BITS == 0) {
        bits_kernel<true><<<blocks, CUDA_THREADS, 0, cuda_stream(device)>>>(*a, draw);
    } else {
        bits_kernel<false><<<blocks, CUDA_THREADS, 0, cuda_stream(device)>>>(*a, draw);
    }
    return cuda_launched(device, "dropout_bits");
}
