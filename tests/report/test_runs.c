/*
 * Run folders: what is read of them, broken files, memory; and the page made of them. Tests src/report/run.c
 * and src/report/report.c.
 */
#include "report/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

static const char settings_text[] = "method: metier\nlora: {rank: 4}\nfreeze: []\ntargets: [a, b]\n"
                                    "data:\n    sources:\n        - path: x.jsonl\n";
static const char results_text[] =
    "{\"results\": {\"gsm8k\": {\"alias\": \"gsm8k\", \"exact_match,none\": 0.5, "
    "\"exact_match_stderr,none\": 0.1,"
    " \"exact_match_ci95,none\": [0.3, 0.7]}, \"../evil\": {\"acc,none\": \"N/A\"}},"
    " \"n-samples\": {\"gsm8k\": {\"original\": 9, \"effective\": 8}}}";
static const char routing_text[] =
    "{\"formulas\": {}, \"figures\": {\"mean\": {\"maxvio\": 1.5, \"gini\": null},"
    " \"layers\": []}}";
static const char analysis_text[] =
    "{\"format\": \"metier-analysis-1\", \"experts\": 2, \"domains\": [\"math\", \"code\"],"
    " \"formulas\": {\"maxvio\": \"(max - mean) / mean\"},"
    " \"overall\": {\"mean\": {\"maxvio\": 0.5}, \"layers\": [{\"layer\": 1, \"maxvio\": 0.5, \"abs_cos\": "
    "0.2,"
    " \"abs_cos_error\": 0.01}]},"
    " \"by_domain\": {\"math\": {\"mean\": {\"maxvio\": 0.4}, \"layers\": []}},"
    " \"affinity\": [{\"layer\": 1, \"information\": 0.1, \"share\": [[0.4, 0.6], [0.7, 0.3]]}],"
    " \"drift\": {\"overall\": {\"layers\": [{\"layer\": 1, \"load_shift\": 0.2, \"router_change\": null}]}},"
    " \"pca\": [{\"layer\": 1, \"variance\": [3, 1], \"total_variance\": 5, \"points\": [[1, 2, 0, 0], [3, "
    "4, 1, 0]]}]}";

static int put(const struct workplace *place, const char *name, const char *text)
{
    return workplace_write(place, name, text, strlen(text));
}

static void put_log(const struct workplace *place, int steps, const char *tail)
{
    char text[16384];
    size_t used = 0;
    for (int i = 1; i <= steps; i++) {
        used += (size_t)snprintf(
            text + used, sizeof text - used,
            "{\"kind\":\"step\",\"step\":%d,\"steps\":20,\"loss\":%d.5,\"task\":%d,\"learning_rate\":0.1,"
            "\"gradient_norm\":null,\"max_violation\":0.5,\"seconds\":%d,\"term_aux\":1.5,\"weighted_aux\":0."
            "1,"
            "\"layers\":{\"layer\":[1,3],\"max_violation\":[0.5,%d],\"gradient_aux\":[3,4],\"term_aux\":null,"
            "\"load\":[[%d,1],[2,2]]}}\n",
            i, i, i, 2 * i, i, i);
    }
    (void)snprintf(text + used, sizeof text - used,
                   "{\"kind\":\"evaluation\",\"step\":%d,\"loss\":2.5,\"perplexity\":12}\n"
                   "{\"kind\":\"event\",\"step\":1,\"event\":\"warning\",\"text\":\"look\"}\n%s",
                   steps, tail);
    assert_int_equal(put(place, "metrics.jsonl", text), 0);
}

static void put_all(const struct workplace *place)
{
    put_log(place, 20, "{\"kind\":\"step\",\"st"); // a run that is being written
    assert_int_equal(put(place, "config.yaml", settings_text), 0);
    assert_int_equal(put(place, "results.json", results_text), 0);
    assert_int_equal(put(place, "routing_gsm8k.json", routing_text), 0);
    assert_int_equal(put(place, "analysis.json", analysis_text), 0);
}

