/*
 * Conversations that a template in Jinja writes out: encoded as one text, as transformers does, and labels
 * for the tokens of which any character belongs to an answer, as its mask of {% generation %} marks has them.
 *
 * Where a token lies is told by decoding: the text of the ids up to it. For most tokenizers that is the text
 * itself; others change it (they compose characters, or put spaces in front), so a place in the text is then
 * looked for by encoding and decoding what stands before it.
 */
#include <string.h>

#include "text/example_parts.h"

enum mt_status mt_example_pieces(struct mt_example_maker *maker, const struct mt_jinja_output *output,
                                 size_t bytes)
{
    struct mt_piece_list *pieces = &maker->pieces;
    void *data = pieces->data;
    pieces->count = 0;
    enum mt_status status =
        mt_list_reserve(maker->ctx, &data, &pieces->capacity, sizeof *pieces->data, output->mark_count + 1);
    pieces->data = data;
    for (size_t i = 0; status == MT_OK && i < output->mark_count && output->marks[i].start < bytes; i++) {
        const struct mt_jinja_span *span = &output->marks[i];
        size_t end = span->end < bytes ? span->end : bytes;
        bool trusted = span->mark == MT_JINJA_TRUSTED;
        pieces->data[pieces->count++] =
            (struct mt_piece){.kind = trusted ? MT_PIECE_TEMPLATE : MT_PIECE_CONTENT,
                              .text = output->text + span->start,
                              .bytes = end - span->start};
    }
    return status;
}

static enum mt_status encode_head(struct mt_example_maker *maker, const struct mt_jinja_output *output,
                                  size_t bytes, struct mt_id_list *ids)
{
    enum mt_status status = mt_example_pieces(maker, output, bytes);
    return status == MT_OK ? mt_example_encode(maker, maker->pieces.data, maker->pieces.count, ids) : status;
}

/* What ids say, and, where `ends` is given, where each of them ends. */
static enum mt_status decode(struct mt_example_maker *maker, const struct mt_id_list *ids,
                             struct mt_byte_list *text, struct mt_id_list *ends)
{
    enum mt_status status = MT_OK;
    text->count = 0;
    if (ends != NULL) ends->count = 0;
    for (size_t i = 0; i < ids->count && status == MT_OK; i++) {
        status = mt_token_stream_push(maker->stream, ids->data[i], text);
        if (status == MT_OK && ends != NULL) status = mt_id_list_append(ends, (int32_t)text->count);
    }
    enum mt_status ended = mt_token_stream_end(maker->stream, text);
    if (status != MT_OK || ended != MT_OK) return status != MT_OK ? status : ended;
    // Part of a character says nothing before the rest of it: all of its tokens end where it ends.
    int32_t end = (int32_t)text->count;
    for (size_t i = ends != NULL ? ends->count : 0; i > 0; i--) {
        int32_t before = i > 1 ? ends->data[i - 2] : 0;
        if (ends->data[i - 1] > before) end = ends->data[i - 1];
        ends->data[i - 1] = end;
    }
    return MT_OK;
}

/* The place in what the ids say that is byte `at` of the text. */
static enum mt_status place(struct mt_example_maker *maker, const struct mt_jinja_output *output, size_t at,
                            size_t *found)
{
    bool same = maker->decoded.count == output->bytes &&
                memcmp(maker->decoded.data, output->text, output->bytes) == 0;
    *found = at;
    if (same) return MT_OK;
    maker->head.count = 0;
    enum mt_status status = encode_head(maker, output, at, &maker->head);
    if (status == MT_OK) status = decode(maker, &maker->head, &maker->said, NULL);
    size_t count = 0;
    while (count < maker->said.count && count < maker->decoded.count &&
           maker->said.data[count] == maker->decoded.data[count]) {
        count++;
    }
    *found = count;
    return status;
}

static bool is_stop(const struct mt_example_maker *maker, int32_t id)
{
    if (id == maker->options.special.eos) return true;
    for (size_t i = 0; i < maker->options.stop_count; i++) {
        if (maker->options.stops[i] == id) return true;
    }
    return false;
}

/*
 * The end of what ends an answer, between its last word and the end of what can belong to it: the first token
 * that ends texts, or else the first special one; without either, all of it but white space.
 */
