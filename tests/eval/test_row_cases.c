/*
 * Cases in rows of LiveCodeBench: packed by Python in every way it has, and packed by somebody who means
 * harm; rows that cannot be judged, each with its sentence; every allocation failing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "eval/code/row_cases.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

#define ONE    "[{\\\"input\\\": \\\"1\\\", \\\"output\\\": \\\"2\\\", \\\"testtype\\\": \\\"stdin\\\"}]"
#define CASES  "[{\"input\": \"1\", \"output\": \"2\", \"testtype\": \"stdin\"}]" // the same, packed below
#define PACKED "eJxrYJlqwQABPSbR1UqZeQWlJUpWCkqGSjoKSvmlJVCuEYhbklpcUlJZkAoSKC5JycxTqo2dogcAOgkSqg=="

/* What is looked at: the last check's status and message. */
struct seen {
    enum mt_status status;
    char message[MT_MESSAGE_BYTES];
    size_t peak;
};

/* Checks the only row of a text. */
static enum mt_status check_row(struct mt_context *ctx, const char *text)
{
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL,
                                               .max_row_bytes = MT_ROW_CASES_MOST_ROW};
    struct mt_dataset *rows = NULL;
    struct mt_row row;
    mt_row_init(ctx, &row);
    enum mt_status status = mt_dataset_open_memory(ctx, "rows", text, strlen(text), &options, &rows);
    if (status == MT_OK) status = mt_dataset_read(rows, 0, &row);
    if (status == MT_OK) status = mt_row_cases_check(&row);
    mt_row_free(&row);
    mt_dataset_close(rows);
    return status;
}

static struct seen look(const char *text)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct seen seen = {.status = check_row(&ctx, text), .peak = ctx.peak_bytes};
    memcpy(seen.message, ctx.message, sizeof seen.message);
    assert_int_equal(ctx.live_bytes, 0);
    return seen;
}

/* A row with these private cases. The caller frees. */
static char *row_with(const char *private_cases)
{
    static const char format[] =
        "{\"public_test_cases\": \"[]\", \"private_test_cases\": \"%s\", \"metadata\": "
        "\"{}\"}\n";
    size_t bytes = sizeof format + strlen(private_cases);
    char *text = test_malloc(bytes);
    (void)snprintf(text, bytes, format, private_cases);
    return text;
}

static struct seen look_at(const char *private_cases)
{
    char *text = row_with(private_cases);
    struct seen seen = look(text);
    test_free(text);
    return seen;
}

/* Packs bytes as the data set does. The caller frees. */
static char *packed(const void *pickle, size_t bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uLongf size = compressBound(bytes);
    unsigned char *zipped = test_malloc(size + 2);
    assert_int_equal(compress2(zipped, &size, pickle, bytes, 9), Z_OK);
    zipped[size] = zipped[size + 1] = 0;
    char *text = test_malloc(size / 3 * 4 + 8);
    size_t count = 0;
    for (size_t at = 0; at < size; at += 3) {
        unsigned bits = (unsigned)zipped[at] << 16 | (unsigned)zipped[at + 1] << 8 | zipped[at + 2];
        for (int i = 0; i < 4; i++) text[count++] = digits[bits >> (18 - 6 * i) & 63u];
    }
    for (size_t i = 0; i < (3 - size % 3) % 3; i++) text[count - 1 - i] = '=';
    text[count] = '\0';
    test_free(zipped);
    return text;
}

/* A pickle: what stands before the text, the text, what stands behind it. */
static struct seen look_at_pickle(const char *before, size_t before_bytes, const char *text,
                                  const char *behind, size_t behind_bytes)
{
    size_t length = strlen(text);
    char *pickle = test_malloc(before_bytes + length + behind_bytes + 1);
    memcpy(pickle, before, before_bytes);
    memcpy(pickle + before_bytes, text, length + 1); // its end is overwritten, or is in the room of one more
    memcpy(pickle + before_bytes + length, behind, behind_bytes);
    char *spelled = packed(pickle, before_bytes + length + behind_bytes);
    struct seen seen = look_at(spelled);
    test_free(spelled);
    test_free(pickle);
    return seen;
}

