/*
 * Terms that ask for more of a model than their own layer's record: the MoE layers before and after. One
 * of this file takes the place of one of the list (mt_term_kind is wrapped), and whole models are held
 * against finite differences in double. So are the terms of the list that look at experts' activations and
 * weights, and at neighbouring layers. Tests src/objective/needs.c.
 */
#include <math.h>

#include "objective/objective.h"
#include "support/cmocka_all.h"
#include "support/model_runs.h"
#include "support/small_models.h"

#define NEIGHBOURS MT_TERM_Z

/* The mean over tokens. */
static void mean(const struct mt_objective *objective, struct mt_term_view *views)
{
    for (int layer = 0; layer < objective->shape.layers; layer++) {
        struct mt_term_view *view = &views[layer];
        if (!(view->tokens > 0.0)) continue;
        view->loss = view->statistics[0] / view->tokens;
        view->gradient[0] = 1.0 / view->tokens;
    }
}

// ------------------------------------------------------------------ L = mean of Σ_j p_j of the layer · p_j
// of the one before

static enum mt_status overlap(const struct mt_term_call *call)
{
    double sum = 0.0;
    const double *own = call->record->probs.data;
    const double *before = call->before != NULL ? call->before->probs.data : NULL;
    int64_t count = before != NULL ? mt_tensor_count(&call->record->probs) : 0;
    for (int64_t i = 0; i < count; i++) sum += own[i] * before[i];
    call->statistics[0] = sum;
    return MT_OK;
}

static enum mt_status overlap_backward(const struct mt_term_call *call, struct mt_routing_gradient *gradient)
{
    double *dprobs = gradient->dprobs.data;
    for (int64_t i = 0; i < mt_tensor_count(&gradient->dprobs); i++) {
        if (call->before != NULL)
            dprobs[i] += call->host_gradient[0] * ((const double *)call->before->probs.data)[i];
        if (call->after != NULL)
            dprobs[i] += call->host_gradient_after[0] * ((const double *)call->after->probs.data)[i];
    }
    return MT_OK;
}

static const struct mt_term_kind neighbours = {.info = {.name = "neighbours", .path = MT_PATH_LOGITS},
                                               .needs = MT_NEEDS_NEIGHBOURS,
                                               .numbers = 1,
                                               .forward = overlap,
                                               .value = mean,
                                               .backward = overlap_backward};

// ------------------------------------------------------------------ in their places

const struct mt_term_kind *__real_mt_term_kind(enum mt_term term);
const struct mt_term_kind *__wrap_mt_term_kind(enum mt_term term);

const struct mt_term_kind *__wrap_mt_term_kind(enum mt_term term)
{
    return term == NEIGHBOURS ? &neighbours : __real_mt_term_kind(term);
}

// ------------------------------------------------------------------ whole models

static void check_method(const struct workplace *place, const struct mt_objective_config *method,
                         const struct mt_model_options *given)
{
    struct mt_model_options options = *given;
    struct model_run run;
    struct model_batch batch;
    struct mt_model_loss loss;
    double total = 0.0;
    options.backward = true;
    options.activations = MT_F64;
    options.objective = method;
    assert_int_equal(model_run_open(&run, place, "ref", 1, &options), 0);
    model_run_draw_lora(&run, 9);
    model_batch_fill(&batch, (const int[]){7, 4, 0}, mt_model_description(run.model)->vocabulary, 4);
    batch.batch.training = true;
    assert_int_equal(mt_model_forward(run.model, &batch.batch, &loss), MT_OK);
    assert_true(fabs(loss.terms) > 1e-6);
    assert_int_equal(model_run_step(&run, &batch.batch, &total), 0);
    assert_true(model_run_check_gradients(&run, &batch.batch, 3, 2e-6, 2e-5) <= 2e-5);
    model_run_close(&run);
}

/* Everything trained and LoRA on all linear layers, with recomputation. */
static void check_all_of(const struct workplace *place, const struct mt_objective_config *method)
{
    static const char *const everything[] = {"*", NULL};
    static const char *const linear[] = {"all-linear", NULL};
    const struct mt_arch *const models[] = {&mt_arch_deepseek, &mt_arch_qwen3_moe};
    for (int m = 0; m < 2; m++) {
        assert_int_equal(small_model_make(place, small_model_config(models[m]), MT_HF_FLOAT32, 11), 0);
        struct mt_model_options options = {.selection.full = everything};
        check_method(place, method, &options);
        options.recompute = m == 0 ? MT_RECOMPUTE_MOE : MT_RECOMPUTE_FULL;
        options.selection = (struct mt_train_selection){
            .lora = linear, .lora_rank = 2, .lora_alpha = 3.0, .lora_dropout = 0.2};
        check_method(place, method, &options);
        workplace_clear(place);
    }
}

static struct mt_objective_config term_alone(enum mt_term term)
{
    struct mt_objective_config method = {.method = "test", .scale = MT_SCALE_NONE, .erc_alpha = 1.0};
    method.coefficient[term] = 0.3;
    return method;
}

static void check_all(const struct workplace *place, enum mt_term term)
{
    struct mt_objective_config method = term_alone(term);
    check_all_of(place, &method);
}

static void test_neighbours(void **state)
{
    check_all(*state, NEIGHBOURS);
}

static void test_activations(void **state)
{
    struct mt_objective_config method = term_alone(MT_TERM_SP);
    check_all_of(*state, &method);
    method.sp_squared = true;
    check_all_of(*state, &method);
}

static void test_layers_in_a_row(void **state)
{
    check_all(*state, MT_TERM_CP);
}

static void test_proxies(void **state)
{
    struct mt_objective_config method = term_alone(MT_TERM_ERC);
    check_all_of(*state, &method);
    method.erc_alpha = 0.6;
    check_all_of(*state, &method);
}

/* Noise is a constant of the gradient, whose size hangs on the router's rows: these are left as they are. */
static void test_noisy_proxies(void **state)
{
    static const char *const gates[] = {"*gate_proj*", NULL};
    struct mt_objective_config method = term_alone(MT_TERM_ERC);
    method.erc_noise = 1.0;
    method.seed = 3;
    assert_int_equal(small_model_make(*state, small_model_config(&mt_arch_qwen3_moe), MT_HF_FLOAT32, 11), 0);
    struct mt_model_options options = {.selection.full = gates};
    check_method(*state, &method, &options);
    options.selection =
        (struct mt_train_selection){.lora = gates, .lora_rank = 2, .lora_alpha = 3.0, .lora_dropout = 0.2};
    check_method(*state, &method, &options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_neighbours, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_activations, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_layers_in_a_row, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_proxies, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_noisy_proxies, workplace_open, workplace_close)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
