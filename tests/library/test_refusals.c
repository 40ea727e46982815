/*
 * Public functions refuse what cannot be: NULL where something is needed, values that an enum does not have.
 * A status and a sentence that names the argument; no sentence where nothing leads to a context; functions
 * without a status return NULL, false or zeros. Tests src/library.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metier/adapter.h"
#include "metier/buffer.h"
#include "metier/generate.h"
#include "metier/layers.h"
#include "metier/ops.h"
#include "metier/train.h"
#include "support/cmocka_all.h"

#define PATH   512
#define TOKENS 4

static const int32_t ids[TOKENS] = {3, 7, 11, 4};

static const char *model_folder(void)
{
    static char path[PATH];
    (void)snprintf(path, sizeof path, "%s/../models/tiny-deepseek-v2", getenv("METIER_TEMPLATES"));
    return path;
}

struct bench {
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_lm *lm;
};

static void bench_open(struct bench *bench, bool with_model)
{
    const struct mt_lm_options options = {.tokens = TOKENS, .training = MT_LM_LORA, .rank = 2};
    memset(bench, 0, sizeof *bench);
    mt_context_init(&bench->ctx, NULL);
    assert_int_equal(mt_device_create(&bench->ctx, "cpu", 1, &bench->device), MT_OK);
    if (with_model && mt_lm_open(bench->device, model_folder(), &options, &bench->lm) != MT_OK)
        fail_msg("%s", bench->ctx.message);
}

static void bench_close(struct bench *bench)
{
    mt_lm_close(bench->lm);
    mt_device_destroy(bench->device);
    assert_int_equal(bench->ctx.live_bytes, 0);
}

/* Refused, with these words in the sentence, which is then forgotten. */
#define REFUSED(bench, words, call)                                                                          \
    do {                                                                                                     \
        enum mt_status refused_ = (call);                                                                    \
        if (refused_ == MT_OK || strstr((bench)->ctx.message, words) == NULL)                                \
            fail_msg("%s: status %d, '%s'", #call, (int)refused_, (bench)->ctx.message);                     \
        (bench)->ctx.message[0] = '\0';                                                                      \
    } while (0)

/* Refused where nothing leads to a context. */
#define REFUSED_ALONE(call) assert_int_equal((call), MT_ERR_USAGE)

// ------------------------------------------------------------------ models

static void models_refuse_null(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_lm *none = NULL;
    struct mt_lm_info info;
    struct mt_lm_param param;
    struct mt_lm_loss loss;
    const struct mt_lm_options options = {.tokens = TOKENS};
    struct mt_lm_batch batch = {.tokens = TOKENS, .ids = ids};
    bench_open(&bench, true);
    REFUSED_ALONE(mt_lm_open(NULL, "folder", &options, &none));
    REFUSED(&bench, "folder is NULL", mt_lm_open(bench.device, NULL, &options, &none));
    REFUSED(&bench, "options is NULL", mt_lm_open(bench.device, model_folder(), NULL, &none));
    REFUSED(&bench, "lm is NULL", mt_lm_open(bench.device, model_folder(), &options, NULL));
    assert_null(none);
    REFUSED_ALONE(mt_lm_forward(NULL, &batch, &loss));
    REFUSED(&bench, "batch is NULL", mt_lm_forward(bench.lm, NULL, &loss));
    REFUSED(&bench, "loss is NULL", mt_lm_forward(bench.lm, &batch, NULL));
    batch.ids = NULL;
    REFUSED(&bench, "ids is NULL", mt_lm_forward(bench.lm, &batch, &loss));
    REFUSED_ALONE(mt_lm_backward(NULL));
    REFUSED_ALONE(mt_lm_logits(NULL, NULL));
    REFUSED(&bench, "logits is NULL", mt_lm_logits(bench.lm, NULL));
    REFUSED_ALONE(mt_lm_values_written(NULL));
    REFUSED_ALONE(mt_lm_clear_gradients(NULL));
    REFUSED_ALONE(mt_lm_save_adapter(NULL, "folder", NULL));
    REFUSED(&bench, "folder is NULL", mt_lm_save_adapter(bench.lm, NULL, NULL));
    REFUSED_ALONE(mt_lm_save_model(NULL, "folder"));
    REFUSED(&bench, "folder is NULL", mt_lm_save_model(bench.lm, NULL));
    info.layers = 7;
    mt_lm_info(NULL, &info);
    assert_true(info.layers == 0 && info.architecture == NULL);
    mt_lm_info(bench.lm, NULL);
    assert_false(mt_lm_param(NULL, 0, &param));
    assert_false(mt_lm_param(bench.lm, 0, NULL));
    assert_null(mt_lm_routing(NULL, 0));
    assert_null(mt_lm_terms(NULL, 0));
    assert_null(mt_lm_part(-1));
    mt_lm_close(NULL);
    bench_close(&bench);
}

static void texts_refuse_null(void **state)
{
    (void)state;
    struct bench bench;
    int32_t found[8], labels[8];
    char text[8];
    size_t count = 0;
    bench_open(&bench, true);
    REFUSED_ALONE(mt_lm_encode(NULL, "1", 1, found, 8, &count));
    REFUSED(&bench, "text is NULL", mt_lm_encode(bench.lm, NULL, 1, found, 8, &count));
    REFUSED(&bench, "ids is NULL", mt_lm_encode(bench.lm, "1", 1, NULL, 8, &count));
    REFUSED(&bench, "count is NULL", mt_lm_encode(bench.lm, "1", 1, found, 8, NULL));
    assert_int_equal(mt_lm_encode(bench.lm, "1", 1, NULL, 0, &count), MT_ERR_LIMIT); // how many there are
    assert_true(count > 0);
    REFUSED_ALONE(mt_lm_encode_row(NULL, "{}", 2, found, labels, 8, &count));
    REFUSED(&bench, "json is NULL", mt_lm_encode_row(bench.lm, NULL, 2, found, labels, 8, &count));
    REFUSED(&bench, "ids is NULL", mt_lm_encode_row(bench.lm, "{}", 2, NULL, labels, 8, &count));
    REFUSED(&bench, "labels is NULL", mt_lm_encode_row(bench.lm, "{}", 2, found, NULL, 8, &count));
    REFUSED(&bench, "count is NULL", mt_lm_encode_row(bench.lm, "{}", 2, found, labels, 8, NULL));
    REFUSED_ALONE(mt_lm_decode(NULL, ids, 1, text, 8, &count));
    REFUSED(&bench, "ids is NULL", mt_lm_decode(bench.lm, NULL, 1, text, 8, &count));
    REFUSED(&bench, "text is NULL", mt_lm_decode(bench.lm, ids, 1, NULL, 8, &count));
    REFUSED(&bench, "bytes is NULL", mt_lm_decode(bench.lm, ids, 1, text, 8, NULL));
    bench_close(&bench);
}

static void options_refuse_what_is_not_there(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, true);
    const struct {
        struct mt_lm_options options;
        const char *words;
    } cases[] = {
        {{.tokens = 4, .training = (enum mt_lm_training)3}, "training number 3"},
        {{.tokens = 4, .training = (enum mt_lm_training) - 1}, "training number -1"},
        {{.tokens = 4, .sequences = -1}, "sequences is -1"},
        {{.tokens = 4, .training = MT_LM_LORA, .alpha = INFINITY}, "alpha inf"},
        {{.tokens = 4, .training = MT_LM_LORA, .alpha = NAN}, "alpha"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_lm *lm = NULL;
        REFUSED(&bench, cases[i].words, mt_lm_open(bench.device, model_folder(), &cases[i].options, &lm));
        assert_null(lm);
    }
    struct mt_objective_config method;
    assert_int_equal(mt_objective_config_method(&bench.ctx, "paper", &method), MT_OK);
    method.form = (enum mt_ortho_form)99;
    struct mt_lm *lm = NULL;
    const struct mt_lm_options options = {.tokens = 4, .training = MT_LM_LORA, .objective = &method};
    REFUSED(&bench, "form has no choice number 99", mt_lm_open(bench.device, model_folder(), &options, &lm));
    const struct {
        struct mt_lm_batch batch;
        const char *words;
    } batches[] = {
        {{.tokens = TOKENS, .ids = ids, .sequences = 2}, "no offsets"},
        {{.tokens = TOKENS, .ids = ids, .sequences = -1}, "no offsets"},
        {{.tokens = TOKENS, .ids = ids, .step_labels = -1}, "step_labels is -1"},
        {{.tokens = TOKENS, .ids = ids, .progress = NAN}, "progress"},
    };
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        struct mt_lm_loss loss;
        REFUSED(&bench, batches[i].words, mt_lm_forward(bench.lm, &batches[i].batch, &loss));
    }
    bench_close(&bench);
}

