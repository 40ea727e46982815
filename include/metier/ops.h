/*
 * The op table: everything a device computes. Model, objective, training and evaluation are written
 * once against these calls.
 *
 * An op is the size of a fused kernel. Each takes one struct of arguments, named by designated
 * initialisers; what is not named is zero, and a zero tensor is "absent":
 *
 *     status = mt_rmsnorm_forward(device, &(struct mt_rmsnorm_forward_args){
 *         .x = hidden, .weight = w, .y = normed, .rstd = rstd, .epsilon = 1e-6f});
 *
 * Rules that hold for all:
 *  1. Arguments are checked (ops/check/) before a device sees them; a wrong shape is a sentence.
 *  2. Dimension letters: T tokens, N tokens at a router, R rows sorted by expert, n experts, k experts
 *     per token, H heads, D head width, d model width, V vocabulary, B sequences.
 *  3. Outputs are overwritten, never read, unless the field says "accumulated" or `accumulate` is set.
 *  4. Output memory must not overlap any input unless the field says it may be the same tensor.
 *  5. Index tensors are i32; "-1" where stated means "none".
 *  6. Statistics, scores, losses, gradients of weights and optimizer state are f32. Activations and
 *     weights may be f32, bf16 or f16. ops/ref accepts f64 everywhere a float is accepted.
 *  7. Same inputs, same bits, whatever the number of threads.
 *  8. No op allocates; scratch comes from the device, which grows it outside the step loop only.
 *  9. An op is run by the thread the device belongs to. Tensors are borrowed until it returns; on a device
 * that works on its own, until mt_device_synchronise.
 */
#ifndef METIER_OPS_H
#define METIER_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "metier/device.h"
#include "metier/export.h"
#include "metier/ops_lora.h"
#include "metier/ops_objective.h"
#include "metier/ops_quantised.h"
#include "metier/status.h"
#include "metier/tensor.h"

MT_PUBLIC_BEGIN

// ------------------------------------------------------------------ matrix products

/* C = alpha · op(A) · op(B) + beta · C. beta 0 overwrites: C may hold anything, NaN included. */
struct mt_gemm_args {
    struct mt_tensor a; // [M,K]; [K,M] with transpose_a
    struct mt_tensor b; // [K,N]; [N,K] with transpose_b (a weight as stored: [out,in])
    struct mt_tensor c; // [M,N]
    bool transpose_a;
    bool transpose_b;
    bool exact;  // f32 operands count as they are, even on a device that may round them to bf16
    float alpha; // 0 is refused: a forgotten alpha would silently give zeros
    float beta;
};

/*
 * Rows sorted by expert: y[r] = alpha · x[r] · op(W_e) + beta · y[r] for offsets[e] <= r < offsets[e+1]. An
 * absent W_e counts as zeros: only beta acts on its rows.
 */
struct mt_grouped_gemm_args {
    struct mt_tensor x;             // [R,K]
    const struct mt_tensor *weight; // n views, borrowed: each [N,K] with transpose_weight, else [K,N], of any
                                    // float type; or absent
    int experts;                    // n
    struct mt_tensor offsets;       // i32 [n+1], rising from 0; offsets[n] <= R, later rows are untouched
    struct mt_tensor y;             // [R,N]
    bool transpose_weight;
    float alpha; // 0 is refused
    float beta;
};

/* Head by head: y[t,h] = alpha · x[t,h] · op(W_h) + beta · y[t,h]. beta 0 overwrites. */
struct mt_head_gemm_args {
    struct mt_tensor x;             // [T,H,K]
    const struct mt_tensor *weight; // H views, borrowed: each [N,K] with transpose_weight, else [K,N], of any
                                    // float type
    struct mt_tensor y;             // [T,H,N]
    bool transpose_weight;
    float alpha; // 0 is refused
    float beta;
};

/*
 * Weight gradient per expert: dW_e = alpha · dy_eᵀ · x_e + beta · dW_e; without rows only beta acts. An
 * absent dW_e is not wanted.
 */
struct mt_grouped_gemm_dw_args {
    struct mt_tensor dy;             // [R,N]
    struct mt_tensor x;              // [R,K]
    const struct mt_tensor *dweight; // n views, borrowed: each f32 [N,K], or absent
    int experts;                     // n
    struct mt_tensor offsets;        // i32 [n+1]; absent: one expert, all rows
    float alpha;                     // 0 is refused
    float beta;
};

#define MT_MAX_TERMS 6 // of grouped_sum

/*
 * One product of grouped_sum. A mask is bits of dropout_bits: dropped elements count as 0, kept ones are
 * multiplied by mask_scale.
 */
