/*
 * Conversations written out, as ids and labels: which of what a template wrote are answers, and which tokens
 * are theirs.
 *
 * A template with {% generation %} marks says itself what is an answer. For others, an answer begins where
 * the rendering of the turns before it, with what asks for an answer, ends, if that is how the whole begins.
 * Where it is not (a template that asks with "<think>" and writes answers without; one that drops earlier
 * thoughts when more follows), it begins where the two part, if no earlier message lies behind that place;
 * else behind the words that ask for it, if these stand between the last earlier word and its own; else with
 * its own first word, which the marks of the output tell. It ends with its last word and what the template
 * writes behind that: as much of it as stands there also when the conversation ends with this turn. An empty
 * thought that the template puts in front ("<think></think>") is not the answer's: a model that learnt it
 * would stop thinking.
 *
 * Where prompts and answers are encoded apart, an answer's tokens are known. Else all is encoded as one text,
 * as transformers does, and the tokens of which any character belongs to an answer are its own, as
 * transformers' mask of {% generation %} marks has them. Where a token lies is told by decoding: the text of
 * the ids up to it. For most tokenizers that is the text itself; others change it (they compose characters,
 * or put spaces in front), so a place in the text is then looked for by encoding and decoding what stands
 * before it.
 */
#include <string.h>

#include "formats/text/utf8.h"
#include "text/example_maker.h"

static enum mt_status add_answer(struct mt_example_maker *maker, const struct mt_answer_span *span)
{
    enum mt_status status = MT_OK;
    maker->answers = mt_list_reserve(maker->ctx, maker->answers, &maker->answer_capacity,
                                     sizeof *maker->answers, maker->answer_count + 1, &status);
    if (status == MT_OK) maker->answers[maker->answer_count++] = *span;
    return status;
}

// ------------------------------------------------------------------ marks of an output

/* The first byte of a mark at or after `from`, and the end of its last; false: there is none. */
static bool find_mark(const struct mt_jinja_output *output, unsigned mark, size_t from, size_t *first,
                      size_t *end)
{
    bool found = false;
    for (size_t i = 0; i < output->mark_count; i++) {
        const struct mt_jinja_span *span = &output->marks[i];
        if (span->mark != mark || span->end <= from) continue;
        if (!found) *first = span->start > from ? span->start : from;
        *end = span->end;
        found = true;
    }
    return found;
}

/* The end of the last byte that is not the template's. */
static size_t last_word(const struct mt_jinja_output *output)
{
    size_t end = 0;
    for (size_t i = 0; i < output->mark_count; i++) {
        if (output->marks[i].mark != MT_JINJA_TRUSTED) end = output->marks[i].end;
    }
    return end;
}

/* How far two outputs agree from given places on, in bytes and in whose they are. */
static size_t agreement(const struct mt_jinja_output *a, size_t a_at, const struct mt_jinja_output *b,
                        size_t b_at)
{
    size_t count = 0;
    size_t i = 0;
    size_t j = 0;
    while (a_at + count < a->bytes && b_at + count < b->bytes) {
        while (a->marks[i].end <= a_at + count) i++;
        while (b->marks[j].end <= b_at + count) j++;
        if (a->marks[i].mark != b->marks[j].mark || a->text[a_at + count] != b->text[b_at + count]) break;
        count++;
    }
    return count;
}

/* How many bytes from `at` on are the template's. */
static size_t trusted_bytes(const struct mt_jinja_output *output, size_t at)
{
    for (size_t i = 0; i < output->mark_count; i++) {
        const struct mt_jinja_span *span = &output->marks[i];
        if (span->end > at && span->mark != MT_JINJA_TRUSTED) return span->start > at ? span->start - at : 0;
    }
    return output->bytes - at;
}

// ------------------------------------------------------------------ by rendering

/* Renderings a conversation may refuse to have cut short: no fault of the row's. */
static enum mt_status try_run(struct mt_chat_rendering *rendering, size_t turns, bool generate,
                              struct mt_jinja_output *output, bool *done)
{
    enum mt_status status = mt_chat_rendering_run(rendering, turns, generate, output);
    *done = status == MT_OK;
    return status == MT_ERR_USAGE || status == MT_ERR_FORMAT ? MT_OK : status;
}

