/* Characters as Python's str sees them, from utf8proc's tables and what differs from them. */
#include "text/jinja/library/unicode.h"

#include <utf8proc.h>

bool mt_jinja_is_space(uint32_t c)
{
    if (c < 0x80) return (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= ' ');
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool mt_jinja_is_line_end(uint32_t c)
{
    return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool mt_jinja_is_printable(uint32_t c)
{
    switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return c == ' ';
    default: return true;
    }
}

bool mt_jinja_is_letter(uint32_t c)
{
    utf8proc_category_t found = category(c);
    return found >= UTF8PROC_CATEGORY_LU && found <= UTF8PROC_CATEGORY_LO;
}

bool mt_jinja_is_decimal(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_ND;
}

static bool in_ranges(const struct jinja_characters *ranges, size_t count, uint32_t c)
{
    for (size_t i = 0; i < count; i++) {
        if (c >= ranges[i].first && c <= ranges[i].last) return true;
    }
    return false;
}

bool mt_jinja_is_digit(uint32_t c)
{
    return mt_jinja_is_decimal(c) || in_ranges(mt_jinja_digits_added, mt_jinja_digits_added_count, c);
}

bool mt_jinja_is_numeric(uint32_t c)
{
    return mt_jinja_is_digit(c) || in_ranges(mt_jinja_numeric_added, mt_jinja_numeric_added_count, c);
}

/* Upper and lower by the property that stands behind the letters, circled ones included. */
bool mt_jinja_is_upper(uint32_t c)
{
    return utf8proc_isupper((utf8proc_int32_t)c) != 0;
}

bool mt_jinja_is_lower(uint32_t c)
{
    bool lower = utf8proc_islower((utf8proc_int32_t)c) != 0;
    return lower != in_ranges(mt_jinja_lower_changed, mt_jinja_lower_changed_count, c);
}

bool mt_jinja_is_cased(uint32_t c)
{
    return mt_jinja_is_upper(c) || mt_jinja_is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT;
}

bool mt_jinja_is_case_ignorable(uint32_t c)
{
    switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: break;
    }
    static const uint32_t others[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
                                      0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i] == c) return true;
    }
    return false;
}

static const struct jinja_special_case *find_special(const struct jinja_special_case *table, size_t count,
                                                     uint32_t c)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (table[middle].character == c) return &table[middle];
        if (table[middle].character < c)
            low = middle + 1;
        else
            count = middle;
    }
    return NULL;
}

size_t mt_jinja_map_case(uint32_t c, enum jinja_case to, uint32_t mapped[3])
{
    const struct jinja_special_case *special = NULL;
    if (to == JINJA_UPPER) special = find_special(mt_jinja_special_upper, mt_jinja_special_upper_count, c);
    if (to == JINJA_LOWER) special = find_special(mt_jinja_special_lower, mt_jinja_special_lower_count, c);
    if (to == JINJA_TITLE) special = find_special(mt_jinja_special_title, mt_jinja_special_title_count, c);
    if (special != NULL) {
        size_t count = 0;
        for (; count < 3 && special->mapped[count] != 0; count++) mapped[count] = special->mapped[count];
        return count;
    }
    utf8proc_int32_t single = (utf8proc_int32_t)c;
    if (to == JINJA_UPPER) single = utf8proc_toupper(single);
    if (to == JINJA_LOWER) single = utf8proc_tolower(single);
    if (to == JINJA_TITLE) single = utf8proc_totitle(single);
    mapped[0] = (uint32_t)single;
    return 1;
}
