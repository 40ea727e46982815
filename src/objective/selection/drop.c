/*
 * Slots that no expert serves: those beyond an expert's capacity, and later choices of little weight, at
 * random (Switch, GShard, ST-MoE). One op does both, because what was dropped takes no capacity.
 */
#include <math.h>

#include "metier/objective.h"

static bool is_on(const struct mt_objective_config *config)
{
    return config->capacity_factor > 0.0 || config->drop_threshold > 0.0;
}

/* The most slots an expert serves; 0: no limit. */
static int64_t capacity_of(const struct mt_objective_config *config, const struct mt_routing *record)
{
    if (!(config->capacity_factor > 0.0)) return 0;
    int64_t tokens = record->unmasked > 0 ? record->unmasked : record->tokens;
    double slots = (double)record->slots * (double)tokens;
    double fair = ceil(config->capacity_factor * slots / record->experts);
    // More than every slot there is means no limit, however large the factor.
    int64_t capacity = fair < slots ? (int64_t)fair : (int64_t)slots;
    if (capacity < config->capacity_minimum) capacity = config->capacity_minimum;
    return capacity < 1 ? 1 : capacity;
}

static enum mt_status serve(struct mt_device *device, const struct mt_router_policy *policy,
                            const struct mt_routing *record)
{
    return mt_slot_drop(device, &(struct mt_slot_drop_args){
                                    .expert = record->chosen,
                                    .weight = record->weight,
                                    .mask = record->mask,
                                    .kept = record->expert,
                                    .experts = record->experts,
                                    .capacity = capacity_of(policy->method, record),
                                    .threshold = (float)policy->method->drop_threshold,
                                    .seed = policy->seed,
                                    .stream = policy->stream,
                                });
}

const struct mt_selection_rule mt_selection_drop = {.is_on = is_on, .serve = serve};
