/* What judges agree on, for the verbs that judge. */
#ifndef MT_CLI_AGREEMENT_H
#define MT_CLI_AGREEMENT_H

#include "metier/context.h"

/* Reads all of a run, stores the agreement in its results.json and prints it. */
enum mt_status cli_agreement(struct mt_context *ctx, const char *folder);

/* Merges the marks a review page saved into a run, then the same. */
enum mt_status cli_merge_review(struct mt_context *ctx, const char *folder, const char *marks);

#endif
