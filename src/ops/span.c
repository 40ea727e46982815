/* The code of span.h for the host. */
#include "ops/span.h"

#define MT_SPAN_CODE static inline
#include "ops/span_code.h"

double mt_ortho_span_value(const double *gram, int n, int rows, double epsilon, double rounding,
                           double *workspace)
{
    return span_value(gram, n, rows, epsilon, rounding, workspace);
}

void mt_ortho_span_gradient(const double *gram, int n, double epsilon, double rounding, double *gradient,
                            double *workspace)
{
    span_gradient(gram, n, epsilon, rounding, gradient, workspace);
}
