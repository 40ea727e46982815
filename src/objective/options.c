/*
 * Keys: how a configuration is changed by words, "beta=1e-3" or "form=cosine", and read back as words. One
 * row each. Setting the keys in the order of the table, each to its own text, gives the same configuration
 * again.
 */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exact.h"
#include "base/nearest.h"
#include "metier/objective.h"

#define NEAR            4    // edits past which two words have nothing to do with each other
#define REFERENCE_ALPHA 1e-3 // what c_o and c_v refer to while alpha is 0

enum key_kind {
    KEY_NUMBER,  // double, in [low, high], without the ends that are open
    KEY_EPSILON, // the same, and "auto" for 0
    KEY_RATIO,   // a coefficient, as a multiple of alpha
    KEY_INT,     // int, low .. high
    KEY_INT64,   // int64_t, low .. high
    KEY_SEED,    // uint64_t
    KEY_CHOICE,  // an enum: the place of the word in `values`
    KEY_FLAG,    // a bool, the same way
};

struct key_row {
    struct mt_objective_key key;
    enum key_kind kind;
    size_t offset; // of the field
    double low, high;
    bool low_is_open, high_is_open;
};

#define FIELD(name)       offsetof(struct mt_objective_config, name)
#define COEFFICIENT(term) (FIELD(coefficient) + (term) * sizeof(double))

#define COEFFICIENT_ROW(id, term_kind, name, text)                                                           \
    {.key = {name, "NUMBER >= 0", text},                                                                     \
     .kind = KEY_NUMBER,                                                                                     \
     .offset = COEFFICIENT(MT_TERM_##id),                                                                    \
     .high = HUGE_VAL},

static const struct key_row rows[] = {
    MT_REFERENCE_TERM(COEFFICIENT_ROW){
        .key = {"c_o", "NUMBER >= 0",
                "sets beta, as a multiple of alpha as it stands (of 1e-3 if that is 0)"},
        .kind = KEY_RATIO,
        .offset = COEFFICIENT(MT_TERM_O),
        .high = HUGE_VAL},
    {.key = {"c_v", "NUMBER >= 0", "sets gamma, as a multiple of alpha as it stands (of 1e-3 if that is 0)"},
     .kind = KEY_RATIO,
     .offset = COEFFICIENT(MT_TERM_V),
     .high = HUGE_VAL},
    MT_OTHER_TERMS(COEFFICIENT_ROW) // after c_o and c_v, which set some of them
    {.key = {"aux", "batch|sequence|switch|hf|ernie|literal", "form of L_aux"},
     .kind = KEY_CHOICE,
     .offset = FIELD(aux)},
    {.key = {"grouping", "token|expert-concat",
             "L_o compares a token's experts, or neighbours in expert order (the authors' code)"},
     .kind = KEY_CHOICE,
     .offset = FIELD(grouping)},
    {.key = {"form", "pairwise|span|cosine",
             "form of L_o: the equation, the authors' code, or free of scale"},
     .kind = KEY_CHOICE,
     .offset = FIELD(form)},
    {.key = {"reduce", "mean|sum", "L_o over tokens; sum is the equation as printed, and destroys a model"},
     .kind = KEY_FLAG,
     .offset = FIELD(ortho_sum)},
    {.key = {"exclude_first", "false|true", "leave the first token of every sequence out of L_o"},
     .kind = KEY_FLAG,
     .offset = FIELD(exclude_first)},
    {.key = {"eps", "auto|NUMBER > 0", "epsilon of L_o; auto: pairwise 1e-8, span 1e-6, cosine 1e-12"},
     .kind = KEY_EPSILON,
     .offset = FIELD(ortho_epsilon),
     .high = HUGE_VAL,
     .low_is_open = true},
    {.key = {"tau_gate", "NUMBER >= 0", "slots with weight <= tau_gate are out of L_o"},
     .kind = KEY_NUMBER,
     .offset = FIELD(gate),
     .high = HUGE_VAL},
    {.key = {"gradient", "exact|paper", "of L_o; paper: as printed, the other side held constant"},
     .kind = KEY_FLAG,
     .offset = FIELD(printed_gradient)},
    {.key = {"axis", "expert|token", "L_v: an expert's scores over tokens, or a token's over experts"},
     .kind = KEY_CHOICE,
     .offset = FIELD(axis)},
    {.key = {"scores", "topk|full", "L_v looks at the weights of the chosen, or at all scores"},
     .kind = KEY_FLAG,
     .offset = FIELD(full_scores)},
    {.key = {"brake", "none|target|decay",
             "of L_v: none, stop at a multiple of its start, follow the learning rate"},
     .kind = KEY_CHOICE,
     .offset = FIELD(brake)},
    {.key = {"brake_target", "NUMBER > 1", "brake=target: the multiple of L_v's start where pushing stops"},
     .kind = KEY_NUMBER,
     .offset = FIELD(brake_target),
     .low = 1.0,
     .high = HUGE_VAL,
     .low_is_open = true},
    {.key = {"scale", "once|running|once-pow10|none",
             "what makes L_o and L_v start at beta, gamma times L_aux"},
     .kind = KEY_CHOICE,
     .offset = FIELD(scale)},
    {.key = {"running_decay", "NUMBER >= 0 and < 1", "of the running means (scale=running, brake=target)"},
     .kind = KEY_NUMBER,
     .offset = FIELD(running_decay),
     .high = 1.0,
     .high_is_open = true},
    {.key = {"orth_groups", "WHOLE NUMBER >= 1", "router orthogonality within so many groups of experts"},
     .kind = KEY_INT,
     .offset = FIELD(router_orth_groups),
     .low = 1.0,
     .high = 16384.0},
    {.key = {"bias_rule", "none|sign|proportional", "how the selection bias moves after a step"},
     .kind = KEY_CHOICE,
     .offset = FIELD(bias_rule)},
    {.key = {"bias_rate", "NUMBER >= 0", "how far it moves"},
     .kind = KEY_NUMBER,
     .offset = FIELD(bias_rate),
     .high = HUGE_VAL},
    {.key = {"capacity", "NUMBER >= 0",
             "slots an expert serves, as a multiple of its fair share; 0: no limit"},
     .kind = KEY_NUMBER,
     .offset = FIELD(capacity_factor),
     .high = HUGE_VAL},
    {.key = {"capacity_min", "WHOLE NUMBER >= 0", "slots an expert always serves"},
     .kind = KEY_INT64,
     .offset = FIELD(capacity_minimum),
     .high = 2147483647.0},
    {.key = {"drop_threshold", "NUMBER >= 0 and <= 1",
             "later choices whose share of the weight is below are dropped at random; 0: none"},
     .kind = KEY_NUMBER,
     .offset = FIELD(drop_threshold),
     .high = 1.0},
    {.key = {"jitter", "NUMBER >= 0 and < 1", "noise on the router's input in training"},
     .kind = KEY_NUMBER,
     .offset = FIELD(jitter),
     .high = 1.0,
     .high_is_open = true},
    {.key = {"allow_indirect", "false|true",
             "accept terms that reach trainable weights through lower layers only"},
     .kind = KEY_FLAG,
     .offset = FIELD(allow_indirect)},
    {.key = {"seed", "WHOLE NUMBER >= 0", "of random drops"}, .kind = KEY_SEED, .offset = FIELD(seed)},
};

#define ROW_COUNT ((int)(sizeof rows / sizeof rows[0]))

// ------------------------------------------------------------------ words

/* The place of `word` among the words between bars, -1 if it is none of them. */
static int place_of_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (int place = 0;; place++) {
        size_t here = strcspn(words, "|");
        if (here == length && memcmp(words, word, length) == 0) return place;
        if (words[here] == '\0') return -1;
        words += here + 1;
    }
}