static void test_reading(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct mt_run run;
    mt_context_init(&ctx, NULL);
    put_all(place);
    assert_int_equal(mt_run_read(&ctx, place->directory, &run), MT_OK);
    assert_int_equal(run.log.steps, 20);
    assert_int_equal(run.log.layers, 2);
    assert_int_equal(run.log.experts, 2);
    assert_int_equal(run.log.layer[1].number, 3);
    assert_true(mt_run_at(&run, 4, MT_RUN_TASK) == 5 && isnan(mt_run_at(&run, 4, MT_RUN_GRADIENT_NORM)));
    assert_true(mt_run_at(&run, 4, MT_RUN_GRADIENT + MT_TERM_AUX) == 5); // 3 and 4, all layers together
    assert_true(run.log.violation[4 * 2 + 1] == 5);
    assert_true(mt_run_late_mean(&run, MT_RUN_TASK) == 19.5); // the last tenth: steps 19 and 20
    assert_true(mt_run_layer_mean(&run, 1, MT_RUN_LAYER_MAX_VIOLATION) == 19.5);
    assert_true(isnan(mt_run_layer_mean(&run, 1, MT_RUN_LAYER_TERM + MT_TERM_AUX)));
    assert_true(run.log.load[0] == 39 && run.log.load[1] == 2);
    assert_int_equal(run.log.evaluations, 1);
    assert_string_equal(run.log.warning, "look");
    assert_string_equal(mt_run_setting(&run, "lora.rank"), "4");
    assert_string_equal(mt_run_setting(&run, "targets"), "a, b");
    assert_string_equal(mt_run_setting(&run, "data.sources[0].path"), "x.jsonl");
    assert_null(mt_run_setting(&run, "none"));
    assert_string_equal(run.results->metric, "exact_match");
    assert_true(run.results->high == 0.7 && run.results->samples == 8);
    assert_true(isnan(run.results->next->value));
    assert_string_equal(run.routing->task, "gsm8k");
    assert_null(run.routing->next); // "../evil" leads nowhere
    mt_run_free(&run);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Two runs in one page; the second lacks everything but results. */
static enum mt_status build(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct mt_run runs[2] = {{0}};
    struct mt_page page = {0};
    enum mt_status status = mt_run_read(ctx, place->directory, &runs[0]);
    if (status == MT_OK) status = mt_run_read(ctx, place->directory, &runs[1]);
    if (status == MT_OK) {
        runs[1].name = "other";
        mt_page_init(&page, ctx, "T");
        status = mt_report_build(&page, runs, 2);
    }
    mt_page_free(&page);
    mt_run_free(&runs[0]);
    mt_run_free(&runs[1]);
    return status;
}

static const struct mt_figure *find(const struct mt_page *page, const char *id)
{
    for (const struct mt_section *section = page->first; section != NULL; section = section->next) {
        for (const struct mt_block *block = section->first; block != NULL; block = block->next) {
            if (block->figure != NULL && strcmp(block->figure->id, id) == 0) return block->figure;
        }
    }
    fail_msg("there is no figure %s", id);
    return NULL;
}

/* What the numbers of put_all say: the loss rises, no expert is idle, L_aux pulls. */
static void assert_verdict(const struct mt_page *page)
{
    static const char *const headlines[] = {
        "The loss rose.",       "Held-out loss is measured once.",
        "Routing is balanced.", "Whether experts specialise is not measured.",
        "Every term is alive.", "The log has warnings."};
    size_t count = 0;
    assert_true(page->first->verdict);
    for (const struct mt_block *block = page->first->first; block != NULL; block = block->next) {
        if (block->headline == NULL) continue;
        assert_true(count < sizeof headlines / sizeof headlines[0]);
        assert_string_equal(block->headline, headlines[count++]);
    }
    assert_int_equal(count, sizeof headlines / sizeof headlines[0]);
    assert_int_equal(mt_figure_panels(find(page, "loss-and-balance"))->level_count, 3);
}

/* Runs stand side by side in a row, the second with its difference to the first. */
static void test_side_by_side(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct mt_run runs[2];
    struct mt_page page;
    mt_context_init(&ctx, NULL);
    put_all(place);
    for (int i = 0; i < 2; i++) assert_int_equal(mt_run_read(&ctx, place->directory, &runs[i]), MT_OK);
    runs[0].name = "one";
    runs[1].name = "other";
    runs[1].results->value = 0.9;
    mt_page_init(&page, &ctx, "T");
    assert_int_equal(mt_report_build(&page, runs, 2), MT_OK);
    const struct mt_figure *results = find(&page, "results");
    assert_int_equal(mt_figure_rows(results), 2); // a row for each task, not for each run
    assert_string_equal(results->column[5].name, "Δ other");
    assert_true(fabs(results->column[5].numbers[0] - 0.4) < 1e-12);
    assert_true(fabs(results->column[5].spreads[0] - hypot(0.1, 0.1)) < 1e-12);
    assert_int_equal(results->column[5].marks[0], MT_MARK_BEYOND);
    assert_string_equal(find(&page, "figures-by-domain")->column[1].name, "figure");
    assert_string_equal(find(&page, "runs")->column[3].name, "Δ other");
    mt_page_free(&page);
    for (int i = 0; i < 2; i++) mt_run_free(&runs[i]);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_page(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct mt_run run;
    struct mt_page page;
    mt_context_init(&ctx, NULL);
    put_all(place);
    assert_int_equal(mt_run_read(&ctx, place->directory, &run), MT_OK);
    mt_page_init(&page, &ctx, "T");
    assert_int_equal(mt_report_build(&page, &run, 1), MT_OK);
    assert_int_equal(mt_figure_rows(find(&page, "training-loss")), 20);
    assert_int_equal(mt_figure_rows(find(&page, "maxvio-of-each-layer")), 40);
    const struct mt_figure *load = find(&page, "load-of-experts");
    assert_true(load->column[2].numbers[0] == 39.0 / 41 && load->head.centre == 0.5);
    assert_true(find(&page, "seconds-per-step")->column[2].numbers[3] == 2);
    assert_int_equal(mt_figure_rows(find(&page, "results")), 2);
    assert_true(find(&page, "routing-by-task")->column[1].numbers[0] == 1.5);
    const struct mt_figure *tokens = find(&page, "tokens-by-expert");
    assert_int_equal(mt_figure_rows(tokens), 2);
    assert_string_equal(mt_figure_panels(tokens)->levels[0], "layer 1 (80 % of the variance)");
    assert_int_equal(mt_figure_rows(find(&page, "experts-and-domains")), 4);
    const struct mt_figure *layers = find(&page, "specialisation-by-layer");
    assert_int_equal(mt_figure_panels(layers)->level_count, 8);
    size_t cosine = 6; // of one layer, so that rows are panels
    assert_string_equal(mt_figure_panels(layers)->levels[cosine], "|cos| of a token's expert outputs ↓");
    assert_true(fabs(layers->column[4].numbers[cosine] - 0.2196) < 1e-12);
    assert_verdict(&page);
    mt_page_free(&page);
    mt_run_free(&run);
    assert_int_equal(ctx.live_bytes, 0);
}

/* The finding of that headline; NULL: there is none. */
static const char *finding(const struct mt_page *page, const char *headline)
{
    const struct mt_block *block = page->first->first;
    while (block != NULL && (block->headline == NULL || strcmp(block->headline, headline) != 0))
        block = block->next;
    return block != NULL ? block->text : NULL;
}

/* A run whose log is `log`, and one whose analysis knows little, as a page whose words are all numbers. */
static void assert_words_are_known(const struct workplace *place, const char *log, const char *headline,
                                   const char *missing)
{
    struct mt_context ctx;
    struct mt_run run;
    struct mt_page page;
    mt_context_init(&ctx, NULL);
    workplace_clear(place);
    assert_int_equal(put(place, "metrics.jsonl", log), 0);
    assert_int_equal(put(place, "analysis.json",
                         "{\"overall\": {\"mean\": {\"overlap_in\": 0.5}, \"layers\": []}, \"by_domain\": {},"
                         " \"affinity\": []}"),
                     0);
    assert_int_equal(mt_run_read(&ctx, place->directory, &run), MT_OK);
    mt_page_init(&page, &ctx, "T");
    assert_int_equal(mt_report_build(&page, &run, 1), MT_OK);
    for (const struct mt_block *block = page.first->first; block != NULL; block = block->next) {
        if (block->headline == NULL) continue;
        if (strstr(block->text, "nan") != NULL || strstr(block->text, "inf") != NULL)
            fail_msg("%s: %s", block->headline, block->text);
    }
    assert_non_null(finding(&page, headline));
    if (missing != NULL) assert_null(finding(&page, missing));
    mt_page_free(&page);
    mt_run_free(&run);
    assert_int_equal(ctx.live_bytes, 0);
}

/* What too few steps, steps without numbers and routine events leave unknown is said in words. */
static void test_little_is_not_a_number(void **state)
{
#define STEP(n, task)        "{\"kind\":\"step\",\"step\":" n ",\"task\":" task ",\"max_violation\":0.5}\n"
#define HELD_OUT(step, loss) "{\"kind\":\"evaluation\",\"step\":" step ",\"loss\":" loss "}\n"
#define USES(n, experts, k)                                                                                  \
    "{\"kind\":\"step\",\"step\":" n ",\"task\":1,\"effective_experts\":" experts ",\"slots\":" k "}\n"
#define EVENT(kind) "{\"kind\":\"event\",\"step\":1,\"event\":\"" kind "\",\"text\":\"t\"}\n"
    static const struct {
        const char *log, *headline, *missing;
    } cases[] = {
        {STEP("1", "2"), "Whether the loss fell is not known.", NULL},
        {STEP("1", "2") STEP("2", "1"), "Too few steps to tell whether the loss fell.", NULL},
        {STEP("1", "2") STEP("2", "3") STEP("3", "1"), "Too few steps to tell whether the loss fell.", NULL},
        {STEP("1", "2") STEP("2", "2") STEP("3", "1") STEP("4", "1"), "The loss fell.", NULL},
        {STEP("1", "0") STEP("2", "0") STEP("3", "1") STEP("4", "1"), "The loss rose.", NULL},
        {STEP("1", "null") STEP("2", "null") STEP("3", "null"), "Whether the loss fell is not known.", NULL},
        {STEP("1", "2") HELD_OUT("1", "null"), "The held-out loss is not a number.",
         "What is not trained on gets better, too."},
        {STEP("1", "2") HELD_OUT("1", "2") HELD_OUT("2", "2"), "Held-out loss did not fall.",
         "What is not trained on gets better, too."},
        {STEP("1", "2") HELD_OUT("1", "2") HELD_OUT("2", "1"), "What is not trained on gets better, too.",
         NULL},
        {STEP("1", "2") EVENT("data"), "Long rows were cut.", "The log has warnings."},
        {STEP("1", "2") EVENT("method") EVENT("stopped") EVENT("choices") EVENT("ranks") EVENT("interrupted"),
         "Routing is balanced.", "The log has warnings."},
        {USES("1", "3.2", "4") USES("50", "2", "4") USES("100", "1.1", "4"),
         "One expert works where 4 are paid for.", NULL},
        {USES("1", "3.2", "4") USES("50", "1.1", "4") USES("100", "1.9", "4"),
         "Too few steps to tell whether the loss fell.", "One expert works where 4 are paid for."},
        {USES("1", "3.2", "null") USES("50", "2", "4") USES("100", "1.1", "4"),
         "One expert works where 4 are paid for.", NULL},
        {USES("1", "3.2", "null") USES("100", "1.1", "null"), "One expert works where several are paid for.",
         "One expert works where nan are paid for."},
        {USES("1", "1", "1") USES("100", "1", "1"), "Too few steps to tell whether the loss fell.",
         "One expert works where 1 are paid for."},
        {USES("1", "null", "8") USES("100", "null", "8"), "Too few steps to tell whether the loss fell.",
         "One expert works where 8 are paid for."},
        {STEP("1", "2") EVENT("failed"), "The log has warnings.", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_words_are_known(*state, cases[i].log, cases[i].headline, cases[i].missing);
}

/* Each text in place of a sound file: a sentence that names the file, and nothing leaked. */
static void test_broken(void **state)
{
    const struct workplace *place = *state;
    static const struct {
        const char *file, *text;
    } cases[] = {
        {"metrics.jsonl", "not json\n"},
        {"metrics.jsonl", "[1]\n"},
        {"metrics.jsonl", "{\"step\":1}\n"},
        {"metrics.jsonl", "{\"kind\":\"step\",\"step\":1,\"loss\":\"high\"}\n"},
        {"metrics.jsonl", "{\"kind\":\"step\",\"step\":1,\"layers\":{\"layer\":[\"a\"]}}\n"},
        {"metrics.jsonl", "{\"kind\":\"step\",\"step\":1,\"layers\":{\"layer\":[1],\"load\":[[\"a\"]]}}\n"},
        {"config.yaml", "a: [\n"},
        {"results.json", "{\"results\": []}"},
        {"results.json", "{\"results\": {\"a\": 1}}"},
        {"routing_gsm8k.json", "{\"figures\": []}"},
        {"routing_gsm8k.json", "[]"},
        {"analysis.json", "[1, 2]"},
        {"analysis.json",
         "{\"overall\": {\"mean\": {}, \"layers\": [1]}, \"by_domain\": {}, \"affinity\": []}"},
        {"analysis.json",
         "{\"overall\": {\"mean\": {}, \"layers\": []}, \"by_domain\": {}, \"affinity\": [7]}"},
        {"analysis.json", "{\"overall\": {\"mean\": {}, \"layers\": []}, \"by_domain\": {}, \"affinity\": [],"
                          " \"pca\": [{\"points\": [[\"x\"]], \"variance\": []}]}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_context ctx;
        mt_context_init(&ctx, NULL);
        put_all(place);
        assert_int_equal(put(place, cases[i].file, cases[i].text), 0);
        enum mt_status status = build(&ctx, place);
        if (status != MT_ERR_FORMAT) print_message("case %zu: %d, %s\n", i, (int)status, ctx.message);
        assert_int_equal(status, MT_ERR_FORMAT);
        assert_non_null(strstr(ctx.message, cases[i].file));
        assert_int_equal(ctx.live_bytes, 0);
    }
}

static void test_folders_that_are_none(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct mt_run run;
    mt_context_init(&ctx, NULL);
    workplace_clear(place);
    assert_int_equal(mt_run_read(&ctx, place->directory, &run), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "metrics.jsonl"));
    mt_run_free(&run);
    assert_int_equal(put(place, "metrics.jsonl", ""), 0); // a run that has not logged anything yet
    assert_int_equal(mt_run_read(&ctx, place->directory, &run), MT_OK);
    assert_false(run.has_log);
    mt_run_free(&run);
    assert_int_equal(build(&ctx, place), MT_OK);
    assert_int_equal(ctx.live_bytes, 0);
}

/* After a power failure a log may hold zeros for what never arrived: the lines before them count. */
static void test_zeros(void **state)
{
    const struct workplace *place = *state;
    static const char log[] = "{\"kind\":\"step\",\"step\":1,\"loss\":1.5}\n{\"kind\":\"ste\0\0\0\0\0\n"
                              "{\"kind\":\"step\",\"step\":3,\"loss\":1.5}\n";
    struct mt_context ctx;
    struct mt_run run;
    mt_context_init(&ctx, NULL);
    workplace_clear(place);
    assert_int_equal(workplace_write(place, "metrics.jsonl", log, sizeof log - 1), 0);
    assert_int_equal(mt_run_read(&ctx, place->directory, &run), MT_OK);
    assert_int_equal(run.log.steps, 1);
    mt_run_free(&run);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_memory(void **state)
{
    const struct workplace *place = *state;
    put_all(place);
    assert_every_allocation_may_fail(build, place, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading),      cmocka_unit_test(test_page),
        cmocka_unit_test(test_side_by_side), cmocka_unit_test(test_little_is_not_a_number),
        cmocka_unit_test(test_broken),       cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_folders_that_are_none),
    };
    return cmocka_run_group_tests(tests, workplace_open, workplace_close);
}
