/*
 * LiveBench's joined tables: which column of one table is which of the other, as a dict of Python.
 *
 *     F1 = 2 tp / (2 tp + fp + fn), rounded to two decimals
 *
 * A pair of the answer whose name is mapped rightly is tp; to another name it is fp and fn; with a name the
 * right dict has not, fp. A name of the right dict that the answer leaves out, or maps to nothing, is fn.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "eval/livebench/livebench.h"
#include "eval/livebench/python.h"
#include "eval/livebench/text.h"
#include "formats/text/utf8.h"

#define ARENA_BYTES 4096
#define MOST_PAIRS  4096

struct dict_pair {
    struct mt_text name, value;
    bool none;  // None: as if the pair were not there
    bool other; // a value that is no text: equal to none
};

struct dict {
    struct mt_context *ctx;
    struct mt_arena arena;
    struct dict_pair *pairs;
    size_t count, capacity;
};

static void free_dict(struct dict *dict)
{
    mt_release(dict->ctx, dict->pairs, dict->capacity * sizeof *dict->pairs);
    mt_arena_free(&dict->arena);
}

/* The pair of a name; NULL: none. */
static struct dict_pair *find_pair(const struct dict *dict, struct mt_text name)
{
    for (size_t i = 0; i < dict->count; i++) {
        if (mt_text_same(dict->pairs[i].name, name)) return &dict->pairs[i];
    }
    return NULL;
}

// ------------------------------------------------------------------ reading a dict

struct literal {
    struct dict *dict;
    struct mt_text rest;
    bool broken;
    struct mt_byte_list text;
};

static bool take(struct literal *literal, const char *word)
{
    while (literal->rest.bytes > 0 && isspace((unsigned char)literal->rest.text[0]))
        literal->rest = mt_text_from(literal->rest, 1);
    return mt_text_take(&literal->rest, word);
}

/* The next byte; where there is none the literal is broken. */
static char take_byte(struct literal *literal)
{
    if (literal->rest.bytes == 0) literal->broken = true;
    if (literal->rest.bytes == 0) return '\0';
    char byte = literal->rest.text[0];
    literal->rest = mt_text_from(literal->rest, 1);
    return byte;
}

/* So many hexadecimal digits behind \x, \u or \U. */
static enum mt_status take_code(struct literal *literal, int digits)
{
    uint32_t character = 0;
    uint8_t utf8[4];
    for (int i = 0; i < digits; i++) {
        int digit = (unsigned char)take_byte(literal);
        if (!isxdigit(digit)) literal->broken = true;
        if (literal->broken) return MT_OK;
        character = character * 16 + (uint32_t)(isdigit(digit) ? digit - '0' : tolower(digit) - 'a' + 10);
    }
    if (character > 0x10FFFF || (character >= 0xD800 && character < 0xE000)) literal->broken = true;
    if (literal->broken) return MT_OK;
    return mt_byte_list_append(&literal->text, utf8, mt_utf8_encode(character, utf8));
}

/* Behind a backslash. What means nothing to Python stays as it is. */
static enum mt_status take_escape(struct literal *literal)
{
    static const char letters[] = "\\'\"nrtabfv";
    static const char meanings[] = "\\'\"\n\r\t\a\b\f\v";
    char letter = take_byte(literal);
    if (literal->broken) return MT_OK;
    if (letter == 'x') return take_code(literal, 2);
    if (letter == 'u') return take_code(literal, 4);
    if (letter == 'U') return take_code(literal, 8);
    const char *known = letter != '\0' ? strchr(letters, letter) : NULL;
    if (known != NULL) return mt_byte_list_append(&literal->text, &meanings[known - letters], 1);
    enum mt_status status = mt_byte_list_append(&literal->text, "\\", 1);
    return status == MT_OK ? mt_byte_list_append(&literal->text, &letter, 1) : status;
}

/* A string of Python, in the arena; the literal is broken where there is none. */
static enum mt_status take_string(struct literal *literal, struct mt_text *string)
{
    enum mt_status status = MT_OK;
    const char *copy = NULL;
    (void)take(literal, "");
    char quote = take_byte(literal);
    *string = mt_text_of("");
    if (quote != '\'' && quote != '"') literal->broken = true;
    literal->text.count = 0;
    while (status == MT_OK && !literal->broken) {
        char byte = take_byte(literal);
        if (byte == quote && !literal->broken) break;
        if (byte == '\n' || byte == '\r') literal->broken = true;
        status = byte == '\\' ? take_escape(literal) : mt_byte_list_append(&literal->text, &byte, 1);
    }
    if (status != MT_OK || literal->broken || literal->text.count == 0) return status;
    status = mt_arena_copy_text(&literal->dict->arena, (const char *)literal->text.data, literal->text.count,
                                &copy);
    if (status == MT_OK) *string = (struct mt_text){.text = copy, .bytes = literal->text.count};
    return status;
}

