/*
 * How a plain text begins: with the token that begins texts, or without.
 *
 * By default the tokenizer decides, which is what tokenizer.json's post-processing adds. That is what
 * transformers 5 and lm-evaluation-harness do; neither follows `add_bos_token` of tokenizer_config.json where
 * there is a tokenizer.json. The other two rules are the harness's add_bos_token=True and False. A text that
 * spells the token itself never gets a second one, as in the harness.
 */
#ifndef MT_TEXT_BEGINNING_H
#define MT_TEXT_BEGINNING_H

#include "formats/tokenizer/tokenizer.h"

enum mt_bos_rule {
    MT_BOS_TOKENIZER, // what the tokenizer's post-processing adds
    MT_BOS_YES,       // the token, and nothing else
    MT_BOS_NO,        // nothing
    MT_BOS_RULES
};

/* "tokenizer", "yes", "no"; MT_BOS_RULES for an unknown name. */
enum mt_bos_rule mt_bos_rule_named(const char *name);

struct mt_text_beginning {
    enum mt_bos_rule rule;
    int32_t id; // the token; -1: none, and the rule is not MT_BOS_YES
};

/* Appends the ids of a text, its beginning included. After a failure the ids appended so far are gone again.
 */
enum mt_status mt_plain_text_encode(const struct mt_tokenizer *tokenizer, struct mt_token_scratch *scratch,
                                    const struct mt_text_beginning *beginning, const void *text, size_t bytes,
                                    struct mt_id_list *ids);

#endif
