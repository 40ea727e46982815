/* From a file and words to a list of keys as given. Unknown keys and keys given twice end here. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "formats/text/printable.h"
#include "train/settings/settings_parts.h"

#define NEAR        4 // edits past which even long keys have nothing to do with each other
#define MOST_MEANT  3 // keys named in one suggestion
#define PLACE_BYTES 300

// ------------------------------------------------------------------ messages

/* "FILE:LINE", "KEY=VALUE", or "FILE". */
static void write_place(const struct mt_settings_reader *reader, const struct mt_settings_entry *entry,
                        const struct mt_yaml_node *node, char place[PLACE_BYTES])
{
    if (entry == NULL) {
        (void)snprintf(place, PLACE_BYTES, "%s", reader->file);
    } else if (entry->word != NULL) {
        (void)snprintf(place, PLACE_BYTES, "%s", mt_printable(entry->word).text);
    } else {
        (void)snprintf(place, PLACE_BYTES, "%s:%d", reader->file, node->line);
    }
}

static enum mt_status fail_with(const struct mt_settings_reader *reader,
                                const struct mt_settings_entry *entry, const struct mt_yaml_node *node,
                                const char *format, va_list arguments)
{
    char place[PLACE_BYTES];
    char what[MT_MESSAGE_BYTES];
    write_place(reader, entry, node, place);
    (void)vsnprintf(what, sizeof what, format, arguments);
    return mt_fail(reader->ctx, MT_ERR_USAGE, "%s: %s", place, what);
}

enum mt_status mt_settings_fail(const struct mt_settings_reader *reader,
                                const struct mt_settings_entry *entry, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    enum mt_status status = fail_with(reader, entry, entry != NULL ? entry->node : NULL, format, arguments);
    va_end(arguments);
    return status;
}

enum mt_status mt_settings_fail_at(const struct mt_settings_reader *reader,
                                   const struct mt_settings_entry *entry, const struct mt_yaml_node *node,
                                   const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    enum mt_status status = fail_with(reader, entry, node, format, arguments);
    va_end(arguments);
    return status;
}

// ------------------------------------------------------------------ unknown keys

int mt_settings_near(const char *word)
{
    size_t half = (strlen(word) + 1) / 2;
    return half < NEAR ? (int)half : NEAR;
}

