/*
 * The public model, optimizer, generator and runs (src/library): they compute what the functions below them
 * do, what they refuse leaves a sentence, and nothing is left allocated.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "library/lm.h"
#include "metier/adapter.h"
#include "metier/generate.h"
#include "metier/train.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/training_bench.h"
#include "support/workplace.h"

#define TOKENS 24
#define PATH   512

static const int32_t ids[TOKENS] = {3,  7,  11, 4, 9,  21, 8, 5, 14, 6,  30, 2,
                                    17, 12, 3,  7, 25, 13, 9, 4, 6,  10, 8,  5};
static const int32_t offsets[] = {0, 10, TOKENS};

static const char *model_folder(void)
{
    static char path[PATH];
    (void)snprintf(path, sizeof path, "%s/../models/tiny-deepseek-v2", getenv("METIER_TEMPLATES"));
    return path;
}

/* Every token predicts the next one of its sequence. */
static void fill_labels(int32_t labels[TOKENS])
{
    for (int i = 0; i < TOKENS; i++) labels[i] = i == 9 || i == TOKENS - 1 ? -100 : ids[i + 1];
}

struct bench {
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_lm *lm;
    int32_t labels[TOKENS];
    struct mt_lm_batch batch;
};

static void bench_open(struct bench *bench, const struct mt_lm_options *options)
{
    memset(bench, 0, sizeof *bench);
    mt_context_init(&bench->ctx, NULL);
    fill_labels(bench->labels);
    bench->batch = (struct mt_lm_batch){
        .tokens = TOKENS, .sequences = 2, .ids = ids, .offsets = offsets, .labels = bench->labels};
    assert_int_equal(mt_device_create(&bench->ctx, "cpu", 2, &bench->device), MT_OK);
    if (mt_lm_open(bench->device, model_folder(), options, &bench->lm) != MT_OK)
        fail_msg("%s", bench->ctx.message);
}

static void bench_close(struct bench *bench)
{
    mt_lm_close(bench->lm);
    mt_device_destroy(bench->device);
    assert_int_equal(bench->ctx.live_bytes, 0);
}

static struct mt_lm_options lora(void)
{
    return (struct mt_lm_options){.tokens = TOKENS, .training = MT_LM_LORA, .rank = 4, .seed = 3};
}

static void step(struct bench *bench, struct mt_adamw *adamw, struct mt_lm_loss *loss)
{
    assert_int_equal(mt_lm_forward(bench->lm, &bench->batch, loss), MT_OK);
    assert_int_equal(mt_lm_backward(bench->lm), MT_OK);
    if (adamw != NULL && mt_adamw_step(adamw, 3e-3, NULL) != MT_OK) fail_msg("%s", bench->ctx.message);
}

static double gradient_norm(const struct bench *bench)
{
    double sum = 0.0;
    struct mt_lm_param param;
    for (size_t i = 0; mt_lm_param(bench->lm, i, &param); i++) {
        const float *values = param.gradient.data;
        for (int64_t j = 0; j < mt_tensor_count(&param.gradient); j++) sum += (double)values[j] * values[j];
    }
    return sqrt(sum);
}

// ------------------------------------------------------------------ what is computed

