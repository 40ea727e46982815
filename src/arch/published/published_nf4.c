/*
 * bitsandbytes' nf4 as its save_pretrained writes it. The state is a JSON text:
 *
 *     {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [out, in],
 *      "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.05}
 *
 * the second line where scales are quantised, too. It could say anything: whatever is not as expected is
 * refused, because codes would mean something else.
 */
#include "arch/published/published_nf4.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "formats/text/json.h"
#include "formats/text/printable.h"

#define NF4_VALUES    16
#define MAP_TOLERANCE 1e-6f

static const struct mt_json_limits state_limits = {.max_bytes = 4096, .max_values = 64, .max_depth = 3};

static enum mt_status expect_number(const struct mt_json_node *state, const char *key, int64_t wanted)
{
    struct mt_json_node node;
    int64_t value = 0;
    enum mt_status status = mt_json_get_integer(state, key, 0, INT64_MAX, &value);
    if (status != MT_OK || value == wanted) return status;
    (void)mt_json_member(state, key, &node);
    return mt_json_fail(&node, "is %lld, expected %lld", (long long)value, (long long)wanted);
}

/* One of the words; *which tells. */
static enum mt_status expect_word(const struct mt_json_node *state, const char *key,
                                  const char *const wanted[3], int *which)
{
    struct mt_json_node node;
    const char *text = NULL;
    enum mt_status status = mt_json_get_string(state, key, &text);
    if (status != MT_OK) return status;
    for (*which = 0; *which < 3 && wanted[*which] != NULL; *which += 1) {
        if (strcmp(text, wanted[*which]) == 0) return MT_OK;
    }
    (void)mt_json_member(state, key, &node);
    return mt_json_fail(&node, "is \"%s\", expected %s%s", mt_printable(text).text, wanted[0],
                        wanted[1] != NULL ? " or another float" : "");
}

static enum mt_status expect_shape(const struct mt_json_node *state, const struct mt_published *published)
{
    struct mt_json_node shape;
    int64_t dim[2] = {0, 0};
    enum mt_status status = mt_json_get_array(state, "shape", &shape);
    if (status != MT_OK) return status;
    size_t count = mt_json_count(&shape);
    for (size_t i = 0; i < count && i < 2 && status == MT_OK; i++) {
        struct mt_json_node side = mt_json_element(&shape, i);
        status = mt_json_as_integer(&side, 0, INT64_MAX, &dim[i]);
    }
    if (status != MT_OK) return status;
    if (count == 2 && dim[0] == published->matrix.out && dim[1] == published->matrix.in) return MT_OK;
    return mt_json_fail(&shape, "does not say [%lld, %lld], which the config makes of it",
                        (long long)published->matrix.out, (long long)published->matrix.in);
}

static enum mt_status read_state(const struct mt_json_node *state, struct mt_published *published,
                                 bool *nested)
{
    static const char *const types[3] = {"nf4"};
    static const char *const floats[3] = {"float32", "bfloat16", "float16"};
    static const enum mt_hf_float dtypes[3] = {MT_HF_FLOAT32, MT_HF_BFLOAT16, MT_HF_FLOAT16};
    static const char *const single[3] = {"float32"};
    int which = 0;
    double offset = 0.0;
    enum mt_status status = mt_json_expect_object(state);
    if (status == MT_OK) status = expect_word(state, "quant_type", types, &which);
    if (status == MT_OK) status = expect_number(state, "blocksize", MT_NF4_BLOCK);
    if (status == MT_OK) status = expect_word(state, "dtype", floats, &which);
    if (status == MT_OK) published->dtype = dtypes[which];
    if (status == MT_OK) status = expect_shape(state, published);
    *nested = status == MT_OK && mt_json_has(state, "nested_blocksize");
    if (!*nested) return status;
    status = expect_number(state, "nested_blocksize", MT_NF4_NESTED_BLOCK);
    if (status == MT_OK) status = expect_word(state, "nested_dtype", single, &which);
    if (status == MT_OK)
        status = mt_json_get_real(state, "nested_offset", -(double)FLT_MAX, (double)FLT_MAX, &offset);
    published->offset = (float)offset;
    return status;
}

