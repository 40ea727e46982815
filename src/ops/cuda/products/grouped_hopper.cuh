/*
 * Between the two files of Hopper's products: what the kernel is told. A sum's terms stand in this order:
 * those whose product has a mask, which is the same for all of them, then those in stages of HOPPER_STEPS,
 * then those of up to HOPPER_SHORT steps. All rows of a tile go through all terms, a stage of operands at a
 * time.
 */
#ifndef MT_OPS_CUDA_GROUPED_HOPPER_CUH
#define MT_OPS_CUDA_GROUPED_HOPPER_CUH

#include "ops/cuda/common/wgmma.cuh"
#include "ops/cuda/products/grouped.cuh"

#define HOPPER_ROWS    128        // of a tile
#define HOPPER_STEPS   WGMMA_LINE // steps of a term that a stage holds
#define HOPPER_SHORT   32         // and those it uses of a term that has no more
#define HOPPER_BLOCK   64         // columns of a box of weights
#define HOPPER_MAPS    64         // of weights, among the kernel's arguments
#define HOPPER_EXPERTS 256        // of a launch
#define HOPPER_BESIDE  4          // matrices beside y

/* bf16, [rows,columns] of a call, aligned to 16 bytes at any multiple of 8 columns. */
struct hopper_matrix {
    __nv_bfloat16 *data;
    int64_t stride;
};

/* Where a tile is of two sums, those a term is added to. */
enum hopper_sums { SUM_BOTH, SUM_FIRST, SUM_SECOND };

/* y += x · op(W_e), by expert. */
struct hopper_term {
    CUtensorMap x; // boxes [HOPPER_ROWS,HOPPER_STEPS]
    int map;       // the first of its weights' maps, boxes [HOPPER_BLOCK,WGMMA_LINE]
    bool apart;    // each expert has a map; else one is of all
    int stages;    // of a tile
    int steps;     // from one stage to the next: HOPPER_STEPS or HOPPER_SHORT
    int number;    // among the sum's terms
    enum hopper_sums sums;
};

struct hopper_call {
    struct hopper_term term[MT_MAX_TERMS];
    CUtensorMap weight[HOPPER_MAPS];
    int terms;
    int masked_stages;      // of a tile
    int masked_steps;       // of each of these: HOPPER_STEPS or HOPPER_SHORT
    int long_stages;        // of HOPPER_STEPS, without a mask
    int thin_stages;        // of HOPPER_SHORT
    const int32_t *mask;    // bits [R,ceil(N/32)] or NULL
    int64_t mask_stride;    // words between rows
    const int32_t *offsets; // NULL: one expert has all rows
    int64_t rows;
    int experts;
    int columns;                                // N
    int across;                                 // tiles side by side, each of up to four blocks
    struct tile_output y;                       // alpha is common to all terms
    unsigned *counter;                          // of tiles that were taken; 0 before
    bool follows;                               // what prepares weights was launched just before
    struct hopper_matrix beside[HOPPER_BESIDE]; // what a kernel that does more reads and writes as well
};

/* One launch; boxes of weights are by lines of columns with n_inner, else by lines of steps. */
typedef enum mt_status (*hopper_launch)(struct mt_device *device, bool n_inner,
                                        const struct hopper_call *call);
enum mt_status cuda_hopper_launch(struct mt_device *device, bool n_inner, const struct hopper_call *call);

/*
 * Makes of a call for one sum, whose first term is one of two sums' first, one for both: term `second` is the
 * other's, and the thin ones, by their numbers, are each for one of them.
 */
void cuda_hopper_pair(struct hopper_call *call, int second, int thin_first, int thin_second);

/* Different masks of a sum; one with more than one is as many launches. */
int cuda_hopper_masks(const struct mt_grouped_sum_args *a);

/* A term is added by weights read as they are, without a mask; the others' are prepared. */
bool cuda_hopper_is_long(const struct mt_product_term *term, int experts);

/* Whether LATER's kernels can write t, and the matrix it is to them. */
bool cuda_hopper_is_matrix(const struct mt_tensor *t);
struct hopper_matrix cuda_hopper_matrix(const struct mt_tensor *t);

/*
 * A sum that fits, with one mask at the most, by `launch`, with HOPPER_BESIDE matrices beside y, or NULL.
 * Scratch is cuda_hopper_sum's.
 */
enum mt_status cuda_hopper_sum_by(struct mt_device *device, const struct mt_grouped_sum_args *a,
                                  const struct hopper_matrix *beside, hopper_launch launch, void *scratch);

#endif
