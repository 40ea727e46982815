/*
 * How much longer a LoRA training step of a full-size model takes when gradients and values go over NCCL.
 *
 *     card_step DEVICE CONFIG.json FOLDER [tokens] [length] [rank] [rounds]
 *
 * FOLDER exists and may be empty: the weights are not needed (hollow_model.h). Steps are made in turns, alone
 * and with the one card sending to itself all that it would share with others: gradients while backward goes
 * on, values after the update. Before that gradients that were sent are held against those that were not, bit
 * by bit. METIER_NCCL names the library where it is not found.
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
#include "metier/buffer.h"
#include "ops/streams.h"
#include "train/gradient_sum.h"
#include "train/optimizer.h"

enum { MOST_ROUNDS = 64 };

/* One way of making a step: alone, or with what is sent. */
struct way {
    struct mt_optimizer optimizer;
    struct mt_gradient_sum *sum;
    double seconds[MOST_ROUNDS];
};

struct bench {
    struct mt_context *ctx;
    struct mt_device *device, *sender;
    struct mt_comm *comm;
    struct mt_model *model;
    struct step_batch packed;
    struct way alone, cards;
    struct way *now; // whose step it is
};

static enum mt_status layer_done(void *self, int64_t layer)
{
    const struct bench *bench = self;
    return mt_gradient_sum_layer_done(bench->now->sum, layer);
}

static enum mt_status open_way(struct bench *bench, struct mt_comm *comm, struct mt_device *sender,
                               struct way *way)
{
    const struct mt_optimizer_options adamw = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .clip = 1.0};
    enum mt_status status = mt_optimizer_create(
        mt_model_params(bench->model), &(struct mt_gradient_groups){.all = comm}, &adamw, &way->optimizer);
    return status == MT_OK ? mt_gradient_sum_create(&way->optimizer.buckets, sender, &way->sum) : status;
}

static enum mt_status open_bench(struct bench *bench, const char *device, const char *config,
                                 const char *folder, const struct lora_step *step)
{
    bool shared = false;
    struct mt_objective_config method;
    enum mt_status status = hollow_model_write(bench->ctx, config, folder, &shared);
    const char *const adapted[] = {"attention", "router", "routed_experts", shared ? "shared_experts" : NULL,
                                   NULL};
    struct mt_model_options options = lora_step_options(step, adapted, &method);
    options.selection.lora_alpha = 4.0 * step->rank;
    if (status == MT_OK) status = mt_objective_config_method(bench->ctx, "paper", &method);
    if (status == MT_OK) status = mt_device_create(bench->ctx, device, 0, &bench->device);
    if (status != MT_OK) return status;
    options.activations = mt_device_activations(bench->device);
    status = mt_device_create_beside(bench->device, &bench->sender);
    if (status == MT_OK) status = mt_comm_open_alone(bench->ctx, &bench->comm);
    if (status == MT_OK) status = mt_comm_use_cards_alone(bench->comm, mt_device_on_host(bench->device));
    if (status == MT_OK) status = mt_model_open(bench->device, folder, &options, &bench->model);
    if (status == MT_OK) status = hollow_model_fill(bench->model);
    if (status == MT_OK) status = open_way(bench, NULL, NULL, &bench->alone);
    if (status == MT_OK) status = open_way(bench, bench->comm, bench->sender, &bench->cards);
    if (status != MT_OK) return status;
    mt_model_set_layer_hook(bench->model, &(struct mt_layer_hook){.layer_done = layer_done, .self = bench});
    return step_batch_open(bench->ctx, step, &bench->packed);
}

static void close_way(struct way *way)
{
    mt_gradient_sum_free(way->sum);
    mt_optimizer_free(&way->optimizer);
}

static void close_bench(struct bench *bench)
{
    close_way(&bench->alone);
    close_way(&bench->cards);
    mt_model_close(bench->model);
    mt_comm_close(bench->comm);
    mt_device_destroy(bench->sender);
    mt_device_destroy(bench->device);
    step_batch_close(bench->ctx, &bench->packed);
}

// ------------------------------------------------------------------ steps

static enum mt_status pass(struct bench *bench, struct way *way)
{
    struct mt_model_loss loss;
    bench->now = way;
    enum mt_status status = mt_params_zero_gradients(mt_model_params(bench->model));
    if (status == MT_OK) status = mt_model_forward(bench->model, &bench->packed.batch, &loss);
    if (status == MT_OK) status = mt_model_backward(bench->model);
    return status == MT_OK ? mt_gradient_sum_finish(way->sum) : status;
}

