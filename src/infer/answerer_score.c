/* Likelihoods of given continuations: many prefixes in the engine together, each computed once. */
#include <inttypes.h>

#include "infer/answerer_parts.h"

/*
 * What becomes one request of the engine: continuations of one question that follow the same ids. They are
 * all of the question's, unless the context is too small and each is cut at another place.
 */
struct group {
    struct scoring *scoring;
    size_t question;
    size_t first;  // of its continuations in the call's
    size_t prefix; // where its ids begin in the pool, and how many they are
    size_t prefix_count;
    struct mt_scoring request;
};

/* One call of score. */
struct scoring {
    struct mt_session_answerer *answerer;
    const struct mt_choice_question *questions;
    const struct mt_answer_listener *listener;
    struct mt_id_list prefix;              // of the question at hand
    struct mt_id_list pool;                // ids of all prefixes and continuations
    struct mt_continuation *continuations; // [total]
    size_t *begins;                        // [total]: where a continuation's ids begin in the pool
    size_t total, used;
    struct group *groups; // [total]
    size_t group_count;
    size_t *left; // [question_count]: groups that are not finished
    size_t question_count;
    size_t *ready; // [total]: groups that were finished in this step
    size_t ready_count;
};

// ------------------------------------------------------------------ encoding

static enum mt_status fail_in(const struct scoring *scoring, const struct mt_choice_question *question,
                              enum mt_status status)
{
    return mt_fail_within(scoring->answerer->ctx, status, "task %s, sample %s", question->task, question->id);
}

static enum mt_status append_ids(struct mt_id_list *pool, const int32_t *ids, size_t count)
{
    enum mt_status status = mt_id_list_reserve(pool, count);
    for (size_t i = 0; i < count && status == MT_OK; i++) status = mt_id_list_append(pool, ids[i]);
    return status;
}

static enum mt_status encode_prefix(struct scoring *scoring, const struct mt_choice_question *question)
{
    struct mt_session_answerer *answerer = scoring->answerer;
    scoring->prefix.count = 0;
    if (mt_session_talks(answerer->session))
        return answerer_encode(answerer, &question->prefix, &scoring->prefix);
    return mt_continuation_context(&answerer->maker, question->prefix.text, question->prefix.bytes,
                                   &scoring->prefix);
}

/* After a template the answer begins: nothing parts it from what came before. */
static enum mt_status encode_after_template(struct scoring *scoring, const struct mt_text *text)
{
    const struct mt_session *session = scoring->answerer->session;
    size_t spaces = 0;
    size_t before = scoring->pool.count;
    while (spaces < text->bytes && text->text[spaces] == ' ') spaces++;
    enum mt_status status =
        mt_tokenizer_encode(session->tokenizer, session->scratch, text->text + spaces, text->bytes - spaces,
                            MT_ENCODE_SPECIAL_TEXT_AS_TEXT, &scoring->pool);
    if (status == MT_OK && scoring->pool.count == before)
        return mt_fail(scoring->answerer->ctx, MT_ERR_USAGE, "a continuation has no tokens");
    return status;
}

static enum mt_status encode_continuation(struct scoring *scoring, const struct mt_choice_question *question,
                                          size_t number)
{
    const struct mt_text *text = &question->continuations[number];
    size_t begin = scoring->pool.count;
    enum mt_status status =
        mt_session_talks(scoring->answerer->session)
            ? encode_after_template(scoring, text)
            : mt_continuation_encode(&scoring->answerer->maker, question->prefix.text, question->prefix.bytes,
                                     text->text, text->bytes, &scoring->prefix, &scoring->pool);
    if (status != MT_OK) return status;
    scoring->begins[scoring->used] = begin;
    scoring->continuations[scoring->used] =
        (struct mt_continuation){.count = (int64_t)(scoring->pool.count - begin)};
    scoring->used++;
    return MT_OK;
}

/* Tokens the prefix loses at its beginning, so that the continuation just fits: its last one needs no room.
 */
static enum mt_status cut_for(const struct scoring *scoring, const struct mt_continuation *continuation,
                              size_t *cut)
{
    int64_t room = scoring->answerer->session->context + 1 - continuation->count;
    *cut = 0;
    if (room < 1)
        return mt_fail(scoring->answerer->ctx, MT_ERR_USAGE,
                       "a continuation has %" PRId64 " tokens, and there is room for %" PRId64,
                       continuation->count, scoring->answerer->session->context);
    if ((int64_t)scoring->prefix.count > room) *cut = scoring->prefix.count - (size_t)room;
    return MT_OK;
}

static enum mt_status group_continuations(struct scoring *scoring, size_t question, size_t first)
{
    enum mt_status status = MT_OK;
    size_t last_cut = 0;
    bool was_cut = false;
    for (size_t i = first; i < scoring->used && status == MT_OK; i++) {
        size_t cut = 0;
        status = cut_for(scoring, &scoring->continuations[i], &cut);
        if (status != MT_OK) break;
        was_cut = was_cut || cut > 0;
        if (i > first && cut == last_cut) {
            scoring->groups[scoring->group_count - 1].request.continuations++;
            continue;
        }
        last_cut = cut;
        uint64_t number = scoring->questions[question].number * MT_ANSWERER_NUMBERS + (i - first);
        scoring->groups[scoring->group_count++] =
            (struct group){.scoring = scoring,
                           .question = question,
                           .first = i,
                           .prefix = scoring->pool.count,
                           .prefix_count = scoring->prefix.count - cut,
                           .request = {.continuations = 1, .number = number}};
        scoring->left[question]++;
        status = append_ids(&scoring->pool, scoring->prefix.data + cut, scoring->prefix.count - cut);
    }
    if (was_cut) scoring->answerer->cut++;
    return status;
}