/* A text, None, a truth value or a number; nothing that holds others. */
static enum mt_status take_value(struct literal *literal, struct dict_pair *pair)
{
    pair->none = take(literal, "None") || take(literal, "null");
    if (pair->none) return MT_OK;
    pair->other = take(literal, "True") || take(literal, "False");
    for (bool number = !pair->other; number;) { // digits, signs, a point, an exponent
        size_t left = literal->rest.bytes;
        char next = left > 0 ? literal->rest.text[0] : '\0';
        number = next != '\0' && strchr("+-.0123456789eE", next) != NULL;
        if (number) literal->rest = mt_text_from(literal->rest, 1);
        pair->other = pair->other || number;
    }
    return pair->other ? MT_OK : take_string(literal, &pair->value);
}

/* The later of two pairs with one name counts. */
static enum mt_status keep(struct dict *dict, struct dict_pair pair)
{
    struct dict_pair *known = find_pair(dict, pair.name);
    if (known != NULL) {
        *known = pair;
        return MT_OK;
    }
    enum mt_status status = MT_OK;
    dict->pairs = mt_list_reserve(dict->ctx, dict->pairs, &dict->capacity, sizeof *dict->pairs,
                                  dict->count + 1, &status);
    if (status == MT_OK) dict->pairs[dict->count++] = pair;
    return status;
}

/* Reads a dict of Python, which is all of the text. Where it is none the dict stays empty. */
static enum mt_status read_dict(struct mt_text text, struct dict *dict)
{
    struct literal literal = {.dict = dict, .rest = text, .text = {.ctx = dict->ctx}};
    enum mt_status status = MT_OK;
    size_t parentheses = 0;
    while (take(&literal, "(")) parentheses++;
    bool more = take(&literal, "{");
    literal.broken = !more;
    while (more && status == MT_OK && !literal.broken && !take(&literal, "}")) {
        struct dict_pair pair = {0};
        status = take_string(&literal, &pair.name);
        if (status == MT_OK && !literal.broken && !take(&literal, ":")) literal.broken = true;
        if (status == MT_OK && !literal.broken) status = take_value(&literal, &pair);
        if (status == MT_OK && !literal.broken) status = keep(dict, pair);
        if (dict->count == MOST_PAIRS) literal.broken = true;
        if (status != MT_OK || literal.broken || take(&literal, ",")) continue;
        more = false;
        if (!take(&literal, "}")) literal.broken = true;
    }
    while (parentheses > 0 && take(&literal, ")")) parentheses--;
    if (parentheses > 0) literal.broken = true;
    (void)take(&literal, "");
    if (literal.broken || literal.rest.bytes > 0) dict->count = 0;
    mt_byte_list_free(&literal.text);
    return status;
}

// ------------------------------------------------------------------ the dict in an answer

/* A box holds LaTeX: \text{'name'} is 'name', and braces are written \{ \}. */
static enum mt_status unpack_box(struct mt_text box, struct mt_byte_list *out)
{
    static const char mark[] = "\\text{";
    enum mt_status status = MT_OK;
    const char *end = box.text + box.bytes;
    out->count = 0;
    for (const char *at = box.text; at < end && status == MT_OK; at++) {
        size_t left = (size_t)(end - at);
        if (left > sizeof mark && memcmp(at, mark, sizeof mark - 1) == 0 &&
            (at[sizeof mark - 1] == '\'' || at[sizeof mark - 1] == '"')) {
            const char *name = at + sizeof mark;
            const char *stop = memchr(name, '}', (size_t)(end - name));
            if (stop != NULL && stop > name && (stop[-1] == '\'' || stop[-1] == '"')) {
                status = mt_byte_list_append(out, "'", 1);
                if (status == MT_OK) status = mt_byte_list_append(out, name, (size_t)(stop - 1 - name));
                if (status == MT_OK) status = mt_byte_list_append(out, "'", 1);
                at = stop;
                continue;
            }
        }
        if (*at != '\\') status = mt_byte_list_append(out, at, 1);
    }
    return status;
}

