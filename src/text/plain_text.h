/*
 * Plain texts as ids: the model's own tokens, how a text begins, and how one goes on.
 *
 * How a plain text begins: with the token that begins texts, or without.
 *
 * By default the tokenizer decides, which is what tokenizer.json's post-processing adds. That is what
 * transformers 5 and lm-evaluation-harness do; neither follows `add_bos_token` of tokenizer_config.json where
 * there is a tokenizer.json. The other two rules are the harness's add_bos_token=True and False. A text that
 * spells the token itself never gets a second one, as in the harness.
 */
#ifndef MT_TEXT_PLAIN_TEXT_H
#define MT_TEXT_PLAIN_TEXT_H

#include "arch/arch.h"
#include "text/example.h"

/* What tokenizer_config.json beside the tokenizer (its path as it was loaded) says, else what the config
 * does. */
enum mt_status mt_special_ids_find(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                   const char *path, const struct mt_hf_config *config,
                                   struct mt_special_ids *special);

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

/*
 * A text and how it goes on, as ids: what a log-likelihood is asked of. As lm-evaluation-harness does it, so
 * that figures can be compared:
 *
 *     white space at the end of the context moves to the front of the continuation;
 *     whole = encode(context + continuation), beginning as plain texts do (above);
 *     the continuation's ids are whole[len(encode(context)) ...], the context's encode(context).
 *
 * The end of the context and the start of the continuation are thus encoded together, as a model has seen
 * them in training. A context without any text is the token that begins texts.
 */
struct mt_continuation_maker {
    const struct mt_tokenizer *tokenizer; // borrowed
    struct mt_token_scratch *scratch;     // borrowed
    struct mt_text_beginning beginning;   // its token (bos, else eos) also stands for an empty context
    struct mt_byte_list text;             // kept between calls
    struct mt_id_list whole;
};

/* Prepares a caller-owned maker; mt_continuation_maker_free gives its memory back. */
void mt_continuation_maker_init(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                struct mt_token_scratch *scratch, struct mt_text_beginning beginning,
                                struct mt_continuation_maker *maker);
void mt_continuation_maker_free(struct mt_continuation_maker *maker); // a zeroed struct is allowed

/* Bytes of the context without the white space at its end: Python's rstrip. */
size_t mt_context_bytes(const char *context, size_t bytes);

/*
 * Replaces `prefix` by the context's ids, which do not depend on the continuation. `bytes` is all of it;
 * white space is found here.
 */
enum mt_status mt_continuation_context(struct mt_continuation_maker *maker, const char *context, size_t bytes,
                                       struct mt_id_list *prefix);

/*
 * Appends the ids of a continuation to `ids`. `prefix` holds what mt_continuation_context made of the same
 * context; where that is empty text, the continuation's own first token may be the one that begins texts: it
 * is then left out. MT_ERR_USAGE when nothing is left of the continuation.
 */
enum mt_status mt_continuation_encode(struct mt_continuation_maker *maker, const char *context, size_t bytes,
                                      const char *continuation, size_t continuation_bytes,
                                      const struct mt_id_list *prefix, struct mt_id_list *ids);

#endif
