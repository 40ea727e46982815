/* Normalizers: reading and applying. */
#include "formats/tokenizer/normalize.h"

#include <utf8proc.h>

#include "formats/text/printable.h"
#include "formats/text/utf8.h"
#include "formats/tokenizer/unicode.h"

#define MAX_NESTING 8

// ------------------------------------------------------------------ reading

enum mt_status mt_pattern_read(const struct mt_json_node *object, struct mt_regex **regex)
{
    struct mt_json_node pattern;
    const char *text = NULL;
    *regex = NULL;
    enum mt_status status = mt_json_get_object(object, "pattern", &pattern);
    if (status != MT_OK) return status;
    bool literal = mt_json_has(&pattern, "String");
    status = mt_json_get_string(&pattern, literal ? "String" : "Regex", &text);
    if (status != MT_OK) return status;
    status = mt_regex_compile(object->ctx, text, literal, regex);
    if (status != MT_OK) return mt_fail_within(object->ctx, status, "%s", object->file);
    return MT_OK;
}

enum mt_status mt_text_read(const struct mt_json_node *object, const char *key, struct mt_byte_list *text)
{
    const char *value = NULL;
    enum mt_status status = mt_json_get_string(object, key, &value);
    return status == MT_OK ? mt_byte_list_append_text(text, value) : status;
}

static enum mt_status walk(const struct mt_json_node *node, const char *list, int depth, mt_component_fn take,
                           void *self)
{
    const char *type = NULL;
    struct mt_json_node parts;
    enum mt_status status = mt_json_expect_object(node);
    if (status == MT_OK) status = mt_json_get_string(node, "type", &type);
    if (status != MT_OK) return status;
    if (strcmp(type, "Sequence") != 0) return take(node, type, self);
    if (depth == MAX_NESTING) return mt_json_fail(node, "nests too deeply");
    status = mt_json_get_array(node, list, &parts);
    for (size_t i = 0; status == MT_OK && i < mt_json_count(&parts); i++) {
        struct mt_json_node element = mt_json_element(&parts, i);
        status = walk(&element, list, depth + 1, take, self);
    }
    return status;
}

enum mt_status mt_component_walk(const struct mt_json_node *node, const char *list, mt_component_fn take,
                                 void *self)
{
    bool absent = node->value == NULL || mt_json_kind(node) == MT_JSON_NULL;
    return absent ? MT_OK : walk(node, list, 0, take, self);
}

enum mt_status mt_component_find(const struct mt_json_node *node, const char *part, const char *type,
                                 const void *rows, size_t row_bytes, size_t count, size_t steps,
                                 size_t *found)
{
    if (steps == MT_MAX_STEPS) return mt_json_fail(node, "has more than %d steps", MT_MAX_STEPS);
    for (*found = 0; *found < count; (*found)++) {
        if (strcmp(type, *(const char *const *)((const char *)rows + *found * row_bytes)) == 0) return MT_OK;
    }
    return mt_fail(node->ctx, MT_ERR_UNSUPPORTED, "%s: the %s type '%s' is not supported", node->file, part,
                   mt_printable(type).text);
}

static enum mt_status read_step(const struct mt_json_node *node, const char *type, void *self)
{
    static const struct {
        const char *name;
        enum mt_normalizer_kind kind;
    } kinds[] = {
        {"NFC", MT_NORMALIZER_NFC},
        {"NFD", MT_NORMALIZER_NFD},
        {"NFKC", MT_NORMALIZER_NFKC},
        {"NFKD", MT_NORMALIZER_NFKD},
        {"Prepend", MT_NORMALIZER_PREPEND},
        {"Replace", MT_NORMALIZER_REPLACE},
        {"Strip", MT_NORMALIZER_STRIP},
        {"Lowercase", MT_NORMALIZER_LOWERCASE},
        {"StripAccents", MT_NORMALIZER_STRIP_ACCENTS},
    };
    struct mt_normalizer *normalizer = self;
    size_t kind = 0;
    enum mt_status status = mt_component_find(node, "normalizer", type, kinds, sizeof kinds[0],
                                              sizeof kinds / sizeof kinds[0], normalizer->count, &kind);
    if (status != MT_OK) return status;
    struct mt_normalizer_step *step = &normalizer->steps[normalizer->count++];
    *step = (struct mt_normalizer_step){.kind = kinds[kind].kind, .text.ctx = node->ctx};
    if (step->kind == MT_NORMALIZER_PREPEND) return mt_text_read(node, "prepend", &step->text);
    if (step->kind == MT_NORMALIZER_STRIP) {
        status = mt_json_get_bool(node, "strip_left", &step->left);
        return status == MT_OK ? mt_json_get_bool(node, "strip_right", &step->right) : status;
    }
    if (step->kind != MT_NORMALIZER_REPLACE) return MT_OK;
    status = mt_pattern_read(node, &step->regex);
    return status == MT_OK ? mt_text_read(node, "content", &step->text) : status;
}

