/* What the collector's own files share. */
#ifndef MT_ANALYSIS_COLLECTOR_SUMS_H
#define MT_ANALYSIS_COLLECTOR_SUMS_H

#include "analysis/collector/collector.h"
#include "analysis/sample.h"
#include "analysis/variance.h"
#include "metier/buffer.h"

/* Loads of batches, judged one by one. */
struct mt_batch_loads {
    int64_t tokens;                   // of the batch so far
    int64_t batches;                  // finished
    double violation, violation_code; // sums over them
    double *load;                     // [n]: of the batch so far
};

/* |cos| between a token's expert outputs: sums over tokens of the mean over their pairs. */
struct mt_cosine_sums {
    int64_t tokens; // with two outputs at least
    struct mt_any_order sum, squares;
};

/* What kept outputs amount to. */
struct mt_output_sums {
    struct mt_cosine_sums cosine;
    struct mt_any_order lengths; // of the outputs
    int64_t outputs;             // how many: tokens · k
};

/* What is known of one layer. */
struct mt_layer_sums {
    int64_t number;       // of the layer in the model
    int64_t tokens;       // unmasked
    double *load, *first; // [n]
    struct mt_variance_sums variance;
    struct mt_batch_loads batch;             // of tokens without a group
    int64_t *group_tokens;                   // [groups]
    uint32_t *group_load;                    // [groups,n]
    struct mt_cosine_sums cosine;            // from Gram matrices
    struct mt_any_order *score;              // [MT_EXPERT_SCORES,n]
    int64_t scored[MT_EXPERT_SCORES];        // tokens in each of them
    struct mt_vector_sample inputs, outputs; // not open where none are kept
    struct mt_output_sums earlier;           // of outputs that were kept before (mt_collector_unpack)
    uint16_t *choices;                       // [options.choices,k]
    int64_t choice_count;
};

/* Room for what scores read of a record; grows. */
struct mt_score_room {
    struct mt_buffer device;
    void *host;
    size_t host_bytes;
};

/* What scores read of a record, on the host. */
struct mt_score_facts {
    const float *grams; // [N,k,k]; NULL: not known
    const float
        *pairs; // [N,2,2]: Gram matrices of the residual stream and what is added to it; NULL likewise
};

struct mt_collector {
    struct mt_device *device; // borrowed
    struct mt_context *ctx;   // borrowed
    struct mt_collector_options options;
    struct mt_layer_sums *layer; // [layers]
    // What the layers' arrays point into:
    double *numbers;           // [layers][MT_LAYER_ARRAYS][n]
    struct mt_any_order *sums; // [layers][MT_LAYER_SUMS][n]
    int64_t *group_tokens;     // [layers][groups]
    uint32_t *group_loads;     // [layers][groups][n]
    struct mt_token_names names;
    bool named;
    void *scratch; // a record on the host
    size_t scratch_bytes;
    struct mt_score_room score_room;
};

#define MT_LAYER_ARRAYS 3
#define MT_LAYER_SUMS   (4 + MT_EXPERT_SCORES)

/* Numbers that are kept of a token's expert outputs; 0: none. */
int64_t mt_collector_output_width(const struct mt_collector_options *options);

/* The batches of a layer that are whole: those made of tokens as they came, and those made of groups. */
struct mt_batch_sums {
    int64_t batches;
    double violation, violation_code; // sums over them
};
void mt_collector_batches(const struct mt_collector *collector, const struct mt_layer_sums *layer,
                          double *work, struct mt_batch_sums *sums); // work: [n]

/* Mean |cos| over the pairs of k vectors with this Gram matrix [k,k]; the pair of a zero vector has 0. */
double mt_cosine_of_gram(const double *gram, int slots);

void mt_output_sums_merge(struct mt_output_sums *sums, const struct mt_output_sums *other);

/* Of the outputs a layer keeps, and kept before. */
enum mt_status mt_output_sums_of(struct mt_collector *collector, const struct mt_layer_sums *layer,
                                 struct mt_output_sums *sums);

/* What the scores that are asked for read of a record on the device; valid until the next one. */
enum mt_status mt_scores_fetch(struct mt_collector *collector, const struct mt_routing *record,
                               struct mt_score_facts *facts);

/* Adds one token of the record, with its experts [k] and their weights. */
void mt_scores_add(const struct mt_collector_options *options, struct mt_layer_sums *layer,
                   const struct mt_score_facts *facts, int64_t token, const int32_t *expert,
                   const float *weight);

/* Fills figures->score; the other arrays are there already. numbers: [MT_EXPERT_SCORES,n]. */
void mt_scores_fill(const struct mt_collector_options *options, const struct mt_layer_sums *layer,
                    double *numbers, struct mt_layer_figures *figures);

void mt_score_room_free(struct mt_collector *collector);

#endif