static enum mt_status encode_question(struct scoring *scoring, size_t number)
{
    const struct mt_choice_question *question = &scoring->questions[number];
    size_t first = scoring->used;
    enum mt_status status = encode_prefix(scoring, question);
    for (size_t i = 0; i < question->count && status == MT_OK; i++)
        status = encode_continuation(scoring, question, i);
    if (status == MT_OK) status = group_continuations(scoring, number, first);
    return status == MT_OK ? MT_OK : fail_in(scoring, question, status);
}

// ------------------------------------------------------------------ computing

static enum mt_status group_finished(void *self)
{
    struct group *group = self;
    struct scoring *scoring = group->scoring;
    scoring->ready[scoring->ready_count++] = (size_t)(group - scoring->groups);
    return MT_OK;
}

/* The pool no longer moves: requests point into it. */
static enum mt_status add_requests(struct scoring *scoring)
{
    struct mt_engine *engine = scoring->answerer->session->engine;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < scoring->used; i++)
        scoring->continuations[i].ids = scoring->pool.data + scoring->begins[i];
    for (size_t i = 0; i < scoring->group_count && status == MT_OK; i++) {
        struct group *group = &scoring->groups[i];
        group->request.ids = scoring->pool.data + group->prefix;
        group->request.count = (int64_t)group->prefix_count;
        group->request.continuation = scoring->continuations + group->first;
        group->request.self = group;
        group->request.finished = group_finished;
        status = mt_engine_add_scoring(engine, &group->request);
        if (status != MT_OK) return fail_in(scoring, &scoring->questions[group->question], status);
    }
    return status;
}

/* Questions whose last group came. Continuations lie in the order of the questions. */
static enum mt_status hand_out(struct scoring *scoring)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < scoring->ready_count && status == MT_OK; i++) {
        const struct group *group = &scoring->groups[scoring->ready[i]];
        const struct mt_choice_question *question = &scoring->questions[group->question];
        scoring->left[group->question]--;
        if (scoring->left[group->question] > 0) continue;
        const struct group *first = group;
        while (first > scoring->groups && first[-1].question == group->question) first--;
        for (size_t k = 0; k < question->count; k++) {
            const struct mt_continuation *continuation = &scoring->continuations[first->first + k];
            question->scores[k] = (struct mt_choice_score){.log_likelihood = continuation->log_probability,
                                                           .greedy = continuation->greedy};
        }
        status = scoring->listener->answered(scoring->listener->self, group->question);
    }
    scoring->ready_count = 0;
    return status;
}

static enum mt_status compute(struct scoring *scoring)
{
    struct mt_engine *engine = scoring->answerer->session->engine;
    const struct mt_answer_listener *listener = scoring->listener;
    int64_t before = answerer_tokens(scoring->answerer, 0);
    enum mt_status status = add_requests(scoring);
    bool working = true;
    while (status == MT_OK && working &&
           listener->go_on(listener->self, answerer_tokens(scoring->answerer, before))) {
        status = mt_engine_step(engine, &working);
        if (status == MT_OK) status = hand_out(scoring);
    }
    mt_engine_forget(engine); // what a stop or a failure left there
    return status;
}

// ------------------------------------------------------------------ the call

static enum mt_status take_memory(struct scoring *scoring)
{
    struct mt_context *ctx = scoring->answerer->ctx;
    void *memory[5] = {NULL};
    size_t total = scoring->total;
    enum mt_status status = mt_allocate_array(ctx, total, sizeof *scoring->continuations, &memory[0]);
    if (status == MT_OK) status = mt_allocate_array(ctx, total, sizeof *scoring->begins, &memory[1]);
    if (status == MT_OK) status = mt_allocate_array(ctx, total, sizeof *scoring->groups, &memory[2]);
    if (status == MT_OK) status = mt_allocate_array(ctx, total, sizeof *scoring->ready, &memory[3]);
    if (status == MT_OK)
        status = mt_allocate_array(ctx, scoring->question_count, sizeof *scoring->left, &memory[4]);
    scoring->continuations = memory[0];
    scoring->begins = memory[1];
    scoring->groups = memory[2];
    scoring->ready = memory[3];
    scoring->left = memory[4];
    return status;
}

static void give_back(struct scoring *scoring)
{
    struct mt_context *ctx = scoring->answerer->ctx;
    mt_release(ctx, scoring->continuations, scoring->total * sizeof *scoring->continuations);
    mt_release(ctx, scoring->begins, scoring->total * sizeof *scoring->begins);
    mt_release(ctx, scoring->groups, scoring->total * sizeof *scoring->groups);
    mt_release(ctx, scoring->ready, scoring->total * sizeof *scoring->ready);
    mt_release(ctx, scoring->left, scoring->question_count * sizeof *scoring->left);
    mt_id_list_free(&scoring->prefix);
    mt_id_list_free(&scoring->pool);
}

enum mt_status answerer_score(void *self, const struct mt_choice_question *questions, size_t count,
                              const struct mt_answer_listener *listener)
{
    struct mt_session_answerer *answerer = self;
    struct scoring scoring = {.answerer = answerer,
                              .questions = questions,
                              .listener = listener,
                              .prefix = {.ctx = answerer->ctx},
                              .pool = {.ctx = answerer->ctx},
                              .question_count = count};
    for (size_t i = 0; i < count; i++) scoring.total += questions[i].count;
    enum mt_status status = take_memory(&scoring);
    for (size_t i = 0; i < count && status == MT_OK; i++) status = encode_question(&scoring, i);
    if (status == MT_OK) status = compute(&scoring);
    give_back(&scoring);
    return status;
}
