/*
 * How much of each part's effect is there: least squares, with an error for each answer.
 *
 * Each value is one token's log-probability after one text. With x_p[i] what part p adds to value i and r[i]
 * what the server's value is above ours, it finds the presence u that makes |r - Σ u_p x_p|² least. Values of
 * one text err together, so the error of u_p counts texts (a sandwich estimate, clusters = texts), and is
 * never below the one that holds for values that err alone. After some texts a server that rounds chooses
 * other experts: texts that stay farther from the fit than twice the median text count less, down to a fifth.
 */
#ifndef MT_INFER_FIT_H
#define MT_INFER_FIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct mt_fit_values {
    size_t count;       // of values
    const size_t *text; // [count] whose it is, ascending
    const double *rest; // [count] r
    int parts;
    const double *effect; // [parts,count] x
};

struct mt_fitted {
    double presence; // u
    double error;    // one standard error; infinite where the values do not show the part
};

/* fitted[parts]. */
enum mt_status mt_fit(struct mt_context *ctx, const struct mt_fit_values *values, struct mt_fitted *fitted);

/* The median over texts of the root mean square of their numbers. Scratch: [count]. */
double mt_fit_typical(const double *numbers, const size_t *text, size_t count, double *scratch);

/* The root mean square of numbers. */
double mt_fit_rms(const double *numbers, size_t count);

#endif
