/*
 * Normalizers: what is done to the text before anything else. Read from tokenizer.json as data; a sequence is
 * flattened into a list of steps.
 */
#ifndef MT_FORMATS_TOKENIZER_NORMALIZE_H
#define MT_FORMATS_TOKENIZER_NORMALIZE_H

#include "formats/text/json.h"
#include "formats/text/lists.h"
#include "formats/tokenizer/regex.h"

#define MT_MAX_STEPS 32 // of a normalizer, a pre-tokenizer or a decoder

enum mt_normalizer_kind {
    MT_NORMALIZER_NFC,
    MT_NORMALIZER_NFD,
    MT_NORMALIZER_NFKC,
    MT_NORMALIZER_NFKD,
    MT_NORMALIZER_PREPEND,
    MT_NORMALIZER_REPLACE,
    MT_NORMALIZER_STRIP,
    MT_NORMALIZER_LOWERCASE,
    MT_NORMALIZER_STRIP_ACCENTS,
};

struct mt_normalizer_step {
    enum mt_normalizer_kind kind;
    struct mt_byte_list text; // prepend: what; replace: by what
    struct mt_regex *regex;   // replace
    bool left;                // strip
    bool right;               // strip
};

struct mt_normalizer {
    struct mt_context *ctx; // borrowed
    struct mt_normalizer_step steps[MT_MAX_STEPS];
    size_t count;
};

/* Reads the "normalizer" of a tokenizer.json, which may be null. Free it also after a failure. */
enum mt_status mt_normalizer_read(const struct mt_json_node *node, struct mt_normalizer *normalizer);

void mt_normalizer_free(struct mt_normalizer *normalizer);

/* Working memory of one thread: zeroed, with contexts, to begin. */
struct mt_normalizer_scratch {
    struct mt_regex_matcher *matcher; // borrowed
    struct mt_byte_list text;         // the result
    struct mt_byte_list other;
    struct mt_id_list points;
};

void mt_normalizer_scratch_free(struct mt_normalizer_scratch *scratch);

/*
 * Normalizes valid UTF-8 into scratch->text. *at_origin is cleared when the first character of the result no
 * longer comes from the start of the text (which "prepend_scheme": "first" asks about).
 */
enum mt_status mt_normalize(const struct mt_normalizer *normalizer, struct mt_normalizer_scratch *scratch,
                            const uint8_t *text, size_t bytes, bool *at_origin);

/*
 * Reads a "pattern": {"String": ...} or {"Regex": ...}. The caller frees.
 */
enum mt_status mt_pattern_read(const struct mt_json_node *object, struct mt_regex **regex);

#endif
