/*
 * Keys as a JSON Schema (draft 7, which editors' YAML servers read): one property per key, with its type,
 * range, words, default and meaning. A file may nest keys or write them dotted, so a key of a group has a
 * property in both places. No key is required: words of the command line may add what a file leaves out.
 */
#include <stdlib.h>

#include "formats/keys/keys.h"
#include "formats/text/json_text.h"

#define SCALAR            "\"type\": [\"string\", \"number\", \"boolean\"]"
#define SCALAR_OR_NOTHING "\"type\": [\"string\", \"number\", \"boolean\", \"null\"]"
#define DESCRIPTION_BYTES 1024

static void append_object(struct mt_json_text *text, const struct mt_keys *keys, const char *prefix,
                          int indent);

// ------------------------------------------------------------------ single values

static void append_bound(struct mt_json_text *text, const char *name, double bound)
{
    (void)mt_json_text_format(text, ", \"%s\": ", name);
    (void)mt_json_text_number(text, bound);
}

/* What people are told, "NUMBER >= 0 and < 1" or "1 to 5", as the bounds of a schema. */
static void append_range(struct mt_json_text *text, const struct mt_key_row *row, bool whole)
{
    char *end = NULL;
    double low = strtod(row->values, &end);
    bool from = end != row->values;
    bool to = from;
    if (from) append_bound(text, "minimum", low);
    if (from) append_bound(text, "maximum", strtod(end + strlen(" to"), NULL));
    for (const char *at = strpbrk(row->values, "<>"); at != NULL && !from; at = strpbrk(at + 1, "<>")) {
        bool closed = at[1] == '=';
        bool least = *at == '>';
        append_bound(text,
                     least ? (closed ? "minimum" : "exclusiveMinimum")
                           : (closed ? "maximum" : "exclusiveMaximum"),
                     strtod(at + 1 + closed, NULL));
        to = to || !least;
    }
    if (whole && !from && strpbrk(row->values, ">") == NULL) append_bound(text, "minimum", 0.0);
    if (row->most > 0.0 && !to) append_bound(text, "maximum", row->most);
}

static void append_number(struct mt_json_text *text, const struct mt_keys *keys, const struct mt_key_row *row,
                          bool whole)
{
    bool automatic = strncmp(row->values, "auto|", 5) == 0;
    const char *type = whole ? "\"integer\"" : "\"number\"";
    if (automatic) (void)mt_json_text_format(text, "\"anyOf\": [{\"const\": \"auto\"}, {");
    // Text in quotes has no range.
    (void)mt_json_text_format(text, keys->loose ? "\"type\": [%s, \"string\"]" : "\"type\": %s", type);
    append_range(text, row, whole);
    if (automatic) (void)mt_json_text_format(text, "}]");
}

/* "enum": the words between bars. */
static void append_words(struct mt_json_text *text, const char *words)
{
    (void)mt_json_text_format(text, "\"enum\": [");
    while (words != NULL) {
        size_t length = strcspn(words, "|");
        (void)mt_json_text_bytes(text, words, length);
        words = words[length] == '|' ? words + length + 1 : NULL;
        if (words != NULL) (void)mt_json_text_format(text, ", ");
    }
    (void)mt_json_text_format(text, "]");
}

/* "enum": the names a row lists. */
static void append_names(struct mt_json_text *text, const struct mt_key_row *row)
{
    (void)mt_json_text_format(text, "\"enum\": [");
    for (int i = 0; row->name_at(i) != NULL; i++) {
        if (i > 0) (void)mt_json_text_format(text, ", ");
        (void)mt_json_text_string(text, row->name_at(i));
    }
    (void)mt_json_text_format(text, "]");
}

// ------------------------------------------------------------------ values with functions of their own

static bool begins(const char *values, const char *with)
{
    return strncmp(values, with, strlen(with)) == 0;
}

