/*
 * Which of what a template in Jinja wrote are answers.
 *
 * A template with {% generation %} marks says so itself. For others, an answer begins where the rendering of
 * the turns before it, with what asks for an answer, ends, if that is how the whole begins. Where it is not
 * (a template that asks with "<think>" and writes answers without; one that drops earlier thoughts when more
 * follows), it begins where the two part, if no earlier message lies behind that place; else with its own
 * first word, which the marks of the output tell. It ends with its last word and what the template writes
 * behind that: as much of it as stands there also when the conversation ends with this turn.
 */
#include <string.h>

#include "text/example_parts.h"

static enum mt_status add_answer(struct mt_example_maker *maker, const struct mt_answer_span *span)
{
    void *answers = maker->answers;
    enum mt_status status = mt_list_reserve(maker->ctx, &answers, &maker->answer_capacity,
                                            sizeof *maker->answers, maker->answer_count + 1);
    maker->answers = answers;
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
        mt_jinja_output_free(&prompt);
    }
    if (*found || rendering->conversation->turns[turn].calls) return MT_OK;
    *found = find_mark(whole, mt_turn_mark(turn), 0, start, &end);
    return MT_OK;
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
    if (turn + 1 == rendering->conversation->count) return MT_OK;
    enum mt_status status = try_run(rendering, turn + 1, false, &ending, &done);
    if (status != MT_OK || !done) return status;
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
    const struct mt_turn *said = &rendering->conversation->turns[turn];
    struct mt_answer_span span = {0};
    bool found = false;
    size_t first = 0;
    size_t end = 0;
    enum mt_status status = MT_OK;
    // What the template leaves out cannot be learnt: a turn says something, and nothing of it is there.
    bool there = (is_blank(said) && !said->calls) || find_mark(whole, mt_turn_mark(turn), 0, &first, &end);
    if (there) status = find_start(rendering, turn, whole, &span.start, &found, example);
    if (status != MT_OK) return status;
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
    const struct mt_conversation *conversation = rendering->conversation;
    size_t next = 0; // the turn behind the last one that spoke before
    for (size_t i = 0; i < whole->mark_count && whole->marks[i].start < stretch->end; i++) {
        unsigned mark = whole->marks[i].mark;
        if (mark == MT_JINJA_TRUSTED || mark == MT_TOOLS_MARK || mark > conversation->count) continue;
        if (whole->marks[i].end > stretch->start) return conversation->turns[mark - 1].context;
        next = mark;
    }
    return next < conversation->count && conversation->turns[next].context;
}

enum mt_status mt_example_find_answers(struct mt_example_maker *maker, struct mt_chat_rendering *rendering,
                                       const struct mt_jinja_output *output, struct mt_example *example)
{
    const struct mt_conversation *conversation = rendering->conversation;
    enum mt_status status = MT_OK;
    maker->answer_count = 0;
    if (mt_chat_rendering_has_generation(rendering)) {
        for (size_t i = 0; i < output->generation_count && status == MT_OK; i++) {
            const struct mt_jinja_span *stretch = &output->generations[i];
            const struct mt_answer_span span = {.start = stretch->start, .end = stretch->end, .exact = true};
            if (stretch->end == stretch->start || is_context(rendering, output, stretch)) continue;
            status = add_answer(maker, &span);
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
