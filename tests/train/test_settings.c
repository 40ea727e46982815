/* Settings: defaults, files and words, the text that reads back, going on with a run, the shipped configs. */
#include "train/settings/settings.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "text/template.h"

#define LEAST "model: m\nout: o\ndata.path: d.jsonl\n"

struct fixture {
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_train_settings settings;
};

static void begin(struct fixture *fixture)
{
    mt_context_init(&fixture->ctx, NULL);
    mt_arena_init(&fixture->arena, &fixture->ctx, 4096);
}

static void end(struct fixture *fixture)
{
    mt_arena_free(&fixture->arena);
    assert_int_equal(fixture->ctx.live_bytes, 0);
}

static void read_text(struct fixture *fixture, const char *text, const char *const *words, size_t count)
{
    if (mt_train_settings_read(&fixture->ctx, "t", text, strlen(text), words, count, &fixture->arena,
                               &fixture->settings) != MT_OK)
        fail_msg("%s", fixture->ctx.message);
}

static const char *text_of(struct fixture *fixture)
{
    const char *text = NULL;
    assert_int_equal(mt_train_settings_text(&fixture->ctx, &fixture->settings, &fixture->arena, &text),
                     MT_OK);
    return text;
}

static void defaults(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture);
    read_text(&fixture, LEAST, NULL, 0);
    const struct mt_train_settings *s = &fixture.settings;
    assert_string_equal(s->model, "m");
    assert_string_equal(s->out, "o");
    assert_null(s->tokenizer);
    assert_int_equal(s->train, MT_TRAIN_LORA);
    assert_string_equal(s->targets[0], "model.layers.*");
    assert_null(s->targets[1]);
    assert_null(s->freeze[0]);
    assert_null(s->experts);
    assert_null(s->adapter);
    // The paper's own.
    assert_int_equal(s->lora_rank, 32);
    assert_true(s->lora_alpha == 128.0 && s->lora_dropout == 0.1 && s->learning_rate == 1e-4);
    assert_int_equal(s->examples, 32);
    assert_true(s->epochs == 3.0 && s->steps == 0);
    assert_int_equal(s->max_length, 512);
    assert_string_equal(s->objective.method, "none");
    assert_true(s->task_only && !s->method_given);
    assert_int_equal(s->layout, MT_ADAPTER_AUTO);
    assert_int_equal(s->source_count, 1);
    assert_string_equal(s->sources[0].path, "d.jsonl");
    assert_true(s->sources[0].weight == 1.0 && s->sources[0].limit == 0);
    assert_int_equal(s->sources[0].format, MT_DATASET_BY_NAME);
    assert_string_equal(s->template_name, "model");
    assert_int_equal(s->batching, MT_LAYOUT_IN_ORDER);
    assert_int_equal(s->tokens, 0); // auto, as is all that memory decides
    assert_int_equal(mt_train_auto_tokens(s), 4096);
    assert_int_equal(s->recompute, MT_TRAIN_RECOMPUTE_AUTO);
    assert_string_equal(s->memory_limit, "auto");
    assert_true(s->beta1 == 0.9 && s->beta2 == 0.999 && s->epsilon == 1e-8 && s->weight_decay == 0.0);
    assert_true(s->clip == 1.0 && s->warmup == 0.03 && s->final_rate == 0.0);
    assert_int_equal(s->schedule, MT_SCHEDULE_COSINE);
    assert_true(s->resume && s->tensorboard && !s->stop_at_bad_row);
    assert_null(s->choices);
    assert_int_equal(s->checkpoint_every, 200);
    assert_string_equal(s->device, "auto");
    assert_int_equal(s->quantise_format, 0);
    assert_false(s->quantise_cache);
    assert_null(s->quantise_parts[0]);
    assert_int_equal(s->held_out_count, 0);
    end(&fixture);
}

