/*
 * The objective: L = L_h + αL_aux + βL_o + γL_v and its rivals, as terms on routing records.
 *
 * It knows tensors and records, not models, and can serve any trainer. Methods, keys and terms may be asked
 * for by any thread; an objective belongs to the thread of its device. Two ways in:
 *
 * 1. mt_objective_evaluate: one layer, raw host arrays in, losses and gradients out (examples/objective.c).
 * 2. The stages a training step runs through, for all layers:
 *
 *        for each layer: mt_objective_forward(objective, layer, &record)    after combine_forward
 *        mt_objective_finish(objective, &step, &total)                      once; decides the weights
 *        for each layer, last first:
 *            mt_objective_coupling(objective, layer, &record, &coupling)    before combine_backward
 *            mt_objective_backward(objective, layer, &record, &gradient,    after it
 *                                  &drows, &options)
 *            mt_routing_backward(device, &router, &record, &gradient)
 *        mt_bias_update(...)                                                after the optimizer
 *
 * Every term is mean over unmasked tokens unless said otherwise, one value per layer, summed over layers.
 * total = Σ_layers Σ_terms weight · loss. Formulas and sources: docs/objective.md.
 */
#ifndef METIER_OBJECTIVE_H
#define METIER_OBJECTIVE_H

#include "metier/export.h"
#include "metier/routing.h"
#include "metier/selection.h"
#include "metier/terms.h"

MT_PUBLIC_BEGIN

enum mt_aux_form {
    MT_AUX_BATCH,    // Σ f_j P_j, f_j = n c_j / (N k): 1 at balance (DeepSeek)
    MT_AUX_SEQUENCE, // the same per sequence, mean over sequences (DeepSeek, seq_aux)
    MT_AUX_SWITCH,   // n Σ f_j P_j, f_j the share of tokens whose first choice is j (Switch, GShard, ST-MoE)
    MT_AUX_HF,       // n Σ f_j P_j, f_j = c_j / N, pooled over all layers: k at balance (transformers)
    MT_AUX_ERNIE,    // the same, one layer at a time
    MT_AUX_LITERAL,  // Σ f_j p_j, f_j = c_j / N, p_j = Σ_i s_ij: the paper's equation as printed
    MT_AUX_GLOBAL,   // as batch, f_j counted over the whole step (Qwen)
};

enum mt_ortho_grouping {
    MT_GROUPING_TOKEN,         // the k experts of one token: the paper
    MT_GROUPING_EXPERT_CONCAT, // k neighbours in expert order: what the authors released, for comparison
};

enum mt_variance_axis {
    MT_AXIS_EXPERT, // of an expert's score over tokens, mean over experts: the paper
    MT_AXIS_TOKEN,  // over the experts within a token (divisor n-1), mean over tokens: the authors' code
};

enum mt_brake {
    MT_BRAKE_NONE,
    MT_BRAKE_TARGET, // stop pushing once the running value reaches brake_target times its start
    MT_BRAKE_DECAY,  // follow the learning rate
};

enum mt_scale_rule {
    MT_SCALE_ONCE,       // β·L_aux(0)/L_o(0) from the first batch; L_o per layer where its form has a scale
    MT_SCALE_RUNNING,    // the same with running means of both, constants of the gradient
    MT_SCALE_ONCE_POW10, // the authors' code: 10^round(log10(β/L)), for L_o with L of the router's own rows
    MT_SCALE_NONE,       // β as it stands
};

enum mt_bias_rule {
    MT_BIAS_NONE,
    MT_BIAS_SIGN,         // b_j += rate · sign(mean load - load_j)
    MT_BIAS_PROPORTIONAL, // b_j += rate · (mean load - load_j) / mean load
    MT_BIAS_SMEBU,        // soft-clamped, with momentum (src/objective/selection/smebu.c)
    MT_BIAS_QUANTILE,     // b_j as it would have balanced the step (src/objective/selection/quantile.c)
};

