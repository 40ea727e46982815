/* The inside of a tokenizer, for the files that make and use it. */
#ifndef MT_FORMATS_TOKENIZER_PRIVATE_H
#define MT_FORMATS_TOKENIZER_PRIVATE_H

#include "formats/tokenizer/added.h"
#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/decode.h"
#include "formats/tokenizer/tokenizer.h"

#define MT_TEMPLATE_TEXT (-1) // in a template: here the ids of the text stand

struct mt_tokenizer {
    struct mt_context *ctx; // borrowed
    struct mt_normalizer normalizer;
    struct mt_splitter splitter;
    struct mt_bpe bpe;
    struct mt_added_tokens added;
    struct mt_decoder decoder;
    struct mt_id_list template_ids; // of the post-processor; at least MT_TEMPLATE_TEXT
    size_t vocabulary_size;
    bool byte_level;      // the last step of the splitter is ByteLevel and words stay bytes
    int32_t *added_by_id; // index + 1 into added.tokens, by id; vocabulary_size entries
};

/* An empty tokenizer. The caller frees. */
enum mt_status mt_tokenizer_create(struct mt_context *ctx, struct mt_tokenizer **tokenizer);

/* Fills what follows from the parts, once these are read. */
enum mt_status mt_tokenizer_finish(struct mt_tokenizer *tokenizer);

#endif
