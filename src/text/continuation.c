/* Encoding a context and its continuation together. */
#include "text/continuation.h"

#include "formats/text/utf8.h"

void mt_continuation_maker_init(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                struct mt_token_scratch *scratch, struct mt_text_beginning beginning,
                                struct mt_continuation_maker *maker)
{
    *maker = (struct mt_continuation_maker){.tokenizer = tokenizer,
                                            .scratch = scratch,
                                            .beginning = beginning,
                                            .text = {.ctx = ctx},
                                            .whole = {.ctx = ctx}};
}

void mt_continuation_maker_free(struct mt_continuation_maker *maker)
{
    mt_byte_list_free(&maker->text);
    mt_id_list_free(&maker->whole);
    *maker = (struct mt_continuation_maker){0};
}

/* What Python's str.isspace says yes to. */
static bool is_space(uint32_t character)
{
    return (character >= 0x09 && character <= 0x0D) || (character >= 0x1C && character <= 0x20) ||
           character == 0x85 || character == 0xA0 || character == 0x1680 ||
           (character >= 0x2000 && character <= 0x200A) || character == 0x2028 || character == 0x2029 ||
           character == 0x202F || character == 0x205F || character == 0x3000;
}

size_t mt_context_bytes(const char *context, size_t bytes)
{
    const uint8_t *text = (const uint8_t *)context;
    size_t end = bytes;
    while (end > 0) {
        size_t start = mt_utf8_previous(text, end);
        // The bytes may be no UTF-8: then they are no white space either.
        if (!mt_utf8_valid(text + start, end - start)) break;
        size_t length = 0;
        if (!is_space(mt_utf8_decode(text + start, &length)) || length != end - start) break;
        end = start;
    }
    return end;
}

enum mt_status mt_continuation_context(struct mt_continuation_maker *maker, const char *context, size_t bytes,
                                       struct mt_id_list *prefix)
{
    size_t kept = mt_context_bytes(context, bytes);
    prefix->count = 0;
    if (kept > 0)
        return mt_plain_text_encode(maker->tokenizer, maker->scratch, &maker->beginning, context, kept,
                                    prefix);
    if (maker->beginning.id >= 0) return mt_id_list_append(prefix, maker->beginning.id);
    return mt_fail(prefix->ctx, MT_ERR_USAGE,
                   "a text without a beginning, and the model has no token that begins texts");
}

enum mt_status mt_continuation_encode(struct mt_continuation_maker *maker, const char *context, size_t bytes,
                                      const char *continuation, size_t continuation_bytes,
                                      const struct mt_id_list *prefix, struct mt_id_list *ids)
{
    bool empty = mt_context_bytes(context, bytes) == 0;
    maker->text.count = 0;
    maker->whole.count = 0;
    enum mt_status status = mt_byte_list_append(&maker->text, context, bytes);
    if (status == MT_OK) status = mt_byte_list_append(&maker->text, continuation, continuation_bytes);
    if (status == MT_OK)
        status = mt_plain_text_encode(maker->tokenizer, maker->scratch, &maker->beginning, maker->text.data,
                                      maker->text.count, &maker->whole);
    if (status != MT_OK) return status;
    const struct mt_id_list *whole = &maker->whole;
    size_t skipped = prefix->count;
    if (empty) skipped = whole->count > 0 && whole->data[0] == maker->beginning.id ? 1 : 0;
    if (whole->count <= skipped)
        return mt_fail(ids->ctx, MT_ERR_USAGE,
                       "a continuation has no tokens of its own: its text melts into the one before");
    for (size_t i = skipped; i < whole->count && status == MT_OK; i++)
        status = mt_id_list_append(ids, whole->data[i]);
    return status;
}