/* A method, resolved: which terms, how, how strongly, and what it does to the router. */
struct mt_objective_config {
    const char *method;                // the row it started from; lives forever
    double coefficient[MT_TERM_COUNT]; // α, β, γ, ...; 0: the term is off
    enum mt_aux_form aux;
    enum mt_ortho_grouping grouping;
    enum mt_ortho_form form;
    bool ortho_sum;        // reduce=sum: over tokens, as printed. It destroys a model
    bool exclude_first;    // leave the first token of every sequence out of L_o
    double ortho_epsilon;  // 0: the form's own, pairwise 1e-8, span 1e-6, cosine 1e-12
    double gate;           // τ_gate: slots with weight <= gate are out of L_o
    bool printed_gradient; // gradient=paper
    enum mt_variance_axis axis;
    bool full_scores; // L_v on all scores instead of those after top-k
    enum mt_brake brake;
    double brake_target;
    enum mt_scale_rule scale;
    double running_decay; // of the running means
    int router_orth_groups;
    enum mt_bias_rule bias_rule;
    double bias_rate;
    double capacity_factor; // C = max(capacity_minimum, ceil(factor · k · unmasked tokens / n)); 0: no limit
    int64_t capacity_minimum;
    double drop_threshold; // slots from the second on stay with probability min(1, share / threshold); 0: all
    double jitter;         // of the router's input; 0: none
    bool allow_indirect;   // liveness: be content with a path through lower layers
    uint64_t seed;
    double erc_alpha;     // of L_erc: how strong others' responses may be, as a multiple of the own
    double erc_noise;     // of L_erc: of the router's rows, as a share of what keeps them apart; 0: none
    bool sp_squared;      // L_sp on squared cosines
    double bias_momentum; // of bias_rule=smebu
    double bias_clamp;    // its κ: how soon a violation counts as the largest
    bool dense_router;    // DenseMixer: the scores of experts that were not chosen have a gradient, too
    bool pool;            // EMO: in training a sequence chooses from a pool of experts of its own
};

/* A row of the methods table. */
struct mt_method {
    const char *name;
    const char *summary; // one line, for people
    const char *source;  // where it comes from
    struct mt_objective_config config;
};

/* Rows 0, 1, ...; NULL past the last. */
const struct mt_method *mt_method_listed(int index);

/* Copies a method's row. An unknown name is refused with the nearest known one. */
enum mt_status mt_objective_config_method(struct mt_context *ctx, const char *name,
                                          struct mt_objective_config *config);

/*
 * Sets one key, "beta" "1e-3" or "form" "cosine". An unknown key or a value that cannot be is refused, with
 * the nearest key or the list of values. Keys: mt_objective_key_listed.
 */
enum mt_status mt_objective_config_set(struct mt_context *ctx, struct mt_objective_config *config,
                                       const char *key, const char *value);

/* The keys, their values and meanings, for help texts: index 0, 1, ...; false past the last. */
struct mt_objective_key {
    const char *name;
    const char *values;  // "pairwise|span|cosine", "NUMBER >= 0", ...
    const char *meaning; // one line
};
bool mt_objective_key_listed(int index, struct mt_objective_key *key);

/* Why a key changes nothing beside the others, in words that end a sentence; NULL: it does change something.
 */
const char *mt_objective_key_idle(const struct mt_objective_config *config, const char *key);

/* Writes the current value of key number `index` as text mt_objective_config_set would accept. */
void mt_objective_key_value(const struct mt_objective_config *config, int index, char *text, size_t bytes);

/* Refuses combinations that contradict each other (gradient=paper with form=cosine, ...). */
enum mt_status mt_objective_config_check(struct mt_context *ctx, const struct mt_objective_config *config);

/* What a term's gradient arrives at first: decides what must be trainable. */
enum mt_term_path {
    MT_PATH_LOGITS,        // the router, and through its input everything below
    MT_PATH_OUTPUTS,       // the experts, and through their input everything below
    MT_PATH_ROUTER_WEIGHT, // the router's weight alone
    MT_PATH_INNER,         // the experts' gate and up projections, and through their input everything below
    MT_PATH_GATES,         // the router's weight and the experts' gate projections alone
};

