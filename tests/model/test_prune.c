/* Experts taken away: never chosen, scores those of the others alone, and all is as before when they are
 * back. The file of experts: written, read, and refused for other models. */
#include <math.h>
#include <string.h>

#include "base/files/file.h"
#include "model/chosen_experts.h"
#include "model/prune.h"
#include "support/cmocka_all.h"
#include "support/model_runs.h"
#include "support/small_models.h"

#define MOST 4096

/* What the first MoE layer, which sees the same input whatever is taken away, made of a batch. */
struct seen {
    bool is_softmax;
    int64_t tokens;
    int experts, slots;
    float probs[MOST];
    float weight[MOST];
    int32_t expert[MOST];
    double loss;
};

static enum mt_status look(void *self, int moe_layer, const struct mt_routing *record,
                           const struct mt_tensor *input)
{
    struct seen *seen = self;
    (void)input;
    if (moe_layer > 0) return MT_OK;
    seen->tokens = record->tokens;
    seen->experts = record->experts;
    seen->slots = record->slots;
    assert_true(record->tokens * record->experts <= MOST);
    memcpy(seen->probs, record->probs.data, (size_t)(record->tokens * record->experts) * sizeof(float));
    memcpy(seen->weight, record->weight.data, (size_t)(record->tokens * record->slots) * sizeof(float));
    memcpy(seen->expert, record->expert.data, (size_t)(record->tokens * record->slots) * sizeof(int32_t));
    return MT_OK;
}

static void pass(struct model_run *run, struct model_batch *batch, struct seen *seen)
{
    struct mt_model_loss loss;
    const struct mt_layer_observer observer = {.self = seen, .look = look};
    *seen = (struct seen){.is_softmax = mt_model_description(run->model)->router.kind != MT_ROUTER_SIGMOID};
    mt_model_observe(run->model, &observer);
    assert_int_equal(mt_model_forward(run->model, &batch->batch, &loss), MT_OK);
    mt_model_observe(run->model, NULL);
    seen->loss = loss.task;
}

/* Against what the whole router said: softmax over the others, sigmoids as they were, weights of the left. */
static void expect_pruned(const struct seen *whole, const struct seen *pruned, const bool *flags)
{
    int n = whole->experts;
    for (int64_t t = 0; t < whole->tokens; t++) {
        const float *before = whole->probs + t * n;
        const float *after = pruned->probs + t * n;
        double left = 0.0;
        for (int j = 0; j < n; j++) left += flags[j] ? 0.0 : (double)before[j];
        if (!whole->is_softmax) left = 1.0;
        for (int j = 0; j < n; j++) {
            double expected = flags[j] ? 0.0 : (double)before[j] / left;
            assert_true(fabs((double)after[j] - expected) < 1e-5);
        }
        for (int s = 0; s < pruned->slots; s++) {
            int32_t expert = pruned->expert[t * pruned->slots + s];
            assert_true(!flags[expert] || pruned->weight[t * pruned->slots + s] == 0.0f);
        }
    }
}

