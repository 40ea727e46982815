/* Vocabulary: an array by id, an open-addressing table by text. */
#include "formats/tokenizer/vocabulary.h"

#include "formats/text/printable.h"

#define HOLES_ALLOWED 1048576 // ids beyond the number of tokens, at most

uint64_t mt_vocabulary_hash(const void *text, size_t bytes)
{
    const uint8_t *p = text;
    uint64_t hash = 0;
    for (size_t i = 0; i < bytes; i++) hash = hash * MT_VOCABULARY_FACTOR + p[i] + 1;
    return hash;
}

static size_t slot_of(const struct mt_vocabulary *v, uint64_t hash)
{
    // A polynomial mixes its low bits poorly.
    hash ^= hash >> 32;
    hash *= UINT64_C(0xD6E8FEB86659FD93);
    return (size_t)(hash >> 32) & (v->slot_count - 1);
}

enum mt_status mt_vocabulary_init(struct mt_context *ctx, size_t count, size_t limit, struct mt_vocabulary *v)
{
    *v = (struct mt_vocabulary){.ctx = ctx, .text.ctx = ctx};
    if (limit > MT_MAX_TOKENS || limit > count + HOLES_ALLOWED) {
        return mt_fail(ctx, MT_ERR_FORMAT, "the vocabulary has only %zu tokens, but ids up to %zu", count,
                       limit - 1);
    }
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, limit, sizeof *v->tokens, &memory);
    if (status != MT_OK) return status;
    v->tokens = memory;
    v->limit = limit;
    for (size_t i = 0; i < limit; i++) v->tokens[i].length = -1;
    size_t slots = 16;
    while (slots < 2 * count) slots *= 2;
    status = mt_allocate_array(ctx, slots, sizeof *v->slots, &memory);
    if (status != MT_OK) return status;
    v->slots = memory;
    v->slot_count = slots;
    return MT_OK;
}

void mt_vocabulary_free(struct mt_vocabulary *v)
{
    if (v->ctx == NULL) return;
    mt_byte_list_free(&v->text);
    mt_release(v->ctx, v->tokens, v->limit * sizeof *v->tokens);
    mt_release(v->ctx, v->slots, v->slot_count * sizeof *v->slots);
    *v = (struct mt_vocabulary){0};
}

int32_t mt_vocabulary_find_hashed(const struct mt_vocabulary *v, const void *text, size_t bytes,
                                  uint64_t hash)
{
    size_t slot = slot_of(v, hash);
    while (v->slots[slot] != 0) {
        int32_t id = (int32_t)(v->slots[slot] - 1);
        const struct mt_vocabulary_token *token = &v->tokens[id];
        if ((size_t)token->length == bytes && memcmp(v->text.data + token->offset, text, bytes) == 0)
            return id;
        slot = (slot + 1) & (v->slot_count - 1);
    }
    return -1;
}

int32_t mt_vocabulary_find(const struct mt_vocabulary *v, const void *text, size_t bytes)
{
    return mt_vocabulary_find_hashed(v, text, bytes, mt_vocabulary_hash(text, bytes));
}

const uint8_t *mt_vocabulary_text(const struct mt_vocabulary *v, int32_t id, size_t *bytes)
{
    if (id < 0 || (size_t)id >= v->limit || v->tokens[id].length < 0) return NULL;
    *bytes = (size_t)v->tokens[id].length;
    return v->text.data + v->tokens[id].offset;
}

enum mt_status mt_vocabulary_add(struct mt_vocabulary *v, const void *text, size_t bytes, int32_t id)
{
    struct mt_printable shown = mt_printable_bytes(text, bytes);
    if (id < 0 || (size_t)id >= v->limit) {
        return mt_fail(v->ctx, MT_ERR_FORMAT, "token '%s' has the id %d, expected 0 to %zu", shown.text,
                       (int)id, v->limit - 1);
    }
    if (bytes > INT32_MAX || v->text.count > UINT32_MAX - bytes) {
        return mt_fail(v->ctx, MT_ERR_FORMAT, "the tokens of the vocabulary are too long");
    }
    if (v->tokens[id].length >= 0) {
        return mt_fail(v->ctx, MT_ERR_FORMAT, "two tokens have the id %d: '%s' is the second", (int)id,
                       shown.text);
    }
    if (mt_vocabulary_find(v, text, bytes) >= 0) {
        return mt_fail(v->ctx, MT_ERR_FORMAT, "the token '%s' occurs twice", shown.text);
    }
    uint32_t offset = (uint32_t)v->text.count;
    // An empty first token still needs a place to point to.
    enum mt_status status = mt_byte_list_reserve(&v->text, bytes + 1);
    if (status == MT_OK) status = mt_byte_list_append(&v->text, text, bytes);
    if (status != MT_OK) return status;
    v->tokens[id] = (struct mt_vocabulary_token){.offset = offset, .length = (int32_t)bytes};
    size_t slot = slot_of(v, mt_vocabulary_hash(text, bytes));
    while (v->slots[slot] != 0) slot = (slot + 1) & (v->slot_count - 1);
    v->slots[slot] = (uint32_t)id + 1;
    v->count++;
    return MT_OK;
}
