/*
 * What a disk holds after the power failed: a seeded choice among all that may be.
 *
 * Safe is what was synced: a file's bytes and size up to its last fsync, a folder's names up to the folder's.
 * Of the rest anything may be lost, and what is kept need not be what came first:
 * - Changes of names: any of them, but each with those it stands on: earlier ones of the same name, and the
 * emptying of a folder that goes. A rename is kept or lost as one. Syncing a file does not keep its name,
 * syncing a folder does not keep the folder's own: what is in a folder without a name is gone. In every other
 * crash names are kept in order instead, as journals do.
 * - Sizes: as it was after any of the unsynced writes, whatever became of their bytes.
 * - Bytes, in blocks of 4 KiB: each as it was after any of the unsynced writes; zero where none arrived.
 */
#ifndef CRASH_LOSS_H
#define CRASH_LOSS_H

#include "crash/history.h"

struct crash_state {
    const struct crash_history *history; // borrowed
    size_t at;                           // operations before the crash
    bool whole;                          // nothing is lost
    uint64_t seed;
    unsigned keep; // percent of blocks and sizes that are as the program left them; the rest is any
    size_t lost_names;
    struct crash_tree tree;
};

struct crash_content {
    unsigned char *data; // owned
    size_t bytes;
};

/* The crash of a seed. The history has at least one operation. */
struct crash_state crash_lose(const struct crash_history *history, uint64_t seed);

/* What the program left after so many operations. */
struct crash_state crash_keep_all(const struct crash_history *history, size_t at);

void crash_state_free(struct crash_state *state);

/* What a file holds. The caller frees data. */
struct crash_content crash_state_file(const struct crash_state *state, size_t node);

#endif
