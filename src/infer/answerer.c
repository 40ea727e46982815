/* The answerer's memory, and its answers in writing. */
#include "infer/answerer.h"

#include "infer/answerer_parts.h"

#define BATCH_PER_SLOT      8 // so that few slots are empty while the last answers of a batch are written
#define JOBS_PER_SLOT       2 // requests that wait beside those being computed
#define DRAWING_TEMPERATURE 0.8

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
    *made = (struct mt_session_answerer){.ctx = ctx, .session = session, .options = *options};
    mt_continuation_maker_init(ctx, session->tokenizer, session->scratch, session->beginning, &made->maker);
    *answerer = made;
    return MT_OK;
}

void mt_session_answerer_destroy(struct mt_session_answerer *answerer)
{
    if (answerer == NULL) return;
    mt_continuation_maker_free(&answerer->maker);
    mt_release(answerer->ctx, answerer, sizeof *answerer);
}

struct mt_answerer mt_session_answerer_face(struct mt_session_answerer *answerer)
{
    return (struct mt_answerer){.self = answerer,
                                .name = answerer->options.name,
                                .batch = (size_t)answerer->session->slots * BATCH_PER_SLOT,
                                .generate = answerer_generate,
                                .score = answerer_score};
}

int64_t mt_session_answerer_cut(const struct mt_session_answerer *answerer)
{
    return answerer->cut;
}

int64_t answerer_tokens(const struct mt_session_answerer *answerer, int64_t before)
{
    struct mt_engine_counts counts = mt_engine_counts(answerer->session->engine);
    return counts.prompt_tokens + counts.generated_tokens - before;
}

enum mt_status answerer_encode(struct mt_session_answerer *answerer, const struct mt_text *prompt,
                               struct mt_id_list *ids)
{
    return mt_session_encode_said(answerer->session, prompt->text, prompt->bytes, ids);
}

// ------------------------------------------------------------------ answers in writing

/* One answer on its way. */
struct job {
    bool busy;
    bool finished;
    size_t place; // question · samples + sample
    struct mt_id_list ids;
    struct mt_answer answer;
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
    struct job *jobs;
    size_t job_count;
};

static enum mt_status take_token(void *self, int32_t id, bool *stop)
{
    struct job *job = self;
    enum mt_status status = mt_answer_push(&job->answer, id);
    *stop = job->answer.stopped;
    return status;
}

static enum mt_status take_end(void *self, enum mt_finish why)
{
    (void)why;
    struct job *job = self;
    job->finished = true;
    return mt_answer_end(&job->answer);
}

/* Cuts a prompt from the left until the answer has room: at most half of the context. */
static int64_t cut_prompt(struct writing *writing, const struct mt_id_list *ids)
{
    int64_t context = writing->answerer->session->context;
    int64_t room = writing->options->max_tokens < context / 2 ? writing->options->max_tokens : context / 2;
    int64_t cut = (int64_t)ids->count - (context - room);
    if (cut <= 0) return 0;
    writing->answerer->cut++;
    return cut;
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

static enum mt_status start(struct writing *writing, struct job *job)
{
    const struct mt_session *session = writing->answerer->session;
    const struct mt_question *question = &writing->questions[writing->started / writing->samples];
    enum mt_status status = mt_answer_clear(&job->answer);
    job->place = writing->started;
    job->finished = false;
    job->ids.count = 0;
    if (status == MT_OK) status = answerer_encode(writing->answerer, &question->prompt, &job->ids);
    if (status != MT_OK)
        return mt_fail_within(writing->answerer->ctx, status, "task %s, sample %s", question->task,
                              question->id);
    int64_t cut = cut_prompt(writing, &job->ids);
    job->request = (struct mt_generation){.ids = job->ids.data + cut,
                                          .count = (int64_t)job->ids.count - cut,
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
    if (status != MT_OK)
        return mt_fail_within(writing->answerer->ctx, status, "task %s, sample %s", question->task,
                              question->id);
    job->busy = true;
    writing->started++;
    return MT_OK;
}

static enum mt_status finish(struct writing *writing, struct job *job)
{
    size_t question = job->place / writing->samples;
    const struct mt_byte_list *text = &job->answer.text;
    enum mt_status status = mt_byte_list_append(&writing->answers[job->place], text->data, text->count);
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
    int64_t before = answerer_tokens(writing->answerer, 0);
    enum mt_status status = MT_OK;
    bool working = true;
    while (status == MT_OK && writing->written < writing->total &&
           listener->go_on(listener->self, answerer_tokens(writing->answerer, before))) {
        for (size_t i = 0; i < writing->job_count && status == MT_OK && writing->started < writing->total;
             i++) {
            if (!writing->jobs[i].busy) status = start(writing, &writing->jobs[i]);
        }
        if (status == MT_OK) status = mt_engine_step(engine, &working);
        for (size_t i = 0; i < writing->job_count && status == MT_OK; i++) {
            struct job *job = &writing->jobs[i];
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
    void *memory = NULL;
    const char *const *stops = writing->options->stop;
    if (stops != NULL && stops[0] == NULL) stops = NULL;
    enum mt_status status = mt_allocate_array(ctx, writing->question_count, sizeof *writing->left, &memory);
    writing->left = memory;
    if (status != MT_OK) return status;
    for (size_t i = 0; i < writing->question_count; i++) writing->left[i] = writing->samples;
    status = mt_allocate_array(ctx, writing->job_count, sizeof *writing->jobs, &memory);
    if (status != MT_OK) return status;
    writing->jobs = memory;
    for (size_t i = 0; i < writing->job_count && status == MT_OK; i++) {
        writing->jobs[i].ids.ctx = ctx;
        status =
            mt_answer_create(ctx, writing->answerer->session->tokenizer, stops, &writing->jobs[i].answer);
    }
    return status;
}

static void close_jobs(struct writing *writing)
{
    struct mt_context *ctx = writing->answerer->ctx;
    for (size_t i = 0; writing->jobs != NULL && i < writing->job_count; i++) {
        mt_answer_free(&writing->jobs[i].answer);
        mt_id_list_free(&writing->jobs[i].ids);
    }
    mt_release(ctx, writing->jobs, writing->job_count * sizeof *writing->jobs);
    mt_release(ctx, writing->left, writing->question_count * sizeof *writing->left);
}

enum mt_status answerer_generate(void *self, const struct mt_question *questions, size_t count,
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
    writing.total = count * writing.samples;
    writing.job_count = (size_t)answerer->session->slots * JOBS_PER_SLOT;
    if (writing.job_count > writing.total) writing.job_count = writing.total;
    enum mt_status status = open_jobs(&writing);
    if (status == MT_OK) status = write_all(&writing);
    close_jobs(&writing);
    return status;
}
