/* Text on a terminal; characters are as wide as utf8proc says. */
#define _DEFAULT_SOURCE // TIOCGWINSZ

#include "base/columns.h"

#include <langinfo.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <utf8proc.h>

bool mt_columns_locale_is_utf8(void)
{
    const char *codeset = nl_langinfo(CODESET);
    return strcasecmp(codeset, "UTF-8") == 0 || strcasecmp(codeset, "UTF8") == 0;
}

int mt_columns_of_terminal(FILE *stream)
{
    struct winsize size;
    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int mt_columns_copy(char *target, size_t target_bytes, const char *text, int max_columns, bool utf8)
{
    int columns = 0;
    size_t used = 0;
    if (target_bytes == 0) return 0;
    while (*text != '\0') {
        utf8proc_int32_t character = 0;
        utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &character);
        bool printable = length > 0 && !mt_is_treacherous(character) && (utf8 || length == 1);
        size_t taken = length > 0 ? (size_t)length : 1;
        size_t bytes = printable ? taken : 1;
        int width = printable ? utf8proc_charwidth(character) : 1;
        if (columns + width > max_columns || used + bytes >= target_bytes) break;
        memcpy(target + used, printable ? text : "?", bytes);
        used += bytes;
        columns += width;
        text += taken;
    }
    target[used] = '\0';
    return columns;
}

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
