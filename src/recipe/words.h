/*
 * A text as words, so that two that say the same have the same words, whatever their case, punctuation and
 * white space.
 *
 * A word is a run of letters and digits, without case and accents and in compatible forms (the ligature fi is
 * f and i). A character of Chinese or Japanese is a word, because no spaces stand there. So are + = < > ^ %
 * and other signs of mathematics, and - * / beside a digit: 2 + 3 is not 2 - 3. Everything else separates;
 * MT_PROMPT_BREAK also begins another part of the text.
 */
#ifndef MT_RECIPE_WORDS_H
#define MT_RECIPE_WORDS_H

#include <stdint.h>

#include "eval/text.h"

struct mt_word {
    size_t at; // in the text
    uint32_t bytes;
    uint32_t part; // of the text, from 0
    bool letters;  // it has one
};

/* Used for any number of texts; zeroed but for the contexts it is empty. */
struct mt_words {
    struct mt_byte_list text; // the words, a space between them
    struct mt_word *words;    // [count]
    size_t count;
    size_t capacity;
    uint32_t part; // in hand
};

void mt_words_init(struct mt_context *ctx, struct mt_words *words);
void mt_words_free(struct mt_words *words);

/* Replaces the words by those of a text; what is not UTF-8 separates. */
enum mt_status mt_words_read(struct mt_words *words, struct mt_text text);

/* `count` words from `first` on, as they stand in the text. */
struct mt_text mt_words_range(const struct mt_words *words, size_t first, size_t count);

#endif
