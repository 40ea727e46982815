/*
 * How points with labels lie to each other: expert overlap and silhouette, of all points or of a sample of
 * them with a standard error.
 *
 *     overlap     mean over points of the share of their k nearest others that carry another label
 *     silhouette  mean over points of (b - a) / max(a, b), a: mean distance to the others of its label,
 *                 b: the smallest mean distance to the points of another label; 0 for a label's only point
 *
 * Distances come block by block out of a matrix product (distances.h); there is never an [N,N] matrix.
 */
#ifndef MT_ANALYSIS_GEOMETRY_H
#define MT_ANALYSIS_GEOMETRY_H

#include "analysis/distances.h"

struct mt_geometry_options {
    enum mt_distance distance;
    int neighbours;  // k of the overlap; min(k, N - 1) are looked at. 0: 10
    int64_t queries; // points that are asked, drawn by the seed, each against all N; 0: all, exact
    uint64_t seed;
    int threads; // 0: as many as the machine has; the figures are the same bits for any number
    bool no_overlap, no_silhouette; // not wanted: NaN
};

/* NaN: not defined. Overlap needs two points; silhouette 2 <= labels < N. */
struct mt_geometry_figures {
    int64_t points;          // N
    int64_t queries;         // points asked; N: exact
    int64_t labels;          // different ones
    double overlap;          // in [0, 1]
    double overlap_error;    // standard error of sampling; 0 when exact
    double silhouette;       // in [-1, 1]
    double silhouette_error; // standard error of sampling; 0 when exact
};

/*
 * Computes both in one pass. `device` makes the products; about (2·d + 512)·N floats are taken for it. Points
 * that are not finite are refused.
 */
enum mt_status mt_geometry(struct mt_device *device, const struct mt_points *points,
                           const struct mt_geometry_options *options, struct mt_geometry_figures *figures);

#endif
