/*
 * Vocabulary: tokens and their ids, both ways. Tokens are byte strings; ids may have holes, but not so many
 * that a small file asks for much memory.
 */
#ifndef MT_FORMATS_TOKENIZER_VOCABULARY_H
#define MT_FORMATS_TOKENIZER_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/text/lists.h"

#define MT_MAX_TOKENS 16777216 // ids stay below this

struct mt_vocabulary_token {
    uint32_t offset; // in text
    int32_t length;  // -1: no token has this id
};

struct mt_vocabulary {
    struct mt_context *ctx;             // borrowed
    struct mt_byte_list text;           // of all tokens, one behind the other
    struct mt_vocabulary_token *tokens; // by id
    size_t limit;                       // ids are below this
    size_t count;                       // tokens there are
    uint32_t *slots;                    // by hash: id + 1, or 0
    size_t slot_count;                  // a power of two
};

/*
 * Prepares a caller-owned vocabulary for at most `count` tokens with ids below `limit`. Refuses a limit out
 * of proportion to the count. Free it also after a failure.
 */
enum mt_status mt_vocabulary_init(struct mt_context *ctx, size_t count, size_t limit,
                                  struct mt_vocabulary *v);

void mt_vocabulary_free(struct mt_vocabulary *v);

/* Adds a token; refuses an id or a text that is already there. */
enum mt_status mt_vocabulary_add(struct mt_vocabulary *v, const void *text, size_t bytes, int32_t id);

/* The id of a token, or -1. */
int32_t mt_vocabulary_find(const struct mt_vocabulary *v, const void *text, size_t bytes);

/* The same with the hash already known. */
int32_t mt_vocabulary_find_hashed(const struct mt_vocabulary *v, const void *text, size_t bytes,
                                  uint64_t hash);

/* The text of an id (not terminated), or NULL; *bytes is its length. */
const uint8_t *mt_vocabulary_text(const struct mt_vocabulary *v, int32_t id, size_t *bytes);

/*
 * The hash is a polynomial in this factor, modulo 2^64, so that the hash of any part of a text follows from
 * the hashes of its prefixes: hash(part) = hash(prefix to its end) - hash(prefix to its start) ·
 * factor^length.
 */
#define MT_VOCABULARY_FACTOR UINT64_C(0x9E3779B97F4A7C15)
uint64_t mt_vocabulary_hash(const void *text, size_t bytes);

#endif
