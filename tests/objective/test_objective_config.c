/*
 * Methods, keys, contradictions and liveness: what is refused, and with which sentence. Tests
 * src/objective/config_check.c and src/objective/liveness.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "metier/objective.h"
#include "support/cmocka_all.h"

static void refused(const struct mt_context *ctx, enum mt_status status, const char *words)
{
    if (status != MT_ERR_USAGE || strstr(ctx->message, words) == NULL) {
        fail_msg("status '%s', message '%s'; expected a refusal with '%s'", mt_status_text(status),
                 ctx->message, words);
    }
}

static struct mt_objective_config method(const char *name)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_objective_config config;
    if (mt_objective_config_method(&ctx, name, &config) != MT_OK) fail_msg("%s", ctx.message);
    return config;
}

static void set(struct mt_objective_config *config, const char *key, const char *value)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    if (mt_objective_config_set(&ctx, config, key, value) != MT_OK) fail_msg("%s", ctx.message);
}

// ------------------------------------------------------------------ methods

static void methods_are_sound(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    int count = 0;
    for (const struct mt_method *row = mt_method_listed(0); row != NULL; row = mt_method_listed(++count)) {
        struct mt_objective_config config = method(row->name);
        assert_string_equal(config.method, row->name);
        assert_true(strlen(row->summary) > 10);
        assert_true(strlen(row->source) > 5);
        if (mt_objective_config_check(&ctx, &config) != MT_OK) fail_msg("%s: %s", row->name, ctx.message);
    }
    assert_int_equal(count, 21);
    assert_null(mt_method_listed(-1));
}

static void methods_have_the_published_strengths(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double coefficient[MT_TERM_COUNT]; // aux, o, v, z, router_orth, simbal, erc, sp, cp
    } published[] = {
        {"none", {0}},
        {"aux", {1e-3}},
        {"global-batch", {1e-3}},
        {"pool", {0.1 / 16, 0, 0, 1e-3 / 16}},
        {"gshard", {1e-2}},
        {"st-moe", {1e-2, 0, 0, 1e-3}},
        {"loss-free", {0}},
        {"smebu", {0}},
        {"quantile", {0}},
        {"densemixer", {0}},
        {"ernie", {1e-2, 0, 0, 1e-4, 1e-2}},
        {"simbal", {0, 0, 0, 1e-5, 0, 0.1}},
        {"erc", {1e-2, 0, 0, 0, 0, 0, 1.0}},
        {"intra-cross", {1e-2, 0, 0, 0, 0, 0, 0, 2e-3, 1e-3}},
        {"paper", {1e-3, 1e-3, 1e-3}},
        {"paper-code", {1e-3, 1e-4, 1e-3}},
        {"metier", {1e-3, 1e-2, 3e-3}},
        {"paper-wo-lv", {1e-3, 1e-3, 0}},
        {"paper-wo-lo", {1e-3, 0, 1e-3}},
        {"paper-only-aux", {1e-3}},
        {"paper-wo-all", {0}},
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        struct mt_objective_config config = method(published[i].name);
        for (int term = 0; term < MT_TERM_COUNT; term++) {
            assert_true(config.coefficient[term] == published[i].coefficient[term]);
        }
    }
    struct mt_objective_config config = method("paper-code");
    assert_int_equal(config.aux, MT_AUX_SEQUENCE);
    assert_int_equal(config.grouping, MT_GROUPING_EXPERT_CONCAT);
    assert_int_equal(config.form, MT_ORTHO_SPAN);
    assert_int_equal(config.axis, MT_AXIS_TOKEN);
    assert_true(config.full_scores);
    assert_int_equal(config.scale, MT_SCALE_ONCE_POW10);
    assert_int_equal(config.brake, MT_BRAKE_NONE);
    assert_false(config.exclude_first);
    config = method("erc");
    assert_true(config.erc_alpha == 1.0);
    assert_true(config.erc_noise == 1.0);
    config = method("smebu");
    assert_int_equal(config.bias_rule, MT_BIAS_SMEBU);
    assert_true(config.bias_rate == 5e-4 && config.bias_momentum == 0.5 && config.bias_clamp == 2.0);
    assert_int_equal(method("quantile").bias_rule, MT_BIAS_QUANTILE);
    assert_int_equal(method("global-batch").aux, MT_AUX_GLOBAL);
    assert_true(method("densemixer").dense_router);
    assert_true(method("pool").pool);
    assert_int_equal(method("pool").aux, MT_AUX_GLOBAL);
    config = method("st-moe");
    struct mt_router_policy policy = mt_objective_policy(&config, true, 9);
    assert_true(policy.training);
    assert_ptr_equal(policy.method, &config);
    assert_true(config.capacity_factor == 1.25);
    assert_int_equal(config.capacity_minimum, 4);
    assert_true(config.drop_threshold == 0.2);
    assert_int_equal(policy.stream, 9);
}

static void unknown_method(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_objective_config config;
    refused(&ctx, mt_objective_config_method(&ctx, "papr", &config), "'papr'; did you mean 'paper'?");
    refused(&ctx, mt_objective_config_method(&ctx, "lossfree", &config), "did you mean 'loss-free'?");
    refused(&ctx, mt_objective_config_method(&ctx, "something quite different", &config),
            "metier objective --methods lists them");
}

// ------------------------------------------------------------------ keys

static int key_index(const char *name)
{
    struct mt_objective_key key;
    for (int i = 0; mt_objective_key_listed(i, &key); i++) {
        if (strcmp(key.name, name) == 0) return i;
    }
    return -1;
}

static void every_key_is_there(void **state)
{
    (void)state;
    static const char *const names[] = {
        "alpha",
        "beta",
        "gamma",
        "zeta",
        "lambda_orth",
        "lambda_simbal",
        "lambda_erc",
        "lambda_sp",
        "lambda_cp",
        "erc_alpha",
        "erc_noise",
        "sp",
        "aux",
        "grouping",
        "form",
        "reduce",
        "eps",
        "exclude_first",
        "tau_gate",
        "gradient",
        "axis",
        "scores",
        "brake",
        "scale",
        "brake_target",
        "running_decay",
        "c_o",
        "c_v",
        "orth_groups",
        "bias_rule",
        "capacity",
        "bias_rate",
        "bias_momentum",
        "bias_clamp",
        "capacity_min",
        "jitter",
        "drop_threshold",
        "seed",
        "allow_indirect",
        "dense_router",
        "pool",
    };
    struct mt_objective_key key;
    int count = 0;
    while (mt_objective_key_listed(count, &key)) {
        assert_true(strlen(key.values) > 0);
        assert_true(strlen(key.meaning) > 5);
        count++;
    }
    assert_int_equal(count, sizeof names / sizeof names[0]);
    for (int i = 0; i < count; i++) {
        if (key_index(names[i]) < 0) fail_msg("key %s is missing", names[i]);
    }
    assert_false(mt_objective_key_listed(-1, &key));
}

/* Setting every key to its own text makes any configuration again. */
static void keys_read_back(void **state)
{
    (void)state;
    for (int m = 0; mt_method_listed(m) != NULL; m++) {
        struct mt_objective_config original = method(mt_method_listed(m)->name);
        set(&original, "seed", "18446744073709551615");
        set(&original, "gamma", "0.123456789012345678");
        set(&original, "eps", m % 2 == 0 ? "auto" : "1e-9");
        struct mt_objective_config copy = method("ernie");
        struct mt_objective_key key;
        char text[64];
        for (int i = 0; mt_objective_key_listed(i, &key); i++) {
            mt_objective_key_value(&original, i, text, sizeof text);
            set(&copy, key.name, text);
        }
        for (int i = 0; mt_objective_key_listed(i, &key); i++) {
            char again[64];
            mt_objective_key_value(&original, i, text, sizeof text);
            mt_objective_key_value(&copy, i, again, sizeof again);
            assert_string_equal(text, again);
        }
        assert_memory_equal(copy.coefficient, original.coefficient, sizeof copy.coefficient);
    }
}

