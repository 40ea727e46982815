/*
 * Whole comparisons of a small model: cells, going on, a cell that fails, what is written, memory. Tests
 * src/compare/compare.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/page.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/training_bench.h"

#define LINE_BYTES 65536

/* A comparison in the process. */
struct bench {
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_compare_settings settings;
    struct mt_comparison_options options;
    struct mt_comparison comparison;
    const char *word; // over the text; NULL: none
    bool interrupted;
    int signal;
};

static const char *templates(void)
{
    const char *folder = getenv("METIER_TEMPLATES");
    return folder != NULL ? folder : "share/templates";
}

static enum mt_status bench_open(struct bench *bench, const struct workplace *place, const char *out,
                                 const char *methods)
{
    char text[2048];
    const char *at = place->directory;
    int length = snprintf(text, sizeof text,
                          "model: %s\nout: %s/%s\nmethods: %s\nseeds: [1, 2]\nthreads: 1\n"
                          "domains: [{name: sums, train: %s/data.jsonl, test: %s/data.jsonl}]\n"
                          "others: [{name: more, test: %s/data.jsonl}]\nanalysis.sample: 64\n"
                          "training: {steps: 4, batch: {examples: 6, tokens: 48}, data.max_length: 24, lora: "
                          "{rank: 2, alpha: 4}, optimizer.lr: 5e-3}\n",
                          at, at, out, methods, at, at, at);
    mt_arena_init(&bench->arena, &bench->ctx, 4096);
    bench->comparison = (struct mt_comparison){0};
    bench->options.templates = templates();
    enum mt_status status =
        mt_compare_settings_read(&bench->ctx, "bench", text, (size_t)length, &bench->word,
                                 bench->word != NULL ? 1 : 0, &bench->arena, &bench->settings);
    if (status != MT_OK) return status;
    return mt_comparison_open(&bench->ctx, &bench->settings, &bench->options, &bench->comparison);
}

static void bench_close(struct bench *bench)
{
    mt_comparison_close(&bench->comparison);
    mt_arena_free(&bench->arena);
}

static void must(struct bench *bench, enum mt_status status)
{
    if (status != MT_OK) fail_msg("%s", bench->ctx.message);
}

static void run(struct bench *bench, const struct workplace *place, const char *out, const char *methods)
{
    char path[256], name[64];
    mt_context_init(&bench->ctx, NULL);
    must(bench, bench_open(bench, place, out, methods));
    must(bench, mt_comparison_run(&bench->comparison, &bench->options, &bench->interrupted, &bench->signal));
    (void)snprintf(name, sizeof name, "%s/compare.json", out);
    must(bench, mt_comparison_write(&bench->comparison, workplace_path(place, name, path, sizeof path)));
}

/* Two files are the same but for lines about times. */
static void same_but_times(const struct workplace *place, const char *one, const char *other)
{
    static char a[LINE_BYTES], b[LINE_BYTES];
    char path[256];
    FILE *first = fopen(workplace_path(place, one, path, sizeof path), "r");
    assert_non_null(first);
    FILE *second = fopen(workplace_path(place, other, path, sizeof path), "r");
    assert_non_null(second);
    int lines = 0;
    int times = 0;
    while (fgets(a, sizeof a, first) != NULL) {
        assert_non_null(fgets(b, sizeof b, second));
        lines++;
        times += strstr(a, "\"times") != NULL;
        if (strstr(a, "\"times") == NULL) assert_string_equal(a, b);
    }
    assert_null(fgets(b, sizeof b, second));
    assert_true(lines > 20);
    assert_int_equal(times, 4 + 3); // cells, and the three figures that are times or memory
    (void)fclose(first);
    (void)fclose(second);
}

