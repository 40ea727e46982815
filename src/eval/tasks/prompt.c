/* Filling templates in. */
#include "eval/tasks/prompt.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/answers/statement.h"
#include "eval/tasks/field_place.h"
#include "formats/text/printable.h"
#include "formats/text/utf8.h"
#include "formats/tokenizer/unicode.h"

#define MOST_NAME 640

/* "{name|filter:argument|filter}", taken apart. */
struct prompt_field {
    char text[MOST_NAME]; // the name, then filters; bars replaced by NUL
    const char *parts[8];
    int count;
};

static const char *const filters[] = {
    "trim", "lower", "upper",  "capitalize", "words",     "boxed",   "unescape", "unix",
    "join", "paren", "after:", "before:",    "full_stop", "option:", "given:",   "empty:"};

/* "replace:FROM=TO", where TO is no longer: texts only shrink. */
static bool is_replacement(const char *part, size_t *from, const char **to)
{
    static const char name[] = "replace:";
    if (strncmp(part, name, sizeof name - 1) != 0) return false;
    part += sizeof name - 1;
    *from = strcspn(part, "=");
    *to = part + *from + 1;
    return *from > 0 && part[*from] == '=' && strlen(*to) <= *from;
}

static bool is_filter(const char *part)
{
    size_t from = 0;
    const char *to = NULL;
    if (is_replacement(part, &from, &to)) return true;
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        size_t length = strlen(filters[i]);
        bool argument = filters[i][length - 1] == ':';
        if (argument ? strncmp(part, filters[i], length) == 0 && part[length] != '\0'
                     : strcmp(part, filters[i]) == 0)
            return true;
    }
    return false;
}

/* Reads a field whose brace was just passed; returns where it ends, NULL: it is none, and `problem` says why.
 */
static const char *read_field(const char *at, struct prompt_field *field, const char **problem)
{
    const char *end = strchr(at, '}');
    *problem = "a brace that does not close ({{ means a brace)";
    if (end == NULL) return NULL;
    *problem = "a field's name is missing or too long";
    size_t length = (size_t)(end - at);
    if (length == 0 || length >= MOST_NAME) return NULL;
    memcpy(field->text, at, length);
    field->text[length] = '\0';
    field->count = 0;
    char *part = field->text;
    while (part != NULL) {
        char *bar = strchr(part, '|');
        if (bar != NULL) *bar++ = '\0';
        *problem = "an unknown filter, or too many";
        if (field->count == 8 || (field->count > 0 && !is_filter(part))) return NULL;
        field->parts[field->count++] = part;
        part = bar;
    }
    return end + 1;
}

/* The next piece: plain text up to a brace, then perhaps a field. *field_count 0: no field. */
static const char *next_piece(const char *at, struct mt_text *plain, struct prompt_field *field,
                              const char **problem)
{
    size_t length = strcspn(at, "{}");
    *plain = (struct mt_text){.text = at, .bytes = length};
    field->count = 0;
    at += length;
    if (*at == '\0') return at;
    if (at[1] == at[0]) {
        plain->bytes++;
        return at + 2;
    }
    *problem = "a closing brace alone (}} means a brace)";
    if (*at == '}') return NULL;
    return read_field(at + 1, field, problem);
}

enum mt_status mt_prompt_check(struct mt_context *ctx, const char *template)
{
    const char *at = template;
    while (*at != '\0') {
        struct mt_text plain;
        struct prompt_field field;
        const char *problem = NULL;
        at = next_piece(at, &plain, &field, &problem);
        if (at == NULL) return mt_fail(ctx, MT_ERR_USAGE, "%s", problem);
    }
    return MT_OK;
}

// ------------------------------------------------------------------ values

static enum mt_status append_choices(const struct mt_prompt_names *names, bool paren,
                                     struct mt_byte_list *out)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < names->choice_count && status == MT_OK; i++) {
        char head[16];
        char letter = (char)('A' + i);
        (void)snprintf(head, sizeof head, paren ? "%s(%c) " : "%s%c. ", i > 0 ? "\n" : "", letter);
        status = mt_byte_list_append_text(out, head);
        if (status == MT_OK)
            status = mt_byte_list_append(out, names->choices[i].text, names->choices[i].bytes);
    }
    return status;
}

