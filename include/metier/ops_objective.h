/*
 * Arguments of the ops only the objective uses; part of metier/ops.h, whose rules hold here. What the
 * loss terms need of [tokens, experts] arrays. The terms themselves (src/objective) are arithmetic on
 * these few numbers, in double; a term's gradient comes back as the gradient of the numbers. Statistics
 * are f64. mask (i32, 0 leaves a token out) is optional everywhere; segment (i32, each in [0, B)) cuts
 * the tokens into B groups, usually sequences; absent, all tokens form one group.
 */
#ifndef METIER_OPS_OBJECTIVE_H
#define METIER_OPS_OBJECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "metier/export.h"
#include "metier/tensor.h"

MT_PUBLIC_BEGIN

/*
 * x' = x, or with normalise_rows x[i,j] / Σ_m x[i,m]. Over the tokens i of segment b:
 * sum[b,j] = Σ x'[i,j]; squares[b,j] = Σ x'[i,j]²; row_squares[b] = Σ (Σ_j x'[i,j])²; rows[b] = how many.
 */
struct mt_column_stats_forward_args {
    struct mt_tensor x;           // f32 [N,n]
    struct mt_tensor mask;        // i32 [N], optional
    struct mt_tensor segment;     // i32 [N], optional
    struct mt_tensor sum;         // f64 [B,n]
    struct mt_tensor squares;     // f64 [B,n], optional
    struct mt_tensor row_squares; // f64 [B], optional
    struct mt_tensor rows;        // f64 [B], optional
    bool normalise_rows;
};

/* dx[i,j] = what the gradients of the statistics say; masked tokens get 0. */
struct mt_column_stats_backward_args {
    struct mt_tensor x;            // f32 [N,n]
    struct mt_tensor mask;         // i32 [N], optional
    struct mt_tensor segment;      // i32 [N], optional
    struct mt_tensor dsum;         // f64 [B,n]
    struct mt_tensor dsquares;     // f64 [B,n], optional
    struct mt_tensor drow_squares; // f64 [B], optional
    struct mt_tensor dx;           // f32 [N,n]
    bool normalise_rows;
    bool accumulate;
};

/*
 * The same for what a token's slots say, seen as a row of n numbers that is weight[i,s] at expert[i,s] and
 * 0 elsewhere. A slot whose expert is -1 counts nowhere. count[b,j] = slots that chose j, first[b,j] = those
 * among them that are slot 0.
 */
struct mt_slot_stats_forward_args {
    struct mt_tensor expert;      // i32 [N,k], each in [-1, n)
    struct mt_tensor weight;      // f32 [N,k], needed for the three statistics of weights
    struct mt_tensor mask;        // i32 [N], optional
    struct mt_tensor segment;     // i32 [N], optional
    struct mt_tensor count;       // f64 [B,n]
    struct mt_tensor first;       // f64 [B,n], optional
    struct mt_tensor sum;         // f64 [B,n], optional
    struct mt_tensor squares;     // f64 [B,n], optional
    struct mt_tensor row_squares; // f64 [B], optional
    struct mt_tensor rows;        // f64 [B], optional: how many tokens there are
};

/* Counts are constants: only the statistics of weights have gradients. Slots without an expert get 0. */
struct mt_slot_stats_backward_args {
    struct mt_tensor expert;       // i32 [N,k]
    struct mt_tensor weight;       // f32 [N,k]
    struct mt_tensor mask;         // i32 [N], optional
    struct mt_tensor segment;      // i32 [N], optional
    struct mt_tensor dsum;         // f64 [B,n]
    struct mt_tensor dsquares;     // f64 [B,n], optional
    struct mt_tensor drow_squares; // f64 [B], optional
    struct mt_tensor dweight;      // f32 [N,k]
    bool accumulate;
};

/* Router z-loss: lse[i] = log Σ_j exp(logits[i,j]); sum = Σ_i lse[i]². */
struct mt_router_zloss_forward_args {
    struct mt_tensor logits; // f32 [N,n]
    struct mt_tensor mask;   // i32 [N], optional
    struct mt_tensor lse;    // f32 [N], optional output; 0 for masked tokens
    struct mt_tensor sum;    // f64 [1]
};

