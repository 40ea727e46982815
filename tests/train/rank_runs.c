/*
 * Whole runs of small models on many ranks, compared with one rank's. Run under mpirun with 2 or 4 ranks, all
 * in the same folder.
 *     rank_runs FOLDER same [E]  every method, and every architecture, global and local statistics; experts
 *                                spread over E ranks
 *     rank_runs FOLDER every [E] every method with every architecture
 *     rank_runs FOLDER resume    begun on all ranks, gone on with by half of them, then by one
 *     rank_runs FOLDER shards    experts spread over ranks: every rank holds its own part of what learns and
 *                                no more, every kind of result is whole, runs go on in other layouts
 *     rank_runs FOLDER room      more rows than there is room for: the job is ended
 *     rank_runs FOLDER memory    one rank runs out of memory, here and there: all fail, none hangs
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/failing_allocator.h"
#include "support/training_bench.h"

// Adam divides by the root of squares: where that is next to nothing, rounding would be blown up.
#define GENTLE "optimizer.epsilon=1e-3 optimizer.warmup=0"
#define COMMON GENTLE " steps=3"

struct bench {
    struct mt_comm *comm;
    struct workplace place;
    int faults;
    double worst;      // relative difference of trained numbers seen
    double worst_loss; // of losses
};

static bool first(const struct bench *bench)
{
    return mt_comm_rank(bench->comm) == 0;
}

static void complain(struct bench *bench, const char *what, const char *detail)
{
    (void)fprintf(stderr, "FAIL rank %d of %d: %s: %s\n", mt_comm_rank(bench->comm),
                  mt_comm_size(bench->comm), what, detail);
    bench->faults++;
}

/* A run by all ranks of a group, or with NULL by this process alone. */
static void run_on(struct bench *bench, struct mt_comm *comm, const char *out, const char *words,
                   uint64_t stop_after)
{
    struct training_run run = {.options = {.comm = comm, .stop_after = stop_after}};
    enum mt_status status = training_run_all(&run, &bench->place, out, words);
    if (status != MT_OK) complain(bench, words, run.ctx.message);
    if (run.ctx.live_bytes != 0) complain(bench, words, "memory was not freed");
}

#define ADAPTER "adapter/adapter_model.safetensors"
#define BEST    "adapter-best/adapter_model.safetensors"

/* The numbers of a file of f32 tensors in a run's folder, without its header; the caller frees. */
static float *read_numbers(const struct bench *bench, const char *out, const char *which, size_t *count)
{
    char name[128];
    char path[256];
    uint64_t header = 0;
    (void)snprintf(name, sizeof name, "%s/%s", out, which);
    FILE *file = fopen(workplace_path(&bench->place, name, path, sizeof path), "rb");
    *count = 0;
    if (file == NULL) return NULL;
    float *numbers = malloc(1 << 24);
    if (numbers != NULL && fread(&header, sizeof header, 1, file) == 1 &&
        fseek(file, (long)(8 + header), SEEK_SET) == 0)
        *count = fread(numbers, sizeof *numbers, (1 << 24) / sizeof *numbers, file);
    (void)fclose(file);
    return numbers;
}

/* The largest difference of a file of two runs, relative to the largest number. */
static double difference(const struct bench *bench, const char *one, const char *other, const char *which)
{
    size_t counts[2];
    float *a = read_numbers(bench, one, which, &counts[0]);
    float *b = read_numbers(bench, other, which, &counts[1]);
    double largest = 0.0;
    double worst = counts[0] == 0 || counts[0] != counts[1] ? (double)INFINITY : 0.0;
    for (size_t i = 0; i < counts[0] && worst < (double)INFINITY; i++) {
        largest = fmax(largest, fabs((double)a[i]));
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
    }
    free(a);
    free(b);
    return largest > 0.0 ? worst / largest : (double)INFINITY;
}