static enum mt_status append_letters(const struct mt_prompt_names *names, struct mt_byte_list *out)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < names->choice_count && status == MT_OK; i++) {
        char text[16];
        const char *before = i == 0 ? "" : (i + 1 == names->choice_count ? " or " : ", ");
        (void)snprintf(text, sizeof text, "%s%c", before, (char)('A' + i));
        status = mt_byte_list_append_text(out, text);
    }
    return status;
}

static enum mt_status append_items(const struct mt_row *row, const char *name,
                                   const struct mt_field_place *place, struct mt_byte_list *out)
{
    enum mt_status status = MT_OK;
    size_t count = mt_field_place_count(place);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        bool is_text = false;
        const char *key = NULL;
        if (i > 0) status = mt_byte_list_append_text(out, "\n");
        if (status == MT_OK) status = mt_field_place_append_item(place, i, out, &is_text, &key);
        if (status == MT_OK && !is_text)
            return mt_row_fail(row, "item %zu of '%s' is not a text", i + 1, mt_printable(name).text);
    }
    return status;
}

static enum mt_status append_of_row(const struct prompt_field *field, const struct mt_row *row,
                                    struct mt_byte_list *out)
{
    const char *name = field->parts[0];
    const struct mt_field_place place = mt_field_place(row, name);
    bool is_text = false;
    bool join = field->count > 1 && strcmp(field->parts[1], "join") == 0;
    if (join && place.kind == MT_PLACE_LIST) return append_items(row, name, &place, out);
    enum mt_status status = mt_field_place_append(&place, out, &is_text);
    if (status != MT_OK || is_text) return status;
    if (place.kind == MT_PLACE_NONE)
        return mt_row_fail(row, "there is no field '%s'", mt_printable(name).text);
    return mt_row_fail(row, "the field '%s' is not a text (a list: %s.0 or |join)", mt_printable(name).text,
                       mt_printable(name).text);
}

static enum mt_status append_value(const struct prompt_field *field, const struct mt_row *row,
                                   const struct mt_prompt_names *names, struct mt_byte_list *out)
{
    const char *name = field->parts[0];
    if (names->choices != NULL && strcmp(name, "choices") == 0)
        return append_choices(names, field->count > 1 && strcmp(field->parts[1], "paren") == 0, out);
    if (names->choices != NULL && strcmp(name, "letters") == 0) return append_letters(names, out);
    if (names->subtask != NULL && strcmp(name, "subtask") == 0)
        return mt_byte_list_append_text(out, names->subtask);
    if (names->completion != NULL && strcmp(name, "completion") == 0)
        return mt_byte_list_append(out, names->completion->text, names->completion->bytes);
    if (names->choices != NULL && names->choice >= 0 && strcmp(name, "letter") == 0) {
        char letter = (char)('A' + names->choice);
        return mt_byte_list_append(out, &letter, 1);
    }
    if (names->choices != NULL && names->choice >= 0 && strcmp(name, "choice") == 0)
        return mt_byte_list_append(out, names->choices[names->choice].text,
                                   names->choices[names->choice].bytes);
    return append_of_row(field, row, out);
}

// ------------------------------------------------------------------ filters

static struct mt_text cut(struct mt_text span, const char *filter)
{
    struct mt_text inner;
    if (strcmp(filter, "trim") == 0) return mt_text_trimmed(span);
    if (strcmp(filter, "boxed") == 0) return mt_statement_boxed(span, &inner) ? inner : mt_text_of(NULL);
    if (strncmp(filter, "before:", 7) == 0) span.bytes = mt_text_find(span, 0, filter + 7);
    if (strncmp(filter, "after:", 6) != 0) return span;
    size_t from = 0; // behind the last one
    for (size_t at = mt_text_find(span, 0, filter + 6); at < span.bytes;
         at = mt_text_find(span, at + 1, filter + 6))
        from = at + strlen(filter + 6);
    return mt_text_from(span, from);
}

