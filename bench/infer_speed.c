/*
 * How fast a model reads prompts and writes answers.
 *
 *     infer_speed DIR [THREADS] [PROMPT] [NEW] [ROUNDS] [SLOTS[:PASS] ...]
 *
 * For each number of slots (1, 4 and 16 by default), with batches of up to PASS tokens of prompts, so many
 * prompts of PROMPT tokens (512) are read, and NEW tokens (32) written for each, ROUNDS times (3) after a
 * prompt that only brings the weights into memory. Printed are tokens a second, medians over the rounds: of
 * prompts until every answer has its first token, though answers that began earlier are written on meanwhile,
 * and of answers from then on.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"
#include "infer/engine.h"
#include "median.h"

#define MOST_SLOTS  256
#define MOST_ROUNDS 99

struct bench {
    int64_t slots, prompt, answer;
    int64_t pass; // tokens of prompts in a batch; 0: the engine's default
    int32_t *ids;
    int64_t begun;    // sequences that have a first token
    int64_t tokens;   // of all answers so far
    double all_begun; // when the last sequence had its first token
    int64_t by_then;  // tokens of all answers at that time
};

/* One sequence: others write on while its prompt is still being read. */
struct sequence {
    struct bench *bench;
    bool begun;
    struct mt_generation request;
};

static enum mt_status take_token(void *self, int32_t id, bool *stop)
{
    struct sequence *sequence = self;
    struct bench *bench = sequence->bench;
    (void)id;
    (void)stop;
    bench->tokens++;
    if (sequence->begun) return MT_OK;
    sequence->begun = true;
    bench->begun++;
    bench->all_begun = mt_clock_seconds();
    bench->by_then = bench->tokens;
    return MT_OK;
}

/* Tokens a second of one round. */
struct rates {
    double read;
    double written;
};

static enum mt_status measure(struct mt_engine *engine, struct bench *bench, struct rates *rates)
{
    static struct sequence sequences[MOST_SLOTS];
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < bench->slots; i++) {
        sequences[i] = (struct sequence){.bench = bench};
        sequences[i].request = (struct mt_generation){.ids = bench->ids + i * bench->prompt,
                                                      .count = bench->prompt,
                                                      .sampling = {.top_p = 1.0, .repetition_penalty = 1.0},
                                                      .max_new = bench->answer,
                                                      .self = &sequences[i],
                                                      .token = take_token};
        status = mt_engine_add_generation(engine, &sequences[i].request);
    }
    double start = mt_clock_seconds();
    for (bool working = true; status == MT_OK && working;) status = mt_engine_step(engine, &working);
    double end = mt_clock_seconds();
    if (status != MT_OK) return status;
    rates->read = (double)(bench->slots * bench->prompt) / (bench->all_begun - start);
    rates->written = (double)(bench->tokens - bench->by_then) / (end - bench->all_begun);
    return MT_OK;
}

static enum mt_status measure_rounds(struct mt_engine *engine, const struct bench *bench, int64_t rounds)
{
    double read[MOST_ROUNDS];
    double written[MOST_ROUNDS];
    struct rates rates;
    struct bench warm = *bench;
    warm.slots = 1;
    warm.answer = 2;
    enum mt_status status = measure(engine, &warm, &rates);
    for (int64_t i = 0; status == MT_OK && i < rounds; i++) {
        struct bench round = *bench;
        status = measure(engine, &round, &rates);
        read[i] = rates.read;
        written[i] = rates.written;
    }
    if (status != MT_OK) return status;
    printf("%3lld slots, passes of %lld: %8.1f tok/s read, %8.1f tok/s written\n", (long long)bench->slots,
           (long long)bench->pass, bench_median(read, (int)rounds), bench_median(written, (int)rounds));
    return MT_OK;
}

static enum mt_status run(struct mt_context *ctx, const char *directory, int threads, int64_t rounds,
                          struct bench *bench)
{
    struct mt_engine_options options = {
        .slots = bench->slots, .positions = bench->prompt + bench->answer, .pass_tokens = bench->pass};
    struct mt_model_options model_options = {0};
    struct mt_device *device = NULL;
    struct mt_model *model = NULL;
    struct mt_engine *engine = NULL;
    mt_engine_model_options(&options, &model_options);
    enum mt_status status = mt_device_create(ctx, "cpu", threads, &device);
    if (status == MT_OK) status = mt_model_open(device, directory, &model_options, &model);
    if (status == MT_OK) status = mt_engine_create(model, &options, &engine);
    if (status == MT_OK) {
        uint64_t vocabulary = (uint64_t)mt_model_description(model)->vocabulary;
        for (int64_t i = 0; i < bench->slots * bench->prompt; i++)
            bench->ids[i] = (int32_t)mt_rng_below(1, 2, (uint64_t)i, vocabulary);
        status = measure_rounds(engine, bench, rounds);
    }
    mt_engine_destroy(engine);
    mt_model_close(model);
    mt_device_destroy(device);
    return status;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    static const char *const usual[] = {"1", "4", "16"};
    mt_context_init(&ctx, NULL);
    if (argc < 2) {
        (void)fprintf(stderr,
                      "usage: infer_speed DIR [THREADS] [PROMPT] [NEW] [ROUNDS] [SLOTS[:PASS] ...]\n");
        return 2;
    }
    int threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    struct bench sizes = {.prompt = argc > 3 ? strtol(argv[3], NULL, 10) : 512,
                          .answer = argc > 4 ? strtol(argv[4], NULL, 10) : 32};
    int64_t rounds = argc > 5 ? strtol(argv[5], NULL, 10) : 3;
    int count = argc > 6 ? argc - 6 : 3;
    if (rounds < 1 || rounds > MOST_ROUNDS) return 2;
    for (int i = 0; i < count; i++) {
        struct bench bench = sizes;
        char *end = NULL;
        bench.slots = strtol(argc > 6 ? argv[6 + i] : usual[i], &end, 10);
        if (*end == ':') bench.pass = strtol(end + 1, NULL, 10);
        if (bench.slots < 1 || bench.slots > MOST_SLOTS || bench.prompt < 1 || bench.answer < 2) return 2;
        bench.ids = calloc((size_t)(bench.slots * bench.prompt), sizeof *bench.ids);
        if (bench.ids == NULL) return 1;
        enum mt_status status = run(&ctx, argv[1], threads, rounds, &bench);
        free(bench.ids);
        if (status == MT_OK) continue;
        (void)fprintf(stderr, "infer_speed: %s\n", ctx.message);
        return 1;
    }
    return 0;
}
