/*
 * What every expert makes of every token, for terms of the objective that ask for it (MT_NEEDS_ALL_OUTPUTS).
 * The experts are run one after the other on all rows: a slow path, n/k times the work of the routed one.
 * LoRA's dropout has a draw of its own here. All experts must be here.
 */
#ifndef MT_MODEL_EXPERTS_ALL_OUTPUTS_H
#define MT_MODEL_EXPERTS_ALL_OUTPUTS_H

#include "model/experts/compute.h"

struct mt_all_outputs {        // all of it work memory: backward computes the outputs again
    struct mt_tensor outputs;  // [n·T,d], one expert's rows after the other's
    struct mt_tensor doutputs; // [n·T,d]
    struct mt_tensor drows;    // [T,d]: one expert's part of dx
    struct mt_experts experts; // of one expert at a time
};

void mt_all_outputs_plan(struct mt_all_outputs *all, const struct mt_pass *pass,
                         const struct mt_layer_params *params, bool backward, struct mt_planner *work);

/* outputs, of x [T,d]. */
enum mt_status mt_all_outputs_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                      const struct mt_all_outputs *all, const struct mt_tensor *x);

/* From doutputs to the experts' parameters and to dx (NULL: not wanted), which is added to. */
enum mt_status mt_all_outputs_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                       const struct mt_all_outputs *all, const struct mt_tensor *x,
                                       const struct mt_tensor *dx);

#endif
