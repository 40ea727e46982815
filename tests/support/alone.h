/* Which methods can be evaluated on the arrays of one layer, for tests that go through the list. */
#ifndef MT_TESTS_ALONE_H
#define MT_TESTS_ALONE_H

#include "metier/objective.h"

static inline bool is_alone(const struct mt_objective_config *config)
{
    int beyond = MT_NEEDS_NEIGHBOURS | MT_NEEDS_INNER_GRAM | MT_NEEDS_PROXIES;
    return (mt_objective_needs(config) & beyond) == 0;
}

#endif
