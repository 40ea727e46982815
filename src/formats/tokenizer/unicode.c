/* Character questions: binary searches in the tables. */
#include "formats/tokenizer/unicode.h"

#include <utf8proc.h>

static bool in_ranges(const struct mt_code_range *ranges, size_t count, uint32_t character)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (character > ranges[middle].last) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && character >= ranges[low].first;
}

bool mt_unicode_is_space(uint32_t character)
{
    if (character < 0x80) return character == ' ' || (character >= '\t' && character <= '\r');
    return character == 0x85 || character == 0xA0 || character == 0x1680 ||
           (character >= 0x2000 && character <= 0x200A) || character == 0x2028 || character == 0x2029 ||
           character == 0x202F || character == 0x205F || character == 0x3000;
}

bool mt_unicode_is_numeric(uint32_t character)
{
    if (character < 0x80) return character >= '0' && character <= '9';
    return in_ranges(mt_unicode_numeric, mt_unicode_numeric_count, character);
}

bool mt_unicode_is_punctuation(uint32_t character)
{
    return in_ranges(mt_unicode_punctuation, mt_unicode_punctuation_count, character);
}

bool mt_unicode_is_combining(uint32_t character)
{
    if (character < 0x300) return false;
    return in_ranges(mt_unicode_combining, mt_unicode_combining_count, character);
}

bool mt_unicode_is_normal_unknown(uint32_t character)
{
    return in_ranges(mt_unicode_normal_unknown, mt_unicode_normal_unknown_count, character);
}

size_t mt_unicode_lowercase(uint32_t character, uint32_t lower[2])
{
    if (character == 0x130) {
        lower[0] = 'i';
        lower[1] = 0x307;
        return 2;
    }
    for (size_t i = 0; i < mt_unicode_lowercase_added_count; i++) {
        if (mt_unicode_lowercase_added[i].first == character) {
            lower[0] = mt_unicode_lowercase_added[i].last;
            return 1;
        }
    }
    lower[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)character);
    return 1;
}
