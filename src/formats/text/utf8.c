/* UTF-8 checking and repair. */
#include "formats/text/utf8.h"

#include <utf8proc.h>

static const uint8_t replacement[3] = {0xEF, 0xBF, 0xBD}; // U+FFFD

size_t mt_utf8_encode(uint32_t character, uint8_t out[4])
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)character, out);
}

size_t mt_utf8_check(const uint8_t *text, size_t bytes, size_t *bad, bool *cut)
{
    uint8_t lead = text[0];
    *bad = 1;
    *cut = false;
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    size_t length = mt_utf8_length(lead);
    // The second byte is narrower after some leads: no overlong forms, no surrogates, nothing past U+10FFFF.
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (size_t i = 1; i < length; i++) {
        *bad = i;
        if (i >= bytes) {
            *cut = true;
            return 0;
        }
        if (text[i] < low || text[i] > high) return 0;
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

bool mt_utf8_valid(const uint8_t *text, size_t bytes)
{
    size_t at = 0;
    size_t bad = 0;
    bool cut = false;
    while (at < bytes) {
        if (text[at] < 0x80) {
            at++;
            continue;
        }
        size_t length = mt_utf8_check(text + at, bytes - at, &bad, &cut);
        if (length == 0) return false;
        at += length;
    }
    return true;
}

enum mt_status mt_utf8_append_repaired(struct mt_byte_list *list, const uint8_t *text, size_t bytes)
{
    size_t at = 0;
    size_t copied = 0;
    size_t bad = 0;
    bool cut = false;
    while (at < bytes) {
        size_t length = mt_utf8_check(text + at, bytes - at, &bad, &cut);
        if (length != 0) {
            at += length;
            continue;
        }
        enum mt_status status = mt_byte_list_append(list, text + copied, at - copied);
        if (status == MT_OK) status = mt_byte_list_append(list, replacement, sizeof replacement);
        if (status != MT_OK) return status;
        at += bad;
        copied = at;
    }
    return mt_byte_list_append(list, text + copied, bytes - copied);
}
