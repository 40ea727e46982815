/*
 * Context: allocator, failure message, byte counts.
 */
#include "metier/context.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/columns.h"

#define ALIGNMENT 64 // one cache line, one AVX-512 register

static void *system_allocate(void *self, size_t bytes, size_t alignment)
{
    (void)self;
    // aligned_alloc wants a size that is a multiple of the alignment.
    if (bytes > SIZE_MAX - alignment) return NULL;
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    return aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
}

static void system_release(void *self, void *block, size_t bytes)
{
    (void)self;
    (void)bytes;
    free(block);
}

void mt_context_init(struct mt_context *ctx, const struct mt_allocator *allocator)
{
    if (ctx == NULL) return;
    memset(ctx, 0, sizeof *ctx);
    if (allocator != NULL) {
        ctx->allocator = *allocator;
    } else {
        ctx->allocator = (struct mt_allocator){.allocate = system_allocate, .release = system_release};
    }
}

enum mt_status mt_fail(struct mt_context *ctx, enum mt_status status, const char *format, ...)
{
    // Written aside first: an argument may be the old message itself.
    char message[MT_MESSAGE_BYTES] = "";
    va_list args;
    if (ctx == NULL) return status;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    // Files, servers and templates have a say in messages, which end on a terminal.
    mt_make_printable(message, strlen(message), false);
    memcpy(ctx->message, message, sizeof message);
    return status;
}

/* Adds as much of the text as fits. */
static void append(char message[MT_MESSAGE_BYTES], const char *text)
{
    size_t used = strlen(message);
    size_t room = MT_MESSAGE_BYTES - 1 - used;
    size_t length = strlen(text);
    if (length > room) length = room;
    memcpy(message + used, text, length);
    message[used + length] = '\0';
}

enum mt_status mt_fail_within(struct mt_context *ctx, enum mt_status status, const char *format, ...)
{
    char message[MT_MESSAGE_BYTES] = "";
    va_list args;
    if (ctx == NULL) return status;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (ctx->message[0] != '\0') {
        append(message, ": ");
        append(message, ctx->message);
    }
    mt_make_printable(message, strlen(message), false);
    memcpy(ctx->message, message, sizeof message);
    return status;
}

void mt_context_forbid_allocation(struct mt_context *ctx, const char *phase)
{
    if (ctx != NULL) ctx->forbidden_phase = phase;
}

enum mt_status mt_allocate(struct mt_context *ctx, size_t bytes, void **block)
{
    if (block == NULL || ctx == NULL) return mt_fail(ctx, MT_ERR_USAGE, "mt_allocate: block is NULL");
    *block = NULL;
    if (ctx->forbidden_phase != NULL) {
        return mt_fail(ctx, MT_ERR_INTERNAL, "cannot allocate %zu bytes: nothing may be allocated during %s",
                       bytes, ctx->forbidden_phase);
    }
    if (ctx->limit_bytes > 0 && (bytes > ctx->limit_bytes || ctx->live_bytes > ctx->limit_bytes - bytes)) {
        return mt_fail(ctx, MT_ERR_MEMORY, "cannot allocate %zu bytes: %zu are in use and the limit is %zu",
                       bytes, ctx->live_bytes, ctx->limit_bytes);
    }
    void *got = ctx->allocator.allocate(ctx->allocator.self, bytes, ALIGNMENT);
    if (got == NULL) {
        return mt_fail(ctx, MT_ERR_MEMORY, "cannot allocate %zu bytes (%zu in use)", bytes, ctx->live_bytes);
    }
    ctx->live_bytes += bytes;
    if (ctx->live_bytes > ctx->peak_bytes) ctx->peak_bytes = ctx->live_bytes;
    *block = got;
    return MT_OK;
}

enum mt_status mt_allocate_array(struct mt_context *ctx, size_t count, size_t size, void **block)
{
    if (block == NULL) return mt_fail(ctx, MT_ERR_USAGE, "mt_allocate_array: block is NULL");
    *block = NULL;
    if (size != 0 && count > SIZE_MAX / size) {
        return mt_fail(ctx, MT_ERR_MEMORY, "cannot allocate %zu items of %zu bytes: too large to address",
                       count, size);
    }
    enum mt_status status = mt_allocate(ctx, count * size, block);
    if (status == MT_OK) memset(*block, 0, count * size);
    return status;
}

enum mt_status mt_reallocate(struct mt_context *ctx, size_t old_bytes, size_t new_bytes, void **block)
{
    void *moved = NULL;
    if (block == NULL) return mt_fail(ctx, MT_ERR_USAGE, "mt_reallocate: block is NULL");
    enum mt_status status = mt_allocate(ctx, new_bytes, &moved);
    if (status != MT_OK) return status;
    if (*block != NULL) {
        memcpy(moved, *block, old_bytes < new_bytes ? old_bytes : new_bytes);
        mt_release(ctx, *block, old_bytes);
    }
    *block = moved;
    return MT_OK;
}

void mt_release(struct mt_context *ctx, void *block, size_t bytes)
{
    if (block == NULL) return;
    assert(bytes <= ctx->live_bytes); // else a byte count differs from what was asked for
    ctx->allocator.release(ctx->allocator.self, block, bytes);
    ctx->live_bytes -= bytes;
}
