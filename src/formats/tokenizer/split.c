/* Pre-tokenizers: reading them, and cutting a text by one step. */
#include "formats/tokenizer/split.h"

#include "formats/text/printable.h"
#include "formats/text/utf8.h"
#include "formats/tokenizer/unicode.h"

// ------------------------------------------------------------------ reading

// ByteLevel's own pattern, GPT-2's.
static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

// Whitespace: \w+|[^\w\s]+ with Rust's notion of a word character.
static const char words_pattern[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]+|"
                                    "[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}\\s]+";

static enum mt_status read_behavior(const struct mt_json_node *node, struct mt_split_step *step,
                                    bool required)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    const char *name = "Isolated";
    enum mt_status status = required ? mt_json_get_string(node, "behavior", &name)
                                     : mt_json_optional_string(node, "behavior", &name);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            step->behavior = (enum mt_split_behavior)i;
            return MT_OK;
        }
    }
    return mt_json_fail(node, "has the unknown behavior '%s'", mt_printable(name).text);
}

enum mt_status mt_metaspace_read(const struct mt_json_node *node, struct mt_split_step *step)
{
    static const char *const schemes[] = {"always", "first", "never"};
    const char *replacement = NULL;
    const char *scheme = "always";
    bool add_prefix_space = true;
    step->split = true;
    step->behavior = MT_SPLIT_MERGED_WITH_NEXT;
    enum mt_status status = mt_json_get_string(node, "replacement", &replacement);
    if (status == MT_OK) status = mt_json_optional_string(node, "prepend_scheme", &scheme);
    if (status == MT_OK) status = mt_json_optional_bool(node, "add_prefix_space", &add_prefix_space);
    if (status == MT_OK) status = mt_json_optional_bool(node, "split", &step->split);
    if (status != MT_OK) return status;
    size_t length = strlen(replacement);
    if (length == 0 || length != mt_utf8_length((uint8_t)replacement[0])) {
        return mt_json_fail(node, "has the replacement '%s', expected one character",
                            mt_printable(replacement).text);
    }
    memcpy(step->replacement, replacement, length);
    step->replacement_bytes = length;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strcmp(scheme, schemes[i]) != 0) continue;
        step->prepend = (enum mt_prepend_scheme)i;
        if (!add_prefix_space && step->prepend != MT_PREPEND_NEVER) {
            return mt_json_fail(node, "says add_prefix_space false but prepend_scheme '%s'", scheme);
        }
        return MT_OK;
    }
    return mt_json_fail(node, "has the unknown prepend_scheme '%s'", mt_printable(scheme).text);
}

static enum mt_status read_byte_level(const struct mt_json_node *node, struct mt_split_step *step)
{
    bool use_regex = true;
    step->behavior = MT_SPLIT_ISOLATED;
    enum mt_status status = mt_json_get_bool(node, "add_prefix_space", &step->add_prefix_space);
    if (status == MT_OK) status = mt_json_optional_bool(node, "use_regex", &use_regex);
    if (status != MT_OK || !use_regex) return status;
    return mt_regex_compile(node->ctx, byte_level_pattern, false, &step->regex);
}

static enum mt_status read_digits(const struct mt_json_node *node, struct mt_split_step *step)
{
    bool individual = false;
    enum mt_status status = mt_json_get_bool(node, "individual_digits", &individual);
    step->behavior = individual ? MT_SPLIT_ISOLATED : MT_SPLIT_CONTIGUOUS;
    return status;
}

static enum mt_status read_pattern(const struct mt_json_node *node, struct mt_split_step *step)
{
    enum mt_status status = mt_pattern_read(node, &step->regex);
    if (status == MT_OK) status = read_behavior(node, step, true);
    if (status == MT_OK) status = mt_json_get_bool(node, "invert", &step->invert);
    return status;
}

static enum mt_status read_words(const struct mt_json_node *node, struct mt_split_step *step)
{
    step->invert = true;
    step->behavior = MT_SPLIT_REMOVED;
    return mt_regex_compile(node->ctx, words_pattern, false, &step->regex);
}

static enum mt_status read_spaces(const struct mt_json_node *node, struct mt_split_step *step)
{
    (void)node;
    step->behavior = MT_SPLIT_REMOVED;
    return MT_OK;
}