static void it_computes_what_the_model_does(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_objective_config method;
    struct mt_lm_options options = lora();
    mt_context_init(&bench.ctx, NULL);
    assert_int_equal(mt_objective_config_method(&bench.ctx, "paper", &method), MT_OK);
    options.objective = &method;
    bench_open(&bench, &options);
    struct mt_lm_loss loss;
    step(&bench, NULL, &loss);
    const char *const targets[] = {"model.layers.*", NULL};
    const struct mt_model_options own = {
        .tokens = TOKENS,
        .sequences = 2,
        .positions = TOKENS,
        .backward = true,
        .objective = &method,
        .selection = {.lora = targets, .lora_rank = 4, .lora_alpha = 16.0, .seed = 3}};
    const struct mt_batch batch = {.tokens = TOKENS,
                                   .sequences = 2,
                                   .ids = ids,
                                   .offsets = offsets,
                                   .labels = bench.labels,
                                   .training = true,
                                   .progress = 1.0};
    struct mt_model *model = NULL;
    struct mt_model_loss expected;
    assert_int_equal(mt_model_open(bench.device, model_folder(), &own, &model), MT_OK);
    assert_int_equal(mt_model_forward(model, &batch, &expected), MT_OK);
    assert_int_equal(mt_model_backward(model), MT_OK);
    assert_true(loss.task == expected.task && loss.terms == expected.terms && loss.labels == expected.labels);
    assert_true(loss.terms != 0.0);
    const struct mt_params *params = mt_model_params(model);
    struct mt_lm_param param;
    for (size_t i = 0; i < params->trained_count; i++) {
        assert_true(mt_lm_param(bench.lm, i, &param));
        assert_string_equal(param.name, params->trained[i].name);
        assert_memory_equal(param.gradient.data, params->trained[i].grad.data,
                            (size_t)mt_tensor_count(&param.gradient) * sizeof(float));
    }
    assert_false(mt_lm_param(bench.lm, params->trained_count, &param));
    assert_true(mt_lm_terms(bench.lm, 0)->loss[MT_TERM_O] > 0.0);
    assert_int_equal(mt_lm_routing(bench.lm, 0)->tokens, TOKENS);
    assert_null(mt_lm_routing(bench.lm, 1000));
    mt_model_close(model);
    bench_close(&bench);
}

/* Two batches that know of each other are one. */
static void parts_of_a_step_add_up(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_lm_options options = lora();
    bench_open(&bench, &options);
    struct mt_lm_loss whole;
    step(&bench, NULL, &whole);
    double expected = gradient_norm(&bench);
    assert_int_equal(mt_lm_clear_gradients(bench.lm), MT_OK);
    assert_true(gradient_norm(&bench) == 0.0);
    double sum = 0.0;
    for (int i = 0; i < 2; i++) {
        struct mt_lm_loss loss;
        const struct mt_lm_batch part = {.tokens = offsets[i + 1] - offsets[i],
                                         .ids = ids + offsets[i],
                                         .labels = bench.labels + offsets[i],
                                         .step_labels = whole.labels,
                                         .step_tokens = TOKENS};
        assert_int_equal(mt_lm_forward(bench.lm, &part, &loss), MT_OK);
        assert_int_equal(mt_lm_backward(bench.lm), MT_OK);
        sum += loss.task * (double)loss.labels / (double)whole.labels;
    }
    assert_true(fabs(sum - whole.task) < 1e-5 && expected > 0.0);
    assert_true(fabs(gradient_norm(&bench) - expected) < 1e-5 * expected);
    bench_close(&bench);
}

/* Logits of the batch, by a model without noise. */
static float *logits_of(struct bench *bench)
{
    struct mt_lm_info info;
    struct mt_lm_loss loss;
    struct mt_lm_batch batch = bench->batch;
    batch.evaluation = true;
    mt_lm_info(bench->lm, &info);
    float *logits = calloc((size_t)(TOKENS * info.vocabulary), sizeof *logits);
    assert_non_null(logits);
    assert_int_equal(mt_lm_forward(bench->lm, &batch, &loss), MT_OK);
    assert_int_equal(mt_lm_logits(bench->lm, logits), MT_OK);
    return logits;
}

static void what_was_trained_can_be_opened(void **state)
{
    const struct workplace *place = *state;
    char adapter[PATH], merged[PATH];
    struct bench trained, opened;
    struct mt_lm_options options = lora();
    struct mt_adamw *adamw = NULL;
    struct mt_lm_loss first, last = {0};
    bench_open(&trained, &options);
    assert_int_equal(mt_adamw_create(trained.lm, NULL, &adamw), MT_OK);
    step(&trained, adamw, &first);
    for (int i = 0; i < 8; i++) step(&trained, adamw, &last);
    assert_true(last.task < 0.9 * first.task);
    workplace_path(place, "adapter", adapter, sizeof adapter);
    workplace_path(place, "merged", merged, sizeof merged);
    assert_int_equal(mt_lm_save_adapter(trained.lm, adapter, "per-expert"), MT_OK);
    float *expected = logits_of(&trained);
    assert_int_equal(mt_merge_adapter(&trained.ctx, model_folder(), adapter, merged, 2), MT_OK);
    bench_open(&opened, &(struct mt_lm_options){.tokens = TOKENS, .adapter = adapter});
    struct mt_lm_info info;
    mt_lm_info(opened.lm, &info);
    assert_string_equal(info.architecture, "deepseek_v2");
    assert_int_equal(info.trainable, 0);
    float *found = logits_of(&opened);
    for (int64_t i = 0; i < TOKENS * info.vocabulary; i++) assert_true(fabsf(found[i] - expected[i]) < 1e-4f);
    free(found);
    free(expected);
    bench_close(&opened);
    mt_adamw_destroy(adamw);
    bench_close(&trained);
    workplace_remove_folder(place, "adapter");
    workplace_remove_folder(place, "merged");
}