/* Complains where a file of two runs differs by more than a limit. */
static void judge(struct bench *bench, const char *what, const char *one, const char *other,
                  const char *which, double limit)
{
    char text[160];
    double found = difference(bench, one, other, which);
    (void)snprintf(text, sizeof text, "%s differs by %g", which, found);
    if (!(found <= limit)) complain(bench, what, text);
    bench->worst = fmax(bench->worst, found);
}

#define LINE_BYTES  65536
#define LOSS_LIMIT  1e-6
#define MOST_LOSSES 64

/* The losses of a run's steps; how many there are. */
static int read_losses(const struct bench *bench, const char *out, double losses[MOST_LOSSES])
{
    static char line[LINE_BYTES];
    static const char key[] = "\"loss\":";
    char name[128];
    char path[256];
    int count = 0;
    (void)snprintf(name, sizeof name, "%s/metrics.jsonl", out);
    FILE *file = fopen(workplace_path(&bench->place, name, path, sizeof path), "rb");
    while (file != NULL && count < MOST_LOSSES && fgets(line, sizeof line, file) != NULL) {
        const char *loss = strstr(line, key);
        if (strstr(line, "\"kind\":\"step\"") != NULL && loss != NULL)
            losses[count++] = strtod(loss + sizeof key - 1, NULL);
    }
    if (file != NULL) (void)fclose(file);
    return count;
}

/* The losses of two runs, step by step. */
static void judge_losses(struct bench *bench, const char *what, const char *one, const char *other)
{
    double a[MOST_LOSSES];
    double b[MOST_LOSSES];
    char text[160];
    int count = read_losses(bench, one, a);
    if (count < 2 || count != read_losses(bench, other, b)) complain(bench, what, "steps are not in the log");
    for (int i = 0; i < count; i++) {
        double found = fabs(a[i] - b[i]) / fmax(1.0, fabs(a[i]));
        (void)snprintf(text, sizeof text, "the loss of step %d is %.9g, not %.9g", i + 1, b[i], a[i]);
        if (!(found <= LOSS_LIMIT)) complain(bench, what, text);
        bench->worst_loss = fmax(bench->worst_loss, found);
    }
}

/* One rank with the first settings, all ranks with the second: the same numbers, within a limit. */
static void compare_file(struct bench *bench, const char *what, const char *alone, const char *together,
                         const char *which, double limit)
{
    if (first(bench)) run_on(bench, NULL, "one", alone, 0);
    mt_comm_barrier(bench->comm);
    run_on(bench, bench->comm, "all", together, 0);
    if (first(bench)) {
        judge(bench, what, "one", "all", which, limit);
        judge_losses(bench, what, "one", "all");
        training_bench_remove(&bench->place, "one");
        training_bench_remove(&bench->place, "all");
    }
    mt_comm_barrier(bench->comm);
}

static void compare(struct bench *bench, const char *what, const char *alone, const char *together,
                    double limit)
{
    compare_file(bench, what, alone, together, ADAPTER, limit);
}

/* Rank 0 makes what all train. */
static void make(struct bench *bench, const struct mt_arch *model)
{
    if (first(bench) && training_bench_make(&bench->place, model) != 0)
        complain(bench, "the bench", "cannot be made");
    mt_comm_barrier(bench->comm);
}

/*
 * Global statistics: a round of micro-batches on all ranks is what one rank makes of all tokens at once.
 * Local ones: micro-batches are what they are with one rank, noise included; scales are means over ranks, and
 * off.
 */
