/* Settings that are refused: each with its line and what was probably meant. Tests src/train/settings. */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "support/cmocka_all.h"
#include "train/settings/foreign.h"
#include "train/settings/settings.h"

// Three lines, so that what a case adds begins in line 4.
#define LEAST "model: m\nout: o\ndata.path: d.jsonl\n"

struct refusal {
    const char *text;
    const char *message;
};

static enum mt_status read_text(struct mt_context *ctx, const char *text, const char *const *words,
                                size_t count)
{
    struct mt_arena arena;
    struct mt_train_settings settings;
    mt_arena_init(&arena, ctx, 4096);
    enum mt_status status =
        mt_train_settings_read(ctx, "t", text, strlen(text), words, count, &arena, &settings);
    mt_arena_free(&arena);
    assert_int_equal(ctx->live_bytes, 0);
    return status;
}

static void expect(const struct refusal *cases, size_t count, bool after_least)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < count; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, "%s%s", after_least ? LEAST : "", cases[i].text);
        assert_int_not_equal(read_text(&ctx, text, NULL, 0), MT_OK);
        assert_string_equal(ctx.message, cases[i].message);
    }
}

#define EXPECT(cases, after_least) expect(cases, sizeof(cases) / sizeof((cases)[0]), after_least)

static void unknown_keys(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"lora:\n  rnak: 3\n", "t:5: there is no key 'lora.rnak'; did you mean 'lora.rank'?"},
        {"lora.rnak: 3\n", "t:4: there is no key 'lora.rnak'; did you mean 'lora.rank'?"},
        {"\n\nepoch: 3\n", "t:6: there is no key 'epoch'; did you mean 'epochs'?"},
        {"rank: 3\n", "t:4: there is no key 'rank'; did you mean 'lora.rank'?"},
        {"alpha: 3\n", "t:4: there is no key 'alpha'; did you mean 'lora.alpha' or 'objective.alpha'?"},
        {"learning_rate: 3\n", "t:4: there is no key 'learning_rate'; did you mean 'optimizer.lr'?"},
        {"batch_size: 3\n", "t:4: there is no key 'batch_size'; did you mean 'batch.examples'?"},
        {"optimiser:\n  lr: 3\n", "t:4: there is no key 'optimiser'; did you mean 'optimizer'?"},
        {"objective:\n  betta: 3\n",
         "t:5: there is no key 'objective.betta'; did you mean 'objective.beta'?"},
        {"objective.bet: 3\n", "t:4: there is no key 'objective.bet'; did you mean 'objective.beta'?"},
        {"models: m\n", "t:4: there is no key 'models'; did you mean 'model'?"},
        {"completely_different: 3\n", "t:4: there is no key 'completely_different'"},
        {"lora:\n  rank:\n    deep: 1\n", "t:5: lora.rank is a map, expected WHOLE NUMBER >= 1"},
        {"lora: 3\n", "t:4: lora is a text, expected a map of keys such as lora.rank"},
        {"objective: [alpha]\n", "t:4: objective is a list, expected a map of keys such as objective.alpha"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: 1\n",
         "t:4: there is no key 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaaa'"},
        {"\"a\\nb\": 1\n", "t:4: there is no key 'a?b'"},
    };
    EXPECT(cases, true);
}

#define SUPERVISED                                                                                           \
    "metier trains with a supervised loss. For DPO, GRPO and the like use TRL, with metier.attach for the "  \
    "objective (docs/pytorch.md)"
#define WHOLE_STEP "batch.examples is a whole step: batch size × accumulation steps × devices. "

