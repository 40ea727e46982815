/* Rows of nf4: whole blocks of 64 codes, each with its scale. */
#include "model/files/shrink_nf4.h"

#include <stdio.h>
#include <string.h>

#define STATE_BYTES 128

static void gather(const void *data, size_t row_bytes, const int32_t *rows, int count, char *target)
{
    for (int i = 0; i < count; i++)
        memcpy(target + (size_t)i * row_bytes, (const char *)data + (size_t)rows[i] * row_bytes, row_bytes);
}

/* A part under its old name, with other data. */
static struct mt_safetensors_tensor part_of(const struct mt_published *published, enum mt_published_part part,
                                            enum mt_safetensors_dtype dtype, int64_t count, const void *data)
{
    struct mt_safetensors_tensor tensor = *published->part[part];
    tensor.dtype = dtype;
    tensor.dim[0] = count;
    tensor.bytes = (uint64_t)count * mt_safetensors_dtype_bytes(dtype);
    tensor.data = data;
    return tensor;
}

/* What bitsandbytes wants to know of a matrix whose scales are not nested. */
static int64_t write_state(enum mt_hf_float dtype, int64_t out, int64_t in, char text[STATE_BYTES])
{
    const char *type = dtype == MT_HF_FLOAT32 ? "float32" : dtype == MT_HF_FLOAT16 ? "float16" : "bfloat16";
    return snprintf(
        text, STATE_BYTES,
        "{\"quant_type\": \"nf4\", \"blocksize\": %d, \"dtype\": \"%s\", \"shape\": [%lld, %lld]}",
        MT_NF4_BLOCK, type, (long long)out, (long long)in);
}

enum mt_status mt_shrink_nf4(struct mt_context *ctx, const struct mt_published *published,
                             const int32_t *rows, int count, struct mt_arena *arena,
                             struct mt_safetensors_tensor tensors[MT_SHRUNK_NF4_TENSORS])
{
    struct mt_published_matrix opened = {0};
    int64_t in = published->matrix.in;
    int64_t blocks = in / MT_NF4_BLOCK; // of a row
    size_t code_bytes = (size_t)in / 2;
    size_t scale_bytes = (size_t)blocks * sizeof(float);
    if (in % MT_NF4_BLOCK != 0) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "is in nf4, and a row of %lld is not a multiple of its blocks of %d: no row can be "
                       "removed without rounding the others again",
                       (long long)in, MT_NF4_BLOCK);
    }
    enum mt_status status = MT_OK;
    char *codes = mt_arena_array(arena, (size_t)count, code_bytes, &status);
    float *all = mt_arena_array(arena, (size_t)published->matrix.out, scale_bytes, &status);
    char *scales = mt_arena_array(arena, (size_t)count, scale_bytes, &status);
    char *state = mt_arena_array(arena, STATE_BYTES, 1, &status);
    if (status == MT_OK) status = mt_published_matrix_open(ctx, published, &opened);
    if (status != MT_OK) return status;
    mt_nf4_scales(&opened.matrix, 0, published->matrix.out * blocks, all);
    gather(opened.matrix.codes.data, code_bytes, rows, count, codes);
    gather(all, scale_bytes, rows, count, scales);
    mt_published_matrix_close(ctx, &opened);
    int64_t length = write_state(published->dtype, count, in, state);
    tensors[0] =
        part_of(published, MT_PUBLISHED_CODES, MT_SAFETENSORS_U8, (int64_t)code_bytes * count, codes);
    tensors[1] = part_of(published, MT_PUBLISHED_SCALES, MT_SAFETENSORS_F32, blocks * count, scales);
    tensors[2] = *published->part[MT_PUBLISHED_MAP];
    tensors[3] = part_of(published, MT_PUBLISHED_STATE, MT_SAFETENSORS_U8, length, state);
    return MT_OK;
}
