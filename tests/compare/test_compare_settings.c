/* Settings of a comparison: what is read, what is refused and how. Tests src/compare/settings. */
#include "compare/settings/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"

static const char whole[] =
    "model: m\n"
    "out: o\n"
    "reference: aux\n"
    "methods: [none, aux, {name: strong, method: paper, objective: {beta: 0.5}, optimizer.lr: 3e-3}]\n"
    "seeds: [3, 5]\n"
    "domains: [math, {name: law, train: a.jsonl, test: b.jsonl}]\n"
    "others: [code]\n"
    "training:\n"
    "    targets: [attention, 'model.layers.*']\n"
    "    lora: {rank: 4}\n"
    "    steps: 10\n"
    "problems.test: 50\n"
    "grid: {method: paper, beta: [0, 1e-3], gamma: [1e-2]}\n";

// Four lines: a file of which a part is held out.
#define FILES "model: m\nout: o\nmethods: [aux]\ndomains: [{name: law, train: a}]\n"

static enum mt_status parse(struct mt_context *ctx, struct mt_arena *arena, const char *text,
                            const char *const *words, size_t count, struct mt_compare_settings *settings)
{
    return mt_compare_settings_read(ctx, "t", text, strlen(text), words, count, arena, settings);
}

static bool has_word(const struct mt_compare_words *words, const char *word)
{
    for (size_t i = 0; i < words->count; i++) {
        if (strcmp(words->word[i], word) == 0) return true;
    }
    return false;
}

static void everything_is_read(void **state)
{
    (void)state;
    static struct mt_compare_settings settings;
    struct mt_context ctx;
    struct mt_arena arena;
    const char *const words[] = {"training.steps=20", "problems.train=70", "out=p"};
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, 4096);
    if (parse(&ctx, &arena, whole, words, 3, &settings) != MT_OK) fail_msg("%s", ctx.message);
    assert_string_equal(settings.model[0].path, "m");
    assert_string_equal(settings.out, "p");
    assert_int_equal(mt_compare_reference(&settings), 1);
    assert_int_equal(settings.methods, 5);
    assert_true(has_word(&settings.method[0].words, "method=none"));
    assert_true(has_word(&settings.method[2].words, "method=paper"));
    assert_true(has_word(&settings.method[2].words, "objective.beta=0.5"));
    assert_false(has_word(&settings.method[2].words, "name=strong"));
    assert_string_equal(settings.method[4].name, "grid-paper-a0-b0.001-g0.01");
    assert_true(settings.method[4].in_grid);
    assert_true(has_word(&settings.method[4].words, "objective.beta=0.001"));
    assert_int_equal(settings.seeds, 2);
    assert_int_equal(settings.seed[1], 5);
    assert_int_equal(settings.domains, 3);
    assert_int_equal(settings.trained, 2);
    assert_string_equal(settings.domain[1].test, "b.jsonl");
    assert_true(has_word(&settings.training, "targets=[attention,\"model.layers.*\"]"));
    assert_true(has_word(&settings.training, "lora.rank=4"));
    assert_true(has_word(&settings.training, "steps=20"));
    assert_false(has_word(&settings.training, "steps=10"));
    assert_int_equal(settings.test_problems, 50);
    assert_int_equal(settings.train_problems, 70);
    assert_int_equal(settings.sample, 1024);
    mt_arena_free(&arena);
}

