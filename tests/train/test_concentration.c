/*
 * A drift towards one expert a token: the rule on figures, then whole runs that have one planted, have none,
 * or are left and gone on with. Tests src/objective/concentration.c.
 */
#include "objective/concentration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objective/loads.h"
#include "support/cmocka_all.h"
#include "support/training_bench.h"

#define SENTENCE "one expert works where 2 are paid for"

// ------------------------------------------------------------------ the rule

/* The step at which figures of the steps 1, 10, 20, ... are reported; 0: never. More than once fails. */
static uint64_t reported_at(const double *figures, size_t count, bool ends)
{
    struct mt_concentration memory = MT_CONCENTRATION_NONE;
    uint64_t reported = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t step = i == 0 ? 1 : 10 * i;
        assert_true(mt_concentration_due(step));
        if (!mt_concentration_look(&memory, step, ends && i + 1 == count, figures[i])) continue;
        assert_int_equal(reported, 0);
        reported = step;
    }
    assert_int_equal(memory.reported, reported);
    return reported;
}

#define FIGURES(...)       (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double)
#define REPORTED(...)      reported_at(FIGURES(__VA_ARGS__), false)
#define REPORTED_ENDS(...) reported_at(FIGURES(__VA_ARGS__), true) // the last figure is the last step's

static void the_rule(void **state)
{
    (void)state;
    double unknown = (double)NAN;
    assert_int_equal(REPORTED(2.6, 2.0, 1.4, 1.3, 1.2, 1.1, 1.1), 30);
    assert_int_equal(REPORTED(8.0, 7.5, 7.0, 1.02, 1.01), 40);
    assert_int_equal(REPORTED(2.6, 2.5, 2.2, 1.9, 1.7, 1.6, 1.55, 1.52), 0); // nearer to two
    assert_int_equal(REPORTED(2.6, 1.4, 1.9, 1.4, 1.9, 1.4, 1.9), 0);        // batches that differ
    assert_int_equal(REPORTED(2.6, 1.4, 1.9, 1.4, 1.4), 40);
    assert_int_equal(REPORTED(2.6, 1.4, unknown, 1.4), 30); // what nobody saw says nothing
    assert_int_equal(REPORTED(unknown, 2.6, 1.4, 1.4), 30); // the first that is known is the start
    assert_int_equal(REPORTED(1.0, 1.0, 1.0, 1.0), 0);      // k = 1
    assert_int_equal(REPORTED(1.19, 1.1, 1.0, 1.0), 0);     // concentrated from the start
    assert_int_equal(REPORTED(1.4, 1.25, 1.19, 1.1), 30);   // of two, not evenly: half of the rest is lost
    assert_int_equal(REPORTED(1.62, 1.45, 1.4, 1.35), 0);   // of two: less than half is lost
    assert_int_equal(REPORTED(1.62, 1.30, 1.29), 20);
    assert_int_equal(REPORTED(2.6, 1.9, 1.4), 0); // one look, and the run goes on
    assert_int_equal(REPORTED_ENDS(2.6, 1.9, 1.4), 20);
    assert_int_equal(REPORTED_ENDS(2.6, 1.4), 10);
    assert_int_equal(REPORTED_ENDS(2.6, 1.4, 1.3, 1.2), 20); // once
    assert_int_equal(REPORTED_ENDS(2.6, 1.4, 1.9), 0);
    assert_int_equal(REPORTED_ENDS(1.0, 1.0), 0);
    assert_int_equal(REPORTED(2.6, 1.2, 1.2, 2.6, 1.2, 1.2), 20); // once
    assert_false(mt_concentration_due(5));
    assert_false(mt_concentration_due(11));
}

static void the_setting_that_stops_it(void **state)
{
    (void)state;
    char text[MT_CONCENTRATION_TEXT_BYTES];
    mt_concentration_text(2.6, 1.2, &(struct mt_concentration_cause){.gamma = 0.1}, text);
    assert_non_null(strstr(text, "1.20 effective experts a token, 2.60 at the start"));
    assert_non_null(strstr(text, "set objective.brake to target, lower objective.gamma (now 0.1), or train"));
    mt_concentration_text(2.6, 1.2, &(struct mt_concentration_cause){.gamma = 0.1, .target = true}, text);
    assert_non_null(strstr(text, "lower objective.brake_target"));
    mt_concentration_text(2.6, 1.2, &(struct mt_concentration_cause){.lambda_cp = 1}, text);
    assert_non_null(strstr(text, "lower objective.lambda_cp (now 1)"));
    mt_concentration_text(2.6, 1.2, &(struct mt_concentration_cause){0}, text);
    assert_non_null(strstr(text, "lower optimizer.lr, or train fewer steps"));
}

static void experts_that_serve(void **state)
{
    (void)state;
    bool member[5];
    const double load[5] = {10, 0, 40, 10, 40};
    assert_int_equal(mt_load_serving(load, 5, 0.9, member), 3); // 40, 40, and the first of the equal ones
    assert_true(member[0] && member[2] && member[4] && !member[1] && !member[3]);
    assert_int_equal(mt_load_serving(load, 5, 0.8, member), 2);
    assert_int_equal(mt_load_serving(load, 5, 1.0, NULL), 4);
    assert_int_equal(mt_load_serving((const double[]){7, 7, 7, 7, 7, 7, 7, 7, 7, 7}, 10, 0.9, NULL), 9);
    assert_int_equal(mt_load_serving((const double[]){0, 0}, 2, 0.9, member), 0);
    assert_false(member[0]);
}

