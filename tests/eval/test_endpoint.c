/*
 * An endpoint as answerer: log-likelihoods out of replies of all kinds, and every allocation failing in turn
 * while tests/cli/eval/endpoint_server.py answers. tests/cli/eval/endpoint.sh goes through the moods of an
 * endpoint.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "eval/endpoint/chat_api.h"
#include "eval/endpoint/completion_api.h"
#include "eval/endpoint/endpoint.h"
#include "support/cmocka_all.h"
#include "support/endpoint_server.h"
#include "support/failing_allocator.h"

// ------------------------------------------------------------------ replies

#define TOKENS(tokens, logs, rest)                                                                           \
    "{\"choices\": [{\"text\": \"\", \"logprobs\": {\"tokens\": [" tokens "], \"token_logprobs\": [" logs    \
    "]" rest "}}]}"

static const struct {
    const char *prefix, *continuation, *reply;
    double expected;
    bool greedy;
} scored[] = {
    // The tokens' texts; what was written ahead is left out, or is not there.
    {"Is it?", " yes", TOKENS("\"Is\", \" it\", \"?\", \" yes\", \"!\"", "null, -1, -2, -3, -9", ""), -3,
     false},
    {"Is it?", " yes", TOKENS("\"Is\", \" it\", \"?\", \" yes\"", "null, -1, -2, -3", ""), -3, false},
    {"Is it?", " yes, it is",
     TOKENS("\"Is it\", \"?\", \" yes\", \",\", \" it\", \" is\", \"\"", "null, -1, -2, -3, -4, -5, -6", ""),
     -14, false},
    // White space at the end of the prefix is the continuation's.
    {"Is it? ", "yes", TOKENS("\"Is it?\", \" yes\", \"!\"", "null, -3, -9", ""), -3, false},
    // A token over the border is the prefix's, unless it is the only one.
    {"ab", "c", TOKENS("\"a\", \"bc\", \"!\"", "null, -1, -9", ""), -1, false},
    {"ab", "cd", TOKENS("\"a\", \"bc\", \"d\", \"!\"", "null, -1, -2, -9", ""), -2, false},
    // Tokens decoded by themselves have lost their space.
    {"Is it?", " yes or",
     TOKENS("\"Is\", \"it\", \"?\", \"yes\", \"or\", \"!\"", "null, -1, -2, -3, -4, -9", ""), -7, false},
    {"Is it:", " 5", TOKENS("\"Is\", \"it\", \":\", \"\", \"5\", \"!\"", "null, -1, -2, -3, -4, -9", ""), -7,
     false},
    {"(a)", "  two b",
     TOKENS("\"\", \"(a\", \")\", \"\", \"two\", \"b\", \"!\"", "null, -1, -2, -3, -4, -5, -9", ""), -12,
     false},
    // Characters that are cut into tokens, and tokens that are no texts: offsets, in characters.
    {"Größe:", " ü",
     TOKENS("\"Gr\", \"?\", \"?\", \"?\", \"?\"", "null, -1, -2, -4, -9",
            ", \"text_offset\": [0, 2, 5, 6, 8]"),
     -4, false},
    {"Größe:", " ü",
     TOKENS("\"<s>\", \"Gr\", \"?\", \"?\", \"?\"", "null, -1, -2, -4, -9",
            ", \"text_offset\": [0, 3, 5, 9, 11]"),
     -4, false},
    // Characters cut into tokens that decode to nothing, or to what stands for a broken one.
    {"Is it?", " \U0001f642 ok",
     TOKENS("\"Is it?\", \" \\ufffd\", \"\\ufffd\", \"\", \"\\ufffd\", \" ok\", \"!\"",
            "null, -1, -2, -3, -4, -5, -9", ""),
     -15, false},
    {"Is it?", "\u00fc", TOKENS("\"Is it?\", \"\\ufffd\", \"\\ufffd\", \"!\"", "null, -1, -2, -9", ""), -3,
     false},
    {"Is it?", " \u00fcbel",
     TOKENS("\"Is\", \"it\", \"?\", \"\\ufffd\", \"\\ufffd\", \"bel\", \"!\"", "null, -1, -2, -3, -4, -5, -9",
            ""),
     -12, false},
    // Spelt as in the vocabulary: the space is a token of its own, which only the offsets know.
    {"Is it?", " y",
     TOKENS("\"Is\", \"\\u0120it\", \"?\", \"\\u0120\", \"y\", \"!\"", "null, -1, -2, -3, -4, -9",
            ", \"text_offset\": [0, 2, 5, 6, 7, 8]"),
     -7, false},
    // The likeliest tokens, where they are named.
    {"a", " b",
     TOKENS("\"a\", \" b\", \"!\"", "null, -1, -9", ", \"top_logprobs\": [null, {\" b\": -1}, {\"x\": -1}]"),
     -1, true},
    {"a", " b",
     TOKENS("\"a\", \" b\", \"!\"", "null, -1, -9",
            ", \"top_logprobs\": [null, {\" c\": -0.5, \" b\": -1}, {}]"),
     -1, false},
    // Rounded up to a little above 1.
    {"a", " b", TOKENS("\"a\", \" b\", \"!\"", "null, 1e-7, -9", ""), 0, false},
};

static void test_scores(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof scored / sizeof scored[0]; i++) {
        char whole[64];
        struct mt_choice_score score = {0};
        int64_t tokens = 0;
        (void)snprintf(whole, sizeof whole, "%s%s", scored[i].prefix, scored[i].continuation);
        enum mt_status status = mt_score_reply(&ctx, scored[i].reply, strlen(scored[i].reply),
                                               mt_text_of(whole), strlen(scored[i].prefix), &score, &tokens);
        if (status != MT_OK || fabs(score.log_likelihood - scored[i].expected) > 1e-12)
            print_message("case %zu: %s, %g\n", i, status != MT_OK ? ctx.message : "", score.log_likelihood);
        assert_int_equal(status, MT_OK);
        assert_true(fabs(score.log_likelihood - scored[i].expected) < 1e-12);
        assert_int_equal(score.greedy, scored[i].greedy);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_no_scores(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        enum mt_status expected;
    } cases[] = {
        {"", MT_ERR_FORMAT},
        {"[]", MT_ERR_FORMAT},
        {"{\"choices\": []}", MT_ERR_FORMAT},
        {"{\"choices\": [3]}", MT_ERR_FORMAT},
        {"{\"choices\": [{\"text\": \"a b\"}]}", MT_ERR_UNSUPPORTED},
        {"{\"choices\": [{\"logprobs\": null}]}", MT_ERR_UNSUPPORTED},
        {"{\"choices\": [{\"logprobs\": {\"content\": []}}]}", MT_ERR_UNSUPPORTED},
        {TOKENS("\"!\"", "-1", ""), MT_ERR_UNSUPPORTED},
        {TOKENS("\"a\", \" b\", \"!\"", "null, -1", ""), MT_ERR_UNSUPPORTED},
        {TOKENS("\"c\", \" b\", \"!\"", "null, -1, -9", ""), MT_ERR_FORMAT},
        {TOKENS("\"a\", \" c\", \"!\"", "null, -1, -9", ""), MT_ERR_FORMAT},
        {TOKENS("\"x\", \"b\", \"!\"", "null, null, -9", ""), MT_ERR_FORMAT},
        {TOKENS("\"a\", \" b\", \"!\"", "null, NaN, -9", ""), MT_ERR_FORMAT},
        {TOKENS("\"a\", \" b\", \"!\"", "null, \"-1\", -9", ""), MT_ERR_FORMAT},
        {TOKENS("\"a\", \" b\", \"!\"", "null, 2, -9", ""), MT_ERR_FORMAT},
        {TOKENS("\"a\", \" b\", \"!\"", "null, -1e99, -9", ""), MT_ERR_FORMAT},
        {TOKENS("\" b\", \"!\"", "null, -9", ""), MT_ERR_FORMAT}, // nothing before it
        {TOKENS("1, 2, 3", "null, -1, -9", ", \"text_offset\": [5, 4, 3]"), MT_ERR_FORMAT},
        {TOKENS("1, 2, 3", "null, -1, -9", ", \"text_offset\": [0, 1, 7]"), MT_ERR_FORMAT},
        {TOKENS("1, 2, 3", "null, -1, -9", ", \"text_offset\": [null, null, null]"), MT_ERR_FORMAT},
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_choice_score score;
        int64_t tokens = 0;
        enum mt_status status = mt_score_reply(&ctx, cases[i].reply, strlen(cases[i].reply),
                                               mt_text_of("a b"), 1, &score, &tokens);
        if (status != cases[i].expected) print_message("case %zu: %s\n", i, ctx.message);
        assert_int_equal(status, cases[i].expected);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_nul(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_byte_list body = {.ctx = &ctx};
    assert_int_equal(mt_byte_list_append_text(&body, "\"a\\u0000b\\\\u0000\\\\\\u0000\\u000\""), MT_OK);
    mt_reply_without_nul(&body);
    assert_true(mt_text_is(mt_text_in(&body), "\"a\\ufffdb\\\\u0000\\\\\\ufffd\\u000\""));
    mt_byte_list_free(&body);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const cases[] = {"{\"error\": {\"message\": \"too long\", \"code\": 400}}",
                                        "{\"error\": \"too long\"}", "{\"detail\": \"too long\"}",
                                        "{\"object\": \"error\", \"message\": \"too long\", \"code\": 400}"};
    struct mt_context ctx;
    char line[64];
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(mt_chat_refusal(&ctx, cases[i], strlen(cases[i]), NULL, line, sizeof line), MT_OK);
        assert_string_equal(line, "too long");
    }
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ memory

static enum mt_status count_answer(void *self, size_t index)
{
    (void)index;
    ++*(int *)self;
    return MT_OK;
}

static enum mt_status count_nothing(void *self, size_t index, const char *why)
{
    (void)self;
    (void)index;
    (void)why;
    return MT_OK;
}

static bool go_on(void *self, int64_t tokens)
{
    (void)self;
    return tokens >= 0;
}

/* Two questions of each kind. */
static enum mt_status ask_all(struct mt_context *ctx, const void *self)
{
    int answered = 0;
    const struct mt_endpoint_options options = {
        .model = "m",
        .http = {.endpoint = self, .key = "secret-key", .parallel = 2, .timeout = 1000, .backoff = 1},
        .temperature = -1.0};
    static const char *const stop[] = {"STOP", NULL};
    const struct mt_answer_listener listener = {
        .self = &answered, .answered = count_answer, .failed = count_nothing, .go_on = go_on};
    const struct mt_answer_options wanted = {.max_tokens = 5, .stop = stop, .samples = 1};
    const struct mt_question questions[2] = {{.task = "t", .id = "0", .prompt = mt_text_of("Mira?")},
                                             {.task = "t", .id = "1", .prompt = mt_text_of("Jon?")}};
    const struct mt_text continuations[2] = {mt_text_of(" no"), mt_text_of(" yes")};
    struct mt_choice_score scores[2] = {{0}};
    const struct mt_choice_question choosing = {.task = "t",
                                                .id = "0",
                                                .prefix = mt_text_of("Is it?"),
                                                .continuations = continuations,
                                                .count = 2,
                                                .scores = scores};
    struct mt_byte_list answers[2] = {{.ctx = ctx}, {.ctx = ctx}};
    struct mt_endpoint *endpoint = NULL;
    enum mt_status status = mt_endpoint_create(ctx, &options, &endpoint);
    if (status == MT_OK) {
        const struct mt_answerer answerer = mt_endpoint_answerer(endpoint);
        status = answerer.generate(answerer.self, questions, 2, &wanted, &listener, answers);
        if (status == MT_OK) status = answerer.score(answerer.self, &choosing, 1, &listener);
    }
    if (status == MT_OK && (answered != 3 || !mt_text_is(mt_text_in(&answers[1]), "So it is\n#### 200") ||
                            scores[0].log_likelihood != -1.5 || scores[1].log_likelihood != -2.0))
        status = mt_fail(ctx, MT_ERR_INTERNAL, "other answers than expected");
    mt_endpoint_destroy(endpoint);
    mt_byte_list_free(&answers[0]);
    mt_byte_list_free(&answers[1]);
    return status;
}

static void test_memory(void **state)
{
    struct mt_context ctx;
    struct endpoint_server server;
    char url[128];
    if (!endpoint_server_start(*state, &server)) skip();
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%ld/good/v1", server.port);
    mt_context_init(&ctx, NULL);
    enum mt_status status = ask_all(&ctx, url);
    struct failing_report report = {.ok = true};
    if (status == MT_OK) report = fail_each_allocation(ask_all, url);
    endpoint_server_stop(&server);
    workplace_clear(*state);
    if (status == MT_ERR_UNSUPPORTED) skip(); // built without libcurl
    if (status != MT_OK) print_message("%s\n", ctx.message);
    assert_int_equal(status, MT_OK);
    if (!report.ok) print_message("%s\n", report.problem);
    assert_true(report.ok);
    assert_true(report.allocations > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_no_scores),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test_setup_teardown(test_memory, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
