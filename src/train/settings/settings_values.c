/* Values: from a node to a field of the settings, by the kind of its row, and from a field to text. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exact.h"
#include "formats/text/printable.h"
#include "formats/text/utf8.h"
#include "train/settings/settings_parts.h"

// ------------------------------------------------------------------ texts of numbers and words

static const char *skip_digits(const char *text)
{
    while (*text >= '0' && *text <= '9') text++;
    return text;
}

bool mt_settings_is_number(const char *text)
{
    if (*text == '+' || *text == '-') text++;
    const char *whole = text;
    text = skip_digits(text);
    size_t digits = (size_t)(text - whole);
    if (*text == '.') {
        const char *fraction = ++text;
        text = skip_digits(text);
        digits += (size_t)(text - fraction);
    }
    if (digits == 0) return false;
    if (*text == 'e' || *text == 'E') {
        text++;
        if (*text == '+' || *text == '-') text++;
        if (skip_digits(text) == text) return false;
        text = skip_digits(text);
    }
    return *text == '\0';
}

static bool read_whole(const char *text, uint64_t *value)
{
    if (*text == '\0' || *skip_digits(text) != '\0') return false;
    errno = 0;
    *value = strtoull(text, NULL, 10);
    return errno == 0;
}

static bool read_flag(const char *text, bool *value)
{
    *value = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0;
    return *value || strcmp(text, "false") == 0 || strcmp(text, "no") == 0;
}

/* The place of `word` among the words between bars, -1 if it is none of them. */
static int place_of_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (int place = 0;; place++) {
        size_t here = strcspn(words, "|");
        if (here == length && memcmp(words, word, length) == 0) return place;
        if (words[here] == '\0') return -1;
        words += here + 1;
    }
}

// ------------------------------------------------------------------ reading

/* A value on its way into a field. */
struct value {
    const struct mt_settings_reader *reader;
    const struct mt_settings_entry *entry;
    const struct mt_yaml_node *node;
    const struct mt_settings_row *row;
    const char *name; // of the key, for messages
    char *field;
};

static enum mt_status refuse(const struct value *value)
{
    const struct mt_yaml_node *node = value->node;
    const char *expected = value->row->values;
    if (node->kind != MT_YAML_SCALAR || mt_yaml_is_nothing(node)) {
        return mt_settings_fail_at(value->reader, value->entry, node, "%s is %s, expected %s", value->name,
                                   mt_yaml_kind_text(node), expected);
    }
    if (node->quoted) {
        return mt_settings_fail_at(value->reader, value->entry, node, "%s is the text \"%s\", expected %s",
                                   value->name, mt_printable(node->text).text, expected);
    }
    return mt_settings_fail_at(value->reader, value->entry, node, "%s is %s, expected %s", value->name,
                               mt_printable(node->text).text, expected);
}

static bool in_range(const struct mt_settings_row *row, double number)
{
    bool above = row->low_is_open ? number > row->low : number >= row->low;
    bool below = row->high_is_open ? number < row->high : number <= row->high;
    return above && below;
}

/* A number within the values a row names, but beyond what makes sense. */
static enum mt_status refuse_size(const struct value *value)
{
    return mt_settings_fail_at(value->reader, value->entry, value->node,
                               "%s is %s, expected %.15g at the most", value->name,
                               mt_printable(value->node->text).text, value->row->high);
}

static enum mt_status store_number(const struct value *value)
{
    if (value->node->quoted || !mt_settings_is_number(value->node->text)) return refuse(value);
    double number = strtod(value->node->text, NULL);
    bool named = value->row->high_is_open || strstr(value->row->values, "<=") != NULL;
    if (!named && number > value->row->high) return refuse_size(value);
    if (!in_range(value->row, number)) return refuse(value);
    memcpy(value->field, &number, sizeof number);
    return MT_OK;
}

static enum mt_status store_whole(const struct value *value)
{
    uint64_t number = 0;
    if (value->node->quoted || !read_whole(value->node->text, &number)) return refuse(value);
    if (value->row->kind == MT_SETTING_SEED) {
        memcpy(value->field, &number, sizeof number);
        return MT_OK;
    }
    if ((double)number > value->row->high) return refuse_size(value);
    if (!in_range(value->row, (double)number)) return refuse(value);
    int64_t wide = (int64_t)number;
    memcpy(value->field, &wide, sizeof wide);
    return MT_OK;
}

static enum mt_status store_word(const struct value *value)
{
    int place = place_of_word(value->row->values, value->node->text);
    if (place < 0) return refuse(value);
    bool flag = place != 0;
    if (value->row->kind == MT_SETTING_SWITCH) memcpy(value->field, &flag, sizeof flag);
    if (value->row->kind == MT_SETTING_CHOICE) memcpy(value->field, &place, sizeof place);
    return MT_OK;
}

static enum mt_status store_flag(const struct value *value)
{
    bool flag = false;
    if (value->node->quoted || !read_flag(value->node->text, &flag)) return refuse(value);
    memcpy(value->field, &flag, sizeof flag);
    return MT_OK;
}

static enum mt_status store_text(const struct value *value)
{
    const char *text = value->node->text;
    bool nothing = mt_yaml_is_nothing(value->node);
    if (value->row->kind == MT_SETTING_NAME && (nothing || text[0] == '\0')) return refuse(value);
    if (nothing || text[0] == '\0') text = NULL;
    memcpy(value->field, &text, sizeof text);
    return MT_OK;
}

// ------------------------------------------------------------------ lists

/* Room for `count` texts and the NULL behind them. */
static enum mt_status make_list(const struct value *value, size_t count, const char ***list)
{
    void *memory = NULL;
    enum mt_status status =
        mt_arena_allocate(value->reader->arena, (count + 1) * sizeof(const char *), &memory);
    *list = memory;
    return status;
}

