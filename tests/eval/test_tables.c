/*
 * LiveBench's tables and mappings on answers labelled by hand (tests/eval/cases;
 * tests/parity/tables_parity.py holds the labels against pandas), what rows may get wrong, hostile tables,
 * and every allocation failing in turn. Tests src/eval/livebench/table.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/livebench/livebench.h"
#include "eval/livebench/table.h"
#include "support/cmocka_all.h"
#include "support/eval_cases.h"
#include "support/every_allocation.h"

static bool table_is_right(struct mt_context *ctx, const struct mt_row *row)
{
    struct mt_json_node expected;
    struct mt_text why = eval_case_text(row, "why");
    bool wanted = false;
    bool matches = false;
    assert_true(mt_row_value(row, "equal", &expected));
    assert_int_equal(mt_json_as_bool(&expected, &wanted), MT_OK);
    assert_int_equal(mt_livebench_table_matches(ctx, eval_case_text(row, "format"),
                                                eval_case_text(row, "truth"), eval_case_text(row, "answer"),
                                                &matches),
                     MT_OK);
    if (matches != wanted) print_message("%.*s: expected %d\n", (int)why.bytes, why.text, wanted);
    return matches == wanted;
}

static void test_table_cases(void **state)
{
    (void)state;
    eval_cases_check("tables.jsonl", 160, table_is_right);
}

static bool mapping_is_right(struct mt_context *ctx, const struct mt_row *row)
{
    struct mt_json_node expected;
    struct mt_text why = eval_case_text(row, "why");
    double wanted = 0.0;
    double score = -1.0;
    assert_true(mt_row_value(row, "score", &expected));
    assert_int_equal(mt_json_as_real(&expected, 0.0, 1.0, &wanted), MT_OK);
    assert_int_equal(
        mt_livebench_mapping_score(ctx, eval_case_text(row, "truth"), eval_case_text(row, "answer"), &score),
        MT_OK);
    if (score != wanted) print_message("%.*s: %g, expected %g\n", (int)why.bytes, why.text, score, wanted);
    return score == wanted;
}

static void test_mapping_cases(void **state)
{
    (void)state;
    eval_cases_check("mappings.jsonl", 30, mapping_is_right);
}

// ------------------------------------------------------------------ rows

static void test_rows(void **state)
{
    (void)state;
    static const struct {
        const char *row, *answer;
        eval_rule rule;
        double score;
    } rows[] = {
        {"{\"turns\": [\"from TSV format to CSV format.\"], \"ground_truth\": \"a,b\\n1,2\\n\"}\n",
         "a,b\n1,2.0", mt_livebench_table, 1.0},
        {"{\"turns\": [\"Source Format: CSV\\nTarget Format: JSON \\nTable\"], \"ground_truth\": "
         "\"{\\\"0\\\":{\\\"a\\\":1}}\"}\n",
         "[{\"a\": \"1\"}]", mt_livebench_table, 1.0},
        {"{\"ground_truth\": \"{'a': 'b'}\"}\n", "{'a': 'b', 'c': 'd'}", mt_livebench_mapping, 0.67},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mt_context ctx;
        double score = -1.0;
        mt_context_init(&ctx, NULL);
        assert_int_equal(eval_rule_score(&ctx, rows[i].rule, rows[i].row, rows[i].answer, &score), MT_OK);
        assert_true(score == rows[i].score);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

static void test_broken_rows(void **state)
{
    (void)state;
    static const struct {
        const char *row;
        eval_rule rule;
        const char *message;
    } broken[] = {
        {"{\"turns\": [\"to CSV\"], \"ground_truth\": \"a\"}\n", mt_livebench_table,
         "does not say which format"},
        {"{\"turns\": \"format to CSV format\", \"ground_truth\": \"a\"}\n", mt_livebench_table,
         "turns must be a list"},
        {"{\"turns\": [\"format to CSV format\"], \"ground_truth\": [1]}\n", mt_livebench_table,
         "ground_truth must be"},
        {"{\"turns\": [\"format to CSV format\"]}\n", mt_livebench_table, "ground_truth must be"},
        {"{\"turns\": [\"format to LaTeX format\"], \"ground_truth\": \"a\"}\n", mt_livebench_table,
         "rows.jsonl:1: tables of the format 'LaTeX'"},
        {"{\"turns\": [\"format to JSON format\"], \"ground_truth\": \"a,b\"}\n", mt_livebench_table,
         "is not a table"},
        {"{\"ground_truth\": \"a\"}\n", mt_livebench_mapping, "rows.jsonl:1: ground_truth is not a dict"},
        {"{\"ground_truth\": {\"a\": 1}}\n", mt_livebench_mapping, "ground_truth must be a text"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        eval_rule_refuses(broken[i].rule, broken[i].row, broken[i].message);
}

// ------------------------------------------------------------------ what nobody should be able to do

/* A piece over and over, with something in front. The caller frees. */
static char *repeated(const char *before, const char *piece, size_t times)
{
    size_t first = strlen(before);
    size_t each = strlen(piece);
    char *text = malloc(first + each * times + 1);
    assert_non_null(text);
    memcpy(text, before, first);
    for (size_t i = 0; i < times; i++) memcpy(text + first + i * each, piece, each);
    text[first + each * times] = '\0';
    return text;
}

