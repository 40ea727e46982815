/*
 * The whole model against finite differences of its own loss, in double on ref: every architecture with its
 * awkward features, full training and LoRA, with the terms of every method.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/model_runs.h"
#include "support/small_models.h"

#define STEP      2e-6
#define TOLERANCE 2e-5

static const char *const everything[] = {"*", NULL};

/* One model, one selection, one method: a step, then finite differences. */
struct gradient_case {
    const struct mt_arch *model;
    bool lora;
    double dropout;
    bool training;
    const char *method;      // NULL: none
    const char *const *keys; // "key", "value", ..., NULL
};

static void read_method(struct mt_context *ctx, const struct gradient_case *c,
                        struct mt_objective_config *method)
{
    assert_int_equal(mt_objective_config_method(ctx, c->method, method), MT_OK);
    for (const char *const *key = c->keys; key != NULL && *key != NULL; key += 2)
        assert_int_equal(mt_objective_config_set(ctx, method, key[0], key[1]), MT_OK);
}

static void check(const struct workplace *place, const struct gradient_case *c)
{
    struct model_run run;
    struct model_batch batch;
    struct mt_context ctx;
    struct mt_objective_config method;
    struct mt_model_options options = {.backward = true, .activations = MT_F64};
    mt_context_init(&ctx, NULL);
    if (c->method != NULL) {
        read_method(&ctx, c, &method);
        options.objective = &method;
    }
    options.selection.seed = 5;
    if (c->lora) {
        options.selection.lora = everything;
        options.selection.lora_rank = 3;
        options.selection.lora_alpha = 4.5;
        options.selection.lora_dropout = c->dropout;
    } else {
        options.selection.full = everything;
    }
    assert_int_equal(model_run_open(&run, place, "ref", 1, &options), 0);
    model_run_draw_lora(&run, 9);
    model_batch_fill(&batch, (const int[]){7, 1, 4, 0}, mt_model_description(run.model)->vocabulary, 21);
    batch.batch.training = c->training;
    batch.batch.step = 3;
    double loss = 0.0;
    // Terms join where the tensors' own paths begin, and pairs come two to a map: a share of them is enough.
    size_t every = c->method != NULL ? 7 : c->lora ? 3 : 1;
    assert_int_equal(model_run_step(&run, &batch.batch, &loss), 0);
    double worst = model_run_check_gradients(&run, &batch.batch, every, STEP, TOLERANCE);
    if (!(worst <= TOLERANCE)) {
        fail_msg("%s, %s, method %s: worst difference %.2g", c->model->name, c->lora ? "LoRA" : "full",
                 c->method != NULL ? c->method : "-", worst);
    }
    model_run_close(&run);
    assert_int_equal(run.ctx.live_bytes, 0);
}

static void test_architecture(void **state, const struct mt_arch *model)
{
    const struct workplace *place = *state;
    static const char *const all_terms[] = {"lambda_orth", "1e-2",  "lambda_simbal", "1e-2", "zeta",
                                            "1e-2",        "alpha", "1e-1",          "beta", "0.3",
                                            "gamma",       "0.3",   "brake",         "none", NULL};
    assert_int_equal(small_model_make(place, small_model_config(model), MT_HF_FLOAT32, 11), 0);
    check(place, &(struct gradient_case){.model = model});
    check(place, &(struct gradient_case){.model = model, .lora = true});
    check(place, &(struct gradient_case){.model = model, .method = "metier", .keys = all_terms});
    check(place, &(struct gradient_case){.model = model, .lora = true, .method = "paper", .keys = all_terms});
    check(place, &(struct gradient_case){.model = model, .lora = true, .method = "paper-code"});
}

#define TEST_ARCHITECTURE(name)                                                                              \
    static void test_##name(void **state)                                                                    \
    {                                                                                                        \
        test_architecture(state, &mt_arch_##name);                                                           \
    }
MT_ARCH_LIST(TEST_ARCHITECTURE)

/* Dropout, the method's jitter and dropped slots are drawn again in backward; the draws are the step's. */
static void test_training(void **state)
{
    const struct workplace *place = *state;
    static const char *const no_brake[] = {"brake", "none", NULL};
    static const char *const drops[] = {"capacity", "1.0", "beta", "1e-2", "gamma", "1e-2", NULL};
    const struct mt_arch *model = &mt_arch_deepseek;
    assert_int_equal(small_model_make(place, small_model_config(model), MT_HF_FLOAT32, 11), 0);
    check(place, &(struct gradient_case){.model = model,
                                         .lora = true,
                                         .dropout = 0.3,
                                         .training = true,
                                         .method = "metier",
                                         .keys = no_brake});
    check(place, &(struct gradient_case){.model = model,
                                         .lora = true,
                                         .dropout = 0.3,
                                         .training = true,
                                         .method = "st-moe",
                                         .keys = drops});
    check(place, &(struct gradient_case){.model = model, .training = true, .method = "gshard"});
    check(place, &(struct gradient_case){.model = model, .training = true, .method = "ernie"});
    check(place, &(struct gradient_case){.model = model, .training = true, .method = "loss-free"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ARCHITECTURE_TEST(name) cmocka_unit_test_setup_teardown(test_##name, workplace_open, workplace_close),
        MT_ARCH_LIST(ARCHITECTURE_TEST)
            cmocka_unit_test_setup_teardown(test_training, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
