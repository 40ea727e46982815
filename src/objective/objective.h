/*
 * What the files of the objective share: the struct itself, what a term is, and how memory is laid out. Of
 * the other folders only model.c includes this, to create an objective for its own type of rows, and tests.
 *
 * A term reduces a layer's [tokens, experts] arrays to a few numbers on the device (forward), turns the
 * numbers of all layers into values and into the gradient of the values in the numbers (value, products), and
 * brings that gradient back to the arrays (backward). All terms' numbers of all layers lie in one piece, so
 * that a step downloads once and uploads once, or, where all values are products and their weights are known
 * before, neither.
 */
#ifndef MT_OBJECTIVE_OBJECTIVE_H
#define MT_OBJECTIVE_OBJECTIVE_H

#include "metier/buffer.h"
#include "metier/objective.h"

struct mt_objective;

// ------------------------------------------------------------------ terms

/* One layer of a term on the device side. */
struct mt_term_call {
    struct mt_objective *objective;
    int layer;
    const struct mt_routing *record;
    double *loads;                 // device memory, [n]: slots served
    double *tokens;                // device memory, [1]: how many are not masked
    double *statistics;            // device memory, the term's own
    const double *gradient;        // device memory: of weight · loss · loss_scale in the statistics
    const double *host_gradient;   // the same, on the host
    const struct mt_tensor *drows; // backward: gradient of the expert outputs; NULL: not wanted
    // With MT_NEEDS_NEIGHBOURS, of the MoE layers before and after; NULL: there is none. Of these records
    // logits, scores, choices and weights last. A value may read its own layer and the one before; backward
    // then adds to its own layer's gradient what both its own value and that of the layer after say.
    const struct mt_routing *before;
    const struct mt_routing *after;                     // backward alone
    const double *gradient_after, *host_gradient_after; // as `gradient`, of the layer after
};

/* One layer of a term on the host side. */
struct mt_term_view {
    double tokens;            // not masked
    int segments;             // of the record
    const double *statistics; // what forward left
    double *gradient;         // output: of the loss in the statistics; zero before
    double loss;              // output; zero before
};

/* Some of a term's numbers: the count from `first` on. */
struct mt_term_range {
    size_t first, count;
};

/* Memory is handed out from two blocks, host and device; without memory behind them they only count. */
struct mt_carver {
    unsigned char *memory;
    size_t used;
};

struct mt_objective_memory {
    struct mt_carver host;
    struct mt_carver device;
};

/*
 * A term. A simple one fills the first part, with `value` or `products`; zloss.c is one. Everything in the
 * other parts may be left out.
 */
struct mt_term_kind {
    struct mt_term_info info;
    int needs;      // a sum of mt_term_needs
    size_t numbers; // per layer; 0: numbers_of says how many
    enum mt_status (*forward)(const struct mt_term_call *call);
    /* On the host; NULL: the products. views[layers] */
    void (*value)(const struct mt_objective *objective, struct mt_term_view *views);
    /* The value as products of a layer's numbers, which a device can make, too; returns how many, at most
     * MT_TERM_PRODUCTS. Places are counted from the layer's first number. NULL, or 0: only the host makes it.
     */
    int (*products)(const struct mt_objective *objective, struct mt_stat_product *products);
    /* Adds to the gradient of the record. */
    enum mt_status (*backward)(const struct mt_term_call *call, struct mt_routing_gradient *gradient);

    // What hangs on the config.
    bool scaled;                                               // its weight follows config.scale
    int (*needs_of)(const struct mt_objective_config *config); // beside `needs`
    size_t (*numbers_of)(const struct mt_objective *objective);
    /* Refuses where tokens have one expert each and the term can do nothing then. The prefix stands before
     * keys. */
    enum mt_status (*check_single_slot)(struct mt_context *ctx, const struct mt_objective_config *config,
                                        const struct mt_router_config *router, const char *prefix);

    // How its numbers are kept and added up.
    bool replicated; // every process makes the same numbers: none of them adds up
    /* Those that are sums over tokens, so that several processes' add up; NULL: all are. */
    struct mt_term_range (*additive)(const struct mt_objective *objective);
    /* On the host, after forward: sums made of the other numbers. */
    void (*summarise)(const struct mt_objective *objective, int segments, double *statistics);
    /* Memory of its own. */
    void (*place)(struct mt_objective *objective, struct mt_objective_memory *memory);
    /* Statistics of the served slots' weights, which the count of the loads makes on its way. */
    void (*join_loads)(const struct mt_objective *objective, double *statistics,
                       struct mt_slot_stats_forward_args *args);

