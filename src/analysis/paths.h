/*
 * The paths of tokens through the experts: which first choice of a layer follows which of the MoE layer
 * before it. With p_ab the share of tokens whose first choices are a, then b:
 *
 *     entropy      H = -Σ_ab p_ab ln p_ab, in nats; at independence the sum of both layers' own
 *     information  I = Σ_ab p_ab ln(p_ab / (p_a p_b)) = H_a + H_b - H: 0 where the layers choose
 * independently
 *
 * I of few tokens is too large, by about (pairs that occur) / 2N: what is compared has the same N.
 */
#ifndef MT_ANALYSIS_PATHS_H
#define MT_ANALYSIS_PATHS_H

#include <stdint.h>

#include "metier/context.h"

struct mt_path_figures {
    double entropy, information; // NaN without tokens
};

/* The experts [tokens,k] of the same tokens in two layers, first choices first, each below `experts`. */
enum mt_status mt_paths(struct mt_context *ctx, const uint16_t *before, const uint16_t *here, int64_t tokens,
                        int slots, int experts, struct mt_path_figures *figures);

#endif
