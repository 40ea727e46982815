/*
 * Rotary positions in config.json. Two spellings mean the same: rope_theta next to rope_scaling {type or
 * rope_type, ...} (hub files), and rope_parameters {rope_type, rope_theta, ...} (transformers 5).
 */
#include <math.h>
#include <string.h>

#include "arch/blocks.h"
#include "formats/text/printable.h"

#define FACTOR_MAX 1e6
#define THETA_MAX  1e12

static enum mt_status read_kind(const struct mt_json_node *scaling, enum mt_hf_rope_kind *kind)
{
    static const struct {
        const char *text;
        enum mt_hf_rope_kind kind;
    } kinds[] = {
        {"default", MT_HF_ROPE_DEFAULT},   {"linear", MT_HF_ROPE_LINEAR}, {"yarn", MT_HF_ROPE_YARN},
        {"longrope", MT_HF_ROPE_LONGROPE}, {"su", MT_HF_ROPE_LONGROPE},
    };
    const char *text = "default";
    const char *old_text = NULL;
    enum mt_status status = mt_json_optional_string(scaling, "type", &old_text);
    if (status == MT_OK && old_text != NULL) text = old_text;
    if (status == MT_OK) status = mt_json_optional_string(scaling, "rope_type", &text);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(text, kinds[i].text) == 0) {
            *kind = kinds[i].kind;
            return MT_OK;
        }
    }
    (void)mt_json_fail(scaling, "has the type \"%s\"; known are default, linear, yarn, longrope, su",
                       mt_printable(text).text);
    return MT_ERR_UNSUPPORTED;
}

#define ROPE_REAL(key, field, least, most)                                                                   \
    {                                                                                                        \
        .name = (key), .kind = MT_HF_KEY_REAL, .offset = offsetof(struct mt_hf_rope, field), .min = (least), \
        .max = (most)                                                                                        \
    }

static const struct mt_hf_key yarn_keys[] = {
    ROPE_REAL("beta_fast", beta_fast, 1e-6, 1e6),
    ROPE_REAL("beta_slow", beta_slow, 1e-6, 1e6),
    ROPE_REAL("mscale", mscale, 0.0, 1e3),
    ROPE_REAL("mscale_all_dim", mscale_all_dim, 0.0, 1e3),
    ROPE_REAL("attention_factor", attention_factor, 1e-6, 1e3),
};

static enum mt_status read_yarn(const struct mt_json_node *scaling, struct mt_hf_rope *rope)
{
    rope->beta_fast = 32.0;
    rope->beta_slow = 1.0;
    bool truncate = true;
    enum mt_status status = mt_json_get_real(scaling, "factor", 1.0, FACTOR_MAX, &rope->factor);
    if (status == MT_OK) status = mt_hf_read_keys(scaling, yarn_keys, MT_COUNT(yarn_keys), rope);
    if (status == MT_OK) status = mt_json_optional_bool(scaling, "truncate", &truncate);
    rope->unrounded = !truncate;
    if (status == MT_OK && rope->beta_fast < rope->beta_slow) {
        status =
            mt_json_fail(scaling, "has beta_fast %g below beta_slow %g", rope->beta_fast, rope->beta_slow);
    }
    return status;
}

static enum mt_status read_factors(const struct mt_json_node *scaling, const char *key, size_t count,
                                   struct mt_arena *arena, const double **factors)
{
    struct mt_json_node list;
    enum mt_status status = mt_json_get_array(scaling, key, &list);
    if (status != MT_OK) return status;
    if (mt_json_count(&list) != count) {
        return mt_json_fail(&list, "has %zu factors, expected %zu (half of the rotated dimensions)",
                            mt_json_count(&list), count);
    }
    double *values = mt_arena_array(arena, count, sizeof *values, &status);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < count; i++) {
        struct mt_json_node item = mt_json_element(&list, i);
        status = mt_json_as_real(&item, 1e-6, FACTOR_MAX, &values[i]);
        if (status != MT_OK) return status;
    }
    *factors = values;
    return MT_OK;
}

