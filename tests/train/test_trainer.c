/* Whole runs of small models: learning, going on after interruptions, every ending, memory. */
#include "train/trainer.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/failing_allocator.h"
#include "support/training_bench.h"
#include "train/trainer_internal.h"

static void make(void **state, const struct mt_arch *model)
{
    assert_int_equal(training_bench_make(*state, model), 0);
}

static void must(enum mt_status status, const struct training_run *run)
{
    if (status != MT_OK) fail_msg("%s", run->ctx.message);
}

static void must_fail(enum mt_status status, enum mt_status expected, const struct training_run *run,
                      const char *text)
{
    if (status != expected || strstr(run->ctx.message, text) == NULL)
        fail_msg("status %d, \"%s\"; expected %d and \"%s\"", status, run->ctx.message, expected, text);
}

/* The number after a key in the last line of metrics.jsonl that has it. */
static double last_number(const struct workplace *place, const char *file, const char *key)
{
    char path[256];
    static char line[1 << 16];
    double number = (double)NAN;
    FILE *metrics = fopen(workplace_path(place, file, path, sizeof path), "r");
    assert_non_null(metrics);
    while (fgets(line, sizeof line, metrics) != NULL) {
        const char *found = strstr(line, key);
        if (found != NULL) number = strtod(found + strlen(key), NULL);
    }
    (void)fclose(metrics);
    return number;
}

/* An adapter or a model comes out, and the loss has fallen on the way. */
static void a_run_learns(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {0};
    make(state, &mt_arch_olmoe);
    must(training_run_all(&run, place, "lora",
                          "steps=40 optimizer.lr=2e-2 evaluation.split=0.2 evaluation.every=1"),
         &run);
    assert_int_equal(run.outcome.end, MT_RUN_FINISHED);
    assert_int_equal(run.outcome.step, 40);
    assert_true(run.outcome.best_loss < 5.0); // ln 440 = 6.09 knows nothing
    assert_true(training_bench_has(place, "lora/adapter/adapter_model.safetensors"));
    assert_true(training_bench_has(place, "lora/adapter-best/adapter_model.safetensors"));
    assert_true(training_bench_has(place, "lora/config.yaml"));
    assert_int_equal(run.ctx.live_bytes, 0);
    must(training_run_all(&run, place, "full", "train=full steps=40 optimizer.lr=5e-3 method=none"), &run);
    assert_true(training_bench_has(place, "full/model/model.safetensors"));
    assert_true(training_bench_has(place, "full/model/tokenizer.json"));
    assert_false(training_bench_has(place, "full/model-best"));
    assert_true(last_number(place, "full/metrics.jsonl", "\"loss\":") < 4.0);
    // A second start finds nothing to do.
    must(training_run_all(&run, place, "full", "train=full steps=40 optimizer.lr=5e-3 method=none"), &run);
    assert_int_equal(run.outcome.end, MT_RUN_FINISHED_BEFORE);
}