/* Loss-free balancing is no loss: what moves is a bias, with every step of the optimizer. */
static void biases_move(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_objective_config method;
    struct mt_lm_options options = lora();
    struct mt_adamw *adamw = NULL;
    struct mt_lm_loss loss;
    mt_context_init(&bench.ctx, NULL);
    assert_int_equal(mt_objective_config_method(&bench.ctx, "loss-free", &method), MT_OK);
    options.objective = &method;
    bench_open(&bench, &options);
    assert_int_equal(mt_adamw_create(bench.lm, NULL, &adamw), MT_OK);
    step(&bench, adamw, &loss);
    const float *bias = mt_lm_routing(bench.lm, 0)->bias.data;
    const double *load = mt_lm_terms(bench.lm, 0)->load;
    struct mt_lm_info info;
    mt_lm_info(bench.lm, &info);
    double mean = (double)TOKENS * info.slots / info.experts;
    for (int e = 0; e < info.experts; e++) {
        double moved = load[e] < mean ? method.bias_rate : load[e] > mean ? -method.bias_rate : 0.0;
        assert_true(fabs(bias[e] - moved) < 1e-9);
    }
    mt_adamw_destroy(adamw);
    bench_close(&bench);
}

// ------------------------------------------------------------------ texts

static void rows_become_labels(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_lm_options options = lora();
    bench_open(&bench, &options);
    const char row[] = "{\"prompt\": \"1+2=\", \"completion\": \"3\"}";
    int32_t found[64], labels[64];
    char text[64];
    size_t count = 0, bytes = 0, learnt = 0;
    assert_int_equal(mt_lm_encode_row(bench.lm, row, strlen(row), found, labels, 64, &count), MT_OK);
    for (size_t i = 0; i < count; i++) learnt += labels[i] >= 0;
    assert_true(count > 4 && learnt >= 1 && learnt < count);
    assert_int_equal(mt_lm_encode(bench.lm, "1+2=3", 5, found, 64, &count), MT_OK);
    assert_int_equal(mt_lm_decode(bench.lm, found, count, text, sizeof text, &bytes), MT_OK);
    assert_string_equal(text, "1+2=3");
    assert_int_equal(mt_lm_encode(bench.lm, "1+2=3", 5, found, 1, &count), MT_ERR_LIMIT);
    assert_true(count >= 5);
    assert_int_equal(mt_lm_decode(bench.lm, found, 4, text, 2, &bytes), MT_ERR_LIMIT);
    assert_int_equal(mt_lm_encode_row(bench.lm, "{", 1, found, labels, 64, &count), MT_ERR_FORMAT);
    bench_close(&bench);
}

// ------------------------------------------------------------------ refusals

