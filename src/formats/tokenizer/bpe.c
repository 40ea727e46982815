/* Byte-pair encoding: the tables of a model, and the encoding of one word. */
#include "formats/tokenizer/bpe.h"

#include <stdio.h>

#include "formats/text/printable.h"
#include "formats/text/utf8.h"

#define SHORT_WORD 40 // symbols; a scan over this many is cheaper than a heap

struct mt_bpe_symbol {
    int32_t id;
    int32_t previous; // -1: none
    int32_t next;     // -1: none
    bool removed;
};

struct mt_bpe_candidate {
    uint64_t order; // rank << 32 | position: the smallest goes first
    int32_t id;     // what the pair at the position becomes
};

void mt_bpe_free(struct mt_bpe *bpe)
{
    if (bpe->ctx == NULL) return;
    mt_vocabulary_free(&bpe->vocabulary);
    mt_release(bpe->ctx, bpe->merges, bpe->merge_slots * sizeof *bpe->merges);
    mt_release(bpe->ctx, bpe->pairs, bpe->pair_slots * sizeof *bpe->pairs);
    mt_byte_list_free(&bpe->unk_token);
    mt_byte_list_free(&bpe->continuing_subword_prefix);
    mt_byte_list_free(&bpe->end_of_word_suffix);
    *bpe = (struct mt_bpe){0};
}

void mt_bpe_scratch_free(struct mt_bpe_scratch *scratch)
{
    mt_byte_list_free(&scratch->text);
    mt_release(scratch->ctx, scratch->symbols, scratch->symbol_capacity * sizeof *scratch->symbols);
    mt_release(scratch->ctx, scratch->heap, scratch->heap_capacity * sizeof *scratch->heap);
}

static size_t merge_slot(const struct mt_bpe *bpe, uint64_t pair)
{
    return (size_t)((pair * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (bpe->merge_slots - 1);
}

void mt_bpe_add_merge(struct mt_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t slot = merge_slot(bpe, pair);
    while (bpe->merges[slot].pair != UINT64_MAX && bpe->merges[slot].pair != pair) {
        slot = (slot + 1) & (bpe->merge_slots - 1);
    }
    if (bpe->merges[slot].pair == UINT64_MAX) bpe->merge_count++;
    bpe->merges[slot] = (struct mt_bpe_merge){.pair = pair, .rank = rank, .id = id};
}

/* The merge of a pair, or NULL. */
static const struct mt_bpe_merge *find_merge(const struct mt_bpe *bpe, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t slot = merge_slot(bpe, pair);
    while (bpe->merges[slot].pair != pair) {
        if (bpe->merges[slot].pair == UINT64_MAX) return NULL;
        slot = (slot + 1) & (bpe->merge_slots - 1);
    }
    return &bpe->merges[slot];
}

// ------------------------------------------------------------------ tables that follow from vocabulary and
// merges

uint32_t mt_byte_level_character(uint8_t byte)
{
    // Printable Latin-1 stands for itself; the other 68 bytes, in order, for U+0100 and up.
    if (byte >= 0x21 && byte <= 0x7E) return byte;
    if (byte >= 0xA1 && byte != 0xAD) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xA0) return 0x100u + 33u + (byte - 0x7Fu);
    return 0x100u + 67u; // U+00AD
}

int mt_byte_level_byte(uint32_t character)
{
    if (character < 0x100) {
        return mt_byte_level_character((uint8_t)character) == character ? (int)character : -1;
    }
    uint32_t index = character - 0x100;
    if (index <= 0x20) return (int)index;
    if (index < 67) return (int)(index - 33 + 0x7F);
    return index == 67 ? 0xAD : -1;
}

enum mt_status mt_bpe_reserve_merges(struct mt_bpe *bpe, size_t count)
{
    size_t slots = 16;
    while (slots < 2 * count) slots *= 2;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(bpe->ctx, slots, sizeof *bpe->merges, &memory);
    if (status != MT_OK) return status;
    bpe->merges = memory;
    bpe->merge_slots = slots;
    for (size_t i = 0; i < slots; i++) bpe->merges[i].pair = UINT64_MAX;
    return MT_OK;
}

static void fill_symbols(struct mt_bpe *bpe)
{
    const struct mt_vocabulary *v = &bpe->vocabulary;
    bpe->bytes_direct = bpe->continuing_subword_prefix.count == 0 && bpe->end_of_word_suffix.count == 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t character[4] = {(uint8_t)byte};
        size_t length = 1;
        if (!bpe->raw_bytes) length = mt_utf8_encode(mt_byte_level_character((uint8_t)byte), character);
        bpe->byte_symbol[byte] = mt_vocabulary_find(v, character, length);
        if (bpe->byte_symbol[byte] < 0) bpe->bytes_direct = false;
        char name[8];
        (void)snprintf(name, sizeof name, "<0x%02X>", byte);
        bpe->fallback[byte] = mt_vocabulary_find(v, name, 6);
        character[0] = (uint8_t)byte;
        if (byte < 128) bpe->ascii_symbol[byte] = mt_vocabulary_find(v, character, 1);
    }
    bpe->unk_id =
        bpe->unk_token.count != 0 ? mt_vocabulary_find(v, bpe->unk_token.data, bpe->unk_token.count) : -1;
}