static enum mt_status list_of_nodes(const struct value *value, const char ***list)
{
    size_t count = 0;
    enum mt_status status = make_list(value, value->node->count, list);
    if (status != MT_OK) return status;
    for (const struct mt_yaml_node *item = value->node->first; item != NULL; item = item->next) {
        if (item->kind != MT_YAML_SCALAR || mt_yaml_is_nothing(item) || item->text[0] == '\0') {
            return mt_settings_fail_at(value->reader, value->entry, item,
                                       "%s holds %s, expected a list of texts", value->name,
                                       mt_yaml_kind_text(item));
        }
        (*list)[count++] = item->text;
    }
    return MT_OK;
}

/* "a, b": spaces around a word are not part of it. */
static enum mt_status list_of_words(const struct value *value, const char ***list)
{
    const char *text = mt_yaml_is_nothing(value->node) ? "" : value->node->text;
    size_t count = 1;
    for (const char *at = text; *at != '\0'; at++) count += *at == ',';
    enum mt_status status = make_list(value, count, list);
    count = 0;
    while (status == MT_OK && *text != '\0') {
        char *copy = NULL;
        text += strspn(text, " ");
        size_t length = strcspn(text, ",");
        size_t word = length;
        while (word > 0 && text[word - 1] == ' ') word--;
        if (word == 0) return refuse(value);
        status = mt_arena_copy_text(value->reader->arena, text, word, &copy);
        if (status == MT_OK) (*list)[count++] = copy;
        text += length;
        if (*text == ',' && *++text == '\0') return refuse(value);
    }
    return status;
}

static enum mt_status store_list(const struct value *value)
{
    const char **list = NULL;
    if (value->node->kind == MT_YAML_MAP) return refuse(value);
    enum mt_status status =
        value->node->kind == MT_YAML_LIST ? list_of_nodes(value, &list) : list_of_words(value, &list);
    if (status != MT_OK) return status;
    memcpy(value->field, &list, sizeof list);
    return MT_OK;
}

enum mt_status mt_settings_store(const struct mt_settings_reader *reader,
                                 const struct mt_settings_entry *entry, const struct mt_yaml_node *node,
                                 const struct mt_settings_row *row, const char *name, void *target)
{
    const struct value value = {.reader = reader,
                                .entry = entry,
                                .node = node,
                                .row = row,
                                .name = name,
                                .field = (char *)target + row->offset};
    if (row->kind == MT_SETTING_LIST) return store_list(&value);
    if (node->kind != MT_YAML_SCALAR) return refuse(&value);
    switch (row->kind) {
    case MT_SETTING_TEXT:
    case MT_SETTING_NAME: return store_text(&value);
    case MT_SETTING_NUMBER: return store_number(&value);
    case MT_SETTING_WHOLE:
    case MT_SETTING_SEED: return store_whole(&value);
    case MT_SETTING_CHOICE:
    case MT_SETTING_SWITCH: return store_word(&value);
    case MT_SETTING_FLAG: return store_flag(&value);
    case MT_SETTING_LIST:
    case MT_SETTING_METHOD:
    case MT_SETTING_SOURCES:
    case MT_SETTING_SOURCE: break;
    }
    return mt_fail(reader->ctx, MT_ERR_INTERNAL, "%s is no single value", name);
}

enum mt_status mt_settings_store_standard(const struct mt_settings_reader *reader,
                                          const struct mt_settings_row *row, void *target)
{
    const struct mt_yaml_node node = {.kind = MT_YAML_SCALAR, .text = row->standard};
    if (row->no_standard || row->kind == MT_SETTING_METHOD) return MT_OK;
    return mt_settings_store(reader, NULL, &node, row, row->name, target);
}

// ------------------------------------------------------------------ writing

static enum mt_status append_number(double number, struct mt_byte_list *text)
{
    char digits[MT_EXACT_BYTES];
    return mt_byte_list_append_text(text, mt_exact_text(number, digits));
}

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

static enum mt_status append_whole(const char *field, struct mt_byte_list *out)
{
    char digits[32];
    uint64_t number = 0;
    memcpy(&number, field, sizeof number); // an int64_t here is never negative
    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    return mt_byte_list_append_text(out, digits);
}

enum mt_status mt_settings_append_value(const struct mt_settings_row *row, const void *source,
                                        struct mt_byte_list *out)
{
    const char *field = (const char *)source + row->offset;
    const char *text = NULL;
    const char *const *list = NULL;
    double number = 0.0;
    int place = 0;
    bool flag = false;
    switch (row->kind) {
    case MT_SETTING_TEXT:
    case MT_SETTING_NAME: memcpy(&text, field, sizeof text); return append_text(text, out);
    case MT_SETTING_LIST: memcpy(&list, field, sizeof list); return append_list(list, out);
    case MT_SETTING_NUMBER: memcpy(&number, field, sizeof number); return append_number(number, out);
    case MT_SETTING_WHOLE:
    case MT_SETTING_SEED: return append_whole(field, out);
    case MT_SETTING_CHOICE: memcpy(&place, field, sizeof place); return append_word(row->values, place, out);
    case MT_SETTING_SWITCH: memcpy(&flag, field, sizeof flag); return append_word(row->values, flag, out);
    case MT_SETTING_FLAG:
        memcpy(&flag, field, sizeof flag);
        return mt_byte_list_append_text(out, flag ? "true" : "false");
    case MT_SETTING_METHOD:
        return append_text(((const struct mt_objective_config *)(const void *)field)->method, out);
    case MT_SETTING_SOURCES:
    case MT_SETTING_SOURCE: break;
    }
    return MT_OK;
}