static void compare_method(struct bench *bench, size_t at, const struct mt_method *method, int sharing,
                           bool every)
{
    const struct mt_arch *model = mt_archs[at];
    char what[128];
    char alone[512];
    char together[640];
    int ranks = mt_comm_size(bench->comm);
    const char *name = model->name;
    if (!training_bench_takes(model, method)) return;
    // What needs all experts on one rank is refused.
    int needs = MT_NEEDS_INNER_GRAM | MT_NEEDS_PROXIES | MT_NEEDS_DENSE_BACKWARD;
    if (sharing > 1 && (mt_objective_needs(&method->config) & needs) != 0) return;
    // Two examples of at most 24 tokens fit a micro-batch: a step is one round.
    (void)snprintf(what, sizeof what, "%s, %s, global, experts over %d", name, method->name, sharing);
    // Pools are drawn by a sequence's number in the step, and nothing else is without dropout.
    const char *noise = method->config.pool ? "lora.dropout=0" : "noise=false";
    (void)snprintf(alone, sizeof alone, COMMON " method=%s %s batch.examples=%d batch.tokens=%d",
                   method->name, noise, 2 * ranks, 48 * ranks);
    (void)snprintf(together, sizeof together,
                   COMMON " method=%s %s batch.examples=%d batch.tokens=48 parallel.experts=%d "
                          "recompute=%s",
                   method->name, noise, 2 * ranks, sharing, at % 2 == 0 ? "full" : "moe");
    // Groups in expert order are made of the tokens at hand.
    bool groups =
        method->config.coefficient[MT_TERM_O] > 0.0 && method->config.grouping == MT_GROUPING_EXPERT_CONCAT;
    // Quantiles are of a micro-batch, and a step's the mean of them.
    bool quantiles = method->config.bias_rule == MT_BIAS_QUANTILE;
    if (!groups && !quantiles) compare(bench, what, alone, together, 1e-5);
    static const char *const with_noise[] = {"metier",       "loss-free", "smebu",  "quantile",
                                             "global-batch", "gshard",    "simbal", "pool"};
    bool local = every;
    for (size_t i = 0; i < sizeof with_noise / sizeof with_noise[0]; i++)
        local = local || strcmp(method->name, with_noise[i]) == 0;
    if (!local) return;
    // Five micro-batches: some ranks are idle at the end of a step. Dropout is drawn by a row's place among
    // those that meet an expert, which is another where other ranks' rows are among them.
    (void)snprintf(what, sizeof what, "%s, %s, local, experts over %d", name, method->name, sharing);
    // Scales follow each rank's own micro-batches.
    bool scaled = method->config.coefficient[MT_TERM_O] > 0.0 || method->config.coefficient[MT_TERM_V] > 0.0;
    (void)snprintf(alone, sizeof alone,
                   COMMON " method=%s parallel.statistics=local batch.examples=5 batch.tokens=24%s%s",
                   method->name, scaled ? " objective.scale=none" : "", sharing > 1 ? " lora.dropout=0" : "");
    (void)snprintf(together, sizeof together, "%s parallel.experts=%d", alone, sharing);
    compare(bench, what, alone, together, 1e-5);
}

/* Steps packed into one micro-batch: all ranks take a part of it, and the terms are of the whole. */
static void packed(struct bench *bench, int sharing)
{
    char together[256];
    static const char alone[] = COMMON " method=metier noise=false data.layout=packed data.window=16 "
                                       "batch.examples=0 batch.tokens=96";
    (void)snprintf(together, sizeof together, "%s parallel.experts=%d", alone, sharing);
    compare(bench, "packed steps", alone, together, 1e-5);
}

/*
 * Quantised weights: each rank makes the codes of its own experts, and they are those of one rank; or one of
 * the ranks keeps all codes in a file; or all ranks read what the one before has kept.
 */
