/* The plan of the tensors, then one after the other. */
#include "model/files/rewrite.h"

#include <math.h>
#include <string.h>

#include "base/files/folder.h"
#include "base/progress.h"
#include "formats/safetensors/checkpoint_writer.h"
#include "model/files/carried_files.h"
#include "model/params/params.h"
#include "tensor/dtype.h"

#define PIECE     ((int64_t)1 << 20) // elements at a time, at least a row
#define F16_LIMIT 65520.0f           // what rounds to infinity

struct rewriter {
    struct mt_context *ctx;
    const struct mt_checkpoint *checkpoint;
    const struct mt_rewrite_source *source;
    const struct mt_rewrite_options *options;
    struct mt_rewrite_tensor *tensors; // in the order of the file
    struct mt_safetensors_spec *specs;
    size_t count;
    int64_t elements;
    float *values;
    float *room;   // in the types of the files, at most four bytes per element
    int64_t piece; // elements of both
    struct mt_rewrite_result result;
};

// ------------------------------------------------------------------ the plan

static bool is_correction(const char *name)
{
    static const char ending[] = ".e_score_correction_bias";
    size_t length = strlen(name);
    return length >= sizeof ending - 1 && strcmp(name + length - (sizeof ending - 1), ending) == 0;
}

static enum mt_dtype target_type(enum mt_hf_float dtype, const struct mt_safetensors_tensor *stored)
{
    // Choices of experts hang on the bias's last digits: it stays as it is.
    bool as_stored = dtype == MT_HF_FLOAT_UNKNOWN || is_correction(stored->name);
    if (as_stored) return mt_params_stored_type(stored);
    switch (dtype) {
    case MT_HF_BFLOAT16: return MT_BF16;
    case MT_HF_FLOAT16: return MT_F16;
    default: return MT_F32;
    }
}

static struct mt_rewrite_tensor choose(const struct rewriter *rewriter,
                                       const struct mt_safetensors_tensor *stored)
{
    struct mt_rewrite_tensor tensor = {
        .stored = stored,
        .count = 1,
        .data = stored->data,
        .from = mt_params_stored_type(stored),
        .to = target_type(rewriter->options->dtype, stored),
        .row = 1,
    };
    for (int axis = 0; axis < stored->rank; axis++) tensor.count *= stored->dim[axis];
    rewriter->source->choose(rewriter->source->self, &tensor);
    return tensor;
}

/* Wide types come first, so that every tensor is aligned. */
static void plan_tensors(struct rewriter *rewriter, bool wide)
{
    struct mt_rewrite_result *result = &rewriter->result;
    for (size_t i = 0; i < rewriter->checkpoint->tensor_count; i++) {
        const struct mt_safetensors_tensor *stored = rewriter->checkpoint->tensors[i].info;
        struct mt_rewrite_tensor tensor = choose(rewriter, stored);
        if ((mt_dtype_bytes(tensor.to) == 4) != wide) continue;
        struct mt_safetensors_spec *spec = &rewriter->specs[rewriter->count];
        *spec = (struct mt_safetensors_spec){
            .name = stored->name, .dtype = mt_safetensors_dtype_of(tensor.to), .rank = stored->rank};
        for (int axis = 0; axis < stored->rank; axis++) spec->dim[axis] = stored->dim[axis];
        rewriter->elements += tensor.count;
        result->changed += tensor.change != NULL ? 1 : 0;
        result->replaced += tensor.data != stored->data ? 1 : 0;
        if (tensor.change != NULL && tensor.to != MT_F32) result->narrow = true;
        if (tensor.change != NULL && tensor.row > rewriter->piece) rewriter->piece = tensor.row;
        rewriter->tensors[rewriter->count++] = tensor;
    }
}

static enum mt_status plan(struct rewriter *rewriter)
{
    void *tensors = NULL;
    void *specs = NULL;
    void *values = NULL;
    void *room = NULL;
    size_t count = rewriter->checkpoint->tensor_count;
    enum mt_status status = mt_allocate_array(rewriter->ctx, count, sizeof *rewriter->tensors, &tensors);
    rewriter->tensors = tensors;
    if (status == MT_OK) status = mt_allocate_array(rewriter->ctx, count, sizeof *rewriter->specs, &specs);
    rewriter->specs = specs;
    if (status != MT_OK) return status;
    rewriter->piece = PIECE;
    plan_tensors(rewriter, true);
    plan_tensors(rewriter, false);
    rewriter->result.tensors = rewriter->count;
    status = mt_allocate_array(rewriter->ctx, (size_t)rewriter->piece, sizeof(float), &values);
    rewriter->values = values;
    if (status == MT_OK) {
        status = mt_allocate_array(rewriter->ctx, (size_t)rewriter->piece, sizeof(float), &room);
    }
    rewriter->room = room;
    return status;
}

// ------------------------------------------------------------------ one tensor

static void copy_stored(const struct mt_rewrite_tensor *tensor, int64_t first, int64_t count, float *room)
{
    size_t item_bytes = mt_dtype_bytes(tensor->from);
    memcpy(room, (const char *)tensor->data + (size_t)first * item_bytes, (size_t)count * item_bytes);
}

void mt_rewrite_read(const struct mt_rewrite_tensor *tensor, int64_t first, int64_t count, float *values,
                     float *room)
{
    // By way of aligned memory: a tensor in the file may lie at any address.
    copy_stored(tensor, first, count, room);
    mt_convert_to_f32(tensor->from, room, count, values);
}

