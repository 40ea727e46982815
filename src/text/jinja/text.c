/* What methods and filters do with text: finding, stripping, replacing, lines, cases, escaping. */
#define _GNU_SOURCE // memmem
#include "formats/text/utf8.h"
#include "text/jinja/run.h"

size_t mt_jinja_characters(struct mt_marked text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.bytes; i++) count += ((unsigned char)text.text[i] & 0xC0) != 0x80;
    return count;
}

size_t mt_jinja_character_at(struct mt_marked text, size_t index)
{
    size_t at = 0;
    for (; at < text.bytes && index > 0; index--) at += mt_utf8_length((uint8_t)text.text[at]);
    return at;
}

size_t mt_jinja_find_text(struct mt_marked text, struct mt_marked needle, size_t from)
{
    if (from > text.bytes) return SIZE_MAX;
    if (needle.bytes == 0) return from;
    const char *found = memmem(text.text + from, text.bytes - from, needle.text, needle.bytes);
    return found != NULL ? (size_t)(found - text.text) : SIZE_MAX;
}

static bool is_stripped(struct mt_marked text, size_t at, const struct mt_marked *characters)
{
    size_t length = 0;
    uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
    if (characters == NULL) return mt_jinja_is_space(c);
    for (size_t i = 0; i < characters->bytes;) {
        size_t bytes = 0;
        if (mt_utf8_decode((const uint8_t *)characters->text + i, &bytes) == c) return true;
        i += bytes;
    }
    return false;
}

struct mt_marked mt_jinja_strip(struct mt_marked text, const struct mt_marked *characters, bool left,
                                bool right)
{
    size_t start = 0;
    size_t end = text.bytes;
    while (left && start < end && is_stripped(text, start, characters))
        start += mt_utf8_length((uint8_t)text.text[start]);
    while (right && end > start) {
        size_t previous = mt_utf8_previous((const uint8_t *)text.text, end);
        if (!is_stripped(text, previous, characters)) break;
        end = previous;
    }
    return marked_part(text, start, end);
}

/* With an empty `old`, `with` goes before every character and to the end. */
static struct mt_marked replace_nothing(struct jinja_run *run, struct mt_marked text, struct mt_marked with,
                                        int64_t most)
{
    struct jinja_builder out = {.run = run};
    size_t at = 0;
    while (most != 0 && !mt_jinja_failed(run)) {
        size_t next = at < text.bytes ? at + mt_utf8_length((uint8_t)text.text[at]) : at;
        mt_jinja_put(&out, with);
        mt_jinja_put(&out, marked_part(text, at, next));
        mt_jinja_spend(run, 1);
        if (at == text.bytes) break;
        at = next;
        most -= most > 0;
    }
    mt_jinja_put(&out, marked_part(text, at, text.bytes));
    return mt_jinja_built(&out);
}

struct mt_marked mt_jinja_replace(struct jinja_run *run, struct mt_marked text, struct mt_marked old,
                                  struct mt_marked with, int64_t most)
{
    struct jinja_builder out = {.run = run};
    size_t at = 0;
    mt_jinja_spend(run, text.bytes / 64);
    if (old.bytes == 0) return replace_nothing(run, text, with, most);
    while (most != 0 && !mt_jinja_failed(run)) {
        size_t found = mt_jinja_find_text(text, old, at);
        if (found == SIZE_MAX) break;
        mt_jinja_put(&out, marked_part(text, at, found));
        mt_jinja_put(&out, with);
        mt_jinja_spend(run, 1);
        at = found + old.bytes;
        most -= most > 0;
    }
    if (at == 0) return text; // nothing was found
    mt_jinja_put(&out, marked_part(text, at, text.bytes));
    return mt_jinja_built(&out);
}

struct jinja_list *mt_jinja_split_lines(struct jinja_run *run, struct mt_marked text, bool keep)
{
    struct jinja_list *list = mt_jinja_list_new(run, 0);
    size_t start = 0;
    mt_jinja_spend(run, text.bytes / 32);
    for (size_t at = 0; at < text.bytes && !mt_jinja_failed(run);) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        size_t next = at + length;
        if (mt_jinja_is_line_end(c)) {
            if (c == '\r' && next < text.bytes && text.text[next] == '\n') next++;
            mt_jinja_list_add(run, list, marked_value(marked_part(text, start, keep ? next : at)));
            start = next;
        }
        at = next;
    }
    if (start < text.bytes) mt_jinja_list_add(run, list, marked_value(marked_part(text, start, text.bytes)));
    return list;
}

