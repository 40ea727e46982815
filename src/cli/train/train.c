/* metier train: a run from a YAML file, or what it would be. */
#include "cli/train/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "cli/adapter.h"
#include "cli/cli.h"
#include "cli/shared/ranks.h"
#include "cli/shared/share.h"
#include "cli/shared/short_number.h"
#include "train/choices_record.h"

#define ARENA_BLOCK_BYTES 16384
#define WORD_BYTES        64

struct arguments {
    bool dry_run, quiet, keys;
    int64_t threads; // -1: as the settings say
    const char *device;
    const char *timeline;
    const char *record; // file of choices; NULL: none is written
    const char *config;
    const char **words; // owned: those of the command line, then ours
    size_t word_count, word_capacity;
    char threads_word[WORD_BYTES];
    char device_word[WORD_BYTES];
};

/* Options that are settings become words like any other. */
static enum mt_status collect_words(struct mt_context *ctx, const struct cli_call *given,
                                    struct arguments *arguments)
{
    void *memory = NULL;
    arguments->word_capacity = (size_t)given->positional_count + 2;
    enum mt_status status =
        mt_allocate_array(ctx, arguments->word_capacity, sizeof *arguments->words, &memory);
    if (status != MT_OK) return status;
    arguments->words = memory;
    arguments->config = given->positional[0];
    for (int i = 1; i < given->positional_count; i++)
        arguments->words[arguments->word_count++] = given->positional[i];
    if (arguments->threads >= 0) {
        (void)snprintf(arguments->threads_word, WORD_BYTES, "threads=%" PRId64, arguments->threads);
        arguments->words[arguments->word_count++] = arguments->threads_word;
    }
    if (arguments->device == NULL) return MT_OK;
    int length = snprintf(arguments->device_word, WORD_BYTES, "device=%s", arguments->device);
    arguments->words[arguments->word_count++] = arguments->device_word;
    if (length > 0 && length < WORD_BYTES) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "--device is too long: '%.64s...'", arguments->device);
}

/* A word as a shell reads it: in quotes unless every character is harmless. */
static void print_word(const char *word)
{
    static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
    bool plain = word[0] != '\0' && strspn(word, harmless) == strlen(word);
    (void)fputs(plain ? " " : " '", stderr);
    for (const char *c = word; *c != '\0'; c++)
        (void)fputs(*c == '\'' ? "'\\''" : (char[]){*c, '\0'}, stderr);
    if (!plain) (void)fputc('\'', stderr);
}

/* The command that goes on with a run, in the words it was started with. */
static void say_how_to_resume(const struct arguments *arguments)
{
    (void)fprintf(stderr, "metier train: to go on: metier train");
    print_word(arguments->config);
    for (size_t i = 0; i < arguments->word_count; i++) print_word(arguments->words[i]);
    (void)fprintf(stderr, "\n");
}

static int exit_status_of(const struct mt_run_outcome *outcome)
{
    return outcome->end == MT_RUN_INTERRUPTED ? 128 + outcome->signal : 0;
}

static void report_timeline(const char *path, const struct mt_run_outcome *outcome)
{
    if (outcome->end == MT_RUN_FINISHED_BEFORE) return;
    printf("%s: what every rank did when", path);
    const struct mt_overlap *overlap = &outcome->overlap;
    if (overlap->under_way > 0.0) {
        printf("; sums of gradients were under way for %.3f s, %.1f %% of it behind backward",
               overlap->under_way, 100.0 * (1.0 - overlap->waited / overlap->under_way));
    }
    if (overlap->rows_under_way > 0.0) {
        printf("; rows of experts for %.3f s, %.1f %% of it behind other work", overlap->rows_under_way,
               100.0 * (1.0 - overlap->rows_waited / overlap->rows_under_way));
    }
    if (outcome->lost_spans > 0)
        printf("; %s had no room", mt_counted(outcome->lost_spans, "later span", "later spans").text);
    printf("\n");
}