/* dlogits[i,j] = scale · factor · 2 · lse[i] · softmax(logits[i])[j]; masked tokens get 0. */
struct mt_router_zloss_backward_args {
    struct mt_tensor logits;  // f32 [N,n]
    struct mt_tensor mask;    // i32 [N], optional
    struct mt_tensor dlogits; // f32 [N,n]
    struct mt_tensor factor;  // f64 [1], optional, taken as f32: what only the device knows yet
    float scale;
    bool accumulate;
};

enum mt_router_orth_kind {
    MT_ROUTER_ORTH_COSINE, // ||Ĝ - I||² / n², Ĝ_ef = G_ef / (max(|w_e|,ε) max(|w_f|,ε)) (ERNIE)
    MT_ROUTER_ORTH_L1,     // rows as they are: Σ_ef |G_ef - δ_ef| (SimBal)
};

/*
 * How far the router's rows w_e are from orthogonal, G = W Wᵀ. With groups K > 1 (cosine kind only) experts
 * form K equal runs, each compared within itself, and the divisor is K (n/K)². ε = 1e-12. Everything is
 * double from the rows on: where rows are nearly parallel, the gradient is what is left of a cancellation.
 */
struct mt_router_orth_forward_args {
    struct mt_tensor weight; // [n,d]
    struct mt_tensor loss;   // f64 [1]
    enum mt_router_orth_kind kind;
    int groups; // 0 or 1: all together
};

/* The gradient is scale · ∂loss/∂W, sign(0) = 0. One of the two outputs may be absent. */
struct mt_router_orth_backward_args {
    struct mt_tensor weight;  // [n,d]
    struct mt_tensor dweight; // [n,d], accumulated
    struct mt_tensor squares; // f64 [1]: the sum of the gradient's squares
    enum mt_router_orth_kind kind;
    int groups;
    float scale;
};

enum mt_ortho_form {
    MT_ORTHO_PAIRWISE, // Σ_{a≠b} q² B / (B + ε)², q = G_ab, B = G_bb: the paper's equation
    MT_ORTHO_SPAN,     // 1/k Σ_a |projection of x_a on the others' span|², by Gram-Schmidt: their code
    MT_ORTHO_COSINE,   // 1/(k(k-1)) Σ_{a≠b} q² / ((A + ε)(B + ε)): free of scale
    MT_ORTHO_SIGNED,   // 1/(k(k-1)) Σ_{a≠b} q / √((A + ε)(B + ε)): the cosine itself (L_sp)
};

/*
 * L_o of each token from the Gram matrix of its k expert outputs. Slots with weight <= gate are taken as
 * zero rows, if weight is given. Span: for each a the others, in slot order, are made orthogonal one after
 * the other (modified Gram-Schmidt) and divided by (their length + ε); a zero row stays zero, and so does
 * one of which only rounding is left (ops/span.h). With k = 1 every loss is 0; so is a term whose
 * denominator is 0, and signed is where a row is of zeros.
 */
struct mt_ortho_forward_args {
    struct mt_tensor gram;   // f32 [N,k,k]
    struct mt_tensor weight; // f32 [N,k], optional
    struct mt_tensor mask;   // i32 [N], optional
    struct mt_tensor loss;   // f32 [N]; 0 for masked tokens
    struct mt_tensor sum;    // f64 [1], optional: of the losses
    struct mt_tensor rows;   // f64 [1], optional: how many tokens are not masked
    enum mt_ortho_form form;
    float epsilon;
    float gate;
};

/*
 * coupling = scale · factor · (Γ + Γᵀ), Γ the gradient of a token's loss in gram; 0 for masked tokens: what
 * combine_backward applies to the rows. printed_gradient (pairwise only) gives the paper's printed gradient
 * instead, G_ab / (G_bb + ε) for Γ + Γᵀ: the other side held constant and the 2 left out.
 */
struct mt_ortho_backward_args {
    struct mt_tensor gram;     // f32 [N,k,k]
    struct mt_tensor weight;   // f32 [N,k], optional
    struct mt_tensor mask;     // i32 [N], optional
    struct mt_tensor coupling; // f32 [N,k,k]; may be gram itself
    struct mt_tensor factor;   // f64 [1], optional, taken as f32: what only the device knows yet
    enum mt_ortho_form form;
    float epsilon;
    float gate;
    float scale;
    bool printed_gradient;
};

/*
 * A part of a loss that is made of a layer's statistics: factor · Σ_i x_i y_i / t^power over `count`
 * neighbouring numbers, t another one of them; nothing where t <= 0. Its gradient is in x: y is a constant,
 * unless it is x itself.
 */