    // Where it acts on the experts' outputs.
    /* For combine_backward. */
    enum mt_status (*coupling)(const struct mt_term_call *call, const struct mt_tensor *coupling);
    /* Norm of what the term sends to its path; NULL: measured in dlogits, by a backward to scores and logits
     * alone. */
    enum mt_status (*norm)(const struct mt_term_call *call, double *norm);
};

#define MT_TERM_PRODUCTS                            2

#define MT_TERM_DECLARATION(id, kind, key, meaning) extern const struct mt_term_kind mt_term_##kind;
MT_TERMS(MT_TERM_DECLARATION)
#undef MT_TERM_DECLARATION

/* The row of a term. */
const struct mt_term_kind *mt_term_kind(enum mt_term term);

/* The numbers of a layer, and all needs, of a term. */
size_t mt_term_numbers(const struct mt_objective *objective, enum mt_term term);
int mt_term_all_needs(const struct mt_objective_config *config, enum mt_term term);

/* True when a term that is switched on has this need. */
bool mt_terms_need(const struct mt_objective_config *config, enum mt_term_needs need);

/* Refuses terms that look beyond a single layer's scores, outputs and router: `who` does not have the rest.
 */
enum mt_status mt_terms_check_alone(struct mt_context *ctx, const struct mt_objective_config *config,
                                    const char *who);

/* For terms that see nothing but the weights of the chosen, where tokens have one expert each: a router that
 * normalises them is refused, with the `cure` and the term's key.
 */
enum mt_status mt_fail_same_weight(struct mt_context *ctx, const struct mt_objective_config *config,
                                   const struct mt_router_config *router, enum mt_term term, const char *cure,
                                   const char *prefix);

// ------------------------------------------------------------------ the struct

/* What survives a restart: plain numbers, nothing else may be added. */
struct mt_layer_state {
    double weight[MT_TERM_COUNT]; // of scaled terms, once decided
    double mean[MT_TERM_COUNT];   // running means of the values, for scale=running
    double brake_start;           // |L_v| on the first batch
    double brake_mean;            // its running mean
};

struct mt_objective_state {
    double decided;                 // 0 before the first batch
    double unscaled[MT_TERM_COUNT]; // 1 where the first batch gave no usable value to scale by
    double router_projection; // scale=once-pow10: of the first layer's router rows; 0 before it is known
};

struct mt_objective_layer {
    struct mt_layer_report report;
    double tokens; // not masked
    int segments;
    bool forwarded;
};

/* L_o's memory (ortho.c, ortho_groups.c). */
struct mt_ortho_work {
    struct mt_tensor loss;         // [N], of one layer at a time
    struct mt_tensor coupling;     // [N,k,k], of one layer at a time
    struct mt_tensor group_rows;   // i32 [layers,N,k]: expert-concat: the rows of each group
    struct mt_tensor group_gram;   // [N,k,k]
    struct mt_tensor group_weight; // [N,k], zeros
    struct mt_tensor group_space;  // [N·k + N,d]
    int64_t *groups;               // [layers]: how many groups there are
    int32_t *host_slots;           // [N·k]: copies of the record's index tensors
    int32_t *host_rows;            // [N·k]
    int32_t *host_mask;            // [N]
    int32_t *host_groups;          // [N·k]
};

/* Memory of measured norms (measure.c). */
struct mt_measure_work {
    struct mt_tensor dlogits; // [N,n]
    struct mt_tensor dprobs;  // [N,n]
    struct mt_tensor dweight; // [N,k]
    struct mt_tensor squares; // f64 [1]
    void *raw;                // host, as on the device
    double *gram, *coupling;  // host
    int64_t elements;         // of each of the three
};

/* Memory of scale=once-pow10 (scale_rows.c). */
struct mt_scale_work {
    void *row;     // host, [d] of any type
    double *rows;  // host, [n,d]
    double *basis; // host, [n,d]
};

struct mt_objective {
    struct mt_device *device; // borrowed
    struct mt_objective_config config;
    struct mt_objective_shape shape;
    enum mt_dtype dtype; // of scores and of what is made of them: f32; f64 for finite differences

