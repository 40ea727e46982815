/*
 * Routed experts that lie together: one tensor for all n experts of a layer, instead of one for each.
 *
 *     experts.gate_up_proj          [n, 2*I, d]   gate's rows before up's, or in turns (interleaved):
 *                                                 gate 0, up 0, gate 1, ...
 *                                   [n, d, 2*I]   the same transposed
 *     experts.down_proj             [n, d, I]     or, transposed, [n, I, d]
 *     experts.gate_up_proj_bias     [n, 2*I]
 *     experts.down_proj_bias        [n, d]
 *     experts.X_blocks, X_scales    mxfp4's codes (published.h) of X, never transposed
 *
 * struct mt_stored_experts says which of these an architecture has. A checkpoint is opened as if each matrix
 * were a tensor of its own, "experts.7.gate_proj.weight": views into the stack, which reading gathers. So
 * nobody else knows of stacks. stacks_write.h puts them together again.
 */
#ifndef MT_ARCH_STACKS_H
#define MT_ARCH_STACKS_H

#include "arch/model_tensors.h"
#include "formats/safetensors/checkpoint.h"

/* Where one expert's tensor lies. */
struct mt_stack_member {
    char stack[MT_MODEL_NAME_BYTES]; // name of the tensor of all experts
    size_t base_bytes;               // of that name, without "_bias", "_blocks", "_scales"
    int64_t expert;
    int part, parts;   // up is 1 of 2, gate 0 of 2, down 0 of 1
    bool codes;        // blocks or scales
    const char *after; // what follows the projection in the expert's name: ".weight_blocks"
};

/* Whether the name is that of an expert's tensor that may lie in a stack. */
bool mt_stack_member_of(const struct mt_hf_config *config, const char *name, struct mt_stack_member *member);

/*
 * Whose matrix, rows by columns, of `item` bytes each, in the stack: how it lies, and in which bytes of its
 * expert it begins. A vector has one column.
 */
struct mt_strided mt_stack_place(const struct mt_stored_experts *stored, const struct mt_stack_member *member,
                                 int64_t rows, int64_t columns, size_t item, size_t *first);

/* Opens the folder's checkpoint, stacks as their matrices. After a failure there is nothing to close. */
enum mt_status mt_stacks_open(struct mt_context *ctx, const char *directory,
                              const struct mt_hf_config *config, struct mt_checkpoint *checkpoint);

#endif
