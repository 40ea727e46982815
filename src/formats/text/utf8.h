/*
 * UTF-8: stepping through valid text, checking text, and repairing it. Text from outside is repaired once, as
 * it enters; everything after that may rely on valid UTF-8.
 */
#ifndef MT_FORMATS_UTF8_H
#define MT_FORMATS_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/text/lists.h"

/* Bytes of the character that starts with `lead`, a lead byte of valid text. */
static inline size_t mt_utf8_length(uint8_t lead)
{
    if (lead < 0x80) return 1;
    if (lead < 0xE0) return 2;
    return lead < 0xF0 ? 3 : 4;
}

/* The character at `text`, which is valid UTF-8; *bytes says how long it is. */
static inline uint32_t mt_utf8_decode(const uint8_t *text, size_t *bytes)
{
    uint32_t lead = text[0];
    *bytes = mt_utf8_length(text[0]);
    if (*bytes == 1) return lead;
    if (*bytes == 2) return (lead & 0x1Fu) << 6 | (text[1] & 0x3Fu);
    if (*bytes == 3) return (lead & 0x0Fu) << 12 | (text[1] & 0x3Fu) << 6 | (text[2] & 0x3Fu);
    return (lead & 0x07u) << 18 | (text[1] & 0x3Fu) << 12 | (text[2] & 0x3Fu) << 6 | (text[3] & 0x3Fu);
}

/* The start of the character that ends just before `end`, in valid text; `end` > 0. */
static inline size_t mt_utf8_previous(const uint8_t *text, size_t end)
{
    size_t start = end - 1;
    while (start > 0 && (text[start] & 0xC0u) == 0x80) start--;
    return start;
}

/* Writes a character (not a surrogate, at most U+10FFFF) and returns its length, 1 to 4. */
size_t mt_utf8_encode(uint32_t character, uint8_t out[4]);

/*
 * Looks at the sequence at `text` (`bytes` > 0 are readable). Returns its length if it is a whole character.
 * Otherwise returns 0 and sets *bad to the length of the maximal part that could have begun one (at least 1;
 * what the Unicode standard says to replace by one U+FFFD), and *cut when the text merely ended inside it.
 */
size_t mt_utf8_check(const uint8_t *text, size_t bytes, size_t *bad, bool *cut);

/* True when all of it is valid UTF-8. */
bool mt_utf8_valid(const uint8_t *text, size_t bytes);

/*
 * Appends `text` with every maximal invalid part replaced by U+FFFD, as Python's errors="replace" and Rust's
 * from_utf8_lossy do.
 */
enum mt_status mt_utf8_append_repaired(struct mt_byte_list *list, const uint8_t *text, size_t bytes);

#endif
