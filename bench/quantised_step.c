/*
 * What quantised weights cost a training step on the CPU.
 * Forward and backward over one packed batch with weights as stored and in each format, in turns, the one
 * before the other and then behind it, LoRA on attention, router and experts.
 *
 *     quantised_step DIR [tokens] [sequence length] [rank] [rounds] [threads] [format ...]
 *
 * Prints a line for each format: seconds of a step and of its processors over those of weights as stored,
 * medians over rounds of the ratio in a round, and of the fastest steps; and the bytes of weights likewise.
 * Beside other work processors' seconds are the ones to read. bench/quantised-speed makes a model and runs
 * it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"
#include "lora_step.h"
#include "median.h"

enum { MOST_ROUNDS = 64 };

struct side {
    struct mt_device *device;
    struct mt_model *model;
    double seconds[MOST_ROUNDS], processor[MOST_ROUNDS];
};

static double processor_seconds(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static enum mt_status open_side(struct mt_context *ctx, const char *directory, const struct lora_step *step,
                                int threads, const char *format, struct side *side)
{
    static const char *const adapted[] = {"model.layers.*", NULL};
    struct mt_objective_config method;
    struct mt_model_options options = lora_step_options(step, adapted, &method);
    options.selection.lora_alpha = 32.0;
    enum mt_status status = mt_objective_config_method(ctx, "paper", &method);
    if (status == MT_OK) status = mt_quantise_parse(ctx, format, &options.selection.quantise);
    if (status == MT_OK) status = mt_device_create(ctx, "cpu", threads, &side->device);
    return status == MT_OK ? mt_model_open(side->device, directory, &options, &side->model) : status;
}

static void close_side(struct side *side)
{
    mt_model_close(side->model);
    mt_device_destroy(side->device);
}

static enum mt_status one_step(struct side *side, const struct mt_batch *batch, int round)
{
    struct mt_model_loss loss;
    double start = mt_clock_seconds();
    double processor = processor_seconds();
    enum mt_status status = mt_params_zero_gradients(mt_model_params(side->model));
    if (status == MT_OK) status = mt_model_forward(side->model, batch, &loss);
    if (status == MT_OK) status = mt_model_backward(side->model);
    if (round < 0) return status; // warms up
    side->seconds[round] = mt_clock_seconds() - start;
    side->processor[round] = processor_seconds() - processor;
    return status;
}

/* Frozen weights: where they lie, but for the copies that are there for a moment. */
static double weight_bytes(const struct side *side)
{
    struct mt_model_bytes bytes = mt_model_bytes(side->model);
    return (double)bytes.mapped + (double)bytes.copies + (double)bytes.codes;
}

static double least(const double *values, int count)
{
    double best = values[0];
    for (int i = 1; i < count; i++) best = values[i] < best ? values[i] : best;
    return best;
}

static void print_line(const char *format, const struct side *plain, const struct side *quantised, int rounds)
{
    double ratio[MOST_ROUNDS];
    double processor[MOST_ROUNDS];
    double seconds[MOST_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        ratio[i] = quantised->seconds[i] / plain->seconds[i];
        processor[i] = quantised->processor[i] / plain->processor[i];
        seconds[i] = quantised->seconds[i];
    }
    printf("%-10s %8.3f s a step  %6.3f of its time as stored (fastest steps %.3f)  %6.3f of its processors' "
           "(%.3f)  %6.3f of its weights' bytes (%.3f GB, unpacked %.3f GB)\n",
           format, bench_median(seconds, rounds), bench_median(ratio, rounds),
           least(quantised->seconds, rounds) / least(plain->seconds, rounds), bench_median(processor, rounds),
           least(quantised->processor, rounds) / least(plain->processor, rounds),
           weight_bytes(quantised) / weight_bytes(plain), weight_bytes(quantised) / 1e9,
           (double)mt_model_bytes(quantised->model).unpacked / 1e9);
    (void)fflush(stdout);
}

static enum mt_status compare(struct mt_context *ctx, const char *directory, const struct lora_step *step,
                              int threads, const char *format)
{
    struct side plain = {0};
    struct side quantised = {0};
    struct step_batch packed = {0};
    enum mt_status status = open_side(ctx, directory, step, threads, "none", &plain);
    if (status == MT_OK) status = open_side(ctx, directory, step, threads, format, &quantised);
    if (status == MT_OK) status = step_batch_open(ctx, step, &packed);
    uint64_t vocabulary = status == MT_OK ? (uint64_t)mt_model_description(plain.model)->vocabulary : 1;
    for (int64_t i = 0; status == MT_OK && i < 2 * step->tokens; i++)
        packed.ids[i] = (int32_t)mt_rng_below(1, 2, (uint64_t)i, vocabulary);
    for (int round = -1; status == MT_OK && round < step->rounds; round++) {
        bool first = round % 2 == 0; // what else runs, and what caches hold, favours neither
        status = one_step(first ? &quantised : &plain, &packed.batch, round);
        if (status == MT_OK) status = one_step(first ? &plain : &quantised, &packed.batch, round);
    }
    if (status == MT_OK) print_line(format, &plain, &quantised, step->rounds);
    if (packed.ids != NULL) step_batch_close(ctx, &packed);
    close_side(&quantised);
    close_side(&plain);
    return status;
}

static int number(int argc, char **argv, int place, int standard)
{
    return argc > place ? (int)strtol(argv[place], NULL, 10) : standard;
}

int main(int argc, char **argv)
{
    static const char *const every[] = {"fp8", "int8", "nf4", "nf4,single", "mxfp4"};
    if (argc < 2) {
        (void)fprintf(stderr,
                      "usage: quantised_step DIR [tokens] [length] [rank] [rounds] [threads] [format ...]\n");
        return 2;
    }
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct lora_step step = {0};
    step.tokens = number(argc, argv, 2, 4096);
    step.length = number(argc, argv, 3, 512);
    step.rank = number(argc, argv, 4, 32);
    step.rounds = number(argc, argv, 5, 3);
    if (step.rounds < 1 || step.rounds > MOST_ROUNDS) step.rounds = 3;
    int threads = number(argc, argv, 6, 0);
    enum mt_status status = MT_OK;
    for (int i = 7; i < argc && status == MT_OK; i++)
        status = compare(&ctx, argv[1], &step, threads, argv[i]);
    for (size_t i = 0; argc <= 7 && i < sizeof every / sizeof every[0] && status == MT_OK; i++)
        status = compare(&ctx, argv[1], &step, threads, every[i]);
    if (status != MT_OK) (void)fprintf(stderr, "quantised_step: %s\n", ctx.message);
    return status == MT_OK ? 0 : 1;
}
