/*
 * One Mixture-of-Experts block trained on a small five-domain task, written directly on the op table:
 * the whole path of a MoE layer, forward and backward, in one place to read.
 */
#ifndef MT_EXAMPLES_MOE_BLOCK_H
#define MT_EXAMPLES_MOE_BLOCK_H

#include "metier/buffer.h"
#include "metier/ops.h"

// Sizes. Letters as in metier/ops.h.
enum {
    DOMAINS = 5,
    TOKENS = 512,          // N, per step
    WIDTH = 64,            // d
    EXPERTS = 8,           // n
    SLOTS = 2,             // k
    HIDDEN = 64,           // I, inside an expert
    ROWS = TOKENS * SLOTS, // R
};

/* Every number of the block, each tensor a view into one of three buffers allocated before step one. */
struct moe_block {
    struct mt_device *device; // borrowed

    // Parameters and their twins, each one flat vector, so that one AdamW call updates all.
    struct mt_buffer parameter_memory;
    struct mt_tensor parameters, gradients, first_moment, second_moment; // f32 [P]
    struct mt_tensor router, drouter;                                    // [n,d]
    struct mt_tensor gate[EXPERTS], dgate[EXPERTS];                      // [I,d]
    struct mt_tensor up[EXPERTS], dup[EXPERTS];                          // [I,d]
    struct mt_tensor down[EXPERTS], ddown[EXPERTS];                      // [d,I]

    // Activations and their gradients.
    struct mt_buffer activation_memory;
    struct mt_tensor x, target, y, difference;       // [N,d]
    struct mt_tensor logits, probs, dprobs, dlogits; // [N,n]
    struct mt_tensor weight, dweight;                // [N,k]
    struct mt_tensor gram, coupling;                 // [N,k,k]
    struct mt_tensor rows, out, dout;                // [R,d]
    struct mt_tensor gated, lifted, inner, dinner;   // [R,I]
    struct mt_tensor squares;                        // f64 [1]

    struct mt_buffer index_memory;
    struct mt_tensor expert, row_of_slot; // i32 [N,k]
    struct mt_tensor slot_of_row;         // i32 [R]
    struct mt_tensor offsets;             // i32 [n+1]
    int32_t domain[TOKENS];               // which domain each token comes from
};

/* Allocates everything and draws the initial parameters. The caller frees, also after a failure. */
enum mt_status moe_block_create(struct mt_device *device, uint64_t seed, struct moe_block *block);
void moe_block_free(struct moe_block *block);

/* What one step reports. */
struct moe_step {
    double loss;      // mean squared error
    double cosine;    // mean cos² between the outputs of a token's k experts: L_o, cosine form
    double violation; // MaxVio: (largest load - mean load) / mean load
};

/* Draws a batch of tokens and targets: step 0, 1, ... of the task `seed`. */
void moe_block_draw(struct moe_block *block, uint64_t seed, uint64_t step);

/* Forward, and unless learning_rate is 0, backward with alpha·L_aux + beta·L_o, and AdamW. */
enum mt_status moe_block_step(struct moe_block *block, int64_t step, float learning_rate, float alpha,
                              float beta, struct moe_step *report);

#endif