// ------------------------------------------------------------------ cases

/* Whether the sigma at `at` ends a word: a cased letter before it, none after, ignoring what is ignorable. */
static bool is_final_sigma(struct mt_marked text, size_t at)
{
    const uint8_t *bytes = (const uint8_t *)text.text;
    size_t length = 0;
    bool before = false;
    for (size_t i = at; i > 0;) {
        i = mt_utf8_previous(bytes, i);
        uint32_t c = mt_utf8_decode(bytes + i, &length);
        if (mt_jinja_is_case_ignorable(c)) continue;
        before = mt_jinja_is_cased(c);
        break;
    }
    if (!before) return false;
    for (size_t i = at + 2; i < text.bytes; i += length) {
        uint32_t c = mt_utf8_decode(bytes + i, &length);
        if (!mt_jinja_is_case_ignorable(c)) return !mt_jinja_is_cased(c);
    }
    return true;
}

/* Puts the character at `at` in another case; returns its length. */
static size_t put_cased(struct jinja_builder *out, struct mt_marked text, size_t at, enum jinja_case to)
{
    uint32_t mapped[3];
    size_t length = 0;
    uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
    size_t count = mt_jinja_map_case(c, to, mapped);
    if (to == JINJA_LOWER && c == 0x3A3) { // looking around may take as long as the text
        mt_jinja_spend(out->run, 1 + text.bytes / 32);
        if (!mt_jinja_failed(out->run) && is_final_sigma(text, at)) mapped[0] = 0x3C2;
    }
    for (size_t i = 0; i < count; i++) mt_jinja_put_character(out, mapped[i], mt_jinja_mark_at(text, at));
    return length;
}

struct mt_marked mt_jinja_change_case(struct jinja_run *run, struct mt_marked text, enum jinja_case first,
                                      enum jinja_case rest)
{
    struct jinja_builder out = {.run = run};
    mt_jinja_spend(run, text.bytes / 16);
    for (size_t at = 0; at < text.bytes && !mt_jinja_failed(run);)
        at += put_cased(&out, text, at, at == 0 ? first : rest);
    return mt_jinja_built(&out);
}

struct mt_marked mt_jinja_title_case(struct jinja_run *run, struct mt_marked text)
{
    struct jinja_builder out = {.run = run};
    bool inside = false; // a word
    mt_jinja_spend(run, text.bytes / 16);
    for (size_t at = 0; at < text.bytes && !mt_jinja_failed(run);) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        at += put_cased(&out, text, at, inside ? JINJA_LOWER : JINJA_TITLE);
        inside = mt_jinja_is_cased(c);
    }
    return mt_jinja_built(&out);
}

bool mt_jinja_has_case(struct jinja_run *run, struct mt_marked text, enum jinja_case wanted)
{
    bool any = false;
    bool other = false;
    mt_jinja_spend(run, text.bytes / 4);
    for (size_t at = 0; !other && at < text.bytes;) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        bool fits = wanted == JINJA_UPPER ? mt_jinja_is_upper(c) : mt_jinja_is_lower(c);
        any = any || fits;
        other = !fits && mt_jinja_is_cased(c);
        at += length;
    }
    return any && !other;
}

// ------------------------------------------------------------------ safe text, jinja2's Markup

struct mt_value mt_jinja_safe(struct mt_marked text)
{
    struct mt_value value = marked_value(text);
    value.safe = true;
    return value;
}

struct mt_value mt_jinja_safe_like(struct mt_value like, struct mt_marked text)
{
    return like.kind == JINJA_STRING && like.safe ? mt_jinja_safe(text) : marked_value(text);
}

struct mt_value mt_jinja_escape(struct jinja_run *run, struct mt_value value)
{
    static const char special[] = "&<>\"'";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    struct jinja_builder out = {.run = run};
    size_t start = 0;
    if (value.kind == JINJA_STRING && value.safe) return value;
    struct mt_marked text = mt_jinja_to_text(run, value);
    mt_jinja_spend(run, text.bytes / 16);
    for (size_t at = 0; at < text.bytes && !mt_jinja_failed(run); at++) {
        const char *found = text.text[at] != '\0' ? strchr(special, text.text[at]) : NULL;
        if (found == NULL) continue;
        mt_jinja_put(&out, marked_part(text, start, at));
        mt_jinja_put_ascii(&out, entities[found - special], mt_jinja_mark_at(text, at));
        start = at + 1;
    }
    mt_jinja_put(&out, marked_part(text, start, text.bytes));
    return mt_jinja_safe(mt_jinja_built(&out));
}
