/*
 * The list of selection rules: what a method does to the choice of experts besides its loss terms. A new one
 * is a file in src/objective/selection, which defines its mt_selection_rule, and a line here. The router, the
 * model and the trainer ask the functions below and name no rule.
 */
#ifndef METIER_SELECTION_H
#define METIER_SELECTION_H

#include "metier/export.h"
#include "metier/routing.h"

MT_PUBLIC_BEGIN

/* RULE(name of its mt_selection_rule), in the order in which they act. */
#define MT_SELECTION_RULES(RULE)                                                                             \
    RULE(bias)     /* loss-free balancing */                                                                 \
    RULE(smebu)    /* the same, soft and with momentum */                                                    \
    RULE(quantile) /* the bias that would have balanced the step */                                          \
    RULE(pool)     /* experts that a sequence may choose from */                                             \
    RULE(drop)     /* capacity of an expert, and slots dropped at random */

/* What a rule knows of one layer and optimizer step when it moves the layer's bias. */
struct mt_selection_step {
    const double *load;     // [n] slots served
    const double *measured; // [mt_selection_measures], added up over its micro-batches
    int experts;            // n
    double *memory; // [mt_selection_memory] of this layer, zeros at first: what the rule keeps between steps
    float *bias;    // [n], moved
};

/* Where a rule measures a record. */
struct mt_selection_numbers {
    double *numbers;       // device memory, [mt_selection_measures]
    struct mt_tensor work; // [n,N] of the scores' type, to be overwritten
};

struct mt_selection_rule {
    /* Whether a method has it. */
    bool (*is_on)(const struct mt_objective_config *config);
    /* It selects by a bias of every expert (record.bias), which the model then keeps and saves. */
    bool has_bias;
    /* Refuses routers that it cannot work with; NULL: there are none. */
    enum mt_status (*check)(struct mt_context *ctx, const struct mt_router_config *router);
    /* In training, once scores are made: record.pool, the experts each sequence may choose from, k or more;
     * NULL: all. At most one rule of a method may. */
    enum mt_status (*confine)(struct mt_device *device, const struct mt_router_policy *policy,
                              const struct mt_routing *record);
    /* In training, once the choice is made: record.expert = record.chosen, less what it drops (-1); NULL: it
     * drops nothing. At most one rule of a method may. */
    enum mt_status (*serve)(struct mt_device *device, const struct mt_router_policy *policy,
                            const struct mt_routing *record);
    /* On the host, after an optimizer step: moves one layer's bias; NULL: it stays. */
    void (*after_step)(const struct mt_objective_config *config, const struct mt_selection_step *step);
    /* Numbers it keeps for a layer of so many experts, which survive a restart; NULL: none. */
    size_t (*memory)(int experts);
    /* Numbers it measures in each micro-batch and layer, sums over tokens; NULL: none. At most one rule of a
     * method may. */
    size_t (*measures)(int experts);
    enum mt_status (*measure)(struct mt_device *device, const struct mt_routing *record,
                              const struct mt_selection_numbers *numbers);
};

/* Whether a method has any rule, one with a bias, one that has a pool, one that drops slots. */
bool mt_selection_is_on(const struct mt_objective_config *config);
bool mt_selection_has_bias(const struct mt_objective_config *config);
bool mt_selection_pools(const struct mt_objective_config *config);
bool mt_selection_drops(const struct mt_objective_config *config);

/* Refuses a router that a rule of the method cannot work with. */
enum mt_status mt_selection_check(struct mt_context *ctx, const struct mt_objective_config *config,
                                  const struct mt_router_config *router);

/* record.pool, where the policy has one: what mt_routing_forward does before the choice. */
enum mt_status mt_selection_confine(struct mt_device *device, const struct mt_router_policy *policy,
                                    const struct mt_routing *record);

/* What mt_routing_forward ends with: record.expert from record.chosen. */
enum mt_status mt_selection_serve(struct mt_device *device, const struct mt_router_policy *policy,
                                  const struct mt_routing *record);

/* Numbers the method's rules keep for each layer; 0: they keep nothing. */
size_t mt_selection_memory(const struct mt_objective_config *config, int experts);

/* Numbers the method's rules measure in each micro-batch and layer; 0: none. */
size_t mt_selection_measures(const struct mt_objective_config *config, int experts);
enum mt_status mt_selection_measure(struct mt_device *device, const struct mt_objective_config *config,
                                    const struct mt_routing *record,
                                    const struct mt_selection_numbers *numbers);

/* What the trainer does to each layer's bias after an optimizer step. */
void mt_selection_move(const struct mt_objective_config *config, const struct mt_selection_step *step);

/* The same for rules that keep and measure nothing; others leave the bias as it is. */
void mt_selection_after_step(const struct mt_objective_config *config, const double *load, int experts,
                             float *bias);

MT_PUBLIC_END

#endif
