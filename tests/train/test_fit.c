/* The choice of sizes: with a planner made up of two numbers, and in runs of small models. */
#include "train/fit.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/training_bench.h"
#include "train/trainer_internal.h"

// ------------------------------------------------------------------ made up

/* Weights take 1000 bytes, 100 of them the embedding; a token takes 8, 4 or 1. */
static enum mt_status made_up(void *self, const struct mt_fit_sizes *sizes, size_t *bytes)
{
    static const size_t token[] = {8, 4, 1};
    int *calls = self;
    (*calls)++;
    *bytes = (sizes->host_embedding ? 900 : 1000) + token[sizes->recompute] * (size_t)sizes->tokens;
    return MT_OK;
}

static const struct mt_fit_freedom all = {.recompute = true,
                                          .least_tokens = 1000,
                                          .step_tokens = 3000,
                                          .first = {.recompute = MT_RECOMPUTE_NONE, .tokens = 4000}};

static void the_fastest_that_fits(void **state)
{
    (void)state;
    // Half of what comes together, 3000 of a step, and then no fewer than one example.
    static const struct {
        size_t room;
        enum mt_recompute recompute;
        int64_t tokens;
        int tried;
        bool fits;
    } cases[] = {
        {33000, MT_RECOMPUTE_NONE, 4000, 1, true}, {32999, MT_RECOMPUTE_MOE, 4000, 2, true},
        {17000, MT_RECOMPUTE_MOE, 4000, 2, true},  {16999, MT_RECOMPUTE_FULL, 4000, 3, true},
        {5000, MT_RECOMPUTE_FULL, 4000, 3, true},  {4999, MT_RECOMPUTE_FULL, 1500, 6, true},
        {2500, MT_RECOMPUTE_FULL, 1500, 6, true},  {2499, MT_RECOMPUTE_FULL, 1000, 9, true},
        {2000, MT_RECOMPUTE_FULL, 1000, 9, true},  {1999, MT_RECOMPUTE_FULL, 4000, 9, false},
        {0, MT_RECOMPUTE_FULL, 4000, 9, false},    {SIZE_MAX, MT_RECOMPUTE_NONE, 4000, 1, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_fit fit;
        int calls = 0;
        assert_int_equal(mt_fit_choose(&all, cases[i].room, made_up, &calls, &fit), MT_OK);
        const struct mt_fit_try *chosen = &fit.tried[fit.chosen];
        assert_int_equal(fit.fits, cases[i].fits);
        assert_int_equal(chosen->sizes.recompute, cases[i].recompute);
        assert_int_equal(chosen->sizes.tokens, cases[i].tokens);
        assert_int_equal(fit.count, cases[i].tried);
        assert_int_equal(calls, fit.count);
        for (int k = 0; k + 1 < fit.count; k++) assert_true(fit.tried[k].bytes > cases[i].room);
    }
}

/* What somebody has said stays. */
static void given_sizes_stay(void **state)
{
    (void)state;
    struct mt_fit_freedom freedom = all;
    struct mt_fit fit;
    int calls = 0;
    freedom.least_tokens = 4000;
    assert_int_equal(mt_fit_choose(&freedom, 2000, made_up, &calls, &fit), MT_OK);
    assert_true(!fit.fits && fit.count == 3);
    freedom = all;
    freedom.recompute = false;
    assert_int_equal(mt_fit_choose(&freedom, 9000, made_up, &calls, &fit), MT_OK);
    assert_true(fit.fits && fit.count == 3);
    assert_int_equal(fit.tried[fit.chosen].sizes.tokens, 1000);
    assert_int_equal(fit.tried[fit.chosen].sizes.recompute, MT_RECOMPUTE_NONE);
}

/* The embedding leaves before anything is computed again, and does not come back. */
static void the_embedding_leaves_first(void **state)
{
    (void)state;
    struct mt_fit_freedom freedom = all;
    struct mt_fit fit;
    int calls = 0;
    freedom.host_embedding = true;
    assert_int_equal(mt_fit_choose(&freedom, 33000, made_up, &calls, &fit), MT_OK);
    assert_true(fit.fits && fit.count == 1 && !fit.tried[0].sizes.host_embedding);
    assert_int_equal(mt_fit_choose(&freedom, 32900, made_up, &calls, &fit), MT_OK);
    assert_true(fit.fits && fit.count == 2 && fit.tried[1].sizes.host_embedding);
    assert_int_equal(fit.tried[1].sizes.recompute, MT_RECOMPUTE_NONE);
    assert_int_equal(mt_fit_choose(&freedom, 2399, made_up, &calls, &fit), MT_OK);
    assert_true(fit.fits && fit.count == 10);
    for (int i = 1; i < fit.count; i++) assert_true(fit.tried[i].sizes.host_embedding);
}

static enum mt_status broken(void *self, const struct mt_fit_sizes *sizes, size_t *bytes)
{
    (void)self;
    (void)sizes;
    (void)bytes;
    return MT_ERR_FORMAT;
}

static void failures_come_through(void **state)
{
    (void)state;
    struct mt_fit fit;
    assert_int_equal(mt_fit_choose(&all, 9000, broken, NULL, &fit), MT_ERR_FORMAT);
}

// ------------------------------------------------------------------ runs

#define COMMON "batch.examples=128 data.max_length=32 steps=4 evaluation.split=0.2 evaluation.every=2"
#define WORDS  COMMON " batch.tokens=auto"
#define MARGIN 65536 // a run's folder, log and settings are no part of a plan

static void must(enum mt_status status, const struct training_run *run)
{
    if (status != MT_OK) fail_msg("%s", run->ctx.message);
}

/* What a run takes in every size there is, by plans that nothing fits. */
static void plan_all(const struct workplace *place, struct mt_fit *fit)
{
    struct training_run run = {.options = {.plan_only = true}};
    struct mt_run_outline outline;
    must(training_run_open(&run, place, "plan", WORDS " memory.limit=1B"), &run);
    mt_trainer_outline(run.trainer, &outline);
    *fit = *outline.fit;
    assert_int_equal(mt_trainer_check_fit(run.trainer), MT_ERR_MEMORY);
    training_run_close(&run);
    assert_true(!fit->fits && fit->count > 3);
}

/* A run under a limit that leaves exactly one of the sizes: that one is taken, and never exceeded. */
static void run_in(const struct workplace *place, const struct mt_fit_try *try, const char *out)
{
    struct training_run run = {0};
    char words[512];
    (void)snprintf(words, sizeof words, WORDS " memory.limit=%zuB", try->bytes + MARGIN);
    must(training_run_open(&run, place, out, words), &run);
    const struct mt_train_settings *chosen = run.trainer->settings;
    assert_int_equal(chosen->tokens, try->sizes.tokens);
    assert_int_equal(chosen->recompute, try->sizes.recompute + MT_TRAIN_RECOMPUTE_NONE);
    assert_true(run.ctx.limit_bytes > 0);
    must(mt_trainer_run(run.trainer, &run.outcome), &run);
    assert_true(run.outcome.peak_bytes <= run.outcome.limit_bytes);
    assert_true(run.ctx.peak_bytes <= run.ctx.limit_bytes);
    training_run_close(&run);
    assert_int_equal(run.ctx.limit_bytes, 0);
}

static void limits_are_kept(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {0};
    struct mt_fit fit;
    assert_int_equal(training_bench_make(place, &mt_arch_olmoe), 0);
    must(training_run_all(&run, place, "free", WORDS), &run);
    must(training_run_all(&run, place, "fixed", COMMON " batch.tokens=4096 recompute=none"), &run);
    assert_int_equal(training_bench_compare(place, "free/adapter/adapter_model.safetensors",
                                            "fixed/adapter/adapter_model.safetensors"),
                     0);
    plan_all(place, &fit);
    for (int i = 0; i < fit.count; i++) {
        char out[32];
        char adapter[96];
        // A smaller one comes first, and is taken, where the next is no smaller.
        bool smallest = true;
        for (int k = 0; k < i; k++)
            smallest = smallest && fit.tried[k].bytes > fit.tried[i].bytes + 2 * (size_t)MARGIN;
        if (!smallest) continue;
        (void)snprintf(out, sizeof out, "run%d", i);
        (void)snprintf(adapter, sizeof adapter, "%s/adapter/adapter_model.safetensors", out);
        run_in(place, &fit.tried[i], out);
        // Recomputation changes no bit.
        if (fit.tried[i].sizes.tokens == 4096)
            assert_int_equal(training_bench_compare(place, "free/adapter/adapter_model.safetensors", adapter),
                             0);
    }
}

/* Begun under a limit, a run goes on with what was chosen, whatever the limit is by then, or says why not. */
static void choices_are_kept(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {0};
    struct mt_fit fit;
    char words[512];
    assert_int_equal(training_bench_make(place, &mt_arch_olmoe), 0);
    plan_all(place, &fit);
    size_t least = fit.tried[fit.count - 1].bytes;
    (void)snprintf(words, sizeof words, WORDS " memory.limit=%zuB", least + MARGIN);
    must(training_run_all(&run, place, "whole", words), &run);
    run.options.stop_after = 2;
    must(training_run_open(&run, place, "parts", words), &run);
    struct mt_train_settings chosen = *run.trainer->settings;
    must(mt_trainer_run(run.trainer, &run.outcome), &run);
    training_run_close(&run);
    run.options.stop_after = 0;
    assert_true(chosen.tokens < 4096);
    // Less than it needs.
    assert_int_equal(training_run_open(&run, place, "parts", WORDS " memory.limit=100kB"), MT_ERR_MEMORY);
    assert_non_null(strstr(run.ctx.message, "memory.limit is 100kB"));
    assert_non_null(strstr(run.ctx.message, "what helps: "));
    assert_null(strstr(run.ctx.message, "lora.rank")); // it decides the result
    training_run_close(&run);
    // All there is.
    must(training_run_open(&run, place, "parts", WORDS), &run);
    assert_int_equal(run.trainer->settings->tokens, chosen.tokens);
    assert_int_equal(run.trainer->settings->recompute, chosen.recompute);
    must(mt_trainer_run(run.trainer, &run.outcome), &run);
    training_run_close(&run);
    assert_int_equal(training_bench_compare(place, "whole/adapter/adapter_model.safetensors",
                                            "parts/adapter/adapter_model.safetensors"),
                     0);
}

/* From the fourth step on nothing more is to be had. */
static void take_memory_away(void *self, uint64_t step, uint64_t steps)
{
    struct mt_context *ctx = self;
    (void)steps;
    if (step == 4) ctx->limit_bytes = 1;
}

/* Memory that runs out on the way is a sentence; the last checkpoint stays, and the run goes on from it. */
static void running_out_loses_nothing(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {0};
    assert_int_equal(training_bench_make(place, &mt_arch_olmoe), 0);
    must(training_run_all(&run, place, "whole", "steps=8"), &run);
    run.options.stepped = take_memory_away;
    run.options.self = &run.ctx;
    assert_int_equal(training_run_all(&run, place, "parts", "steps=8"), MT_ERR_MEMORY);
    static const char *const said[] = {"out of memory: ", "cannot allocate ", "the device cpu holds ",
                                       " are free; what helps: recompute: full",
                                       "the checkpoint of step 3 is kept"};
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        if (strstr(run.ctx.message, said[i]) == NULL) fail_msg("no '%s': %s", said[i], run.ctx.message);
    }
    assert_int_equal(run.ctx.live_bytes, 0);
    run.options.stepped = NULL;
    must(training_run_all(&run, place, "parts", "steps=8"), &run);
    assert_int_equal(training_bench_compare(place, "whole/adapter/adapter_model.safetensors",
                                            "parts/adapter/adapter_model.safetensors"),
                     0);
}

