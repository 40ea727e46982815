/* The maker of examples, for its three files: pieces to ids (example.c), conversations written out by Jinja
 * (example_whole.c), and what the fields of a row mean (example_form.c). */
#ifndef MT_TEXT_EXAMPLE_MAKER_H
#define MT_TEXT_EXAMPLE_MAKER_H

#include "text/example.h"
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

/* A conversation through the maker's template in Jinja, as ids and labels; not cut, not shifted. `place`:
 * where the words of its last turn lie, an answer; NULL: nobody wants to know. */
enum mt_status mt_example_make_whole(struct mt_example_maker *maker,
                                     const struct mt_conversation *conversation, struct mt_example *example,
                                     struct mt_answer_place *place);

/* A prompt by a template in Jinja. */
enum mt_status mt_example_prompt_whole(struct mt_example_maker *maker,
                                       const struct mt_conversation *conversation, struct mt_id_list *ids);

/* A text learnt as a whole, as transformers encodes one, and eos. */
enum mt_status mt_example_make_text(struct mt_example_maker *maker, const struct mt_row_field *text,
                                    struct mt_example *example);

/* What the fields of a row mean: fills `conversation`, or *text where the row is a text (else NULL). */
enum mt_status mt_form_read(const struct mt_example_source *source, const struct mt_row *row,
                            struct mt_conversation *conversation, const struct mt_row_field **text);

#endif