/* Left at some step and opened again, with another number of threads: the same bytes, best and last. */
static void going_on_changes_no_bit(void **state)
{
    const struct workplace *place = *state;
    static const struct mt_arch *const models[] = {&mt_arch_deepseek_v3, &mt_arch_phimoe, &mt_arch_mixtral,
                                                   &mt_arch_qwen3_moe, &mt_arch_olmoe};
    static const char *const words[] = {
        "method=loss-free evaluation.split=0.2 evaluation.every=2 lora.dropout=0.1 batch.tokens=32",
        ("method=metier evaluation.split=0.2 evaluation.every=3 lora.dropout=0.2 data.layout=packed "
         "objective.scale=running"),
        "method=smebu evaluation.split=0.2 evaluation.every=2 objective.bias_rate=0.01",
        "method=quantile evaluation.split=0.2 evaluation.every=2 batch.tokens=32",
        "method=pool evaluation.split=0.2 evaluation.every=2 batch.tokens=32",
    };
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct training_run run = {0};
        make(state, models[m]);
        must(training_run_all(&run, place, "whole", words[m]), &run);
        for (uint64_t stop = 1; stop < 8; stop += 3) {
            char with_threads[512];
            (void)snprintf(with_threads, sizeof with_threads, "%s threads=2", words[m]);
            run.options.stop_after = stop;
            must(training_run_all(&run, place, "parts", words[m]), &run);
            assert_int_equal(run.outcome.end, MT_RUN_INTERRUPTED);
            assert_int_equal(run.outcome.step, stop);
            run.options.stop_after = 0;
            must(training_run_all(&run, place, "parts", with_threads), &run);
            assert_int_equal(run.outcome.end, MT_RUN_FINISHED);
            assert_int_equal(training_bench_compare(place, "whole/adapter/adapter_model.safetensors",
                                                    "parts/adapter/adapter_model.safetensors"),
                             0);
            assert_int_equal(training_bench_compare(place, "whole/adapter-best/adapter_model.safetensors",
                                                    "parts/adapter-best/adapter_model.safetensors"),
                             0);
            if (models[m] != &mt_arch_phimoe && models[m] != &mt_arch_olmoe) {
                assert_int_equal(training_bench_compare(place, "whole/adapter/router_bias.safetensors",
                                                        "parts/adapter/router_bias.safetensors"),
                                 0);
                assert_int_equal(training_bench_compare(place, "whole/adapter-best/router_bias.safetensors",
                                                        "parts/adapter-best/router_bias.safetensors"),
                                 0);
            }
            training_bench_remove(place, "parts");
        }
        training_bench_remove(place, "whole");
    }
}

/* Every method and every architecture: no step allocates, measured or not. The guard is inside. */
static void steps_allocate_nothing(void **state)
{
    const struct workplace *place = *state;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        make(state, model);
        for (int i = 0; mt_method_listed(i) != NULL; i++) {
            struct training_run run = {0};
            char words[256];
            const struct mt_method *method = mt_method_listed(i);
            if (!training_bench_takes(model, method)) continue;
            (void)snprintf(words, sizeof words, "method=%s %s log.every=1", method->name,
                           mt_objective_has_terms(&method->config) ? "log.measure_every=2" : "");
            must(training_run_open(&run, place, "run", words), &run);
            for (int step = 0; step < 3; step++) must(mt_trainer_step(run.trainer), &run);
            training_run_close(&run);
            assert_int_equal(run.ctx.live_bytes, 0);
        }
    }
}

static void patience_ends_a_run(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {0};
    make(state, &mt_arch_mixtral);
    must(training_run_all(&run, place, "run",
                          "steps=50 optimizer.lr=1e-30 method=none evaluation.split=0.2 evaluation.every=2 "
                          "evaluation.patience=2"),
         &run);
    assert_int_equal(run.outcome.end, MT_RUN_FINISHED);
    assert_int_equal(run.outcome.best_step, 2);
    assert_int_equal(run.outcome.step, 6);
    assert_true(training_bench_has(place, "run/checkpoints/step-00000002")); // the best one stays
}

