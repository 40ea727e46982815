/* Arena: a list of blocks, bump allocation in the newest. */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ARENA_ALIGNMENT 16

struct mt_arena_block {
    struct mt_arena_block *next;
    size_t capacity; // bytes of data
    size_t used;
    size_t padding; // keeps `data` 16-byte aligned
    unsigned char data[];
};

void mt_arena_init(struct mt_arena *arena, struct mt_context *ctx, size_t block_bytes)
{
    *arena = (struct mt_arena){.ctx = ctx, .block_bytes = block_bytes};
}

_Static_assert(offsetof(struct mt_arena_block, data) % ARENA_ALIGNMENT == 0, "data is aligned as promised");

/* A new block, first in the list; one made for a single large thing goes second, so the first stays in use.
 */
static enum mt_status add_block(struct mt_arena *arena, size_t capacity, struct mt_arena_block **added)
{
    void *memory = NULL;
    if (capacity > SIZE_MAX - sizeof(struct mt_arena_block)) {
        return mt_fail(arena->ctx, MT_ERR_MEMORY, "cannot allocate %zu bytes: too large to address",
                       capacity);
    }
    enum mt_status status = mt_allocate(arena->ctx, sizeof(struct mt_arena_block) + capacity, &memory);
    if (status != MT_OK) return status;
    struct mt_arena_block *block = memory;
    *block = (struct mt_arena_block){.capacity = capacity};
    bool second = arena->blocks != NULL && capacity > arena->block_bytes;
    struct mt_arena_block **place = second ? &arena->blocks->next : &arena->blocks;
    block->next = *place;
    *place = block;
    *added = block;
    return MT_OK;
}

enum mt_status mt_arena_allocate(struct mt_arena *arena, size_t bytes, void **memory)
{
    *memory = NULL;
    if (bytes > SIZE_MAX - ARENA_ALIGNMENT) {
        return mt_fail(arena->ctx, MT_ERR_MEMORY, "cannot allocate %zu bytes: too large to address", bytes);
    }
    size_t rounded = (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    struct mt_arena_block *block = arena->blocks;
    if (block == NULL || block->capacity - block->used < rounded) {
        size_t capacity = rounded > arena->block_bytes ? rounded : arena->block_bytes;
        enum mt_status status = add_block(arena, capacity, &block);
        if (status != MT_OK) return status;
    }
    *memory = block->data + block->used;
    block->used += rounded;
    memset(*memory, 0, rounded);
    return MT_OK;
}

void *mt_arena_array(struct mt_arena *arena, size_t count, size_t item_bytes, enum mt_status *status)
{
    void *memory = NULL;
    if (*status == MT_OK && item_bytes > 0 && count > SIZE_MAX / item_bytes)
        *status = mt_fail(arena->ctx, MT_ERR_MEMORY,
                          "cannot allocate %zu items of %zu bytes: too large to address", count, item_bytes);
    if (*status == MT_OK) *status = mt_arena_allocate(arena, count * item_bytes, &memory);
    return memory;
}

enum mt_status mt_arena_copy_text(struct mt_arena *arena, const char *text, size_t length, const char **copy)
{
    void *memory = NULL;
    *copy = NULL;
    if (length == SIZE_MAX) return mt_fail(arena->ctx, MT_ERR_MEMORY, "text too long to copy");
    enum mt_status status = mt_arena_allocate(arena, length + 1, &memory);
    if (status != MT_OK) return status;
    if (length > 0) memcpy(memory, text, length);
    *copy = memory;
    return MT_OK;
}

void mt_arena_free(struct mt_arena *arena)
{
    struct mt_arena_block *block = arena->blocks;
    while (block != NULL) {
        struct mt_arena_block *next = block->next;
        mt_release(arena->ctx, block, sizeof *block + block->capacity);
        block = next;
    }
    arena->blocks = NULL;
}
