/* What the rules share. */
#ifndef MT_OBJECTIVE_SELECTION_SELECTION_H
#define MT_OBJECTIVE_SELECTION_SELECTION_H

#include "metier/objective.h"

/* The slots of all experts. */
double mt_selection_total(const double *load, int experts);

/*
 * (mean - load) / mean of one expert; the total is not 0. Loads are whole numbers, so that total and n · load
 * are exact and an expert at the mean gets 0: a rounded mean would lie above or below it.
 */
double mt_selection_shortfall(double total, int experts, double load);

/* Refuses routers that choose without a bias. */
enum mt_status mt_selection_check_bias(struct mt_context *ctx, const struct mt_router_config *router);

#endif
