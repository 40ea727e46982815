/*
 * Extraction and mathematical equality against cases labelled by hand (tests/eval/cases). Tests
 * src/eval/answers/extract.c and src/eval/math.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file.h"
#include "eval/answers/extract.h"
#include "eval/answers/normalize.h"
#include "eval/math/answer_math.h"
#include "formats/data/dataset.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

#define MOST_WORDS 8

static void case_path(const char *name, char *path, size_t bytes)
{
    const char *folder = getenv("METIER_EVAL_CASES");
    assert_non_null(folder);
    (void)snprintf(path, bytes, "%s/%s", folder, name);
}

// ------------------------------------------------------------------ mathematics

/* "SIGN TAB ONE TAB OTHER"; returns 0 when judged as labelled, in both directions. */
static int check_pair(struct mt_context *ctx, const char *line, size_t bytes)
{
    const char *first = memchr(line, '\t', bytes);
    assert_non_null(first);
    first++;
    const char *second = memchr(first, '\t', bytes - (size_t)(first - line));
    assert_non_null(second);
    second++;
    size_t first_bytes = (size_t)(second - 1 - first);
    size_t second_bytes = bytes - (size_t)(second - line);
    int wrong = 0;
    for (int turn = 0; turn < 2; turn++) {
        bool equal = false;
        enum mt_status status = turn == 0
                                    ? mt_math_compare(ctx, first, first_bytes, second, second_bytes, &equal)
                                    : mt_math_compare(ctx, second, second_bytes, first, first_bytes, &equal);
        assert_int_equal(status, MT_OK);
        if (equal == (line[0] == '=')) continue;
        printf("labelled %c, judged %s (turn %d): %.*s\n", line[0], equal ? "equal" : "different", turn,
               (int)bytes, line);
        wrong = 1;
    }
    return wrong;
}

static void test_math_cases(void **state)
{
    (void)state;
    struct mt_context ctx;
    char path[512];
    void *data = NULL;
    size_t bytes = 0;
    int wrong = 0;
    int cases = 0;
    mt_context_init(&ctx, NULL);
    case_path("math.txt", path, sizeof path);
    assert_int_equal(mt_file_read_all(&ctx, path, 1 << 20, &data, &bytes), MT_OK);
    const char *text = data;
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : bytes - at;
        if (length > 0 && text[at] != '#') {
            wrong += check_pair(&ctx, text + at, length);
            cases++;
        }
        at += length + 1;
    }
    mt_release(&ctx, data, bytes);
    printf("%d pairs, %d wrong\n", cases, wrong);
    assert_true(cases >= 150);
    assert_int_equal(wrong, 0);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Texts that would nest, multiply or repeat without end must come back quickly, with any verdict. */
static void test_math_hostile(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    static const char *const pieces[] = {"(",
                                         "-",
                                         "{",
                                         "\\frac{",
                                         "\\sqrt",
                                         "x^",
                                         "(a+b+c+d+e)^",
                                         "!",
                                         "9",
                                         "|",
                                         "\\begin{pmatrix}",
                                         "\\text{",
                                         "5 cm/",
                                         "\\",
                                         "_",
                                         "1,",
                                         "\xFF",
                                         "+"};
    char text[4096];
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        size_t length = 0;
        while (length + strlen(pieces[i]) < 3900) {
            memcpy(text + length, pieces[i], strlen(pieces[i]));
            length += strlen(pieces[i]);
        }
        bool equal = false;
        assert_int_equal(mt_math_compare(&ctx, text, length, "5", 1, &equal), MT_OK);
        assert_false(equal);
    }
    static const char power[] = "(a+b+c+d+e+f+g)^{99}";
    bool equal = true;
    assert_int_equal(mt_math_compare(&ctx, power, strlen(power), "1", 1, &equal), MT_OK);
    assert_false(equal);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Broken anywhere: a letter missing, another in its place, or the end come early. Any verdict, no crash. */
