/* Cells of compare.json files, as a leaderboard sees them. */
#ifndef MT_COMPARE_BOARD_CELLS_H
#define MT_COMPARE_BOARD_CELLS_H

#include "base/arena.h"
#include "compare/figures.h"

#define MT_BOARD_METRICS 56 // figures, benchmarks and probes together
#define MT_BOARD_CELLS   100000

/* A metric: one of the fixed figures, in their order, then what files have besides. */
struct mt_board_metric {
    struct mt_compare_figure_row row;
    bool probe; // no accuracy at the end of training, but one on the way or without some experts
    bool found; // some cell has it
};

struct mt_board_cell {
    const char *source, *base, *domain, *method;
    const char *path;      // of its file
    const char *reference; // the method that its comparison holds the others against
    double seed;
    double *value; // [MT_BOARD_METRICS], in the arena; NaN: not known
};

struct mt_board {
    struct mt_context *ctx; // borrowed
    struct mt_arena arena;
    struct mt_board_metric metric[MT_BOARD_METRICS];
    size_t metrics;
    struct mt_board_cell **cell; // [cells]
    size_t cells, capacity;
    size_t missing; // cells that a file names and that are not there
    size_t sources;
};

/* Whatever happens, the caller frees. */
void mt_board_init(struct mt_board *board, struct mt_context *ctx);
void mt_board_free(struct mt_board *board);

/* Adds the cells of a file; `source` is how they are told from those of other files. */
enum mt_status mt_board_read(struct mt_board *board, const char *path, const char *source);

#endif