// ------------------------------------------------------------------ optimizer, runs, generators

static void training_refuses_null(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_adamw *adamw = NULL;
    struct mt_train_result result;
    const char *const words[] = {"steps=1", NULL};
    bench_open(&bench, true);
    REFUSED_ALONE(mt_adamw_create(NULL, NULL, &adamw));
    REFUSED(&bench, "adamw is NULL", mt_adamw_create(bench.lm, NULL, NULL));
    const struct mt_adamw_options endless = {.weight_decay = INFINITY};
    REFUSED(&bench, "weight_decay inf", mt_adamw_create(bench.lm, &endless, &adamw));
    REFUSED_ALONE(mt_adamw_step(NULL, 1e-3, NULL));
    mt_adamw_destroy(NULL);
    REFUSED_ALONE(mt_train_run(NULL, "run.yaml", NULL, 0, NULL, &result));
    REFUSED(&bench, "config is NULL", mt_train_run(&bench.ctx, NULL, NULL, 0, NULL, &result));
    REFUSED(&bench, "result is NULL", mt_train_run(&bench.ctx, "run.yaml", NULL, 0, NULL, NULL));
    REFUSED(&bench, "words is NULL", mt_train_run(&bench.ctx, "run.yaml", NULL, 1, NULL, &result));
    REFUSED(&bench, "one of words is NULL", mt_train_run(&bench.ctx, "run.yaml", words, 2, NULL, &result));
    REFUSED_ALONE(mt_merge_adapter(NULL, "a", "b", "c", 1));
    REFUSED(&bench, "model is NULL", mt_merge_adapter(&bench.ctx, NULL, "b", "c", 1));
    REFUSED(&bench, "adapter is NULL", mt_merge_adapter(&bench.ctx, "a", NULL, "c", 1));
    REFUSED(&bench, "out is NULL", mt_merge_adapter(&bench.ctx, "a", "b", NULL, 1));
    REFUSED(&bench, "threads is -1", mt_merge_adapter(&bench.ctx, "a", "b", "c", -1));
    bench_close(&bench);
}

