/*
 * Status codes. Every fallible function returns one; what exactly went wrong (which file, which
 * tensor, which shapes) is a sentence left in the context, see metier/context.h.
 */
#ifndef METIER_STATUS_H
#define METIER_STATUS_H

#include "metier/export.h"

MT_PUBLIC_BEGIN

// One line per status: enumerator, text for people.
#define MT_STATUS_LIST(X)                                                                                    \
    X(MT_OK, "ok")                                                                                           \
    X(MT_ERR_MEMORY, "out of memory")                                                                        \
    X(MT_ERR_IO, "input/output error")                                                                       \
    X(MT_ERR_FORMAT, "malformed file")                                                                       \
    X(MT_ERR_USAGE, "bad argument")                                                                          \
    X(MT_ERR_SHAPE, "shape mismatch")                                                                        \
    X(MT_ERR_DTYPE, "data type not accepted")                                                                \
    X(MT_ERR_UNSUPPORTED, "not supported")                                                                   \
    X(MT_ERR_NUMERIC, "not a number")                                                                        \
    X(MT_ERR_LIMIT, "more work than allowed")                                                                \
    X(MT_ERR_INTERNAL, "broken invariant")

enum mt_status {
#define MT_STATUS_ENUM(name, text) name,
    MT_STATUS_LIST(MT_STATUS_ENUM)
#undef MT_STATUS_ENUM
        MT_STATUS_COUNT
};

/* The general text of a status; never NULL, lives forever. */
const char *mt_status_text(enum mt_status status);

MT_PUBLIC_END

#endif
