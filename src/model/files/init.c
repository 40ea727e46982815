/*
 * Random weights. Matrices are normal with mean 0, norms 1, every bias 0 (the correction bias, always f32,
 * too). Element i of a tensor is element i of the stream its name gives: any order, any number of threads.
 */
#include "model/files/init.h"

#include <omp.h>
#include <string.h>
#include <sys/stat.h>

#include "arch/model_tensors.h"
#include "base/files/file.h"
#include "base/files/folder.h"
#include "base/progress.h"
#include "base/rng.h"
#include "formats/safetensors/checkpoint.h"
#include "formats/safetensors/checkpoint_writer.h"
#include "formats/text/json.h"
#include "model/params/stream.h"
#include "tensor/dtype.h"

#define PIECE             ((int64_t)1 << 18) // elements made and written at a time; a multiple of 4
#define DEFAULT_DEVIATION 0.02
#define CONFIG_MAX_BYTES  ((size_t)64 * 1024 * 1024)
#define CONFIG_NAME       "config.json"

enum content {
    CONTENT_NORMAL,
    CONTENT_ZERO,
    CONTENT_ONE,
};

struct planned_tensor {
    struct mt_model_tensor tensor;
    enum content content;
};

struct piece {
    float values[PIECE];
    float stored[PIECE]; // in the type of the file; at most four bytes per element
};

struct initializer {
    struct mt_context *ctx;
    const struct mt_model_init_options *options;
    const char *directory; // where the files are written: a temporary one for a new folder
    void *config_text;
    size_t config_bytes;
    struct mt_hf_config config;
    double deviation;
    enum mt_dtype dtype;
    int threads;
    struct planned_tensor *tensors; // in the order of the file
    struct mt_safetensors_spec *specs;
    size_t count;
    int64_t parameters;
};

// ------------------------------------------------------------------ what is to be made

static enum mt_status read_deviation(struct initializer *init)
{
    init->deviation = DEFAULT_DEVIATION;
    if (init->options->deviation >= 0.0) {
        init->deviation = init->options->deviation;
        return MT_OK;
    }
    struct mt_json json;
    enum mt_status status = mt_json_parse(init->ctx, init->options->config, init->config_text,
                                          init->config_bytes, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = mt_json_optional_real(&root, "initializer_range", 0.0, 1e3, &init->deviation);
    mt_json_free(&json);
    return status;
}

static enum mt_status read_config(struct initializer *init)
{
    const char *path = init->options->config;
    enum mt_status status =
        mt_file_read_all(init->ctx, path, CONFIG_MAX_BYTES, &init->config_text, &init->config_bytes);
    if (status == MT_OK) {
        status = mt_hf_config_parse(init->ctx, path, init->config_text, init->config_bytes, &init->config);
    }
    if (status == MT_OK) status = read_deviation(init);
    if (status != MT_OK) return status;
    enum mt_hf_float wanted = init->options->dtype;
    if (wanted == MT_HF_FLOAT_UNKNOWN) wanted = init->config.dtype;
    init->dtype = wanted == MT_HF_BFLOAT16 ? MT_BF16 : wanted == MT_HF_FLOAT16 ? MT_F16 : MT_F32;
    return MT_OK;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text);
    size_t ending_length = strlen(ending);
    return length >= ending_length && strcmp(text + length - ending_length, ending) == 0;
}

static bool is_correction(const struct mt_model_tensor *tensor)
{
    return tensor->part == MT_PART_ROUTER && tensor->rank == 1;
}

static enum content content_of(const struct mt_model_tensor *tensor)
{
    if (tensor->rank == 2) return CONTENT_NORMAL;
    return tensor->part == MT_PART_NORMS && ends_with(tensor->name, ".weight") ? CONTENT_ONE : CONTENT_ZERO;
}

