/* Questions to the engine: answers in writing, and likelihoods of given continuations. */
#include "infer/answerer.h"

#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "text/plain_text.h"

#define BATCH_PER_SLOT      8 // so that few slots are empty while the last answers of a batch are written
#define JOBS_PER_SLOT       2 // requests that wait beside those being computed
#define DRAWING_TEMPERATURE 0.8
#define LAST_TOKENS         16 // of a prompt: what asks for the answer
#define ARENA_BYTES         ((size_t)1 << 16)

struct mt_session_answerer {
    struct mt_context *ctx;     // borrowed
    struct mt_session *session; // borrowed
    struct mt_session_answerer_options options;
    struct mt_continuation_maker maker;
    // What questions of the task begin with, as text and as ids: encoded when it changes.
    struct mt_byte_list shared_text;
    struct mt_id_list shared_ids;
};

/* Tokens the engine has computed since a call began. */
static int64_t tokens_since(const struct mt_session_answerer *answerer, int64_t before)
{
    struct mt_engine_counts counts = mt_engine_counts(answerer->session->engine);
    return counts.prompt_tokens + counts.generated_tokens - before;
}

/* The ids of a prompt, appended: a plain text, or what a user says. */
static enum mt_status encode(struct mt_session_answerer *answerer, const struct mt_text *prompt,
                             struct mt_id_list *ids)
{
    return mt_session_encode_said(answerer->session, prompt->text, prompt->bytes, ids);
}

// ------------------------------------------------------------------ what questions share

/* The ids of a prompt that goes on, or the context of continuations. */
typedef enum mt_status (*encode_fn)(struct mt_session_answerer *answerer, const struct mt_text *text,
                                    struct mt_id_list *ids);

static enum mt_status encode_shared(struct mt_session_answerer *answerer, struct mt_text text,
                                    encode_fn encode_text)
{
    struct mt_byte_list *known = &answerer->shared_text;
    if (known->count == text.bytes && memcmp(known->data, text.text, text.bytes) == 0) return MT_OK;
    known->count = 0;
    answerer->shared_ids.count = 0;
    enum mt_status status = encode_text(answerer, &text, &answerer->shared_ids);
    return status == MT_OK ? mt_byte_list_append(known, text.text, text.bytes) : status;
}

/*
 * How many of a prompt's ids another request may have computed. Where tokens are counted it is those of the
 * text that all questions of the task begin with, but for the first question, with which they count: that
 * follows from the question alone, so figures do not depend on what is computed when, or where.
 */
static enum mt_status count_common(struct mt_session_answerer *answerer, struct mt_text shared,
                                   uint64_t question, const struct mt_id_list *ids, encode_fn encode_text,
                                   int64_t *common)
{
    *common = INT64_MAX;
    if (!answerer->options.watched) return MT_OK;
    *common = 0;
    if (question == 0 || shared.bytes == 0) return MT_OK;
    enum mt_status status = encode_shared(answerer, shared, encode_text);
    const struct mt_id_list *known = &answerer->shared_ids;
    size_t same = 0;
    while (status == MT_OK && same < known->count && same < ids->count &&
           known->data[same] == ids->data[same])
        same++;
    *common = (int64_t)same;
    return status;
}

static enum mt_status fail_in(const struct mt_session_answerer *answerer, const char *task, const char *id,
                              enum mt_status status)
{
    return mt_fail_within(answerer->ctx, status, "task %s, sample %s", task, id);
}

// ------------------------------------------------------------------ answers in writing

/* One answer on its way. */
struct answer_job {
    bool busy;
    bool finished;
    size_t place; // question · samples + sample
    struct mt_id_list ids;
    struct mt_answer answer;
    struct mt_answer_end end;
    struct mt_generation request;
};

/* One call of generate. */
struct writing {
    struct mt_session_answerer *answerer;
    const struct mt_question *questions;
    const struct mt_answer_options *options;
    const struct mt_answer_listener *listener;
    struct mt_byte_list *answers;
    size_t *left; // [questions]: answers still missing
    size_t question_count, samples;
    size_t total, started, written; // answers
    struct answer_job *jobs;
    size_t job_count;
    struct mt_arena arena; // of `left` and `jobs`
};