/* Packed steps are what batch.tokens says: only recomputation is free. */
static void packed_steps_stay(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {.options = {.plan_only = true}};
    struct mt_run_outline outline;
    assert_int_equal(training_bench_make(place, &mt_arch_olmoe), 0);
    must(training_run_open(&run, place, "plan", "batch.tokens=auto data.layout=packed memory.limit=1B"),
         &run);
    mt_trainer_outline(run.trainer, &outline);
    assert_int_equal(outline.fit->count, 3);
    assert_int_equal(outline.settings->tokens, 4096);
    training_run_close(&run);
}

static int clean_up(void **state)
{
    static const char *const folders[] = {"free", "fixed", "whole", "parts"};
    char out[32];
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) training_bench_remove(*state, folders[i]);
    for (int i = 0; i < MT_FIT_MOST; i++) {
        (void)snprintf(out, sizeof out, "run%d", i);
        training_bench_remove(*state, out);
    }
    return workplace_close(state);
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, clean_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_that_fits),
        cmocka_unit_test(given_sizes_stay),
        cmocka_unit_test(the_embedding_leaves_first),
        cmocka_unit_test(failures_come_through),
        IN_WORKPLACE(limits_are_kept),
        IN_WORKPLACE(choices_are_kept),
        IN_WORKPLACE(running_out_loses_nothing),
        IN_WORKPLACE(packed_steps_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
