/*
 * The numbers a cell is measured by. docs/analysis.md has the formulas of routing and geometry; they are
 * means over MoE layers, of held-out problems of the domain trained on.
 */
#ifndef MT_COMPARE_FIGURES_H
#define MT_COMPARE_FIGURES_H

#include <stdbool.h>

enum mt_compare_figure {
    MT_COMPARE_ACCURACY,
    MT_COMPARE_ACCURACY_OTHERS,
    MT_COMPARE_LOSS,
    MT_COMPARE_LOSS_OTHERS,
    MT_COMPARE_MAXVIO,
    MT_COMPARE_MAXVIO_BATCH,
    MT_COMPARE_ENTROPY,
    MT_COMPARE_OVERLAP,
    MT_COMPARE_SILHOUETTE,
    MT_COMPARE_OVERLAP_OUT,
    MT_COMPARE_SILHOUETTE_OUT,
    MT_COMPARE_RV_TOKEN,
    MT_COMPARE_RV_EXPERT,
    MT_COMPARE_ABS_COS,
    MT_COMPARE_INFORMATION,
    MT_COMPARE_GINI, // this and those that follow are missing in files of older versions
    MT_COMPARE_EFFECTIVE,
    MT_COMPARE_EXPERTS_90,
    MT_COMPARE_LOAD_MIN,
    MT_COMPARE_LOAD_MAX,
    MT_COMPARE_PATH_ENTROPY,
    MT_COMPARE_PATH_INFORMATION,
    MT_COMPARE_ROUTER_COS,
    MT_COMPARE_ROUTER_ABS_COS,
    MT_COMPARE_ERC_DIAGONAL,
    MT_COMPARE_ERC_DOMINANCE,
    MT_COMPARE_SAME_EXPERTS, // of quantised cells, beside their weights as stored
    MT_COMPARE_SAME_SLOTS,
    MT_COMPARE_MAXVIO_MIX, // over all domains trained on together, each with the same share of slots
    MT_COMPARE_ENTROPY_MIX,
    MT_COMPARE_LOAD_MIN_MIX,
    MT_COMPARE_SECONDS,   // of a step; this and those that follow differ from run to run
    MT_COMPARE_PROCESSOR, // seconds of all processors together, of a step
    MT_COMPARE_MEMORY,    // bytes held at most while training
    MT_COMPARE_FIGURES
};

struct mt_compare_figure_row {
    const char *name;  // as in JSON
    const char *title; // for people, short
    const char *formula;
    int better;    // 1: higher is, -1: lower is, 0: nobody says
    double factor; // shown times this
    int decimals;  // shown
};

const struct mt_compare_figure_row *mt_compare_figure_row(enum mt_compare_figure figure);

/* True for figures of one domain that was trained on: those of a mix are means over its parts. */
bool mt_compare_is_of_domain(enum mt_compare_figure figure);

/* True for figures that differ from run to run: times and memory. */
bool mt_compare_is_time(enum mt_compare_figure figure);

#endif
