/* From the last layer to the loss: final norm, lm_head (with LoRA), cross-entropy. */
#ifndef MT_MODEL_HEAD_H
#define MT_MODEL_HEAD_H

#include "metier/space.h"
#include "model/layers/linear.h"
#include "model/layers/norm.h"
#include "model/planner.h"

struct mt_head {
    struct mt_norm_saved saved;
    struct mt_tensor normed;   // [T,d]
    struct mt_lora_trace lora; // its low is s · drop(normed)·Aᵀ while the loss is made
    struct mt_tensor dxa;      // [T,r]
    struct mt_tensor loss;     // [T]
    struct mt_tensor dloss;    // [T]
    struct mt_tensor loss_sum; // f64 [1]
    struct mt_tensor rows;     // i32 [T]: tokens whose logits are wanted; with a cache
    struct mt_tensor wanted;   // [T,d]: what was normalised, of those
    struct mt_space space;     // the layers' work memory, which is free while the loss is made
};

void mt_head_plan(struct mt_head *head, const struct mt_pass *pass, const struct mt_params *params,
                  bool backward, struct mt_regions *regions);

/* normed = final norm of x. */
enum mt_status mt_head_normalise(const struct mt_pass *pass, const struct mt_params *params,
                                 const struct mt_head *head, const struct mt_tensor *x);

/*
 * loss[t] of the labels. With `gradients` they come out of the same pass: the head's own are added, that of
 * normed goes to dnormed (NULL: not wanted); each token's loss counts loss_weight.
 */
enum mt_status mt_head_loss(const struct mt_pass *pass, const struct mt_params *params,
                            const struct mt_head *head, const struct mt_tensor *labels, float loss_weight,
                            bool gradients, const struct mt_tensor *dnormed);

/* dx, holding dnormed, becomes the gradient of what the final norm read. */
enum mt_status mt_head_backward(const struct mt_pass *pass, const struct mt_params *params,
                                const struct mt_head *head, const struct mt_tensor *x,
                                const struct mt_tensor *dx);

/* logits f32 [T,V] of what was normalised last. */
enum mt_status mt_head_logits(const struct mt_pass *pass, const struct mt_params *params,
                              const struct mt_head *head, const struct mt_tensor *logits);

/* logits f32 [count,V] of tokens head->rows[0] ... head->rows[count-1]. */
enum mt_status mt_head_logits_of(const struct mt_pass *pass, const struct mt_params *params,
                                 const struct mt_head *head, int64_t count, const struct mt_tensor *logits);

#endif
