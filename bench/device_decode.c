/*
 * How fast a full-size model reads prompts and writes answers on a device, without its weights.
 *
 *     device_decode DEVICE CONFIG.json FOLDER [prompt tokens] [rounds] [rank] [BATCH ...]
 *
 * FOLDER exists and may be empty. With a rank, every linear layer has an adapter's pair. Every sequence first
 * reads a prompt, alone and many in a pass; then single tokens of BATCH sequences at a time (1, 8 and 64) are
 * computed, drawn at random, with their logits. Printed are tokens a second, and which share of the speed of
 * a copy in the same run the weights and the cache are read at that a step needs: experts that no token chose
 * are not counted; besides a step's time with passes that are not recorded, and with a collector of routing
 * figures. DECODE=1 bench/gpu-speed runs it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/model_tensors.h"
#include "base/clock.h"
#include "base/rng.h"
#include "hollow_model.h"
#include "median.h"
#include "metier/buffer.h"
#include "metier/ops.h"
#include "model/collect.h"

enum {
    MOST_ROUNDS = 256,
    MOST_BATCH = 512,
    MOST_EXPERTS = 1024,
    COPY_ROUNDS = 10,
    PASS_TOKENS = 8192,
    FEW_PROMPTS = 16,
    KEPT_TOKENS = 52
};

struct bench {
    struct mt_context *ctx;
    struct mt_device *device;
    struct mt_model *model;
    struct mt_buffer logits;
    int64_t prompt, rounds, most, vocabulary;
    int rank;                          // of the adapter; 0: none
    bool shared;                       // the model has shared experts
    int64_t together;                  // prompts read in one pass at the most
    int64_t tokens;                    // of a pass at the most
    int64_t past;                      // tokens of every sequence in the cache
    uint64_t drawn;                    // ids so far
    double copy;                       // bytes a second, read and written
    double dense_bytes;                // of weights every token reads
    double expert_bytes;               // of one expert
    double cache_bytes;                // of one token, all layers
    int64_t experts_used;              // of the last counted step, all layers
    int32_t *chosen;                   // [tokens·slots], host
    int32_t *ids;                      // [tokens]
    int32_t *offsets;                  // [most + 1]
    int32_t *rows;                     // [most]
    struct mt_cached_sequence *cached; // [most]
};

// ------------------------------------------------------------------ opening

/* Bytes of weights by who reads them. The embedding's rows do not count. */
static enum mt_status count_weights(struct bench *bench)
{
    const struct mt_model_desc *desc = mt_model_description(bench->model);
    struct mt_model_tensors walk = mt_model_tensors_begin(desc->config);
    struct mt_model_tensor tensor;
    double experts = 0.0;
    int64_t expert_tensors = 0;
    while (mt_model_tensors_next(&walk, &tensor)) {
        double bytes = 2.0 * (double)mt_model_tensor_count(&tensor);
        if (strstr(tensor.name, ".experts.") != NULL) {
            experts += bytes;
            expert_tensors++;
        } else if (strstr(tensor.name, "embed_tokens") == NULL) {
            bench->dense_bytes += bytes;
        }
    }
    if (expert_tensors == 0) return mt_fail(bench->ctx, MT_ERR_USAGE, "the model has no experts");
    bench->expert_bytes = 3.0 * experts / (double)expert_tensors;
    return MT_OK;
}

static enum mt_status take_memory(struct bench *bench)
{
    size_t most = (size_t)bench->most;
    size_t slots = (size_t)mt_model_description(bench->model)->router.slots;
    size_t ids = (size_t)bench->tokens;
    bench->chosen = calloc(ids * slots, sizeof *bench->chosen);
    bench->ids = calloc(ids, sizeof *bench->ids);
    bench->offsets = calloc(most + 1, sizeof *bench->offsets);
    bench->rows = calloc(most, sizeof *bench->rows);
    bench->cached = calloc(most, sizeof *bench->cached);
    bool got = bench->chosen != NULL && bench->ids != NULL && bench->offsets != NULL && bench->rows != NULL &&
               bench->cached != NULL;
    if (!got) return mt_fail(bench->ctx, MT_ERR_MEMORY, "no memory for the batch");
    size_t bytes = most * (size_t)bench->vocabulary * sizeof(float);
    return mt_device_buffer_create(bench->device, bytes, &bench->logits);
}