/* Correction biases come first: wide types before narrow ones, so that every tensor is aligned. */
static void plan_tensors(struct initializer *init, bool correction, size_t *place)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(&init->config);
    struct mt_model_tensor tensor;
    while (mt_model_tensors_next(&walk, &tensor)) {
        if (is_correction(&tensor) != correction) continue;
        struct planned_tensor *planned = &init->tensors[*place];
        *planned = (struct planned_tensor){.tensor = tensor, .content = content_of(&tensor)};
        init->specs[*place] = (struct mt_safetensors_spec){
            .name = planned->tensor.name,
            .dtype = mt_safetensors_dtype_of(correction ? MT_F32 : init->dtype),
            .rank = tensor.rank,
            .dim = {tensor.dim[0], tensor.dim[1]},
        };
        init->parameters += mt_model_tensor_count(&tensor);
        (*place)++;
    }
}

static enum mt_status plan(struct initializer *init)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(&init->config);
    struct mt_model_tensor tensor;
    void *tensors = NULL;
    void *specs = NULL;
    while (mt_model_tensors_next(&walk, &tensor)) init->count++;
    enum mt_status status = mt_allocate_array(init->ctx, init->count, sizeof *init->tensors, &tensors);
    init->tensors = tensors;
    if (status == MT_OK) status = mt_allocate_array(init->ctx, init->count, sizeof *init->specs, &specs);
    init->specs = specs;
    if (status != MT_OK) return status;
    size_t place = 0;
    plan_tensors(init, true, &place);
    plan_tensors(init, false, &place);
    return MT_OK;
}

// ------------------------------------------------------------------ the folder

/* Writes the copy; where there is the same file already it stays, another is refused. */
static enum mt_status place_config(const struct initializer *init, const char *path)
{
    bool found = false;
    enum mt_status status = mt_checkpoint_has_file(init->ctx, init->directory, CONFIG_NAME, &found);
    if (status != MT_OK) return status;
    if (!found) return mt_file_write_all(init->ctx, path, init->config_text, init->config_bytes);
    void *text = NULL;
    size_t bytes = 0;
    status = mt_file_read_all(init->ctx, path, CONFIG_MAX_BYTES, &text, &bytes);
    if (status != MT_OK) return status;
    bool same = bytes == init->config_bytes && memcmp(text, init->config_text, bytes) == 0;
    mt_release(init->ctx, text, bytes);
    if (same) return MT_OK;
    return mt_fail(init->ctx, MT_ERR_USAGE,
                   "%s: is there already, and not the same as %s; write to an empty directory", path,
                   init->options->config);
}

static enum mt_status copy_config(const struct initializer *init)
{
    char *path = NULL;
    enum mt_status status = mt_path_join(init->ctx, init->directory, CONFIG_NAME, &path);
    if (status == MT_OK) status = place_config(init, path);
    mt_path_release(init->ctx, path);
    return status;
}

// ------------------------------------------------------------------ the weights

/* values[i] := element first+i of the tensor; `first` is a multiple of 4. */
static void make_normal(const struct initializer *init, uint64_t stream, int64_t first, int64_t count,
                        float *values)
{
    double deviation = init->deviation;
    uint64_t seed = init->options->seed;
    int64_t blocks = (count + 3) / 4;
#pragma omp parallel for num_threads(init->threads) schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        float normal[4];
        mt_rng_normals(seed, stream, (uint64_t)(first / 4 + block), normal);
        int64_t end = count - 4 * block < 4 ? count - 4 * block : 4;
        for (int64_t i = 0; i < end; i++) values[4 * block + i] = (float)(deviation * (double)normal[i]);
    }
}

static void make_constant(float value, int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++) values[i] = value;
}

static enum mt_status write_tensor(const struct initializer *init, const struct planned_tensor *planned,
                                   struct piece *piece, struct mt_checkpoint_writer *writer,
                                   struct mt_progress *progress, int64_t *done)
{
    enum mt_dtype dtype = is_correction(&planned->tensor) ? MT_F32 : init->dtype;
    uint64_t stream = mt_stream_of_name(planned->tensor.name);
    int64_t total = mt_model_tensor_count(&planned->tensor);
    for (int64_t first = 0; first < total; first += PIECE) {
        int64_t count = total - first < PIECE ? total - first : PIECE;
        switch (planned->content) {
        case CONTENT_NORMAL: make_normal(init, stream, first, count, piece->values); break;
        case CONTENT_ZERO: make_constant(0.0f, count, piece->values); break;
        case CONTENT_ONE: make_constant(1.0f, count, piece->values); break;
        }
        mt_convert_from_f32(piece->values, count, dtype, piece->stored);
        enum mt_status status =
            mt_checkpoint_writer_write(writer, piece->stored, (size_t)count * mt_dtype_bytes(dtype));
        if (status != MT_OK) return status;
        *done += count;
        mt_progress_update(progress, *done);
    }
    return MT_OK;
}