/* Parts of a mix: named, described in place, and domains of their own. */
static void mixes_are_read(void **state)
{
    (void)state;
    static struct mt_compare_settings settings;
    struct mt_context ctx;
    struct mt_arena arena;
    size_t count = 0;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, 4096);
    static const char text[] =
        "model: m\nout: o\nmethods: [aux]\nothers: [science]\n"
        "domains: [{name: mix, of: [code, law, math, {name: tax, train: t}], weights: [1, 0.5, 2, 1]},"
        " {name: law, train: a}, {name: two, of: [tax, code]}]\n";
    if (parse(&ctx, &arena, text, NULL, 0, &settings) != MT_OK) fail_msg("%s", ctx.message);
    static const char *const names[] = {"mix", "law", "two", "code", "math", "tax", "science"};
    assert_int_equal(settings.domains, 7);
    assert_int_equal(settings.trained, 3);
    for (size_t d = 0; d < 7; d++) assert_string_equal(settings.domain[d].name, names[d]);
    const size_t *parts = mt_compare_parts(&settings, 0, &count);
    assert_int_equal(count, 4);
    assert_memory_equal(parts, ((const size_t[]){3, 1, 4, 5}), 4 * sizeof *parts);
    assert_true(settings.domain[0].weight[1] == 0.5 && settings.domain[2].weight[1] == 1.0);
    assert_int_equal(*mt_compare_parts(&settings, 1, &count), 1);
    assert_int_equal(count, 1);
    assert_true(mt_compare_is_part(&settings, 2, 5) && !mt_compare_is_part(&settings, 2, 2));
    assert_true(settings.domain[5].trained && !settings.domain[6].trained);
    mt_arena_free(&arena);
}

static void models_and_tasks_are_read(void **state)
{
    (void)state;
    static const char text[] = "models: [a/one/, {name: two, path: b/one}]\nout: o\nmethods: [aux]\n"
                               "domains: [{name: law, train: law.jsonl}]\n"
                               "tasks: [gsm8k, {task: mmlu, limit: 9, shots: 0, name: m}, "
                               "{task: own/quiz.yaml, max_tokens: [512, 1024], template: none}]\n"
                               "evaluation: {limit: 100, shots: 2, max_tokens: 64, data: d}\n";
    static struct mt_compare_settings settings;
    struct mt_context ctx;
    struct mt_arena arena;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, 4096);
    enum mt_status status =
        mt_compare_settings_read(&ctx, "t", text, sizeof text - 1, NULL, 0, &arena, &settings);
    if (status != MT_OK) fail_msg("%s", ctx.message);
    assert_int_equal(settings.models, 2);
    assert_string_equal(settings.model[0].name, "one");
    assert_string_equal(settings.model[0].path, "a/one/");
    assert_string_equal(settings.model[1].name, "two");
    assert_null(settings.domain[0].test);
    assert_int_equal(settings.entries, 3);
    const struct mt_compare_entry *entry = settings.entry;
    assert_string_equal(entry[0].name, "gsm8k");
    assert_int_equal(entry[0].limit, 100);
    assert_int_equal(entry[0].shots, 2);
    assert_int_equal(entry[0].budgets.count, 1);
    assert_int_equal(entry[0].budgets.tokens[0], 64);
    assert_string_equal(entry[1].name, "m");
    assert_int_equal(entry[1].limit, 9);
    assert_int_equal(entry[1].shots, 0);
    assert_string_equal(entry[2].name, "quiz");
    assert_string_equal(entry[2].template, "none");
    assert_int_equal(entry[2].budgets.count, 2);
    assert_int_equal(entry[2].budgets.tokens[1], 1024);
    assert_true(entry[2].own_budgets && !entry[0].own_budgets);
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

struct refusal {
    const char *text;
    const char *message; // a part of it
};

