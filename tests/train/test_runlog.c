/* A run's log: what stands in metrics.jsonl, resuming, broken files, full disks, memory. */
#include "train/log/runlog.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/file.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"
#include "train/log/json_line.h"

enum { LAYERS = 3, EXPERTS = 5 };

struct made_step {
    struct mt_step_record record;
    struct mt_layer_record layers[LAYERS];
    double load[LAYERS][EXPERTS];
};

static void make_step(struct made_step *made, uint64_t step)
{
    double t = (double)step;
    made->record = (struct mt_step_record){.step = step,
                                           .steps = 100,
                                           .epoch = t / 7.0,
                                           .learning_rate = 1e-4 / 3.0,
                                           .loss = 1.0 / t,
                                           .task = 0.1 * t,
                                           .gradient_norm = INFINITY,
                                           .clipped = true,
                                           .max_violation = 0.5,
                                           .max_violation_running = 0.25,
                                           .load_entropy = 1.5,
                                           .tokens = 4096,
                                           .answer_tokens = 77,
                                           .examples = 8,
                                           .tokens_total = 4096 * step,
                                           .seconds = 2.0 * t,
                                           .tokens_per_second = 2048.0,
                                           .layers = made->layers,
                                           .layer_count = LAYERS,
                                           .experts = EXPERTS};
    for (int l = 0; l < LAYERS; l++) {
        made->layers[l] = (struct mt_layer_record){.layer = 2 * l + 1,
                                                   .load_entropy = 1.0 + l,
                                                   .max_violation = 0.1 * l,
                                                   .max_violation_running = 0.3,
                                                   .variance_expert_topk = 1e-5,
                                                   .variance_expert_full = NAN,
                                                   .variance_token = l == 1 ? NAN : 0.25,
                                                   .load = made->load[l]};
        for (int j = 0; j < EXPERTS; j++) made->load[l][j] = 10.0 * l + j;
    }
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        bool on = term == MT_TERM_AUX || term == MT_TERM_O;
        made->record.term[term] = on ? 1.0 + term : NAN;
        made->record.weighted[term] = on ? 1e-3 * (1.0 + term) : NAN;
        for (int l = 0; l < LAYERS; l++) {
            made->layers[l].loss[term] = on ? 1.0 + term + l : NAN;
            made->layers[l].weight[term] = on ? 1e-3 : NAN;
            made->layers[l].gradient[term] = NAN;
        }
    }
}

static struct mt_run_log_options options_of(const struct workplace *place)
{
    return (struct mt_run_log_options){
        .directory = place->directory, .steps = 100, .layers = LAYERS, .experts = EXPERTS};
}

static struct mt_run_log *open_log(struct mt_context *ctx, const struct mt_run_log_options *options)
{
    struct mt_run_log *log = NULL;
    if (mt_run_log_open(ctx, options, &log) != MT_OK) fail_msg("%s", ctx->message);
    return log;
}

static void log_steps(struct mt_run_log *log, uint64_t first, uint64_t last)
{
    static struct made_step made;
    for (uint64_t step = first; step <= last; step++) {
        make_step(&made, step);
        mt_run_log_progress(log, &made.record);
        assert_int_equal(mt_run_log_step(log, &made.record), MT_OK);
    }
}