static enum mt_status write_tensors(const struct initializer *init, struct piece *piece,
                                    struct mt_checkpoint_writer *writer)
{
    struct mt_progress progress;
    int64_t done = 0;
    enum mt_status status = MT_OK;
    mt_progress_start(&progress, &(struct mt_progress_options){.stream = init->options->progress,
                                                               .label = "writing weights",
                                                               .unit = "parameter",
                                                               .total = init->parameters});
    for (size_t i = 0; i < init->count && status == MT_OK; i++) {
        status = write_tensor(init, &init->tensors[i], piece, writer, &progress, &done);
    }
    mt_progress_finish(&progress);
    return status;
}

static enum mt_status write_weights(const struct initializer *init, struct mt_model_init_result *result)
{
    uint64_t shard_bytes = init->options->shard_bytes;
    struct mt_checkpoint_writer writer;
    void *piece = NULL;
    enum mt_status status = mt_allocate(init->ctx, sizeof(struct piece), &piece);
    if (status != MT_OK) return status;
    status = mt_checkpoint_writer_open(init->ctx, init->directory, init->specs, init->count,
                                       shard_bytes > 0 ? shard_bytes : MT_CHECKPOINT_SHARD_BYTES, &writer);
    // After the writer has looked: beside somebody's weights not even a config is left.
    if (status == MT_OK) status = copy_config(init);
    if (status == MT_OK) status = write_tensors(init, piece, &writer);
    if (status == MT_OK) {
        *result = (struct mt_model_init_result){
            .parameters = init->parameters, .bytes = writer.total_bytes, .files = writer.shard_count};
        status = mt_checkpoint_writer_finish(&writer);
    }
    mt_checkpoint_writer_abandon(&writer);
    mt_release(init->ctx, piece, sizeof(struct piece));
    return status;
}

/* A new folder appears whole; into one that is there, for what it may hold beside, files come one by one. */
static enum mt_status write_folder(struct initializer *init, struct mt_model_init_result *result)
{
    struct mt_folder folder = {0};
    struct stat info;
    bool there = lstat(init->options->directory, &info) == 0;
    enum mt_status status = there ? mt_folder_make(init->ctx, init->options->directory)
                                  : mt_folder_make_above(init->ctx, init->options->directory);
    if (status == MT_OK && !there) status = mt_folder_open(init->ctx, init->options->directory, &folder);
    init->directory = there ? init->options->directory : folder.path;
    if (status == MT_OK) status = write_weights(init, result);
    if (status == MT_OK && !there) status = mt_folder_commit(&folder);
    mt_folder_abandon(&folder);
    return status;
}

enum mt_status mt_model_init(struct mt_context *ctx, const struct mt_model_init_options *options,
                             struct mt_model_init_result *result)
{
    struct initializer init = {
        .ctx = ctx,
        .options = options,
        .threads = options->threads > 0 ? options->threads : omp_get_num_procs(),
    };
    struct mt_model_init_result made = {0};
    enum mt_status status = read_config(&init);
    if (status == MT_OK) status = plan(&init);
    if (status == MT_OK) status = write_folder(&init, &made);
    if (status == MT_OK && result != NULL) *result = made;
    mt_release(ctx, init.tensors, init.count * sizeof *init.tensors);
    mt_release(ctx, init.specs, init.count * sizeof *init.specs);
    mt_hf_config_free(&init.config);
    mt_release(ctx, init.config_text, init.config_bytes);
    return status;
}
