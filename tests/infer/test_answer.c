/* Answers: the text as it grows, stop strings across tokens, nothing shown that is then taken back. */
#include <string.h>

#include "infer/answer.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/golden_tokenizers.h"

struct telling {
    struct mt_context ctx;
    struct mt_tokenizer *tokenizer;
    struct mt_token_scratch *scratch;
};

static int open_telling(void **state)
{
    static struct telling telling;
    mt_context_init(&telling.ctx, NULL);
    telling.tokenizer = golden_load(&telling.ctx, "deepseek");
    *state = &telling;
    return mt_token_scratch_create(&telling.ctx, telling.tokenizer, &telling.scratch) == MT_OK ? 0 : -1;
}

static int close_telling(void **state)
{
    struct telling *telling = *state;
    mt_token_scratch_free(telling->scratch);
    mt_tokenizer_free(telling->tokenizer);
    return telling->ctx.live_bytes == 0 ? 0 : -1;
}

/* Tells `said` token by token until it stops; the text must become `expected`, by settled parts of it. */
static void tell(struct telling *telling, struct mt_answer *answer, const char *said, const char *expected,
                 bool stops)
{
    struct mt_id_list ids = {.ctx = &telling->ctx};
    assert_int_equal(
        mt_tokenizer_encode(telling->tokenizer, telling->scratch, said, strlen(said), MT_ENCODE_PLAIN, &ids),
        MT_OK);
    assert_int_equal(mt_answer_clear(answer), MT_OK);
    for (size_t i = 0; i < ids.count && !answer->stopped; i++) {
        size_t before = answer->settled;
        assert_int_equal(mt_answer_push(answer, ids.data[i]), MT_OK);
        assert_true(answer->settled >= before && answer->settled <= strlen(expected));
        if (answer->settled > 0) assert_memory_equal(answer->text.data, expected, answer->settled);
        assert_int_equal(answer->ids.count, i + 1);
    }
    assert_int_equal(mt_answer_end(answer), MT_OK);
    assert_int_equal(answer->stopped, stops);
    assert_int_equal(answer->text.count, strlen(expected));
    assert_int_equal(answer->settled, answer->text.count);
    if (answer->text.count > 0) assert_memory_equal(answer->text.data, expected, strlen(expected));
    mt_id_list_free(&ids);
}

static void test_text(void **state)
{
    struct telling *telling = *state;
    struct mt_answer answer;
    assert_int_equal(mt_answer_create(&telling->ctx, telling->tokenizer, NULL, &answer), MT_OK);
    tell(telling, &answer, "The end is near: 12 + 30 = 42.", "The end is near: 12 + 30 = 42.", false);
    tell(telling, &answer, "π ≈ 3,14 — 你好 🙂", "π ≈ 3,14 — 你好 🙂", false);
    tell(telling, &answer, "", "", false);
    mt_answer_free(&answer);
}

static void test_stops(void **state)
{
    struct telling *telling = *state;
    static const char *const stops[] = {"\n\nQ:", "the end", "end of", "你好", NULL};
    struct mt_answer answer;
    assert_int_equal(mt_answer_create(&telling->ctx, telling->tokenizer, stops, &answer), MT_OK);
    tell(telling, &answer, "This is the end of it.", "This is ", true); // the one that begins first
    tell(telling, &answer, "An end of sorts", "An ", true);
    tell(telling, &answer, "the en", "the en", false);
    tell(telling, &answer, "the ethe end", "the e", true);
    tell(telling, &answer, "\n\n\nQ: again", "\n", true);
    tell(telling, &answer, "A: 5\n\nQ", "A: 5\n\nQ", false);
    tell(telling, &answer, "你们 你好", "你们 ", true);
    tell(telling, &answer, "the end", "", true);
    mt_answer_free(&answer);
}

static enum mt_status whole(struct mt_context *ctx, const void *self)
{
    static const char *const stops[] = {"e", NULL};
    const struct telling *telling = self;
    struct mt_answer answer;
    enum mt_status status = mt_answer_create(ctx, telling->tokenizer, stops, &answer);
    for (int32_t id = 10; status == MT_OK && id < 80; id++) status = mt_answer_push(&answer, id);
    if (status == MT_OK) status = mt_answer_end(&answer);
    mt_answer_free(&answer);
    return status;
}

static void test_memory(void **state)
{
    assert_every_allocation_may_fail(whole, *state, 1);
}

#define TELLING(test) cmocka_unit_test_setup_teardown(test, open_telling, close_telling)

int main(void)
{
    const struct CMUnitTest tests[] = {TELLING(test_text), TELLING(test_stops), TELLING(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