/* "<think>" or "[/THINK]" at the beginning of a text. */
struct tag {
    const char *name;
    size_t name_bytes;
    size_t bytes; // of all of it
    bool closes;
};

static bool is_tag_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool read_tag(const char *text, size_t bytes, struct tag *tag)
{
    if (bytes < 3 || (text[0] != '<' && text[0] != '[')) return false;
    tag->closes = text[1] == '/';
    size_t first = tag->closes ? 2 : 1;
    size_t end = first;
    while (end < bytes && is_tag_letter(text[end])) end++;
    *tag = (struct tag){text + first, end - first, end + 1, tag->closes};
    return end > first && end < bytes && text[end] == (text[0] == '<' ? '>' : ']');
}

static size_t count_blanks(const char *text, size_t bytes)
{
    size_t count = 0;
    while (count < bytes && (text[count] == ' ' || text[count] == '\n')) count++;
    return count;
}

/*
 * Behind an empty thought that the template writes at `start`: two tags, or the second alone; other tags
 * ("<assistant>") may come first. What asks for an answer can begin as the first tag does ("<think>" and
 * "</think>").
 */
static size_t skip_empty_thought(const struct mt_jinja_output *whole, size_t start)
{
    size_t first = start;
    while (first > 0 && (is_tag_letter(whole->text[first - 1]) || whole->text[first - 1] == '/')) first--;
    bool within = first > 0 && (whole->text[first - 1] == '<' || whole->text[first - 1] == '[');
    first = within ? first - 1 : start;
    const char *text = whole->text + first;
    size_t bytes = trusted_bytes(whole, first);
    struct tag opened = {0}; // the last, none yet
    struct tag tag;
    size_t at = count_blanks(text, bytes);
    while (read_tag(text + at, bytes - at, &tag)) {
        bool fits = opened.name_bytes == tag.name_bytes && memcmp(opened.name, tag.name, tag.name_bytes) == 0;
        at += tag.bytes;
        at += count_blanks(text + at, bytes - at);
        if (tag.closes) return fits || opened.name == NULL ? first + at : start;
        opened = tag;
    }
    return start;
}

/*
 * Where a turn's answer begins if an earlier message is written otherwise once more follows: behind what asks
 * for an answer, counted from the last earlier word.
 */
static bool find_asked(const struct mt_jinja_output *prompt, const struct mt_jinja_output *whole, size_t turn,
                       size_t *start)
{
    size_t first = 0;
    size_t end = 0;
    size_t before = 0; // the end of the last earlier word
    if (!find_mark(whole, mt_turn_mark(turn), 0, &first, &end)) return false;
    for (size_t i = 0; i < whole->mark_count && whole->marks[i].end <= first; i++) {
        if (whole->marks[i].mark != MT_JINJA_TRUSTED) before = whole->marks[i].end;
    }
    size_t said = last_word(prompt);
    size_t alike = agreement(prompt, said, whole, before);
    *start = before + alike;
    return said > 0 && before > 0 && said < prompt->bytes && said + alike == prompt->bytes && *start <= first;
}

/* Where a turn's answer begins in the whole; *found: it does. */
static enum mt_status find_start(struct mt_chat_rendering *rendering, size_t turn,
                                 const struct mt_jinja_output *whole, size_t *start, bool *found,
                                 struct mt_example *example)
{
    struct mt_jinja_output prompt = {0};
    bool done = false;
    size_t end = 0;
    enum mt_status status = try_run(rendering, turn, true, &prompt, &done);
    if (status != MT_OK) return status;
    if (done) {
        size_t alike = agreement(&prompt, 0, whole, 0);
        bool all = alike == prompt.bytes;
        *found = all || alike > last_word(&prompt);
        *start = alike;
        if (*found && !all) example->other_prompts++;
        if (!*found) *found = find_asked(&prompt, whole, turn, start);
        mt_jinja_output_free(&prompt);
    }
    if (*found || rendering->asked.conversation->turns[turn].calls) return MT_OK;
    *found = find_mark(whole, mt_turn_mark(turn), 0, start, &end);
    return MT_OK;
}