static enum mt_status read_longrope(const struct mt_json_node *scaling, size_t pairs,
                                    struct mt_hf_config *config)
{
    struct mt_hf_rope *rope = &config->rope;
    enum mt_status status = read_factors(scaling, "short_factor", pairs, &config->arena, &rope->short_factor);
    if (status == MT_OK) {
        status = read_factors(scaling, "long_factor", pairs, &config->arena, &rope->long_factor);
    }
    rope->factor_count = pairs;
    if (status == MT_OK && (rope->mscale_required || mt_json_has(scaling, "short_mscale"))) {
        status = mt_json_get_real(scaling, "short_mscale", 1e-6, 1e3, &rope->short_mscale);
    }
    if (status == MT_OK && (rope->mscale_required || mt_json_has(scaling, "long_mscale"))) {
        status = mt_json_get_real(scaling, "long_mscale", 1e-6, 1e3, &rope->long_mscale);
    }
    if (status == MT_OK) {
        status = mt_json_optional_real(scaling, "attention_factor", 1e-6, 1e3, &rope->attention_factor);
    }
    return status;
}

/* partial_rotary_factor stands at the top or among the words on positions, as in transformers. */
static enum mt_status read_share(const struct mt_json_node *node, struct mt_hf_config *config)
{
    struct mt_json_node key;
    bool known = config->rotated_share > 0.0; // otherwise the class rotates whole heads
    double share = known ? config->rotated_share : 1.0;
    enum mt_status status = mt_json_optional_real(node, "partial_rotary_factor", 1e-6, 1.0, &share);
    if (status != MT_OK) return status;
    (void)mt_json_member(node, "partial_rotary_factor", &key);
    if (!known) {
        if (share == 1.0) return MT_OK;
        (void)mt_json_fail(&key, "is %g: this architecture rotates whole heads", share);
        return MT_ERR_UNSUPPORTED;
    }
    config->rotated_share = share;
    int64_t rotated = mt_hf_config_rotated(config);
    if (rotated >= 2 && rotated % 2 == 0) return MT_OK;
    return mt_json_fail(&key, "is %g, which rotates %lld of a head's %lld elements; expected an even number",
                        share, (long long)rotated, (long long)config->head_dim);
}

static enum mt_status read_scaling(const struct mt_json_node *scaling, struct mt_hf_config *config)
{
    struct mt_hf_rope *rope = &config->rope;
    enum mt_status status = read_kind(scaling, &rope->kind);
    if (status == MT_OK) status = mt_json_optional_real(scaling, "rope_theta", 1.0, THETA_MAX, &rope->theta);
    if (status == MT_OK) status = read_share(scaling, config);
    if (status == MT_OK) {
        status = mt_json_optional_integer(scaling, "original_max_position_embeddings", 1, MT_HF_POSITION_MAX,
                                          &rope->original_max_position);
    }
    if (status != MT_OK) return status;
    int64_t rotated = mt_hf_config_rotated(config);
    switch (rope->kind) {
    case MT_HF_ROPE_LINEAR: return mt_json_get_real(scaling, "factor", 1.0, FACTOR_MAX, &rope->factor);
    case MT_HF_ROPE_YARN: return read_yarn(scaling, rope);
    case MT_HF_ROPE_LONGROPE: return read_longrope(scaling, (size_t)(rotated / 2), config);
    case MT_HF_ROPE_DEFAULT: break;
    }
    return MT_OK;
}

enum mt_status mt_hf_read_rope(const struct mt_json_node *root, struct mt_hf_config *config)
{
    struct mt_hf_rope *rope = &config->rope;
    if (rope->kind == MT_HF_ROPE_DEFAULT) { // otherwise the class has another one, until the file says so
        rope->factor = 1.0;
        rope->original_max_position = config->max_position_embeddings;
    }
    struct mt_json_node scaling;
    struct mt_json_node parameters;
    bool has_scaling = false;
    bool has_parameters = false;
    enum mt_status status = mt_json_optional_real(root, "rope_theta", 1.0, THETA_MAX, &rope->theta);
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "original_max_position_embeddings", 1, MT_HF_POSITION_MAX,
                                          &rope->original_max_position);
    }
    if (status == MT_OK) status = read_share(root, config);
    if (status == MT_OK) status = mt_json_optional_object(root, "rope_scaling", &scaling, &has_scaling);
    if (status == MT_OK) {
        status = mt_json_optional_object(root, "rope_parameters", &parameters, &has_parameters);
    }
    if (status != MT_OK) return status;
    if (has_scaling && has_parameters) {
        return mt_json_fail(&parameters, "and rope_scaling are both given; one of them is meant");
    }
    if (has_scaling) return read_scaling(&scaling, config);
    if (has_parameters) return read_scaling(&parameters, config);
    return MT_OK;
}