/* What people know from elsewhere gets a sentence, in whatever spelling and group it stands. */
static void keys_of_other_programs(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"gradient_accumulation_steps: 4\n", "t:4: there is no key 'gradient_accumulation_steps'; " WHOLE_STEP
                                             "Micro-batches of at most batch.tokens are cut from it"},
        {"Gradient-Accumulation-Steps: 4\n", "t:4: there is no key 'Gradient-Accumulation-Steps'; " WHOLE_STEP
                                             "Micro-batches of at most batch.tokens are cut from it"},
        {"batch:\n  micro_batch_size: 4\n", "t:5: there is no key 'batch.micro_batch_size'; " WHOLE_STEP
                                            "batch.tokens is what one device computes at a time"},
        {"packing: true\n", "t:4: there is no key 'packing'; data.layout: packed fills steps by tokens"},
        {"Learning-Rate: 3\n", "t:4: there is no key 'Learning-Rate'; did you mean 'optimizer.lr'?"},
        {"dpo_beta: 0.1\n", "t:4: there is no key 'dpo_beta'; " SUPERVISED},
        {"method: dpo\n", "t:4: there is no method 'dpo'; " SUPERVISED},
        {"method: GRPO\n", "t:4: there is no method 'GRPO'; " SUPERVISED},
        {"method: sft\n",
         "t:4: there is no method 'sft'; every method is supervised fine-tuning; 'none' adds "
         "nothing to its loss"},
        {"method: Paper\n", "t:4: there is no method 'Paper'; did you mean 'paper'?"},
        {"method: loss_free\n", "t:4: there is no method 'loss_free'; did you mean 'loss-free'?"},
        {"method: xyz\n", "t:4: there is no method 'xyz'; metier objective --methods lists them"},
    };
    EXPECT(cases, true);
}

/* True for a name with a dot that is neither a file nor Python's: a key somebody is told to set. */
static bool looks_like_key(const char *word)
{
    static const char *const others[] = {"metier.attach", "metrics.jsonl"};
    const char *dot = strchr(word, '.');
    bool key = dot != NULL && dot > word && dot[1] != '\0' && strchr(word, '/') == NULL;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) key = key && strcmp(word, others[i]) != 0;
    return key;
}

/* The advice names keys that exist, and no name in it hides one that a key answers to. */
static void advice_is_about_keys(void **state)
{
    (void)state;
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_./";
    size_t keys = 0;
    for (const struct mt_key_foreign *foreign = mt_train_foreign; foreign->names != NULL; foreign++) {
        struct mt_key key = {0};
        while (mt_key_next(&mt_train_keys, &key)) {
            char also[512];
            (void)snprintf(also, sizeof also, "%s", key.row->also != NULL ? key.row->also : "");
            assert_false(mt_is_among(foreign->names, key.name));
            for (char *rest = NULL, *name = strtok_r(also, "|", &rest); name != NULL;
                 name = strtok_r(NULL, "|", &rest))
                assert_false(mt_is_among(foreign->names, name));
        }
        for (const char *at = foreign->advice; *at != '\0';) {
            char word[64];
            size_t length = strspn(at, letters);
            (void)snprintf(word, sizeof word, "%.*s", (int)length, at);
            if (length > 0 && word[length - 1] == '.') word[length - 1] = '\0'; // the end of a sentence
            if (looks_like_key(word)) {
                if (!mt_key_find(&mt_train_keys, word, &key)) fail_msg("%s: %s", word, foreign->advice);
                keys++;
            }
            at += length > 0 ? length : 1;
        }
    }
    assert_true(keys > 20);
}

static void doubled_keys(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"model: n\n", "t:4: 'model' is given twice, first in line 1"},
        {"lora.rank: 1\nlora:\n  rank: 2\n", "t:6: 'lora.rank' is given twice, first in line 4"},
        {"lora:\n  rank: 2\nlora.rank: 1\n", "t:6: 'lora.rank' is given twice, first in line 5"},
        {"data.sources: [a]\n", "t:4: data.sources and data.path (line 3) are both given; one says it all"},
        {"objective: {c_o: 1, beta: 2}\n",
         "t:4: objective.beta and objective.c_o (line 4) are both given; one says it all"},
        {"evaluation.split: 0.1\nevaluation.sources: [a]\n",
         "t:5: evaluation.sources and evaluation.split (line 4) are both given; one says it all"},
    };
    EXPECT(cases, true);
}

