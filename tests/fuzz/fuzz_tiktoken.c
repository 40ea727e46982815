/*
 * Fuzz target: bytes as tiktoken.model and, behind a NUL, tokenizer_config.json. Lines for all 256 bytes are
 * put before the model, as without them nothing loads; the input's ranks go on from there.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
    "Hello, w\xC3\xB6rld!  \xE4\xBD\xA0\xE5\xA5\xBD 123 [EOS]<|reserved_token_260|> \xFF\xC3 aaaa";

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

static enum mt_status add_bytes(struct mt_byte_list *model)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum mt_status status = MT_OK;
    for (unsigned byte = 0; status == MT_OK && byte < 256; byte++) {
        char line[24];
        (void)snprintf(line, sizeof line, "%c%c== %u\n", digits[byte >> 2], digits[(byte & 3u) << 4], byte);
        status = mt_byte_list_append_text(model, line);
    }
    return status;
}

static void use(struct mt_context *ctx, const struct mt_tokenizer *tokenizer)
{
    struct mt_token_scratch *scratch = NULL;
    struct mt_id_list ids = {.ctx = ctx};
    struct mt_byte_list decoded = {.ctx = ctx};
    demand(mt_token_scratch_create(ctx, tokenizer, &scratch) == MT_OK);
    demand(mt_tokenizer_encode(tokenizer, scratch, text, sizeof text - 1, MT_ENCODE_PLAIN, &ids) == MT_OK);
    demand(mt_tokenizer_decode(tokenizer, ctx, ids.data, ids.count, MT_DECODE_PLAIN, &decoded) == MT_OK);
    // The two invalid bytes come back as U+FFFD.
    demand(decoded.count == sizeof text - 1 + 4);
    mt_byte_list_free(&decoded);
    mt_id_list_free(&ids);
    mt_token_scratch_free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_context ctx;
    struct mt_tokenizer *tokenizer = NULL;
    mt_context_init(&ctx, NULL);
    const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
    size_t model_bytes = end != NULL ? (size_t)(end - data) : size;
    struct mt_byte_list model = {.ctx = &ctx};
    bool bare = size > 0 && data[0] == '!'; // without the 256 lines
    demand(bare || add_bytes(&model) == MT_OK);
    demand(mt_byte_list_append(&model, data + bare, model_bytes - (bare ? 1 : 0)) == MT_OK);
    const void *config = end != NULL ? end + 1 : NULL;
    size_t config_bytes = end != NULL ? size - model_bytes - 1 : 0;
    if (mt_tokenizer_load_tiktoken(&ctx, "fuzz", model.data, model.count, config, config_bytes, &tokenizer) ==
        MT_OK) {
        use(&ctx, tokenizer);
    } else {
        demand(ctx.message[0] != '\0');
    }
    mt_tokenizer_free(tokenizer);
    mt_byte_list_free(&model);
    demand(ctx.live_bytes == 0);
    return 0;
}
