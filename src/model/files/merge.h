/*
 * An adapter merged into its model: a complete folder whose weights are W + (alpha / r) · B · A, rounded once
 * to the type they are written in. Written as a stream, tensor by tensor, so the model may be far larger than
 * memory; the folder appears whole or not at all.
 *
 * With `kept` the result has fewer routed experts (files/shrink.h), and there need not be an adapter: without
 * one not a bit of what stays is changed, codes included. MT_KEPT_FILE in the folder says which they were.
 *
 * Where the model is quantised, in its folder or while the adapter was trained, W is what its codes stand
 * for, and the result is in floats, or, with `requantise`, in codes again: those of weights without a pair as
 * they lie, the others made of the sums.
 */
#ifndef MT_MODEL_MERGE_H
#define MT_MODEL_MERGE_H

#include <stdio.h>

#include "arch/model_tensors.h"
#include "metier/device.h"
#include "model/kept.h"

#define MT_KEPT_FILE "experts.json" // the experts that stayed, by their numbers in the model they were of

struct mt_merge_options {
    const char *directory;      // the model: config, weights, tokenizer and so on
    const char *adapter;        // the adapter's folder; NULL, only with `kept`: none
    const struct mt_kept *kept; // the experts that stay; NULL: all
    const char *out;            // must not exist, or be empty
    enum mt_hf_float dtype;     // of the weights; unknown: each tensor as it was stored
    bool requantise;            // a quantised model stays in its format
    uint64_t shard_bytes;       // of one file at the most; 0: 5 GB
    int threads;                // 0: as many as the machine has
    FILE *progress;             // borrowed; NULL: none is shown
};

/* What writing in codes again has cost the weights of a part that have a pair. */
struct mt_merge_loss {
    size_t matrices;
    double error;  // root mean square of what is lost, relative to that of the weights
    double change; // the same of what the adapter has added
};

struct mt_merge_result {
    size_t merged;         // tensors with a pair
    size_t tensors;        // in all
    size_t biases;         // correction biases written back
    bool biases_beside;    // biases the checkpoint has no tensors for, in a file of their own (router_bias.h)
    uint64_t bytes;        // of all tensors
    uint64_t bytes_before; // of the model's
    size_t further;        // tensors of layers that predict further tokens, left out where experts go
    size_t files;          // with weights
    size_t carried;        // other files copied
    bool narrow;           // some merged tensor has 16 bits
    const char *format;    // the model's weights are in codes of this format; NULL: in floats
    size_t codes;          // matrices written in codes
    size_t left_out;       // tensors of no part of the model, left out where codes became floats
    struct mt_merge_loss loss[MT_MODEL_PART_COUNT];
};

/* `result` may be NULL. After a failure there is nothing at `out`. */
enum mt_status mt_merge(struct mt_context *ctx, const struct mt_merge_options *options,
                        struct mt_merge_result *result);

/* How far the logits of two models are apart, relative to the root mean square of the first's. */
struct mt_merge_difference {
    double largest;
    double rms;
    double median;       // over the tokens, of each token's rms
    double divergence;   // KL from the first's probabilities, in nats, mean over the tokens
    double same_top;     // share of tokens whose most likely next token is the same
    double tolerance;    // for rms, for the median, or for peak_most
    bool by_median;      // weights of 16 bits, or a device that rounds to them
    bool by_peak;        // no weight has changed
    double peak_largest; // the largest distance of a logit, as a share of the largest logit
    double peak_most;    // the same without the worst 1 % of the tokens
    int64_t beyond;      // tokens with a logit that is farther off than the tolerance, as such a share
    int64_t tokens;
    double without_biases; // rms when the file of biases is left alone, as other programs do; 0 without one
};

/* What the tolerance is for: "root mean square", "median of tokens", "largest logit in 99 % of tokens". */
const char *mt_merge_measure(const struct mt_merge_difference *difference);

/*
 * Runs the model with its adapter and the merged one on the same pseudo-random ids. Above the tolerance it
 * fails, with the difference filled in: 1e-4 for rms, and with weights of 16 bits, or on a device whose
 * products round to them, 2e-2 for the median. Rounding to 16 bits changes the experts of some tokens, whose
 * logits are then far off; the median leaves them out. Where experts were taken away, the model is run with
 * these masked (model/prune.h). Without an adapter the weights are then the same: 1e-6 of the largest logit
 * in every token but 1 % of them, for sums over fewer experts round otherwise, and a token between two
 * experts may choose the other.
 */
enum mt_status mt_merge_verify(struct mt_device *device, const struct mt_merge_options *options,
                               const struct mt_merge_result *result, struct mt_merge_difference *difference);

/*
 * The same of a model that was written in codes again: the model with its adapter against a merge into
 * floats, which is written beside `out`, compared and removed, and against `out`. The first is judged as
 * above; what the second loses is for the caller to show, and fails only where a logit is not a number.
 */
enum mt_status mt_merge_verify_requantised(struct mt_device *device, const struct mt_merge_options *options,
                                           struct mt_merge_difference *floats,
                                           struct mt_merge_difference *codes);

#endif
