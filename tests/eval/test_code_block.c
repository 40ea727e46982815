/*
 * The program in an answer, on answers labelled by hand (tests/eval/cases/code_blocks.jsonl), on hostile
 * ones, and with every allocation failing in turn.
 */
#include <stdio.h>
#include <stdlib.h>

#include "eval/code/code_block.h"
#include "support/cmocka_all.h"
#include "support/eval_cases.h"
#include "support/every_allocation.h"

static bool program_is_right(struct mt_context *ctx, const struct mt_row *row)
{
    struct mt_byte_list got = {.ctx = ctx};
    struct mt_text want = eval_case_text(row, "want");
    bool found = false;
    assert_int_equal(mt_code_find(eval_case_text(row, "text"), eval_case_text(row, "wanted"), &got, &found),
                     MT_OK);
    bool right = mt_text_same(want, mt_text_in(&got)) && found == (want.bytes > 0);
    if (!right)
        print_message("%s: wanted\n%.*s\ngot\n%.*s\n", eval_case_text(row, "name").text, (int)want.bytes,
                      want.text, (int)got.count, (const char *)got.data);
    mt_byte_list_free(&got);
    return right;
}

static void test_cases(void **state)
{
    (void)state;
    eval_cases_check("code_blocks.jsonl", 40, program_is_right);
}

/* Fences, definitions and tags without end are read in a time that grows with them, not with their square. */
static void test_hostile(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "```\n", "```\n    ```\n", "def f", "def f(x):\n", "</think>", "<think>", "'''",
        "\"",    "f = ",           "~~~",   "import a\n"};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct mt_byte_list text = {.ctx = &ctx};
        struct mt_byte_list got = {.ctx = &ctx};
        bool found = false;
        while (text.count < 200000) assert_int_equal(mt_byte_list_append_text(&text, pieces[i]), MT_OK);
        assert_int_equal(mt_code_find(mt_text_in(&text), text_of("assert f(1)"), &got, &found), MT_OK);
        assert_int_equal(found, got.count > 0);
        mt_byte_list_free(&text);
        mt_byte_list_free(&got);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status find_joined(struct mt_context *ctx, const void *self)
{
    struct mt_byte_list got = {.ctx = ctx};
    bool found = false;
    enum mt_status status = mt_code_find(text_of(self), text_of("assert f(1) == g(2)"), &got, &found);
    mt_byte_list_free(&got);
    return status;
}

static void test_every_allocation_failing(void **state)
{
    (void)state;
    static const char answer[] =
        "```\nimport math\n```\n```\ndef g(x): return math.pi\n```\n```\ndef f(x): return x\n```\n";
    assert_every_allocation_may_fail(find_joined, answer, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_every_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
