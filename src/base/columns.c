/*
 * Decoding UTF-8 and the widths of characters. The tables hold the ranges that matter in practice
 * (combining marks; East Asian wide characters and emoji); everything else is one column.
 */
#define _DEFAULT_SOURCE // TIOCGWINSZ

#include "base/columns.h"

#include <langinfo.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>

struct range {
    uint32_t first;
    uint32_t last;
};

static const struct range zero_width[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD},   {0x0610, 0x061A}, {0x064B, 0x065F},
    {0x06D6, 0x06DC}, {0x0900, 0x0902}, {0x093C, 0x093C},   {0x0941, 0x0948}, {0x094D, 0x094D},
    {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E},   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
    {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x2064},   {0x20D0, 0x20FF}, {0xFE00, 0xFE0F},
    {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF},
};

static const struct range double_width[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x25FD, 0x25FE},   {0x2614, 0x2615},
    {0x2648, 0x2653},   {0x267F, 0x267F},   {0x2693, 0x2693},   {0x26A1, 0x26A1},   {0x26AA, 0x26AB},
    {0x26BD, 0x26BE},   {0x26C4, 0x26C5},   {0x2705, 0x2705},   {0x270A, 0x270B},   {0x2728, 0x2728},
    {0x274C, 0x274C},   {0x2753, 0x2755},   {0x2795, 0x2797},   {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},
    {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},
    {0xA960, 0xA97C},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
    {0xFFE0, 0xFFE6},   {0x1F004, 0x1F004}, {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F18E}, {0x1F191, 0x1F19A},
    {0x1F200, 0x1F320}, {0x1F32D, 0x1F64F}, {0x1F680, 0x1F6FC}, {0x1F7E0, 0x1F7EB}, {0x1F90C, 0x1FAFF},
    {0x20000, 0x3FFFD},
};

static bool in_ranges(uint32_t character, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (character >= ranges[i].first && character <= ranges[i].last) return true;
    }
    return false;
}

static int width_of(uint32_t character)
{
    if (in_ranges(character, zero_width, sizeof zero_width / sizeof zero_width[0])) return 0;
    if (in_ranges(character, double_width, sizeof double_width / sizeof double_width[0])) return 2;
    return 1;
}

/* Bytes of the character at `text` (NUL-terminated), or 0 when malformed. */
static size_t decode(const char *text, uint32_t *character)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000}; // per length; less is an overlong form
    unsigned char lead = (unsigned char)text[0];
    *character = lead;
    if (lead < 0x80) return 1;
    size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC0 || lead > 0xF7) return 0;
    uint32_t value = lead & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        unsigned char byte = (unsigned char)text[i]; // the NUL is no continuation byte: it ends the loop
        if ((byte & 0xC0u) != 0x80u) return 0;
        value = value << 6 | (byte & 0x3Fu);
    }
    if (value < smallest[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return 0;
    *character = value;
    return length;
}

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
        uint32_t character = 0;
        size_t length = decode(text, &character);
        bool control = character < 0x20 || (character >= 0x7F && character < 0xA0);
        bool printable = length > 0 && !control && (utf8 || length == 1);
        size_t taken = length == 0 ? 1 : length;
        size_t bytes = printable ? length : 1;
        int width = printable ? width_of(character) : 1;
        if (columns + width > max_columns || used + bytes >= target_bytes) break;
        memcpy(target + used, printable ? text : "?", bytes);
        used += bytes;
        columns += width;
        text += taken;
    }
    target[used] = '\0';
    return columns;
}
