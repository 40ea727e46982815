/*
 * Learning a byte-level BPE tokenizer from texts (Sennrich et al. 2016, on bytes as GPT-2 has it).
 *
 * The texts are cut into words, digits one by one. A word is at first its bytes; then, again and again, the
 * pair of neighbours that occurs most often becomes a token. What is learnt depends on how often each word
 * occurs and on nothing else: not on the order of the texts, and of equally frequent pairs the one whose
 * bytes come first is taken.
 *
 * Ids: the special tokens <pad>, <bos>, <eos>, the 256 bytes, what was merged in its order.
 */
#ifndef MT_FORMATS_TOKENIZER_TRAIN_H
#define MT_FORMATS_TOKENIZER_TRAIN_H

#include "base/progress.h"
#include "formats/text/json_text.h"
#include "formats/text/lists.h"

#define MT_TOKENIZER_SPECIALS       3
#define MT_TOKENIZER_LEAST          (MT_TOKENIZER_SPECIALS + 256) // tokens there always are
#define MT_TOKENIZER_MOST           65536                         // tokens that can be asked for
#define MT_TOKENIZER_LONGEST_LEARNT 64 // bytes of a word; a longer one is learnt in pieces of so many

struct mt_tokenizer_trainer;

/* A trainer that has seen no text. The caller frees. */
enum mt_status mt_tokenizer_trainer_create(struct mt_context *ctx, struct mt_tokenizer_trainer **trainer);

/* NULL is allowed. */
void mt_tokenizer_trainer_free(struct mt_tokenizer_trainer *trainer);

/* Counts the words of a text. What is not UTF-8 counts as U+FFFD, as when encoding. */
enum mt_status mt_tokenizer_trainer_add(struct mt_tokenizer_trainer *trainer, const void *text, size_t bytes);

/*
 * Learns until there are `tokens` tokens, specials and bytes among them. Called once, after the last text.
 * Refused when the texts do not give so many: a pair that occurs once is not worth a token.
 */
enum mt_status mt_tokenizer_trainer_learn(struct mt_tokenizer_trainer *trainer, size_t tokens,
                                          struct mt_progress *progress);

/* Different words seen, and how many there were in all. */
size_t mt_tokenizer_trainer_words(const struct mt_tokenizer_trainer *trainer, uint64_t *in_all);

/* The texts of tokenizer.json and tokenizer_config.json, appended. */
enum mt_status mt_tokenizer_trainer_write(const struct mt_tokenizer_trainer *trainer,
                                          struct mt_json_text *json);
enum mt_status mt_tokenizer_config_write(struct mt_json_text *json);

#endif