    bool active[MT_TERM_COUNT];   // evaluated: by its own coefficient, or because scales need it
    size_t offset[MT_TERM_COUNT]; // of a term's numbers among a layer's
    size_t stride; // numbers per layer: loads [n], tokens [1], what selection rules measure, then the terms'
    double *statistics;                      // host, [layers,stride]
    double *gradient;                        // host, [layers,stride]
    double *device_statistics;               // device, [layers,stride]: its own, or the caller's
    double *own_statistics;                  // device, [layers,stride]
    double *device_gradient;                 // device, [layers,stride]
    struct mt_tensor device_weight;          // f64 [layers,terms]: of the reports, once a device needs them
    double *uploaded_weight;                 // host, the same
    double loss_scale;                       // of the last finish
    double own_share;                        // of the tokens: 1 without a reduction, 0 where all are masked
    struct mt_objective_reduction reduction; // sum NULL: none

    struct mt_objective_layer *layers; // [layers]
    struct mt_routing *records; // [layers], as forward was given them; NULL: no term looks at neighbours
    struct mt_term_view *views; // [layers]
    struct mt_objective_state *state;   // followed by
    struct mt_layer_state *layer_state; // [layers], followed by
    double *rule_memory;                // [layers, mt_selection_memory]

    double *counts; // [layers,n + 1]: slots and tokens of a whole step; NULL: no term asks for them
    bool counting;  // a finish adds to them

    struct mt_tensor rule_work;   // [n,N]: for selection rules that measure; absent if none does
    struct mt_tensor sp_loss;     // [N], of one layer at a time
    struct mt_tensor sp_coupling; // [N,k,k], for measuring
    struct mt_tensor cp_product;  // [N], of one layer at a time
    struct mt_ortho_work ortho;
    struct mt_measure_work measure;
    struct mt_scale_work scale;

    size_t host_bytes;              // of the block this struct begins
    struct mt_buffer device_memory; // owned, or a loan
};

// ------------------------------------------------------------------ config_check.c

/* True for keys of what is left out where a model is evaluated: jitter, drops, their seed. */
bool mt_objective_key_is_noise(const char *key);

/* True where a method on such a router draws random numbers. */
bool mt_objective_draws(const struct mt_objective_config *config, const struct mt_router_config *router);

// ------------------------------------------------------------------ memory.c

/* The next bytes of a block, aligned for any use; NULL while counting. */
void *mt_carve(struct mt_carver *carver, size_t bytes);

/* A tensor of the given shape in a block. */
struct mt_tensor mt_carve_tensor(struct mt_carver *carver, struct mt_tensor shape);

/* Refuses shapes nothing can be computed for; sizes that pass do not overflow. */
enum mt_status mt_objective_shape_check(struct mt_context *ctx, const struct mt_objective_config *config,
                                        const struct mt_objective_shape *shape);

/* Bytes of host and device memory for a checked configuration and shape. */
void mt_objective_bytes(const struct mt_objective_config *config, const struct mt_objective_shape *shape,
                        enum mt_dtype dtype, size_t *host_bytes, size_t *device_bytes);

/* Builds an objective in memory of the sizes above, which stays the caller's. */
enum mt_status mt_objective_place(struct mt_device *device, const struct mt_objective_config *config,
                                  const struct mt_objective_shape *shape, enum mt_dtype dtype, void *host,
                                  void *device_memory, struct mt_objective **objective);

/* mt_objective_create for f64, too. */
enum mt_status mt_objective_create_typed(struct mt_device *device, const struct mt_objective_config *config,
                                         const struct mt_objective_shape *shape, enum mt_dtype dtype,
                                         struct mt_objective **objective);

// ------------------------------------------------------------------ objective.c

/* mt_objective_backward, where drows absent means that nobody wants it. */
enum mt_status mt_objective_add_gradients(struct mt_objective *objective, int layer,
                                          const struct mt_routing *record,
                                          struct mt_routing_gradient *gradient,
                                          const struct mt_tensor *drows);

/* Whether something is in a gradient already, and is added to; now there is. */
static inline bool mt_gradient_adds(bool *empty)
{
    bool adds = !*empty;
    *empty = false;
    return adds;
}

/* From dprobs, if there are any, to dlogits (routing.c). */
enum mt_status mt_scores_backward(struct mt_device *device, const struct mt_router_config *router,
                                  const struct mt_routing *record, struct mt_routing_gradient *gradient);

