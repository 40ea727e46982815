/* Routers' rows through experts, against plain sums over the weights, with and without LoRA. */
#include <math.h>

#include "analysis/run/weights.h"
#include "base/rng.h"
#include "support/cmocka_all.h"
#include "support/small_models.h"
#include "tensor/dtype.h"

#define MOST_LAYERS  8
#define MOST_EXPERTS 64
#define MOST_WIDTH   256

static double at(const struct mt_tensor *matrix, int64_t row, int64_t column)
{
    return mt_load(matrix->dtype, matrix->data, row * matrix->stride[0] + column * matrix->stride[1]);
}

/* W + scale B A at a place; a pair that is absent adds nothing. */
static double sum_at(const struct mt_tensor *weight, const struct mt_tensor *a, const struct mt_tensor *b,
                     double scale, int64_t row, int64_t column)
{
    double sum = at(weight, row, column);
    if (a == NULL || !mt_tensor_present(a)) return sum;
    for (int64_t r = 0; r < a->dim[0]; r++) sum += scale * at(b, row, r) * at(a, r, column);
    return sum;
}

static void expect_layer(const struct mt_layer_params *layer, int experts, int64_t width,
                         const struct mt_coupling_figures *got)
{
    static double row[MOST_EXPERTS][MOST_WIDTH];
    static double norms[MOST_EXPERTS * MOST_EXPERTS];
    static float gram[MOST_EXPERTS * MOST_EXPERTS];
    struct mt_coupling_figures expected;
    const struct mt_linear *router = &layer->router;
    const struct mt_linear *gate = &layer->experts.gate;
    assert_true(experts <= MOST_EXPERTS && width <= MOST_WIDTH);
    for (int i = 0; i < experts; i++) {
        for (int64_t c = 0; c < width; c++)
            row[i][c] = sum_at(router->weight.stored, router->a, router->b, (double)router->lora_scale, i, c);
    }
    for (int j = 0; j < experts; j++) {
        const struct mt_tensor *a = gate->a != NULL ? &gate->a[j] : NULL;
        const struct mt_tensor *b = gate->b != NULL ? &gate->b[j] : NULL;
        for (int i = 0; i < experts; i++) {
            double squares = 0.0;
            double product = 0.0;
            for (int64_t f = 0; f < gate->weight.out; f++) {
                double dot = 0.0;
                for (int64_t c = 0; c < width; c++)
                    dot += row[i][c] * sum_at(&gate->weight.stored[j], a, b, (double)gate->lora_scale, f, c);
                squares += dot * dot;
            }
            for (int64_t c = 0; c < width; c++) product += row[i][c] * row[j][c];
            norms[j * experts + i] = sqrt(squares);
            gram[i * experts + j] = (float)product;
        }
    }
    mt_coupling_rows(gram, experts, &expected);
    mt_coupling_norms(norms, experts, &expected);
    assert_true(fabs(got->row_cos - expected.row_cos) < 1e-5);
    assert_true(fabs(got->row_abs_cos - expected.row_abs_cos) < 1e-5);
    assert_true(fabs(got->dominance - expected.dominance) < 1e-4);
    assert_true(got->diagonal == expected.diagonal);
}

/* LoRA's B starts as zeros: numbers of some size instead. */
static void move_pairs(struct mt_params *params)
{
    for (size_t i = 0; i < params->trained_count; i++) {
        float *value = params->trained[i].value.data;
        int64_t count = mt_tensor_count(&params->trained[i].value);
        for (int64_t k = 0; k < count; k++) value[k] = 0.2f * mt_rng_normal(5, i, (uint64_t)k);
    }
}

static void expect_model(const struct workplace *place, const struct mt_train_selection *selection)
{
    struct mt_context ctx;
    struct mt_device *device = NULL;
    struct mt_model *model = NULL;
    struct mt_coupling_figures figures[MOST_LAYERS];
    const struct mt_model_options options = {
        .tokens = 8, .sequences = 1, .positions = 8, .selection = *selection};
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_device_create(&ctx, "cpu", 1, &device), MT_OK);
    if (mt_model_open(device, place->directory, &options, &model) != MT_OK) fail_msg("%s", ctx.message);
    struct mt_params *params = mt_model_params(model);
    const struct mt_model_desc *desc = mt_model_description(model);
    if (params->trained_count > 0) move_pairs(params);
    assert_true(params->layers <= MOST_LAYERS);
    assert_int_equal(mt_model_coupling(model, figures), MT_OK);
    int found = 0;
    for (int64_t i = 0; i < params->layers; i++) {
        if (params->layer[i].moe)
            expect_layer(&params->layer[i], desc->experts, desc->width, &figures[found++]);
    }
    assert_true(found > 0);
    mt_model_close(model);
    mt_device_destroy(device);
    assert_int_equal(ctx.live_bytes, 0);
}

static void figures_are_the_plain_sums(void **state)
{
    const struct workplace *place = *state;
    static const char *const lora[] = {"routed_experts", "router", NULL};
    const struct mt_train_selection pairs = {.lora = lora, .lora_rank = 2, .lora_alpha = 4.0, .seed = 3};
    const struct mt_arch *const archs[] = {&mt_arch_olmoe, &mt_arch_deepseek_v2};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        assert_int_equal(small_model_make(place, small_model_config(archs[i]), MT_HF_BFLOAT16, 1), 0);
        expect_model(place, &(struct mt_train_selection){0});
        expect_model(place, &pairs);
        workplace_clear(place);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(figures_are_the_plain_sums, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
