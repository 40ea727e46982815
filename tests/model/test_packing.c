/*
 * Sequences packed into one batch give what they give alone, bit by bit: hidden states, routing, logits.
 * (Gradients are sums over tokens, and the same to rounding.) Padding changes nothing, and what cannot be a
 * batch is refused. Tests src/model/transformer.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/model_runs.h"
#include "support/small_models.h"

// What the small models stay within.
#define MOST_LAYERS     8
#define MOST_SLOTS      8
#define MOST_VOCABULARY 512

static const char *const everything[] = {"*", NULL};

static void open_run(struct model_run *run, const struct workplace *place, const char *device,
                     enum mt_dtype activations)
{
    struct mt_model_options options = {
        .backward = true, .activations = activations, .selection = {.full = everything}};
    assert_int_equal(model_run_open(run, place, device, 2, &options), 0);
}

/* One sequence of a packed batch as a batch of its own. */
static struct mt_batch sequence_of(const struct model_batch *packed, int64_t b, int32_t offsets[2])
{
    struct mt_batch one = packed->batch;
    int32_t start = packed->offsets[b];
    offsets[0] = 0;
    offsets[1] = packed->offsets[b + 1] - start;
    one.tokens = offsets[1];
    one.sequences = 1;
    one.ids += start;
    one.labels += start;
    if (one.mask != NULL) one.mask += start;
    one.offsets = offsets;
    return one;
}

/* The last layer's output, copied as double. */
static void copy_hidden(const struct model_run *run, double *target)
{
    int64_t layers = mt_model_description(run->model)->layers;
    const struct mt_tensor *hidden = mt_model_hidden(run->model, layers - 1);
    for (int64_t i = 0; i < mt_tensor_count(hidden); i++) {
        target[i] = hidden->dtype == MT_F64 ? ((const double *)hidden->data)[i]
                                            : (double)((const float *)hidden->data)[i];
    }
}

/* Largest difference over the largest value. */
static double distance(const double *a, const double *b, int64_t count)
{
    double largest = 1e-30;
    double difference = 0.0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(a[i]));
        difference = fmax(difference, fabs(a[i] - b[i]));
    }
    return difference / largest;
}

static double *numbers(int64_t count)
{
    double *memory = calloc((size_t)count, sizeof *memory);
    assert_non_null(memory);
    return memory;
}

/* Gradients of the mean loss: a sequence counts by its labels. Added to the sum. */
static void add_gradients(const struct model_run *run, double share, double *sum)
{
    const struct mt_params *params = mt_model_params(run->model);
    const float *gradients = params->gradients.data;
    for (size_t i = 0; i < params->gradients.bytes / sizeof(float); i++)
        sum[i] += share * (double)gradients[i];
}

/* What every token of a batch got, in f32 or i32; tokens of one sequence lie together. */
struct token_results {
    float logits[MODEL_RUN_TOKENS * MOST_VOCABULARY];
    float weight[MOST_LAYERS][MODEL_RUN_TOKENS * MOST_SLOTS];
    int32_t expert[MOST_LAYERS][MODEL_RUN_TOKENS * MOST_SLOTS];
};

/* Fills in the tokens of the run's last batch, the first of which is token `start` of all. */
static void collect_results(struct model_run *run, int64_t start, int64_t tokens,
                            struct token_results *results)
{
    const struct mt_model_desc *desc = mt_model_description(run->model);
    assert_true(desc->layers <= MOST_LAYERS && desc->vocabulary <= MOST_VOCABULARY);
    struct mt_tensor logits =
        mt_tensor_2d(results->logits + start * desc->vocabulary, MT_F32, tokens, desc->vocabulary);
    assert_int_equal(mt_model_logits(run->model, &logits), MT_OK);
    for (int64_t layer = 0; layer < desc->layers; layer++) {
        const struct mt_routing *routing = mt_model_routing(run->model, layer);
        if (routing == NULL) continue;
        assert_true(routing->slots <= MOST_SLOTS);
        for (int64_t t = 0; t < tokens; t++) {
            size_t bytes = (size_t)routing->slots * 4;
            memcpy(results->weight[layer] + (start + t) * MOST_SLOTS,
                   (const float *)routing->weight.data + t * routing->weight.stride[0], bytes);
            memcpy(results->expert[layer] + (start + t) * MOST_SLOTS,
                   (const int32_t *)routing->expert.data + t * routing->expert.stride[0], bytes);
        }
    }
}