static enum mt_status one_step(struct bench *bench, struct way *way, double *seconds)
{
    double norm = 0.0;
    bool clipped = false;
    double began = mt_clock_seconds();
    bench->packed.batch.step++;
    enum mt_status status = pass(bench, way);
    if (status == MT_OK) status = mt_optimizer_norm(&way->optimizer, &norm);
    if (status == MT_OK)
        status = mt_optimizer_step(&way->optimizer, bench->packed.batch.step, 1e-5, norm, &clipped);
    if (status == MT_OK) status = mt_gradient_sum_hand_round(way->sum);
    if (status == MT_OK) status = mt_device_synchronise(bench->device);
    *seconds = mt_clock_seconds() - began;
    return status;
}

/* The same pass in both ways: what was sent is what was there. */
static enum mt_status compare_ways(struct bench *bench)
{
    const struct mt_buffer *gradients = &mt_model_params(bench->model)->gradients;
    struct mt_buffer alone = {0};
    struct mt_buffer sent = {0};
    enum mt_status status = mt_buffer_create(bench->ctx, gradients->bytes, &alone);
    if (status == MT_OK) status = mt_buffer_create(bench->ctx, gradients->bytes, &sent);
    if (status == MT_OK) status = pass(bench, &bench->alone);
    if (status == MT_OK)
        status = mt_device_download(bench->device, alone.data, gradients->data, gradients->bytes);
    if (status == MT_OK) status = pass(bench, &bench->cards);
    if (status == MT_OK)
        status = mt_device_download(bench->device, sent.data, gradients->data, gradients->bytes);
    if (status == MT_OK && memcmp(alone.data, sent.data, gradients->bytes) != 0)
        status = mt_fail(bench->ctx, MT_ERR_NUMERIC, "gradients that were sent are not what they were");
    if (status == MT_OK) printf("%zu bytes of gradients, the same when sent\n", gradients->bytes);
    mt_buffer_release(&alone);
    mt_buffer_release(&sent);
    return status;
}

static enum mt_status run(struct bench *bench, const struct lora_step *step)
{
    uint64_t vocabulary = (uint64_t)mt_model_description(bench->model)->vocabulary;
    double ratios[MOST_ROUNDS];
    double warm = 0.0;
    for (int64_t i = 0; i < 2 * step->tokens; i++)
        bench->packed.ids[i] = (int32_t)mt_rng_below(1, 3, (uint64_t)i, vocabulary);
    printf("%s, %zu buckets\n", mt_device_description(bench->device), bench->cards.optimizer.buckets.count);
    enum mt_status status = one_step(bench, &bench->alone, &warm); // libraries start, memory is touched
    if (status == MT_OK) status = one_step(bench, &bench->cards, &warm);
    if (status == MT_OK) status = compare_ways(bench);
    for (int i = 0; status == MT_OK && i < step->rounds; i++) {
        status = one_step(bench, &bench->alone, &bench->alone.seconds[i]);
        if (status == MT_OK) status = one_step(bench, &bench->cards, &bench->cards.seconds[i]);
        ratios[i] = bench->cards.seconds[i] / bench->alone.seconds[i];
    }
    if (status != MT_OK) return status;
    double alone = bench_median(bench->alone.seconds, step->rounds);
    printf("a step of %" PRId64 " tokens: alone %.4f s, over NCCL %.4f s; the median ratio is %.4f\n",
           step->tokens, alone, bench_median(bench->cards.seconds, step->rounds),
           bench_median(ratios, step->rounds));
    return MT_OK;
}

static int64_t number_at(int argc, char *const *argv, int place, int64_t otherwise)
{
    return argc > place ? strtoll(argv[place], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct bench bench = {.ctx = &ctx};
    if (argc < 4) {
        (void)fprintf(stderr,
                      "usage: card_step DEVICE CONFIG.json FOLDER [tokens] [length] [rank] [rounds]\n");
        return 2;
    }
    const struct lora_step step = {.tokens = number_at(argc, argv, 4, 16384),
                                   .length = number_at(argc, argv, 5, 512),
                                   .rank = (int)number_at(argc, argv, 6, 32),
                                   .rounds = (int)number_at(argc, argv, 7, 5)};
    if (step.rounds < 1 || step.rounds > MOST_ROUNDS || step.length < 1) return 2;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    mt_context_init(&ctx, NULL);
    enum mt_status status = open_bench(&bench, argv[1], argv[2], argv[3], &step);
    if (status == MT_OK) status = run(&bench, &step);
    if (status != MT_OK) (void)fprintf(stderr, "card_step: %s\n", ctx.message);
    close_bench(&bench);
    return status == MT_OK ? 0 : 1;
}
