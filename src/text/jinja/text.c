/* What methods and filters do with text: finding, stripping, replacing, lines, cases. */
#include "formats/text/utf8.h"
#include "text/jinja/run.h"

size_t jinja_find_text(struct mt_marked text, struct mt_marked needle, size_t from)
{
    if (from > text.bytes || needle.bytes > text.bytes - from) return SIZE_MAX;
    if (needle.bytes == 0) return from;
    size_t last = text.bytes - needle.bytes;
    while (from <= last) {
        const char *found = memchr(text.text + from, needle.text[0], last - from + 1);
        if (found == NULL) return SIZE_MAX;
        from = (size_t)(found - text.text);
        if (memcmp(found, needle.text, needle.bytes) == 0) return from;
        from++;
    }
    return SIZE_MAX;
}

static bool is_stripped(struct mt_marked text, size_t at, const struct mt_marked *characters)
{
    size_t length = 0;
    uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
    if (characters == NULL) return jinja_is_space(c);
    for (size_t i = 0; i < characters->bytes;) {
        size_t bytes = 0;
        if (mt_utf8_decode((const uint8_t *)characters->text + i, &bytes) == c) return true;
        i += bytes;
    }
    return false;
}

struct mt_marked jinja_strip(struct mt_marked text, const struct mt_marked *characters, bool left, bool right)
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
static enum mt_status replace_nothing(struct jinja_run *run, struct mt_marked text, struct mt_marked with,
                                      int64_t most, struct mt_marked *result)
{
    struct jinja_builder builder = {0};
    enum mt_status status = MT_OK;
    size_t at = 0;
    while (status == MT_OK && (most < 0 || most > 0)) {
        size_t next = at < text.bytes ? at + mt_utf8_length((uint8_t)text.text[at]) : at;
        status = jinja_put(run, &builder, with);
        if (status == MT_OK) status = jinja_put(run, &builder, marked_part(text, at, next));
        if (status == MT_OK) status = jinja_spend(run, 1);
        bool end = at == text.bytes;
        at = next;
        if (end) break;
        most -= most > 0;
    }
    if (status == MT_OK) status = jinja_put(run, &builder, marked_part(text, at, text.bytes));
    *result = jinja_built(&builder);
    return status;
}

enum mt_status jinja_replace(struct jinja_run *run, struct mt_marked text, struct mt_marked old,
                             struct mt_marked with, int64_t most, struct mt_marked *result)
{
    struct jinja_builder builder = {0};
    size_t at = 0;
    enum mt_status status = jinja_spend(run, text.bytes / 64);
    if (status == MT_OK && old.bytes == 0) return replace_nothing(run, text, with, most, result);
    while (status == MT_OK && most != 0) {
        size_t found = jinja_find_text(text, old, at);
        if (found == SIZE_MAX) break;
        status = jinja_put(run, &builder, marked_part(text, at, found));
        if (status == MT_OK) status = jinja_put(run, &builder, with);
        if (status == MT_OK) status = jinja_spend(run, 1);
        at = found + old.bytes;
        most -= most > 0;
    }
    if (at == 0) { // nothing was found
        *result = text;
        return status;
    }
    if (status == MT_OK) status = jinja_put(run, &builder, marked_part(text, at, text.bytes));
    *result = jinja_built(&builder);
    return status;
}

enum mt_status jinja_split_lines(struct jinja_run *run, struct mt_marked text, bool keep,
                                 struct jinja_list *list)
{
    enum mt_status status = jinja_spend(run, text.bytes / 32);
    size_t start = 0;
    for (size_t at = 0; status == MT_OK && at < text.bytes;) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        size_t next = at + length;
        if (jinja_is_line_end(c)) {
            if (c == '\r' && next < text.bytes && text.text[next] == '\n') next++;
            status = jinja_list_add(run, list, marked_value(marked_part(text, start, keep ? next : at)));
            start = next;
        }
        at = next;
    }
    if (status == MT_OK && start < text.bytes)
        status = jinja_list_add(run, list, marked_value(marked_part(text, start, text.bytes)));
    return status;
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
        if (jinja_is_case_ignorable(c)) continue;
        before = jinja_is_cased(c);
        break;
    }
    if (!before) return false;
    for (size_t i = at + 2; i < text.bytes; i += length) {
        uint32_t c = mt_utf8_decode(bytes + i, &length);
        if (!jinja_is_case_ignorable(c)) return !jinja_is_cased(c);
    }
    return true;
}

static enum mt_status put_cased(struct jinja_run *run, struct jinja_builder *builder, struct mt_marked text,
                                size_t at, enum jinja_case to, size_t *length)
{
    uint32_t mapped[3];
    uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, length);
    size_t count = jinja_map_case(c, to, mapped);
    enum mt_status status = MT_OK;
    if (to == JINJA_LOWER && c == 0x3A3) { // looking around may take as long as the text
        status = jinja_spend(run, 1 + text.bytes / 32);
        if (is_final_sigma(text, at)) mapped[0] = 0x3C2;
    }
    for (size_t i = 0; status == MT_OK && i < count; i++)
        status = jinja_put_character(run, builder, mapped[i], jinja_mark_at(text, at));
    return status;
}

enum mt_status jinja_change_case(struct jinja_run *run, struct mt_marked text, enum jinja_case first,
                                 enum jinja_case rest, struct mt_marked *result)
{
    struct jinja_builder builder = {0};
    enum mt_status status = jinja_spend(run, text.bytes / 16);
    for (size_t at = 0; status == MT_OK && at < text.bytes;) {
        size_t length = 0;
        status = put_cased(run, &builder, text, at, at == 0 ? first : rest, &length);
        at += length;
    }
    *result = jinja_built(&builder);
    return status;
}

enum mt_status jinja_title_case(struct jinja_run *run, struct mt_marked text, struct mt_marked *result)
{
    struct jinja_builder builder = {0};
    bool inside = false; // a word
    enum mt_status status = jinja_spend(run, text.bytes / 16);
    for (size_t at = 0; status == MT_OK && at < text.bytes;) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        status = put_cased(run, &builder, text, at, inside ? JINJA_LOWER : JINJA_TITLE, &length);
        inside = jinja_is_cased(c);
        at += length;
    }
    *result = jinja_built(&builder);
    return status;
}
