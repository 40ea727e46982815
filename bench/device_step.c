/*
 * How long a LoRA training step of a full-size model takes on a device, without its weights (hollow_model.h).
 *
 *     device_step DEVICE CONFIG.json FOLDER [tokens] [length] [rank] [rounds] [recompute 0|1|2] [METHOD,...]
 *                 [activations auto|f32|bf16] [dropout]
 *
 * FOLDER exists and may be empty. LoRA on attention, router, routed and shared experts, loss on every token,
 * AdamW; activations "auto": as the device likes them. Prints what computes, seconds per step, memory, and
 * each op's share of a step in which ops are waited for. With several methods ("all": aux, then every other
 * of the table) the model is given one after the other, makes a step that is not timed and one that is, and
 * the ratio to the first method is printed. bench/gpu-speed runs it. On a device that computes on host
 * memory the weights stay zero.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "hollow_model.h"
#include "lora_step.h"
#include "median.h"
#include "metier/ops.h"
#include "tensor/dtype.h"
#include "train/optimizer.h"

enum { MOST_ROUNDS = 64, MOST_METHODS = 24 };

struct setting {
    const char *device, *config, *folder;
    struct lora_step step;
    const char *activations; // "auto", or a type's name
    double dropout;          // of LoRA's inputs
    bool shared;             // there are shared experts
    char methods[256];       // cut at the commas
};

/* How long a method's steps took. */
struct timed {
    const char *method; // in the setting's list
    double seconds[MOST_ROUNDS];
    struct mt_model_loss loss;
};

/* The model, its batch, and the methods it is timed with. */
struct bench {
    struct mt_context *ctx;
    struct mt_device *device;
    struct mt_model *model;
    struct mt_optimizer optimizer;
    struct step_batch packed;
    struct timed timed[MOST_METHODS];
    int methods;
};

// ------------------------------------------------------------------ a step

static enum mt_status find_activations(const struct bench *bench, const char *name, enum mt_dtype *type)
{
    *type = mt_device_activations(bench->device);
    if (strcmp(name, "auto") == 0) return MT_OK;
    *type = strcmp(name, mt_dtype_name(MT_BF16)) == 0 ? MT_BF16 : MT_F32;
    if (strcmp(name, mt_dtype_name(*type)) == 0) return MT_OK;
    return mt_fail(bench->ctx, MT_ERR_USAGE, "activations are auto, f32 or bf16, not \"%s\"", name);
}

static enum mt_status open_model(struct bench *bench, const struct setting *setting)
{
    const char *const adapted[] = {"attention", "router", "routed_experts",
                                   setting->shared ? "shared_experts" : NULL, NULL};
    struct mt_objective_config method;
    struct mt_model_options options = lora_step_options(&setting->step, adapted, &method);
    options.selection.lora_alpha = 4.0 * setting->step.rank;
    options.selection.lora_dropout = setting->dropout;
    enum mt_status status = mt_objective_config_method(bench->ctx, bench->timed[0].method, &method);
    if (status == MT_OK) status = mt_device_create(bench->ctx, setting->device, 0, &bench->device);
    if (status == MT_OK) status = find_activations(bench, setting->activations, &options.activations);
    if (status != MT_OK) return status;
    printf("%s, activations in %s, LoRA dropout %g\n", mt_device_description(bench->device),
           mt_dtype_name(options.activations), setting->dropout);
    status = mt_model_open(bench->device, setting->folder, &options, &bench->model);
    if (status == MT_OK) status = hollow_model_fill(bench->model);
    if (status != MT_OK) return status;
    struct mt_optimizer_options adamw = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .clip = 1.0};
    return mt_optimizer_create(mt_model_params(bench->model), &(struct mt_gradient_groups){0}, &adamw,
                               &bench->optimizer);
}

static enum mt_status fill_batch(struct bench *bench, const struct lora_step *step)
{
    uint64_t vocabulary = (uint64_t)mt_model_description(bench->model)->vocabulary;
    enum mt_status status = step_batch_open(bench->ctx, step, &bench->packed);
    for (int64_t i = 0; status == MT_OK && i < 2 * step->tokens; i++)
        bench->packed.ids[i] = (int32_t)mt_rng_below(1, 3, (uint64_t)i, vocabulary);
    return status;
}