static enum mt_status open_model(struct bench *bench, const char *device, const char *folder)
{
    const char *const adapted[] = {"attention", "router", "routed_experts",
                                   bench->shared ? "shared_experts" : NULL, NULL};
    enum mt_status status = mt_device_create(bench->ctx, device, 0, &bench->device);
    if (status != MT_OK) return status;
    bench->together = PASS_TOKENS / bench->prompt < bench->most ? PASS_TOKENS / bench->prompt : bench->most;
    if (bench->together < 1) bench->together = 1;
    bench->tokens = bench->together * bench->prompt;
    if (bench->tokens < bench->most) bench->tokens = bench->most;
    struct mt_model_options options = {.tokens = bench->tokens,
                                       .sequences = bench->most,
                                       .positions = bench->prompt + 4 * (bench->rounds + 2),
                                       .activations = mt_device_activations(bench->device),
                                       .cache = true};
    if (bench->rank > 0) {
        options.selection.lora = adapted;
        options.selection.lora_rank = bench->rank;
        options.selection.lora_alpha = 4.0 * bench->rank;
        options.selection.seed = 1;
    }
    status = mt_model_open(bench->device, folder, &options, &bench->model);
    if (status == MT_OK) status = hollow_model_fill(bench->model);
    if (status != MT_OK) return status;
    int64_t tokens = options.positions * bench->most;
    bench->cache_bytes = (double)mt_model_bytes(bench->model).cache / (double)tokens;
    bench->vocabulary = mt_model_description(bench->model)->vocabulary;
    status = count_weights(bench);
    return status == MT_OK ? take_memory(bench) : status;
}

/* The device's copy of half the weights onto the other half: what memory can do. */
static enum mt_status measure_copy(struct bench *bench)
{
    const struct mt_buffer *copies = &mt_model_params(bench->model)->copies;
    int64_t half = (int64_t)(copies->bytes / sizeof(uint16_t) / 2);
    int64_t count = half < ((int64_t)1 << 29) ? half : (int64_t)1 << 29;
    struct mt_tensor all = mt_tensor_1d(copies->data, MT_BF16, 2 * half);
    struct mt_copy_args args = {.x = mt_tensor_rows(&all, 0, count), .y = mt_tensor_rows(&all, half, count)};
    enum mt_status status = mt_copy(bench->device, &args);
    if (status == MT_OK) status = mt_device_synchronise(bench->device);
    double start = mt_clock_seconds();
    for (int i = 0; status == MT_OK && i < COPY_ROUNDS; i++) status = mt_copy(bench->device, &args);
    if (status == MT_OK) status = mt_device_synchronise(bench->device);
    bench->copy = 4.0 * COPY_ROUNDS * (double)count / (mt_clock_seconds() - start);
    return status;
}

// ------------------------------------------------------------------ steps

static void draw_ids(struct bench *bench, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        bench->ids[i] = (int32_t)mt_rng_below(1, 3, bench->drawn++, (uint64_t)bench->vocabulary);
}

/* The ops that take longest in a pass, each waited for. */
static enum mt_status print_shares(struct bench *bench, enum mt_status (*run)(struct bench *, int64_t),
                                   int64_t count)
{
    struct mt_op_time times[MT_OP_COUNT] = {{0}};
    mt_device_set_timing(bench->device, times);
    enum mt_status status = run(bench, count);
    mt_device_set_timing(bench->device, NULL);
    printf("   ops waited for, us (calls):");
    for (int printed = 0; printed < 12; printed++) {
        int longest = 0;
        for (int op = 1; op < MT_OP_COUNT; op++) {
            if (times[op].seconds > times[longest].seconds) longest = op;
        }
        if (times[longest].calls == 0) break;
        printf(" %s %.0f (%lld)", mt_op_name((enum mt_op)longest), 1e6 * times[longest].seconds,
               times[longest].calls);
        times[longest] = (struct mt_op_time){0};
    }
    printf("\n");
    return status;
}

/* Prompts of sequences [first, first + count), in one pass. */
static enum mt_status read_some(struct bench *bench, int64_t first, int64_t count)
{
    struct mt_model_loss loss;
    for (int64_t b = 0; b < count; b++) {
        bench->cached[b] =
            (struct mt_cached_sequence){.slot = (int32_t)(first + b), .length = (int32_t)bench->prompt};
        bench->offsets[b + 1] = (int32_t)((b + 1) * bench->prompt);
    }
    draw_ids(bench, count * bench->prompt);
    struct mt_batch batch = {.tokens = count * bench->prompt,
                             .sequences = count,
                             .ids = bench->ids,
                             .offsets = bench->offsets,
                             .loss_only = true,
                             .cached = bench->cached};
    enum mt_status status = mt_model_forward(bench->model, &batch, &loss);
    return status == MT_OK ? mt_device_synchronise(bench->device) : status;
}

