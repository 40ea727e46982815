/* Plain texts as ids, with or without the token that begins texts. */
#include "text/beginning.h"

#include <string.h>

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
