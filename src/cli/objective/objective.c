/* metier objective: every loss term of a method, with gradients, for one recorded MoE layer. */
#include "cli/objective/objective.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "objective/objective.h"

#define SPARSEMIXER_STEP 0.01  // router_jitter_noise of Phi-3.5-MoE
#define EPSILON_DEFAULT  1e-20 // DeepSeek's
#define NOT_GIVEN        (-1.0)
#define KEY_BYTES        64

/* The options as they stand on the command line. */
struct settings {
    const char *record;
    const char *out;
    const char *router;
    const char *method;
    const char *group_rule;
    const char *device;
    int64_t slots;
    int64_t groups;
    int64_t groups_kept;
    int64_t threads;
    double epsilon;
    double routed_scale;
    double jitter;
    bool normalise;
    bool methods;
    bool keys;
    bool json;
};

// ------------------------------------------------------------------ the question

static enum mt_status pick_router(struct mt_context *ctx, const char *name, enum mt_router_kind *kind)
{
    static const char *const names[] = {
        [MT_ROUTER_SOFTMAX] = "softmax",
        [MT_ROUTER_SIGMOID] = "sigmoid",
        [MT_ROUTER_SPARSEMIXER] = "sparsemixer",
    };
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *kind = (enum mt_router_kind)i;
        return MT_OK;
    }
    return mt_fail(ctx, MT_ERR_USAGE, "--router is '%s', expected softmax, sigmoid or sparsemixer", name);
}

static enum mt_status pick_groups(struct mt_context *ctx, const struct settings *settings,
                                  struct mt_router_config *router)
{
    bool any = settings->groups != 0 || settings->groups_kept != 0 || settings->group_rule != NULL;
    if (!any) return MT_OK;
    if (settings->groups == 0 || settings->groups_kept == 0 || settings->group_rule == NULL) {
        return mt_fail(ctx, MT_ERR_USAGE, "--groups, --groups-kept and --group-rule go together");
    }
    if (settings->groups < 1 || settings->groups > INT32_MAX || settings->groups_kept < 1 ||
        settings->groups_kept > settings->groups) {
        return mt_fail(ctx, MT_ERR_USAGE, "--groups-kept is %lld, expected 1 to %lld (--groups)",
                       (long long)settings->groups_kept, (long long)settings->groups);
    }
    if (strcmp(settings->group_rule, "max") == 0) {
        router->group_rule = MT_GROUP_MAX;
    } else if (strcmp(settings->group_rule, "top2-sum") == 0) {
        router->group_rule = MT_GROUP_TOP2_SUM;
    } else {
        return mt_fail(ctx, MT_ERR_USAGE, "--group-rule is '%s', expected max or top2-sum",
                       settings->group_rule);
    }
    router->groups = (int)settings->groups;
    router->groups_kept = (int)settings->groups_kept;
    return MT_OK;
}

/* The numbers that shape the weights of the chosen experts. */
static enum mt_status pick_weights(struct mt_context *ctx, const struct settings *settings,
                                   struct mt_router_config *router)
{
    bool sparsemixer = router->kind == MT_ROUTER_SPARSEMIXER;
    if (settings->epsilon != NOT_GIVEN && !settings->normalise) {
        return mt_fail(ctx, MT_ERR_USAGE, "--normalise-epsilon has no meaning without --normalise");
    }
    double epsilon = settings->epsilon != NOT_GIVEN ? settings->epsilon : EPSILON_DEFAULT;
    if (!(epsilon >= 0.0 && epsilon <= 1.0)) {
        return mt_fail(ctx, MT_ERR_USAGE, "--normalise-epsilon is %g, expected 0 to 1", epsilon);
    }
    if (!(settings->routed_scale > 0.0 && settings->routed_scale <= 1e6)) {
        return mt_fail(ctx, MT_ERR_USAGE, "--routed-scale is %g, expected a number above 0, up to 1e6",
                       settings->routed_scale);
    }
    if (settings->jitter != NOT_GIVEN && !sparsemixer) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--jitter is SparseMixer's threshold: it needs --router sparsemixer");
    }
    double jitter = settings->jitter != NOT_GIVEN ? settings->jitter : SPARSEMIXER_STEP;
    if (!(jitter >= 0.0 && jitter <= 1.0)) {
        return mt_fail(ctx, MT_ERR_USAGE, "--jitter is %g, expected 0 to 1", jitter);
    }
    router->normalise = settings->normalise;
    router->epsilon = settings->normalise ? (float)epsilon : 0.0f;
    router->scale = (float)settings->routed_scale;
    router->jitter = sparsemixer ? (float)jitter : 0.0f;
    return MT_OK;
}

enum mt_status cli_refuse_idle_keys(struct mt_context *ctx, const struct mt_objective_config *config,
                                    const char *noiseless, const char *const *words, int count)
{
    for (int i = 0; i < count; i++) {
        char key[KEY_BYTES];
        (void)snprintf(key, sizeof key, "%.*s", (int)strcspn(words[i], "="), words[i]);
        const char *why = mt_objective_key_idle(config, key);
        if (noiseless != NULL && mt_objective_key_is_noise(key)) why = noiseless;
        if (why != NULL) return mt_fail(ctx, MT_ERR_USAGE, "%s means nothing here: %s", words[i], why);
    }
    return MT_OK;
}

