/*
 * Arena: many small things with one lifetime, freed together. Blocks come from the context's
 * allocator; nothing handed out is freed on its own.
 */
#ifndef MT_BASE_ARENA_H
#define MT_BASE_ARENA_H

#include <stddef.h>

#include "metier/context.h"

struct mt_arena_block;

struct mt_arena {
    struct mt_context *ctx;        // borrowed; outlives the arena
    struct mt_arena_block *blocks; // newest first
    size_t block_bytes;            // size of a normal block
};

/* Prepares a caller-owned arena; allocates nothing yet. */
void mt_arena_init(struct mt_arena *arena, struct mt_context *ctx, size_t block_bytes);

/* Zeroed memory, aligned to 16 bytes, that lives until mt_arena_free. */
enum mt_status mt_arena_allocate(struct mt_arena *arena, size_t bytes, void **memory);

/*
 * The same for an array, for who takes several: NULL where *status is a failure already, or becomes one.
 */
void *mt_arena_array(struct mt_arena *arena, size_t count, size_t item_bytes, enum mt_status *status);

/* A NUL-terminated copy of `length` bytes of text that lives until mt_arena_free. */
enum mt_status mt_arena_copy_text(struct mt_arena *arena, const char *text, size_t length, const char **copy);

/* Frees everything; the arena can be used again. */
void mt_arena_free(struct mt_arena *arena);

#endif