struct mt_product_term {
    struct mt_tensor x;             // [R,K], K the term's own
    const struct mt_tensor *weight; // n views, borrowed: each [N,K] with transpose_weight, else [K,N], of any
                                    // float type; or absent, which counts as zeros
    bool transpose_weight;
    float alpha;             // 0 is refused
    struct mt_tensor mask_y; // i32 [R,ceil(N/32)], optional: on the term's product
    float mask_scale;        // 0 is refused where there is a mask
};

/*
 * Rows sorted by expert, several products into one sum: y[r] = beta · y[r] + Σ_t alpha_t ·
 * mask_y(x_t[r] · op(W_t,e)) for offsets[e] <= r < offsets[e+1]. What a LoRA pair adds to its map is
 * one of the terms.
 */
struct mt_grouped_sum_args {
    const struct mt_product_term *terms; // borrowed
    int count;                           // of terms, 1 .. MT_MAX_TERMS
    int experts;                         // n
    struct mt_tensor offsets;            // i32 [n+1], as in grouped_gemm; absent: one expert, all rows
    struct mt_tensor y;                  // [R,N]
    float beta;
};

/*
 * gate and up of a SwiGLU block, two sums over the same rows, and y = silu(gate) · up of what gate and up
 * hold then, rounded as their types round. Rows of no expert: gate and up are untouched, y is of no meaning.
 */
struct mt_grouped_swiglu_args {
    struct mt_grouped_sum_args gate; // its y: gate [R,N]; beta 0
    struct mt_grouped_sum_args up;   // its y: up [R,N]; beta 0; the same experts and offsets
    struct mt_tensor y;              // [R,N]
};

/*
 * Back through down and swiglu: with d the sum, rounded as its y's type rounds, dgate = d · up · silu'(gate)
 * and dup = d · silu(gate). The sum's y holds silu(gate) · up afterwards, what down read. Rows of no expert:
 * all of these are of no meaning.
 */
struct mt_grouped_swiglu_backward_args {
    struct mt_grouped_sum_args sum; // its y: [R,N]; beta 0
    struct mt_tensor gate, up;      // [R,N]
    struct mt_tensor dgate, dup;    // [R,N]; dgate may be gate itself, dup may be up
};

// ------------------------------------------------------------------ embedding

/* y[t] = table[ids[t]]. An id outside [0, V) is refused. */
struct mt_embedding_forward_args {
    struct mt_tensor table; // [V,d]
    struct mt_tensor ids;   // i32 [T]
    struct mt_tensor y;     // [T,d]
};

/* dtable[ids[t]] += dy[t], in the order of t. */
struct mt_embedding_backward_args {
    struct mt_tensor dy;     // [T,d]
    struct mt_tensor ids;    // i32 [T]
    struct mt_tensor dtable; // f32 [V,d], accumulated
};

// ------------------------------------------------------------------ norms

/* h = x (+ residual); y = h · rsqrt(mean(h²) + epsilon) · weight. No mean is subtracted, no 1+weight. */
struct mt_rmsnorm_forward_args {
    struct mt_tensor x;        // [T,d]
    struct mt_tensor residual; // [T,d], optional
    struct mt_tensor sum;      // [T,d], output h; needed with residual, may be x or residual itself
    struct mt_tensor weight;   // [d]
    struct mt_tensor y;        // [T,d], may be x itself when there is no residual
    struct mt_tensor rstd;     // f32 [T], optional output, saved for backward
    float epsilon;
};

struct mt_rmsnorm_backward_args {
    struct mt_tensor dy;      // [T,d]
    struct mt_tensor x;       // [T,d], what was normalised (h)
    struct mt_tensor weight;  // [d]
    struct mt_tensor rstd;    // f32 [T]
    struct mt_tensor dx;      // [T,d], may be dy itself when not accumulating
    struct mt_tensor dweight; // f32 [d], optional, accumulated
    bool accumulate;          // dx += instead of dx =: the residual's gradient is already there
};

/* h = x (+ residual); y = (h - mean) · rsqrt(var + epsilon) · weight + bias; var divides by d. */
struct mt_layernorm_forward_args {
    struct mt_tensor x;        // [T,d]
    struct mt_tensor residual; // [T,d], optional
    struct mt_tensor sum;      // [T,d], output h; needed with residual, may be x or residual itself
    struct mt_tensor weight;   // [d]
    struct mt_tensor bias;     // [d]
    struct mt_tensor y;        // [T,d], may be x itself when there is no residual
    struct mt_tensor mean;     // f32 [T], optional output (both or neither)
    struct mt_tensor rstd;     // f32 [T], optional output
    float epsilon;
};