static void cells_are_trained_and_measured(void **state)
{
    const struct workplace *place = *state;
    static struct bench bench;
    assert_int_equal(training_bench_make(place, &mt_arch_olmoe), 0);
    bench = (struct bench){0};
    run(&bench, place, "all", "[aux, metier]");
    assert_false(bench.interrupted);
    assert_int_equal(bench.comparison.cells, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct mt_cell_result *result = &bench.comparison.cell[i].result;
        assert_true(result->known);
        assert_int_equal(result->steps, 4);
        assert_true(result->points > 3);
        assert_true(result->loss[0] > 0.0 && result->loss[0] < 20.0);
        assert_true(result->loss[0] == result->loss[1]); // the same problems under another name
        assert_true(result->figure[MT_COMPARE_OVERLAP] > 0.0);
        assert_true(result->figure[MT_COMPARE_SECONDS] > 0.0);
        assert_true(fabs(result->figure[MT_COMPARE_INFORMATION]) < 1e-12);
    }
    // Two seeds are two runs, two methods too.
    double loss = bench.comparison.cell[0].result.loss[0];
    assert_true(loss != bench.comparison.cell[1].result.loss[0]);
    assert_true(loss != bench.comparison.cell[2].result.loss[0]);
    bench_close(&bench);
    assert_int_equal(bench.ctx.live_bytes, 0);
}

static void going_on_changes_no_byte(void **state)
{
    const struct workplace *place = *state;
    static struct bench bench;
    bench = (struct bench){.options = {.stop_after = 2}};
    run(&bench, place, "parts", "[aux, metier]");
    assert_true(bench.interrupted);
    assert_false(bench.comparison.cell[0].result.known);
    bench_close(&bench);
    bench = (struct bench){0};
    run(&bench, place, "parts", "[aux, metier]");
    assert_false(bench.interrupted);
    bench_close(&bench);
    same_but_times(place, "all/compare.json", "parts/compare.json");
    // Trained, but killed before it was measured: trained again, with the same outcome.
    char path[256];
    assert_int_equal(remove(workplace_path(place, "parts/cells/metier-sums-s1/cell.json", path, sizeof path)),
                     0);
    bench = (struct bench){0};
    run(&bench, place, "parts", "[aux, metier]");
    bench_close(&bench);
    same_but_times(place, "all/compare.json", "parts/compare.json");
}

/* Problems asked on the way change nothing; with nothing taken away, and after the last step, they are asked
 * the same model. */
static void probes_are_of_the_same_cell(void **state)
{
    const struct workplace *place = *state;
    static struct bench bench, whole;
    static const char methods[] = "[aux, metier]\nprune: [0, 1, 2]\nevaluate_at: [0, 2, 4]";
    bench = (struct bench){.options = {.stop_after = 3}};
    run(&bench, place, "probes", methods);
    assert_true(bench.interrupted);
    bench_close(&bench);
    bench = (struct bench){0};
    run(&bench, place, "probes", methods);
    whole = (struct bench){0};
    run(&whole, place, "all", "[aux, metier]");
    for (size_t i = 0; i < 4; i++) {
        const struct mt_cell_result *result = &bench.comparison.cell[i].result;
        assert_true(result->loss[0] == whole.comparison.cell[i].result.loss[0]);
        assert_true(result->figure[MT_COMPARE_ROUTER_COS] ==
                    whole.comparison.cell[i].result.figure[MT_COMPARE_ROUTER_COS]);
        assert_true(result->pruned[0].loss == result->loss[0]);
        // The model before training is what every cell was at step 0.
        const struct mt_cell_result *start = &mt_comparison_start(&bench.comparison, 0, 0)->result;
        assert_true(start->known && start->loss[0] == result->at[0].loss);
        assert_true(start->accuracy[0] == result->at[0].accuracy && start->at[0].loss == start->loss[0]);
        assert_true(start->pruned[0].loss == start->loss[0] && start->pruned[2].loss != start->loss[0]);
        assert_true(start->figure[MT_COMPARE_OVERLAP] > 0.0 && isnan(start->figure[MT_COMPARE_SECONDS]));
        assert_true(result->pruned[0].accuracy == result->accuracy[0]);
        assert_true(result->pruned[1].loss != result->loss[0] && result->pruned[1].loss > 0.0);
        assert_true(result->at[2].loss == result->loss[0]);
        assert_true(result->at[0].loss != result->at[1].loss && result->at[1].loss != result->at[2].loss);
        // Of LoRA, which starts with nothing, all cells begin alike.
        assert_true(result->at[0].loss == bench.comparison.cell[0].result.at[0].loss);
    }
    struct mt_page page;
    mt_page_init(&page, &bench.ctx, "t");
    must(&bench, mt_comparison_page(&bench.comparison, &page));
    mt_page_free(&page);
    bench_close(&bench);
    bench_close(&whole);
    assert_int_equal(bench.ctx.live_bytes, 0);
    // Too much of either is refused before anything is trained, or named by the cell.
    bench = (struct bench){0};
    mt_context_init(&bench.ctx, NULL);
    assert_int_equal(bench_open(&bench, place, "new", "[aux]\nevaluate_at: [2, 5]"), MT_ERR_USAGE);
    assert_non_null(strstr(bench.ctx.message, "evaluate_at has step 5, but training has only 4"));
    bench_close(&bench);
    assert_int_equal(bench_open(&bench, place, "new", "[aux]\nprune: [4, 2]"), MT_ERR_USAGE);
    assert_non_null(strstr(bench.ctx.message, "expected rising numbers"));
    bench_close(&bench);
    bench = (struct bench){0};
    mt_context_init(&bench.ctx, NULL);
    must(&bench, bench_open(&bench, place, "new", "[aux]\nprune: [1000]"));
    assert_int_equal(mt_comparison_run(&bench.comparison, &bench.options, &bench.interrupted, &bench.signal),
                     MT_ERR_USAGE);
    assert_non_null(strstr(bench.ctx.message, "prune has 1000"));
    bench_close(&bench);
}

