/*
 * What ranks send in a step is what docs/scaling.md says, to the byte: small models are trained on all ranks
 * of mpirun, each kind of message is counted, and the formulas are evaluated from the run's own log. What
 * they hold of what is trained is what metier plan says. Usage: mpirun -n P rank_bytes FOLDER, with 2 or 4
 * ranks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/training_bench.h"
#include "train/opening.h"
#include "train/scaling.h"

#define STEPS       3
#define LINE_BYTES  65536
#define LOSS_BYTES  40 // struct mt_rank_loss
#define AGREEMENTS  3  // of a step
#define TERM_VALUES 5  // of a term in a layer, where a step is logged
#define WATCHED     6  // numbers of an expert, likewise
#define LORA_RANK   16 // without gaps between tensors

struct bench {
    struct mt_comm *comm;
    struct workplace place;
    int faults;
    // of the run at hand
    uint64_t sent[STEPS][MT_COMM_KINDS]; // by this rank until the end of each step
    int64_t forwards[STEPS];             // of this rank, likewise
    int64_t forwards_so_far;
};

static void complain(struct bench *bench, const char *what, const char *detail)
{
    (void)fprintf(stderr, "FAIL rank %d of %d: %s: %s\n", mt_comm_rank(bench->comm),
                  mt_comm_size(bench->comm), what, detail);
    bench->faults++;
}

static void note_step(void *self, uint64_t step, uint64_t steps)
{
    struct bench *bench = self;
    (void)steps;
    for (int kind = 0; kind < MT_COMM_KINDS; kind++)
        bench->sent[step - 1][kind] = mt_comm_sent_of(bench->comm, (enum mt_comm_kind)kind);
    bench->forwards[step - 1] = bench->forwards_so_far;
}

static enum mt_status note_forward(void *self, int moe_layer, const struct mt_routing *record,
                                   const struct mt_tensor *input)
{
    struct bench *bench = self;
    (void)record;
    (void)input;
    if (moe_layer == 0) bench->forwards_so_far++;
    return MT_OK;
}

// ------------------------------------------------------------------ what the log says

struct logged {
    int64_t rows_sent; // of all layers
    int64_t tokens;
    double max_violation;
};

/* Adds up the numbers of an array that begins behind `text`. */
static int64_t sum_of(const char *text)
{
    int64_t sum = 0;
    for (char *end = NULL; *text != ']' && *text != '\0'; text = *end == ',' ? end + 1 : end)
        sum += (int64_t)strtod(text, &end);
    return sum;
}

/* The steps of metrics.jsonl. */
static void read_log(struct bench *bench, const char *out, struct logged logged[STEPS])
{
    char name[128];
    char path[256];
    static char line[LINE_BYTES];
    int found = 0;
    (void)snprintf(name, sizeof name, "%s/metrics.jsonl", out);
    FILE *file = fopen(workplace_path(&bench->place, name, path, sizeof path), "rb");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strstr(line, "\"kind\":\"step\"") == NULL || found == STEPS) continue;
        const char *rows = strstr(line, "\"rows_sent\":[");
        const char *tokens = strstr(line, "\"tokens\":");
        const char *violation = strstr(line, "\"max_violation\":");
        logged[found] =
            (struct logged){.rows_sent = rows != NULL ? sum_of(rows + 13) : -1,
                            .tokens = tokens != NULL ? strtol(tokens + 9, NULL, 10) : -1,
                            .max_violation = violation != NULL ? strtod(violation + 16, NULL) : -1.0};
        found++;
    }
    if (file != NULL) (void)fclose(file);
    if (found != STEPS) complain(bench, out, "its log has not all steps");
}

// ------------------------------------------------------------------ formulas

struct layout {
    const char *name;
    int sharing;           // E
    const char *recompute; // none, moe, full
    bool balanced;         // every token goes to every expert
};

struct shape {
    int64_t ranks, sharing;
    int64_t layers;  // MoE layers
    int64_t experts; // n
    int64_t slots;   // k
    int64_t width;   // d
    int64_t common;  // bytes of gradients of what every rank holds
    int64_t own;     // bytes of those of routed experts, of all ranks together
};