static enum mt_status take_token(void *self, int32_t id, bool *stop)
{
    struct answer_job *job = self;
    enum mt_status status = mt_answer_push(&job->answer, id);
    *stop = job->answer.stopped;
    return status;
}

static enum mt_status take_end(void *self, enum mt_finish why)
{
    struct answer_job *job = self;
    job->finished = true;
    job->end.cut = why == MT_FINISH_LENGTH;
    return mt_answer_end(&job->answer);
}

/* Cuts a prompt from the left until the answer has room: at most half of the context. */
static int64_t cut_prompt(struct writing *writing, const struct mt_id_list *ids)
{
    int64_t context = writing->answerer->session->context;
    int64_t room = writing->options->max_tokens < context / 2 ? writing->options->max_tokens : context / 2;
    int64_t cut = (int64_t)ids->count - (context - room);
    return cut > 0 ? cut : 0;
}

/* Whether a prompt ends within thoughts, which its template has begun: as text, in its last few tokens. */
static enum mt_status find_thinking(const struct mt_session_answerer *answerer, const struct mt_id_list *ids,
                                    bool *opened)
{
    struct mt_byte_list text = {.ctx = answerer->ctx};
    size_t last = ids->count < LAST_TOKENS ? ids->count : LAST_TOKENS;
    *opened = false;
    if (!mt_session_talks(answerer->session)) return MT_OK;
    enum mt_status status = mt_tokenizer_decode(answerer->session->tokenizer, answerer->ctx,
                                                ids->data + ids->count - last, last, 0, &text);
    if (status == MT_OK) *opened = mt_text_is_thinking(mt_text_in(&text));
    mt_byte_list_free(&text);
    return status;
}

static struct mt_sampling sampling_of(const struct writing *writing)
{
    const struct mt_session_answerer_options *options = &writing->answerer->options;
    double several = writing->samples > 1 ? DRAWING_TEMPERATURE : 0.0;
    return (struct mt_sampling){.temperature = options->temperature >= 0.0 ? options->temperature : several,
                                .top_p = options->top_p > 0.0 ? options->top_p : 1.0,
                                .repetition_penalty = 1.0,
                                .seed = writing->options->seed + options->seed};
}

static enum mt_status start(struct writing *writing, struct answer_job *job)
{
    const struct mt_session *session = writing->answerer->session;
    const struct mt_question *question = &writing->questions[writing->started / writing->samples];
    enum mt_status status = mt_answer_clear(&job->answer);
    job->place = writing->started;
    job->finished = false;
    job->ids.count = 0;
    int64_t common = 0;
    struct mt_text shared = {.text = question->prompt.text, .bytes = question->shared};
    if (status == MT_OK) status = encode(writing->answerer, &question->prompt, &job->ids);
    if (status == MT_OK)
        status = count_common(writing->answerer, shared, question->number, &job->ids, encode, &common);
    job->end = (struct mt_answer_end){0};
    if (status == MT_OK && question->ends != NULL)
        status = find_thinking(writing->answerer, &job->ids, &job->end.opened);
    if (status != MT_OK) return fail_in(writing->answerer, question->task, question->id, status);
    int64_t cut = cut_prompt(writing, &job->ids);
    job->end.prompt_cut = cut > 0;
    if (cut > 0 && writing->answerer->options.watched) common = 0;
    if (job->place % writing->samples > 0) common = INT64_MAX;
    job->request = (struct mt_generation){.ids = job->ids.data + cut,
                                          .count = (int64_t)job->ids.count - cut,
                                          .common = common,
                                          .number = question->number * MT_ANSWERER_NUMBERS +
                                                    job->place % writing->samples,
                                          .sampling = sampling_of(writing),
                                          .max_new = writing->options->max_tokens,
                                          .stop_ids = session->stop_ids.data,
                                          .stop_count = session->stop_ids.count,
                                          .self = job,
                                          .token = take_token,
                                          .finished = take_end};
    status = mt_engine_add_generation(session->engine, &job->request);
    if (status != MT_OK) return fail_in(writing->answerer, question->task, question->id, status);
    job->busy = true;
    writing->started++;
    return MT_OK;
}

