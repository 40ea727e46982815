/* From a file and words to a list of keys as given, and from there to the struct. */
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "base/nearest.h"
#include "formats/keys/keys.h"
#include "formats/text/printable.h"

#define NEAR        4 // edits past which even long keys have nothing to do with each other
#define MOST_MEANT  3 // keys named in one suggestion
#define PLACE_BYTES 300

// ------------------------------------------------------------------ keys

bool mt_key_next(const struct mt_keys *keys, struct mt_key *key)
{
    if (key->part == NULL) {
        key->part = keys->parts;
        key->row = keys->parts->rows;
    } else {
        key->row++;
    }
    if (key->row->name == NULL) {
        key->part++;
        key->row = key->part->rows;
    }
    if (key->row == NULL) return false;
    const char *prefix = key->part->prefix != NULL ? key->part->prefix : "";
    (void)snprintf(key->name, sizeof key->name, "%s%s", prefix, key->row->name);
    key->standard = key->row->standard != NULL ? key->row->standard : key->part->standard;
    return true;
}

bool mt_key_find(const struct mt_keys *keys, const char *name, struct mt_key *key)
{
    *key = (struct mt_key){0};
    while (mt_key_next(keys, key)) {
        if (!key->part->of_elements && strcmp(key->name, name) == 0) return true;
    }
    return false;
}

/* The first key of a group: "lora.rank" of "lora". */
static bool find_in_group(const struct mt_keys *keys, const char *group, struct mt_key *key)
{
    size_t length = strlen(group);
    *key = (struct mt_key){0};
    while (mt_key_next(keys, key)) {
        if (strncmp(key->name, group, length) == 0 && key->name[length] == '.') return true;
    }
    return false;
}

const struct mt_key_entry *mt_keys_given(const struct mt_keys_reader *reader, const char *names)
{
    const struct mt_key_entry *found = NULL;
    int first = INT_MAX;
    for (const struct mt_key_entry *entry = reader->entries; entry != NULL; entry = entry->next) {
        int place = mt_key_place_of_word(names, entry->name);
        if (place < 0 || place >= first) continue;
        found = entry;
        first = place;
    }
    return found;
}

// ------------------------------------------------------------------ messages

/* "FILE:LINE", "KEY=VALUE", or "FILE". */
static void write_place(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                        const struct mt_yaml_node *node, char place[PLACE_BYTES])
{
    if (entry != NULL && entry->word != NULL) {
        (void)snprintf(place, PLACE_BYTES, "%s", mt_printable(entry->word).text);
    } else if (entry != NULL) {
        (void)snprintf(place, PLACE_BYTES, "%s:%d", reader->file,
                       node != NULL ? node->line : entry->node->line);
    } else {
        (void)snprintf(place, PLACE_BYTES, "%s", reader->file);
    }
}

