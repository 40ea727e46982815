/* The parts of a published weight: their names, and whether they fit in each of the formats. */
#include "arch/published/published.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "formats/text/json.h"
#include "formats/text/printable.h"

// ------------------------------------------------------------------ names

static void name_part(struct mt_published_names *names, enum mt_published_part part, const char *base,
                      const char *ending)
{
    (void)snprintf(names->text[part], sizeof names->text[part], "%s%s", base, ending);
}

void mt_published_names(enum mt_hf_quant_method method, const char *name, struct mt_published_names *names)
{
    memset(names, 0, sizeof *names);
    switch (method) {
    case MT_HF_QUANT_NONE: name_part(names, MT_PUBLISHED_CODES, name, ""); break;
    case MT_HF_QUANT_FP8:
        name_part(names, MT_PUBLISHED_CODES, name, "");
        name_part(names, MT_PUBLISHED_SCALES, name, "_scale_inv");
        break;
    case MT_HF_QUANT_NF4:
        name_part(names, MT_PUBLISHED_CODES, name, "");
        name_part(names, MT_PUBLISHED_SCALES, name, ".absmax");
        name_part(names, MT_PUBLISHED_NESTED_SCALES, name, ".nested_absmax");
        name_part(names, MT_PUBLISHED_NESTED_MAP, name, ".nested_quant_map");
        name_part(names, MT_PUBLISHED_MAP, name, ".quant_map");
        name_part(names, MT_PUBLISHED_STATE, name, ".quant_state.bitsandbytes__nf4");
        break;
    case MT_HF_QUANT_MXFP4:
        name_part(names, MT_PUBLISHED_CODES, name, "_blocks");
        name_part(names, MT_PUBLISHED_SCALES, name, "_scales");
        break;
    }
}

// ------------------------------------------------------------------ fitting

static enum mt_status misfit(struct mt_context *ctx, const struct mt_safetensors_tensor *found,
                             const char *of, const char *type, int rank, const int64_t *dim)
{
    return mt_fail(ctx, MT_ERR_FORMAT, "%s%sis %s %s, expected %s %s", of, of[0] != '\0' ? " " : "",
                   mt_safetensors_dtype_name(found->dtype),
                   mt_safetensors_shape(found->rank, found->dim).text, type,
                   mt_safetensors_shape(rank, dim).text);
}

static enum mt_status fit(struct mt_context *ctx, const struct mt_safetensors_tensor *found, const char *of,
                          enum mt_safetensors_dtype dtype, int rank, const int64_t *dim)
{
    bool same = found->rank == rank && found->dtype == dtype;
    for (int i = 0; same && i < rank; i++) same = found->dim[i] == dim[i];
    return same ? MT_OK : misfit(ctx, found, of, mt_safetensors_dtype_name(dtype), rank, dim);
}

static enum mt_status fit_fp8(struct mt_context *ctx, const struct mt_published *published,
                              const struct mt_published_names *names)
{
    const struct mt_safetensors_tensor *codes = published->part[MT_PUBLISHED_CODES];
    const struct mt_safetensors_tensor *scales = published->part[MT_PUBLISHED_SCALES];
    const struct mt_quantised *matrix = &published->matrix;
    if (codes->dtype != MT_SAFETENSORS_F8_E4M3) {
        return mt_fail(ctx, MT_ERR_FORMAT, "is %s, expected F8_E4M3 for weights with a weight_scale_inv",
                       mt_safetensors_dtype_name(codes->dtype));
    }
    if (scales == NULL) {
        return mt_fail(ctx, MT_ERR_FORMAT, "is F8_E4M3, but there is no %s",
                       names->text[MT_PUBLISHED_SCALES]);
    }
    enum mt_status status = fit(ctx, codes, "", MT_SAFETENSORS_F8_E4M3, 2, matrix->codes.dim);
    if (status != MT_OK) return status;
    bool known = scales->dtype == MT_SAFETENSORS_F32 || scales->dtype == MT_SAFETENSORS_BF16 ||
                 scales->dtype == MT_SAFETENSORS_F8_E8M0;
    const int64_t *grid = matrix->scales.dim;
    if (!known || scales->rank != 2 || scales->dim[0] != grid[0] || scales->dim[1] != grid[1])
        return misfit(ctx, scales, "its weight_scale_inv", "F32, BF16 or F8_E8M0", 2, grid);
    return MT_OK;
}

