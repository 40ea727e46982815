/*
 * Tokenizers of Hugging Face checkpoints: text to ids and back, exactly as the `tokenizers` library (for
 * tokenizer.json) or tiktoken (for tiktoken.model) do it.
 *
 * A tokenizer never changes once loaded and may be shared by threads. What encoding changes lives in a
 * scratch object, one per thread, which also remembers the words it has seen.
 *
 * Text that is not valid UTF-8 is encoded as if every maximal invalid part were U+FFFD, which is what the
 * reference sees after bytes.decode(errors="replace").
 */
#ifndef MT_FORMATS_TOKENIZER_H
#define MT_FORMATS_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/text/lists.h"

struct mt_tokenizer;
struct mt_token_scratch;
struct mt_token_stream;

/*
 * Loads a tokenizer: `path` is a tokenizer.json, a tiktoken.model, or a folder with one of them
 * (tokenizer.json first). Beside a tiktoken.model, tokenizer_config.json names the special tokens. The caller
 * frees.
 */
enum mt_status mt_tokenizer_load(struct mt_context *ctx, const char *path, struct mt_tokenizer **tokenizer);

/*
 * The same from memory; `name` stands in messages. `config` (NULL when absent) is the text of
 * tokenizer_config.json.
 */
enum mt_status mt_tokenizer_load_json(struct mt_context *ctx, const char *name, const void *text,
                                      size_t bytes, struct mt_tokenizer **tokenizer);
enum mt_status mt_tokenizer_load_tiktoken(struct mt_context *ctx, const char *name, const void *text,
                                          size_t bytes, const void *config, size_t config_bytes,
                                          struct mt_tokenizer **tokenizer);

/* NULL is allowed. No scratch or stream made for it may be used afterwards. */
void mt_tokenizer_free(struct mt_tokenizer *tokenizer);

/* What one thread needs to encode; belongs to `ctx`, where its failures are recorded. The caller frees. */
enum mt_status mt_token_scratch_create(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                       struct mt_token_scratch **scratch);

/* NULL is allowed. */
void mt_token_scratch_free(struct mt_token_scratch *scratch);

enum mt_encode_flags {
    MT_ENCODE_PLAIN = 0,
    MT_ENCODE_ADD_SPECIAL = 1,         // what the post-processor adds, such as <s> in front
    MT_ENCODE_SPECIAL_TEXT_AS_TEXT = 2 // "</s>" in the text is four characters, not the token
};

/* Encodes a text and appends its ids. After a failure the ids appended so far are gone again. */
enum mt_status mt_tokenizer_encode(const struct mt_tokenizer *tokenizer, struct mt_token_scratch *scratch,
                                   const void *text, size_t bytes, unsigned flags, struct mt_id_list *ids);

enum mt_decode_flags {
    MT_DECODE_PLAIN = 0,
    MT_DECODE_SKIP_SPECIAL = 1, // special tokens leave no text
    MT_DECODE_SKIP_UNKNOWN = 2  // ids without a token leave no text; else they are refused
};

/* Decodes ids and appends the text, which is valid UTF-8. */
enum mt_status mt_tokenizer_decode(const struct mt_tokenizer *tokenizer, struct mt_context *ctx,
                                   const int32_t *ids, size_t count, unsigned flags,
                                   struct mt_byte_list *text);

/*
 * Decodes one id at a time: each push appends whole characters only, as soon as they are certain, and all
 * that was appended until after the end equals the text mt_tokenizer_decode gives for the same ids. Belongs
 * to `ctx`. The caller frees.
 */
enum mt_status mt_token_stream_create(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                      unsigned flags, struct mt_token_stream **stream);
enum mt_status mt_token_stream_push(struct mt_token_stream *stream, int32_t id, struct mt_byte_list *text);

/* Appends what was held back; the stream is ready for another text. */
enum mt_status mt_token_stream_end(struct mt_token_stream *stream, struct mt_byte_list *text);

/* NULL is allowed. */
void mt_token_stream_free(struct mt_token_stream *stream);

/* Ids are below this; some may have no token. */
size_t mt_tokenizer_vocabulary_size(const struct mt_tokenizer *tokenizer);

/* The token of an id as the file writes it (bytes, for tiktoken), not terminated; NULL when there is none. */
const uint8_t *mt_tokenizer_token(const struct mt_tokenizer *tokenizer, int32_t id, size_t *bytes);

/* The id of a token, or -1. */
int32_t mt_tokenizer_id(const struct mt_tokenizer *tokenizer, const void *token, size_t bytes);

bool mt_tokenizer_is_special(const struct mt_tokenizer *tokenizer, int32_t id);

#endif