enum mt_status mt_key_fail(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                           const struct mt_yaml_node *node, const char *format, ...)
{
    char place[PLACE_BYTES];
    char what[MT_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (reader->file == NULL) return mt_fail(reader->ctx, MT_ERR_USAGE, "%s", what);
    write_place(reader, entry, node, place);
    return mt_fail(reader->ctx, MT_ERR_USAGE, "%s: %s", place, what);
}

enum mt_status mt_key_fail_within(const struct mt_keys_reader *reader, const struct mt_key_entry *entry)
{
    char place[PLACE_BYTES];
    write_place(reader, entry, NULL, place);
    return mt_fail_within(reader->ctx, MT_ERR_USAGE, "%s", place);
}

enum mt_status mt_keys_check(const struct mt_keys_reader *reader, const struct mt_key_check *checks,
                             size_t count)
{
    size_t i = 0;
    while (i < count && !checks[i].wrong) i++;
    if (i == count) return MT_OK;
    return mt_key_fail(reader, mt_keys_given(reader, checks[i].keys), NULL, "%s", checks[i].why);
}

// ------------------------------------------------------------------ unknown keys

/* What stands for the unknown key in a suggestion: "'lora.alpha' or 'objective.alpha'". */
struct meant {
    char text[MOST_MEANT * (MT_KEY_NAME_BYTES + 8)];
    int count;
};

static void add_meant(struct meant *meant, const char *name)
{
    size_t used = strlen(meant->text);
    if (meant->count == MOST_MEANT) return;
    (void)snprintf(meant->text + used, sizeof meant->text - used, "%s'%s'", meant->count > 0 ? " or " : "",
                   name);
    meant->count++;
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

/* The fewest edits on the whole name or, for a bare word, on a key's group or last part. */
static void find_nearest(const struct mt_keys *keys, const char *unknown, struct meant *meant)
{
    char nearest[MT_KEY_NAME_BYTES] = "";
    struct mt_key key = {0};
    int distance = mt_near_enough(unknown, NEAR);
    bool bare = strchr(unknown, '.') == NULL;
    while (mt_key_next(keys, &key)) {
        if (key.part->of_elements) continue;
        bool nearer = mt_nearer(unknown, key.name, &distance);
        if (bare && strchr(key.name, '.') != NULL && mt_nearer(unknown, last_part(key.name), &distance))
            nearer = true;
        if (nearer) memcpy(nearest, key.name, sizeof nearest);
        if (!bare || strchr(key.name, '.') == NULL) continue;
        key.name[strcspn(key.name, ".")] = '\0';
        if (mt_nearer(unknown, key.name, &distance)) memcpy(nearest, key.name, sizeof nearest);
    }
    if (nearest[0] != '\0') add_meant(meant, nearest);
}

/*
 * Which keys somebody meant: those other programs call so, else those that end so ("rank" for "lora.rank"),
 * else the nearest. Where there is a hint dotted names may belong elsewhere, and an equal end says little.
 */
static struct meant find_meant(const struct mt_keys *keys, const char *unknown)
{
    bool ends_count = keys->hint == NULL || strchr(unknown, '.') == NULL;
    struct meant called = {0};
    struct meant others = {0};
    struct mt_key key = {0};
    while (mt_key_next(keys, &key)) {
        if (key.part->of_elements) continue;
        if (mt_is_among(key.row->also, unknown)) add_meant(&called, key.name);
        if (ends_count && strcmp(last_part(key.name), last_part(unknown)) == 0) add_meant(&others, key.name);
    }
    if (called.count == 0 && others.count == 0) find_nearest(keys, unknown, &others);
    return called.count > 0 ? called : others;
}

/* What is said of a key that other programs have, whatever group it stands in; NULL: it is none of theirs. */
static const char *advice_on(const struct mt_keys *keys, const char *unknown)
{
    const struct mt_key_foreign *foreign = keys->foreign;
    while (foreign != NULL && foreign->names != NULL && !mt_is_among(foreign->names, last_part(unknown)))
        foreign++;
    return foreign != NULL ? foreign->advice : NULL;
}

enum mt_status mt_key_refuse_unknown(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     const char *name)
{
    const struct mt_keys *keys = reader->keys;
    const char *advice = advice_on(keys, name);
    struct meant meant = find_meant(keys, name);
    char end[MT_MESSAGE_BYTES / 2] = "";
    if (advice != NULL) {
        (void)snprintf(end, sizeof end, "; %s%s%s", advice, keys->hint != NULL ? "; " : "",
                       keys->hint != NULL ? keys->hint : "");
    } else if (meant.count > 0) {
        (void)snprintf(end, sizeof end, "; did you mean %s?", meant.text);
    } else if (keys->hint != NULL) {
        (void)snprintf(end, sizeof end, "; %s", keys->hint);
    }
    return mt_key_fail(reader, entry, NULL, "%s no key '%s'%s", keys->what != NULL ? keys->what : "there is",
                       mt_printable(name).text, end);
}

// ------------------------------------------------------------------ entries

/* True for a key given again, or in another way. */
static bool are_rivals(const struct mt_key_row *a, const struct mt_key_row *b)
{
    return a == b || (a->instead != NULL && strcmp(a->instead, b->name) == 0) ||
           (b->instead != NULL && strcmp(b->instead, a->name) == 0);
}

static enum mt_status refuse_rival(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                   const struct mt_key_entry *earlier)
{
    bool same = entry->row == earlier->row;
    if (earlier->word != NULL) {
        return same ? mt_key_fail(reader, entry, NULL, "%s is given twice", entry->name)
                    : mt_key_fail(reader, entry, NULL, "%s and %s are both given; one says it all",
                                  earlier->name, entry->name);
    }
    return same ? mt_key_fail(reader, entry, NULL, "'%s' is given twice, first in line %d", entry->name,
                              earlier->node->line)
                : mt_key_fail(reader, entry, NULL, "%s and %s (line %d) are both given; one says it all",
                              entry->name, earlier->name, earlier->node->line);
}

/* Appends an entry of a known key. A word makes the file's entries forgotten. */
static enum mt_status append(struct mt_keys_reader *reader, const struct mt_key_entry *entry)
{
    struct mt_key_entry **link = &reader->entries;
    while (*link != NULL) {
        if (!are_rivals((*link)->row, entry->row)) {
            link = &(*link)->next;
        } else if (entry->word != NULL && (*link)->word == NULL) {
            *link = (*link)->next;
        } else {
            return refuse_rival(reader, entry, *link);
        }
    }
    enum mt_status status = MT_OK;
    *link = mt_arena_array(reader->arena, 1, sizeof *entry, &status);
    if (status != MT_OK) return status;
    **link = *entry;
    return MT_OK;
}

static enum mt_status take_map(struct mt_keys_reader *reader, const char *prefix,
                               const struct mt_yaml_node *map, const char *word);

/* Takes the value of a key, or of every key in a group. Recursion is as deep as the tree, which is bounded.
 */
static enum mt_status take(struct mt_keys_reader *reader, const char *prefix, const char *name,
                           const struct mt_yaml_node *node, const char *word)
{
    struct mt_key_entry entry = {.node = node, .word = word};
    struct mt_key key;
    char whole[2 * MT_KEY_NAME_BYTES];
    int length = snprintf(whole, sizeof whole, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", name);
    if (length >= (int)sizeof entry.name) return mt_key_refuse_unknown(reader, &entry, whole);
    memcpy(entry.name, whole, (size_t)length + 1);
    if (mt_key_find(reader->keys, entry.name, &key)) {
        entry.row = key.row;
        entry.base = key.part->base;
        return append(reader, &entry);
    }
    if (!find_in_group(reader->keys, entry.name, &key))
        return mt_key_refuse_unknown(reader, &entry, entry.name);
    if (mt_yaml_is_nothing(node)) return MT_OK;
    if (node->kind != MT_YAML_MAP) {
        return mt_key_fail(reader, &entry, NULL, "%s is %s, expected a map of keys such as %s", entry.name,
                           mt_yaml_kind_text(node), key.name);
    }
    return take_map(reader, entry.name, node, word);
}

static enum mt_status take_map(struct mt_keys_reader *reader, const char *prefix,
                               const struct mt_yaml_node *map, const char *word)
{
    const struct mt_key_entry here = {.node = map, .word = word};
    enum mt_status status = MT_OK;
    if (map->kind != MT_YAML_MAP && !mt_yaml_is_nothing(map))
        return mt_key_fail(reader, &here, NULL, "%s, expected lines of key: value", mt_yaml_kind_text(map));
    for (const struct mt_yaml_node *child = map->first; child != NULL && status == MT_OK;
         child = child->next) {
        status = take(reader, prefix, child->key, child, word);
    }
    return status;
}

static enum mt_status take_word(struct mt_keys_reader *reader, const char *word)
{
    struct mt_yaml_node *node = NULL;
    const char *name = NULL;
    const char *equals = strchr(word, '=');
    if (equals == NULL || equals == word) {
        return mt_fail(reader->ctx, MT_ERR_USAGE, "unexpected argument '%s'; settings are given as key=value",
                       mt_printable(word).text);
    }
    enum mt_status status = mt_arena_copy_text(reader->arena, word, (size_t)(equals - word), &name);
    if (status != MT_OK) return status;
    status = mt_yaml_parse(reader->ctx, NULL, equals + 1, strlen(equals + 1), &mt_yaml_file_limits,
                           reader->arena, &node);
    if (status == MT_ERR_FORMAT) {
        return mt_fail_within(reader->ctx, MT_ERR_USAGE, "%s", mt_printable(word).text);
    }
    if (status != MT_OK) return status;
    struct mt_yaml_node nothing = {.kind = MT_YAML_SCALAR, .text = ""};
    // "freeze=" is an empty value, not an empty map.
    if (node->kind == MT_YAML_MAP && node->count == 0) *node = nothing;
    return take(reader, "", name, node, word);
}

// ------------------------------------------------------------------ the whole

static enum mt_status store_all(const struct mt_keys_reader *reader)
{
    struct mt_key key = {0};
    enum mt_status status = MT_OK;
    while (status == MT_OK && mt_key_next(reader->keys, &key)) {
        if (key.part->of_elements) continue;
        const struct mt_key_entry *entry = mt_keys_given(reader, key.name);
        status = entry != NULL ? mt_key_store(reader, entry, (char *)reader->target + entry->base)
                               : mt_key_store_standard(reader, &key);
    }
    return status;
}

struct mt_keys_reader mt_keys_reader_within(const struct mt_keys_reader *reader, const struct mt_keys *keys,
                                            void *target)
{
    return (struct mt_keys_reader){.ctx = reader->ctx,
                                   .arena = reader->arena,
                                   .file = reader->file,
                                   .keys = keys,
                                   .target = target,
                                   .recorded = reader->recorded};
}

enum mt_status mt_keys_read_map(struct mt_keys_reader *reader, const struct mt_yaml_node *map,
                                const char *word)
{
    enum mt_status status = take_map(reader, "", map, word);
    return status == MT_OK ? store_all(reader) : status;
}

enum mt_status mt_keys_read(struct mt_keys_reader *reader, const char *text, size_t bytes,
                            const char *const *words, size_t word_count)
{
    const struct mt_yaml_limits *limits = &mt_yaml_file_limits;
    struct mt_yaml_node *root = NULL;
    enum mt_status status =
        text != NULL ? mt_yaml_parse(reader->ctx, reader->file, text, bytes, limits, reader->arena, &root)
                     : mt_yaml_read(reader->ctx, reader->file, limits, reader->arena, &root);
    if (status == MT_OK) status = take_map(reader, "", root, NULL);
    for (size_t i = 0; i < word_count && status == MT_OK; i++) status = take_word(reader, words[i]);
    return status == MT_OK ? store_all(reader) : status;
}