static void expect_refusals(const struct refusal *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        static struct mt_compare_settings settings;
        struct mt_context ctx;
        struct mt_arena arena;
        mt_context_init(&ctx, NULL);
        mt_arena_init(&arena, &ctx, 4096);
        assert_int_not_equal(parse(&ctx, &arena, cases[i].text, NULL, 0, &settings), MT_OK);
        if (strstr(ctx.message, cases[i].message) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", ctx.message, cases[i].message);
        mt_arena_free(&arena);
    }
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"modle: m\n", "t:1: there is no key 'modle'; did you mean 'model'?"},
        {"model: m\nlora.rank: 3\n",
         "t:2: there is no key 'lora.rank'; keys of metier train belong under training"},
        {"out: o\nmethods: [aux]\ndomains: [math]\n", "model is missing"},
        {"model: m\nout: o\nmethods: [aux]\n", "domains is missing"},
        {"methods: [aux, aux]\n", "the method aux comes twice"},
        {"methods: [a/b]\n", "expected letters, digits"},
        {"methods: [{method: aux}]\n", "a method without a name"},
        {"seeds: [1, x]\n", "t:1: seeds is x, expected WHOLE NUMBERS >= 0"},
        {"seeds: [-1]\n", "t:1: seeds is -1, expected WHOLE NUMBERS >= 0"},
        {"seeds: [1, 1]\n", "the seed 1 comes twice"},
        {"domains: [maths]\n", "there is no built-in domain 'maths'"},
        {"domains: [{name: law, test: b}]\n", "a domain of files needs name, train"},
        {"domains: [{name: law, trian: b}]\n", "a domain has no key 'trian'; did you mean 'train'?"},
        {"domains: [math]\nothers: [math]\n", "the domain math comes twice"},
        {"training: 3\n", "training is a text, expected keys of metier train"},
        {"training: {targets: [{a: b}]}\n", "a map in a list"},
        {"training: {device: cuda}\n",
         "t:1: training has device, which it does not decide: its own key device"},
        {"training: {out: o}\n", "t:1: training has out, which it does not decide: its own key out"},
        {"training: {model: m}\n", "training has model, which it does not decide"},
        {"training:\n    data: {path: x.jsonl}\n",
         "t:2: training has data.path, which it does not decide: its own key "
         "domains does"},
        {"training: {data.sources: [x.jsonl]}\n", "training has data.sources"},
        {"training: {seed: 3}\n", "training has seed, which it does not decide: its own key seeds"},
        {"training: {threads: 3}\n", "training has threads"},
        {"training: {log: {every: 5}}\n",
         "training has log.every, which it does not decide: every step is logged"},
        {"training: {method: aux}\n", "training has method, which it does not decide: its own key methods"},
        {"methods: [{name: aux, seed: 3}]\n",
         "a method has seed, which it does not decide: its own key seeds"},
        {"methods: [{name: aux, device: cpu}]\n", "a method has device"},
        {"model: m\nout: o\nmethods: [aux]\ndomains: [{name: law, train: a, test: b}]\nproblems.train: 5\n",
         "t:5: problems.train means nothing: no domain is trained on built-in problems or a recipe"},
        {"model: m\nout: o\nmethods: [aux]\ndomains: [{name: law, train: a, test: b}]\nproblems: {seed: 5}\n",
         "problems.seed means nothing"},
        {"problems.test: 0\n", "t:1: problems.test is 0, expected WHOLE NUMBER >= 1"},
        {"grid: {method: paper, beta: [1, -1]}\n", "t:1: grid.beta is -1, expected NUMBERS >= 0"},
        {"grid: {method: paper, beta: [1, 1.0]}\n", "grid.beta has 1 twice"},
        {"grid: {beta: [1]}\n", "a grid needs grid.method"},
        {"model: m\nout: o\nmethods: [aux]\ndomains: [math]\nreference: none\n",
         "reference is 'none', which is not one of the methods"},
        {"model: m\nout: o\nmethods: [aux]\ndomains: [math]\nranks: each\nanalysis.agreement: true\n",
         "analysis.agreement is not measured with ranks: each"},
        {"problems: {difficulty: 6}\n", "t:1: problems.difficulty is 6, expected 1 to 5"},
        {"others: [{name: law, train: a, test: b}]\n", "a domain of others has no key 'train'"},
        {"lora.alpha: 3\n", "t:1: there is no key 'lora.alpha'; keys of metier train belong under training"},
        {"model: m\nmodel: n\n", "model"},
        {"model: m\nmodels: [a]\n", "models and model (line 1) are both given"},
        {"model: m\nout: o\nmethods: [aux]\ndomains: [math]\nevaluation: {limit: 5}\n",
         "t:5: evaluation.limit means nothing without tasks"},
        {"models: [a/m, b/m]\n", "t:1: two models are called m; give {name: N, path: FOLDER}"},
        {"models: [{name: m}]\n", "t:1: a model needs path"},
        {"tasks: [{name: m}]\n", "t:1: an entry of tasks needs task"},
        {"tasks: [mmlu, mmlu]\n", "two tasks are called mmlu"},
        {"tasks: [{task: mmlu, max_tokens: [5, 5]}]\n", "max_tokens has 5 twice"},
        {"tasks: [{task: mmlu, max_tokens: 0}]\n", "max_tokens is 0, expected WHOLE NUMBERS >= 1"},
        {"evaluation.limit: -3\n", "t:1: evaluation.limit is -3, expected WHOLE NUMBER >= 0"},
        {"[1, 2]\n", "expected lines of key: value"},
    };
    expect_refusals(cases, sizeof cases / sizeof cases[0]);
}

