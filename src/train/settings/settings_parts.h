/*
 * Settings taken apart: rows of the table, entries as given, and what their readers share.
 *
 *     settings_keys.c        the table
 *     settings_entries.c     a file and words to a list of (key, value, place); unknown and doubled keys
 *     settings_values.c      values to fields of the settings, and back to text
 *     settings_sources.c     lists of files, the same both ways
 *     settings_objective.c   the method and its keys
 *     settings_check.c       combinations that cannot be
 *     settings_text.c        the settings as YAML
 *     settings_continue.c    what may differ between two parts of a run
 */
#ifndef MT_TRAIN_SETTINGS_PARTS_H
#define MT_TRAIN_SETTINGS_PARTS_H

#include "formats/text/lists.h"
#include "formats/text/yaml.h"
#include "train/settings/settings.h"

#define MT_SETTINGS_NAME_BYTES 64 // of a key, with its dots

enum mt_setting_kind {
    MT_SETTING_TEXT,    // const char *; may be nothing
    MT_SETTING_NAME,    // const char *; must be there
    MT_SETTING_LIST,    // const char *const *, NULL-terminated: a list, or "a,b"
    MT_SETTING_NUMBER,  // double, in [low, high] without the ends that are open
    MT_SETTING_WHOLE,   // int64_t, low .. high
    MT_SETTING_SEED,    // uint64_t
    MT_SETTING_CHOICE,  // an enum: the place of the word in `values`
    MT_SETTING_SWITCH,  // a bool the same way: false is the first word
    MT_SETTING_FLAG,    // a bool: true, false, yes, no
    MT_SETTING_METHOD,  // the method's name, and objective.* with it
    MT_SETTING_SOURCES, // a list of files
    MT_SETTING_SOURCE,  // the path of one file, instead of that list
};

enum mt_settings_section {
    MT_SECTION_RUN,
    MT_SECTION_LEARNS,
    MT_SECTION_OBJECTIVE,
    MT_SECTION_DATA,
    MT_SECTION_EVALUATION,
    MT_SECTION_LENGTH,
    MT_SECTION_OPTIMIZER,
    MT_SECTION_CHECKPOINT,
    MT_SECTION_LOG,
    MT_SECTION_MACHINE,
    MT_SECTIONS
};

struct mt_settings_row {
    const char *name;
    const char *values;   // for people; of MT_SETTING_CHOICE and _SWITCH also the words themselves
    const char *standard; // the default as text; "required", "none" or a remark where that is no value
    const char *meaning;
    const char *also; // what other programs call it, between bars: for suggestions. NULL: nothing
    enum mt_setting_kind kind;
    enum mt_settings_section section;
    size_t offset; // of the field, in struct mt_train_settings or struct mt_train_source
    size_t count;  // MT_SETTING_SOURCES: offset of the number of files
    double low, high;
    bool low_is_open, high_is_open;
    bool no_standard; // `standard` is no value of the key: the field starts as zero
    bool may_differ;  // when a run goes on
};

/* The rows of settings and of one source; NULL past the last. */
const struct mt_settings_row *mt_settings_row(int index);
const struct mt_settings_row *mt_source_row(int index);
const char *mt_settings_section_title(enum mt_settings_section section);

/* The row of that name, or NULL. */
const struct mt_settings_row *mt_settings_row_named(const char *name);

/* "objective.beta": the number of the objective's key, or -1. */
int mt_settings_objective_key(const char *name);

/* True when `name` is what some keys have before a dot. */
bool mt_settings_is_group(const char *name);

// ------------------------------------------------------------------ as given

/* One key as given. */
struct mt_settings_entry {
    char name[MT_SETTINGS_NAME_BYTES];
    const struct mt_yaml_node *node;
    const char *word; // "lora.rank=3"; NULL: from the file
    struct mt_settings_entry *next;
};

struct mt_settings_reader {
    struct mt_context *ctx;
    const char *file; // as messages name it
    struct mt_arena *arena;
    struct mt_settings_entry *entries; // in the order given, words last
    struct mt_settings_entry *last;
    struct mt_train_settings *settings;
};

/* Takes the keys of a parsed file; unknown and doubled ones are refused. */
enum mt_status mt_settings_take_file(struct mt_settings_reader *reader, const struct mt_yaml_node *root);

/* Takes a word, which replaces what the file says. */
enum mt_status mt_settings_take_word(struct mt_settings_reader *reader, const char *word);

/* The entry of a key, or NULL where it was not given. */
/* True for keys whose values an adapter brings along. */
bool mt_settings_are_the_adapters(const char *name);

const struct mt_settings_entry *mt_settings_given(const struct mt_settings_reader *reader, const char *name);

/* Records "FILE:LINE: ..." or "KEY=VALUE: ..." as MT_ERR_USAGE. An entry of NULL: "FILE: ...". */
enum mt_status mt_settings_fail(const struct mt_settings_reader *reader,
                                const struct mt_settings_entry *entry, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same at a line of its own, of a node within the entry's value. */
enum mt_status mt_settings_fail_at(const struct mt_settings_reader *reader,
                                   const struct mt_settings_entry *entry, const struct mt_yaml_node *node,
                                   const char *format, ...) __attribute__((format(printf, 4, 5)));

// ------------------------------------------------------------------ values

/* Sets the field of a row, in `target` (settings or a source), from a node. `name` stands in messages. */
enum mt_status mt_settings_store(const struct mt_settings_reader *reader,
                                 const struct mt_settings_entry *entry, const struct mt_yaml_node *node,
                                 const struct mt_settings_row *row, const char *name, void *target);

/* Sets the field of a row to its default. */
enum mt_status mt_settings_store_standard(const struct mt_settings_reader *reader,
                                          const struct mt_settings_row *row, void *target);

/* Appends the field of a row as YAML on one line. Not for MT_SETTING_SOURCES and _SOURCE. */
enum mt_status mt_settings_append_value(const struct mt_settings_row *row, const void *source,
                                        struct mt_byte_list *text);

/* True when a text reads as a number, and nothing follows it. */
bool mt_settings_is_number(const char *text);

/* Reads a list of files, or a single path, into the settings. */
enum mt_status mt_settings_store_sources(const struct mt_settings_reader *reader,
                                         const struct mt_settings_entry *entry,
                                         const struct mt_settings_row *row);

/* Appends a list of files as lines of YAML, each line after `indent` spaces. */
enum mt_status mt_settings_append_sources(const struct mt_train_source *sources, size_t count, int indent,
                                          struct mt_byte_list *text);

/* The number of edits from which on a suggestion for `word` would only confuse. */
int mt_settings_near(const char *word);

/* True when `word` is one of the words between bars; NULL has none. */
bool mt_settings_is_one_of(const char *words, const char *word);

/* Sets the method and its keys from what was given. Needs the seed. */
enum mt_status mt_settings_store_objective(const struct mt_settings_reader *reader);

/* False for keys that only say another one's value in another way (c_o, c_v). */
bool mt_settings_objective_key_counts(const char *name);

/* True for keys that mean nothing beside the others of these settings: their values are then the defaults. */
bool mt_settings_is_void(const struct mt_train_settings *settings, const char *name);

/* Refuses combinations that cannot be, at the line of the key at fault. */
enum mt_status mt_settings_check(const struct mt_settings_reader *reader);

#endif
