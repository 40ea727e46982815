/* Checksums by libxxhash, whose state lies in memory of the context. */
#include "base/files/digest.h"

#include <stdio.h>

// The state's size, so that it need not come from malloc.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

struct mt_digest {
    XXH3_state_t state; // first: it wants the alignment of the block
    struct mt_context *ctx;
    uint64_t bytes;
};

static struct mt_digest_text as_text(XXH128_hash_t hash)
{
    struct mt_digest_text text;
    (void)snprintf(text.digits, sizeof text.digits, "%016llx%016llx", (unsigned long long)hash.high64,
                   (unsigned long long)hash.low64);
    return text;
}

enum mt_status mt_digest_create(struct mt_context *ctx, struct mt_digest **digest)
{
    void *memory = NULL;
    *digest = NULL;
    enum mt_status status = mt_allocate(ctx, sizeof **digest, &memory);
    if (status != MT_OK) return status;
    *digest = memory;
    (*digest)->ctx = ctx;
    (*digest)->bytes = 0;
    (void)XXH3_128bits_reset(&(*digest)->state);
    return MT_OK;
}

void mt_digest_free(struct mt_digest *digest)
{
    if (digest != NULL) mt_release(digest->ctx, digest, sizeof *digest);
}

void mt_digest_add(struct mt_digest *digest, const void *data, size_t bytes)
{
    if (bytes == 0) return;
    (void)XXH3_128bits_update(&digest->state, data, bytes);
    digest->bytes += bytes;
}

struct mt_digest_text mt_digest_finish(const struct mt_digest *digest)
{
    return as_text(XXH3_128bits_digest(&digest->state));
}

uint64_t mt_digest_bytes(const struct mt_digest *digest)
{
    return digest->bytes;
}

struct mt_digest_text mt_digest_of(const void *data, size_t bytes)
{
    return as_text(XXH3_128bits(data, bytes));
}

uint64_t mt_digest_short(const void *data, size_t bytes, uint64_t key)
{
    return XXH3_64bits_withSeed(data, bytes, key);
}