static enum mt_status read_punctuation(const struct mt_json_node *node, struct mt_split_step *step)
{
    return read_behavior(node, step, false);
}

static enum mt_status read_step(const struct mt_json_node *node, const char *type, void *self)
{
    static const struct {
        const char *name;
        enum mt_split_kind kind;
        enum mt_status (*read)(const struct mt_json_node *node, struct mt_split_step *step);
    } kinds[] = {
        {"Split", MT_SPLIT_PATTERN, read_pattern},
        {"ByteLevel", MT_SPLIT_BYTE_LEVEL, read_byte_level},
        {"Metaspace", MT_SPLIT_METASPACE, mt_metaspace_read},
        {"Digits", MT_SPLIT_NUMERIC, read_digits},
        {"Whitespace", MT_SPLIT_PATTERN, read_words},
        {"WhitespaceSplit", MT_SPLIT_SPACE, read_spaces},
        {"Punctuation", MT_SPLIT_PUNCTUATION, read_punctuation},
    };
    struct mt_splitter *splitter = self;
    size_t kind = 0;
    enum mt_status status = mt_component_find(node, "pre_tokenizer", type, kinds, sizeof kinds[0],
                                              sizeof kinds / sizeof kinds[0], splitter->count, &kind);
    if (status != MT_OK) return status;
    struct mt_split_step *step = &splitter->steps[splitter->count++];
    *step = (struct mt_split_step){.kind = kinds[kind].kind};
    return kinds[kind].read(node, step);
}

enum mt_status mt_splitter_read(const struct mt_json_node *node, struct mt_splitter *splitter)
{
    *splitter = (struct mt_splitter){.ctx = node->ctx};
    return mt_component_walk(node, "pretokenizers", read_step, splitter);
}

enum mt_status mt_splitter_add_matches(struct mt_splitter *splitter, const char *pattern)
{
    struct mt_split_step *step = &splitter->steps[splitter->count++];
    *step = (struct mt_split_step){.kind = MT_SPLIT_PATTERN, .behavior = MT_SPLIT_REMOVED, .invert = true};
    return mt_regex_compile(splitter->ctx, pattern, false, &step->regex);
}

void mt_splitter_add_byte_level(struct mt_splitter *splitter)
{
    splitter->steps[splitter->count++] = (struct mt_split_step){.kind = MT_SPLIT_BYTE_LEVEL};
}

void mt_splitter_free(struct mt_splitter *splitter)
{
    for (size_t i = 0; i < splitter->count; i++) mt_regex_free(splitter->steps[i].regex);
    splitter->count = 0;
}

// ------------------------------------------------------------------ cutting

void mt_split_spans_free(struct mt_split_spans *list)
{
    mt_release(list->ctx, list->data, list->capacity * sizeof *list->data);
    *list = (struct mt_split_spans){.ctx = list->ctx};
}

static enum mt_status push_span(struct mt_split_spans *list, size_t start, size_t end, bool match)
{
    if (list->count == list->capacity) {
        enum mt_status status = MT_OK;
        list->data = mt_list_reserve(list->ctx, list->data, &list->capacity, sizeof *list->data,
                                     list->count + 1, &status);
        if (status != MT_OK) return status;
    }
    list->data[list->count++] = (struct mt_split_span){.start = start, .end = end, .match = match};
    return MT_OK;
}

/* The text as matches and what lies between them. */
static enum mt_status pattern_spans(const struct mt_regex *regex, struct mt_regex_matcher *matcher,
                                    const uint8_t *text, size_t bytes, bool invert,
                                    struct mt_split_spans *spans)
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
                                      struct mt_split_spans *spans)
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
static size_t join_forward(struct mt_split_span *spans, size_t count, bool contiguous)
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

static size_t join_backward(struct mt_split_span *spans, size_t count)
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

static size_t drop_matches(struct mt_split_span *spans, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!spans[i].match) spans[kept++] = spans[i];
    }
    return kept;
}

enum mt_status mt_split(const struct mt_split_step *step, struct mt_regex_matcher *matcher,
                        const uint8_t *text, size_t bytes, struct mt_split_spans *spans)
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
    struct mt_split_span *made = spans->data + first;
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
