/* Values: from a node to a field, by the kind of its row. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/keys/keys.h"
#include "formats/text/printable.h"

// ------------------------------------------------------------------ texts of numbers and words

#define DIGITS "0123456789"

/* A decimal number and nothing else: no words, no digits of another base. */
static bool read_number(const char *text, double *number)
{
    char *end = NULL;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && text[strspn(text, DIGITS "+-.eE")] == '\0';
}

static bool read_whole(const char *text, uint64_t *value)
{
    errno = 0;
    *value = strtoull(text, NULL, 10);
    return text[0] != '\0' && text[strspn(text, DIGITS)] == '\0' && errno == 0;
}

int mt_key_place_of_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (int place = 0; words != NULL; place++) {
        size_t here = strcspn(words, "|");
        if (here == length && memcmp(words, word, length) == 0) return place;
        words = words[here] == '|' ? words + here + 1 : NULL;
    }
    return -1;
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

/* True for a value in quotes where those make a text of it. */
static bool is_text(const struct mt_keys_reader *reader, const struct mt_key_entry *entry)
{
    return entry->node->quoted && !reader->keys->loose;
}

enum mt_status mt_key_refuse(const struct mt_keys_reader *reader, const struct mt_key_entry *entry)
{
    const struct mt_yaml_node *node = entry->node;
    const char *expected = entry->row->values;
    bool kind_matters = entry->row->kind == MT_KEY_TEXTS || entry->row->kind == MT_KEY_OWN;
    bool empty_text = node->kind == MT_YAML_SCALAR && node->quoted && node->text[0] == '\0';
    bool empty_list = node->kind == MT_YAML_LIST && node->count == 0;
    if (empty_text || (empty_list && (kind_matters || entry->row->kind == MT_KEY_LIST)))
        return mt_key_fail(reader, entry, NULL, "%s is empty, expected %s", entry->name, expected);
    if (node->kind != MT_YAML_SCALAR || mt_yaml_is_nothing(node) || kind_matters) {
        return mt_key_fail(reader, entry, NULL, "%s is %s, expected %s", entry->name, mt_yaml_kind_text(node),
                           expected);
    }
    return mt_key_fail(reader, entry, NULL,
                       node->quoted ? "%s is the text \"%s\", expected %s" : "%s is %s, expected %s",
                       entry->name, mt_printable(node->text).text, expected);
}

/* Refuses a number that is not in the values a row names, or beyond what makes sense. */
static enum mt_status check_range(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                  double number)
{
    double most = entry->row->most;
    if (most > 0.0 && number > most) {
        return mt_key_fail(reader, entry, NULL, "%s is %s, expected %.15g at the most", entry->name,
                           mt_printable(entry->node->text).text, most);
    }
    bool fits = isfinite(number) && in_range(entry->row->values, number);
    return fits ? MT_OK : mt_key_refuse(reader, entry);
}

/* True for the word auto where the values begin with it; it is stored as 0. */
static bool is_automatic(const struct mt_key_entry *entry)
{
    return strncmp(entry->row->values, "auto|", 5) == 0 && strcmp(entry->node->text, "auto") == 0;
}

static enum mt_status store_number(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                   char *field)
{
    double number = 0.0;
    bool automatic = is_automatic(entry);
    if (!automatic && (is_text(reader, entry) || !read_number(entry->node->text, &number)))
        return mt_key_refuse(reader, entry);
    enum mt_status status = automatic ? MT_OK : check_range(reader, entry, number);
    if (status == MT_OK) memcpy(field, &number, sizeof number);
    return status;
}

static enum mt_status store_whole(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                  char *field)
{
    enum mt_key_kind kind = entry->row->kind;
    uint64_t number = 0;
    bool automatic = is_automatic(entry);
    if (!automatic && (is_text(reader, entry) || !read_whole(entry->node->text, &number)))
        return mt_key_refuse(reader, entry);
    if (number > (kind == MT_KEY_SEED ? UINT64_MAX : INT64_MAX)) return mt_key_refuse(reader, entry);
    enum mt_status status = automatic ? MT_OK : check_range(reader, entry, (double)number);
    if (status != MT_OK) return status;
    int small = (int)number;
    if (kind == MT_KEY_INT && (uint64_t)small != number) return mt_key_refuse(reader, entry);
    if (kind == MT_KEY_INT) memcpy(field, &small, sizeof small);
    if (kind != MT_KEY_INT) memcpy(field, &number, sizeof number);
    return MT_OK;
}

