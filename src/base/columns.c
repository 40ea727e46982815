/* Text in columns, as wide as utf8proc says its characters are. */
#define _DEFAULT_SOURCE // TIOCGWINSZ

#include "base/columns.h"

#include <langinfo.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <utf8proc.h>

#include "base/printable_text.h"

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