static void check_model(const struct workplace *place, const struct mt_arch *arch)
{
    static struct seen whole, pruned, again;
    struct model_run run;
    struct model_batch batch;
    struct mt_pruning pruning;
    const bool *experts[16] = {NULL};
    bool flags[64] = {false};
    const struct mt_model_options options = {.backward = true};
    assert_int_equal(small_model_make(place, small_model_config(arch), MT_HF_FLOAT32, 1), 0);
    assert_int_equal(model_run_open(&run, place, "cpu", 1, &options), 0);
    const struct mt_model_desc *desc = mt_model_description(run.model);
    model_batch_fill(&batch, (const int[]){9, 5, 0}, desc->vocabulary, 21);
    batch.batch.loss_only = true;
    pass(&run, &batch, &whole);
    // The first choices of the first token, as many as can go.
    int gone = desc->experts - desc->router.slots;
    for (int s = 0; s < gone && s < whole.slots; s++) flags[whole.expert[s]] = true;
    for (int64_t i = 0; i < desc->layers; i++) experts[i] = flags;
    assert_int_equal(mt_pruning_begin(run.model, experts, &pruning), MT_OK);
    pass(&run, &batch, &pruned);
    expect_pruned(&whole, &pruned, flags);
    assert_true(pruned.loss != whole.loss);
    assert_int_equal(mt_pruning_end(&pruning), MT_OK);
    pass(&run, &batch, &again);
    assert_true(again.loss == whole.loss);
    assert_memory_equal(again.probs, whole.probs, sizeof whole.probs);
    // Too many.
    for (int j = 0; j <= gone; j++) flags[j] = true;
    for (int j = gone + 1; j < desc->experts; j++) flags[j] = false;
    assert_int_equal(mt_pruning_begin(run.model, experts, &pruning), MT_ERR_USAGE);
    assert_non_null(strstr(run.ctx.message, " experts leaves "));
    assert_int_equal(mt_pruning_end(&pruning), MT_OK);
    model_run_close(&run);
    workplace_clear(place);
}

static void routers_do_without_them(void **state)
{
    const struct mt_arch *const archs[] = {&mt_arch_deepseek_v2, &mt_arch_mixtral, &mt_arch_deepseek_v3,
                                           &mt_arch_phimoe};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) check_model(*state, archs[i]);
}

static void the_least_used_go_first(void **state)
{
    (void)state;
    const double load[] = {5.0, 1.0, 0.0, 1.0, 9.0};
    bool flags[5];
    mt_prune_least(load, 5, 2, flags);
    assert_true(flags[2] && flags[1] && !flags[0] && !flags[3] && !flags[4]);
    mt_prune_least(load, 5, 0, flags);
    for (int j = 0; j < 5; j++) assert_false(flags[j]);
    mt_prune_least(load, 5, 9, flags);
    for (int j = 0; j < 5; j++) assert_true(flags[j]);
}

// ------------------------------------------------------------------ the file of experts

/* A model of 3 layers, all but the first with 6 experts of which a token has 3. */
static const struct mt_model_desc *open_small(const struct workplace *place, struct model_run *run)
{
    const struct mt_model_options options = {0};
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_deepseek), MT_HF_FLOAT32, 1), 0);
    assert_int_equal(model_run_open(run, place, "cpu", 1, &options), 0);
    return mt_model_description(run->model);
}

static void files_come_back(void **state)
{
    static const bool chosen[] = {true, false, false, true,  false, true,
                                  true, true,  false, false, false, true};
    static const char *const data[] = {"math \"1\".jsonl", "code.jsonl=programs"};
    static const int64_t number[] = {1, 2};
    struct model_run run;
    struct mt_arena arena;
    const bool *const *read = NULL;
    const bool *const *others = NULL;
    char path[256];
    const struct mt_model_desc *desc = open_small(*state, &run);
    mt_arena_init(&arena, &run.ctx, 1024);
    (void)workplace_path(*state, "experts.json", path, sizeof path);
    const struct mt_chosen_experts written = {.experts = 6,
                                              .layers = 2,
                                              .number = number,
                                              .chosen = chosen,
                                              .score = "reap",
                                              .data = data,
                                              .data_count = 2,
                                              .share = 0.5};
    assert_int_equal(mt_chosen_experts_write(&run.ctx, &written, path), MT_OK);
    assert_int_equal(mt_kept_experts_read(&run.ctx, path, desc, &arena, &read), MT_OK);
    assert_int_equal(mt_chosen_experts_others(desc, read, &arena, &others), MT_OK);
    assert_true(read[0] == NULL && others[0] == NULL);
    for (int i = 0; i < 12; i++)
        assert_true(read[1 + i / 6][i % 6] == chosen[i] && others[1 + i / 6][i % 6] != chosen[i]);
    mt_arena_free(&arena);
    model_run_close(&run);
}