/* A key that shapes a term, for lists of methods. */
struct mt_term_word {
    const char *key;
    const char *usual; // this value is what everybody expects: not shown; NULL: always shown
};

#define MT_TERM_WORDS 8 // with a word without a key at the end

/* What a term is, for whoever writes about it. All of it lives forever. */
struct mt_term_info {
    const char *name;    // "o"
    const char *formula; // a line for readers of a report, TeX between dollar signs
    const char *off;     // "L_o is off: beta is 0"
    enum mt_term_path path;
    struct mt_term_word shown[MT_TERM_WORDS];
    const char *const *keys; // that change nothing while it is off, up to NULL; NULL: none
};

/* A term that does not exist is off, and has no info and no key (NULL). */
int mt_term_count(void); // MT_TERM_COUNT, for those who cannot read this header
const struct mt_term_info *mt_term_info(enum mt_term term);
const char *mt_term_name(enum mt_term term); // never NULL
const char *mt_term_key(enum mt_term term);  // of its coefficient: "beta"

/* Whether a method has the term: its coefficient is above 0. */
bool mt_term_is_on(const struct mt_objective_config *config, enum mt_term term);
bool mt_objective_has_terms(const struct mt_objective_config *config); // any

/* What a method asks of a layer's record, beside scores and choices; a sum of them. */
enum mt_term_needs {
    MT_NEEDS_GRAM = 1,          // Gram matrices of the tokens' expert outputs
    MT_NEEDS_ROWS = 2,          // the expert outputs, their order, and drows in backward
    MT_NEEDS_ORTHO_MASK = 4,    // which tokens are not the first of their sequence
    MT_NEEDS_ROUTER_WEIGHT = 8, // the router's rows
    MT_NEEDS_SEQUENCES = 16,    // which tokens are of one sequence
    MT_NEEDS_NEIGHBOURS = 32, // records of the MoE layers before and after: logits, scores, choices, weights
    MT_NEEDS_INNER_GRAM = 64, // Gram matrices of the tokens' SwiGLU activations
    MT_NEEDS_PROXIES = 128,   // what all experts' gate projections make of the router's rows
    // In backward the outputs of all experts on all tokens, one expert at a time: n/k times their work
    MT_NEEDS_DENSE_BACKWARD = 256,
};
int mt_objective_needs(const struct mt_objective_config *config);

/* What the method asks of the router, for one layer and step; it points to the config. */
struct mt_router_policy mt_objective_policy(const struct mt_objective_config *config, bool training,
                                            uint64_t stream);

// ------------------------------------------------------------------ the stages of a step

struct mt_objective; // opaque

struct mt_objective_shape {
    int layers;     // MoE layers
    int64_t tokens; // N at the most
    int experts;    // n
    int slots;      // k
    int segments;   // B at the most
    int64_t width;  // d; 0 when no term looks at rows (expert-concat) or at the router's weight
    struct mt_router_config router;
};

/* Everything is allocated here, on the device and the host. The caller destroys. */
enum mt_status mt_objective_create(struct mt_device *device, const struct mt_objective_config *config,
                                   const struct mt_objective_shape *shape, struct mt_objective **objective);
void mt_objective_destroy(struct mt_objective *objective); // NULL is allowed

/*
 * Where a batch is spread over several processes, each seeing some of its tokens: adds numbers up over all of
 * them, in place, to the same bits for everybody. mt_objective_finish calls it once, in every process. Terms,
 * loads and scales are then those of all tokens together; what groups tokens (expert-concat, capacity) still
 * sees those at hand.
 */
struct mt_objective_reduction {
    enum mt_status (*sum)(void *self, double *numbers, size_t count);
    void *self; // borrowed; handed to the call
};

/* From the next step on; NULL: this process's tokens are all there are. Copied. */
void mt_objective_set_reduction(struct mt_objective *objective,
                                const struct mt_objective_reduction *reduction);

