/*
 * Nothing is silently inert: before the first step, every term that is switched on must reach something that
 * is trained, in at least one layer.
 */
#include "base/given.h"
#include "objective/objective.h"

/* What is trained in any of the layers. */
struct reach {
    bool router, experts, below, inner, gates;
};

static struct reach reach_of(const struct mt_layer_paths *paths, int layers)
{
    struct reach reach = {0};
    for (int layer = 0; layer < layers; layer++) {
        reach.router = reach.router || paths[layer].router;
        reach.experts = reach.experts || paths[layer].experts;
        reach.below = reach.below || paths[layer].below;
        reach.inner = reach.inner || paths[layer].inner;
        reach.gates = reach.gates || paths[layer].gates;
    }
    return reach;
}

static bool is_direct(const struct mt_term_kind *kind, const struct reach *reach)
{
    switch (kind->info.path) {
    case MT_PATH_OUTPUTS: return reach->experts;
    case MT_PATH_INNER: return reach->inner;
    case MT_PATH_GATES: return reach->gates || reach->router;
    case MT_PATH_LOGITS:
    case MT_PATH_ROUTER_WEIGHT: break;
    }
    return reach->router;
}

/* What a path begins with, and does not go on from when that is frozen. */
static const char *frozen_part(enum mt_term_path path)
{
    switch (path) {
    case MT_PATH_OUTPUTS: return "experts are";
    case MT_PATH_INNER: return "experts' gate and up projections are";
    case MT_PATH_GATES: return "router and the experts' gate projections are";
    case MT_PATH_LOGITS:
    case MT_PATH_ROUTER_WEIGHT: break;
    }
    return "router is";
}

static bool is_of_experts(enum mt_term_path path)
{
    return path == MT_PATH_OUTPUTS || path == MT_PATH_INNER;
}

/* The parts that would have to be trained for every term to act directly. */
static const char *missing_parts(const struct mt_objective_config *config, const struct reach *reach)
{
    bool router = false;
    bool experts = false;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const struct mt_term_kind *kind = mt_term_kind((enum mt_term)term);
        if (!mt_term_is_on(config, (enum mt_term)term) || is_direct(kind, reach)) continue;
        experts = experts || is_of_experts(kind->info.path);
        router = router || !is_of_experts(kind->info.path);
    }
    if (router && experts) return "router and routed_experts";
    return experts ? "routed_experts" : "router";
}

static enum mt_status check_path(struct mt_context *ctx, const struct mt_objective_config *config,
                                 enum mt_term term, const struct reach *reach, const char *prefix)
{
    const struct mt_term_kind *kind = mt_term_kind(term);
    if (is_direct(kind, reach)) return MT_OK;
    const char *frozen = frozen_part(kind->info.path);
    const char *parts = missing_parts(config, reach);
    if (kind->info.path == MT_PATH_ROUTER_WEIGHT || kind->info.path == MT_PATH_GATES) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "term %s has coefficient %g, but the %s frozen in every layer, and nothing else can "
                       "change the term: put router among the targets, or set %s%s=0",
                       kind->info.name, config->coefficient[term], frozen, prefix, mt_term_key(term));
    }
    if (!reach->below) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "term %s has coefficient %g, but the %s frozen in every layer, and so is everything "
                       "below: put %s among the targets, or set method=none or %s%s=0",
                       kind->info.name, config->coefficient[term], frozen, parts, prefix, mt_term_key(term));
    }
    if (config->allow_indirect) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE,
                   "term %s has coefficient %g, but the %s frozen in every layer: it would act through lower "
                   "layers alone. Put %s among the targets, set method=none, or accept that with "
                   "%sallow_indirect=true",
                   kind->info.name, config->coefficient[term], frozen, parts, prefix);
}

enum mt_status mt_fail_same_weight(struct mt_context *ctx, const struct mt_objective_config *config,
                                   const struct mt_router_config *router, enum mt_term term, const char *cure,
                                   const char *prefix)
{
    if (!router->normalise) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE,
                   "term %s has coefficient %g, but each token has one expert, whose normalised weight is "
                   "always the same: set %s%s or %s%s=0",
                   mt_term_name(term), config->coefficient[term], prefix, cure, prefix, mt_term_key(term));
}

enum mt_status mt_objective_check_live(struct mt_context *ctx, const struct mt_objective_config *config,
                                       const struct mt_router_config *router,
                                       const struct mt_layer_paths *paths, int layers, const char *prefix)
{
    enum mt_status given = mt_given(ctx, "mt_objective_check_live", "config", config);
    if (given == MT_OK) given = mt_given(ctx, "mt_objective_check_live", "router", router);
    if (given == MT_OK && layers > 0) given = mt_given(ctx, "mt_objective_check_live", "paths", paths);
    if (given == MT_OK) given = mt_given(ctx, "mt_objective_check_live", "prefix", prefix);
    if (given != MT_OK) return given;
    struct reach reach = reach_of(paths, layers);
    if (config->dense_router && router->kind == MT_ROUTER_SPARSEMIXER)
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "%sdense_router: SparseMixer has a gradient of its own; take another method", prefix);
    if (config->dense_router && !reach.router && !(config->allow_indirect && reach.below))
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "%sdense_router is for the router's gradient, but the router is frozen in every layer: "
            "put router among the targets, or set %sdense_router=false",
            prefix, prefix);
    for (int index = 0; index < MT_TERM_COUNT; index++) {
        enum mt_term term = (enum mt_term)index;
        const struct mt_term_kind *kind = mt_term_kind(term);
        if (!mt_term_is_on(config, term)) continue;
        enum mt_status status = MT_OK;
        if (router->slots == 1 && kind->check_single_slot != NULL)
            status = kind->check_single_slot(ctx, config, router, prefix);
        if (status != MT_OK) return status;
        if (layers < 2 && (mt_term_all_needs(config, term) & MT_NEEDS_NEIGHBOURS) != 0) {
            return mt_fail(ctx, MT_ERR_USAGE,
                           "term %s compares neighbouring MoE layers, but the model has only one: set %s%s=0",
                           kind->info.name, prefix, mt_term_key(term));
        }
        status = check_path(ctx, config, term, &reach, prefix);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}