static struct shape shape_of(struct bench *bench, struct mt_trainer *trainer, int sharing)
{
    const struct mt_model_desc *desc = mt_model_description(mt_trainer_model(trainer));
    const struct mt_params *params = mt_model_params(mt_trainer_model(trainer));
    struct shape shape = {.ranks = mt_comm_size(bench->comm),
                          .sharing = sharing,
                          .experts = desc->experts,
                          .slots = desc->router.slots,
                          .width = desc->width,
                          .common = (int64_t)params->gradients.bytes};
    for (int64_t layer = 0; layer < desc->layers; layer++)
        shape.layers += mt_model_layer_is_moe(desc, layer) ? 1 : 0;
    if (sharing == 1) return shape;
    shape.common = (int64_t)params->common_bytes;
    shape.own = (int64_t)(params->gradients.bytes - params->common_bytes);
    mt_comm_sum_i64(bench->comm, &shape.own, 1);
    return shape;
}

/* Times a row and a row of its expert travel: there and back in every forward; its gradient there, the row
 * once more, its gradient back. */
static int64_t journeys(const char *recompute)
{
    return strcmp(recompute, "none") == 0 ? 5 : 7;
}

/* Numbers of the statistics of one round: method metier has L_aux, L_o and L_v. */
static int64_t statistics(const struct shape *shape)
{
    int64_t n = shape->experts;
    return shape->layers * ((n + 1) + (3 * n + 1) + (2 * n + 1) + 2);
}

/* Bytes of all ranks in one step, by kind. */
static void evaluate(const struct shape *shape, const char *recompute, int64_t rounds, int64_t rows_sent,
                     int64_t expected[MT_COMM_KINDS])
{
    int64_t others = shape->ranks - 1;
    int64_t copies = shape->ranks / shape->sharing;
    int64_t routes = strcmp(recompute, "full") == 0 ? 2 : 1; // forward again chooses again
    int64_t counts = routes * rounds * shape->layers * 4 * shape->experts * (shape->sharing - 1) * copies;
    int64_t rows = journeys(recompute) * rows_sent * shape->width * (int64_t)sizeof(float);
    int64_t watched =
        shape->layers * (WATCHED * shape->experts + shape->slots + 5 + MT_TERM_COUNT * TERM_VALUES) + 2;
    int64_t gathered = rounds * (8 * statistics(shape) + LOSS_BYTES) + 4 * AGREEMENTS + 8 + 8 +
                       8 * watched; // of one for one
    expected[MT_COMM_SUM] = 2 * others * shape->common + 2 * (copies - 1) * shape->own / copies;
    expected[MT_COMM_EXCHANGE] = counts + rows;
    expected[MT_COMM_GATHER] = shape->ranks * others * gathered;
    expected[MT_COMM_BROADCAST] = 0;
    expected[MT_COMM_HAND_OVER] = 0;
}

/* What metier plan says. */
static struct mt_scaling planned(struct bench *bench, const struct shape *shape, int64_t tokens)
{
    struct mt_context ctx;
    struct mt_hf_config config;
    struct mt_scaling scaling = {0};
    char path[256];
    mt_context_init(&ctx, NULL);
    if (mt_hf_config_read(&ctx, workplace_path(&bench->place, "config.json", path, sizeof path), NULL, 0,
                          &config) != MT_OK) {
        complain(bench, "plan", ctx.message);
        return scaling;
    }
    const struct mt_cluster cluster = {.flops = 1e12, .wire = {.bandwidth = 1e9, .latency = 1e-6}};
    const struct mt_layout layout = {.ranks = shape->ranks,
                                     .expert_ranks = shape->sharing,
                                     .tokens = tokens,
                                     .length = 24,
                                     .row_bytes = 4,
                                     .common_bytes = (double)shape->common,
                                     .own_bytes = (double)shape->own / (double)shape->ranks};
    mt_scaling_predict(&config, &cluster, &layout, &scaling);
    mt_hf_config_free(&config);
    return scaling;
}

