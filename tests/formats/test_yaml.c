/* YAML: trees with lines, what is refused and where, limits, memory. */
#include "formats/text/yaml.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

struct fixture {
    struct mt_context ctx;
    struct mt_arena arena;
};

static void begin(struct fixture *fixture)
{
    mt_context_init(&fixture->ctx, NULL);
    mt_arena_init(&fixture->arena, &fixture->ctx, 4096);
}

static void end(struct fixture *fixture)
{
    mt_arena_free(&fixture->arena);
    assert_int_equal(fixture->ctx.live_bytes, 0);
}

static enum mt_status parse(struct fixture *fixture, const char *file, const char *text,
                            struct mt_yaml_node **root)
{
    return mt_yaml_parse(&fixture->ctx, file, text, strlen(text), &mt_yaml_file_limits, &fixture->arena,
                         root);
}

static const struct mt_yaml_node *child(const struct mt_yaml_node *node, size_t index)
{
    const struct mt_yaml_node *at = node->first;
    for (; index > 0; index--) at = at->next;
    return at;
}

static void expect_scalar(const struct mt_yaml_node *node, const char *key, int line, const char *text,
                          bool quoted)
{
    assert_int_equal(node->kind, MT_YAML_SCALAR);
    if (key == NULL) assert_null(node->key);
    if (key != NULL) assert_string_equal(node->key, key);
    assert_int_equal(node->line, line);
    assert_string_equal(node->text, text);
    assert_int_equal(node->quoted, quoted);
}

static void trees(void **state)
{
    (void)state;
    static const char text[] = "# a comment\n"
                               "a: 1e-4\n"
                               "b:\n"
                               "  c: \"two\\nlines\"\n"
                               "  'd': [x, 'y', {z: 1}]\n"
                               "e:\n"
                               "- first\n"
                               "-\n"
                               "  path: |\n"
                               "    block\n"
                               "f:\n"
                               "g: ~\n"
                               "h: \"~\"\n"
                               "\xC3\xA9: \xE2\x82\xAC\n";
    struct fixture fixture;
    struct mt_yaml_node *root = NULL;
    begin(&fixture);
    assert_int_equal(parse(&fixture, "t", text, &root), MT_OK);
    assert_int_equal(root->kind, MT_YAML_MAP);
    assert_int_equal(root->count, 7);
    expect_scalar(child(root, 0), "a", 2, "1e-4", false);
    const struct mt_yaml_node *b = child(root, 1);
    assert_int_equal(b->kind, MT_YAML_MAP);
    assert_int_equal(b->line, 3);
    expect_scalar(child(b, 0), "c", 4, "two\nlines", true);
    const struct mt_yaml_node *d = child(b, 1);
    assert_int_equal(d->kind, MT_YAML_LIST);
    assert_int_equal(d->count, 3);
    expect_scalar(child(d, 0), NULL, 5, "x", false);
    expect_scalar(child(d, 1), NULL, 5, "y", true);
    expect_scalar(child(child(d, 2), 0), "z", 5, "1", false);
    const struct mt_yaml_node *e = child(root, 2);
    expect_scalar(child(e, 0), NULL, 7, "first", false);
    expect_scalar(child(child(e, 1), 0), "path", 9, "block\n", true);
    assert_true(mt_yaml_is_nothing(child(root, 3)));
    assert_true(mt_yaml_is_nothing(child(root, 4)));
    assert_false(mt_yaml_is_nothing(child(root, 5)));
    expect_scalar(child(root, 6), "\xC3\xA9", 14, "\xE2\x82\xAC", false);
    assert_string_equal(mt_yaml_kind_text(child(root, 3)), "nothing");
    assert_string_equal(mt_yaml_kind_text(d), "a list");
    end(&fixture);
}

