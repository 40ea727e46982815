/*
 * What the routers of a model did with some data: a collector takes the routing record of every MoE layer
 * after every forward, and gives the figures of docs/analysis.md at the end. One collector per task or
 * domain; the overall figures are those of the merged collectors.
 *
 *     mt_collector_create(device, &options, &collector)
 *     for each batch, for each MoE layer (a model's observer is the place, mt_model_observe):
 *         mt_collector_add(collector, moe_layer, &record, &input)
 *     mt_collector_finish(collector, &geometry, &figures)
 *     mt_figures_write_json(&figures, path)
 *
 * Sums (loads, scores) are over all tokens that are not masked, in double. Vectors (what enters a layer, what
 * its experts answer) are kept of a sample of tokens: those with the smallest random number, which depends on
 * the seed, the stream and the token's number alone. All layers keep the same tokens, a larger sample holds
 * the smaller one, and merged collectors keep what one collector of everything would have kept.
 *
 * No figure depends on the order tokens come in where each has a name (mt_collector_name): not on what an
 * engine computes together, nor on how many ranks share the work (mt_collector_gather).
 */
#ifndef MT_ANALYSIS_COLLECTOR_H
#define MT_ANALYSIS_COLLECTOR_H

#include "analysis/coupling.h"
#include "analysis/expert_scores.h"
#include "analysis/geometry.h"
#include "analysis/paths.h"
#include "comm/comm.h"
#include "metier/routing.h"

struct mt_collector_options {
    int layers;            // MoE layers
    const int64_t *number; // [layers]: their numbers in the model, for the figures; copied. NULL: 0, 1, ...
    int experts;           // n
    int slots;             // k
    int64_t width;         // d; 0: vectors are not looked at
    int64_t inputs;        // tokens whose input [d] is kept, per layer; 0: none
    int64_t outputs;       // tokens whose expert outputs [k,d] are kept, per layer; 0: none
    bool grams;            // of outputs only the Gram matrices [k,k] are kept, which the records carry
    int64_t batch_tokens;  // of a batch of MaxVio_batch: it ends with the call that reaches so many; 0: every
                           // call is one
    int64_t groups;        // of tokens that have names: batches of MaxVio_batch are made of whole groups, in
                           // their order; 0: of tokens as they come
    int64_t choices; // tokens whose experts are kept in order, the first so many: for drift and paths; 0:
                     // none
    unsigned scores; // of experts, a set of MT_SCORE_BIT: those that the sums above do not give anyway
    uint64_t seed;
    uint64_t stream; // another one for every collector that is to be merged
};

struct mt_collector; // opaque

/* The caller destroys; the device, where the records lie and the distances are computed, outlives it. */
enum mt_status mt_collector_create(struct mt_device *device, const struct mt_collector_options *options,
                                   struct mt_collector **collector);
void mt_collector_destroy(struct mt_collector *collector); // NULL is allowed

/*
 * Takes one layer's record of one batch. Layers see the same tokens in the same order. input: [N,d], what the
 * layer's router and experts read; NULL: its vectors are not kept, nor are those of record->rows where that
 * is absent or one of the token's slots was dropped. A record that carries its Gram matrix gives |cos| of all
 * tokens, else the kept outputs do. With options.grams that of the kept tokens is all that is known of their
 * outputs: |cos| and lengths, but no geometry.
 */
enum mt_status mt_collector_add(struct mt_collector *collector, int moe_layer,
                                const struct mt_routing *record, const struct mt_tensor *input);

/* The same of a record whose tensors lie in the host's memory, floats as f32; options.grams, and no inputs.
 */
enum mt_status mt_collector_add_host(struct mt_collector *collector, int moe_layer,
                                     const struct mt_routing *record);

/* Which tokens a batch holds, where they do not come in their order. */
struct mt_token_names {
    int64_t tokens;        // N
    const int64_t *number; // [N]: of each token among all of the collector's; what is drawn depends on it
    const int64_t *group;  // [N]: 0 ... options.groups-1; NULL without groups
    const int32_t *mask;   // [N]: 0 where the token does not count, besides the record's mask; NULL: all do
};

/* Names the tokens of the records added from now on; borrowed until the next call. NULL: as they come. */
void mt_collector_name(struct mt_collector *collector, const struct mt_token_names *names);

/*
 * Brings what collectors of the same options have seen of different tokens, one on every rank, into that of
 * rank 0: it then is what one collector of all tokens would be. The others stay as they are. Collective; the
 * tokens have names. The status is agreed on.
 */
enum mt_status mt_collector_gather(struct mt_collector *collector, struct mt_comm *comm);

/* Adds what another collector of the same shape has seen; that one stays as it is: domains. */
enum mt_status mt_collector_merge(struct mt_collector *collector, const struct mt_collector *other);

/*
 * A collector as bytes, for a run that is interrupted and goes on: its sums, then what its kept outputs
 * amount to, which takes longer; both appended. The kept vectors themselves are lost. Unpacking adds to what
 * a collector of the same shape and groups has seen; false, and nothing changed, where the bytes are of none
 * such.
 */
