/* Words of Python and what they do to names. */
#include "eval/code/code_names.h"

#include <ctype.h>
#include <stdlib.h>

static bool is_word(char byte)
{
    return isalnum((unsigned char)byte) || byte == '_' || (unsigned char)byte >= 128;
}

static bool is_in(const char *set, char byte)
{
    return byte != '\0' && strchr(set, byte) != NULL;
}

/* How long the word at the beginning is. */
static size_t word_length(struct mt_text text)
{
    size_t length = 0;
    if (text.bytes > 0 && isdigit((unsigned char)text.text[0])) return 0;
    while (length < text.bytes && is_word(text.text[length])) length++;
    return length;
}

// ------------------------------------------------------------------ sets

enum mt_status mt_names_add(struct mt_name_set *set, struct mt_text name)
{
    enum mt_status status = MT_OK;
    set->each =
        mt_list_reserve(set->ctx, set->each, &set->capacity, sizeof *set->each, set->count + 1, &status);
    if (status == MT_OK) set->each[set->count++] = name;
    return status;
}

static int in_order(const void *a, const void *b)
{
    const struct mt_text *one = a;
    const struct mt_text *other = b;
    if (one->bytes != other->bytes) return one->bytes < other->bytes ? -1 : 1;
    return memcmp(one->text, other->text, one->bytes);
}

void mt_names_sort(struct mt_name_set *set)
{
    if (set->count > 1) qsort(set->each, set->count, sizeof *set->each, in_order);
}

bool mt_names_have(const struct mt_name_set *set, struct mt_text name)
{
    return set->count > 0 && bsearch(&name, set->each, set->count, sizeof *set->each, in_order) != NULL;
}

void mt_names_free(struct mt_name_set *set)
{
    mt_release(set->ctx, set->each, set->capacity * sizeof *set->each);
    *set = (struct mt_name_set){.ctx = set->ctx};
}

// ------------------------------------------------------------------ reading

/* What words do until something ends it. */
enum reading {
    PLAIN,
    NAMING,     // behind def or class
    PARAMETERS, // the rest of that line
    IMPORTING,  // the rest of the line
    LOOPING,    // between for and in
    LAMBDA,     // up to the colon
};

struct reader {
    struct mt_text text;
    size_t at;
    size_t top;
    enum reading reading;
    bool first; // no word yet in this line
    bool deep;  // the line is below the top level
};

/* Where a string that begins at `at` ends. */
static size_t string_end(struct mt_text text, size_t at)
{
    const char quote = text.text[at];
    const char three[] = {quote, quote, quote, '\0'};
    if (mt_text_has(text, at, three)) {
        size_t end = mt_text_find(text, at + 3, three);
        return end < text.bytes ? end + 3 : end;
    }
    for (at++; at < text.bytes && text.text[at] != quote && text.text[at] != '\n'; at++)
        at += text.text[at] == '\\' && at + 1 < text.bytes ? 1 : 0;
    return at < text.bytes ? at + 1 : text.bytes;
}

static void begin_line(struct reader *reader)
{
    size_t start = reader->at;
    while (mt_text_has(reader->text, reader->at, " ") || mt_text_has(reader->text, reader->at, "\t"))
        reader->at++;
    reader->first = true;
    reader->deep = reader->at - start > reader->top;
    reader->reading = PLAIN;
}

/* Passes over what is no word; false: the text is over. */
static bool find_word(struct reader *reader)
{
    while (reader->at < reader->text.bytes) {
        char byte = reader->text.text[reader->at];
        if (byte == '\n') {
            reader->at++;
            begin_line(reader);
        } else if (byte == '#') {
            reader->at = mt_text_find(reader->text, reader->at, "\n");
        } else if (byte == '\'' || byte == '"') {
            reader->at = string_end(reader->text, reader->at);
        } else if (is_word(byte)) {
            return true;
        } else {
            if (byte == ':' && reader->reading == LAMBDA) reader->reading = PLAIN;
            reader->at++;
        }
    }
    return false;
}

/* What a word that is no keyword does to a name, by what follows it. */
static enum mt_name_role role_of(struct reader *reader, bool first, struct mt_text behind)
{
    bool top = first && !reader->deep;
    switch (reader->reading) {
    case NAMING: reader->reading = PARAMETERS; return reader->deep ? MT_NAME_LOCAL : MT_NAME_DEFINED;
    case IMPORTING: return MT_NAME_IMPORTED;
    case PARAMETERS:
    case LOOPING:
    case LAMBDA: return MT_NAME_LOCAL;
    default: break;
    }
    while (behind.bytes > 0 && behind.text[0] == ' ') behind = mt_text_from(behind, 1);
    if (top && mt_text_has(behind, 0, ":")) return MT_NAME_ASSIGNED; // with its type
    if (!mt_text_take(&behind, "=") || mt_text_has(behind, 0, "=")) return MT_NAME_USED;
    while (behind.bytes > 0 && behind.text[0] == ' ') behind = mt_text_from(behind, 1);
    if (!top) return MT_NAME_LOCAL;
    return mt_text_has(behind, 0, "lambda") ? MT_NAME_DEFINED : MT_NAME_ASSIGNED;
}

