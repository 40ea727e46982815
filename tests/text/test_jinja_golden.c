/*
 * Chat templates in Jinja against what jinja2 makes of them: expressions, small templates, and the templates
 * of tests/fuzz/seeds/jinja with conversations. golden/jinja.json is made by tests/parity/template_golden.py.
 * Tests src/text/jinja.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file.h"
#include "support/cmocka_all.h"
#include "text/jinja/jinja.h"

struct golden {
    struct mt_context ctx;
    struct mt_json json;
};

static char path[1024];

static const char *tests_folder(void)
{
    const char *given = getenv("METIER_TESTS");
    return given != NULL ? given : "tests";
}

static void open_golden(struct golden *golden)
{
    mt_context_init(&golden->ctx, NULL);
    (void)snprintf(path, sizeof path, "%s/text/golden/jinja.json", tests_folder());
    if (mt_json_read(&golden->ctx, path, &mt_json_file_limits, &golden->json) != MT_OK)
        fail_msg("%s", golden->ctx.message);
}

static void close_golden(struct golden *golden)
{
    mt_json_free(&golden->json);
    assert_int_equal(golden->ctx.live_bytes, 0);
}

static struct mt_json_node member(const struct mt_json_node *object, const char *key)
{
    struct mt_json_node child;
    assert_true(mt_json_member(object, key, &child));
    return child;
}

/* Renders with the members of `variables`; the caller frees the output. */
static enum mt_status render(struct mt_context *ctx, const char *text, const struct mt_json_node *variables,
                             struct mt_jinja_output *output)
{
    const struct tm now = {.tm_year = 124,
                           .tm_mon = 6,
                           .tm_mday = 26,
                           .tm_hour = 13,
                           .tm_min = 5,
                           .tm_sec = 9,
                           .tm_wday = 5,
                           .tm_yday = 207};
    const struct mt_jinja_options options = {.now = &now};
    struct mt_jinja *template = NULL;
    struct mt_jinja_values *values = NULL;
    struct mt_json_node child;
    void *position = NULL;
    *output = (struct mt_jinja_output){0};
    enum mt_status status = mt_jinja_parse(ctx, "golden", text, strlen(text), &template);
    if (status != MT_OK) return status;
    assert_int_equal(mt_jinja_values_create(ctx, &values), MT_OK);
    while (mt_json_next(variables, &position, &child)) {
        struct mt_value value;
        value = mt_jinja_from_json(values, &child, 1);
        mt_jinja_values_set(values, child.key, value);
        assert_int_equal(mt_jinja_values_status(values), MT_OK);
    }
    status = mt_jinja_render(template, values, &options, output);
    mt_jinja_values_free(values);
    mt_jinja_free(template);
    return status;
}

/* Holds a rendering to a node: a text, or null where jinja2 raises. */
static bool check(struct mt_context *ctx, const char *name, const char *text,
                  const struct mt_json_node *variables, const struct mt_json_node *expected)
{
    struct mt_jinja_output output;
    const char *wanted = NULL;
    enum mt_status status = render(ctx, text, variables, &output);
    bool raises = mt_json_kind(expected) == MT_JSON_NULL;
    if (!raises) assert_int_equal(mt_json_as_string(expected, &wanted), MT_OK);
    bool same = raises ? status != MT_OK : status == MT_OK && strcmp(output.text, wanted) == 0;
    if (!same) {
        print_error("%s\n  jinja2: %s\n  here:   %s\n", name, raises ? "(raises)" : wanted,
                    status == MT_OK ? output.text : ctx->message);
    }
    mt_jinja_output_free(&output);
    return same;
}

static void small_templates(void **state)
{
    (void)state;
    struct golden golden;
    size_t wrong = 0;
    open_golden(&golden);
    struct mt_json_node root = mt_json_root(&golden.json);
    struct mt_json_node variables = member(&root, "variables");
    struct mt_json_node small = member(&root, "small");
    assert_true(mt_json_count(&small) > 1000);
    for (size_t i = 0; i < mt_json_count(&small); i++) {
        struct mt_json_node pair = mt_json_element(&small, i);
        struct mt_json_node given = mt_json_element(&pair, 0);
        struct mt_json_node expected = mt_json_element(&pair, 1);
        const char *text = NULL;
        assert_int_equal(mt_json_as_string(&given, &text), MT_OK);
        wrong += !check(&golden.ctx, text, text, &variables, &expected);
    }
    assert_int_equal(wrong, 0);
    close_golden(&golden);
}

static void whole_templates(void **state)
{
    (void)state;
    struct golden golden;
    size_t wrong = 0;
    open_golden(&golden);
    struct mt_json_node root = mt_json_root(&golden.json);
    struct mt_json_node cases = member(&root, "cases");
    struct mt_json_node whole = member(&root, "whole");
    assert_true(mt_json_count(&whole) >= 9);
    for (size_t i = 0; i < mt_json_count(&whole); i++) {
        struct mt_json_node item = mt_json_element(&whole, i);
        struct mt_json_node outputs = member(&item, "outputs");
        const char *name = NULL;
        void *text = NULL;
        size_t bytes = 0;
        assert_int_equal(mt_json_get_string(&item, "template", &name), MT_OK);
        (void)snprintf(path, sizeof path, "%s/fuzz/seeds/jinja/%s", tests_folder(), name);
        if (mt_file_read_all(&golden.ctx, path, (size_t)1 << 20, &text, &bytes) != MT_OK)
            fail_msg("%s", golden.ctx.message);
        char *copy = test_malloc(bytes + 1);
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
        mt_release(&golden.ctx, text, bytes);
        assert_int_equal(mt_json_count(&outputs), mt_json_count(&cases));
        for (size_t j = 0; j < mt_json_count(&cases); j++) {
            struct mt_json_node variables = mt_json_element(&cases, j);
            struct mt_json_node expected = mt_json_element(&outputs, j);
            wrong += !check(&golden.ctx, name, copy, &variables, &expected);
        }
        test_free(copy);
    }
    assert_int_equal(wrong, 0);
    close_golden(&golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_templates), cmocka_unit_test(whole_templates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
