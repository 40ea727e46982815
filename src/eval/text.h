/* Texts of an evaluation: bytes that lie somewhere else, names of lists, and JSON in the making. */
#ifndef MT_EVAL_TEXT_H
#define MT_EVAL_TEXT_H

#include <stdbool.h>

#include "formats/text/lists.h"

/* Borrowed bytes, not terminated. */
struct mt_text {
    const char *text;
    size_t bytes;
};

static inline struct mt_text mt_text_of(const char *text) // NULL: empty
{
    return (struct mt_text){.text = text != NULL ? text : "", .bytes = text != NULL ? strlen(text) : 0};
}

static inline struct mt_text mt_text_in(const struct mt_byte_list *list) // until the list changes
{
    return (struct mt_text){.text = list->count > 0 ? (const char *)list->data : "", .bytes = list->count};
}

static inline bool mt_text_same(struct mt_text a, struct mt_text b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.text, b.text, a.bytes) == 0);
}

static inline bool mt_text_is(struct mt_text text, const char *word)
{
    return mt_text_same(text, mt_text_of(word));
}

/* True when `what` stands at `at`. */
static inline bool mt_text_has(struct mt_text text, size_t at, const char *what)
{
    size_t length = strlen(what);
    return at <= text.bytes && text.bytes - at >= length && memcmp(text.text + at, what, length) == 0;
}

/* What is left from `at` on. */
static inline struct mt_text mt_text_from(struct mt_text text, size_t at)
{
    return (struct mt_text){.text = text.text + at, .bytes = text.bytes - at};
}

/* Takes `word` from the front, where it stands there. */
static inline bool mt_text_take(struct mt_text *text, const char *word)
{
    bool there = mt_text_has(*text, 0, word);
    if (there) *text = mt_text_from(*text, strlen(word));
    return there;
}

/* Without ASCII white space at the ends. */
struct mt_text mt_text_trimmed(struct mt_text text);

/* Where `what` stands first at or behind `from`; text.bytes: nowhere. */
size_t mt_text_find(struct mt_text text, size_t from, const char *what);

/* What stands before the first of some texts (NULL-terminated) that is in it. */
struct mt_text mt_text_until(struct mt_text text, const char *const *ends);

/* The line at *at, without its end; *at moves to the next. False: the text is over. */
bool mt_text_next_line(struct mt_text text, size_t *at, struct mt_text *line);

/* True when a text ends within a model's thoughts: behind its last <think> there is no </think>. */
bool mt_text_is_thinking(struct mt_text text);

/* The place of a name in a list; `count`: it is not there. */
int mt_name_place(const char *const *names, int count, const char *name);

/* JSON in the making. The first failure stays: who writes many small parts asks for it once, at the end. */
struct mt_text_writer {
    struct mt_byte_list text;
    enum mt_status status;
};

/* Appends a text as it is. */
void mt_text_put(struct mt_text_writer *writer, const char *text);

/* The same formatted, at most 255 bytes. */
void mt_text_putf(struct mt_text_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends `before` as it is, then a quoted string; what is not UTF-8 becomes U+FFFD, and so does NUL. */
void mt_text_put_string(struct mt_text_writer *writer, const char *before, struct mt_text text);

/* Appends `before` as it is, then a number that reads back as it is; what is not finite as null. */
void mt_text_put_number(struct mt_text_writer *writer, const char *before, double number);

#endif