static void choices_set_what_they_say(void **state)
{
    (void)state;
    struct mt_objective_config config = method("none");
    set(&config, "aux", "literal");
    set(&config, "grouping", "expert-concat");
    set(&config, "form", "cosine");
    set(&config, "reduce", "sum");
    set(&config, "gradient", "paper");
    set(&config, "axis", "token");
    set(&config, "scores", "full");
    set(&config, "brake", "decay");
    set(&config, "scale", "once-pow10");
    set(&config, "bias_rule", "proportional");
    set(&config, "exclude_first", "true");
    set(&config, "allow_indirect", "true");
    assert_int_equal(config.aux, MT_AUX_LITERAL);
    assert_int_equal(config.grouping, MT_GROUPING_EXPERT_CONCAT);
    assert_int_equal(config.form, MT_ORTHO_COSINE);
    assert_true(config.ortho_sum);
    assert_true(config.printed_gradient);
    assert_int_equal(config.axis, MT_AXIS_TOKEN);
    assert_true(config.full_scores);
    assert_int_equal(config.brake, MT_BRAKE_DECAY);
    assert_int_equal(config.scale, MT_SCALE_ONCE_POW10);
    assert_int_equal(config.bias_rule, MT_BIAS_PROPORTIONAL);
    assert_true(config.exclude_first);
    assert_true(config.allow_indirect);
    set(&config, "scale", "none");
    assert_int_equal(config.scale, MT_SCALE_NONE);
    set(&config, "reduce", "mean");
    assert_false(config.ortho_sum);
}

