/*
 * Which rows of a figure are drawn when it has more than anybody can see. LINES: every series is cut into
 * runs of consecutive rows, and of each run the rows with the lowest and the highest y stay, so that no spike
 * is lost; the first and the last row of a series stay as well. SCATTER: every so-manyth row of a series.
 * Others: all.
 */
#ifndef MT_REPORT_THIN_H
#define MT_REPORT_THIN_H

#include "report/page.h"

#define MT_THIN_ROWS 20000 // of a figure in a page or a picture

struct mt_thinned {
    struct mt_context *ctx; // borrowed
    bool *keep;             // owned: [rows]; NULL: all of them
    size_t rows;            // of the figure
    size_t kept;
};

/* Decides; the caller frees. */
enum mt_status mt_thin(const struct mt_figure *figure, size_t most_rows, struct mt_thinned *thinned);
void mt_thinned_free(struct mt_thinned *thinned); // a zeroed struct is allowed

static inline bool mt_thinned_has(const struct mt_thinned *thinned, size_t row)
{
    return thinned->keep == NULL || thinned->keep[row];
}

#endif
