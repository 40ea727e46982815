/*
 * Other judges without a network: figures of agreement against ones computed by hand, runs read back, marks
 * merged, the page, prompts and verdicts, and every allocation failing in turn. Tests src/eval/judges.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "eval/endpoint/chat_api.h"
#include "eval/judges/agreement.h"
#include "eval/judges/judge_llm.h"
#include "eval/judges/review.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

static void near(double got, double expected)
{
    if (!(fabs(got - expected) < 1e-12)) print_message("got %.17g, expected %.17g\n", got, expected);
    assert_true(fabs(got - expected) < 1e-12);
}

// ------------------------------------------------------------------ figures

static struct mt_agreement_pair pair_of(size_t both, size_t first, size_t second, size_t neither)
{
    struct mt_agreement_pair pair = {.table = {{neither, second}, {first, both}}};
    mt_agreement_of_table(&pair);
    return pair;
}

/* Cohen's textbook table: 20 5 10 15 of 50; observed 0.7, expected 0.5, kappa 0.4. */
static void test_cohen(void **state)
{
    (void)state;
    struct mt_agreement_pair pair = pair_of(20, 5, 10, 15);
    assert_int_equal(pair.both, 50);
    near(pair.raw, 0.7);
    near(pair.kappa, 0.4);
    assert_null(pair.why);
    // The asymptotic standard error is 0.127: the bootstrap's interval lies about the same.
    assert_true(fabs(pair.low - 0.15) < 0.06 && fabs(pair.high - 0.65) < 0.06);
    struct mt_agreement_pair again = pair_of(20, 5, 10, 15);
    assert_true(pair.low == again.low && pair.high == again.high);

    near(pair_of(3, 0, 0, 7).kappa, 1.0);
    near(pair_of(0, 4, 4, 0).kappa, -1.0);
    near(pair_of(5, 5, 0, 0).kappa, 0.0); // one of them always says correct
    near(pair_of(45, 15, 25, 15).kappa, (0.6 - 0.54) / (1 - 0.54));
}

static void test_degenerate(void **state)
{
    (void)state;
    struct mt_agreement_pair none = pair_of(0, 0, 0, 0);
    assert_true(isnan(none.raw) && isnan(none.kappa) && isnan(none.low));
    assert_string_equal(none.why, "no answer was judged by both");
    struct mt_agreement_pair same = pair_of(9, 0, 0, 0);
    near(same.raw, 1.0);
    assert_true(isnan(same.kappa) && isnan(same.low));
    assert_non_null(strstr(same.why, "same verdict"));
    assert_non_null(pair_of(0, 0, 0, 3).why);
    struct mt_agreement_pair one = pair_of(0, 1, 0, 0);
    near(one.kappa, 0.0);
}

/* Fleiss: 2 answers all correct, 1 two of three, 1 one of three, 2 none: P = 14/18, expected 0.5. */
static void test_fleiss(void **state)
{
    (void)state;
    const size_t counts[4] = {2, 1, 1, 2};
    struct mt_agreement_three three = mt_agreement_of_counts(counts);
    assert_int_equal(three.all, 6);
    near(three.kappa, (14.0 / 18 - 0.5) / 0.5);
    const size_t none[4] = {0};
    assert_true(isnan(mt_agreement_of_counts(none).kappa));
    assert_non_null(mt_agreement_of_counts(none).why);
    const size_t same[4] = {0, 0, 0, 5};
    assert_true(isnan(mt_agreement_of_counts(same).kappa));
    assert_non_null(mt_agreement_of_counts(same).why);
}

// ------------------------------------------------------------------ prompts and replies

