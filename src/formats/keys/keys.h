/*
 * Settings as tables. Whoever has settings writes a row per key: its name, kind, field, values, default and
 * meaning. This engine reads a YAML file and key=value words over it into the struct behind the rows, refuses
 * what is unknown, given twice, of the wrong type or out of range with the nearest key, lists the keys, and
 * writes a struct back as YAML. Combinations that cannot be are the owner's to check, in plain C.
 *
 * Nested keys have dotted names ("lora.rank"); a file may nest them or write them dotted.
 */
#ifndef MT_FORMATS_KEYS_H
#define MT_FORMATS_KEYS_H

#include <stdio.h>

#include "formats/text/lists.h"
#include "formats/text/yaml.h"

#define MT_KEY_NAME_BYTES 64 // of a key, with its dots

enum mt_key_kind {
    MT_KEY_TEXT,   // const char *; may be nothing, which is NULL
    MT_KEY_NAME,   // const char *; must be there
    MT_KEY_LIST,   // const char *const *, NULL-terminated: a list, or "a,b"
    MT_KEY_TEXTS,  // the same, but only a list: its texts may be empty or hold commas
    MT_KEY_NUMBER, // double; where the values are "auto|NUMBER ...", auto is 0
    MT_KEY_INT,    // int, 0 or more
    MT_KEY_WHOLE,  // int64_t, 0 or more; auto as above
    MT_KEY_SEED,   // uint64_t
    MT_KEY_CHOICE, // an enum: the place of the word in the values
    MT_KEY_SWITCH, // a bool the same way: false is the first word
    MT_KEY_FLAG,   // a bool: true, false, yes, no
    MT_KEY_OWN,    // whatever the row's own functions read and write
    MT_KEY_EACH,   // the same for every element of a list, or for a single value
};

struct mt_json_text;
struct mt_key;
struct mt_key_entry;
struct mt_keys;
struct mt_keys_reader;

struct mt_key_row {
    const char *name; // NULL: the end of the rows
    enum mt_key_kind kind;
    size_t offset; // of the field; MT_KEY_OWN: its functions' own affair
    /* For people, and for the engine: the words of a choice, the range of a number ("NUMBER >= 0 and < 1").
     */
    const char *values;
    /* As text. The fields of TEXT, LIST, TEXTS and OWN keys start as zero, and so do "required" ones. A
     * "required" TEXT, LIST or TEXTS that is given may not be empty. */
    const char *standard;
    const char *meaning;
    const char *title;   // of the section of the text that begins here; NULL: the one before goes on
    const char *also;    // what other programs call it, between bars: for suggestions; NULL: nothing
    const char *instead; // a row of the same table that says it in another way: only one may be given
    double most;         // of a number, beyond what `values` says; 0: any
    bool may_differ;     // when a run goes on
    /* OWN, EACH, for schemas and shells: keys of a map in the value; the names it may be, NULL past the last.
     * NULL: there are none that could be told beforehand. */
    const struct mt_keys *members;
    const char *(*name_at)(int index);
    /* OWN, EACH: reads the entry's node into the struct; appends the value as YAML on one line, or as lines
     * of a list. Without `append` the key is not written. */
    enum mt_status (*set)(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                          void *target);
    enum mt_status (*append)(const struct mt_key *key, const void *source, struct mt_byte_list *text);
};

/* Rows that are listed together. */
struct mt_key_part {
    const struct mt_key_row *rows; // the last has no name; NULL: the end of the parts
    const char *prefix;            // before every name; NULL: none
    size_t base;                   // offset of the rows' struct in the whole
    const char *standard;          // in place of the rows' defaults, which somebody else sets; NULL: theirs
    bool of_elements;              // keys of a list's elements: listed, but none of the table itself
};

/* Names other programs have for something that is no key here. */
struct mt_key_foreign {
    const char *names; // between bars; NULL: the end
    const char *advice;
};

struct mt_keys {
    const struct mt_key_part *parts;
    const struct mt_key_foreign *foreign; // ends with a row without names; NULL: none
    const char *what; // begins the message on an unknown key: "a source has"; NULL: "there is"
    const char *hint; // ends it where nothing is near to the key; NULL: nothing does
    bool loose;       // numbers and flags may be in quotes
};

// ------------------------------------------------------------------ listing

/* A key with its place in the table; all zero: before the first. */
struct mt_key {
    const struct mt_key_part *part;
    const struct mt_key_row *row;
    char name[MT_KEY_NAME_BYTES]; // prefix and name
    const char *standard;
};

/* Goes to the next key; false past the last. */
bool mt_key_next(const struct mt_keys *keys, struct mt_key *key);

/* The key of that name; false: there is none. */
bool mt_key_find(const struct mt_keys *keys, const char *name, struct mt_key *key);

// ------------------------------------------------------------------ reading