static void bad_options_are_refused(void **state)
{
    (void)state;
    const char *const nothing[] = {"nowhere.*", NULL};
    struct mt_objective_config method;
    struct mt_context ctx;
    struct mt_device *device = NULL;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_objective_config_method(&ctx, "paper", &method), MT_OK);
    assert_int_equal(mt_device_create(&ctx, "cpu", 1, &device), MT_OK);
    const struct {
        struct mt_lm_options options;
        const char *words;
    } cases[] = {
        {{.tokens = 0}, "tokens is 0"},
        {{.tokens = 8, .training = MT_LM_LORA, .targets = nothing}, "nowhere.*"},
        {{.tokens = 8, .training = MT_LM_LORA, .dropout = 1.0}, "dropout"},
        {{.tokens = 8, .objective = &method}, "opened for training"},
        {{.tokens = 8, .recompute = "some"}, "recompute is 'some'"},
        {{.tokens = 8, .activations = "f16"}, "activations is 'f16'"},
        {{.tokens = 8, .adapter = "nowhere"}, "nowhere"},
        {{.tokens = 8, .training = MT_LM_FULL, .adapter = "nowhere"}, "MT_LM_LORA"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_lm *lm = NULL;
        assert_int_not_equal(mt_lm_open(device, model_folder(), &cases[i].options, &lm), MT_OK);
        assert_null(lm);
        if (strstr(ctx.message, cases[i].words) == NULL) fail_msg("case %zu: %s", i, ctx.message);
    }
    mt_device_destroy(device);
    assert_int_equal(ctx.live_bytes, 0);
}

static void calls_out_of_order_are_refused(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_lm_options options = lora();
    struct mt_lm_loss loss;
    struct mt_adamw *adamw = NULL;
    float logits[1];
    bench_open(&bench, &options);
    assert_int_equal(mt_lm_backward(bench.lm), MT_ERR_USAGE);
    assert_int_equal(mt_lm_logits(bench.lm, logits), MT_ERR_USAGE);
    assert_int_equal(mt_adamw_create(bench.lm, &(struct mt_adamw_options){.beta1 = 2.0}, &adamw),
                     MT_ERR_USAGE);
    assert_int_equal(mt_adamw_create(bench.lm, NULL, &adamw), MT_OK);
    assert_int_equal(mt_adamw_step(adamw, NAN, NULL), MT_ERR_USAGE);
    step(&bench, NULL, &loss);
    assert_int_equal(mt_lm_backward(bench.lm), MT_ERR_USAGE);
    const int32_t wild[2] = {3, 1 << 20};
    assert_int_equal(mt_lm_forward(bench.lm, &(struct mt_lm_batch){.tokens = 2, .ids = wild}, &loss),
                     MT_ERR_USAGE);
    assert_int_equal(
        mt_lm_forward(bench.lm, &(struct mt_lm_batch){.tokens = 2, .ids = ids, .labels = wild}, &loss),
        MT_ERR_USAGE);
    assert_int_equal(mt_lm_forward(bench.lm, &(struct mt_lm_batch){.tokens = 0, .ids = ids}, &loss),
                     MT_ERR_USAGE);
    assert_int_equal(mt_lm_backward(bench.lm), MT_ERR_USAGE);
    // A gradient that is not a number stops the step, by its name.
    struct mt_lm_param param;
    assert_true(mt_lm_param(bench.lm, 1, &param));
    ((float *)param.gradient.data)[0] = NAN;
    float before = ((const float *)param.value.data)[0];
    assert_int_equal(mt_adamw_step(adamw, 1e-3, NULL), MT_ERR_NUMERIC);
    assert_non_null(strstr(bench.ctx.message, param.name));
    assert_true(((const float *)param.value.data)[0] == before);
    mt_adamw_destroy(adamw);
    bench_close(&bench);
    bench_open(&bench, &(struct mt_lm_options){.tokens = TOKENS});
    assert_int_equal(mt_lm_save_adapter(bench.lm, "nowhere", NULL), MT_ERR_USAGE);
    assert_int_equal(mt_adamw_create(bench.lm, NULL, &adamw), MT_ERR_USAGE);
    bench_close(&bench);
}