static enum mt_status finish(struct writing *writing, struct answer_job *job)
{
    size_t question = job->place / writing->samples;
    const struct mt_byte_list *text = &job->answer.text;
    enum mt_status status = mt_byte_list_append(&writing->answers[job->place], text->data, text->count);
    struct mt_answer_end *ends = writing->questions[question].ends;
    if (ends != NULL) ends[job->place % writing->samples] = job->end;
    job->busy = false;
    writing->written++;
    writing->left[question]--;
    if (status != MT_OK || writing->left[question] > 0) return status;
    return writing->listener->answered(writing->listener->self, question);
}

static enum mt_status write_all(struct writing *writing)
{
    struct mt_engine *engine = writing->answerer->session->engine;
    const struct mt_answer_listener *listener = writing->listener;
    int64_t before = tokens_since(writing->answerer, 0);
    enum mt_status status = MT_OK;
    bool working = true;
    while (status == MT_OK && writing->written < writing->total &&
           listener->go_on(listener->self, tokens_since(writing->answerer, before))) {
        for (size_t i = 0; i < writing->job_count && status == MT_OK && writing->started < writing->total;
             i++) {
            if (!writing->jobs[i].busy) status = start(writing, &writing->jobs[i]);
        }
        if (status == MT_OK) status = mt_engine_step(engine, &working);
        for (size_t i = 0; i < writing->job_count && status == MT_OK; i++) {
            struct answer_job *job = &writing->jobs[i];
            if (job->busy && job->finished) status = finish(writing, job);
        }
    }
    // Also what a stop or a failure left there: the jobs will be gone.
    mt_engine_forget(engine);
    return status;
}

static enum mt_status open_jobs(struct writing *writing)
{
    struct mt_context *ctx = writing->answerer->ctx;
    const char *const *stops = writing->options->stop;
    enum mt_status status = MT_OK;
    if (stops != NULL && stops[0] == NULL) stops = NULL;
    writing->left = mt_arena_array(&writing->arena, writing->question_count, sizeof *writing->left, &status);
    writing->jobs = mt_arena_array(&writing->arena, writing->job_count, sizeof *writing->jobs, &status);
    for (size_t i = 0; i < writing->question_count && status == MT_OK; i++)
        writing->left[i] = writing->samples;
    for (size_t i = 0; i < writing->job_count && status == MT_OK; i++) {
        writing->jobs[i].ids.ctx = ctx;
        status =
            mt_answer_create(ctx, writing->answerer->session->tokenizer, stops, &writing->jobs[i].answer);
    }
    return status;
}

static void close_jobs(struct writing *writing)
{
    for (size_t i = 0; writing->jobs != NULL && i < writing->job_count; i++) {
        mt_answer_free(&writing->jobs[i].answer);
        mt_id_list_free(&writing->jobs[i].ids);
    }
    mt_arena_free(&writing->arena);
}

static enum mt_status generate(void *self, const struct mt_question *questions, size_t count,
                               const struct mt_answer_options *options,
                               const struct mt_answer_listener *listener, struct mt_byte_list *answers)
{
    struct mt_session_answerer *answerer = self;
    struct writing writing = {.answerer = answerer,
                              .questions = questions,
                              .options = options,
                              .listener = listener,
                              .answers = answers,
                              .question_count = count,
                              .samples = (size_t)options->samples};
    answerer->shared_text.count = 0; // the other call encodes texts otherwise
    mt_arena_init(&writing.arena, answerer->ctx, ARENA_BYTES);
    writing.total = count * writing.samples;
    writing.job_count = (size_t)answerer->session->slots * JOBS_PER_SLOT;
    if (writing.job_count > writing.total) writing.job_count = writing.total;
    enum mt_status status = open_jobs(&writing);
    if (status == MT_OK) status = write_all(&writing);
    close_jobs(&writing);
    return status;
}

// ------------------------------------------------------------------ likelihoods

/*
 * What becomes one request of the engine: continuations of one question that follow the same ids. They are
 * all of the question's, unless the context is too small and each is cut at another place, or a template's
 * words before an answer are encoded together with its beginning.
 */
struct score_group {
    struct scoring *scoring;
    size_t question;
    size_t first;  // of its continuations in the call's
    size_t prefix; // where its ids begin in the pool, and how many they are
    size_t prefix_count;
    struct mt_scoring request;
};

