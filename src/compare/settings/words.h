/* Keys of metier train in a comparison, as words: "lora.rank=16". */
#ifndef MT_COMPARE_WORDS_H
#define MT_COMPARE_WORDS_H

#include "formats/keys/keys.h"

struct mt_compare_words {
    const char **word;
    size_t count;
};

/* Adds a word; one of the same key that is there already makes way. */
enum mt_status mt_compare_add_word(struct mt_arena *arena, struct mt_compare_words *words, const char *word);

/* Adds "key=value". */
enum mt_status mt_compare_set_word(struct mt_arena *arena, struct mt_compare_words *words, const char *key,
                                   const char *value);

/*
 * Refuses a key of metier train ("key" or "key=value") that the comparison itself decides. `entry` and `node`
 * as in mt_key_fail. A method may say which method it is.
 */
enum mt_status mt_compare_check_word(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     const struct mt_yaml_node *node, const char *word, bool of_method);

/* Adds what the map of an entry says as words. A method's name is none. */
enum mt_status mt_compare_take_words(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     bool of_method, struct mt_compare_words *words);

#endif
