/*
 * The objective on the MoE layers of somebody else's model, on arrays where they lie: in host memory, or on a
 * GPU, on the caller's stream (mt_device_create_on). It is what other languages call: methods and keys are
 * texts, arrays are addresses, and no array is allocated, copied or kept. A step:
 *
 *     for each layer: mt_layers_route(layers, layer, &arrays)       before the experts
 *                     mt_layers_forward(layers, layer, &arrays)     after them: combines, and looks
 *     mt_layers_finish(layers, ...)                                 once; decides the weights
 *     for each layer: mt_layers_coupling(layers, layer, &arrays)
 *                     mt_layers_backward(layers, layer, &arrays)
 *
 * Where all layers are at hand at once, mt_layers_step does all of it that comes after routing, and
 * mt_layers_chain the rest once the gradient of the total is known.
 *
 * On a GPU everything is issued and not waited for, unless finish must know this step's values: then it reads
 * back the layers' statistics, some kilobytes. Arguments that are NULL and enum values that do not exist are
 * MT_ERR_USAGE; the sentence is in the device's context, unless the device or the layers themselves are NULL.
 * Letters as in metier/routing.h. Belongs to the thread of its device, as everything on it.
 */
#ifndef METIER_LAYERS_H
#define METIER_LAYERS_H

#include "metier/export.h"
#include "metier/objective.h"

MT_PUBLIC_BEGIN

struct mt_layers; // opaque

/* How much of the routing the caller has done. */
enum mt_layers_given {
    MT_GIVEN_LOGITS,  // nothing: experts are chosen and weighed here
    MT_GIVEN_CHOICE,  // `chosen`: weighed here
    MT_GIVEN_WEIGHTS, // `chosen` and `weight`: what terms say of weights is handed back, in dweight_terms
};

struct mt_layers_options {
    const char *method;          // a row of the methods table
    const char *const *settings; // "beta", "1e-3", "form", "cosine", ..., NULL; NULL: the row as it is
    struct mt_objective_shape shape;
    enum mt_layers_given given;
};

/*
 * One layer's arrays, contiguous, in the device's memory; NULL: not there. The caller owns them all, and
 * keeps what forward left until backward. Only outputs, y and their gradients are of the type `dtype`.
 */
struct mt_layer_arrays {
    int64_t tokens;      // N
    int64_t segments;    // B; 1 without `segment`
    int64_t unmasked;    // tokens that are no padding, for capacities; 0 counts as all
    enum mt_dtype dtype; // MT_F32 or MT_BF16

    // Given.
    const float *logits;        // [N,n]
    const int32_t *mask;        // [N]: 0 marks padding
    const int32_t *ortho_mask;  // [N]: mask, less the first token of every sequence
    const int32_t *segment;     // [N], in [0, B)
    const float *router_weight; // [n,d]
    const float *bias;          // [n]: selects, never weighs
    const void *outputs;        // [N·k,d]: the experts' outputs, unweighted, in any order
    const int32_t *row_of_slot; // [N,k]: where the output of a token's slot is; -1: it was not served

    // Made by route, or given.
    float *probs;         // [N,n]
    int32_t *greedy;      // [N,k]
    int32_t *chosen;      // [N,k]
    int32_t *expert;      // [N,k]: chosen, -1 where the method drops
    float *weight;        // [N,k]
    int32_t *offsets;     // [n+1], with the two below: where the method needs rows in expert order
    int32_t *sorted_row;  // [N,k]
    int32_t *slot_of_row; // [N·k]

    // Made by forward.
    void *y;     // [N,d]: Σ_s weight · output; NULL: gram alone
    float *gram; // [N,k,k]