static void generators_refuse_null(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_generator *generator = NULL;
    const struct mt_generator_options options = {.device = "cpu", .threads = 1, .together = 1};
    bench_open(&bench, false);
    REFUSED_ALONE(mt_generator_open(NULL, model_folder(), &options, &generator));
    REFUSED(&bench, "folder is NULL", mt_generator_open(&bench.ctx, NULL, &options, &generator));
    REFUSED(&bench, "generator is NULL", mt_generator_open(&bench.ctx, model_folder(), &options, NULL));
    assert_int_equal(mt_generator_open(&bench.ctx, model_folder(), &options, &generator), MT_OK);
    struct mt_generate_request request = mt_generate_prepare(generator, NULL, 0);
    REFUSED_ALONE(mt_generate(NULL, &request, 1));
    REFUSED(&bench, "requests is NULL", mt_generate(generator, NULL, 1));
    REFUSED(&bench, "request 0: mt_generate: prompt is NULL", mt_generate(generator, &request, 1));
    assert_int_equal(mt_generate(generator, NULL, 0), MT_OK);
    request = mt_generate_prepare(NULL, "1+1=", 4);
    assert_true(request.bytes == 4 && request.max_new == 0);
    mt_generator_close(generator);
    bench_close(&bench);
}

// ------------------------------------------------------------------ devices and ops

