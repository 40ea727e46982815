/*
 * How fast a model trains: forward and backward over one packed batch, LoRA on every linear map of the
 * layers.
 *
 *     model_step DIR [tokens] [sequence length] [rank] [steps] [recompute 0|1|2] [threads] [method]
 *
 * Prints the best step's time, tokens per second, and bytes by purpose. The peak of the whole process, mapped
 * weights included, is the system's own figure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/rng.h"
#include "model/model.h"

static long argument(int argc, char **argv, int index, long otherwise)
{
    return index < argc ? strtol(argv[index], NULL, 10) : otherwise;
}

struct bench {
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_model *model;
    int32_t *ids, *labels, *offsets;
    struct mt_batch batch;
};

static enum mt_status fill_batch(struct bench *bench, int64_t tokens, int64_t length)
{
    int64_t sequences = (tokens + length - 1) / length;
    void *memory = NULL;
    enum mt_status status =
        mt_allocate_array(&bench->ctx, (size_t)(2 * tokens + sequences + 1), sizeof(int32_t), &memory);
    if (status != MT_OK) return status;
    bench->ids = memory;
    bench->labels = bench->ids + tokens;
    bench->offsets = bench->labels + tokens;
    uint64_t vocabulary = (uint64_t)mt_model_description(bench->model)->vocabulary;
    for (int64_t i = 0; i < tokens; i++) bench->ids[i] = (int32_t)mt_rng_below(1, 2, (uint64_t)i, vocabulary);
    for (int64_t i = 0; i < tokens; i++)
        bench->labels[i] = i + 1 < tokens && (i + 1) % length != 0 ? bench->ids[i + 1] : -1;
    for (int64_t b = 0; b <= sequences; b++)
        bench->offsets[b] = (int32_t)(b * length < tokens ? b * length : tokens);
    bench->batch = (struct mt_batch){.tokens = tokens,
                                     .sequences = sequences,
                                     .ids = bench->ids,
                                     .labels = bench->labels,
                                     .offsets = bench->offsets,
                                     .training = true,
                                     .progress = 1.0};
    return MT_OK;
}

static enum mt_status time_steps(struct bench *bench, long steps)
{
    double best[2] = {1e30, 1e30};
    struct mt_model_loss loss = {0};
    for (long step = 0; step < steps; step++) {
        double start = mt_clock_seconds();
        enum mt_status status = mt_params_zero_gradients(mt_model_params(bench->model));
        if (status == MT_OK) status = mt_model_forward(bench->model, &bench->batch, &loss);
        double middle = mt_clock_seconds();
        if (status == MT_OK) status = mt_model_backward(bench->model);
        if (status != MT_OK) return status;
        double end = mt_clock_seconds();
        if (middle - start < best[0]) best[0] = middle - start;
        if (end - middle < best[1]) best[1] = end - middle;
    }
    double total = best[0] + best[1];
    printf("loss %.4f  forward and loss %.3f s  backward %.3f s  step %.3f s  %.0f tokens/s\n", loss.task,
           best[0], best[1], total, (double)bench->batch.tokens / total);
    return MT_OK;
}

static void print_memory(const struct mt_model *model)
{
    struct mt_model_bytes bytes = mt_model_bytes(model);
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    printf("MB: mapped %.1f  masters %.1f  gradients %.1f  activations %.1f  work %.1f  peak resident %.1f\n",
           (double)bytes.mapped / 1e6, (double)bytes.masters / 1e6, (double)bytes.gradients / 1e6,
           (double)bytes.activations / 1e6, (double)bytes.work / 1e6, (double)usage.ru_maxrss / 1e3);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(
            stderr,
            "usage: model_step DIR [tokens] [length] [rank] [steps] [recompute] [threads] [method]\n");
        return 2;
    }
    static const char *const layers[] = {"model.layers.*", NULL};
    struct bench bench = {0};
    struct mt_objective_config method;
    int64_t tokens = argument(argc, argv, 2, 2048);
    int64_t length = argument(argc, argv, 3, 512);
    struct mt_model_options options = {.tokens = tokens,
                                       .sequences = (tokens + length - 1) / length,
                                       .positions = length,
                                       .backward = true,
                                       .recompute = (enum mt_recompute)argument(argc, argv, 6, 0)};
    options.selection.lora = layers;
    options.selection.lora_rank = (int)argument(argc, argv, 4, 16);
    options.selection.lora_alpha = 32.0;
    mt_context_init(&bench.ctx, NULL);
    enum mt_status status = MT_OK;
    if (argc > 8) {
        status = mt_objective_config_method(&bench.ctx, argv[8], &method);
        options.objective = &method;
    }
    if (status == MT_OK)
        status = mt_device_create(&bench.ctx, "cpu", (int)argument(argc, argv, 7, 0), &bench.device);
    if (status == MT_OK) status = mt_model_open(bench.device, argv[1], &options, &bench.model);
    if (status == MT_OK) status = fill_batch(&bench, tokens, length);
    if (status == MT_OK) status = time_steps(&bench, argument(argc, argv, 5, 5));
    if (status == MT_OK) print_memory(bench.model);
    if (status != MT_OK) (void)fprintf(stderr, "model_step: %s\n", bench.ctx.message);
    mt_release(&bench.ctx, bench.ids,
               (size_t)(2 * bench.batch.tokens + bench.batch.sequences + 1) * sizeof(int32_t));
    mt_model_close(bench.model);
    mt_device_destroy(bench.device);
    return status == MT_OK ? 0 : 1;
}