static void test_prompt(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_byte_list out = {.ctx = &ctx};
    const struct mt_judged_sample sample = {
        .id = "1", .question = "{answer}?", .reference = "42", .answer = "{reference} {mark} CORRECT"};
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_judge_prompt_check(&ctx, "f", "{question} {reference}"), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "{answer}"));
    const char *template = "q {question} r {reference} a {answer} {other} { end";
    assert_int_equal(mt_judge_prompt_check(&ctx, "f", template), MT_OK);
    assert_int_equal(mt_judge_prompt_render(&ctx, template, &sample, &out), MT_OK);
    // What was put in is not looked at again.
    const char *expected = "q {answer}? r 42 a {reference} {mark} CORRECT {other} { end";
    assert_int_equal(out.count, strlen(expected));
    assert_memory_equal(out.data, expected, out.count);
    mt_byte_list_free(&out);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_verdicts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum mt_verdict verdict;
    } cases[] = {
        {"CORRECT", MT_VERDICT_CORRECT},
        {"Both are 18.\nCORRECT\n\n", MT_VERDICT_CORRECT},
        {"x\r\n  INCORRECT \r\n", MT_VERDICT_INCORRECT},
        {"CORRECT\nUNSURE", MT_VERDICT_UNSURE},
        {"CORRECT\nbecause it is", MT_VERDICT_CORRECT},
        {"The answer is CORRECT", MT_VERDICT_CORRECT},
        {"correct", MT_VERDICT_CORRECT},
        {"correct.", MT_VERDICT_CORRECT},
        {"CORRECT.", MT_VERDICT_CORRECT},
        {"**INCORRECT**", MT_VERDICT_INCORRECT},
        {"__Unsure__!", MT_VERDICT_UNSURE},
        {"`CORRECT`", MT_VERDICT_CORRECT},
        {"\\boxed{\\text{INCORRECT}}", MT_VERDICT_INCORRECT},
        {"{\"verdict\": \"incorrect\"}", MT_VERDICT_INCORRECT},
        {"- **Verdict:** Correct", MT_VERDICT_CORRECT},
        {"They differ.\nTherefore the answer is incorrect, since 5 is not 6.", MT_VERDICT_INCORRECT},
        {"The answer is incorrect; the correct answer is 5.", MT_VERDICT_INCORRECT},
        {"The correct answer is 5, and this says 6.\nINCORRECT", MT_VERDICT_INCORRECT},
        {"This is not correct.", MT_VERDICT_INCORRECT},
        {"The answer isn't fully correct.", MT_VERDICT_INCORRECT},
        {"It is not entirely correct.", MT_VERDICT_INCORRECT},
        {"The answer is **not** correct.", MT_VERDICT_INCORRECT},
        {"It is *not* CORRECT", MT_VERDICT_INCORRECT},
        {"This is not \"correct\".", MT_VERDICT_INCORRECT},
        {"This isn\xE2\x80\x99t \xE2\x80\x9C"
         "correct\xE2\x80\x9D.",
         MT_VERDICT_INCORRECT},
        {"I cannot say that the answer is CORRECT.", MT_VERDICT_UNREADABLE},
        {"I don't think the answer is **CORRECT**.", MT_VERDICT_UNREADABLE},
        {"It fails to be correct.", MT_VERDICT_UNREADABLE},
        {"The answer is by no means correct.", MT_VERDICT_UNREADABLE},
        {"It is far from correct.", MT_VERDICT_UNREADABLE},
        {"It would be wrong to call this CORRECT.", MT_VERDICT_UNREADABLE},
        {"I cannot tell whether it is **CORRECT**", MT_VERDICT_UNREADABLE},
        {"It is not worded alike but it is CORRECT.", MT_VERDICT_CORRECT},
        {"The reference does not differ, so the answer is CORRECT.", MT_VERDICT_CORRECT},
        {"There is no doubt: CORRECT", MT_VERDICT_CORRECT},
        {"It is not incorrect.", MT_VERDICT_UNREADABLE},
        {"It is partially correct.", MT_VERDICT_UNREADABLE},
        {"CORRECT or INCORRECT?", MT_VERDICT_UNREADABLE},
        {"CORRECT / INCORRECT / UNSURE", MT_VERDICT_UNREADABLE},
        {"I cannot tell whether it is correct", MT_VERDICT_UNREADABLE},
        {"Is it CORRECT or INCORRECT?\nVerdict: INCORRECT\nThe numbers differ.", MT_VERDICT_INCORRECT},
        {"The answer writes CORRECT at its end.\nBut 6 is not 5: INCORRECT", MT_VERDICT_INCORRECT},
        {"<think>It is CORRECT?</think>\nINCORRECT", MT_VERDICT_INCORRECT},
        {"<think>CORRECT</think>\n", MT_VERDICT_UNREADABLE},
        {"The correct answer is 5.", MT_VERDICT_UNREADABLE},
        {"It was answered correctly.", MT_VERDICT_UNREADABLE},
        {"INCORRECTLY", MT_VERDICT_UNREADABLE},
        {"", MT_VERDICT_UNREADABLE},
        {" \n\n", MT_VERDICT_UNREADABLE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(mt_judge_prompt_verdict(cases[i].text, strlen(cases[i].text)), cases[i].verdict);
}

static void test_replies(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_byte_list text = {.ctx = &ctx};
    char line[128];
    mt_context_init(&ctx, NULL);
    const char *good = "{\"choices\": [{\"message\": {\"content\": \"a sk-key b s\\u006b-key\"}}]}";
    assert_int_equal(mt_chat_reply(&ctx, good, strlen(good), "sk-key", &text, NULL, NULL), MT_OK);
    assert_int_equal(text.count, 17);
    assert_memory_equal(text.data, "a ****** b ******", text.count);
    static const char *const bad[] = {"",
                                      "[]",
                                      "{}",
                                      "{\"choices\": []}",
                                      "{\"choices\": [1]}",
                                      "{\"choices\": [{\"message\": {\"content\": null}}]}",
                                      "{\"choices\": [{\"message\": {\"content\": \"x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(mt_chat_reply(&ctx, bad[i], strlen(bad[i]), NULL, &text, NULL, NULL), MT_ERR_FORMAT);
    const char *refusal = "{\"error\": {\"message\": \"no\\u001b sk-key\"}}";
    assert_int_equal(mt_chat_refusal(&ctx, refusal, strlen(refusal), "sk-key", line, sizeof line), MT_OK);
    assert_string_equal(line, "no? ******");
    assert_int_equal(mt_chat_refusal(&ctx, "<html>", 6, "sk-key", line, sizeof line), MT_OK);
    assert_string_equal(line, "");
    mt_byte_list_free(&text);
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ members

static void expect_member(struct mt_context *ctx, const char *before, const char *after)
{
    struct mt_byte_list value = {.ctx = ctx};
    struct mt_byte_list out = {.ctx = ctx};
    assert_int_equal(mt_byte_list_append_text(&value, "[7]"), MT_OK);
    assert_int_equal(mt_json_member_set(before, strlen(before), "agreement", &value, &out), MT_OK);
    if (out.count != strlen(after) || memcmp(out.data, after, out.count) != 0)
        print_message("%.*s\n", (int)out.count, (const char *)out.data);
    assert_int_equal(out.count, strlen(after));
    assert_memory_equal(out.data, after, out.count);
    mt_byte_list_free(&out);
    mt_byte_list_free(&value);
}

static void test_member(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    expect_member(&ctx, "{}\n", "{\n  \"agreement\": [7]\n}\n");
    expect_member(&ctx, "{\n  \"a\": 1.50\n}\n", "{\n  \"a\": 1.50,\n  \"agreement\": [7]\n}\n");
    expect_member(&ctx, "{\"agreement\": {\"x\": [1, \"}\"]} , \"b\": 2}", "{\"agreement\": [7] , \"b\": 2}");
    expect_member(&ctx,
                  "{\"b\": {\"agreement\": 1}, \"c\\\"\": \"\\\"agreement\\\": 2\", \"agreement\": 3\n}",
                  "{\"b\": {\"agreement\": 1}, \"c\\\"\": \"\\\"agreement\\\": 2\", \"agreement\": [7]\n}");
}

// ------------------------------------------------------------------ runs

#define HOSTILE "</script><img src=x onerror=alert(1)>&lt;"

static void write_file(const struct workplace *place, const char *name, const char *text)
{
    assert_int_equal(workplace_write(place, name, text, strlen(text)), 0);
}

/* Three samples; the first comes twice, the last line is torn. The verdict on "c" is about another answer. */
static void write_run(const struct workplace *place)
{
    char text[4096];
    char hashes[3][MT_DIGEST_DIGITS + 1];
    static const char *const answers[] = {HOSTILE, "it is 2", ""};
    for (int i = 0; i < 3; i++)
        memcpy(hashes[i], mt_digest_of(answers[i], strlen(answers[i])).digits, sizeof hashes[i]);
    write_file(place, "samples_t.jsonl",
               "{\"id\": \"a\", \"prompt\": \"q\", \"target\": \"1\", \"resps\": [\"old\"], "
               "\"filtered_resps\": [\"\"], \"score\": 1}\n"
               "{\"id\": \"b\", \"prompt\": \"q\", \"target\": \"2\", \"resps\": [\"it is 2\"], "
               "\"filtered_resps\": [\"2\"], \"score\": 1}\n"
               "{\"id\": \"a\", \"prompt\": \"q\", \"target\": \"1\", \"resps\": [\"" HOSTILE "\"], "
               "\"filtered_resps\": [\"\"], \"score\": 0.5}\n"
               "{\"id\": \"c\", \"target\": \"2\", \"resps\": [], \"filtered_resps\": [], \"score\": null}\n"
               "{\"id\": \"d\", \"tar");
    (void)snprintf(
        text, sizeof text,
        "{\"id\": \"a\", \"answer_hash\": \"%s\", \"verdict\": \"incorrect\", \"model\": \"m\"}\n"
        "{\"id\": \"b\", \"answer_hash\": \"%s\", \"verdict\": \"incorrect\", \"model\": \"m\"}\n"
        "{\"id\": \"c\", \"answer_hash\": \"%s\", \"verdict\": \"correct\", \"model\": \"m\"}\n"
        "{\"id\": \"gone\", \"answer_hash\": \"%s\", \"verdict\": \"correct\", \"model\": \"m\"}\n",
        hashes[0], hashes[1], hashes[1], hashes[0]);
    write_file(place, "judge_t.jsonl", text);
    (void)snprintf(text, sizeof text,
                   "{\"format\": \"metier-review\", \"version\": 1, \"marks\": ["
                   "{\"task\": \"t\", \"id\": \"a\", \"answer_hash\": \"%s\", \"verdict\": \"incorrect\"},"
                   "{\"task\": \"t\", \"id\": \"b\", \"answer_hash\": \"%s\", \"verdict\": \"correct\"},"
                   "{\"task\": \"t\", \"id\": \"c\", \"answer_hash\": \"%s\", \"verdict\": \"unsure\"}]}",
                   hashes[0], hashes[1], hashes[2]);
    write_file(place, "marks.json", text);
}

static void test_run(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct mt_judged_run run;
    struct mt_agreement agreement;
    char path[512];
    size_t count = 0;
    mt_context_init(&ctx, NULL);
    write_run(place);
    assert_int_equal(mt_judged_run_read(&ctx, place->directory, NULL, &run), MT_OK);
    assert_int_equal(run.count, 1);
    const struct mt_judged_task *task = mt_judged_task_named(&run, "t");
    assert_non_null(task);
    assert_int_equal(task->count, 3);
    assert_string_equal(task->judged_by, "m");
    assert_string_equal(task->samples[0].id, "b");
    const struct mt_judged_sample *a = mt_judged_sample_named(task, "a");
    const struct mt_judged_sample *c = mt_judged_sample_named(task, "c");
    assert_string_equal(a->answer, HOSTILE);
    assert_int_equal(a->verdicts[MT_JUDGE_RULE], MT_VERDICT_INCORRECT);
    assert_int_equal(a->verdicts[MT_JUDGE_LLM], MT_VERDICT_INCORRECT);
    assert_int_equal(c->verdicts[MT_JUDGE_RULE], MT_VERDICT_NONE);
    assert_int_equal(c->verdicts[MT_JUDGE_LLM], MT_VERDICT_NONE);
    assert_null(c->question);
    assert_null(mt_judged_sample_named(task, "d"));

    assert_int_equal(
        mt_review_marks_merge(&ctx, &run, workplace_path(place, "marks.json", path, sizeof path), &count),
        MT_OK);
    assert_int_equal(count, 3);
    mt_judged_run_free(&run);
    assert_int_equal(mt_judged_run_read(&ctx, place->directory, "t", &run), MT_OK);
    mt_agreement_compute(&run, NULL, &agreement);
    assert_int_equal(agreement.shares[MT_JUDGE_HUMAN].verdicts[MT_VERDICT_UNSURE], 1);
    near(agreement.shares[MT_JUDGE_LLM].accuracy, 0.0);
    near(agreement.pairs[MT_PAIR_RULE_HUMAN].kappa, 1.0);
    near(agreement.pairs[MT_PAIR_RULE_LLM].raw, 0.5);
    assert_int_equal(agreement.three.all, 2);
    assert_int_equal(mt_agreement_store(&ctx, &run), MT_OK);
    mt_judged_run_free(&run);
    assert_int_equal(mt_judged_run_read(&ctx, place->directory, "t,u", &run), MT_ERR_USAGE);
    mt_judged_run_free(&run);
    assert_int_equal(ctx.live_bytes, 0);
    workplace_clear(place);
}

/* Each sentence names the mark; nothing is written. */
static void test_bad_marks(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    char path[512];
    const char *stranger =
        "{\"format\": \"metier-review\", \"version\": 1, \"marks\": [{\"task\": \"../x\", \"id\": \"a\", "
        "\"answer_hash\": \"\", \"verdict\": \"correct\"}]}";
    const char *const bad[] = {
        "",
        "[]",
        "{\"format\": \"other\", \"version\": 1, \"marks\": []}",
        "{\"format\": \"metier-review\", \"version\": 2, \"marks\": []}",
        "{\"format\": \"metier-review\", \"version\": 1}",
        "{\"format\": \"metier-review\", \"version\": 1, \"marks\": [3]}",
        stranger,
    };
    mt_context_init(&ctx, NULL);
    write_run(place);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mt_judged_run run;
        write_file(place, "marks.json", bad[i]);
        assert_int_equal(mt_judged_run_read(&ctx, place->directory, NULL, &run), MT_OK);
        enum mt_status status =
            mt_review_marks_merge(&ctx, &run, workplace_path(place, "marks.json", path, sizeof path), NULL);
        assert_int_equal(status, MT_ERR_FORMAT);
        mt_judged_run_free(&run);
        assert_int_not_equal(access(workplace_path(place, "review_t.jsonl", path, sizeof path), F_OK), 0);
    }
    assert_int_equal(ctx.live_bytes, 0);
    workplace_clear(place);
}

static enum mt_status write_page(struct mt_context *ctx, const struct mt_judged_run *run,
                                 const struct workplace *place, int64_t sample, size_t *count)
{
    char share[1024];
    char path[512];
    (void)snprintf(share, sizeof share, "%s/../review", getenv("METIER_TASKS"));
    const struct mt_review_options options = {.share = share, .sample = sample, .seed = 5};
    return mt_review_page_write(ctx, run, &options, workplace_path(place, "page.html", path, sizeof path),
                                count);
}

static void test_page(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct mt_judged_run run;
    char path[512];
    size_t count = 0;
    void *page = NULL;
    size_t bytes = 0;
    mt_context_init(&ctx, NULL);
    write_run(place);
    assert_int_equal(mt_judged_run_read(&ctx, place->directory, NULL, &run), MT_OK);
    assert_int_equal(write_page(&ctx, &run, place, 2, &count), MT_OK);
    assert_int_equal(count, 2);
    assert_int_equal(write_page(&ctx, &run, place, 100, &count), MT_OK);
    assert_int_equal(count, 3);
    assert_int_equal(mt_file_read_all(&ctx, workplace_path(place, "page.html", path, sizeof path),
                                      (size_t)1 << 20, &page, &bytes),
                     MT_OK);
    struct mt_byte_list text = {.ctx = &ctx};
    assert_int_equal(mt_byte_list_append(&text, page, bytes), MT_OK);
    assert_int_equal(mt_byte_list_append(&text, "", 1), MT_OK);
    const char *whole = (const char *)text.data;
    assert_null(strstr(whole, HOSTILE));
    assert_non_null(strstr(whole, "\\u003c/script\\u003e\\u003cimg src=x onerror=alert(1)\\u003e\\u0026lt;"));
    assert_null(strstr(whole, "{data}"));
    mt_byte_list_free(&text);
    mt_release(&ctx, page, bytes);
    mt_judged_run_free(&run);
    assert_int_equal(ctx.live_bytes, 0);
    workplace_clear(place);
}

static enum mt_status run_everything(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct mt_judged_run run;
    struct mt_byte_list out = {.ctx = ctx};
    struct mt_byte_list body = {.ctx = ctx};
    char path[512];
    enum mt_status status = mt_judged_run_read(ctx, place->directory, "t", &run);
    if (status == MT_OK)
        status =
            mt_review_marks_merge(ctx, &run, workplace_path(place, "marks.json", path, sizeof path), NULL);
    if (status == MT_OK) status = mt_agreement_store(ctx, &run);
    if (status == MT_OK) status = write_page(ctx, &run, place, 0, NULL);
    if (status == MT_OK)
        status = mt_judge_prompt_render(ctx, "{mark}{answer}", &run.tasks[0].samples[0], &out);
    if (status == MT_OK) status = mt_chat_request("m", mt_text_in(&out), 5, true, &body);
    mt_byte_list_free(&body);
    mt_byte_list_free(&out);
    mt_judged_run_free(&run);
    return status;
}

static void test_memory(void **state)
{
    write_run(*state);
    assert_every_allocation_may_fail(run_everything, *state, 1);
    workplace_clear(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cohen),
        cmocka_unit_test(test_degenerate),
        cmocka_unit_test(test_fleiss),
        cmocka_unit_test(test_prompt),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_member),
        cmocka_unit_test_setup_teardown(test_run, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_bad_marks, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_page, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_memory, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