static void devices_refuse_null(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_device *device = NULL;
    struct mt_buffer buffer = {0};
    struct mt_memory_room room = {.total = 7};
    const char *name = NULL;
    void *block = NULL;
    int number = 0;
    bench_open(&bench, false);
    REFUSED_ALONE(mt_device_create(NULL, "cpu", 1, &device));
    REFUSED(&bench, "name is NULL", mt_device_create(&bench.ctx, NULL, 1, &device));
    REFUSED(&bench, "device is NULL", mt_device_create(&bench.ctx, "cpu", 1, NULL));
    REFUSED(&bench, "place is NULL", mt_device_create_on(&bench.ctx, "cpu", NULL, &device));
    REFUSED(&bench, "name is NULL", mt_device_best(&bench.ctx, MT_USE_FAST, NULL));
    REFUSED(&bench, "use number 9", mt_device_best(&bench.ctx, (enum mt_device_use)9, &name));
    REFUSED_ALONE(mt_device_best(NULL, MT_USE_FAST, &name));
    REFUSED_ALONE(mt_device_enter(NULL));
    REFUSED_ALONE(mt_device_synchronise(NULL));
    REFUSED_ALONE(mt_device_buffer_create(NULL, 4, &buffer));
    REFUSED(&bench, "buffer is NULL", mt_device_buffer_create(bench.device, 4, NULL));
    REFUSED(&bench, "buffer is NULL", mt_device_staging_create(bench.device, 4, NULL));
    REFUSED(&bench, "buffer is NULL", mt_buffer_create(&bench.ctx, 4, NULL));
    REFUSED(&bench, "target is NULL", mt_device_upload(bench.device, NULL, &number, sizeof number));
    REFUSED(&bench, "source is NULL", mt_device_download(bench.device, &number, NULL, sizeof number));
    REFUSED_ALONE(mt_device_upload(NULL, &number, &number, sizeof number));
    REFUSED_ALONE(mt_allocate(NULL, 4, &block));
    REFUSED(&bench, "block is NULL", mt_allocate(&bench.ctx, 4, NULL));
    REFUSED(&bench, "block is NULL", mt_allocate_array(&bench.ctx, 4, 4, NULL));
    REFUSED(&bench, "does not record", mt_device_record_begin(bench.device));
    REFUSED(&bench, "is NULL", mt_device_record_end(bench.device, NULL));
    REFUSED(&bench, "not of this device", mt_device_replay(bench.device, NULL));
    assert_false(mt_recording_is_usable(NULL));
    mt_device_room(NULL, &room);
    assert_true(room.total == 0);
    assert_null(mt_device_name(NULL));
    assert_null(mt_device_description(NULL));
    assert_null(mt_device_context(NULL));
    assert_null(mt_device_listed(-1));
    assert_false(mt_device_on_host(NULL) || mt_device_is_dry(NULL) || mt_device_shares_addresses(NULL));
    assert_int_equal(mt_dtype_bytes((enum mt_dtype)99), 0);
    mt_context_init(NULL, NULL);
    mt_buffer_release(NULL);
    REFUSED_ALONE(mt_op_run(NULL, MT_OP_fill, &number));
    REFUSED(&bench, "fill: args is NULL", mt_fill(bench.device, NULL));
    REFUSED(&bench, "no op number 9999", mt_op_run(bench.device, (enum mt_op)9999, &number));
    bench_close(&bench);
}

// ------------------------------------------------------------------ the objective

