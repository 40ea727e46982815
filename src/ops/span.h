/*
 * How much of a row lies in the span of the others, by Gram-Schmidt, from inner products alone.
 *
 * For row x_a the other rows are taken in order and made orthogonal one after the other (modified
 * Gram-Schmidt), each then divided by its length + epsilon, which leaves it a little shorter than 1:
 *
 *     v_j = x_j, then for every earlier r: v_j -= <u_r, v_j> u_r;  u_j = v_j / (|v_j| + epsilon)
 *     loss of a = Σ_j |<u_j, x_a> u_j|²
 *
 * Every v_j is a combination of rows, v_j = Σ_m c_jm x_m, so its products h_jm = <v_j, x_m> with all rows
 * follow from the Gram matrix G, and so does every inner product: <v_r, v_j> = Σ_m c_rm h_jm. The rows
 * themselves are never needed, and nothing is left out: this is the algorithm, not an estimate of it.
 *
 * A row of which no more is left than rounding (|v_j|² <= n · rounding · G_jj) lies in the span of those
 * before it and adds nothing, neither to the loss nor to the gradient; a zero row is one of these. Without
 * this rule two equal rows whose products were rounded differently would have a direction made of noise, and
 * a gradient without bound. `rounding` is that of gram's entries: FLT_EPSILON where they come from an f32
 * tensor.
 *
 * All in double, in a fixed order, without allocation: the caller owns the workspace.
 */
#ifndef MT_OPS_SPAN_H
#define MT_OPS_SPAN_H

/* Doubles of workspace for n rows. */
#define MT_ORTHO_SPAN_VALUE_WORKSPACE(n)    (2 * (n) * (n) + 2 * (n))
#define MT_ORTHO_SPAN_GRADIENT_WORKSPACE(n) (5 * (n) * (n) + 5 * (n))

/*
 * (1/rows) Σ_{a < rows} loss of a, each against all n - 1 other rows; gram [n,n], 1 <= rows <= n. Costs
 * about rows · n³ multiplications.
 */
double mt_ortho_span_value(const double *gram, int n, int rows, double epsilon, double rounding,
                           double *workspace);

/*
 * gradient[a,b] = ∂ value / ∂ gram[a,b] with rows = n, [n,n]. Only gradient + its transpose has a meaning:
 * which of the two equal entries of gram a formula reads is arbitrary.
 */
void mt_ortho_span_gradient(const double *gram, int n, double epsilon, double rounding, double *gradient,
                            double *workspace);

#endif