static enum mt_status one_step(struct bench *bench, struct mt_model_loss *loss)
{
    double norm = 0.0;
    bool clipped = false;
    bench->packed.batch.step++;
    enum mt_status status = mt_params_zero_gradients(mt_model_params(bench->model));
    if (status == MT_OK) status = mt_model_forward(bench->model, &bench->packed.batch, loss);
    if (status == MT_OK) status = mt_model_backward(bench->model);
    if (status == MT_OK) status = mt_optimizer_norm(&bench->optimizer, &norm);
    if (status == MT_OK)
        status = mt_optimizer_step(&bench->optimizer, bench->packed.batch.step, 1e-5, norm, &clipped);
    return status == MT_OK ? mt_device_synchronise(bench->device) : status;
}

// ------------------------------------------------------------------ reports

/* Gives the model a method, whose first step decides scales and is not timed. */
static enum mt_status take_method(struct bench *bench, struct timed *timed)
{
    struct mt_objective_config method;
    enum mt_status status = mt_objective_config_method(bench->ctx, timed->method, &method);
    if (status == MT_OK) status = mt_model_set_objective(bench->model, &method);
    return status == MT_OK ? one_step(bench, &timed->loss) : status;
}

/* Rounds in which every method makes a step. */
static enum mt_status time_steps(struct bench *bench, int rounds)
{
    enum mt_status status = one_step(bench, &bench->timed[0].loss); // libraries start, memory is touched
    for (int round = 0; status == MT_OK && round < rounds; round++) {
        for (int i = 0; status == MT_OK && i < bench->methods; i++) {
            struct timed *timed = &bench->timed[i];
            if (bench->methods > 1) status = take_method(bench, timed);
            double start = mt_clock_seconds();
            if (status == MT_OK) status = one_step(bench, &timed->loss);
            timed->seconds[round] = mt_clock_seconds() - start;
        }
    }
    return status;
}

/* What steps of one method cost beside those of the first, round by round: the median of the ratios. */
static double ratio(const struct timed *timed, const struct timed *first, int rounds)
{
    double ratios[MOST_ROUNDS];
    for (int round = 0; round < rounds; round++)
        ratios[round] = timed->seconds[round] / first->seconds[round];
    return bench_median(ratios, rounds);
}

static void print_times(const struct bench *bench, const struct lora_step *step)
{
    for (int i = 0; i < bench->methods; i++) {
        const struct timed *timed = &bench->timed[i];
        double sorted[MOST_ROUNDS];
        memcpy(sorted, timed->seconds, sizeof sorted);
        double seconds = bench_median(sorted, step->rounds);
        printf("%-14s %.4f s a step, %" PRId64 " tokens, %.0f tokens/s, loss %.4f, terms %.6f", timed->method,
               seconds, step->tokens, (double)step->tokens / seconds, timed->loss.task, timed->loss.terms);
        if (i > 0)
            printf(", %.4f of %s", ratio(timed, &bench->timed[0], step->rounds), bench->timed[0].method);
        printf("\n");
    }
}

static void print_memory(struct bench *bench)
{
    struct mt_model_bytes bytes = mt_model_bytes(bench->model);
    size_t moments = bench->optimizer.memory.bytes;
    size_t all = bytes.copies + bytes.masters + bytes.gradients + moments + bytes.activations + bytes.work;
    printf("memory, GB: %.2f = weights %.2f, trained %.2f, gradients %.2f, moments %.2f, activations %.2f, "
           "work and scratch %.2f\n",
           (double)all / 1e9, (double)bytes.copies / 1e9, (double)bytes.masters / 1e9,
           (double)bytes.gradients / 1e9, (double)moments / 1e9, (double)bytes.activations / 1e9,
           (double)bytes.work / 1e9);
}