static enum mt_status train_once(struct mt_context *ctx, const void *self)
{
    struct mt_device *device = NULL;
    struct mt_lm *lm = NULL;
    struct mt_adamw *adamw = NULL;
    struct mt_lm_loss loss;
    struct mt_lm_options options = lora();
    const char row[] = "{\"prompt\": \"1+2=\", \"completion\": \"3\"}";
    int32_t found[TOKENS], labels[TOKENS];
    size_t count = 0;
    (void)self;
    enum mt_status status = mt_device_create(ctx, "cpu", 1, &device);
    if (status == MT_OK) status = mt_lm_open(device, model_folder(), &options, &lm);
    if (status == MT_OK) status = mt_adamw_create(lm, NULL, &adamw);
    if (status == MT_OK) status = mt_lm_encode_row(lm, row, strlen(row), found, labels, TOKENS, &count);
    const struct mt_lm_batch batch = {.tokens = (int64_t)count, .ids = found, .labels = labels};
    if (status == MT_OK) status = mt_lm_forward(lm, &batch, &loss);
    if (status == MT_OK) status = mt_lm_backward(lm);
    if (status == MT_OK) status = mt_adamw_step(adamw, 1e-3, NULL);
    mt_adamw_destroy(adamw);
    mt_lm_close(lm);
    mt_device_destroy(device);
    return status;
}

/* What one of several threads does, with a context of its own. */
struct worker {
    const char *folder; // borrowed
    double losses[4];
    enum mt_status status;
};

static void *work(void *self)
{
    struct worker *worker = self;
    struct mt_context ctx;
    struct mt_device *device = NULL;
    struct mt_lm *lm = NULL;
    struct mt_adamw *adamw = NULL;
    struct mt_lm_options options = lora();
    int32_t labels[TOKENS];
    fill_labels(labels);
    const struct mt_lm_batch batch = {
        .tokens = TOKENS, .sequences = 2, .ids = ids, .offsets = offsets, .labels = labels};
    mt_context_init(&ctx, NULL);
    worker->status = mt_device_create(&ctx, "cpu", 2, &device);
    if (worker->status == MT_OK) worker->status = mt_lm_open(device, worker->folder, &options, &lm);
    if (worker->status == MT_OK) worker->status = mt_adamw_create(lm, NULL, &adamw);
    for (int i = 0; i < 4 && worker->status == MT_OK; i++) {
        struct mt_lm_loss loss = {0};
        worker->status = mt_lm_forward(lm, &batch, &loss);
        if (worker->status == MT_OK) worker->status = mt_lm_backward(lm);
        if (worker->status == MT_OK) worker->status = mt_adamw_step(adamw, 1e-3, NULL);
        worker->losses[i] = loss.task;
    }
    mt_adamw_destroy(adamw);
    mt_lm_close(lm);
    mt_device_destroy(device);
    return NULL;
}

static void contexts_work_side_by_side(void **state)
{
    (void)state;
    const char *folder = model_folder(); // not in the threads: it writes its buffer
    struct worker alone = {.folder = folder};
    struct worker workers[3];
    pthread_t threads[3];
    (void)work(&alone);
    assert_int_equal(alone.status, MT_OK);
    for (int i = 0; i < 3; i++) {
        workers[i] = (struct worker){.folder = folder};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(workers[i].status, MT_OK);
        assert_memory_equal(workers[i].losses, alone.losses, sizeof alone.losses);
    }
}

static void running_out_of_memory_does_no_harm(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(train_once, NULL, 20);
}

// ------------------------------------------------------------------ generating, and whole runs

struct heard {
    char text[256];
    size_t bytes, most; // the caller leaves after so many; 0: never
};

static enum mt_status hear(void *self, const char *text, size_t bytes, bool *stop)
{
    struct heard *heard = self;
    assert_true(heard->bytes + bytes < sizeof heard->text);
    memcpy(heard->text + heard->bytes, text, bytes);
    heard->bytes += bytes;
    *stop = heard->most > 0 && heard->bytes >= heard->most;
    return MT_OK;
}