static enum mt_status check_finite(const struct rewriter *rewriter, const struct mt_rewrite_tensor *tensor,
                                   int64_t count)
{
    float limit = tensor->to == MT_F16 ? F16_LIMIT : INFINITY;
    bool fine = true;
    for (int64_t i = 0; i < count; i++) fine = fine && fabsf(rewriter->values[i]) < limit;
    if (fine) return MT_OK;
    return mt_fail(rewriter->ctx, MT_ERR_NUMERIC, "%s: not every value is finite in %s", tensor->stored->name,
                   mt_safetensors_dtype_name(mt_safetensors_dtype_of(tensor->to)));
}

/* Elements first … first+count-1, as they are written, into `room`. */
static enum mt_status make_piece(const struct rewriter *rewriter, const struct mt_rewrite_tensor *tensor,
                                 int64_t first, int64_t count)
{
    const struct mt_rewrite_source *source = rewriter->source;
    enum mt_status status = MT_OK;
    if (tensor->change != NULL) {
        status = source->fill(source->self, tensor, first, count, rewriter->values, rewriter->room);
    } else if (tensor->from == tensor->to) {
        copy_stored(tensor, first, count, rewriter->room);
        return MT_OK; // not a bit is changed
    } else {
        mt_rewrite_read(tensor, first, count, rewriter->values, rewriter->room);
    }
    // A narrower type may not hold what a wider one did.
    if (status == MT_OK && (tensor->change != NULL || tensor->to == MT_F16))
        status = check_finite(rewriter, tensor, count);
    if (status == MT_OK) mt_convert_from_f32(rewriter->values, count, tensor->to, rewriter->room);
    return status;
}

static enum mt_status write_tensor(const struct rewriter *rewriter, const struct mt_rewrite_tensor *tensor,
                                   struct mt_checkpoint_writer *writer, struct mt_progress *progress,
                                   int64_t *done)
{
    enum mt_status status = MT_OK;
    int64_t piece = rewriter->piece;
    if (tensor->change != NULL) piece -= piece % tensor->row;
    for (int64_t first = 0; first < tensor->count && status == MT_OK; first += piece) {
        int64_t count = tensor->count - first < piece ? tensor->count - first : piece;
        status = make_piece(rewriter, tensor, first, count);
        if (status == MT_OK) {
            status = mt_checkpoint_writer_write(writer, rewriter->room,
                                                (size_t)count * mt_dtype_bytes(tensor->to));
        }
        *done += count;
        mt_progress_update(progress, *done);
    }
    return status;
}

// ------------------------------------------------------------------ the folder

static enum mt_status write_weights(struct rewriter *rewriter, const char *directory)
{
    uint64_t shard_bytes = rewriter->options->shard_bytes;
    struct mt_checkpoint_writer writer;
    struct mt_progress progress;
    int64_t done = 0;
    enum mt_status status =
        mt_checkpoint_writer_open(rewriter->ctx, directory, rewriter->specs, rewriter->count,
                                  shard_bytes > 0 ? shard_bytes : MT_CHECKPOINT_SHARD_BYTES, &writer);
    if (status != MT_OK) return status;
    mt_progress_start(&progress, &(struct mt_progress_options){.stream = rewriter->options->progress,
                                                               .label = rewriter->options->label,
                                                               .unit = "parameter",
                                                               .total = rewriter->elements});
    for (size_t i = 0; i < rewriter->count && status == MT_OK; i++) {
        status = write_tensor(rewriter, &rewriter->tensors[i], &writer, &progress, &done);
    }
    mt_progress_finish(&progress);
    rewriter->result.bytes = writer.total_bytes;
    rewriter->result.files = writer.shard_count;
    if (status == MT_OK) status = mt_checkpoint_writer_finish(&writer);
    mt_checkpoint_writer_abandon(&writer);
    return status;
}

static enum mt_status write_folder(struct rewriter *rewriter)
{
    const struct mt_rewrite_options *options = rewriter->options;
    struct mt_folder folder;
    enum mt_status status = mt_folder_open(rewriter->ctx, options->out, &folder);
    if (status != MT_OK) return status;
    status = mt_model_carry_files(rewriter->ctx, options->directory, folder.path, options->dtype,
                                  &rewriter->result.carried);
    if (status == MT_OK) status = write_weights(rewriter, folder.path);
    if (status == MT_OK && rewriter->source->add_files != NULL)
        status = rewriter->source->add_files(rewriter->source->self, folder.path);
    if (status == MT_OK) status = mt_folder_commit(&folder);
    mt_folder_abandon(&folder);
    return status;
}

enum mt_status mt_rewrite(struct mt_context *ctx, const struct mt_checkpoint *checkpoint,
                          const struct mt_rewrite_source *source, const struct mt_rewrite_options *options,
                          struct mt_rewrite_result *result)
{
    struct rewriter rewriter = {.ctx = ctx, .checkpoint = checkpoint, .source = source, .options = options};
    size_t count = checkpoint->tensor_count;
    enum mt_status status = plan(&rewriter);
    if (status == MT_OK) status = write_folder(&rewriter);
    *result = rewriter.result;
    mt_release(ctx, rewriter.values, (size_t)rewriter.piece * sizeof(float));
    mt_release(ctx, rewriter.room, (size_t)rewriter.piece * sizeof(float));
    mt_release(ctx, rewriter.tensors, count * sizeof *rewriter.tensors);
    mt_release(ctx, rewriter.specs, count * sizeof *rewriter.specs);
    return status;
}