static void quantised(struct bench *bench, size_t at, int sharing)
{
    static const char *const formats[] = {"fp8", "int8", "nf4", "mxfp4"};
    static const char *const caching[][2] = {{"false", "false"}, {"false", "true"}, {"true", "true"}};
    static const char words[] =
        COMMON " method=metier parallel.statistics=local objective.scale=none noise=false batch.tokens=24 "
               "quantize.parts=[routed_experts,attention] quantize.format=%s quantize.cache=%s";
    char alone[320];
    char together[384];
    (void)snprintf(alone, sizeof alone, words, formats[at % 4], caching[at % 3][0]);
    int used = snprintf(together, sizeof together, words, formats[at % 4], caching[at % 3][1]);
    (void)snprintf(together + used, sizeof together - (size_t)used, " parallel.experts=%d recompute=%s",
                   sharing, at % 2 == 0 ? "moe" : "none");
    compare(bench, "quantised weights", alone, together, 1e-5);
}

/* `every`: all methods with all architectures, global and local; else all with one, and one with all. */
static void same(struct bench *bench, bool every, int sharing)
{
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        make(bench, model);
        for (int i = 0; mt_method_listed(i) != NULL; i++) {
            const struct mt_method *method = mt_method_listed(i);
            bool pool = method->config.pool && model == &mt_arch_olmoe; // deepseek_v3 has groups
            if (every || model == &mt_arch_deepseek_v3 || pool || strcmp(method->name, "metier") == 0)
                compare_method(bench, at, method, sharing, every);
        }
        packed(bench, sharing);
        quantised(bench, at, sharing);
    }
}

/* Begun on all ranks, interrupted, gone on with by the first half, then by the first alone. */
static void resume(struct bench *bench)
{
    static const char words[] = COMMON " method=metier parallel.statistics=local objective.scale=none "
                                       "batch.tokens=24 evaluation.split=0.2 evaluation.every=2";
    struct mt_comm *half = NULL;
    int rank = mt_comm_rank(bench->comm);
    make(bench, &mt_arch_deepseek_v3);
    bool in_half = rank < (mt_comm_size(bench->comm) + 1) / 2;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    if (mt_comm_split(bench->comm, in_half ? 0 : 1, &half) != MT_OK) complain(bench, "split", ctx.message);
    run_on(bench, bench->comm, "parts", words, 1);
    mt_comm_barrier(bench->comm);
    if (in_half) run_on(bench, half, "parts", words, 2);
    mt_comm_barrier(bench->comm);
    if (first(bench)) {
        run_on(bench, NULL, "parts", words, 0);
        run_on(bench, NULL, "whole", words, 0);
        judge(bench, "resumed on fewer ranks", "whole", "parts", ADAPTER, 1e-5);
        judge_losses(bench, "resumed on fewer ranks", "whole", "parts");
    }
    mt_comm_barrier(bench->comm);
    mt_comm_close(half);
}

// ------------------------------------------------------------------ experts spread over ranks

#define SHARDED                                                                                              \
    GENTLE " method=metier parallel.statistics=local objective.scale=none batch.tokens=24 noise=false"
#define LONGER " steps=5 evaluation.split=0.2 evaluation.every=1"

/* Bytes of masters that a rank with experts first … first+owned-1 has: each begins at a multiple of 64. */
static size_t bytes_of_share(const struct mt_params *params, int64_t first_expert, int64_t owned)
{
    size_t sum = 0;
    for (size_t i = 0; i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        bool mine =
            param->expert < 0 || (param->expert >= first_expert && param->expert < first_expert + owned);
        size_t own = (size_t)mt_tensor_count(&param->value) * sizeof(float);
        if (mine) sum += (own + 63) / 64 * 64;
    }
    return sum;
}

/* All ranks together have the moments of every number once, each as many as the others, but for 16 of each of
 * two groups. */
static void share_moments(struct bench *bench, const char *words, const struct mt_run_outline *own,
                          size_t masters, int sharing)
{
    char text[128];
    int64_t moments = (int64_t)own->moments;
    int64_t copies = mt_comm_size(bench->comm) / sharing;
    int64_t common = (int64_t)own->params->common_bytes / mt_comm_size(bench->comm);
    int64_t experts = (int64_t)(own->params->masters.bytes - own->params->common_bytes) / copies;
    int64_t off = llabs(moments - 2 * (common + experts));
    mt_comm_sum_i64(bench->comm, &moments, 1);
    (void)snprintf(text, sizeof text, "moments of %zu bytes, %lld of all ranks, of %zu bytes of values",
                   own->moments, (long long)moments, masters);
    if (moments != 2 * (int64_t)masters || off > 2 * 2 * 64) complain(bench, words, text);
}