#define PICKLE(before, text, behind)                                                                         \
    look_at_pickle((before), sizeof(before) - 1, (text), (behind), sizeof(behind) - 1)

// ------------------------------------------------------------------ what Python writes

static void test_pickles(void **state)
{
    (void)state;
    const struct seen good[] = {
        look_at(ONE),
        look_at(PACKED),
        PICKLE("\x80\x02X\x34\0\0\0", CASES, "q\0."),
        PICKLE("\x80\x03X\x34\0\0\0", CASES, "q\0."),
        PICKLE("\x80\x04\x95\x38\0\0\0\0\0\0\0\x8c\x34", CASES, "\x94."),
        PICKLE("\x80\x05\x95\x38\0\0\0\0\0\0\0\x8c\x34", CASES, "\x94."),
        PICKLE("\x80\x04X\x34\0\0\0", CASES, "\x94."),
        PICKLE("\x80\x04\x8d\x34\0\0\0\0\0\0\0", CASES, "\x95\x02\0\0\0\0\0\0\0\x94."),
        PICKLE("X\x34\0\0\0", CASES, "r\0\0\0\0."),
        PICKLE("X\x34\0\0\0", CASES, "."),
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (good[i].status != MT_OK) print_message("%zu: %s\n", i, good[i].message);
        assert_int_equal(good[i].status, MT_OK);
    }
}

