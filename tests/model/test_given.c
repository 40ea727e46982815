/*
 * Models whose batches bring choices of experts: gradients against finite differences, the routers' own
 * choices given back, tokens left to the router, recomputation, and what is refused.
 * Tests src/model/layers/moe_router.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/model_runs.h"
#include "support/small_models.h"

#define STEP      2e-6
#define TOLERANCE 2e-5
#define MOST      4096 // numbers of a batch's choices

static const char *const everything[] = {"*", NULL};
static const int lengths[] = {7, 1, 4, 0};

struct given {
    int layers, slots, experts;
    int64_t number[64];
    int32_t chosen[MOST]; // [layers,T,k]
};

static void describe(const struct model_run *run, struct given *given)
{
    const struct mt_model_desc *desc = mt_model_description(run->model);
    given->layers = mt_model_moe_layers(desc, given->number);
    given->slots = desc->router.slots;
    given->experts = desc->experts;
}

/* Experts in turn, each token its own; every fifth token is left to the router. */
static void fill_given(struct given *given, int64_t tokens)
{
    assert_true(given->layers * tokens * given->slots <= MOST);
    for (int64_t i = 0; i < given->layers * tokens; i++) {
        for (int s = 0; s < given->slots; s++) {
            int32_t e = (int32_t)((3 * i + s) % given->experts);
            given->chosen[i * given->slots + s] = i % tokens % 5 == 4 ? -1 : e;
        }
    }
}

static struct mt_model_options options_of(enum mt_dtype type)
{
    struct mt_model_options options = {.backward = true, .activations = type, .choices = true};
    options.selection.full = everything;
    options.selection.seed = 5;
    return options;
}

static void check_gradients(const struct workplace *place, const struct mt_arch *model, const char *method)
{
    struct model_run run;
    struct model_batch batch;
    struct given given;
    struct mt_context ctx;
    struct mt_objective_config config;
    struct mt_model_options options = options_of(MT_F64);
    double loss = 0.0;
    mt_context_init(&ctx, NULL);
    if (method != NULL) {
        assert_int_equal(mt_objective_config_method(&ctx, method, &config), MT_OK);
        options.objective = &config;
    }
    workplace_clear(place);
    assert_int_equal(small_model_make(place, small_model_config(model), MT_HF_FLOAT32, 11), 0);
    assert_int_equal(model_run_open(&run, place, "ref", 1, &options), 0);
    model_batch_fill(&batch, lengths, mt_model_description(run.model)->vocabulary, 21);
    describe(&run, &given);
    fill_given(&given, batch.batch.tokens);
    double plain = model_run_loss(&run, &batch.batch);
    batch.batch.chosen = given.chosen;
    batch.batch.training = true;
    assert_true(fabs(model_run_loss(&run, &batch.batch) - plain) > 1e-6);
    assert_int_equal(model_run_step(&run, &batch.batch, &loss), 0);
    double worst = model_run_check_gradients(&run, &batch.batch, method != NULL ? 7 : 1, STEP, TOLERANCE);
    if (!(worst <= TOLERANCE)) fail_msg("%s: worst difference %.2g", model->name, worst);
    model_run_close(&run);
    assert_int_equal(run.ctx.live_bytes, 0);
}

static void gradients(void **state)
{
    check_gradients(*state, &mt_arch_qwen3_moe, NULL);   // normalised weights
    check_gradients(*state, &mt_arch_olmoe, NULL);       // as they are
    check_gradients(*state, &mt_arch_deepseek_v3, NULL); // groups and a bias beside them
    check_gradients(*state, &mt_arch_mixtral, "metier");
}

/* Loss and gradients of a step on the cpu; *given: choices to take, or NULL. */
static struct model_outcome take_step(const struct workplace *place, enum mt_recompute recompute, int threads,
                                      const struct given *given, struct given *made)
{
    struct model_run run;
    struct model_batch batch;
    struct model_outcome outcome;
    struct mt_model_options options = options_of(MT_F32);
    options.recompute = recompute;
    assert_int_equal(model_run_open(&run, place, "cpu", threads, &options), 0);
    model_batch_fill(&batch, lengths, mt_model_description(run.model)->vocabulary, 21);
    if (given != NULL) batch.batch.chosen = given->chosen;
    assert_int_equal(model_run_step(&run, &batch.batch, &outcome.loss), 0);
    model_outcome_take(&run, &outcome);
    if (made != NULL) {
        describe(&run, made);
        int64_t count = batch.batch.tokens * made->slots;
        for (int l = 0; l < made->layers; l++) {
            const struct mt_routing *record = mt_model_routing(run.model, made->number[l]);
            memcpy(made->chosen + l * count, record->chosen.data, (size_t)count * sizeof *made->chosen);
        }
    }
    model_run_close(&run);
    return outcome;
}

static void expect(const struct model_outcome *expected, struct model_outcome *got, bool same)
{
    bool equal = expected->loss == got->loss &&
                 memcmp(expected->gradients, got->gradients, got->count * sizeof(float)) == 0;
    assert_true(equal == same);
    free(got->gradients);
}

/* What the routers choose, given back, changes no bit; other choices do, whatever is recomputed. */
static void own_choices_change_nothing(void **state)
{
    const struct workplace *place = *state;
    struct given own;
    struct given other;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_qwen3_moe), MT_HF_FLOAT32, 11), 0);
    struct model_outcome plain = take_step(place, MT_RECOMPUTE_NONE, 1, NULL, &own);
    struct model_outcome got = take_step(place, MT_RECOMPUTE_NONE, 1, &own, NULL);
    expect(&plain, &got, true);
    other = own;
    for (size_t i = 0; i < MOST; i++) other.chosen[i] = -1; // all left to the router
    got = take_step(place, MT_RECOMPUTE_NONE, 1, &other, NULL);
    expect(&plain, &got, true);
    fill_given(&other, 12);
    struct model_outcome first = take_step(place, MT_RECOMPUTE_NONE, 1, &other, NULL);
    got = take_step(place, MT_RECOMPUTE_FULL, 2, &other, NULL);
    expect(&first, &got, true);
    got = take_step(place, MT_RECOMPUTE_MOE, 1, &other, NULL);
    expect(&first, &got, true);
    expect(&plain, &first, false);
    free(plain.gradients);
}

static void refusals(void **state)
{
    const struct workplace *place = *state;
    struct model_run run;
    struct model_batch batch;
    struct given given;
    struct mt_model_loss loss;
    struct mt_model_options options = options_of(MT_F32);
    options.choices = false;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_qwen3_moe), MT_HF_FLOAT32, 11), 0);
    assert_int_equal(model_run_open(&run, place, "cpu", 1, &options), 0);
    model_batch_fill(&batch, lengths, mt_model_description(run.model)->vocabulary, 21);
    describe(&run, &given);
    fill_given(&given, batch.batch.tokens);
    batch.batch.chosen = given.chosen;
    assert_int_equal(mt_model_forward(run.model, &batch.batch, &loss), MT_ERR_USAGE);
    assert_non_null(strstr(run.ctx.message, "without room for them"));
    model_run_close(&run);
    options.choices = true;
    assert_int_equal(model_run_open(&run, place, "cpu", 1, &options), 0);
    given.chosen[3] = given.experts;
    assert_int_equal(mt_model_forward(run.model, &batch.batch, &loss), MT_ERR_USAGE);
    assert_non_null(strstr(run.ctx.message, "given holds"));
    model_run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gradients, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(own_choices_change_nothing, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(refusals, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