/* Every key away from its default. */
static const char everything[] =
    "model: 'a model'\n"
    "tokenizer: tok\n"
    "out: o\n"
    "targets: [attention, \"*.gate\"]\n"
    "freeze: router, norms\n"
    "experts: e.json\n"
    "lora: {rank: 8, alpha: 16.5, dropout: 0, layout: fused}\n"
    "method: metier\n"
    "objective:\n"
    "  c_o: 2\n"
    "  alpha: 1e-2\n"
    "  gamma: 5e-4\n"
    "  exclude_first: no\n"
    "  eps: auto\n"
    "  seed: 18446744073709551615\n"
    "data:\n"
    "  sources:\n"
    "  - plain.txt\n"
    "  - {path: \"b,\\u2028\\x01.csv.gz\", columns: \"a,b\", form: question, fields: "
    "\"question=a,answer=b\",\n"
    "     weight: 0.25, limit: 6000}\n"
    "  - path: c\n"
    "    format: text\n"
    "    text_rows: pieces\n"
    "  template: chatml\n"
    "  max_length: 128\n"
    "  layout: packed\n"
    "  window: 64\n"
    "  bad_rows: stop\n"
    "  choices: chosen.safetensors\n"
    "evaluation.sources: [held.jsonl]\n"
    "evaluation: {every: 10, examples: 100, patience: 3}\n"
    "batch: {examples: 0, tokens: 1024}\n"
    "steps: 100\n"
    "optimizer: {lr: 3.14159e-5, beta1: 0.8, beta2: 0.95, epsilon: 1e-6, weight_decay: 0.1, clip: 0,\n"
    "  schedule: linear, warmup: 20, final: 0.1}\n"
    "checkpoint: {every: 0, keep: 5, resume: no}\n"
    "log: {every: 1, measure_every: 0, tensorboard: false}\n"
    "device: ref\n"
    "threads: 3\n"
    "recompute: full\n"
    "memory: {limit: 22GiB}\n"
    "activations: bf16\n"
    "quantize: {format: nf4, double: false, parts: [routed_experts, attention], cache: true}\n"
    "seed: 7\n";

static void every_key(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture);
    read_text(&fixture, everything, NULL, 0);
    const struct mt_train_settings *s = &fixture.settings;
    assert_string_equal(s->model, "a model");
    assert_string_equal(s->targets[1], "*.gate");
    assert_string_equal(s->freeze[0], "router");
    assert_string_equal(s->freeze[1], "norms");
    assert_null(s->freeze[2]);
    assert_int_equal(s->lora_rank, 8);
    assert_int_equal(s->layout, MT_ADAPTER_FUSED);
    // c_o is a multiple of alpha, wherever alpha stands.
    assert_true(s->objective.coefficient[MT_TERM_O] == 2.0 * 1e-2);
    assert_true(s->objective.coefficient[MT_TERM_V] == 5e-4);
    assert_false(s->objective.exclude_first);
    assert_true(s->objective.seed == UINT64_MAX);
    assert_int_equal(s->source_count, 3);
    assert_string_equal(s->sources[0].path, "plain.txt");
    assert_string_equal(s->sources[1].path, "b,\xE2\x80\xA8\x01.csv.gz");
    assert_string_equal(s->sources[1].fields, "question=a,answer=b");
    assert_int_equal(s->sources[1].form, MT_FORM_QUESTION);
    assert_true(s->sources[1].weight == 0.25 && s->sources[1].limit == 6000);
    assert_int_equal(s->sources[2].format, MT_DATASET_TEXT);
    assert_int_equal(s->sources[2].text_rows, MT_TEXT_PIECES);
    assert_int_equal(s->batching, MT_LAYOUT_PACKED);
    assert_true(s->stop_at_bad_row && !s->resume && !s->tensorboard);
    assert_string_equal(s->choices, "chosen.safetensors");
    assert_int_equal(s->held_out_count, 1);
    assert_int_equal(s->patience, 3);
    assert_true(s->steps == 100 && s->warmup == 20.0);
    assert_int_equal(s->schedule, MT_SCHEDULE_LINEAR);
    assert_int_equal(s->recompute, MT_TRAIN_RECOMPUTE_FULL);
    assert_string_equal(s->memory_limit, "22GiB");
    assert_int_equal(s->tokens, 1024);
    assert_int_equal(s->activations, MT_ACTIVATIONS_BF16);
    assert_int_equal(s->quantise_format, MT_QUANTISED_NF4 + 1);
    assert_false(s->quantise_nested);
    assert_true(s->quantise_cache);
    assert_string_equal(s->quantise_parts[1], "attention");
    assert_true(s->seed == 7);
    end(&fixture);
}