/* Bytes of what is trained, of its gradients and moments, as they were counted on paper. */
static void judge_memory(struct bench *bench, const struct layout *layout, const struct shape *shape,
                         struct mt_trainer *trainer)
{
    struct mt_run_outline outline;
    struct mt_context ctx;
    struct mt_device *dry = NULL;
    struct mt_rank_memory memory = {0};
    const struct mt_fit_sizes sizes = {.tokens = 64, .expert_ranks = shape->sharing};
    char text[256];
    mt_trainer_outline(trainer, &outline);
    mt_context_init(&ctx, NULL);
    struct mt_arena arena;
    struct mt_adapter adapter = {0};
    struct mt_train_selection selection;
    mt_arena_init(&arena, &ctx, 4096);
    enum mt_status status =
        mt_train_select(&ctx, outline.settings, outline.desc, &arena, &adapter, &selection);
    if (status == MT_OK) status = mt_device_create(&ctx, "cpu", 1, &dry);
    mt_device_set_dry(dry);
    if (status == MT_OK) {
        struct mt_model_options options = mt_train_model_options(outline.settings, &selection, dry, &sizes);
        status = mt_rank_memory(dry, outline.settings, &options, &sizes, mt_comm_rank(bench->comm),
                                mt_comm_size(bench->comm), 1, &memory);
    }
    (void)snprintf(text, sizeof text, "%zu, %zu, %zu bytes are held, %zu, %zu, %zu were counted (%.80s)",
                   outline.model.masters, outline.model.gradients, outline.moments, memory.model.masters,
                   memory.model.gradients, memory.moments, status == MT_OK ? "" : ctx.message);
    if (outline.model.masters != memory.model.masters || outline.moments != memory.moments ||
        outline.model.gradients != memory.model.gradients || status != MT_OK)
        complain(bench, layout->name, text);
    mt_device_destroy(dry);
    mt_arena_free(&arena);
}

// ------------------------------------------------------------------ runs

/* Compares every step but the first, before which ranks also met to open the run. */
static void judge(struct bench *bench, const struct layout *layout, const struct shape *shape,
                  const struct logged logged[STEPS])
{
    static const char *const kinds[MT_COMM_KINDS] = {"sums", "exchanges", "gatherings", "broadcasts",
                                                     "handed over"};
    for (int step = 1; step < STEPS; step++) {
        int64_t expected[MT_COMM_KINDS];
        int64_t sent[MT_COMM_KINDS];
        int64_t rounds = bench->forwards[step] - bench->forwards[step - 1];
        for (int kind = 0; kind < MT_COMM_KINDS; kind++)
            sent[kind] = (int64_t)(bench->sent[step][kind] - bench->sent[step - 1][kind]);
        mt_comm_sum_i64(bench->comm, sent, MT_COMM_KINDS);
        int64_t rows = layout->sharing > 1 ? logged[step].rows_sent : 0;
        evaluate(shape, layout->recompute, rounds, rows, expected);
        for (int kind = 0; kind < MT_COMM_KINDS; kind++) {
            char text[160];
            (void)snprintf(text, sizeof text, "step %d, %s: %" PRId64 " bytes, expected %" PRId64, step + 1,
                           kinds[kind], sent[kind], expected[kind]);
            if (sent[kind] != expected[kind]) complain(bench, layout->name, text);
        }
        // As many tokens on one rank as all have: what it sends is what all send.
        struct mt_scaling plan = planned(bench, shape, logged[step].tokens);
        int64_t even = (int64_t)(plan.expert_bytes + 0.5);
        int64_t travelled = 5 * rows * shape->width * (int64_t)sizeof(float);
        if (layout->balanced && even != travelled)
            complain(bench, layout->name, "rows are not what is planned");
        if (!layout->balanced && !(logged[step].max_violation > 0.2))
            complain(bench, layout->name, "the router is even: this shows nothing");
        if (mt_comm_rank(bench->comm) == 0)
            printf("%s, step %d: %" PRId64 " rounds, rows %" PRId64 ", balanced %" PRId64 " bytes\n",
                   layout->name, step + 1, rounds, travelled, even);
    }
}