static void strengths_as_multiples(void **state)
{
    (void)state;
    struct mt_objective_config config = method("none");
    set(&config, "c_o", "10");
    assert_true(config.coefficient[MT_TERM_O] == 10 * 1e-3); // alpha is 0: 1e-3 stands in
    set(&config, "alpha", "0.5");
    set(&config, "c_v", "3");
    assert_true(config.coefficient[MT_TERM_V] == 1.5);
    char text[32];
    mt_objective_key_value(&config, key_index("c_v"), text, sizeof text);
    assert_string_equal(text, "3");
    mt_objective_key_value(&config, key_index("gamma"), text, sizeof text);
    assert_string_equal(text, "1.5");
}

static void bad_values_are_refused(void **state)
{
    (void)state;
    // None of these fits any key.
    static const char *const never[] = {"",      " ",  "maybe", "-1",  "nan", "inf",
                                        "1e999", " 1", "1 ",    "1,5", "0x"};
    static const struct {
        const char *key, *value;
    } bad[] = {
        {"brake_target", "1"},
        {"running_decay", "1"},
        {"jitter", "1"},
        {"drop_threshold", "1.01"},
        {"orth_groups", "0"},
        {"orth_groups", "1.5"},
        {"orth_groups", "99999"},
        {"seed", "1.5"},
        {"seed", "-0"},
        {"eps", "0"},
        {"capacity_min", "1.5"},
        {"capacity_min", "1e3"},
        {"capacity_min", "99999999999999999999"},
        {"seed", "18446744073709551616"},
        {"form", "Cosine"},
        {"form", "pairwise|span"},
        {"form", "cos"},
        {"exclude_first", "1"},
        {"alpha", "auto"},
        {"c_o", "-2"},
        {"c_o", "1e308 "},
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_objective_key key;
    struct mt_objective_config config = method("paper");
    struct mt_objective_config before;
    memcpy(&before, &config, sizeof before); // padding included
    for (int i = 0; mt_objective_key_listed(i, &key); i++) {
        for (size_t j = 0; j < sizeof never / sizeof never[0]; j++) {
            char words[128];
            (void)snprintf(words, sizeof words, "%s=%s: expected %s", key.name, never[j], key.values);
            refused(&ctx, mt_objective_config_set(&ctx, &config, key.name, never[j]), words);
            assert_memory_equal(&config, &before, sizeof config);
        }
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refused(&ctx, mt_objective_config_set(&ctx, &config, bad[i].key, bad[i].value), "expected");
        assert_memory_equal(&config, &before, sizeof config);
    }
}

static void unknown_keys(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_objective_config config = method("paper");
    refused(&ctx, mt_objective_config_set(&ctx, &config, "bta", "1"), "'bta'; did you mean 'beta'?");
    refused(&ctx, mt_objective_config_set(&ctx, &config, "exclude-first", "1"), "'exclude_first'?");
    refused(&ctx, mt_objective_config_set(&ctx, &config, "quite_something_else", "1"), "there is no key");
    assert_null(strstr(ctx.message, "did you mean"));
}

// ------------------------------------------------------------------ contradictions

static void contradictions(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_objective_config config = method("metier");
    config.printed_gradient = true;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "gradient=paper");
    config = method("paper-code");
    config.gate = 0.1;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "tau_gate");
    config = method("metier");
    config.brake_target = 1.0;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "brake_target");
    config = method("loss-free");
    config.bias_rate = 0.0;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "bias_rate");
    config = method("paper");
    config.coefficient[MT_TERM_V] = -1.0;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "term v");
    config = method("paper");
    config.coefficient[MT_TERM_AUX] = NAN;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "term aux");
    config = method("paper");
    config.running_decay = 1.0;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "running_decay");
    config = method("paper");
    config.jitter = 1.0;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "jitter");
    config = method("paper");
    config.drop_threshold = 2.0;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "drop_threshold");
    config = method("paper");
    config.capacity_minimum = -1;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "capacity_min");
    config = method("paper");
    config.router_orth_groups = -1;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "orth_groups");
    config = method("paper");
    config.ortho_epsilon = INFINITY;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "eps");
    config = method("paper");
    config.form = (enum mt_ortho_form)7;
    refused(&ctx, mt_objective_config_check(&ctx, &config), "form");
}