static void words_over_a_file(void **state)
{
    (void)state;
    static const char text[] =
        LEAST "lora.rank: 4\nobjective: {beta: 1}\nevaluation.split: 0.1\nmethod: aux\n";
    static const char *const words[] = {"lora.rank=64",
                                        "targets=[attention,router]",
                                        "objective.c_o=3",
                                        "data.sources=[x.csv, {path: y, weight: 2}]",
                                        "evaluation.sources=[h]",
                                        "freeze=",
                                        "method=none",
                                        "out=some where",
                                        "seed=9",
                                        "optimizer={lr: 1, clip: 2}"};
    struct fixture fixture;
    begin(&fixture);
    read_text(&fixture, text, words, sizeof words / sizeof words[0]);
    const struct mt_train_settings *s = &fixture.settings;
    assert_int_equal(s->lora_rank, 64);
    assert_string_equal(s->targets[1], "router");
    assert_string_equal(s->objective.method, "none");
    // alpha is 0 here: c_o refers to 1e-3.
    assert_true(s->objective.coefficient[MT_TERM_O] == 3.0 * 1e-3);
    assert_int_equal(s->source_count, 2);
    assert_true(s->sources[1].weight == 2.0);
    assert_true(s->split == 0.0 && s->held_out_count == 1);
    assert_null(s->freeze[0]);
    assert_string_equal(s->out, "some where");
    assert_true(s->seed == 9 && s->objective.seed == 9);
    assert_true(s->learning_rate == 1.0 && s->clip == 2.0);
    const char *const none[] = {"method=none"};
    read_text(&fixture, LEAST, none, 1);
    assert_true(s->task_only);
    // What a file says about LoRA is void under train=full.
    const char *const full[] = {"train=full"};
    read_text(&fixture, LEAST "lora.rank: 4\n", full, 1);
    assert_int_equal(s->train, MT_TRAIN_FULL);
    assert_int_equal(s->lora_rank, 32);
    assert_string_equal(s->targets[0], "*");
    // Likewise what an adapter decides.
    const char *const adapter[] = {"adapter=a"};
    read_text(&fixture, LEAST "lora: {rank: 4, dropout: 0.3}\ntargets: router\n", adapter, 1);
    assert_int_equal(s->lora_rank, 32);
    assert_true(s->lora_dropout == 0.3);
    assert_string_equal(s->targets[0], "model.layers.*");
    end(&fixture);
}

/* Reading the text gives settings whose text is the same, and nothing between them differs. */
static void expect_round_trip(struct fixture *fixture)
{
    const char *text = text_of(fixture);
    struct fixture again;
    begin(&again);
    read_text(&again, text, NULL, 0);
    assert_string_equal(text_of(&again), text);
    if (mt_train_settings_continue(&fixture->ctx, text, &fixture->arena, &again.settings) != MT_OK)
        fail_msg("%s", fixture->ctx.message);
    // Fields the text leaves out because nothing is there.
    assert_int_equal(again.settings.held_out_count, fixture->settings.held_out_count);
    assert_true(again.settings.split == fixture->settings.split);
    assert_true(again.settings.learning_rate == fixture->settings.learning_rate);
    for (size_t i = 0; i < fixture->settings.source_count; i++) {
        assert_string_equal(again.settings.sources[i].path, fixture->settings.sources[i].path);
        assert_true(again.settings.sources[i].limit == fixture->settings.sources[i].limit);
    }
    assert_memory_equal(again.settings.objective.coefficient, fixture->settings.objective.coefficient,
                        sizeof again.settings.objective.coefficient);
    end(&again);
}