static size_t find_ending(const struct mt_example_maker *maker, const struct mt_example *example,
                          size_t words, size_t end, bool *ended)
{
    size_t special = 0;
    size_t start = 0;
    const uint8_t *text = maker->decoded.data;
    *ended = true;
    for (size_t i = 0; i < example->ids.count; i++) {
        size_t stop = (size_t)maker->ends.data[i];
        bool within = start >= words && stop <= end;
        start = stop;
        if (within && is_stop(maker, example->ids.data[i])) return stop;
        if (within && special == 0 && mt_tokenizer_is_special(maker->options.tokenizer, example->ids.data[i]))
            special = stop;
    }
    if (special > 0) return special;
    *ended = false;
    while (end > words && strchr(" \t\r\n", text[end - 1]) != NULL) end--;
    return end;
}

/* Labels of the tokens that lie, even in part, in a stretch of what the ids say. */
static void label(const struct mt_example_maker *maker, struct mt_example *example, size_t start, size_t end)
{
    size_t from = 0;
    for (size_t i = 0; i < example->ids.count; i++) {
        size_t to = (size_t)maker->ends.data[i];
        if (from < end && to > start) example->labels.data[i] = example->ids.data[i];
        if (i + 1 < example->ids.count && (size_t)maker->ends.data[i + 1] > to) from = to;
    }
}

static enum mt_status label_answer(struct mt_example_maker *maker, const struct mt_jinja_output *output,
                                   const struct mt_answer_span *span, struct mt_example *example)
{
    size_t start = 0;
    size_t words = 0;
    size_t end = 0;
    enum mt_status status = place(maker, output, span->start, &start);
    if (status == MT_OK) status = place(maker, output, span->end, &end);
    if (status == MT_OK && !span->exact) {
        bool ended = false;
        status = place(maker, output, span->words, &words);
        if (status == MT_OK) end = find_ending(maker, example, words, end, &ended);
        if (!ended) example->unended++;
    }
    if (status == MT_OK) label(maker, example, start, end);
    return status;
}

static enum mt_status label_all(struct mt_example_maker *maker, const struct mt_jinja_output *output,
                                struct mt_example *example)
{
    enum mt_status status = encode_head(maker, output, output->bytes, &example->ids);
    if (status == MT_OK && maker->stream == NULL)
        status =
            mt_token_stream_create(maker->ctx, maker->options.tokenizer, MT_DECODE_PLAIN, &maker->stream);
    if (status == MT_OK) status = decode(maker, &example->ids, &maker->decoded, &maker->ends);
    for (size_t i = 0; i < example->ids.count && status == MT_OK; i++)
        status = mt_id_list_append(&example->labels, MT_NO_LABEL);
    for (size_t i = 0; i < maker->answer_count && status == MT_OK; i++)
        status = label_answer(maker, output, &maker->answers[i], example);
    return status;
}

static bool has_label(const struct mt_example *example)
{
    size_t i = 0;
    while (i < example->labels.count && example->labels.data[i] == MT_NO_LABEL) i++;
    return i < example->labels.count;
}

enum mt_status mt_example_make_whole(struct mt_example_maker *maker, struct mt_example *example)
{
    struct mt_chat_rendering rendering = {0};
    struct mt_jinja_output output = {0};
    const struct mt_conversation *conversation = &maker->conversation;
    enum mt_status status = mt_chat_rendering_begin(maker->options.template, conversation, &rendering);
    if (status == MT_OK) status = mt_chat_rendering_run(&rendering, conversation->count, false, &output);
    if (status == MT_OK) {
        status = mt_example_find_answers(maker, &rendering, &output, example);
        if (status == MT_OK) status = label_all(maker, &output, example);
        if (status == MT_OK && !has_label(example))
            status = mt_fail(maker->ctx, MT_ERR_USAGE, "none of the answers can be found in what %s writes",
                             mt_chat_template_name(maker->options.template));
        mt_jinja_output_free(&output);
    }
    mt_chat_rendering_end(&rendering);
    return status;
}

enum mt_status mt_example_make_text(struct mt_example_maker *maker, const struct mt_row_field *text,
                                    struct mt_example *example)
{
    int32_t bos = maker->options.special.bos;
    int32_t eos = maker->options.special.eos;
    struct mt_id_list *ids = &example->ids;
    enum mt_status status =
        mt_tokenizer_encode(maker->options.tokenizer, maker->scratch, text->text, text->bytes,
                            MT_ENCODE_ADD_SPECIAL | MT_ENCODE_SPECIAL_TEXT_AS_TEXT, ids);
    bool ended = ids->count > 0 && ids->data[ids->count - 1] == eos;
    if (status == MT_OK && eos >= 0 && !ended) status = mt_id_list_append(ids, eos);
    for (size_t i = 0; i < ids->count && status == MT_OK; i++) {
        bool begins = i == 0 && ids->data[0] == bos;
        status = mt_id_list_append(&example->labels, begins ? MT_NO_LABEL : ids->data[i]);
    }
    return status;
}
