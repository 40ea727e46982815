/*
 * The list of the objective's terms. A new one is a file in src/objective/terms, which defines its
 * mt_term_kind, and a line here: keys, logs, reports and help texts follow the list.
 */
#ifndef METIER_TERMS_H
#define METIER_TERMS_H

#include "metier/export.h"

MT_PUBLIC_BEGIN

/* TERM(enumerator, name of its mt_term_kind, key of its coefficient, what that key means) */
#define MT_TERMS(TERM) MT_REFERENCE_TERM(TERM) MT_OTHER_TERMS(TERM)

/* Whose coefficient others may be given as multiples of (c_o, c_v). */
#define MT_REFERENCE_TERM(TERM) TERM(AUX, aux, "alpha", "strength of L_aux")

#define MT_OTHER_TERMS(TERM)                                                                                 \
    TERM(O, ortho, "beta", "strength of L_o")                                                                \
    TERM(V, variance, "gamma", "strength of L_v")                                                            \
    TERM(Z, zloss, "zeta", "strength of the router z-loss")                                                  \
    TERM(ROUTER_ORTH, router_orth, "lambda_orth", "strength of router orthogonality (ERNIE)")                \
    TERM(SIMBAL, simbal, "lambda_simbal", "strength of SimBal")                                              \
    TERM(ERC, erc, "lambda_erc", "strength of expert-router coupling (ERC)")                                 \
    TERM(SP, sp, "lambda_sp", "strength of specialization within a layer")                                   \
    TERM(CP, cp, "lambda_cp", "strength of coupling across layers")

#define MT_TERM_ENUMERATOR(id, kind, key, meaning) MT_TERM_##id,

enum mt_term { MT_TERMS(MT_TERM_ENUMERATOR) MT_TERM_COUNT };

MT_PUBLIC_END

#endif
