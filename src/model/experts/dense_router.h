/*
 * DenseMixer: the router hears of every expert. Forward is as it was; in backward each expert is run on all
 * rows, and those that a token did not choose say how the loss would change with their scores. Experts and x
 * hear nothing of it. n/k times the experts' forward, in the memory of one expert's rows. All experts must be
 * here.
 */
#ifndef MT_MODEL_EXPERTS_DENSE_ROUTER_H
#define MT_MODEL_EXPERTS_DENSE_ROUTER_H

#include "model/experts/compute.h"

struct mt_dense_router {      // work memory
    struct mt_tensor outputs; // [T,d]: of one expert at a time
    struct mt_mlp mlp;        // likewise
};

void mt_dense_router_plan(struct mt_dense_router *dense, const struct mt_pass *pass,
                          const struct mt_mlp_params *params, struct mt_planner *work);

/* dprobs += what the experts that were not chosen say, of x [T,d] and the gradient dy [T,d] of their sum. */
enum mt_status mt_dense_router_backward(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                        const struct mt_dense_router *dense, const struct mt_routing *record,
                                        const struct mt_tensor *x, const struct mt_tensor *dy,
                                        const struct mt_tensor *dprobs);

#endif