static void texts_read_back(void **state)
{
    (void)state;
    static const char *const texts[] = {
        LEAST,
        everything,
        LEAST "train: full\nfreeze: [embedding]\n",
        LEAST "evaluation.split: 0.1\noptimizer.lr: 0.30000000000000004\nepochs: 1e6\n",
        LEAST "tokenizer: \"null\"\ndevice: \"~\"\nexperts: \" \\\\\\\"#: \"\nadapter: \"\\U0001F600\"\n",
    };
    struct fixture fixture;
    begin(&fixture);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        read_text(&fixture, texts[i], NULL, 0);
        expect_round_trip(&fixture);
    }
    assert_string_equal(fixture.settings.tokenizer, "null");
    for (int i = 0; mt_method_listed(i) != NULL; i++) {
        char word[64];
        (void)snprintf(word, sizeof word, "method=%s", mt_method_listed(i)->name);
        const char *const words[] = {word};
        read_text(&fixture, LEAST, words, 1);
        expect_round_trip(&fixture);
    }
    end(&fixture);
}

static void text_is_pretty(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture);
    read_text(&fixture, "model: m\nout: o\nmethod: paper\ndata.sources: [{path: d.jsonl, weight: 2}]\n", NULL,
              0);
    const char *text = text_of(&fixture);
    assert_int_equal(strncmp(text,
                             "# The run\n"
                             "model:              m             # config.json, weights and tokenizer, as "
                             "Hugging Face saves them\n",
                             60),
                     0);
    assert_non_null(strstr(text, "\n\n# What is trained\ntrain:              lora          # "));
    assert_non_null(strstr(text, "\nlora:\n    rank:           32            # r of LoRA's pairs\n"));
    assert_non_null(strstr(text, "\nobjective:\n    alpha:          0.001         # strength of L_aux\n"));
    assert_non_null(strstr(text, "\n        - path: d.jsonl\n          weight: 2\n"));
    assert_null(strstr(text, "c_o:"));
    end(&fixture);
}

static void going_on(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        const char *message; // NULL: may differ
    } cases[] = {
        {"out=elsewhere", NULL},
        {"threads=3", NULL},
        {"device=ref", NULL},
        {"recompute=full", NULL},
        {"memory.limit=90%", NULL},
        {"activations=bf16", NULL},
        {"log.every=1", NULL},
        {"log.measure_every=1", NULL},
        {"checkpoint.keep=9", NULL},
        {"checkpoint.resume=no", NULL},
        {"lora.rank=16", "lora.rank was 32 when this run began and is 16 now: set it back to go on, or begin "
                         "another run in another folder (out)"},
        {"epochs=4", "epochs was 3 when this run began and is 4 now: set it back to go on, or begin another "
                     "run in another folder (out)"},
        {"method=aux", "method was paper when this run began and is aux now: set it back to go on, or begin "
                       "another run in another folder (out)"},
        {"objective.beta=1", "objective.beta was 0.001 when this run began and is 1 now: set it back to go "
                             "on, or begin another run in another folder (out)"},
        {"data.path=e.jsonl",
         "data.sources was - path: d.jsonl when this run began and is - path: e.jsonl now: set it back to go "
         "on (where the files have only moved, with a link at the old place), or begin another run in "
         "another "
         "folder (out)"},
        {"data.choices=c.safetensors",
         "data.choices was null when this run began and is c.safetensors now: "
         "set it back to go on (where the files have only moved, with a link at "
         "the old place), or begin another run in another folder (out)"},
        {"targets=router", "targets was [model.layers.*] when this run began and is [router] now: set it "
                           "back to go on, or begin another run in another folder (out)"},
        {"quantize.format=fp8", "quantize.format was none when this run began and is fp8 now: set it back to "
                                "go on, or begin another run in another folder (out)"},
        {"train=full", "train was lora when this run began and is full now: set it back to go on, or begin "
                       "another run in another folder (out)"},
    };
    struct fixture fixture;
    begin(&fixture);
    read_text(&fixture, LEAST "method: paper\n", NULL, 0);
    const char *saved = text_of(&fixture);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_text(&fixture, LEAST "method: paper\n", &cases[i].word, 1);
        enum mt_status status =
            mt_train_settings_continue(&fixture.ctx, saved, &fixture.arena, &fixture.settings);
        assert_int_equal(status, cases[i].message == NULL ? MT_OK : MT_ERR_USAGE);
        if (cases[i].message != NULL) assert_string_equal(fixture.ctx.message, cases[i].message);
    }
    assert_int_equal(mt_train_settings_continue(&fixture.ctx, "model: [", &fixture.arena, &fixture.settings),
                     MT_ERR_FORMAT);
    end(&fixture);
}