/* Statistics of one layer. May be repeated (recomputation): the last call counts. */
enum mt_status mt_objective_forward(struct mt_objective *objective, int layer,
                                    const struct mt_routing *record);

struct mt_objective_step {
    double progress;   // the learning rate now over its peak, for brake=decay; 1 without a schedule
    double loss_scale; // multiplies every gradient, not total (gradient accumulation: 1/steps); 0 is refused.
                       // With a reduction: of all processes' tokens together
};

/*
 * Values, scales, brake, and the weights of this step. The first call fixes the scales of scale=once; a batch
 * without a single unmasked token decides nothing.
 */
enum mt_status mt_objective_finish(struct mt_objective *objective, const struct mt_objective_step *step,
                                   double *total);

/*
 * coupling = the gradient of L_o for combine_backward, f32 [N,k,k]; zeros when L_o is off or grouped
 * otherwise. It may be the record's gram itself, unless mt_objective_backward is to measure.
 */
enum mt_status mt_objective_coupling(struct mt_objective *objective, int layer,
                                     const struct mt_routing *record, const struct mt_tensor *coupling);

/*
 * Adds the gradients of all other terms; `drows` (expert outputs, [N·k,d]) is added to by
 * grouping=expert-concat alone, which reads the record's rows again, and may be absent otherwise. With
 * measure, mt_objective_layer's gradient norms are filled: a few times the cost, for the log. What is added
 * is the same, bit for bit.
 */
struct mt_objective_backward_options {
    bool measure;
};
enum mt_status mt_objective_backward(struct mt_objective *objective, int layer,
                                     const struct mt_routing *record, struct mt_routing_gradient *gradient,
                                     const struct mt_tensor *drows,
                                     const struct mt_objective_backward_options *options);

/* What one layer's terms were, after mt_objective_finish. */
struct mt_layer_report {
    double loss[MT_TERM_COUNT];     // each term's own value, without its weight
    double weight[MT_TERM_COUNT];   // what it was multiplied with: coefficient, scale and brake
    double gradient[MT_TERM_COUNT]; // norm of weight · dloss in logits (o: in expert outputs; row terms: in
                                    // the router's weight); NaN unless measured
    double max_violation; // (largest load - mean) / mean of what was served; without drops at most n/k - 1
    double max_violation_code; // the authors' code: largest |load - mean| / mean
    double load_entropy;       // in nats; ln n when balanced
    const double *load;        // [n] slots served; valid until the next finish
    const double *measured;    // [mt_selection_measures], likewise
};
const struct mt_layer_report *mt_objective_layer(const struct mt_objective *objective, int layer);

/*
 * aux=global: a step of several micro-batches is run through forward twice. Between begin and end a finish
 * counts and does nothing else; after it, each finish has the counts of all of them, until the next begin.
 * Without, or where nothing was counted, a micro-batch is the step. Between processes without a reduction the
 * caller adds the counts up.
 */
bool mt_objective_counts_steps(const struct mt_objective_config *config); // whether a method asks for it
void mt_objective_count_begin(struct mt_objective *objective);
void mt_objective_count_end(struct mt_objective *objective);
double *mt_objective_counts(struct mt_objective *objective, size_t *count);

/* What must survive a restart (scales, running means, brake, then what selection rules keep), as plain
 * numbers to save and restore. */
double *mt_objective_state(struct mt_objective *objective, size_t *count);

/* Those among them that selection rules keep for a layer (mt_selection_memory), for mt_selection_move. */
double *mt_objective_rule_memory(struct mt_objective *objective, int layer);

/*
 * Loss-free balancing, on the host, after an optimizer step: bias[n] moves against the loads of that step.
 * A zero load everywhere changes nothing. The rules sign and proportional; of the others see
 * mt_selection_move.
 */
void mt_bias_update(enum mt_bias_rule rule, double rate, const double *load, int experts, float *bias);

// ------------------------------------------------------------------ liveness

