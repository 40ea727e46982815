/* Pre-tokenizers: reading. */
#include "formats/text/printable.h"
#include "formats/text/utf8.h"
#include "formats/tokenizer/split.h"

#define MAX_NESTING 8

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

static enum mt_status read_step(const struct mt_json_node *node, const char *type,
                                struct mt_splitter *splitter)
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
    if (splitter->count == MT_MAX_STEPS) return mt_json_fail(node, "has more than %d steps", MT_MAX_STEPS);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(type, kinds[i].name) != 0) continue;
        struct mt_split_step *step = &splitter->steps[splitter->count++];
        *step = (struct mt_split_step){.kind = kinds[i].kind};
        return kinds[i].read(node, step);
    }
    return mt_fail(node->ctx, MT_ERR_UNSUPPORTED, "%s: the pre_tokenizer type '%s' is not supported",
                   node->file, mt_printable(type).text);
}

static enum mt_status read_node(const struct mt_json_node *node, int depth, struct mt_splitter *splitter)
{
    const char *type = NULL;
    if (mt_json_kind(node) == MT_JSON_NULL) return MT_OK;
    enum mt_status status = mt_json_expect_object(node);
    if (status == MT_OK) status = mt_json_get_string(node, "type", &type);
    if (status != MT_OK) return status;
    if (strcmp(type, "Sequence") != 0) return read_step(node, type, splitter);
    if (depth == MAX_NESTING) return mt_json_fail(node, "nests too deeply");
    struct mt_json_node list;
    status = mt_json_get_array(node, "pretokenizers", &list);
    for (size_t i = 0; status == MT_OK && i < mt_json_count(&list); i++) {
        struct mt_json_node element = mt_json_element(&list, i);
        status = read_node(&element, depth + 1, splitter);
    }
    return status;
}

enum mt_status mt_splitter_read(const struct mt_json_node *node, struct mt_splitter *splitter)
{
    *splitter = (struct mt_splitter){.ctx = node->ctx};
    return read_node(node, 0, splitter);
}

enum mt_status mt_splitter_add_matches(struct mt_splitter *splitter, const char *pattern)
{
    struct mt_split_step *step = &splitter->steps[splitter->count++];
    *step = (struct mt_split_step){.kind = MT_SPLIT_PATTERN, .behavior = MT_SPLIT_REMOVED, .invert = true};
    return mt_regex_compile(splitter->ctx, pattern, false, &step->regex);
}

enum mt_status mt_splitter_add_byte_level(struct mt_splitter *splitter)
{
    splitter->steps[splitter->count++] = (struct mt_split_step){.kind = MT_SPLIT_BYTE_LEVEL};
    return MT_OK;
}

void mt_splitter_free(struct mt_splitter *splitter)
{
    for (size_t i = 0; i < splitter->count; i++) mt_regex_free(splitter->steps[i].regex);
    splitter->count = 0;
}
