/* Words and marks that stand for signs of mathematics, in a cleaned text. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "eval/math/tree.h"

/* Puts a text in the place of `bytes` others. */
static enum mt_status put(struct mt_byte_list *out, size_t at, size_t bytes, const char *text)
{
    size_t length = strlen(text);
    enum mt_status status = mt_byte_list_reserve(out, length);
    if (status != MT_OK) return status;
    memmove(out->data + at + length, out->data + at + bytes, out->count - at - bytes);
    memcpy(out->data + at, text, length);
    out->count = out->count - bytes + length;
    return MT_OK;
}

static bool has_at(const struct mt_byte_list *out, size_t at, const char *text)
{
    size_t length = strlen(text);
    return at + length <= out->count && memcmp(out->data + at, text, length) == 0;
}

static size_t skip_spaces(const struct mt_byte_list *out, size_t at)
{
    while (at < out->count && out->data[at] == ' ') at++;
    return at;
}

/* The word at `at`, with what sets it: "(", "\text{", "in". Returns the place behind it; `at`: none. */
static size_t word_at(const struct mt_byte_list *out, size_t at, const char *word)
{
    static const char *const before[] = {"(", "\\text{", "(", "in "};
    size_t next = skip_spaces(out, at);
    bool text = false;
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        if (!has_at(out, next, before[i])) continue;
        if (i == 3 && word[0] != 'b') continue;
        text = text || i == 1;
        next = skip_spaces(out, next + strlen(before[i]));
    }
    if (next == at || !has_at(out, next, word)) return at;
    next += strlen(word);
    if (next < out->count && isalpha(out->data[next])) return at;
    next = skip_spaces(out, next);
    if (text && next < out->count && out->data[next] == '}') next = skip_spaces(out, next + 1);
    return next;
}

/* "5 out of 9", "12 by 5", "7 choose 3", "101 (base 2)". */
static enum mt_status join_numbers(struct mt_byte_list *out, size_t start)
{
    static const char *const words[] = {"out of", "by", "choose", "base"};
    static const char *const signs[] = {"/", "*", "\\choose ", "_"};
    enum mt_status status = MT_OK;
    for (size_t at = start + 1; at < out->count && status == MT_OK; at++) {
        if (!isdigit(out->data[at - 1])) continue;
        for (size_t i = 0; i < sizeof words / sizeof words[0] && status == MT_OK; i++) {
            size_t next = word_at(out, at, words[i]);
            if (next == at || next == out->count || !isdigit(out->data[next])) continue;
            int open = 0; // brackets and braces that go with the word
            int braces = 0;
            for (size_t k = at; k < next; k++) {
                open += out->data[k] == '(' ? 1 : 0;
                braces += (out->data[k] == '{' ? 1 : 0) - (out->data[k] == '}' ? 1 : 0);
            }
            size_t end = next;
            while (end < out->count && isdigit(out->data[end])) end++;
            size_t close = end;
            for (; open + braces > 0 && close < out->count; close++) {
                open -= out->data[close] == ')' ? 1 : 0;
                braces -= out->data[close] == '}' ? 1 : 0;
                if (strchr(" )}", out->data[close]) == NULL) break;
            }
            if (open != 0 || braces != 0) continue;
            status = put(out, end, close - end, "");
            if (status == MT_OK) status = put(out, at, next - at, signs[i]);
        }
    }
    return status;
}

/* The digits or the letter of an index at `at`, with its braces; *end is behind it. False: none. */
static bool index_at(const struct mt_byte_list *out, size_t at, size_t *first, size_t *bytes, size_t *end)
{
    bool braced = has_at(out, at, "{");
    *first = at + (braced ? 1 : 0);
    size_t next = *first;
    while (next < out->count && isdigit(out->data[next]) && (braced || next == *first)) next++;
    if (next == *first && next < out->count && isalpha(out->data[next])) next++;
    *bytes = next - *first;
    *end = next + (braced ? 1 : 0);
    return *bytes > 0 && *bytes < 8 && (!braced || has_at(out, next, "}"));
}

/* "{}_5C_2", "^5C_2", "_5P_2" and, of digits, "C_5^2": n over k, or that times k!. */
static enum mt_status spell_choices(struct mt_byte_list *out, size_t start)
{
    for (size_t at = start; at < out->count; at++) {
        size_t from = at;
        if (at > start && strchr(" *+-/=,(\\", out->data[at - 1]) == NULL) continue;
        if (has_at(out, at, "{}")) at += 2;
        size_t n[3] = {0};
        size_t k[3] = {0};
        bool before =
            (has_at(out, at, "_") || has_at(out, at, "^")) && index_at(out, at + 1, n, n + 1, n + 2);
        size_t name = before ? skip_spaces(out, n[2]) : at;
        bool order = has_at(out, name, "P_");
        bool named = has_at(out, name, "C_") || (before && order);
        if (!named || !index_at(out, name + 2, k, k + 1, k + 2)) continue;
        if (!before) { // C_5^2
            memcpy(n, k, sizeof n);
            if (!isdigit(out->data[n[0]]) || !has_at(out, n[2], "^") ||
                !index_at(out, n[2] + 1, k, k + 1, k + 2) || !isdigit(out->data[k[0]]))
                continue;
            if (n[1] < k[1] || (n[1] == k[1] && memcmp(out->data + n[0], out->data + k[0], n[1]) <= 0))
                continue;
        }
        char made[64] = "";
        size_t length = 0;
        const char *const parts[] = {"\\binom{", "}{", "}", "*", "!"};
        for (int i = 0; i < (order ? 5 : 3); i++) {
            memcpy(made + length, parts[i], strlen(parts[i]));
            length += strlen(parts[i]);
            const size_t *index = i == 0 ? n : k;
            if (i != 0 && i != 1 && i != 3) continue;
            memcpy(made + length, out->data + index[0], index[1]);
            length += index[1];
        }
        made[length] = '\0';
        enum mt_status status = put(out, from, k[2] - from, made);
        if (status != MT_OK) return status;
        at = from + length;
    }
    return MT_OK;
}

/* "0.7 (or 70%)" at the end gives the answer twice: "0.7 \or 70%". */
static enum mt_status open_second(struct mt_byte_list *out, size_t start)
{
    static const char *const heads[] = {"or ", "or, ", "i.e. ", "i.e., ", "that is, ", "=", "\\approx "};
    if (out->data[out->count - 1] != ')') return MT_OK;
    int open = 0;
    size_t at = out->count;
    do {
        at--;
        open += (out->data[at] == ')' ? 1 : 0) - (out->data[at] == '(' ? 1 : 0);
    } while (open > 0 && at > start);
    if (open != 0 || at == start) return MT_OK;
    size_t next = skip_spaces(out, at + 1);
    bool text = has_at(out, next, "\\text{");
    if (text) next = skip_spaces(out, next + 6);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (!has_at(out, next, heads[i])) continue;
        next = skip_spaces(out, next + strlen(heads[i]));
        if (text && !has_at(out, next, "}")) return MT_OK; // more words
        out->count--;
        return put(out, at, next + (text ? 1 : 0) - at, i == 6 ? " \\approx " : " \\or ");
    }
    return MT_OK;
}

enum mt_status mt_math_respell(struct mt_byte_list *out, size_t start)
{
    enum mt_status status = join_numbers(out, start);
    if (status == MT_OK) status = spell_choices(out, start);
    return status == MT_OK ? open_second(out, start) : status;
}