static enum mt_status fit_mxfp4(struct mt_context *ctx, const struct mt_published *published,
                                const struct mt_published_names *names)
{
    const struct mt_quantised *matrix = &published->matrix;
    const int64_t dim[3] = {matrix->out, matrix->scales.dim[1], MT_MXFP4_BLOCK / 2};
    const struct mt_safetensors_tensor *scales = published->part[MT_PUBLISHED_SCALES];
    if (scales == NULL) {
        return mt_fail(ctx, MT_ERR_FORMAT, "has blocks, but there is no %s",
                       names->text[MT_PUBLISHED_SCALES]);
    }
    enum mt_status status =
        fit(ctx, published->part[MT_PUBLISHED_CODES], "its blocks", MT_SAFETENSORS_U8, 3, dim);
    bool named = scales->dtype == MT_SAFETENSORS_F8_E8M0; // most files have the same bytes as plain U8
    if (status != MT_OK) return status;
    return fit(ctx, scales, "its scales", named ? MT_SAFETENSORS_F8_E8M0 : MT_SAFETENSORS_U8, 2, dim);
}

// ------------------------------------------------------------------ nf4

/*
 * nf4 as bitsandbytes' own save_pretrained writes it. The state is a JSON text:
 *
 *     {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [out, in],
 *      "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.05}
 *
 * the second line where scales are quantised, too. It could say anything: whatever is not as expected is
 * refused, because codes would mean something else.
 */

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
                       nested ? "that its scales are nested" : "that its scales are not nested");
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
    enum mt_status status = fit(ctx, part[MT_PUBLISHED_CODES], "", MT_SAFETENSORS_U8, 2, codes);
    if (status == MT_OK)
        status = fit(ctx, part[MT_PUBLISHED_MAP], "its quant_map", MT_SAFETENSORS_F32, 1, values);
    if (status == MT_OK)
        status = fit(ctx, part[MT_PUBLISHED_SCALES], "its absmax",
                     nested ? MT_SAFETENSORS_U8 : MT_SAFETENSORS_F32, 1, matrix->scales.dim);
    if (status != MT_OK || !nested) return status;
    status = fit(ctx, part[MT_PUBLISHED_NESTED_SCALES], "its nested_absmax", MT_SAFETENSORS_F32, 1,
                 matrix->nested_scales.dim);
    if (status == MT_OK)
        status = fit(ctx, part[MT_PUBLISHED_NESTED_MAP], "its nested_quant_map", MT_SAFETENSORS_F32, 1,
                     matrix->nested_map.dim);
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

/* Fills `offset`, and the matrix where scales are nested; MT_ERR_FORMAT with a sentence where a part is
 * missing or says something else. */
