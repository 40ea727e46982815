/*
 * The version of the headers, and of the library that runs. docs/library.md says what a version promises.
 *
 * All of these may be called by any thread at any time; texts live forever.
 */
#ifndef METIER_VERSION_H
#define METIER_VERSION_H

#include "metier/export.h"

MT_PUBLIC_BEGIN

#define MT_VERSION_MAJOR 0
#define MT_VERSION_MINOR 2
#define MT_VERSION_PATCH 0

/* "0.2.0", of the library that is loaded. */
const char *mt_version(void);

/* The commit it was built from, with "+" behind it where files had been changed; "" where that is not known.
 */
const char *mt_version_commit(void);

MT_PUBLIC_END

#endif
