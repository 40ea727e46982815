/*
 * Scores of experts against their published formulas in plain double loops: records by hand (masks, dropped
 * slots, parts, merges, bytes, Gram matrices in place of rows) and those of two models; and the choice of the
 * best. Tests src/analysis/expert_scores.c.
 */
#include "analysis/expert_scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/collector/collector.h"
#include "base/rng.h"
#include "formats/text/lists.h"
#include "model/collect.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/model_runs.h"
#include "support/small_models.h"

enum { TOKENS = 50, EXPERTS = 6, SLOTS = 3, WIDTH = 11 };

#define OURS (MT_SCORE_BIT(MT_SCORE_REAP) | MT_SCORE_BIT(MT_SCORE_EASY_EP))

/* Sums of the published formulas, with every expert's slots. */
struct formulas {
    double slots[64], reap[64], easy_ep[64];
};

/* One token: h [d], its k outputs (NULL: dropped), weights and experts. 1 - cos as it is written. */
static void add_token(struct formulas *f, int width, const float *h, int slots, const float *const *output,
                      const float *weight, const int32_t *expert)
{
    double before = 0.0;
    double after = 0.0;
    double both = 0.0;
    for (int c = 0; c < width; c++) {
        double sum = (double)h[c];
        for (int s = 0; s < slots; s++) {
            if (expert[s] >= 0) sum += (double)weight[s] * (double)output[s][c];
        }
        before += (double)h[c] * (double)h[c];
        after += sum * sum;
        both += (double)h[c] * sum;
    }
    double change = fmax(0.0, 1.0 - both / sqrt(before * after));
    for (int s = 0; s < slots; s++) {
        double square = 0.0;
        if (expert[s] < 0) continue;
        for (int c = 0; c < width; c++) square += (double)output[s][c] * (double)output[s][c];
        f->slots[expert[s]] += 1.0;
        f->reap[expert[s]] += (double)weight[s] * sqrt(square);
        f->easy_ep[expert[s]] += (double)weight[s] * sqrt(square) * change;
    }
}

static void assert_near(const char *what, int expert, double got, double wanted, double tolerance)
{
    if (fabs(got - wanted) <= tolerance * fabs(wanted)) return;
    fail_msg("%s of expert %d: %.12g, expected %.12g", what, expert, got, wanted);
}

static void assert_scores(const struct mt_layer_figures *layer, const struct formulas *f, int experts,
                          double tolerance)
{
    for (int j = 0; j < experts; j++) {
        double mean = f->slots[j] > 0.0 ? f->reap[j] / f->slots[j] : 0.0;
        assert_true(layer->score[MT_SCORE_USE][j] == f->slots[j]);
        assert_near("reap", j, layer->score[MT_SCORE_REAP][j], mean, tolerance);
        assert_near("easy-ep", j, layer->score[MT_SCORE_EASY_EP][j], f->easy_ep[j], tolerance);
    }
}

// ------------------------------------------------------------------ records by hand

struct bench {
    struct mt_context ctx;
    struct mt_device *device;
    float probs[TOKENS * EXPERTS], weight[TOKENS * SLOTS];
    int32_t chosen[TOKENS * SLOTS], expert[TOKENS * SLOTS], row_of_slot[TOKENS * SLOTS], mask[TOKENS];
    float rows[TOKENS * SLOTS * WIDTH], residual[TOKENS * WIDTH], gram[TOKENS * SLOTS * SLOTS];
};

static const float *row_of(const struct bench *b, int token, int slot)
{
    int32_t row = b->row_of_slot[token * SLOTS + slot];
    return row >= 0 ? b->rows + row * WIDTH : NULL;
}

/* Every fifth slot is dropped, every seventh token is padding, expert 5 serves nobody; rows lie back to
 * front. The streams are up to 1000 times the outputs, as in deep layers: 1 - cos is then small. */
