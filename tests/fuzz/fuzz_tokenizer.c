/* Fuzz target: bytes as tokenizer.json; what loads encodes and decodes a fixed text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/text/utf8.h"
#include "formats/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
    "Hello, w\xC3\xB6rld!  <s>ab</s> \xE4\xBD\xA0\xE5\xA5\xBD 123 e\xCC\x81\r\n\t\xF0\x9F\x91\xA9"
    "\xE2\x80\x8D \xFF\xC3 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa <|user|>  x It's";

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

/* Whole and streamed decoding agree, and give valid UTF-8. */
static void decode(struct mt_context *ctx, const struct mt_tokenizer *tokenizer, const struct mt_id_list *ids,
                   unsigned flags)
{
    struct mt_byte_list whole = {.ctx = ctx};
    struct mt_byte_list parts = {.ctx = ctx};
    struct mt_token_stream *stream = NULL;
    enum mt_status status = mt_tokenizer_decode(tokenizer, ctx, ids->data, ids->count, flags, &whole);
    demand(mt_token_stream_create(ctx, tokenizer, flags, &stream) == MT_OK);
    enum mt_status streamed = MT_OK;
    for (size_t i = 0; streamed == MT_OK && i <= ids->count; i++) {
        size_t before = parts.count;
        streamed = i < ids->count ? mt_token_stream_push(stream, ids->data[i], &parts)
                                  : mt_token_stream_end(stream, &parts);
        demand(streamed != MT_OK || parts.count == before ||
               mt_utf8_valid(parts.data + before, parts.count - before));
    }
    demand(status == streamed);
    if (status == MT_OK) {
        demand(whole.count == parts.count);
        demand(whole.count == 0 || memcmp(whole.data, parts.data, whole.count) == 0);
    }
    mt_token_stream_free(stream);
    mt_byte_list_free(&whole);
    mt_byte_list_free(&parts);
}

static void use(struct mt_context *ctx, const struct mt_tokenizer *tokenizer)
{
    struct mt_token_scratch *scratch = NULL;
    struct mt_id_list ids = {.ctx = ctx};
    demand(mt_token_scratch_create(ctx, tokenizer, &scratch) == MT_OK);
    for (unsigned flags = 0; flags < 4; flags++) {
        size_t before = ids.count;
        enum mt_status status = mt_tokenizer_encode(tokenizer, scratch, text, sizeof text - 1, flags, &ids);
        demand(status == MT_OK || (ids.count == before && ctx->message[0] != '\0'));
    }
    for (size_t i = 0; i < ids.count; i++) {
        demand(ids.data[i] >= 0 && (size_t)ids.data[i] < mt_tokenizer_vocabulary_size(tokenizer));
    }
    decode(ctx, tokenizer, &ids, MT_DECODE_SKIP_UNKNOWN);
    decode(ctx, tokenizer, &ids, MT_DECODE_SKIP_SPECIAL);
    mt_id_list_free(&ids);
    mt_token_scratch_free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_context ctx;
    struct mt_tokenizer *tokenizer = NULL;
    mt_context_init(&ctx, NULL);
    if (mt_tokenizer_load_json(&ctx, "fuzz", data, size, &tokenizer) == MT_OK) {
        use(&ctx, tokenizer);
    } else {
        demand(ctx.message[0] != '\0');
    }
    mt_tokenizer_free(tokenizer);
    demand(ctx.live_bytes == 0);
    return 0;
}
