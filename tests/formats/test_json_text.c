/* JSON being written: numbers, strings, and the first failure, which stays. */
#include <math.h>
#include <stdio.h>

#include "formats/text/json_text.h"
#include "support/cmocka_all.h"

/* JSON has no NaN and no infinity: null. */
static void test_numbers(void **state)
{
    (void)state;
    static const double numbers[] = {1.5, (double)NAN, (double)INFINITY, -(double)INFINITY, 0.1};
    static const char expected[] = "[1.5, null, null, null, 0.1]null -2.35";
    struct mt_context ctx;
    struct mt_json_text text;
    mt_context_init(&ctx, NULL);
    mt_json_text_init(&text, &ctx);
    assert_int_equal(mt_json_text_numbers(&text, numbers, 5), MT_OK);
    assert_int_equal(mt_json_text_rounded(&text, (double)NAN, 3), MT_OK);
    assert_int_equal(mt_json_text_format(&text, " "), MT_OK);
    assert_int_equal(mt_json_text_rounded(&text, -2.3456, 3), MT_OK);
    assert_int_equal(text.length, sizeof expected - 1);
    assert_memory_equal(text.bytes, expected, text.length);
    mt_json_text_free(&text);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Whoever puts a text together asks once, at its end: nothing comes after a failure, and it is not forgotten.
 */
static void test_first_failure_stays(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_json_text text;
    char message[MT_MESSAGE_BYTES];
    mt_context_init(&ctx, NULL);
    mt_json_text_init(&text, &ctx);
    mt_json_text_format(&text, "{\"name\": ");
    size_t length = text.length;
    assert_int_equal(mt_json_text_string(&text, "\xff"), MT_ERR_USAGE);
    (void)snprintf(message, sizeof message, "%s", ctx.message);
    assert_int_equal(mt_json_text_format(&text, "}"), MT_ERR_USAGE);
    assert_int_equal(mt_json_text_bytes(&text, "\xff", 1), MT_ERR_USAGE);
    assert_int_equal(mt_json_text_number(&text, 1.0), MT_ERR_USAGE);
    assert_int_equal(text.status, MT_ERR_USAGE);
    assert_int_equal(text.length, length);
    assert_string_equal(ctx.message, message);
    assert_int_equal(mt_json_text_save(&text, "/nowhere/text.json"), MT_ERR_USAGE); // not even tried
    assert_string_equal(ctx.message, message);
    assert_int_equal(text.status, MT_OK); // it can be used again
    assert_int_equal(ctx.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_first_failure_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
