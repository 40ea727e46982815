/* Ways to find an answer. */
#include "eval/answers/extract.h"

#include <ctype.h>
#include <string.h>

#include "eval/answers/statement.h"
#include "eval/code/code_block.h"
#include "formats/text/utf8.h"

struct compiled_step {
    struct mt_extract_step step;
    struct mt_pattern *regex; // NULL: not needed
    struct mt_forms forms;    // of statements; none: not needed
};

// ------------------------------------------------------------------ numbers

static bool is_digit(const char *text, size_t bytes, size_t at)
{
    return at < bytes && isdigit((unsigned char)text[at]);
}

/* The end of a number whose first digit (or point) is at `at`. */
static size_t number_end(const char *text, size_t bytes, size_t at)
{
    size_t end = at;
    while (is_digit(text, bytes, end)) end++;
    size_t lead = end - at;
    bool grouped = lead >= 1 && lead <= 3;
    while (grouped && end < bytes && text[end] == ',' && is_digit(text, bytes, end + 1) &&
           is_digit(text, bytes, end + 2) && is_digit(text, bytes, end + 3) &&
           !is_digit(text, bytes, end + 4)) {
        end += 4;
    }
    if (end < bytes && text[end] == '.' && is_digit(text, bytes, end + 1)) {
        end++;
        while (is_digit(text, bytes, end)) end++;
    }
    return end;
}

/* Bytes of a minus sign that ends at `at`, when it is one and no hyphen. */
static size_t minus_before(const char *text, size_t at)
{
    size_t length = 0;
    if (at >= 1 && text[at - 1] == '-') length = 1;
    if (at >= 3 && memcmp(text + at - 3, "\xE2\x88\x92", 3) == 0) length = 3; // U+2212
    if (length == 0) return 0;
    size_t before = at - length;
    // "5-3", "covid-19", "(2)-1": a sign between two things is not the number's own.
    if (before > 0 && (isalnum((unsigned char)text[before - 1]) || strchr(")]}-", text[before - 1]) != NULL))
        return 0;
    return length;
}

static bool last_number(const char *text, size_t bytes, struct mt_text *span)
{
    bool found = false;
    for (size_t at = 0; at < bytes;) {
        bool point = text[at] == '.' && is_digit(text, bytes, at + 1) && (at == 0 || text[at - 1] != '.');
        if (!is_digit(text, bytes, at) && !point) {
            at++;
            continue;
        }
        // Digits inside a name, as in x2 or H2O, are not numbers.
        bool in_name = at > 0 && (isalpha((unsigned char)text[at - 1]) || text[at - 1] == '_');
        size_t end = number_end(text, bytes, at);
        if (end < bytes && text[end] == '/' && is_digit(text, bytes, end + 1)) {
            size_t under = number_end(text, bytes, end + 1);
            bool date = under < bytes && text[under] == '/';
            if (!date) end = under;
        }
        if (!in_name) {
            size_t before = at > 0 && text[at - 1] == '$' ? at - 1 : at;
            size_t minus = minus_before(text, before);
            size_t start = minus > 0 ? before - minus : at;
            *span = (struct mt_text){.text = text + start, .bytes = end - start};
            found = true;
        }
        at = end;
    }
    return found;
}

// ------------------------------------------------------------------ lines

static bool line(struct mt_text text, bool last, struct mt_text *span)
{
    struct mt_text next;
    bool found = false;
    size_t at = 0;
    while ((last || !found) && mt_text_next_line(text, &at, &next)) {
        next = mt_text_trimmed(next);
        if (next.bytes == 0) continue;
        *span = next;
        found = true;
    }
    return found;
}

/* What stands between the last two lines that have a fence, whether they open a block or close one. */
static bool last_block(struct mt_text text, struct mt_text *span)
{
    struct mt_text next;
    size_t behind[2] = {0, 0}; // the last two such lines
    size_t end = 0;            // where the last one begins
    size_t count = 0;
    size_t begin = 0;
    for (size_t at = 0; mt_text_next_line(text, &at, &next); begin = at) {
        if (mt_text_find(next, 0, "```") == next.bytes) continue;
        behind[0] = behind[1];
        behind[1] = at;
        end = begin;
        count++;
    }
    if (count < 2) return false;
    *span = (struct mt_text){.text = text.text + behind[0], .bytes = end - behind[0]};
    return true;
}