struct mt_stat_product {
    int64_t x;     // where they begin
    int64_t y;     // likewise; -1: ones
    int64_t count; // of both
    int64_t over;  // t; -1: it is 1
    int power;     // 0 to 2
    int loss;      // in [0, M): which one it is a part of
    double factor;
};

#define MT_STAT_PRODUCTS 32 // at the most

/*
 * total = Σ_lm weight[l,m] · loss[l,m], and where x_i is a number of layer l and part of loss m,
 * gradient[l,i] = scale · weight[l,m] · ∂loss[l,m]/∂x_i; other gradients are untouched. No number is the x of
 * two products.
 */
struct mt_stat_values_args {
    struct mt_tensor numbers;               // f64 [L,S]
    struct mt_tensor weight;                // f64 [L,M]
    struct mt_tensor gradient;              // f64 [L,S]
    struct mt_tensor total;                 // f32 [1]
    const struct mt_stat_product *products; // [products_count], the host's
    int products_count;
    double scale;
};

/*
 * Rows with noise that stays nearer to its own row than to any other (ERC): y = x · δ element by element,
 * δ[i,j] = 1 + amount · ε_i (2u - 1), ε_i = min_{m≠i} |w_i - w_m| / (2 |w_i|), u = mt_rng_unit of element
 * i·d + j. ε is 0 for a row of zeros and for a row that is alone. δ is a constant: the same call on dy is the
 * backward.
 */
struct mt_row_noise_args {
    struct mt_tensor weight; // [n,d]: the rows w that distances are taken of
    struct mt_tensor x;      // [n,d]
    struct mt_tensor y;      // [n,d], may be x itself
    float amount;            // in [0, 1]
    uint64_t seed;
    uint64_t stream;
    bool accumulate; // y += instead of y =
};

/*
 * How far a matrix is from one whose diagonal rules its rows and columns (ERC). M[i,j] = √squares[i,j];
 * loss = n⁻² Σ_i Σ_{j≠i} max(M[i,j] - α M[i,i], 0) + max(M[j,i] - α M[i,i], 0). Turning M over changes
 * nothing.
 */
struct mt_dominance_forward_args {
    struct mt_tensor squares; // f32 [n,n], none negative
    struct mt_tensor loss;    // f64 [1]
    float alpha;              // not negative
};

/*
 * With g = dloss · ∂loss/∂M: coupling[i,j] = g[i,j] / M[i,j], 0 where M[i,j] is 0, which is what
 * combine_backward takes for vectors of squared length squares[i,j]; sum = Σ g². One of the two may be
 * absent.
 */
struct mt_dominance_backward_args {
    struct mt_tensor squares;  // f32 [n,n]
    struct mt_tensor dloss;    // f64 [1]
    struct mt_tensor coupling; // f32 [n,n]; not squares itself
    struct mt_tensor sum;      // f64 [1]
    float alpha;
};

/*
 * mass[i] = Σ_s probs[i,expert[i,s]], with normalise_rows divided by Σ_j probs[i,j]; product[i] = mass[i] of
 * one layer · mass[i] of another. A slot whose expert is -1 adds nothing; masked tokens get 0.
 */
struct mt_joint_mass_forward_args {
    struct mt_tensor probs, other_probs;   // f32 [N,n]
    struct mt_tensor expert, other_expert; // i32 [N,k], each in [-1, n), those of a token different
    struct mt_tensor mask;                 // i32 [N], optional
    struct mt_tensor product;              // f32 [N]
    bool normalise_rows;
};

/* dprobs += the gradient in probs of dproduct · Σ_i product[i]; other_probs are constants. */
struct mt_joint_mass_backward_args {
    struct mt_tensor probs, other_probs;   // f32 [N,n]
    struct mt_tensor expert, other_expert; // i32 [N,k]
    struct mt_tensor mask;                 // i32 [N], optional
    struct mt_tensor dproduct;             // f64 [1]
    struct mt_tensor dprobs;               // f32 [N,n], accumulated
    bool normalise_rows;
};

