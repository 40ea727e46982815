/* One tensor after the other, as planned (rewrite_plan.c). */
#include "model/files/rewrite.h"

#include <math.h>
#include <string.h>

#include "base/files/file.h"
#include "base/files/folder.h"
#include "base/progress.h"
#include "model/files/carried_files.h"
#include "model/files/rewrite_parts.h"
#include "tensor/dtype.h"

#define F16_LIMIT 65520.0f // what rounds to infinity

// ------------------------------------------------------------------ one tensor

void mt_rewrite_copy(const struct mt_rewrite_tensor *tensor, int64_t first, int64_t count, void *room)
{
    size_t item_bytes = mt_dtype_bytes(tensor->from);
    if (tensor->data != NULL)
        memcpy(room, (const char *)tensor->data + (size_t)first * item_bytes, (size_t)count * item_bytes);
    else
        mt_safetensors_read(tensor->stored, first, count, room);
}

void mt_rewrite_read(const struct mt_rewrite_tensor *tensor, int64_t first, int64_t count, float *values,
                     float *room)
{
    if (tensor->matrix != NULL) {
        for (int64_t i = 0; i < count; i += tensor->row)
            mt_dequantise_row(tensor->matrix, (first + i) / tensor->row, 0, tensor->row, values + i);
        mt_convert_from_f32(values, count, MT_BF16, room); // products read it so, too
        mt_convert_to_f32(MT_BF16, room, count, values);
        return;
    }
    // By way of aligned memory: a tensor in the file may lie at any address.
    mt_rewrite_copy(tensor, first, count, room);
    mt_convert_to_f32(tensor->from, room, count, values);
}

enum mt_status mt_rewrite_check_finite(struct mt_context *ctx, const struct mt_rewrite_tensor *tensor,
                                       const float *values, int64_t count)
{
    float limit = tensor->to == MT_F16 ? F16_LIMIT : INFINITY;
    bool fine = true;
    for (int64_t i = 0; i < count; i++) fine = fine && fabsf(values[i]) < limit;
    if (fine) return MT_OK;
    return mt_fail(ctx, MT_ERR_NUMERIC, "%s: some values are not finite in %s", tensor->name,
                   mt_safetensors_dtype_name(mt_safetensors_dtype_of(tensor->to)));
}

/* Elements first … first+count-1, as they are written, into `room`. */
static enum mt_status make_piece(const struct mt_rewriter *rewriter, const struct mt_rewrite_tensor *tensor,
                                 int64_t first, int64_t count)
{
    const struct mt_rewrite_source *source = rewriter->source;
    enum mt_status status = MT_OK;
    if (tensor->change != NULL) {
        status = source->fill(source->self, tensor, first, count, rewriter->values, rewriter->room);
    } else if (tensor->matrix == NULL && tensor->from == tensor->to) {
        mt_rewrite_copy(tensor, first, count, rewriter->room);
        return MT_OK; // not a bit is changed
    } else {
        mt_rewrite_read(tensor, first, count, rewriter->values, rewriter->room);
    }
    // A narrower type may not hold what a wider one did.
    if (status == MT_OK && (tensor->change != NULL || tensor->matrix != NULL || tensor->to == MT_F16))
        status = mt_rewrite_check_finite(rewriter->ctx, tensor, rewriter->values, count);
    if (status == MT_OK) mt_convert_from_f32(rewriter->values, count, tensor->to, rewriter->room);
    return status;
}

static enum mt_status write_floats(const struct mt_rewriter *rewriter, const struct mt_rewrite_tensor *tensor,
                                   struct mt_stacks_writer *writer, struct mt_progress *progress,
                                   int64_t *done)
{
    enum mt_status status = MT_OK;
    int64_t piece = rewriter->piece;
    piece -= piece % tensor->row;
    for (int64_t first = 0; first < tensor->count && status == MT_OK; first += piece) {
        int64_t count = tensor->count - first < piece ? tensor->count - first : piece;
        status = make_piece(rewriter, tensor, first, count);
        if (status == MT_OK) {
            status =
                mt_stacks_writer_write(writer, rewriter->room, (size_t)count * mt_dtype_bytes(tensor->to));
        }
        *done += count;
        mt_progress_update(progress, *done);
    }
    return status;
}