static void files_that_do_not_fit(void **state)
{
#define HEAD "{\"experts\": 6, \"layers\": 2, \"keep\": "
    static const struct {
        const char *text, *message;
        bool chosen; // refused even where the others stay
    } cases[] = {
        {"", "experts.json", true},
        {"[]", "expected an object", true},
        {"{}", "has no \"keep\"", true},
        {"{\"1\": [0, 1]}", "of an earlier version", true},
        {"{\"keep\": {\"1\": [0, 1]}}", "experts", true},
        {"{\"experts\": 6, \"keep\": {\"1\": [0, 1]}}", "layers", true},
        {"{\"experts\": 8, \"layers\": 2, \"keep\": {\"1\": [0]}}",
         "for another model: one with 8 experts in each of 2 layers; this one has 6 in each of 2", true},
        {"{\"experts\": 6, \"layers\": 3, \"keep\": {\"1\": [0]}}", "for another model", true},
        {"{\"experts\": 6, \"layers\": \"2\", \"keep\": {}}", "layers", true},
        {"{\"experts\": 1e99, \"layers\": 2, \"keep\": {}}", "experts", true},
        {HEAD "[1]}", "keep", true},
        {HEAD "{}}", "chooses no expert", true},
        {HEAD "{\"1\": []}}", "chooses no expert", true},
        {HEAD "{\"0\": [1]}}", "names a layer that has no experts", true},
        {HEAD "{\"3\": [1]}}", "is not a layer: the model has layers 0 to 2", true},
        {HEAD "{\"-1\": [1]}}", "is not a layer", true},
        {HEAD "{\"01\": [1]}}", "is not a layer", true},
        {HEAD "{\" 1\": [1]}}", "is not a layer", true},
        {HEAD "{\"99999999999999999999\": [1]}}", "is not a layer", true},
        {HEAD "{\"1\": [6]}}", "keep", true},
        {HEAD "{\"1\": [-1]}}", "keep", true},
        {HEAD "{\"1\": [0.5]}}", "keep", true},
        {HEAD "{\"1\": [2, 3, 2]}}", "names expert 2 a second time", true},
        {HEAD "{\"1\": 2}}", "keep", true},
        {HEAD "{\"1\": [2, 3, 4]}}", "keeps 0 of 6 experts in layer 2, and a token has 3", false},
        {HEAD "{\"1\": [2, 3], \"2\": [0, 4, 5]}}", "keeps 2 of 6 experts in layer 1", false},
    };
#undef HEAD
    struct model_run run;
    struct mt_arena arena;
    char path[256];
    const struct mt_model_desc *desc = open_small(*state, &run);
    mt_arena_init(&arena, &run.ctx, 1024);
    (void)workplace_path(*state, "experts.json", path, sizeof path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bool *const *flags = NULL;
        assert_int_equal(mt_file_write_all(&run.ctx, path, cases[i].text, strlen(cases[i].text)), MT_OK);
        enum mt_status status = mt_chosen_experts_read(&run.ctx, path, desc, &arena, &flags);
        if ((status == MT_ERR_FORMAT) != cases[i].chosen || (status != MT_OK && !cases[i].chosen))
            fail_msg("%s: status %d, %s", cases[i].text, status, run.ctx.message);
        status = mt_kept_experts_read(&run.ctx, path, desc, &arena, &flags);
        if (status != MT_ERR_FORMAT || strstr(run.ctx.message, cases[i].message) == NULL)
            fail_msg("%s: '%s', expected '%s'", cases[i].text, run.ctx.message, cases[i].message);
    }
    mt_arena_free(&arena);
    model_run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(routers_do_without_them, workplace_open, workplace_close),
        cmocka_unit_test(the_least_used_go_first),
        cmocka_unit_test_setup_teardown(files_come_back, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(files_that_do_not_fit, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
