/*
 * How fast a model trains.
 * Forward and backward over one packed batch, LoRA on attention, router and routed experts, loss on every
 * token, method "paper".
 *
 *     model_speed DIR [tokens] [sequence length] [rank] [rounds] [threads] [recompute 0|1|2] [ids file]
 *     model_speed --scaling DIR [rounds] [threads]
 *
 * The first form measures the model in DIR and prints one line: the median step's seconds, the processor
 * seconds of a step over all threads, tokens per second, losses, the process's peak of resident memory; and
 * the model's own plan on a second line. With an ids file, ids and labels are left there (i32, one after the
 * other) for others to measure the same batch. The second form makes models in DIR and prints how the step's
 * processor time grows with layers, tokens and experts. bench/model-speed runs both.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/rng.h"
#include "lora_step.h"
#include "median.h"
#include "model/files/init.h"

enum { MOST_ROUNDS = 64 };

struct setting {
    struct lora_step step;
    int threads;
};

struct bench {
    struct mt_context *ctx;
    struct mt_device *device;
    struct mt_model *model;
    struct step_batch packed;
};

struct outcome {
    double seconds;   // median over rounds
    double processor; // seconds of all threads, of an average round
    struct mt_model_loss loss;
};

// ------------------------------------------------------------------ one model

static enum mt_status open_model(struct bench *bench, const char *directory, const struct setting *setting)
{
    static const char *const adapted[] = {"attention", "router", "routed_experts", NULL};
    struct mt_objective_config method;
    struct mt_model_options options = lora_step_options(&setting->step, adapted, &method);
    options.selection.lora_alpha = 32.0;
    enum mt_status status = mt_objective_config_method(bench->ctx, "paper", &method);
    if (status == MT_OK) status = mt_device_create(bench->ctx, "cpu", setting->threads, &bench->device);
    if (status != MT_OK) return status;
    return mt_model_open(bench->device, directory, &options, &bench->model);
}

static enum mt_status fill_batch(struct bench *bench, const struct lora_step *step)
{
    enum mt_status status = step_batch_open(bench->ctx, step, &bench->packed);
    if (status != MT_OK) return status;
    int64_t tokens = step->tokens;
    int32_t *ids = bench->packed.ids;
    uint64_t vocabulary = (uint64_t)mt_model_description(bench->model)->vocabulary;
    for (int64_t i = 0; i < tokens; i++) ids[i] = (int32_t)mt_rng_below(1, 2, (uint64_t)i, vocabulary);
    // The last token of a sequence is asked for one more drawn id: the loss is on all tokens.
    for (int64_t i = 0; i < tokens; i++) {
        bool last = (i + 1) % step->length == 0;
        ids[tokens + i] = last ? (int32_t)mt_rng_below(1, 3, (uint64_t)i, vocabulary) : ids[i + 1];
    }
    return MT_OK;
}

static void close_model(struct bench *bench)
{
    step_batch_close(bench->ctx, &bench->packed);
    mt_model_close(bench->model);
    mt_device_destroy(bench->device);
}

static double processor_seconds(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static enum mt_status one_step(struct bench *bench, struct mt_model_loss *loss)
{
    enum mt_status status = mt_params_zero_gradients(mt_model_params(bench->model));
    if (status == MT_OK) status = mt_model_forward(bench->model, &bench->packed.batch, loss);
    if (status == MT_OK) status = mt_model_backward(bench->model);
    return status;
}

static enum mt_status time_steps(struct bench *bench, int rounds, struct outcome *outcome)
{
    double seconds[MOST_ROUNDS];
    enum mt_status status = one_step(bench, &outcome->loss); // warms up: memory is touched for the first time
    double processor = processor_seconds();
    for (int round = 0; status == MT_OK && round < rounds; round++) {
        double start = mt_clock_seconds();
        status = one_step(bench, &outcome->loss);
        seconds[round] = mt_clock_seconds() - start;
    }
    if (status != MT_OK) return status;
    outcome->processor = (processor_seconds() - processor) / rounds;
    outcome->seconds = bench_median(seconds, rounds);
    return MT_OK;
}

static enum mt_status measure(struct mt_context *ctx, const char *directory, const struct setting *setting,
                              struct bench *bench, struct outcome *outcome)
{
    *bench = (struct bench){.ctx = ctx};
    enum mt_status status = open_model(bench, directory, setting);
    if (status == MT_OK) status = fill_batch(bench, &setting->step);
    if (status == MT_OK) status = time_steps(bench, setting->step.rounds, outcome);
    return status;
}

/* VmHWM: the most the process ever had resident, mapped weights included. */
static int64_t peak_bytes(void)
{
    int64_t kilobytes = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) kilobytes = strtoll(line + 6, NULL, 10);
    }
    (void)fclose(file);
    return kilobytes * 1024;
}