/*
 * Moves the end of a turn's words to where the conversation would end with it, if the whole says that, too. A
 * template can repeat a turn's words later, as the name of a tool in front of what it answered.
 */
static bool find_last_words(const struct mt_jinja_output *ending, const struct mt_jinja_output *whole,
                            size_t turn, size_t from, size_t *words)
{
    const struct mt_jinja_span *last = NULL;
    for (size_t i = 0; i < ending->mark_count; i++) {
        if (ending->marks[i].mark == mt_turn_mark(turn)) last = &ending->marks[i];
    }
    for (size_t i = 0; last != NULL && last->end < ending->bytes && i < whole->mark_count; i++) {
        const struct mt_jinja_span *span = &whole->marks[i];
        size_t bytes = span->end - span->start;
        if (span->mark != last->mark || span->start < from || bytes != last->end - last->start ||
            memcmp(whole->text + span->start, ending->text + last->start, bytes) != 0)
            continue;
        if (last->end + agreement(ending, last->end, whole, span->end) < ending->bytes) continue;
        *words = span->end;
        return true;
    }
    return false;
}

/* Where what belongs to a turn ends at the latest: what the template writes behind it in any case. */
static enum mt_status find_end(struct mt_chat_rendering *rendering, size_t turn,
                               const struct mt_jinja_output *whole, struct mt_answer_span *span)
{
    struct mt_jinja_output ending = {0};
    size_t first = 0;
    size_t words = 0;
    bool done = false;
    span->words = span->start;
    (void)find_mark(whole, mt_turn_mark(turn), span->start, &first, &span->words);
    span->end = span->words + trusted_bytes(whole, span->words);
    if (turn + 1 == rendering->asked.conversation->count) return MT_OK;
    enum mt_status status = try_run(rendering, turn + 1, false, &ending, &done);
    if (status != MT_OK || !done) return status;
    if (find_last_words(&ending, whole, turn, span->start, &span->words))
        span->end = span->words + trusted_bytes(whole, span->words);
    if (!find_mark(&ending, mt_turn_mark(turn), 0, &first, &words)) words = agreement(&ending, 0, whole, 0);
    if (words > span->words && span->words == span->start) words = span->start; // an answer without words
    size_t alike = agreement(&ending, words, whole, span->words);
    if (span->words + alike < span->end) span->end = span->words + alike;
    mt_jinja_output_free(&ending);
    return MT_OK;
}

static bool is_blank(const struct mt_turn *turn)
{
    size_t i = 0;
    while (i < turn->bytes && strchr(" \t\r\n", turn->text[i]) != NULL) i++;
    return i == turn->bytes;
}

static enum mt_status find_turn(struct mt_example_maker *maker, struct mt_chat_rendering *rendering,
                                size_t turn, const struct mt_jinja_output *whole, struct mt_example *example)
{
    const struct mt_turn *said = &rendering->asked.conversation->turns[turn];
    struct mt_answer_span span = {0};
    bool found = false;
    size_t first = 0;
    size_t end = 0;
    enum mt_status status = MT_OK;
    // What the template leaves out cannot be learnt: a turn says something, and nothing of it is there.
    bool there = (is_blank(said) && !said->calls) || find_mark(whole, mt_turn_mark(turn), 0, &first, &end);
    if (there) status = find_start(rendering, turn, whole, &span.start, &found, example);
    if (status != MT_OK) return status;
    if (found) span.start = skip_empty_thought(whole, span.start);
    if (!found) {
        example->lost_turns++;
        return MT_OK;
    }
    status = find_end(rendering, turn, whole, &span);
    return status == MT_OK ? add_answer(maker, &span) : status;
}

// ------------------------------------------------------------------ by the template's marks

