/*
 * LiveBench's rules on answers labelled by hand (tests/eval/cases), what rows may get wrong, and every
 * allocation failing in turn.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/livebench/livebench.h"
#include "eval/livebench/text.h"
#include "support/cmocka_all.h"
#include "support/eval_cases.h"
#include "support/every_allocation.h"

// ------------------------------------------------------------------ puzzles and contests

static bool answer_is_right(struct mt_context *ctx, const struct mt_row *row)
{
    struct mt_json_node node;
    double wanted = -1.0;
    double score = -1.0;
    assert_true(mt_row_value(row, "score", &node));
    assert_int_equal(mt_json_as_real(&node, 0.0, 1.0, &wanted), MT_OK);
    assert_int_equal(mt_livebench_judge(ctx, mt_livebench_answer, row, eval_case_text(row, "text"), &score),
                     MT_OK);
    if (score != wanted) print_message("%g is not %g\n", score, wanted);
    return score == wanted;
}

/* Scores of LiveBench's own judges: tests/parity/livebench_parity.py. */
static void test_answer_cases(void **state)
{
    (void)state;
    eval_cases_check("livebench_answers.jsonl", 200, answer_is_right);
}

static const char *const puzzles[] = {
    "{\"task\": \"cta\", \"ground_truth\": \"id\"}\n",
    "{\"task\": \"spatial\", \"ground_truth\": \"3\"}\n",
    "{\"task\": \"zebra_puzzle\", \"ground_truth\": \"1, tea\", \"livebench_release_date\": "
    "\"2024-11-25\"}\n",
    "{\"task\": \"zebra_puzzle\", \"ground_truth\": \"tea\"}\n",
    "{\"task\": \"web_of_lies_v2\", \"ground_truth\": \"yes, no, yes\"}\n",
    "{\"task\": \"math_comp\", \"subtask\": \"amc_12a\", \"ground_truth\": \"B\", \"turns\": "
    "[\"\\\\textbf{(B) }6$\"]}\n",
    "{\"task\": \"math_comp\", \"subtask\": \"aime\", \"ground_truth\": \"042\"}\n",
    "{\"task\": \"olympiad\", \"subtask\": \"usamo\", \"ground_truth\": \"2,1\"}\n",
};

/* Marks without end are read in a time that grows with them, not with their square. */
static void test_hostile_answers(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "*",        "**",      "** *", "***a", "<solution>", "</solution>\n", "\\boxed{",
        "\\boxed ", "answer:", "1,",   "{",    "<think>",    "\u00b2,",       "yes, no"};
    for (size_t i = 0; i < sizeof puzzles / sizeof puzzles[0]; i++) {
        for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
            struct mt_context ctx;
            struct mt_byte_list text = {.ctx = &ctx};
            double score = -1.0;
            mt_context_init(&ctx, NULL);
            while (text.count < 50000) assert_int_equal(mt_byte_list_append_text(&text, pieces[k]), MT_OK);
            assert_int_equal(mt_byte_list_append(&text, "", 1), MT_OK);
            assert_int_equal(
                eval_rule_score(&ctx, mt_livebench_answer, puzzles[i], (const char *)text.data, &score),
                MT_OK);
            assert_true(score >= 0.0 && score <= 1.0);
            mt_byte_list_free(&text);
            assert_int_equal(ctx.live_bytes, 0);
        }
    }
}

static void test_broken_puzzles(void **state)
{
    (void)state;
    eval_rule_refuses(mt_livebench_answer, "{\"task\": \"connections\", \"ground_truth\": \"a\"}\n",
                      "no judge");
    eval_rule_refuses(mt_livebench_answer, "{\"task\": \"cta\"}\n", "ground_truth must be a text");
}

static enum mt_status judge_puzzle(struct mt_context *ctx, const void *self)
{
    double score = 0.0;
    return eval_rule_score(ctx, mt_livebench_answer, self, "**yes** Answer: 1, 2 \\boxed{\\text{3}}", &score);
}

static void test_puzzle_allocations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof puzzles / sizeof puzzles[0]; i++)
        assert_every_allocation_may_fail(judge_puzzle, puzzles[i], 1);
}

// ------------------------------------------------------------------ instructions

static bool instruction_is_right(struct mt_context *ctx, const struct mt_row *row)
{
    struct mt_json_node instruction;
    struct mt_json_node values;
    struct mt_json_node expected;
    const char *name = NULL;
    bool wanted = false;
    bool known = false;
    bool followed = false;
    assert_true(mt_row_value(row, "instruction", &instruction));
    assert_true(mt_row_value(row, "values", &values));
    assert_true(mt_row_value(row, "followed", &expected));
    assert_int_equal(mt_json_as_string(&instruction, &name), MT_OK);
    assert_int_equal(mt_json_as_bool(&expected, &wanted), MT_OK);
    assert_int_equal(mt_livebench_follows(ctx, name, &values, eval_case_text(row, "text"), &known, &followed),
                     MT_OK);
    assert_true(known);
    if (followed != wanted) print_message("%s: expected %s\n", name, wanted ? "followed" : "not followed");
    return followed == wanted;
}