struct mt_byte_list; // formats/text/lists.h
enum mt_status mt_collector_pack_sums(const struct mt_collector *collector, struct mt_byte_list *out);
enum mt_status mt_collector_pack_outputs(struct mt_collector *collector, struct mt_byte_list *out);
bool mt_collector_unpack(struct mt_collector *collector, const void *data, size_t bytes);

/* The figures of one layer. NaN: not known (no tokens, no vectors). docs/analysis.md has the formulas. */
struct mt_layer_figures {
    int64_t number;                  // of the layer in the model
    int64_t tokens;                  // unmasked
    double max_violation;            // MaxVio_global, the paper's: (largest load - mean) / mean
    double max_violation_code;       // the authors' code: largest |load - mean| / mean
    double max_violation_batch;      // mean over batches
    double max_violation_batch_code; // mean over batches, the authors' form
    int64_t batches;
    double entropy;           // of the load, in nats; ln n when balanced
    double gini;              // 0 when balanced, 1 - 1/n when one expert has everything
    double load_min;          // the smallest load over the mean
    double load_max;          // the largest
    double effective_experts; // 1 / mean over tokens of Σ w², w the weights over their sum: 1 ... k
    double effective_scores;  // the same of the scores P: 1 ... n
    double experts_90;        // share of the experts that serve 90 % of the slots
    double rv_token;          // mean over tokens of the variance over experts (divisor n-1) of the scores P
    double rv_expert;         // mean over experts of the variance over tokens of the weights s after top-k
    double rv_appendix;       // 1/n Σ_j (mean over tokens of P_ij/Σ_m P_im - 1/n)²
    double abs_cos;           // mean |cos| between two expert outputs of a token
    double abs_cos_error;     // its standard error; 0 when all tokens were looked at
    int64_t abs_cos_tokens;   // looked at
    double output_norm;       // mean length of an expert output, of the same tokens as the kept outputs
    struct mt_geometry_figures input;       // inputs, labelled by the first choice
    struct mt_geometry_figures output;      // expert outputs, labelled by expert; Euclidean
    struct mt_geometry_figures output_unit; // the same by angle
    struct mt_path_figures path;         // from the MoE layer before; NaN of the first, and without choices
    struct mt_coupling_figures coupling; // of weights (analysis/run/weights.h); NaN: nobody looked
    const double *load;                  // [n]: slots served
    const double *first;                 // [n]: tokens whose first choice it is
    const double *mean_score;            // [n]: mean over tokens of P_ij
    const double *mean_weight;           // [n]: mean over tokens of s_ij
    // [n] each, higher is worth more (analysis/expert_scores.h). `use` and `mean` are always there; another
    // one is NULL unless options.scores has it, and NaN where a record lacked what it needs: outputs (rows or
    // gram), and for easy-ep the residual.
    const double *score[MT_EXPERT_SCORES];
};

struct mt_figures {
    struct mt_context *ctx; // borrowed; NULL: none
    int layers;
    int experts;
    int slots;
    struct mt_layer_figures *layer; // [layers], owned
    struct mt_layer_figures mean;   // over layers, of the plain figures; its arrays are NULL
    double *numbers;                // owned: what the layers' arrays point into
};

/* Computes the figures; `geometry` says how vectors are compared, NULL: not at all. The caller frees. */
enum mt_status mt_collector_finish(struct mt_collector *collector, const struct mt_geometry_options *geometry,
                                   struct mt_figures *figures);
void mt_figures_free(struct mt_figures *figures); // a zeroed struct is allowed

/* Fills figures->mean from the layers; what is NaN in one does not count. */
void mt_figures_mean(struct mt_figures *figures);

/* The plain figures of a layer: index 0, 1, ...; false past the last. Texts live forever. */
struct mt_figure_kind {
    const char *name;    // as in JSON: "maxvio"
    const char *formula; // in one line
    size_t offset;       // of a double in struct mt_layer_figures
};
bool mt_figure_listed(int index, struct mt_figure_kind *kind);
double mt_figure_value(const struct mt_layer_figures *figures, const struct mt_figure_kind *kind);

/* Writes the figures as docs/analysis.md ("figures") describes: a file, or a value of a larger text. */
struct mt_json_text; // formats/text/json_text.h
enum mt_status mt_figures_write_json(const struct mt_figures *figures, const char *path);
enum mt_status mt_figures_put_json(const struct mt_figures *figures, struct mt_json_text *text);

/* {"maxvio": "(max_j c_j - mean) / mean", ...} */
enum mt_status mt_figures_put_formulas(struct mt_json_text *text);

/* The kept inputs of a layer: [count,d], with each token's experts [count,k]. Borrowed until the next add. */
struct mt_kept_vectors {
    int64_t count;
    int64_t width;          // of one vector: d, or k·d of outputs
    const float *vectors;   // [count,width]
    const int32_t *experts; // [count,k], first choice first; -1: dropped
};
void mt_collector_inputs(struct mt_collector *collector, int moe_layer, struct mt_kept_vectors *kept);

/* The experts of the first `choices` unmasked tokens, [count,k], as chosen; valid until the next add. */
const uint16_t *mt_collector_choices(const struct mt_collector *collector, int moe_layer, int64_t *count);

#endif
