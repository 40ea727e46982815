/*
 * What a training step is reported as. mt_watch (train/watch.h) fills the parts on routing, the trainer
 * the rest; mt_run_log (train/log/runlog.h) writes it. A number that is not known, or belongs to a term that
 * is off, is NaN.
 */
#ifndef MT_TRAIN_RECORD_H
#define MT_TRAIN_RECORD_H

#include "metier/objective.h"

/* One MoE layer at one step. */
struct mt_layer_record {
    int64_t layer;                  // as the checkpoint numbers it
    double loss[MT_TERM_COUNT];     // each term's own value, without its weight; NaN: off
    double weight[MT_TERM_COUNT];   // what it was multiplied with; NaN: off
    double gradient[MT_TERM_COUNT]; // norm of its gradient; NaN unless measured at this step
    double load_entropy;            // of this step's loads, in nats; ln n when balanced
    double max_violation;           // of this step's loads, all micro-batches together
    double max_violation_running;   // of the loads of all steps so far (global MaxVio)
    // The routing variance, by three formulas (docs/logs.md); NaN unless looked at in this step.
    double variance_expert_topk; // of an expert's weight over tokens, 0 where it was not chosen: the paper
    double variance_expert_full; // of an expert's score over tokens, before top-k
    double variance_token;       // of the scores within a token, divisor n-1: the authors' code
    // Concentration (docs/objective.md); NaN unless looked at in this step.
    double effective_experts; // 1/Σ w² of a token's weights: between 1 and k
    double effective_scores;  // 1/Σ p² of a token's scores: between 1 and n
    double experts_90;        // share of the experts that serve 90 % of this step's slots
    // Of the data's sources, where there are several; NaN unless looked at in this step.
    double jaccard_90;      // of the experts that serve 90 % of each one's slots, mean over pairs
    double together_90;     // share of the experts that are among these of any source
    double agreement;       // share of given slots that the router chose itself; NaN: none were given
    double rows_sent;       // to experts of other ranks, by all ranks; NaN: no experts are spread
    const double *load;     // [n] slots served at this step
    const double *measured; // [mt_selection_measures] of this step
};

struct mt_step_record {
    uint64_t step, steps;           // this one (from 1) and how many the run has
    double epoch;                   // as a fraction: 1.5 is the middle of the second
    double learning_rate;           // of this step
    double loss;                    // L = L_h + weighted terms
    double task;                    // L_h
    double term[MT_TERM_COUNT];     // mean over layers of the term's value; NaN: off
    double weighted[MT_TERM_COUNT]; // what it adds to L, summed over layers; NaN: off
    double gradient_norm;           // of everything trainable, before clipping
    bool clipped;
    double max_violation;           // mean over layers
    double max_violation_running;   // mean over layers
    double load_entropy;            // mean over layers
    double effective_experts;       // harmonic mean over layers; NaN unless looked at, as the next two
    double effective_scores;        // harmonic mean over layers
    double experts_90;              // mean over layers
    double jaccard_90, together_90; // mean over layers; NaN: one source, or not looked at
    double agreement;               // mean over layers; NaN: no choices were given
    int64_t tokens, answer_tokens, examples; // of this step
    uint64_t tokens_total;                   // of all steps so far
    double seconds;                          // since the run began; a resumed run goes on counting
    double tokens_per_second;
    const struct mt_layer_record *layers; // [layer_count], borrowed; NULL: none
    size_t layer_count;
    int experts; // n
    int slots;   // k
};

/* What a run had done at some time. */
struct mt_run_work {
    uint64_t steps, tokens;
    double seconds;
};

/* The held-out data at one step. */
struct mt_evaluation_record {
    uint64_t step;
    double loss; // mean over answer tokens
    double perplexity;
    int64_t answer_tokens;
    bool best; // the lowest loss so far
    double seconds;
};

#endif
