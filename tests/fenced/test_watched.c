/*
 * Routing watched on a device that records passes: the passes are replayed all the same, answers stay what
 * they were, and the figures are those of the cpu, which looks on within every pass.
 * Tests src/infer/routing_watch.c.
 */
#include <math.h>
#include <string.h>

#include "fenced/fenced.h"
#include "infer/routing_watch.h"
#include "support/cmocka_all.h"
#include "support/engine_bench.h"

#define POSITIONS  64
#define VOCABULARY 53
#define ANSWERS    9 // of a few lengths: passes have any number of tokens up to this, and are padded

struct bench {
    struct mt_context ctx;
    struct mt_session session; // device, model, engine: all that a watch knows of it
    struct mt_routing_watch *watch;
    struct mt_comm *alone;
    struct mt_figures figures;
    struct bench_generation generation[ANSWERS];
};

static void expect_ok(const struct bench *bench, enum mt_status status)
{
    if (status != MT_OK) fail_msg("%s", bench->ctx.message);
}

static void open_bench(struct bench *bench, const struct workplace *place, const char *device, int64_t slots)
{
    const struct mt_engine_options options = {.slots = slots, .positions = POSITIONS, .piece = 8};
    struct mt_model_options model = {0};
    *bench = (struct bench){0};
    mt_context_init(&bench->ctx, NULL);
    struct mt_session *session = &bench->session;
    session->ctx = &bench->ctx;
    mt_engine_model_options(&options, &model);
    expect_ok(bench, mt_device_create(&bench->ctx, device, 1, &session->device));
    expect_ok(bench, mt_model_open(session->device, place->directory, &model, &session->model));
    expect_ok(bench, mt_engine_create(session->model, &options, &session->engine));
    expect_ok(bench, mt_comm_open_alone(&bench->ctx, &bench->alone));
}

static void close_bench(struct bench *bench)
{
    mt_figures_free(&bench->figures);
    mt_routing_watch_destroy(bench->watch);
    mt_comm_close(bench->alone);
    mt_engine_destroy(bench->session.engine);
    mt_model_close(bench->session.model);
    mt_device_destroy(bench->session.device);
    assert_int_equal(bench->ctx.live_bytes, 0);
}

/* Prompts and answers of many lengths: LongRoPE's edge, from which on a sequence is computed again, is among
 * them. */
static void answer(struct bench *bench)
{
    bool working = true;
    for (int i = 0; i < ANSWERS; i++) {
        bench_generation_make(&bench->generation[i], 1 + 5 * i, 6 + i, VOCABULARY, (uint64_t)i);
        expect_ok(bench, mt_engine_add_generation(bench->session.engine, &bench->generation[i].request));
    }
    while (working) expect_ok(bench, mt_engine_step(bench->session.engine, &working));
}

static void watch_answers(struct bench *bench)
{
    expect_ok(bench, mt_routing_watch_create(&bench->session, &bench->watch));
    expect_ok(bench, mt_routing_watch_begin(bench->watch, ANSWERS));
    answer(bench);
    expect_ok(bench, mt_routing_watch_figures(bench->watch, bench->alone, &bench->figures));
}

static void same_answers(const struct bench *a, const struct bench *b)
{
    for (int i = 0; i < ANSWERS; i++) {
        assert_true(a->generation[i].finished && b->generation[i].finished);
        assert_int_equal(a->generation[i].answered, b->generation[i].answered);
        assert_memory_equal(a->generation[i].answer, b->generation[i].answer, sizeof a->generation[i].answer);
    }
}

static void expect_near(double a, double b, double tolerance)
{
    if (isnan(a) && isnan(b)) return;
    if (!(fabs(a - b) <= tolerance * fabs(b))) fail_msg("%.17g is not %.17g", a, b);
}

