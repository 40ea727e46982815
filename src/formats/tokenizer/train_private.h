/* The inside of a tokenizer's trainer, for the files that make and write it. */
#ifndef MT_FORMATS_TOKENIZER_TRAIN_PRIVATE_H
#define MT_FORMATS_TOKENIZER_TRAIN_PRIVATE_H

#include "formats/tokenizer/split.h"
#include "formats/tokenizer/train.h"

// How texts are cut, as tokenizer.json says it: the trainer reads it from here, as a tokenizer does.
#define MT_TRAINED_PRE_TOKENIZER                                                                             \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", \"individual_digits\": true}, "     \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}]}"

struct mt_trained_token {
    size_t start; // of its bytes, in token_text
    size_t bytes;
    int32_t left, right; // what it was merged of; -1: a byte
};

struct mt_trained_word {
    size_t start;   // of its bytes in word_text, and later of its symbols
    uint32_t count; // of its bytes, and later of its symbols
    int64_t times;  // it was seen
};

struct mt_pair_count {
    uint64_t pair; // left << 32 | right; UINT64_MAX: free
    int64_t times;
};

struct mt_tokenizer_trainer {
    struct mt_context *ctx; // borrowed
    struct mt_splitter splitter;
    struct mt_regex_matcher *matcher;
    struct mt_byte_list repaired; // a text that was not valid UTF-8
    struct mt_split_spans spans;  // of the text being added

    struct mt_byte_list word_text;
    struct mt_trained_word *words; // in the order they were first seen
    size_t word_count, word_capacity;
    uint32_t *slots;   // of words, by hash: index + 1, or 0
    size_t slot_count; // a power of two

    int32_t *symbols; // of all words: one for each byte of word_text, fewer in use the more is merged
    struct mt_pair_count *pairs; // open addressing
    size_t pair_slots;           // a power of two
    size_t pair_count;

    struct mt_byte_list token_text;
    struct mt_trained_token *tokens; // the specials are not here: token i has the id i + specials
    size_t token_count, token_capacity;
};

#endif
