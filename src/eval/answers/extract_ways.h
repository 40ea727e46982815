/* The ways of extract.h one by one. Texts are valid UTF-8; spans point into them. */
#ifndef MT_EVAL_EXTRACT_WAYS_H
#define MT_EVAL_EXTRACT_WAYS_H

#include "eval/answers/pattern.h"

#define MT_WAY_PATTERNS 8 // of one way, at most

struct mt_way_span {
    const char *text;
    size_t bytes;
};

/* Without white space at the ends. */
struct mt_way_span mt_way_trimmed(struct mt_way_span span);

bool mt_way_last_number(const char *text, size_t bytes, struct mt_way_span *span);
bool mt_way_boxed(const char *text, size_t bytes, struct mt_way_span *span);
bool mt_way_line(const char *text, size_t bytes, bool last, struct mt_way_span *span);
bool mt_way_code(const char *text, size_t bytes, struct mt_way_span *span);

/* Patterns from the surest way to name a choice to the weakest. */
enum mt_status mt_way_letter_patterns(struct mt_context *ctx, struct mt_pattern **patterns);
bool mt_way_letter(struct mt_pattern *const *patterns, const char *text, size_t bytes, int choices,
                   struct mt_way_span *span);

/* The same for words; the span is the word as the list spells it. */
enum mt_status mt_way_word_patterns(struct mt_context *ctx, const char *const *words,
                                    struct mt_pattern **patterns);
bool mt_way_words(struct mt_pattern *const *patterns, const char *const *words, const char *text,
                  size_t bytes, struct mt_way_span *span);

#endif