/* What was chosen for a run stays chosen; a choice of somebody's own is compared like any other. */
static void choices_are_kept(void **state)
{
    (void)state;
    static const char *const words[] = {"batch.tokens=4096"};
    struct fixture fixture;
    begin(&fixture);
    read_text(&fixture, LEAST "batch.tokens: 1024\nrecompute: moe\n", NULL, 0);
    const char *saved = text_of(&fixture);
    read_text(&fixture, LEAST, NULL, 0);
    assert_int_equal(mt_train_settings_continue(&fixture.ctx, saved, &fixture.arena, &fixture.settings),
                     MT_OK);
    assert_int_equal(fixture.settings.tokens, 1024);
    assert_int_equal(fixture.settings.recompute, MT_TRAIN_RECOMPUTE_MOE);
    read_text(&fixture, LEAST "recompute: none\n", NULL, 0);
    assert_int_equal(mt_train_settings_continue(&fixture.ctx, saved, &fixture.arena, &fixture.settings),
                     MT_OK);
    assert_int_equal(fixture.settings.recompute, MT_TRAIN_RECOMPUTE_NONE);
    read_text(&fixture, LEAST, words, 1);
    assert_int_equal(mt_train_settings_continue(&fixture.ctx, saved, &fixture.arena, &fixture.settings),
                     MT_ERR_USAGE);
    assert_non_null(strstr(fixture.ctx.message, "batch.tokens was 1024 when this run began and is 4096 now"));
    end(&fixture);
}

/* A run goes on with the method it began with where none is named: the default was another once. */
static void method_is_kept(void **state)
{
    (void)state;
    static const struct {
        const char *began;
        const char *now;
        const char *message; // NULL: goes on
    } cases[] = {
        {LEAST "method: paper\n", LEAST, NULL},
        {LEAST "method: paper\nseed: 3\n", LEAST "seed: 3\n", NULL},
        {LEAST "method: paper\nobjective.beta: 0.5\n", LEAST "objective.beta: 0.5\n", NULL},
        {LEAST "method: paper\nobjective.beta: 0.5\n", LEAST,
         "objective.beta was 0.5 when this run began and is 0.001 now"},
        {LEAST "method: paper\n", LEAST "method: none\n",
         "method was paper when this run began and is none now"},
    };
    struct fixture fixture;
    begin(&fixture);
    const struct mt_objective_config *objective = &fixture.settings.objective;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_text(&fixture, cases[i].began, NULL, 0);
        const char *saved = text_of(&fixture);
        double beta = objective->coefficient[MT_TERM_O];
        read_text(&fixture, cases[i].now, NULL, 0);
        enum mt_status status =
            mt_train_settings_continue(&fixture.ctx, saved, &fixture.arena, &fixture.settings);
        assert_int_equal(status, cases[i].message == NULL ? MT_OK : MT_ERR_USAGE);
        if (cases[i].message != NULL) {
            assert_non_null(strstr(fixture.ctx.message, cases[i].message));
            continue;
        }
        assert_string_equal(objective->method, "paper");
        assert_true(objective->coefficient[MT_TERM_O] == beta && !fixture.settings.task_only);
        assert_string_equal(text_of(&fixture), saved);
    }
    end(&fixture);
}

