/* Text from a file, made fit for a message. */
#include "formats/printable.h"

#include <stdbool.h>
#include <string.h>

static const char ellipsis[] = "...";

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0u) == 0x80u;
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
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        // U+0080 to U+009F, two bytes in UTF-8, are control characters too.
        unsigned char next = i + 1 < length ? (unsigned char)text[i + 1] : 0;
        bool high_control = byte == 0xC2 && next >= 0x80 && next < 0xA0;
        if (high_control) printable.text[i++] = '?';
        printable.text[i] = byte < 0x20 || byte == 0x7F || high_control ? '?' : text[i];
    }
    if (cut) memcpy(printable.text + length, ellipsis, sizeof ellipsis);
    return printable;
}

struct mt_printable mt_printable(const char *text)
{
    return mt_printable_bytes(text, strlen(text));
}
