/* The routed experts' linear maps: as linear.h, over rows sorted by expert. */
#ifndef MT_MODEL_EXPERT_LINEAR_H
#define MT_MODEL_EXPERT_LINEAR_H

#include "model/params.h"
#include "model/pass.h"
#include "model/planner.h"

bool mt_expert_linear_has_lora(const struct mt_expert_linear *linear);
bool mt_expert_linear_learns(const struct mt_expert_linear *linear); // then backward reads x

/* What LoRA pairs keep from forward to backward; absent without. */
struct mt_expert_kept {
    struct mt_tensor low;  // [R,r]: drop(x)·A_eᵀ
    struct mt_tensor mask; // i32 [R,(in+31)/32]: dropout's draws, where the device reads them
};

struct mt_expert_kept mt_expert_linear_plan(struct mt_planner *planner, const struct mt_pass *pass,
                                            const struct mt_expert_linear *linear, int64_t rows);

/* y[r] = the map of x[r] by the row's expert; rows of no expert are untouched. */
enum mt_status mt_expert_linear_forward(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                        const struct mt_tensor *offsets, const struct mt_tensor *x,
                                        const struct mt_expert_kept *kept, const struct mt_tensor *y);

/* As mt_linear_backward. */
enum mt_status mt_expert_linear_backward(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                         const struct mt_tensor *offsets, const struct mt_tensor *dy,
                                         const struct mt_tensor *x, const struct mt_expert_kept *kept,
                                         bool add, const struct mt_tensor *dx);

#endif
