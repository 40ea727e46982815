/* Decimals that go on: 0.4545... is 0.\overline{45}. */
#include <ctype.h>
#include <string.h>

#include "eval/math/tree.h"

#define MOST_PERIOD 6

/* The length of the block that digits end with, repeated: twice at least, one digit three times. 0: there is
 * none. */
static size_t period_of(const uint8_t *digits, size_t count)
{
    for (size_t period = 1; period <= MOST_PERIOD; period++) {
        size_t needed = period == 1 ? 3 : 2 * period;
        size_t same = 0; // digits equal to those one period before
        while (same + period < count && digits[count - 1 - same] == digits[count - 1 - same - period]) same++;
        if (same + period >= needed && same > 0) return period;
    }
    return 0;
}

enum mt_status mt_math_repeat(struct mt_byte_list *out, size_t start)
{
    static const char line[] = "\\overline{";
    for (size_t at = start; at + 3 <= out->count; at++) {
        if (memcmp(out->data + at, "...", 3) != 0) continue;
        size_t first = at;
        while (first > start && isdigit(out->data[first - 1])) first--;
        bool decimal = first > start && out->data[first - 1] == '.';
        size_t period = decimal ? period_of(out->data + first, at - first) : 0;
        if (period == 0) continue;
        size_t kept = at - first; // the digits before the block: as many blocks as there are go
        while (kept >= 2 * period &&
               memcmp(out->data + first + kept - period, out->data + first + kept - 2 * period, period) == 0)
            kept -= period;
        size_t block = first + kept - period;
        size_t room = sizeof line; // the line and its closing brace
        size_t rest = at + 3;
        enum mt_status status = mt_byte_list_reserve(out, room);
        if (status != MT_OK) return status;
        memmove(out->data + block + room + period, out->data + rest, out->count - rest);
        memmove(out->data + block + sizeof line - 1, out->data + block, period);
        memcpy(out->data + block, line, sizeof line - 1);
        out->data[block + sizeof line - 1 + period] = '}';
        out->count = block + room + period + (out->count - rest);
        at = block + room + period - 1;
    }
    return MT_OK;
}