/* What a rank holds is its share of what learns: values, gradients and moments. */
static void shares(struct bench *bench, int sharing, const char *words)
{
    char with[256];
    char out[32];
    struct training_run alone = {0};
    struct training_run run = {.options = {.comm = bench->comm}};
    struct mt_run_outline outline;
    struct mt_run_outline all;
    (void)snprintf(with, sizeof with, "%s parallel.experts=%d", words, sharing);
    (void)snprintf(out, sizeof out, "alone%d", mt_comm_rank(bench->comm));
    enum mt_status status = training_run_open(&alone, &bench->place, out, words);
    if (status != MT_OK) complain(bench, "shares", alone.ctx.message);
    status = mt_comm_agree(bench->comm, &alone.ctx, status);
    if (status == MT_OK) status = training_run_open(&run, &bench->place, "shares", with);
    if (status == MT_OK) {
        mt_trainer_outline(alone.trainer, &all);
        mt_trainer_outline(run.trainer, &outline);
        int64_t experts = all.desc->experts;
        int64_t place = mt_comm_rank(bench->comm) % sharing;
        int64_t first_expert = experts * place / sharing;
        size_t expected =
            bytes_of_share(all.params, first_expert, experts * (place + 1) / sharing - first_expert);
        char text[128];
        (void)snprintf(text, sizeof text, "%zu bytes of %zu, expected %zu", outline.params->masters.bytes,
                       all.params->masters.bytes, expected);
        bool less = expected < all.params->masters.bytes;
        if (outline.params->masters.bytes != expected || outline.params->gradients.bytes != expected ||
            less != (sharing > 1))
            complain(bench, with, text);
        share_moments(bench, with, &outline, all.params->masters.bytes, sharing);
        if (outline.params->trained_elements != all.params->trained_elements)
            complain(bench, with, "some of what learns is nobody's");
    }
    training_run_close(&run);
    training_run_close(&alone);
    mt_comm_barrier(bench->comm);
    training_bench_remove(&bench->place, out);
    if (first(bench)) training_bench_remove(&bench->place, "shares");
    mt_comm_barrier(bench->comm);
}

/* Begun by all with experts over 4, gone on with over 2, by two ranks over 2, by one; and the other way. */
static void change_layouts(struct bench *bench)
{
    static const char words[] = SHARDED LONGER;
    static const char over_2[] = SHARDED LONGER " parallel.experts=2";
    static const char over_4[] = SHARDED LONGER " parallel.experts=4";
    struct mt_comm *half = NULL;
    bool in_half = mt_comm_rank(bench->comm) < 2;
    if (mt_comm_split(bench->comm, in_half ? 0 : 1, &half) != MT_OK) complain(bench, "split", "failed");
    if (first(bench)) run_on(bench, NULL, "up", words, 1);
    mt_comm_barrier(bench->comm);
    run_on(bench, bench->comm, "down", over_4, 1);
    run_on(bench, bench->comm, "down", over_2, 2);
    if (in_half) run_on(bench, half, "down", over_2, 3);
    if (in_half) run_on(bench, half, "up", over_2, 2);
    mt_comm_barrier(bench->comm);
    run_on(bench, bench->comm, "up", words, 3); // every rank has every expert
    run_on(bench, bench->comm, "up", over_2, 4);
    run_on(bench, bench->comm, "up", over_4, 0);
    if (first(bench)) {
        run_on(bench, NULL, "down", words, 0);
        run_on(bench, NULL, "whole", words, 0);
        judge(bench, "gone on in smaller layouts", "whole", "down", ADAPTER, 1e-5);
        judge(bench, "gone on in larger layouts", "whole", "up", ADAPTER, 1e-5);
        judge_losses(bench, "gone on in smaller layouts", "whole", "down");
        judge_losses(bench, "gone on in larger layouts", "whole", "up");
        judge(bench, "the best of larger layouts", "whole", "up", BEST, 1e-5);
    }
    mt_comm_barrier(bench->comm);
    mt_comm_close(half);
}

