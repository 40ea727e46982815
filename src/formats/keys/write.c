/*
 * A struct as YAML: every key with its value and what it means, in the order of the table, under the titles
 * of its sections. Reading the text gives the same struct.
 */
#include <string.h>

#include "base/exact.h"
#include "formats/keys/keys.h"
#include "formats/text/utf8.h"

#define VALUE_COLUMN   20 // where values begin
#define MEANING_COLUMN 34 // where their meanings do
#define MEMBER_INDENT  4

void mt_keys_print(FILE *stream, const struct mt_keys *keys, int name_width)
{
    struct mt_key key = {0};
    while (mt_key_next(keys, &key)) {
        (void)fprintf(stream, "%-*s %s\n%-*s   %s; default %s\n", name_width, key.name, key.row->meaning,
                      name_width, "", key.row->values, key.standard);
    }
}

// ------------------------------------------------------------------ values

/* True when a text needs no quotes, be it in a line of its own or within brackets. */
static bool is_plain(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t length = strlen(text);
    if (length == 0 || strcmp(text, "null") == 0) return false;
    if (strchr(letters, text[0]) == NULL && strchr("/._", text[0]) == NULL) return false;
    for (size_t i = 1; i < length; i++) {
        if (strchr(letters, text[i]) == NULL && strchr("/._-+=*@~", text[i]) == NULL) return false;
    }
    return true;
}

/* Characters that stand for themselves within quotes; the rest is escaped, line ends above all. */
static bool is_visible(uint32_t character)
{
    if (character < 0x7F) return character >= 0x20;
    if (character < 0xA0 || character == 0x2028 || character == 0x2029 || character == 0xFEFF) return false;
    return character < 0xD800 || (character >= 0xE000 && character < 0xFFFE);
}

static enum mt_status append_quoted(const char *text, struct mt_byte_list *out)
{
    const uint8_t *at = (const uint8_t *)text;
    size_t left = strlen(text);
    enum mt_status status = mt_byte_list_append_text(out, "\"");
    while (left > 0 && status == MT_OK) {
        size_t bytes = 1;
        uint32_t character = mt_utf8_decode(at, &bytes);
        char escape[16];
        if (character == '"' || character == '\\') {
            (void)snprintf(escape, sizeof escape, "\\%c", (int)character);
        } else if (character == '\n') {
            (void)snprintf(escape, sizeof escape, "\\n");
        } else if (is_visible(character)) {
            memcpy(escape, at, bytes);
            escape[bytes] = '\0';
        } else {
            (void)snprintf(escape, sizeof escape, "\\U%08x", (unsigned)character);
        }
        status = mt_byte_list_append_text(out, escape);
        at += bytes;
        left -= bytes;
    }
    return status == MT_OK ? mt_byte_list_append_text(out, "\"") : status;
}

/* Text is valid UTF-8: it came through the YAML reader, or is one of ours. */
static enum mt_status append_text(const char *text, struct mt_byte_list *out)
{
    if (text == NULL) return mt_byte_list_append_text(out, "null");
    return is_plain(text) ? mt_byte_list_append_text(out, text) : append_quoted(text, out);
}

static enum mt_status append_list(const char *const *list, struct mt_byte_list *out)
{
    enum mt_status status = mt_byte_list_append_text(out, "[");
    for (size_t i = 0; list[i] != NULL && status == MT_OK; i++) {
        if (i > 0) status = mt_byte_list_append_text(out, ", ");
        if (status == MT_OK) status = append_text(list[i], out);
    }
    return status == MT_OK ? mt_byte_list_append_text(out, "]") : status;
}

static enum mt_status append_word(const char *words, int place, struct mt_byte_list *out)
{
    for (; place > 0; place--) words += strcspn(words, "|") + 1;
    return mt_byte_list_append(out, words, strcspn(words, "|"));
}

static enum mt_status append_whole(uint64_t number, struct mt_byte_list *out)
{
    char digits[32];
    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    return mt_byte_list_append_text(out, digits);
}

