/*
 * WikiHow's texts: without white space at the ends, " [title]" is ". ", what else stands in brackets on a
 * line goes, and then two spaces are one. In this order, each once.
 */
#include <string.h>

#include "eval/livebench/text.h"
#include "eval/tasks/task.h"

/* Every `what` becomes `by`, which is no longer. */
static size_t replace(char *text, size_t bytes, const char *what, const char *by)
{
    const size_t length = strlen(what);
    const struct mt_text whole = {.text = text, .bytes = bytes};
    size_t kept = 0;
    for (size_t i = 0; i < bytes;) {
        if (!mt_text_has(whole, i, what)) {
            text[kept++] = text[i++];
            continue;
        }
        for (const char *byte = by; *byte != '\0'; byte++) text[kept++] = *byte;
        i += length;
    }
    return kept;
}

/* "[...]" within a line goes; a bracket that does not close there stays. */
static size_t without_brackets(char *text, size_t bytes)
{
    size_t kept = 0;
    size_t open_line = 0; // no bracket closes before here: looked up once
    for (size_t i = 0; i < bytes;) {
        size_t close = i + 1;
        if (text[i] == '[' && i >= open_line) {
            while (close < bytes && text[close] != ']' && text[close] != '\n') close++;
            bool closed = close < bytes && text[close] == ']';
            if (!closed) open_line = close;
            if (closed) {
                i = close + 1;
                continue;
            }
        }
        text[kept++] = text[i++];
    }
    return kept;
}

size_t mt_clean_text(enum mt_task_clean way, char *text, size_t bytes)
{
    if (way == MT_CLEAN_NOTHING || bytes == 0) return bytes;
    const struct mt_text inner = mt_livebench_stripped((struct mt_text){.text = text, .bytes = bytes});
    memmove(text, inner.text, inner.bytes);
    bytes = replace(text, inner.bytes, " [title]", ". ");
    bytes = without_brackets(text, bytes);
    return replace(text, bytes, "  ", " ");
}