/* A step with every op waited for, the longest first. */
static enum mt_status print_shares(struct bench *bench)
{
    struct mt_op_time times[MT_OP_COUNT] = {{0}};
    struct mt_model_loss loss;
    mt_device_set_timing(bench->device, times);
    double start = mt_clock_seconds();
    enum mt_status status = one_step(bench, &loss);
    double whole = mt_clock_seconds() - start;
    mt_device_set_timing(bench->device, NULL);
    printf("a step with every op waited for: %.4f s\n%-24s %8s %7s %6s\n", whole, "op", "ms", "calls",
           "share");
    for (int printed = 0; status == MT_OK && printed < MT_OP_COUNT; printed++) {
        int longest = 0;
        for (int op = 1; op < MT_OP_COUNT; op++) {
            if (times[op].seconds > times[longest].seconds) longest = op;
        }
        if (times[longest].calls == 0) break;
        printf("%-24s %8.2f %7lld %5.1f%%\n", mt_op_name((enum mt_op)longest), 1e3 * times[longest].seconds,
               times[longest].calls, 100.0 * times[longest].seconds / whole);
        times[longest] = (struct mt_op_time){0};
    }
    return status;
}

static int64_t number_at(int argc, char *const *argv, int place, int64_t otherwise)
{
    return argc > place ? strtoll(argv[place], NULL, 10) : otherwise;
}

/* Cuts the list of methods at its commas. */
static enum mt_status list_methods(struct bench *bench, struct setting *setting)
{
    char *rest = NULL;
    for (char *word = strtok_r(setting->methods, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        if (bench->methods == MOST_METHODS) return mt_fail(bench->ctx, MT_ERR_USAGE, "too many methods");
        bench->timed[bench->methods++].method = word;
    }
    if (bench->methods == 0) return mt_fail(bench->ctx, MT_ERR_USAGE, "no method");
    if (strcmp(bench->timed[0].method, "all") != 0) return MT_OK;
    bench->timed[0].method = "aux"; // what the others are held against
    for (int i = 0; mt_method_listed(i) != NULL && bench->methods < MOST_METHODS; i++) {
        const char *name = mt_method_listed(i)->name;
        if (strcmp(name, "aux") != 0) bench->timed[bench->methods++].method = name;
    }
    return MT_OK;
}

static enum mt_status run_methods(struct bench *bench, struct setting *setting)
{
    enum mt_status status = list_methods(bench, setting);
    if (status == MT_OK) status = open_model(bench, setting);
    if (status == MT_OK) status = fill_batch(bench, &setting->step);
    if (status == MT_OK) print_memory(bench);
    if (status == MT_OK) status = time_steps(bench, setting->step.rounds);
    if (status == MT_OK) print_times(bench, &setting->step);
    return status == MT_OK && bench->methods == 1 ? print_shares(bench) : status;
}

static void close_bench(struct bench *bench)
{
    mt_optimizer_free(&bench->optimizer);
    mt_model_close(bench->model);
    mt_device_destroy(bench->device);
    step_batch_close(bench->ctx, &bench->packed);
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct bench bench = {.ctx = &ctx};
    if (argc < 4) {
        (void)fprintf(stderr,
                      "usage: device_step DEVICE CONFIG.json FOLDER [tokens] [length] [rank] [rounds] "
                      "[recompute 0|1|2] [METHOD,...] [activations auto|f32|bf16] [dropout]\n");
        return 2;
    }
    struct lora_step step = {.tokens = number_at(argc, argv, 4, 16384),
                             .length = number_at(argc, argv, 5, 512),
                             .rank = (int)number_at(argc, argv, 6, 32),
                             .rounds = (int)number_at(argc, argv, 7, 5),
                             .recompute = (enum mt_recompute)number_at(argc, argv, 8, 0)};
    struct setting setting = {.device = argv[1],
                              .config = argv[2],
                              .folder = argv[3],
                              .step = step,
                              .activations = argc > 10 ? argv[10] : "auto",
                              .dropout = argc > 11 ? strtod(argv[11], NULL) : 0.1};
    if (step.rounds < 1 || step.rounds > MOST_ROUNDS || step.length < 1) return 2;
    (void)snprintf(setting.methods, sizeof setting.methods, "%s", argc > 9 ? argv[9] : "paper");
    mt_context_init(&ctx, NULL);
    enum mt_status status = hollow_model_write(&ctx, setting.config, setting.folder, &setting.shared);
    if (status == MT_OK) status = run_methods(&bench, &setting);
    if (status != MT_OK) (void)fprintf(stderr, "device_step: %s\n", ctx.message);
    close_bench(&bench);
    return status == MT_OK ? 0 : 1;
}
