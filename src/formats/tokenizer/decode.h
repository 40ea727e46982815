/*
 * Decoders: from tokens back to text. A decoder is a chain of stages; each takes the tokens one by one and
 * hands on what it can already say for certain, so that streaming and decoding at once are the same thing and
 * give the same text. Nothing leaves the chain that is not whole UTF-8 characters.
 */
#ifndef MT_FORMATS_TOKENIZER_DECODE_H
#define MT_FORMATS_TOKENIZER_DECODE_H

#include "formats/tokenizer/split.h"

enum mt_decoder_kind {
    MT_DECODER_BYTE_LEVEL,    // the byte-level alphabet back to bytes
    MT_DECODER_RAW_BYTES,     // the tokens are bytes (tiktoken)
    MT_DECODER_REPLACE,       // in each token
    MT_DECODER_BYTE_FALLBACK, // runs of "<0xNN>" to text
    MT_DECODER_FUSE,          // all tokens to one
    MT_DECODER_STRIP,         // a character at the ends of each token
    MT_DECODER_METASPACE,
    MT_DECODER_JOIN_SPACES, // no decoder: tokens with spaces between
};

struct mt_decoder_step {
    enum mt_decoder_kind kind;
    struct mt_regex *regex;         // replace
    struct mt_byte_list content;    // replace
    struct mt_split_step metaspace; // metaspace: replacement and scheme; strip: the character
    size_t strip_start;
    size_t strip_stop;
};

struct mt_decoder {
    struct mt_context *ctx; // borrowed
    struct mt_decoder_step steps[MT_MAX_STEPS];
    size_t count;
};

/* Reads the "decoder" of a tokenizer.json, which may be null or absent. Free it also after a failure. */
enum mt_status mt_decoder_read(const struct mt_json_node *node, struct mt_decoder *decoder);

/* Adds a step of a kind that needs no more, or that the caller completes. */
struct mt_decoder_step *mt_decoder_add(struct mt_decoder *decoder, enum mt_decoder_kind kind);

void mt_decoder_free(struct mt_decoder *decoder);

/* What a stage remembers between tokens. */
struct mt_decoder_stage {
    struct mt_byte_list held; // bytes it cannot yet hand on
    struct mt_byte_list part; // of a token it must see whole
    size_t tokens;            // that ended so far
    size_t stripped;          // strip: characters taken from the start of this token
    bool inside;              // strip: past the start of this token
};

struct mt_decoder_run {
    const struct mt_decoder *decoder; // borrowed
    struct mt_regex_matcher *matcher; // borrowed
    struct mt_byte_list *out;         // borrowed: where the text goes
    struct mt_decoder_stage stages[MT_MAX_STEPS];
};

/* Prepares a run. Free it with mt_decoder_run_free. */
void mt_decoder_run_init(struct mt_decoder_run *run, const struct mt_decoder *decoder, struct mt_context *ctx,
                         struct mt_regex_matcher *matcher);
void mt_decoder_run_free(struct mt_decoder_run *run);

/* Takes one token; appends to run->out what is certain. */
enum mt_status mt_decoder_run_token(struct mt_decoder_run *run, const uint8_t *text, size_t bytes);

/* Says that no token follows; appends the rest, and is ready for a new text. */
enum mt_status mt_decoder_run_end(struct mt_decoder_run *run);

#endif