struct mt_layernorm_backward_args {
    struct mt_tensor dy;      // [T,d]
    struct mt_tensor x;       // [T,d], what was normalised (h)
    struct mt_tensor weight;  // [d]
    struct mt_tensor mean;    // f32 [T]
    struct mt_tensor rstd;    // f32 [T]
    struct mt_tensor dx;      // [T,d], may be dy itself when not accumulating
    struct mt_tensor dweight; // f32 [d], optional, accumulated
    struct mt_tensor dbias;   // f32 [d], optional, accumulated
    bool accumulate;
};

// ------------------------------------------------------------------ positions and attention

enum mt_rope_layout {
    MT_ROPE_HALF,        // element i pairs with i + D/2
    MT_ROPE_INTERLEAVED, // element 2i pairs with 2i+1 (MLA models)
};

/*
 * Rotates each pair (a,b) of a head by its position's angle: (a·cos - b·sin, a·sin + b·cos). A
 * magnitude factor (YaRN, LongRoPE) is already inside the tables. inverse turns sin into -sin: that is
 * the backward.
 */
struct mt_rope_args {
    struct mt_tensor x;         // [T,H,D], D even; strides free
    struct mt_tensor y;         // [T,H,D], may be x itself
    struct mt_tensor positions; // i32 [T], each in [0, P)
    struct mt_tensor cosine;    // f32 [P,D/2]
    struct mt_tensor sine;      // f32 [P,D/2]
    enum mt_rope_layout layout;
    bool inverse;
};

/* MLA keys: key[t,h] = [nope[t,h] | rope(shared[t])], the rotated part being shared by all heads. */
struct mt_mla_key_forward_args {
    struct mt_tensor nope;      // [T,H,Dn]; strides free (a view into the kv_b output)
    struct mt_tensor shared;    // [T,Dr], not yet rotated; strides free
    struct mt_tensor positions; // i32 [T]
    struct mt_tensor cosine;    // f32 [P,Dr/2]
    struct mt_tensor sine;      // f32 [P,Dr/2]
    struct mt_tensor key;       // [T,H,Dn+Dr]
    enum mt_rope_layout layout;
};

/* dnope = the first Dn columns of dkey; dshared = the heads' sum of the rest, rotated back. */
struct mt_mla_key_backward_args {
    struct mt_tensor dkey;      // [T,H,Dn+Dr]
    struct mt_tensor positions; // i32 [T]
    struct mt_tensor cosine;    // f32 [P,Dr/2]
    struct mt_tensor sine;      // f32 [P,Dr/2]
    struct mt_tensor dnope;     // [T,H,Dn]; strides free
    struct mt_tensor dshared;   // [T,Dr]; strides free
    enum mt_rope_layout layout;
};

/*
 * Causal attention over packed sequences. Sequence b has queries [q_offsets[b], q_offsets[b+1]) and
 * keys [k_offsets[b], k_offsets[b+1]), or, with k_starts, as many from row k_starts[b] on (a cache has a
 * stretch of rows per sequence, part of which is filled); the last query is aligned with the last key, so
 * with a cache there are more keys than queries. Query i (absolute position p_i) sees keys at positions p <=
 * p_i, and with a window only those with p_i - p < window. Head h reads key head h / (Hq/Hkv). lse[t,h] = log
 * Σ exp(score): what backward needs. A query that sees no key gives zeros and -inf.
 */
struct mt_attention_forward_args {
    struct mt_tensor q;         // [Tq,Hq,D]
    struct mt_tensor k;         // [Tk,Hkv,D]
    struct mt_tensor v;         // [Tk,Hkv,Dv]; Dv may differ from D; strides free
    struct mt_tensor q_offsets; // i32 [B+1], rising from 0 to Tq
    struct mt_tensor k_offsets; // i32 [B+1], rising from 0 to Tk; with k_starts its end is free
    struct mt_tensor k_starts;  // i32 [B], optional
    struct mt_tensor out;       // [Tq,Hq,Dv]
    struct mt_tensor lse;       // f32 [Tq,Hq], optional output
    float scale;                // of the scores; 0 is refused
    int window;                 // 0: unlimited
};

struct mt_attention_backward_args {
    struct mt_tensor q, k, v;              // as in forward
    struct mt_tensor q_offsets, k_offsets; // as in forward
    struct mt_tensor out;                  // [Tq,Hq,Dv], forward's result
    struct mt_tensor lse;                  // f32 [Tq,Hq]
    struct mt_tensor dout;                 // [Tq,Hq,Dv]
    struct mt_tensor dq;                   // [Tq,Hq,D]
    struct mt_tensor dk;                   // [Tk,Hkv,D]
    struct mt_tensor dv;                   // [Tk,Hkv,Dv]; strides free
    float scale;
    int window;
};