// ------------------------------------------------------------------ all ways

struct mt_extractor {
    struct mt_context *ctx;
    struct compiled_step *steps;
    size_t count;
};

static const char *const names[MT_EXTRACT_KINDS] = {
    [MT_EXTRACT_REGEX] = "regex",         [MT_EXTRACT_LAST_NUMBER] = "last_number",
    [MT_EXTRACT_BOXED] = "boxed",         [MT_EXTRACT_LETTER] = "letter",
    [MT_EXTRACT_WORDS] = "words",         [MT_EXTRACT_FIRST_LINE] = "first_line",
    [MT_EXTRACT_LAST_LINE] = "last_line", [MT_EXTRACT_CODE_BLOCK] = "code_block",
    [MT_EXTRACT_WHOLE] = "whole",         [MT_EXTRACT_VERBATIM] = "verbatim",
    [MT_EXTRACT_NUMBER] = "number",       [MT_EXTRACT_STATED] = "stated",
    [MT_EXTRACT_MATH] = "math",           [MT_EXTRACT_LAST_BLOCK] = "last_block",
};

enum mt_extract_kind mt_extract_named(const char *name)
{
    return (enum mt_extract_kind)mt_name_place(names, MT_EXTRACT_KINDS, name);
}

static enum mt_status compile_step(struct mt_context *ctx, struct compiled_step *compiled)
{
    switch (compiled->step.kind) {
    case MT_EXTRACT_REGEX: return mt_pattern_create(ctx, compiled->step.pattern, &compiled->regex);
    case MT_EXTRACT_LETTER: return mt_forms_open(ctx, MT_STATE_LETTER, NULL, &compiled->forms);
    case MT_EXTRACT_WORDS: return mt_forms_open(ctx, MT_STATE_WORD, compiled->step.words, &compiled->forms);
    case MT_EXTRACT_NUMBER:
    case MT_EXTRACT_MATH:
    case MT_EXTRACT_STATED: return mt_forms_open(ctx, MT_STATE_TEXT, NULL, &compiled->forms);
    default: return MT_OK;
    }
}

enum mt_status mt_extractor_create(struct mt_context *ctx, const struct mt_extract_step *steps, size_t count,
                                   struct mt_extractor **extractor)
{
    void *memory = NULL;
    *extractor = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **extractor, &memory);
    if (status != MT_OK) return status;
    struct mt_extractor *made = memory;
    made->ctx = ctx;
    status = mt_allocate_array(ctx, count, sizeof *made->steps, &memory);
    if (status == MT_OK) {
        made->steps = memory;
        made->count = count;
    }
    for (size_t i = 0; i < made->count && status == MT_OK; i++) {
        made->steps[i].step = steps[i];
        status = compile_step(ctx, &made->steps[i]);
    }
    if (status != MT_OK) {
        mt_extractor_free(made);
        return status;
    }
    *extractor = made;
    return MT_OK;
}

void mt_extractor_free(struct mt_extractor *extractor)
{
    if (extractor == NULL) return;
    for (size_t i = 0; i < extractor->count; i++) {
        mt_pattern_free(extractor->steps[i].regex);
        mt_forms_free(&extractor->steps[i].forms);
    }
    mt_release(extractor->ctx, extractor->steps, extractor->count * sizeof *extractor->steps);
    mt_release(extractor->ctx, extractor, sizeof *extractor);
}