static void word_at_place(const char *words, int place, char *text, size_t bytes)
{
    for (; place > 0; place--) words += strcspn(words, "|") + 1;
    (void)snprintf(text, bytes, "%.*s", (int)strcspn(words, "|"), words);
}

// ------------------------------------------------------------------ reading

static bool parse_number(const struct key_row *row, const char *text, double *number)
{
    char *end = NULL;
    *number = strtod(text, &end);
    bool whole = end != text && *end == '\0' && strchr(" \t\n\v\f\r", text[0]) == NULL;
    bool above = row->low_is_open ? *number > row->low : *number >= row->low;
    bool below = row->high_is_open ? *number < row->high : *number <= row->high;
    return whole && isfinite(*number) && above && below;
}

static bool parse_whole(const char *text, unsigned long long *number)
{
    char *end = NULL;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

static double reference_alpha(const struct mt_objective_config *config)
{
    double alpha = config->coefficient[MT_TERM_AUX];
    return alpha > 0.0 ? alpha : REFERENCE_ALPHA;
}

static bool store_number(const struct key_row *row, struct mt_objective_config *config, const char *text)
{
    double number = 0.0;
    bool automatic = row->kind == KEY_EPSILON && strcmp(text, "auto") == 0;
    if (!automatic && !parse_number(row, text, &number)) return false;
    if (row->kind == KEY_RATIO) number *= reference_alpha(config);
    if (!isfinite(number)) return false;
    memcpy((char *)config + row->offset, &number, sizeof number);
    return true;
}

static bool store_whole(const struct key_row *row, struct mt_objective_config *config, const char *text)
{
    unsigned long long number = 0;
    if (!parse_whole(text, &number)) return false;
    char *field = (char *)config + row->offset;
    if (row->kind == KEY_SEED) {
        uint64_t seed = number;
        memcpy(field, &seed, sizeof seed);
        return true;
    }
    if ((double)number < row->low || (double)number > row->high) return false;
    int small = (int)number;
    int64_t wide = (int64_t)number;
    if (row->kind == KEY_INT) memcpy(field, &small, sizeof small);
    if (row->kind == KEY_INT64) memcpy(field, &wide, sizeof wide);
    return true;
}

static bool store_choice(const struct key_row *row, struct mt_objective_config *config, const char *text)
{
    int place = place_of_word(row->key.values, text);
    if (place < 0) return false;
    char *field = (char *)config + row->offset;
    bool flag = place != 0;
    if (row->kind == KEY_FLAG) memcpy(field, &flag, sizeof flag);
    if (row->kind == KEY_CHOICE) memcpy(field, &place, sizeof place);
    return true;
}

static bool store(const struct key_row *row, struct mt_objective_config *config, const char *text)
{
    switch (row->kind) {
    case KEY_NUMBER:
    case KEY_EPSILON:
    case KEY_RATIO: return store_number(row, config, text);
    case KEY_INT:
    case KEY_INT64:
    case KEY_SEED: return store_whole(row, config, text);
    case KEY_CHOICE:
    case KEY_FLAG: return store_choice(row, config, text);
    }
    return false;
}

enum mt_status mt_objective_config_set(struct mt_context *ctx, struct mt_objective_config *config,
                                       const char *key, const char *value)
{
    const char *nearest = NULL;
    int distance = NEAR;
    for (int i = 0; i < ROW_COUNT; i++) {
        const struct mt_objective_key *known = &rows[i].key;
        if (strcmp(known->name, key) == 0) {
            if (store(&rows[i], config, value)) return MT_OK;
            return mt_fail(ctx, MT_ERR_USAGE, "%s=%.60s: expected %s", key, value, known->values);
        }
        if (mt_nearer(key, known->name, &distance)) nearest = known->name;
    }
    if (nearest == NULL) return mt_fail(ctx, MT_ERR_USAGE, "there is no key '%.60s'", key);
    return mt_fail(ctx, MT_ERR_USAGE, "there is no key '%.60s'; did you mean '%s'?", key, nearest);
}

// ------------------------------------------------------------------ listing

bool mt_objective_key_listed(int index, struct mt_objective_key *key)
{
    if (index < 0 || index >= ROW_COUNT) return false;
    *key = rows[index].key;
    return true;
}

static double load_number(const struct key_row *row, const struct mt_objective_config *config)
{
    double number = 0.0;
    memcpy(&number, (const char *)config + row->offset, sizeof number);
    return row->kind == KEY_RATIO ? number / reference_alpha(config) : number;
}

static long long load_whole(const struct key_row *row, const struct mt_objective_config *config)
{
    const char *field = (const char *)config + row->offset;
    int small = 0;
    int64_t wide = 0;
    bool flag = false;
    if (row->kind == KEY_FLAG) {
        memcpy(&flag, field, sizeof flag);
        return flag;
    }
    if (row->kind == KEY_INT64) {
        memcpy(&wide, field, sizeof wide);
        return wide;
    }
    memcpy(&small, field, sizeof small);
    return small;
}

void mt_objective_key_value(const struct mt_objective_config *config, int index, char *text, size_t bytes)
{
    if (bytes == 0) return;
    text[0] = '\0';
    if (index < 0 || index >= ROW_COUNT) return;
    const struct key_row *row = &rows[index];
    uint64_t seed = 0;
    char digits[MT_EXACT_BYTES];
    switch (row->kind) {
    case KEY_EPSILON:
        if (load_number(row, config) == 0.0) {
            (void)snprintf(text, bytes, "auto");
            return;
        }
        (void)snprintf(text, bytes, "%s", mt_exact_text(load_number(row, config), digits));
        return;
    case KEY_NUMBER:
    case KEY_RATIO:
        (void)snprintf(text, bytes, "%s", mt_exact_text(load_number(row, config), digits));
        return;
    case KEY_SEED:
        memcpy(&seed, (const char *)config + row->offset, sizeof seed);
        (void)snprintf(text, bytes, "%llu", (unsigned long long)seed);
        return;
    case KEY_INT:
    case KEY_INT64: (void)snprintf(text, bytes, "%lld", load_whole(row, config)); return;
    case KEY_CHOICE:
    case KEY_FLAG: word_at_place(row->key.values, (int)load_whole(row, config), text, bytes); return;
    }
}