/*
 * What a sink makes of attention's result: a score of each head's own, beside those of the keys, to which no
 * value belongs. out = sigmoid(lse - sink) · out; lse = log(exp(lse) + exp(sink)). With these two
 * attention_backward gives the gradients of q, k and v as they are.
 */
struct mt_attention_sink_forward_args {
    struct mt_tensor out;  // [T,H,Dv], updated
    struct mt_tensor lse;  // f32 [T,H], updated
    struct mt_tensor sink; // [H]
};

/* dsink[h] -= Σ_t exp(sink[h] - lse[t,h]) · <dout[t,h], out[t,h]>. */
struct mt_attention_sink_backward_args {
    struct mt_tensor dout;  // [T,H,Dv]
    struct mt_tensor out;   // [T,H,Dv], as forward left it
    struct mt_tensor lse;   // f32 [T,H], likewise
    struct mt_tensor sink;  // [H]
    struct mt_tensor dsink; // f32 [H], accumulated
};

// ------------------------------------------------------------------ element-wise

/*
 * y = silu(gate) · up, silu(g) = g / (1 + exp(-g)). With a limit: y = g · sigmoid(alpha · g) · (u + 1), where
 * g = min(gate, limit) and u = up, clamped to ±limit.
 */
struct mt_swiglu_forward_args {
    struct mt_tensor gate; // [R,I]; row stride free, so gate and up may be halves of one [R,2I]
    struct mt_tensor up;   // [R,I]
    struct mt_tensor y;    // [R,I], may be gate or up itself
    float limit;           // 0: none
    float alpha;           // with a limit; 0 is refused then
};

/* The gradients, and from the same pass y once more, for a caller that has not kept it. */
struct mt_swiglu_backward_args {
    struct mt_tensor dy;    // [R,I]
    struct mt_tensor gate;  // [R,I]
    struct mt_tensor up;    // [R,I]
    struct mt_tensor dgate; // [R,I], may be gate itself
    struct mt_tensor dup;   // [R,I], may be up itself
    struct mt_tensor y;     // [R,I], optional output, may be dy itself
    float limit;            // as in forward
    float alpha;
};

/* y = x + bias, the bias repeated for every row. */
struct mt_bias_forward_args {
    struct mt_tensor x;    // [T,d]
    struct mt_tensor bias; // [d]
    struct mt_tensor y;    // [T,d], may be x itself
};

/* dbias += the column sums of dy. */
struct mt_bias_backward_args {
    struct mt_tensor dy;    // [T,d]
    struct mt_tensor dbias; // f32 [d], accumulated
};

/* y += the bias of the row's expert; rows of no expert, and of one without a bias, stay as they are. */
struct mt_grouped_bias_forward_args {
    struct mt_tensor y;           // [R,d], updated
    const struct mt_tensor *bias; // n views, borrowed: each [d], or absent
    int experts;                  // n
    struct mt_tensor offsets;     // i32 [n+1]; absent: one expert, all rows
};

/* dbias[e] += the column sums of expert e's rows of dy. */
struct mt_grouped_bias_backward_args {
    struct mt_tensor dy;           // [R,d]
    const struct mt_tensor *dbias; // n views, borrowed: each f32 [d], accumulated, or absent
    int experts;                   // n
    struct mt_tensor offsets;      // i32 [n+1]; absent: one expert, all rows
};

/* y[r] = sigmoid(gate[r]) · x[r]: a row is scaled by its gate, a shared expert's output in Qwen2-MoE. */
struct mt_sigmoid_gate_forward_args {
    struct mt_tensor x;    // [T,d]
    struct mt_tensor gate; // [T,1]
    struct mt_tensor y;    // [T,d], may be x itself
};

/* With s = sigmoid(gate): dx[r] = s · dy[r], dgate[r] = s (1 - s) <dy[r], x[r]>. */
struct mt_sigmoid_gate_backward_args {
    struct mt_tensor dy;    // [T,d]
    struct mt_tensor x;     // [T,d], as forward read it
    struct mt_tensor gate;  // [T,1]
    struct mt_tensor dx;    // [T,d], may be dy or x itself
    struct mt_tensor dgate; // [T,1], may be gate itself
};

/* y = factor · alpha · x + beta · y. beta 0 overwrites whatever y holds. */
struct mt_axpby_args {
    struct mt_tensor x; // [d] or [T,d]; may be y itself
    struct mt_tensor y; // the same shape, read when beta is not 0
    float alpha;
    float beta;
    struct mt_tensor factor; // f32 [1], optional: 1; a number that only the device knows
};