static void wrong_types(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"lora.rank: '32'\n", "t:4: lora.rank is the text \"32\", expected WHOLE NUMBER >= 1"},
        {"lora.rank: 3.0\n", "t:4: lora.rank is 3.0, expected WHOLE NUMBER >= 1"},
        {"lora.rank: 1e3\n", "t:4: lora.rank is 1e3, expected WHOLE NUMBER >= 1"},
        {"lora.rank: 1_000\n", "t:4: lora.rank is 1_000, expected WHOLE NUMBER >= 1"},
        {"lora.rank: many\n", "t:4: lora.rank is many, expected WHOLE NUMBER >= 1"},
        {"lora.rank:\n", "t:4: lora.rank is nothing, expected WHOLE NUMBER >= 1"},
        {"lora.rank: [3]\n", "t:4: lora.rank is a list, expected WHOLE NUMBER >= 1"},
        {"optimizer.lr: \"1e-4\"\n", "t:4: optimizer.lr is the text \"1e-4\", expected NUMBER > 0"},
        {"optimizer.lr: 0x10\n", "t:4: optimizer.lr is 0x10, expected NUMBER > 0"},
        {"optimizer.lr: 1_000\n", "t:4: optimizer.lr is 1_000, expected NUMBER > 0"},
        {"optimizer.lr: .inf\n", "t:4: optimizer.lr is .inf, expected NUMBER > 0"},
        {"optimizer.lr: nan\n", "t:4: optimizer.lr is nan, expected NUMBER > 0"},
        {"optimizer.lr: 1e\n", "t:4: optimizer.lr is 1e, expected NUMBER > 0"},
        {"log.tensorboard: 1\n", "t:4: log.tensorboard is 1, expected true|false"},
        {"log.tensorboard: 'yes'\n", "t:4: log.tensorboard is the text \"yes\", expected true|false"},
        {"train: lorra\n", "t:4: train is lorra, expected lora|full"},
        {"device: []\n", "t:4: device is a list, expected NAME"},
        {"device:\n", "t:4: device is nothing, expected NAME"},
        {"targets: {a: b}\n", "t:4: targets is a map, expected LIST"},
        {"targets:\n- a\n- [b]\n", "t:6: targets holds a list, expected a list of texts"},
        {"targets: 'a,,b'\n", "t:4: targets is the text \"a,,b\", expected LIST"},
        {"targets: a,\n", "t:4: targets is a,, expected LIST"},
        {"method: [paper]\n", "t:4: method is a list, expected the name of one"},
        {"objective.alpha: '1'\n", "t:4: objective.alpha is the text \"1\", expected NUMBER >= 0"},
        {"objective.alpha: 0x1\n", "t:4: objective.alpha is 0x1, expected NUMBER >= 0"},
        {"objective.alpha: {}\n", "t:4: objective.alpha is a map, expected NUMBER >= 0"},
        {"objective.exclude_first: 'true'\n",
         "t:4: objective.exclude_first is the text \"true\", expected false|true"},
        {"seed: -1\n", "t:4: seed is -1, expected WHOLE NUMBER >= 0"},
        {"seed: 18446744073709551616\n", "t:4: seed is 18446744073709551616, expected WHOLE NUMBER >= 0"},
    };
    EXPECT(cases, true);
}

static void impossible_values(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"lora.rank: 0\n", "t:4: lora.rank is 0, expected WHOLE NUMBER >= 1"},
        {"lora.rank: 20000\n", "t:4: lora.rank is 20000, expected 16384 at the most"},
        {"lora.alpha: 0\n", "t:4: lora.alpha is 0, expected NUMBER > 0"},
        {"lora.dropout: 1\n", "t:4: lora.dropout is 1, expected NUMBER >= 0 and < 1"},
        {"optimizer.lr: -1e-4\n", "t:4: optimizer.lr is -1e-4, expected NUMBER > 0"},
        {"optimizer.lr: 1e999\n", "t:4: optimizer.lr is 1e999, expected 1000 at the most"},
        {"optimizer.lr: 1e-999\n", "t:4: optimizer.lr is 1e-999, expected NUMBER > 0"},
        {"optimizer.final: 2\n", "t:4: optimizer.final is 2, expected NUMBER >= 0 and <= 1"},
        {"evaluation.split: 1\n", "t:4: evaluation.split is 1, expected NUMBER >= 0 and < 1"},
        {"data.max_length: 1\n", "t:4: data.max_length is 1, expected WHOLE NUMBER >= 2"},
        {"method: papper\n", "t:4: there is no method 'papper'; did you mean 'paper'?"},
        {"objective.form: cosin\n", "t:4: objective.form is cosin, expected pairwise|span|cosine"},
        {"objective.jitter: 1\n", "t:4: objective.jitter is 1, expected NUMBER >= 0 and < 1"},
    };
    EXPECT(cases, true);
}

