/* What the files of rewrite.c share: the plan of the tensors, and those that are read from codes. */
#ifndef MT_MODEL_REWRITE_PARTS_H
#define MT_MODEL_REWRITE_PARTS_H

#include "arch/published/stacks_write.h"
#include "model/files/rewrite.h"

struct mt_rewriter {
    struct mt_context *ctx;
    const struct mt_hf_config *config;
    const struct mt_checkpoint *checkpoint;
    const struct mt_rewrite_source *source;
    const struct mt_rewrite_options *options;
    struct mt_arena arena;             // what the plan points to
    struct mt_rewrite_tensor *tensors; // in the order of the file
    size_t count;
    bool stacked;                      // the layer's experts are written together (arch/published/stacks.h)
    struct mt_safetensors_spec *specs; // one or, of a matrix in codes, some for each tensor
    size_t spec_count;
    int64_t elements;
    float *values;
    float *room;   // in the types of the files, at most four bytes per element
    int64_t piece; // elements of both
    struct mt_rewrite_result result;
};

/* Lists the tensors and makes room for pieces of them. The arena is the caller's to free, also after a
 * failure.
 */
enum mt_status mt_rewrite_plan(struct mt_rewriter *rewriter);

/* True when a tensor is read from codes, whoever made them. */
static inline bool mt_rewrite_reads_codes(const struct mt_rewrite_tensor *tensor)
{
    return tensor->published != NULL || tensor->quantised;
}

/* The codes a tensor is read from, and the memory they need. */
struct mt_rewrite_codes {
    struct mt_published_matrix file; // of the folder
    struct mt_quantised matrix;      // filled in, whoever made them
    void *memory;                    // of those made here
    size_t bytes;
};

/* Memory for a matrix of this shape, and the map of nested scales; the caller releases it. */
enum mt_status mt_rewrite_codes_room(struct mt_context *ctx, struct mt_quantised *matrix, void **memory,
                                     size_t *bytes);

/* Opens the folder's codes, or makes them of the floats. The caller closes, also after a failure. */
enum mt_status mt_rewrite_codes_open(struct mt_context *ctx, const struct mt_rewrite_tensor *tensor,
                                     struct mt_rewrite_codes *codes);
void mt_rewrite_codes_close(struct mt_context *ctx, struct mt_rewrite_codes *codes);

/* Writes a tensor in codes: as they are, or, where it changes, made anew; adds what that costs to the result.
 */
enum mt_status mt_rewrite_write_codes(struct mt_rewriter *rewriter, const struct mt_rewrite_tensor *tensor,
                                      struct mt_stacks_writer *writer);

/* Elements first … first+count-1 as they are, of any address. */
void mt_rewrite_copy(const struct mt_rewrite_tensor *tensor, int64_t first, int64_t count, void *room);

/* What the new numbers of a changed tensor are. */
enum mt_status mt_rewrite_check_finite(struct mt_context *ctx, const struct mt_rewrite_tensor *tensor,
                                       const float *values, int64_t count);

#endif
