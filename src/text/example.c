/*
 * Making examples: pieces of a rendered conversation to ids, trained or not, then cut and shifted labels. The
 * template's words mean special tokens, a conversation's never do.
 */
#define _GNU_SOURCE // memmem
#include "text/example.h"

#include <string.h>

#include "text/example_maker.h"

#define MOST_NAME_BYTES    64
#define MOST_FOREIGN_BYTES 400

void mt_example_init(struct mt_context *ctx, struct mt_example *example)
{
    *example = (struct mt_example){.ids = {.ctx = ctx}, .labels = {.ctx = ctx}};
}

void mt_example_free(struct mt_example *example)
{
    mt_id_list_free(&example->ids);
    mt_id_list_free(&example->labels);
}

enum mt_status mt_example_maker_create(struct mt_context *ctx, const struct mt_example_options *options,
                                       struct mt_example_maker **maker)
{
    void *memory = NULL;
    *maker = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **maker, &memory);
    if (status != MT_OK) return status;
    struct mt_example_maker *made = memory;
    *made = (struct mt_example_maker){.ctx = ctx,
                                      .options = *options,
                                      .conversation = {.ctx = ctx},
                                      .run = {.ctx = ctx},
                                      .probe = {.ctx = ctx},
                                      .decoded = {.ctx = ctx},
                                      .ends = {.ctx = ctx},
                                      .head = {.ctx = ctx},
                                      .said = {.ctx = ctx}};
    status = mt_token_scratch_create(ctx, options->tokenizer, &made->scratch);
    if (status != MT_OK) {
        mt_example_maker_free(made);
        return status;
    }
    *maker = made;
    return MT_OK;
}

void mt_example_maker_free(struct mt_example_maker *maker)
{
    if (maker == NULL) return;
    struct mt_context *ctx = maker->ctx;
    mt_token_scratch_free(maker->scratch);
    mt_conversation_free(&maker->conversation);
    mt_release(ctx, maker->pieces.data, maker->pieces.capacity * sizeof *maker->pieces.data);
    mt_byte_list_free(&maker->run);
    mt_id_list_free(&maker->probe);
    mt_token_stream_free(maker->stream);
    mt_byte_list_free(&maker->decoded);
    mt_id_list_free(&maker->ends);
    mt_id_list_free(&maker->head);
    mt_byte_list_free(&maker->said);
    mt_release(ctx, maker->answers, maker->answer_capacity * sizeof *maker->answers);
    mt_release(ctx, maker, sizeof *maker);
}

// ------------------------------------------------------------------ pieces of text as ids

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

/* Encodes pieces of text as one, and those that spell a special token apart. */
static enum mt_status encode_texts(struct mt_example_maker *maker, const struct mt_piece *pieces,
                                   size_t count, struct mt_id_list *ids)
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

// ------------------------------------------------------------------ pieces as ids

static bool is_text(const struct mt_piece *piece)
{
    return piece->kind == MT_PIECE_TEMPLATE || piece->kind == MT_PIECE_CONTENT;
}

static enum mt_status add_token(struct mt_example_maker *maker, enum mt_piece_kind kind,
                                struct mt_id_list *ids)
{
    const struct mt_special_ids *special = &maker->options.special;
    const char *name = "bos";
    int32_t id = special->bos;
    if (kind == MT_PIECE_EOS) {
        name = "eos";
        id = special->eos;
    } else if (kind == MT_PIECE_PAD) {
        name = "pad";
        id = special->pad;
    }
    if (id >= 0) return mt_id_list_append(ids, id);
    return mt_fail(maker->ctx, MT_ERR_UNSUPPORTED,
                   "the template writes %s_token, but the model has no such token", name);
}

/* Encodes the piece at `first`, and those it is encoded together with; returns the one after them. */
static enum mt_status encode_next(struct mt_example_maker *maker, size_t first, struct mt_id_list *ids,
                                  size_t *next)
{
    const struct mt_piece *pieces = maker->pieces.data;
    bool trained = pieces[first].trained;
    *next = first + 1;
    if (!is_text(&pieces[first])) return add_token(maker, pieces[first].kind, ids);
    while (*next < maker->pieces.count && is_text(&pieces[*next]) && pieces[*next].trained == trained)
        (*next)++;
    return encode_texts(maker, pieces + first, *next - first, ids);
}

/* Ids of the pieces from `first` to the last that somebody said, in maker->head; none where nobody did. */
static enum mt_status encode_words(struct mt_example_maker *maker, size_t first, size_t next)
{
    const struct mt_piece *pieces = maker->pieces.data;
    while (next > first && pieces[next - 1].kind != MT_PIECE_CONTENT) next--;
    maker->head.count = 0;
    return next > first ? encode_texts(maker, pieces + first, next - first, &maker->head) : MT_OK;
}

/* Says where an answer ends of which the pieces from `first` became the ids from `before` on. What ends an
 * answer is text like any other to a tokenizer, unless it is a special token. */
static enum mt_status place_end(struct mt_example_maker *maker, size_t first, size_t next,
                                const struct mt_id_list *ids, size_t before, size_t *answered)
{
    const struct mt_id_list *words = &maker->head;
    enum mt_status status = encode_words(maker, first, next);
    if (status != MT_OK || words->count == 0) return status;
    bool apart = before + words->count <= ids->count &&
                 memcmp(ids->data + before, words->data, words->count * sizeof *words->data) == 0;
    *answered = apart ? before + words->count : ids->count;
    return MT_OK;
}