/* Wide, long and unfinished tables are no tables, and cost neither memory nor time beyond measure. */
static void test_hostile(void **state)
{
    (void)state;
    static const struct {
        const char *format, *before, *piece;
        size_t times;
    } cases[] = {
        {"csv", "a,b\n", "1,2,3,4,5,6,7,8,9,", 100000},
        {"csv", "a", ",a", 100000},
        {"csv", "a,b\n\"", "\"\"", 100000},
        {"csv", "a,b\n1,\"", "x\n", 3000},
        {"csv", "a,b\n", "1,2\n", 200000},
        {"html", "<table><tr>", "<th>a", 100000},
        {"html", "<table>", "<tr><td>", 100000},
        {"html", "", "<a", 100000},
        {"html", "<table><tr><th>a", "<!--", 100000},
        {"html", "<table><tr><th>", "&#", 100000},
        {"json", "", "[", 100000},
        {"json", "{\"a\":", "{\"a\":", 100000},
        {"json", "", "{\"a\":1}\n", 20000},
        {"jsonl", "", "{", 100000},
        {"markdown", "", "|", 100000},
        {"csv", "", "<solution>", 50000},
        {"csv", "", "```json\n", 50000},
        {"csv", "", "Here format ", 20000},
    };
    static const char *const truths[] = {
        "csv",      "a,b\n1,2\n",   "html",  "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>",
        "json",     "[{\"a\": 1}]", "jsonl", "{\"a\": 1}",
        "markdown", "|a|\n|-|\n|1|"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_context ctx;
        bool matches = true;
        size_t truth = 0;
        double score = -1.0;
        mt_context_init(&ctx, NULL);
        while (strcmp(truths[truth], cases[i].format) != 0) truth += 2;
        char *answer = repeated(cases[i].before, cases[i].piece, cases[i].times);
        assert_int_equal(mt_livebench_table_matches(&ctx, text_of(cases[i].format),
                                                    text_of(truths[truth + 1]), text_of(answer), &matches),
                         MT_OK);
        assert_false(matches);
        assert_int_equal(mt_livebench_mapping_score(&ctx, text_of("{'a': 'b'}"), text_of(answer), &score),
                         MT_OK);
        assert_true(score == 0.0);
        free(answer);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

static enum mt_status judge_all(struct mt_context *ctx, const void *self)
{
    (void)self;
    static const char *const answers[][3] = {
        {"csv", "a,b\n1,\"x\"\"y\"\n", "Well:\na,b\n1,\"x\"\"y\"\nThat, was, it"},
        {"json", "{\"0\":{\"a\":1,\"b\":\"x\"}}", "```json\n[{\"a\":NaN,\"b\":\"x\"}]\n```"},
        {"jsonl", "{\"a\":1}\n", "Rows:\n{\"a\":1}\n"},
        {"html", "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>", "<table><tr><th>a<tr><td>&lt;"},
        {"markdown", "|a|\n|-|\n|1|", "|a|\n|-|\n|1|"}};
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0] && status == MT_OK; i++) {
        bool matches = false;
        status = mt_livebench_table_matches(ctx, text_of(answers[i][0]), text_of(answers[i][1]),
                                            text_of(answers[i][2]), &matches);
    }
    double score = 0.0;
    if (status != MT_OK) return status;
    return mt_livebench_mapping_score(ctx, text_of("{'a': 'b'}"), text_of("\\boxed{\\{\\text{'a'}: 'b'\\}}"),
                                      &score);
}

static void test_every_allocation_failing(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(judge_all, NULL, 41);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_cases), cmocka_unit_test(test_mapping_cases),
        cmocka_unit_test(test_rows),        cmocka_unit_test(test_broken_rows),
        cmocka_unit_test(test_hostile),     cmocka_unit_test(test_every_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