/* What of an answer is the dict where all of it is none: the last fence, the last box, else nothing; `box`
 * holds that of a box. */
static enum mt_status find_dict(struct mt_text whole, struct mt_byte_list *box, struct mt_text *found)
{
    struct mt_python python;
    struct mt_text inner;
    enum mt_status status = MT_OK;
    if (mt_livebench_last_between(whole, "```python", "```", found) ||
        mt_livebench_last_between(whole, "```json", "```", found) ||
        mt_livebench_last_between(whole, "```", "```", found))
        return MT_OK;
    *found = mt_text_of("");
    if (mt_text_find(whole, 0, "\\boxed") == whole.bytes) return MT_OK;
    mt_python_open(&python, box->ctx);
    bool boxed = mt_python_boxed(&python, whole, &inner);
    if (boxed) status = unpack_box(inner, box);
    if (boxed) *found = mt_text_in(box);
    enum mt_status closed = mt_python_close(&python);
    return status == MT_OK ? closed : status;
}

static enum mt_status read_answer(struct mt_text answer, struct dict *dict)
{
    struct mt_byte_list flat = {.ctx = dict->ctx};
    struct mt_byte_list box = {.ctx = dict->ctx};
    struct mt_text text = mt_livebench_solution(answer);
    struct mt_text found;
    enum mt_status status = read_dict(text, dict);
    if (status != MT_OK || dict->count > 0) return status;
    for (size_t i = 0; i < text.bytes && status == MT_OK; i++) {
        if (text.text[i] != '\n') status = mt_byte_list_append(&flat, text.text + i, 1);
    }
    if (status == MT_OK) status = find_dict(mt_text_in(&flat), &box, &found);
    if (status == MT_OK) status = read_dict(found, dict);
    mt_byte_list_free(&flat);
    mt_byte_list_free(&box);
    return status;
}

// ------------------------------------------------------------------ the score

/* True when a pair maps to a name that can be right. */
static bool maps(const struct dict_pair *pair)
{
    return pair != NULL && !pair->none && (pair->other || pair->value.bytes > 0);
}

static double score_of(const struct dict *right, const struct dict *said)
{
    double hits = 0.0;
    double misses = 0.0; // fp + fn
    for (size_t i = 0; i < said->count; i++) {
        const struct dict_pair *pair = &said->pairs[i];
        const struct dict_pair *wanted = find_pair(right, pair->name);
        if (pair->none) continue;
        if (!maps(wanted)) {
            misses += 1.0;
        } else if (!pair->other && !wanted->other && mt_text_same(pair->value, wanted->value)) {
            hits += 1.0;
        } else {
            misses += 2.0;
        }
    }
    for (size_t i = 0; i < right->count; i++) {
        if (!maps(find_pair(said, right->pairs[i].name))) misses += 1.0;
    }
    return hits > 0.0 ? rint(200.0 * hits / (2.0 * hits + misses)) / 100.0 : 0.0;
}

enum mt_status mt_livebench_mapping_score(struct mt_context *ctx, struct mt_text right, struct mt_text answer,
                                          double *score)
{
    struct dict wanted = {.ctx = ctx};
    struct dict said = {.ctx = ctx};
    *score = 0.0;
    mt_arena_init(&wanted.arena, ctx, ARENA_BYTES);
    mt_arena_init(&said.arena, ctx, ARENA_BYTES);
    enum mt_status status = read_dict(right, &wanted);
    if (status == MT_OK && wanted.count == 0)
        status = mt_fail(ctx, MT_ERR_FORMAT, "ground_truth is not a dict of names");
    if (status == MT_OK) status = read_answer(answer, &said);
    if (status == MT_OK && said.count > 0) *score = score_of(&wanted, &said);
    free_dict(&wanted);
    free_dict(&said);
    return status;
}

enum mt_status mt_livebench_mapping(struct mt_context *ctx, const struct mt_row *row, struct mt_text answer,
                                    double *score)
{
    const struct mt_row_field *right = mt_row_field(row, "ground_truth");
    *score = 0.0;
    if (right == NULL || right->kind != MT_FIELD_TEXT) return mt_row_fail(row, "ground_truth must be a text");
    struct mt_text dict = {.text = right->text, .bytes = right->bytes};
    enum mt_status status = mt_livebench_mapping_score(ctx, dict, answer, score);
    if (status != MT_ERR_FORMAT) return status;
    return mt_fail_within(ctx, status, "%s:%llu", row->file, (unsigned long long)row->line);
}