/* Sets the key of one key=value argument. */
static enum mt_status set_key(struct mt_context *ctx, const char *word, struct mt_objective_config *config)
{
    const char *equals = strchr(word, '=');
    char key[KEY_BYTES];
    if (equals == NULL || equals == word) {
        return mt_fail(ctx, MT_ERR_USAGE, "unexpected argument '%s'; keys are set as key=value", word);
    }
    // A key too long for the buffer is no key of ours, and its start is neither.
    (void)snprintf(key, sizeof key, "%.*s", (int)(equals - word), word);
    return mt_objective_config_set(ctx, config, key, equals + 1);
}

/* The method's row, then the key=value arguments in their order; alpha first, as c_o and c_v refer to it. */
static enum mt_status pick_method(struct mt_context *ctx, const struct settings *settings,
                                  const struct cli_call *arguments, struct mt_objective_config *config)
{
    static const char alpha[] = "alpha=";
    enum mt_status status = mt_objective_config_method(ctx, settings->method, config);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < arguments->positional_count && status == MT_OK; i++) {
            bool is_alpha = strncmp(arguments->positional[i], alpha, sizeof alpha - 1) == 0;
            if (is_alpha == (pass == 0)) status = set_key(ctx, arguments->positional[i], config);
        }
    }
    if (status == MT_OK) status = mt_objective_config_check(ctx, config);
    if (status != MT_OK) return status;
    return cli_refuse_idle_keys(ctx, config, NULL, arguments->positional, arguments->positional_count);
}

static enum mt_status check_needed(struct mt_context *ctx, const struct settings *settings)
{
    if (settings->record == NULL) {
        return mt_fail(ctx, MT_ERR_USAGE, "--record FILE is missing; --help shows what belongs in it");
    }
    if (settings->slots == 0) {
        return mt_fail(ctx, MT_ERR_USAGE, "--top-k K is missing: how many experts each token has");
    }
    enum mt_status status =
        cli_check_limits(ctx, &(struct cli_limit){"--top-k", settings->slots, 1, MT_MAX_SLOTS}, 1);
    if (status != MT_OK) return status;
    if (strcmp(settings->device, "ref") != 0 && strcmp(settings->device, "cpu") != 0) {
        return mt_fail(ctx, MT_ERR_USAGE, "--device is '%s', expected ref or cpu", settings->device);
    }
    return MT_OK;
}

/* The record is mapped while the answer is written, and nobody wants to lose it. */
static enum mt_status check_distinct(struct mt_context *ctx, const struct settings *settings)
{
    struct stat record;
    struct stat out;
    if (settings->out == NULL || stat(settings->record, &record) != 0 || stat(settings->out, &out) != 0) {
        return MT_OK;
    }
    if (record.st_dev != out.st_dev || record.st_ino != out.st_ino) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "--out is the file of the record (%s); choose another", settings->out);
}

static enum mt_status make_question(struct mt_context *ctx, const struct settings *settings,
                                    const struct cli_call *arguments, struct objective_question *question)
{
    *question = (struct objective_question){
        .router_name = settings->router,
        .record_path = settings->record,
        .out_path = settings->out,
        .device_name = settings->device,
        .threads = (int)settings->threads,
    };
    enum mt_status status = check_needed(ctx, settings);
    if (status == MT_OK) status = check_distinct(ctx, settings);
    if (status == MT_OK) status = pick_router(ctx, settings->router, &question->router.kind);
    if (status == MT_OK) status = pick_groups(ctx, settings, &question->router);
    if (status == MT_OK) status = pick_weights(ctx, settings, &question->router);
    if (status == MT_OK) status = pick_method(ctx, settings, arguments, &question->config);
    question->router.slots = (int)settings->slots;
    return status;
}

// ------------------------------------------------------------------ the verb

static enum mt_status run(struct mt_context *ctx, const struct settings *settings,
                          const struct cli_call *arguments)
{
    struct objective_question question;
    enum mt_status status = make_question(ctx, settings, arguments, &question);
    if (status != MT_OK) return status;
    struct objective_record record;
    struct objective_answer answer = {.ctx = ctx};
    status = cli_objective_record_read(ctx, question.record_path, question.router.slots, &record);
    if (status == MT_OK) status = cli_objective_compute(ctx, &question, &record, &answer);
    if (status == MT_OK && question.out_path != NULL) {
        status = cli_objective_write(ctx, &question, &record, &answer);
    }
    if (status == MT_OK) {
        status = settings->json ? cli_objective_print_json(ctx, &question, &record, &answer)
                                : cli_objective_print_text(ctx, &question, &record, &answer);
    }
    cli_objective_answer_free(&question, &record, &answer);
    cli_objective_record_free(&record);
    return status;
}