/* Rank 0 writes a file that all will read; its path is returned, in `path`. */
static const char *put_file(struct bench *bench, const char *name, const char *text, char path[256])
{
    if (first(bench) && workplace_write(&bench->place, name, text, strlen(text)) != 0)
        complain(bench, name, "cannot be written");
    mt_comm_barrier(bench->comm);
    return workplace_path(&bench->place, name, path, 256);
}

/* Held-out answers that training only makes less likely: the best is taken from its checkpoint, by every rank
 * its part. */
static void best_is_not_last(struct bench *bench)
{
    char path[256];
    char alone[640];
    char together[768];
    static const char other[] = "{\"prompt\": \"Q\", \"completion\": \" zyx wvu tsr\"}\n";
    (void)snprintf(alone, sizeof alone,
                   SHARDED " steps=6 optimizer.lr=5e-2 evaluation.every=1 evaluation.sources=[%s]",
                   put_file(bench, "other.jsonl", other, path));
    (void)snprintf(together, sizeof together, "%s parallel.experts=4", alone);
    if (first(bench)) run_on(bench, NULL, "one", alone, 0);
    run_on(bench, bench->comm, "all", together, 0);
    if (first(bench)) {
        judge(bench, "the best", "one", "all", BEST, 1e-5);
        if (training_bench_compare(&bench->place, "all/" ADAPTER, "all/" BEST) == 0)
            complain(bench, "the best", "was the last");
        training_bench_remove(&bench->place, "one");
        training_bench_remove(&bench->place, "all");
    }
    mt_comm_barrier(bench->comm);
}

/* Some of the experts learn, and nothing else: a rank holds none of it. */
static void chosen_experts(struct bench *bench)
{
    char path[256];
    char alone[640];
    char together[768];
    static const char choice[] = "{\"experts\": 8, \"layers\": 2, \"keep\": {\"1\": [0, 2], \"2\": [0]}}";
    (void)snprintf(alone, sizeof alone, "%s noise=false targets=routed_experts experts=%s",
                   COMMON " method=none batch.tokens=24", put_file(bench, "choice.json", choice, path));
    (void)snprintf(together, sizeof together, "%s parallel.experts=4", alone);
    compare(bench, "some experts learn", alone, together, 1e-5);
}

static void shards(struct bench *bench)
{
    make(bench, &mt_arch_deepseek_v3);
    shares(bench, 1, COMMON " method=metier");
    shares(bench, 2, COMMON " method=metier");
    shares(bench, 4, COMMON " method=metier train=full");
    change_layouts(bench);
    best_is_not_last(bench);
    chosen_experts(bench);
    compare_file(bench, "full training", SHARDED " steps=3 train=full",
                 SHARDED " steps=3 train=full parallel.experts=2", "model/model.safetensors", 1e-5);
    // 32 numbers: of four ranks two move nothing.
    static const char norm[] = COMMON " method=none noise=false batch.tokens=24 train=full "
                                      "targets=[model.norm.weight]";
    compare_file(bench, "one norm learns", norm, norm, "model/model.safetensors", 1e-5);
    make(bench, &mt_arch_qwen3_moe);
    compare(bench, "stacked experts", SHARDED " steps=3 lora.layout=fused",
            SHARDED " steps=3 lora.layout=fused parallel.experts=4", 1e-5);
    char path[256];
    char alone[640];
    char together[768];
    if (first(bench)) run_on(bench, NULL, "start", SHARDED " steps=3 lora.layout=fused", 0);
    mt_comm_barrier(bench->comm);
    (void)snprintf(alone, sizeof alone, SHARDED " steps=3 adapter=%s",
                   workplace_path(&bench->place, "start/adapter", path, sizeof path));
    (void)snprintf(together, sizeof together, "%s parallel.experts=2", alone);
    compare(bench, "an adapter to start from", alone, together, 1e-5);
}