/* Numbers that are none end the run with the step and the place, and are not saved. */
static void bad_numbers_end_a_run(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {.options = {.stop_after = 3}};
    make(state, &mt_arch_qwen3_moe);
    must(training_run_all(&run, place, "run", "method=paper"), &run);
    run.options.stop_after = 0;
    must(training_run_open(&run, place, "run", "method=paper"), &run);
    const struct mt_params *params = mt_model_params(mt_trainer_model(run.trainer));
    const struct mt_param *param = &params->trained[params->trained_count - 1];
    ((float *)param->value.data)[0] = NAN;
    enum mt_status status = mt_trainer_run(run.trainer, &run.outcome);
    must_fail(status, MT_ERR_NUMERIC, &run, "step 4: ");
    must_fail(status, MT_ERR_NUMERIC, &run, param->name);
    must_fail(status, MT_ERR_NUMERIC, &run, "the checkpoint of step 3 is kept");
    training_run_close(&run);
    assert_false(training_bench_has(place, "run/checkpoints/step-00000004"));
    // Finite numbers that overflow on the way: the layer is named.
    must(training_run_open(&run, place, "run", "method=paper"), &run);
    params = mt_model_params(mt_trainer_model(run.trainer));
    for (size_t i = 0; i < params->trained_count; i++) {
        param = &params->trained[i];
        if (param->layer != 1 || param->part != MT_PART_ATTENTION) continue;
        for (int64_t j = 0; j < mt_tensor_count(&param->value); j++) ((float *)param->value.data)[j] = 1e30f;
    }
    status = mt_trainer_run(run.trainer, &run.outcome);
    must_fail(status, MT_ERR_NUMERIC, &run, "layer 1 is the first whose output is not finite");
    training_run_close(&run);
    // From the checkpoint it goes on as if nothing had been.
    must(training_run_all(&run, place, "run", "method=paper"), &run);
    assert_int_equal(run.outcome.step, 8);
    assert_int_equal(run.ctx.live_bytes, 0);
}

/* A moment that overflowed does not show in the loss: it is found before it is saved. */
static void bad_values_are_not_saved(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {0};
    make(state, &mt_arch_olmoe);
    must(training_run_open(&run, place, "run", "method=none checkpoint.every=1"), &run);
    ((float *)run.trainer->optimizer.second.data)[0] = INFINITY;
    enum mt_status status = mt_trainer_run(run.trainer, &run.outcome);
    must_fail(status, MT_ERR_NUMERIC, &run, "step 1: base_model.model.model.layers.0.");
    must_fail(status, MT_ERR_NUMERIC, &run, "it is not saved; no checkpoint had been written yet");
    training_run_close(&run);
    assert_false(training_bench_has(place, "run/checkpoints/step-00000001"));
    assert_false(training_bench_has(place, "run/adapter"));
}

/* Loss-free balancing moves the correction bias, and leaves a frozen one alone. */
static void biases_move_unless_frozen(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {.options = {.stop_after = 2}};
    make(state, &mt_arch_deepseek_v3);
    for (int frozen = 0; frozen < 2; frozen++) {
        char words[256];
        (void)snprintf(words, sizeof words, "method=loss-free objective.bias_rate=0.01%s",
                       frozen ? " freeze=model.layers.*e_score_correction_bias" : "");
        must(training_run_open(&run, place, frozen ? "frozen" : "free", words), &run);
        must(mt_trainer_run(run.trainer, &run.outcome), &run);
        const struct mt_params *params = mt_model_params(mt_trainer_model(run.trainer));
        const float *bias = params->layer[1].correction.data;
        double moved = 0.0;
        for (int j = 0; j < 8; j++) moved = fmax(moved, fabs((double)bias[j]));
        assert_true(frozen ? moved == 0.0 : moved > 0.009 && moved < 0.021);
        training_run_close(&run);
    }
    run.options.stop_after = 0;
    must(training_run_all(&run, place, "free", "method=loss-free objective.bias_rate=0.01"), &run);
    assert_true(training_bench_has(place, "free/adapter/router_bias.safetensors"));
}

