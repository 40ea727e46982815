/* What the rules share. */
#ifndef MT_OBJECTIVE_SELECTION_SELECTION_H
#define MT_OBJECTIVE_SELECTION_SELECTION_H

#include "metier/objective.h"

/* Refuses routers that choose without a bias. */
enum mt_status mt_selection_check_bias(struct mt_context *ctx, const struct mt_router_config *router);

#endif
