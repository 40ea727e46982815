/* metier/generate.h: prompts in, answers out. */
#include "metier/generate.h"

#include "infer/session.h"
#include "library/lm.h"
#include "ops/choose.h"

#define MAX_NEW           256
#define ARENA_BLOCK_BYTES 4096

struct mt_generator {
    struct mt_context *ctx; // borrowed
    struct mt_session session;
};

enum mt_status mt_generator_open(struct mt_context *ctx, const char *folder,
                                 const struct mt_generator_options *options, struct mt_generator **generator)
{
    const struct mt_generator_options none = {0};
    const struct mt_generator_options *asked = options != NULL ? options : &none;
    struct mt_session_options session = {.directory = folder,
                                         .adapter = asked->adapter,
                                         .device = asked->device != NULL ? asked->device : MT_DEVICE_AUTO,
                                         .threads = asked->threads,
                                         .slots = asked->together,
                                         .context = asked->context};
    const struct mt_form_request request = {.model = folder,
                                            .adapter = asked->adapter,
                                            .given = asked->chat_template,
                                            .by = "the options say so"};
    struct mt_text_form form;
    struct mt_arena arena;
    void *memory = NULL;
    enum mt_status status = mt_given(NULL, "mt_generator_open", "ctx", ctx);
    if (status == MT_OK) status = mt_given(ctx, "mt_generator_open", "generator", generator);
    if (status != MT_OK) return status;
    *generator = NULL;
    status = mt_given(ctx, "mt_generator_open", "folder", folder);
    if (status != MT_OK) return status;
    if (asked->threads < 0 || asked->together < 0 || asked->context < 0)
        return mt_fail(ctx, MT_ERR_USAGE, "threads, together and context must not be negative");
    status = mt_device_choose(ctx, NULL, session.device, MT_USE_FAST, &session.device);
    if (status == MT_OK) status = mt_allocate_array(ctx, 1, sizeof **generator, &memory);
    if (status != MT_OK) return status;
    struct mt_generator *made = memory;
    made->ctx = ctx;
    mt_arena_init(&arena, ctx, ARENA_BLOCK_BYTES);
    status = mt_library_templates(&arena, &session.templates);
    if (status == MT_OK) status = mt_text_form_find(&arena, &request, &form);
    session.form = &form;
    if (status == MT_OK) status = mt_session_open(ctx, &session, &made->session);
    mt_arena_free(&arena);
    if (status == MT_OK)
        *generator = made;
    else
        mt_generator_close(made);
    return status;
}

void mt_generator_close(struct mt_generator *generator)
{
    if (generator == NULL) return;
    mt_session_close(&generator->session);
    mt_release(generator->ctx, generator, sizeof *generator);
}

struct mt_generate_request mt_generate_prepare(const struct mt_generator *generator, const char *prompt,
                                               size_t bytes)
{
    if (generator == NULL) return (struct mt_generate_request){.prompt = prompt, .bytes = bytes};
    struct mt_sampling sampling = mt_session_sampling(&generator->session);
    int64_t said = generator->session.generation.max_new_tokens;
    return (struct mt_generate_request){.prompt = prompt,
                                        .bytes = bytes,
                                        .temperature = sampling.temperature,
                                        .top_p = sampling.top_p,
                                        .top_k = sampling.top_k,
                                        .repetition_penalty = sampling.repetition_penalty,
                                        .max_new = said > 0 && said < MAX_NEW ? said : MAX_NEW};
}

// ------------------------------------------------------------------ answering

/* One request on its way. */
struct job {
    struct mt_generate_request *request; // borrowed
    struct mt_generation generation;
    struct mt_id_list ids;
    struct mt_answer answer;
    size_t told; // bytes of the answer
    bool left;   // the caller wants no more
};

static enum mt_status tell(struct job *job)
{
    struct mt_generate_request *request = job->request;
    size_t told = job->told;
    if (request->text == NULL || job->answer.settled <= told) return MT_OK;
    job->told = job->answer.settled;
    return request->text(request->self, (const char *)job->answer.text.data + told, job->told - told,
                         &job->left);
}

static enum mt_status take_token(void *self, int32_t id, bool *stop)
{
    struct job *job = self;
    enum mt_status status = mt_answer_push(&job->answer, id);
    if (status == MT_OK) status = tell(job);
    *stop = job->answer.stopped || job->left;
    return status;
}

static enum mt_status take_end(void *self, enum mt_finish why)
{
    struct job *job = self;
    struct mt_generate_request *request = job->request;
    enum mt_status status = mt_answer_end(&job->answer);
    if (status == MT_OK && !job->left) status = tell(job);
    request->tokens = (int64_t)job->answer.ids.count;
    request->end = job->answer.stopped || job->left ? MT_GENERATE_STOPPED
                   : why == MT_FINISH_LENGTH        ? MT_GENERATE_LENGTH
                                                    : MT_GENERATE_ENDED;
    return status;
}

static enum mt_status add(struct mt_generator *generator, struct job *job, uint64_t number)
{
    struct mt_session *session = &generator->session;
    struct mt_generate_request *request = job->request;
    job->ids.ctx = generator->ctx;
    enum mt_status status = mt_given(generator->ctx, "mt_generate", "prompt", request->prompt);
    if (status == MT_OK)
        status = mt_answer_create(generator->ctx, session->tokenizer, request->stops, &job->answer);
    if (status == MT_OK) status = mt_session_encode_said(session, request->prompt, request->bytes, &job->ids);
    if (status != MT_OK) return status;
    request->prompt_tokens = (int64_t)job->ids.count;
    job->generation = (struct mt_generation){.ids = job->ids.data,
                                             .count = (int64_t)job->ids.count,
                                             .common = INT64_MAX,
                                             .number = number,
                                             .sampling = {.temperature = request->temperature,
                                                          .top_p = request->top_p,
                                                          .top_k = request->top_k,
                                                          .repetition_penalty = request->repetition_penalty,
                                                          .seed = request->seed},
                                             .max_new = request->max_new,
                                             .stop_ids = session->stop_ids.data,
                                             .stop_count = session->stop_ids.count,
                                             .self = job,
                                             .token = take_token,
                                             .finished = take_end};
    return mt_engine_add_generation(session->engine, &job->generation);
}

enum mt_status mt_generate(struct mt_generator *generator, struct mt_generate_request *requests, size_t count)
{
    void *memory = NULL;
    bool working = true;
    enum mt_status status = mt_given(NULL, "mt_generate", "generator", generator);
    if (status == MT_OK && count > 0) status = mt_given(generator->ctx, "mt_generate", "requests", requests);
    if (status != MT_OK) return status;
    struct mt_engine *engine = generator->session.engine;
    status = mt_allocate_array(generator->ctx, count, sizeof(struct job), &memory);
    if (status != MT_OK) return status;
    struct job *jobs = memory;
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        jobs[i].request = &requests[i];
        status = add(generator, &jobs[i], i);
        if (status != MT_OK) status = mt_fail_within(generator->ctx, status, "request %zu", i);
    }
    while (status == MT_OK && working) status = mt_engine_step(engine, &working);
    mt_engine_forget(engine);
    for (size_t i = 0; i < count; i++) {
        mt_answer_free(&jobs[i].answer);
        if (jobs[i].ids.ctx != NULL) mt_id_list_free(&jobs[i].ids);
    }
    mt_release(generator->ctx, jobs, count * sizeof *jobs);
    return status;
}