static void no_document(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n", "# nothing here", "\xEF\xBB\xBF", "---", "{}"};
    struct fixture fixture;
    begin(&fixture);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct mt_yaml_node *root = NULL;
        assert_int_equal(parse(&fixture, "t", texts[i], &root), MT_OK);
        assert_true(mt_yaml_is_nothing(root) || (root->kind == MT_YAML_MAP && root->count == 0));
    }
    end(&fixture);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"a: 1\nb: 2\na: 3\n", "t:3: 'a' is given twice, first in line 1"},
        {"x:\n  a: 1\n  'a': 3\n", "t:3: 'a' is given twice, first in line 2"},
        {"a: &here 1\n", "t:1: an anchor ('&here'): anchors and aliases are not supported, write it out"},
        {"a: &m {b: 1}\n", "t:1: an anchor ('&m'): anchors and aliases are not supported, write it out"},
        {"a: &l [b]\n", "t:1: an anchor ('&l'): anchors and aliases are not supported, write it out"},
        {"a: 1\nb: *here\n",
         "t:2: an alias ('*here'): quote a text that begins with '*'; aliases are not supported"},
        {"a: !!str 1\n", "t:1: a tag ('tag:yaml.org,2002:str'): tags are not supported, leave it out"},
        {"a: !x [1]\n", "t:1: a tag ('!x'): tags are not supported, leave it out"},
        {"a: 1\n---\nb: 2\n", "t:2: a second document begins, expected one"},
        {"a: 1\n...\n---\n{}\n", "t:3: a second document begins, expected one"},
        {"? [a]\n: 1\n", "t:1: a key is a list; keys are plain words"},
        {"{a: 1}: 2\n", "t:1: a key is a map; keys are plain words"},
        {"a: \"x\\0y\"\n", "t:1: a text holds a zero byte"},
        {"a: [1, 2\nb: 3\n",
         "t:2: not valid YAML: while parsing a flow sequence, did not find expected ',' or ']'"},
        {"a: 1\n b: 2\n", "t:2: not valid YAML: mapping values are not allowed in this context"},
        {"a: 1\nb\n", "t:3: not valid YAML: while scanning a simple key, could not find expected ':'"},
        {"a:\n\t- 1\n",
         "t:2: not valid YAML: while scanning for the next token, found character that cannot start any "
         "token"},
        {"a: \"x\n", "t:2: not valid YAML: while scanning a quoted scalar, found unexpected end of stream"},
        {"a: 1\nb: \xFF\n", "t:2: not valid YAML: invalid leading UTF-8 octet"},
        {"a: 1\nb: \x01\n", "t:2: not valid YAML: control characters are not allowed"},
    };
    struct fixture fixture;
    begin(&fixture);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_yaml_node *root = NULL;
        assert_int_equal(parse(&fixture, "t", cases[i].text, &root), MT_ERR_FORMAT);
        assert_string_equal(fixture.ctx.message, cases[i].message);
        assert_null(root);
    }
    struct mt_yaml_node *root = NULL;
    assert_int_equal(parse(&fixture, NULL, "{a: 1, a: 2}", &root), MT_ERR_FORMAT);
    assert_string_equal(fixture.ctx.message, "'a' is given twice");
    end(&fixture);
}

static void limits_hold(void **state)
{
    (void)state;
    const struct mt_yaml_limits limits = {.max_bytes = 40, .max_nodes = 5, .max_depth = 3};
    static const struct {
        const char *text;
        const char *message; // NULL: within the limits
    } cases[] = {
        {"[[[1]]]", NULL},
        {"[[[[1]]]]", "t:1: lists and maps nested more than 3 levels deep"},
        {"a: {b: {c: [1]}}", "t:1: lists and maps nested more than 3 levels deep"},
        {"[1,\n2, 3, 4]", NULL},
        {"[1, 2, 3, 4,\n5]", "t:2: more than 5 values"},
        {"a: 1111111111111111111111111111111111111", NULL},
        {"a: 11111111111111111111111111111111111111", "t:1: YAML of 41 bytes, the limit is 40"},
    };
    struct fixture fixture;
    begin(&fixture);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_yaml_node *root = NULL;
        enum mt_status status = mt_yaml_parse(&fixture.ctx, "t", cases[i].text, strlen(cases[i].text),
                                              &limits, &fixture.arena, &root);
        assert_int_equal(status, cases[i].message == NULL ? MT_OK : MT_ERR_FORMAT);
        if (cases[i].message != NULL) assert_string_equal(fixture.ctx.message, cases[i].message);
    }
    // Limits beyond the parser's own stack are its stack.
    const struct mt_yaml_limits wide = {.max_bytes = 10000, .max_nodes = 10000, .max_depth = 1000};
    char deep[200];
    struct mt_yaml_node *root = NULL;
    memset(deep, '[', sizeof deep);
    assert_int_equal(mt_yaml_parse(&fixture.ctx, "t", deep, sizeof deep, &wide, &fixture.arena, &root),
                     MT_ERR_FORMAT);
    assert_string_equal(fixture.ctx.message, "t:1: lists and maps nested more than 64 levels deep");
    end(&fixture);
}

static enum mt_status read_file(struct mt_context *ctx, const void *self)
{
    struct mt_arena arena;
    struct mt_yaml_node *root = NULL;
    mt_arena_init(&arena, ctx, 64);
    enum mt_status status = mt_yaml_read(ctx, self, &mt_yaml_file_limits, &arena, &root);
    mt_arena_free(&arena);
    return status;
}

static void files_and_memory(void **state)
{
    struct workplace *place = *state;
    static const char text[] = "a: [1, two, 'three']\nb: {c: d}\n";
    char path[256];
    assert_int_equal(workplace_write(place, "t.yaml", text, sizeof text - 1), 0);
    workplace_path(place, "t.yaml", path, sizeof path);
    assert_every_allocation_may_fail(read_file, path, 9);
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    workplace_path(place, "none.yaml", path, sizeof path);
    assert_int_equal(read_file(&ctx, path), MT_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees),
        cmocka_unit_test(no_document),
        cmocka_unit_test(refused),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test_setup_teardown(files_and_memory, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
