/* adapter_config.json: the numbers, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/text/json.h"
#include "formats/text/printable.h"
#include "model/adapters/adapter_parts.h"

#define RANK_MAX 65536

// ------------------------------------------------------------------ what is refused

/* Absent, null, false, and an empty list or object all mean that a feature is not used. */
static bool is_unused(const struct mt_json_node *root, const char *key)
{
    struct mt_json_node node;
    if (!mt_json_has(root, key)) return true;
    (void)mt_json_member(root, key, &node);
    bool used = true;
    switch (mt_json_kind(&node)) {
    case MT_JSON_BOOL: return mt_json_as_bool(&node, &used) == MT_OK && !used;
    case MT_JSON_ARRAY:
    case MT_JSON_OBJECT: return mt_json_count(&node) == 0;
    default: return false;
    }
}

static enum mt_status refuse(const struct mt_json_node *root, const char *key, const char *reason)
{
    struct mt_json_node node;
    (void)mt_json_member(root, key, &node);
    (void)mt_json_fail(&node, "%s", reason);
    return MT_ERR_UNSUPPORTED;
}

/* What would change the result and is not here must not pass unseen. */
static enum mt_status refuse_features(const struct mt_json_node *root)
{
    static const char *const keys[] = {
        "use_dora",
        "use_qalora",
        "use_bdlora",
        "lora_bias",
        "fan_in_fan_out",
        "modules_to_save",
        "layer_replication",
        "alora_invocation_tokens",
        "trainable_token_indices",
        "velora_config",
        "monteclora_config",
        "kasa_config",
        "arrow_config",
        "lora_ga_config",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!is_unused(root, keys[i])) return refuse(root, keys[i], "is used, which is not supported");
    }
    return MT_OK;
}

/* These ways to begin also change the model's own weights, which here stay as they are. */
static enum mt_status check_beginning(const struct mt_json_node *root)
{
    static const char *const refused[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    struct mt_json_node node;
    const char *text = NULL;
    if (!mt_json_member(root, "init_lora_weights", &node) || mt_json_kind(&node) != MT_JSON_STRING) {
        return MT_OK;
    }
    enum mt_status status = mt_json_as_string(&node, &text);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (strncmp(text, refused[i], strlen(refused[i])) == 0) {
            return refuse(root, "init_lora_weights",
                          "changes the weights below the adapter, which is not supported");
        }
    }
    return MT_OK;
}

static enum mt_status check_word(const struct mt_json_node *root, const char *key, const char *expected)
{
    const char *text = expected;
    enum mt_status status = mt_json_optional_string(root, key, &text);
    if (status != MT_OK || strcmp(text, expected) == 0) return status;
    struct mt_json_node node;
    (void)mt_json_member(root, key, &node);
    (void)mt_json_fail(&node, "is \"%s\", only %s is supported", mt_printable(text).text, expected);
    return MT_ERR_UNSUPPORTED;
}

// ------------------------------------------------------------------ the numbers

/*
 * PEFT's patterns are regular expressions for the end of a name. Those that are plain text are read, with
 * "\\." for a dot and ".*\\." before, as PEFT writes them itself, and several between bars; false for any
 * other.
 */
static bool plain_ending(const char *pattern, size_t pattern_bytes, char *ending, size_t bytes)
{
    const char *end = pattern + pattern_bytes;
    size_t length = 0;
    while (end - pattern >= 4 && strncmp(pattern, ".*\\.", 4) == 0) pattern += 4;
    for (; pattern < end; pattern++) {
        if (pattern[0] == '\\' && pattern + 1 < end && pattern[1] == '.') pattern++;
        if (strchr("\\^$*+?()[]{}", *pattern) != NULL || length + 1 >= bytes) return false;
        ending[length++] = *pattern;
    }
    ending[length] = '\0';
    return length > 0;
}

/* How many patterns an object has, with those between bars. */
static size_t count_patterns(const struct mt_json_node *object)
{
    struct mt_json_node child;
    void *position = NULL;
    size_t count = 0;
    while (mt_json_next(object, &position, &child)) {
        count++;
        for (const char *at = child.key; *at != '\0'; at++) count += *at == '|' ? 1 : 0;
    }
    return count;
}

