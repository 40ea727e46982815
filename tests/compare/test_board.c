/* The leaderboard: figures by hand, and files that are not what they should be. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compare/board/board.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

#define CELL(method, domain, seed, accuracy)                                                                 \
    "{\"model\": \"m\", \"method\": \"" method "\", \"domain\": \"" domain "\", \"seed\": " seed             \
    ", \"known\": true, \"figures\": {\"accuracy\": " accuracy ", \"loss\": 1.5, \"newer\": [1]}, "          \
    "\"times\": {\"seconds_per_step\": 0.5, \"memory_bytes\": 1048576}, "                                    \
    "\"pruned\": {\"4\": {\"accuracy\": 0.25, \"loss\": null}}}"

static const char whole[] = "{\"reference\": \"a\", \"cells\": [" CELL("a", "math", "1", "0.5") ", " CELL(
    "a", "math", "2",
    "0.7") ", " CELL("a", "law", "1",
                     "0.3") ", " CELL("a", "law", "2",
                                      "0.5") ", " CELL("b", "math", "1",
                                                       "0.9") ", "
                                                              "{\"model\": \"m\", \"method\": \"b\", "
                                                              "\"domain\": \"law\", "
                                                              "\"seed\": 1, \"known\": false}]}";

static const char *place_file(const struct workplace *place, const char *name, const char *text)
{
    static char path[4][256];
    static int next;
    next = (next + 1) % 4;
    assert_int_equal(workplace_write(place, name, text, strlen(text)), 0);
    return workplace_path(place, name, path[next], sizeof path[next]);
}

static struct mt_figure *table_named(struct mt_page *page, const char *title)
{
    for (struct mt_section *section = page->first; section != NULL; section = section->next) {
        for (struct mt_block *block = section->first; block != NULL; block = block->next) {
            if (block->figure != NULL && strcmp(block->figure->head.title, title) == 0) return block->figure;
        }
    }
    fail_msg("no table %s", title);
    return NULL;
}

/* The number of a column in the row of a method and domain. */
static double at(const struct mt_figure *table, const char *method, const char *domain, const char *column,
                 double *spread)
{
    for (size_t row = 0; row < mt_figure_rows(table); row++) {
        if (strcmp(mt_column_text(&table->column[0], row), method) != 0) continue;
        if (strcmp(mt_column_text(&table->column[2], row), domain) != 0) continue;
        for (int i = 3; i < table->column_count; i++) {
            if (strcmp(table->column[i].name, column) != 0) continue;
            *spread = table->column[i].kind == MT_COLUMN_MEASURE ? table->column[i].spreads[row] : 0.0;
            return table->column[i].numbers[row];
        }
    }
    fail_msg("no row %s, %s, %s", method, domain, column);
    return 0.0;
}

static void near(double got, double expected)
{
    assert_true(fabs(got - expected) < 1e-9 * fmax(1.0, fabs(expected)));
}

static void figures_by_hand(void **state)
{
    struct mt_context ctx;
    struct mt_page page;
    double spread = 0.0;
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "t");
    const char *path = place_file(*state, "compare.json", whole);
    if (mt_board_build(&page, &path, 1) != MT_OK) fail_msg("%s", ctx.message);
    const struct mt_figure *answers = table_named(&page, "Answers and losses");
    assert_int_equal(mt_figure_rows(answers), 5); // a and b on math, a on law, a and b on both
    near(at(answers, "a", "math", "exact %", &spread), 60.0);
    // Student's t of one degree of freedom at 95 % is 12.7062; deviation 14.142 over sqrt 2 is 10.
    assert_true(fabs(spread - 127.062) < 1e-3);
    near(at(answers, "a", "all domains", "exact %", &spread), 50.0); // seeds: 0.4 and 0.6
    near(at(answers, "a", "all domains", "seeds", &spread), 2.0);
    near(at(answers, "b", "math", "exact %", &spread), 90.0);
    assert_true(isnan(spread));                                              // one seed
    assert_true(isnan(at(answers, "b", "all domains", "exact %", &spread))); // law is not there
    near(at(table_named(&page, "Fewer experts, fewer steps"), "a", "law", "4 experts fewer %", &spread),
         25.0);
    near(at(table_named(&page, "Time and memory"), "b", "math", "memory MiB", &spread), 1.0);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Experts kept by many scores and in many ways: of the first score alone, and told as kept. */