/* The folder of another process, of something else, or of other settings. */
static void folders_are_refused(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {.options = {.stop_after = 2}};
    struct training_run other = {0};
    char path[256];
    make(state, &mt_arch_olmoe);
    must_fail(training_run_all(&run, place, ".", ""), MT_ERR_USAGE, &run, "not the folder of a run");
    // Somebody's config.yaml makes no run's folder, and is not written over.
    must(training_run_all(&run, place, "lent", ""), &run);
    assert_int_equal(unlink(workplace_path(place, "lent/lock", path, sizeof path)), 0);
    must_fail(training_run_all(&run, place, "lent", ""), MT_ERR_USAGE, &run, "not the folder of a run");
    training_bench_remove(place, "lent");
    // A folder that has only what other verbs write is as good as an empty one; weights are somebody's.
    assert_int_equal(mkdir(workplace_path(place, "looked", path, sizeof path), 0777), 0);
    assert_int_equal(workplace_write(place, "looked/analysis.json", "{}", 2), 0);
    assert_int_equal(workplace_write(place, "looked/lora.safetensors", "", 0), 0);
    must_fail(training_run_all(&run, place, "looked", ""), MT_ERR_USAGE, &run, "has lora.safetensors");
    assert_int_equal(unlink(workplace_path(place, "looked/lora.safetensors", path, sizeof path)), 0);
    must(training_run_all(&run, place, "looked", ""), &run);
    must(training_run_all(&run, place, "looked", ""), &run);
    training_bench_remove(place, "looked");
    must(training_run_open(&run, place, "run", ""), &run);
    must_fail(training_run_open(&other, place, "run", ""), MT_ERR_USAGE, &other, "is training there");
    training_run_close(&other);
    must(mt_trainer_run(run.trainer, &run.outcome), &run);
    training_run_close(&run);
    must_fail(training_run_all(&run, place, "run", "lora.rank=4"), MT_ERR_USAGE, &run, "lora.rank");
    must_fail(training_run_all(&run, place, "run", "checkpoint.resume=false"), MT_ERR_USAGE, &run,
              "checkpoint.resume is false");
}

/* The folders above are made, too; a run that cannot begin leaves none of its own. */
static void folders_come_and_go(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {.options = {.stop_after = 1}};
    make(state, &mt_arch_olmoe);
    must_fail(training_run_all(&run, place, "a/b/c", "targets=nothing"), MT_ERR_USAGE, &run, "nothing");
    assert_true(training_bench_has(place, "a/b"));
    assert_false(training_bench_has(place, "a/b/c"));
    must(training_run_all(&run, place, "a/b/c", ""), &run);
    assert_true(training_bench_has(place, "a/b/c/config.yaml"));
    training_bench_remove(place, "a");
}

/* Changes one byte near the end of a file; its length and time stay what they were. */
static void change_in_place(const struct workplace *place, const char *name, long at)
{
    char path[256];
    struct stat info;
    FILE *file = fopen(workplace_path(place, name, path, sizeof path), "r+");
    assert_non_null(file);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(fseek(file, at, SEEK_END), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_END), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* A run does not go on with files that have become others, whatever their length and time. */
static void changed_files_are_refused(void **state)
{
    const struct workplace *place = *state;
    static const char *const files[] = {"data.jsonl", "tokenizer.json", "model.safetensors"};
    struct training_run run = {.options = {.stop_after = 2}};
    struct training_run plan = {.options = {.plan_only = true}};
    char path[256];
    make(state, &mt_arch_olmoe);
    must(training_run_all(&run, place, "run", ""), &run);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char expected[256];
        (void)snprintf(expected, sizeof expected,
                       "%s: is not what it was when this run began (its content has changed)", files[i]);
        change_in_place(place, files[i], -5);
        must_fail(training_run_all(&run, place, "run", ""), MT_ERR_USAGE, &run, expected);
        must_fail(training_run_open(&plan, place, "run", ""), MT_ERR_USAGE, &plan, expected);
        training_run_close(&plan);
        change_in_place(place, files[i], -5);
    }
    FILE *config = fopen(workplace_path(place, "config.json", path, sizeof path), "a");
    assert_non_null(config);
    assert_int_equal(fputc('\n', config), '\n'); // the same JSON: what it says is not looked at
    assert_int_equal(fclose(config), 0);
    must_fail(training_run_all(&run, place, "run", ""), MT_ERR_USAGE, &run,
              "config.json: is not what it was");
    make(state, &mt_arch_olmoe); // the same again, in new files
    // A file that would be read from now on.
    assert_int_equal(workplace_write(place, "tokenizer_config.json", "{}", 2), 0);
    must_fail(training_run_all(&run, place, "run", ""), MT_ERR_USAGE, &run,
              "tokenizer_config.json: is not what it was when this run began (there was no such file)");
    assert_int_equal(unlink(workplace_path(place, "tokenizer_config.json", path, sizeof path)), 0);
    run.options.stop_after = 3;
    must(training_run_all(&run, place, "run", ""), &run);
    assert_int_equal(run.outcome.step, 3);
    // One that has finished does not pretend to have learned from other data.
    run.options.stop_after = 0;
    must(training_run_all(&run, place, "run", ""), &run);
    must(training_run_all(&run, place, "run", ""), &run);
    assert_int_equal(run.outcome.end, MT_RUN_FINISHED_BEFORE);
    change_in_place(place, "data.jsonl", -5);
    must_fail(training_run_all(&run, place, "run", ""), MT_ERR_USAGE, &run, "data.jsonl: is not what it was");
    assert_int_equal(unlink(workplace_path(place, "data.jsonl", path, sizeof path)), 0);
    must(training_run_all(&run, place, "run", ""), &run); // gone: it does not need it any more
    assert_int_equal(run.ctx.live_bytes, 0);
}