static void impossible_combinations(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"train: full\nlora.rank: 3\n", "t:5: lora.rank means nothing with train: full; leave it out"},
        {"train: full\nadapter: a\n",
         "t:5: an adapter cannot start train: full; put it into the model first (metier merge) or set train: "
         "lora"},
        {"adapter: a\nlora.rank: 3\n", "t:5: lora.rank is what the adapter in a says; leave it out"},
        {"targets: router\nadapter: a\n", "t:4: targets is what the adapter in a says; leave it out"},
        {"targets: []\n", "t:4: targets is empty: nothing would learn"},
        {"batch.tokens: 100\n",
         "t:4: batch.tokens is 100, less than one example may have (data.max_length is 512)"},
        {"batch.tokens: 4096\ndata.max_length: 8192\n",
         "t:4: batch.tokens is 4096, less than one example may have (data.max_length is 8192)"},
        {"memory.limit: 22\n",
         "t:4: memory.limit is 22, expected auto, an amount as 22GiB or 24GB, or a share as 90%"},
        {"memory: {limit: 120%}\n",
         "t:4: memory.limit is 120%, expected auto, an amount as 22GiB or 24GB, or a share as 90%"},
        {"batch.examples: 0\n", "t:4: batch.examples is 0, which only data.layout: packed can do"},
        {"data.window: 5\n", "t:4: data.window means nothing with data.layout: in-order"},
        {"data.choices: c\nmethod: pool\n", "t:4: data.choices decides which experts a token gets, and these "
                                            "need not be in its sequence's pool; "
                                            "set objective.pool: false, or take another method"},
        {"data.choices: c\nmethod: loss-free\n",
         "t:4: data.choices decides which experts a token gets: a bias that moves would choose none; set "
         "objective.bias_rule: none, or take another method"},
        {"epochs: 0\n", "t:4: epochs and steps are both 0: nothing would be trained"},
        {"optimizer.warmup: 1.5\n",
         "t:4: optimizer.warmup is 1.5, expected a whole number of steps, or a share of them below 1"},
        {"steps: 10\noptimizer.warmup: 20\n", "t:5: optimizer.warmup is 20 steps, more than all steps (10)"},
        {"optimizer: {schedule: constant, final: 0.1}\n",
         "t:4: optimizer.final means nothing with optimizer.schedule: constant"},
        {"evaluation.patience: 2\n",
         "t:4: evaluation.patience is set, but nothing is held out: set evaluation.split or "
         "evaluation.sources"},
        {"evaluation.sources: [d.jsonl]\n",
         "t:4: d.jsonl is also trained on; to hold a part of it out, set evaluation.split"},
        {"objective:\n  form: cosine\n  gradient: paper\n",
         "t:5: gradient=paper is the paper's gradient of the pairwise form: set form=pairwise or "
         "gradient=exact"},
    };
    EXPECT(cases, true);
}