/* y[i] = Σ_r x[r,i], in the order of r, where row `own` is y itself: what ranks add up. Sums in double. */
struct mt_rank_sum_args {
    struct mt_tensor x; // f32 [P,m]; row `own` is not read
    struct mt_tensor y; // f32 [m], updated
    int own;
};

/* Every element becomes `value`. i32 is allowed. */
struct mt_fill_args {
    struct mt_tensor y; // [d], [T,d] or [T,H,D]
    float value;
};

/* y = x, converting between float types; i32 to i32. With place: y[place[t]] = x[t], other rows stay. */
struct mt_copy_args {
    struct mt_tensor x;     // [d], [T,d] or [T,H,D]; strides free, and T and H may lie in either order
    struct mt_tensor y;     // the same shape; with place [P,d]
    struct mt_tensor place; // i32 [T], each in [0, P), no two the same; absent: rows stay in order
};

/* y = min(max(x, -limit), limit); NaN stays NaN. */
struct mt_clamp_forward_args {
    struct mt_tensor x; // [T,d]
    struct mt_tensor y; // [T,d], may be x itself
    float limit;        // > 0
};

/* dx = dy where |x| <= limit, else 0; x is the unclamped input. */
struct mt_clamp_backward_args {
    struct mt_tensor dy; // [T,d]
    struct mt_tensor x;  // [T,d]
    struct mt_tensor dx; // [T,d], may be dy itself
    float limit;
};

enum mt_random_kind {
    MT_RANDOM_DROPOUT, // m = 0 where dropout_bits has a 0, else 1/(1-amount)
    MT_RANDOM_JITTER,  // m = 1 + amount·(2u - 1): uniform in [1-amount, 1+amount)
};

/*
 * y = x · m, m drawn for element i = row·d + column: for jitter from u = mt_rng_unit(mt_rng_u32(seed, stream,
 * i)), for dropout as in dropout_bits of a [T,d] tensor. The same call on dy is the backward, nothing is
 * saved. m is an f32, rounded once, the same on every device.
 */
struct mt_random_multiply_args {
    struct mt_tensor x; // [T,d]
    struct mt_tensor y; // [T,d], may be x itself
    enum mt_random_kind kind;
    float amount; // in [0, 1)
    uint64_t seed;
    uint64_t stream;
    bool accumulate; // y += instead of y =; with f32 the product is rounded before it is added
};

/*
 * Which elements of a [R,K] tensor dropout keeps: bit j of word w of a row is 1 when column 32w+j is kept;
 * bits beyond K are 0. Word i = row·ceil(K/32) + w has the 16 random words of blocks 4i … 4i+3
 * (mt_rng_words7), and bit b of the 16-bit number of its element j is bit j of the b-th of them. An element
 * is kept when its number is not below ceil(amount·2^16): the probability has a grid of 2^-16, upwards, so
 * that an amount above 0 drops something.
 */
struct mt_dropout_bits_args {
    struct mt_tensor bits; // i32 [R,ceil(K/32)]
    int64_t columns;       // K
    float amount;          // in [0, 1)
    uint64_t seed;
    uint64_t stream;
};

// ------------------------------------------------------------------ router

enum mt_score_kind {
    MT_SCORE_SOFTMAX,
    MT_SCORE_SIGMOID,
};

/* probs = softmax or sigmoid of the logits, over all n experts. */
struct mt_router_score_forward_args {
    struct mt_tensor logits; // f32 [N,n]
    struct mt_tensor probs;  // f32 [N,n], may be logits itself
    enum mt_score_kind kind;
};

struct mt_router_score_backward_args {
    struct mt_tensor probs;   // f32 [N,n], forward's result
    struct mt_tensor dprobs;  // f32 [N,n]
    struct mt_tensor dlogits; // f32 [N,n], may be dprobs itself when not accumulating
    enum mt_score_kind kind;
    bool accumulate;
};

enum mt_group_rule {
    MT_GROUP_NONE,
    MT_GROUP_MAX,      // a group scores its best expert; the rest is masked with 0 (DeepSeek-V2)
    MT_GROUP_TOP2_SUM, // a group scores the sum of its two best; the rest is masked with -inf (DeepSeek-V3)
};

/*
 * Selection by probs + bias, k experts in falling order, ties to the lowest index. With groups, the n
 * experts form `groups` equal runs, of which the best `groups_kept` stay eligible.
 */
struct mt_topk_args {
    struct mt_tensor probs;  // f32 [N,n]
    struct mt_tensor bias;   // f32 [n], optional: selects, and never weighs
    struct mt_tensor expert; // i32 [N,k]
    enum mt_group_rule group_rule;
    int groups;      // 0 without a rule
    int groups_kept; // 1 .. groups
};