/* One key as given. */
struct mt_key_entry {
    char name[MT_KEY_NAME_BYTES]; // with its prefix
    const struct mt_key_row *row;
    size_t base; // its part's
    const struct mt_yaml_node *node;
    const char *word; // "lora.rank=3"; NULL: from the file
    struct mt_key_entry *next;
};

/* Filled in by the caller up to `target`, the struct that is read into. */
struct mt_keys_reader {
    struct mt_context *ctx;
    struct mt_arena *arena; // of all texts
    const char *file;       // as messages name it; NULL: they name no place
    const struct mt_keys *keys;
    void *target;
    bool recorded;                // by us: keys that change nothing are void, not refused
    struct mt_key_entry *entries; // in the order given, words last
};

/*
 * Reads a text, or the reader's file where that is NULL, then the words over it: a word replaces what the
 * file says. Defaults and values are stored in the order of the table, whatever the order of the file.
 */
enum mt_status mt_keys_read(struct mt_keys_reader *reader, const char *text, size_t bytes,
                            const char *const *words, size_t word_count);

/* A reader of a map within a value, into a struct of its own. */
struct mt_keys_reader mt_keys_reader_within(const struct mt_keys_reader *reader, const struct mt_keys *keys,
                                            void *target);

/* Reads that map; `word` as in an entry. */
enum mt_status mt_keys_read_map(struct mt_keys_reader *reader, const struct mt_yaml_node *map,
                                const char *word);

/* The entry of the first of the keys between bars ("epochs|steps") that was given; NULL: none was. */
const struct mt_key_entry *mt_keys_given(const struct mt_keys_reader *reader, const char *names);

/* Stores an entry's value in the struct of its row. */
enum mt_status mt_key_store(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                            void *target);

/* Stores the default of a key, if that is a value. */
enum mt_status mt_key_store_standard(const struct mt_keys_reader *reader, const struct mt_key *key);

/* True when the default is a value and not a remark. */
bool mt_key_has_standard(const struct mt_key *key);

/* True for a key that cannot do without a value. */
bool mt_key_is_required(const struct mt_key_row *row);

/* The place of a word among the words between bars, -1: none of them. */
int mt_key_place_of_word(const char *words, const char *word);

/*
 * Records "FILE:LINE: ..." or "KEY=VALUE: ..." as MT_ERR_USAGE; without an entry "FILE: ...". The line is
 * that of `node`, a node within the value; NULL: the entry's.
 */
enum mt_status mt_key_fail(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                           const struct mt_yaml_node *node, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts the place of an entry before the message already recorded, which becomes MT_ERR_USAGE. */
enum mt_status mt_key_fail_within(const struct mt_keys_reader *reader, const struct mt_key_entry *entry);

/* Something that may be wrong between keys, those it is reported at, and what to say. */
struct mt_key_check {
    bool wrong;
    const char *keys; // between bars: the first that was given; "": the file
    const char *why;
};

/* Refuses the first that is wrong. */
enum mt_status mt_keys_check(const struct mt_keys_reader *reader, const struct mt_key_check *checks,
                             size_t count);

/* Refuses an entry's value: "KEY is VALUE, expected VALUES". */
enum mt_status mt_key_refuse(const struct mt_keys_reader *reader, const struct mt_key_entry *entry);

/* Refuses a name that is no key, with what was probably meant. */
enum mt_status mt_key_refuse_unknown(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     const char *name);

// ------------------------------------------------------------------ writing

/* Appends a text in double quotes, with the escapes YAML needs. Text is valid UTF-8. */
enum mt_status mt_key_append_quoted(const char *text, struct mt_byte_list *out);

/* True when a text needs no quotes to be read as it is, be it in a line of its own or within brackets. */
bool mt_key_is_plain(const char *text);

/* False for keys of elements, and for those with functions of their own that do not append. */
bool mt_key_is_written(const struct mt_key *key);

/* Appends the value of a key of `source`, the struct its table is about. */
enum mt_status mt_key_append(const struct mt_key *key, const void *source, struct mt_byte_list *text);

/* Appends an element of a list: "- key: value" and further lines, keys at their default left out. */
enum mt_status mt_keys_append_element(const struct mt_keys *keys, const void *source,
                                      struct mt_byte_list *text);

/*
 * The whole struct as YAML that reads back to the same, without the keys that are left out; NUL-terminated,
 * in the arena.
 */
enum mt_status mt_keys_text(struct mt_context *ctx, const struct mt_keys *keys, const void *source,
                            bool (*left_out)(const void *source, const char *name), struct mt_arena *arena,
                            const char **text);

/* Appends a JSON Schema of a file with these keys: for editors. */
enum mt_status mt_keys_schema(const struct mt_keys *keys, const char *title, struct mt_json_text *text);

#endif
