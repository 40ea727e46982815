/* The routed experts' linear maps: as linear.h, over rows sorted by expert. */
#ifndef MT_MODEL_EXPERT_LINEAR_H
#define MT_MODEL_EXPERT_LINEAR_H

#include "model/params.h"
#include "model/pass.h"
#include "model/planner.h"

bool mt_expert_linear_has_lora(const struct mt_expert_linear *linear);
bool mt_expert_linear_learns(const struct mt_expert_linear *linear); // then backward reads x

/* drop(x)·A_eᵀ, kept from forward to backward: [R,r]; absent without LoRA. */
struct mt_tensor mt_expert_linear_plan_low(struct mt_planner *planner, const struct mt_pass *pass,
                                           const struct mt_expert_linear *linear, int64_t rows);

/* y[r] = the map of x[r] by the row's expert; rows of no expert are untouched. */
enum mt_status mt_expert_linear_forward(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                        const struct mt_tensor *offsets, const struct mt_tensor *x,
                                        const struct mt_tensor *low, const struct mt_tensor *y);

/* As mt_linear_backward. */
enum mt_status mt_expert_linear_backward(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                         const struct mt_tensor *offsets, const struct mt_tensor *dy,
                                         const struct mt_tensor *x, const struct mt_tensor *low, bool add,
                                         const struct mt_tensor *dx);

#endif