static void sources_and_required(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"", "t: there is no 'model': the folder of the model to train"},
        {"model: m", "t: there is no 'out': the folder the run writes to"},
        {"model: m\nout: o", "t: there is nothing to train on: set data.path or data.sources"},
        {"model: m\nout: o\ndata.sources: []\n",
         "t:3: there is nothing to train on: set data.path or data.sources"},
        {"model: m\nout: m\ndata.path: a\n",
         "t:2: out is the model's own folder; the run needs one of its own"},
        {"model:\nout: o\n", "t:1: model is nothing, expected FOLDER"},
        {"- model\n", "t:1: a list, expected lines of key: value"},
        {"model\n", "t:1: a text, expected lines of key: value"},
        {"model: m\nout: o\ndata.sources: a.jsonl\n",
         "t:3: data.sources is a text, expected a list of files"},
        {"model: m\nout: o\ndata.path: [a.jsonl]\n", "t:3: data.path is a list, expected a path"},
        {"data:\n  sources:\n  - a\n  - wieght: 2\n    path: b\n",
         "t:4: a source has no key 'wieght'; did you mean 'weight'?"},
        {"data:\n  sources:\n  - path: b\n    mapping: 2\n",
         "t:4: a source has no key 'mapping'; did you mean 'fields'?"},
        {"data:\n  sources:\n  - path: b\n    nonsense: 2\n", "t:4: a source has no key 'nonsense'"},
        {"data:\n  sources:\n  - weight: 2\n", "t:3: a source has no path"},
        {"data:\n  sources:\n  - [a]\n",
         "t:3: data.sources holds a list, expected a path or a map with a path"},
        {"data:\n  sources:\n  -\n", "t:3: data.sources holds nothing, expected a path or a map with a path"},
        {"data:\n  sources:\n  - path: b\n    weight: 0\n", "t:4: weight is 0, expected NUMBER > 0"},
        {"data:\n  sources:\n  - path: b\n    limit: all\n", "t:4: limit is all, expected WHOLE NUMBER >= 0"},
        {"data:\n  sources:\n  - path: b\n    format: orc\n",
         "t:4: format is orc, expected auto|jsonl|json|csv|tsv|parquet|arrow|text"},
        {"data:\n  sources:\n  - path: b.jsonl.gz\n    columns: a,b\n",
         "t:4: columns are for csv and tsv, this is jsonl"},
        {"data:\n  sources:\n  - path: b.csv\n    text_rows: lines\n",
         "t:4: text_rows is for text, this is csv"},
        {"data:\n  sources:\n  - path: b\n    fields: x\n",
         "t:4: the mapping 'x' must read as field=column,field=column"},
    };
    EXPECT(cases, false);
}

