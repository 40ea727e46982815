/*
 * Arguments of the ops of LoRA pairs; part of metier/ops.h, whose rules hold here. A pair (A, B) adds
 * s · drop(x) Aᵀ Bᵀ to its linear layer of x. Up to MT_LORA_LINEARS layers that read one x in the same place
 * (gate and up; q, k and v) are taken together and share what drop keeps of it, so that x is read once for
 * all of them.
 *
 * Rows are sorted by expert: offsets[e] <= r < offsets[e+1] are those of expert e; rows from offsets[n] on
 * are untouched. The experts' matrices are lists of n views, borrowed; an absent one counts as zeros, and as
 * a gradient it is not wanted. i counts the layers, r_i is the rank of layer i's pair.
 */
#ifndef METIER_OPS_LORA_H
#define METIER_OPS_LORA_H

#include "metier/export.h"
#include "metier/tensor.h"

MT_PUBLIC_BEGIN

#define MT_LORA_LINEARS 3 // linear layers of one x taken together

/*
 * The pairs' middles: xa_i[r] = alpha · drop(x[r]) · A_i,eᵀ. With a mask, dropped elements of x count as 0
 * and kept ones are multiplied by mask_scale; without one drop(x) = x.
 */
struct mt_lora_xa_args {
    struct mt_tensor x;                         // [R,K]
    struct mt_tensor mask;                      // bits of dropout_bits, i32 [R,ceil(K/32)], optional
    float mask_scale;                           // 0 is refused where there is a mask
    int linears;                                // 1 .. MT_LORA_LINEARS
    const struct mt_tensor *a[MT_LORA_LINEARS]; // n views each: [r_i,K], of any float type; or absent
    float alpha;                                // 0 is refused
    struct mt_tensor xa[MT_LORA_LINEARS];       // [R,r_i]
    int experts;                                // n
    struct mt_tensor offsets;                   // i32 [n+1]; absent: one expert, all rows
    bool exact;                                 // as in gemm; without offsets only
};

/* A linear layer's part in lora_dxa. */
struct mt_lora_pair_gradient {
    struct mt_tensor dy;        // [R,N_i]
    struct mt_tensor xa;        // [R,r_i], as lora_xa made it; needed with db
    const struct mt_tensor *b;  // n views: [N_i,r_i], of any float type; or absent
    const struct mt_tensor *db; // n views: f32 [N_i,r_i], accumulated, or absent; NULL: none is wanted
    float scale;                // of dxa: s; 0 is refused
    float db_scale;             // of dB: s where xa has alpha 1; 0 is refused where there is db
    struct mt_tensor dxa;       // [R,r_i]
};

/* What dy_i leads to: dxa_i = scale · dy_i · B_i,e and dB_i,e += db_scale · dy_i,eᵀ · xa_i,e. */
struct mt_lora_dxa_args {
    int linears; // 1 .. MT_LORA_LINEARS
    struct mt_lora_pair_gradient linear[MT_LORA_LINEARS];
    int experts;              // n
    struct mt_tensor offsets; // i32 [n+1]; absent: one expert, all rows
};

/* dA_i,e += dxa_i,eᵀ · drop(x_e), drop as in lora_xa. */
struct mt_lora_da_args {
    struct mt_tensor x;                          // [R,K]
    struct mt_tensor mask;                       // as in lora_xa
    float mask_scale;                            // as in lora_xa
    int linears;                                 // 1 .. MT_LORA_LINEARS
    struct mt_tensor dxa[MT_LORA_LINEARS];       // [R,r_i]
    const struct mt_tensor *da[MT_LORA_LINEARS]; // n views each: f32 [r_i,K], accumulated, or absent
    int experts;                                 // n
    struct mt_tensor offsets;                    // i32 [n+1]; absent: one expert, all rows
};

MT_PUBLIC_END

#endif
