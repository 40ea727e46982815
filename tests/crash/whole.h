/*
 * What may be seen after a crash.
 *
 * A file, or a folder that counts as one thing, is whole when it is as it was at a moment the program meant
 * it to be seen: when it was renamed to its name, when a program had ended (a mark in the log), or when it
 * was not there. It may be as old as at the last mark, not older: what a program that has ended well wrote is
 * safe. Names with ".tmp." in them are nobody's.
 *
 * A file of lines that grows has whole lines the program wrote, from the first on, and then at most a torn
 * end: from the first line with a zero byte or without a newline on, nothing counts.
 */
#ifndef CRASH_WHOLE_H
#define CRASH_WHOLE_H

#include "crash/loss.h"

#define CRASH_PATTERNS 16

/* Globs on paths; '*' does not match '/'. */
struct crash_rules {
    const char *folder[CRASH_PATTERNS]; // one thing each
    const char *lines[CRASH_PATTERNS];
    const char *free[CRASH_PATTERNS];    // may hold anything
    const char *promise[CRASH_PATTERNS]; // a program that has written such a text counts on all but its lines
};

/* One path as it was from an operation on. */
struct crash_moment {
    char *path; // owned
    size_t op;
    uint64_t digest; // 0: not there
};

struct crash_moments {
    struct crash_moment *moment;
    size_t count;
};

struct crash_tally {
    size_t crashes;
    size_t lost_names; // crashes that lost some
    size_t older;      // things that were there, but not the newest
    size_t missing;    // things that were not there, though they had been
    size_t torn;       // files of lines with an end that does not count
    size_t broken;     // neither whole nor lines
    uint64_t *marred;  // owned; seeds of crashes that left something older, missing or torn
    size_t marred_count;
};

/* All moments of a history at which something was meant to be seen. */
struct crash_moments crash_moments_find(const struct crash_history *history);

void crash_moments_free(struct crash_moments *moments);

void crash_tally_free(struct crash_tally *tally);

/* Looks at all that is there after a crash, prints what should not be, and counts. */
void crash_check(const struct crash_state *state, const struct crash_moments *moments,
                 const struct crash_rules *rules, struct crash_tally *tally);

#endif
