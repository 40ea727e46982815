/*
 * Real checkpoints against logits that transformers' own tests record for them. Each test runs when its
 * variable names the folder of a checkpoint, and is skipped otherwise:
 *
 *     METIER_MODEL_V2_LITE   deepseek-ai/DeepSeek-V2-Lite     31 GB
 *     METIER_MODEL_PHI       microsoft/Phi-3.5-MoE-instruct   84 GB
 *     METIER_MODEL_OLMOE     allenai/OLMoE-1B-7B-0924         14 GB
 *
 * The recorded values come from bf16 activations, ours are f32: differences of a few percent are bf16's own.
 * Tests src/model/transformer.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/model.h"
#include "support/cmocka_all.h"

#define TOLERANCE    0.05 // root mean square of the differences over that of the recorded values
#define MOST_COLUMNS 15
#define MOST_TOKENS  8

#define SKIPPED      77 // what ctest takes for a skipped program

struct recorded {
    const char *name, *variable;
    int tokens;
    int32_t ids[MOST_TOKENS];
    bool has_means;
    double means[MOST_TOKENS]; // over the vocabulary, for each position
    int rows, columns;         // logits[0 … rows-1][0 … columns-1]
    double logits[2][MOST_COLUMNS];
};

static const struct recorded v2_lite = {
    .name = "DeepSeek-V2-Lite",
    .variable = "METIER_MODEL_V2_LITE",
    .tokens = 8,
    .ids = {1, 306, 4658, 278, 6593, 310, 2834, 338},
    .has_means = true,
    .means = {-6.1771, -5.0335, -3.9930, -2.5152, -2.1288, -2.4581, -3.7718, -3.6901},
    .rows = 1,
    .columns = 15,
    .logits = {{-1.2188, -0.7422, -0.0201, -2.8281, 1.2500, -2.6094, -0.7266, -2.9219, -2.5313, -0.5469,
                -0.3223, -1.8281, -2.1094, -0.8125, -3.7813}},
};

static const struct recorded phi = {
    .name = "Phi-3.5-MoE",
    .variable = "METIER_MODEL_PHI",
    .tokens = 4,
    .ids = {1212, 318, 281, 1672},
    .rows = 2,
    .columns = 10,
    .logits = {{-3.5625, -2.4375, -1.3672, 0.3438, -0.7539, -0.4590, 0.6133, -0.4531, 0.2188, -1.2422},
               {-0.9688, 0.3633, -0.4902, 2.3281, 0.6250, 3.1094, 0.3828, 0.1670, 0.5781, -2.1094}},
};

static const struct recorded olmoe = {
    .name = "OLMoE-1B-7B-0924",
    .variable = "METIER_MODEL_OLMOE",
    .tokens = 8,
    .ids = {1, 306, 4658, 278, 6593, 310, 2834, 338},
    .has_means = true,
    .means = {-0.9152, -3.3876, -2.3275, -1.9469, -2.4548, -2.7755, -3.0125, -2.8587},
    .rows = 1,
    .columns = 10,
    .logits = {{-0.9844, -1.0469, -3.4531, 3.2812, 0.7422, -0.3926, -0.4160, -2.6562, -1.4531, 0.3867}},
};

static const struct recorded *const all[] = {&v2_lite, &phi, &olmoe};

#define MODEL_COUNT (sizeof all / sizeof all[0])

/* Logits of the recorded ids, [tokens, vocabulary]; the caller frees. */
static float *run_model(const struct recorded *recorded, const char *folder, int64_t *vocabulary)
{
    struct mt_context ctx;
    struct mt_device *device = NULL;
    struct mt_model *model = NULL;
    const int32_t offsets[2] = {0, recorded->tokens};
    const struct mt_batch batch = {
        .tokens = recorded->tokens, .sequences = 1, .ids = recorded->ids, .offsets = offsets};
    const struct mt_model_options options = {
        .tokens = recorded->tokens, .sequences = 1, .positions = recorded->tokens};
    struct mt_model_loss loss;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_device_create(&ctx, "cpu", 0, &device), MT_OK);
    if (mt_model_open(device, folder, &options, &model) != MT_OK) fail_msg("%s", ctx.message);
    *vocabulary = mt_model_description(model)->vocabulary;
    float *values = malloc((size_t)recorded->tokens * (size_t)*vocabulary * sizeof *values);
    assert_non_null(values);
    struct mt_tensor logits = mt_tensor_2d(values, MT_F32, recorded->tokens, *vocabulary);
    if (mt_model_forward(model, &batch, &loss) != MT_OK) fail_msg("%s", ctx.message);
    if (mt_model_logits(model, &logits) != MT_OK) fail_msg("%s", ctx.message);
    mt_model_close(model);
    mt_device_destroy(device);
    return values;
}

struct comparison {
    double differences, values; // sums of squares
};

static void compare(struct comparison *comparison, double got, double want)
{
    comparison->differences += (got - want) * (got - want);
    comparison->values += want * want;
}

static void expect_near(const struct recorded *recorded, const char *what,
                        const struct comparison *comparison)
{
    double error = sqrt(comparison->differences / comparison->values);
    print_message("%s: %s differ by %.4f of their size\n", recorded->name, what, error);
    assert_true(error <= TOLERANCE);
}

static void check_real(void **state)
{
    const size_t *number = *state;
    const struct recorded *recorded = all[*number];
    const char *folder = getenv(recorded->variable);
    int64_t vocabulary = 0;
    if (folder == NULL || folder[0] == '\0') {
        print_message("%s: skipped, %s does not name a checkpoint\n", recorded->name, recorded->variable);
        skip();
        return;
    }
    float *logits = run_model(recorded, folder, &vocabulary);
    struct comparison corner = {0};
    struct comparison means = {0};
    for (int row = 0; row < recorded->rows; row++) {
        for (int column = 0; column < recorded->columns; column++)
            compare(&corner, (double)logits[row * vocabulary + column], recorded->logits[row][column]);
    }
    for (int row = 0; recorded->has_means && row < recorded->tokens; row++) {
        double sum = 0.0;
        for (int64_t i = 0; i < vocabulary; i++) sum += (double)logits[row * vocabulary + i];
        compare(&means, sum / (double)vocabulary, recorded->means[row]);
    }
    free(logits);
    expect_near(recorded, "logits", &corner);
    if (recorded->has_means) expect_near(recorded, "means of logits", &means);
}

int main(void)
{
    struct CMUnitTest tests[MODEL_COUNT];
    size_t number[MODEL_COUNT];
    int named = 0;
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        const char *folder = getenv(all[i]->variable);
        if (folder != NULL && folder[0] != '\0') named++;
        number[i] = i;
        tests[i] =
            (struct CMUnitTest){.name = all[i]->name, .test_func = check_real, .initial_state = &number[i]};
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed == 0 && named == 0 ? SKIPPED : failed;
}
