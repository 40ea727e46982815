/* Drawing numbers and writing the texts of an item. */
#include "synth/item.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

int mt_synth_below(struct mt_synth_draw *draw, int bound)
{
    assert(bound > 0);
    return (int)mt_rng_below(draw->seed, draw->stream, draw->index++, (uint64_t)bound);
}

int mt_synth_between(struct mt_synth_draw *draw, int low, int high)
{
    return low + mt_synth_below(draw, high - low + 1);
}

void mt_synth_choose(struct mt_synth_draw *draw, const char *alphabet, int count, char *chosen)
{
    char left[33];
    int letters = (int)strlen(alphabet);
    assert(letters < (int)sizeof left && count <= letters);
    memcpy(left, alphabet, (size_t)letters);
    for (int i = 0; i < count; i++) {
        int at = mt_synth_below(draw, letters - i);
        chosen[i] = left[at];
        left[at] = left[letters - i - 1];
    }
}

void mt_synth_shuffle(struct mt_synth_draw *draw, int *entries, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int other = mt_synth_below(draw, i + 1);
        int kept = entries[i];
        entries[i] = entries[other];
        entries[other] = kept;
    }
}

/* Appends to a text of `bytes` bytes with its NUL; false: it does not fit. */
__attribute__((format(printf, 3, 0))) static bool append(char *text, size_t bytes, const char *format,
                                                         va_list values)
{
    size_t used = strlen(text);
    int written = vsnprintf(text + used, bytes - used, format, values);
    return written >= 0 && (size_t)written < bytes - used;
}

void mt_synth_ask(struct mt_synth_item *item, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (!append(item->prompt, sizeof item->prompt, format, values)) item->cut = true;
    va_end(values);
}

void mt_synth_answer(struct mt_synth_item *item, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (!append(item->completion, sizeof item->completion, format, values)) item->cut = true;
    va_end(values);
}
