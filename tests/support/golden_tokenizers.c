/* Golden tokenizers: reading them, and comparing all there is to compare. */
#include "support/golden_tokenizers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file.h"
#include "formats/text/utf8.h"
#include "support/cmocka_all.h"

struct answers {
    size_t count;
    uint32_t plain;
    uint32_t rest;
};

struct golden_file golden_read(struct mt_context *ctx, const char *name)
{
    struct golden_file file = {.ctx = ctx};
    const char *folder = getenv("METIER_GOLDEN");
    char path[512];
    (void)snprintf(path, sizeof path, "%s/tokenizers/%s", folder != NULL ? folder : "tests/formats/golden",
                   name);
    if (mt_file_read_all(ctx, path, SIZE_MAX / 2, &file.data, &file.bytes) != MT_OK)
        fail_msg("%s", ctx->message);
    return file;
}

void golden_free(struct golden_file *file)
{
    mt_release(file->ctx, file->data, file->bytes);
    file->data = NULL;
}

struct mt_tokenizer *golden_load(struct mt_context *ctx, const char *name)
{
    char file_name[64];
    struct mt_tokenizer *tokenizer = NULL;
    enum mt_status status = MT_OK;
    bool tiktoken = strcmp(name, "tiktoken") == 0;
    (void)snprintf(file_name, sizeof file_name, tiktoken ? "%s.model" : "%s.json", name);
    struct golden_file model = golden_read(ctx, file_name);
    if (tiktoken) {
        struct golden_file config = golden_read(ctx, "tiktoken.config");
        status = mt_tokenizer_load_tiktoken(ctx, name, model.data, model.bytes, config.data, config.bytes,
                                            &tokenizer);
        golden_free(&config);
    } else {
        status = mt_tokenizer_load_json(ctx, name, model.data, model.bytes, &tokenizer);
    }
    golden_free(&model);
    if (status != MT_OK) fail_msg("%s: %s", name, ctx->message);
    return tokenizer;
}

static uint64_t hash_more(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * UINT64_C(0x100000001B3);
    return hash;
}

static uint32_t fold(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

/* Decodes at once and id by id, demands that both agree, and adds the text to the hash. */
static uint64_t hash_decoded(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                             const struct mt_id_list *ids, unsigned flags, uint64_t hash)
{
    struct mt_byte_list text = {.ctx = ctx};
    struct mt_byte_list streamed = {.ctx = ctx};
    struct mt_token_stream *stream = NULL;
    assert_int_equal(mt_tokenizer_decode(tokenizer, ctx, ids->data, ids->count, flags, &text), MT_OK);
    assert_int_equal(mt_token_stream_create(ctx, tokenizer, flags, &stream), MT_OK);
    for (size_t i = 0; i <= ids->count; i++) {
        size_t before = streamed.count;
        if (i < ids->count) {
            assert_int_equal(mt_token_stream_push(stream, ids->data[i], &streamed), MT_OK);
        } else {
            assert_int_equal(mt_token_stream_end(stream, &streamed), MT_OK);
        }
        assert_true(streamed.count == before ||
                    mt_utf8_valid(streamed.data + before, streamed.count - before));
    }
    assert_int_equal(streamed.count, text.count);
    if (text.count != 0) assert_memory_equal(streamed.data, text.data, text.count);
    hash = hash_more(hash, text.data, text.count);
    mt_token_stream_free(stream);
    mt_byte_list_free(&text);
    mt_byte_list_free(&streamed);
    return hash;
}

static struct answers ask(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                          struct mt_token_scratch *scratch, const uint8_t *text, size_t bytes)
{
    const uint64_t start = UINT64_C(0xCBF29CE484222325);
    struct mt_id_list plain = {.ctx = ctx};
    struct mt_id_list other = {.ctx = ctx};
    if (mt_tokenizer_encode(tokenizer, scratch, text, bytes, MT_ENCODE_PLAIN, &plain) != MT_OK) {
        fail_msg("%s", ctx->message);
    }
    uint64_t rest = start;
    assert_int_equal(mt_tokenizer_encode(tokenizer, scratch, text, bytes, MT_ENCODE_ADD_SPECIAL, &other),
                     MT_OK);
    rest = hash_more(rest, other.data, other.count * sizeof *other.data);
    other.count = 0;
    assert_int_equal(
        mt_tokenizer_encode(tokenizer, scratch, text, bytes, MT_ENCODE_SPECIAL_TEXT_AS_TEXT, &other), MT_OK);
    rest = hash_more(rest, other.data, other.count * sizeof *other.data);
    rest = hash_decoded(ctx, tokenizer, &plain, MT_DECODE_PLAIN, rest);
    rest = hash_decoded(ctx, tokenizer, &plain, MT_DECODE_SKIP_SPECIAL, rest);
    struct answers answers = {
        .count = plain.count,
        .plain = fold(hash_more(start, plain.data, plain.count * sizeof *plain.data)),
        .rest = fold(rest),
    };
    mt_id_list_free(&plain);
    mt_id_list_free(&other);
    return answers;
}

/* The next expected line of a prefix; false at the end. */
static bool next_line(const char **at, const char *prefix, struct answers *expected)
{
    while (**at != '\0') {
        const char *line = *at;
        const char *end = strchr(line, '\n');
        *at = end != NULL ? end + 1 : line + strlen(line);
        size_t length = prefix != NULL ? strlen(prefix) : 0;
        if (prefix != NULL && (strncmp(line, prefix, length) != 0 || line[length] != ' ')) continue;
        char *rest = NULL;
        expected->count = strtoul(line + length, &rest, 10);
        expected->plain = (uint32_t)strtoul(rest, &rest, 16);
        expected->rest = (uint32_t)strtoul(rest, &rest, 16);
        return true;
    }
    return false;
}

int golden_compare(struct mt_context *ctx, const struct mt_tokenizer *tokenizer, const char *name,
                   const char *expected, const char *prefix)
{
    struct golden_file texts = golden_read(ctx, "texts.bin");
    struct mt_token_scratch *scratch = NULL;
    assert_int_equal(mt_token_scratch_create(ctx, tokenizer, &scratch), MT_OK);
    const uint8_t *data = texts.data;
    int failures = 0;
    int number = 0;
    for (size_t at = 0; at < texts.bytes; number++) {
        uint32_t bytes = 0;
        struct answers wanted = {0};
        memcpy(&bytes, data + at, sizeof bytes);
        at += sizeof bytes;
        struct answers got = ask(ctx, tokenizer, scratch, data + at, bytes);
        at += bytes;
        assert_true(next_line(&expected, prefix, &wanted));
        if (got.count == wanted.count && got.plain == wanted.plain && got.rest == wanted.rest) continue;
        failures++;
        print_message("%s, text %d: %zu ids %08x %08x, expected %zu %08x %08x\n", name, number, got.count,
                      got.plain, got.rest, wanted.count, wanted.plain, wanted.rest);
    }
    assert_true(number > 50);
    mt_token_scratch_free(scratch);
    golden_free(&texts);
    return failures;
}
