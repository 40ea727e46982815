/*
 * Writes a checkpoint whose experts lie in stacks (stacks.h). The caller declares and writes each expert's
 * tensors as if they were tensors of their own; members of a stack follow each other, expert by expert, as
 * mt_stacks_order says. Without stacks everything goes to the checkpoint writer as it is.
 *
 * In memory: one expert's part of a stack. Where tensors of several stacks take turns, as the codes and
 * scales of mxfp4 do, the first stack is written so, and the others are held until the experts are through.
 */
#ifndef MT_ARCH_STACKS_WRITE_H
#define MT_ARCH_STACKS_WRITE_H

#include "arch/published/stacks.h"
#include "formats/safetensors/checkpoint_writer.h"

struct mt_stack_piece;
struct mt_stack_plan;

struct mt_stacks_writer {
    struct mt_checkpoint_writer file; // what is really written
    struct mt_context *ctx;           // borrowed
    struct mt_arena arena;            // what follows
    struct mt_stack_piece *pieces;    // one for each declared tensor
    size_t piece_count, current;
    uint64_t done;                // bytes of the current piece
    struct mt_stack_plan *stacks; // of the whole checkpoint
    size_t stack_count;
};

/* Whether what is made of this checkpoint is written in stacks. NULL: it is made of nothing. */
bool mt_stacks_wanted(const struct mt_hf_config *config, const struct mt_checkpoint *made_of);

/*
 * The order in which tensors of these names are written: first all that lie in no stack, as they come.
 * order[count]. Where no stacks are wanted nothing moves.
 */
enum mt_status mt_stacks_order(struct mt_context *ctx, const struct mt_hf_config *config, bool wanted,
                               const char *const *names, size_t count, size_t *order);

/* As mt_checkpoint_writer_open; `specs` and their names are borrowed only here. */
enum mt_status mt_stacks_writer_open(struct mt_context *ctx, const char *directory,
                                     const struct mt_hf_config *config, bool wanted,
                                     const struct mt_safetensors_spec *specs, size_t spec_count,
                                     uint64_t max_shard_bytes, struct mt_stacks_writer *writer);

/* Appends a piece, whole elements, of the current tensor. After a failure every file written is gone. */
enum mt_status mt_stacks_writer_write(struct mt_stacks_writer *writer, const void *data, size_t bytes);

/* As of the checkpoint writer. */
enum mt_status mt_stacks_writer_finish(struct mt_stacks_writer *writer);
void mt_stacks_writer_abandon(struct mt_stacks_writer *writer);

#endif
