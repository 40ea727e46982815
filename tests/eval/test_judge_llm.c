/*
 * A language model as judge, over the network of this machine: tests/cli/eval/endpoint_server.py answers.
 * Here every allocation fails in turn; tests/cli/eval/judge.sh goes through the moods an endpoint can have.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "eval/judges/judge_llm.h"
#include "support/cmocka_all.h"
#include "support/endpoint_server.h"
#include "support/failing_allocator.h"
#include "support/workplace.h"

/* The endpoint, and the run it judges. */
struct bench {
    struct workplace *place;
    struct endpoint_server server;
    char endpoint[128];
};

static enum mt_status judge_run(struct mt_context *ctx, const void *self)
{
    const struct bench *bench = self;
    char path[512];
    struct mt_judged_run run;
    struct mt_llm_judge_report report;
    const struct mt_llm_judge_options options = {
        .model = "m",
        .template = "{question}=== which is right\n{reference}\n=== the answer to grade\n{answer}\n===",
        .http = {
            .endpoint = bench->endpoint, .key = "secret-key", .parallel = 2, .timeout = 1000, .backoff = 1}};
    (void)unlink(workplace_path(bench->place, "judge_t.jsonl", path, sizeof path));
    enum mt_status status = mt_judged_run_read(ctx, bench->place->directory, NULL, &run);
    if (status == MT_OK) status = mt_llm_judge(ctx, &options, &run, &report);
    if (status == MT_OK &&
        (report.judged != 3 || report.failed != 0 ||
         mt_judged_sample_named(&run.tasks[0], "a")->verdicts[MT_JUDGE_LLM] != MT_VERDICT_CORRECT ||
         mt_judged_sample_named(&run.tasks[0], "b")->verdicts[MT_JUDGE_LLM] != MT_VERDICT_INCORRECT))
        status = mt_fail(ctx, MT_ERR_INTERNAL, "other verdicts than expected");
    mt_judged_run_free(&run);
    return status;
}

static void test_memory(void **state)
{
    struct mt_context ctx;
    struct bench bench = {.place = *state};
    static const char samples[] =
        "{\"id\": \"a\", \"prompt\": \"q\", \"target\": \"1\", \"resps\": [\"it is 1\"], "
        "\"filtered_resps\": [\"\"], \"score\": 1}\n"
        "{\"id\": \"b\", \"prompt\": \"q\", \"target\": \"2\", \"resps\": [\"1\"], "
        "\"filtered_resps\": [\"\"], \"score\": 1}\n"
        "{\"id\": \"c\", \"prompt\": \"q\", \"target\": \"2\", \"resps\": [\"\"], "
        "\"filtered_resps\": [\"\"], \"score\": 0}\n";
    assert_int_equal(workplace_write(bench.place, "samples_t.jsonl", samples, strlen(samples)), 0);
    if (!endpoint_server_start(bench.place, &bench.server)) skip();
    (void)snprintf(bench.endpoint, sizeof bench.endpoint, "http://127.0.0.1:%ld/echo/v1", bench.server.port);
    mt_context_init(&ctx, NULL);
    enum mt_status status = judge_run(&ctx, &bench);
    if (status == MT_ERR_UNSUPPORTED) {
        endpoint_server_stop(&bench.server);
        workplace_clear(*state);
        skip(); // built without libcurl
    }
    struct failing_report report = fail_each_allocation(judge_run, &bench);
    endpoint_server_stop(&bench.server);
    if (status != MT_OK) print_message("%s\n", ctx.message);
    assert_int_equal(status, MT_OK);
    if (!report.ok) print_message("%s\n", report.problem);
    assert_true(report.ok);
    assert_true(report.allocations > 20);
    workplace_clear(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memory, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
