/* Merging: the plan of the tensors, then one after the other. */
#include "model/merge.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/file.h"
#include "base/folder.h"
#include "base/progress.h"
#include "formats/checkpoint.h"
#include "formats/checkpoint_writer.h"
#include "formats/printable.h"
#include "model/adapter_parts.h"
#include "model/merge_files.h"
#include "tensor/dtype.h"

#define PIECE     ((int64_t)1 << 20) // elements at a time, at least a row
#define F16_LIMIT 65520.0f           // what rounds to infinity

/* One tensor of the result. */
struct merged_tensor {
    const struct mt_safetensors_tensor *stored;
    const struct mt_adapter_pair *pair;       // NULL: as it is
    const struct mt_safetensors_tensor *bias; // what takes its place, or NULL
    enum mt_dtype from, to;
};

/* Room for a piece of a tensor and for one pair. */
struct room {
    float *values;
    float *stored; // in the type of the file, at most four bytes per element; also the product's rows
    float *a, *b;
    size_t elements; // of values and of stored
    size_t a_count, b_count;
};

struct merger {
    struct mt_context *ctx;
    const struct mt_merge_options *options;
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_checkpoint checkpoint;
    struct mt_adapter adapter;
    struct merged_tensor *tensors; // in the order of the file
    struct mt_safetensors_spec *specs;
    size_t count;
    int64_t elements;
    int threads;
    struct room room;
    struct mt_merge_result result;
};

// ------------------------------------------------------------------ opening

static enum mt_status open_model(struct merger *merger)
{
    char *path = NULL;
    const char *directory = merger->options->directory;
    enum mt_status status = mt_path_join(merger->ctx, directory, "config.json", &path);
    if (status == MT_OK) status = mt_hf_config_read(merger->ctx, path, &merger->config);
    mt_path_release(merger->ctx, path);
    if (status == MT_OK) status = mt_model_describe(merger->ctx, &merger->config, &merger->desc);
    if (status == MT_OK) status = mt_checkpoint_open(merger->ctx, directory, &merger->checkpoint);
    if (status == MT_OK) status = mt_params_check(merger->ctx, &merger->desc, &merger->checkpoint);
    if (status == MT_OK) {
        status = mt_adapter_open(merger->ctx, merger->options->adapter, &merger->desc, &merger->adapter);
    }
    return status;
}

/* The head that some adapters carry along must be the model's own. */
static enum mt_status check_head(const struct merger *merger, const struct mt_safetensors_tensor *carried,
                                 const char *name)
{
    const struct mt_safetensors_tensor *own = mt_checkpoint_find(&merger->checkpoint, name);
    if (carried == NULL) return MT_OK;
    bool same = own != NULL && own->rank == carried->rank;
    int64_t count = 1;
    for (int i = 0; same && i < own->rank; i++) {
        same = own->dim[i] == carried->dim[i];
        count *= own->dim[i];
    }
    for (int64_t i = 0; same && i < count; i++) {
        same = mt_adapter_value(own, i) == mt_adapter_value(carried, i);
    }
    if (same) return MT_OK;
    return mt_fail(merger->ctx, MT_ERR_UNSUPPORTED, "%s: carries an lm_head that is not the model's",
                   merger->adapter.file.path);
}

/* Every pair must belong to a tensor that is there, and fit it. */
static enum mt_status check_pairs(const struct merger *merger)
{
    for (size_t i = 0; i < merger->adapter.module_count; i++) {
        const struct mt_adapter_pair *pair = &merger->adapter.pairs[i];
        char name[MT_PARAMS_NAME_BYTES + 16];
        (void)snprintf(name, sizeof name, "%s.weight", pair->module);
        const struct mt_safetensors_tensor *stored = mt_checkpoint_find(&merger->checkpoint, name);
        if (stored == NULL) {
            bool tied = merger->desc.tied_head && strcmp(pair->module, "lm_head") == 0;
            return mt_fail(merger->ctx, MT_ERR_USAGE, "%s: adapts %s, which %s", merger->adapter.file.path,
                           mt_printable(pair->module).text,
                           tied ? "is tied to the embedding and cannot be merged alone"
                                : "the model does not have");
        }
        if (stored->rank == 2 && stored->dim[0] == pair->out && stored->dim[1] == pair->in &&
            strcmp(pair->module, "model.embed_tokens") != 0)
            continue;
        return mt_fail(merger->ctx, MT_ERR_SHAPE,
                       "%s: the pair of %s is for [%lld, %lld], which does not fit",
                       merger->adapter.file.path, mt_printable(pair->module).text, (long long)pair->out,
                       (long long)pair->in);
    }
    enum mt_status status = check_head(merger, merger->adapter.head, "lm_head.weight");
    return status == MT_OK ? check_head(merger, merger->adapter.head_bias, "lm_head.bias") : status;
}

