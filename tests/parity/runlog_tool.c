/*
 * A made-up run for tests/parity/tensorboard_parity.py, and to look at:
 *
 *     runlog_tool DIR STEPS DONE METRICS_BYTES [MILLISECONDS]
 *
 * runs steps DONE+1 to STEPS of a run whose numbers depend on the step alone, logs every fifth, and prints
 * how long metrics.jsonl was at the last checkpoint (every twentieth step). The view goes to stderr.
 */
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "train/log/runlog.h"

enum { LAYERS = 3, EXPERTS = 4 };

static void fill(struct mt_step_record *record, struct mt_layer_record *layers, double loads[LAYERS][EXPERTS],
                 uint64_t step, uint64_t steps)
{
    double t = (double)step;
    *record = (struct mt_step_record){.step = step,
                                      .steps = steps,
                                      .epoch = t / 40.0,
                                      .learning_rate = 1e-4 / t,
                                      .loss = 2.0 + 1.0 / sqrt(t),
                                      .task = 1.9 + 1.0 / sqrt(t),
                                      .gradient_norm = 3.0 / t,
                                      .clipped = step < 4,
                                      .max_violation = 0.8 + 1.0 / t,
                                      .max_violation_running = 0.7 + 1.0 / t,
                                      .load_entropy = 1.3,
                                      .effective_experts = 1.5 + 1.0 / t,
                                      .effective_scores = 2.5 + 1.0 / t,
                                      .experts_90 = 0.75,
                                      .agreement = 0.9,
                                      .tokens = 4096,
                                      .answer_tokens = 2048,
                                      .examples = 32,
                                      .tokens_total = 4096 * step,
                                      .seconds = 0.25 * t,
                                      .tokens_per_second = 16384.0,
                                      .layers = layers,
                                      .layer_count = LAYERS,
                                      .experts = EXPERTS,
                                      .slots = 2};
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        bool on = term <= MT_TERM_V;
        record->term[term] = on ? (term == MT_TERM_V ? -0.0021 : 1.0 + 0.1 * term + 0.3 / t) : NAN;
        record->weighted[term] = on ? 1e-3 * record->term[term] : NAN;
    }
    for (int l = 0; l < LAYERS; l++) {
        layers[l] = (struct mt_layer_record){.layer = 1 + 2 * l,
                                             .load_entropy = 1.3 + 0.01 * l,
                                             .max_violation = 0.5 / t,
                                             .max_violation_running = 0.25 / t,
                                             .variance_expert_topk = 0.01 * t,
                                             .variance_expert_full = 0.02 * t,
                                             .variance_token = 0.03 * t,
                                             .effective_experts = 1.5 + 0.1 * l,
                                             .effective_scores = 2.5 + 0.1 * l,
                                             .experts_90 = 0.5,
                                             .load = loads[l]};
        for (int j = 0; j < EXPERTS; j++) loads[l][j] = 100.0 * l + j + t;
        for (int term = 0; term < MT_TERM_COUNT; term++) {
            bool on = term <= MT_TERM_V;
            layers[l].loss[term] = on ? 1.0 + 0.1 * l + 0.3 / t : NAN;
            layers[l].weight[term] = on ? 1e-3 : NAN;
            layers[l].gradient[term] = on && step % 10 == 0 ? 0.5 / t : NAN;
        }
    }
}

static enum mt_status run(struct mt_run_log *log, uint64_t done, uint64_t steps, long milliseconds,
                          uint64_t *metrics_bytes)
{
    struct mt_step_record record;
    struct mt_layer_record layers[LAYERS];
    double loads[LAYERS][EXPERTS];
    enum mt_status status = MT_OK;
    for (uint64_t step = done + 1; step <= steps && status == MT_OK; step++) {
        fill(&record, layers, loads, step, steps);
        mt_run_log_progress(log, &record);
        if (step % 5 == 0) status = mt_run_log_step(log, &record);
        if (status == MT_OK && step % 20 == 0) {
            const struct mt_evaluation_record evaluation = {.step = step,
                                                            .loss = 2.0 + 0.1 / (double)step,
                                                            .perplexity = exp(2.0 + 0.1 / (double)step),
                                                            .answer_tokens = 5000,
                                                            .best = true,
                                                            .seconds = 1.5};
            status = mt_run_log_evaluation(log, &evaluation);
            if (status == MT_OK) status = mt_run_log_event(log, step, "checkpoint", "checkpoints/step");
            if (status == MT_OK) status = mt_run_log_sync(log, metrics_bytes);
        }
        struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
        (void)nanosleep(&pause, NULL);
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 5) return 2;
    (void)setlocale(LC_CTYPE, "");
    uint64_t steps = strtoull(argv[2], NULL, 10);
    uint64_t done = strtoull(argv[3], NULL, 10);
    uint64_t metrics_bytes = strtoull(argv[4], NULL, 10);
    struct mt_context ctx;
    struct mt_run_log *log = NULL;
    mt_context_init(&ctx, NULL);
    enum mt_status status =
        mt_run_log_open(&ctx,
                        &(struct mt_run_log_options){.directory = argv[1],
                                                     .tensorboard = true,
                                                     .terminal = stderr,
                                                     .steps = steps,
                                                     .done.steps = done,
                                                     .metrics_bytes = metrics_bytes,
                                                     .title = "a made-up run: paper, LoRA r=32",
                                                     .layers = LAYERS,
                                                     .experts = EXPERTS},
                        &log);
    if (status == MT_OK) {
        status = run(log, done, steps, argc > 5 ? strtol(argv[5], NULL, 10) : 0, &metrics_bytes);
    }
    mt_run_log_close(log);
    if (status != MT_OK) {
        (void)fprintf(stderr, "runlog_tool: %s\n", ctx.message);
        return 1;
    }
    printf("%" PRIu64 "\n", metrics_bytes);
    return 0;
}
