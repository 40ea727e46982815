/* A PCRE2 pattern with limits on work and memory, and what it captured. */
#ifndef MT_EVAL_PATTERN_H
#define MT_EVAL_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "metier/context.h"

struct mt_pattern; // opaque

/* Compiles a pattern; the caller frees. A pattern that makes no sense is refused, with the place in it. */
enum mt_status mt_pattern_create(struct mt_context *ctx, const char *text, struct mt_pattern **pattern);
void mt_pattern_free(struct mt_pattern *pattern); // NULL is allowed

struct mt_pattern_match {
    size_t start, end; // of the first group that took part, or of the match
    size_t from, to;   // of the whole match
};

/*
 * Finds a match in valid UTF-8 at or behind `from`. False: there is none, or it could not be found out, which
 * mt_pattern_status tells: after the last search in a text it must be asked.
 */
bool mt_pattern_find(struct mt_pattern *pattern, const char *text, size_t bytes, size_t from,
                     struct mt_pattern_match *match);

/* The last of all matches, each found behind the one before. */
bool mt_pattern_find_last(struct mt_pattern *pattern, const char *text, size_t bytes,
                          struct mt_pattern_match *match);

/*
 * Whether all searches since the last call came to their end: MT_ERR_MEMORY for want of memory, MT_ERR_LIMIT
 * where they needed more work than a text of that length is allowed. The work is counted from one call to the
 * next.
 */
enum mt_status mt_pattern_status(struct mt_pattern *pattern);

#endif
