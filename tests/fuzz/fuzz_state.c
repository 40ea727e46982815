/*
 * Fuzz target: bytes as the manifest of a checkpoint, as they are and with the checksum that would make them
 * pass; what is read must be written back and read the same.
 */
// With: src/train/state/state_manifest.c
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "train/state/state_manifest.h"

#define TAIL_BYTES (MT_DIGEST_DIGITS + 4) // the checksum and what follows it

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

/* Every bit, but any NaN for any NaN. */
static bool same_real(double a, double b)
{
    uint64_t bits[2];
    memcpy(&bits[0], &a, sizeof a);
    memcpy(&bits[1], &b, sizeof b);
    return bits[0] == bits[1] || (isnan(a) && isnan(b));
}

static void write_and_read(struct mt_arena *arena, const struct mt_state_manifest *manifest)
{
    struct mt_json_text text;
    struct mt_state_manifest again;
    mt_json_text_init(&text, arena->ctx);
    demand(mt_state_manifest_text(manifest, &text) == MT_OK);
    demand(mt_state_manifest_parse(arena, "again", text.bytes, text.length, &again) == MT_OK);
    demand(strcmp(again.settings, manifest->settings) == 0);
    demand(again.file_count == manifest->file_count);
    for (size_t i = 0; i < again.file_count; i++) {
        demand(strcmp(again.files[i].sum.digits, manifest->files[i].sum.digits) == 0);
        demand(again.files[i].bytes == manifest->files[i].bytes);
    }
    demand(again.numbers.step == manifest->numbers.step);
    demand(again.numbers.metrics_bytes == manifest->numbers.metrics_bytes);
    demand(memcmp(&again.numbers.counts, &manifest->numbers.counts, sizeof again.numbers.counts) == 0);
    demand(same_real(again.numbers.seconds, manifest->numbers.seconds));
    demand(same_real(again.numbers.best_loss, manifest->numbers.best_loss));
    demand(again.numbers.finished == manifest->numbers.finished);
    mt_json_text_free(&text);
}

static void try(struct mt_context *ctx, const void *data, size_t size)
{
    struct mt_arena arena;
    struct mt_state_manifest manifest;
    mt_arena_init(&arena, ctx, 4096);
    if (mt_state_manifest_parse(&arena, "fuzz", data, size, &manifest) == MT_OK) {
        write_and_read(&arena, &manifest);
    } else {
        demand(ctx->message[0] != '\0');
    }
    mt_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    try(&ctx, data, size);
    if (size > TAIL_BYTES) {
        char *sealed = malloc(size);
        demand(sealed != NULL);
        memcpy(sealed, data, size);
        static const char ending[] = {'"', '\n', '}', '\n'};
        struct mt_digest_text sum = mt_digest_of(sealed, size - TAIL_BYTES);
        memcpy(sealed + size - TAIL_BYTES, &sum, MT_DIGEST_DIGITS);
        memcpy(sealed + size - sizeof ending, ending, sizeof ending);
        try(&ctx, sealed, size);
        free(sealed);
    }
    demand(ctx.live_bytes == 0);
    return 0;
}
