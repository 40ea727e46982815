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
        cmocka_unit_test(test_instruction_cases),
        cmocka_unit_test(test_instruction_score),
        cmocka_unit_test(test_broken_rows),
        cmocka_unit_test(test_deep_json),
        cmocka_unit_test(test_every_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