static void test_math_broken(void **state)
{
    (void)state;
    static const char whole[] = "0\\frac{1}{2} 3 1/2 \\sqrt[3]{x^{2}} \\binom{5}{2} |y| 5 cm^{2}/s \\{1, (2, "
                                "3]\\} \\begin{pmatrix}1&2\\end{pmatrix}";
    static const char others[] = "|{}[]()\\^_/&, -9x";
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    char text[sizeof whole];
    bool equal = false;
    for (size_t at = 0; at < strlen(whole); at++) {
        assert_int_equal(mt_math_compare(&ctx, whole, at, "5", 1, &equal), MT_OK);
        assert_int_equal(mt_math_compare(&ctx, whole + at, strlen(whole) - at, "5", 1, &equal), MT_OK);
        for (size_t other = 0; other < strlen(others); other++) {
            memcpy(text, whole, sizeof whole);
            text[at] = others[other];
            assert_int_equal(mt_math_compare(&ctx, text, strlen(whole), "5", 1, &equal), MT_OK);
            // And what stands before it alone.
            assert_int_equal(mt_math_compare(&ctx, text, at + 1, "5", 1, &equal), MT_OK);
        }
    }
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ extraction

static const char *text_of(const struct mt_row *row, const char *name, size_t *bytes)
{
    const struct mt_row_field *field = mt_row_field(row, name);
    if (field == NULL) return NULL;
    *bytes = field->bytes;
    return field->text;
}

static int check_extraction(struct mt_context *ctx, const struct mt_row *row)
{
    struct mt_extract_step step = {0};
    const char *words[MOST_WORDS + 1] = {0};
    size_t bytes = 0;
    const char *kind = text_of(row, "kind", &bytes);
    step.kind = mt_extract_named(kind);
    assert_true(step.kind < MT_EXTRACT_KINDS);
    step.pattern = text_of(row, "pattern", &bytes);
    const char *first = text_of(row, "first", &bytes);
    step.first = first != NULL && memcmp(first, "true", 4) == 0;
    size_t word_count = mt_row_items(row, "words");
    for (size_t i = 0; i < word_count && i < MOST_WORDS; i++)
        assert_true(mt_row_item(row, "words", i, &words[i], &bytes));
    step.words = words;
    const char *choices = text_of(row, "choices", &bytes);
    struct mt_extractor *extractor = NULL;
    assert_int_equal(mt_extractor_create(ctx, &step, 1, &extractor), MT_OK);
    size_t text_bytes = 0;
    const char *text = text_of(row, "text", &text_bytes);
    size_t want_bytes = 0;
    const char *want = text_of(row, "want", &want_bytes);
    struct mt_byte_list got = {.ctx = ctx};
    bool found = false;
    assert_int_equal(mt_extract(extractor, text, text_bytes,
                                choices != NULL ? (int)strtol(choices, NULL, 10) : 0, &got, &found),
                     MT_OK);
    bool right = found == (want_bytes > 0) && got.count == want_bytes &&
                 (want_bytes == 0 || memcmp(got.data, want, want_bytes) == 0);
    if (!right) {
        printf("%s:%llu: wanted '%.*s', got '%.*s'\n", kind, (unsigned long long)row->line, (int)want_bytes,
               want, (int)got.count, (const char *)got.data);
    }
    mt_byte_list_free(&got);
    mt_extractor_free(extractor);
    return right ? 0 : 1;
}

static void test_extraction_cases(void **state)
{
    (void)state;
    struct mt_context ctx;
    char path[512];
    struct mt_dataset *dataset = NULL;
    struct mt_dataset_options options = {0};
    int wrong = 0;
    mt_context_init(&ctx, NULL);
    case_path("extraction.jsonl", path, sizeof path);
    assert_int_equal(mt_dataset_open(&ctx, path, &options, &dataset), MT_OK);
    struct mt_row row;
    mt_row_init(&ctx, &row);
    uint64_t rows = mt_dataset_rows(dataset);
    for (uint64_t i = 0; i < rows; i++) {
        assert_int_equal(mt_dataset_read(dataset, i, &row), MT_OK);
        wrong += check_extraction(&ctx, &row);
    }
    printf("%llu cases, %d wrong\n", (unsigned long long)rows, wrong);
    mt_row_free(&row);
    mt_dataset_close(dataset);
    assert_true(rows >= 100);
    assert_int_equal(wrong, 0);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_order_of_ways(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    const struct mt_extract_step steps[] = {{.kind = MT_EXTRACT_BOXED}, {.kind = MT_EXTRACT_LAST_NUMBER}};
    static const char both[] = "\\boxed{3}, in 2 steps";
    static const char neither[] = "3, in 2 steps";
    struct mt_extractor *extractor = NULL;
    struct mt_byte_list got = {.ctx = &ctx};
    bool found = false;
    assert_int_equal(mt_extractor_create(&ctx, steps, 2, &extractor), MT_OK);
    assert_int_equal(mt_extract(extractor, both, strlen(both), 0, &got, &found), MT_OK);
    assert_true(found && got.count == 1 && got.data[0] == '3');
    assert_int_equal(mt_extract(extractor, neither, strlen(neither), 0, &got, &found), MT_OK);
    assert_true(found && got.count == 1 && got.data[0] == '2');
    mt_byte_list_free(&got);
    mt_extractor_free(extractor);
    const struct mt_extract_step broken = {.kind = MT_EXTRACT_REGEX, .pattern = "(a"};
    assert_int_equal(mt_extractor_create(&ctx, &broken, 1, &extractor), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "(a"));
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_normalize(void **state)
{
    (void)state;
    static const enum mt_normalize_step steps[] = {MT_NORMALIZE_LOWER,       MT_NORMALIZE_MARKUP,
                                                   MT_NORMALIZE_PUNCTUATION, MT_NORMALIZE_BRACKETS,
                                                   MT_NORMALIZE_ARTICLES,    MT_NORMALIZE_SPACES};
    static const char *const rows[][2] = {
        {"  **The Cat.** ", "cat"},  {"(B)", "b"}, {"(a) or (b)", "(a) or (b)"},
        {"an  old\tman", "old man"}, {"", ""},
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mt_byte_list text = {.ctx = &ctx};
        assert_int_equal(mt_byte_list_append_text(&text, rows[i][0]), MT_OK);
        mt_normalize_text(&text, steps, sizeof steps / sizeof steps[0]);
        assert_int_equal(text.count, strlen(rows[i][1]));
        if (text.count > 0) assert_memory_equal(text.data, rows[i][1], text.count);
        mt_byte_list_free(&text);
    }
}

static enum mt_status run_all(struct mt_context *ctx, const void *self)
{
    (void)self;
    static const char *const yes_no[] = {"yes", "no", NULL};
    const struct mt_extract_step steps[] = {{.kind = MT_EXTRACT_REGEX, .pattern = "x(y)"},
                                            {.kind = MT_EXTRACT_LETTER},
                                            {.kind = MT_EXTRACT_WORDS, .words = yes_no}};
    static const char one[] = "\\{\\frac{1}{1+\\sqrt{2}}, 3 \\pm 2, 5 \\text{ cm}\\}";
    static const char other[] = "\\{5, 1, \\sqrt{2}-1, 5\\}";
    struct mt_extractor *extractor = NULL;
    struct mt_byte_list got = {.ctx = ctx};
    bool found = false;
    bool equal = false;
    enum mt_status status = mt_extractor_create(ctx, steps, 3, &extractor);
    if (status == MT_OK) status = mt_extract(extractor, "So: yes", 7, 4, &got, &found);
    if (status == MT_OK) status = mt_math_compare(ctx, one, strlen(one), other, strlen(other), &equal);
    mt_extractor_free(extractor);
    mt_byte_list_free(&got);
    if (status == MT_OK && !(found && equal)) return mt_fail(ctx, MT_ERR_INTERNAL, "judged wrong");
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(run_all, NULL, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_math_cases),    cmocka_unit_test(test_math_hostile),
        cmocka_unit_test(test_math_broken),   cmocka_unit_test(test_extraction_cases),
        cmocka_unit_test(test_order_of_ways), cmocka_unit_test(test_normalize),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