/* Where a continuation and what stands before it lie in the pool. */
struct lying {
    size_t begin;
    size_t prefix, prefix_count;
    bool cut; // the prefix lost its beginning
};

/* One call of score. */
struct scoring {
    struct mt_session_answerer *answerer;
    const struct mt_choice_question *questions;
    const struct mt_answer_listener *listener;
    struct mt_arena arena;                 // of the arrays
    struct mt_id_list prefix;              // of the continuation at hand
    struct mt_id_list whole;               // the same with its continuation
    int64_t common;                        // of it, ids that others may have computed
    struct mt_id_list pool;                // ids of all prefixes and continuations
    struct mt_continuation *continuations; // [total]
    struct lying *lies;                    // [total]: where they lie in the pool
    size_t total, used;
    struct score_group *groups; // [total]
    size_t group_count;
    size_t *left; // [question_count]: groups that are not finished
    size_t question_count;
    size_t *ready; // [total]: groups that were finished in this step
    size_t ready_count;
};

static enum mt_status append_ids(struct mt_id_list *pool, const int32_t *ids, size_t count)
{
    enum mt_status status = mt_id_list_reserve(pool, count);
    for (size_t i = 0; i < count && status == MT_OK; i++) status = mt_id_list_append(pool, ids[i]);
    return status;
}

static enum mt_status encode_context(struct mt_session_answerer *answerer, const struct mt_text *text,
                                     struct mt_id_list *ids)
{
    if (mt_session_talks(answerer->session)) return encode(answerer, text, ids);
    return mt_continuation_context(&answerer->maker, text->text, text->bytes, ids);
}

/* What stands before the next continuation: once in the pool where it is the same as before the last one. */
static enum mt_status keep_prefix(struct scoring *scoring, bool first)
{
    struct lying *lies = &scoring->lies[scoring->used];
    const struct mt_id_list *prefix = &scoring->prefix;
    if (!first) {
        *lies = lies[-1];
        size_t bytes = prefix->count * sizeof *prefix->data;
        bool same = lies->prefix_count == prefix->count;
        if (same && (bytes == 0 || memcmp(scoring->pool.data + lies->prefix, prefix->data, bytes) == 0))
            return MT_OK;
    }
    *lies = (struct lying){.prefix = scoring->pool.count, .prefix_count = prefix->count};
    return append_ids(&scoring->pool, prefix->data, prefix->count);
}

/* Through a template: prompt and answer as they are trained on. */
static enum mt_status encode_trained(struct scoring *scoring, const struct mt_choice_question *question,
                                     size_t number)
{
    struct mt_answer_place place;
    struct mt_id_list *whole = &scoring->whole;
    enum mt_status status = mt_session_encode_answer(scoring->answerer->session, question->prefix,
                                                     question->continuations[number], whole, &place);
    scoring->prefix.count = 0;
    if (status == MT_OK) status = append_ids(&scoring->prefix, whole->data, place.prompt);
    if (status == MT_OK) status = keep_prefix(scoring, number == 0);
    scoring->lies[scoring->used].begin = scoring->pool.count;
    return status == MT_OK
               ? append_ids(&scoring->pool, whole->data + place.prompt, place.answered - place.prompt)
               : status;
}

static enum mt_status encode_plain(struct scoring *scoring, const struct mt_choice_question *question,
                                   size_t number)
{
    const struct mt_text *text = &question->continuations[number];
    struct mt_continuation_maker *maker = &scoring->answerer->maker;
    enum mt_status status = MT_OK;
    if (number == 0) status = encode_context(scoring->answerer, &question->prefix, &scoring->prefix);
    if (status == MT_OK) status = keep_prefix(scoring, number == 0);
    scoring->lies[scoring->used].begin = scoring->pool.count;
    if (status != MT_OK) return status;
    return mt_continuation_encode(maker, question->prefix.text, question->prefix.bytes, text->text,
                                  text->bytes, &scoring->prefix, &scoring->pool);
}

static enum mt_status encode_continuation(struct scoring *scoring, const struct mt_choice_question *question,
                                          size_t number)
{
    struct mt_text shared = {.text = question->prefix.text, .bytes = question->shared};
    enum mt_status status = mt_session_talks(scoring->answerer->session)
                                ? encode_trained(scoring, question, number)
                                : encode_plain(scoring, question, number);
    if (status == MT_OK && number == 0)
        status = count_common(scoring->answerer, shared, question->number, &scoring->prefix, encode_context,
                              &scoring->common);
    if (status != MT_OK) return status;
    size_t begin = scoring->lies[scoring->used].begin;
    scoring->continuations[scoring->used++] =
        (struct mt_continuation){.count = (int64_t)(scoring->pool.count - begin)};
    return MT_OK;
}