/* Allocations until a run that cannot be opened is refused: reading the settings, and little else. */
static long calls_for_settings(const struct bench *bench)
{
    struct failing_allocator counting = {.fail_at = -1};
    struct mt_allocator allocator = failing_allocator(&counting);
    struct training_run run = {.allocator = &allocator};
    (void)training_run_open(&run, &bench->place, "none", COMMON " model=/nowhere");
    training_run_close(&run);
    return counting.calls;
}

/* The last rank's n-th allocation fails while the run is opened: everybody hears of it. */
static void memory(struct bench *bench, const char *words)
{
    int last = mt_comm_size(bench->comm) - 1;
    int64_t failures = 0;
    long settings = calls_for_settings(bench);
    for (long n = 0; n < 600; n = n < 20 ? n + 1 : n + n / 3) {
        struct failing_allocator failing = {.fail_at = settings + n};
        struct mt_allocator allocator = failing_allocator(&failing);
        struct training_run run = {.options = {.comm = bench->comm}};
        if (mt_comm_rank(bench->comm) == last) run.allocator = &allocator;
        enum mt_status status = training_run_open(&run, &bench->place, "short", words);
        int64_t failed = status != MT_OK;
        training_run_close(&run);
        if (run.ctx.live_bytes != 0) complain(bench, "memory", "it was not freed");
        mt_comm_sum_i64(bench->comm, &failed, 1);
        if (failed != 0 && failed != last + 1) complain(bench, "memory", "some failed, some did not");
        if (failed != 0 && status != MT_ERR_MEMORY) complain(bench, "memory", run.ctx.message);
        failures += failed != 0;
    }
    if (failures == 0) complain(bench, "memory", "nothing ever failed");
}

/* Room for fewer rows than come: the ranks leave with the key that gives more. The job ends here. */
static void room(struct bench *bench)
{
    make(bench, &mt_arch_mixtral);
    run_on(bench, bench->comm, "room", COMMON " method=none parallel.experts=2 parallel.room=0.5", 0);
}

int main(int argc, char **argv)
{
    struct bench bench = {0};
    struct mt_context ctx;
    if (argc < 3) return 2;
    mt_context_init(&ctx, NULL);
    if (mt_comm_open(&ctx, &bench.comm) != MT_OK) {
        (void)fprintf(stderr, "%s\n", ctx.message);
        return 1;
    }
    (void)snprintf(bench.place.directory, sizeof bench.place.directory, "%s", argv[1]);
    int sharing = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 1;
    if (strcmp(argv[2], "same") == 0) same(&bench, false, sharing);
    if (strcmp(argv[2], "every") == 0) same(&bench, true, sharing);
    if (strcmp(argv[2], "resume") == 0) resume(&bench);
    if (strcmp(argv[2], "shards") == 0) shards(&bench);
    if (strcmp(argv[2], "memory") == 0) {
        make(&bench, &mt_arch_mixtral);
        memory(&bench, COMMON " method=aux");
        memory(&bench, COMMON " method=aux parallel.experts=4");
    }
    if (strcmp(argv[2], "room") == 0) room(&bench);
    if (first(&bench))
        printf("%d ranks, %s, experts over %d: worst %g, of losses %g\n", mt_comm_size(bench.comm), argv[2],
               sharing, bench.worst, bench.worst_loss);
    mt_comm_close(bench.comm);
    return bench.faults == 0 ? 0 : 1;
}