/*
 * w[i,s] = probs[i,expert[i,s]], with normalise divided by (their sum + epsilon), times scale. A slot
 * whose expert is -1 weighs 0 and joins no sum.
 */
struct mt_topk_weights_forward_args {
    struct mt_tensor probs;  // f32 [N,n]
    struct mt_tensor expert; // i32 [N,k]
    struct mt_tensor weight; // f32 [N,k]
    bool normalise;
    float epsilon;
    float scale; // 0 is refused
};

struct mt_topk_weights_backward_args {
    struct mt_tensor probs;   // f32 [N,n]
    struct mt_tensor expert;  // i32 [N,k]
    struct mt_tensor dweight; // f32 [N,k]
    struct mt_tensor dprobs;  // f32 [N,n]; unselected experts get 0
    bool normalise;
    float epsilon;
    float scale;
    bool accumulate;
};

/*
 * SparseMixer-2 (Phi-3.5-MoE), k = 2, one slot after the other. With z the logits (in the second slot
 * the first choice is -inf), m their maximum, an expert j is masked when (m - z_j) / max(|z_j|, m) >
 * 2·jitter. Evaluation takes the argmax e and weighs it softmax(masked z)[e]. Training samples e by
 * Gumbel-max from the masked logits and multiplies the weight by c = 1 if e is the argmax or a fair
 * draw exceeds 0.75, else 1/3. Draw j of token i comes from element ((i·2 + slot)·(n+1) + j): j < n
 * for the Gumbel noise, j = n for c.
 */
struct mt_sparsemixer_forward_args {
    struct mt_tensor logits; // f32 [N,n]
    struct mt_tensor expert; // i32 [N,2]
    struct mt_tensor weight; // f32 [N,2]
    float jitter;
    bool training;
    uint64_t seed;
    uint64_t stream;
};

/* dlogits of slot s: g·p_e·(onehot_e - p), p the masked softmax; c is left out, as in the original. */
struct mt_sparsemixer_backward_args {
    struct mt_tensor logits;  // f32 [N,n]
    struct mt_tensor expert;  // i32 [N,2]
    struct mt_tensor dweight; // f32 [N,2]
    struct mt_tensor dlogits; // f32 [N,n]
    float jitter;
    bool accumulate;
};

// ------------------------------------------------------------------ dispatch and combine

#define MT_MAX_SLOTS 64 // k of combine at the most: its backward holds one column of all k rows at a time

/*
 * Sorts the (token, slot) pairs by expert, stably: offsets[e] counts the rows of the experts before e;
 * row_of_slot[i,s] is the row of pair (i,s); slot_of_row[r] = i·k + s is its inverse. A pair whose
 * expert is -1 has row -1; rows from offsets[n] on have slot -1.
 */
struct mt_dispatch_plan_args {
    struct mt_tensor expert;      // i32 [N,k], each in [-1, n)
    struct mt_tensor offsets;     // i32 [n+1]
    struct mt_tensor row_of_slot; // i32 [N,k]
    struct mt_tensor slot_of_row; // i32 [N·k]
};

/*
 * rows[r] = x[slot_of_row[r] / k]; rows whose slot is -1 are untouched. With row_of_slot, the inverse of
 * slot_of_row, a device may read each token once and write its rows instead.
 */
struct mt_dispatch_forward_args {
    struct mt_tensor x;           // [N,d]
    struct mt_tensor slot_of_row; // i32 [R]
    struct mt_tensor row_of_slot; // i32 [N,k], optional
    struct mt_tensor rows;        // [R,d]
    int slots;                    // k
};

/* dx[i] = Σ_s drows[row_of_slot[i,s]], in the order of s. */
struct mt_dispatch_backward_args {
    struct mt_tensor drows;       // [R,d]
    struct mt_tensor row_of_slot; // i32 [N,k]
    struct mt_tensor dx;          // [N,d]
    bool accumulate;
};

/*
 * y[i] = (y[i] +) base[i] + Σ_s weight[i,s] · rows[row_of_slot[i,s]]. While a token's rows are at hand, their
 * Gram matrix: gram[i,s,m] = <rows of s, rows of m>; 0 where either slot has no row. Without y it is that
 * alone.
 */
struct mt_combine_forward_args {
    struct mt_tensor rows;        // [R,d]
    struct mt_tensor row_of_slot; // i32 [N,k]
    struct mt_tensor weight;      // f32 [N,k]
    struct mt_tensor base;        // [N,d], optional: the residual
    struct mt_tensor y;           // [N,d], may be base itself; optional with gram, without base
    struct mt_tensor gram;        // f32 [N,k,k], optional output
    bool accumulate;              // y holds something already: the shared experts' output
};