static enum mt_status fit_nf4(const struct mt_checkpoint *checkpoint, const struct mt_published_names *names,
                              struct mt_published *published)
{
    struct mt_context *ctx = checkpoint->ctx;
    const struct mt_safetensors_tensor *codes = published->part[MT_PUBLISHED_CODES];
    const struct mt_safetensors_tensor *state = published->part[MT_PUBLISHED_STATE];
    struct mt_json json;
    bool nested = false;
    if (codes->dtype != MT_SAFETENSORS_U8) {
        return mt_fail(ctx, MT_ERR_FORMAT, "is %s, expected U8 for weights with an absmax",
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

// ------------------------------------------------------------------ values

/* Number i of a part; bytes are E8M0's powers of two. */
static float number(const struct mt_safetensors_tensor *part, int64_t i)
{
    uint8_t data[4] = {0};
    uint32_t bits = 0;
    mt_safetensors_read(part, i, 1, data);
    if (part->dtype == MT_SAFETENSORS_F32) memcpy(&bits, data, sizeof bits);
    if (part->dtype == MT_SAFETENSORS_BF16) bits = (uint32_t)data[0] << 16 | (uint32_t)data[1] << 24;
    if (mt_safetensors_dtype_bytes(part->dtype) == 1) return mt_e8m0_to_float(data[0]);
    return mt_float_from_bits(bits);
}

static enum mt_status check_scales(struct mt_context *ctx, const char *what,
                                   const struct mt_safetensors_tensor *part, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float scale = number(part, i);
        if (scale >= 0.0f && isfinite(scale)) continue;
        return mt_fail(ctx, MT_ERR_NUMERIC, "%s %lld is %g, expected a finite number >= 0", what,
                       (long long)i, (double)scale);
    }
    return MT_OK;
}

enum mt_status mt_published_check_values(struct mt_context *ctx, const struct mt_published *published)
{
    const struct mt_quantised *matrix = &published->matrix;
    if (!mt_tensor_present(&matrix->nested_scales)) {
        return check_scales(ctx, "scale", published->part[MT_PUBLISHED_SCALES],
                            mt_tensor_count(&matrix->scales));
    }
    for (int64_t i = 0; i < MT_NF4_NESTED_CODES; i++) {
        float value = number(published->part[MT_PUBLISHED_NESTED_MAP], i);
        if (fabsf(value) <= 1.0f) continue;
        return mt_fail(ctx, MT_ERR_NUMERIC, "nested_quant_map has %g, expected numbers from -1 to 1",
                       (double)value);
    }
    return check_scales(ctx, "nested_absmax", published->part[MT_PUBLISHED_NESTED_SCALES],
                        mt_tensor_count(&matrix->nested_scales));
}

/* Data of the file where an op can read it as it lies. */
static void point_into_file(struct mt_published *published)
{
    struct mt_quantised *matrix = &published->matrix;
    struct mt_tensor *const tensors[] = {&matrix->codes, &matrix->scales, &matrix->nested_scales,
                                         &matrix->nested_map};
    for (int i = MT_PUBLISHED_CODES; i <= MT_PUBLISHED_NESTED_MAP; i++) {
        if (!mt_tensor_present(tensors[i])) continue;
        const struct mt_safetensors_tensor *part = published->part[i];
        const void *data = part->data;
        bool wide = tensors[i]->dtype == MT_F32;
        bool as_read = mt_safetensors_whole(part) && (!wide || part->dtype == MT_SAFETENSORS_F32);
        if (as_read && (uintptr_t)data % mt_dtype_bytes(tensors[i]->dtype) == 0)
            tensors[i]->data = (void *)data; // never written
    }
}

void mt_published_copy(const struct mt_published *published, int which, void *target)
{
    struct mt_quantised matrix = published->matrix;
    struct mt_tensor *tensors[MT_QUANTISED_TENSORS];
    mt_quantised_each(&matrix, tensors);
    const struct mt_tensor *tensor = tensors[which];
    enum mt_published_part part = tensor == &matrix.codes           ? MT_PUBLISHED_CODES
                                  : tensor == &matrix.scales        ? MT_PUBLISHED_SCALES
                                  : tensor == &matrix.nested_scales ? MT_PUBLISHED_NESTED_SCALES
                                                                    : MT_PUBLISHED_NESTED_MAP;
    int64_t count = mt_tensor_count(tensor);
    if (tensor == &matrix.nested_offset) {
        memcpy(target, &published->offset, sizeof published->offset);
    } else if (tensor->dtype == MT_F32) {
        for (int64_t i = 0; i < count; i++) ((float *)target)[i] = number(published->part[part], i);
    } else {
        mt_safetensors_read(published->part[part], 0, count, target);
    }
}

// ------------------------------------------------------------------ finding

static void find_parts(const struct mt_checkpoint *checkpoint, const struct mt_published_names *names,
                       struct mt_published *published)
{
    for (int i = 0; i < MT_PUBLISHED_PARTS; i++) {
        published->part[i] =
            names->text[i][0] != '\0' ? mt_checkpoint_find(checkpoint, names->text[i]) : NULL;
    }
}

/* What tells codes from floats of the same name; mxfp4's have names of their own. */
static bool are_codes(enum mt_hf_quant_method method, const struct mt_published *published)
{
    if (method == MT_HF_QUANT_MXFP4) return true;
    enum mt_safetensors_dtype dtype = method == MT_HF_QUANT_FP8 ? MT_SAFETENSORS_F8_E4M3 : MT_SAFETENSORS_U8;
    return published->part[MT_PUBLISHED_CODES]->dtype == dtype ||
           published->part[MT_PUBLISHED_SCALES] != NULL;
}

/* The parts in the folder's format, where the weight is in it. */
static enum mt_status find_codes(enum mt_hf_quant_method method, const struct mt_checkpoint *checkpoint,
                                 const char *name, struct mt_published *published)
{
    struct mt_published_names names;
    mt_published_names(method, name, &names);
    find_parts(checkpoint, &names, published);
    published->quantised = published->part[MT_PUBLISHED_CODES] != NULL && are_codes(method, published);
    if (!published->quantised) return MT_OK;
    switch (method) {
    case MT_HF_QUANT_FP8: return fit_fp8(checkpoint->ctx, published, &names);
    case MT_HF_QUANT_NF4: return fit_nf4(checkpoint, &names, published);
    case MT_HF_QUANT_MXFP4: return fit_mxfp4(checkpoint->ctx, published, &names);
    case MT_HF_QUANT_NONE: break;
    }
    return MT_OK;
}

enum mt_status mt_published_find(const struct mt_hf_config *config, const struct mt_checkpoint *checkpoint,
                                 const struct mt_model_tensor *tensor, struct mt_published *published)
{
    static const enum mt_quantised_format formats[] = {
        [MT_HF_QUANT_FP8] = MT_QUANTISED_FP8,
        [MT_HF_QUANT_NF4] = MT_QUANTISED_NF4,
        [MT_HF_QUANT_MXFP4] = MT_QUANTISED_MXFP4,
    };
    const struct mt_safetensors_tensor *plain = mt_checkpoint_find(checkpoint, tensor->name);
    enum mt_hf_quant_method method = config->quant.method;
    *published = (struct mt_published){0};
    published->part[MT_PUBLISHED_CODES] = plain;
    if (method == MT_HF_QUANT_NONE || tensor->rank != 2) return MT_OK;
    if (method == MT_HF_QUANT_MXFP4 && plain != NULL) return MT_OK;
    published->matrix = mt_quantised_shape(formats[method], false, tensor->dim[0], tensor->dim[1]);
    enum mt_status status = find_codes(method, checkpoint, tensor->name, published);
    if (status == MT_OK && published->quantised && tensor->part == MT_PART_EMBEDDING) {
        status = mt_fail(checkpoint->ctx, MT_ERR_FORMAT, "is stored in %s, but an embedding must be floats",
                         mt_hf_quant_name(method));
    }
    if (status == MT_OK && published->quantised) point_into_file(published);
    return status;
}

// ------------------------------------------------------------------ whole matrices

enum mt_status mt_published_matrix_open(struct mt_context *ctx, const struct mt_published *published,
                                        struct mt_published_matrix *matrix)
{
    struct mt_tensor *tensors[MT_QUANTISED_TENSORS];
    *matrix = (struct mt_published_matrix){.matrix = published->matrix};
    mt_quantised_each(&matrix->matrix, tensors);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) { // all that is made is f32, so each begins aligned
        if (mt_tensor_present(tensors[i]) && tensors[i]->data == NULL)
            matrix->bytes += (size_t)mt_tensor_count(tensors[i]) * mt_dtype_bytes(tensors[i]->dtype);
    }
    enum mt_status status = mt_published_check_values(ctx, published);
    if (status == MT_OK) status = mt_allocate(ctx, matrix->bytes, &matrix->memory);
    char *place = matrix->memory;
    for (int i = 0; i < MT_QUANTISED_TENSORS && status == MT_OK; i++) {
        if (!mt_tensor_present(tensors[i]) || tensors[i]->data != NULL) continue;
        mt_published_copy(published, i, place);
        tensors[i]->data = place;
        place += (size_t)mt_tensor_count(tensors[i]) * mt_dtype_bytes(tensors[i]->dtype);
    }
    return status;
}

void mt_published_matrix_close(struct mt_context *ctx, struct mt_published_matrix *matrix)
{
    mt_release(ctx, matrix->memory, matrix->bytes);
    *matrix = (struct mt_published_matrix){0};
}
