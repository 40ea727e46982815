/* Plain texts: special tokens, beginnings, and a context with its continuation. */
#include "text/plain_text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "formats/hf/hf_tokenizer_config.h"
#include "formats/text/utf8.h"
#include "text/jinja/library/unicode.h"

// ------------------------------------------------------------------ the model's own tokens

static int32_t id_of(const struct mt_tokenizer *tokenizer, const char *token, int64_t otherwise)
{
    int32_t id = token != NULL ? mt_tokenizer_id(tokenizer, token, strlen(token)) : -1;
    if (id >= 0) return id;
    return otherwise >= 0 && otherwise <= INT32_MAX ? (int32_t)otherwise : -1;
}

/* tokenizer_config.json beside the tokenizer, as a path; false when there is none. */
static bool find_tokenizer_config(const char *tokenizer, char *path, size_t bytes)
{
    int length = snprintf(path, bytes, "%s/tokenizer_config.json", tokenizer);
    if (length > 0 && (size_t)length < bytes && access(path, R_OK) == 0) return true;
    const char *slash = strrchr(tokenizer, '/');
    int folder = slash != NULL ? (int)(slash - tokenizer) : 1;
    length = snprintf(path, bytes, "%.*s/tokenizer_config.json", folder, slash != NULL ? tokenizer : ".");
    return length > 0 && (size_t)length < bytes && access(path, R_OK) == 0;
}

enum mt_status mt_special_ids_find(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                   const char *path, const struct mt_hf_config *config,
                                   struct mt_special_ids *special)
{
    char file[4096];
    struct mt_hf_tokenizer_config said = {0};
    if (find_tokenizer_config(path, file, sizeof file)) {
        enum mt_status status = mt_hf_tokenizer_config_read(ctx, file, NULL, 0, &said);
        if (status != MT_OK) return status;
    }
    special->bos = id_of(tokenizer, said.bos_token, config->bos);
    special->eos = id_of(tokenizer, said.eos_token, config->eos_count > 0 ? config->eos[0] : -1);
    special->pad = id_of(tokenizer, said.pad_token, config->pad);
    special->asks_bos = said.has_add_bos && said.add_bos;
    mt_hf_tokenizer_config_free(&said);
    return MT_OK;
}

// ------------------------------------------------------------------ beginnings

enum mt_bos_rule mt_bos_rule_named(const char *name)
{
    static const char *const names[MT_BOS_RULES] = {"tokenizer", "yes", "no"};
    int rule = 0;
    while (rule < MT_BOS_RULES && strcmp(names[rule], name) != 0) rule++;
    return (enum mt_bos_rule)rule;
}

/* True when the text begins with the token, spelt out. */
static bool spells(const struct mt_tokenizer *tokenizer, int32_t id, const void *text, size_t bytes)
{
    size_t length = 0;
    const uint8_t *token = id >= 0 ? mt_tokenizer_token(tokenizer, id, &length) : NULL;
    return token != NULL && length > 0 && length <= bytes && memcmp(token, text, length) == 0;
}

enum mt_status mt_plain_text_encode(const struct mt_tokenizer *tokenizer, struct mt_token_scratch *scratch,
                                    const struct mt_text_beginning *beginning, const void *text, size_t bytes,
                                    struct mt_id_list *ids)
{
    size_t before = ids->count;
    unsigned flags = MT_ENCODE_PLAIN;
    enum mt_status status = MT_OK;
    if (!spells(tokenizer, beginning->id, text, bytes)) {
        if (beginning->rule == MT_BOS_TOKENIZER) flags = MT_ENCODE_ADD_SPECIAL;
        if (beginning->rule == MT_BOS_YES) status = mt_id_list_append(ids, beginning->id);
    }
    if (status == MT_OK) status = mt_tokenizer_encode(tokenizer, scratch, text, bytes, flags, ids);
    if (status != MT_OK) ids->count = before;
    return status;
}

// ------------------------------------------------------------------ continuations

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

size_t mt_context_bytes(const char *context, size_t bytes)
{
    const uint8_t *text = (const uint8_t *)context;
    size_t end = bytes;
    while (end > 0) {
        size_t start = mt_utf8_previous(text, end);
        // The bytes may be no UTF-8: then they are no white space either.
        if (!mt_utf8_valid(text + start, end - start)) break;
        size_t length = 0;
        if (!mt_jinja_is_space(mt_utf8_decode(text + start, &length)) || length != end - start) break;
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
                   "the text is empty, and the model has no token that begins a text");
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
                       "a continuation has no tokens of its own: its text merges with the text before it");
    for (size_t i = skipped; i < whole->count && status == MT_OK; i++)
        status = mt_id_list_append(ids, whole->data[i]);
    return status;
}