enum mt_status mt_example_encode(struct mt_example_maker *maker, struct mt_id_list *ids,
                                 struct mt_id_list *labels, struct mt_answer_place *place)
{
    const struct mt_piece *pieces = maker->pieces.data;
    enum mt_status status = MT_OK;
    size_t prompt = 0;
    for (size_t first = 0, next = 0; status == MT_OK && first < maker->pieces.count; first = next) {
        size_t before = ids->count;
        size_t answered = 0;
        bool trained = pieces[first].trained;
        if (trained && (first == 0 || !pieces[first - 1].trained)) prompt = before;
        status = encode_next(maker, first, ids, &next);
        for (size_t i = before; status == MT_OK && labels != NULL && i < ids->count; i++)
            status = mt_id_list_append(labels, trained ? ids->data[i] : MT_NO_LABEL);
        if (status != MT_OK || place == NULL || !trained || !is_text(&pieces[first])) continue;
        status = place_end(maker, first, next, ids, before, &answered);
        if (answered > 0) *place = (struct mt_answer_place){.prompt = prompt, .answered = answered};
    }
    return status;
}

// ------------------------------------------------------------------ examples

/* A token the model does not know cannot be trained on, and rarely comes alone: the tokenizer is another's.
 */
static enum mt_status check_ids(const struct mt_example_maker *maker, const struct mt_row *row,
                                const struct mt_example *example)
{
    int64_t vocabulary = maker->options.vocabulary;
    for (size_t i = 0; vocabulary > 0 && i < example->ids.count; i++) {
        if (example->ids.data[i] < vocabulary) continue;
        return mt_fail(
            maker->ctx, MT_ERR_USAGE,
            "%s:%llu: becomes token %ld, but the model has tokens 0 to %lld only: is this its tokenizer?",
            row->file, (unsigned long long)row->line, (long)example->ids.data[i], (long long)vocabulary - 1);
    }
    return MT_OK;
}

/* Cuts the end off and counts what is lost. */
static void truncate_example(struct mt_example *example, int64_t max_length)
{
    if (max_length <= 0 || example->ids.count <= (size_t)max_length) return;
    for (size_t i = (size_t)max_length; i < example->ids.count; i++) {
        example->lost_tokens++;
        example->lost_answer += example->labels.data[i] != MT_NO_LABEL;
    }
    example->ids.count = (size_t)max_length;
    example->labels.count = (size_t)max_length;
}

/* labels[i] becomes the token that follows. */
static void shift_labels(struct mt_example *example)
{
    int32_t *labels = example->labels.data;
    size_t count = example->labels.count;
    for (size_t i = 0; i < count; i++) {
        labels[i] = i + 1 < count ? labels[i + 1] : MT_NO_LABEL;
        example->answer_tokens += labels[i] != MT_NO_LABEL;
    }
}

enum mt_status mt_example_make(struct mt_example_maker *maker, const struct mt_example_source *source,
                               const struct mt_row *row, struct mt_example *example)
{
    const struct mt_row_field *text = NULL;
    struct mt_id_list ids = example->ids;
    struct mt_id_list labels = example->labels;
    ids.count = 0;
    labels.count = 0;
    *example = (struct mt_example){.ids = ids, .labels = labels};
    enum mt_status status = mt_form_read(source, row, &maker->conversation, &text);
    if (status != MT_OK) return status;
    example->text = text != NULL;
    for (size_t i = 0; text == NULL && i < maker->conversation.count; i++) {
        const struct mt_turn *turn = &maker->conversation.turns[i];
        example->messages |= turn->message != NULL;
        if (turn->role == MT_ROLE_ASSISTANT) example->spaced = turn->bytes > 0 && turn->text[0] == ' ';
    }
    status = mt_example_write(maker, &maker->conversation, text, example, NULL);
    // A conversation the template cannot say is the row's failure, not the template's.
    if (status == MT_ERR_USAGE || status == MT_ERR_FORMAT) {
        return mt_fail_within(maker->ctx, MT_ERR_FORMAT, "%s:%llu", row->file, (unsigned long long)row->line);
    }
    if (status == MT_OK) status = check_ids(maker, row, example);
    if (status != MT_OK) return status;
    truncate_example(example, maker->options.max_length);
    shift_labels(example);
    return MT_OK;
}

enum mt_status mt_example_answer(struct mt_example_maker *maker, const struct mt_conversation *conversation,
                                 struct mt_id_list *ids, struct mt_answer_place *place)
{
    struct mt_example example = {.ids = *ids, .labels = {.ctx = maker->ctx}};
    *place = (struct mt_answer_place){0};
    example.ids.count = 0;
    enum mt_status status = mt_example_write(maker, conversation, NULL, &example, place);
    *ids = example.ids;
    mt_id_list_free(&example.labels);
    if (status == MT_OK && place->answered <= place->prompt)
        status = mt_fail(maker->ctx, MT_ERR_USAGE, "a continuation has no tokens");
    return status;
}