static void kept_experts_are_of_one_score(void **state)
{
    enum { WAYS = 40 };
    static char text[16384];
    struct mt_context ctx;
    struct mt_page page;
    double spread = 0.0;
    int length = snprintf(text, sizeof text,
                          "{\"cells\": [{\"model\": \"m\", \"method\": \"a\", \"domain\": \"math\", "
                          "\"seed\": 1, \"known\": true, \"figures\": {}, \"times\": {}, \"pruned\": {");
    for (int i = 0; i < 2 * WAYS; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s\"%s_own_%d\": {\"accuracy\": %s}",
                           i > 0 ? ", " : "", i < 2 ? "reap" : "use", 4 + i, i == 0 ? "0.25" : "0.5");
    (void)snprintf(text + length, sizeof text - (size_t)length, "}}]}");
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "t");
    const char *path = place_file(*state, "compare.json", text);
    if (mt_board_build(&page, &path, 1) != MT_OK) fail_msg("%s", ctx.message);
    const struct mt_figure *table = table_named(&page, "Fewer experts, fewer steps");
    near(at(table, "a", "math", "reap_own_4 kept %", &spread), 25.0);
    for (int i = 0; i < table->column_count; i++) assert_null(strstr(table->column[i].name, "use_"));
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Differences to the reference that the file names: pairs of the same seed and domain, the best first. */
static void differences_by_hand(void **state)
{
    static const char text[] =
        "{\"reference\": \"base\", \"cells\": [" CELL("base", "math", "1", "0.5") ", " CELL("base", "math", "2", "0.6") ", " CELL(
            "base", "law", "1",
            "0.7") ", " CELL("worse", "math", "1",
                             "0.4") ", " CELL("better", "math", "2",
                                              "0.7") ", " CELL("better", "math", "1",
                                                               "0.8") ", " CELL("better", "law", "1",
                                                                                "0.9") ", " CELL("better",
                                                                                                 "law", "2",
                                                                                                 "0.1") ","
                                                                                                        " " CELL(
                                                                                                            "alone",
                                                                                                            "math",
                                                                                                            "9",
                                                                                                            "0.9") "]}";
    struct mt_context ctx;
    struct mt_page page;
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "t");
    const char *path = place_file(*state, "compare.json", text);
    if (mt_board_build(&page, &path, 1) != MT_OK) fail_msg("%s", ctx.message);
    const struct mt_figure *dots = table_named(&page, "Whole answers, more or fewer than the reference");
    const struct mt_column *column = dots->column;
    assert_int_equal(mt_figure_rows(dots), 2); // the reference is the line at 0, "alone" has no pair
    assert_string_equal(mt_column_text(&column[1], 0), "better");
    assert_string_equal(mt_column_text(&column[1], 1), "worse");
    assert_string_equal(mt_column_text(&column[0], 0), "all domains");
    assert_string_equal(mt_column_text(&column[5], 0), "m, reference base");
    // 10, 30 and 20 points: Student's t of two degrees of freedom at 95 % is 4.30265, the error 10 / sqrt 3.
    near(column[2].numbers[0], 20.0);
    assert_true(fabs(column[3].numbers[0] - (20.0 - 4.30265 * 10.0 / sqrt(3.0))) < 1e-3);
    assert_true(fabs(column[4].numbers[0] - (20.0 + 4.30265 * 10.0 / sqrt(3.0))) < 1e-3);
    near(column[2].numbers[1], -10.0);
    assert_true(isnan(column[3].numbers[1]) && isnan(column[4].numbers[1])); // one pair
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

/* The page begins with what was found, and calls comparisons by their names; their paths are listed at the
 * end. */
