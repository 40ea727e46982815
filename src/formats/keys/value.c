/* Values: from a node to a field, by the kind of its row. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/keys/keys.h"
#include "formats/text/printable.h"

// ------------------------------------------------------------------ texts of numbers and words

static const char *skip_digits(const char *text)
{
    while (*text >= '0' && *text <= '9') text++;
    return text;
}

/* True when a text reads as a decimal number, and nothing follows it. */
static bool is_number(const char *text)
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

/* True when a number is within what people are told: "NUMBER >= 0 and < 1", "1 to 5". */
static bool in_range(const char *values, double number)
{
    char *end = NULL;
    double low = strtod(values, &end);
    if (end != values) return number >= low && number <= strtod(end + strlen(" to"), NULL);
    for (const char *at = strpbrk(values, "<>"); at != NULL; at = strpbrk(at + 1, "<>")) {
        bool closed = at[1] == '=';
        double bound = strtod(at + 1 + closed, NULL);
        if (*at == '>' ? number < bound : number > bound) return false;
        if (number == bound && !closed) return false;
    }
    return true;
}

// ------------------------------------------------------------------ single values

static enum mt_status refuse(const struct mt_keys_reader *reader, const struct mt_key_entry *entry)
{
    const struct mt_yaml_node *node = entry->node;
    const char *expected = entry->row->values;
    if (node->kind != MT_YAML_SCALAR || mt_yaml_is_nothing(node)) {
        return mt_key_fail(reader, entry, NULL, "%s is %s, expected %s", entry->name, mt_yaml_kind_text(node),
                           expected);
    }
    return mt_key_fail(reader, entry, NULL,
                       node->quoted ? "%s is the text \"%s\", expected %s" : "%s is %s, expected %s",
                       entry->name, mt_printable(node->text).text, expected);
}

/* A number within the values a row names, but beyond what makes sense. */
static enum mt_status refuse_size(const struct mt_keys_reader *reader, const struct mt_key_entry *entry)
{
    return mt_key_fail(reader, entry, NULL, "%s is %s, expected %.15g at the most", entry->name,
                       mt_printable(entry->node->text).text, entry->row->most);
}

static enum mt_status store_number(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                   char *field)
{
    const struct mt_key_row *row = entry->row;
    const char *text = entry->node->text;
    bool automatic = strncmp(row->values, "auto|", 5) == 0 && strcmp(text, "auto") == 0;
    if (!automatic && (entry->node->quoted || !is_number(text))) return refuse(reader, entry);
    double number = automatic ? 0.0 : strtod(text, NULL);
    if (row->most > 0.0 && number > row->most) return refuse_size(reader, entry);
    if (!automatic && (!isfinite(number) || !in_range(row->values, number))) return refuse(reader, entry);
    memcpy(field, &number, sizeof number);
    return MT_OK;
}

static enum mt_status store_whole(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                  char *field)
{
    const struct mt_key_row *row = entry->row;
    uint64_t number = 0;
    if (entry->node->quoted || !read_whole(entry->node->text, &number)) return refuse(reader, entry);
    if (row->most > 0.0 && (double)number > row->most) return refuse_size(reader, entry);
    if (!in_range(row->values, (double)number)) return refuse(reader, entry);
    if (row->kind == MT_KEY_SEED) {
        memcpy(field, &number, sizeof number);
        return MT_OK;
    }
    int64_t wide = (int64_t)number;
    int small = (int)wide;
    if (number > INT64_MAX || (row->kind == MT_KEY_INT && wide != small)) return refuse(reader, entry);
    if (row->kind == MT_KEY_INT) memcpy(field, &small, sizeof small);
    if (row->kind == MT_KEY_WHOLE) memcpy(field, &wide, sizeof wide);
    return MT_OK;
}

static enum mt_status store_word(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 char *field)
{
    int place = place_of_word(entry->row->values, entry->node->text);
    if (place < 0) return refuse(reader, entry);
    bool flag = place != 0;
    if (entry->row->kind == MT_KEY_SWITCH) memcpy(field, &flag, sizeof flag);
    if (entry->row->kind == MT_KEY_CHOICE) memcpy(field, &place, sizeof place);
    return MT_OK;
}

static enum mt_status store_flag(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 char *field)
{
    int place = place_of_word("false|no|true|yes", entry->node->text);
    bool flag = place >= 2;
    if (entry->node->quoted || place < 0) return refuse(reader, entry);
    memcpy(field, &flag, sizeof flag);
    return MT_OK;
}

static enum mt_status store_text(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 char *field)
{
    const char *text = entry->node->text;
    if (mt_yaml_is_nothing(entry->node) || text[0] == '\0') text = NULL;
    if (text == NULL && entry->row->kind == MT_KEY_NAME) return refuse(reader, entry);
    memcpy(field, &text, sizeof text);
    return MT_OK;
}

// ------------------------------------------------------------------ lists

