/* Ways to find an answer; those that take more than a few lines are in extract_ways.c. */
#include "eval/answers/extract.h"

#include <string.h>

#include "eval/answers/extract_ways.h"
#include "formats/text/utf8.h"

struct compiled_step {
    struct mt_extract_step step;
    struct mt_pattern *patterns[MT_WAY_PATTERNS]; // NULL from the first unused one on
};

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
};

const char *mt_extract_name(enum mt_extract_kind kind)
{
    return names[kind];
}

enum mt_extract_kind mt_extract_named(const char *name)
{
    int kind = 0;
    while (kind < MT_EXTRACT_KINDS && strcmp(names[kind], name) != 0) kind++;
    return (enum mt_extract_kind)kind;
}

static enum mt_status compile_step(struct mt_context *ctx, struct compiled_step *compiled)
{
    switch (compiled->step.kind) {
    case MT_EXTRACT_REGEX: return mt_pattern_create(ctx, compiled->step.pattern, &compiled->patterns[0]);
    case MT_EXTRACT_LETTER: return mt_way_letter_patterns(ctx, compiled->patterns);
    case MT_EXTRACT_WORDS: return mt_way_word_patterns(ctx, compiled->step.words, compiled->patterns);
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
        for (int k = 0; k < MT_WAY_PATTERNS; k++) mt_pattern_free(extractor->steps[i].patterns[k]);
    }
    mt_release(extractor->ctx, extractor->steps, extractor->count * sizeof *extractor->steps);
    mt_release(extractor->ctx, extractor, sizeof *extractor);
}

static bool apply(const struct compiled_step *compiled, const char *text, size_t bytes, int choices,
                  struct mt_way_span *span)
{
    struct mt_pattern_match match;
    switch (compiled->step.kind) {
    case MT_EXTRACT_REGEX: {
        bool found = compiled->step.first ? mt_pattern_find(compiled->patterns[0], text, bytes, 0, &match)
                                          : mt_pattern_find_last(compiled->patterns[0], text, bytes, &match);
        if (found) *span = (struct mt_way_span){.text = text + match.start, .bytes = match.end - match.start};
        return found;
    }
    case MT_EXTRACT_LAST_NUMBER: return mt_way_last_number(text, bytes, span);
    case MT_EXTRACT_BOXED: return mt_way_boxed(text, bytes, span);
    case MT_EXTRACT_LETTER: return mt_way_letter(compiled->patterns, text, bytes, choices, span);
    case MT_EXTRACT_WORDS: return mt_way_words(compiled->patterns, compiled->step.words, text, bytes, span);
    case MT_EXTRACT_FIRST_LINE: return mt_way_line(text, bytes, false, span);
    case MT_EXTRACT_LAST_LINE: return mt_way_line(text, bytes, true, span);
    case MT_EXTRACT_CODE_BLOCK: return mt_way_code(text, bytes, span);
    default: *span = (struct mt_way_span){.text = text, .bytes = bytes}; return true;
    }
}

enum mt_status mt_extract(const struct mt_extractor *extractor, const char *text, size_t bytes, int choices,
                          struct mt_byte_list *out, bool *found)
{
    struct mt_byte_list valid = {.ctx = extractor->ctx};
    out->count = 0;
    *found = false;
    enum mt_status status = mt_utf8_append_repaired(&valid, (const uint8_t *)text, bytes);
    for (size_t i = 0; status == MT_OK && i < extractor->count && !*found; i++) {
        struct mt_way_span span = {0};
        const char *whole = valid.count > 0 ? (const char *)valid.data : "";
        bool applied = apply(&extractor->steps[i], whole, valid.count, choices, &span);
        for (int k = 0; k < MT_WAY_PATTERNS && extractor->steps[i].patterns[k] != NULL && status == MT_OK;
             k++)
            status = mt_pattern_status(extractor->steps[i].patterns[k]);
        if (!applied || status != MT_OK) continue;
        enum mt_extract_kind kind = extractor->steps[i].step.kind;
        bool indented =
            kind == MT_EXTRACT_CODE_BLOCK || kind == MT_EXTRACT_VERBATIM; // where white space counts
        if (!indented) span = mt_way_trimmed(span);
        *found = span.bytes > 0;
        status = mt_byte_list_append(out, span.text, span.bytes);
    }
    mt_byte_list_free(&valid);
    return status;
}