static void train(struct bench *bench, const struct layout *layout)
{
    char words[512];
    struct logged logged[STEPS] = {{0}};
    struct training_run run = {.options = {.comm = bench->comm, .stepped = note_step, .self = bench}};
    int ranks = mt_comm_size(bench->comm);
    (void)snprintf(words, sizeof words,
                   "steps=%d method=metier batch.examples=%d batch.tokens=24 log.every=1 checkpoint.every=0 "
                   "parallel.experts=%d recompute=%s lora.rank=%d",
                   STEPS, 4 * ranks, layout->sharing, layout->recompute, LORA_RANK);
    bench->forwards_so_far = 0;
    enum mt_status status = training_run_open(&run, &bench->place, "bytes", words);
    if (status == MT_OK) {
        struct shape shape = shape_of(bench, run.trainer, layout->sharing);
        mt_model_observe(mt_trainer_model(run.trainer),
                         &(struct mt_layer_observer){.self = bench, .look = note_forward});
        status = mt_trainer_run(run.trainer, &run.outcome);
        judge_memory(bench, layout, &shape, run.trainer);
        mt_comm_barrier(bench->comm);
        if (status == MT_OK) {
            read_log(bench, "bytes", logged);
            judge(bench, layout, &shape, logged);
        }
    }
    if (status != MT_OK) complain(bench, layout->name, run.ctx.message);
    training_run_close(&run);
    mt_comm_barrier(bench->comm);
    if (mt_comm_rank(bench->comm) == 0) training_bench_remove(&bench->place, "bytes");
    mt_comm_barrier(bench->comm);
}

static void make(struct bench *bench, const char *config)
{
    if (mt_comm_rank(bench->comm) == 0 && training_bench_make_of(&bench->place, config) != 0)
        complain(bench, "the bench", "cannot be made");
    mt_comm_barrier(bench->comm);
}

static const char all_chosen[] =
    "{\"model_type\": \"qwen3_moe\", \"head_dim\": 6, \"hidden_size\": 24, \"intermediate_size\": 44,"
    " \"max_position_embeddings\": 64, \"moe_intermediate_size\": 10, \"norm_topk_prob\": true,"
    " \"num_attention_heads\": 6, \"num_experts\": 4, \"num_experts_per_tok\": 4,"
    " \"num_hidden_layers\": 2, \"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-06,"
    " \"rope_theta\": 1000000.0, \"vocab_size\": 53, \"initializer_range\": 0.3}";

int main(int argc, char **argv)
{
    struct bench bench = {0};
    struct mt_context ctx;
    if (argc != 2) return 2;
    mt_context_init(&ctx, NULL);
    if (mt_comm_open(&ctx, &bench.comm) != MT_OK) {
        (void)fprintf(stderr, "%s\n", ctx.message);
        return 1;
    }
    int ranks = mt_comm_size(bench.comm);
    (void)snprintf(bench.place.directory, sizeof bench.place.directory, "%s", argv[1]);
    make(&bench, small_model_config(&mt_arch_deepseek_v3));
    train(&bench, &(struct layout){.name = "data parallel", .sharing = 1, .recompute = "none"});
    train(&bench, &(struct layout){.name = "experts over 2", .sharing = 2, .recompute = "none"});
    train(&bench, &(struct layout){.name = "experts over all", .sharing = ranks, .recompute = "moe"});
    train(&bench, &(struct layout){.name = "recomputed", .sharing = ranks, .recompute = "full"});
    make(&bench, small_model_config(&mt_arch_qwen3_moe)); // 7 experts: no two ranks own as many
    train(&bench, &(struct layout){.name = "seven experts", .sharing = ranks, .recompute = "none"});
    make(&bench, all_chosen);
    train(&bench,
          &(struct layout){.name = "all chosen", .sharing = 2, .recompute = "none", .balanced = true});
    train(&bench, &(struct layout){
                      .name = "all chosen, of all", .sharing = ranks, .recompute = "none", .balanced = true});
    mt_comm_close(bench.comm);
    return bench.faults == 0 ? 0 : 1;
}