static void objectives_refuse_null(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_objective_config config = {0};
    struct mt_objective *objective = NULL;
    struct mt_objective_shape shape = {
        .layers = 1, .tokens = 4, .experts = 4, .slots = 2, .segments = 1, .router = {.slots = 2}};
    const struct mt_objective_step step = {.progress = 1.0, .loss_scale = 1.0};
    double total = 0.0;
    bench_open(&bench, false);
    struct mt_context *ctx = &bench.ctx;
    REFUSED(&bench, "name is NULL", mt_objective_config_method(ctx, NULL, &config));
    REFUSED(&bench, "config is NULL", mt_objective_config_method(ctx, "aux", NULL));
    assert_int_equal(mt_objective_config_method(ctx, "aux", &config), MT_OK);
    REFUSED(&bench, "config is NULL", mt_objective_config_set(ctx, NULL, "alpha", "1"));
    REFUSED(&bench, "key is NULL", mt_objective_config_set(ctx, &config, NULL, "1"));
    REFUSED(&bench, "value is NULL", mt_objective_config_set(ctx, &config, "alpha", NULL));
    REFUSED(&bench, "config is NULL", mt_objective_config_check(ctx, NULL));
    REFUSED(&bench, "config is NULL", mt_objective_create(bench.device, NULL, &shape, &objective));
    REFUSED(&bench, "shape is NULL", mt_objective_create(bench.device, &config, NULL, &objective));
    REFUSED(&bench, "objective is NULL", mt_objective_create(bench.device, &config, &shape, NULL));
    REFUSED_ALONE(mt_objective_create(NULL, &config, &shape, &objective));
    shape.router.kind = (enum mt_router_kind)7;
    REFUSED(&bench, "no kind 7", mt_objective_create(bench.device, &config, &shape, &objective));
    shape.router.kind = MT_ROUTER_SOFTMAX;
    assert_int_equal(mt_objective_create(bench.device, &config, &shape, &objective), MT_OK);
    REFUSED_ALONE(mt_objective_forward(NULL, 0, NULL));
    REFUSED(&bench, "record is NULL", mt_objective_forward(objective, 0, NULL));
    REFUSED(&bench, "step is NULL", mt_objective_finish(objective, NULL, &total));
    REFUSED(&bench, "total is NULL", mt_objective_finish(objective, &step, NULL));
    REFUSED(&bench, "record is NULL", mt_objective_coupling(objective, 0, NULL, NULL));
    REFUSED(&bench, "record is NULL", mt_objective_backward(objective, 0, NULL, NULL, NULL, NULL));
    REFUSED(&bench, "router is NULL", mt_router_config_check(ctx, NULL, 4));
    REFUSED(&bench, "router is NULL", mt_routing_forward(bench.device, NULL, NULL, NULL));
    REFUSED(&bench, "router is NULL", mt_routing_backward(bench.device, NULL, NULL, NULL));
    struct mt_router_config router = {.kind = (enum mt_router_kind)7, .slots = 2};
    struct mt_router_policy policy = {0};
    struct mt_routing record = {.experts = 4, .slots = 2};
    REFUSED(&bench, "no kind 7", mt_routing_forward(bench.device, &router, &policy, &record));
    REFUSED(&bench, "arrays is NULL",
            mt_objective_evaluate(bench.device, &config, &router, NULL, NULL, NULL, 0));
    REFUSED(&bench, "config is NULL", mt_objective_check_live(ctx, NULL, &router, NULL, 0, ""));
    REFUSED(&bench, "paths is NULL", mt_objective_check_live(ctx, &config, &router, NULL, 1, ""));
    assert_null(mt_objective_layer(NULL, 0));
    assert_null(mt_objective_layer(objective, 1));
    assert_null(mt_objective_rule_memory(objective, -1));
    assert_null(mt_term_info((enum mt_term)99));
    assert_null(mt_term_key((enum mt_term)99));
    assert_string_equal(mt_term_name((enum mt_term)99), "unknown term");
    assert_false(mt_term_is_on(&config, (enum mt_term)99) || mt_selection_drops(NULL));
    mt_objective_destroy(objective);
    bench_close(&bench);
}