// ------------------------------------------------------------------ runs

/* Events of a run that say so; *step: the last one's. */
static int events_of(const struct workplace *place, const char *file, long *step)
{
    char path[256];
    static char line[1 << 16];
    int count = 0;
    FILE *metrics = fopen(workplace_path(place, file, path, sizeof path), "r");
    assert_non_null(metrics);
    while (fgets(line, sizeof line, metrics) != NULL) {
        if (strstr(line, "\"event\":\"warning\"") == NULL || strstr(line, SENTENCE) == NULL) continue;
        const char *number = strstr(line, "\"step\":");
        assert_non_null(number);
        *step = strtol(number + strlen("\"step\":"), NULL, 10);
        count++;
    }
    (void)fclose(metrics);
    return count;
}

/* True if the summary at its end says so. */
static bool run_words(const struct workplace *place, const char *out, const char *words, uint64_t stop)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *terminal = open_memstream(&text, &bytes);
    assert_non_null(terminal);
    struct training_run run = {.options = {.stop_after = stop, .terminal = terminal}};
    if (training_run_all(&run, place, out, words) != MT_OK) fail_msg("%s", run.ctx.message);
    (void)fclose(terminal);
    bool said = strstr(text, "\n  " SENTENCE) != NULL;
    free(text);
    return said;
}

#define FULL   "train=full optimizer.lr=1e-2 log.measure_every=0 checkpoint.every=0 "
#define DRIFTS FULL "steps=40 objective.gamma=1"
#define SLOWER FULL "steps=50 objective.gamma=0.1"

/* However rarely the run is logged. The brake that the warning names does stop it. */
static void a_planted_drift_is_reported(void **state)
{
    const struct workplace *place = *state;
    long step = 0;
    assert_int_equal(training_bench_make(place, &mt_arch_mixtral), 0);
    (void)run_words(place, "drifts", DRIFTS " log.every=40", 0);
    assert_int_equal(events_of(place, "drifts/metrics.jsonl", &step), 1);
    assert_in_range(step, 20, 40);
    assert_true(run_words(place, "slower", SLOWER, 0));
    assert_int_equal(events_of(place, "slower/metrics.jsonl", &step), 1);
    // Too short for two looks: the last step is judged by itself.
    assert_true(run_words(place, "short", FULL "steps=19 objective.gamma=1", 0));
    assert_int_equal(events_of(place, "short/metrics.jsonl", &step), 1);
    assert_int_equal(step, 19);
    (void)run_words(place, "braked", SLOWER " objective.brake=target objective.brake_target=1.5", 0);
    assert_int_equal(events_of(place, "braked/metrics.jsonl", &step), 0);
}

static void others_are_not(void **state)
{
    const struct workplace *place = *state;
    static const char *const words[] = {"method=paper", "method=metier", "method=aux", "method=none",
                                        "method=none targets=[attention] batch.examples=1"};
    assert_int_equal(training_bench_make(place, &mt_arch_mixtral), 0);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char text[256];
        long step = 0;
        (void)snprintf(text, sizeof text, "steps=50 optimizer.lr=1e-2 checkpoint.every=0 %s", words[i]);
        assert_false(run_words(place, "run", text, 0));
        if (events_of(place, "run/metrics.jsonl", &step) != 0) fail_msg("%s: at step %ld", words[i], step);
        training_bench_remove(place, "run");
    }
}

/* Left before the second look, or after the report: the same event at the same step, once. */
static void going_on_reports_the_same(void **state)
{
    const struct workplace *place = *state;
    long whole = 0;
    assert_int_equal(training_bench_make(place, &mt_arch_mixtral), 0);
    (void)run_words(place, "whole", DRIFTS, 0);
    assert_int_equal(events_of(place, "whole/metrics.jsonl", &whole), 1);
    const uint64_t stops[] = {(uint64_t)whole - 9, (uint64_t)whole, (uint64_t)whole + 5};
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        long step = 0;
        // One look before the report saw a drift, and is not enough for the summary.
        assert_int_equal(run_words(place, "parts", DRIFTS, stops[i]), i > 0);
        assert_true(run_words(place, "parts", DRIFTS, 0));
        assert_int_equal(events_of(place, "parts/metrics.jsonl", &step), 1);
        assert_int_equal(step, whole);
        training_bench_remove(place, "parts");
    }
}

static int close_place(void **state)
{
    static const char *const folders[] = {"drifts", "slower", "short", "braked", "run", "whole", "parts"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) training_bench_remove(*state, folders[i]);
    return workplace_close(state);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, close_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rule),
        cmocka_unit_test(the_setting_that_stops_it),
        cmocka_unit_test(experts_that_serve),
        IN_PLACE(a_planted_drift_is_reported),
        IN_PLACE(others_are_not),
        IN_PLACE(going_on_reports_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