/* Tokens a prefix loses at its beginning, so that the continuation just fits: its last one needs no room. */
static enum mt_status cut_for(const struct scoring *scoring, size_t number, size_t *cut)
{
    int64_t count = scoring->continuations[number].count;
    int64_t prefix = (int64_t)scoring->lies[number].prefix_count;
    int64_t room = scoring->answerer->session->context + 1 - count;
    *cut = 0;
    if (room < 1)
        return mt_fail(scoring->answerer->ctx, MT_ERR_USAGE,
                       "a continuation has %" PRId64 " tokens, and there is room for %" PRId64, count,
                       scoring->answerer->session->context);
    if (prefix > room) *cut = (size_t)(prefix - room);
    return MT_OK;
}

static enum mt_status group_continuations(struct scoring *scoring, size_t question, size_t first)
{
    enum mt_status status = MT_OK;
    for (size_t i = first; i < scoring->used && status == MT_OK; i++) {
        size_t cut = 0;
        status = cut_for(scoring, i, &cut);
        if (status != MT_OK) break;
        scoring->lies[i].cut = cut > 0;
        size_t prefix = scoring->lies[i].prefix + cut;
        struct score_group *last = i > first ? &scoring->groups[scoring->group_count - 1] : NULL;
        if (last != NULL && last->prefix == prefix) {
            last->request.continuations++;
            continue;
        }
        uint64_t number = scoring->questions[question].number * MT_ANSWERER_NUMBERS + (i - first);
        bool counted = scoring->answerer->options.watched;
        int64_t common = counted && (cut > 0 || scoring->lies[i].prefix != scoring->lies[first].prefix)
                             ? 0
                             : scoring->common;
        scoring->groups[scoring->group_count++] =
            (struct score_group){.scoring = scoring,
                                 .question = question,
                                 .first = i,
                                 .prefix = prefix,
                                 .prefix_count = scoring->lies[i].prefix_count - cut,
                                 .request = {.continuations = 1, .common = common, .number = number}};
        scoring->left[question]++;
    }
    return status;
}

static enum mt_status encode_question(struct scoring *scoring, size_t number)
{
    const struct mt_choice_question *question = &scoring->questions[number];
    size_t first = scoring->used;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < question->count && status == MT_OK; i++)
        status = encode_continuation(scoring, question, i);
    if (status == MT_OK) status = group_continuations(scoring, number, first);
    return status == MT_OK ? MT_OK : fail_in(scoring->answerer, question->task, question->id, status);
}

static enum mt_status group_finished(void *self)
{
    struct score_group *group = self;
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
        scoring->continuations[i].ids = scoring->pool.data + scoring->lies[i].begin;
    for (size_t i = 0; i < scoring->group_count && status == MT_OK; i++) {
        struct score_group *group = &scoring->groups[i];
        group->request.ids = scoring->pool.data + group->prefix;
        group->request.count = (int64_t)group->prefix_count;
        group->request.continuation = scoring->continuations + group->first;
        group->request.self = group;
        group->request.finished = group_finished;
        status = mt_engine_add_scoring(engine, &group->request);
        const struct mt_choice_question *question = &scoring->questions[group->question];
        if (status != MT_OK) return fail_in(scoring->answerer, question->task, question->id, status);
    }
    return status;
}