// ------------------------------------------------------------------ the plan

static bool is_correction(const char *name)
{
    static const char ending[] = ".e_score_correction_bias";
    size_t length = strlen(name);
    return length >= sizeof ending - 1 && strcmp(name + length - (sizeof ending - 1), ending) == 0;
}

static enum mt_dtype target_type(const struct merger *merger, const struct mt_safetensors_tensor *stored)
{
    // Choices of experts hang on the bias's last digits: it stays as it is.
    bool as_stored = merger->options->dtype == MT_HF_FLOAT_UNKNOWN || is_correction(stored->name);
    if (as_stored) return mt_params_stored_type(stored);
    switch (merger->options->dtype) {
    case MT_HF_BFLOAT16: return MT_BF16;
    case MT_HF_FLOAT16: return MT_F16;
    default: return MT_F32;
    }
}

/* Wide types come first, so that every tensor is aligned. */
static void plan_tensors(struct merger *merger, bool wide)
{
    for (size_t i = 0; i < merger->checkpoint.tensor_count; i++) {
        const struct mt_safetensors_tensor *stored = merger->checkpoint.tensors[i].info;
        char module[MT_MODEL_NAME_BYTES];
        struct merged_tensor tensor = {.stored = stored, .from = mt_params_stored_type(stored)};
        tensor.bias = mt_safetensors_find(&merger->adapter.biases, stored->name);
        if (tensor.bias != NULL) tensor.from = MT_F32;
        tensor.to = tensor.bias != NULL ? MT_F32 : target_type(merger, stored);
        if ((mt_dtype_bytes(tensor.to) == 4) != wide) continue;
        mt_params_module_name(stored->name, module, sizeof module);
        if (stored->rank == 2) tensor.pair = mt_adapter_find(&merger->adapter, module);
        struct mt_safetensors_spec *spec = &merger->specs[merger->count];
        *spec = (struct mt_safetensors_spec){
            .name = stored->name, .dtype = mt_safetensors_dtype_of(tensor.to), .rank = stored->rank};
        int64_t elements = 1;
        for (int axis = 0; axis < stored->rank; axis++) {
            spec->dim[axis] = stored->dim[axis];
            elements *= stored->dim[axis];
        }
        merger->elements += elements;
        merger->result.merged += tensor.pair != NULL ? 1 : 0;
        merger->result.biases += tensor.bias != NULL ? 1 : 0;
        if (tensor.pair != NULL && tensor.to != MT_F32) merger->result.narrow = true;
        merger->tensors[merger->count++] = tensor;
    }
}

static enum mt_status allocate_floats(struct mt_context *ctx, size_t count, float **floats)
{
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, count, sizeof(float), &memory);
    *floats = memory;
    return status;
}

static enum mt_status make_room(struct merger *merger)
{
    struct room *room = &merger->room;
    size_t rank = (size_t)merger->adapter.rank;
    room->elements = (size_t)PIECE;
    for (size_t i = 0; i < merger->adapter.module_count; i++) {
        const struct mt_adapter_pair *pair = &merger->adapter.pairs[i];
        if ((size_t)pair->in > room->elements) room->elements = (size_t)pair->in;
        if ((size_t)pair->in * rank > room->a_count) room->a_count = (size_t)pair->in * rank;
        if ((size_t)pair->out * rank > room->b_count) room->b_count = (size_t)pair->out * rank;
    }
    enum mt_status status = allocate_floats(merger->ctx, room->elements, &room->values);
    if (status == MT_OK) status = allocate_floats(merger->ctx, room->elements, &room->stored);
    if (status == MT_OK) status = allocate_floats(merger->ctx, room->a_count, &room->a);
    if (status == MT_OK) status = allocate_floats(merger->ctx, room->b_count, &room->b);
    return status;
}