/* Every part must be there; the nested ones where the state says so, and only there. */
static enum mt_status check_parts(struct mt_context *ctx, const struct mt_published_names *names,
                                  const struct mt_published *published, bool nested)
{
    for (int i = 0; i < MT_PUBLISHED_PARTS; i++) {
        bool of_nested = i == MT_PUBLISHED_NESTED_SCALES || i == MT_PUBLISHED_NESTED_MAP;
        bool there = published->part[i] != NULL;
        if (there == (!of_nested || nested)) continue;
        return mt_fail(ctx, MT_ERR_FORMAT, "%s %s, but its quant_state says %s",
                       there ? "comes with" : "has no", names->text[i],
                       nested ? "that scales are nested" : "nothing of nested scales");
    }
    return MT_OK;
}

static enum mt_status check_shapes(struct mt_context *ctx, const struct mt_published *published)
{
    const struct mt_quantised *matrix = &published->matrix;
    const struct mt_safetensors_tensor *const *part = published->part;
    bool nested = mt_tensor_present(&matrix->nested_scales);
    const int64_t codes[2] = {matrix->codes.dim[0], 1};
    const int64_t values[1] = {NF4_VALUES};
    enum mt_status status = mt_published_fit(ctx, part[MT_PUBLISHED_CODES], "", MT_SAFETENSORS_U8, 2, codes);
    if (status == MT_OK)
        status =
            mt_published_fit(ctx, part[MT_PUBLISHED_MAP], "its quant_map", MT_SAFETENSORS_F32, 1, values);
    if (status == MT_OK)
        status = mt_published_fit(ctx, part[MT_PUBLISHED_SCALES], "its absmax",
                                  nested ? MT_SAFETENSORS_U8 : MT_SAFETENSORS_F32, 1, matrix->scales.dim);
    if (status != MT_OK || !nested) return status;
    status = mt_published_fit(ctx, part[MT_PUBLISHED_NESTED_SCALES], "its nested_absmax", MT_SAFETENSORS_F32,
                              1, matrix->nested_scales.dim);
    if (status == MT_OK)
        status = mt_published_fit(ctx, part[MT_PUBLISHED_NESTED_MAP], "its nested_quant_map",
                                  MT_SAFETENSORS_F32, 1, matrix->nested_map.dim);
    return status;
}

/* The 16 numbers that codes stand for are nf4's, whatever they were called. */
static enum mt_status check_map(struct mt_context *ctx, const struct mt_safetensors_tensor *map)
{
    for (int i = 0; i < NF4_VALUES; i++) {
        float value = 0.0f;
        memcpy(&value, (const float *)map->data + i, sizeof value); // at any address
        if (fabsf(value - mt_nf4_values[i]) <= MAP_TOLERANCE) continue;
        return mt_fail(ctx, MT_ERR_FORMAT, "its quant_map has %g for code %d, nf4 has %g", (double)value, i,
                       (double)mt_nf4_values[i]);
    }
    return MT_OK;
}

enum mt_status mt_published_fit_nf4(const struct mt_checkpoint *checkpoint,
                                    const struct mt_published_names *names, struct mt_published *published)
{
    struct mt_context *ctx = checkpoint->ctx;
    const struct mt_safetensors_tensor *codes = published->part[MT_PUBLISHED_CODES];
    const struct mt_safetensors_tensor *state = published->part[MT_PUBLISHED_STATE];
    struct mt_json json;
    bool nested = false;
    if (codes->dtype != MT_SAFETENSORS_U8) {
        return mt_fail(ctx, MT_ERR_FORMAT, "is %s, expected U8 beside an absmax",
                       mt_safetensors_dtype_name(codes->dtype));
    }
    if (state == NULL) {
        return mt_fail(ctx, MT_ERR_FORMAT, "is U8, but there is no %s", names->text[MT_PUBLISHED_STATE]);
    }
    if (state->dtype != MT_SAFETENSORS_U8 || state->rank != 1) {
        return mt_fail(ctx, MT_ERR_FORMAT, "its quant_state is %s %s, expected a text in U8",
                       mt_safetensors_dtype_name(state->dtype),
                       mt_safetensors_shape(state->rank, state->dim).text);
    }
    enum mt_status status =
        mt_json_parse(ctx, "its quant_state", state->data, (size_t)state->bytes, &state_limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = read_state(&root, published, &nested);
    mt_json_free(&json);
    if (status == MT_OK) status = check_parts(ctx, names, published, nested);
    if (status != MT_OK) return status;
    const struct mt_quantised *matrix = &published->matrix;
    published->matrix = mt_quantised_shape(MT_QUANTISED_NF4, nested, matrix->out, matrix->in);
    status = check_shapes(ctx, published);
    return status == MT_OK ? check_map(ctx, published->part[MT_PUBLISHED_MAP]) : status;
}
