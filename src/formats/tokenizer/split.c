/* Pre-tokenizers: cutting a text by one step. */
#include "formats/tokenizer/split.h"

#include "formats/text/utf8.h"
#include "formats/tokenizer/unicode.h"

void mt_span_list_free(struct mt_span_list *list)
{
    mt_release(list->ctx, list->data, list->capacity * sizeof *list->data);
    *list = (struct mt_span_list){.ctx = list->ctx};
}

static enum mt_status push_span(struct mt_span_list *list, size_t start, size_t end, bool match)
{
    if (list->count == list->capacity) {
        void *memory = list->data;
        enum mt_status status =
            mt_list_reserve(list->ctx, &memory, &list->capacity, sizeof *list->data, list->count + 1);
        list->data = memory;
        if (status != MT_OK) return status;
    }
    list->data[list->count++] = (struct mt_span){.start = start, .end = end, .match = match};
    return MT_OK;
}

/* The text as matches and what lies between them. */
static enum mt_status pattern_spans(const struct mt_regex *regex, struct mt_regex_matcher *matcher,
                                    const uint8_t *text, size_t bytes, bool invert,
                                    struct mt_span_list *spans)
{
    struct mt_regex_walk walk = {0};
    size_t done = 0;
    for (;;) {
        bool found = false;
        enum mt_status status = mt_regex_next(matcher, regex, text, bytes, &walk, &found);
        if (status != MT_OK) return status;
        if (!found) break;
        if (walk.start > done) status = push_span(spans, done, walk.start, invert);
        if (status == MT_OK) status = push_span(spans, walk.start, walk.end, !invert);
        if (status != MT_OK) return status;
        done = walk.end;
    }
    return done < bytes ? push_span(spans, done, bytes, invert) : MT_OK;
}

static bool character_matches(const struct mt_split_step *step, const uint8_t *text, size_t *length)
{
    uint32_t character = mt_utf8_decode(text, length);
    switch (step->kind) {
    case MT_SPLIT_NUMERIC: return mt_unicode_is_numeric(character);
    case MT_SPLIT_SPACE: return mt_unicode_is_space(character);
    case MT_SPLIT_PUNCTUATION: return mt_unicode_is_punctuation(character);
    default: return *length == step->replacement_bytes && memcmp(text, step->replacement, *length) == 0;
    }
}

/* The same for single characters of a kind. */
static enum mt_status character_spans(const struct mt_split_step *step, const uint8_t *text, size_t bytes,
                                      struct mt_span_list *spans)
{
    size_t done = 0;
    size_t length = 0;
    for (size_t at = 0; at < bytes; at += length) {
        if (!character_matches(step, text + at, &length)) continue;
        enum mt_status status = MT_OK;
        if (at > done) status = push_span(spans, done, at, false);
        if (status == MT_OK) status = push_span(spans, at, at + length, true);
        if (status != MT_OK) return status;
        done = at + length;
    }
    return done < bytes ? push_span(spans, done, bytes, false) : MT_OK;
}

/* Joins spans with their neighbours, in place, as the behaviour says. */
static size_t join_forward(struct mt_span *spans, size_t count, bool contiguous)
{
    size_t kept = 0;
    bool previous = false;
    for (size_t i = 0; i < count; i++) {
        bool match = spans[i].match;
        bool joins = contiguous ? match == previous : match && !previous;
        if (joins && kept > 0) {
            spans[kept - 1].end = spans[i].end;
        } else {
            spans[kept++] = spans[i];
        }
        previous = match;
    }
    return kept;
}

static size_t join_backward(struct mt_span *spans, size_t count)
{
    size_t kept = count; // spans[kept, count) are the result so far
    bool previous = false;
    for (size_t i = count; i-- > 0;) {
        bool match = spans[i].match;
        if (match && !previous && kept < count) {
            spans[kept].start = spans[i].start;
        } else {
            spans[--kept] = spans[i];
        }
        previous = match;
    }
    memmove(spans, spans + kept, (count - kept) * sizeof *spans);
    return count - kept;
}

static size_t drop_matches(struct mt_span *spans, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!spans[i].match) spans[kept++] = spans[i];
    }
    return kept;
}

enum mt_status mt_split(const struct mt_split_step *step, struct mt_regex_matcher *matcher,
                        const uint8_t *text, size_t bytes, struct mt_span_list *spans)
{
    size_t first = spans->count;
    enum mt_status status = MT_OK;
    if (step->regex != NULL) {
        status = pattern_spans(step->regex, matcher, text, bytes, step->invert, spans);
    } else if (step->kind == MT_SPLIT_BYTE_LEVEL || (step->kind == MT_SPLIT_METASPACE && !step->split)) {
        return push_span(spans, 0, bytes, false);
    } else {
        status = character_spans(step, text, bytes, spans);
    }
    if (status != MT_OK) return status;
    struct mt_span *made = spans->data + first;
    size_t count = spans->count - first;
    switch (step->behavior) {
    case MT_SPLIT_REMOVED: count = drop_matches(made, count); break;
    case MT_SPLIT_MERGED_WITH_PREVIOUS: count = join_forward(made, count, false); break;
    case MT_SPLIT_MERGED_WITH_NEXT: count = join_backward(made, count); break;
    case MT_SPLIT_CONTIGUOUS: count = join_forward(made, count, true); break;
    default: break;
    }
    spans->count = first + count;
    return MT_OK;
}
