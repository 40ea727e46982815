/*
 * Words of texts, and test questions found in rows: whole, within a longer text, in other case, punctuation
 * and white space; and what is only alike is left alone.
 */
#include <stdio.h>

#include "eval/tasks/prompt.h"
#include "recipe/overlap.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

#define BREAK MT_PROMPT_BREAK

static const char long_question[] =
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many "
    "clips did Natalia sell altogether in April and May?";
static const char short_question[] = "What is 7 + 5?";

// ------------------------------------------------------------------ words

static void assert_words(const char *text, const char *expected)
{
    struct mt_context ctx;
    struct mt_words words;
    mt_context_init(&ctx, NULL);
    mt_words_init(&ctx, &words);
    assert_int_equal(mt_words_read(&words, mt_text_of(text)), MT_OK);
    struct mt_text got = mt_text_in(&words.text);
    if (!mt_text_is(got, expected)) print_message("%s: %.*s\n", text, (int)got.bytes, got.text);
    assert_true(mt_text_is(got, expected));
    size_t spaces = 0;
    for (size_t i = 0; i < got.bytes; i++) spaces += got.text[i] == ' ' ? 1 : 0;
    assert_int_equal(words.count, got.bytes > 0 ? spaces + 1 : 0);
    mt_words_free(&words);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_words(void **state)
{
    (void)state;
    assert_words("", "");
    assert_words(" ...\n", "");
    assert_words("Don't STOP\tme", "don t stop me");
    assert_words("Janet\xE2\x80\x99s \xE2\x80\x9C"
                 "eggs\xE2\x80\x9D",
                 "janet s eggs");
    assert_words("caf\xC3\xA9 cafe\xCC\x81 CAF\xC3\x89", "cafe cafe cafe"); // composed, with an accent, upper
    assert_words("\xEF\xAC\x81sh \xEF\xBC\x91\xEF\xBC\x92", "fish 12");     // a ligature, wide digits
    assert_words("soft\xC2\xADhyphen", "softhyphen");
    assert_words("\xE4\xBD\xA0\xE5\xA5\xBD"
                 "a",
                 "\xE4\xBD\xA0 \xE5\xA5\xBD a"); // no spaces in Chinese
    assert_words("bad \xFF\xFE bytes\xC3", "bad bytes");
    // Signs of mathematics count, punctuation does not.
    assert_words("2 + 3", "2 + 3");
    assert_words("2-3", "2 - 3");
    assert_words("well-known", "well known");
    assert_words("**5** apples", "5 apples");
    assert_words("x^2 = -1", "x ^ 2 = - 1");
    assert_words("\xE2\x88\x9A"
                 "2 \xE2\x89\xA4 3",
                 "\xE2\x88\x9A 2 \xE2\x89\xA4 3");
}

// ------------------------------------------------------------------ overlap

struct finding {
    struct mt_context ctx;
    struct mt_overlap *overlap;
    struct mt_overlap_hit hits[2];
};

static void open_finding(struct finding *finding, size_t words)
{
    mt_context_init(&finding->ctx, NULL);
    assert_int_equal(mt_overlap_create(&finding->ctx, words, &finding->overlap), MT_OK);
}

static void add(struct finding *finding, size_t group, const char *id, const char *question)
{
    assert_int_equal(mt_overlap_add(finding->overlap, group, id, mt_text_of(question)), MT_OK);
}

static bool finds(struct finding *finding, const char *question, const char *answer)
{
    bool any = false;
    assert_int_equal(
        mt_overlap_find(finding->overlap, mt_text_of(question), mt_text_of(answer), finding->hits, 2, &any),
        MT_OK);
    assert_int_equal(any, finding->hits[0].found || finding->hits[1].found);
    return any;
}

static void close_finding(struct finding *finding)
{
    mt_overlap_free(finding->overlap);
    assert_int_equal(finding->ctx.live_bytes, 0);
}

static void test_planted(void **state)
{
    (void)state;
    struct finding f;
    open_finding(&f, 13);
    add(&f, 0, "7", long_question);
    add(&f, 1, "8", short_question);
    // Whole.
    assert_true(finds(&f, long_question, "12"));
    assert_true(f.hits[0].found && !f.hits[0].whole && !f.hits[1].found);
    assert_string_equal(f.hits[0].id, "7");
    assert_true(mt_text_is(f.hits[0].words, "natalia sold clips to 48 of her friends in april and then she"));
    // Within a longer text, in the answer, in other case, punctuation and white space.
    assert_true(finds(
        &f, "A story: Natalia sold clips to 48 of her friends in April, and then she sold. The end.", ""));
    assert_true(finds(&f, "Tell me more.",
                      "NATALIA  SOLD clips, to 48 of her friends in April!\nAnd then SHE slept."));
    assert_true(finds(&f, "natalia: sold -- clips (to 48) of \"her\" friends, in april and then she", ""));
    // A short one: only where it is all of the question, in any dress.
    assert_true(finds(&f, short_question, ""));
    assert_true(f.hits[1].found && f.hits[1].whole && !f.hits[0].found);
    assert_true(finds(&f, "  WHAT is 7+5 ", "12"));
    assert_false(finds(&f, "What is 7 - 5?", ""));
    assert_false(finds(&f, "What is 7 + 5 + 1?", ""));
    assert_false(finds(&f, "Now: what is 7 + 5?", ""));
    assert_false(finds(&f, "Why?", short_question));
    close_finding(&f);
}

static void test_alike(void **state)
{
    (void)state;
    struct finding f;
    open_finding(&f, 13);
    add(&f, 0, "7", long_question);
    // Other numbers: no 13 words in a row are left before the 48, 27 behind it are.
    assert_true(
        finds(&f,
              "Natalia sold clips to 49 of her friends in April, and then she sold half as many clips in "
              "May. How many clips did Natalia sell altogether in April and May?",
              ""));
    assert_true(mt_text_is(f.hits[0].words, "of her friends in april and then she sold half as many clips"));
    // Never more than twelve in common.
    assert_false(finds(&f, "Natalia sold clips to 48 of her friends in April, and then slept.", ""));
    assert_true(finds(&f, "Natalia sold clips to 48 of her friends in April, and then she", ""));
    assert_false(finds(&f,
                       "Ann sold clips to 9 of her friends in June, and then she sold twice as many clips in "
                       "July. How many clips did Ann sell altogether in June and July?",
                       ""));
    close_finding(&f);
}

/* Words of which less than half have letters are no run; a question of nothing else is found as a whole. */
static void test_numbers(void **state)
{
    (void)state;
    struct finding f;
    open_finding(&f, 13);
    add(&f, 0, "list",
        "Sum the list: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 and say what comes out of it at the end");
    add(&f, 1, "bare", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16");
    assert_false(finds(&f, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", ""));
    assert_true(finds(&f, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", ""));
    assert_true(f.hits[1].whole && !f.hits[0].found);
    close_finding(&f);
}

/* Runs do not reach over the border of two fields. */
static void test_fields(void **state)
{
    (void)state;
    struct finding f;
    open_finding(&f, 5);
    add(&f, 0, "1", "one two three" BREAK "four five six" BREAK);
    assert_false(finds(&f, "zero one two three four five six", ""));
    assert_true(finds(&f, "one two three" BREAK "four five six" BREAK, ""));
    assert_true(f.hits[0].whole);
    add(&f, 1, "2", "aa bb cc dd ee ff" BREAK "gg");
    assert_true(finds(&f, "xx aa bb cc dd ee", ""));
    assert_false(finds(&f, "bb cc dd" BREAK "ee ff", ""));
    close_finding(&f);
}

/* The same words in questions of two tasks are told of for both. */
static void test_groups(void **state)
{
    (void)state;
    struct finding f;
    open_finding(&f, 3);
    add(&f, 0, "a", "one two three");
    add(&f, 0, "b", "one two three four");
    add(&f, 1, "c", "zero one two three");
    assert_true(finds(&f, "one two three", ""));
    assert_true(f.hits[0].found && f.hits[1].found);
    assert_string_equal(f.hits[0].id, "a");
    assert_string_equal(f.hits[1].id, "c");
    assert_true(finds(&f, "four", "two three four"));
    assert_true(f.hits[0].found && !f.hits[1].found);
    assert_false(finds(&f, "", ""));
    close_finding(&f);
}

/* Every run of every question of a large set is found again, and nothing that was not put in. */
static void test_many(void **state)
{
    (void)state;
    struct finding f;
    char text[256];
    open_finding(&f, 4);
    for (int i = 0; i < 20000; i++) {
        (void)snprintf(text, sizeof text, "a%d b%d c%d d%d e%d", i, i * 7, i * 13, i, i + 1);
        add(&f, (size_t)(i % 2), "x", text);
    }
    for (int i = 0; i < 20000; i++) {
        (void)snprintf(text, sizeof text, "b%d c%d d%d e%d f", i * 7, i * 13, i, i + 1);
        assert_true(finds(&f, text, ""));
        assert_true(f.hits[i % 2].found);
        (void)snprintf(text, sizeof text, "b%d c%d d%d e%d f", i * 7, i * 13, i + 1, i + 1);
        assert_false(finds(&f, text, ""));
    }
    close_finding(&f);
}

static enum mt_status index_and_look(struct mt_context *ctx, const void *self)
{
    (void)self;
    struct mt_overlap *overlap = NULL;
    struct mt_overlap_hit hit;
    bool any = false;
    enum mt_status status = mt_overlap_create(ctx, 13, &overlap);
    if (status == MT_OK) status = mt_overlap_add(overlap, 0, "1", mt_text_of(long_question));
    if (status == MT_OK) status = mt_overlap_add(overlap, 0, "2", mt_text_of(short_question));
    if (status == MT_OK)
        status = mt_overlap_find(overlap, mt_text_of(long_question), mt_text_of("x"), &hit, 1, &any);
    mt_overlap_free(overlap);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(index_and_look, NULL, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),   cmocka_unit_test(test_planted), cmocka_unit_test(test_alike),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_fields),  cmocka_unit_test(test_groups),
        cmocka_unit_test(test_many),    cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
