/*
 * A weight as layers see it: matrices of one shape, and how they are stored. A layer never looks at what is
 * stored; it asks mt_weight_operand for tensors that a product can read. They are the stored ones, f32, bf16
 * or f16, from which ops convert as they read; or, of quantised matrices, bf16 copies made here for the
 * products that follow.
 *
 * Copies lie in memory that all layers share (quantised.c of this folder): it holds what products of one x
 * take together (gate and up; q, k and v), and is written again for the next. Forward, recomputation and
 * backward each make them anew, so that all of them read the same numbers.
 *
 * Another way to store weights (in the file, in host memory) is one more branch in mt_weight_operand, and
 * memory that whoever fills a weight in gives it.
 */
#ifndef MT_MODEL_WEIGHT_H
#define MT_MODEL_WEIGHT_H

#include "metier/ops.h"

struct mt_weight {
    struct mt_tensor *stored;       // [count], borrowed: the matrices, or where their copies go
    struct mt_quantised *quantised; // [count], borrowed; NULL: the matrices are as stored
    int count;                      // 1, or the routed experts of a layer; 0: there is no such weight
    int64_t out, in;                // the shape of each, however it is stored
};

/* True when what products read lies in the memory that all layers share. */
static inline bool mt_weight_is_copied(const struct mt_weight *weight)
{
    return weight->quantised != NULL;
}

/*
 * What products read: `count` tensors [out,in]. They last until the products of the same x are done. With
 * `offsets`, those of grouped_gemm, matrices of experts without rows may hold anything; NULL: all are read.
 */
static inline enum mt_status mt_weight_operand(struct mt_device *device, const struct mt_weight *weight,
                                               const struct mt_tensor *offsets,
                                               const struct mt_tensor **operand)
{
    *operand = weight->stored;
    if (!mt_weight_is_copied(weight)) return MT_OK;
    return mt_dequantize(device, &(struct mt_dequantize_args){
                                     .stored = weight->quantised,
                                     .y = weight->stored,
                                     .experts = weight->count,
                                     .offsets = offsets != NULL ? *offsets : (struct mt_tensor){0},
                                 });
}

#endif