/* Where the text stands: what the judge is told. */
static void test_place(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_row_cases cases;
    struct mt_row row;
    struct mt_dataset *rows = NULL;
    mt_context_init(&ctx, NULL);
    mt_row_init(&ctx, &row);
    char *text = row_with(PACKED);
    struct mt_byte_list words = {.ctx = &ctx};
    assert_int_equal(mt_dataset_open_memory(&ctx, "rows.jsonl", text, strlen(text),
                                            &(struct mt_dataset_options){0}, &rows),
                     MT_OK);
    assert_int_equal(mt_dataset_read(rows, 0, &row), MT_OK);
    assert_int_equal(mt_row_cases_find(&row, &cases), MT_OK);
    assert_int_equal(mt_row_cases_write(&cases, &words), MT_OK);
    assert_true(mt_text_is(mt_text_in(&words), "13 65 "));
    assert_true(mt_text_is(cases.private_cases, PACKED));
    mt_byte_list_free(&words);
    mt_row_free(&row);
    mt_dataset_close(rows);
    test_free(text);
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ what somebody else writes

static void refuses(struct seen seen, const char *words)
{
    bool refused = seen.status == MT_ERR_FORMAT && strstr(seen.message, words) != NULL &&
                   strncmp(seen.message, "rows:1: ", 8) == 0;
    if (!refused) print_message("'%s' was expected: '%s'\n", words, seen.message);
    assert_true(refused);
}

static void test_hostile_pickles(void **state)
{
    (void)state;
    static const char none[] = "does not unpack to a pickle of one text";
    // os.system("false"), and its like: no operation but those of a text is known.
    refuses(PICKLE("\x80\x04", "cos\nsystem\n(S'false'\ntR.", ""), none);
    refuses(PICKLE("\x80\x04X\x34\0\0\0", CASES, "cos\nsystem\n."), none);
    refuses(PICKLE("\x80\x04X\x34\0\0\0", CASES, "\x94R."), none);
    refuses(PICKLE("\x80\x04X\x34\0\0\0", CASES, "\x94.."), none);
    refuses(PICKLE("\x80\x04X\x34\0\0\0", CASES, "\x94"), none);
    refuses(PICKLE("\x80\x04X\x34\0\0\0", CASES, ""), none);
    refuses(PICKLE("\x80\x04"
                   "C\x34",
                   CASES, "."),
            none);                                 // bytes
    refuses(PICKLE("\x80\x04]", "", "."), none);   // a list
    refuses(PICKLE("\x80\x04\x8c", "", ""), none); // an operation without its length
    refuses(PICKLE("", "", ""), none);
    refuses(PICKLE("\x80\x04X\x33\0\0\0", CASES, "."), none); // a text that is longer than it says
    refuses(PICKLE("\x80\x04X\x99\0\0\0", CASES, "."), "is cut off");
    refuses(PICKLE("\x80\x04\x8d\0\0\0\0\0\0\0\x80", CASES, "."), none); // 2^63 bytes
    refuses(PICKLE("\x80\x04X\xff\xff\xff\xff", CASES, "."), none);
    refuses(PICKLE("\x80\x04X\x04\0\0\0", "none", "."), "not valid JSON");
    refuses(PICKLE("\x80\x04X\x04\0\0\0", "\"\xff\"x", "."), "not valid JSON");
}

/* What unpacks to far more than it says takes no more room than it says. */
static void test_bombs(void **state)
{
    (void)state;
    size_t bytes = (size_t)64 << 20;
    char *zeros = test_calloc(bytes, 1);
    memcpy(zeros, "\x80\x04X\x34\0\0\0" CASES, 7 + strlen(CASES));
    char *spelled = packed(zeros, bytes);
    struct seen seen = look_at(spelled);
    refuses(seen, "does not unpack to a pickle of one text");
    assert_true(seen.peak < (size_t)4 << 20);
    test_free(spelled);
    test_free(zeros);
}

static void test_broken_packing(void **state)
{
    (void)state;
    refuses(look_at("!"), "is neither a list in JSON nor base64");
    refuses(look_at("{}"), "is neither a list in JSON nor base64");
    refuses(look_at("AAAA"), "is not what zlib packs");
    refuses(look_at(PACKED "AAAA"), "is neither a list in JSON nor base64"); // padding in the middle
    refuses(look_at(" "), "is neither");
    char text[] = PACKED;
    for (size_t length = 4; length + 4 < sizeof text; length += 4) {
        char cut[sizeof text];
        (void)snprintf(cut, sizeof cut, "%.*s", (int)length, text);
        struct seen seen = look_at(cut);
        assert_int_equal(seen.status, MT_ERR_FORMAT);
    }
    // zlib has a checksum.
    for (size_t at = 0; at + 1 < sizeof text; at++) {
        char changed[sizeof text];
        memcpy(changed, text, sizeof text);
        changed[at] = changed[at] == 'A' ? 'B' : 'A';
        assert_int_equal(look_at(changed).status, MT_ERR_FORMAT);
    }
}

// ------------------------------------------------------------------ rows

#define ROW(public_cases, private_cases, metadata)                                                           \
    "{\"public_test_cases\": \"" public_cases "\", \"private_test_cases\": \"" private_cases                 \
    "\", \"metadata\": \"" metadata "\"}\n"
#define CALL "{\\\"func_name\\\": \\\"f\\\"}"
#define CASE(input, output, type)                                                                            \
    "[{\\\"input\\\": \\\"" input "\\\", \\\"output\\\": \\\"" output "\\\", \\\"testtype\\\": \\\"" type    \
    "\\\"}]"

static void test_rows(void **state)
{
    (void)state;
    static const char *const good[] = {
        ROW(ONE, "[]", "{}"),
        ROW("[]", ONE, "{\\\"func_name\\\": null}"),
        ROW("[]", " " ONE, "{\\\"other\\\": 1}"),
        ROW(CASE("1", "2", "functional"), "[]", CALL),
        ROW(CASE("[1]\\\\n2", "123456789012345678901234567890", "functional"), "[]", CALL),
        ROW(CASE("", "", "stdin"), "[]", "{}"),
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct seen seen = look(good[i]);
        if (seen.status != MT_OK) print_message("%zu: %s\n", i, seen.message);
        assert_int_equal(seen.status, MT_OK);
    }
    char digits[1001] = "";
    char row[2048];
    memset(digits, '9', sizeof digits - 1);
    (void)snprintf(row, sizeof row, ROW(CASE("-1", "[%s]", "functional"), "[]", CALL), digits);
    assert_int_equal(look(row).status, MT_OK);
    static const struct {
        const char *row, *words;
    } bad[] = {
        {"{\"private_test_cases\": \"[]\", \"metadata\": \"{}\"}\n", "there is no field 'public_test_cases'"},
        {"{\"public_test_cases\": \"[]\", \"metadata\": \"{}\"}\n", "there is no field 'private_test_cases'"},
        {"{\"public_test_cases\": \"[]\", \"private_test_cases\": \"[]\"}\n", "there is no field 'metadata'"},
        {"{\"public_test_cases\": [], \"private_test_cases\": \"[]\", \"metadata\": \"{}\"}\n",
         "the field 'public_test_cases' is not a text"},
        {ROW("[]", "", "{}"), "the field 'private_test_cases' is not a text"},
        {ROW("[]", "[]", "{}"), "there are no test cases"},
        {ROW("{}", "[]", "{}"), "public_test_cases: the document is an object, expected an array"},
        {ROW("[1]", "[]", "{}"), "public_test_cases: [0] is 1, expected an object"},
        {ROW("[{}]", "[]", "{}"), "public_test_cases: [0].input is missing"},
        {ROW("[", "[]", "{}"), "public_test_cases: not valid JSON"},
        {ROW("[]", ONE, "[]"), "metadata: the document is an array, expected an object"},
        {ROW("[]", ONE, "{\\\"func_name\\\": 1}"), "metadata: func_name is 1, expected a string"},
        {ROW("[]", ONE, "{\\\"func_name\\\": \\\"f; g\\\"}"), "func_name is not the name of a function"},
        {ROW(CASE("1", "2", "file"), "[]", "{}"),
         "public_test_cases: the testtype of case 1 is 'file', and metadata names no function"},
        {ROW(CASE("1", "2", "functional"), "[]", "{}"), "is 'functional', and metadata names no function"},
        {ROW("[]", ONE, CALL), "private_test_cases: the testtype of case 1 is 'stdin', and metadata names a"},
        {ROW(CASE("1\\\\nx", "2", "functional"), "[]", CALL),
         "public_test_cases: the input of case 1: not valid JSON"},
        {ROW(CASE("1, 2", "2", "functional"), "[]", CALL), "is not one value of JSON a line"},
        {ROW(CASE("1", "", "functional"), "[]", CALL),
         "the output of case 1 is not one value of JSON a line"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) refuses(look(bad[i].row), bad[i].words);
}

/* What cannot be handed to an answer is refused before anything is asked. */
static void test_sizes(void **state)
{
    (void)state;
    size_t bytes = MT_ROW_CASES_MOST_ONE + 1;
    size_t room = bytes + 256;
    char *text = test_malloc(room);
    char *row = test_malloc(2 * room);
    int used = snprintf(text, room,
                        "[{\\\"output\\\": \\\"2\\\", \\\"testtype\\\": \\\"stdin\\\", \\\"input\\\": \\\"");
    memset(text + used, '7', bytes);
    (void)snprintf(text + used + bytes, 16, "\\\"}]");
    (void)snprintf(row, 2 * room, ROW("[]", "%s", "{}"), text);
    refuses(look(row), "private_test_cases: case 1 is longer than 24 MiB");
    test_free(row);
    test_free(text);
}

static enum mt_status check_packed_row(struct mt_context *ctx, const void *self)
{
    return check_row(ctx, self);
}

static void test_every_allocation_failing(void **state)
{
    (void)state;
    char *text = row_with(PACKED);
    assert_every_allocation_may_fail(check_packed_row, text, 6);
    assert_every_allocation_may_fail(check_packed_row, ROW(CASE("1", "2", "functional"), "[]", CALL), 6);
    test_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pickles),         cmocka_unit_test(test_place),
        cmocka_unit_test(test_hostile_pickles), cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_broken_packing),  cmocka_unit_test(test_rows),
        cmocka_unit_test(test_sizes),           cmocka_unit_test(test_every_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
