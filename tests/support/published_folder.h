/* Model folders in codes, as they are published. */
#ifndef MT_TESTS_PUBLISHED_FOLDER_H
#define MT_TESTS_PUBLISHED_FOLDER_H

#include "arch/published/published.h"

struct published_folder {
    enum mt_quantised_format format;
    bool nested;  // nf4's scales
    bool routers; // these, too
    bool experts; // the routed experts' matrices alone; else every linear layer but router and head
};

/*
 * Writes the model at `from` again at `to`, in codes. Returns 0 on success, after saying why otherwise.
 */
int published_folder_make(struct mt_context *ctx, const char *from, const char *to,
                          const struct published_folder *wanted);

#endif