/* Keys that would change nothing beside the others. */
static void keys_that_mean_nothing(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"epochs: 2\nsteps: 5\n",
         "t:4: epochs means nothing here: steps says how long the run is; set steps to 0 "
         "to go by epochs"},
        {"parallel.room: 2\n",
         "t:4: parallel.room means nothing here: parallel.experts is 1: no ranks share experts"},
        {"parallel: {transfer: staged}\n",
         "t:4: parallel.transfer means nothing here: parallel.experts is 1: no ranks share experts"},
        {"lora.dropout: 0.3\nnoise: false\n",
         "t:4: lora.dropout means nothing here: noise is false: nothing is dropped"},
        {"quantize.parts: [attention]\n",
         "t:4: quantize.parts means nothing here: quantize.format is none: weights stay as they are"},
        {"quantize.cache: true\n",
         "t:4: quantize.cache means nothing here: quantize.format is none: weights stay as they are"},
        {"quantize: {format: fp8, double: false}\n",
         "t:4: quantize.double means nothing here: only nf4's scales are quantised"},
        {"method: aux\nobjective.form: cosine\n",
         "t:5: objective.form means nothing here: L_o is off: beta is 0"},
        {"method: none\nobjective: {aux: switch}\n",
         "t:5: objective.aux means nothing here: L_aux is off: alpha is 0"},
        {"objective.axis: token\n",
         "t:4: objective.axis means nothing here: L_v is off: gamma is 0 (method is none by default)"},
        {"method: paper\nobjective.gamma: 0\nobjective.axis: token\n",
         "t:6: objective.axis means nothing here: L_v is off: gamma is 0"},
        {"method: paper\nobjective.bias_rate: 0.5\n",
         "t:5: objective.bias_rate means nothing here: bias_rule is none"},
        {"method: paper\nobjective.capacity_min: 3\n",
         "t:5: objective.capacity_min means nothing here: capacity is 0"},
        {"method: paper\nobjective.orth_groups: 3\n",
         "t:5: objective.orth_groups means nothing here: router orthogonality is "
         "off: lambda_orth is 0"},
        {"method: paper\nobjective.brake_target: 3\n",
         "t:5: objective.brake_target means nothing here: brake is not target"},
        {"method: aux\nobjective.scale: running\n",
         "t:5: objective.scale means nothing here: L_o and L_v are off: beta and gamma are 0"},
        {"method: metier\nobjective: {gamma: 0, running_decay: 0.5}\n",
         "t:5: objective.running_decay means nothing here: no term has scale=running or brake=target"},
        {"method: loss-free\nobjective.allow_indirect: true\n",
         "t:5: objective.allow_indirect means nothing here: no term is on"},
        {"method: none\nobjective.seed: 9\n",
         "t:5: objective.seed means nothing here: the method draws nothing at random"},
        {"noise: false\nobjective.jitter: 0.3\n",
         "t:5: objective.jitter means nothing here: noise is false: nothing is drawn or dropped (method is "
         "none by default)"},
        {"noise: false\nmethod: gshard\nobjective.drop_threshold: 0.4\n",
         "t:6: objective.drop_threshold means nothing here: noise is false: nothing is drawn or dropped"},
        {"noise: false\nmethod: gshard\nobjective.capacity: 2\n",
         "t:6: objective.capacity means nothing here: noise is false: nothing is drawn or dropped"},
        {"noise: false\nmethod: erc\nobjective.seed: 3\n",
         "t:6: objective.seed means nothing here: noise is false: nothing is drawn or dropped"},
        {"data: {template: chatml, template_options: a=b}\n",
         "t:4: data.template_options means nothing here: the data.template that is named has neither "
         "options nor dates"},
        {"data.template: plain\ndata.template_date: 2025-01-01\n",
         "t:5: data.template_date means nothing here: the data.template that is named has neither options "
         "nor "
         "dates"},
        {"method: loss-free\nlog.measure_every: 5\n",
         "t:5: log.measure_every means nothing here: no term is on: there are no gradients of terms"},
        {"evaluation.sources: [{path: e.jsonl, weight: 2}]\n",
         "t:4: weight means nothing in evaluation.sources: every row is looked at once"},
    };
    EXPECT(cases, true);
}

/* A word over a file is meant: what it makes idle there is as if nobody had said it. */
static void words_make_void(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *word;
    } cases[] = {
        {LEAST "epochs: 2\n", "steps=5"},
        {LEAST "method: paper\nobjective: {form: cosine, axis: token}\n", "method=aux"},
        {LEAST "method: paper\nobjective.tau_gate: 0.1\n", "objective.beta=0"},
        {LEAST "parallel: {experts: 2, room: 2, transfer: staged}\n", "parallel.experts=1"},
        {LEAST "lora.dropout: 0.3\n", "noise=false"},
        {LEAST "method: gshard\nobjective: {jitter: 0.3, seed: 4}\n", "noise=false"},
        {LEAST "method: gshard\nobjective.seed: 4\nlog.measure_every: 3\n", "method=none"},
        {LEAST "data: {template: own.jinja, template_options: a=b, template_date: 2025-01-01}\n",
         "data.template=chatml"},
        {LEAST "quantize: {format: nf4, double: false, parts: [attention], cache: true}\n",
         "quantize.format=none"},
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_train_settings settings, again;
        struct mt_arena arena;
        const char *text = NULL;
        mt_arena_init(&arena, &ctx, 4096);
        enum mt_status status = mt_train_settings_read(&ctx, "t", cases[i].text, strlen(cases[i].text),
                                                       &cases[i].word, 1, &arena, &settings);
        // What is written down reads back.
        if (status == MT_OK) status = mt_train_settings_text(&ctx, &settings, &arena, &text);
        if (status == MT_OK)
            status = mt_train_settings_read(&ctx, "t", text, strlen(text), NULL, 0, &arena, &again);
        if (status != MT_OK) fail_msg("%s: %s", cases[i].word, ctx.message);
        mt_arena_free(&arena);
    }
}

