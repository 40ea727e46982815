/* The engine of keys on a table of its own: every kind, ranges, suggestions, words, elements, the text, the
 * schema. */
#include "formats/keys/keys.h"

#include <stddef.h>
#include <string.h>

#include "formats/text/json.h"
#include "formats/text/json_text.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

enum colour { RED, GREEN, BLUE };

struct box {
    const char *name;
    const char *note;
    const char *const *tags;
    const char *const *lines;
    double width, fit;
    int sides;
    int64_t weight;
    uint64_t seed;
    enum colour colour;
    bool open, flat;
    int total;
    int64_t inner_depth;
};

#define AT(field) offsetof(struct box, field)

/* Adds up the elements of a list. */
static enum mt_status add(const struct mt_keys_reader *reader, const struct mt_key_entry *entry, void *target)
{
    static const struct mt_key_row row = {.kind = MT_KEY_INT, .values = "WHOLE NUMBERS >= 1"};
    struct mt_key_entry number = *entry;
    int value = 0;
    number.row = &row;
    enum mt_status status = mt_key_store(reader, &number, &value);
    ((struct box *)target)->total += value;
    return status;
}

static const struct mt_key_row rows[] = {
    {"name", MT_KEY_NAME, AT(name), "NAME", "box", .meaning = "what it is called", .title = "A box"},
    {"note", MT_KEY_TEXT, AT(note), "TEXT", "none", .meaning = "about it", .also = "remark|comment"},
    {"tags", MT_KEY_LIST, AT(tags), "LIST", "none", .meaning = "words"},
    {"lines", MT_KEY_TEXTS, AT(lines), "LIST OF TEXTS", "none", .meaning = "texts"},
    {"size.width", MT_KEY_NUMBER, AT(width), "NUMBER > 0 and <= 2", "1", .meaning = "in metres",
     .title = "Sizes"},
    {"size.fit", MT_KEY_NUMBER, AT(fit), "auto|NUMBER > 0", "auto", .meaning = "how well"},
    {"size.sides", MT_KEY_INT, AT(sides), "3 to 8", "4", .meaning = "of it"},
    {"weight", MT_KEY_WHOLE, AT(weight), "WHOLE NUMBER >= 1", "10", .meaning = "in kg", .most = 1e6},
    {"seed", MT_KEY_SEED, AT(seed), "WHOLE NUMBER >= 0", "0", .meaning = "any"},
    {"colour", MT_KEY_CHOICE, AT(colour), "red|green|blue", "green", .meaning = "of paint"},
    {"lid", MT_KEY_SWITCH, AT(open), "shut|open", "shut", .meaning = "above", .instead = "flat"},
    {"flat", MT_KEY_FLAG, AT(flat), "true|false", "false", .meaning = "without a lid"},
    {"parts", MT_KEY_EACH, 0, "NUMBERS", "none", .meaning = "added up", .set = add},
    {0},
};

static const struct mt_key_row inner_rows[] = {
    {"depth", MT_KEY_WHOLE, 0, "WHOLE NUMBER >= 0", "0", .meaning = "of the inner one"},
    {0},
};

static const struct mt_key_part parts[] = {
    {.rows = rows},
    {.rows = inner_rows, .prefix = "inner.", .base = AT(inner_depth), .standard = "the maker's"},
    {0},
};

static const struct mt_keys keys = {.parts = parts};

static enum mt_status read_box(struct mt_context *ctx, struct mt_arena *arena, const char *text,
                               const char *word, struct box *box)
{
    struct mt_keys_reader reader = {.ctx = ctx, .arena = arena, .file = "t", .keys = &keys, .target = box};
    *box = (struct box){.inner_depth = 7};
    return mt_keys_read(&reader, text, strlen(text), &word, word != NULL);
}

