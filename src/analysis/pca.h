/*
 * Principal components of points: the directions in which they spread most, and where each point lies along
 * them. As scikit-learn's PCA: points are centred, variances have the divisor N - 1, and an axis points so
 * that its entry of largest magnitude is positive (the first of equals).
 */
#ifndef MT_ANALYSIS_PCA_H
#define MT_ANALYSIS_PCA_H

#include <stdint.h>

#include "metier/context.h"

struct mt_pca {
    struct mt_context *ctx; // borrowed; NULL: none
    int64_t count;          // N
    int64_t width;          // d
    int components;         // p: as asked, at most min(N, d)
    double total_variance;  // of all directions together
    double residual;        // largest |C v - λ v| / λ_1 of the components: how well they were found
    double *variance;       // [p], falling
    double *axes;           // [p,d], length 1
    double *mean;           // [d]
    double *points;         // [N,p]: the points along the axes
    double *memory;         // owned; what the above point into
    size_t numbers;         // of them
};

/* data [N,d], N >= 2. The caller frees. The seed starts the search, and does not show in what is found. */
enum mt_status mt_pca_find(struct mt_context *ctx, const float *data, int64_t count, int64_t width,
                           int components, uint64_t seed, struct mt_pca *pca);
void mt_pca_free(struct mt_pca *pca); // a zeroed struct is allowed

/*
 * Eigenvalues and eigenvectors of a small symmetric matrix. matrix[size,size] is used up; values[size] fall,
 * vectors[size,size] has the vector of value i in row i.
 */
void mt_eigen_symmetric(double *matrix, int size, double *values, double *vectors);

#endif
