/* Text from outside, made fit for messages and terminals. */
#define _POSIX_C_SOURCE 200809L // fileno
#include "formats/text/printable.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_BYTES 1024 // shown at a time

static const char ellipsis[] = "...";

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0u) == 0x80u;
}

/* Bytes a character of UTF-8 has by its first; 0: no first byte. */
static size_t bytes_after(unsigned char first)
{
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first < 0xE0) return 2;
    if (first >= 0xE0 && first < 0xF0) return 3;
    return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

/* The character at `text`, of which `bytes` are there; *length is 1 and the result 0 where it is none. */
static uint32_t character_at(const char *text, size_t bytes, size_t *length)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)text[0];
    size_t wanted = bytes_after(first);
    *length = 1;
    if (wanted == 1) return first;
    if (wanted == 0 || wanted > bytes) return 0;
    uint32_t character = first & (0x7Fu >> wanted);
    for (size_t i = 1; i < wanted; i++) {
        if (!is_continuation(text[i])) return 0;
        character = character << 6 | ((unsigned char)text[i] & 0x3Fu);
    }
    bool surrogate = character >= 0xD800 && character < 0xE000;
    if (character < least[wanted] || surrogate || character > 0x10FFFF) return 0;
    *length = wanted;
    return character;
}

/* Drives a terminal, or makes text look like another: controls, separators of lines, marks of direction. */
static bool is_treacherous(uint32_t character)
{
    return character < 0x20 || (character >= 0x7F && character < 0xA0) || character == 0x061C ||
           (character >= 0x200E && character <= 0x200F) || (character >= 0x2028 && character <= 0x202E) ||
           (character >= 0x2066 && character <= 0x2069);
}

void mt_make_printable(char *text, size_t bytes, bool lines)
{
    for (size_t i = 0; i < bytes;) {
        size_t length = 1;
        uint32_t character = character_at(text + i, bytes - i, &length);
        bool kept = lines && (character == '\n' || character == '\t');
        if (!kept && is_treacherous(character)) memset(text + i, '?', length);
        i += length;
    }
}

/* How many of the bytes are whole characters: a text that comes in pieces may end within one. */
static size_t whole_characters(const char *text, size_t bytes)
{
    size_t back = 1;
    while (back < 4 && back < bytes && is_continuation(text[bytes - back])) back++;
    if (bytes < back) return bytes;
    return bytes_after((unsigned char)text[bytes - back]) > back ? bytes - back : bytes;
}

size_t mt_show_text(FILE *stream, const char *text, size_t bytes)
{
    if (isatty(fileno(stream)) == 0) {
        (void)fwrite(text, 1, bytes, stream);
        return bytes;
    }
    size_t whole = whole_characters(text, bytes);
    for (size_t shown = 0; shown < whole;) {
        char chunk[CHUNK_BYTES];
        size_t size = whole - shown;
        if (size > sizeof chunk) size = whole_characters(text + shown, sizeof chunk);
        memcpy(chunk, text + shown, size);
        mt_make_printable(chunk, size, true);
        (void)fwrite(chunk, 1, size, stream);
        shown += size;
    }
    return whole;
}

struct mt_printable mt_printable_bytes(const char *text, size_t bytes)
{
    struct mt_printable printable = {{0}};
    size_t length = bytes;
    bool cut = length >= sizeof printable.text;
    if (cut) {
        length = sizeof printable.text - sizeof ellipsis;
        while (length > 0 && is_continuation(text[length])) length--;
    }
    memcpy(printable.text, text, length);
    mt_make_printable(printable.text, length, false);
    if (cut) memcpy(printable.text + length, ellipsis, sizeof ellipsis);
    return printable;
}

struct mt_printable mt_printable(const char *text)
{
    return mt_printable_bytes(text, strlen(text));
}