static bool apply(const struct compiled_step *compiled, struct mt_text text, const struct mt_clauses *clauses,
                  int choices, struct mt_text *span)
{
    const struct mt_forms *forms = &compiled->forms;
    struct mt_pattern *regex = compiled->regex;
    struct mt_pattern_match match;
    switch (compiled->step.kind) {
    case MT_EXTRACT_REGEX: {
        bool found = compiled->step.first ? mt_pattern_find(regex, text.text, text.bytes, 0, &match)
                                          : mt_pattern_find_last(regex, text.text, text.bytes, &match);
        if (found)
            *span = (struct mt_text){.text = text.text + match.start, .bytes = match.end - match.start};
        return found;
    }
    case MT_EXTRACT_LAST_NUMBER: return last_number(text.text, text.bytes, span);
    case MT_EXTRACT_BOXED: return mt_statement_boxed(text, span);
    case MT_EXTRACT_LETTER: return choices >= 0 && mt_statement_letter(forms, clauses, choices, span);
    case MT_EXTRACT_WORDS: return mt_statement_word(forms, compiled->step.words, clauses, span);
    case MT_EXTRACT_STATED: return mt_statement_text(forms, text, span);
    case MT_EXTRACT_FIRST_LINE: return line(text, false, span);
    case MT_EXTRACT_LAST_LINE: return line(text, true, span);
    case MT_EXTRACT_LAST_BLOCK: return last_block(text, span);
    default: *span = text; return true;
    }
}

/* One way; what it found is appended. `plain` is the same text, as statements are read in. */
static enum mt_status apply_step(const struct compiled_step *compiled, struct mt_text text,
                                 struct mt_text plain, int choices, struct mt_text wanted,
                                 struct mt_byte_list *out)
{
    enum mt_extract_kind kind = compiled->step.kind;
    bool reads = kind == MT_EXTRACT_STATED || kind == MT_EXTRACT_LAST_NUMBER;
    struct mt_text span = {0};
    struct mt_clauses clauses = {.text = {.ctx = out->ctx}, .denials = {.ctx = out->ctx}};
    enum mt_status status = MT_OK;
    bool found = false;
    if (kind == MT_EXTRACT_NUMBER) {
        status = mt_statement_number(&compiled->forms, plain, out);
    } else if (kind == MT_EXTRACT_MATH) {
        status = mt_statement_math(&compiled->forms, plain, out);
    } else if (kind == MT_EXTRACT_CODE_BLOCK) {
        status = mt_code_find(text, wanted, out, &found);
    } else {
        if (kind == MT_EXTRACT_LETTER || kind == MT_EXTRACT_WORDS)
            status = mt_clauses_read(&compiled->forms, plain, &clauses);
        found = status == MT_OK && apply(compiled, reads ? plain : text, &clauses, choices, &span);
        if (!found) span.bytes = 0;
        if (kind != MT_EXTRACT_VERBATIM && kind != MT_EXTRACT_LAST_BLOCK) span = mt_text_trimmed(span);
    }
    if (status == MT_OK && compiled->regex != NULL) status = mt_pattern_status(compiled->regex);
    if (status == MT_OK) status = mt_forms_status(&compiled->forms);
    if (status == MT_OK && span.bytes > 0) status = mt_byte_list_append(out, span.text, span.bytes);
    mt_clauses_free(&clauses);
    return status;
}

enum mt_status mt_extract(const struct mt_extractor *extractor, const char *text, size_t bytes, int choices,
                          struct mt_byte_list *out, bool *found)
{
    return mt_extract_wanted(extractor, text, bytes, choices, mt_text_of(""), out, found);
}

enum mt_status mt_extract_wanted(const struct mt_extractor *extractor, const char *text, size_t bytes,
                                 int choices, struct mt_text wanted, struct mt_byte_list *out, bool *found)
{
    struct mt_byte_list valid = {.ctx = extractor->ctx};
    struct mt_byte_list plain = {.ctx = extractor->ctx};
    out->count = 0;
    enum mt_status status = mt_utf8_append_repaired(&valid, (const uint8_t *)text, bytes);
    if (status == MT_OK) status = mt_statement_plain(mt_text_in(&valid), &plain);
    for (size_t i = 0; status == MT_OK && i < extractor->count && out->count == 0; i++)
        status =
            apply_step(&extractor->steps[i], mt_text_in(&valid), mt_text_in(&plain), choices, wanted, out);
    if (status != MT_OK) out->count = 0;
    *found = out->count > 0;
    mt_byte_list_free(&plain);
    mt_byte_list_free(&valid);
    return status;
}
