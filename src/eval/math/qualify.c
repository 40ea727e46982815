/* What stands behind an answer and says what its letters are, or what it leaves out: one spelling, or none.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "eval/math/tree.h"

/* The last place of `what` behind `start`; the end: nowhere. */
static size_t last_place(const struct mt_byte_list *out, size_t start, const char *what)
{
    size_t length = strlen(what);
    for (size_t at = out->count; at >= start + length; at--) {
        if (strncasecmp((const char *)out->data + at - length, what, length) == 0) return at - length;
    }
    return out->count;
}

static void take_away(struct mt_byte_list *out, size_t at, size_t bytes)
{
    memmove(out->data + at, out->data + at + bytes, out->count - at - bytes);
    out->count -= bytes;
}

/* N^*, N_+ and Z^{+} are N here. */
static void plain_numbers(struct mt_byte_list *out, size_t start)
{
    static const char *const marks[] = {"^{*}", "^{+}", "_{+}", "^*", "^+", "_+"};
    size_t at = last_place(out, start, "\\in");
    if (at == out->count) return;
    for (at += 3; at < out->count && out->data[at] == ' ';) at++;
    if (at == out->count || strchr("NZ", out->data[at]) == NULL) return;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        size_t length = strlen(marks[i]);
        if (at + 1 + length > out->count || memcmp(out->data + at + 1, marks[i], length) != 0) continue;
        if (out->data[at] == 'Z' && memchr(marks[i], '*', length) != NULL) return; // all but 0
        out->data[at] = 'N';
        take_away(out, at + 1, length);
        return;
    }
}

/* In a row of a definition by cases, from `at` to *end, one & parts the value from where it holds: "x, &
 * x>0", "x, x>0". */
static void part_case(struct mt_byte_list *out, size_t at, size_t *end)
{
    size_t last = *end;
    while (last > at && strchr(" ,.;", out->data[last - 1]) != NULL) last--;
    take_away(out, last, *end - last);
    *end = last;
    size_t comma = *end; // the last one outside of brackets
    int open = 0;
    for (size_t i = at; i < *end; i++) {
        open += (strchr("([{", out->data[i]) != NULL ? 1 : 0) - (strchr(")]}", out->data[i]) != NULL ? 1 : 0);
        if (open == 0 && out->data[i] == ',') comma = i;
        if (out->data[i] != '&') continue;
        size_t before = i;
        while (before > at && strchr(" ,", out->data[before - 1]) != NULL) before--;
        take_away(out, before, i - before);
        *end -= i - before;
        return;
    }
    if (comma < *end) out->data[comma] = '&';
}

/* True when each row has a comma or &: a system of equations has not. */
static bool every_row_parts(const struct mt_byte_list *out, size_t at)
{
    bool parted = false;
    for (; at + 1 < out->count; at++) {
        parted = parted || out->data[at] == ',' || out->data[at] == '&';
        bool row = memcmp(out->data + at, "\\\\", 2) == 0;
        bool over = out->count - at >= 5 && memcmp(out->data + at, "\\end{", 5) == 0;
        if ((row || over) && !parted) return false;
        if (over) return true;
        if (row) parted = false;
        at += row ? 1 : 0;
    }
    return false;
}

static void part_cases(struct mt_byte_list *out, size_t start)
{
    static const char begin[] = "\\begin{cases}";
    size_t at = last_place(out, start, begin);
    if (at == out->count) return;
    at += sizeof begin - 1;
    if (!every_row_parts(out, at)) return;
    for (size_t end = at; end + 1 < out->count; end++) {
        bool row = memcmp(out->data + end, "\\\\", 2) == 0;
        bool over = out->count - end >= 5 && memcmp(out->data + end, "\\end{", 5) == 0;
        if (!row && !over) continue;
        part_case(out, at, &end);
        if (over) return;
        at = end + 2;
        end = at - 1;
    }
}

/* & only sets lines under each other here. */
static void drop_columns(struct mt_byte_list *out, size_t start)
{
    static const char *const names[] = {"{aligned}", "{align}", "{align*}", "{split}", "{gathered}"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t end = last_place(out, start, names[i]);
        for (size_t at = start; end < out->count && at < end; at++) {
            if (out->data[at] == '&') out->data[at] = ' ';
        }
    }
}

/* "(n \in Z)" behind an answer is ", n \in Z". */
static void open_condition(struct mt_byte_list *out, size_t start)
{
    size_t at = last_place(out, start, "(");
    if (at == out->count || at == start || out->data[out->count - 1] != ')') return;
    if (at + 6 > out->count || !isalpha(out->data[at + 1])) return;
    size_t in = at + 2;
    while (in < out->count && out->data[in] == ' ') in++;
    if (in + 3 > out->count || memcmp(out->data + in, "\\in", 3) != 0) return;
    if (memchr(out->data + start, out->data[at + 1], at - start) == NULL)
        return; // of no letter of the answer
    out->data[at] = ',';
    out->count--;
}