    // Backward.
    const void *dy;        // [N,d]: the gradient of y; NULL, as dweight: there is no y
    float *coupling;       // [N,k,k]: made by mt_layers_coupling, read by backward; may be scaled in between
    void *doutputs;        // [N·k,d]: of y and, through the coupling, of L_o; rows of no slot are untouched
    void *doutputs_terms;  // [N·k,d]: what terms add besides; where the method needs rows in expert order
    float *dweight;        // [N,k]: of y
    float *dweight_terms;  // [N,k]: of the terms; scratch unless MT_GIVEN_WEIGHTS
    float *dprobs;         // [N,n]: scratch
    float *dlogits;        // [N,n]: of the terms
    float *drouter_weight; // [n,d]: of the terms

    // Made by forward.
    double *numbers; // [mt_layers_numbers]: the statistics of all layers of a step; NULL: of the last one
                     // alone, where nobody sees them
};

/* Everything else is allocated here. The device is borrowed and outlives it; the caller destroys. */
enum mt_status mt_layers_create(struct mt_device *device, const struct mt_layers_options *options,
                                struct mt_layers **layers);
void mt_layers_destroy(struct mt_layers *layers); // NULL is allowed

/* The method with its settings, and the objective that finishes, reports and keeps the state of a run. Both
 * live as long as the layers. */
const struct mt_objective_config *mt_layers_config(const struct mt_layers *layers);
struct mt_objective *mt_layers_objective(struct mt_layers *layers);

/* From logits to the record; `stream` differs for every layer and step, where the method draws. */
enum mt_status mt_layers_route(struct mt_layers *layers, uint64_t stream,
                               const struct mt_layer_arrays *arrays);

/*
 * y, gram, and the layer's statistics. With `look` false only the first two, which are as before: where a
 * layer is computed again for its gradients.
 */
enum mt_status mt_layers_forward(struct mt_layers *layers, int layer, const struct mt_layer_arrays *arrays,
                                 bool look);

/* How many numbers all layers' statistics are. */
size_t mt_layers_numbers(const struct mt_layers *layers);

/*
 * mt_objective_finish, whose total is left on the device, f32 [1]. It waits for the device where it must: for
 * the first step, and where the step's own values decide its weights (scale=running, brake=target) or a term
 * is made on the host. Else `waited` is false, and reports have this step's weights alone until
 * mt_layers_read.
 */
enum mt_status mt_layers_finish(struct mt_layers *layers, const struct mt_objective_step *step, float *total,
                                bool *waited);

/* Waits, and fills the reports, but for weights, from a step's `numbers`. */
enum mt_status mt_layers_read(struct mt_layers *layers, const double *numbers);

/* After finish: coupling = the gradient of L_o through the Gram matrices; zeros where there is none. */
enum mt_status mt_layers_coupling(struct mt_layers *layers, int layer, const struct mt_layer_arrays *arrays);

/* All gradients. Overwrites them; those whose address is NULL are not wanted. */
enum mt_status mt_layers_backward(struct mt_layers *layers, int layer, const struct mt_layer_arrays *arrays);

/*
 * After route: forward of every layer, finish, and of every layer what mt_layers_coupling and
 * mt_layers_backward make, as far as its arrays have room for it. arrays[l] are those of layer l.
 */
enum mt_status mt_layers_step(struct mt_layers *layers, const struct mt_layer_arrays *const *arrays,
                              const struct mt_objective_step *step, float *total, bool *waited);

/* Gradients of something else in a layer's inputs, on the device; NULL: not wanted. */
struct mt_layer_chain {
    const float *factor;   // [1]: the gradient of the total
    float *dlogits;        // [N,n]
    void *doutputs;        // [N·k,d]; rows of no slot are untouched
    float *drouter_weight; // [n,d]
};

/*
 * The chain rule: factor times the gradients that mt_layers_step left in a layer's arrays, which stay as they
 * are. Those of the outputs are made here, from the coupling, unless they are in doutputs_terms.
 */
enum mt_status mt_layers_chain(struct mt_layers *layers, const struct mt_layer_arrays *arrays,
                               const struct mt_layer_chain *chain);

MT_PUBLIC_END

#endif