/* aux=global: adds the slots and tokens of a layer's numbers to those of the step (terms/aux.c). */
void mt_aux_count(struct mt_objective *objective, int layer, const double *numbers);

/* Loads, tokens and values of all layers from statistics on the device, which are waited for. */
enum mt_status mt_objective_read(struct mt_objective *objective, const double *statistics);

/* Refuses a step that is none. */
enum mt_status mt_objective_check_step(const struct mt_objective *objective,
                                       const struct mt_objective_step *step);

/* A layer's numbers. They begin with the loads [n], the number of tokens [1] and what selection rules
 * measure. */
double *mt_objective_numbers(double *numbers, const struct mt_objective *objective, int layer);

/* A term's part of a layer. */
struct mt_term_call mt_objective_call(struct mt_objective *objective, int layer, enum mt_term term,
                                      const struct mt_routing *record);

// ------------------------------------------------------------------ values.c

/* One term's values in all layers, and their gradients, on the host. */
void mt_values_find(struct mt_objective *objective, enum mt_term term);

/*
 * mt_objective_finish that does not wait, where it need not: the total is left on the device, f32 [1], and
 * reports have weights alone. Elsewhere it waits, and reports are whole.
 */
enum mt_status mt_values_issue(struct mt_objective *objective, const struct mt_objective_step *step,
                               const struct mt_tensor *total, bool *waited);

// ------------------------------------------------------------------ scale.c, scale_rows.c, brake.c

/* True when L_aux must be evaluated whatever its coefficient is. */
bool mt_scale_needs_aux(const struct mt_objective_config *config);

/* True when the first layer's router weight is needed once. */
bool mt_scale_needs_router(const struct mt_objective_config *config);

void mt_scale_place(struct mt_objective *objective, struct mt_objective_memory *memory);

/* Looks at a record before the first batch is finished. */
enum mt_status mt_scale_observe(struct mt_objective *objective, int layer, const struct mt_routing *record);

/* True where the weights of the next step do not hang on its values. */
bool mt_scale_is_known(const struct mt_objective *objective);

/* From the values in the reports to the weights there; decides and updates what the state keeps. */
void mt_scale_weigh(struct mt_objective *objective, bool has_tokens, double progress);

/* What L_v is multiplied with in one layer. */
double mt_brake_factor(const struct mt_objective *objective, int layer, double progress);

/* Takes note of a batch's values; `first` sets the start. */
void mt_brake_update(struct mt_objective *objective, bool first);

/* decay · mean + (1 - decay) · value; a value that is not finite is passed over. */
double mt_running_mean(double mean, double value, double decay);

// ------------------------------------------------------------------ measure.c, ortho_groups.c, router_rows.c

void mt_measure_place(struct mt_objective *objective, struct mt_objective_memory *memory);

/* Fills report.gradient of one layer. */
enum mt_status mt_measure_layer(struct mt_objective *objective, int layer, const struct mt_routing *record);

/* sqrt(Σ_i tr(C_i G_i C_iᵀ)): the norm of C·X, for X with Gram matrix G. gram and coupling: [M,p,p]. */
enum mt_status mt_measure_coupled(struct mt_objective *objective, const struct mt_tensor *gram,
                                  const struct mt_tensor *coupling, double *norm);

/* expert-concat: finds the groups of a layer, and their Gram matrices. */
enum mt_status mt_ortho_groups_find(const struct mt_term_call *call);
enum mt_status mt_ortho_groups_gram(const struct mt_term_call *call, struct mt_tensor *gram);

/* drows += coupling · rows, group by group. */
enum mt_status mt_ortho_groups_backward(const struct mt_term_call *call, const struct mt_tensor *coupling);

/* The value of a term whose one number is its loss. */
void mt_term_loss_itself(const struct mt_objective *objective, struct mt_term_view *views);

enum mt_status mt_router_rows_forward(const struct mt_term_call *call, enum mt_router_orth_kind kind,
                                      int groups);
enum mt_status mt_router_rows_backward(const struct mt_term_call *call, enum mt_router_orth_kind kind,
                                       int groups, struct mt_routing_gradient *gradient);
enum mt_status mt_router_rows_norm(const struct mt_term_call *call, enum mt_router_orth_kind kind, int groups,
                                   double *norm);

#endif