/* The lines of metrics.jsonl; the caller drops each. */
static size_t read_lines(const struct workplace *place, json_t **lines, size_t most)
{
    char path[256];
    FILE *file = fopen(workplace_path(place, "metrics.jsonl", path, sizeof path), "r");
    assert_non_null(file);
    size_t count = 0;
    char *line = NULL;
    size_t room = 0;
    ssize_t length = getline(&line, &room, file);
    while (length > 0) {
        assert_int_equal(line[length - 1], '\n');
        assert_true(count < most);
        lines[count] = json_loadb(line, (size_t)length, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(lines[count]);
        count++;
        length = getline(&line, &room, file);
    }
    free(line);
    (void)fclose(file);
    return count;
}

static double number(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("%s is not a number", key);
    return json_number_value(value);
}

static const char *word(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    if (value == NULL) fail_msg("%s is not a string", key);
    return value;
}

static double element(const json_t *object, const char *key, size_t index)
{
    json_t *value = json_array_get(json_object_get(object, key), index);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

// ------------------------------------------------------------------ content

static void check_layers(const json_t *layers, const struct made_step *made)
{
    for (size_t l = 0; l < LAYERS; l++) {
        assert_true(element(layers, "layer", l) == (double)made->layers[l].layer);
        assert_true(element(layers, "load_entropy", l) == made->layers[l].load_entropy);
        assert_true(element(layers, "max_violation", l) == made->layers[l].max_violation);
        assert_true(element(layers, "variance_expert_topk", l) == 1e-5);
        assert_int_equal(isnan(element(layers, "variance_token", l)), l == 1);
        assert_true(element(layers, "term_o", l) == made->layers[l].loss[MT_TERM_O]);
        assert_true(element(layers, "weight_aux", l) == 1e-3);
        const json_t *load = json_array_get(json_object_get(layers, "load"), l);
        assert_int_equal(json_array_size(load), EXPERTS);
        for (size_t j = 0; j < EXPERTS; j++) {
            assert_true(json_number_value(json_array_get(load, j)) == made->load[l][j]);
        }
    }
    // What no layer knows is null, not an array of nulls.
    assert_true(json_is_null(json_object_get(layers, "variance_expert_full")));
    assert_true(json_is_null(json_object_get(layers, "gradient_o")));
    assert_true(json_is_null(json_object_get(layers, "term_simbal")));
}

static void every_kind_of_line(void **state)
{
    struct mt_context ctx;
    struct made_step made;
    json_t *lines[8];
    struct mt_run_log_options options = options_of(*state);
    mt_context_init(&ctx, NULL);
    struct mt_run_log *log = open_log(&ctx, &options);
    mt_context_forbid_allocation(&ctx, "logging");
    make_step(&made, 3);
    assert_int_equal(mt_run_log_step(log, &made.record), MT_OK);
    made.record.layers = NULL;
    assert_int_equal(mt_run_log_step(log, &made.record), MT_OK);
    made.record.layers = made.layers;
    const struct mt_evaluation_record evaluation = {
        .step = 3, .loss = 2.5, .perplexity = NAN, .answer_tokens = 12, .best = true, .seconds = 0.5};
    assert_int_equal(mt_run_log_evaluation(log, &evaluation), MT_OK);
    assert_int_equal(mt_run_log_event(log, 3, "warning", "a \"path\\\" \xff\xc3\xa9\n\x01"), MT_OK);
    uint64_t bytes = 0;
    assert_int_equal(mt_run_log_sync(log, &bytes), MT_OK);
    mt_context_forbid_allocation(&ctx, NULL);
    mt_run_log_close(log);
    assert_int_equal(ctx.live_bytes, 0);
    assert_int_equal(read_lines(*state, lines, 8), 4);
    assert_string_equal(word(lines[0], "kind"), "step");
    assert_true(number(lines[0], "loss") == 1.0 / 3.0 && number(lines[0], "epoch") == 3.0 / 7.0);
    assert_true(number(lines[0], "learning_rate") == 1e-4 / 3.0);
    assert_true(number(lines[0], "term_o") == 2.0 && number(lines[0], "weighted_o") == 0.002);
    assert_true(json_is_null(json_object_get(lines[0], "term_v")));
    assert_true(json_is_null(json_object_get(lines[0], "gradient_norm"))); // JSON has no infinity
    assert_true(json_is_true(json_object_get(lines[0], "clipped")));
    assert_true(number(lines[0], "tokens_total") == 3.0 * 4096.0);
    check_layers(json_object_get(lines[0], "layers"), &made);
    assert_null(json_object_get(lines[1], "layers"));
    assert_string_equal(word(lines[2], "kind"), "evaluation");
    assert_true(json_is_null(json_object_get(lines[2], "perplexity")));
    assert_string_equal(word(lines[3], "event"), "warning");
    assert_string_equal(word(lines[3], "text"), "a \"path\\\" \xef\xbf\xbd\xc3\xa9\n\x01");
    struct stat info;
    char path[256];
    assert_int_equal(stat(workplace_path(*state, "metrics.jsonl", path, sizeof path), &info), 0);
    assert_int_equal(info.st_size, bytes);
    for (int i = 0; i < 4; i++) json_decref(lines[i]);
}

static void numbers_are_short_and_exact(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"},
                 {1.0, "1"},
                 {-0.0, "-0"},
                 {1e-300, "1e-300"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {1.0 / 3.0, "0.3333333333333333"},
                 {DBL_MAX, "1.7976931348623157e+308"},
                 {NAN, "null"},
                 {-INFINITY, "null"},
                 {123456789.0, "123456789"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char buffer[64] = "";
        struct mt_json_line text = {.data = buffer, .room = sizeof buffer - 1};
        mt_json_put_number(&text, NULL, cases[i].value);
        assert_false(text.full);
        assert_string_equal(buffer, cases[i].text);
    }
}

/* The largest record there can be fits the room made at opening: every number as long as can be. */
static void the_longest_lines_fit(void **state)
{
    struct mt_context ctx;
    static struct made_step made;
    char long_text[4096];
    struct mt_run_log_options options = options_of(*state);
    mt_context_init(&ctx, NULL);
    struct mt_run_log *log = open_log(&ctx, &options);
    make_step(&made, INT64_MAX); // what JSON readers take as a whole number at the most
    made.record.tokens_total = INT64_MAX;
    const double longest = -2.2250738585072014e-308;
    made.record.epoch = made.record.loss = made.record.task = made.record.learning_rate = longest;
    made.record.seconds = made.record.tokens_per_second = made.record.gradient_norm = longest;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        made.record.term[term] = made.record.weighted[term] = longest;
        for (int l = 0; l < LAYERS; l++) {
            made.layers[l].loss[term] = made.layers[l].weight[term] = longest;
            made.layers[l].gradient[term] = made.layers[l].variance_token = longest;
        }
    }
    for (int l = 0; l < LAYERS; l++) {
        made.layers[l].layer = INT64_MIN;
        for (int j = 0; j < EXPERTS; j++) made.load[l][j] = longest;
    }
    assert_int_equal(mt_run_log_step(log, &made.record), MT_OK);
    memset(long_text, 1, sizeof long_text - 1); // each byte becomes six
    long_text[sizeof long_text - 1] = '\0';
    assert_int_equal(mt_run_log_event(log, 1, long_text, long_text), MT_OK);
    made.record.experts = EXPERTS + 1;
    assert_int_equal(mt_run_log_step(log, &made.record), MT_ERR_USAGE);
    mt_run_log_close(log);
    assert_int_equal(ctx.live_bytes, 0);
    json_t *lines[4];
    assert_int_equal(read_lines(*state, lines, 4), 2);
    assert_true(strlen(word(lines[1], "text")) < 2100);
    json_decref(lines[0]);
    json_decref(lines[1]);
}

// ------------------------------------------------------------------ resuming

static void check_steps(const struct workplace *place, uint64_t last, size_t others)
{
    json_t *lines[64];
    size_t count = read_lines(place, lines, 64);
    uint64_t step = 0;
    size_t other = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(word(lines[i], "kind"), "step") == 0) {
            assert_int_equal((uint64_t)number(lines[i], "step"), ++step);
        } else {
            other++;
        }
        json_decref(lines[i]);
    }
    assert_int_equal(step, last);
    assert_int_equal(other, others);
}