static void draw(struct bench *b)
{
    for (int i = 0; i < TOKENS * EXPERTS; i++) b->probs[i] = mt_rng_uniform(2, 1, (uint64_t)i);
    for (int i = 0; i < TOKENS * SLOTS * WIDTH; i++) b->rows[i] = mt_rng_normal(2, 2, (uint64_t)i);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        b->residual[i] = (i % 3 == 0 ? 100.0f : 3.0f) * mt_rng_normal(2, 3, (uint64_t)i);
    for (int i = 0; i < TOKENS; i++) {
        b->mask[i] = i % 7 != 3;
        for (int s = 0; s < SLOTS; s++) {
            int slot = i * SLOTS + s;
            b->chosen[slot] = (i * i + s) % (EXPERTS - 1);
            b->expert[slot] = slot % 5 == 4 ? -1 : b->chosen[slot];
            b->weight[slot] = 2.5f * mt_rng_uniform(2, 4, (uint64_t)slot);
            b->row_of_slot[slot] = b->expert[slot] < 0 ? -1 : TOKENS * SLOTS - 1 - slot;
        }
    }
    for (int i = 0; i < TOKENS * SLOTS * SLOTS; i++) {
        const float *x = row_of(b, i / SLOTS / SLOTS, i / SLOTS % SLOTS);
        const float *y = row_of(b, i / SLOTS / SLOTS, i % SLOTS);
        double sum = 0.0;
        for (int c = 0; x != NULL && y != NULL && c < WIDTH; c++) sum += (double)x[c] * (double)y[c];
        b->gram[i] = (float)sum;
    }
}

static int open_bench(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    if (bench == NULL) return -1;
    mt_context_init(&bench->ctx, NULL);
    draw(bench);
    *state = bench;
    return mt_device_create(&bench->ctx, "cpu", 1, &bench->device) == MT_OK ? 0 : -1;
}

static int close_bench(void **state)
{
    struct bench *bench = *state;
    mt_device_destroy(bench->device);
    bool clean = bench->ctx.live_bytes == 0;
    free(bench);
    return clean ? 0 : -1;
}

static struct mt_routing record_of(struct bench *b, int first, int count)
{
    return (struct mt_routing){
        .tokens = count,
        .experts = EXPERTS,
        .slots = SLOTS,
        .segments = 1,
        .mask = mt_tensor_1d(b->mask + first, MT_I32, count),
        .probs = mt_tensor_2d(b->probs + first * EXPERTS, MT_F32, count, EXPERTS),
        .weight = mt_tensor_2d(b->weight + first * SLOTS, MT_F32, count, SLOTS),
        .chosen = mt_tensor_2d(b->chosen + first * SLOTS, MT_I32, count, SLOTS),
        .expert = mt_tensor_2d(b->expert + first * SLOTS, MT_I32, count, SLOTS),
        .row_of_slot = mt_tensor_2d(b->row_of_slot + first * SLOTS, MT_I32, count, SLOTS),
        .rows = mt_tensor_2d(b->rows, MT_F32, TOKENS * SLOTS, WIDTH),
        .residual = mt_tensor_2d(b->residual + first * WIDTH, MT_F32, count, WIDTH),
    };
}

static struct formulas formulas_of(const struct bench *b)
{
    struct formulas f = {0};
    for (int i = 0; i < TOKENS; i++) {
        const float *output[SLOTS];
        if (b->mask[i] == 0) continue;
        for (int s = 0; s < SLOTS; s++) output[s] = row_of(b, i, s);
        add_token(&f, WIDTH, b->residual + i * WIDTH, SLOTS, output, b->weight + i * SLOTS,
                  b->expert + i * SLOTS);
    }
    return f;
}

static struct mt_collector_options options_of(unsigned scores)
{
    return (struct mt_collector_options){
        .layers = 1, .experts = EXPERTS, .slots = SLOTS, .width = WIDTH, .scores = scores};
}

static struct mt_collector *collector_of(struct bench *bench, unsigned scores)
{
    struct mt_collector_options options = options_of(scores);
    struct mt_collector *collector = NULL;
    assert_int_equal(mt_collector_create(bench->device, &options, &collector), MT_OK);
    return collector;
}

static void add(struct mt_collector *collector, struct bench *bench, int first, int count)
{
    struct mt_routing record = record_of(bench, first, count);
    assert_int_equal(mt_collector_add(collector, 0, &record, NULL), MT_OK);
}

static void test_formulas(void **state)
{
    struct bench *bench = *state;
    struct formulas f = formulas_of(bench);
    struct mt_figures figures;
    struct mt_collector *collector = collector_of(bench, OURS);
    add(collector, bench, 0, TOKENS);
    assert_int_equal(mt_collector_finish(collector, NULL, &figures), MT_OK);
    assert_scores(&figures.layer[0], &f, EXPERTS, 2e-6);
    assert_true(figures.layer[0].score[MT_SCORE_REAP][EXPERTS - 1] == 0.0); // served nobody
    assert_ptr_equal(figures.layer[0].score[MT_SCORE_MEAN], figures.layer[0].mean_score);
    mt_figures_free(&figures);
    mt_collector_destroy(collector);
}

