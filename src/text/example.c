/* Making examples: pieces of a rendered conversation to ids, trained or not, then cut and shifted labels. */
#include "text/example.h"

#include <string.h>

#include "text/example_form.h"

struct mt_example_maker {
    struct mt_context *ctx; // borrowed
    struct mt_example_options options;
    struct mt_token_scratch *scratch;
    struct mt_conversation conversation;
    struct mt_piece_list pieces;
    struct mt_byte_list run; // text that is encoded at once
    struct mt_id_list probe; // of a conversation's text, to see whether it spells a special token
};

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
                                      .pieces = {.ctx = ctx},
                                      .run = {.ctx = ctx},
                                      .probe = {.ctx = ctx}};
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
    mt_piece_list_free(&maker->pieces);
    mt_byte_list_free(&maker->run);
    mt_id_list_free(&maker->probe);
    mt_release(ctx, maker, sizeof *maker);
}

static enum mt_status encode(struct mt_example_maker *maker, const void *text, size_t bytes, unsigned flags,
                             struct mt_id_list *ids)
{
    return mt_tokenizer_encode(maker->options.tokenizer, maker->scratch, text, bytes, flags, ids);
}

static bool is_text(const struct mt_piece *piece)
{
    return piece->kind == MT_PIECE_TEMPLATE || piece->kind == MT_PIECE_CONTENT;
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

/* Encodes neighbouring pieces of text that are trained on alike. */
static enum mt_status encode_run(struct mt_example_maker *maker, const struct mt_piece *pieces, size_t count,
                                 struct mt_id_list *ids)
{
    enum mt_status status = MT_OK;
    bool apart = false;
    maker->run.count = 0;
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        if (pieces[i].kind == MT_PIECE_CONTENT) status = spells_special(maker, &pieces[i], &apart);
        if (status == MT_OK) status = mt_byte_list_append(&maker->run, pieces[i].text, pieces[i].bytes);
    }
    if (status != MT_OK) return status;
    if (!apart) return encode(maker, maker->run.data, maker->run.count, MT_ENCODE_PLAIN, ids);
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        unsigned flags =
            pieces[i].kind == MT_PIECE_CONTENT ? MT_ENCODE_SPECIAL_TEXT_AS_TEXT : MT_ENCODE_PLAIN;
        status = encode(maker, pieces[i].text, pieces[i].bytes, flags, ids);
    }
    return status;
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
    } else if (kind == MT_PIECE_BOS_IF_ANY && id < 0) {
        return MT_OK;
    }
    if (id >= 0) return mt_id_list_append(ids, id);
    return mt_fail(maker->ctx, MT_ERR_USAGE, "the template has a {%s}, but the model has no such token",
                   name);
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
    return encode_run(maker, pieces + first, *next - first, ids);
}

/* All pieces to ids; labels hold for now the ids themselves where they are trained on. */
static enum mt_status encode_pieces(struct mt_example_maker *maker, struct mt_example *example)
{
    enum mt_status status = MT_OK;
    for (size_t first = 0, next = 0; status == MT_OK && first < maker->pieces.count; first = next) {
        bool trained = maker->pieces.data[first].trained;
        status = encode_next(maker, first, &example->ids, &next);
        while (status == MT_OK && example->labels.count < example->ids.count) {
            int32_t id = example->ids.data[example->labels.count];
            status = mt_id_list_append(&example->labels, trained ? id : MT_NO_LABEL);
        }
    }
    return status;
}

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

enum mt_status mt_example_prompt(struct mt_example_maker *maker, const struct mt_conversation *conversation,
                                 struct mt_id_list *ids)
{
    maker->pieces.count = 0;
    enum mt_status status = mt_chat_template_render(maker->options.template, conversation->turns,
                                                    conversation->count, true, &maker->pieces);
    for (size_t first = 0, next = 0; status == MT_OK && first < maker->pieces.count; first = next)
        status = encode_next(maker, first, ids, &next);
    return status;
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
    example->ids.count = 0;
    example->labels.count = 0;
    example->answer_tokens = 0;
    example->lost_tokens = 0;
    example->lost_answer = 0;
    maker->pieces.count = 0;
    enum mt_status status = mt_form_read(source, row, &maker->conversation, &text);
    if (status != MT_OK) return status;
    const struct mt_chat_template *template = maker->options.template;
    if (text != NULL) {
        status = mt_chat_template_render_text(template, text->text, text->bytes, &maker->pieces);
    } else {
        status = mt_chat_template_render(template, maker->conversation.turns, maker->conversation.count,
                                         false, &maker->pieces);
        // A conversation the template cannot say is the row's failure, not the template's.
        if (status == MT_ERR_USAGE) {
            return mt_fail_within(maker->ctx, MT_ERR_FORMAT, "%s:%llu", row->file,
                                  (unsigned long long)row->line);
        }
    }
    if (status == MT_OK) status = encode_pieces(maker, example);
    if (status == MT_OK) status = check_ids(maker, row, example);
    if (status != MT_OK) return status;
    truncate_example(example, maker->options.max_length);
    shift_labels(example);
    return MT_OK;
}