/* The first lines of data.jsonl as another file. */
static void write_head(const struct workplace *place, const char *name, int lines)
{
    static char line[LINE_BYTES];
    char path[256];
    FILE *from = fopen(workplace_path(place, "data.jsonl", path, sizeof path), "r");
    FILE *to = fopen(workplace_path(place, name, path, sizeof path), "w");
    assert_non_null(from);
    assert_non_null(to);
    for (int i = 0; i < lines && fgets(line, sizeof line, from) != NULL; i++)
        assert_true(fputs(line, to) >= 0);
    assert_int_equal(fclose(from), 0);
    assert_int_equal(fclose(to), 0);
}

static bool file_has(const struct workplace *place, const char *name, const char *text)
{
    static char line[LINE_BYTES];
    char path[256];
    bool found = false;
    FILE *file = fopen(workplace_path(place, name, path, sizeof path), "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) found = found || strstr(line, text) != NULL;
    assert_int_equal(fclose(file), 0);
    return found;
}

/* A mix is trained on all its parts and measured on each: its figures are their means. */
static void a_mix_is_measured_apart(void **state)
{
    const struct workplace *place = *state;
    static struct bench bench;
    char word[1024];
    const char *at = place->directory;
    write_head(place, "few.jsonl", 9);
    (void)snprintf(
        word, sizeof word,
        "domains=[{name: mix, of: [{name: sums, train: %s/data.jsonl, test: %s/data.jsonl}, {name: "
        "few, train: %s/few.jsonl, test: %s/few.jsonl}], weights: [1, 2.5]}]",
        at, at, at, at);
    bench = (struct bench){.word = word};
    run(&bench, place, "mix", "[aux, metier]\nprune: [0]\nevaluate_at: [4]");
    assert_int_equal(bench.settings.domains, 4); // mix, sums, few, more
    assert_int_equal(bench.comparison.cells, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct mt_cell_result *result = &bench.comparison.cell[i].result;
        double loss = 0.5 * (result->loss[1] + result->loss[2]);
        assert_true(result->known && result->loss[1] != result->loss[2]);
        assert_true(result->loss[1] == result->loss[3]); // the same problems under another name
        assert_true(fabs(result->figure[MT_COMPARE_LOSS] - loss) < 1e-12);
        assert_true(fabs(result->loss[0] - loss) < 1e-12);
        assert_true(result->figure[MT_COMPARE_LOSS_OTHERS] == result->loss[3]);
        assert_true(result->by_domain[2][MT_COMPARE_LOSS] == result->loss[2]);
        assert_true(isnan(result->by_domain[3][MT_COMPARE_LOSS]));
        assert_true(fabs(result->pruned[0].loss - loss) < 1e-12 && fabs(result->at[0].loss - loss) < 1e-12);
        // Of loads that are added up the largest is no larger, and none is less even.
        const double *figure = result->figure;
        assert_true(figure[MT_COMPARE_MAXVIO] != result->by_domain[1][MT_COMPARE_MAXVIO]);
        assert_true(figure[MT_COMPARE_MAXVIO_MIX] <= figure[MT_COMPARE_MAXVIO] + 1e-12);
        assert_true(figure[MT_COMPARE_ENTROPY_MIX] >= figure[MT_COMPARE_ENTROPY] - 1e-12);
        assert_true(figure[MT_COMPARE_MAXVIO_MIX] > 0.0 && result->points > 3);
        double share = 0.0;
        for (size_t j = 0; j < result->experts; j++) share += result->share[j];
        assert_true(fabs(share - 1.0) < 1e-12);
    }
    assert_true(file_has(place, "mix/cells/aux-mix-s1/run/config.yaml", "weight: 2.5"));
    assert_true(file_has(place, "mix/cells/aux-mix-s1/run/config.yaml", "few.jsonl"));
    assert_true(file_has(place, "mix/compare.json", "\"few\": {\"accuracy\""));
    struct mt_page page;
    mt_page_init(&page, &bench.ctx, "t");
    must(&bench, mt_comparison_page(&bench.comparison, &page));
    mt_page_free(&page);
    bench_close(&bench);
    assert_int_equal(bench.ctx.live_bytes, 0);
    // Other weights are other cells.
    *strstr(word, "2.5") = '3';
    bench = (struct bench){.word = word};
    mt_context_init(&bench.ctx, NULL);
    assert_int_equal(bench_open(&bench, place, "mix", "[aux, metier]\nprune: [0]\nevaluate_at: [4]"),
                     MT_ERR_USAGE);
    assert_non_null(strstr(bench.ctx.message, "made with other settings"));
    bench_close(&bench);
}

/* Of quantised cells it is measured which tokens keep their experts, where that is asked for. */
static void agreement_is_measured(void **state)
{
    const struct workplace *place = *state;
    static struct bench bench;
    bench = (struct bench){.word = "analysis.agreement=true"};
    run(&bench, place, "agreement",
        "[aux, {name: fp8, method: aux, quantize.format: fp8}, {name: nf4, method: aux, quantize.format: "
        "nf4}]");
    assert_int_equal(bench.comparison.cells, 6);
    for (size_t i = 0; i < bench.comparison.cells; i++) {
        const struct mt_cell *cell = &bench.comparison.cell[i];
        double sets = cell->result.figure[MT_COMPARE_SAME_EXPERTS];
        double slots = cell->result.figure[MT_COMPARE_SAME_SLOTS];
        assert_true(cell->result.known);
        if (cell->method == 0) {
            assert_true(isnan(sets) && isnan(slots));
            continue;
        }
        // Of a token that does not keep its set at least one slot is another's, and not all need be.
        assert_true(sets > 0.5 && slots >= sets && slots <= 1.0);
        assert_true(cell->method == 1 || (sets < 1.0 && slots < 1.0));
    }
    bench_close(&bench);
    assert_int_equal(bench.ctx.live_bytes, 0);
}

static void other_settings_are_noticed(void **state)
{
    const struct workplace *place = *state;
    static struct bench bench;
    bench = (struct bench){0};
    mt_context_init(&bench.ctx, NULL);
    enum mt_status status = bench_open(&bench, place, "all", "[aux, {name: metier, objective.beta: 0.5}]");
    assert_int_equal(status, MT_ERR_USAGE);
    assert_non_null(strstr(bench.ctx.message, "made with other settings"));
    bench_close(&bench);
    status = bench_open(&bench, place, "new", "[aux, {name: metier, objective.betta: 0.5}]");
    assert_int_equal(status, MT_ERR_USAGE);
    assert_non_null(strstr(bench.ctx.message, "did you mean"));
    bench_close(&bench);
}

/* Cells that are done are of the files they were made from: others of the same length are noticed. */
static void other_files_are_noticed(void **state)
{
    const struct workplace *place = *state;
    static struct bench bench;
    char path[256];
    bench = (struct bench){0};
    mt_context_init(&bench.ctx, NULL);
    FILE *data = fopen(workplace_path(place, "data.jsonl", path, sizeof path), "r+");
    assert_non_null(data);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(fseek(data, -5, SEEK_END), 0);
        int byte = fgetc(data);
        assert_int_equal(fseek(data, -5, SEEK_END), 0);
        assert_int_equal(fputc(byte ^ 1, data), byte ^ 1);
        assert_int_equal(fflush(data), 0);
        must(&bench, bench_open(&bench, place, "all", "[aux, metier]"));
        enum mt_status status =
            mt_comparison_run(&bench.comparison, &bench.options, &bench.interrupted, &bench.signal);
        assert_int_equal(status, turn == 0 ? MT_ERR_USAGE : MT_OK);
        if (turn == 0)
            assert_non_null(strstr(bench.ctx.message,
                                   "data.jsonl: is not what it was when cells of this comparison were made"));
        bench_close(&bench);
    }
    assert_int_equal(fclose(data), 0);
    assert_int_equal(bench.ctx.live_bytes, 0);
}

