/* Routers' rows against each other and against experts. */
#include "analysis/coupling.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

void mt_coupling_rows(const float *gram, int experts, struct mt_coupling_figures *figures)
{
    size_t n = (size_t)experts;
    double sum = 0.0;
    double absolute = 0.0;
    double pairs = 0.5 * (double)n * ((double)n - 1.0);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            double lengths = (double)gram[i * n + i] * (double)gram[j * n + j];
            double cosine = lengths != 0.0 ? (double)gram[i * n + j] / sqrt(lengths) : 0.0;
            cosine = cosine > 1.0 ? 1.0 : cosine < -1.0 ? -1.0 : cosine; // NaN stays
            sum += cosine;
            absolute += fabs(cosine);
        }
    }
    figures->row_cos = n > 1 ? sum / pairs : (double)NAN;
    figures->row_abs_cos = n > 1 ? absolute / pairs : (double)NAN;
}

void mt_coupling_norms(const double *norms, int experts, struct mt_coupling_figures *figures)
{
    size_t n = (size_t)experts;
    double own = 0.0;
    double others = 0.0;
    double largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double mine = norms[i * n + i];
        bool is_largest = isfinite(mine);
        for (size_t j = 0; j < n; j++) {
            if (j == i) continue;
            others += norms[i * n + j];
            is_largest = is_largest && mine > norms[i * n + j] && mine > norms[j * n + i];
        }
        own += mine;
        largest += is_largest ? 1.0 : 0.0;
    }
    figures->diagonal = largest / (double)n;
    figures->dominance = n > 1 && others != 0.0 ? own * ((double)n - 1.0) / others : (double)NAN;
}