static void a_resumed_run_has_every_step_once(void **state)
{
    struct mt_context ctx;
    uint64_t bytes = 0;
    struct mt_run_log_options options = options_of(*state);
    mt_context_init(&ctx, NULL);
    struct mt_run_log *log = open_log(&ctx, &options);
    log_steps(log, 1, 4);
    assert_int_equal(mt_run_log_sync(log, &bytes), MT_OK);
    log_steps(log, 5, 9); // after the checkpoint: lost when the run is killed
    mt_run_log_close(log);
    options.done.steps = 4;
    options.metrics_bytes = bytes;
    log = open_log(&ctx, &options);
    log_steps(log, 5, 7);
    mt_run_log_close(log);
    check_steps(*state, 7, 0);
    // A new run begins with an empty file.
    options.done.steps = 0;
    options.metrics_bytes = 0;
    log = open_log(&ctx, &options);
    log_steps(log, 1, 2);
    mt_run_log_close(log);
    check_steps(*state, 2, 0);
    assert_int_equal(ctx.live_bytes, 0);
}

/* How many lines hold a text. */
static int lines_with(const struct workplace *place, const char *text)
{
    char path[256];
    char line[65536];
    int count = 0;
    FILE *file = fopen(workplace_path(place, "metrics.jsonl", path, sizeof path), "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) count += strstr(line, text) != NULL;
    assert_int_equal(fclose(file), 0);
    return count;
}

/* What is told of a checkpoint stands behind where it saw the log's end: killed at any moment, it is told
 * once. */
static void a_resumed_run_has_the_events_of_its_checkpoint(void **state)
{
    struct mt_context ctx;
    char path[256];
    uint64_t bytes = 0;
    struct mt_run_log_options options = options_of(*state);
    mt_context_init(&ctx, NULL);
    struct mt_run_log *log = open_log(&ctx, &options);
    log_steps(log, 1, 4);
    assert_int_equal(mt_run_log_sync(log, &bytes), MT_OK);
    assert_int_equal(mt_run_log_event(log, 4, "checkpoint", "c/step-4"), MT_OK);
    assert_int_equal(mt_run_log_event(log, 4, "interrupted", "by signal 15"), MT_OK);
    mt_run_log_close(log);
    options.done.steps = 4;
    options.metrics_bytes = bytes;
    options.checkpoint = "c/step-4";
    for (int time = 0; time < 2; time++) { // killed before the next checkpoint: again from the same one
        log = open_log(&ctx, &options);
        assert_int_equal(mt_run_log_event(log, 4, "resumed", "going on"), MT_OK);
        log_steps(log, 5, 6);
        mt_run_log_close(log);
        check_steps(*state, 6, 3);
        assert_int_equal(lines_with(*state, "\"c/step-4\""), 1);
        assert_int_equal(lines_with(*state, "\"interrupted\""), 1);
    }
    // Killed before the event, within its line, and after it.
    static const int beyond[] = {0, 1, 30, 45};
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        (void)workplace_path(*state, "metrics.jsonl", path, sizeof path);
        assert_int_equal(truncate(path, (off_t)bytes + beyond[i]), 0);
        log = open_log(&ctx, &options);
        mt_run_log_close(log);
        check_steps(*state, 4, 1);
        assert_int_equal(lines_with(*state, "\"c/step-4\""), 1);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

/* A file that lost its end: whole lines stay, a warning says so, the run goes on. */
static void a_file_that_is_too_short(void **state)
{
    struct mt_context ctx;
    char path[256];
    uint64_t bytes = 0;
    uint64_t four = 0;
    struct mt_run_log_options options = options_of(*state);
    mt_context_init(&ctx, NULL);
    struct mt_run_log *log = open_log(&ctx, &options);
    log_steps(log, 1, 4);
    assert_int_equal(mt_run_log_sync(log, &four), MT_OK);
    log_steps(log, 5, 6);
    assert_int_equal(mt_run_log_sync(log, &bytes), MT_OK);
    mt_run_log_close(log);
    (void)workplace_path(*state, "metrics.jsonl", path, sizeof path);
    assert_int_equal(truncate(path, (off_t)four + 20), 0); // in the middle of the fifth line
    options.done.steps = 6;
    options.metrics_bytes = bytes;
    log = open_log(&ctx, &options);
    mt_run_log_close(log);
    check_steps(*state, 4, 1);
    // Nothing left at all, and not even a line.
    assert_int_equal(workplace_write(*state, "metrics.jsonl", "{\"kind\"", 7), 0);
    log = open_log(&ctx, &options);
    mt_run_log_close(log);
    check_steps(*state, 0, 1);
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ trouble

static void refused_places(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    char path[256];
    struct mt_run_log *log = NULL;
    struct mt_run_log_options options = options_of(place);
    mt_context_init(&ctx, NULL);
    assert_int_equal(symlink("/dev/full", workplace_path(place, "metrics.jsonl", path, sizeof path)), 0);
    assert_int_equal(mt_run_log_open(&ctx, &options, &log), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "symbolic link"));
    // A link is not followed, to whatever it leads: its target stays as it is.
    char target[256];
    assert_int_equal(unlink(path), 0);
    assert_int_equal(workplace_write(place, "precious", "precious\n", 9), 0);
    for (int hard = 0; hard < 2; hard++) {
        (void)workplace_path(place, "precious", target, sizeof target);
        assert_int_equal(hard ? link(target, path) : symlink(target, path), 0);
        assert_int_equal(mt_run_log_open(&ctx, &options, &log), MT_ERR_IO);
        assert_non_null(strstr(ctx.message, hard ? "hard link" : "symbolic link"));
        struct stat info;
        assert_int_equal(stat(target, &info), 0);
        assert_int_equal(info.st_size, 9);
        assert_int_equal(unlink(path), 0);
    }
    options.directory = "/nowhere/at/all";
    assert_int_equal(mt_run_log_open(&ctx, &options, &log), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "/nowhere/at/all/metrics.jsonl"));
    assert_null(log);
    mt_run_log_close(log);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Without a terminal a warning still reaches the log, with the place it is about; routine does not. */
static void quiet_runs_tell_warnings(void **state)
{
    struct mt_context ctx;
    struct mt_run_log_options options = options_of(*state);
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    struct mt_log warnings = {.stream = stream, .level = MT_LOG_WARNING};
    mt_context_init(&ctx, NULL);
    options.log = &warnings;
    struct mt_run_log *log = open_log(&ctx, &options);
    assert_int_equal(mt_run_log_event(log, 3, "checkpoint", "c"), MT_OK);
    assert_int_equal(mt_run_log_event(log, 4, "warning", "w"), MT_OK);
    assert_int_equal(mt_run_log_event(log, 5, "data", "d"), MT_OK);
    mt_run_log_close(log);
    assert_int_equal(fflush(stream), 0);
    assert_non_null(strstr(text, "metrics.jsonl: step 4: w\n"));
    assert_null(strstr(text, "step 5"));
    assert_null(strstr(text, "step 3"));
    size_t before = bytes;
    // Where a terminal shows them, the log need not.
    options.terminal = fopen("/dev/null", "w");
    log = open_log(&ctx, &options);
    assert_int_equal(mt_run_log_event(log, 4, "warning", "w"), MT_OK);
    mt_run_log_close(log);
    assert_int_equal(fclose(options.terminal), 0);
    assert_int_equal(fclose(stream), 0);
    assert_int_equal(bytes, before);
    free(text);
}

/* No room for a record: it is refused, and no part of it stays. */
static void a_full_disk(void **state)
{
    struct mt_context ctx;
    struct made_step made;
    uint64_t bytes = 0;
    struct rlimit limit;
    struct mt_run_log_options options = options_of(*state);
    mt_context_init(&ctx, NULL);
    struct mt_run_log *log = open_log(&ctx, &options);
    log_steps(log, 1, 2);
    assert_int_equal(mt_run_log_sync(log, &bytes), MT_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit tight = {.rlim_cur = (rlim_t)bytes + 100, .rlim_max = limit.rlim_max};
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    make_step(&made, 3);
    enum mt_status status = mt_run_log_step(log, &made.record);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    (void)signal(SIGXFSZ, before);
    assert_int_equal(status, MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "metrics.jsonl"));
    check_steps(*state, 2, 0);
    log_steps(log, 3, 3);
    mt_run_log_close(log);
    check_steps(*state, 3, 0);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status open_and_log(struct mt_context *ctx, const void *self)
{
    static struct made_step made;
    struct mt_run_log_options options = options_of(self);
    struct mt_run_log *log = NULL;
    options.tensorboard = true;
    enum mt_status status = mt_run_log_open(ctx, &options, &log);
    make_step(&made, 1);
    if (status == MT_OK) status = mt_run_log_step(log, &made.record);
    mt_run_log_close(log);
    workplace_remove_folder(self, "tensorboard");
    return status;
}

static void failing_allocations(void **state)
{
    assert_every_allocation_may_fail(open_and_log, *state, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_kind_of_line, workplace_open, workplace_close),
        cmocka_unit_test(numbers_are_short_and_exact),
        cmocka_unit_test_setup_teardown(the_longest_lines_fit, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(a_resumed_run_has_every_step_once, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(a_resumed_run_has_the_events_of_its_checkpoint, workplace_open,
                                        workplace_close),
        cmocka_unit_test_setup_teardown(a_file_that_is_too_short, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(refused_places, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(quiet_runs_tell_warnings, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(a_full_disk, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(failing_allocations, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