enum mt_status mt_normalizer_read(const struct mt_json_node *node, struct mt_normalizer *normalizer)
{
    *normalizer = (struct mt_normalizer){.ctx = node->ctx};
    return mt_component_walk(node, "normalizers", read_step, normalizer);
}

void mt_normalizer_free(struct mt_normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->count; i++) {
        mt_byte_list_free(&normalizer->steps[i].text);
        mt_regex_free(normalizer->steps[i].regex);
    }
    normalizer->count = 0;
}

void mt_normalizer_scratch_free(struct mt_normalizer_scratch *scratch)
{
    mt_byte_list_free(&scratch->text);
    mt_byte_list_free(&scratch->other);
    mt_id_list_free(&scratch->points);
}

// ------------------------------------------------------------------ applying

/* Brings a stretch of text into a normal form. */
static enum mt_status append_normal(struct mt_normalizer_scratch *scratch, const uint8_t *text, size_t bytes,
                                    utf8proc_option_t options, struct mt_byte_list *out)
{
    struct mt_id_list *points = &scratch->points;
    points->count = 0;
    // One character never becomes more than 18; utf8proc says how many it needs in all.
    for (;;) {
        utf8proc_ssize_t needed = utf8proc_decompose(text, (utf8proc_ssize_t)bytes, points->data,
                                                     (utf8proc_ssize_t)points->capacity, options);
        if (needed < 0) return mt_fail(out->ctx, MT_ERR_INTERNAL, "utf8proc: %s", utf8proc_errmsg(needed));
        // utf8proc writes a terminator behind the text when it encodes in place.
        if ((size_t)needed < points->capacity) {
            utf8proc_ssize_t length = utf8proc_normalize_utf32(points->data, needed, options);
            if (length < 0)
                return mt_fail(out->ctx, MT_ERR_INTERNAL, "utf8proc: %s", utf8proc_errmsg(length));
            points->count = (size_t)length;
            break;
        }
        enum mt_status status = mt_id_list_reserve(points, (size_t)needed + 1);
        if (status != MT_OK) return status;
    }
    for (size_t i = 0; i < points->count; i++) {
        uint8_t character[4] = {0};
        enum mt_status status =
            mt_byte_list_append(out, character, mt_utf8_encode((uint32_t)points->data[i], character));
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

/*
 * Normal forms touch little of most texts: everything below `inert` stays as it is and never joins with what
 * stands before it, so only stretches of an inert character and the others behind it are looked at.
 */
static enum mt_status apply_normal_form(struct mt_normalizer_scratch *scratch, const struct mt_byte_list *in,
                                        enum mt_normalizer_kind kind, struct mt_byte_list *out)
{
    bool compose = kind == MT_NORMALIZER_NFC || kind == MT_NORMALIZER_NFKC;
    bool compatible = kind == MT_NORMALIZER_NFKC || kind == MT_NORMALIZER_NFKD;
    unsigned options = UTF8PROC_STABLE | (unsigned)(compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
    if (compatible) options |= UTF8PROC_COMPAT;
    uint32_t inert = kind == MT_NORMALIZER_NFC ? 0x300 : 0x80;
    size_t copied = 0; // up to here the text is in `out`
    size_t start = 0;  // of the character before `at`
    size_t at = 0;
    while (at < in->count) {
        size_t length = 0;
        uint32_t character = mt_utf8_decode(in->data + at, &length);
        if (character < inert || mt_unicode_is_normal_unknown(character)) {
            start = character < inert ? at : at + length;
            at += length;
            continue;
        }
        size_t end = at;
        while (end < in->count) {
            character = mt_utf8_decode(in->data + end, &length);
            if (character < inert || mt_unicode_is_normal_unknown(character)) break;
            end += length;
        }
        if (start < copied) start = copied;
        enum mt_status status = mt_byte_list_append(out, in->data + copied, start - copied);
        if (status == MT_OK) {
            status = append_normal(scratch, in->data + start, end - start, (utf8proc_option_t)options, out);
        }
        if (status != MT_OK) return status;
        at = copied = start = end;
    }
    return mt_byte_list_append(out, in->data + copied, in->count - copied);
}

static enum mt_status apply_replace(const struct mt_normalizer_step *step, struct mt_regex_matcher *matcher,
                                    const struct mt_byte_list *in, struct mt_byte_list *out, bool *at_origin)
{
    struct mt_regex_walk walk = {0};
    size_t copied = 0;
    bool found = in->count != 0;
    while (found) {
        enum mt_status status = mt_regex_next(matcher, step->regex, in->data, in->count, &walk, &found);
        if (status != MT_OK) return status;
        if (!found) break;
        // The replacement counts as coming from the last character replaced.
        if (walk.start == 0 && walk.end > mt_utf8_length(in->data[0])) *at_origin = false;
        if (walk.start == 0 && walk.end > 0 && step->text.count == 0) *at_origin = false;
        status = mt_byte_list_append(out, in->data + copied, walk.start - copied);
        if (status == MT_OK) status = mt_byte_list_append(out, step->text.data, step->text.count);
        if (status != MT_OK) return status;
        copied = walk.end;
    }
    return mt_byte_list_append(out, in->data + copied, in->count - copied);
}

static enum mt_status apply_strip(const struct mt_normalizer_step *step, const struct mt_byte_list *in,
                                  struct mt_byte_list *out, bool *at_origin)
{
    size_t start = 0;
    size_t end = in->count;
    size_t length = 0;
    while (step->left && start < end && mt_unicode_is_space(mt_utf8_decode(in->data + start, &length))) {
        start += length;
        *at_origin = false;
    }
    while (step->right && start < end) {
        size_t last = mt_utf8_previous(in->data, end);
        if (!mt_unicode_is_space(mt_utf8_decode(in->data + last, &length))) break;
        end = last;
    }
    return mt_byte_list_append(out, in->data + start, end - start);
}

static enum mt_status apply_lowercase(const struct mt_byte_list *in, struct mt_byte_list *out)
{
    size_t length = 0;
    for (size_t at = 0; at < in->count; at += length) {
        uint32_t lower[2] = {0};
        uint8_t character[4] = {0};
        size_t count = mt_unicode_lowercase(mt_utf8_decode(in->data + at, &length), lower);
        for (size_t i = 0; i < count; i++) {
            enum mt_status status = mt_byte_list_append(out, character, mt_utf8_encode(lower[i], character));
            if (status != MT_OK) return status;
        }
    }
    return MT_OK;
}

static enum mt_status apply_strip_accents(const struct mt_byte_list *in, struct mt_byte_list *out,
                                          bool *at_origin)
{
    size_t length = 0;
    for (size_t at = 0; at < in->count; at += length) {
        if (mt_unicode_is_combining(mt_utf8_decode(in->data + at, &length))) {
            if (out->count == 0) *at_origin = false;
            continue;
        }
        enum mt_status status = mt_byte_list_append(out, in->data + at, length);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

static enum mt_status apply_step(const struct mt_normalizer_step *step, struct mt_normalizer_scratch *scratch,
                                 const struct mt_byte_list *in, struct mt_byte_list *out, bool *at_origin)
{
    switch (step->kind) {
    case MT_NORMALIZER_PREPEND: {
        size_t bytes = in->count == 0 ? 0 : step->text.count;
        enum mt_status status = mt_byte_list_append(out, step->text.data, bytes);
        return status == MT_OK ? mt_byte_list_append(out, in->data, in->count) : status;
    }
    case MT_NORMALIZER_REPLACE: return apply_replace(step, scratch->matcher, in, out, at_origin);
    case MT_NORMALIZER_STRIP: return apply_strip(step, in, out, at_origin);
    case MT_NORMALIZER_LOWERCASE: return apply_lowercase(in, out);
    case MT_NORMALIZER_STRIP_ACCENTS: return apply_strip_accents(in, out, at_origin);
    default: return apply_normal_form(scratch, in, step->kind, out);
    }
}

enum mt_status mt_normalize(const struct mt_normalizer *normalizer, struct mt_normalizer_scratch *scratch,
                            const uint8_t *text, size_t bytes, bool *at_origin)
{
    scratch->text.count = 0;
    enum mt_status status = mt_byte_list_append(&scratch->text, text, bytes);
    // No step makes anything of an empty text.
    for (size_t i = 0; status == MT_OK && scratch->text.count != 0 && i < normalizer->count; i++) {
        scratch->other.count = 0;
        status = apply_step(&normalizer->steps[i], scratch, &scratch->text, &scratch->other, at_origin);
        struct mt_byte_list result = scratch->other;
        scratch->other = scratch->text;
        scratch->text = result;
    }
    return status;
}
