/* Matrices that are read from codes, and written in codes again. */
#include <math.h>
#include <string.h>

#include "arch/published/published_write.h"
#include "model/files/rewrite_parts.h"
#include "model/params/params.h"

enum mt_status mt_rewrite_codes_room(struct mt_context *ctx, struct mt_quantised *matrix, void **memory,
                                     size_t *bytes)
{
    struct mt_tensor *tensors[MT_QUANTISED_TENSORS];
    size_t size[MT_QUANTISED_TENSORS] = {0};
    mt_quantised_each(matrix, tensors);
    *bytes = 0;
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) {
        if (!mt_tensor_present(tensors[i])) continue;
        size_t own = (size_t)mt_tensor_count(tensors[i]) * mt_dtype_bytes(tensors[i]->dtype);
        size[i] = (own + 7) / 8 * 8; // each begins aligned
        *bytes += size[i];
    }
    enum mt_status status = mt_allocate(ctx, *bytes, memory);
    if (status != MT_OK) *bytes = 0;
    char *place = *memory;
    for (int i = 0; i < MT_QUANTISED_TENSORS && status == MT_OK; i++) {
        if (size[i] > 0) tensors[i]->data = place;
        place += size[i];
    }
    if (status == MT_OK && mt_tensor_present(&matrix->nested_map)) mt_nf4_nested_map(matrix->nested_map.data);
    return status;
}

enum mt_status mt_rewrite_codes_open(struct mt_context *ctx, const struct mt_rewrite_tensor *tensor,
                                     struct mt_rewrite_codes *codes)
{
    *codes = (struct mt_rewrite_codes){0};
    enum mt_status status = MT_OK;
    if (tensor->published != NULL) {
        status = mt_published_matrix_open(ctx, tensor->published, &codes->file);
        codes->matrix = codes->file.matrix;
        return status == MT_OK ? MT_OK : mt_fail_within(ctx, status, "%s", tensor->name);
    }
    codes->matrix = mt_quantised_shape(tensor->format, tensor->nested, tensor->dim[0], tensor->dim[1]);
    status = mt_rewrite_codes_room(ctx, &codes->matrix, &codes->memory, &codes->bytes);
    size_t bytes = (size_t)tensor->count * mt_dtype_bytes(tensor->from);
    void *aligned = NULL; // a tensor in the file may lie at any address
    if (status == MT_OK) status = mt_allocate(ctx, bytes, &aligned);
    if (status != MT_OK) return status;
    mt_rewrite_copy(tensor, 0, tensor->count, aligned);
    if (!mt_quantise(tensor->from, aligned, &codes->matrix))
        status = mt_fail(ctx, MT_ERR_NUMERIC, "%s: some values are not finite", tensor->name);
    mt_release(ctx, aligned, bytes);
    return status;
}

void mt_rewrite_codes_close(struct mt_context *ctx, struct mt_rewrite_codes *codes)
{
    mt_published_matrix_close(ctx, &codes->file);
    mt_release(ctx, codes->memory, codes->bytes);
    *codes = (struct mt_rewrite_codes){0};
}

/* How far the codes are from the numbers they were made of. */
static void measure(const struct mt_quantised *matrix, const float *values, float *row,
                    struct mt_rewrite_loss *loss)
{
    loss->matrices++;
    for (int64_t i = 0; i < matrix->out; i++) {
        mt_dequantise_row(matrix, i, 0, matrix->in, row);
        for (int64_t j = 0; j < matrix->in; j++) {
            double value = (double)values[i * matrix->in + j];
            double lost = (double)row[j] - value;
            loss->error += lost * lost;
            loss->size += value * value;
        }
    }
}

/* All numbers of a changed tensor, in pieces as fill gives them. */
static enum mt_status gather(struct mt_rewriter *rewriter, const struct mt_rewrite_tensor *tensor,
                             float *values)
{
    const struct mt_rewrite_source *source = rewriter->source;
    int64_t piece = rewriter->piece - rewriter->piece % tensor->row;
    enum mt_status status = MT_OK;
    for (int64_t first = 0; first < tensor->count && status == MT_OK; first += piece) {
        int64_t count = tensor->count - first < piece ? tensor->count - first : piece;
        status = source->fill(source->self, tensor, first, count, values + first, rewriter->room);
    }
    return status == MT_OK ? mt_rewrite_check_finite(rewriter->ctx, tensor, values, tensor->count) : status;
}

static enum mt_status write_changed(struct mt_rewriter *rewriter, const struct mt_rewrite_tensor *tensor,
                                    enum mt_hf_float dtype, struct mt_stacks_writer *writer)
{
    struct mt_context *ctx = rewriter->ctx;
    struct mt_quantised matrix =
        mt_quantised_shape(tensor->format, tensor->nested, tensor->dim[0], tensor->dim[1]);
    void *values = NULL;
    void *memory = NULL;
    size_t bytes = 0;
    size_t value_bytes = (size_t)tensor->count * sizeof(float);
    enum mt_status status = mt_allocate(ctx, value_bytes, &values);
    if (status != MT_OK) return status;
    status = mt_rewrite_codes_room(ctx, &matrix, &memory, &bytes);
    if (status == MT_OK) status = gather(rewriter, tensor, values);
    if (status == MT_OK) {
        (void)mt_quantise(MT_F32, values, &matrix); // they are finite
        measure(&matrix, values, rewriter->values, &rewriter->result.loss[tensor->part]);
        status = mt_published_write(writer, &matrix, dtype);
    }
    mt_release(ctx, memory, bytes);
    mt_release(ctx, values, value_bytes);
    return status;
}

enum mt_status mt_rewrite_write_codes(struct mt_rewriter *rewriter, const struct mt_rewrite_tensor *tensor,
                                      struct mt_stacks_writer *writer)
{
    enum mt_hf_float dtype = tensor->published != NULL ? tensor->published->dtype
                             : tensor->from == MT_F32  ? MT_HF_FLOAT32
                                                       : MT_HF_BFLOAT16;
    if (tensor->change == NULL) return mt_published_write(writer, tensor->matrix, dtype);
    return write_changed(rewriter, tensor, dtype, writer);
}