static enum mt_status write_tensor(struct mt_rewriter *rewriter, const struct mt_rewrite_tensor *tensor,
                                   struct mt_stacks_writer *writer, struct mt_progress *progress,
                                   int64_t *done)
{
    if (!mt_rewrite_reads_codes(tensor)) return write_floats(rewriter, tensor, writer, progress, done);
    struct mt_rewrite_codes codes;
    struct mt_rewrite_tensor read = *tensor;
    enum mt_status status = mt_rewrite_codes_open(rewriter->ctx, tensor, &codes);
    read.matrix = &codes.matrix;
    if (status == MT_OK && rewriter->options->requantise) {
        status = mt_rewrite_write_codes(rewriter, &read, writer);
        *done += tensor->count;
        mt_progress_update(progress, *done);
    } else if (status == MT_OK) {
        status = write_floats(rewriter, &read, writer, progress, done);
    }
    mt_rewrite_codes_close(rewriter->ctx, &codes);
    return status;
}

/* What has been read of a mapped file need not stay in memory. */
static void forget_part(const struct mt_checkpoint *checkpoint, const struct mt_safetensors_tensor *part)
{
    for (size_t i = 0; part != NULL && i < checkpoint->shard_count; i++)
        mt_file_forget(&checkpoint->shards[i].mapping, part->data, mt_safetensors_extent(part));
}

static void forget(const struct mt_rewriter *rewriter, const struct mt_rewrite_tensor *tensor)
{
    forget_part(rewriter->checkpoint, tensor->stored);
    for (int i = 0; tensor->published != NULL && i < MT_PUBLISHED_PARTS; i++)
        forget_part(rewriter->checkpoint, tensor->published->part[i]);
}

// ------------------------------------------------------------------ the folder

static enum mt_status write_weights(struct mt_rewriter *rewriter, const char *directory)
{
    uint64_t shard_bytes = rewriter->options->shard_bytes;
    struct mt_stacks_writer writer;
    struct mt_progress progress;
    int64_t done = 0;
    enum mt_status status = mt_stacks_writer_open(
        rewriter->ctx, directory, rewriter->config, rewriter->stacked, rewriter->specs, rewriter->spec_count,
        shard_bytes > 0 ? shard_bytes : MT_CHECKPOINT_SHARD_BYTES, &writer);
    if (status != MT_OK) return status;
    mt_progress_start(&progress, &(struct mt_progress_options){.stream = rewriter->options->progress,
                                                               .label = rewriter->options->label,
                                                               .unit = "parameter",
                                                               .total = rewriter->elements});
    for (size_t i = 0; i < rewriter->count && status == MT_OK; i++) {
        status = write_tensor(rewriter, &rewriter->tensors[i], &writer, &progress, &done);
        forget(rewriter, &rewriter->tensors[i]);
    }
    mt_progress_finish(&progress);
    rewriter->result.bytes = writer.file.total_bytes;
    rewriter->result.files = writer.file.shard_count;
    if (status == MT_OK) status = mt_stacks_writer_finish(&writer);
    mt_stacks_writer_abandon(&writer);
    return status;
}

static enum mt_status write_folder(struct mt_rewriter *rewriter)
{
    const struct mt_rewrite_options *options = rewriter->options;
    struct mt_folder folder;
    enum mt_status status = mt_folder_open(rewriter->ctx, options->out, &folder);
    if (status != MT_OK) return status;
    mt_folder_sweep_dead(&folder);
    const struct mt_config_change change = {.dtype = options->dtype,
                                            .quantisation = options->quantisation,
                                            .number = options->number,
                                            .number_count = options->number_count,
                                            .renumbered = options->renumbered};
    status = mt_model_carry_files(rewriter->ctx, options->directory, folder.path, &change,
                                  &rewriter->result.carried);
    if (status == MT_OK) status = write_weights(rewriter, folder.path);
    if (status == MT_OK && rewriter->source->add_files != NULL)
        status = rewriter->source->add_files(rewriter->source->self, folder.path);
    if (status == MT_OK) status = mt_folder_commit(&folder);
    mt_folder_abandon(&folder);
    return status;
}

enum mt_status mt_rewrite(struct mt_context *ctx, const struct mt_hf_config *config,
                          const struct mt_checkpoint *checkpoint, const struct mt_rewrite_source *source,
                          const struct mt_rewrite_options *options, struct mt_rewrite_result *result)
{
    struct mt_rewriter rewriter = {
        .ctx = ctx, .config = config, .checkpoint = checkpoint, .source = source, .options = options};
    enum mt_status status = mt_rewrite_plan(&rewriter);
    if (status == MT_OK) status = write_folder(&rewriter);
    *result = rewriter.result;
    mt_arena_free(&rewriter.arena);
    return status;
}