/* Adds the patterns between bars, all with the same value. */
static enum mt_status add_patterns(struct mt_adapter *adapter, const struct mt_json_node *child, double value,
                                   struct mt_adapter_patterns *patterns)
{
    enum mt_status status = MT_OK;
    for (const char *at = child->key; at != NULL && status == MT_OK;) {
        char ending[MT_PARAMS_NAME_BYTES];
        size_t length = strcspn(at, "|");
        if (!plain_ending(at, length, ending, sizeof ending)) {
            (void)mt_json_fail(child, "is a pattern that is not the plain end of a name");
            return MT_ERR_UNSUPPORTED;
        }
        struct mt_adapter_pattern *pattern = &patterns->pattern[patterns->count++];
        pattern->value = value;
        status = mt_arena_copy_text(&adapter->arena, ending, strlen(ending), &pattern->ending);
        at = at[length] == '|' ? at + length + 1 : NULL;
    }
    return status;
}

static enum mt_status read_patterns(struct mt_adapter *adapter, const struct mt_json_node *root,
                                    const char *key, double least, double most,
                                    struct mt_adapter_patterns *patterns)
{
    struct mt_json_node object;
    struct mt_json_node child;
    void *position = NULL;
    if (is_unused(root, key)) return MT_OK;
    enum mt_status status = mt_json_get_object(root, key, &object);
    if (status != MT_OK) return status;
    patterns->pattern =
        mt_arena_array(&adapter->arena, count_patterns(&object), sizeof *patterns->pattern, &status);
    while (status == MT_OK && mt_json_next(&object, &position, &child)) {
        double value = 0.0;
        status = mt_json_as_real(&child, least, most, &value);
        if (status == MT_OK) status = add_patterns(adapter, &child, value, patterns);
    }
    return status;
}

enum mt_status mt_adapter_config_numbers(struct mt_adapter *adapter, const struct mt_json_node *root)
{
    adapter->dropout = 0.0;
    enum mt_status status = mt_json_get_integer(root, "r", 1, RANK_MAX, &adapter->config_rank);
    if (status == MT_OK) status = mt_json_get_real(root, "lora_alpha", 1e-9, 1e9, &adapter->config_alpha);
    if (status == MT_OK) status = mt_json_optional_real(root, "lora_dropout", 0.0, 0.999, &adapter->dropout);
    if (status == MT_OK) status = mt_json_optional_bool(root, "use_rslora", &adapter->root_scale);
    if (status == MT_OK)
        status = read_patterns(adapter, root, "rank_pattern", 1.0, RANK_MAX, &adapter->ranks);
    if (status == MT_OK) status = read_patterns(adapter, root, "alpha_pattern", 1e-9, 1e9, &adapter->alphas);
    return status;
}

enum mt_status mt_adapter_config_refuse(const struct mt_json_node *root)
{
    enum mt_status status = check_word(root, "peft_type", "LORA");
    if (status == MT_OK) status = check_word(root, "bias", "none");
    if (status == MT_OK) status = refuse_features(root);
    return status == MT_OK ? check_beginning(root) : status;
}

enum mt_status mt_adapter_read_config(struct mt_adapter *adapter, const char *path)
{
    struct mt_json json;
    enum mt_status status = mt_json_read(adapter->ctx, path, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = mt_json_expect_object(&root);
    if (status == MT_OK) status = mt_adapter_config_refuse(&root);
    if (status == MT_OK) status = mt_adapter_config_numbers(adapter, &root);
    mt_json_free(&json);
    return status;
}

bool mt_adapter_pattern_fits(const struct mt_adapter_pattern *pattern, const char *name)
{
    char weight[MT_PARAMS_NAME_BYTES + 16];
    (void)snprintf(weight, sizeof weight, "%s.weight", name);
    const char *const forms[] = {name, weight};
    size_t length = strlen(pattern->ending);
    for (size_t form = 0; form < sizeof forms / sizeof forms[0]; form++) {
        size_t whole = strlen(forms[form]);
        if (length > whole || strcmp(forms[form] + whole - length, pattern->ending) != 0) continue;
        if (length == whole || forms[form][whole - length - 1] == '.') return true;
    }
    return false;
}

/* The first pattern that fits. */
static double number_for(const struct mt_adapter_patterns *patterns, const char *name, double otherwise)
{
    for (size_t i = 0; i < patterns->count; i++) {
        if (mt_adapter_pattern_fits(&patterns->pattern[i], name)) return patterns->pattern[i].value;
    }
    return otherwise;
}

void mt_adapter_config_rank(const struct mt_adapter *adapter, const char *name, int64_t *rank, double *scale)
{
    *rank = (int64_t)number_for(&adapter->ranks, name, (double)adapter->config_rank);
    double alpha = number_for(&adapter->alphas, name, adapter->config_alpha);
    *scale = alpha / (adapter->root_scale ? sqrt((double)*rank) : (double)*rank);
}