/* Pairs of bytes become one: "\\n", as it is written in a table without quotes, or the line end of DOS. */
static void join_pairs(struct mt_byte_list *out, size_t start, uint8_t first, uint8_t second)
{
    size_t kept = start;
    for (size_t i = start; i < out->count; i++) {
        bool pair = out->data[i] == first && i + 1 < out->count && out->data[i + 1] == second;
        if (pair) i++;
        out->data[kept++] = pair ? '\n' : out->data[i];
    }
    out->count = kept;
}

/* Every FROM of "replace:FROM=TO" becomes TO, from the left. */
static void replace(struct mt_byte_list *out, size_t start, const char *filter)
{
    size_t from = 0;
    const char *to = NULL;
    if (!is_replacement(filter, &from, &to)) return;
    const char *text = to - 1 - from;
    size_t length = strlen(to);
    size_t kept = start;
    for (size_t i = start; i < out->count;) {
        bool here = out->count - i >= from && memcmp(out->data + i, text, from) == 0;
        if (here) memcpy(out->data + kept, to, length);
        if (!here) out->data[kept] = out->data[i];
        kept += here ? length : 1;
        i += here ? from : 1;
    }
    out->count = kept;
}

/* Python's str.capitalize: the first character in upper case, the others in lower case, where that is as
 * long. */
static void capitalize(uint8_t *text, size_t bytes)
{
    if (bytes > 0 && text[0] < 0x80) text[0] = (uint8_t)toupper(text[0]);
    for (size_t at = bytes > 0 ? mt_utf8_length(text[0]) : 0; at < bytes;) {
        uint32_t lower[2];
        uint8_t written[4];
        size_t length = 0;
        size_t characters = mt_unicode_lowercase(mt_utf8_decode(text + at, &length), lower);
        if (characters == 1 && mt_utf8_encode(lower[0], written) == length)
            memcpy(text + at, written, length);
        at += length;
    }
}

/* Applies a filter to what was appended from `start` on; it only shrinks. */
static void apply(struct mt_byte_list *out, size_t start, const char *filter)
{
    if (strcmp(filter, "unescape") == 0) join_pairs(out, start, '\\', 'n');
    if (strcmp(filter, "unix") == 0) join_pairs(out, start, '\r', '\n');
    replace(out, start, filter);
    if (strcmp(filter, "capitalize") == 0) capitalize(out->data + start, out->count - start);
    bool lower = strcmp(filter, "lower") == 0;
    bool upper = strcmp(filter, "upper") == 0;
    bool words = strcmp(filter, "words") == 0;
    for (size_t i = start; (lower || upper || words) && i < out->count; i++) {
        if (lower) out->data[i] = (uint8_t)tolower(out->data[i]);
        if (upper) out->data[i] = (uint8_t)toupper(out->data[i]);
        if (words && out->data[i] == '_') out->data[i] = ' ';
    }
    if (out->count == start) return;
    struct mt_text span = {.text = (const char *)out->data + start, .bytes = out->count - start};
    span = cut(span, filter);
    memmove(out->data + start, span.text, span.bytes);
    out->count = start + span.bytes;
}

/*
 * "option:FIELD": what was appended from `start` on, "(B)" or the text of an option, becomes "(B) text" where
 * the field has such a line.
 */
static enum mt_status complete_option(const struct mt_row *row, const char *field, size_t start,
                                      struct mt_byte_list *out)
{
    const struct mt_field_place place = mt_field_place(row, field);
    struct mt_byte_list options = {.ctx = out->ctx};
    struct mt_text line;
    bool is_text = false;
    enum mt_status status = mt_field_place_append(&place, &options, &is_text);
    if (status == MT_OK && !is_text)
        status = mt_row_fail(row, "there is no text '%s'", mt_printable(field).text);
    for (size_t at = 0; status == MT_OK && mt_text_next_line(mt_text_in(&options), &at, &line);) {
        const struct mt_text given = mt_text_trimmed(
            (struct mt_text){.text = (const char *)out->data + start, .bytes = out->count - start});
        line = mt_text_trimmed(line);
        if (line.bytes < 4 || line.text[0] != '(' || line.text[2] != ')') continue;
        const struct mt_text letter = {.text = line.text, .bytes = 3};
        if (!mt_text_same(given, letter) && !mt_text_same(given, mt_text_trimmed(mt_text_from(line, 3))))
            continue;
        out->count = start;
        status = mt_byte_list_append(out, line.text, line.bytes);
        break;
    }
    mt_byte_list_free(&options);
    return status;
}