/* Two parts in either order, on one collector, merged, and through bytes: the same bits. */
static void test_parts(void **state)
{
    struct bench *bench = *state;
    enum { WAYS = 4 };
    struct mt_figures figures[WAYS];
    for (int way = 0; way < WAYS; way++) {
        struct mt_collector *all = collector_of(bench, OURS);
        struct mt_collector *part = collector_of(bench, OURS);
        struct mt_byte_list bytes = {.ctx = &bench->ctx};
        if (way == 0) add(all, bench, 0, TOKENS);
        if (way == 1) add(all, bench, 20, TOKENS - 20);
        if (way > 0) add(way == 1 ? all : part, bench, 0, 20);
        if (way > 1) add(all, bench, 20, TOKENS - 20);
        if (way == 2) assert_int_equal(mt_collector_merge(all, part), MT_OK);
        if (way == 3) {
            assert_int_equal(mt_collector_pack_sums(part, &bytes), MT_OK);
            assert_int_equal(mt_collector_pack_outputs(part, &bytes), MT_OK);
            assert_true(mt_collector_unpack(all, bytes.data, bytes.count));
        }
        assert_int_equal(mt_collector_finish(all, NULL, &figures[way]), MT_OK);
        for (int i = 0; i < MT_EXPERT_SCORES; i++)
            assert_memory_equal(figures[way].layer[0].score[i], figures[0].layer[0].score[i],
                                EXPERTS * sizeof(double));
        mt_byte_list_free(&bytes);
        mt_collector_destroy(all);
        mt_collector_destroy(part);
    }
    for (int way = 0; way < WAYS; way++) mt_figures_free(&figures[way]);
}

/* A record with its Gram matrix needs no rows for reap; without what a score needs it is not known. */
static void test_what_is_known(void **state)
{
    struct bench *bench = *state;
    struct formulas f = formulas_of(bench);
    struct mt_collector_options options = options_of(OURS);
    struct mt_collector *collector = NULL;
    struct mt_figures figures;
    options.grams = true;
    assert_int_equal(mt_collector_create(bench->device, &options, &collector), MT_OK);
    struct mt_routing record = record_of(bench, 0, TOKENS);
    record.gram = mt_tensor_3d(bench->gram, MT_F32, TOKENS, SLOTS, SLOTS);
    record.rows = (struct mt_tensor){0};
    assert_int_equal(mt_collector_add_host(collector, 0, &record), MT_OK);
    assert_int_equal(mt_collector_finish(collector, NULL, &figures), MT_OK);
    for (int j = 0; j < EXPERTS - 1; j++)
        assert_near("reap", j, figures.layer[0].score[MT_SCORE_REAP][j], f.reap[j] / f.slots[j], 2e-6);
    assert_true(isnan(figures.layer[0].score[MT_SCORE_EASY_EP][0]));
    mt_figures_free(&figures);
    mt_collector_destroy(collector);

    collector = collector_of(bench, MT_SCORE_BIT(MT_SCORE_REAP));
    record = record_of(bench, 0, TOKENS);
    record.gram = mt_tensor_3d(bench->gram, MT_F32, TOKENS, SLOTS, SLOTS);
    assert_int_equal(mt_collector_add(collector, 0, &record, NULL), MT_OK);
    assert_int_equal(mt_collector_finish(collector, NULL, &figures), MT_OK);
    assert_near("reap", 0, figures.layer[0].score[MT_SCORE_REAP][0], f.reap[0] / f.slots[0], 2e-6);
    assert_null(figures.layer[0].score[MT_SCORE_EASY_EP]); // nobody asked
    mt_figures_free(&figures);
    record.rows = (struct mt_tensor){0}; // lengths are enough
    assert_int_equal(mt_collector_add(collector, 0, &record, NULL), MT_OK);
    assert_int_equal(mt_collector_finish(collector, NULL, &figures), MT_OK);
    assert_near("reap", 0, figures.layer[0].score[MT_SCORE_REAP][0], f.reap[0] / f.slots[0], 2e-6);
    mt_figures_free(&figures);
    record.gram = (struct mt_tensor){0}; // one batch without outputs
    assert_int_equal(mt_collector_add(collector, 0, &record, NULL), MT_OK);
    assert_int_equal(mt_collector_finish(collector, NULL, &figures), MT_OK);
    assert_true(isnan(figures.layer[0].score[MT_SCORE_REAP][0]));
    mt_figures_free(&figures);
    mt_collector_destroy(collector);
}

