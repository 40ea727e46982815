/* Which rows of a figure are drawn. */
#include "report/thin.h"

#include <math.h>

/* A series on the way through the rows. */
struct series {
    size_t count;           // rows of it
    size_t position;        // rows seen
    size_t run;             // number of the run of rows at hand
    size_t lowest, highest; // rows of the run
    size_t last;
};

static void keep_row(struct mt_thinned *thinned, size_t row)
{
    thinned->kept += thinned->keep[row] ? 0 : 1;
    thinned->keep[row] = true;
}

static void thin_lines(const struct mt_figure *figure, size_t runs, struct series *series,
                       struct mt_thinned *thinned)
{
    const uint32_t *codes = figure->column[0].codes;
    const double *y = figure->column[2].numbers;
    for (size_t row = 0; row < thinned->rows; row++) {
        struct series *one = &series[codes[row]];
        size_t run = (size_t)((double)one->position / (double)one->count * (double)runs);
        if (one->position == 0) keep_row(thinned, row);
        if (one->position > 0 && run != one->run) {
            keep_row(thinned, one->lowest);
            keep_row(thinned, one->highest);
        }
        bool fresh = one->position == 0 || run != one->run;
        // A comparison with NaN is false, so a run of nothing but NaN keeps its first row: the gap.
        if (fresh || y[row] < y[one->lowest] || isnan(y[one->lowest])) one->lowest = row;
        if (fresh || y[row] > y[one->highest] || isnan(y[one->highest])) one->highest = row;
        one->run = run;
        one->last = row;
        one->position++;
    }
    for (size_t i = 0; i < figure->column[0].level_count; i++) {
        if (series[i].count == 0) continue;
        keep_row(thinned, series[i].lowest);
        keep_row(thinned, series[i].highest);
        keep_row(thinned, series[i].last);
    }
}

static void thin_scatter(const struct mt_figure *figure, size_t most_rows, struct series *series,
                         struct mt_thinned *thinned)
{
    size_t stride = (thinned->rows + most_rows - 1) / most_rows;
    for (size_t row = 0; row < thinned->rows; row++) {
        if (series[figure->column[0].codes[row]].position++ % stride == 0) keep_row(thinned, row);
    }
}

enum mt_status mt_thin(const struct mt_figure *figure, size_t most_rows, struct mt_thinned *thinned)
{
    struct mt_context *ctx = figure->page->ctx;
    size_t rows = mt_figure_rows(figure);
    bool lines = figure->head.kind == MT_FIGURE_LINES;
    void *series = NULL;
    void *keep = NULL;
    *thinned = (struct mt_thinned){.ctx = ctx, .rows = rows, .kept = rows};
    if (rows <= most_rows || (!lines && figure->head.kind != MT_FIGURE_SCATTER)) return MT_OK;
    size_t count = figure->column[0].level_count;
    enum mt_status status = mt_allocate_array(ctx, count, sizeof(struct series), &series);
    if (status == MT_OK) status = mt_allocate_array(ctx, rows, sizeof *thinned->keep, &keep);
    if (status == MT_OK) {
        struct series *each = series;
        size_t share = most_rows / count;
        thinned->keep = keep;
        thinned->kept = 0;
        for (size_t row = 0; row < rows; row++) each[figure->column[0].codes[row]].count++;
        if (lines) {
            thin_lines(figure, share > 4 ? (share - 2) / 2 : 1, each, thinned);
        } else {
            thin_scatter(figure, most_rows, each, thinned);
        }
    }
    mt_release(ctx, series, count * sizeof(struct series));
    return status;
}

void mt_thinned_free(struct mt_thinned *thinned)
{
    if (thinned->keep != NULL) mt_release(thinned->ctx, thinned->keep, thinned->rows * sizeof *thinned->keep);
    *thinned = (struct mt_thinned){0};
}
