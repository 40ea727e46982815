/*
 * Pre-tokenizers: how a text is cut into the words that are encoded one by one. Read from tokenizer.json as
 * data; a sequence is flattened into steps, and every step cuts every piece the steps before it left.
 */
#ifndef MT_FORMATS_TOKENIZER_SPLIT_H
#define MT_FORMATS_TOKENIZER_SPLIT_H

#include "formats/tokenizer/normalize.h"

enum mt_split_kind {
    MT_SPLIT_PATTERN,     // Split, Whitespace
    MT_SPLIT_BYTE_LEVEL,  // ByteLevel
    MT_SPLIT_METASPACE,   // Metaspace
    MT_SPLIT_NUMERIC,     // Digits
    MT_SPLIT_SPACE,       // WhitespaceSplit
    MT_SPLIT_PUNCTUATION, // Punctuation
};

enum mt_split_behavior { // what becomes of the matches
    MT_SPLIT_REMOVED,
    MT_SPLIT_ISOLATED,
    MT_SPLIT_MERGED_WITH_PREVIOUS,
    MT_SPLIT_MERGED_WITH_NEXT,
    MT_SPLIT_CONTIGUOUS,
};

enum mt_prepend_scheme { MT_PREPEND_ALWAYS, MT_PREPEND_FIRST, MT_PREPEND_NEVER };

struct mt_split_step {
    enum mt_split_kind kind;
    enum mt_split_behavior behavior;
    bool invert;
    struct mt_regex *regex;         // pattern, byte level; NULL: no cutting
    bool add_prefix_space;          // byte level
    bool split;                     // metaspace
    enum mt_prepend_scheme prepend; // metaspace
    uint8_t replacement[4];         // metaspace
    size_t replacement_bytes;
};

struct mt_splitter {
    struct mt_context *ctx; // borrowed
    struct mt_split_step steps[MT_MAX_STEPS];
    size_t count;
};

/* Reads the "pre_tokenizer" of a tokenizer.json, which may be null or absent. Free it also after a failure.
 */
enum mt_status mt_splitter_read(const struct mt_json_node *node, struct mt_splitter *splitter);

/* Adds a step that keeps only what a pattern matches (tiktoken). */
enum mt_status mt_splitter_add_matches(struct mt_splitter *splitter, const char *pattern);

/* Adds a ByteLevel step that does not cut. */
void mt_splitter_add_byte_level(struct mt_splitter *splitter);

void mt_splitter_free(struct mt_splitter *splitter);

/* Reads the options Metaspace has as a pre-tokenizer and as a decoder. */
enum mt_status mt_metaspace_read(const struct mt_json_node *node, struct mt_split_step *step);

struct mt_split_span {
    size_t start;
    size_t end;
    bool match;
};

/* A stack of spans; zeroed, with a context, to begin. */
struct mt_split_spans {
    struct mt_context *ctx; // borrowed
    struct mt_split_span *data;
    size_t count;
    size_t capacity;
};

void mt_split_spans_free(struct mt_split_spans *list);

/*
 * Cuts text[0, bytes), which is not empty, by one step's pattern and behaviour. The pieces, some of which may
 * be empty, are pushed onto `spans`, with offsets in the text. Metaspace cuts at its replacement; the text it
 * and ByteLevel make is the caller's business.
 */
enum mt_status mt_split(const struct mt_split_step *step, struct mt_regex_matcher *matcher,
                        const uint8_t *text, size_t bytes, struct mt_split_spans *spans);

#endif
