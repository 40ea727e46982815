/* What is said of few experts: planted figures, and the sentences that follow from them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/page/few_experts.h"
#include "compare/page/parts.h"
#include "support/cmocka_all.h"
#include "support/training_bench.h"

enum { SEEDS = 3, KEPT = 4, EXPERTS = 16 };

struct bench {
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_compare_settings settings;
    struct mt_comparison comparison;
    struct mt_cell_asked asked[64];
};

/* A comparison of which no cell has run: `head` names models and methods. */
static void bench_open(struct bench *bench, const struct workplace *place, const char *head)
{
    char text[2048];
    const char *templates = getenv("METIER_TEMPLATES");
    const char *at = place->directory;
    int length = snprintf(text, sizeof text,
                          "%s\nout: %s/few\nthreads: 1\nprune: {keep: [100%%], by: own}\n"
                          "domains: [{name: sums, train: %s/data.jsonl, test: %s/data.jsonl}]\n"
                          "training: {steps: 4, batch: {examples: 6, tokens: 48}, data.max_length: 24, lora: "
                          "{rank: 2, alpha: 4}}\n",
                          head, at, at, at);
    const struct mt_comparison_options options = {.templates =
                                                      templates != NULL ? templates : "share/templates"};
    *bench = (struct bench){0};
    mt_context_init(&bench->ctx, NULL);
    mt_arena_init(&bench->arena, &bench->ctx, 4096);
    enum mt_status status = mt_compare_settings_read(&bench->ctx, "bench", text, (size_t)length, NULL, 0,
                                                     &bench->arena, &bench->settings);
    if (status == MT_OK)
        status = mt_comparison_open(&bench->ctx, &bench->settings, &options, &bench->comparison);
    if (status != MT_OK) fail_msg("%s", bench->ctx.message);
    assert_in_range(mt_comparison_jobs(&bench->comparison), 1, 64);
}

static void bench_close(struct bench *bench)
{
    mt_comparison_close(&bench->comparison);
    mt_arena_free(&bench->arena);
}

/* Whole answers of a cell or base: with few experts, and with all. */
static void plant(struct bench *bench, size_t job, double few, double all)
{
    struct mt_cell_result *result = &mt_comparison_job(&bench->comparison, job)->result;
    bench->asked[job] = (struct mt_cell_asked){.mean.accuracy = few, .experts = KEPT};
    result->known = true;
    result->experts = EXPERTS;
    result->asked = &bench->asked[job];
    result->accuracy[0] = all;
    result->figure[MT_COMPARE_ACCURACY] = all;
}

/* Cells of the second method have `gain` more with few experts than those of the first, and `noise` by seed.
 */
static void plant_cells(struct bench *bench, double gain, double noise)
{
    for (size_t i = 0; i < mt_comparison_jobs(&bench->comparison); i++) {
        const struct mt_cell *cell = mt_comparison_job(&bench->comparison, i);
        double part = noise * ((double)cell->seed - 1.0);
        if (!cell->start)
            plant(bench, i, cell->method == 0 ? 0.40 : 0.40 + gain + part, cell->method == 0 ? 0.50 : 0.51);
    }
}

static void methods_are_judged_by_seeds(void **state)
{
    static struct bench bench;
    static const struct {
        double gain, noise;
        enum mt_few_verdict verdict;
        const char *headline, *text;
    } cases[] = {
        {0.10, 0.01, MT_FEW_AHEAD, "metier does better than aux with few experts.",
         "With 4 of 16 experts a layer, chosen by use for the domain that is asked, metier answers 50.0 % "
         "exactly "
         "and aux 40.0 %, a difference of +10.0 points. This is beyond chance (p = 0.003). With all experts "
         "they answer 51.0 % and 50.0 %."},
        {-0.10, 0.01, MT_FEW_BEHIND, "No method does better than aux with few experts.",
         "−10.0 points. This is beyond"},
        {0.10, 0.20, MT_FEW_CHANCE, "No method is shown to do better with few experts.",
         "This is not beyond chance (p = 0.478)"},
    };
    char headline[MT_FEW_TEXT_BYTES], text[MT_FEW_TEXT_BYTES], head[512];
    const struct workplace *place = *state;
    (void)snprintf(head, sizeof head, "model: %s\nmethods: [aux, metier]\nseeds: [1, 2, 3]",
                   place->directory);
    bench_open(&bench, place, head);
    assert_int_equal(mt_few_methods(&bench.comparison, 0, headline, text), MT_FEW_NOTHING);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plant_cells(&bench, cases[i].gain, cases[i].noise);
        assert_int_equal(mt_few_methods(&bench.comparison, 0, headline, text), cases[i].verdict);
        assert_string_equal(headline, cases[i].headline);
        if (strstr(text, cases[i].text) == NULL) fail_msg("'%s' is not in '%s'", cases[i].text, text);
    }
    assert_int_equal(mt_few_models(&bench.comparison, headline, text), MT_FEW_NOTHING);
    bench_close(&bench);
}

