/*
 * A linear map with its LoRA pair: y = x Wᵀ + b + s · drop(x) Aᵀ Bᵀ, and its backward. Every linear map of a
 * model goes through here: attention, router, dense and shared MLPs; the head's LoRA too.
 */
#ifndef MT_MODEL_LINEAR_H
#define MT_MODEL_LINEAR_H

#include "model/params.h"
#include "model/pass.h"
#include "model/planner.h"

/* True when it has a LoRA pair. */
bool mt_linear_has_lora(const struct mt_linear *linear);

/* True when a gradient of its own is wanted. */
bool mt_linear_learns(const struct mt_linear *linear);

/* True when backward reads x: to make the gradient of the weight, or of A. */
bool mt_linear_reads_input(const struct mt_linear *linear);

/* drop(x)·Aᵀ, kept from forward to backward: [T,r]; absent without LoRA. */
struct mt_tensor mt_linear_plan_low(struct mt_planner *planner, const struct mt_pass *pass,
                                    const struct mt_linear *linear);

/* y = (y +, with add) the map of x. `low` is written. */
enum mt_status mt_linear_forward(const struct mt_pass *pass, const struct mt_linear *linear,
                                 const struct mt_tensor *x, const struct mt_tensor *low, bool add,
                                 const struct mt_tensor *y);

/*
 * Adds the gradients of the parameters that learn. dx (NULL: not wanted) is overwritten, with add added to;
 * when not adding it may be x itself. x may be absent when mt_linear_reads_input is false.
 */
enum mt_status mt_linear_backward(const struct mt_pass *pass, const struct mt_linear *linear,
                                  const struct mt_tensor *dy, const struct mt_tensor *x,
                                  const struct mt_tensor *low, bool add, const struct mt_tensor *dx);

/* drop(x): x itself when nothing is dropped, else a draw of this step in pass->drop_work. */
enum mt_status mt_linear_drop(const struct mt_pass *pass, const struct mt_linear *linear,
                              const struct mt_tensor *x, struct mt_tensor *dropped);

/* dx += what dlow [T,r], the gradient of drop(x)·Aᵀ, says about x. */
enum mt_status mt_linear_low_to_input(const struct mt_pass *pass, const struct mt_linear *linear,
                                      const struct mt_tensor *dlow, const struct mt_tensor *dx);

#endif