static void layers_refuse_null(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_layers *layers = NULL;
    struct mt_layers_options options = {
        .method = "aux",
        .shape = {.layers = 1, .tokens = 4, .experts = 4, .slots = 2, .segments = 1, .router = {.slots = 2}}};
    struct mt_layer_arrays arrays = {.tokens = 4, .segments = 1};
    const struct mt_layer_arrays *none[] = {NULL};
    const struct mt_objective_step step = {.progress = 1.0, .loss_scale = 1.0};
    struct mt_layer_chain chain = {0};
    float total = 0.0f;
    bool waited = false;
    bench_open(&bench, false);
    REFUSED_ALONE(mt_layers_create(NULL, &options, &layers));
    REFUSED(&bench, "options is NULL", mt_layers_create(bench.device, NULL, &layers));
    REFUSED(&bench, "layers is NULL", mt_layers_create(bench.device, &options, NULL));
    options.given = (enum mt_layers_given)3;
    REFUSED(&bench, "way number 3", mt_layers_create(bench.device, &options, &layers));
    options.given = MT_GIVEN_LOGITS;
    options.method = NULL;
    REFUSED(&bench, "name is NULL", mt_layers_create(bench.device, &options, &layers));
    options.method = "aux";
    assert_int_equal(mt_layers_create(bench.device, &options, &layers), MT_OK);
    REFUSED_ALONE(mt_layers_route(NULL, 0, &arrays));
    REFUSED(&bench, "arrays is NULL", mt_layers_route(layers, 0, NULL));
    REFUSED(&bench, "logits", mt_layers_route(layers, 0, &arrays));
    REFUSED(&bench, "arrays is NULL", mt_layers_forward(layers, 0, NULL, true));
    REFUSED(&bench, "arrays is NULL", mt_layers_coupling(layers, 0, NULL));
    REFUSED(&bench, "arrays is NULL", mt_layers_backward(layers, 0, NULL));
    REFUSED(&bench, "total is NULL", mt_layers_finish(layers, &step, NULL, &waited));
    REFUSED(&bench, "waited is NULL", mt_layers_finish(layers, &step, &total, NULL));
    REFUSED(&bench, "step is NULL", mt_layers_finish(layers, NULL, &total, &waited));
    REFUSED(&bench, "numbers is NULL", mt_layers_read(layers, NULL));
    REFUSED(&bench, "arrays is NULL", mt_layers_step(layers, NULL, &step, &total, &waited));
    REFUSED(&bench, "arrays is NULL", mt_layers_step(layers, none, &step, &total, &waited));
    REFUSED(&bench, "chain is NULL", mt_layers_chain(layers, &arrays, NULL));
    REFUSED(&bench, "factor is NULL", mt_layers_chain(layers, &arrays, &chain));
    float unwanted[16];
    chain = (struct mt_layer_chain){.factor = &total, .dlogits = unwanted};
    REFUSED(&bench, "needs memory", mt_layers_chain(layers, &arrays, &chain));
    arrays.segments = 2;
    REFUSED(&bench, "segments is 2", mt_layers_route(layers, 0, &arrays));
    arrays = (struct mt_layer_arrays){.tokens = 4, .unmasked = 5};
    REFUSED(&bench, "unmasked is 5", mt_layers_route(layers, 0, &arrays));
    arrays = (struct mt_layer_arrays){.tokens = 4, .dtype = (enum mt_dtype)77};
    REFUSED(&bench, "f32 or bf16", mt_layers_route(layers, 0, &arrays));
    assert_null(mt_layers_config(NULL));
    assert_null(mt_layers_objective(NULL));
    assert_int_equal(mt_layers_numbers(NULL), 0);
    mt_layers_destroy(layers);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_refuse_null),     cmocka_unit_test(texts_refuse_null),
        cmocka_unit_test(training_refuses_null),  cmocka_unit_test(options_refuse_what_is_not_there),
        cmocka_unit_test(generators_refuse_null), cmocka_unit_test(devices_refuse_null),
        cmocka_unit_test(objectives_refuse_null), cmocka_unit_test(layers_refuse_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
