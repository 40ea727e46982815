/*
 * Keys: how a configuration is changed by words, "beta=1e-3" or "form=cosine", and read back as words. One
 * row each. Setting the keys in the order of the table, each to its own text, gives the same configuration
 * again.
 */
#include "objective/options.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/exact.h"
#include "base/given.h"
#include "metier/objective.h"

#define REFERENCE_ALPHA 1e-3 // what c_o and c_v refer to while alpha is 0

// ------------------------------------------------------------------ multiples of alpha

static double reference_alpha(const struct mt_objective_config *config)
{
    double alpha = config->coefficient[MT_TERM_AUX];
    return alpha > 0.0 ? alpha : REFERENCE_ALPHA;
}

static enum mt_status set_multiple(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                   void *target)
{
    const struct mt_key_row number = {.kind = MT_KEY_NUMBER, .values = entry->row->values};
    struct mt_key_entry as_number = *entry;
    double value = 0.0;
    as_number.row = &number;
    enum mt_status status = mt_key_store(reader, &as_number, &value);
    if (status != MT_OK) return status;
    value *= reference_alpha(target);
    if (!isfinite(value)) return mt_key_fail(reader, entry, NULL, "%s is too large", entry->name);
    memcpy((char *)target + entry->row->offset, &value, sizeof value);
    return MT_OK;
}

// ------------------------------------------------------------------ the table

#define AT(field)         offsetof(struct mt_objective_config, field)
#define COEFFICIENT(term) (AT(coefficient) + (term) * sizeof(double))

