/*
 * A struct as YAML: every key with its value and what it means, in the order of the table, under the titles
 * of its sections. Reading the text gives the same struct.
 */
#include <string.h>

#include "base/columns.h"
#include "base/exact.h"
#include "formats/keys/keys.h"
#include "formats/text/utf8.h"

#define VALUE_COLUMN   20 // where values begin
#define MEANING_COLUMN 34 // where their meanings do
#define MEMBER_INDENT  4

// ------------------------------------------------------------------ values

bool mt_key_is_plain(const char *text)
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
    if (mt_is_treacherous((int32_t)character) || character == 0xFEFF) return false;
    return character < 0xD800 || (character >= 0xE000 && character < 0xFFFE);
}

enum mt_status mt_key_append_quoted(const char *text, struct mt_byte_list *out)
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
    return mt_key_is_plain(text) ? mt_byte_list_append_text(out, text) : mt_key_append_quoted(text, out);
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

static uint64_t load_whole(enum mt_key_kind kind, const char *field)
{
    uint64_t wide = 0;
    int small = 0;
    bool flag = false;
    switch (kind) {
    case MT_KEY_SWITCH:
    case MT_KEY_FLAG: memcpy(&flag, field, sizeof flag); return flag;
    case MT_KEY_INT:
    case MT_KEY_CHOICE: memcpy(&small, field, sizeof small); return (uint64_t)small;
    default: memcpy(&wide, field, sizeof wide); return wide; // an int64_t here is never negative
    }
}

enum mt_status mt_key_append(const struct mt_key *key, const void *source, struct mt_byte_list *out)
{
    const struct mt_key_row *row = key->row;
    const char *field = (const char *)source + key->part->base + row->offset;
    const char *text = NULL;
    const char *const *list = NULL;
    const char *words = row->values;
    double number = 0.0;
    char digits[MT_EXACT_BYTES];
    switch (row->kind) {
    case MT_KEY_TEXT:
    case MT_KEY_NAME: memcpy(&text, field, sizeof text); return append_text(text, out);
    case MT_KEY_LIST:
    case MT_KEY_TEXTS: memcpy(&list, field, sizeof list); return append_list(list, out);
    case MT_KEY_NUMBER:
        memcpy(&number, field, sizeof number);
        if (number == 0.0 && strncmp(row->values, "auto|", 5) == 0)
            return mt_byte_list_append_text(out, "auto");
        return mt_byte_list_append_text(out, mt_exact_text(number, digits));
    case MT_KEY_INT:
    case MT_KEY_WHOLE:
    case MT_KEY_SEED:
        if (load_whole(row->kind, field) == 0 && strncmp(row->values, "auto|", 5) == 0)
            return mt_byte_list_append_text(out, "auto");
        (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)load_whole(row->kind, field));
        return mt_byte_list_append_text(out, digits);
    case MT_KEY_CHOICE:
    case MT_KEY_SWITCH:
        for (uint64_t i = load_whole(row->kind, field); i > 0; i--) words += strcspn(words, "|") + 1;
        return mt_byte_list_append(out, words, strcspn(words, "|"));
    case MT_KEY_FLAG:
        return mt_byte_list_append_text(out, load_whole(row->kind, field) != 0 ? "true" : "false");
    case MT_KEY_OWN:
    case MT_KEY_EACH: return row->append(key, source, out);
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

static enum mt_status append_spaces(size_t count, struct mt_byte_list *text)
{
    char spaces[MEANING_COLUMN + 1];
    (void)snprintf(spaces, sizeof spaces, "%*s", (int)count, "");
    return mt_byte_list_append_text(text, spaces);
}

/* Values of several lines, a list's, stand below their key. */
static enum mt_status append_lines(const struct mt_byte_list *lines, struct mt_byte_list *text)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < lines->count && status == MT_OK; i++) {
        if (i == 0 || lines->data[i - 1] == '\n') status = append_spaces(2 * MEMBER_INDENT, text);
        if (status == MT_OK) status = mt_byte_list_append(text, &lines->data[i], 1);
    }
    return status;
}

/* "    rank:           32            # meaning", which is left out where the value is too long for it. */
static enum mt_status append_line(const struct mt_key *key, const struct mt_byte_list *value,
                                  struct mt_byte_list *text)
{
    const char *dot = strchr(key->name, '.');
    char name[VALUE_COLUMN + MT_KEY_NAME_BYTES];
    bool lines = value->count > 0 && value->data[value->count - 1] == '\n';
    size_t start = text->count;
    (void)snprintf(name, sizeof name, "%*s%s:", dot != NULL ? MEMBER_INDENT : 0, "",
                   dot != NULL ? dot + 1 : key->name);
    enum mt_status status = mt_byte_list_append_text(text, name);
    if (status == MT_OK && !lines)
        status = append_spaces(strlen(name) < VALUE_COLUMN ? VALUE_COLUMN - strlen(name) : 1, text);
    if (status == MT_OK && !lines) status = mt_byte_list_append(text, value->data, value->count);
    size_t used = text->count - start;
    if (status == MT_OK && used < MEANING_COLUMN) {
        status = append_spaces(MEANING_COLUMN - used, text);
        if (status == MT_OK) status = mt_byte_list_append_text(text, "# ");
        if (status == MT_OK) status = mt_byte_list_append_text(text, key->row->meaning);
    }
    if (status == MT_OK) status = mt_byte_list_append_text(text, "\n");
    return status == MT_OK && lines ? append_lines(value, text) : status;
}

/* Writes the title of a section, and the group of a dotted name, where they begin. */
static enum mt_status append_heads(const char *title, const char *group_before, const char *group,
                                   struct mt_byte_list *text)
{
    char heads[2 * MT_KEY_NAME_BYTES] = "";
    bool opens = group[0] != '\0' && strcmp(group, group_before) != 0;
    if (title != NULL) (void)snprintf(heads, sizeof heads, "%s# %s\n", text->count > 0 ? "\n" : "", title);
    enum mt_status status = mt_byte_list_append_text(text, heads);
    (void)snprintf(heads, sizeof heads, "%s:\n", group);
    return status == MT_OK && opens ? mt_byte_list_append_text(text, heads) : status;
}

enum mt_status mt_keys_text(struct mt_context *ctx, const struct mt_keys *keys, const void *source,
                            bool (*left_out)(const void *source, const char *name), struct mt_arena *arena,
                            const char **text)
{
    struct mt_byte_list whole = {.ctx = ctx};
    struct mt_byte_list value = {.ctx = ctx};
    struct mt_key key = {0};
    char group[MT_KEY_NAME_BYTES] = ""; // that is open: "lora"
    const char *title = NULL;           // yet to be written
    enum mt_status status = MT_OK;
    while (status == MT_OK && mt_key_next(keys, &key)) {
        char here[MT_KEY_NAME_BYTES] = "";
        const char *dot = strchr(key.name, '.');
        if (key.row->title != NULL) title = key.row->title;
        if (!mt_key_is_written(&key) || left_out(source, key.name)) continue;
        if (dot != NULL) memcpy(here, key.name, (size_t)(dot - key.name));
        value.count = 0;
        status = mt_key_append(&key, source, &value);
        if (status == MT_OK) status = append_heads(title, group, here, &whole);
        if (status == MT_OK) status = append_line(&key, &value, &whole);
        memcpy(group, here, sizeof group);
        title = NULL;
    }
    if (status == MT_OK) status = mt_arena_copy_text(arena, (const char *)whole.data, whole.count, text);
    mt_byte_list_free(&whole);
    mt_byte_list_free(&value);
    return status;
}
