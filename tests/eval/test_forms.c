/* The file of forms: what comes along compiles for every kind of value; a broken one is refused with its
 * line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/answers/forms.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

static const char *const words[] = {"yes", "no", "plausible=yes", NULL};

#define HEAD "parts:\n  a: 'x{{b}}'\n  b: 'y'\nvalues:\n  any: '(z)'\n  word: '({{words}})'\nforms:\n"

static enum mt_status read_kind(struct mt_context *ctx, const char *text, enum mt_statement_kind kind,
                                struct mt_forms *forms)
{
    return mt_forms_read(ctx, "f.yaml", mt_text_of(text), kind, words, forms);
}

static void test_own(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (int kind = 0; kind < MT_STATE_KINDS; kind++) {
        struct mt_forms forms;
        assert_int_equal(mt_forms_open(&ctx, (enum mt_statement_kind)kind, words, &forms), MT_OK);
        assert_true(forms.count > 2);
        assert_true((forms.denial != NULL) == (kind != MT_STATE_TEXT));
        mt_forms_free(&forms);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

/* Parts, parts in parts, a brace of the pattern's own before one, and the task's words. */
static void test_parts(void **state)
{
    (void)state;
    static const char text[] = HEAD "  - rank: 2\n    for: [letter]\n    value: any\n    before: '\\{{{a}}'\n"
                                    "  - rank: 0\n    for: [word]\n    after: '!'\n    only: once\n";
    struct mt_context ctx;
    struct mt_forms forms;
    struct mt_pattern_match match;
    mt_context_init(&ctx, NULL);
    assert_int_equal(read_kind(&ctx, text, MT_STATE_LETTER, &forms), MT_OK);
    assert_int_equal(forms.count, 1);
    assert_int_equal(forms.each[0].rank, 2);
    assert_true(mt_pattern_find(forms.each[0].pattern, "..{xyz", 6, 0, &match));
    assert_int_equal(match.start, 5);
    mt_forms_free(&forms);
    assert_int_equal(read_kind(&ctx, text, MT_STATE_WORD, &forms), MT_OK);
    assert_true(forms.count == 1 && forms.each[0].once && !forms.each[0].corrects);
    assert_true(mt_pattern_find(forms.each[0].pattern, "Plausible!", 10, 0, &match));
    assert_false(mt_pattern_find(forms.each[0].pattern, "perhaps!", 8, 0, &match));
    mt_forms_free(&forms);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_broken(void **state)
{
    (void)state;
    static const char *const files[][2] = {
        {"forms: 3\n", "f.yaml:1: there is no list of 'forms'"},
        {"- a\n", "f.yaml:1: forms are a map"},
        {HEAD "  - x\n", "f.yaml:8: a form is a map"},
        {HEAD "  - for: [letter]\n    value: any\n", "f.yaml:8: a form lacks its 'rank'"},
        {HEAD "  - rank: 7\n    for: [letter]\n", "f.yaml:8: expected one of '0|1|2|3|4'"},
        {HEAD "  - rank: 1\n    for: [letter]\n    value: none\n", "f.yaml:10: expected one of 'any|"},
        {HEAD "  - rank: 1\n    for: [letter]\n    value: capital\n", "f.yaml:8: there is no value"},
        {HEAD "  - rank: 1\n    form: [letter]\n", "f.yaml:9: a form has no key 'form'"},
        {HEAD "  - rank: 1\n    for: [letter]\n    value: any\n    only: 'a|b'\n",
         "f.yaml:11: expected one of"},
        {HEAD "  - rank: 1\n    for: [letter]\n    value: any\n    before: '{{c}}'\n",
         "f.yaml:11: there is no part 'c'"},
        {HEAD "  - rank: 1\n    for: [letter]\n    value: any\n    before: '{{c'\n", "f.yaml:11: an open {{"},
        {HEAD "  - rank: 1\n    for: [letter]\n    value: any\n    after: '(a'\n", "f.yaml:8: "},
        {HEAD "  - rank: 1\n    for: [letter]\n    value: any\n    after: [a]\n", "f.yaml:11: no pattern"},
        {"parts:\n  a: '{{b}}{{b}}'\n  b: '{{a}}{{a}}'\nvalues:\n  any: '{{a}}'\nforms:\n  - rank: 1\n"
         "    for: [letter]\n    value: any\n",
         "parts without end"},
        {"form:\n  - a\n", "f.yaml:1: there is no section 'form'"},
        {"denials:\n  letter: '{{c}}'\n", "f.yaml:2: there is no part 'c'"},
        {"forms: [\n", "f.yaml:"},
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct mt_forms forms;
        enum mt_status status = read_kind(&ctx, files[i][0], MT_STATE_LETTER, &forms);
        mt_forms_free(&forms);
        if (status == MT_OK || strstr(ctx.message, files[i][1]) == NULL)
            print_message("%s\n%s\n", files[i][0], ctx.message);
        assert_true(status != MT_OK);
        assert_non_null(strstr(ctx.message, files[i][1]));
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status open_once(struct mt_context *ctx, const void *self)
{
    struct mt_forms forms;
    (void)self;
    enum mt_status status =
        read_kind(ctx, HEAD "  - rank: 0\n    for: [word]\n    before: '{{a}}'\n", MT_STATE_WORD, &forms);
    mt_forms_free(&forms);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(open_once, NULL, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
