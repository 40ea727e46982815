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

/* Reads the "normalizer" of a tokenizer.json, which may be null or absent. Free it also after a failure. */
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

// ------------------------------------------------------------------ parts of a tokenizer.json

/* Takes one component; `type` is its name. */
typedef enum mt_status (*mt_component_fn)(const struct mt_json_node *node, const char *type, void *self);

/*
 * Hands over the components of a part of a tokenizer.json: one, or those of a "Sequence", which has them
 * under `list` and may hold others like it; none where the part is null or absent.
 */
enum mt_status mt_component_walk(const struct mt_json_node *node, const char *list, mt_component_fn take,
                                 void *self);

/* The place of a type among `count` rows that begin with their name. Refuses one that is not there, and a
 * component when there are `steps` already; `part` is what messages call it. */
enum mt_status mt_component_find(const struct mt_json_node *node, const char *part, const char *type,
                                 const void *rows, size_t row_bytes, size_t count, size_t steps,
                                 size_t *found);

/* Reads a "pattern": {"String": ...} or {"Regex": ...}. The caller frees. */
enum mt_status mt_pattern_read(const struct mt_json_node *object, struct mt_regex **regex);

/* Appends a member that is a text. */
enum mt_status mt_text_read(const struct mt_json_node *object, const char *key, struct mt_byte_list *text);

#endif