/* An element of a list, or a single value. */
static void append_element(struct mt_json_text *text, const struct mt_key_row *row, int indent)
{
    bool maps = row->members != NULL || strcmp(row->values, "NAMES") == 0;
    const char *bar = begins(row->values, "LIST OF ") ? strchr(row->values, '|') : NULL;
    (void)mt_json_text_format(text, maps ? "{\"anyOf\": [{" : "{");
    if (row->name_at != NULL)
        append_names(text, row);
    else if (bar != NULL)
        append_words(text, row->values + strlen("LIST OF "));
    else if (begins(row->values, "NUMBER"))
        (void)mt_json_text_format(text, "\"type\": \"number\"");
    else if (maps || !begins(row->values, "LIST"))
        (void)mt_json_text_format(text, SCALAR);
    if (maps) (void)mt_json_text_format(text, "}, {");
    if (maps && row->members != NULL) append_object(text, row->members, "", indent);
    if (maps && row->members == NULL) (void)mt_json_text_format(text, "\"type\": \"object\"");
    (void)mt_json_text_format(text, maps ? "}]}" : "}");
}

static void append_own(struct mt_json_text *text, const struct mt_keys *keys, const struct mt_key_row *row,
                       int indent)
{
    bool list = begins(row->values, "LIST");
    bool numbers = begins(row->values, "NUMBER >") || begins(row->values, "WHOLE NUMBER >");
    if (row->kind == MT_KEY_OWN && numbers) {
        append_number(text, keys, row, begins(row->values, "WHOLE"));
    } else if (row->kind == MT_KEY_OWN && strcmp(row->values, "KEYS") == 0) {
        append_object(text, row->members, "", indent);
    } else if (row->kind == MT_KEY_OWN && list) {
        (void)mt_json_text_format(text, "\"type\": [\"array\", \"null\"], \"items\": ");
        append_element(text, row, indent);
    } else if (row->kind == MT_KEY_OWN) {
        (void)mt_json_text_format(text, "\"anyOf\": [");
        append_element(text, row, indent);
        (void)mt_json_text_format(text, ", {\"type\": \"null\"}]");
    } else {
        (void)mt_json_text_format(text, "\"anyOf\": [");
        append_element(text, row, indent);
        (void)mt_json_text_format(text, ", {\"type\": \"array\", \"items\": ");
        append_element(text, row, indent);
        (void)mt_json_text_format(text, "}]");
    }
}

// ------------------------------------------------------------------ any value

static void append_type(struct mt_json_text *text, const struct mt_keys *keys, const struct mt_key_row *row,
                        int indent)
{
    switch (row->kind) {
    case MT_KEY_TEXT: (void)mt_json_text_format(text, SCALAR_OR_NOTHING); break;
    case MT_KEY_NAME: (void)mt_json_text_format(text, SCALAR); break;
    case MT_KEY_LIST:
        (void)mt_json_text_format(text, "\"anyOf\": [{" SCALAR_OR_NOTHING "}, {\"type\": \"array\", "
                                        "\"items\": {" SCALAR "}}]");
        break;
    case MT_KEY_TEXTS:
        (void)mt_json_text_format(text, "\"type\": \"array\", \"items\": {\"type\": [\"string\", \"number\", "
                                        "\"boolean\", \"null\"]}");
        break;
    case MT_KEY_NUMBER: append_number(text, keys, row, false); break;
    case MT_KEY_INT:
    case MT_KEY_WHOLE:
    case MT_KEY_SEED: append_number(text, keys, row, true); break;
    case MT_KEY_CHOICE:
    case MT_KEY_SWITCH: append_words(text, row->values); break;
    case MT_KEY_FLAG:
        (void)mt_json_text_format(text, keys->loose
                                            ? "\"enum\": [true, false, \"true\", \"false\", \"yes\", \"no\"]"
                                            : "\"enum\": [true, false, \"yes\", \"no\"]");
        break;
    case MT_KEY_OWN:
    case MT_KEY_EACH: append_own(text, keys, row, indent); break;
    }
}

