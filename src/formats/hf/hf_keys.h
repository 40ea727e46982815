/*
 * Keys of the JSON files of a Hugging Face folder, as rows: each says its name, its kind, its range and the
 * field of a struct it fills. What a row cannot say (lists, checks of several values) is a function.
 */
#ifndef MT_FORMATS_HF_KEYS_H
#define MT_FORMATS_HF_KEYS_H

#include "base/arena.h"
#include "formats/text/json.h"

#define MT_HF_TOKEN_ID_MAX 0x7FFFFFFF

enum mt_hf_key_kind {
    MT_HF_KEY_INTEGER, // int64_t
    MT_HF_KEY_REAL,    // double
    MT_HF_KEY_BOOL,
    MT_HF_KEY_WORD, // an enum, one value per word
};

/* What an explicit null means. An absent key always leaves the field as it is. */
enum mt_hf_null {
    MT_HF_NULL_ABSENT, // as if the key were not there
    MT_HF_NULL_ZERO,
    MT_HF_NULL_NONE, // -1: no token
};

struct mt_hf_word {
    const char *text; // NULL ends a list
    int value;
};

struct mt_hf_key {
    const char *name;
    enum mt_hf_key_kind kind;
    size_t offset;   // of the field
    double min, max; // of numbers; whole numbers are exact far beyond every limit in use
    bool required;
    enum mt_hf_null null;           // of integers
    const struct mt_hf_word *words; // of words
};

/* Reads every key into its field of `*fields`. */
enum mt_status mt_hf_read_keys(const struct mt_json_node *object, const struct mt_hf_key *keys, size_t count,
                               void *fields);

/* A list of whole numbers, or a single one, as a list in the arena; absent or null leaves it empty. */
enum mt_status mt_hf_read_integers(const struct mt_json_node *object, const char *key, int64_t max,
                                   struct mt_arena *arena, const int64_t **list, size_t *count);

#endif