static void verdict_comes_first(void **state)
{
    static const char proved[] =
        "{\"reference\": \"a\", \"cells\": [" CELL("a", "math", "1", "0.50") ", " CELL(
            "b", "math", "1",
            "0.60") ", " CELL("a", "math", "2",
                              "0.51") ", " CELL("b", "math", "2",
                                                "0.62") ", " CELL("a", "math", "3",
                                                                  "0.52") ", " CELL("b", "math", "3",
                                                                                    "0.63") "]}";
    static const char lone[] = "{\"reference\": \"a\", \"cells\": [" CELL("a", "math", "1", "0.5") ", " CELL(
        "b", "math", "1", "0.4") "]}";
    static const char *const headlines[] = {"Some methods beat their reference.", "b is best on m (same 1).",
                                            "No method beats a on m (same 2)."};
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct mt_page page;
    const char *paths[2];
    char folder[256];
    size_t told = 0;
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "t");
    for (int i = 0; i < 2; i++) {
        const char *names[] = {"one", "two", "one/same", "two/same"};
        for (int k = i; k < 4; k += 2)
            assert_int_equal(mkdir(workplace_path(place, names[k], folder, sizeof folder), 0700), 0);
        paths[i] = place_file(place, i == 0 ? "one/same/compare.json" : "two/same/compare.json",
                              i == 0 ? proved : lone);
    }
    if (mt_board_build(&page, paths, 2) != MT_OK) fail_msg("%s", ctx.message);
    assert_true(page.first->verdict);
    for (const struct mt_block *block = page.first->first; block != NULL; block = block->next) {
        if (block->headline == NULL) continue;
        assert_true(told < sizeof headlines / sizeof headlines[0]);
        assert_string_equal(block->headline, headlines[told++]);
        assert_null(strchr(block->text, '/'));
        assert_null(strstr(block->text, "nan"));
    }
    assert_int_equal(told, sizeof headlines / sizeof headlines[0]);
    const struct mt_figure *files = table_named(&page, "What was compared");
    assert_string_equal(mt_column_text(&files->column[0], 1), "same 2");
    assert_string_equal(mt_column_text(&files->column[3], 1), paths[1]);
    const struct mt_figure *answers = table_named(&page, "Answers and losses");
    assert_string_equal(mt_column_text(&answers->column[3], 0), "same 1");
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(unlink(paths[i]), 0);
        assert_int_equal(
            rmdir(workplace_path(place, i == 0 ? "one/same" : "two/same", folder, sizeof folder)), 0);
        assert_int_equal(rmdir(workplace_path(place, i == 0 ? "one" : "two", folder, sizeof folder)), 0);
    }
}

static void hostile_files_get_a_sentence(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "compare.json"},
        {"[1, 2]", "compare.json"},
        {"{\"runs\": []}", "is not a compare.json: it has no cells"},
        {"{\"cells\": {}}", "cells"},
        {"{\"cells\": [], \"reference\": 3}", "reference"},
        {"{\"cells\": [3]}", "cells[0]"},
        {"{\"cells\": []}", "no cell of it is known"},
        {"{\"cells\": [{\"method\": \"a\"}]}", "model"},
        {"{\"cells\": [{\"model\": \"m\", \"method\": 7, \"domain\": \"d\", \"seed\": 1, \"known\": true}]}",
         "method"},
        {"{\"cells\": [" CELL("a", "math", "\"one\"", "0.5") "]}", "seed"},
        {"{\"cells\": [" CELL("a", "math", "1", "NaN") "]}", "compare.json"},
        {"{\"cells\": [" CELL("a", "math", "1", "\"much\"") "]}", "accuracy"},
        {"{\"cells\": [" CELL("a", "math", "1", "1e999") "]}", "compare.json"},
        {"{\"cells\": [{\"model\": \"m\", \"method\": \"a\", \"domain\": \"d\", \"seed\": 1, \"known\": "
         "true, "
         "\"figures\": {}, \"times\": {}, \"tasks\": {\"gsm8k\": 4}}]}",
         "gsm8k"},
        {"{\"cells\": [{\"model\": \"m\", \"method\": \"a\", \"domain\": \"d\", \"seed\": 1, \"known\": "
         "true}]}",
         "figures"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_context ctx;
        struct mt_page page;
        mt_context_init(&ctx, NULL);
        mt_page_init(&page, &ctx, "t");
        const char *path = place_file(*state, "compare.json", cases[i].text);
        assert_int_not_equal(mt_board_build(&page, &path, 1), MT_OK);
        if (strstr(ctx.message, cases[i].says) == NULL)
            fail_msg("case %zu: '%s' without '%s'", i, ctx.message, cases[i].says);
        mt_page_free(&page);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

static enum mt_status build(struct mt_context *ctx, const void *self)
{
    struct mt_page page;
    const char *path = self;
    mt_page_init(&page, ctx, "t");
    enum mt_status status = mt_board_build(&page, &path, 1);
    mt_page_free(&page);
    return status;
}

static void memory_may_run_out(void **state)
{
    assert_every_allocation_may_fail(build, place_file(*state, "compare.json", whole), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(figures_by_hand, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(differences_by_hand, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(kept_experts_are_of_one_score, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(verdict_comes_first, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(hostile_files_get_a_sentence, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(memory_may_run_out, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
