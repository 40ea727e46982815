/* Text from outside, made fit for messages and terminals. */
#define _POSIX_C_SOURCE 200809L // fileno
#include "formats/text/printable.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "formats/text/utf8.h"

#define CHUNK_BYTES 1024 // shown at a time

static const char ellipsis[] = "...";

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0u) == 0x80u;
}

/* How many of the bytes are whole characters: a text that comes in pieces may end within one. */
static size_t whole_characters(const char *text, size_t bytes)
{
    size_t start = bytes;
    size_t bad = 0;
    bool cut = false;
    while (start > 0 && bytes - start < 3 && is_continuation(text[start - 1])) start--;
    if (start == 0) return bytes;
    start--;
    (void)mt_utf8_check((const uint8_t *)text + start, bytes - start, &bad, &cut);
    return cut ? start : bytes;
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
