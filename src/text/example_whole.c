/*
 * Conversations that a template in Jinja writes out: encoded as one text, as transformers does, and labels
 * for the tokens of which any character belongs to an answer, as its mask of {% generation %} marks has them.
 *
 * Where a token lies is told by decoding: the text of the ids up to it. For most tokenizers that is the text
 * itself; others change it (they compose characters, or put spaces in front), so a place in the text is then
 * looked for by encoding and decoding what stands before it.
 */
#include <string.h>

#include "formats/text/utf8.h"
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

/* Bytes of a token that says nothing before the next: one byte, or the beginning of a character. */
static size_t bytes_held_back(const struct mt_tokenizer *tokenizer, int32_t id)
{
    size_t bytes = 0;
    const uint8_t *token = mt_tokenizer_token(tokenizer, id, &bytes);
    size_t count = 0;
    if (token == NULL) return 0;
    if (bytes == 6 && memcmp(token, "<0x", 3) == 0 && token[5] == '>') return 1;
    if (!mt_utf8_valid(token, bytes)) return bytes; // tiktoken's tokens are bytes themselves
    // The byte-level alphabet has a character for each byte; a space that is swallowed has none.
    for (size_t i = 0; i < bytes; i++) count += (token[i] & 0xC0) != 0x80;
    return bytes == 3 && memcmp(token, "\xE2\x96\x81", 3) == 0 ? 0 : count;
}

/* Where the tokens from `first` on end, which began to speak at `from` and have said all by `to` together. */
static enum mt_status part_tokens(const struct mt_example_maker *maker, const struct mt_id_list *ids,
                                  size_t first, size_t last, size_t from, size_t to, struct mt_id_list *ends)
{
    enum mt_status status = MT_OK;
    for (size_t i = first; i <= last && status == MT_OK; i++) {
        size_t held = i < last ? bytes_held_back(maker->options.tokenizer, ids->data[i]) : to - from;
        from = held < to - from ? from + held : to;
        status = mt_id_list_append(ends, (int32_t)from);
    }
    return status;
}

/* What ids say, and, where `ends` is given, where each of them ends. */
static enum mt_status decode(struct mt_example_maker *maker, const struct mt_id_list *ids,
                             struct mt_byte_list *text, struct mt_id_list *ends)
{
    enum mt_status status = MT_OK;
    size_t first = 0; // of the tokens that have not said all
    size_t said = 0;
    text->count = 0;
    if (ends != NULL) ends->count = 0;
    for (size_t i = 0; i < ids->count && status == MT_OK; i++) {
        status = mt_token_stream_push(maker->stream, ids->data[i], text);
        if (status != MT_OK || text->count == said || ends == NULL) continue;
        status = part_tokens(maker, ids, first, i, said, text->count, ends);
        first = i + 1;
        said = text->count;
    }
    enum mt_status ended = mt_token_stream_end(maker->stream, text);
    if (status == MT_OK) status = ended;
    if (status != MT_OK || ends == NULL || first == ids->count) return status;
    return part_tokens(maker, ids, first, ids->count - 1, said, text->count, ends);
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
 * that ends texts, or else the first special one and those right behind it; without either, all of it but
 * white space.
 */
static size_t find_ending(const struct mt_example_maker *maker, const struct mt_example *example,
                          size_t words, size_t end, bool *ended)
{
    size_t special = 0;
    size_t start = 0;
    const uint8_t *text = maker->decoded.data;
    *ended = true;
    for (size_t i = 0; i < example->ids.count; i++) {
        int32_t id = example->ids.data[i];
        size_t stop = (size_t)maker->ends.data[i];
        bool within = start >= words && stop <= end;
        if (within && is_stop(maker, id)) return stop;
        bool next = special == 0 || special == start;
        if (within && next && mt_tokenizer_is_special(maker->options.tokenizer, id)) special = stop;
        start = stop;
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
        from = to;
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