/* Words that say what a letter is, and no more. */
static bool is_harmless(const char *word, size_t bytes)
{
    static const char *const words[] = {"for",      "some",     "any",       "all",       "every",
                                        "text",     "real",     "reals",     "complex",   "integer",
                                        "integers", "constant", "constants", "number",    "numbers",
                                        "value",    "values",   "of",        "arbitrary", "natural"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == bytes && strncasecmp(words[i], word, bytes) == 0) return true;
    }
    return false;
}

/* True when the text sets a bound behind `at`, or says anything but what letters are. */
static bool is_bound(const struct mt_byte_list *out, size_t at)
{
    size_t letters = 0; // of the word that ends here
    for (size_t i = at; i <= out->count; i++) {
        bool over = i == out->count;
        if (!over && strchr("0123456789<>=,", out->data[i]) != NULL) return true;
        if (!over && isalpha(out->data[i])) {
            letters++;
        } else {
            if (letters > 1 && !is_harmless((const char *)out->data + i - letters, letters)) return true;
            letters = 0;
        }
    }
    return false;
}

/* Where "\text{for some" begins whose "for some" is at `at`; the end: it stands inside of something. */
static size_t text_begin(const struct mt_byte_list *out, size_t start, size_t at)
{
    static const char text[] = "\\text{";
    const size_t length = sizeof text - 1;
    int open = 0;
    while (at > start && out->data[at - 1] == ' ') at--;
    if (at >= start + length && memcmp(out->data + at - length, text, length) == 0) return at - length;
    for (size_t i = start; i < at; i++) open += (out->data[i] == '{' ? 1 : 0) - (out->data[i] == '}' ? 1 : 0);
    return open == 0 ? at : out->count;
}

/* "for some constant c", "for all real x", ", c \in R": what only says what letters are. Not what sets a
 * bound. */
static void drop_qualification(struct mt_byte_list *out, size_t start)
{
    static const char *const heads[] = {"for some ", "for any ", "for all ", "for every "};
    static const char reals[] = " \\in (-\\infty,\\infty)";
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        size_t at = last_place(out, start, heads[i]);
        if (at == out->count || is_bound(out, at)) continue;
        at = text_begin(out, start, at);
        if (at > start) out->count = at;
    }
    size_t at = last_place(out, start, reals);
    if (at + sizeof reals - 1 == out->count && at > start && isalpha(out->data[at - 1])) {
        size_t comma = at - 1;
        while (comma > start && out->data[comma - 1] == ' ') comma--;
        bool used = memchr(out->data + start, out->data[at - 1], comma - start) != NULL;
        if (used && comma > start + 1 && out->data[comma - 1] == ',') out->count = comma - 1;
    }
    while (out->count > start && strchr(" ,", out->data[out->count - 1]) != NULL) out->count--;
}

/* "all real numbers except 3" is the line without it. */
static enum mt_status take_out(struct mt_byte_list *out, size_t start)
{
    static const char *const heads[] = {"all real numbers except ", "all reals except ",
                                        "all real numbers x except "};
    static const char line[] = "(-\\infty,\\infty) \\setminus \\{";
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        size_t at = last_place(out, start, heads[i]);
        bool first = at == start || text_begin(out, start, at) == start;
        if (at == out->count || !first) continue;
        size_t rest = at + strlen(heads[i]);
        while (rest < out->count && strchr(" }x=", out->data[rest]) != NULL) rest++;
        int open = 0; // braces of the text that the words stand in
        for (size_t k = rest; k < out->count; k++)
            open += (out->data[k] == '{' ? 1 : 0) - (out->data[k] == '}' ? 1 : 0);
        while (open < 0 && out->count > rest && out->data[out->count - 1] == '}') {
            out->count--;
            open++;
        }
        size_t bytes = out->count - rest;
        enum mt_status status = mt_byte_list_reserve(out, sizeof line);
        if (status != MT_OK) return status;
        memmove(out->data + start + sizeof line - 1, out->data + rest, bytes);
        memcpy(out->data + start, line, sizeof line - 1);
        out->count = start + sizeof line - 1 + bytes;
        return mt_byte_list_append_text(out, "\\}");
    }
    return MT_OK;
}

enum mt_status mt_math_qualify(struct mt_byte_list *out, size_t start)
{
    part_cases(out, start);
    drop_columns(out, start);
    plain_numbers(out, start);
    open_condition(out, start);
    drop_qualification(out, start);
    return take_out(out, start);
}