static enum mt_status read_first(struct bench *bench, int64_t count)
{
    return read_some(bench, 0, count);
}

/* All prompts, so many in a pass, or a few of them alone; the first pass warms up and does not count. */
static enum mt_status read_prompts(struct bench *bench, int64_t together)
{
    int64_t most = together > 1 || bench->most < FEW_PROMPTS ? bench->most : FEW_PROMPTS;
    enum mt_status status = read_some(bench, 0, together);
    double start = mt_clock_seconds();
    int64_t read = 0;
    for (int64_t b = 0; status == MT_OK && b + together <= most; b += together) {
        status = read_some(bench, b, together);
        read += together * bench->prompt;
    }
    bench->past = bench->prompt;
    if (status == MT_OK)
        printf("prompts of %" PRId64 ", %" PRId64 " a pass: %.0f tokens/s read\n", bench->prompt, together,
               (double)read / (mt_clock_seconds() - start));
    return status == MT_OK ? print_shares(bench, read_first, together) : status;
}

/* One token of `count` sequences, and its logits. */
static enum mt_status one_step(struct bench *bench, int64_t count)
{
    struct mt_model_loss loss;
    for (int64_t b = 0; b < count; b++) {
        bench->cached[b] = (struct mt_cached_sequence){
            .slot = (int32_t)b, .past = (int32_t)bench->past, .length = (int32_t)bench->past + 1};
        bench->offsets[b + 1] = (int32_t)b + 1;
        bench->rows[b] = (int32_t)b;
    }
    draw_ids(bench, count);
    struct mt_batch batch = {.tokens = count,
                             .sequences = count,
                             .ids = bench->ids,
                             .offsets = bench->offsets,
                             .loss_only = true,
                             .cached = bench->cached};
    struct mt_tensor logits = mt_tensor_2d(bench->logits.data, MT_F32, count, bench->vocabulary);
    enum mt_status status = mt_model_forward(bench->model, &batch, &loss);
    if (status == MT_OK) status = mt_model_logits_of(bench->model, bench->rows, count, &logits);
    return status == MT_OK ? mt_device_synchronise(bench->device) : status;
}

/* Counts the experts that have rows. */
static enum mt_status look(void *self, int moe_layer, const struct mt_routing *record,
                           const struct mt_tensor *input)
{
    struct bench *bench = self;
    bool used[MOST_EXPERTS] = {false};
    size_t count = (size_t)mt_tensor_count(&record->expert);
    (void)moe_layer;
    (void)input;
    enum mt_status status =
        mt_device_download(bench->device, bench->chosen, record->expert.data, count * sizeof *bench->chosen);
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        if (bench->chosen[i] < 0 || bench->chosen[i] >= MOST_EXPERTS || used[bench->chosen[i]]) continue;
        used[bench->chosen[i]] = true;
        bench->experts_used++;
    }
    return status;
}

/* Somebody who looks on and does nothing: passes are then not recorded. */
static enum mt_status look_away(void *self, int moe_layer, const struct mt_routing *record,
                                const struct mt_tensor *input)
{
    (void)self;
    (void)moe_layer;
    (void)record;
    (void)input;
    return MT_OK;
}

/* The median of the rounds' steps; the first two, in which passes are recorded, do not count. */
static enum mt_status time_steps(struct bench *bench, int64_t count, double *median)
{
    double seconds[MOST_ROUNDS];
    enum mt_status status = MT_OK;
    bench->past = bench->prompt;
    for (int64_t round = -2; status == MT_OK && round < bench->rounds; round++) {
        bench->past++;
        double start = mt_clock_seconds();
        status = one_step(bench, count);
        if (round >= 0) seconds[round] = mt_clock_seconds() - start;
    }
    if (status != MT_OK) return status;
    *median = bench_median(seconds, (int)bench->rounds);
    return MT_OK;
}

