/* The golden tokenizers (tests/formats/golden/tokenizers, made by tests/parity/tokenizer_golden.py). */
#ifndef MT_TESTS_GOLDEN_TOKENIZERS_H
#define MT_TESTS_GOLDEN_TOKENIZERS_H

#include <stdbool.h>

#include "formats/tokenizer/tokenizer.h"

/* A file in memory; freed with golden_free. */
struct golden_file {
    struct mt_context *ctx;
    void *data;
    size_t bytes;
};

/* Reads a golden file; fails the test when that cannot be done. */
struct golden_file golden_read(struct mt_context *ctx, const char *name);
void golden_free(struct golden_file *file);

/* Loads a golden tokenizer by its name: NAME.json, or tiktoken's files. Fails the test on failure. */
struct mt_tokenizer *golden_load(struct mt_context *ctx, const char *name);

/*
 * Compares a tokenizer with expected lines, one per text of texts.bin, that begin with `prefix` (NULL: every
 * line); the lines are NUL-terminated. Prints what differs and returns the number of texts that do.
 */
int golden_compare(struct mt_context *ctx, const struct mt_tokenizer *tokenizer, const char *name,
                   const char *expected, const char *prefix);

#endif