static const char everything[] = "name: 'a b'\nnote:\ntags: a, b\nlines: ['', 'c,d']\n"
                                 "size: {width: 2, fit: 0.5, sides: 8}\nweight: 1000000\n"
                                 "seed: 18446744073709551615\ncolour: blue\nflat: yes\n"
                                 "parts: [1, 2, 3]\ninner.depth: 9\n";

static bool none_left_out(const void *source, const char *name)
{
    (void)source;
    (void)name;
    return false;
}

static void every_kind(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_arena arena;
    struct box box;
    const char *text = NULL;
    const char *again = NULL;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, 4096);
    assert_int_equal(read_box(&ctx, &arena, "tags: []\nlines: []\n", NULL, &box), MT_OK);
    assert_string_equal(box.name, "box");
    assert_true(box.width == 1.0 && box.fit == 0.0 && box.sides == 4 && box.weight == 10);
    assert_true(box.colour == GREEN && !box.open && !box.flat && box.inner_depth == 7);
    assert_int_equal(read_box(&ctx, &arena, everything, "parts=4", &box), MT_OK);
    assert_string_equal(box.name, "a b");
    assert_null(box.note);
    assert_string_equal(box.tags[1], "b");
    assert_string_equal(box.lines[1], "c,d");
    assert_true(box.width == 2.0 && box.fit == 0.5 && box.sides == 8 && box.weight == 1000000);
    assert_true(box.seed == UINT64_MAX && box.colour == BLUE && box.flat && box.total == 4);
    assert_int_equal(box.inner_depth, 9);
    assert_int_equal(mt_keys_text(&ctx, &keys, &box, none_left_out, &arena, &text), MT_OK);
    assert_non_null(strstr(text, "# A box\nname:               \"a b\"         # what it is called\n"));
    assert_non_null(strstr(text, "\n\n# Sizes\nsize:\n    width:          2             # in metres\n"));
    assert_non_null(strstr(text, "\ninner:\n    depth:          9             # of the inner one\n"));
    // lid and flat exclude each other: what is written here is read without one of them.
    char *lid = strstr(text, "lid:");
    assert_non_null(lid);
    memset(lid, '#', 1);
    assert_int_equal(read_box(&ctx, &arena, text, NULL, &box), MT_OK);
    assert_int_equal(mt_keys_text(&ctx, &keys, &box, none_left_out, &arena, &again), MT_OK);
    assert_non_null(strstr(again, "seed:               18446744073709551615"));
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

static const char *colour_at(int index)
{
    static const char *const names[] = {"red", "green"};
    return index < 2 ? names[index] : NULL;
}

static const struct mt_key_row outer_rows[] = {
    {"boxes", MT_KEY_OWN, 0, "LIST", "none", .meaning = "of \"boxes\"", .set = add, .members = &keys},
    {"paint", MT_KEY_OWN, 0, "NAME", "none", .meaning = "one", .set = add, .name_at = colour_at},
    {"paints", MT_KEY_EACH, 0, "NAMES", "none", .meaning = "some", .set = add, .name_at = colour_at},
    {"made", MT_KEY_OWN, 0, "WHOLE NUMBER >= 2", "none", .meaning = "when", .set = add, .most = 9.0},
    {0},
};

