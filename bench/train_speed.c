/*
 * What a training run costs in addition to forward, backward and optimizer.
 * The whole loop (data, forward, backward, optimizer, watching, log, a checkpoint at the end of every turn)
 * against forward, backward and optimizer alone, in turns.
 *
 *     train_speed TEMPLATES CONFIG.yaml TURNS STEPS [key=value ...]
 *
 * TURNS times STEPS steps of each kind. Prints the ratio of tokens per second, medians over turns.
 * bench/train-speed runs it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "median.h"
#include "train/trainer_internal.h"

enum { MOST_TURNS = 64 };

/* Tokens per second, by the clock and by what the process itself computed, which neighbours disturb less. */
struct rate {
    double clock, processor;
};

struct ratios {
    double clock[MOST_TURNS], processor[MOST_TURNS];
    double whole, bare; // tokens per second of the last turn
};

static double processor_seconds(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static enum mt_status compute_bare(struct mt_trainer *trainer, const struct mt_step *step, uint64_t number)
{
    double norm = 0.0;
    bool clipped = false;
    enum mt_status status = mt_params_zero_gradients(trainer->tensors.params);
    for (size_t i = 0; status == MT_OK && i < step->micro_batches; i++) {
        struct mt_model_loss loss;
        struct mt_batch batch = {.step = number,
                                 .training = true,
                                 .progress = 1.0,
                                 .step_labels = step->answer_tokens,
                                 .step_tokens = step->tokens};
        mt_batches_micro(trainer->corpus.training, i, &batch);
        status = mt_model_forward(trainer->model, &batch, &loss);
        if (status == MT_OK) status = mt_model_backward(trainer->model);
    }
    if (status == MT_OK) status = mt_optimizer_norm(&trainer->optimizer, &norm);
    if (status != MT_OK) return status;
    return mt_optimizer_step(&trainer->optimizer, number, 1e-6, norm, &clipped);
}

/* Tokens per second of so many bare steps; their data is prepared before the clock runs. */
static enum mt_status run_bare(struct mt_trainer *trainer, int steps, struct rate *rate)
{
    double seconds = 0.0;
    double processor = 0.0;
    double tokens = 0.0;
    for (int i = 0; i < steps; i++) {
        struct mt_step step;
        enum mt_status status = mt_batches_next(trainer->corpus.training, &step);
        if (status != MT_OK) return status;
        double began = mt_clock_seconds();
        double computed = processor_seconds();
        status = compute_bare(trainer, &step, trainer->numbers.step + 1);
        if (status != MT_OK) return status;
        seconds += mt_clock_seconds() - began;
        processor += processor_seconds() - computed;
        tokens += (double)step.tokens;
    }
    *rate = (struct rate){.clock = tokens / seconds, .processor = tokens / processor};
    return MT_OK;
}

static enum mt_status run_whole(struct mt_trainer *trainer, int steps, struct rate *rate)
{
    struct mt_run_outcome outcome;
    uint64_t before = trainer->numbers.tokens;
    double began = mt_clock_seconds();
    double computed = processor_seconds();
    trainer->options.stop_after = trainer->numbers.step + (uint64_t)steps;
    enum mt_status status = mt_trainer_run(trainer, &outcome);
    double tokens = (double)(trainer->numbers.tokens - before);
    *rate = (struct rate){.clock = tokens / (mt_clock_seconds() - began),
                          .processor = tokens / (processor_seconds() - computed)};
    return status;
}

static enum mt_status measure(struct mt_trainer *trainer, int turns, int steps, struct ratios *ratios)
{
    struct rate whole;
    struct rate bare;
    enum mt_status status = run_bare(trainer, 2, &bare); // pages and caches
    for (int turn = 0; status == MT_OK && turn < turns; turn++) {
        status = run_whole(trainer, steps, &whole);
        if (status == MT_OK) status = run_bare(trainer, steps, &bare);
        if (status != MT_OK) return status;
        ratios->clock[turn] = whole.clock / bare.clock;
        ratios->processor[turn] = whole.processor / bare.processor;
        ratios->whole = whole.clock;
        ratios->bare = bare.clock;
    }
    return status;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_train_settings settings;
    struct mt_trainer *trainer = NULL;
    static struct ratios ratios;
    if (argc < 5) {
        (void)fprintf(stderr, "usage: train_speed TEMPLATES CONFIG.yaml TURNS STEPS [key=value ...]\n");
        return 2;
    }
    int turns = (int)strtol(argv[3], NULL, 10);
    int steps = (int)strtol(argv[4], NULL, 10);
    if (turns < 1 || turns > MOST_TURNS || steps < 1) return 2;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, 4096);
    const struct mt_trainer_options options = {.settings = &settings, .templates = argv[1]};
    enum mt_status status = mt_train_settings_read(&ctx, argv[2], NULL, 0, (const char *const *)(argv + 5),
                                                   (size_t)(argc - 5), &arena, &settings);
    if (status == MT_OK) status = mt_trainer_open(&ctx, &options, &trainer);
    if (status == MT_OK) status = measure(trainer, turns, steps, &ratios);
    if (status == MT_OK) {
        printf("last turn: whole loop %.0f, bare %.0f tokens/s; ratio, medians of %d turns of %d steps: %.3f "
               "by the "
               "clock, %.3f by processor time\n",
               ratios.whole, ratios.bare, turns, steps, bench_median(ratios.clock, turns),
               bench_median(ratios.processor, turns));
    } else {
        (void)fprintf(stderr, "train_speed: %s\n", ctx.message);
    }
    mt_trainer_close(trainer);
    mt_arena_free(&arena);
    return status == MT_OK ? 0 : 1;
}