static enum mt_status report(struct mt_context *ctx, const struct arguments *arguments,
                             const struct mt_train_settings *settings, const struct mt_run_outcome *outcome)
{
    if (outcome->end == MT_RUN_INTERRUPTED) {
        (void)fprintf(stderr, "metier train: stopped after step %" PRIu64 ", which is saved\n",
                      outcome->step);
        say_how_to_resume(arguments);
        return MT_OK;
    }
    if (outcome->end == MT_RUN_FINISHED_BEFORE)
        printf("this run has finished, after step %" PRIu64 "\n", outcome->step);
    printf("%s: as trained, %s\n", outcome->result, mt_counted(outcome->step, "step", "steps").text);
    if (outcome->bias_file != NULL) {
        printf(
            "%s in it holds the biases the routers choose experts with: metier reads it; transformers, PEFT "
            "and vLLM do not, and route without them\n",
            outcome->bias_file);
    }
    if (arguments->timeline != NULL) report_timeline(arguments->timeline, outcome);
    if (outcome->best != NULL) {
        printf("%s: as of step %" PRIu64 ", the best on held-out data, loss %.6g\n", outcome->best,
               outcome->best_step, outcome->best_loss);
    }
    if (outcome->limit_bytes > 0 && outcome->end == MT_RUN_FINISHED)
        printf("memory: at most %s held of %s\n", cli_short_bytes((double)outcome->peak_bytes).text,
               cli_short_bytes((double)outcome->limit_bytes).text);
    if (settings->train != MT_TRAIN_LORA) return MT_OK;
    printf("in Python:\n");
    return cli_print_adapter_lines(ctx, settings->model, outcome->result);
}

/* What every rank knows. */
struct training {
    struct mt_context *ctx;
    const struct arguments *arguments;
    struct mt_arena *arena;
};

/* Instead of training. */
static enum mt_status record(struct mt_context *ctx, const struct arguments *arguments,
                             const struct mt_trainer_options *options)
{
    struct mt_choices_recorded recorded;
    if (mt_comm_size(options->comm) > 1)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--record-choices runs as one rank: start it without mpirun, srun or metier launch");
    if (options->settings->choices != NULL)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--record-choices records the routers' own choices, so leave out data.choices");
    enum mt_status status = mt_choices_record(ctx, options, arguments->record, &recorded);
    if (status != MT_OK) return status;
    printf("%s: %d of %d experts in %s for %" PRId64 " tokens of %s\n", arguments->record,
           recorded.shape.slots, recorded.shape.experts,
           mt_counted((uint64_t)recorded.shape.layers, "MoE layer", "MoE layers").text, recorded.tokens,
           mt_counted(recorded.sequences, "sequence", "sequences").text);
    return MT_OK;
}

/* What one rank does; only the first of them talks. */
static enum mt_status run(void *self, struct mt_comm *comm, int *exit_status)
{
    const struct training *training = self;
    struct mt_context *ctx = training->ctx;
    const struct arguments *arguments = training->arguments;
    struct mt_train_settings settings;
    struct mt_trainer *trainer = NULL;
    struct mt_log log;
    bool talks = mt_comm_rank(comm) == 0;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    struct mt_trainer_options options = {.settings = &settings,
                                         .log = talks ? &log : NULL,
                                         .terminal = arguments->quiet || !talks ? NULL : stderr,
                                         .plan_only = arguments->dry_run,
                                         .timeline = arguments->timeline,
                                         .comm = comm,
                                         .signals = true};
    enum mt_status status = mt_train_settings_read(ctx, arguments->config, NULL, 0, arguments->words,
                                                   arguments->word_count, training->arena, &settings);
    if (status == MT_OK)
        status = cli_find_templates(training->arena, settings.template_name, &options.templates);
    status = mt_comm_agree(comm, ctx, status);
    if (status == MT_OK && arguments->record != NULL) return record(ctx, arguments, &options);
    if (status == MT_OK) status = mt_trainer_open(ctx, &options, &trainer);
    if (status == MT_OK && arguments->dry_run) {
        struct mt_run_outline outline;
        mt_trainer_outline(trainer, &outline);
        if (talks) status = cli_train_print_outline(ctx, &outline);
        if (status == MT_OK) status = mt_trainer_check_fit(trainer);
    } else if (status == MT_OK) {
        struct mt_run_outcome outcome;
        status = mt_trainer_run(trainer, &outcome);
        if (status == MT_OK) *exit_status = exit_status_of(&outcome);
        if (status == MT_OK && talks) status = report(ctx, arguments, &settings, &outcome);
    }
    mt_trainer_close(trainer);
    return status;
}

