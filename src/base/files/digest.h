/*
 * Checksums of data on disk: XXH3, 128 bits. They tell accidents (torn writes, flipped bits) from what was
 * written; they are no protection against somebody who wants to deceive.
 */
#ifndef MT_BASE_DIGEST_H
#define MT_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "metier/context.h"

#define MT_DIGEST_DIGITS 32 // hexadecimal, lower case

struct mt_digest; // opaque: a checksum in the making

/* A finished checksum as text. */
struct mt_digest_text {
    char digits[MT_DIGEST_DIGITS + 1]; // NUL-terminated
};

/* The caller frees. */
enum mt_status mt_digest_create(struct mt_context *ctx, struct mt_digest **digest);
void mt_digest_free(struct mt_digest *digest); // NULL is allowed

void mt_digest_add(struct mt_digest *digest, const void *data, size_t bytes);

/* Of everything added so far, and how much that was. */
struct mt_digest_text mt_digest_finish(const struct mt_digest *digest);
uint64_t mt_digest_bytes(const struct mt_digest *digest);

/* Of one stretch of memory. */
struct mt_digest_text mt_digest_of(const void *data, size_t bytes);

/* 64 bits of one stretch of memory, the same on every machine; another key gives unrelated ones. */
uint64_t mt_digest_short(const void *data, size_t bytes, uint64_t key);

#endif
