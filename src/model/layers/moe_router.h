/* The router of a mixture of experts, from its input to the routing record and back. Parts of moe.h. */
#ifndef MT_MODEL_MOE_ROUTER_H
#define MT_MODEL_MOE_ROUTER_H

#include "model/layers/moe.h"

/* True when the method adds jitter to the router's input in training. */
bool mt_moe_router_has_jitter(const struct mt_pass *pass);

/* True when a term reads the router's rows and they are not one tensor: a weight with a LoRA pair. */
bool mt_moe_router_needs_sum(const struct mt_pass *pass, const struct mt_layer_params *params);

/* Fills the record down to the choice; record.router_weight where a term reads it. */
enum mt_status mt_moe_router_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                     struct mt_moe *moe, const struct mt_tensor *x);

/* The objective's gradients: adds to dweight, dprobs, dlogits, drows and the router's own. */
enum mt_status mt_moe_terms_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                     struct mt_moe *moe);

/* True when the router reads the layer's x itself, as the shared experts do. */
bool mt_moe_router_reads_x(const struct mt_pass *pass);

/* dlogits, complete: what dweight and dprobs say is added. */
enum mt_status mt_moe_router_scores_backward(const struct mt_pass *pass, const struct mt_moe *moe);

/* From that to the router's parameters and to dx (NULL: not wanted), which is added to. */
enum mt_status mt_moe_router_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                      const struct mt_moe *moe, const struct mt_tensor *x,
                                      const struct mt_tensor *dx);

#endif