static void check_packing(const struct workplace *place, const char *device, enum mt_dtype type)
{
    static struct token_results together_results;
    static struct token_results alone_results;
    memset(&together_results, 0, sizeof together_results);
    memset(&alone_results, 0, sizeof alone_results);
    struct model_run run;
    struct model_batch packed;
    double loss = 0.0;
    open_run(&run, place, device, type);
    const struct mt_model_desc *desc = mt_model_description(run.model);
    int64_t elements = (int64_t)(mt_model_params(run.model)->gradients.bytes / sizeof(float));
    model_batch_fill(&packed, (const int[]){9, 2, 7, 0}, desc->vocabulary, 4);
    double *together = numbers(packed.batch.tokens * desc->width);
    double *alone = numbers(packed.batch.tokens * desc->width);
    double *gradients = numbers(elements);
    double *gradient_sum = numbers(elements);
    assert_int_equal(model_run_step(&run, &packed.batch, &loss), 0);
    copy_hidden(&run, together);
    collect_results(&run, 0, packed.batch.tokens, &together_results);
    add_gradients(&run, 1.0, gradients);
    double labels = (double)(packed.batch.tokens - packed.batch.sequences);
    double loss_sum = 0.0;
    for (int64_t b = 0; b < packed.batch.sequences; b++) {
        int32_t offsets[2];
        double one_loss = 0.0;
        struct mt_batch one = sequence_of(&packed, b, offsets);
        assert_int_equal(model_run_step(&run, &one, &one_loss), 0);
        copy_hidden(&run, alone + packed.offsets[b] * desc->width);
        collect_results(&run, packed.offsets[b], one.tokens, &alone_results);
        double share = (double)(one.tokens - 1) / labels;
        add_gradients(&run, share, gradient_sum);
        loss_sum += share * one_loss;
    }
    assert_memory_equal(together, alone, (size_t)(packed.batch.tokens * desc->width) * sizeof(double));
    assert_memory_equal(&together_results, &alone_results, sizeof together_results);
    assert_true(fabs(loss - loss_sum) <= 1e-6); // a mean over tokens
    assert_true(distance(gradients, gradient_sum, elements) <= 1e-5);
    free(together);
    free(alone);
    free(gradients);
    free(gradient_sum);
    model_run_close(&run);
}

static void test_packing(void **state)
{
    const struct workplace *place = *state;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        const char *config = small_model_config(model);
        assert_int_equal(small_model_make(place, config, MT_HF_FLOAT32, 11), 0);
        check_packing(place, "ref", MT_F32);
        check_packing(place, "cpu", MT_F32);
        workplace_clear(place);
    }
}

/* Padding after the last token of each sequence, with ids that mean nothing. */
static void pad(const struct model_batch *plain, struct model_batch *padded)
{
    memset(padded, 0, sizeof *padded);
    int64_t tokens = 0;
    for (int64_t b = 0; b < plain->batch.sequences; b++) {
        int64_t length = plain->offsets[b + 1] - plain->offsets[b];
        int64_t padding = b % 2 == 0 ? 2 : 0;
        for (int64_t i = 0; i < length + padding; i++, tokens++) {
            bool real = i < length;
            padded->ids[tokens] = real ? plain->ids[plain->offsets[b] + i] : 7;
            padded->labels[tokens] = real ? plain->labels[plain->offsets[b] + i] : 3;
            padded->mask[tokens] = real;
        }
        padded->offsets[b + 1] = (int32_t)tokens;
    }
    padded->batch = plain->batch;
    padded->batch.tokens = tokens;
    padded->batch.ids = padded->ids;
    padded->batch.labels = padded->labels;
    padded->batch.mask = padded->mask;
    padded->batch.offsets = padded->offsets;
}

static void check_padding(const struct workplace *place, const char *method_name)
{
    struct model_run run;
    struct model_batch plain;
    struct model_batch padded;
    struct mt_context ctx;
    struct mt_objective_config method;
    double loss = 0.0;
    double padded_loss = 0.0;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_objective_config_method(&ctx, method_name, &method), MT_OK);
    assert_int_equal(mt_objective_config_set(&ctx, &method, "brake", "none"), MT_OK);
    struct mt_model_options options = {
        .backward = true, .objective = &method, .selection = {.full = everything}};
    assert_int_equal(model_run_open(&run, place, "ref", 1, &options), 0);
    int64_t elements = (int64_t)(mt_model_params(run.model)->gradients.bytes / sizeof(float));
    double *expected = numbers(elements);
    double *got = numbers(elements);
    model_batch_fill(&plain, (const int[]){6, 3, 4, 0}, mt_model_description(run.model)->vocabulary, 4);
    pad(&plain, &padded);
    assert_int_equal(model_run_step(&run, &plain.batch, &loss), 0);
    add_gradients(&run, 1.0, expected);
    assert_int_equal(model_run_step(&run, &padded.batch, &padded_loss), 0);
    add_gradients(&run, 1.0, got);
    if (fabs(loss - padded_loss) > 1e-6 || distance(expected, got, elements) > 1e-6) {
        fail_msg("%s: loss %.9g, with padding %.9g; gradients differ by %.2g", method_name, loss, padded_loss,
                 distance(expected, got, elements));
    }
    free(expected);
    free(got);
    model_run_close(&run);
}

