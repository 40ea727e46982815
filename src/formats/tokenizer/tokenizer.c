/* Tokenizers: their making, loading by path, decoding, and what one can ask them. */
#include "formats/tokenizer/tokenizer.h"

#include <sys/stat.h>

#include "base/files/file.h"
#include "formats/hf/model_folder.h"
#include "formats/tokenizer/private.h"

#define MAX_FILE_BYTES ((size_t)256 * 1024 * 1024)

enum mt_status mt_tokenizer_create(struct mt_context *ctx, struct mt_tokenizer **tokenizer)
{
    void *memory = NULL;
    *tokenizer = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof(struct mt_tokenizer), &memory);
    if (status != MT_OK) return status;
    struct mt_tokenizer *made = memory;
    made->ctx = ctx;
    made->normalizer.ctx = ctx;
    made->splitter.ctx = ctx;
    made->bpe.ctx = ctx;
    made->bpe.unk_token.ctx = ctx;
    made->bpe.continuing_subword_prefix.ctx = ctx;
    made->bpe.end_of_word_suffix.ctx = ctx;
    made->added.ctx = ctx;
    made->decoder.ctx = ctx;
    made->template_ids.ctx = ctx;
    *tokenizer = made;
    return MT_OK;
}

void mt_tokenizer_free(struct mt_tokenizer *tokenizer)
{
    if (tokenizer == NULL) return;
    mt_normalizer_free(&tokenizer->normalizer);
    mt_splitter_free(&tokenizer->splitter);
    mt_bpe_free(&tokenizer->bpe);
    mt_added_tokens_free(&tokenizer->added);
    mt_decoder_free(&tokenizer->decoder);
    mt_id_list_free(&tokenizer->template_ids);
    mt_release(tokenizer->ctx, tokenizer->added_by_id,
               tokenizer->vocabulary_size * sizeof *tokenizer->added_by_id);
    mt_release(tokenizer->ctx, tokenizer, sizeof *tokenizer);
}

enum mt_status mt_tokenizer_finish(struct mt_tokenizer *t)
{
    size_t size = t->bpe.vocabulary.limit;
    for (size_t i = 0; i < t->added.count; i++) {
        if ((size_t)t->added.tokens[i].id >= size) size = (size_t)t->added.tokens[i].id + 1;
    }
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(t->ctx, size, sizeof *t->added_by_id, &memory);
    if (status != MT_OK) return status;
    t->added_by_id = memory;
    t->vocabulary_size = size;
    for (size_t i = 0; i < t->added.count; i++) {
        int32_t *place = &t->added_by_id[t->added.tokens[i].id];
        if (*place != 0) {
            return mt_fail(t->ctx, MT_ERR_FORMAT, "two added tokens have the id %d",
                           (int)t->added.tokens[i].id);
        }
        *place = (int32_t)i + 1;
    }
    for (size_t i = 0; i < t->template_ids.count; i++) {
        if (t->template_ids.data[i] >= (int32_t)size) {
            return mt_fail(t->ctx, MT_ERR_FORMAT, "the post_processor adds the id %d, which no token has",
                           (int)t->template_ids.data[i]);
        }
    }
    size_t steps = t->splitter.count;
    t->byte_level =
        steps > 0 && t->splitter.steps[steps - 1].kind == MT_SPLIT_BYTE_LEVEL && t->bpe.bytes_direct;
    return mt_added_tokens_finish(&t->added);
}

// ------------------------------------------------------------------ loading by path

enum file_kind { FILE_ABSENT, FILE_FOLDER, FILE_REGULAR };

static enum file_kind kind_of(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) return FILE_ABSENT;
    return S_ISDIR(info.st_mode) ? FILE_FOLDER : FILE_REGULAR;
}

/* A tokenizer.json is one object, a tiktoken.model starts with base64, which has no braces. */
static bool looks_like_json(const char *text, size_t bytes)
{
    size_t at = 0;
    if (bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) at = 3;
    while (at < bytes && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n')) at++;
    return at < bytes && (text[at] == '{' || text[at] == '[');
}

/* The tokenizer_config.json beside a file; absent is not a failure. */
static enum mt_status read_config(struct mt_context *ctx, const char *path, void **config, size_t *bytes)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    struct mt_byte_list name = {.ctx = ctx};
    *config = NULL;
    enum mt_status status = mt_byte_list_append(&name, path, length);
    if (status == MT_OK)
        status = mt_byte_list_append(&name, "tokenizer_config.json", sizeof "tokenizer_config.json");
    if (status == MT_OK && kind_of((const char *)name.data) == FILE_REGULAR) {
        status = mt_file_read_all(ctx, (const char *)name.data, MAX_FILE_BYTES, config, bytes);
    }
    mt_byte_list_free(&name);
    return status;
}

static enum mt_status load_file(struct mt_context *ctx, const char *path, struct mt_tokenizer **tokenizer)
{
    void *text = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_file_read_all(ctx, path, MAX_FILE_BYTES, &text, &bytes);
    if (status != MT_OK) return status;
    if (looks_like_json(text, bytes)) {
        status = mt_tokenizer_load_json(ctx, path, text, bytes, tokenizer);
    } else {
        void *config = NULL;
        size_t config_bytes = 0;
        status = read_config(ctx, path, &config, &config_bytes);
        if (status == MT_OK) {
            status = mt_tokenizer_load_tiktoken(ctx, path, text, bytes, config, config_bytes, tokenizer);
        }
        mt_release(ctx, config, config_bytes);
    }
    mt_release(ctx, text, bytes);
    return status;
}