/* Keys that change nothing, which were not always refused, are nothing in the record of a run. */
static void idle_keys_of_a_record(void **state)
{
    (void)state;
    static const struct {
        const char *saved, *now;
    } cases[] = {
        {LEAST "method: aux\nobjective.scale: running\n", LEAST "method: aux\n"},
        {LEAST "method: none\nobjective.seed: 9\nseed: 3\n", LEAST "method: none\nseed: 3\n"},
        {LEAST "noise: false\nobjective.jitter: 0.3\n", LEAST "noise: false\n"},
        {LEAST "data: {template: chatml, template_options: a=b, template_date: 2025-01-01}\n",
         LEAST "data.template: chatml\n"},
        {LEAST "evaluation.sources: [{path: e.jsonl, weight: 2}]\nlog.measure_every: 5\n", LEAST},
    };
    struct fixture fixture;
    begin(&fixture);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_text(&fixture, cases[i].now, NULL, 0);
        if (mt_train_settings_continue(&fixture.ctx, cases[i].saved, &fixture.arena, &fixture.settings) !=
            MT_OK)
            fail_msg("%s", fixture.ctx.message);
        assert_true(fixture.settings.task_only == (i != 0));
    }
    end(&fixture);
}

static void keys_are_listed(void **state)
{
    (void)state;
    struct mt_key key = {0};
    bool rank = false;
    bool weight = false;
    bool beta = false;
    int count = 0;
    while (mt_key_next(&mt_train_keys, &key)) {
        assert_true(key.name[0] != '\0' && key.standard[0] != '\0');
        assert_true(strlen(key.row->values) > 0 && strlen(key.row->meaning) > 0);
        rank = rank || (strcmp(key.name, "lora.rank") == 0 && strcmp(key.standard, "32") == 0);
        weight = weight || strcmp(key.name, "data.sources[].weight") == 0;
        beta = beta || strcmp(key.name, "objective.beta") == 0;
        // No key is listed twice.
        struct mt_key other = {0};
        int same = 0;
        while (mt_key_next(&mt_train_keys, &other)) same += strcmp(key.name, other.name) == 0;
        assert_int_equal(same, 1);
        count++;
    }
    assert_true(rank && weight && beta && count > 80);
}

static void shipped_configs(void **state)
{
    (void)state;
    const char *folder = getenv("METIER_CONFIGS");
    const char *templates = getenv("METIER_TEMPLATES");
    if (folder == NULL) folder = "share/configs";
    if (templates == NULL) templates = "share/templates";
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    int count = 0;
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        // Those of comparisons have keys of their own (tests/compare).
        if (strstr(entry->d_name, ".yaml") == NULL || strncmp(entry->d_name, "compare-", 8) == 0) continue;
        char path[512];
        struct fixture fixture;
        struct mt_chat_template *template = NULL;
        begin(&fixture);
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (mt_train_settings_read(&fixture.ctx, path, NULL, 0, NULL, 0, &fixture.arena, &fixture.settings) !=
            MT_OK)
            fail_msg("%s", fixture.ctx.message);
        expect_round_trip(&fixture);
        const struct mt_template_choice choice = {.name = fixture.settings.template_name,
                                                  .folder = templates};
        if (mt_chat_template_open(&fixture.ctx, &choice, &template) != MT_OK)
            fail_msg("%s", fixture.ctx.message);
        mt_chat_template_free(template);
        end(&fixture);
        count++;
    }
    (void)closedir(entries);
    assert_true(count >= 7);
}

static enum mt_status whole_life(struct mt_context *ctx, const void *self)
{
    static const char *const words[] = {"lora.rank=9", "targets=a,b"};
    struct mt_arena arena;
    struct mt_train_settings settings;
    const char *text = NULL;
    mt_arena_init(&arena, ctx, 256);
    enum mt_status status = mt_train_settings_read(ctx, "t", self, strlen(self), words, 2, &arena, &settings);
    if (status == MT_OK) status = mt_train_settings_text(ctx, &settings, &arena, &text);
    if (status == MT_OK) status = mt_train_settings_continue(ctx, text, &arena, &settings);
    mt_arena_free(&arena);
    return status;
}

static void out_of_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(whole_life, everything, 51);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),          cmocka_unit_test(every_key),
        cmocka_unit_test(words_over_a_file), cmocka_unit_test(texts_read_back),
        cmocka_unit_test(text_is_pretty),    cmocka_unit_test(going_on),
        cmocka_unit_test(choices_are_kept),  cmocka_unit_test(method_is_kept),
        cmocka_unit_test(keys_are_listed),   cmocka_unit_test(shipped_configs),
        cmocka_unit_test(out_of_memory),     cmocka_unit_test(idle_keys_of_a_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
