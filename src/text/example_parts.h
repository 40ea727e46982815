/* Making examples, taken apart: the maker, encoding pieces, conversations written out by Jinja. */
#ifndef MT_TEXT_EXAMPLE_PARTS_H
#define MT_TEXT_EXAMPLE_PARTS_H

#include "text/example.h"
#include "text/example_form.h"
#include "text/template_jinja.h"

/* An answer in what a template wrote, in bytes. */
struct mt_answer_span {
    size_t start;
    size_t words; // where its last word ends
    size_t end;   // what belongs to it ends here at the latest
    bool exact;   // the template's own marks: all of it is trained on
};

struct mt_example_maker {
    struct mt_context *ctx; // borrowed
    struct mt_example_options options;
    struct mt_token_scratch *scratch;
    struct mt_conversation conversation;
    struct mt_piece_list pieces;
    struct mt_byte_list run; // text that is encoded at once
    struct mt_id_list probe; // of a conversation's text, to see whether it spells a special token
    // Of a conversation written out by a template in Jinja.
    struct mt_token_stream *stream;
    struct mt_byte_list decoded; // what the ids say
    struct mt_id_list ends;      // where in it each token ends
    struct mt_id_list head;      // ids of the text up to some place
    struct mt_byte_list said;    // what these say
    struct mt_answer_span *answers;
    size_t answer_count;
    size_t answer_capacity;
};

/* Encodes pieces of text as one, and those that spell a special token apart. */
enum mt_status mt_example_encode(struct mt_example_maker *maker, const struct mt_piece *pieces, size_t count,
                                 struct mt_id_list *ids);

/* The pieces of a rendering's first `bytes` bytes, in maker->pieces. */
enum mt_status mt_example_pieces(struct mt_example_maker *maker, const struct mt_jinja_output *output,
                                 size_t bytes);

/* Finds the answers of a conversation that was written out as `output`: maker->answers. */
enum mt_status mt_example_find_answers(struct mt_example_maker *maker, struct mt_chat_rendering *rendering,
                                       const struct mt_jinja_output *output, struct mt_example *example);

/* The maker's conversation through its template in Jinja, as ids and labels; not cut, not shifted. */
enum mt_status mt_example_make_whole(struct mt_example_maker *maker, struct mt_example *example);

/* A text learnt as a whole, as transformers encodes one, and eos. */
enum mt_status mt_example_make_text(struct mt_example_maker *maker, const struct mt_row_field *text,
                                    struct mt_example *example);

#endif