/* Questions whose last group came. Continuations lie in the order of the questions. */
static enum mt_status hand_out(struct scoring *scoring)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < scoring->ready_count && status == MT_OK; i++) {
        const struct score_group *group = &scoring->groups[scoring->ready[i]];
        const struct mt_choice_question *question = &scoring->questions[group->question];
        scoring->left[group->question]--;
        if (scoring->left[group->question] > 0) continue;
        const struct score_group *first = group;
        while (first > scoring->groups && first[-1].question == group->question) first--;
        for (size_t k = 0; k < question->count; k++) {
            const struct mt_continuation *continuation = &scoring->continuations[first->first + k];
            question->scores[k] = (struct mt_choice_score){.log_likelihood = continuation->log_probability,
                                                           .greedy = continuation->greedy,
                                                           .prompt_cut = scoring->lies[first->first + k].cut};
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
    int64_t before = tokens_since(scoring->answerer, 0);
    enum mt_status status = add_requests(scoring);
    bool working = true;
    while (status == MT_OK && working &&
           listener->go_on(listener->self, tokens_since(scoring->answerer, before))) {
        status = mt_engine_step(engine, &working);
        if (status == MT_OK) status = hand_out(scoring);
    }
    mt_engine_forget(engine); // what a stop or a failure left there
    return status;
}

static enum mt_status take_memory(struct scoring *scoring)
{
    size_t total = scoring->total;
    enum mt_status status = MT_OK;
    scoring->continuations = mt_arena_array(&scoring->arena, total, sizeof *scoring->continuations, &status);
    scoring->lies = mt_arena_array(&scoring->arena, total, sizeof *scoring->lies, &status);
    scoring->groups = mt_arena_array(&scoring->arena, total, sizeof *scoring->groups, &status);
    scoring->ready = mt_arena_array(&scoring->arena, total, sizeof *scoring->ready, &status);
    scoring->left = mt_arena_array(&scoring->arena, scoring->question_count, sizeof *scoring->left, &status);
    return status;
}

static enum mt_status score(void *self, const struct mt_choice_question *questions, size_t count,
                            const struct mt_answer_listener *listener)
{
    struct mt_session_answerer *answerer = self;
    struct scoring scoring = {.answerer = answerer,
                              .questions = questions,
                              .listener = listener,
                              .prefix = {.ctx = answerer->ctx},
                              .whole = {.ctx = answerer->ctx},
                              .pool = {.ctx = answerer->ctx},
                              .question_count = count};
    answerer->shared_text.count = 0;
    answerer->maker.beginning = answerer->session->beginning; // the form may have become another
    mt_arena_init(&scoring.arena, answerer->ctx, ARENA_BYTES);
    for (size_t i = 0; i < count; i++) scoring.total += questions[i].count;
    enum mt_status status = take_memory(&scoring);
    for (size_t i = 0; i < count && status == MT_OK; i++) status = encode_question(&scoring, i);
    if (status == MT_OK) status = compute(&scoring);
    mt_arena_free(&scoring.arena);
    mt_id_list_free(&scoring.prefix);
    mt_id_list_free(&scoring.whole);
    mt_id_list_free(&scoring.pool);
    return status;
}

// ------------------------------------------------------------------ the answerer

enum mt_status mt_session_answerer_create(struct mt_session *session,
                                          const struct mt_session_answerer_options *options,
                                          struct mt_session_answerer **answerer)
{
    struct mt_context *ctx = session->ctx;
    void *memory = NULL;
    *answerer = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **answerer, &memory);
    if (status != MT_OK) return status;
    struct mt_session_answerer *made = memory;
    *made = (struct mt_session_answerer){.ctx = ctx,
                                         .session = session,
                                         .options = *options,
                                         .shared_text = {.ctx = ctx},
                                         .shared_ids = {.ctx = ctx}};
    mt_continuation_maker_init(ctx, session->tokenizer, session->scratch, session->beginning, &made->maker);
    *answerer = made;
    return MT_OK;
}

void mt_session_answerer_destroy(struct mt_session_answerer *answerer)
{
    if (answerer == NULL) return;
    mt_continuation_maker_free(&answerer->maker);
    mt_byte_list_free(&answerer->shared_text);
    mt_id_list_free(&answerer->shared_ids);
    mt_release(answerer->ctx, answerer, sizeof *answerer);
}

static enum mt_status rest(void *self, enum mt_status status)
{
    const struct mt_session_answerer *answerer = self;
    return mt_engine_lend(answerer->session->engine, status);
}

struct mt_answerer mt_session_answerer_face(struct mt_session_answerer *answerer)
{
    return (struct mt_answerer){.self = answerer,
                                .name = answerer->options.name,
                                .batch = (size_t)answerer->session->slots * BATCH_PER_SLOT,
                                .generate = generate,
                                .score = score,
                                .rest = rest};
}