static void a_cell_that_fails_stops_no_other(void **state)
{
    const struct workplace *place = *state;
    static struct bench bench;
    bench = (struct bench){0};
    run(&bench, place, "broken", "[aux, {name: broken, method: aux, experts: /nowhere}, none]");
    assert_int_equal(bench.comparison.failed, 2);
    for (size_t s = 0; s < 2; s++) {
        assert_true(mt_comparison_cell(&bench.comparison, 0, 0, 0, s)->result.known);
        assert_true(mt_comparison_cell(&bench.comparison, 0, 2, 0, s)->result.known);
        const struct mt_cell *cell = mt_comparison_cell(&bench.comparison, 0, 1, 0, s);
        assert_false(cell->result.known);
        assert_non_null(strstr(cell->failure, "/nowhere"));
    }
    struct mt_page page;
    mt_page_init(&page, &bench.ctx, "t");
    must(&bench, mt_comparison_page(&bench.comparison, &page));
    mt_page_free(&page);
    bench_close(&bench);
    assert_int_equal(bench.ctx.live_bytes, 0);
}

/* Reading finished cells, compare.json and the page. */
static enum mt_status show(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    static struct bench bench;
    struct mt_page page;
    char path[256];
    bench = (struct bench){.ctx = *ctx};
    enum mt_status status = bench_open(&bench, place, "all", "[aux, metier]");
    if (status == MT_OK)
        status =
            mt_comparison_write(&bench.comparison, workplace_path(place, "again.json", path, sizeof path));
    mt_page_init(&page, &bench.ctx, "t");
    if (status == MT_OK) status = mt_comparison_page(&bench.comparison, &page);
    mt_page_free(&page);
    bench_close(&bench);
    *ctx = bench.ctx;
    return status;
}

static void memory_may_run_out(void **state)
{
    assert_every_allocation_may_fail(show, *state, 11);
}

static int clean(void **state)
{
    static const char *const folders[] = {"all", "parts", "broken", "new", "probes", "agreement", "mix"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) training_bench_remove(*state, folders[i]);
    return workplace_close(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_trained_and_measured),
        cmocka_unit_test(going_on_changes_no_byte),
        cmocka_unit_test(probes_are_of_the_same_cell),
        cmocka_unit_test(a_mix_is_measured_apart),
        cmocka_unit_test(agreement_is_measured),
        cmocka_unit_test(other_settings_are_noticed),
        cmocka_unit_test(other_files_are_noticed),
        cmocka_unit_test(a_cell_that_fails_stops_no_other),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, workplace_open, clean);
}