static void test_padding(void **state)
{
    const struct workplace *place = *state;
    static const char *const methods[] = {"none",  "aux",    "paper", "metier",     "paper-code",
                                          "ernie", "simbal", "erc",   "intra-cross"};
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_deepseek_v3), MT_HF_FLOAT32, 11), 0);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) check_padding(place, methods[i]);
}

/* A token can look `window` tokens back, in every layer: beyond that nothing reaches it. */
static void test_window(void **state)
{
    const struct workplace *place = *state;
    struct model_run run;
    struct model_batch batch;
    struct mt_model_loss loss;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_mixtral), MT_HF_FLOAT32, 11), 0);
    open_run(&run, place, "ref", MT_F32);
    const struct mt_model_desc *desc = mt_model_description(run.model);
    assert_int_equal(desc->window, 5);
    int64_t reach = desc->layers * (desc->window - 1);
    int64_t width = desc->width;
    model_batch_fill(&batch, (const int[]){20, 0}, desc->vocabulary, 4);
    double *before = numbers(20 * width);
    double *after = numbers(20 * width);
    assert_int_equal(mt_model_forward(run.model, &batch.batch, &loss), MT_OK);
    copy_hidden(&run, before);
    batch.ids[0] = (batch.ids[0] + 1) % (int32_t)desc->vocabulary;
    assert_int_equal(mt_model_forward(run.model, &batch.batch, &loss), MT_OK);
    copy_hidden(&run, after);
    assert_true(distance(before, after, (reach + 1) * width) > 1e-4);
    assert_true(distance(before + reach * width, after + reach * width, width) > 0.0);
    assert_memory_equal(before + (reach + 1) * width, after + (reach + 1) * width,
                        (size_t)((19 - reach) * width) * sizeof(double));
    free(before);
    free(after);
    model_run_close(&run);
}

static void expect_refused(struct model_run *run, const struct mt_batch *batch, const char *words)
{
    struct mt_model_loss loss;
    assert_int_equal(mt_model_forward(run->model, batch, &loss), MT_ERR_USAGE);
    if (strstr(run->ctx.message, words) == NULL) fail_msg("'%s' does not say '%s'", run->ctx.message, words);
}

static void test_refusals(void **state)
{
    const struct workplace *place = *state;
    struct model_run run;
    struct model_batch good;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_olmoe), MT_HF_BFLOAT16, 11), 0);
    open_run(&run, place, "cpu", MT_F32);
    model_batch_fill(&good, (const int[]){6, 4, 0}, mt_model_description(run.model)->vocabulary, 4);
    assert_int_equal(mt_model_backward(run.model), MT_ERR_USAGE);
    struct mt_batch bad = good.batch;
    bad.tokens = MODEL_RUN_TOKENS + 1;
    expect_refused(&run, &bad, "there is room for");
    bad = good.batch;
    bad.tokens = 9;
    expect_refused(&run, &bad, "do not cover");
    int32_t backwards[] = {0, 11, 10};
    bad = good.batch;
    bad.offsets = backwards;
    expect_refused(&run, &bad, "ends before it starts");
    bad = good.batch;
    good.mask[2] = 0;
    bad.mask = good.mask;
    expect_refused(&run, &bad, "padding before its last token");
    good.ids[3] = 5000;
    expect_refused(&run, &good.batch, "ids holds 5000");
    good.ids[3] = -1;
    expect_refused(&run, &good.batch, "ids holds -1");
    model_run_close(&run);
}

/* A loss alone leaves gradients and the objective's scales untouched. */
static void test_loss_only(void **state)
{
    const struct workplace *place = *state;
    struct model_run run;
    struct model_batch batch;
    struct mt_model_loss loss;
    struct mt_model_loss again;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_phimoe), MT_HF_BFLOAT16, 11), 0);
    open_run(&run, place, "cpu", MT_F32);
    model_batch_fill(&batch, (const int[]){6, 4, 0}, mt_model_description(run.model)->vocabulary, 4);
    batch.batch.loss_only = true;
    assert_int_equal(mt_model_forward(run.model, &batch.batch, &loss), MT_OK);
    const struct mt_params *params = mt_model_params(run.model);
    const float *gradients = params->gradients.data;
    for (size_t i = 0; i < params->gradients.bytes / sizeof(float); i++) assert_true(gradients[i] == 0.0f);
    assert_int_equal(mt_model_backward(run.model), MT_ERR_USAGE);
    batch.batch.loss_only = false;
    assert_int_equal(mt_model_forward(run.model, &batch.batch, &again), MT_OK);
    assert_true(fabs(loss.task - again.task) < 1e-6);
    assert_int_equal(loss.labels, 8);
    model_run_close(&run);
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORKPLACE(test_packing),  IN_WORKPLACE(test_padding),   IN_WORKPLACE(test_window),
        IN_WORKPLACE(test_refusals), IN_WORKPLACE(test_loss_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