/* A run of a version that did not note what its files hold: it goes on, and data of another length is
 * refused. */
static void runs_without_notes_go_on(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {.options = {.stop_after = 2}};
    char path[256];
    char *text = NULL;
    size_t bytes = 0;
    make(state, &mt_arch_olmoe);
    must(training_run_all(&run, place, "run", ""), &run);
    assert_int_equal(unlink(workplace_path(place, "run/inputs.json", path, sizeof path)), 0);
    FILE *stream = open_memstream(&text, &bytes);
    struct mt_log log = {.stream = stream, .level = MT_LOG_WARNING};
    run.options.stop_after = 3;
    run.options.log = &log;
    must(training_run_all(&run, place, "run", ""), &run);
    assert_int_equal(run.outcome.step, 3);
    assert_int_equal(fclose(stream), 0);
    assert_non_null(strstr(text, "inputs.json: is missing"));
    free(text);
    run.options.log = NULL;
    assert_true(training_bench_has(place, "run/inputs.json"));
    assert_int_equal(unlink(path), 0);
    FILE *data = fopen(workplace_path(place, "data.jsonl", path, sizeof path), "a");
    assert_non_null(data);
    assert_true(fputs("{\"prompt\": \"1\", \"completion\": \"2\"}\n", data) >= 0);
    assert_int_equal(fclose(data), 0);
    must_fail(training_run_all(&run, place, "run", ""), MT_ERR_USAGE, &run, "the data is not what it was");
}

/* Moves RUN away after the second step; `self` says what is put in its place. */
enum booty { NOTHING, EMPTY_FOLDER, OTHER_RUN, OTHER_LOCK };

struct thief {
    const struct workplace *place;
    enum booty leaves;
};

static void steal(void *self, uint64_t step, uint64_t steps)
{
    const struct thief *thief = self;
    char run[256];
    char moved[256];
    (void)steps;
    if (step != 2) return;
    (void)workplace_path(thief->place, "run", run, sizeof run);
    (void)workplace_path(thief->place, "moved", moved, sizeof moved);
    if (thief->leaves == OTHER_LOCK) {
        (void)workplace_path(thief->place, "run/lock", run, sizeof run);
        assert_int_equal(unlink(run), 0);
        assert_int_equal(workplace_write(thief->place, "run/lock", "1\n", 2), 0);
        return;
    }
    assert_int_equal(rename(run, moved), 0);
    if (thief->leaves != NOTHING) assert_int_equal(mkdir(run, 0700), 0);
    if (thief->leaves == OTHER_RUN) {
        assert_int_equal(workplace_write(thief->place, "run/lock", "1\n", 2), 0);
        assert_int_equal(workplace_write(thief->place, "run/config.yaml", "\n", 1), 0);
    }
}

