/* The caller's variables, as the rendering sees them. */
#ifndef MT_TEXT_JINJA_VALUES_H
#define MT_TEXT_JINJA_VALUES_H

#include "text/jinja/run.h"

struct mt_jinja_values {
    struct mt_context *ctx; // borrowed
    struct mt_arena arena;
    struct jinja_scope scope;
};

#endif