static enum mt_status collect(struct mt_context *ctx, const void *self)
{
    struct bench *bench = *(struct bench *const *)self;
    struct mt_device *device = NULL;
    struct mt_collector *collector = NULL;
    struct mt_figures figures = {0};
    struct mt_collector_options options = options_of(OURS);
    struct mt_routing record = record_of(bench, 0, TOKENS);
    enum mt_status status = mt_device_create(ctx, "cpu", 1, &device);
    if (status == MT_OK) status = mt_collector_create(device, &options, &collector);
    if (status == MT_OK) status = mt_collector_add(collector, 0, &record, NULL);
    if (status == MT_OK) status = mt_collector_finish(collector, NULL, &figures);
    mt_figures_free(&figures);
    mt_collector_destroy(collector);
    mt_device_destroy(device);
    return status;
}

static void test_memory(void **state)
{
    struct bench *bench = *state;
    assert_every_allocation_may_fail(collect, &bench, 5);
}

// ------------------------------------------------------------------ models

/* Sums the formulas of every layer while a collector looks at the same records. */
struct onlooker {
    struct mt_collector *collector;
    struct formulas formulas[4];
    float after[MODEL_RUN_TOKENS * 256]; // of the last layer: the stream and the routed experts
    int64_t width;
};

static enum mt_status look(void *self, int moe_layer, const struct mt_routing *record,
                           const struct mt_tensor *input)
{
    struct onlooker *o = self;
    const float *residual = record->residual.data;
    const float *rows = record->rows.data;
    const float *weight = record->weight.data;
    const int32_t *expert = record->expert.data;
    const int32_t *row_of_slot = record->row_of_slot.data;
    const int32_t *mask = record->mask.data;
    int64_t d = record->rows.dim[1];
    int k = record->slots;
    o->width = d;
    for (int64_t i = 0; i < record->tokens; i++) {
        const float *output[MT_MAX_SLOTS];
        for (int s = 0; s < k; s++) output[s] = rows + row_of_slot[i * k + s] * d;
        for (int64_t c = 0; c < d; c++) {
            o->after[i * d + c] = residual[i * d + c];
            for (int s = 0; s < k; s++) o->after[i * d + c] += weight[i * k + s] * output[s][c];
        }
        if (mask != NULL && mask[i] == 0) continue;
        add_token(&o->formulas[moe_layer], (int)d, residual + i * d, k, output, weight + i * k,
                  expert + i * k);
    }
    return mt_collector_add(o->collector, moe_layer, record, input);
}

static void check_model(const struct mt_arch *arch, bool shared)
{
    void *made = NULL;
    struct model_run run;
    struct model_batch batch;
    struct mt_collector_options options;
    struct mt_figures figures;
    int64_t number[8];
    struct mt_model_loss loss;
    static struct onlooker onlooker;
    onlooker = (struct onlooker){0};
    assert_int_equal(workplace_open(&made), 0);
    assert_int_equal(small_model_make(made, small_model_config(arch), MT_HF_FLOAT32, 3), 0);
    assert_int_equal(model_run_open(&run, made, "cpu", 1, &(struct mt_model_options){.keep_hidden = true}),
                     0);
    const struct mt_model_desc *desc = mt_model_description(run.model);
    assert_true(mt_collector_options_of(desc, number, &options) && desc->layers <= 8 && options.layers <= 4);
    options.scores = OURS;
    assert_int_equal(mt_collector_create(run.device, &options, &onlooker.collector), MT_OK);
    model_batch_fill(&batch, (int[]){9, 6, 0}, desc->vocabulary, 1);
    batch.batch.labels = NULL;
    batch.batch.loss_only = true;
    for (int i = 0; i < batch.batch.tokens; i++) batch.mask[i] = i != 8 && i < 13; // padding
    batch.batch.mask = batch.mask;
    mt_model_observe(run.model, &(struct mt_layer_observer){.self = &onlooker, .look = look});
    if (mt_model_forward(run.model, &batch.batch, &loss) != MT_OK) fail_msg("%s", run.ctx.message);
    mt_model_observe(run.model, NULL);
    assert_int_equal(mt_collector_finish(onlooker.collector, NULL, &figures), MT_OK);
    for (int i = 0; i < options.layers; i++)
        assert_scores(&figures.layer[i], &onlooker.formulas[i], options.experts, 2e-5);
    // The residual is that of the layer: without shared experts nothing else is added to it.
    const struct mt_tensor *hidden = mt_model_hidden(run.model, desc->layers - 1);
    double worst = 0.0;
    for (int64_t i = 0; i < batch.batch.tokens * onlooker.width; i++) {
        double apart = fabs((double)((const float *)hidden->data)[i] - (double)onlooker.after[i]);
        if (apart > worst) worst = apart; // fmax here is more than gcc 12 can vectorise on aarch64: it stops
    }
    assert_true(shared ? worst > 1e-3 : worst < 1e-5);
    mt_figures_free(&figures);
    mt_collector_destroy(onlooker.collector);
    model_run_close(&run);
    assert_int_equal(workplace_close(&made), 0);
}