static void test_instruction_cases(void **state)
{
    (void)state;
    eval_cases_check("instructions.jsonl", 120, instruction_is_right);
}

static const char two_instructions[] =
    "{\"instruction_id_list\": [\"keywords:existence\", \"length_constraints:nth_paragraph_first_word\", "
    "\"detectable_format:title\", \"combination:two_responses\"], \"kwargs\": [{\"keywords\": [\"sun\"]}, "
    "{\"num_paragraphs\": 2, \"nth_paragraph\": 1, \"first_word\": \"so\"}, {\"keywords\": null}, {}]}\n";

static enum mt_status score_row(struct mt_context *ctx, const char *rows, const char *answer, double *score)
{
    return eval_rule_score(ctx, mt_livebench_instructions, rows, answer, score);
}

/* The mean of all-or-nothing and of the share. */
static void test_instruction_score(void **state)
{
    (void)state;
    struct mt_context ctx;
    double score = -1.0;
    mt_context_init(&ctx, NULL);
    assert_int_equal(score_row(&ctx, two_instructions, "So <<a>> sun\n\n****** b", &score), MT_OK);
    assert_true(score == 1.0);
    assert_int_equal(score_row(&ctx, two_instructions, "So sun\n\n****** b", &score), MT_OK);
    assert_true(score == 0.375);
    assert_int_equal(score_row(&ctx, two_instructions, "The sun", &score), MT_OK);
    assert_true(score == 0.125);
    assert_int_equal(score_row(&ctx, two_instructions, " \n", &score), MT_OK);
    assert_true(score == 0.0);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_broken_rows(void **state)
{
    (void)state;
    static const struct {
        const char *row;
        const char *message;
    } broken[] = {
        {"{\"a\": 1}\n", "instruction_id_list is missing"},
        {"{\"instruction_id_list\": [\"startend:quotation\"], \"kwargs\": []}\n", "as long as"},
        {"{\"instruction_id_list\": [\"startend:quotation\"], \"kwargs\": [1]}\n",
         "rows.jsonl:1: kwargs: [0]"},
        {"{\"instruction_id_list\": [7], \"kwargs\": [{}]}\n", "must hold names"},
        {"{\"instruction_id_list\": [\"language:response_language\"], \"kwargs\": [{}]}\n",
         "no rule for the instruction 'language:response_language'"},
        {"{\"instruction_id_list\": [\"length_constraints:number_words\"], \"kwargs\": [{\"num_words\": -1, "
         "\"relation\": \"at least\"}]}\n",
         "num_words"},
        {"{\"instruction_id_list\": [\"length_constraints:number_words\"], \"kwargs\": [{\"num_words\": 1, "
         "\"relation\": \"about\"}]}\n",
         "neither"},
        {"{\"instruction_id_list\": [\"keywords:existence\"], \"kwargs\": [{\"keywords\": [3]}]}\n",
         "kwargs: [0].keywords[0]"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        eval_rule_refuses(mt_livebench_instructions, broken[i].row, broken[i].message);
}

/* Brackets nested deeper than is kept track of are no JSON; as deep as that they are. */
static void test_deep_json(void **state)
{
    (void)state;
    char deep[1200];
    memset(deep, '[', 512);
    memset(deep + 512, ']', 512);
    assert_true(mt_livebench_is_json((struct mt_text){.text = deep, .bytes = 1024}));
    memset(deep, '[', 513);
    memset(deep + 513, ']', 513);
    assert_false(mt_livebench_is_json((struct mt_text){.text = deep, .bytes = 1026}));
    assert_false(mt_livebench_is_json((struct mt_text){.text = deep, .bytes = 512}));
    assert_false(mt_livebench_is_json(text_of("")));
}

static enum mt_status score_all(struct mt_context *ctx, const void *self)
{
    double score = 0.0;
    return score_row(ctx, self, "So <<a>> sun\n\n****** b", &score);
}

static void test_every_allocation_failing(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(score_all, two_instructions, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer_cases),
        cmocka_unit_test(test_hostile_answers),
        cmocka_unit_test(test_broken_puzzles),
        cmocka_unit_test(test_puzzle_allocations),
        cmocka_unit_test(test_instruction_cases),
        cmocka_unit_test(test_instruction_score),
        cmocka_unit_test(test_broken_rows),
        cmocka_unit_test(test_deep_json),
        cmocka_unit_test(test_every_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