/* Whether a stretch is of a turn that is not to be trained on: what it says, or what was said before it. */
static bool is_context(const struct mt_chat_rendering *rendering, const struct mt_jinja_output *whole,
                       const struct mt_jinja_span *stretch)
{
    const struct mt_conversation *conversation = rendering->asked.conversation;
    size_t next = 0; // the turn behind the last one that spoke before
    for (size_t i = 0; i < whole->mark_count && whole->marks[i].start < stretch->end; i++) {
        unsigned mark = whole->marks[i].mark;
        if (mark == MT_JINJA_TRUSTED || mark == MT_TOOLS_MARK || mark > conversation->count) continue;
        if (whole->marks[i].end > stretch->start) return conversation->turns[mark - 1].context;
        next = mark;
    }
    return next < conversation->count && conversation->turns[next].context;
}

/* The turn of the stretch of that number, where every answer has one; NULL: some have more, or none. */
static const struct mt_turn *turn_of_stretch(const struct mt_conversation *conversation,
                                             const struct mt_jinja_output *output, size_t number)
{
    const struct mt_turn *found = NULL;
    size_t answers = 0;
    for (size_t i = 0; i < conversation->count; i++) {
        if (conversation->turns[i].role != MT_ROLE_ASSISTANT) continue;
        if (answers++ == number) found = &conversation->turns[i];
    }
    return answers == output->generation_count ? found : NULL;
}

/* Finds the answers of a conversation that was written out as `output`: maker->answers. */
static enum mt_status find_answers(struct mt_example_maker *maker, struct mt_chat_rendering *rendering,
                                   const struct mt_jinja_output *output, struct mt_example *example)
{
    const struct mt_conversation *conversation = rendering->asked.conversation;
    enum mt_status status = MT_OK;
    maker->answer_count = 0;
    if (mt_chat_rendering_has_generation(rendering)) {
        for (size_t i = 0; i < output->generation_count && status == MT_OK; i++) {
            const struct mt_jinja_span *stretch = &output->generations[i];
            const struct mt_answer_span span = {.start = stretch->start, .end = stretch->end, .exact = true};
            const struct mt_turn *turn = turn_of_stretch(conversation, output, i);
            bool context = turn != NULL ? turn->context : is_context(rendering, output, stretch);
            if (stretch->end > stretch->start && !context) status = add_answer(maker, &span);
        }
        return status;
    }
    for (size_t i = 0; i < conversation->count && status == MT_OK; i++) {
        const struct mt_turn *turn = &conversation->turns[i];
        if (turn->role == MT_ROLE_ASSISTANT && !turn->context)
            status = find_turn(maker, rendering, i, output, example);
    }
    return status;
}

// ------------------------------------------------------------------ ids and labels

static enum mt_status add_piece(struct mt_example_maker *maker, const struct mt_piece *piece)
{
    struct mt_piece_list *pieces = &maker->pieces;
    enum mt_status status = MT_OK;
    pieces->data = mt_list_reserve(maker->ctx, pieces->data, &pieces->capacity, sizeof *pieces->data,
                                   pieces->count + 1, &status);
    if (status == MT_OK) pieces->data[pieces->count++] = *piece;
    return status;
}

/* Text with a mark as a piece, or the tokens its bytes stand for. */
static enum mt_status add_marked(struct mt_example_maker *maker, unsigned mark, bool trained,
                                 const char *text, size_t bytes)
{
    struct mt_piece piece = {.kind = MT_PIECE_CONTENT, .trained = trained, .text = text, .bytes = bytes};
    enum mt_status status = MT_OK;
    switch (mark) {
    case MT_JINJA_TRUSTED: piece.kind = MT_PIECE_TEMPLATE; break;
    case MT_BOS_MARK: piece.kind = MT_PIECE_BOS; break;
    case MT_EOS_MARK: piece.kind = MT_PIECE_EOS; break;
    case MT_PAD_MARK: piece.kind = MT_PIECE_PAD; break;
    default: break;
    }
    size_t count = piece.kind == MT_PIECE_TEMPLATE || piece.kind == MT_PIECE_CONTENT ? 1 : bytes;
    for (size_t i = 0; i < count && status == MT_OK; i++) status = add_piece(maker, &piece);
    return status;
}