/*
 * drows of (i,s) = weight[i,s]·dy[i] + Σ_m coupling[i,s,m] · rows of (i,m); dweight[i,s] = <dy[i], rows
 * of (i,s)>. coupling carries whatever depends on the rows through their Gram matrix alone: for a loss
 * with gradient Γ in gram it is Γ + Γᵀ; factor multiplies it. Without dy, which counts as zeros then, there
 * is no dweight either.
 */
struct mt_combine_backward_args {
    struct mt_tensor dy;          // [N,d], optional
    struct mt_tensor rows;        // [R,d]
    struct mt_tensor row_of_slot; // i32 [N,k]
    struct mt_tensor weight;      // f32 [N,k]
    struct mt_tensor coupling;    // f32 [N,k,k], optional
    struct mt_tensor drows;       // [R,d], may be rows itself; rows of no slot are untouched
    struct mt_tensor dweight;     // f32 [N,k], with dy
    struct mt_tensor factor;      // f32 [1], optional: 1
};

// ------------------------------------------------------------------ loss, optimizer, reductions

/*
 * Cross-entropy of logits = hidden·weightᵀ (+ bias) (+ hidden_xa·weight_lowᵀ: LoRA on the head), by
 * chunks of rows, so that [N,V] never exists. loss[i] = lse[i] - logit of labels[i]; a negative label is
 * ignored (loss 0, no gradient). With dloss, the gradients come out of the same pass.
 */
struct mt_cross_entropy_args {
    struct mt_tensor hidden;     // [N,d]
    struct mt_tensor weight;     // [V,d]
    struct mt_tensor bias;       // [V], optional
    struct mt_tensor hidden_xa;  // [N,r], optional, with weight_b
    struct mt_tensor weight_b;   // [V,r]
    struct mt_tensor labels;     // i32 [N], each < V
    struct mt_tensor loss;       // f32 [N], output
    struct mt_tensor lse;        // f32 [N], optional output
    struct mt_tensor dloss;      // f32 [N], optional: the gradient arriving at each loss
    struct mt_tensor dhidden;    // [N,d], optional output
    struct mt_tensor dweight;    // f32 [V,d], optional, accumulated
    struct mt_tensor dbias;      // f32 [V], optional, accumulated
    struct mt_tensor dhidden_xa; // [N,r], optional output
    struct mt_tensor dweight_b;  // f32 [V,r], optional, accumulated
    int chunk_rows;              // rows whose logits exist at once; 0: the device chooses
};

/*
 * AdamW, decoupled decay: g = grad·grad_scale; m = β1 m + (1-β1) g; v = β2 v + (1-β2) g²;
 * p = p·(1 - lr·decay) - lr · (m/(1-β1^step)) / (sqrt(v/(1-β2^step)) + epsilon).
 */
struct mt_adamw_args {
    struct mt_tensor param;      // f32 [d] or [T,d], contiguous, updated
    struct mt_tensor grad;       // f32, the same shape
    struct mt_tensor m, v;       // f32, the same shape, updated
    struct mt_tensor param_copy; // optional output: param in another float type, for computing with
    float learning_rate, beta1, beta2, epsilon, weight_decay;
    float grad_scale; // clipping factor; 0 is refused
    int64_t step;     // counts from 1
};

enum mt_reduce_kind {
    MT_REDUCE_SUM,
    MT_REDUCE_SUM_SQUARES,
    MT_REDUCE_MAX_ABS,   // NaN if there is one
    MT_REDUCE_NONFINITE, // how many elements are NaN or infinite
};

/* One number out of a tensor, accumulated in double, in a fixed order. */
struct mt_reduce_args {
    struct mt_tensor x;   // [d] or [T,d]; strides free
    struct mt_tensor out; // f64 [1]
    enum mt_reduce_kind kind;
    bool accumulate; // out += (max: the larger) instead of out =
};

/*
 * What choosing the likeliest token and scoring a given one need of a row of logits: where the highest is,
 * the first of equals, or -1 where one of them is infinite or NaN; and log Σ_j exp(logits[r,j]), NaN in that
 * case.
 */
struct mt_logit_summary_args {
    struct mt_tensor logits;  // f32 [R,V]
    struct mt_tensor highest; // i32 [R], output
    struct mt_tensor log_sum; // f64 [R], optional output
};

// ------------------------------------------------------------------ the list