static enum mt_status write_ids(const struct bench *bench, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) return mt_fail(bench->ctx, MT_ERR_IO, "cannot write %s", path);
    size_t count = 2 * (size_t)bench->packed.batch.tokens;
    bool whole = fwrite(bench->packed.ids, sizeof *bench->packed.ids, count, file) == count;
    whole = fclose(file) == 0 && whole;
    return whole ? MT_OK : mt_fail(bench->ctx, MT_ERR_IO, "cannot write %s", path);
}

static enum mt_status report_model(struct mt_context *ctx, const char *directory,
                                   const struct setting *setting, const char *ids_path)
{
    struct bench bench;
    struct outcome outcome;
    enum mt_status status = measure(ctx, directory, setting, &bench, &outcome);
    if (status == MT_OK) {
        struct mt_model_bytes bytes = mt_model_bytes(bench.model);
        printf("seconds %.4f processor %.4f tokens/s %.1f task %.6f terms %.6f peak %" PRId64 "\n",
               outcome.seconds, outcome.processor, (double)setting->step.tokens / outcome.seconds,
               outcome.loss.task, outcome.loss.terms, peak_bytes());
        printf("plan, MB: mapped %.1f masters %.1f gradients %.1f activations %.1f work %.1f\n",
               (double)bytes.mapped / 1e6, (double)bytes.masters / 1e6, (double)bytes.gradients / 1e6,
               (double)bytes.activations / 1e6, (double)bytes.work / 1e6);
        if (ids_path != NULL) status = write_ids(&bench, ids_path);
    }
    close_model(&bench);
    return status;
}

// ------------------------------------------------------------------ scaling

/* One row of the table. Series: rows that differ in one size. */
struct point {
    const char *series;
    int layers, experts;
    int64_t tokens;
    double linear; // the step's work in units of the series' first row
};

static const struct point points[] = {
    {"layers", 2, 32, 2048, 1.0},  {"layers", 4, 32, 2048, 2.0},   {"layers", 8, 32, 2048, 4.0},
    {"layers", 16, 32, 2048, 8.0}, {"tokens", 4, 32, 512, 1.0},    {"tokens", 4, 32, 1024, 2.0},
    {"tokens", 4, 32, 2048, 4.0},  {"tokens", 4, 32, 4096, 8.0},   {"tokens", 4, 32, 8192, 16.0},
    {"experts", 4, 8, 4096, 1.0},  {"experts", 4, 16, 4096, 1.0},  {"experts", 4, 32, 4096, 1.0},
    {"experts", 4, 64, 4096, 1.0}, {"experts", 4, 128, 4096, 1.0},
};