/* "given:TEXT" and "empty:TEXT": the text stands for a value that is there, or for one that is empty. */
static enum mt_status stand_in(const char *text, bool given, size_t start, struct mt_byte_list *out)
{
    if (given != (out->count > start)) return MT_OK;
    out->count = start;
    return mt_byte_list_append_text(out, text);
}

/* True for what a template names of the row itself. */
static bool is_of_row(const struct prompt_field *field, const struct mt_prompt_names *names)
{
    const char *name = field->parts[0];
    bool choice = names->choice < 0 && (strcmp(name, "choice") == 0 || strcmp(name, "letter") == 0);
    return !choice && strcmp(name, "letters") != 0 &&
           (names->subtask == NULL || strcmp(name, "subtask") != 0);
}

/* The choices without their letters. */
static enum mt_status append_choice_values(const struct mt_prompt_names *names, struct mt_byte_list *out)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < names->choice_count && status == MT_OK; i++) {
        status = mt_byte_list_append(out, names->choices[i].text, names->choices[i].bytes);
        if (status == MT_OK) status = mt_byte_list_append_text(out, MT_PROMPT_BREAK);
    }
    return status;
}

static enum mt_status append_filtered(const struct prompt_field *field, const struct mt_row *row,
                                      const struct mt_prompt_names *names, struct mt_byte_list *out)
{
    size_t start = out->count;
    enum mt_status status = append_value(field, row, names, out);
    for (int i = 1; i < field->count && status == MT_OK; i++) {
        bool ends = out->count > start && out->data[out->count - 1] == '.';
        if (strcmp(field->parts[i], "full_stop") == 0 && !ends) status = mt_byte_list_append_text(out, ".");
        bool option = strncmp(field->parts[i], "option:", 7) == 0;
        bool given = strncmp(field->parts[i], "given:", 6) == 0;
        bool empty = strncmp(field->parts[i], "empty:", 6) == 0;
        if (option) status = complete_option(row, field->parts[i] + 7, start, out);
        if (given || empty) status = stand_in(field->parts[i] + 6, given, start, out);
        if (!option && !given && !empty) apply(out, start, field->parts[i]);
    }
    return status;
}

enum mt_status mt_prompt_values(const char *template, const struct mt_row *row,
                                const struct mt_prompt_names *names, struct mt_byte_list *out)
{
    const char *at = template;
    enum mt_status status = MT_OK;
    while (*at != '\0' && status == MT_OK) {
        struct mt_text plain;
        struct prompt_field field;
        const char *problem = NULL;
        at = next_piece(at, &plain, &field, &problem);
        if (at == NULL) return mt_fail(out->ctx, MT_ERR_USAGE, "a template is wrong: %s", problem);
        if (field.count == 0 || !is_of_row(&field, names)) continue;
        bool choices = names->choices != NULL && strcmp(field.parts[0], "choices") == 0;
        status = choices ? append_choice_values(names, out) : append_filtered(&field, row, names, out);
        if (status == MT_OK && !choices) status = mt_byte_list_append_text(out, MT_PROMPT_BREAK);
    }
    return status;
}

enum mt_status mt_prompt_render(const char *template, const struct mt_row *row,
                                const struct mt_prompt_names *names, struct mt_byte_list *out)
{
    const char *at = template;
    enum mt_status status = MT_OK;
    while (*at != '\0' && status == MT_OK) {
        struct mt_text plain;
        struct prompt_field field;
        const char *problem = NULL;
        at = next_piece(at, &plain, &field, &problem);
        if (at == NULL) return mt_fail(out->ctx, MT_ERR_USAGE, "a template is wrong: %s", problem);
        status = mt_byte_list_append(out, plain.text, plain.bytes);
        if (status == MT_OK && field.count > 0) status = append_filtered(&field, row, names, out);
    }
    return status;
}
