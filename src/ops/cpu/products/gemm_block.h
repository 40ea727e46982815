/*
 * One thread's matrix product, the building block of gemm, grouped_gemm, attention and cross_entropy.
 * An element of C depends on its row of A, its column of B, k, alpha, beta and the types alone: neither m
 * nor n, nor where a caller cuts its rows and columns, changes a bit.
 */
#ifndef MT_OPS_CPU_GEMM_BLOCK_H
#define MT_OPS_CPU_GEMM_BLOCK_H

#include "ops/cpu/level.h"

/* Element (i,j) is data[i·row + j·column]; one of the two strides is 1. f32, bf16 or f16. */
struct gemm_operand {
    const void *data;
    enum mt_dtype dtype;
    int64_t row;
    int64_t column;
};

/* The operand that starts at an element. */
static inline struct gemm_operand gemm_operand_at(struct gemm_operand operand, int64_t row, int64_t column)
{
    int64_t offset = row * operand.row + column * operand.column;
    operand.data = (const char *)operand.data + offset * (int64_t)mt_dtype_bytes(operand.dtype);
    return operand;
}

/* Bytes of workspace one call needs, whatever its sizes. */
size_t MT_CPU(gemm_block_workspace)(void);

/*
 * C[m,n] = alpha · A[m,k] · B[k,n] + beta · C, C in f32 with rows `c_row` apart. beta 0 overwrites. The
 * workspace is 64-byte aligned and belongs to the calling thread for the call.
 */
void MT_CPU(gemm_block)(int64_t m, int64_t n, int64_t k, float alpha, struct gemm_operand a,
                        struct gemm_operand b, float beta, float *c, int64_t c_row, void *workspace);

/* A product that shares one operand, and a mask of it, with others. */
struct gemm_share {
    int64_t size;              // of its own: columns where A is shared, rows where B is
    struct gemm_operand other; // the operand of its own
    float *c;
    int64_t c_row;
};

/* Bits of a mask as dropout_bits makes them, `row` words from one row to the next; no words: all is kept. */
struct gemm_mask {
    const uint32_t *words;
    int64_t row;
};

#define GEMM_SHARED_ROWS 64 // of one product, at most, where B is shared
#define GEMM_SHARES      3  // products at most

/*
 * Each C = alpha · mask(A) · B + beta · C, as gemm_block with a masked copy of A would make it, which is
 * packed once for all. Steps are neighbours in A, and bits of its mask's rows. At least one product.
 */
void MT_CPU(gemm_block_same_a)(int64_t m, int64_t k, float alpha, struct gemm_operand a,
                               struct gemm_mask mask, const struct gemm_share *products, int count,
                               float beta, void *workspace);

/* Each C = alpha · A · mask(B) + beta · C. Columns are neighbours in B, and bits of its mask's rows. */
void MT_CPU(gemm_block_same_b)(int64_t n, int64_t k, float alpha, struct gemm_operand b,
                               struct gemm_mask mask, const struct gemm_share *products, int count,
                               float beta, void *workspace);

#if defined(MT_CPU_TILE_UNIT) // set for the levels amx and bf16, whose unit multiplies bf16
/*
 * True for the types the unit gains with. Two f32 operands would be six products of parts: in amx, with both
 * threads at work, 70 to 95 % of v4's speed; in bf16 more instructions than neon's. What does not gain is the
 * level below's as a whole, cut as suits that.
 */
static inline bool gemm_unit_gains(enum mt_dtype a, enum mt_dtype b)
{
    return (a == MT_BF16 && (b == MT_BF16 || b == MT_F32)) || (a == MT_F32 && b == MT_BF16);
}

/* The level below, for products that the unit does not gain from. */
size_t MT_CPU_BELOW(gemm_block_workspace)(void);
void MT_CPU_BELOW(gemm_block)(int64_t m, int64_t n, int64_t k, float alpha, struct gemm_operand a,
                              struct gemm_operand b, float beta, float *c, int64_t c_row, void *workspace);
#endif

#endif