/* Numbers and flags are written as they are: a default is what a file could say. */
static void append_default(struct mt_json_text *text, const struct mt_key *key)
{
    enum mt_key_kind kind = key->row->kind;
    bool text_kind = kind == MT_KEY_NAME || kind == MT_KEY_CHOICE || kind == MT_KEY_SWITCH;
    bool automatic = strcmp(key->standard, "auto") == 0;
    if (!mt_key_has_standard(key)) return;
    (void)mt_json_text_format(text, ", \"default\": ");
    if (text_kind || automatic)
        (void)mt_json_text_string(text, key->standard);
    else
        (void)mt_json_text_format(text, "%s", key->standard);
}

static void append_property(struct mt_json_text *text, const struct mt_keys *keys, const struct mt_key *key,
                            const char *name, int indent)
{
    char description[DESCRIPTION_BYTES];
    bool required = strcmp(key->standard, "required") == 0;
    (void)snprintf(description, sizeof description, "%s (%s; %s%s)", key->row->meaning, key->row->values,
                   required ? "" : "default: ", key->standard);
    (void)mt_json_text_string(text, name);
    (void)mt_json_text_format(text, ": {\"description\": ");
    (void)mt_json_text_string(text, description);
    (void)mt_json_text_format(text, ", ");
    append_type(text, keys, key->row, indent);
    append_default(text, key);
    (void)mt_json_text_format(text, "}");
}

// ------------------------------------------------------------------ maps

/* Whether a key comes first of those with the same group below the prefix: `length` bytes of its name. */
static bool begins_group(const struct mt_keys *keys, const struct mt_key *key, size_t length)
{
    struct mt_key other = {0};
    while (mt_key_next(keys, &other) && other.row != key->row) {
        if (!other.part->of_elements && strncmp(other.name, key->name, length) == 0) return false;
    }
    return true;
}

/* The members of an object's schema, for the keys below a prefix ("", "lora."). Groups are never deep. */
static void append_object(struct mt_json_text *text, const struct mt_keys *keys, const char *prefix,
                          int indent)
{
    struct mt_key key = {0};
    size_t length = strlen(prefix);
    const char *between = "";
    (void)mt_json_text_format(text, "\"type\": [\"object\", \"null\"], \"additionalProperties\": false, "
                                    "\"properties\": {");
    while (mt_key_next(keys, &key)) {
        const char *name = key.name + length;
        const char *dot = strchr(name, '.');
        char group[MT_KEY_NAME_BYTES];
        if (key.part->of_elements || strncmp(key.name, prefix, length) != 0) continue;
        (void)mt_json_text_format(text, "%s\n%*s", between, indent + 2, "");
        append_property(text, keys, &key, name, indent + 2);
        between = ",";
        if (dot == NULL || !begins_group(keys, &key, (size_t)(dot + 1 - key.name))) continue;
        (void)snprintf(group, sizeof group, "%.*s", (int)(dot - name), name);
        (void)mt_json_text_format(text, ",\n%*s", indent + 2, "");
        (void)mt_json_text_string(text, group);
        (void)mt_json_text_format(text, ": {");
        (void)snprintf(group, sizeof group, "%.*s", (int)(dot + 1 - key.name), key.name);
        append_object(text, keys, group, indent + 2);
        (void)mt_json_text_format(text, "}");
    }
    (void)mt_json_text_format(text, "\n%*s}", indent, "");
}

enum mt_status mt_keys_schema(const struct mt_keys *keys, const char *title, struct mt_json_text *text)
{
    (void)mt_json_text_format(text,
                              "{\n\"$schema\": \"http://json-schema.org/draft-07/schema#\",\n\"title\": ");
    (void)mt_json_text_string(text, title);
    (void)mt_json_text_format(text, ",\n");
    append_object(text, keys, "", 0);
    return mt_json_text_format(text, "\n}\n");
}