static enum mt_status append_number(const char *values, double number, struct mt_byte_list *out)
{
    char digits[MT_EXACT_BYTES];
    bool automatic = number == 0.0 && strncmp(values, "auto|", 5) == 0;
    return mt_byte_list_append_text(out, automatic ? "auto" : mt_exact_text(number, digits));
}

enum mt_status mt_key_append(const struct mt_key *key, const void *source, struct mt_byte_list *out)
{
    const struct mt_key_row *row = key->row;
    const char *field = (const char *)source + key->part->base + row->offset;
    union {
        const char *text;
        const char *const *list;
        double number;
        uint64_t whole; // an int64_t here is never negative
        int small;
        bool flag;
    } value = {0};
    switch (row->kind) {
    case MT_KEY_TEXT:
    case MT_KEY_NAME: memcpy(&value.text, field, sizeof value.text); return append_text(value.text, out);
    case MT_KEY_LIST:
    case MT_KEY_TEXTS: memcpy(&value.list, field, sizeof value.list); return append_list(value.list, out);
    case MT_KEY_NUMBER:
        memcpy(&value.number, field, sizeof value.number);
        return append_number(row->values, value.number, out);
    case MT_KEY_INT:
        memcpy(&value.small, field, sizeof value.small);
        return append_whole((uint64_t)value.small, out);
    case MT_KEY_WHOLE:
    case MT_KEY_SEED: memcpy(&value.whole, field, sizeof value.whole); return append_whole(value.whole, out);
    case MT_KEY_CHOICE:
        memcpy(&value.small, field, sizeof value.small);
        return append_word(row->values, value.small, out);
    case MT_KEY_SWITCH:
        memcpy(&value.flag, field, sizeof value.flag);
        return append_word(row->values, value.flag, out);
    case MT_KEY_FLAG:
        memcpy(&value.flag, field, sizeof value.flag);
        return mt_byte_list_append_text(out, value.flag ? "true" : "false");
    case MT_KEY_OWN:
    case MT_KEY_EACH: return row->append((const char *)source + key->part->base, out);
    }
    return MT_OK;
}

enum mt_status mt_keys_append_element(const struct mt_keys *keys, const void *source,
                                      struct mt_byte_list *text)
{
    struct mt_key key = {0};
    enum mt_status status = MT_OK;
    const char *start = "- ";
    while (status == MT_OK && mt_key_next(keys, &key)) {
        size_t line = text->count;
        status = mt_byte_list_append_text(text, start);
        if (status == MT_OK) status = mt_byte_list_append_text(text, key.name);
        if (status == MT_OK) status = mt_byte_list_append_text(text, ": ");
        size_t value = text->count;
        if (status == MT_OK) status = mt_key_append(&key, source, text);
        const char *standard = mt_key_has_standard(&key) ? key.standard : "null";
        size_t length = text->count - value;
        bool left_out = length == strlen(standard) && memcmp(text->data + value, standard, length) == 0;
        if (left_out) text->count = line;
        if (status == MT_OK && !left_out) status = mt_byte_list_append_text(text, "\n");
        start = "  ";
    }
    return status;
}

// ------------------------------------------------------------------ the whole

struct writer {
    const void *source;
    struct mt_byte_list text;
    struct mt_byte_list value;     // of the present key
    char group[MT_KEY_NAME_BYTES]; // that is open: "lora"; "": none
    size_t line;                   // where the present line begins
    const char *title;             // of a section whose first line is yet to come; NULL: none
};

static enum mt_status append(struct writer *writer, const char *text)
{
    return mt_byte_list_append_text(&writer->text, text);
}

/* Spaces up to a column of the present line, at least one. */
static enum mt_status append_spaces(struct writer *writer, size_t column)
{
    char spaces[64];
    size_t used = writer->text.count - writer->line;
    (void)snprintf(spaces, sizeof spaces, "%*s", used < column ? (int)(column - used) : 1, "");
    return append(writer, spaces);
}

static enum mt_status append_title(struct writer *writer)
{
    char text[96];
    if (writer->title == NULL) return MT_OK;
    (void)snprintf(text, sizeof text, "%s# %s\n", writer->text.count > 0 ? "\n" : "", writer->title);
    writer->title = NULL;
    return append(writer, text);
}

