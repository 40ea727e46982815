/*
 * The context: what the library would otherwise keep in globals. It carries the allocator every
 * host allocation goes through, the message of the last failure, and byte counts.
 *
 * A context belongs to one thread at a time. Code inside a parallel region neither allocates nor
 * fails: it is handed its memory and its checked arguments.
 */
#ifndef METIER_CONTEXT_H
#define METIER_CONTEXT_H

#include <stddef.h>

#include "metier/export.h"
#include "metier/status.h"

MT_PUBLIC_BEGIN

#define MT_MESSAGE_BYTES 1024

/*
 * Where host memory comes from. A test replaces it to make the N-th call fail; an embedding program
 * replaces it with its own. `allocate` returns NULL on failure; `release` gets the same byte count
 * that was asked for.
 */
struct mt_allocator {
    void *(*allocate)(void *self, size_t bytes, size_t alignment); // alignment: a power of two
    void (*release)(void *self, void *block, size_t bytes);
    void *self; // borrowed; handed to both calls
};

struct mt_context {
    struct mt_allocator allocator;
    size_t live_bytes;              // now allocated through this context
    size_t peak_bytes;              // highest live_bytes ever
    const char *forbidden_phase;    // not NULL: allocating is an error, in the phase so named (borrowed)
    char message[MT_MESSAGE_BYTES]; // of the last failure; "" before the first
    size_t limit_bytes;             // of live_bytes: what goes beyond is refused; 0: none
};

/* Prepares a caller-owned context. NULL allocator means the system's. */
void mt_context_init(struct mt_context *ctx, const struct mt_allocator *allocator);

/*
 * Records a failure and returns its status, so that it can stand in a return statement:
 *     return mt_fail(ctx, MT_ERR_SHAPE, "gemm: a has %lld columns, b has %lld rows", ...);
 */
enum mt_status mt_fail(struct mt_context *ctx, enum mt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "where: " before the message already recorded, for a caller that knows more. */
enum mt_status mt_fail_within(struct mt_context *ctx, enum mt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * While a phase is named, every allocation through this context fails with MT_ERR_INTERNAL: the step
 * loop must not allocate. NULL ends the phase. The string is borrowed.
 */
void mt_context_forbid_allocation(struct mt_context *ctx, const char *phase);

/*
 * Allocates `bytes` (0 gives a valid, unusable block), aligned for any SIMD load (64 bytes). The
 * content is undefined. The caller frees with mt_release and the same byte count.
 */
enum mt_status mt_allocate(struct mt_context *ctx, size_t bytes, void **block);

/* count · size bytes, zeroed; refuses when the product does not fit size_t. */
enum mt_status mt_allocate_array(struct mt_context *ctx, size_t count, size_t size, void **block);

/* Grows or shrinks a block; on failure the old block is untouched and still the caller's. */
enum mt_status mt_reallocate(struct mt_context *ctx, size_t old_bytes, size_t new_bytes, void **block);

/* Frees a block; NULL is allowed. */
void mt_release(struct mt_context *ctx, void *block, size_t bytes);

MT_PUBLIC_END

#endif