/* The same while a collector gets every pass, as in `metier eval`. */
static enum mt_status time_watched(struct bench *bench, int64_t count, double *median)
{
    const struct mt_model_desc *desc = mt_model_description(bench->model);
    struct mt_collection collection = {.model = bench->model};
    struct mt_collector_options options;
    int64_t *number = calloc((size_t)desc->layers, sizeof *number);
    if (number == NULL) return mt_fail(bench->ctx, MT_ERR_MEMORY, "no memory for the layers' numbers");
    (void)mt_collector_options_of(desc, number, &options);
    options.outputs = KEPT_TOKENS;
    options.grams = mt_model_keeps_records(bench->model);
    enum mt_status status = mt_collector_create(bench->device, &options, &collection.collector);
    if (status == MT_OK) status = mt_collection_begin(&collection);
    if (status == MT_OK) status = time_steps(bench, count, median);
    if (status == MT_OK) status = mt_collection_settle(&collection);
    mt_collector_destroy(collection.collector);
    mt_collection_end(&collection);
    free(number);
    return status;
}

static enum mt_status measure(struct bench *bench, int64_t count)
{
    double plain = 0.0;
    double watched = 0.0;
    double median = 0.0;
    bench->past = bench->prompt;
    bench->experts_used = 0;
    mt_model_observe(bench->model, &(struct mt_layer_observer){.self = bench, .look = look});
    enum mt_status status = one_step(bench, count);
    mt_model_observe(bench->model, &(struct mt_layer_observer){.look = look_away});
    if (status == MT_OK) status = time_steps(bench, count, &plain);
    if (status == MT_OK) status = time_watched(bench, count, &watched);
    mt_model_observe(bench->model, NULL);
    if (status == MT_OK) status = time_steps(bench, count, &median);
    if (status != MT_OK) return status;
    double bytes = bench->dense_bytes + bench->expert_bytes * (double)bench->experts_used +
                   bench->cache_bytes * (double)(count * bench->past);
    printf("%3" PRId64 " sequences: %.3f ms a step (op by op %.3f, routing watched %.3f), %.0f tokens/s, "
           "%.2f GB read, %.0f GB/s",
           count, 1e3 * median, 1e3 * plain, 1e3 * watched, (double)count / median, bytes / 1e9,
           bytes / median / 1e9);
    if (bench->copy > 0.0) printf(", %.1f %% of the copy", 100.0 * bytes / median / bench->copy);
    printf("\n");
    return print_shares(bench, one_step, count);
}

static void close_bench(struct bench *bench)
{
    mt_buffer_release(&bench->logits);
    mt_model_close(bench->model);
    mt_device_destroy(bench->device);
    free(bench->chosen);
    free(bench->ids);
    free(bench->offsets);
    free(bench->rows);
    free(bench->cached);
}

int main(int argc, char **argv)
{
    static const int64_t usual[] = {1, 8, 64};
    struct mt_context ctx;
    if (argc < 4) {
        (void)fprintf(
            stderr,
            "usage: device_decode DEVICE CONFIG.json FOLDER [prompt tokens] [rounds] [rank] [BATCH ...]\n");
        return 2;
    }
    struct bench bench = {.ctx = &ctx,
                          .prompt = argc > 4 ? strtoll(argv[4], NULL, 10) : 512,
                          .rounds = argc > 5 ? strtoll(argv[5], NULL, 10) : 32,
                          .rank = argc > 6 ? (int)strtol(argv[6], NULL, 10) : 0};
    int batches = argc > 7 ? argc - 7 : 3;
    for (int i = 0; i < batches; i++) {
        int64_t count = argc > 7 ? strtoll(argv[7 + i], NULL, 10) : usual[i];
        if (count < 1 || count > MOST_BATCH) return 2;
        if (count > bench.most) bench.most = count;
    }
    if (bench.prompt < 1 || bench.rounds < 1 || bench.rounds > MOST_ROUNDS || bench.rank < 0) return 2;
    mt_context_init(&ctx, NULL);
    enum mt_status status = hollow_model_write(&ctx, argv[2], argv[3], &bench.shared);
    if (status == MT_OK) status = open_model(&bench, argv[1], argv[3]);
    if (status == MT_OK) status = measure_copy(&bench);
    if (status == MT_OK) {
        printf("%s, a copy at %.0f GB/s\n", mt_device_description(bench.device), bench.copy / 1e9);
        status = read_prompts(&bench, 1);
        if (status == MT_OK && bench.together > 1) status = read_prompts(&bench, bench.together);
    }
    for (int i = 0; status == MT_OK && i < batches; i++)
        status = measure(&bench, argc > 7 ? strtoll(argv[7 + i], NULL, 10) : usual[i]);
    if (status != MT_OK) (void)fprintf(stderr, "device_decode: %s\n", ctx.message);
    close_bench(&bench);
    return status == MT_OK ? 0 : 1;
}
