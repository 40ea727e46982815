/*
 * How much of each part's effect is there: least squares, with an error for each answer.
 *
 * Each value is one token's log-probability after one text. With x_p[i] what part p adds to value i and r[i]
 * what the server's value is above ours, it finds the presence u that makes r - Σ u_p x_p small. After some
 * texts a server that rounds chooses other experts and is far off, so texts err as in Cauchy's distribution:
 * one that is f times as far off as the median weighs 1 / (1 + f²), found by repeated least squares. Values
 * of one text err together, so the error of u_p is that of the jackknife, which leaves out one text after the
 * other: it also sees where a single text decides. It is never below the one that holds for values that err
 * alone.
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
    double presence;   // u
    double error;      // one standard error; infinite where the values do not show the part
    double preference; // not set here: how far texts prefer that the part is there to that it is not
};

/* fitted[parts]. */
enum mt_status mt_fit(struct mt_context *ctx, const struct mt_fit_values *values, struct mt_fitted *fitted);

/*
 * Whether texts prefer r to r + x: log-likelihood ratios by Cauchy's distribution, one for each text, over
 * their standard error if they were 0 in the mean. One text counts for little, so that a few cannot decide.
 */
double mt_fit_preference(const struct mt_fit_values *values, const double *x, double *scratch);

/* The median over texts of the root mean square of their numbers. Scratch: [count]. */
double mt_fit_typical(const double *numbers, const size_t *text, size_t count, double *scratch);

/* The root mean square of numbers. */
double mt_fit_rms(const double *numbers, size_t count);

#endif