static void mixes_that_cannot_be(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"domains: [{name: mix, of: [math, cooking]}]\n", "there is no built-in domain 'cooking'"},
        {"domains: [{of: [math]}]\n", "a mix needs a name"},
        {"domains: [{name: mix, of: []}]\n", "of is empty, expected a list of domains"},
        {"domains: [{name: mix, of: math}]\n", "of is"},
        {"domains: [{name: mix, of: [math, math]}]\n", "a mix has math twice"},
        {"domains: [{name: mix, of: [[math]]}]\n", "a part of a mix is a list"},
        {"domains: [{name: mix, of: [math], train: a}]\n", "a mix has no key 'train': its parts do"},
        {"domains: [{name: mix, of: [math, code], weights: [1]}]\n",
         "weights has 1 values, and the mix mix 2 parts"},
        {"domains: [{name: mix, of: [math], weights: [0]}]\n", "expected NUMBERS > 0"},
        {"domains: [{name: mix, of: [math], weights: [-1]}]\n", "expected NUMBERS > 0"},
        {"domains: [{name: mix, of: [math], weights: [nan]}]\n", "expected NUMBERS > 0"},
        {"domains: [{name: law, train: a, weights: [1]}]\n", "weights means nothing without of"},
        {"domains: [{name: mix, of: [two]}, {name: two, of: [math]}]\n",
         "the mix mix has the part two, which is a mix"},
        {"domains: [{name: mix, of: [{name: two, of: [math]}]}]\n", "a mix of mixes"},
        {"domains: [{name: mix, of: [{name: law, train: a}]}, {name: law, train: a}]\n",
         "the domain law comes twice"},
        {"domains: [{name: mix, of: [{name: law, train: a, tasks: [x]}]}]\n",
         "a part of a mix has no key 'tasks'"},
        {"domains: [{name: mix, of: [math]}]\nothers: [math]\n", "it is part of a mix, and measured as such"},
        {"domains: [math]\nothers: [{name: mix, of: [code]}]\n", "a domain of others has no key 'of'"},
        {"problems.draw: always\n", "problems.draw is always, expected once|seed"},
        {"allow_read_rows: perhaps\n", "allow_read_rows is perhaps, expected true|false"},
    };
    expect_refusals(cases, sizeof cases / sizeof cases[0]);
}

/* Keys that would change nothing beside the others. */
static void keys_that_mean_nothing(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {FILES "others: [math]\nproblems.train: 5\n", "t:6: problems.train means nothing"},
        {FILES "problems.seed: 5\n",
         "t:5: problems.seed means nothing: no domain is built in or has a recipe"},
        {FILES "problems.difficulty: 5\n", "t:5: problems.difficulty means nothing: no domain is built in"},
        {"model: m\nout: o\nmethods: [aux]\ndomains: [{name: law, recipe: gsm8k}]\nproblems.difficulty: 5\n",
         "problems.difficulty means nothing: no domain is built in"},
        {"model: m\nout: o\nmethods: [aux]\ndomains: [{name: law, train: a, test: b}]\nproblems.test: 5\n",
         "problems.test means nothing: every domain has a test file"},
        {FILES "analysis.agreement: true\n",
         "t:5: analysis.agreement means nothing: no method trains LoRA on quantised weights"},
        {FILES "analysis.agreement: true\ntraining: {train: full, quantize.format: nf4}\n",
         "analysis.agreement means nothing"},
        {FILES "analysis.agreement: true\ntraining: {quantize.format: none}\n",
         "analysis.agreement means nothing"},
    };
    expect_refusals(cases, sizeof cases / sizeof cases[0]);
}

