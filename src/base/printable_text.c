/* Text from outside that is about to be read by people. */
#include "base/printable_text.h"

#include <string.h>
#include <utf8proc.h>

bool mt_is_treacherous(int32_t character)
{
    return character < 0x20 || (character >= 0x7F && character < 0xA0) || character == 0x061C ||
           (character >= 0x200E && character <= 0x200F) || (character >= 0x2028 && character <= 0x202E) ||
           (character >= 0x2066 && character <= 0x2069);
}

void mt_make_printable(char *text, size_t bytes, bool lines)
{
    for (size_t i = 0; i < bytes;) {
        utf8proc_int32_t character = 0;
        const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)text + i;
        utf8proc_ssize_t length = utf8proc_iterate(at, (utf8proc_ssize_t)(bytes - i), &character);
        size_t taken = length > 0 ? (size_t)length : 1;
        bool kept = lines && length > 0 && (character == '\n' || character == '\t');
        if (!kept && (length <= 0 || mt_is_treacherous(character))) memset(text + i, '?', taken);
        i += taken;
    }
}