// One line per op. The enumerator MT_OP_x, the wrapper mt_x and the struct mt_x_args follow from it.
#define MT_OP_LIST(X)                                                                                        \
    X(gemm)                                                                                                  \
    X(grouped_gemm)                                                                                          \
    X(grouped_gemm_dw)                                                                                       \
    X(head_gemm)                                                                                             \
    X(grouped_sum)                                                                                           \
    X(grouped_swiglu)                                                                                        \
    X(grouped_swiglu_backward)                                                                               \
    X(dequantize)                                                                                            \
    X(lora_xa)                                                                                               \
    X(lora_dxa)                                                                                              \
    X(lora_da)                                                                                               \
    X(embedding_forward)                                                                                     \
    X(embedding_backward)                                                                                    \
    X(rmsnorm_forward)                                                                                       \
    X(rmsnorm_backward)                                                                                      \
    X(layernorm_forward)                                                                                     \
    X(layernorm_backward)                                                                                    \
    X(rope)                                                                                                  \
    X(mla_key_forward)                                                                                       \
    X(mla_key_backward)                                                                                      \
    X(attention_forward)                                                                                     \
    X(attention_backward)                                                                                    \
    X(attention_sink_forward)                                                                                \
    X(attention_sink_backward)                                                                               \
    X(swiglu_forward)                                                                                        \
    X(swiglu_backward)                                                                                       \
    X(bias_forward)                                                                                          \
    X(bias_backward)                                                                                         \
    X(grouped_bias_forward)                                                                                  \
    X(grouped_bias_backward)                                                                                 \
    X(sigmoid_gate_forward)                                                                                  \
    X(sigmoid_gate_backward)                                                                                 \
    X(axpby)                                                                                                 \
    X(rank_sum)                                                                                              \
    X(fill)                                                                                                  \
    X(copy)                                                                                                  \
    X(clamp_forward)                                                                                         \
    X(clamp_backward)                                                                                        \
    X(random_multiply)                                                                                       \
    X(dropout_bits)                                                                                          \
    X(router_score_forward)                                                                                  \
    X(router_score_backward)                                                                                 \
    X(topk)                                                                                                  \
    X(topk_weights_forward)                                                                                  \
    X(topk_weights_backward)                                                                                 \
    X(sparsemixer_forward)                                                                                   \
    X(sparsemixer_backward)                                                                                  \
    X(dispatch_plan)                                                                                         \
    X(dispatch_forward)                                                                                      \
    X(dispatch_backward)                                                                                     \
    X(combine_forward)                                                                                       \
    X(combine_backward)                                                                                      \
    X(cross_entropy)                                                                                         \
    X(adamw)                                                                                                 \
    X(reduce)                                                                                                \
    X(logit_summary)                                                                                         \
    X(column_stats_forward)                                                                                  \
    X(column_stats_backward)                                                                                 \
    X(slot_stats_forward)                                                                                    \
    X(slot_stats_backward)                                                                                   \
    X(router_zloss_forward)                                                                                  \
    X(router_zloss_backward)                                                                                 \
    X(router_orth_forward)                                                                                   \
    X(router_orth_backward)                                                                                  \
    X(ortho_forward)                                                                                         \
    X(ortho_backward)                                                                                        \
    X(stat_values)                                                                                           \
    X(row_noise)                                                                                             \
    X(dominance_forward)                                                                                     \
    X(dominance_backward)                                                                                    \
    X(joint_mass_forward)                                                                                    \
    X(joint_mass_backward)                                                                                   \
    X(slot_drop)                                                                                             \
    X(balance_quantile)                                                                                      \
    X(unchosen_backward)                                                                                     \
    X(given_experts)                                                                                         \
    X(expert_pool)                                                                                           \
    X(pool_mask)

enum mt_op {
#define MT_OP_ENUM(name) MT_OP_##name,
    MT_OP_LIST(MT_OP_ENUM)
#undef MT_OP_ENUM
        MT_OP_COUNT
};

/* The name of an op as it stands in the list. */
const char *mt_op_name(enum mt_op op);

/*
 * Runs an op: checks the arguments, readies scratch, calls the device. `args` points to the op's own
 * struct; use the typed wrappers below.
 */
enum mt_status mt_op_run(struct mt_device *device, enum mt_op op, const void *args);

#define MT_OP_WRAPPER(name)                                                                                  \
    static inline enum mt_status mt_##name(struct mt_device *device, const struct mt_##name##_args *args)    \
    {                                                                                                        \
        return mt_op_run(device, MT_OP_##name, args);                                                        \
    }
MT_OP_LIST(MT_OP_WRAPPER)
#undef MT_OP_WRAPPER

MT_PUBLIC_END

#endif