static enum mt_status plan(struct merger *merger)
{
    void *tensors = NULL;
    void *specs = NULL;
    size_t count = merger->checkpoint.tensor_count;
    enum mt_status status = mt_allocate_array(merger->ctx, count, sizeof *merger->tensors, &tensors);
    merger->tensors = tensors;
    if (status == MT_OK) status = mt_allocate_array(merger->ctx, count, sizeof *merger->specs, &specs);
    merger->specs = specs;
    if (status != MT_OK) return status;
    plan_tensors(merger, true);
    plan_tensors(merger, false);
    merger->result.tensors = merger->count;
    return make_room(merger);
}

// ------------------------------------------------------------------ one tensor

/* values[rows, in] += scale · b[first … first+rows-1] · a; the product is summed by itself, in f32. */
static void add_product(const struct merger *merger, const struct mt_adapter_pair *pair, int64_t first,
                        int64_t rows)
{
    const struct room *room = &merger->room;
    int64_t in = pair->in;
    int64_t rank = merger->adapter.rank;
    float scale = (float)(merger->adapter.alpha / (double)rank);
#pragma omp parallel for num_threads(merger->threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        float *product = room->stored + row * in;
        float *value = room->values + row * in;
        for (int64_t i = 0; i < in; i++) product[i] = 0.0f;
        for (int64_t k = 0; k < rank; k++) {
            float factor = room->b[(first + row) * rank + k];
            const float *a = room->a + k * in;
            for (int64_t i = 0; i < in; i++) product[i] += factor * a[i];
        }
        for (int64_t i = 0; i < in; i++) value[i] += scale * product[i];
    }
}

static enum mt_status check_finite(const struct merger *merger, const struct merged_tensor *tensor,
                                   int64_t count)
{
    float limit = tensor->to == MT_F16 ? F16_LIMIT : INFINITY;
    bool fine = true;
    for (int64_t i = 0; i < count; i++) fine = fine && fabsf(merger->room.values[i]) < limit;
    if (fine) return MT_OK;
    return mt_fail(merger->ctx, MT_ERR_NUMERIC, "%s: merged, it is not finite in %s", tensor->stored->name,
                   mt_safetensors_dtype_name(mt_safetensors_dtype_of(tensor->to)));
}

/* Elements first … first+count-1, as they are written. */
static enum mt_status make_piece(const struct merger *merger, const struct merged_tensor *tensor,
                                 int64_t first, int64_t count)
{
    const struct room *room = &merger->room;
    const struct mt_safetensors_tensor *source = tensor->bias != NULL ? tensor->bias : tensor->stored;
    size_t item_bytes = mt_dtype_bytes(tensor->from);
    memcpy(room->stored, (const char *)source->data + (size_t)first * item_bytes, (size_t)count * item_bytes);
    if (tensor->pair == NULL && tensor->from == tensor->to) return MT_OK; // not a bit is changed
    mt_convert_to_f32(tensor->from, room->stored, count, room->values);
    enum mt_status status = MT_OK;
    if (tensor->pair != NULL) {
        add_product(merger, tensor->pair, first / tensor->pair->in, count / tensor->pair->in);
    }
    // A narrower type may not hold what a wider one did.
    if (tensor->pair != NULL || tensor->to == MT_F16) status = check_finite(merger, tensor, count);
    if (status == MT_OK) mt_convert_from_f32(room->values, count, tensor->to, room->stored);
    return status;
}

