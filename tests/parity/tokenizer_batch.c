/*
 * A tokenizer applied to many texts in one process, for comparison with a reference:
 *     tokenizer_batch encode TOKENIZER IN OUT [--special] [--as-text]
 *     tokenizer_batch decode TOKENIZER IN OUT [--skip-special]
 * Files are records: a 32-bit count (little endian) and as many bytes (texts) or 32-bit numbers (ids).
 * Decoding is done twice, at once and id by id, and must agree; every part the stream gives must be whole
 * characters.
 */
#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "formats/text/utf8.h"
#include "formats/tokenizer/tokenizer.h"

struct batch {
    struct mt_context *ctx;
    const struct mt_tokenizer *tokenizer;
    struct mt_token_scratch *scratch;
    unsigned flags;
    FILE *out;
};

static void write_record(FILE *out, const void *data, size_t count, size_t item_bytes)
{
    uint32_t head = (uint32_t)count;
    (void)fwrite(&head, sizeof head, 1, out);
    if (count != 0) (void)fwrite(data, item_bytes, count, out);
}

static enum mt_status encode_record(const struct batch *b, const uint8_t *text, size_t bytes)
{
    struct mt_id_list ids = {.ctx = b->ctx};
    enum mt_status status = mt_tokenizer_encode(b->tokenizer, b->scratch, text, bytes, b->flags, &ids);
    if (status == MT_OK) write_record(b->out, ids.data, ids.count, sizeof *ids.data);
    mt_id_list_free(&ids);
    return status;
}

static enum mt_status stream_record(const struct batch *b, const int32_t *ids, size_t count,
                                    struct mt_byte_list *text)
{
    struct mt_token_stream *stream = NULL;
    enum mt_status status = mt_token_stream_create(b->ctx, b->tokenizer, b->flags, &stream);
    for (size_t i = 0; status == MT_OK && i <= count; i++) {
        size_t before = text->count;
        status = i < count ? mt_token_stream_push(stream, ids[i], text) : mt_token_stream_end(stream, text);
        bool silent = status != MT_OK || text->count == before;
        if (!silent && !mt_utf8_valid(text->data + before, text->count - before)) {
            status = mt_fail(b->ctx, MT_ERR_INTERNAL, "the stream gave half a character at id %zu", i);
        }
    }
    mt_token_stream_free(stream);
    return status;
}

static enum mt_status decode_record(const struct batch *b, const int32_t *ids, size_t count)
{
    struct mt_byte_list text = {.ctx = b->ctx};
    struct mt_byte_list streamed = {.ctx = b->ctx};
    enum mt_status status = mt_tokenizer_decode(b->tokenizer, b->ctx, ids, count, b->flags, &text);
    if (status == MT_OK) status = stream_record(b, ids, count, &streamed);
    bool same = text.count == streamed.count &&
                (text.count == 0 || memcmp(text.data, streamed.data, text.count) == 0);
    if (status == MT_OK && !same) status = mt_fail(b->ctx, MT_ERR_INTERNAL, "stream and decode differ");
    if (status == MT_OK) write_record(b->out, text.data, text.count, 1);
    mt_byte_list_free(&text);
    mt_byte_list_free(&streamed);
    return status;
}

static enum mt_status run_records(const struct batch *b, bool decode, const uint8_t *data, size_t bytes)
{
    size_t item = decode ? sizeof(int32_t) : 1;
    size_t at = 0;
    while (at < bytes) {
        uint32_t count = 0;
        if (bytes - at < sizeof count) return mt_fail(b->ctx, MT_ERR_FORMAT, "a record is cut off");
        memcpy(&count, data + at, sizeof count);
        at += sizeof count;
        if ((bytes - at) / item < count) return mt_fail(b->ctx, MT_ERR_FORMAT, "a record is cut off");
        enum mt_status status = MT_OK;
        if (decode) {
            void *ids = NULL; // aligned, unlike the file
            status = mt_allocate(b->ctx, count * item, &ids);
            if (status != MT_OK) return status;
            memcpy(ids, data + at, count * item);
            status = decode_record(b, ids, count);
            mt_release(b->ctx, ids, count * item);
        } else {
            status = encode_record(b, data + at, count);
        }
        if (status != MT_OK) return status;
        at += count * item;
    }
    return MT_OK;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        (void)fprintf(stderr, "usage: tokenizer_batch encode|decode TOKENIZER IN OUT [options]\n");
        return 2;
    }
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct batch b = {.ctx = &ctx};
    struct mt_tokenizer *tokenizer = NULL;
    void *data = NULL;
    size_t bytes = 0;
    bool decode = strcmp(argv[1], "decode") == 0;
    for (int i = 5; i < argc; i++) {
        if (strcmp(argv[i], "--special") == 0) b.flags |= MT_ENCODE_ADD_SPECIAL;
        if (strcmp(argv[i], "--as-text") == 0) b.flags |= MT_ENCODE_SPECIAL_TEXT_AS_TEXT;
        if (strcmp(argv[i], "--skip-special") == 0) b.flags |= MT_DECODE_SKIP_SPECIAL;
    }
    enum mt_status status = mt_tokenizer_load(&ctx, argv[2], &tokenizer);
    b.tokenizer = tokenizer;
    if (status == MT_OK) status = mt_token_scratch_create(&ctx, tokenizer, &b.scratch);
    if (status == MT_OK) status = mt_file_read_all(&ctx, argv[3], SIZE_MAX / 2, &data, &bytes);
    b.out = status == MT_OK ? fopen(argv[4], "wb") : NULL;
    if (status == MT_OK && b.out == NULL) status = mt_fail(&ctx, MT_ERR_IO, "cannot write %s", argv[4]);
    if (status == MT_OK) status = run_records(&b, decode, data, bytes);
    if (b.out != NULL && fclose(b.out) != 0) status = MT_ERR_IO;
    mt_release(&ctx, data, bytes);
    mt_token_scratch_free(b.scratch);
    mt_tokenizer_free(tokenizer);
    if (status == MT_OK) return 0;
    (void)fprintf(stderr, "tokenizer_batch: %s\n", ctx.message);
    return 1;
}