/* Both spellings of every key, with type, range, words and default; maps within values as they are. */
static void schema_has_every_key(void **state)
{
    (void)state;
    static const struct mt_key_part outer_parts[] = {{.rows = outer_rows}, {0}};
    static const struct mt_keys outer = {.parts = outer_parts};
    static const char *const pieces[] = {
        "\"$schema\": \"http://json-schema.org/draft-07/schema#\"",
        "\"name\": {\"description\": \"what it is called (NAME; default: box)\", \"type\": [\"string\", "
        "\"number\", \"boolean\"], \"default\": \"box\"}",
        "\"size.width\": {\"description\": \"in metres (NUMBER > 0 and <= 2; default: 1)\", \"type\": "
        "\"number\", \"exclusiveMinimum\": 0, \"maximum\": 2, \"default\": 1}",
        "\"size\": {\"type\": [\"object\", \"null\"], \"additionalProperties\": false, \"properties\": {",
        "\"fit\": {\"description\": \"how well (auto|NUMBER > 0; default: auto)\", \"anyOf\": [{\"const\": "
        "\"auto\"}, {\"type\": \"number\", \"exclusiveMinimum\": 0}], \"default\": \"auto\"}",
        "\"type\": \"integer\", \"minimum\": 3, \"maximum\": 8, \"default\": 4}",
        "\"type\": \"integer\", \"minimum\": 1, \"maximum\": 1000000, \"default\": 10}",
        "\"enum\": [\"red\", \"green\", \"blue\"], \"default\": \"green\"}",
        "\"enum\": [true, false, \"yes\", \"no\"], \"default\": false}",
        "\"depth\": {\"description\": \"of the inner one (WHOLE NUMBER >= 0; default: 0)\", \"type\": "
        "\"integer\", \"minimum\": 0}",
    };
    static const char *const outer_pieces[] = {
        "\"boxes\": {\"description\": \"of \\\"boxes\\\" (LIST; default: none)\", \"type\": [\"array\", "
        "\"null\"], \"items\": {\"anyOf\": [{\"type\": [\"string\", \"number\", \"boolean\"]}, {\"type\": "
        "[\"object\", \"null\"], \"additionalProperties\": false, \"properties\": {",
        "\"anyOf\": [{\"enum\": [\"red\", \"green\"]}, {\"type\": \"null\"}]",
        "\"anyOf\": [{\"enum\": [\"red\", \"green\"]}, {\"type\": \"object\"}]",
        "\"type\": \"integer\", \"minimum\": 2, \"maximum\": 9}",
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (int t = 0; t < 2; t++) {
        struct mt_json_text text;
        struct mt_json document;
        size_t count =
            t == 0 ? sizeof pieces / sizeof pieces[0] : sizeof outer_pieces / sizeof outer_pieces[0];
        mt_json_text_init(&text, &ctx);
        assert_int_equal(mt_keys_schema(t == 0 ? &keys : &outer, "a \"box\"", &text), MT_OK);
        assert_int_equal(
            mt_json_parse(&ctx, "schema", text.bytes, text.length, &mt_json_file_limits, &document), MT_OK);
        mt_json_free(&document);
        assert_int_equal(mt_json_text_format(&text, "%c", '\0'), MT_OK);
        for (size_t i = 0; i < count; i++) {
            const char *piece = t == 0 ? pieces[i] : outer_pieces[i];
            if (strstr(text.bytes, piece) == NULL) fail_msg("no %s in %s", piece, text.bytes);
        }
        mt_json_text_free(&text);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

/* Names other programs have: for a key in any spelling, for what is no key a sentence, and the hint. */
static void other_programs_names(void **state)
{
    (void)state;
    static const struct mt_key_foreign foreign[] = {{"crate|big_chest", "boxes are boxes"}, {0}};
    struct mt_keys with = {.parts = parts, .foreign = foreign};
    struct mt_context ctx;
    const struct mt_keys_reader reader = {.ctx = &ctx, .keys = &with};
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_key_refuse_unknown(&reader, NULL, "Remark"), MT_ERR_USAGE);
    assert_string_equal(ctx.message, "there is no key 'Remark'; did you mean 'note'?");
    assert_int_equal(mt_key_refuse_unknown(&reader, NULL, "size.Big-Chest"), MT_ERR_USAGE);
    assert_string_equal(ctx.message, "there is no key 'size.Big-Chest'; boxes are boxes");
    with.hint = "look inside";
    assert_int_equal(mt_key_refuse_unknown(&reader, NULL, "crate"), MT_ERR_USAGE);
    assert_string_equal(ctx.message, "there is no key 'crate'; boxes are boxes; look inside");
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *word, *message;
    } cases[] = {
        {"nam: x\n", NULL, "t:1: there is no key 'nam'; did you mean 'name'?"},
        {"width: 1\n", NULL, "t:1: there is no key 'width'; did you mean 'size.width'?"},
        {"remark: 1\n", NULL, "t:1: there is no key 'remark'; did you mean 'note'?"},
        {"sise: {}\n", NULL, "t:1: there is no key 'sise'; did you mean 'size'?"},
        {"size: 3\n", NULL, "t:1: size is a text, expected a map of keys such as size.width"},
        {"size.width: 0\n", NULL, "t:1: size.width is 0, expected NUMBER > 0 and <= 2"},
        {"size.width: 2.1\n", NULL, "t:1: size.width is 2.1, expected NUMBER > 0 and <= 2"},
        {"size.width: 1e-999\n", NULL, "t:1: size.width is 1e-999, expected NUMBER > 0 and <= 2"},
        {"size.fit: 1e999\n", NULL, "t:1: size.fit is 1e999, expected auto|NUMBER > 0"},
        {"size.fit: 0x1\n", NULL, "t:1: size.fit is 0x1, expected auto|NUMBER > 0"},
        {"size.sides: 2\n", NULL, "t:1: size.sides is 2, expected 3 to 8"},
        {"size.sides: 4294967300\n", NULL, "t:1: size.sides is 4294967300, expected 3 to 8"},
        {"weight: 1000001\n", NULL, "t:1: weight is 1000001, expected 1000000 at the most"},
        {"weight: -1\n", NULL, "t:1: weight is -1, expected WHOLE NUMBER >= 1"},
        {"weight: '3'\n", NULL, "t:1: weight is the text \"3\", expected WHOLE NUMBER >= 1"},
        {"inner.depth: 9223372036854775808\n", NULL,
         "t:1: inner.depth is 9223372036854775808, expected WHOLE NUMBER >= 0"},
        {"colour: pink\n", NULL, "t:1: colour is pink, expected red|green|blue"},
        {"flat: 'true'\n", NULL, "t:1: flat is the text \"true\", expected true|false"},
        {"flat: true\nlid: open\n", NULL, "t:2: lid and flat (line 1) are both given; one says it all"},
        {"lines: a\n", NULL, "t:1: lines is a text, expected LIST OF TEXTS"},
        {"lines:\n- [a]\n", NULL, "t:2: lines holds a list, expected a list of texts"},
        {"parts:\n- 1\n- 0\n", NULL, "t:3: parts is 0, expected WHOLE NUMBERS >= 1"},
        {"weight: 1\n", "weight=x", "weight=x: weight is x, expected WHOLE NUMBER >= 1"},
        {"weight: 1\n", "wieght=1", "wieght=1: there is no key 'wieght'; did you mean 'weight'?"},
        {"weight: 1\n", "weight", "unexpected argument 'weight'; settings are given as key=value"},
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_arena arena;
        struct box box;
        mt_arena_init(&arena, &ctx, 4096);
        assert_int_equal(read_box(&ctx, &arena, cases[i].text, cases[i].word, &box), MT_ERR_USAGE);
        assert_string_equal(ctx.message, cases[i].message);
        mt_arena_free(&arena);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status whole_life(struct mt_context *ctx, const void *self)
{
    struct mt_arena arena;
    struct box box;
    const char *text = NULL;
    mt_arena_init(&arena, ctx, 256);
    enum mt_status status = read_box(ctx, &arena, self, "tags=x,y", &box);
    if (status == MT_OK) status = mt_keys_text(ctx, &keys, &box, none_left_out, &arena, &text);
    mt_arena_free(&arena);
    return status;
}

static void memory_may_run_out(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(whole_life, everything, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind),           cmocka_unit_test(schema_has_every_key),
        cmocka_unit_test(other_programs_names), cmocka_unit_test(refusals),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
