/* Engines over small models, and requests that remember what they got. */
#ifndef MT_TESTS_ENGINE_BENCH_H
#define MT_TESTS_ENGINE_BENCH_H

#include "infer/engine.h"
#include "support/small_models.h"

struct engine_bench {
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_model *model;
    struct mt_engine *engine;
    struct mt_model *whole; // the same model without a cache; NULL before engine_bench_open_whole
};

#define BENCH_TOKENS 96

/* A generation and what came of it. */
struct bench_generation {
    struct mt_generation request;
    int32_t prompt[BENCH_TOKENS];
    int32_t answer[BENCH_TOKENS];
    int64_t answered;
    bool finished;
    enum mt_finish why;
};

/* Opens the workplace's model, with LoRA on everything if `lora`; MT_OK, or the message is in bench->ctx. */
enum mt_status engine_bench_open(struct engine_bench *bench, const struct workplace *place,
                                 const struct mt_allocator *allocator, int threads,
                                 const struct mt_engine_options *options, bool lora);

/* Opens the same model for whole sequences of the engine's length. */
enum mt_status engine_bench_open_whole(struct engine_bench *bench, const struct workplace *place,
                                       int64_t positions, bool lora);
void engine_bench_close(struct engine_bench *bench);

/* A greedy generation from a drawn prompt of `count` ids. */
void bench_generation_make(struct bench_generation *generation, int64_t count, int64_t max_new,
                           int64_t vocabulary, uint64_t seed);

/* Steps until nothing is left to do. */
enum mt_status engine_bench_run(struct engine_bench *bench);

#endif
