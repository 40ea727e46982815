/*
 * Arguments that a public function cannot do without. A program in another language, or one with a mistake in
 * it, hands over NULL: that gets a status and a sentence, as every other bad argument does.
 */
#ifndef MT_BASE_GIVEN_H
#define MT_BASE_GIVEN_H

#include "metier/context.h"

/* MT_ERR_USAGE and "FUNCTION: NAME is NULL" where it is. Without a context the status has no sentence. */
static inline enum mt_status mt_given(struct mt_context *ctx, const char *function, const char *name,
                                      const void *argument)
{
    if (argument != NULL) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "%s: %s is NULL", function, name);
}

#endif
