/* The maker of examples, for its three files: pieces to ids (example.c), conversations written out
 * (example_whole.c), and what the fields of a row mean (example_form.c). */
#ifndef MT_TEXT_EXAMPLE_MAKER_H
#define MT_TEXT_EXAMPLE_MAKER_H

#include "text/example.h"
#include "text/template_jinja.h"

/* What a template wrote, in pieces: its own text, text of the conversation, tokens. */
enum mt_piece_kind {
    MT_PIECE_TEMPLATE, // text in which special tokens are meant
    MT_PIECE_CONTENT,  // text in which nothing is special
    MT_PIECE_BOS,
    MT_PIECE_EOS,
    MT_PIECE_PAD,
};

struct mt_piece {
    enum mt_piece_kind kind;
    bool trained;     // encoded apart from what is not
    const char *text; // of the first two kinds; borrowed
    size_t bytes;
};

struct mt_piece_list {
    struct mt_piece *data;
    size_t count;
    size_t capacity;
};

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
    struct mt_id_list head;  // ids of the text up to some place
    struct mt_answer_span *answers;
    size_t answer_count;
    size_t answer_capacity;
    // Of a conversation that is encoded as a whole.
    struct mt_token_stream *stream;
    struct mt_byte_list decoded; // what the ids say
    struct mt_id_list ends;      // where in it each token ends
    struct mt_byte_list said;    // what the head says
};

/*
 * Appends the ids of the maker's pieces: texts that follow one another as one text, but what is trained on
 * apart from what is not, and messages that spell a special token by themselves. labels: ids that are trained
 * on, MT_NO_LABEL for others, not shifted; place: where the words of the last answer lie. Both NULL: not
 * wanted.
 */
enum mt_status mt_example_encode(struct mt_example_maker *maker, struct mt_id_list *ids,
                                 struct mt_id_list *labels, struct mt_answer_place *place);

/*
 * A conversation, or a text to learn as a whole (NULL: none), as ids and labels; not cut, not shifted.
 * `place`: where the words of its last turn lie, an answer; NULL: nobody wants to know.
 */
enum mt_status mt_example_write(struct mt_example_maker *maker, const struct mt_conversation *conversation,
                                const struct mt_row_field *text, struct mt_example *example,
                                struct mt_answer_place *place);

/* What the fields of a row mean: fills `conversation`, or *text where the row is a text (else NULL). */
enum mt_status mt_form_read(const struct mt_example_source *source, const struct mt_row *row,
                            struct mt_conversation *conversation, const struct mt_row_field **text);

#endif