static void test_models(void **state)
{
    (void)state;
    check_model(&mt_arch_deepseek_v2, true);
    check_model(&mt_arch_mixtral, false);
}

// ------------------------------------------------------------------ the best

static void test_keep_best(void **state)
{
    static const double score[] = {1.0, 3.0, NAN, 3.0, -2.0, 3.0};
    static const bool wanted[7][6] = {
        {0},
        {0, 1},
        {0, 1, 0, 1},
        {0, 1, 0, 1, 0, 1},
        {1, 1, 0, 1, 0, 1},
        {1, 1, 0, 1, 1, 1},
        {1, 1, 1, 1, 1, 1},
    };
    (void)state;
    for (int keep = 0; keep <= 6; keep++) {
        bool kept[6];
        mt_experts_keep_best(score, 6, 1, keep, kept);
        assert_memory_equal(kept, wanted[keep], sizeof kept);
    }
    // Of two groups each keeps its own best, though the first has none of the two highest.
    static const double grouped[6] = {1, 3, 2, 9, 8, 7};
    static const bool each[6] = {0, 1, 0, 1, 0, 0};
    bool kept[6];
    mt_experts_keep_best(grouped, 6, 2, 2, kept);
    assert_memory_equal(kept, each, sizeof kept);
}

static void test_keep_parse(void **state)
{
    struct bench *bench = *state;
    static const char *const refused[] = {
        "",   "0",    "1",   "65",   "-3",  "3.5",  "many", "16 ", "16%%",  "%",    "0%",
        "1%", "101%", "nan", "nan%", "1e1", "0x10", " 16",  "16x", "50.%.", "inf%", "99999999999999999999"};
    int keep = 0;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (mt_experts_keep_parse(&bench->ctx, "--keep", refused[i], 64, 2, &keep) != MT_ERR_USAGE)
            fail_msg("'%s' is taken as %d", refused[i], keep);
        assert_non_null(strstr(bench->ctx.message, "--keep"));
        assert_int_equal(strcmp(refused[i], "101%") == 0, strstr(bench->ctx.message, "at most 100%") != NULL);
    }
    static const struct {
        const char *text;
        int keep;
    } taken[] = {{"2", 2}, {"16", 16}, {"64", 64}, {"50%", 32}, {"100%", 64}, {"12.5%", 8}, {"3%", 2}};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        assert_int_equal(mt_experts_keep_parse(&bench->ctx, "--keep", taken[i].text, 64, 2, &keep), MT_OK);
        assert_int_equal(keep, taken[i].keep);
    }
}

static void test_names(void **state)
{
    struct bench *bench = *state;
    for (int i = 0; i < MT_EXPERT_SCORES; i++) {
        enum mt_expert_score found = MT_EXPERT_SCORES;
        const struct mt_expert_score_kind *kind = mt_expert_score_kind((enum mt_expert_score)i);
        assert_int_equal(mt_expert_score_named(&bench->ctx, "--score", kind->name, &found), MT_OK);
        assert_int_equal(found, i);
    }
    enum mt_expert_score none = MT_SCORE_USE;
    assert_int_equal(mt_expert_score_named(&bench->ctx, "--score", "rea", &none), MT_ERR_USAGE);
    assert_string_equal(bench->ctx.message, "--score is 'rea', expected use, mean, reap or easy-ep");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),      cmocka_unit_test(test_parts),
        cmocka_unit_test(test_what_is_known), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_models),        cmocka_unit_test(test_keep_best),
        cmocka_unit_test(test_keep_parse),    cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