// ------------------------------------------------------------------ liveness

/* Two layers; what is true anywhere is true in the second. */
static enum mt_status live(struct mt_context *ctx, const struct mt_objective_config *config, int slots,
                           bool normalise, struct mt_layer_paths second)
{
    struct mt_router_config router = {.slots = slots, .normalise = normalise};
    struct mt_layer_paths paths[2] = {{0}, second};
    return mt_objective_check_live(ctx, config, &router, paths, 2, "objective.");
}

static void everything_that_reaches_is_let_through(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (int m = 0; mt_method_listed(m) != NULL; m++) {
        struct mt_objective_config config = method(mt_method_listed(m)->name);
        struct mt_layer_paths all = {
            .router = true, .experts = true, .below = true, .inner = true, .gates = true};
        if (live(&ctx, &config, 2, true, all) != MT_OK) fail_msg("%s", ctx.message);
    }
    struct mt_objective_config config = method("loss-free"); // needs nothing trainable
    assert_int_equal(live(&ctx, &config, 1, true, (struct mt_layer_paths){0}), MT_OK);
    config = method("paper-wo-lv");
    config.coefficient[MT_TERM_AUX] = 0.0; // L_o alone: experts suffice
    assert_int_equal(live(&ctx, &config, 2, true, (struct mt_layer_paths){.experts = true}), MT_OK);
}