static uint64_t *pair_slot(const struct mt_bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t pair = ((uint64_t)left + 1) << 32 | right;
    size_t slot = (size_t)((pair * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (bpe->pair_slots - 1);
    while (bpe->pairs[slot] != 0 && bpe->pairs[slot] != pair) slot = (slot + 1) & (bpe->pair_slots - 1);
    return &bpe->pairs[slot];
}

/*
 * Whether cuts are safe at all: symbols must be exactly the characters of the text, and what one part becomes
 * must not depend on another. Symbols that stand for something else (the unknown token, byte tokens) must not
 * merge; unknown characters must not fuse across a cut; and a whole word must not be looked up.
 */
static bool cuts_are_safe(const struct mt_bpe *bpe)
{
    if (bpe->raw_bytes || bpe->ignore_merges) return false;
    if (bpe->continuing_subword_prefix.count != 0 || bpe->end_of_word_suffix.count != 0) return false;
    bool all_bytes = bpe->byte_fallback;
    for (int i = 0; i < 256; i++) all_bytes = all_bytes && bpe->fallback[i] >= 0;
    bool never_waits = bpe->unk_token.count == 0 || (!bpe->fuse_unk && !bpe->byte_fallback);
    if (!all_bytes && !never_waits) return false;
    for (size_t slot = 0; slot < bpe->merge_slots; slot++) {
        if (bpe->merges[slot].pair == UINT64_MAX) continue;
        int32_t sides[2] = {(int32_t)(bpe->merges[slot].pair >> 32),
                            (int32_t)(bpe->merges[slot].pair & UINT32_MAX)};
        for (int side = 0; side < 2; side++) {
            if (sides[side] == bpe->unk_id) return false;
            size_t bytes = 0;
            const uint8_t *text = mt_vocabulary_text(&bpe->vocabulary, sides[side], &bytes);
            if (bytes == 0) return false;
            if (bpe->byte_fallback && bytes == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>')
                return false;
        }
    }
    return true;
}

static enum mt_status fill_cuts(struct mt_bpe *bpe)
{
    if (!cuts_are_safe(bpe)) return MT_OK;
    size_t slots = 16;
    while (slots < 2 * bpe->merge_count) slots *= 2;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(bpe->ctx, slots, sizeof *bpe->pairs, &memory);
    if (status != MT_OK) return status;
    bpe->pairs = memory;
    bpe->pair_slots = slots;
    for (size_t slot = 0; slot < bpe->merge_slots; slot++) {
        if (bpe->merges[slot].pair == UINT64_MAX) continue;
        size_t left_bytes = 0;
        size_t right_bytes = 0;
        size_t length = 0;
        const uint8_t *left =
            mt_vocabulary_text(&bpe->vocabulary, (int32_t)(bpe->merges[slot].pair >> 32), &left_bytes);
        const uint8_t *right = mt_vocabulary_text(
            &bpe->vocabulary, (int32_t)(bpe->merges[slot].pair & UINT32_MAX), &right_bytes);
        uint32_t before = mt_utf8_decode(left + mt_utf8_previous(left, left_bytes), &length);
        uint32_t after = mt_utf8_decode(right, &length);
        *pair_slot(bpe, before, after) = ((uint64_t)before + 1) << 32 | after;
        if (before < 128 && after < 128) bpe->ascii_pairs[before][after / 8] |= (uint8_t)(1u << after % 8);
    }
    bpe->has_cuts = true;
    return MT_OK;
}

enum mt_status mt_bpe_finish(struct mt_bpe *bpe)
{
    fill_symbols(bpe);
    return fill_cuts(bpe);
}

size_t mt_bpe_cut(const struct mt_bpe *bpe, const uint8_t *word, size_t bytes)
{
    size_t length = 0;
    uint32_t before = mt_utf8_decode(word, &length);
    for (size_t at = length; at < bytes; at += length) {
        uint32_t after = mt_utf8_decode(word + at, &length);
        bool ascii = before < 128 && after < 128;
        bool joined = ascii ? (bpe->ascii_pairs[before][after / 8] & (1u << after % 8)) != 0
                            : *pair_slot(bpe, before, after) != 0;
        if (!joined) return at;
        before = after;
    }
    return bytes;
}

// ------------------------------------------------------------------ from a word to its first symbols

static enum mt_status add_symbol(struct mt_bpe_scratch *scratch, size_t *count, int32_t id)
{
    if (*count == scratch->symbol_capacity) {
        enum mt_status status = MT_OK;
        scratch->symbols = mt_list_reserve(scratch->ctx, scratch->symbols, &scratch->symbol_capacity,
                                           sizeof *scratch->symbols, *count + 1, &status);
        if (status != MT_OK) return status;
    }
    if (*count >= INT32_MAX)
        return mt_fail(scratch->ctx, MT_ERR_UNSUPPORTED, "a word of more than 2^31 symbols");
    scratch->symbols[*count].id = id;
    (*count)++;
    return MT_OK;
}

/* The id of one character with the prefix and suffix of its place, or -1; *used holds what was looked up. */
static enum mt_status find_character(const struct mt_bpe *bpe, struct mt_bpe_scratch *scratch,
                                     const uint8_t *text, size_t bytes, bool first, bool last, int32_t *id)
{
    bool prefixed = !first && bpe->continuing_subword_prefix.count != 0;
    bool suffixed = last && bpe->end_of_word_suffix.count != 0;
    scratch->text.count = 0;
    enum mt_status status = MT_OK;
    if (prefixed) {
        status = mt_byte_list_append(&scratch->text, bpe->continuing_subword_prefix.data,
                                     bpe->continuing_subword_prefix.count);
    }
    if (status == MT_OK) status = mt_byte_list_append(&scratch->text, text, bytes);
    if (status == MT_OK && suffixed) {
        status =
            mt_byte_list_append(&scratch->text, bpe->end_of_word_suffix.data, bpe->end_of_word_suffix.count);
    }
    *id =
        status == MT_OK ? mt_vocabulary_find(&bpe->vocabulary, scratch->text.data, scratch->text.count) : -1;
    return status;
}

/* Adds the byte tokens of scratch->text, if all of them exist. */
static enum mt_status add_fallback(const struct mt_bpe *bpe, struct mt_bpe_scratch *scratch, size_t *count,
                                   bool *done)
{
    *done = false;
    for (size_t i = 0; i < scratch->text.count; i++) {
        if (bpe->fallback[scratch->text.data[i]] < 0) return MT_OK;
    }
    for (size_t i = 0; i < scratch->text.count; i++) {
        enum mt_status status = add_symbol(scratch, count, bpe->fallback[scratch->text.data[i]]);
        if (status != MT_OK) return status;
    }
    *done = true;
    return MT_OK;
}

/*
 * A word of characters. An unknown one becomes its bytes, or the unknown token, or nothing. The unknown token
 * waits until the next known character (so that several can fuse), which byte tokens overtake: that is how
 * the `tokenizers` library orders them.
 */
static enum mt_status character_symbols(const struct mt_bpe *bpe, struct mt_bpe_scratch *scratch,
                                        const uint8_t *word, size_t bytes, size_t *count)
{
    bool plain = bpe->continuing_subword_prefix.count == 0 && bpe->end_of_word_suffix.count == 0;
    bool unknown_waits = false;
    size_t length = 0;
    for (size_t at = 0; at < bytes; at += length) {
        length = mt_utf8_length(word[at]);
        int32_t id = plain && word[at] < 0x80 ? bpe->ascii_symbol[word[at]] : -1;
        enum mt_status status = MT_OK;
        if (id < 0) {
            status = find_character(bpe, scratch, word + at, length, at == 0, at + length == bytes, &id);
            if (status != MT_OK) return status;
        }
        if (id >= 0) {
            if (unknown_waits) status = add_symbol(scratch, count, bpe->unk_id);
            unknown_waits = false;
            if (status == MT_OK) status = add_symbol(scratch, count, id);
            if (status != MT_OK) return status;
            continue;
        }
        bool done = false;
        if (bpe->byte_fallback) status = add_fallback(bpe, scratch, count, &done);
        if (status != MT_OK) return status;
        if (done || bpe->unk_token.count == 0) continue;
        if (bpe->unk_id < 0) {
            return mt_fail(scratch->ctx, MT_ERR_FORMAT, "the unknown token '%s' is not in the vocabulary",
                           mt_printable_bytes((const char *)bpe->unk_token.data, bpe->unk_token.count).text);
        }
        if (unknown_waits && !bpe->fuse_unk) status = add_symbol(scratch, count, bpe->unk_id);
        if (status != MT_OK) return status;
        unknown_waits = true;
    }
    return unknown_waits ? add_symbol(scratch, count, bpe->unk_id) : MT_OK;
}

static enum mt_status byte_symbols(const struct mt_bpe *bpe, struct mt_bpe_scratch *scratch,
                                   const uint8_t *word, size_t bytes, size_t *count)
{
    if (bytes > INT32_MAX)
        return mt_fail(scratch->ctx, MT_ERR_UNSUPPORTED, "a word of more than 2^31 symbols");
    if (scratch->symbol_capacity < bytes) {
        enum mt_status status = MT_OK;
        scratch->symbols = mt_list_reserve(scratch->ctx, scratch->symbols, &scratch->symbol_capacity,
                                           sizeof *scratch->symbols, bytes, &status);
        if (status != MT_OK) return status;
    }
    for (size_t i = 0; i < bytes; i++) scratch->symbols[i].id = bpe->byte_symbol[word[i]];
    *count = bytes;
    return MT_OK;
}

// ------------------------------------------------------------------ merging

static size_t merge_short(const struct mt_bpe *bpe, struct mt_bpe_symbol *symbols, size_t count)
{
    const struct mt_bpe_merge *merges[SHORT_WORD]; // of symbol i and its neighbour
    for (size_t i = 0; i + 1 < count; i++) {
        merges[i] = find_merge(bpe, symbols[i].id, symbols[i + 1].id);
    }
    while (count > 1) {
        size_t best = count;
        uint32_t rank = UINT32_MAX;
        for (size_t i = 0; i + 1 < count; i++) {
            if (merges[i] != NULL && merges[i]->rank < rank) {
                rank = merges[i]->rank;
                best = i;
            }
        }
        if (best == count) break;
        symbols[best].id = merges[best]->id;
        count--;
        for (size_t i = best + 1; i < count; i++) {
            symbols[i].id = symbols[i + 1].id;
            merges[i - 1] = merges[i];
        }
        if (best > 0) merges[best - 1] = find_merge(bpe, symbols[best - 1].id, symbols[best].id);
        if (best + 1 < count) merges[best] = find_merge(bpe, symbols[best].id, symbols[best + 1].id);
    }
    return count;
}

static void sift_up(struct mt_bpe_candidate *heap, size_t at)
{
    struct mt_bpe_candidate moving = heap[at];
    while (at > 0) {
        size_t parent = (at - 1) / 4;
        if (heap[parent].order <= moving.order) break;
        heap[at] = heap[parent];
        at = parent;
    }
    heap[at] = moving;
}

static void sift_down(struct mt_bpe_candidate *heap, size_t count, size_t at)
{
    struct mt_bpe_candidate moving = heap[at];
    for (;;) {
        size_t first = 4 * at + 1;
        if (first >= count) break;
        size_t end = first + 4 < count ? first + 4 : count;
        size_t least = first;
        for (size_t child = first + 1; child < end; child++) {
            if (heap[child].order < heap[least].order) least = child;
        }
        if (heap[least].order >= moving.order) break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = moving;
}

static enum mt_status push(const struct mt_bpe *bpe, struct mt_bpe_scratch *scratch, size_t *heap_count,
                           int32_t position)
{
    const struct mt_bpe_symbol *left = &scratch->symbols[position];
    const struct mt_bpe_merge *merge = find_merge(bpe, left->id, scratch->symbols[left->next].id);
    if (merge == NULL) return MT_OK;
    enum mt_status status = MT_OK;
    scratch->heap = mt_list_reserve(scratch->ctx, scratch->heap, &scratch->heap_capacity,
                                    sizeof *scratch->heap, *heap_count + 1, &status);
    if (status != MT_OK) return status;
    scratch->heap[*heap_count] = (struct mt_bpe_candidate){
        .order = (uint64_t)merge->rank << 32 | (uint32_t)position,
        .id = merge->id,
    };
    (*heap_count)++;
    return MT_OK;
}

static enum mt_status push_in_order(const struct mt_bpe *bpe, struct mt_bpe_scratch *scratch,
                                    size_t *heap_count, int32_t position)
{
    size_t before = *heap_count;
    enum mt_status status = push(bpe, scratch, heap_count, position);
    if (status == MT_OK && *heap_count > before) sift_up(scratch->heap, before);
    return status;
}

/* Merges the pair of a candidate, unless what it meant is gone, and finds the new candidates beside it. */
static enum mt_status merge_candidate(const struct mt_bpe *bpe, struct mt_bpe_scratch *scratch,
                                      size_t *heap_count, struct mt_bpe_candidate candidate)
{
    int32_t position = (int32_t)(candidate.order & UINT32_MAX);
    struct mt_bpe_symbol *symbols = scratch->symbols;
    struct mt_bpe_symbol *left = &symbols[position];
    if (left->removed || left->next < 0) return MT_OK;
    struct mt_bpe_symbol *right = &symbols[left->next];
    const struct mt_bpe_merge *merge = find_merge(bpe, left->id, right->id);
    if (merge == NULL || merge->id != candidate.id) return MT_OK;
    left->id = candidate.id;
    left->next = right->next;
    right->removed = true;
    if (left->next >= 0) symbols[left->next].previous = position;
    enum mt_status status = MT_OK;
    if (left->previous >= 0) status = push_in_order(bpe, scratch, heap_count, left->previous);
    if (status == MT_OK && left->next >= 0) status = push_in_order(bpe, scratch, heap_count, position);
    return status;
}

static enum mt_status merge_long(const struct mt_bpe *bpe, struct mt_bpe_scratch *scratch, size_t *count)
{
    struct mt_bpe_symbol *symbols = scratch->symbols;
    size_t heap_count = 0;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < *count; i++) {
        symbols[i].previous = (int32_t)i - 1;
        symbols[i].next = i + 1 < *count ? (int32_t)i + 1 : -1;
        symbols[i].removed = false;
    }
    for (size_t i = 0; status == MT_OK && i + 1 < *count; i++) {
        status = push(bpe, scratch, &heap_count, (int32_t)i);
    }
    if (status != MT_OK) return status;
    for (size_t i = heap_count / 4 + 1; i-- > 0;) {
        if (i < heap_count) sift_down(scratch->heap, heap_count, i);
    }
    while (status == MT_OK && heap_count > 0) {
        struct mt_bpe_candidate candidate = scratch->heap[0];
        heap_count--;
        scratch->heap[0] = scratch->heap[heap_count];
        if (heap_count > 1) sift_down(scratch->heap, heap_count, 0);
        status = merge_candidate(bpe, scratch, &heap_count, candidate);
    }
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        if (!symbols[i].removed) symbols[kept++].id = symbols[i].id;
    }
    *count = kept;
    return status;
}

// ------------------------------------------------------------------ one word

/* The id of the word as a whole, or -1. */
static enum mt_status find_whole(const struct mt_bpe *bpe, struct mt_bpe_scratch *scratch,
                                 const uint8_t *word, size_t bytes, bool byte_level, int32_t *id)
{
    if (!byte_level || bpe->raw_bytes) {
        *id = mt_vocabulary_find(&bpe->vocabulary, word, bytes);
        return MT_OK;
    }
    scratch->text.count = 0;
    *id = -1;
    for (size_t i = 0; i < bytes; i++) {
        uint8_t character[4] = {0};
        size_t length = mt_utf8_encode(mt_byte_level_character(word[i]), character);
        enum mt_status status = mt_byte_list_append(&scratch->text, character, length);
        if (status != MT_OK) return status;
    }
    *id = mt_vocabulary_find(&bpe->vocabulary, scratch->text.data, scratch->text.count);
    return MT_OK;
}

enum mt_status mt_bpe_encode(const struct mt_bpe *bpe, struct mt_bpe_scratch *scratch, const uint8_t *word,
                             size_t bytes, bool byte_level, struct mt_id_list *ids)
{
    enum mt_status status = MT_OK;
    if (bytes == 0) return MT_OK;
    if (bpe->ignore_merges) {
        int32_t whole = -1;
        status = find_whole(bpe, scratch, word, bytes, byte_level, &whole);
        if (status != MT_OK) return status;
        if (whole >= 0) return mt_id_list_append(ids, whole);
    }
    size_t count = 0;
    status = byte_level ? byte_symbols(bpe, scratch, word, bytes, &count)
                        : character_symbols(bpe, scratch, word, bytes, &count);
    if (status != MT_OK) return status;
    if (count <= SHORT_WORD) {
        count = merge_short(bpe, scratch->symbols, count);
    } else {
        status = merge_long(bpe, scratch, &count);
    }
    if (status == MT_OK) status = mt_id_list_reserve(ids, count);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < count; i++) ids->data[ids->count + i] = scratch->symbols[i].id;
    ids->count += count;
    return MT_OK;
}
