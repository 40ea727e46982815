/* Parts of a matrix in a file: wide types first, and nf4's text padded, so that what follows is aligned. */
#include "arch/published/published_write.h"

#include <stdio.h>
#include <string.h>

#define STATE_BYTES 224 // the text of a state, padded with spaces; a few more to align what follows
#define ALIGNMENT   8

static struct mt_safetensors_spec spec_of(const char *name, enum mt_safetensors_dtype dtype,
                                          const struct mt_tensor *tensor)
{
    struct mt_safetensors_spec spec = {.name = name, .dtype = dtype, .rank = tensor->rank};
    for (int i = 0; i < tensor->rank; i++) spec.dim[i] = tensor->dim[i];
    return spec;
}

/* The bytes of nf4's state. */
static int64_t state_bytes(const struct mt_quantised *matrix)
{
    int64_t others = matrix->codes.dim[0];
    if (mt_tensor_present(&matrix->nested_scales)) others += matrix->scales.dim[0];
    return STATE_BYTES + (ALIGNMENT - others % ALIGNMENT) % ALIGNMENT;
}

static int specs_of_nf4(const struct mt_published_names *names, const struct mt_quantised *matrix,
                        struct mt_safetensors_spec *specs)
{
    bool nested = mt_tensor_present(&matrix->nested_scales);
    int count = 0;
    struct mt_tensor values = mt_tensor_1d(NULL, MT_F32, 16);
    struct mt_tensor codes = mt_tensor_2d(NULL, MT_U8, matrix->codes.dim[0], 1);
    struct mt_tensor state = mt_tensor_1d(NULL, MT_U8, state_bytes(matrix));
    specs[count++] = spec_of(names->text[MT_PUBLISHED_MAP], MT_SAFETENSORS_F32, &values);
    if (nested) {
        specs[count++] =
            spec_of(names->text[MT_PUBLISHED_NESTED_MAP], MT_SAFETENSORS_F32, &matrix->nested_map);
        specs[count++] =
            spec_of(names->text[MT_PUBLISHED_NESTED_SCALES], MT_SAFETENSORS_F32, &matrix->nested_scales);
    }
    specs[count++] = spec_of(names->text[MT_PUBLISHED_SCALES],
                             nested ? MT_SAFETENSORS_U8 : MT_SAFETENSORS_F32, &matrix->scales);
    specs[count++] = spec_of(names->text[MT_PUBLISHED_CODES], MT_SAFETENSORS_U8, &codes);
    specs[count++] = spec_of(names->text[MT_PUBLISHED_STATE], MT_SAFETENSORS_U8, &state);
    return count;
}

int mt_published_specs(const struct mt_published_names *names, const struct mt_quantised *matrix,
                       struct mt_safetensors_spec specs[MT_PUBLISHED_PARTS])
{
    struct mt_tensor blocks;
    switch (matrix->format) {
    case MT_QUANTISED_FP8:
        specs[0] = spec_of(names->text[MT_PUBLISHED_SCALES], MT_SAFETENSORS_F32, &matrix->scales);
        specs[1] = spec_of(names->text[MT_PUBLISHED_CODES], MT_SAFETENSORS_F8_E4M3, &matrix->codes);
        return 2;
    case MT_QUANTISED_NF4: return specs_of_nf4(names, matrix, specs);
    case MT_QUANTISED_MXFP4:
        blocks = mt_tensor_3d(NULL, MT_U8, matrix->out, matrix->scales.dim[1], MT_MXFP4_BLOCK / 2);
        specs[0] = spec_of(names->text[MT_PUBLISHED_CODES], MT_SAFETENSORS_U8, &blocks);
        specs[1] = spec_of(names->text[MT_PUBLISHED_SCALES], MT_SAFETENSORS_U8, &matrix->scales);
        return 2;
    case MT_QUANTISED_INT8:
    case MT_QUANTISED_FORMATS: break;
    }
    return 0;
}

static enum mt_status write_tensor(struct mt_stacks_writer *writer, const struct mt_tensor *tensor)
{
    return mt_stacks_writer_write(writer, tensor->data,
                                  (size_t)mt_tensor_count(tensor) * mt_dtype_bytes(tensor->dtype));
}

