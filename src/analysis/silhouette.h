/* The silhouette of one point: (b - a) / max(a, b); 0 for a label's only point. */
#ifndef MT_ANALYSIS_SILHOUETTE_H
#define MT_ANALYSIS_SILHOUETTE_H

#include "analysis/distances.h"

/* value[N]: the row of the place `asked`. There are two labels at least. */
double mt_silhouette_point(const struct mt_distances *distances, int64_t asked, const double *value);

#endif