/* What can learn, per MoE layer. */
struct mt_layer_paths {
    bool router;  // the router's weight or its adapter
    bool experts; // any routed expert
    bool below;   // anything whose change moves this layer's input
    bool inner;   // the gate or up projection of any routed expert
    bool gates;   // the gate projection of any routed expert
};

/*
 * Before the first step: every non-zero coefficient must reach something trainable in at least one layer.
 * Refuses with the term, the reason and the cure. k = 1 leaves L_o nothing to compare, and with normalised
 * weights leaves terms on the weights nothing to change. `prefix` stands before the keys that the cure names:
 * "objective." where they are keys of a training run's settings, "" elsewhere.
 */
enum mt_status mt_objective_check_live(struct mt_context *ctx, const struct mt_objective_config *config,
                                       const struct mt_router_config *router,
                                       const struct mt_layer_paths *paths, int layers, const char *prefix);

/* What is known to destroy a model, as a sentence's beginning, before anything runs; NULL: nothing. */
const char *mt_objective_danger(const struct mt_objective_config *config);

/*
 * Where the pilots saw damage begin: writes warnings, one per line, into `text` ("" when there is none), from
 * the first batch's report: Σ β·L_o over 10 % of the task's loss; gradient ratios to the task's on router
 * (L_v over 10 %) and experts (L_o over 50 %); reduce=sum; scale=once-pow10. task_* 0: unknown, not judged.
 */
struct mt_task_norms {
    double loss;             // L_h
    double router_gradient;  // norm in logits, mean over layers
    double experts_gradient; // norm in expert outputs, mean over layers
};
void mt_objective_warnings(const struct mt_objective *objective, const struct mt_task_norms *task, char *text,
                           size_t bytes);

// ------------------------------------------------------------------ one layer on raw arrays

struct mt_objective_arrays {
    int64_t tokens;              // N
    int experts;                 // n
    int64_t width;               // d; may be 0 when there are no expert outputs
    const float *logits;         // [N,n]
    const float *expert_outputs; // [N,k,d] in the slot order of `experts` below; needed by L_o
    const int32_t *mask;         // [N] or NULL
    const int32_t *sequence;     // [N] or NULL: any ids
    const float *router_weight;  // [n,d] or NULL
    const float *router_bias;    // [n] or NULL: added for selection only
};

/* Where results go; a NULL pointer is not wanted. All caller-owned. */
struct mt_objective_results {
    double total;
    double loss[MT_TERM_COUNT];
    double weight[MT_TERM_COUNT];
    struct mt_layer_report report; // its `load` is NULL; see `load`
    double *load;                  // [n]
    float *dlogits;                // [N,n]
    float *dexpert_outputs;        // [N,k,d]
    float *drouter_weight;         // [n,d]
    int32_t *expert;               // [N,k], -1 where dropped
    float *slot_weight;            // [N,k]
    char *warnings;                // what mt_objective_warnings says, the task's norms being unknown
    size_t warnings_bytes;
    double *measured; // [mt_selection_measures]
};

/* Bytes of scratch mt_objective_evaluate needs for these sizes. */
size_t mt_objective_evaluate_bytes(const struct mt_objective_config *config,
                                   const struct mt_router_config *router,
                                   const struct mt_objective_arrays *arrays);

/*
 * Routes, evaluates every term with a non-zero coefficient and its gradients. The device must compute on host
 * memory. With scratch of the size above nothing is allocated (the device's own scratch apart, which grows on
 * the first call); NULL scratch allocates and frees. Reentrant with one device per thread. It is a first
 * step: scale=once scales by these very arrays. Slots are dropped and pools drawn as in training; SparseMixer
 * chooses as in evaluation unless the method drops slots. report.gradient is not measured (NaN).
 */
enum mt_status mt_objective_evaluate(struct mt_device *device, const struct mt_objective_config *config,
                                     const struct mt_router_config *router,
                                     const struct mt_objective_arrays *arrays,
                                     struct mt_objective_results *results, void *scratch,
                                     size_t scratch_bytes);

MT_PUBLIC_END

#endif