static enum mt_status write_state(struct mt_stacks_writer *writer, const struct mt_quantised *matrix,
                                  enum mt_hf_float dtype)
{
    char text[STATE_BYTES + ALIGNMENT];
    const char *type = dtype == MT_HF_FLOAT32 ? "float32" : dtype == MT_HF_FLOAT16 ? "float16" : "bfloat16";
    memset(text, ' ', sizeof text);
    int used =
        snprintf(text, sizeof text,
                 "{\"quant_type\": \"nf4\", \"blocksize\": %d, \"dtype\": \"%s\", \"shape\": [%lld, %lld]",
                 MT_NF4_BLOCK, type, (long long)matrix->out, (long long)matrix->in);
    if (mt_tensor_present(&matrix->nested_scales)) {
        used += snprintf(text + used, sizeof text - (size_t)used,
                         ", \"nested_blocksize\": %d, \"nested_dtype\": \"float32\", \"nested_offset\": %.9e",
                         MT_NF4_NESTED_BLOCK, (double)*(const float *)matrix->nested_offset.data);
    }
    text[used] = '}';
    text[used + 1] = ' '; // where snprintf ended the text
    return mt_stacks_writer_write(writer, text, (size_t)state_bytes(matrix));
}

static enum mt_status write_nf4(struct mt_stacks_writer *writer, const struct mt_quantised *matrix,
                                enum mt_hf_float dtype)
{
    enum mt_status status = mt_stacks_writer_write(writer, mt_nf4_values, sizeof mt_nf4_values);
    if (mt_tensor_present(&matrix->nested_scales)) {
        if (status == MT_OK) status = write_tensor(writer, &matrix->nested_map);
        if (status == MT_OK) status = write_tensor(writer, &matrix->nested_scales);
    }
    if (status == MT_OK) status = write_tensor(writer, &matrix->scales);
    if (status == MT_OK) status = write_tensor(writer, &matrix->codes);
    return status == MT_OK ? write_state(writer, matrix, dtype) : status;
}

enum mt_status mt_published_write(struct mt_stacks_writer *writer, const struct mt_quantised *matrix,
                                  enum mt_hf_float dtype)
{
    if (matrix->format == MT_QUANTISED_NF4) return write_nf4(writer, matrix, dtype);
    bool fp8 = matrix->format == MT_QUANTISED_FP8;
    enum mt_status status = write_tensor(writer, fp8 ? &matrix->scales : &matrix->codes);
    return status == MT_OK ? write_tensor(writer, fp8 ? &matrix->codes : &matrix->scales) : status;
}

enum mt_hf_quant_method mt_published_method(enum mt_quantised_format format)
{
    static const enum mt_hf_quant_method methods[MT_QUANTISED_FORMATS] = {
        [MT_QUANTISED_FP8] = MT_HF_QUANT_FP8,
        [MT_QUANTISED_NF4] = MT_HF_QUANT_NF4,
        [MT_QUANTISED_MXFP4] = MT_HF_QUANT_MXFP4,
    };
    return methods[format];
}

const char *mt_published_config(enum mt_quantised_format format, bool nested)
{
    switch (format) {
    case MT_QUANTISED_FP8:
        return "{\"quant_method\": \"fp8\", \"activation_scheme\": \"dynamic\", \"fmt\": \"e4m3\", "
               "\"weight_block_size\": [128, 128]}";
    case MT_QUANTISED_NF4:
        return nested ? "{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true, \"load_in_8bit\": "
                        "false, \"bnb_4bit_quant_type\": \"nf4\", \"bnb_4bit_quant_storage\": \"uint8\", "
                        "\"bnb_4bit_use_double_quant\": true}"
                      : "{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true, \"load_in_8bit\": "
                        "false, \"bnb_4bit_quant_type\": \"nf4\", \"bnb_4bit_quant_storage\": \"uint8\", "
                        "\"bnb_4bit_use_double_quant\": false}";
    case MT_QUANTISED_MXFP4: return "{\"quant_method\": \"mxfp4\"}";
    case MT_QUANTISED_INT8:
    case MT_QUANTISED_FORMATS: break;
    }
    return NULL;
}
