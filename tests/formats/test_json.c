/* JSON access: limits, refusals, and messages that name file and key path. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "formats/text/json.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

static enum mt_status parse(struct mt_context *ctx, const char *text, struct mt_json *json)
{
    return mt_json_parse(ctx, "file.json", text, strlen(text), &mt_json_file_limits, json);
}

static void malformed_texts_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "[1,",
        "{\"a\": 1, \"a\": 2}",
        "{\"a\": NaN}",
        "{\"a\": Infinity}",
        "{\"a\": 1e999}",
        "{\"a\": 99999999999999999999}",
        "{\"a\": \"\\u0000\"}",
        "{\"a\": \"\xff\"}",
        "{\"a\": 01}",
        "{} {}",
        "3",
        "\"text\"",
    };
    struct mt_context ctx;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        mt_context_init(&ctx, NULL);
        struct mt_json json;
        assert_int_equal(parse(&ctx, texts[i], &json), MT_ERR_FORMAT);
        assert_non_null(strstr(ctx.message, "file.json"));
        mt_json_free(&json);
    }
}

static void limits_hold(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_json json;
    struct mt_json_limits limits = {.max_bytes = 20, .max_values = 5, .max_depth = 3};
    assert_int_equal(mt_json_parse(&ctx, "f", "[[[1]]]", 7, &limits, &json), MT_OK);
    mt_json_free(&json);
    assert_int_equal(mt_json_parse(&ctx, "f", "[[[[1]]]]", 9, &limits, &json), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "nested more than 3"));
    assert_int_equal(mt_json_parse(&ctx, "f", "[1,2,3,4,5,6]", 13, &limits, &json), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "values"));
    assert_int_equal(mt_json_parse(&ctx, "f", "[1111111111111111111111]", 24, &limits, &json), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "the limit is 20"));
    // Brackets inside strings are text.
    assert_int_equal(mt_json_parse(&ctx, "f", "[\"[[[[\\\"[[\"]", 12, &limits, &json), MT_OK);
    mt_json_free(&json);
}

static void deep_nesting_never_recurses(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    size_t bytes = 1000000;
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, '[', bytes);
    struct mt_json json;
    assert_int_equal(mt_json_parse(&ctx, "deep", text, bytes, &mt_json_file_limits, &json), MT_ERR_FORMAT);
    free(text);
}

static void values_are_read(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_json json;
    assert_int_equal(
        parse(&ctx, "{\"i\": -7, \"r\": 2.5, \"b\": true, \"s\": \"x\", \"n\": null, \"o\": {\"k\": [4, 5]}}",
              &json),
        MT_OK);
    struct mt_json_node root = mt_json_root(&json);
    int64_t integer = 0;
    double real = 0.0;
    bool flag = false;
    const char *text = NULL;
    assert_int_equal(mt_json_get_integer(&root, "i", -10, 10, &integer), MT_OK);
    assert_int_equal(integer, -7);
    assert_int_equal(mt_json_get_real(&root, "r", 0, 10, &real), MT_OK);
    assert_true(real == 2.5);
    assert_int_equal(mt_json_get_real(&root, "i", -10, 10, &real), MT_OK); // a whole number is a number
    assert_true(real == -7.0);
    assert_int_equal(mt_json_get_bool(&root, "b", &flag), MT_OK);
    assert_true(flag);
    assert_int_equal(mt_json_get_string(&root, "s", &text), MT_OK);
    assert_string_equal(text, "x");
    integer = 42;
    assert_int_equal(mt_json_optional_integer(&root, "n", 0, 1, &integer), MT_OK); // null is absent
    assert_int_equal(mt_json_optional_integer(&root, "nowhere", 0, 1, &integer), MT_OK);
    assert_int_equal(integer, 42);
    struct mt_json_node object;
    struct mt_json_node list;
    assert_int_equal(mt_json_get_object(&root, "o", &object), MT_OK);
    assert_int_equal(mt_json_get_array(&object, "k", &list), MT_OK);
    assert_int_equal(mt_json_count(&list), 2);
    struct mt_json_node second = mt_json_element(&list, 1);
    assert_int_equal(mt_json_as_integer(&second, 0, 9, &integer), MT_OK);
    assert_int_equal(integer, 5);
    // The path of a nested failure.
    assert_int_equal(mt_json_as_string(&second, &text), MT_ERR_FORMAT);
    assert_string_equal(ctx.message, "file.json: o.k[1] is a whole number, expected a string");
    mt_json_free(&json);
}

static void wrong_values_are_named(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_json json;
    assert_int_equal(parse(&ctx, "{\"i\": 7, \"r\": 2.5, \"s\": \"x\\u001b[31m\", \"o\": {}}", &json), MT_OK);
    struct mt_json_node root = mt_json_root(&json);
    int64_t integer = 0;
    double real = 0.0;
    bool flag = false;
    struct mt_json_node child;
    assert_int_equal(mt_json_get_integer(&root, "i", 0, 6, &integer), MT_ERR_FORMAT);
    assert_string_equal(ctx.message, "file.json: i is 7, expected 0 to 6");
    assert_int_equal(mt_json_get_integer(&root, "r", 0, 6, &integer), MT_ERR_FORMAT);
    assert_string_equal(ctx.message, "file.json: r is 2.5, expected a whole number");
    assert_int_equal(mt_json_get_integer(&root, "missing", 0, 6, &integer), MT_ERR_FORMAT);
    assert_string_equal(ctx.message, "file.json: missing is missing");
    assert_int_equal(mt_json_get_real(&root, "s", 0, 6, &real), MT_ERR_FORMAT);
    assert_string_equal(ctx.message, "file.json: s is the string \"x?[31m\", expected a number");
    assert_int_equal(mt_json_get_bool(&root, "o", &flag), MT_ERR_FORMAT);
    assert_int_equal(mt_json_get_array(&root, "o", &child), MT_ERR_FORMAT);
    assert_int_equal(mt_json_get_object(&root, "i", &child), MT_ERR_FORMAT);
    assert_int_equal(mt_json_get_real(&root, "i", 8, DBL_MAX, &real), MT_ERR_FORMAT);
    mt_json_free(&json);
}

static void huge_numbers_when_asked(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_json json;
    struct mt_json_limits limits = mt_json_file_limits;
    limits.integers_as_real = true;
    const char *text = "{\"n\": 1000000000000000019884624838656}";
    assert_int_equal(mt_json_parse(&ctx, "f", text, strlen(text), &limits, &json), MT_OK);
    struct mt_json_node root = mt_json_root(&json);
    double value = 0.0;
    assert_int_equal(mt_json_get_real(&root, "n", 0, 1e300, &value), MT_OK);
    assert_true(value > 9.9e29 && value < 1.1e30);
    mt_json_free(&json);
}

static enum mt_status read_once(struct mt_context *ctx, const void *self)
{
    struct mt_json json;
    enum mt_status status = mt_json_read(ctx, self, &mt_json_file_limits, &json);
    mt_json_free(&json);
    return status;
}

static void files_are_read(void **state)
{
    const struct workplace *place = *state;
    char path[128];
    assert_int_equal(workplace_write(place, "a.json", "[1]", 3), 0);
    workplace_path(place, "a.json", path, sizeof path);
    assert_every_allocation_may_fail(read_once, path, 1);
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_json json;
    workplace_path(place, "none.json", path, sizeof path);
    assert_int_equal(mt_json_read(&ctx, path, &mt_json_file_limits, &json), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "none.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_texts_are_refused),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(deep_nesting_never_recurses),
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(wrong_values_are_named),
        cmocka_unit_test(huge_numbers_when_asked),
        cmocka_unit_test_setup_teardown(files_are_read, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
