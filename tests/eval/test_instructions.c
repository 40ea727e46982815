/*
 * Instructions of IFEval: kinds LiveBench does not have, what stays open, strict and loose verdicts and their
 * figures. tests/parity/ifeval_parity.py holds every kind against the authors' program.
 */
#include <math.h>
#include <string.h>

#include "eval/instructions/instructions.h"
#include "support/cmocka_all.h"
#include "support/eval_cases.h"
#include "support/every_allocation.h"

static enum mt_status check(struct mt_context *ctx, const char *kind, const char *values_text,
                            struct mt_text answer, enum mt_following *following)
{
    static const struct mt_json_limits limits = {.max_bytes = 4096, .max_values = 100, .max_depth = 4};
    struct mt_json json;
    bool known = false;
    enum mt_status status = mt_json_parse(ctx, "values", values_text, strlen(values_text), &limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node values = mt_json_root(&json);
    status = mt_instruction_check(ctx, kind, &values, answer, &known, following);
    assert_true(known);
    mt_json_free(&json);
    return status;
}

static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *values, *text;
        enum mt_following following;
    } cases[] = {
        {"keywords:letter_frequency",
         "{\"letter\": \"E\", \"let_frequency\": 3, \"let_relation\": \"at least\"}", "See me, Eve",
         MT_FOLLOWED},
        {"keywords:letter_frequency",
         "{\"letter\": \"e\", \"let_frequency\": 3, \"let_relation\": \"less than\"}", "See me",
         MT_NOT_FOLLOWED},
        {"keywords:letter_frequency",
         "{\"letter\": \"#\", \"let_frequency\": 2, \"let_relation\": \"at least\"}", "#sea #sun",
         MT_FOLLOWED},
        {"keywords:existence", "{\"keywords\": [\"col.ur\"]}", "A COLOUR",
         MT_FOLLOWED}, // a pattern, as there
        {"keywords:existence", "{\"keywords\": [\"(sea\"]}", "by the (sea",
         MT_FOLLOWED}, // that is none: a text
        {"detectable_format:number_highlighted_sections", "{\"num_highlights\": 2}", "*a* b *c*",
         MT_FOLLOWED},
        {"detectable_format:number_highlighted_sections", "{\"num_highlights\": 3}", "**a** * *",
         MT_NOT_FOLLOWED},
        {"detectable_format:constrained_response", "{}", "So: My answer is no. Sorry", MT_FOLLOWED},
        {"detectable_format:constrained_response", "{}", "My answer is no", MT_NOT_FOLLOWED},
        {"change_case:capital_word_frequency",
         "{\"capital_frequency\": 4, \"capital_relation\": \"at least\"}", "I CANNOT go to the U.S. now",
         MT_FOLLOWED}, // I, CAN, NOT, U.S.
        {"change_case:capital_word_frequency",
         "{\"capital_frequency\": 2, \"capital_relation\": \"less than\"}", "A-B then Go", MT_FOLLOWED},
        // One word within a sentence, two at the end of one.
        {"change_case:capital_word_frequency",
         "{\"capital_frequency\": 2, \"capital_relation\": \"less than\"}", "It is IT'S. now",
         MT_FOLLOWING_OPEN},
        {"change_case:capital_word_frequency",
         "{\"capital_frequency\": 2, \"capital_relation\": \"less than\"}", "now it is IT'S.",
         MT_NOT_FOLLOWED},
        {"change_case:english_capital", "{}", "ALL OF IT, 3.", MT_FOLLOWING_OPEN},
        {"change_case:english_capital", "{}", "ALL OF iT", MT_NOT_FOLLOWED},
        {"change_case:english_capital", "{}", "123", MT_NOT_FOLLOWED},
        {"change_case:english_lowercase", "{}", "été, all of it", MT_FOLLOWING_OPEN},
        {"change_case:english_lowercase", "{}", "Été", MT_NOT_FOLLOWED},
        {"language:response_language", "{\"language\": \"de\"}", "Guten Tag", MT_FOLLOWING_OPEN},
        {"language:response_language", "{\"language\": \"de\"}", " \n", MT_NOT_FOLLOWED},
        {"length_constraints:number_sentences", "{\"num_sentences\": 3, \"relation\": \"at least\"}",
         "One. Two.", MT_FOLLOWING_OPEN},
        {"startend:end_checker", "{\"end_phrase\": \"Bye\\\"\"}", "so \"bye\"", MT_NOT_FOLLOWED},
        {"length_constraints:nth_paragraph_first_word",
         "{\"num_paragraphs\": 1, \"nth_paragraph\": 2, \"first_word\": \"so\"}", "\n\nSo it is",
         MT_NOT_FOLLOWED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_context ctx;
        enum mt_following following = MT_NOT_FOLLOWED;
        mt_context_init(&ctx, NULL);
        enum mt_status status =
            check(&ctx, cases[i].kind, cases[i].values, text_of(cases[i].text), &following);
        if (status != MT_OK || following != cases[i].following)
            print_message("%s of '%s': %d\n", cases[i].kind, cases[i].text, (int)following);
        assert_int_equal(status, MT_OK);
        assert_int_equal(following, cases[i].following);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

// ------------------------------------------------------------------ rows

static enum mt_status judge(struct mt_context *ctx, const char *rows, const char *answer,
                            struct mt_instruction_marks *marks)
{
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL};
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    mt_row_init(ctx, &row);
    enum mt_status status = mt_dataset_open_memory(ctx, "rows.jsonl", rows, strlen(rows), &options, &dataset);
    if (status == MT_OK) status = mt_dataset_read(dataset, 0, &row);
    if (status == MT_OK) status = mt_ifeval_judge(ctx, &row, text_of(answer), marks);
    mt_row_free(&row);
    mt_dataset_close(dataset);
    return status;
}

static const char three[] = "{\"instruction_id_list\": [\"punctuation:no_comma\", \"startend:end_checker\", "
                            "\"language:response_language\"], \"kwargs\": [{}, {\"end_phrase\": \"Bye.\"}, "
                            "{\"language\": \"en\"}]}\n";

static void test_strict_and_loose(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        uint32_t strict, strict_open, loose, loose_open;
    } cases[] = {
        {"So it is. Bye.", 3, 4, 3, 4},
        {"Sure, here it is:\nSo it is. Bye.", 2, 4, 3, 4},      // without the first line
        {"So it is. Bye.\nI hope that helps.", 1, 4, 3, 4},     // without the last
        {"Sure, here:\nBye.\nI hope, that helps.", 0, 4, 3, 4}, // without both
        {"So it is. *Bye.*", 1, 4, 3, 4},                       // without asterisks
        {"<think>Well, a plan.</think>\n\nBye.", 3, 4, 3, 4},   // thoughts do not count
        {" \n", 0, 0, 0, 0},
        {"*", 1, 4, 1, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_context ctx;
        struct mt_instruction_marks marks;
        mt_context_init(&ctx, NULL);
        assert_int_equal(judge(&ctx, three, cases[i].answer, &marks), MT_OK);
        if (marks.strict != cases[i].strict || marks.loose != cases[i].loose)
            print_message("%s\n", cases[i].answer);
        assert_int_equal(marks.count, 3);
        assert_int_equal(marks.strict, cases[i].strict);
        assert_int_equal(marks.strict_open, cases[i].strict_open);
        assert_int_equal(marks.loose, cases[i].loose);
        assert_int_equal(marks.loose_open, cases[i].loose_open);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

static void test_broken_rows(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_instruction_marks marks;
    mt_context_init(&ctx, NULL);
    assert_int_equal(
        judge(&ctx, "{\"instruction_id_list\": [\"keywords:sea\"], \"kwargs\": [{}]}\n", "a", &marks),
        MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "there is no rule for the instruction 'keywords:sea'"));
    assert_int_equal(judge(&ctx,
                           "{\"instruction_id_list\": [\"language:response_language\"], \"kwargs\": [{}]}\n",
                           "a", &marks),
                     MT_ERR_FORMAT);
    char many[2000] = "{\"instruction_id_list\": [";
    for (int i = 0; i < 33; i++) strcat(many, i > 0 ? ", \"startend:quotation\"" : "\"startend:quotation\"");
    strcat(many, "], \"kwargs\": [");
    for (int i = 0; i < 33; i++) strcat(many, i > 0 ? ", {}" : "{}");
    strcat(many, "]}\n");
    assert_int_equal(judge(&ctx, many, "a", &marks), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "more than 32 instructions"));
    assert_int_equal(ctx.live_bytes, 0);
}

/* A keyword that needs too much work leaves its instruction open; the run goes on. */
static void test_costly_keyword(void **state)
{
    (void)state;
    char answer[6000];
    struct mt_context ctx;
    struct mt_instruction_marks marks;
    memset(answer, 'a', sizeof answer - 1);
    answer[sizeof answer - 1] = '\0';
    mt_context_init(&ctx, NULL);
    assert_int_equal(judge(&ctx,
                           "{\"instruction_id_list\": [\"keywords:existence\"], \"kwargs\": [{\"keywords\": "
                           "[\"(a|aa)+[yz]\"]}]}\n",
                           answer, &marks),
                     MT_OK);
    assert_int_equal(marks.strict_open, 1);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status judge_once(struct mt_context *ctx, const void *self)
{
    struct mt_instruction_marks marks;
    return judge(ctx, self, "So *it* is\nBye.", &marks);
}

static void test_allocations(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(judge_once, three, 11);
}

// ------------------------------------------------------------------ figures

static void test_figures(void **state)
{
    (void)state;
    // Followed, not followed, open; and one of two instructions.
    const struct mt_outcome outcomes[] = {
        {.marks = {.count = 1, .strict = 1, .loose = 1}},
        {.marks = {.count = 2, .strict = 1, .loose = 3}},
        {.marks = {.count = 2, .strict = 1, .strict_open = 2, .loose = 1, .loose_open = 2}},
        {.marks = {.count = 2, .strict_open = 2, .loose_open = 2}},
    };
    static const struct {
        enum mt_metric_kind kind;
        double value;
        size_t samples;
    } cases[] = {
        {MT_METRIC_PROMPT_STRICT, 1.0 / 3, 3}, // the third has no verdict, the fourth misses its first
        {MT_METRIC_PROMPT_LOOSE, 2.0 / 3, 3},
        {MT_METRIC_INSTRUCTION_STRICT, 3.0 / 5, 4},
        {MT_METRIC_INSTRUCTION_LOOSE, 4.0 / 5, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_context ctx;
        struct mt_metric_result result;
        mt_context_init(&ctx, NULL);
        assert_int_equal(mt_metric_compute(&ctx, cases[i].kind, 1, outcomes, 4, &result), MT_OK);
        assert_true(fabs(result.value - cases[i].value) < 1e-12);
        assert_true(result.low <= result.value && result.value <= result.high);
        assert_int_equal(result.samples, cases[i].samples);
    }
    struct mt_context ctx;
    struct mt_metric_result result;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_metric_compute(&ctx, MT_METRIC_PROMPT_STRICT, 1, &outcomes[2], 1, &result), MT_OK);
    assert_true(isnan(result.value) && isnan(result.low));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),       cmocka_unit_test(test_strict_and_loose),
        cmocka_unit_test(test_broken_rows), cmocka_unit_test(test_costly_keyword),
        cmocka_unit_test(test_allocations), cmocka_unit_test(test_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
