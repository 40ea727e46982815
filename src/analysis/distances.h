/*
 * Distances from some points to all, a block of points at a time.
 *
 * Points are sorted by label, so that a label's points are neighbours, and centred (Euclidean) or brought to
 * length 1 (cosine). A block's products with all points are one matrix product in f32, from which
 *
 *     Euclidean  d² = |x|² + |y|² - 2 xy        cosine  d = 1 - xy
 *
 * follow (times a power of two that keeps f32 in range) with an error of about eps·√d·|x||y|. Pairs so close
 * that this would show are computed again from the points themselves, in double.
 */
#ifndef MT_ANALYSIS_DISTANCES_H
#define MT_ANALYSIS_DISTANCES_H

#include <stdbool.h>
#include <stdint.h>

#include "metier/buffer.h"
#include "metier/device.h"

#define MT_DISTANCE_BLOCK 256 // points asked at a time

enum mt_distance {
    MT_DISTANCE_EUCLIDEAN,
    MT_DISTANCE_COSINE, // 1 - cos; of a vector without length 1 to everything
};

struct mt_points {
    int64_t count;         // N
    int64_t width;         // d
    const float *data;     // [N,d]
    const int32_t *labels; // [N], >= 0
};

struct mt_distances {
    struct mt_device *device; // borrowed
    struct mt_context *ctx;   // borrowed; NULL: not open
    struct mt_points points;  // as given; borrowed
    enum mt_distance distance;
    double scale;              // Euclidean: values are of the points times this, a power of two
    int64_t *order;            // [N]: place in sorted order -> point as given
    int64_t label_count;       // different ones
    int64_t *label_start;      // [label_count + 1]: their places
    int32_t *label_of;         // [N]: place -> number of its label in [0, label_count)
    double *square;            // [N]: |x|² of what is on the device, by place; cosine: 1
    double *length;            // [N]: its root
    double *norm;              // [N]: |x| of the point as given, by place; for exact cosines
    struct mt_buffer all;      // [N,d], by place
    struct mt_buffer asked;    // [MT_DISTANCE_BLOCK,d]
    struct mt_buffer products; // [MT_DISTANCE_BLOCK,N]
    float *host;               // [MT_DISTANCE_BLOCK,N]: the products
};

/* The caller closes; points outlive it. Refuses numbers that are not finite. */
enum mt_status mt_distances_open(struct mt_device *device, const struct mt_points *points,
                                 enum mt_distance distance, struct mt_distances *distances);
void mt_distances_close(struct mt_distances *distances); // a zeroed struct is allowed

/* Makes the products of `count` (at most MT_DISTANCE_BLOCK) places with all. */
enum mt_status mt_distances_block(struct mt_distances *distances, const int64_t *places, int64_t count);

/*
 * Of row `row` of the block, which is the place `asked`: value[N] = d² (Euclidean) or d (cosine), and how far
 * each may be off, error[N]; 0: not at all, but for double's own rounding.
 */
void mt_distances_row(const struct mt_distances *distances, int64_t row, int64_t asked, double *value,
                      double *error);

/* The value of one pair of places in double. */
double mt_distances_exact(const struct mt_distances *distances, int64_t a, int64_t b);

#endif