/* A run whose folder has become another's ends at once, and leaves nothing there. */
static void a_lost_folder_ends_a_run(void **state)
{
    const struct workplace *place = *state;
    make(state, &mt_arch_olmoe);
    for (int leaves = NOTHING; leaves <= OTHER_LOCK; leaves++) {
        struct thief thief = {.place = place, .leaves = (enum booty)leaves};
        struct training_run run = {.options = {.stepped = steal, .self = &thief}};
        enum mt_status status = training_run_all(&run, place, "run", "checkpoint.every=3 log.every=1");
        must_fail(status, MT_ERR_IO, &run,
                  leaves == OTHER_LOCK ? "another run began there" : "was moved, removed or replaced");
        assert_null(strstr(run.ctx.message, "is kept"));
        assert_true(training_bench_has(place, "run") == (leaves != NOTHING));
        assert_false(training_bench_has(place, "run/checkpoints"));
        if (leaves != OTHER_LOCK) assert_false(training_bench_has(place, "run/metrics.jsonl"));
        assert_true(training_bench_has(place, "run/lock") == (leaves >= OTHER_RUN));
        training_bench_remove(place, "run");
        training_bench_remove(place, "moved");
        assert_int_equal(run.ctx.live_bytes, 0);
    }
}

/* SIGTERM that arrives while opening or in a step: the step is finished and saved. */
static void a_signal_ends_after_the_step(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {.options = {.signals = true}};
    make(state, &mt_arch_olmoe);
    must(training_run_open(&run, place, "run", "steps=1000 checkpoint.every=0"), &run);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    while (mt_interrupt_seen(&run.trainer->interrupt) == 0) (void)sched_yield();
    must(mt_trainer_run(run.trainer, &run.outcome), &run);
    training_run_close(&run);
    assert_int_equal(run.outcome.end, MT_RUN_INTERRUPTED);
    assert_int_equal(run.outcome.signal, SIGTERM);
    assert_int_equal(run.outcome.step, 1);
    assert_true(training_bench_has(place, "run/checkpoints/step-00000001"));
    assert_false(training_bench_has(place, "run/adapter"));
}

/* A plan takes none of the memory it speaks of, and says what the run then holds. */
static void plan_of_memory(void **state)
{
    const struct workplace *place = *state;
    struct training_run plan = {.options = {.plan_only = true}};
    struct training_run real = {0};
    struct mt_run_outline outline;
    static const char words[] = "batch.tokens=2048 data.max_length=64";
    make(state, &mt_arch_olmoe);
    must(training_run_open(&plan, place, "run", words), &plan);
    mt_trainer_outline(plan.trainer, &outline);
    size_t planned = mt_device_dry_bytes(outline.device);
    size_t held = plan.ctx.live_bytes;
    size_t named = outline.model.copies + outline.model.masters + outline.model.gradients + outline.moments +
                   outline.model.activations + outline.model.work;
    training_run_close(&plan);
    must(training_run_open(&real, place, "run", words), &real);
    size_t used = real.ctx.live_bytes;
    training_run_close(&real);
    assert_true(planned >= named && planned > 1000000);
    // The open log of a run is not part of a plan.
    if (used < planned + held - 65536 || used > planned + held + 65536)
        fail_msg("%zu bytes planned beside %zu, %zu are held", planned, held, used);
}