/* What is so anyway may be said; other templates and methods have a use for the keys. */
static void keys_that_mean_something(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "method: none\nseed: 7\nobjective.seed: 7\n",
        "method: aux\nobjective.seed: 7\n", // for SparseMixer's draws
        "method: gshard\nnoise: false\nobjective.drop_threshold: 0.2\n",
        "method: paper-wo-lo\nobjective.scale: running\nobjective.running_decay: 0.5\n",
        "data: {template_options: a=b, template_date: 2025-01-01}\n",
        "data: {template: own.jinja, template_options: a=b}\n",
        "log.measure_every: 0\n",
        "evaluation.sources: [{path: e.jsonl, weight: 1}]\n",
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, LEAST "%s", cases[i]);
        if (read_text(&ctx, text, NULL, 0) != MT_OK) fail_msg("%s: %s", cases[i], ctx.message);
    }
}

static void words(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"lora.rnak=3", "lora.rnak=3: there is no key 'lora.rnak'; did you mean 'lora.rank'?"},
        {"lora.rank", "unexpected argument 'lora.rank'; settings are given as key=value"},
        {"=3", "unexpected argument '=3'; settings are given as key=value"},
        {"lora.rank=x", "lora.rank=x: lora.rank is x, expected WHOLE NUMBER >= 1"},
        {"lora.rank=", "lora.rank=: lora.rank is nothing, expected WHOLE NUMBER >= 1"},
        {"model=", "model=: model is nothing, expected FOLDER"},
        {"targets=[a", "targets=[a: not valid YAML: while parsing a flow sequence, did not find expected ',' "
                       "or ']'"},
        {"targets=*.gate", "targets=*.gate: not valid YAML: while scanning an alias, did not find expected "
                           "alphabetic or numeric character"},
        {"lora={rank: 1, rank: 2}", "lora={rank: 1, rank: 2}: 'rank' is given twice"},
        {"lora=5", "lora=5: lora is a text, expected a map of keys such as lora.rank"},
        {"data.sources=[{path: a, wieght: 2}]",
         "data.sources=[{path: a, wieght: 2}]: a source has no key 'wieght'; did you mean 'weight'?"},
        {"batch.tokens=3", "batch.tokens=3: batch.tokens is 3, less than one example may have "
                           "(data.max_length is 512)"},
        {"objective.alpha=-1", "objective.alpha=-1: objective.alpha is -1, expected NUMBER >= 0"},
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(read_text(&ctx, LEAST, &cases[i].text, 1), MT_ERR_USAGE);
        assert_string_equal(ctx.message, cases[i].message);
    }
    static const char *const twice[] = {"lora.rank=3", "lora.rank=4"};
    assert_int_equal(read_text(&ctx, LEAST, twice, 2), MT_ERR_USAGE);
    assert_string_equal(ctx.message, "lora.rank=4: lora.rank is given twice");
    static const char *const full[] = {"train=full", "lora.rank=4"};
    assert_int_equal(read_text(&ctx, LEAST, full, 2), MT_ERR_USAGE);
    assert_string_equal(ctx.message, "lora.rank=4: lora.rank means nothing with train: full; leave it out");
    static const char *const rivals[] = {"data.path=a", "data.sources=[b]"};
    assert_int_equal(read_text(&ctx, LEAST, rivals, 2), MT_ERR_USAGE);
    assert_string_equal(ctx.message, "data.sources=[b]: data.path and data.sources are both given; one says "
                                     "it all");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_keys),
        cmocka_unit_test(keys_of_other_programs),
        cmocka_unit_test(advice_is_about_keys),
        cmocka_unit_test(doubled_keys),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(impossible_values),
        cmocka_unit_test(impossible_combinations),
        cmocka_unit_test(sources_and_required),
        cmocka_unit_test(keys_that_mean_nothing),
        cmocka_unit_test(words_make_void),
        cmocka_unit_test(keys_that_mean_something),
        cmocka_unit_test(words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