static void keys_that_somebody_uses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *word;
    } cases[] = {
        {FILES "problems.test: 5\n", NULL}, // held out at most
        {FILES "others: [math]\nproblems: {test: 5, seed: 2, difficulty: 2}\n", NULL},
        {"model: m\nout: o\nmethods: [aux]\ndomains: [{name: law, train: a, test: b}]\nprune: [4]\n"
         "problems.test: 5\n", // rows on which uses of experts are counted
         NULL},
        {"model: m\nout: o\nmethods: [aux]\ndomains: [{name: law, recipe: gsm8k, test: b}]\n"
         "problems: {train: 5, seed: 2}\n",
         NULL},
        {"model: m\nout: o\nmethods: [aux]\ndomains: [math]\nproblems: {train: 5, difficulty: 2}\n",
         "domains=[{name: law, train: a}]"},
        {FILES "analysis.agreement: true\ntraining: {quantize: {format: nf4}}\n", NULL},
        {FILES "analysis.agreement: true\ntraining: {quantize.format: none}\n", "methods=[paper]"},
        {FILES "analysis.agreement: true\n", "methods=[aux, {name: q, method: aux, quantize.format: fp8}]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct mt_compare_settings settings;
        struct mt_context ctx;
        struct mt_arena arena;
        mt_context_init(&ctx, NULL);
        mt_arena_init(&arena, &ctx, 4096);
        size_t words = cases[i].word != NULL ? 1 : 0;
        if (parse(&ctx, &arena, cases[i].text, &cases[i].word, words, &settings) != MT_OK)
            fail_msg("%s: %s", cases[i].text, ctx.message);
        mt_arena_free(&arena);
    }
}

static void words_that_decide_nothing(void **state)
{
    (void)state;
    static struct mt_compare_settings settings;
    struct mt_context ctx;
    struct mt_arena arena;
    const char *const words[] = {"training.device=cuda"};
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, 4096);
    assert_int_equal(parse(&ctx, &arena, whole, words, 1, &settings), MT_ERR_USAGE);
    assert_non_null(strstr(
        ctx.message, "training.device=cuda: training has device, which it does not decide: its own key"));
    mt_arena_free(&arena);
}

static enum mt_status read_whole(struct mt_context *ctx, const void *self)
{
    static struct mt_compare_settings settings;
    struct mt_arena arena;
    (void)self;
    mt_arena_init(&arena, ctx, 256);
    enum mt_status status = parse(ctx, &arena, whole, NULL, 0, &settings);
    mt_arena_free(&arena);
    return status;
}

static void shipped_configs(void **state)
{
    (void)state;
    static const char *const names[] = {"demo", "grid", "paper", "benchmarks"};
    const char *folder = getenv("METIER_CONFIGS");
    if (folder == NULL) folder = "share/configs";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        static struct mt_compare_settings settings;
        struct mt_context ctx;
        struct mt_arena arena;
        char path[512];
        mt_context_init(&ctx, NULL);
        mt_arena_init(&arena, &ctx, 4096);
        (void)snprintf(path, sizeof path, "%s/compare-%s.yaml", folder, names[i]);
        if (mt_compare_settings_read(&ctx, path, NULL, 0, NULL, 0, &arena, &settings) != MT_OK)
            fail_msg("%s", ctx.message);
        assert_true(settings.methods >= 3 && settings.seeds >= 1);
        mt_arena_free(&arena);
    }
}

static void memory_may_run_out(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(read_whole, NULL, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_read),        cmocka_unit_test(mixes_are_read),
        cmocka_unit_test(models_and_tasks_are_read), cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(mixes_that_cannot_be),      cmocka_unit_test(keys_that_mean_nothing),
        cmocka_unit_test(keys_that_somebody_uses),   cmocka_unit_test(words_that_decide_nothing),
        cmocka_unit_test(shipped_configs),           cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