/* ESFT: only the experts a file names learn. */
static void experts_are_chosen_by_file(void **state)
{
    const struct workplace *place = *state;
    static const char chosen[] = "{\"experts\": 6, \"layers\": 2, \"keep\": {\"1\": [0, 3], \"2\": [5]}}";
    static const char wrong[] = "{\"experts\": 6, \"layers\": 2, \"keep\": {\"0\": [0]}}";
    struct training_run run = {.options = {.plan_only = true}};
    struct mt_run_outline outline;
    char words[256];
    make(state, &mt_arch_deepseek);
    assert_int_equal(workplace_write(place, "chosen.json", chosen, sizeof chosen - 1), 0);
    assert_int_equal(workplace_write(place, "wrong.json", wrong, sizeof wrong - 1), 0);
    (void)snprintf(words, sizeof words,
                   "method=none train=full targets=routed_experts experts=%s/chosen.json", place->directory);
    must(training_run_open(&run, place, "run", words), &run);
    mt_trainer_outline(run.trainer, &outline);
    assert_int_equal(outline.params->trained_count, 3 * 3);
    assert_int_equal(outline.length.epoch.examples, 60);
    training_run_close(&run);
    (void)snprintf(words, sizeof words, "method=none train=full targets=routed_experts experts=%s/wrong.json",
                   place->directory);
    must_fail(training_run_open(&run, place, "run", words), MT_ERR_FORMAT, &run, "has no experts");
    training_run_close(&run);
    assert_false(training_bench_has(place, "run")); // a plan touches nothing
}

/* An adapter is where the next run starts. */
static void an_adapter_is_gone_on_from(void **state)
{
    const struct workplace *place = *state;
    struct training_run run = {0};
    char words[256];
    make(state, &mt_arch_olmoe);
    must(training_run_all(&run, place, "one", "steps=20 optimizer.lr=2e-2"), &run);
    double reached = last_number(place, "one/metrics.jsonl", "\"loss\":");
    (void)snprintf(words, sizeof words, "steps=1 optimizer.lr=1e-9 adapter=%s/one/adapter", place->directory);
    must(training_run_all(&run, place, "two", words), &run);
    assert_true(fabs(last_number(place, "two/metrics.jsonl", "\"loss\":") - reached) < 1.0);
}

/* Memory may run out anywhere: a message, and every byte returned. */
static void memory_may_run_out(void **state)
{
    const struct workplace *place = *state;
    struct failing_allocator memory = {.fail_at = -1};
    const struct mt_allocator allocator = failing_allocator(&memory);
    struct training_run run = {.allocator = &allocator};
    static const char words[] = "steps=2 evaluation.split=0.2 evaluation.every=1 method=paper";
    make(state, &mt_arch_olmoe);
    must(training_run_all(&run, place, "run", words), &run);
    training_bench_remove(place, "run");
    long calls = memory.calls;
    long stride = calls / 25 + 1;
    for (long at = 0; at < calls; at += stride) {
        memory = (struct failing_allocator){.fail_at = at};
        enum mt_status status = training_run_all(&run, place, "run", words);
        training_bench_remove(place, "run");
        if (memory.live != 0) fail_msg("allocation %ld failing leaves %ld blocks", at, memory.live);
        if (status != MT_ERR_MEMORY) fail_msg("allocation %ld failing: %s", at, run.ctx.message);
    }
}

static int close_place(void **state)
{
    static const char *const folders[] = {"run",    "whole", "parts", "lora", "full",
                                          "frozen", "free",  "one",   "two"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) training_bench_remove(*state, folders[i]);
    return workplace_close(state);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, close_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(a_run_learns),
        IN_PLACE(going_on_changes_no_bit),
        IN_PLACE(steps_allocate_nothing),
        IN_PLACE(patience_ends_a_run),
        IN_PLACE(bad_numbers_end_a_run),
        IN_PLACE(bad_values_are_not_saved),
        IN_PLACE(biases_move_unless_frozen),
        IN_PLACE(folders_are_refused),
        IN_PLACE(folders_come_and_go),
        IN_PLACE(changed_files_are_refused),
        IN_PLACE(runs_without_notes_go_on),
        IN_PLACE(a_lost_folder_ends_a_run),
        IN_PLACE(a_signal_ends_after_the_step),
        IN_PLACE(plan_of_memory),
        IN_PLACE(experts_are_chosen_by_file),
        IN_PLACE(an_adapter_is_gone_on_from),
        IN_PLACE(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