static enum mt_status check(const struct arguments *arguments, const struct cli_call *given)
{
    struct mt_context *ctx = given->ctx;
    if (given->positional_count == 0)
        return mt_fail(ctx, MT_ERR_USAGE, "a configuration file is missing; --keys lists its keys");
    if (strchr(given->positional[0], '=') != NULL) {
        return mt_fail(ctx, MT_ERR_USAGE, "'%s' is a setting; the configuration file comes first",
                       given->positional[0]);
    }
    const struct cli_void rules[] = {
        {arguments->dry_run, "--timeline --record-choices", "with --dry-run: nothing is computed"},
        {arguments->record != NULL, "--timeline", "with --record-choices: nothing is trained"},
    };
    return cli_refuse_void(given, rules, 2);
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct arguments arguments = {.threads = -1};
    const struct cli_option options[] = {
        {"--dry-run", CLI_FLAG, &arguments.dry_run, NULL,
         "print the resolved settings, data, memory and what is trainable; train nothing"},
        {"--keys", CLI_FLAG, &arguments.keys, NULL, "list every key of the file, its values and default"},
        {"--quiet", CLI_FLAG, &arguments.quiet, NULL, "no progress on the terminal, only warnings"},
        {"--threads", CLI_THREADS, &arguments.threads, "N", "as the key threads; 0: as many as there are"},
        {"--device", CLI_TEXT, &arguments.device, "NAME", "as the key device"},
        {"--timeline", CLI_TEXT, &arguments.timeline, "FILE",
         "timeline of every rank, for chrome://tracing or ui.perfetto.dev"},
        {"--record-choices", CLI_TEXT, &arguments.record, "FILE",
         "write the experts chosen for all training data, for data.choices; train nothing"},
        {0},
    };
    struct mt_arena arena;
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    const struct cli_void rules[] = {
        {arguments.keys, "--dry-run --threads --device --timeline --record-choices", "with --keys"}};
    status = cli_refuse_void(call, rules, 1);
    if (status == MT_OK && arguments.keys && call->positional_count > 0)
        status =
            mt_fail(call->ctx, MT_ERR_USAGE, "unexpected argument '%s' with --keys", call->positional[0]);
    if (status == MT_OK && arguments.keys) return cli_train_print_keys(call->ctx);
    mt_arena_init(&arena, call->ctx, ARENA_BLOCK_BYTES);
    struct training training = {.ctx = call->ctx, .arguments = &arguments, .arena = &arena};
    if (status == MT_OK) status = check(&arguments, call);
    if (status == MT_OK) status = collect_words(call->ctx, call, &arguments);
    if (status == MT_OK) status = cli_run_ranks(call, run, &training);
    mt_arena_free(&arena);
    mt_release(call->ctx, arguments.words, arguments.word_capacity * sizeof *arguments.words);
    return status;
}

static const struct cli_keys keys = {
    .keys = &mt_train_keys, .title = "a configuration of metier train", .words = true};

const struct cli_verb cli_verb_train = {
    .name = "train",
    .summary = "fine-tune a model with LoRA or fully, or train one from scratch, by any method",
    .arguments = "CONFIG.yaml [key=value ...]",
    .counts_arguments = true,
    .details =
        "CONFIG.yaml names the model, the data and the folder of the run (out). Every other key has a "
        "default,\n"
        "and key=value overrides the file. --keys lists them; docs/training.md explains them. The default "
        "is\n"
        "method=none (docs/lab/results.md says why); method=paper adds the paper's objective.\n"
        "The folder gets config.yaml, metrics.jsonl, tensorboard/, checkpoints/, and at the end adapter/ or\n"
        "model/ (with held-out data also the best one). Started again, the same command goes on from the "
        "last\n"
        "checkpoint, or says that the run has finished. If data, tokenizer, config or weights have changed\n"
        "since the run began, metier names them and refuses to go on. After SIGINT or SIGTERM it finishes "
        "the\n"
        "current step and ends with exit status 130 or 143.",
    .examples = "  printf 'model: models/moe\\nout: runs/first\\ndata.path: math.jsonl\\n' > run.yaml\n"
                "  metier train run.yaml --dry-run\n"
                "  metier train run.yaml\n"
                "  metier train run.yaml out=runs/wide lora.rank=64 optimizer.lr=5e-5\n"
                "  metier train run.yaml out=runs/metier method=metier objective.beta=1e-3 --threads 8\n"
                "  metier report runs/first runs/wide runs/metier --out runs.html",
    .keys = &keys,
    .ranks = CLI_RANKS_SHARE,
    .run = run_verb,
};
