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
};

/*
 * L_o of each token from the Gram matrix of its k expert outputs. Slots with weight <= gate are taken as
 * zero rows, if weight is given. Span: for each a the others, in slot order, are made orthogonal one after
 * the other (modified Gram-Schmidt) and divided by (their length + ε); a zero row stays zero, and so does
 * one of which only rounding is left (ops/span.h). With k = 1 every loss is 0; so is a term whose
 * denominator is 0.
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

MT_PUBLIC_END

#endif
