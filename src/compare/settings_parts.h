/* Settings of a comparison taken apart: the table of keys, and readers of values. */
#ifndef MT_COMPARE_SETTINGS_PARTS_H
#define MT_COMPARE_SETTINGS_PARTS_H

#include "compare/settings.h"
#include "formats/text/yaml.h"

struct mt_compare_reader {
    struct mt_context *ctx;
    struct mt_arena *arena;
    struct mt_compare_settings *settings;
};

enum mt_compare_kind {
    MT_KEY_TEXT,
    MT_KEY_WHOLE,
    MT_KEY_METHODS,
    MT_KEY_SEEDS,
    MT_KEY_DOMAINS, // trained on
    MT_KEY_OTHERS,  // only measured
    MT_KEY_TRAINING,
    MT_KEY_GRID_METHOD,
    MT_KEY_AXIS, // a list of numbers of the grid
};

struct mt_compare_row {
    struct mt_compare_key key;
    enum mt_compare_kind kind;
    size_t offset; // of the field in struct mt_compare_settings
    size_t count;  // MT_KEY_AXIS: offset of the number of values
    int64_t low, high;
};

/* NULL past the last. */
const struct mt_compare_row *mt_compare_row(int index);

/* Records "FILE:LINE: ..." as MT_ERR_USAGE. */
enum mt_status mt_compare_fail(const struct mt_compare_reader *reader, const struct mt_yaml_node *node,
                               const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Stores the value of a row. */
enum mt_status mt_compare_store(const struct mt_compare_reader *reader, const struct mt_compare_row *row,
                                const struct mt_yaml_node *node);

/* Appends what a map says as words of metier train; `prefix`: keys above it, "" for none; of_method as in
 * mt_compare_check_word. */
enum mt_status mt_compare_take_words(const struct mt_compare_reader *reader, const char *prefix,
                                     const struct mt_yaml_node *map, bool of_method,
                                     struct mt_compare_words *words);

/*
 * Refuses a key of metier train ("key" or "key=value") that the comparison itself decides, at a node of the
 * file or, where that is NULL, as the word it is. A method may say which method it is.
 */
enum mt_status mt_compare_check_word(const struct mt_compare_reader *reader, const struct mt_yaml_node *node,
                                     const char *word, bool of_method);

/* Adds a word; one of the same key that is there already makes way. */
enum mt_status mt_compare_add_word(struct mt_arena *arena, struct mt_compare_words *words, const char *word);

/* Adds "key=value". */
enum mt_status mt_compare_set_word(struct mt_arena *arena, struct mt_compare_words *words, const char *key,
                                   const char *value);

#endif