/* However large a difference is: one seed proves nothing. Models are told before training, side by side. */
static void one_seed_and_two_models(void **state)
{
    static struct bench bench;
    char headline[MT_FEW_TEXT_BYTES], text[MT_FEW_TEXT_BYTES], head[1024];
    const struct workplace *place = *state;
    (void)snprintf(
        head, sizeof head,
        "models: [{name: one, path: %s}, {name: two, path: %s}]\nmethods: [aux, metier]\nseeds: [1]",
        place->directory, place->directory);
    bench_open(&bench, place, head);
    plant_cells(&bench, 0.3, 0.0);
    assert_int_equal(mt_few_methods(&bench.comparison, 1, headline, text), MT_FEW_CHANCE);
    assert_string_equal(headline, "No method is shown to do better with few experts.");
    assert_non_null(strstr(text, "two: with 4 of 16 experts"));
    assert_non_null(strstr(text, "With one seed this may be chance."));
    assert_int_equal(mt_few_models(&bench.comparison, headline, text), MT_FEW_NOTHING);
    for (size_t i = 0; i < mt_comparison_jobs(&bench.comparison); i++) {
        const struct mt_cell *cell = mt_comparison_job(&bench.comparison, i);
        if (cell->start) plant(&bench, i, cell->model == 0 ? 0.25 : 0.35, 0.6);
    }
    assert_int_equal(mt_few_models(&bench.comparison, headline, text), MT_FEW_BEFORE);
    assert_string_equal(
        text,
        "one answers 25.0 % exactly with 4 of 16 experts and 60.0 % with all; two answers 35.0 % exactly "
        "with 4 of 16 experts and 60.0 % with all. Each is one model: others trained the same way may "
        "differ.");
    bench_close(&bench);
}

static bool has_label(const struct mt_figure *figure, const char *name, const char *label)
{
    for (int c = 0; c < figure->column_count; c++) {
        const struct mt_column *column = &figure->column[c];
        for (size_t i = 0; i < column->level_count && strcmp(column->name, name) == 0; i++) {
            if (strcmp(column->levels[i], label) == 0) return true;
        }
    }
    return false;
}

/* The picture and its sentence come first, then the bars; both pictures have the model before training. */
static void the_page_begins_with_few_experts(void **state)
{
    static struct bench bench;
    char head[512];
    const struct workplace *place = *state;
    struct mt_page page;
    (void)snprintf(head, sizeof head, "model: %s\nmethods: [aux, metier]\nseeds: [1]", place->directory);
    bench_open(&bench, place, head);
    plant_cells(&bench, 0.1, 0.0);
    plant(&bench, 0, 0.2, 0.3);
    assert_true(mt_comparison_job(&bench.comparison, 0)->start);
    mt_page_init(&page, &bench.ctx, "Comparison");
    mt_page_verdict(&page, "Verdict");
    mt_page_compare_few(&bench.comparison, &page);
    mt_page_compare_picture(&bench.comparison, &page);
    assert_int_equal(mt_page_status(&page), MT_OK);
    const struct mt_block *block = page.first->first;
    assert_string_equal(block->figure->head.title, "Whole answers by experts kept");
    assert_true(has_label(block->figure, "method", "base") && has_label(block->figure, "method", "metier"));
    block = block->next;
    assert_string_equal(block->headline, "No method is shown to do better with few experts.");
    block = block->next;
    assert_true(has_label(block->figure, "method", "base") && !has_label(block->figure, "method", "aux"));
    mt_page_free(&page);
    bench_close(&bench);
}

static int make(void **state)
{
    int failed = workplace_open(state);
    return failed != 0 ? failed : training_bench_make(*state, &mt_arch_olmoe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_are_judged_by_seeds),
        cmocka_unit_test(one_seed_and_two_models),
        cmocka_unit_test(the_page_begins_with_few_experts),
    };
    return cmocka_run_group_tests(tests, make, workplace_close);
}
