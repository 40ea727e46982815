/*
 * Nothing is silently inert: before the first step, every term that is switched on must reach something that
 * learns, in at least one layer.
 */
#include "objective/parts.h"

/* What learns in any of the layers. */
struct reach {
    bool router, experts, below;
};

static struct reach reach_of(const struct mt_layer_paths *paths, int layers)
{
    struct reach reach = {0};
    for (int layer = 0; layer < layers; layer++) {
        reach.router = reach.router || paths[layer].router;
        reach.experts = reach.experts || paths[layer].experts;
        reach.below = reach.below || paths[layer].below;
    }
    return reach;
}

static bool is_direct(const struct mt_term_kind *kind, const struct reach *reach)
{
    return kind->path == MT_PATH_ROWS ? reach->experts : reach->router;
}

/* The parts that would have to learn for every term to act directly. */
static const char *missing_parts(const struct mt_objective_config *config, const struct reach *reach)
{
    bool router = false;
    bool experts = false;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const struct mt_term_kind *kind = mt_term_kind((enum mt_term)term);
        if (!(config->coefficient[term] > 0.0) || is_direct(kind, reach)) continue;
        experts = experts || kind->path == MT_PATH_ROWS;
        router = router || kind->path != MT_PATH_ROWS;
    }
    if (router && experts) return "router and routed_experts";
    return experts ? "routed_experts" : "router";
}

/* The key that sets a term's coefficient. */
static const char *key_of(enum mt_term term)
{
    static const char *const keys[MT_TERM_COUNT] = {[MT_TERM_AUX] = "alpha",
                                                    [MT_TERM_O] = "beta",
                                                    [MT_TERM_V] = "gamma",
                                                    [MT_TERM_Z] = "zeta",
                                                    [MT_TERM_ROUTER_ORTH] = "lambda_orth",
                                                    [MT_TERM_SIMBAL] = "lambda_simbal"};
    return keys[term];
}

static enum mt_status check_path(struct mt_context *ctx, const struct mt_objective_config *config,
                                 enum mt_term term, const struct reach *reach, const char *prefix)
{
    const struct mt_term_kind *kind = mt_term_kind(term);
    if (is_direct(kind, reach)) return MT_OK;
    const char *frozen = kind->path == MT_PATH_ROWS ? "experts are" : "router is";
    const char *parts = missing_parts(config, reach);
    if (kind->path == MT_PATH_ROUTER_ROWS) {
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "term %s has coefficient %g, but the router is frozen in every layer, and nothing else can "
            "change the term: put router among the targets, or set %s%s=0",
            kind->name, config->coefficient[term], prefix, key_of(term));
    }
    if (!reach->below) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "term %s has coefficient %g, but the %s frozen in every layer, and so is everything "
                       "below: put %s among the targets, or set method=none or %s%s=0",
                       kind->name, config->coefficient[term], frozen, parts, prefix, key_of(term));
    }
    if (config->allow_indirect) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE,
                   "term %s has coefficient %g, but the %s frozen in every layer: it would act through lower "
                   "layers alone. Put %s among the targets, set method=none, or accept that with "
                   "%sallow_indirect=true",
                   kind->name, config->coefficient[term], frozen, parts, prefix);
}

/* True when a term sees nothing but the weights of the chosen. */
static bool sees_weights_only(const struct mt_objective_config *config, enum mt_term term)
{
    if (term == MT_TERM_V) return !config->full_scores;
    return term == MT_TERM_AUX && config->aux == MT_AUX_LITERAL;
}

static enum mt_status check_single_slot(struct mt_context *ctx, const struct mt_objective_config *config,
                                        const struct mt_router_config *router, enum mt_term term,
                                        const char *prefix)
{
    if (term == MT_TERM_O) {
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "term o has coefficient %g, but each token has one expert: there is nothing to compare; "
            "set %sbeta=0",
            config->coefficient[term], prefix);
    }
    if (router->normalise && sees_weights_only(config, term)) {
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "term %s has coefficient %g, but each token has one expert, whose normalised weight is "
            "always the same: set %s%s or %s%s=0",
            mt_term_name(term), config->coefficient[term], prefix,
            term == MT_TERM_V ? "scores=full" : "aux=batch", prefix, key_of(term));
    }
    return MT_OK;
}

enum mt_status mt_objective_check_live(struct mt_context *ctx, const struct mt_objective_config *config,
                                       const struct mt_router_config *router,
                                       const struct mt_layer_paths *paths, int layers, const char *prefix)
{
    struct reach reach = reach_of(paths, layers);
    for (int index = 0; index < MT_TERM_COUNT; index++) {
        enum mt_term term = (enum mt_term)index;
        if (!(config->coefficient[term] > 0.0)) continue;
        enum mt_status status = MT_OK;
        if (router->slots == 1) status = check_single_slot(ctx, config, router, term, prefix);
        if (status != MT_OK) return status;
        status = check_path(ctx, config, term, &reach, prefix);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}
