/*
 * Element-wise work cut into pieces for the threads. Operands without gaps are one long row; otherwise
 * each row of the innermost dimension is cut by itself. The cut depends on shapes and strides alone.
 */
#ifndef MT_OPS_CPU_PIECES_H
#define MT_OPS_CPU_PIECES_H

#include "ops/cpu/level.h"

#define CPU_PIECE_ELEMENTS 8192 // 32 KiB of floats: several operands fit the second-level cache

struct cpu_pieces {
    int64_t width;   // elements of a row; of the whole tensor when flat
    int64_t per_row; // pieces of one row
    int64_t count;   // pieces in all
    bool flat;       // the operands are one long row
};

struct cpu_piece {
    int64_t row;   // in row-major order over the outer dimensions; 0 when flat
    int64_t start; // first element within the row
    int64_t count; // elements
};

/* Cuts a tensor of rank 1 to 3; flat: it and every other operand of its shape is contiguous. */
static inline struct cpu_pieces cpu_pieces_of(const struct mt_tensor *shape, bool flat)
{
    int64_t elements = mt_tensor_count(shape);
    struct cpu_pieces pieces = {.flat = flat};
    if (elements == 0) return pieces;
    pieces.width = flat ? elements : shape->dim[shape->rank - 1];
    pieces.per_row = (pieces.width + CPU_PIECE_ELEMENTS - 1) / CPU_PIECE_ELEMENTS;
    pieces.count = elements / pieces.width * pieces.per_row;
    return pieces;
}

static inline struct cpu_piece cpu_piece_at(const struct cpu_pieces *pieces, int64_t index)
{
    int64_t row = index / pieces->per_row;
    int64_t start = index % pieces->per_row * CPU_PIECE_ELEMENTS;
    return (struct cpu_piece){row, start, cpu_min(CPU_PIECE_ELEMENTS, pieces->width - start)};
}

/* Where a piece begins in an operand's memory, in elements. */
static inline int64_t cpu_piece_offset(const struct cpu_pieces *pieces, const struct mt_tensor *tensor,
                                       struct cpu_piece piece)
{
    if (pieces->flat || tensor->rank == 1) return piece.start;
    if (tensor->rank == 2) return piece.row * tensor->stride[0] + piece.start;
    int64_t outer = piece.row / tensor->dim[1];
    int64_t inner = piece.row % tensor->dim[1];
    return outer * tensor->stride[0] + inner * tensor->stride[1] + piece.start;
}

/* The same, as a pointer into an f32 operand. */
static inline float *cpu_piece_f32(const struct cpu_pieces *pieces, const struct mt_tensor *tensor,
                                   struct cpu_piece piece)
{
    return (float *)tensor->data + cpu_piece_offset(pieces, tensor, piece);
}

#endif