/* Room for `count` texts and the NULL behind them. */
static enum mt_status make_list(struct mt_arena *arena, size_t count, const char ***list)
{
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(arena, (count + 1) * sizeof(const char *), &memory);
    *list = memory;
    return status;
}

static enum mt_status list_of_nodes(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                    const char ***list)
{
    bool empty_counts = entry->row->kind == MT_KEY_TEXTS;
    size_t count = 0;
    enum mt_status status = make_list(reader->arena, entry->node->count, list);
    if (status != MT_OK) return status;
    for (const struct mt_yaml_node *item = entry->node->first; item != NULL; item = item->next) {
        bool empty = item->kind == MT_YAML_SCALAR && (mt_yaml_is_nothing(item) || item->text[0] == '\0');
        if (item->kind != MT_YAML_SCALAR || (empty && !empty_counts)) {
            return mt_key_fail(reader, entry, item, "%s holds %s, expected a list of texts", entry->name,
                               mt_yaml_kind_text(item));
        }
        (*list)[count++] = item->text;
    }
    return MT_OK;
}

/* "a, b": spaces around a word are not part of it. */
static enum mt_status list_of_words(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                    const char ***list)
{
    const char *text = mt_yaml_is_nothing(entry->node) ? "" : entry->node->text;
    size_t count = 1;
    for (const char *at = text; *at != '\0'; at++) count += *at == ',';
    enum mt_status status = make_list(reader->arena, count, list);
    count = 0;
    while (status == MT_OK && *text != '\0') {
        char *copy = NULL;
        text += strspn(text, " ");
        size_t length = strcspn(text, ",");
        size_t word = length;
        while (word > 0 && text[word - 1] == ' ') word--;
        if (word == 0) return refuse(reader, entry);
        status = mt_arena_copy_text(reader->arena, text, word, &copy);
        if (status == MT_OK) (*list)[count++] = copy;
        text += length;
        if (*text == ',' && *++text == '\0') return refuse(reader, entry);
    }
    return status;
}

static enum mt_status store_list(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 char *field)
{
    const char **list = NULL;
    bool of_nodes = entry->node->kind == MT_YAML_LIST;
    if (!of_nodes && (entry->node->kind == MT_YAML_MAP || entry->row->kind == MT_KEY_TEXTS))
        return refuse(reader, entry);
    enum mt_status status =
        of_nodes ? list_of_nodes(reader, entry, &list) : list_of_words(reader, entry, &list);
    if (status == MT_OK) memcpy(field, &list, sizeof list);
    return status;
}

// ------------------------------------------------------------------ any value

static enum mt_status set_each(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                               void *target)
{
    struct mt_key_entry element = *entry;
    enum mt_status status = MT_OK;
    if (entry->node->kind != MT_YAML_LIST) return entry->row->set(reader, entry, target);
    for (element.node = entry->node->first; element.node != NULL && status == MT_OK;
         element.node = element.node->next) {
        status = entry->row->set(reader, &element, target);
    }
    return status;
}

enum mt_status mt_key_store(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                            void *target)
{
    enum mt_key_kind kind = entry->row->kind;
    char *field = (char *)target + entry->row->offset;
    bool single = kind != MT_KEY_OWN && kind != MT_KEY_EACH && kind != MT_KEY_LIST && kind != MT_KEY_TEXTS;
    if (single && entry->node->kind != MT_YAML_SCALAR) return refuse(reader, entry);
    switch (kind) {
    case MT_KEY_TEXT:
    case MT_KEY_NAME: return store_text(reader, entry, field);
    case MT_KEY_LIST:
    case MT_KEY_TEXTS: return store_list(reader, entry, field);
    case MT_KEY_NUMBER: return store_number(reader, entry, field);
    case MT_KEY_INT:
    case MT_KEY_WHOLE:
    case MT_KEY_SEED: return store_whole(reader, entry, field);
    case MT_KEY_CHOICE:
    case MT_KEY_SWITCH: return store_word(reader, entry, field);
    case MT_KEY_FLAG: return store_flag(reader, entry, field);
    case MT_KEY_OWN: return entry->row->set(reader, entry, target);
    case MT_KEY_EACH: return set_each(reader, entry, target);
    }
    return MT_OK;
}

bool mt_key_has_standard(const struct mt_key *key)
{
    enum mt_key_kind kind = key->row->kind;
    bool starts_as_zero = kind == MT_KEY_TEXT || kind == MT_KEY_LIST || kind == MT_KEY_TEXTS ||
                          kind == MT_KEY_OWN || kind == MT_KEY_EACH;
    return !starts_as_zero && key->part->standard == NULL && strcmp(key->standard, "required") != 0;
}

enum mt_status mt_key_store_standard(const struct mt_keys_reader *reader, const struct mt_key *key)
{
    const struct mt_yaml_node node = {.kind = MT_YAML_SCALAR, .text = key->standard};
    const struct mt_key_entry entry = {.row = key->row, .node = &node};
    if (!mt_key_has_standard(key)) return MT_OK;
    return mt_key_store(reader, &entry, (char *)reader->target + key->part->base);
}