static enum mt_status write_tensor(const struct merger *merger, size_t index,
                                   struct mt_checkpoint_writer *writer, struct mt_progress *progress,
                                   int64_t *done)
{
    const struct merged_tensor *tensor = &merger->tensors[index];
    int64_t total = 1;
    for (int axis = 0; axis < tensor->stored->rank; axis++) total *= tensor->stored->dim[axis];
    int64_t piece = (int64_t)merger->room.elements;
    if (tensor->pair != NULL) { // whole rows
        piece -= piece % tensor->pair->in;
        mt_adapter_read_pair(&merger->adapter, tensor->pair, merger->adapter.rank, merger->room.a,
                             merger->room.b);
    }
    enum mt_status status = MT_OK;
    for (int64_t first = 0; first < total && status == MT_OK; first += piece) {
        int64_t count = total - first < piece ? total - first : piece;
        status = make_piece(merger, tensor, first, count);
        if (status == MT_OK) {
            status = mt_checkpoint_writer_write(writer, merger->room.stored,
                                                (size_t)count * mt_dtype_bytes(tensor->to));
        }
        *done += count;
        mt_progress_update(progress, *done);
    }
    return status;
}

// ------------------------------------------------------------------ the folder

static enum mt_status write_weights(struct merger *merger, const char *directory)
{
    uint64_t shard_bytes = merger->options->shard_bytes;
    struct mt_checkpoint_writer writer;
    struct mt_progress progress;
    int64_t done = 0;
    enum mt_status status =
        mt_checkpoint_writer_open(merger->ctx, directory, merger->specs, merger->count,
                                  shard_bytes > 0 ? shard_bytes : MT_CHECKPOINT_SHARD_BYTES, &writer);
    if (status != MT_OK) return status;
    mt_progress_start(&progress, &(struct mt_progress_options){.stream = merger->options->progress,
                                                               .label = "merging",
                                                               .unit = "parameter",
                                                               .total = merger->elements});
    for (size_t i = 0; i < merger->count && status == MT_OK; i++) {
        status = write_tensor(merger, i, &writer, &progress, &done);
    }
    mt_progress_finish(&progress);
    merger->result.bytes = writer.total_bytes;
    merger->result.files = writer.shard_count;
    if (status == MT_OK) status = mt_checkpoint_writer_finish(&writer);
    mt_checkpoint_writer_abandon(&writer);
    return status;
}

static enum mt_status write_folder(struct merger *merger)
{
    struct mt_folder folder;
    enum mt_status status = mt_folder_open(merger->ctx, merger->options->out, &folder);
    if (status != MT_OK) return status;
    status = mt_merge_copy_files(merger->ctx, merger->options->directory, folder.path, merger->options->dtype,
                                 &merger->result.carried);
    if (status == MT_OK) status = write_weights(merger, folder.path);
    if (status == MT_OK) status = mt_folder_commit(&folder);
    mt_folder_abandon(&folder);
    return status;
}

static void release(struct merger *merger)
{
    struct mt_context *ctx = merger->ctx;
    const struct room *room = &merger->room;
    mt_release(ctx, room->values, room->elements * sizeof(float));
    mt_release(ctx, room->stored, room->elements * sizeof(float));
    mt_release(ctx, room->a, room->a_count * sizeof(float));
    mt_release(ctx, room->b, room->b_count * sizeof(float));
    mt_release(ctx, merger->tensors, merger->checkpoint.tensor_count * sizeof *merger->tensors);
    mt_release(ctx, merger->specs, merger->checkpoint.tensor_count * sizeof *merger->specs);
    mt_adapter_close(&merger->adapter);
    mt_checkpoint_close(&merger->checkpoint);
    mt_hf_config_free(&merger->config);
}

enum mt_status mt_merge(struct mt_context *ctx, const struct mt_merge_options *options,
                        struct mt_merge_result *result)
{
    struct merger merger = {
        .ctx = ctx,
        .options = options,
        .threads = options->threads > 0 ? options->threads : omp_get_num_procs(),
    };
    enum mt_status status = open_model(&merger);
    if (status == MT_OK) status = check_pairs(&merger);
    if (status == MT_OK) status = plan(&merger);
    if (status == MT_OK) status = write_folder(&merger);
    if (status == MT_OK && result != NULL) *result = merger.result;
    release(&merger);
    return status;
}