/* Opens the group of a dotted name where it is not open yet, and begins the line of the key: "    rank:". */
static enum mt_status begin_line(struct writer *writer, const char *name)
{
    const char *dot = strchr(name, '.');
    char group[MT_KEY_NAME_BYTES];
    char text[2 * MT_KEY_NAME_BYTES];
    (void)snprintf(group, sizeof group, "%.*s", dot != NULL ? (int)(dot - name) : 0, name);
    enum mt_status status = MT_OK;
    if (dot != NULL && strcmp(group, writer->group) != 0) {
        (void)snprintf(text, sizeof text, "%s:\n", group);
        status = append(writer, text);
    }
    memcpy(writer->group, group, sizeof group);
    writer->line = writer->text.count;
    (void)snprintf(text, sizeof text, "%*s%s:", dot != NULL ? MEMBER_INDENT : 0, "",
                   dot != NULL ? dot + 1 : name);
    return status == MT_OK ? append(writer, text) : status;
}

/* The meaning of a key stands beside its value, unless that is too long. */
static enum mt_status finish_line(struct writer *writer, const char *meaning)
{
    if (writer->text.count - writer->line >= MEANING_COLUMN) return append(writer, "\n");
    enum mt_status status = append_spaces(writer, MEANING_COLUMN);
    if (status == MT_OK) status = append(writer, "# ");
    if (status == MT_OK) status = append(writer, meaning);
    return status == MT_OK ? append(writer, "\n") : status;
}

/* The lines of a list stand below their key. */
static enum mt_status append_lines(struct writer *writer)
{
    enum mt_status status = MT_OK;
    const char *at = (const char *)writer->value.data;
    const char *end = at + writer->value.count;
    while (status == MT_OK && at < end) {
        size_t length = (size_t)((const char *)memchr(at, '\n', (size_t)(end - at)) - at) + 1;
        writer->line = writer->text.count;
        status = append_spaces(writer, 2 * MEMBER_INDENT);
        if (status == MT_OK) status = mt_byte_list_append(&writer->text, at, length);
        at += length;
    }
    return status;
}

static enum mt_status append_key(struct writer *writer, const struct mt_key *key)
{
    writer->value.count = 0;
    enum mt_status status = mt_key_append(key, writer->source, &writer->value);
    if (status == MT_OK) status = append_title(writer);
    if (status == MT_OK) status = begin_line(writer, key->name);
    if (status != MT_OK) return status;
    size_t length = writer->value.count;
    bool lines = length > 0 && writer->value.data[length - 1] == '\n';
    if (!lines) status = append_spaces(writer, VALUE_COLUMN);
    if (!lines && status == MT_OK) status = mt_byte_list_append(&writer->text, writer->value.data, length);
    if (status == MT_OK) status = finish_line(writer, key->row->meaning);
    return lines && status == MT_OK ? append_lines(writer) : status;
}

enum mt_status mt_keys_text(struct mt_context *ctx, const struct mt_keys *keys, const void *source,
                            bool (*left_out)(const void *source, const char *name), struct mt_arena *arena,
                            const char **text)
{
    struct writer writer = {.source = source, .text = {.ctx = ctx}, .value = {.ctx = ctx}};
    struct mt_key key = {0};
    char *copy = NULL;
    enum mt_status status = MT_OK;
    while (status == MT_OK && mt_key_next(keys, &key)) {
        bool own = key.row->kind == MT_KEY_OWN || key.row->kind == MT_KEY_EACH;
        if (key.row->title != NULL) writer.title = key.row->title;
        if (key.part->of_elements || (own && key.row->append == NULL) || left_out(source, key.name)) continue;
        status = append_key(&writer, &key);
    }
    if (status == MT_OK)
        status = mt_arena_copy_text(arena, (const char *)writer.text.data, writer.text.count, &copy);
    mt_byte_list_free(&writer.text);
    mt_byte_list_free(&writer.value);
    *text = copy;
    return status;
}