/* Sums to the last bit; |cos| and lengths come from Gram matrices in f32 where records are kept. */
static void same_figures(const struct mt_figures *a, const struct mt_figures *b, double outputs)
{
    size_t experts = (size_t)b->experts;
    assert_true(a->layers == b->layers && a->experts == b->experts && b->layers > 0);
    for (int i = 0; i < b->layers; i++) {
        const struct mt_layer_figures *x = &a->layer[i];
        const struct mt_layer_figures *y = &b->layer[i];
        assert_true(y->tokens > 0 && x->tokens == y->tokens);
        assert_memory_equal(x->load, y->load, experts * sizeof(double));
        assert_memory_equal(x->first, y->first, experts * sizeof(double));
        assert_memory_equal(x->mean_score, y->mean_score, experts * sizeof(double));
        assert_memory_equal(x->mean_weight, y->mean_weight, experts * sizeof(double));
        expect_near(x->max_violation_batch, y->max_violation_batch, 0.0);
        expect_near(x->rv_token, y->rv_token, 0.0);
        expect_near(x->rv_expert, y->rv_expert, 0.0);
        assert_int_equal(x->abs_cos_tokens, y->abs_cos_tokens);
        assert_true(y->abs_cos > 0.0 && y->output_norm > 0.0);
        expect_near(x->abs_cos, y->abs_cos, outputs);
        expect_near(x->abs_cos_error, y->abs_cos_error, 100.0 * outputs);
        expect_near(x->output_norm, y->output_norm, outputs);
    }
}

static void check_model(const struct mt_arch *arch)
{
    static struct bench cpu, few, many, unwatched;
    void *made = NULL;
    assert_int_equal(workplace_open(&made), 0);
    const struct workplace *place = made;
    assert_int_equal(small_model_make(place, small_model_config(arch), MT_HF_FLOAT32, 11), 0);
    open_bench(&cpu, place, "cpu", 1);
    watch_answers(&cpu);
    open_bench(&few, place, "fenced", 3);
    watch_answers(&few);
    open_bench(&many, place, "fenced", ANSWERS + 2);
    watch_answers(&many);
    open_bench(&unwatched, place, "fenced", ANSWERS + 2);
    answer(&unwatched);
    same_answers(&few, &cpu);
    same_answers(&many, &cpu);
    same_answers(&unwatched, &cpu);
    same_figures(&few.figures, &cpu.figures, 1e-5);
    same_figures(&many.figures, &few.figures, 0.0);
    assert_true(fenced_replayed(many.session.device) > 0);
    assert_int_equal(fenced_replayed(many.session.device), fenced_replayed(unwatched.session.device));
    close_bench(&cpu);
    close_bench(&few);
    close_bench(&many);
    close_bench(&unwatched);
    assert_int_equal(workplace_close(&made), 0);
}

static void test_grouped(void **state)
{
    (void)state;
    check_model(&mt_arch_qwen3_moe);
}

static void test_latent(void **state)
{
    (void)state;
    check_model(&mt_arch_deepseek_v3); // the choice is not the largest scores: it has a bias
}

static void test_computed_again(void **state)
{
    (void)state;
    check_model(&mt_arch_phimoe);
}

/* What was recorded for nobody does not serve a watch, nor the other way round. */
static void test_begun_later(void **state)
{
    static struct bench cpu, late;
    void *made = NULL;
    (void)state;
    assert_int_equal(workplace_open(&made), 0);
    const struct workplace *place = made;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_olmoe), MT_HF_FLOAT32, 11), 0);
    open_bench(&cpu, place, "cpu", 3);
    watch_answers(&cpu);
    open_bench(&late, place, "fenced", 3);
    answer(&late);
    int replayed = fenced_replayed(late.session.device);
    watch_answers(&late);
    assert_true(fenced_replayed(late.session.device) == 2 * replayed && replayed > 0);
    same_answers(&late, &cpu);
    same_figures(&late.figures, &cpu.figures, 1e-5);
    // Begun again, it has nothing of before.
    mt_figures_free(&late.figures);
    expect_ok(&late, mt_routing_watch_begin(late.watch, ANSWERS));
    answer(&late);
    expect_ok(&late, mt_routing_watch_figures(late.watch, late.alone, &late.figures));
    same_figures(&late.figures, &cpu.figures, 1e-5);
    mt_routing_watch_destroy(late.watch);
    late.watch = NULL;
    answer(&late);
    same_answers(&late, &cpu);
    close_bench(&cpu);
    close_bench(&late);
    assert_int_equal(workplace_close(&made), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grouped),
        cmocka_unit_test(test_latent),
        cmocka_unit_test(test_computed_again),
        cmocka_unit_test(test_begun_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