/* The pieces of a rendering's first `bytes` bytes, in maker->pieces; `apart`: cut where answers begin and
 * end. */
static enum mt_status make_pieces(struct mt_example_maker *maker, const struct mt_jinja_output *output,
                                  size_t bytes, bool apart)
{
    size_t answers = apart ? maker->answer_count : 0;
    size_t answer = 0; // the first that does not end before the piece
    enum mt_status status = MT_OK;
    maker->pieces.count = 0;
    for (size_t i = 0; i < output->mark_count && output->marks[i].start < bytes; i++) {
        const struct mt_jinja_span *span = &output->marks[i];
        size_t end = span->end < bytes ? span->end : bytes;
        for (size_t at = span->start, stop = 0; at < end && status == MT_OK; at = stop) {
            while (answer < answers && maker->answers[answer].end <= at) answer++;
            const struct mt_answer_span *next = answer < answers ? &maker->answers[answer] : NULL;
            bool trained = next != NULL && next->start <= at;
            stop = next == NULL ? end : trained ? next->end : next->start;
            if (stop > end) stop = end;
            status = add_marked(maker, span->mark, trained, output->text + at, stop - at);
        }
    }
    return status;
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
    enum mt_status status = make_pieces(maker, output, at, false);
    if (status == MT_OK) status = mt_example_encode(maker, &maker->head, NULL, NULL);
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
 * white space. A special token that only begins within is one that the template writes there because more
 * follows (gpt-oss' "<|end|>" for "<|return|>"): it is not learnt.
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
        bool other = start >= words && start < end && stop > end && special == 0;
        if ((within && next) || other) {
            if (mt_tokenizer_is_special(maker->options.tokenizer, id)) special = other ? start : stop;
        }
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

/* Labels of the tokens of all answers in a text that was encoded as a whole. */
static enum mt_status label_all(struct mt_example_maker *maker, const struct mt_jinja_output *output,
                                struct mt_example *example)
{
    enum mt_status status = MT_OK;
    if (maker->stream == NULL)
        status =
            mt_token_stream_create(maker->ctx, maker->options.tokenizer, MT_DECODE_PLAIN, &maker->stream);
    if (status == MT_OK) status = decode(maker, &example->ids, &maker->decoded, &maker->ends);
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

/* Where the last turn's words lie: from the first token that is trained on of its answer. */
static enum mt_status find_words(struct mt_example_maker *maker, const struct mt_jinja_output *output,
                                 size_t turn, const struct mt_example *example, struct mt_answer_place *found)
{
    size_t first = 0;
    size_t last = 0;
    size_t words = 0;
    size_t start = 0;
    *found = (struct mt_answer_place){0};
    if (maker->answer_count == 0 || !find_mark(output, mt_turn_mark(turn), 0, &first, &last)) return MT_OK;
    enum mt_status status = place(maker, output, maker->answers[maker->answer_count - 1].start, &start);
    if (status == MT_OK) status = place(maker, output, last, &words);
    if (status != MT_OK) return status;
    size_t from = 0;
    for (size_t i = 0; i < example->ids.count; i++) {
        size_t to = (size_t)maker->ends.data[i];
        bool inside = from < words && to > start; // as they are labelled
        if (inside && found->answered == 0) found->prompt = i;
        if (inside) found->answered = i + 1;
        from = to;
    }
    return MT_OK;
}

/* Ids and labels of what was written out, and where the words of its last turn lie. */
static enum mt_status encode_all(struct mt_example_maker *maker, const struct mt_chat_rendering *rendering,
                                 const struct mt_jinja_output *output, struct mt_example *example,
                                 struct mt_answer_place *found)
{
    bool apart = mt_chat_rendering_is_apart(rendering);
    enum mt_status status = make_pieces(maker, output, output->bytes, apart);
    if (status == MT_OK)
        status = mt_example_encode(maker, &example->ids, &example->labels, apart ? found : NULL);
    if (status != MT_OK || apart) return status;
    status = label_all(maker, output, example);
    if (status != MT_OK || found == NULL) return status;
    return find_words(maker, output, rendering->asked.conversation->count - 1, example, found);
}

/* A text learnt as a whole, as transformers encodes one, and eos. */
static enum mt_status encode_text(struct mt_example_maker *maker, const struct mt_row_field *text,
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

/* What a template that is not encoded apart has nothing to say about, nor one that marks no answer in a text.
 */
static enum mt_status write_text(struct mt_example_maker *maker, struct mt_chat_rendering *rendering,
                                 struct mt_example *example)
{
    struct mt_jinja_output output = {0};
    enum mt_status status = MT_OK;
    maker->answer_count = 0;
    if (mt_chat_rendering_is_apart(rendering)) status = mt_chat_rendering_run(rendering, 0, false, &output);
    if (status == MT_OK && output.bytes > 0) status = find_answers(maker, rendering, &output, example);
    if (status == MT_OK)
        status = maker->answer_count > 0 ? encode_all(maker, rendering, &output, example, NULL)
                                         : encode_text(maker, rendering->asked.text, example);
    mt_jinja_output_free(&output);
    return status;
}

static enum mt_status write_turns(struct mt_example_maker *maker, struct mt_chat_rendering *rendering,
                                  struct mt_example *example, struct mt_answer_place *place)
{
    struct mt_jinja_output output = {0};
    enum mt_status status =
        mt_chat_rendering_run(rendering, rendering->asked.conversation->count, false, &output);
    if (status != MT_OK) return status;
    status = find_answers(maker, rendering, &output, example);
    if (status == MT_OK) status = encode_all(maker, rendering, &output, example, place);
    if (status == MT_OK && !has_label(example))
        status = mt_fail(maker->ctx, MT_ERR_USAGE,
                         "none of the answers can be found in what %s writes; metier gives it the content of "
                         "a message as one text, never as a list of parts",
                         mt_chat_template_name(maker->options.template));
    mt_jinja_output_free(&output);
    return status;
}

static struct mt_chat_asked asked_of(const struct mt_example_maker *maker,
                                     const struct mt_conversation *conversation)
{
    return (struct mt_chat_asked){.template = maker->options.template,
                                  .conversation = conversation,
                                  .bos = maker->options.special.bos >= 0};
}

enum mt_status mt_example_write(struct mt_example_maker *maker, const struct mt_conversation *conversation,
                                const struct mt_row_field *text, struct mt_example *example,
                                struct mt_answer_place *place)
{
    struct mt_chat_rendering rendering = {0};
    struct mt_chat_asked asked = asked_of(maker, conversation);
    asked.text = text;
    enum mt_status status = mt_chat_rendering_begin(&asked, &rendering);
    if (status == MT_OK)
        status = text != NULL ? write_text(maker, &rendering, example)
                              : write_turns(maker, &rendering, example, place);
    mt_chat_rendering_end(&rendering);
    return status;
}

enum mt_status mt_example_prompt(struct mt_example_maker *maker, const struct mt_conversation *conversation,
                                 struct mt_id_list *ids)
{
    struct mt_chat_rendering rendering = {0};
    struct mt_jinja_output output = {0};
    const struct mt_chat_asked asked = asked_of(maker, conversation);
    enum mt_status status = mt_chat_rendering_begin(&asked, &rendering);
    bool apart = status == MT_OK && mt_chat_rendering_is_apart(&rendering);
    if (status == MT_OK) status = mt_chat_rendering_run(&rendering, conversation->count, true, &output);
    if (status == MT_OK && apart) status = find_answers(maker, &rendering, &output, NULL);
    if (status == MT_OK) status = make_pieces(maker, &output, output.bytes, apart);
    if (status == MT_OK) status = mt_example_encode(maker, ids, NULL, NULL);
    mt_jinja_output_free(&output);
    mt_chat_rendering_end(&rendering);
    return status;
}