/* True for a keyword that changes how the words behind it are read, or means nothing to us. */
static bool is_keyword(struct reader *reader, struct mt_text word, bool first)
{
    if (mt_text_is(word, "def") || (first && mt_text_is(word, "class"))) {
        reader->reading = NAMING;
    } else if (first && (mt_text_is(word, "import") || mt_text_is(word, "from"))) {
        reader->reading = IMPORTING;
    } else if (mt_text_is(word, "for")) {
        reader->reading = LOOPING;
    } else if (mt_text_is(word, "lambda")) {
        reader->reading = LAMBDA;
    } else if (mt_text_is(word, "in") && reader->reading == LOOPING) {
        reader->reading = PLAIN;
    } else {
        return mt_text_is(word, "import") || mt_text_is(word, "as") || mt_text_is(word, "async");
    }
    return true;
}

enum mt_status mt_names_collect(struct mt_name_set *set, struct mt_text python, size_t top, unsigned roles)
{
    struct reader reader = {.text = python, .top = top};
    enum mt_status status = MT_OK;
    begin_line(&reader);
    while (status == MT_OK && find_word(&reader)) {
        struct mt_text rest = mt_text_from(python, reader.at);
        size_t length = word_length(rest);
        bool first = reader.first;
        bool attribute = reader.at > 0 && python.text[reader.at - 1] == '.';
        struct mt_text word = {.text = rest.text, .bytes = length};
        struct mt_text behind = mt_text_from(rest, length);
        bool prefix = behind.bytes > 0 && (behind.text[0] == '"' || behind.text[0] == '\''); // f"..."
        reader.at += length;
        while (length == 0 && reader.at < python.bytes && is_word(python.text[reader.at])) reader.at++;
        if (length == 0 || prefix || (attribute && reader.reading != IMPORTING)) continue;
        bool keyword = is_keyword(&reader, word, first);
        reader.first = first && mt_text_is(word, "async");
        if (keyword) continue;
        if ((role_of(&reader, first, behind) & roles) != 0) status = mt_names_add(set, word);
    }
    return status;
}

// ------------------------------------------------------------------ lines

bool mt_python_begins(struct mt_text line)
{
    size_t length = word_length(line);
    struct mt_text word = {.text = line.text, .bytes = length};
    if (mt_text_has(line, 0, "@") && line.bytes > 1 && is_word(line.text[1])) return true;
    if (!mt_text_has(line, length, " ")) return false;
    if (mt_text_is(word, "import")) return true;
    if (mt_text_is(word, "from")) return mt_text_find(line, 0, " import ") < line.bytes;
    if (mt_text_is(word, "async")) return mt_text_has(line, length, " def ");
    bool defines = mt_text_is(word, "def") || mt_text_is(word, "class");
    return defines && (mt_text_find(line, 0, ":") < line.bytes || mt_text_find(line, 0, "(") < line.bytes);
}

bool mt_python_looks(struct mt_text line)
{
    static const char *const blocks[] = {"if",   "elif", "else",   "for",     "while",
                                         "with", "try",  "except", "finally", "match"};
    static const char *const others[] = {"return", "assert", "raise", "pass", "global", "del", "break"};
    if (line.bytes == 0 || mt_python_begins(line)) return line.bytes > 0;
    if (is_in("#)]}\"'", line.text[0])) return true;
    size_t length = word_length(line);
    struct mt_text word = {.text = line.text, .bytes = length};
    bool opens = line.text[line.bytes - 1] == ':';
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        if (mt_text_is(word, blocks[i])) return opens;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (mt_text_is(word, others[i])) return true;
    }
    if (length == 0) return false;
    while (length + 1 < line.bytes && line.text[length] == '.' && is_word(line.text[length + 1])) {
        length++;
        while (length < line.bytes && is_word(line.text[length])) length++;
    }
    if (mt_text_has(line, length, "(") || mt_text_has(line, length, "[")) return true;
    while (length < line.bytes && line.text[length] == ' ') length++;
    if (length + 1 < line.bytes && is_in("+-*/%|&^", line.text[length])) length++;
    if (mt_text_has(line, length, ",")) return mt_text_find(line, length, " = ") < line.bytes; // a, b = 1, 2
    return mt_text_has(line, length, "=");
}