static void inert_terms_are_refused(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    const struct mt_layer_paths nothing = {0};
    const struct mt_layer_paths router = {.router = true};
    const struct mt_layer_paths experts = {.experts = true};
    const struct mt_layer_paths below = {.below = true};
    const struct mt_layer_paths all = {.router = true, .experts = true, .below = true};

    struct mt_objective_config config = method("aux");
    refused(&ctx, live(&ctx, &config, 2, false, nothing), "term aux has coefficient 0.001");
    refused(&ctx, live(&ctx, &config, 2, false, nothing), "the router is frozen in every layer");
    refused(&ctx, live(&ctx, &config, 2, false, experts), "put router among the targets");
    refused(&ctx, live(&ctx, &config, 2, false, below),
            "set method=none, or accept that with objective.allow_indirect=true");
    config.allow_indirect = true;
    assert_int_equal(live(&ctx, &config, 2, false, below), MT_OK);
    refused(&ctx, live(&ctx, &config, 2, false, nothing), "so is everything below");

    config = method("paper");
    refused(&ctx, live(&ctx, &config, 2, false, below), "Put router and routed_experts among the targets");
    refused(&ctx, live(&ctx, &config, 2, false, router), "term o has coefficient 0.001");
    refused(&ctx, live(&ctx, &config, 2, false, router), "the experts are frozen in every layer");
    refused(&ctx, live(&ctx, &config, 2, false, router), "put routed_experts among the targets");
    refused(&ctx, live(&ctx, &config, 1, false, all), "each token has one expert");
    refused(&ctx, live(&ctx, &config, 1, false, all), "set objective.beta=0");

    config = method("ernie");
    config.allow_indirect = true; // no help: the router's rows depend on nothing below
    config.coefficient[MT_TERM_AUX] = 0.0;
    config.coefficient[MT_TERM_Z] = 0.0;
    refused(&ctx, live(&ctx, &config, 2, false, below), "term router_orth");
    config = method("simbal");
    config.coefficient[MT_TERM_Z] = 0.0;
    refused(&ctx, live(&ctx, &config, 2, false, experts), "nothing else can change the term");

    config = method("erc");
    config.coefficient[MT_TERM_AUX] = 0.0;
    config.allow_indirect = true; // no help either
    refused(&ctx, live(&ctx, &config, 2, false, below),
            "term erc has coefficient 1, but the router and the experts' gate projections are frozen");
    refused(&ctx, live(&ctx, &config, 2, false, experts), "nothing else can change the term"); // down alone
    assert_int_equal(live(&ctx, &config, 2, false, router), MT_OK);
    assert_int_equal(live(&ctx, &config, 2, false, (struct mt_layer_paths){.gates = true}), MT_OK);
    config = method("intra-cross");
    refused(&ctx, live(&ctx, &config, 2, false, all), // experts' down projections alone
            "term sp has coefficient 0.002, but the experts' gate and up projections are frozen");
    config.coefficient[MT_TERM_SP] = 0.0;
    assert_int_equal(live(&ctx, &config, 2, false, all), MT_OK);
    refused(
        &ctx,
        mt_objective_check_live(&ctx, &config, &(struct mt_router_config){.slots = 2}, &all, 1, "objective."),
        "term cp compares neighbouring MoE layers, but the model has only one: set objective.lambda_cp=0");
    config = method("intra-cross");
    refused(&ctx, live(&ctx, &config, 1, false, all),
            "each token has one expert: there is nothing to compare");

    config = method("paper-wo-lo");
    assert_int_equal(live(&ctx, &config, 1, false, all), MT_OK);
    refused(&ctx, live(&ctx, &config, 1, true, all), "term v");
    refused(&ctx, live(&ctx, &config, 1, true, all), "normalised weight is always the same");
    config.full_scores = true;
    assert_int_equal(live(&ctx, &config, 1, true, all), MT_OK);
    config = method("aux");
    config.aux = MT_AUX_LITERAL;
    refused(&ctx, live(&ctx, &config, 1, true, all), "term aux");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_are_sound),
        cmocka_unit_test(methods_have_the_published_strengths),
        cmocka_unit_test(unknown_method),
        cmocka_unit_test(every_key_is_there),
        cmocka_unit_test(keys_read_back),
        cmocka_unit_test(choices_set_what_they_say),
        cmocka_unit_test(strengths_as_multiples),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(unknown_keys),
        cmocka_unit_test(contradictions),
        cmocka_unit_test(everything_that_reaches_is_let_through),
        cmocka_unit_test(inert_terms_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
