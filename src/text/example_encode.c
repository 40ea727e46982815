/* Pieces of text as ids: the template's words mean special tokens, a conversation's never do. */
#define _GNU_SOURCE // memmem
#include <string.h>

#include "text/example_parts.h"

#define MOST_NAME_BYTES    64
#define MOST_FOREIGN_BYTES 400

static enum mt_status encode(struct mt_example_maker *maker, const void *text, size_t bytes, unsigned flags,
                             struct mt_id_list *ids)
{
    return mt_tokenizer_encode(maker->options.tokenizer, maker->scratch, text, bytes, flags, ids);
}

/* Whether the text of a conversation spells a special token: then it has other ids when taken as text. */
static enum mt_status spells_special(struct mt_example_maker *maker, const struct mt_piece *piece,
                                     bool *spells)
{
    struct mt_id_list *probe = &maker->probe;
    bool found = false;
    probe->count = 0;
    enum mt_status status = encode(maker, piece->text, piece->bytes, MT_ENCODE_PLAIN, probe);
    size_t count = probe->count;
    for (size_t i = 0; i < count; i++) {
        found |= mt_tokenizer_is_special(maker->options.tokenizer, probe->data[i]);
    }
    if (status != MT_OK || !found) return status; // found may also be <unk>, which nobody spelled
    status = encode(maker, piece->text, piece->bytes, MT_ENCODE_SPECIAL_TEXT_AS_TEXT, probe);
    if (status != MT_OK) return status;
    *spells |= probe->count != 2 * count ||
               memcmp(probe->data, probe->data + count, count * sizeof *probe->data) != 0;
    return MT_OK;
}

/* The bytes of something that is written as special tokens are, at the beginning of a text; 0: it is none. */
static size_t looks_special(const char *text, size_t bytes)
{
    static const struct {
        const char *opening, *closing;
    } kinds[] = {{"<|", "|>"}, {"<\xEF\xBD\x9C", "\xEF\xBD\x9C>"}};
    static const char *const words[] = {"<s>", "</s>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i]);
        if (length <= bytes && memcmp(text, words[i], length) == 0) return length;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t opening = strlen(kinds[i].opening);
        size_t closing = strlen(kinds[i].closing);
        if (opening > bytes || memcmp(text, kinds[i].opening, opening) != 0) continue;
        for (size_t end = opening; end + closing <= bytes && end < MOST_NAME_BYTES; end++) {
            if (memcmp(text + end, kinds[i].closing, closing) == 0) return end > opening ? end + closing : 0;
            if (strchr(" \t\r\n<>", text[end]) != NULL) break;
        }
    }
    return 0;
}

/* Notes what a template's text spells as special tokens and the tokenizer does not know. */
static enum mt_status note_foreign(const struct mt_example_maker *maker, const struct mt_piece *piece)
{
    struct mt_byte_list *foreign = maker->options.foreign;
    enum mt_status status = MT_OK;
    for (size_t at = 0; at < piece->bytes && status == MT_OK; at++) {
        const char *text = piece->text + at;
        size_t bytes = *text == '<' ? looks_special(text, piece->bytes - at) : 0;
        if (bytes == 0 || mt_tokenizer_id(maker->options.tokenizer, text, bytes) >= 0) continue;
        bool known = foreign->count > 0 && memmem(foreign->data, foreign->count, text, bytes) != NULL;
        if (known || foreign->count > MOST_FOREIGN_BYTES) continue;
        if (foreign->count > 0) status = mt_byte_list_append_text(foreign, ", ");
        if (status == MT_OK) status = mt_byte_list_append(foreign, text, bytes);
    }
    return status;
}

/* Encodes what has gathered in maker->run. */
static enum mt_status flush(struct mt_example_maker *maker, struct mt_id_list *ids)
{
    enum mt_status status = MT_OK;
    if (maker->run.count > 0) status = encode(maker, maker->run.data, maker->run.count, MT_ENCODE_PLAIN, ids);
    maker->run.count = 0;
    return status;
}

enum mt_status mt_example_encode(struct mt_example_maker *maker, const struct mt_piece *pieces, size_t count,
                                 struct mt_id_list *ids)
{
    enum mt_status status = MT_OK;
    maker->run.count = 0;
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        bool apart = false;
        bool content = pieces[i].kind == MT_PIECE_CONTENT;
        if (content) status = spells_special(maker, &pieces[i], &apart);
        if (status == MT_OK && !content && maker->options.foreign != NULL)
            status = note_foreign(maker, &pieces[i]);
        if (status == MT_OK && apart) status = flush(maker, ids);
        if (status != MT_OK) return status;
        status = apart ? encode(maker, pieces[i].text, pieces[i].bytes, MT_ENCODE_SPECIAL_TEXT_AS_TEXT, ids)
                       : mt_byte_list_append(&maker->run, pieces[i].text, pieces[i].bytes);
    }
    return status == MT_OK ? flush(maker, ids) : status;
}
