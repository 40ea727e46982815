/*
 * Byte-pair encoding: a word becomes symbols (its characters, or its bytes), and the pair of neighbours with
 * the lowest rank is merged, the leftmost first, until no pair can be.
 */
#ifndef MT_FORMATS_TOKENIZER_BPE_H
#define MT_FORMATS_TOKENIZER_BPE_H

#include "formats/tokenizer/vocabulary.h"

struct mt_bpe_merge {
    uint64_t pair; // left << 32 | right; UINT64_MAX: free
    uint32_t rank;
    int32_t id; // what the pair becomes
};

struct mt_bpe {
    struct mt_context *ctx; // borrowed
    struct mt_vocabulary vocabulary;
    struct mt_bpe_merge *merges; // open addressing
    size_t merge_slots;          // a power of two
    size_t merge_count;

    // Options, named as in tokenizer.json. Texts are owned, "" when absent.
    struct mt_byte_list unk_token;
    struct mt_byte_list continuing_subword_prefix;
    struct mt_byte_list end_of_word_suffix;
    bool fuse_unk;
    bool byte_fallback;
    bool ignore_merges;

    bool raw_bytes;    // the vocabulary holds bytes as they are (tiktoken), not the byte-level alphabet
    bool bytes_direct; // every byte has a symbol below: byte-level words need no rewriting
    int32_t byte_symbol[256];  // ids of the bytes, in the byte-level alphabet or raw
    int32_t fallback[256];     // ids of "<0x00>" ... "<0xFF>", -1 when absent
    int32_t ascii_symbol[128]; // ids of the ASCII characters, -1 when absent
    int32_t unk_id;            // -1 when absent

    // Where a word can be cut without changing the result; see mt_bpe_cut.
    bool has_cuts;
    uint8_t ascii_pairs[128][16]; // bit: some merge joins these two characters
    uint64_t *pairs;              // open addressing: (left + 1) << 32 | right, 0 free
    size_t pair_slots;            // a power of two
};

/* Working memory of one thread; zeroed, with a context, to begin. */
struct mt_bpe_symbol;
struct mt_bpe_candidate;
struct mt_bpe_scratch {
    struct mt_context *ctx; // borrowed
    struct mt_byte_list text;
    struct mt_bpe_symbol *symbols;
    size_t symbol_capacity;
    struct mt_bpe_candidate *heap;
    size_t heap_capacity;
};

void mt_bpe_free(struct mt_bpe *bpe);
void mt_bpe_scratch_free(struct mt_bpe_scratch *scratch);

/* Makes the merge table, for at most `count` merges. */
enum mt_status mt_bpe_reserve_merges(struct mt_bpe *bpe, size_t count);

/* Adds a merge; a pair given twice keeps what is said last. */
void mt_bpe_add_merge(struct mt_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id);

/* Fills the tables that follow from vocabulary, merges and options, once these are set. */
enum mt_status mt_bpe_finish(struct mt_bpe *bpe);

/*
 * Encodes one word and appends its ids. The word is valid UTF-8; with `byte_level` (which needs bytes_direct)
 * its bytes are the symbols, else its characters.
 */
enum mt_status mt_bpe_encode(const struct mt_bpe *bpe, struct mt_bpe_scratch *scratch, const uint8_t *word,
                             size_t bytes, bool byte_level, struct mt_id_list *ids);

/*
 * The end of the first part of a word of characters that can be encoded on its own. A merge across a boundary
 * makes a token in which the two characters beside it are neighbours; where no merge does that, the boundary
 * stays whatever happens around it. So a text without a pre-tokenizer (SentencePiece) still falls into words.
 * Only for has_cuts.
 */
size_t mt_bpe_cut(const struct mt_bpe *bpe, const uint8_t *word, size_t bytes);

/* The byte-level alphabet: each byte has a printable character. */
uint32_t mt_byte_level_character(uint8_t byte);

/* The byte of a character of that alphabet, or -1. */
int mt_byte_level_byte(uint32_t character);

#endif