/*
 * Which slots are served (GShard, ST-MoE). Slots are taken in the order of s, and within one s in the order
 * of i. Slot s >= 1 stays with probability min(1, share / threshold), share = weight[i,s] / Σ_s weight[i,s],
 * if threshold > 0: it is dropped when share <= threshold · u, u = mt_rng_unit of element i·k + s. What
 * stays is dropped when its expert already has `capacity` slots, if capacity > 0. Masked tokens lose all
 * slots. A dropped slot's expert becomes -1.
 */
struct mt_slot_drop_args {
    struct mt_tensor expert; // i32 [N,k]
    struct mt_tensor weight; // f32 [N,k], needed with threshold
    struct mt_tensor mask;   // i32 [N], optional
    struct mt_tensor kept;   // i32 [N,k], may be expert itself
    int experts;             // n
    int64_t capacity;        // 0: no limit
    float threshold;         // 0: nothing is dropped at random
    uint64_t seed;
    uint64_t stream;
};

/*
 * Choices that come with the data (R3). Where given[i,0] >= 0, expert[i,:] = given[i,:]; other tokens keep
 * theirs. agreed[i,0] is how many of given[i,:] stood in expert[i,:] before, agreed[i,1] = k; both are 0 for
 * other tokens.
 */
struct mt_given_experts_args {
    struct mt_tensor given;  // i32 [N,k]: experts of a token, each once, or -1 in all slots
    struct mt_tensor expert; // i32 [N,k], overwritten
    struct mt_tensor agreed; // f32 [N,2], optional
    int experts;             // n
};

/*
 * Where experts would be chosen equally often (quantile balancing). A token's threshold is the (k+1)-th
 * largest of its probs + bias, the first that is not chosen; margin[j,i] = probs[i,j] - threshold[i], 0 for
 * masked tokens. With M tokens not masked, q = min(M·k / n rounded down, M - 1):
 * sum[j] = M · the (q+1)-th largest of their margin[j,:], rows = M, both 0 without tokens. Scores and margins
 * are rounded to the type of probs; NaN is below every number.
 */
struct mt_balance_quantile_args {
    struct mt_tensor probs;  // f32 [N,n]
    struct mt_tensor bias;   // f32 [n], optional
    struct mt_tensor mask;   // i32 [N], optional
    struct mt_tensor margin; // f32 [n,N], as probs
    struct mt_tensor sum;    // f64 [n]
    struct mt_tensor rows;   // f64 [1]
    int slots;               // k, less than n
};

/*
 * The experts that each sequence may choose from (EMO): the d that come first by (score falling, index
 * rising). score[b,j] = sum[b,j] / max(rows[b], 1), rounded to f32, + bias[j], rounded again: sums that were
 * added in another order select the same. NaN comes last. d is drawn from least .. n, each as likely:
 * least + (word · (n - least + 1)) >> 32, word = mt_rng_u32 of element first + b. pool[b,j] is 1 for those d,
 * else 0.
 */
struct mt_expert_pool_args {
    struct mt_tensor sum;  // f64 [B,n]: of the scores of the sequence's tokens
    struct mt_tensor rows; // f64 [B]: how many these are
    struct mt_tensor bias; // f32 [n], optional
    struct mt_tensor pool; // i32 [B,n]
    int least;             // 1 .. n
    uint64_t first;        // the number of sequence 0 among those that are drawn for
    uint64_t seed;
    uint64_t stream;
};

/* x[i,j] = value where pool[segment[i],j] is 0. Everything else of x stays. */
struct mt_pool_mask_args {
    struct mt_tensor x;       // f32 [N,n]
    struct mt_tensor segment; // i32 [N], optional
    struct mt_tensor pool;    // i32 [B,n]
    float value;
};

/*
 * DenseMixer: what an expert j that was not chosen would have changed. Where j is not among expert[i,:],
 * dprobs[i,j] += scale / D_i · <dy[i], outputs[i]>, D_i = Σ_s probs[i, expert[i,s]] + epsilon with normalise,
 * a constant, else 1. Everything else of dprobs stays.
 */
struct mt_unchosen_backward_args {
    struct mt_tensor dy;      // [N,d]
    struct mt_tensor outputs; // [N,d]: what expert j makes of every token
    struct mt_tensor probs;   // f32 [N,n]
    struct mt_tensor expert;  // i32 [N,k], each in [-1, n)
    struct mt_tensor dprobs;  // f32 [N,n]
    int number;               // j
    bool normalise;
    float epsilon;
    float scale; // 0 is refused
};

MT_PUBLIC_END

#endif