static enum mt_status list(struct mt_context *ctx, const struct settings *settings,
                           const struct cli_call *arguments)
{
    if (arguments->positional_count > 0) {
        return mt_fail(ctx, MT_ERR_USAGE, "unexpected argument '%s'", arguments->positional[0]);
    }
    if (settings->methods && settings->keys) {
        return mt_fail(ctx, MT_ERR_USAGE, "--methods and --keys print two lists: give one of them");
    }
    const struct cli_void rules[] = {
        {true,
         "--record --top-k --method --out --router --normalise --normalise-epsilon --routed-scale --groups "
         "--groups-kept --group-rule --jitter --device --threads",
         "with --methods or --keys, which only list"}};
    enum mt_status status = cli_refuse_void(arguments, rules, 1);
    if (status != MT_OK) return status;
    return settings->methods ? cli_objective_print_methods(ctx, settings->json)
                             : cli_objective_print_keys(ctx, settings->json);
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {.router = "softmax",
                                .method = "paper",
                                .device = "cpu",
                                .epsilon = NOT_GIVEN,
                                .routed_scale = 1.0,
                                .jitter = NOT_GIVEN};
    const struct cli_option options[] = {
        {"--record", CLI_TEXT, &settings.record, "IN", "safetensors file with the layer's arrays"},
        {"--top-k", CLI_INTEGER, &settings.slots, "K", "experts per token"},
        {"--method", CLI_TEXT, &settings.method, "NAME", "a row of --methods (default paper)"},
        {"--out", CLI_TEXT, &settings.out, "OUT", "safetensors file for losses and gradients"},
        {"--router", CLI_TEXT, &settings.router, "KIND", "softmax (default), sigmoid or sparsemixer (K = 2)"},
        {"--normalise", CLI_FLAG, &settings.normalise, NULL, "a token's weights are divided by their sum"},
        {"--normalise-epsilon", CLI_REAL, &settings.epsilon, "X", "added to that sum (default 1e-20)"},
        {"--routed-scale", CLI_REAL, &settings.routed_scale, "X", "factor of all weights (default 1)"},
        {"--groups", CLI_INTEGER, &settings.groups, "G", "group-limited choice: experts form G groups"},
        {"--groups-kept", CLI_INTEGER, &settings.groups_kept, "M", "of which the best M are eligible"},
        {"--group-rule", CLI_TEXT, &settings.group_rule, "RULE",
         "a group scores its max (DeepSeek-V2) or its top2-sum (V3)"},
        {"--jitter", CLI_REAL, &settings.jitter, "X", "SparseMixer's threshold (default 0.01)"},
        {"--device", CLI_TEXT, &settings.device, "NAME", "cpu (default), or ref: plain loops in double"},
        {"--threads", CLI_THREADS, &settings.threads, "N", "threads to use (default: all)"},
        {"--json", CLI_FLAG, &settings.json, NULL, "one JSON object instead of tables"},
        {"--methods", CLI_FLAG, &settings.methods, NULL, "list the methods and what they consist of"},
        {"--keys", CLI_FLAG, &settings.keys, NULL, "list the keys, their values and meanings"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    bool lists = settings.methods || settings.keys;
    return lists ? list(call->ctx, &settings, call) : run(call->ctx, &settings, call);
}

const struct cli_verb cli_verb_objective = {
    .name = "objective",
    .summary = "compute a method's loss terms and their gradients from the recorded arrays of one MoE layer",
    .counts_arguments = true,
    .arguments = "--record IN --top-k K [--method NAME] [key=value ...] [--out OUT]",
    .details =
        "IN is a safetensors file with N tokens, n experts, K experts per token, width d:\n"
        "  logits          F32 [N,n]     required\n"
        "  expert_outputs  F32 [N,K,d]   outputs of the chosen experts, before weighting, in the order of\n"
        "                                a stable top-k: highest first, ties to the lowest index\n"
        "  mask            [N]           BOOL, U8, I32 or I64; 0 marks padding, which does not count\n"
        "  sequence        [N]           I32 or I64; the sequence that each token belongs to\n"
        "  router_weight   F32 [n,d]     for the terms on the router's rows\n"
        "  router_bias     F32 [n]       added to the scores for the choice only\n"
        "metier refuses a term that needs an array which IN does not have.\n"
        "\n"
        "OUT is replaced in one step. It gets loss.TERM and scale.TERM for every term that is on, and total\n"
        "(F32 of rank 0, the sum of scale times loss); grad.logits, grad.expert_outputs and\n"
        "grad.router_weight, as far as IN has the array; experts I32 [N,K] (-1: dropped), weights\n"
        "F32 [N,K]; with a bias rule also router_bias, after this step. Its metadata holds the keys.\n"
        "\n"
        "key=value changes one key of the method; --keys lists them. docs/objective.md has the formulas,\n"
        "and a script that compares this with PyTorch.",
    .examples = "  metier objective --methods\n"
                "  metier objective --record layer.safetensors --top-k 6 --out answer.safetensors\n"
                "  metier objective --record layer.safetensors --top-k 6 --method metier beta=0 --json\n"
                "  metier objective --record layer.safetensors --router sigmoid --top-k 8 --normalise \\\n"
                "      --routed-scale 2.5 --groups 8 --groups-kept 4 --group-rule top2-sum --method aux",
    .run = run_verb,
};
