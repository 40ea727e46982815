/*
 * The text of an answer as its tokens come: decoded piece by piece, and ended by a stop string wherever in it
 * one appears, across tokens too.
 *
 * Text that might still turn out to begin a stop string is not settled: it is kept back until it is clear.
 */
#ifndef MT_INFER_ANSWER_H
#define MT_INFER_ANSWER_H

#include <stdbool.h>

#include "formats/tokenizer/tokenizer.h"

struct mt_answer {
    struct mt_token_stream *stream;
    const char *const *stops; // borrowed; NULL-terminated; NULL: none
    struct mt_byte_list text; // what was decoded so far, without the stop string and what follows it
    struct mt_id_list ids;
    size_t settled; // bytes of text that will stay
    bool stopped;   // by a stop string
};

/* Special tokens leave no text. The caller frees; the stop strings outlive the answer. */
enum mt_status mt_answer_create(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                const char *const *stops, struct mt_answer *answer);
void mt_answer_free(struct mt_answer *answer); // a zeroed struct is allowed

/* One more token. */
enum mt_status mt_answer_push(struct mt_answer *answer, int32_t id);

/* There are no more: all of the text is settled. */
enum mt_status mt_answer_end(struct mt_answer *answer);

/* Ready for another; memory is kept. */
enum mt_status mt_answer_clear(struct mt_answer *answer);

#endif