#define COEFFICIENT_ROW(id, term_kind, name, text)                                                           \
    {name, MT_KEY_NUMBER, COEFFICIENT(MT_TERM_##id), "NUMBER >= 0", NULL, .meaning = (text)},

// Defaults are the method's.
const struct mt_key_row mt_objective_rows[] = {
    MT_REFERENCE_TERM(COEFFICIENT_ROW){"c_o", MT_KEY_OWN, COEFFICIENT(MT_TERM_O), "NUMBER >= 0", NULL,
                                       .meaning =
                                           "sets beta to this multiple of alpha (of 1e-3 if alpha is 0)",
                                       .instead = "beta", .set = set_multiple},
    {"c_v", MT_KEY_OWN, COEFFICIENT(MT_TERM_V), "NUMBER >= 0", NULL,
     .meaning = "sets gamma to this multiple of alpha (of 1e-3 if alpha is 0)", .instead = "gamma",
     .set = set_multiple},
    MT_OTHER_TERMS(COEFFICIENT_ROW) // after c_o and c_v, which set some of them
    {"aux", MT_KEY_CHOICE, AT(aux), "batch|sequence|switch|hf|ernie|literal|global", NULL,
     .meaning = "form of L_aux"},
    {"grouping", MT_KEY_CHOICE, AT(grouping), "token|expert-concat", NULL,
     .meaning = "L_o compares a token's experts, or neighbours in expert order (the authors' code)"},
    {"form", MT_KEY_CHOICE, AT(form), "pairwise|span|cosine", NULL,
     .meaning = "form of L_o: the equation, the authors' code, or free of scale"},
    {"reduce", MT_KEY_SWITCH, AT(ortho_sum), "mean|sum", NULL,
     .meaning = "how L_o adds up tokens; sum is the printed equation, and destroys a model"},
    {"exclude_first", MT_KEY_FLAG, AT(exclude_first), "false|true", NULL,
     .meaning = "leave the first token of every sequence out of L_o"},
    {"eps", MT_KEY_NUMBER, AT(ortho_epsilon), "auto|NUMBER > 0", NULL,
     .meaning = "epsilon of L_o; auto: pairwise 1e-8, span 1e-6, cosine 1e-12"},
    {"tau_gate", MT_KEY_NUMBER, AT(gate), "NUMBER >= 0", NULL,
     .meaning = "slots with a weight of at most tau_gate are left out of L_o"},
    {"gradient", MT_KEY_SWITCH, AT(printed_gradient), "exact|paper", NULL,
     .meaning = "gradient of L_o: exact, or as the paper prints it, with the other side constant"},
    {"axis", MT_KEY_CHOICE, AT(axis), "expert|token", NULL,
     .meaning = "L_v: an expert's scores over tokens, or a token's over experts"},
    {"scores", MT_KEY_SWITCH, AT(full_scores), "topk|full", NULL,
     .meaning = "L_v uses the weights of the chosen experts, or all scores"},
    {"brake", MT_KEY_CHOICE, AT(brake), "none|target|decay", NULL,
     .meaning = "limit for L_v: none, stop at a multiple of its start, or follow the learning rate"},
    {"brake_target", MT_KEY_NUMBER, AT(brake_target), "NUMBER > 1", NULL,
     .meaning = "brake=target: stop at this multiple of L_v's start"},
    {"scale", MT_KEY_CHOICE, AT(scale), "once|running|once-pow10|none", NULL,
     .meaning = "how L_o and L_v are scaled to start at beta and gamma times L_aux"},
    {"running_decay", MT_KEY_NUMBER, AT(running_decay), "NUMBER >= 0 and < 1", NULL,
     .meaning = "decay of the running means (scale=running, brake=target)"},
    {"orth_groups", MT_KEY_INT, AT(router_orth_groups), "WHOLE NUMBER >= 1", NULL,
     .meaning = "router orthogonality within this many groups of experts", .most = 16384.0},
    {"bias_rule", MT_KEY_CHOICE, AT(bias_rule), "none|sign|proportional|smebu|quantile", NULL,
     .meaning = "how the selection bias moves after a step"},
    {"bias_rate", MT_KEY_NUMBER, AT(bias_rate), "NUMBER >= 0", NULL,
     .meaning = "how far the selection bias moves"},
    {"bias_momentum", MT_KEY_NUMBER, AT(bias_momentum), "NUMBER >= 0 and < 1", NULL,
     .meaning = "bias_rule=smebu: the share of its last move that a move keeps"},
    {"bias_clamp", MT_KEY_NUMBER, AT(bias_clamp), "NUMBER > 0", NULL,
     .meaning = "bias_rule=smebu: a load that is off by its inverse is pushed at 0.76 of the rate"},
    {"capacity", MT_KEY_NUMBER, AT(capacity_factor), "NUMBER >= 0", NULL,
     .meaning = "slots an expert serves, as a multiple of its fair share; 0: no limit"},
    {"capacity_min", MT_KEY_WHOLE, AT(capacity_minimum), "WHOLE NUMBER >= 0", NULL,
     .meaning = "slots an expert always serves", .most = 2147483647.0},
    {"drop_threshold", MT_KEY_NUMBER, AT(drop_threshold), "NUMBER >= 0 and <= 1", NULL,
     .meaning = "drop later choices at random if their share of the weight is below this; 0: never"},
    {"jitter", MT_KEY_NUMBER, AT(jitter), "NUMBER >= 0 and < 1", NULL,
     .meaning = "noise on the router's input in training"},
    {"dense_router", MT_KEY_FLAG, AT(dense_router), "false|true", NULL,
     .meaning = "also send router gradients from experts that were not chosen (DenseMixer); expensive"},
    {"pool", MT_KEY_FLAG, AT(pool), "false|true", NULL,
     .meaning = "in training, each sequence chooses from a pool of experts of random size (EMO)"},
    {"allow_indirect", MT_KEY_FLAG, AT(allow_indirect), "false|true", NULL,
     .meaning = "accept terms that reach trainable weights through lower layers only"},
    {"erc_alpha", MT_KEY_NUMBER, AT(erc_alpha), "NUMBER >= 0", NULL,
     .meaning = "L_erc: limit of other experts' responses, as a multiple of the own"},
    {"erc_noise", MT_KEY_NUMBER, AT(erc_noise), "NUMBER >= 0 and <= 1", NULL,
     .meaning = "L_erc: noise on the router's rows, as a share of their distance"},
    {"sp", MT_KEY_SWITCH, AT(sp_squared), "cosine|squared", NULL,
     .meaning = "L_sp: the cosines of a token's activations, or their squares"},
    {"seed", MT_KEY_SEED, AT(seed), "WHOLE NUMBER >= 0", "seed",
     .meaning = "seed of random drops, pool sizes and the noise of L_erc"},
    {0},
};

#define ROW_COUNT ((int)(sizeof mt_objective_rows / sizeof mt_objective_rows[0]) - 1)

static const struct mt_key_part parts[] = {{.rows = mt_objective_rows, .standard = "the method's"}, {0}};
static const struct mt_keys keys = {.parts = parts};

// ------------------------------------------------------------------ reading and listing

enum mt_status mt_objective_config_set(struct mt_context *ctx, struct mt_objective_config *config,
                                       const char *key, const char *value)
{
    enum mt_status status = mt_given(NULL, "mt_objective_config_set", "ctx", ctx);
    if (status == MT_OK) status = mt_given(ctx, "mt_objective_config_set", "config", config);
    if (status == MT_OK) status = mt_given(ctx, "mt_objective_config_set", "key", key);
    if (status == MT_OK) status = mt_given(ctx, "mt_objective_config_set", "value", value);
    if (status != MT_OK) return status;
    const struct mt_keys_reader reader = {.ctx = ctx, .keys = &keys};
    const struct mt_yaml_node node = {.kind = MT_YAML_SCALAR, .text = value};
    struct mt_key known;
    if (!mt_key_find(&keys, key, &known)) return mt_key_refuse_unknown(&reader, NULL, key);
    const struct mt_key_entry entry = {.row = known.row, .node = &node};
    if (mt_key_store(&reader, &entry, config) == MT_OK) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "%s=%.60s: expected %s", key, value, known.row->values);
}

bool mt_objective_key_listed(int index, struct mt_objective_key *key)
{
    if (key == NULL || index < 0 || index >= ROW_COUNT) return false;
    const struct mt_key_row *row = &mt_objective_rows[index];
    *key = (struct mt_objective_key){row->name, row->values, row->meaning};
    return true;
}

void mt_objective_key_value(const struct mt_objective_config *config, int index, char *text, size_t bytes)
{
    char value[2 * MT_EXACT_BYTES]; // every value of the table fits
    struct mt_byte_list list = {.data = (uint8_t *)value, .capacity = sizeof value};
    if (text == NULL || bytes == 0) return;
    text[0] = '\0';
    if (config == NULL || index < 0 || index >= ROW_COUNT) return;
    const struct mt_key key = {.part = parts, .row = &mt_objective_rows[index]};
    if (key.row->kind == MT_KEY_OWN) {
        double number = 0.0;
        memcpy(&number, (const char *)config + key.row->offset, sizeof number);
        (void)snprintf(text, bytes, "%s", mt_exact_text(number / reference_alpha(config), value));
    } else if (mt_key_append(&key, config, &list) == MT_OK) {
        (void)snprintf(text, bytes, "%.*s", (int)list.count, value);
    }
}