enum mt_status mt_tokenizer_load(struct mt_context *ctx, const char *path, struct mt_tokenizer **tokenizer)
{
    static const char *const names[] = {"tokenizer.json", "tiktoken.model"};
    *tokenizer = NULL;
    enum mt_status found = mt_model_folder_check(ctx, path);
    if (found != MT_OK) return found;
    if (kind_of(path) == FILE_REGULAR) return load_file(ctx, path, tokenizer);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *file = NULL;
        enum mt_status status = mt_path_join(ctx, path, names[i], &file);
        if (status != MT_OK) return status;
        bool there = kind_of(file) != FILE_ABSENT;
        if (there) status = load_file(ctx, file, tokenizer);
        mt_path_release(ctx, file);
        if (there) return status;
    }
    return mt_fail(ctx, MT_ERR_USAGE, "%s: the folder has neither tokenizer.json nor tiktoken.model", path);
}

// ------------------------------------------------------------------ decoding

struct mt_token_stream {
    struct mt_context *ctx;               // borrowed
    const struct mt_tokenizer *tokenizer; // borrowed
    struct mt_regex_matcher *matcher;
    struct mt_decoder_run run;
    unsigned flags;
};

/* The added token of an id, or NULL. */
static const struct mt_added_token *added_token(const struct mt_tokenizer *tokenizer, int32_t id)
{
    if (id < 0 || (size_t)id >= tokenizer->vocabulary_size) return NULL;
    int32_t index = tokenizer->added_by_id[id];
    return index != 0 ? &tokenizer->added.tokens[index - 1] : NULL;
}

enum mt_status mt_token_stream_create(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                      unsigned flags, struct mt_token_stream **stream)
{
    void *memory = NULL;
    *stream = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof(struct mt_token_stream), &memory);
    if (status != MT_OK) return status;
    struct mt_token_stream *made = memory;
    made->ctx = ctx;
    made->tokenizer = tokenizer;
    made->flags = flags;
    status = mt_regex_matcher_create(ctx, &made->matcher);
    mt_decoder_run_init(&made->run, &tokenizer->decoder, ctx, made->matcher);
    if (status != MT_OK) {
        mt_token_stream_free(made);
        return status;
    }
    *stream = made;
    return MT_OK;
}

void mt_token_stream_free(struct mt_token_stream *stream)
{
    if (stream == NULL) return;
    mt_decoder_run_free(&stream->run);
    mt_regex_matcher_free(stream->matcher);
    mt_release(stream->ctx, stream, sizeof *stream);
}

enum mt_status mt_token_stream_push(struct mt_token_stream *stream, int32_t id, struct mt_byte_list *text)
{
    const struct mt_tokenizer *t = stream->tokenizer;
    const struct mt_added_token *added = added_token(t, id);
    stream->run.out = text;
    mt_regex_matcher_begin(stream->matcher, 0);
    if (added != NULL) {
        if ((stream->flags & MT_DECODE_SKIP_SPECIAL) != 0 && added->decodes_as_special) return MT_OK;
        return mt_decoder_run_token(&stream->run, added->found_as.data, added->found_as.count);
    }
    size_t bytes = 0;
    const uint8_t *token = mt_vocabulary_text(&t->bpe.vocabulary, id, &bytes);
    if (token != NULL) return mt_decoder_run_token(&stream->run, token, bytes);
    if ((stream->flags & MT_DECODE_SKIP_UNKNOWN) != 0) return MT_OK;
    return mt_fail(stream->ctx, MT_ERR_USAGE, "no token has the id %d (ids are below %zu)", (int)id,
                   t->vocabulary_size);
}

enum mt_status mt_token_stream_end(struct mt_token_stream *stream, struct mt_byte_list *text)
{
    stream->run.out = text;
    mt_regex_matcher_begin(stream->matcher, 0);
    return mt_decoder_run_end(&stream->run);
}

enum mt_status mt_tokenizer_decode(const struct mt_tokenizer *tokenizer, struct mt_context *ctx,
                                   const int32_t *ids, size_t count, unsigned flags,
                                   struct mt_byte_list *text)
{
    struct mt_token_stream *stream = NULL;
    enum mt_status status = mt_token_stream_create(ctx, tokenizer, flags, &stream);
    for (size_t i = 0; status == MT_OK && i < count; i++) status = mt_token_stream_push(stream, ids[i], text);
    if (status == MT_OK) status = mt_token_stream_end(stream, text);
    mt_token_stream_free(stream);
    return status;
}

// ------------------------------------------------------------------ questions

size_t mt_tokenizer_vocabulary_size(const struct mt_tokenizer *tokenizer)
{
    return tokenizer->vocabulary_size;
}

const uint8_t *mt_tokenizer_token(const struct mt_tokenizer *tokenizer, int32_t id, size_t *bytes)
{
    const struct mt_added_token *added = added_token(tokenizer, id);
    if (added == NULL) return mt_vocabulary_text(&tokenizer->bpe.vocabulary, id, bytes);
    *bytes = added->content.count;
    return added->content.data;
}

int32_t mt_tokenizer_id(const struct mt_tokenizer *tokenizer, const void *token, size_t bytes)
{
    for (size_t i = 0; i < tokenizer->added.count; i++) {
        const struct mt_byte_list *content = &tokenizer->added.tokens[i].content;
        if (content->count == bytes && memcmp(content->data, token, bytes) == 0)
            return tokenizer->added.tokens[i].id;
    }
    return mt_vocabulary_find(&tokenizer->bpe.vocabulary, token, bytes);
}

bool mt_tokenizer_is_special(const struct mt_tokenizer *tokenizer, int32_t id)
{
    const struct mt_added_token *added = added_token(tokenizer, id);
    return added != NULL && added->special;
}
