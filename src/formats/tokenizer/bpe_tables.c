/* The tables of a BPE model that follow from its vocabulary and merges. */
#include <stdio.h>

#include "formats/text/utf8.h"
#include "formats/tokenizer/bpe.h"

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
