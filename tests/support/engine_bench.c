/* Small engines. */
#include "support/engine_bench.h"

#include <string.h>

#include "base/rng.h"
#include "support/drawn_adapter.h"

static const char *const everything[] = {"*", NULL};

static const struct mt_train_selection drawn = {
    .lora = everything, .lora_rank = 3, .lora_alpha = 6.0, .seed = 5};

enum mt_status engine_bench_open(struct engine_bench *bench, const struct workplace *place,
                                 const struct mt_allocator *allocator, int threads,
                                 const struct mt_engine_options *options, bool lora)
{
    struct mt_model_options model = {0};
    *bench = (struct engine_bench){0};
    mt_context_init(&bench->ctx, allocator);
    mt_engine_model_options(options, &model);
    if (lora) model.selection = drawn;
    enum mt_status status = mt_device_create(&bench->ctx, "cpu", threads, &bench->device);
    if (status == MT_OK) status = mt_model_open(bench->device, place->directory, &model, &bench->model);
    if (status == MT_OK && lora) drawn_adapter_fill(mt_model_params(bench->model), 0.3f);
    if (status == MT_OK) status = mt_engine_create(bench->model, options, &bench->engine);
    return status;
}

enum mt_status engine_bench_open_whole(struct engine_bench *bench, const struct workplace *place,
                                       int64_t positions, bool lora)
{
    struct mt_model_options options = {.tokens = positions, .sequences = 1, .positions = positions};
    if (lora) options.selection = drawn;
    enum mt_status status = mt_model_open(bench->device, place->directory, &options, &bench->whole);
    if (status == MT_OK && lora) drawn_adapter_fill(mt_model_params(bench->whole), 0.3f);
    return status;
}

void engine_bench_close(struct engine_bench *bench)
{
    mt_model_close(bench->whole);
    bench->whole = NULL;
    mt_engine_destroy(bench->engine);
    mt_model_close(bench->model);
    mt_device_destroy(bench->device);
    bench->engine = NULL;
    bench->model = NULL;
    bench->device = NULL;
}

static enum mt_status take_token(void *self, int32_t id, bool *stop)
{
    struct bench_generation *generation = self;
    (void)stop;
    if (generation->answered < BENCH_TOKENS) generation->answer[generation->answered++] = id;
    return MT_OK;
}

static enum mt_status take_end(void *self, enum mt_finish why)
{
    struct bench_generation *generation = self;
    generation->finished = true;
    generation->why = why;
    return MT_OK;
}

void bench_generation_make(struct bench_generation *generation, int64_t count, int64_t max_new,
                           int64_t vocabulary, uint64_t seed)
{
    memset(generation, 0, sizeof *generation);
    for (int64_t i = 0; i < count; i++)
        generation->prompt[i] = (int32_t)mt_rng_below(seed, 7, (uint64_t)i, (uint64_t)vocabulary);
    generation->request = (struct mt_generation){
        .ids = generation->prompt,
        .count = count,
        .number = seed,
        .sampling = {.top_p = 1.0, .repetition_penalty = 1.0},
        .max_new = max_new,
        .self = generation,
        .token = take_token,
        .finished = take_end,
    };
}

enum mt_status engine_bench_run(struct engine_bench *bench)
{
    bool working = true;
    enum mt_status status = MT_OK;
    while (status == MT_OK && working) status = mt_engine_step(bench->engine, &working);
    return status;
}