bool mt_settings_is_one_of(const char *words, const char *word)
{
    size_t length = strlen(word);
    while (words != NULL) {
        size_t here = strcspn(words, "|");
        if (here == length && memcmp(words, word, length) == 0) return true;
        words = words[here] == '|' ? words + here + 1 : NULL;
    }
    return false;
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

/* What stands for the unknown key in a suggestion: "'lora.alpha' or 'objective.alpha'". */
struct meant {
    char text[MOST_MEANT * (MT_SETTINGS_NAME_BYTES + 8)];
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

static void note_nearer(const char *unknown, const char *candidate, const char *name, int *distance,
                        char nearest[MT_SETTINGS_NAME_BYTES])
{
    if (mt_nearer(unknown, candidate, distance)) (void)snprintf(nearest, MT_SETTINGS_NAME_BYTES, "%s", name);
}

/*
 * Which keys somebody meant: those other programs call so and those that end so ("rank" for "lora.rank"),
 * else the one with the fewest edits, be it on the whole name or, for a bare word, on its group or last part.
 */
static void find_meant(const char *unknown, struct meant *meant)
{
    struct mt_train_key key;
    char nearest[MT_SETTINGS_NAME_BYTES] = "";
    int distance = mt_settings_near(unknown);
    *meant = (struct meant){0};
    for (int i = 0; mt_train_key_listed(i, &key); i++) {
        if (strchr(key.name, '[') != NULL) continue; // a key of one source is none of the run
        const struct mt_settings_row *row = mt_settings_row_named(key.name);
        bool called = row != NULL && mt_settings_is_one_of(row->also, unknown);
        bool ends = strcmp(last_part(key.name), last_part(unknown)) == 0;
        if (called || ends) add_meant(meant, key.name);
        note_nearer(unknown, key.name, key.name, &distance, nearest);
        if (strchr(unknown, '.') != NULL || strchr(key.name, '.') == NULL) continue;
        note_nearer(unknown, last_part(key.name), key.name, &distance, nearest);
        key.name[strcspn(key.name, ".")] = '\0';
        note_nearer(unknown, key.name, key.name, &distance, nearest);
    }
    if (meant->count == 0 && nearest[0] != '\0') add_meant(meant, nearest);
}

static enum mt_status refuse_unknown(const struct mt_settings_reader *reader,
                                     const struct mt_settings_entry *entry, const char *name)
{
    struct meant meant;
    find_meant(name, &meant);
    struct mt_printable shown = mt_printable(name);
    if (meant.count == 0) return mt_settings_fail(reader, entry, "there is no key '%s'", shown.text);
    return mt_settings_fail(reader, entry, "there is no key '%s'; did you mean %s?", shown.text, meant.text);
}

// ------------------------------------------------------------------ entries

const struct mt_settings_entry *mt_settings_given(const struct mt_settings_reader *reader, const char *name)
{
    const struct mt_settings_entry *entry = reader->entries;
    while (entry != NULL && strcmp(entry->name, name) != 0) entry = entry->next;
    return entry;
}

/* Keys that say the same thing in two ways: the later of a file and a word counts. */
static const char *rival_of(const char *name)
{
    static const char *const rivals[][2] = {
        {"data.path", "data.sources"},
        {"objective.c_o", "objective.beta"},
        {"objective.c_v", "objective.gamma"},
        {"evaluation.split", "evaluation.sources"},
    };
    for (size_t i = 0; i < sizeof rivals / sizeof rivals[0]; i++) {
        if (strcmp(rivals[i][0], name) == 0) return rivals[i][1];
        if (strcmp(rivals[i][1], name) == 0) return rivals[i][0];
    }
    return NULL;
}

/* Forgets what the file said about a key. */
static void drop_from_file(struct mt_settings_reader *reader, const char *name)
{
    struct mt_settings_entry **link = &reader->entries;
    reader->last = NULL;
    while (*link != NULL) {
        if ((*link)->word == NULL && strcmp((*link)->name, name) == 0) {
            *link = (*link)->next;
            continue;
        }
        reader->last = *link;
        link = &(*link)->next;
    }
}

static enum mt_status refuse_rival(const struct mt_settings_reader *reader,
                                   const struct mt_settings_entry *entry,
                                   const struct mt_settings_entry *earlier)
{
    bool same = strcmp(entry->name, earlier->name) == 0;
    if (earlier->word != NULL) {
        return same ? mt_settings_fail(reader, entry, "%s is given twice", entry->name)
                    : mt_settings_fail(reader, entry, "%s and %s are both given; one says it all",
                                       earlier->name, entry->name);
    }
    return same ? mt_settings_fail(reader, entry, "'%s' is given twice, first in line %d", entry->name,
                                   earlier->node->line)
                : mt_settings_fail(reader, entry, "%s and %s (line %d) are both given; one says it all",
                                   entry->name, earlier->name, earlier->node->line);
}

/* Appends an entry of a known key. */
static enum mt_status append(struct mt_settings_reader *reader, const struct mt_settings_entry *entry)
{
    void *memory = NULL;
    const char *rival = rival_of(entry->name);
    if (entry->word != NULL) {
        drop_from_file(reader, entry->name);
        if (rival != NULL) drop_from_file(reader, rival);
    }
    const struct mt_settings_entry *earlier = mt_settings_given(reader, entry->name);
    if (earlier == NULL && rival != NULL) earlier = mt_settings_given(reader, rival);
    if (earlier != NULL) return refuse_rival(reader, entry, earlier);
    enum mt_status status = mt_arena_allocate(reader->arena, sizeof *entry, &memory);
    if (status != MT_OK) return status;
    struct mt_settings_entry *added = memory;
    *added = *entry;
    added->next = NULL;
    if (reader->last == NULL) reader->entries = added;
    if (reader->last != NULL) reader->last->next = added;
    reader->last = added;
    return MT_OK;
}

static enum mt_status refuse_no_group(const struct mt_settings_reader *reader,
                                      const struct mt_settings_entry *entry)
{
    struct mt_train_key key;
    size_t length = strlen(entry->name);
    int index = 0;
    while (mt_train_key_listed(index, &key) &&
           (strncmp(key.name, entry->name, length) != 0 || key.name[length] != '.')) {
        index++;
    }
    return mt_settings_fail(reader, entry, "%s is %s, expected a map of keys such as %s", entry->name,
                            mt_yaml_kind_text(entry->node), key.name);
}

/* Takes the value of a key, or of every key in a group. Recursion is as deep as the tree, which is bounded.
 */
static enum mt_status take(struct mt_settings_reader *reader, const char *prefix, const char *name,
                           const struct mt_yaml_node *node, const char *word)
{
    struct mt_settings_entry entry = {.node = node, .word = word};
    char whole[2 * MT_SETTINGS_NAME_BYTES];
    int length = snprintf(whole, sizeof whole, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", name);
    if (length >= (int)sizeof entry.name) return refuse_unknown(reader, &entry, whole);
    memcpy(entry.name, whole, (size_t)length + 1);
    if (mt_settings_row_named(entry.name) != NULL || mt_settings_objective_key(entry.name) >= 0) {
        return append(reader, &entry);
    }
    if (!mt_settings_is_group(entry.name)) return refuse_unknown(reader, &entry, entry.name);
    if (node->kind != MT_YAML_MAP) {
        return mt_yaml_is_nothing(node) ? MT_OK : refuse_no_group(reader, &entry);
    }
    enum mt_status status = MT_OK;
    for (const struct mt_yaml_node *child = node->first; child != NULL && status == MT_OK;
         child = child->next) {
        status = take(reader, entry.name, child->key, child, word);
    }
    return status;
}

enum mt_status mt_settings_take_file(struct mt_settings_reader *reader, const struct mt_yaml_node *root)
{
    if (mt_yaml_is_nothing(root)) return MT_OK;
    if (root->kind != MT_YAML_MAP) {
        return mt_fail(reader->ctx, MT_ERR_USAGE, "%s:%d: %s, expected lines of key: value", reader->file,
                       root->line, mt_yaml_kind_text(root));
    }
    enum mt_status status = MT_OK;
    for (const struct mt_yaml_node *child = root->first; child != NULL && status == MT_OK;
         child = child->next) {
        status = take(reader, "", child->key, child, NULL);
    }
    return status;
}

enum mt_status mt_settings_take_word(struct mt_settings_reader *reader, const char *word)
{
    struct mt_yaml_node *node = NULL;
    char *name = NULL;
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