/* A model of the table's sizes, top 4, d = 256 and as much in each expert. */
static enum mt_status make_model(struct mt_context *ctx, const char *folder, const struct point *point,
                                 char *directory, size_t directory_bytes)
{
    char path[4096];
    (void)snprintf(directory, directory_bytes, "%s/layers%d-experts%d", folder, point->layers,
                   point->experts);
    (void)snprintf(path, sizeof path, "%s/config.json", directory);
    FILE *made = fopen(path, "r");
    if (made != NULL) return fclose(made) == 0 ? MT_OK : mt_fail(ctx, MT_ERR_IO, "cannot read %s", path);
    (void)snprintf(path, sizeof path, "%s/layers%d-experts%d.json", folder, point->layers, point->experts);
    FILE *file = fopen(path, "w");
    if (file == NULL) return mt_fail(ctx, MT_ERR_IO, "cannot write %s", path);
    (void)fprintf(file,
                  "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 1024, \"hidden_size\": 256,\n"
                  " \"intermediate_size\": 1024, \"moe_intermediate_size\": 256, \"num_hidden_layers\": %d,\n"
                  " \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"head_dim\": 64,\n"
                  " \"num_experts\": %d, \"num_experts_per_tok\": 4, \"norm_topk_prob\": true,\n"
                  " \"max_position_embeddings\": 512, \"rope_theta\": 10000.0, \"rms_norm_eps\": 1e-6,\n"
                  " \"tie_word_embeddings\": false, \"dtype\": \"bfloat16\"}\n",
                  point->layers, point->experts);
    if (fclose(file) != 0) return mt_fail(ctx, MT_ERR_IO, "cannot write %s", path);
    return mt_model_init(
        ctx, &(struct mt_model_init_options){.config = path, .directory = directory, .deviation = -1.0},
        NULL);
}

static enum mt_status report_scaling(struct mt_context *ctx, const char *folder, int rounds, int threads)
{
    double first = 0.0;
    printf("| series  | layers | experts | tokens | seconds | processor seconds | over linear |\n");
    printf("|---------|--------|---------|--------|---------|-------------------|-------------|\n");
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        const struct point *point = &points[i];
        char directory[4000];
        enum mt_status status = make_model(ctx, folder, point, directory, sizeof directory);
        if (status != MT_OK) return status;
        struct setting setting = {
            .step = {.tokens = point->tokens, .length = 512, .rank = 16, .rounds = rounds},
            .threads = threads};
        struct bench bench;
        struct outcome outcome;
        status = measure(ctx, directory, &setting, &bench, &outcome);
        close_model(&bench);
        if (status != MT_OK) return status;
        if (i == 0 || strcmp(point->series, points[i - 1].series) != 0) first = outcome.processor;
        printf("| %-7s | %6d | %7d | %6" PRId64 " | %7.3f | %17.3f | %11.2f |\n", point->series,
               point->layers, point->experts, point->tokens, outcome.seconds, outcome.processor,
               outcome.processor / (first * point->linear));
        (void)fflush(stdout);
    }
    return MT_OK;
}

// ------------------------------------------------------------------ the program

static int argument(int argc, char *const *argv, int index, int otherwise)
{
    return index < argc ? (int)strtol(argv[index], NULL, 10) : otherwise;
}

static enum mt_status run(struct mt_context *ctx, int argc, char **argv)
{
    bool scaling = argc > 2 && strcmp(argv[1], "--scaling") == 0;
    struct lora_step step = {.tokens = argument(argc, argv, 2, 2048),
                             .length = argument(argc, argv, 3, 512),
                             .rank = argument(argc, argv, 4, 16),
                             .rounds = argument(argc, argv, scaling ? 3 : 5, 5),
                             .recompute = (enum mt_recompute)argument(argc, argv, 7, 0)};
    struct setting setting = {.step = step, .threads = argument(argc, argv, scaling ? 4 : 6, 0)};
    if (argc < 2 || step.rounds < 1 || step.rounds > MOST_ROUNDS)
        return mt_fail(ctx, MT_ERR_USAGE, "usage: see the head of bench/model_speed.c");
    if (scaling) return report_scaling(ctx, argv[2], step.rounds, setting.threads);
    if (step.length < 1 || step.tokens < step.length || step.tokens % step.length != 0)
        return mt_fail(ctx, MT_ERR_USAGE, "tokens must be a multiple of the sequence length");
    return report_model(ctx, argv[1], &setting, argc > 8 ? argv[8] : NULL);
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    enum mt_status status = run(&ctx, argc, argv);
    if (status != MT_OK) (void)fprintf(stderr, "model_speed: %s\n", ctx.message);
    return status == MT_OK ? 0 : 1;
}