static void answers_do_not_depend_on_company(void **state)
{
    (void)state;
    static const char *const prompts[] = {"12+30=", "7*6=", "sort: 3 1 2 ->"};
    struct heard alone[3] = {0}, together[3] = {0};
    struct mt_generate_request requests[3];
    struct mt_context ctx;
    struct mt_generator *generator = NULL;
    mt_context_init(&ctx, NULL);
    const struct mt_generator_options options = {.device = "cpu", .threads = 2, .together = 3};
    if (mt_generator_open(&ctx, model_folder(), &options, &generator) != MT_OK) fail_msg("%s", ctx.message);
    for (int i = 0; i < 3; i++) {
        struct mt_generate_request request = mt_generate_prepare(generator, prompts[i], strlen(prompts[i]));
        request.max_new = 12;
        request.text = hear;
        request.self = &alone[i];
        requests[i] = request;
        requests[i].self = &together[i];
        assert_int_equal(mt_generate(generator, &request, 1), MT_OK);
        assert_true(request.tokens > 0 && request.prompt_tokens > 0);
    }
    assert_int_equal(mt_generate(generator, requests, 3), MT_OK);
    for (int i = 0; i < 3; i++) assert_string_equal(together[i].text, alone[i].text);
    // Ended by the caller, and by a stop string.
    struct heard left = {.most = 1};
    requests[0].self = &left;
    assert_int_equal(mt_generate(generator, requests, 1), MT_OK);
    assert_int_equal(requests[0].end, MT_GENERATE_STOPPED);
    const char stop[2] = {alone[0].text[0], '\0'};
    const char *const stops[] = {stop, NULL};
    struct heard stopped = {0};
    requests[0].self = &stopped;
    requests[0].stops = stops;
    assert_int_equal(mt_generate(generator, requests, 1), MT_OK);
    assert_int_equal(requests[0].end, MT_GENERATE_STOPPED);
    assert_int_equal(stopped.bytes, 0);
    requests[0].temperature = -1.0;
    assert_int_equal(mt_generate(generator, requests, 1), MT_ERR_USAGE);
    assert_true(ctx.message[0] != '\0');
    mt_generator_close(generator);
    assert_int_equal(ctx.live_bytes, 0);
}

static void count_step(void *self, uint64_t step_number, uint64_t steps)
{
    assert_true(step_number <= steps);
    *(int *)self += 1;
}

static void a_whole_run(void **state)
{
    const struct workplace *place = *state;
    char config[PATH], data[PATH], text[4 * PATH], out[PATH];
    struct mt_context ctx;
    struct mt_train_result result;
    int steps = 0;
    const char rows[] =
        "{\"prompt\": \"1+2=\", \"completion\": \"3\"}\n{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n";
    const char *const words[] = {"steps=2", "device=cpu", "log.tensorboard=false"};
    const struct mt_train_options options = {.stepped = count_step, .self = &steps};
    assert_int_equal(workplace_write(place, "rows.jsonl", rows, strlen(rows)), 0);
    workplace_path(place, "rows.jsonl", data, sizeof data);
    workplace_path(place, "run", out, sizeof out);
    int bytes = snprintf(text, sizeof text, "model: %s\nout: %s\ndata.path: %s\n", model_folder(), out, data);
    assert_int_equal(workplace_write(place, "run.yaml", text, (size_t)bytes), 0);
    workplace_path(place, "run.yaml", config, sizeof config);
    mt_context_init(&ctx, NULL);
    if (mt_train_run(&ctx, config, words, 3, &options, &result) != MT_OK) fail_msg("%s", ctx.message);
    assert_true(steps == 2 && result.steps == 2 && !result.before && isnan(result.best_loss));
    assert_int_equal(access(result.folder, R_OK), 0);
    assert_int_equal(mt_train_run(&ctx, config, words, 3, NULL, &result), MT_OK);
    assert_true(result.before && result.steps == 2);
    const char *const wrong[] = {"stepps=2"};
    assert_int_equal(mt_train_run(&ctx, config, wrong, 1, NULL, &result), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "steps"));
    assert_int_equal(ctx.live_bytes, 0);
    training_bench_remove(place, "run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_computes_what_the_model_does),
        cmocka_unit_test(parts_of_a_step_add_up),
        cmocka_unit_test_setup_teardown(what_was_trained_can_be_opened, workplace_open, workplace_close),
        cmocka_unit_test(biases_move),
        cmocka_unit_test(rows_become_labels),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(calls_out_of_order_are_refused),
        cmocka_unit_test(contexts_work_side_by_side),
        cmocka_unit_test(running_out_of_memory_does_no_harm),
        cmocka_unit_test(answers_do_not_depend_on_company),
        cmocka_unit_test_setup_teardown(a_whole_run, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