static enum mt_status store_word(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 char *field)
{
    bool flag = entry->row->kind == MT_KEY_FLAG;
    int place = mt_key_place_of_word(flag ? "false|no|true|yes" : entry->row->values, entry->node->text);
    bool on = flag ? place >= 2 : place != 0;
    if (place < 0 || (flag && is_text(reader, entry))) return mt_key_refuse(reader, entry);
    if (entry->row->kind == MT_KEY_CHOICE) memcpy(field, &place, sizeof place);
    if (entry->row->kind != MT_KEY_CHOICE) memcpy(field, &on, sizeof on);
    return MT_OK;
}

bool mt_key_is_required(const struct mt_key_row *row)
{
    return row->standard != NULL && strcmp(row->standard, "required") == 0;
}

static enum mt_status store_text(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 char *field)
{
    const char *text = entry->node->text;
    if (mt_yaml_is_nothing(entry->node) || text[0] == '\0') text = NULL;
    bool needed = entry->row->kind == MT_KEY_NAME || mt_key_is_required(entry->row);
    if (text == NULL && needed) return mt_key_refuse(reader, entry);
    memcpy(field, &text, sizeof text);
    return MT_OK;
}

// ------------------------------------------------------------------ lists

static enum mt_status list_of_nodes(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                    const char **list)
{
    for (const struct mt_yaml_node *item = entry->node->first; item != NULL; item = item->next) {
        bool scalar = item->kind == MT_YAML_SCALAR;
        bool empty = scalar && (mt_yaml_is_nothing(item) || item->text[0] == '\0');
        if (!scalar || (empty && entry->row->kind != MT_KEY_TEXTS)) {
            return mt_key_fail(reader, entry, item, "%s holds %s, expected a list of texts", entry->name,
                               mt_yaml_kind_text(item));
        }
        *list++ = item->text;
    }
    return MT_OK;
}

/* "a, b": spaces around a word are not part of it. */
static enum mt_status list_of_words(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                    const char *text, const char **list)
{
    enum mt_status status = MT_OK;
    while (status == MT_OK && *text != '\0') {
        text += strspn(text, " ");
        size_t length = strcspn(text, ",");
        size_t word = length;
        while (word > 0 && text[word - 1] == ' ') word--;
        if (word == 0) return mt_key_refuse(reader, entry);
        status = mt_arena_copy_text(reader->arena, text, word, list++);
        text += length;
        if (*text == ',' && *++text == '\0') return mt_key_refuse(reader, entry);
    }
    return status;
}

static enum mt_status store_list(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 char *field)
{
    const struct mt_yaml_node *node = entry->node;
    bool of_nodes = node->kind == MT_YAML_LIST;
    if (!of_nodes && (node->kind == MT_YAML_MAP || entry->row->kind == MT_KEY_TEXTS))
        return mt_key_refuse(reader, entry);
    const char *text = of_nodes || mt_yaml_is_nothing(node) ? "" : node->text;
    size_t count = node->count + 2; // a word more than commas, and NULL behind the last
    for (const char *at = text; *at != '\0'; at++) count += *at == ',';
    enum mt_status status = MT_OK;
    const char **list = mt_arena_array(reader->arena, count, sizeof *list, &status);
    if (status != MT_OK) return status;
    memcpy(field, &list, sizeof list);
    status = of_nodes ? list_of_nodes(reader, entry, list) : list_of_words(reader, entry, text, list);
    bool needed = mt_key_is_required(entry->row);
    return status == MT_OK && needed && list[0] == NULL ? mt_key_refuse(reader, entry) : status;
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
    if (single && entry->node->kind != MT_YAML_SCALAR) return mt_key_refuse(reader, entry);
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
    case MT_KEY_SWITCH:
    case MT_KEY_FLAG: return store_word(reader, entry, field);
    case MT_KEY_OWN: return entry->row->set(reader, entry, target);
    case MT_KEY_EACH: return set_each(reader, entry, target);
    }
    return MT_OK;
}

bool mt_key_is_written(const struct mt_key *key)
{
    bool own = key->row->kind == MT_KEY_OWN || key->row->kind == MT_KEY_EACH;
    return !key->part->of_elements && (!own || key->row->append != NULL);
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
