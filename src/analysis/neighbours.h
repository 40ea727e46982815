/*
 * The nearest neighbours of a point among the others, and whether they carry its label. As scikit-learn's
 * NearestNeighbors(...).kneighbors() of the set itself: the k + 1 nearest of all points, of which the point
 * itself is left out, or the first where duplicates pushed it off. Of equal distances the lower index is
 * nearer.
 */
#ifndef MT_ANALYSIS_NEIGHBOURS_H
#define MT_ANALYSIS_NEIGHBOURS_H

#include "analysis/distances.h"

struct mt_neighbour {
    double value;  // d² or d
    int64_t point; // as given
    int64_t place; // in sorted order
};

/*
 * Finds the k (at most N - 1) nearest of the place `asked`; value and error are its row. `nearest` has room
 * for k + 1; the first k are the answer, nearest first.
 */
void mt_neighbours_find(const struct mt_distances *distances, int64_t asked, const double *value,
                        const double *error, int k, struct mt_neighbour *nearest);

/* The share of them with another label than `asked`. */
double mt_neighbours_overlap(const struct mt_distances *distances, int64_t asked,
                             const struct mt_neighbour *nearest, int k);

#endif
