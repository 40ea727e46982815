/*
 * What choosing tasks need beside letters: clean texts, several right choices, choices with a prompt each.
 * Tests src/eval/tasks/clean.c, src/eval/answers/grade.c and src/eval/run/prefixes.c.
 */
#include <math.h>
#include <string.h>

#include "eval/answers/grade.h"
#include "eval/run/prefixes.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

static void test_clean(void **state)
{
    (void)state;
    static const struct {
        const char *text, *clean;
    } cases[] = {
        {" How to sew [title] Buy cloth. [step] Cut  it.\n", "How to sew. Buy cloth. Cut it."},
        {"a [open\nclose] b", "a [open\nclose] b"}, // not on one line
        {"[title] So", " So"},                      // nothing stands before it: a bracket like others
        {"a [b [c] d] e", "a d] e"},
        {"a    b", "a  b"}, // once, from the left
        {"[[[[", "[[[["},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[100];
        strcpy(text, cases[i].text);
        size_t bytes = mt_clean_text(MT_CLEAN_WIKIHOW, text, strlen(text));
        text[bytes] = '\0';
        assert_string_equal(text, cases[i].clean);
        strcpy(text, cases[i].text);
        assert_int_equal(mt_clean_text(MT_CLEAN_NOTHING, text, strlen(text)), strlen(text));
    }
}

static void test_likeliest(void **state)
{
    (void)state;
    const struct mt_text continuations[] = {{" ab", 3}, {" abcdefgh", 9}, {" \xC3\xA9\xC3\xA9", 5}};
    struct mt_choice_score scores[] = {
        {.log_likelihood = log(0.2)}, {.log_likelihood = log(0.1)}, {.log_likelihood = log(0.1)}};
    const struct mt_choice_question question = {.continuations = continuations, .count = 3, .scores = scores};
    struct mt_task_sample sample = {.choice_count = 3, .gold = 0, .right = 1};
    struct mt_task task = {.answer_is = MT_NAMED_FLAGS};
    struct mt_outcome outcome;
    assert_int_equal(mt_grade_likeliest(&task, &sample, &question, &outcome), 0);
    assert_true(outcome.score == 1.0 &&
                outcome.normalized == 0.0); // for its length the second is the likeliest
    sample = (struct mt_task_sample){.choice_count = 3, .gold = 1, .right = 6};
    task.answer_is = MT_NAMED_MANY;
    assert_int_equal(mt_grade_likeliest(&task, &sample, &question, &outcome), 0);
    assert_true(fabs(outcome.score - 0.5) < 1e-12 && outcome.normalized == 1.0);
    scores[1].log_likelihood = NAN; // has no share, and what is infinite is not taken
    assert_int_equal(mt_grade_likeliest(&task, &sample, &question, &outcome), 0);
    assert_true(fabs(outcome.score - 1.0 / 3) < 1e-12);
    scores[2].log_likelihood = INFINITY;
    assert_int_equal(mt_grade_likeliest(&task, &sample, &question, &outcome), 0);
    assert_true(outcome.score == 0.0 && outcome.normalized == 0.0);
    for (int i = 0; i < 3; i++) scores[i].log_likelihood = NAN;
    assert_int_equal(mt_grade_likeliest(&task, &sample, &question, &outcome), -1);
    assert_true(outcome.score == 0.0 && isnan(outcome.normalized));
}

// ------------------------------------------------------------------ prefixes

/* An answerer that gives the length of what it was asked, and nothing where that is "?". */
static enum mt_status score(void *self, const struct mt_choice_question *questions, size_t count,
                            const struct mt_answer_listener *listener)
{
    (void)self;
    enum mt_status status = MT_OK;
    for (size_t i = count; i-- > 0 && status == MT_OK;) { // in any order
        assert_null(questions[i].prefixes);
        bool none = mt_text_is(questions[i].prefix, "?");
        for (size_t k = 0; k < questions[i].count && !none; k++)
            questions[i].scores[k].log_likelihood =
                -(double)(questions[i].prefix.bytes + questions[i].continuations[k].bytes);
        assert_true(listener->go_on(listener->self, 1));
        status =
            none ? listener->failed(listener->self, i, "no answer") : listener->answered(listener->self, i);
    }
    return status;
}

struct heard {
    int answered[3], failed[3];
};

static enum mt_status hear_answer(void *self, size_t index)
{
    ((struct heard *)self)->answered[index]++;
    return MT_OK;
}

static enum mt_status hear_failure(void *self, size_t index, const char *why)
{
    (void)why;
    ((struct heard *)self)->failed[index]++;
    return MT_OK;
}

static bool hear_more(void *self, int64_t tokens)
{
    (void)self;
    return tokens > 0;
}

static enum mt_status ask(struct mt_context *ctx, const void *self)
{
    (void)self;
    const struct mt_text own[] = {{"aaaa", 4}, {"aa", 2}};
    const struct mt_text broken[] = {{"a", 1}, {"?", 1}};
    const struct mt_text continuations[] = {{"x", 1}, {"xyz", 3}};
    struct mt_choice_score scores[3][2];
    const struct mt_choice_question questions[] = {
        {.prefix = {"p", 1}, .continuations = continuations, .count = 2, .scores = scores[0]},
        {.prefixes = own, .continuations = continuations, .count = 2, .scores = scores[1]},
        {.prefixes = broken, .continuations = continuations, .count = 2, .scores = scores[2]},
    };
    struct heard heard = {0};
    const struct mt_answer_listener listener = {
        .self = &heard, .answered = hear_answer, .failed = hear_failure, .go_on = hear_more};
    const struct mt_answerer answerer = {.score = score};
    enum mt_status status = mt_score_choices(ctx, &answerer, questions, 3, &listener);
    if (status != MT_OK) return status;
    assert_true(scores[0][0].log_likelihood == -2 && scores[0][1].log_likelihood == -4);
    assert_true(scores[1][0].log_likelihood == -5 && scores[1][1].log_likelihood == -5);
    assert_int_equal(heard.answered[0] + heard.answered[1], 2);
    assert_int_equal(heard.answered[2], 0);
    assert_int_equal(heard.failed[2], 1);
    return MT_OK;
}

static void test_prefixes(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_int_equal(ask(&ctx, NULL), MT_OK);
    assert_int_equal(ctx.live_bytes, 0);
    assert_every_allocation_may_fail(ask, NULL, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_likeliest),
        cmocka_unit_test(test_prefixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
