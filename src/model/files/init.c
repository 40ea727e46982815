/*
 * Random weights. Matrices are normal with mean 0, norms 1, every bias 0 (the correction bias, always f32,
 * too). Element i of a tensor is element i of the stream its name gives: any order, any number of threads.
 */
#include "model/files/init.h"

#include <omp.h>
#include <string.h>
#include <sys/stat.h>

#include "arch/model_tensors.h"
#include "arch/published/published_write.h"
#include "base/arena.h"
#include "base/compare.h"
#include "base/files/file.h"
#include "base/files/folder.h"
#include "base/progress.h"
#include "base/rng.h"
#include "formats/safetensors/checkpoint.h"
#include "formats/text/json.h"
#include "model/files/carried_files.h"
#include "model/files/merge_format.h"
#include "model/files/rewrite_parts.h"
#include "model/params/stream.h"
#include "tensor/dtype.h"

#define PIECE             ((int64_t)1 << 18) // elements made and written at a time; a multiple of 4
#define DEFAULT_DEVIATION 0.02
#define CONFIG_MAX_BYTES  ((size_t)64 * 1024 * 1024)
#define CONFIG_NAME       "config.json"
#define ARENA_BLOCK_BYTES 65536

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
    struct mt_json_text quantised_config; // what is written instead, where there are codes
    struct mt_hf_config config;
    double deviation;
    enum mt_dtype dtype;
    int threads;
    struct planned_tensor *tensors;    // in the order of the file
    struct mt_safetensors_spec *specs; // one or, of a matrix in codes, some for each tensor
    size_t count, spec_count;
    struct mt_arena arena; // names of what codes consist of
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
        status = mt_hf_config_read(init->ctx, path, init->config_text, init->config_bytes, &init->config);
    }
    if (status == MT_OK) status = read_deviation(init);
    if (status != MT_OK) return status;
    enum mt_hf_float wanted = init->options->dtype;
    if (wanted == MT_HF_FLOAT_UNKNOWN) wanted = init->config.dtype;
    init->dtype = wanted == MT_HF_BFLOAT16 ? MT_BF16 : wanted == MT_HF_FLOAT16 ? MT_F16 : MT_F32;
    return MT_OK;
}

static enum content content_of(const struct mt_model_tensor *tensor)
{
    if (tensor->rank == 2) return CONTENT_NORMAL;
    return tensor->part == MT_PART_NORMS && mt_ends_with(tensor->name, ".weight") ? CONTENT_ONE
                                                                                  : CONTENT_ZERO;
}

/* Wide types before narrow ones, so that every tensor is aligned. */
enum order { ORDER_CORRECTION, ORDER_CODES, ORDER_FLOATS, ORDERS };

static enum order order_of(const struct initializer *init, const struct mt_model_tensor *tensor)
{
    if (mt_model_tensor_is_correction(tensor)) return ORDER_CORRECTION;
    return mt_quantise_takes(&init->options->quantise, tensor) ? ORDER_CODES : ORDER_FLOATS;
}

static struct mt_quantised codes_of(const struct initializer *init, const struct mt_model_tensor *tensor)
{
    const struct mt_quantise_options *how = &init->options->quantise;
    return mt_quantised_shape(how->format, how->nested, tensor->dim[0], tensor->dim[1]);
}

static enum mt_status specify_codes(struct initializer *init, const struct mt_model_tensor *tensor)
{
    enum mt_hf_quant_method method = mt_published_method(init->options->quantise.format);
    struct mt_quantised shape = codes_of(init, tensor);
    void *names = NULL;
    enum mt_status status = mt_arena_allocate(&init->arena, sizeof(struct mt_published_names), &names);
    if (status != MT_OK) return status;
    mt_published_names(method, tensor->name, names);
    init->spec_count += (size_t)mt_published_specs(names, &shape, init->specs + init->spec_count);
    return MT_OK;
}

/* The tensors of the model, and their numbers in the order in which they are written. */
struct listing {
    struct mt_model_tensor *tensors;
    size_t *order;
};

static enum mt_status list_tensors(struct initializer *init, struct listing *listing)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(&init->config);
    const char **names = NULL;
    enum mt_status status = MT_OK;
    listing->tensors = mt_arena_array(&init->arena, init->count, sizeof *listing->tensors, &status);
    if (status == MT_OK)
        listing->order = mt_arena_array(&init->arena, init->count, sizeof *listing->order, &status);
    if (status == MT_OK) names = mt_arena_array(&init->arena, init->count, sizeof *names, &status);
    for (size_t i = 0; i < init->count && status == MT_OK; i++) {
        (void)mt_model_tensors_next(&walk, &listing->tensors[i]);
        names[i] = listing->tensors[i].name;
    }
    if (status != MT_OK) return status;
    return mt_stacks_order(init->ctx, &init->config, mt_stacks_wanted(&init->config, NULL), names,
                           init->count, listing->order);
}

static enum mt_status plan_tensors(struct initializer *init, const struct listing *listing, enum order order,
                                   size_t *place)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < init->count && status == MT_OK; i++) {
        const struct mt_model_tensor tensor = listing->tensors[listing->order[i]];
        if (order_of(init, &tensor) != order) continue;
        struct planned_tensor *planned = &init->tensors[(*place)++];
        *planned = (struct planned_tensor){.tensor = tensor, .content = content_of(&tensor)};
        init->parameters += mt_model_tensor_count(&tensor);
        if (order == ORDER_CODES) {
            status = specify_codes(init, &tensor);
            continue;
        }
        struct mt_safetensors_spec *spec = &init->specs[init->spec_count++];
        *spec = (struct mt_safetensors_spec){
            .name = planned->tensor.name,
            .dtype = mt_safetensors_dtype_of(order == ORDER_CORRECTION ? MT_F32 : init->dtype)};
        mt_model_tensor_stored_shape(&tensor, &spec->rank, spec->dim);
    }
    return status;
}

/* The config that says what the codes are. */
static enum mt_status describe_codes(struct initializer *init)
{
    const struct mt_quantise_options *how = &init->options->quantise;
    struct mt_json_text text;
    if (!how->on) return MT_OK;
    if (mt_published_config(how->format, how->nested) == NULL)
        return mt_fail(init->ctx, MT_ERR_UNSUPPORTED, "metier cannot write a folder in %s",
                       mt_quantised_name(how->format));
    if (init->config.quant.method != MT_HF_QUANT_NONE)
        return mt_fail(init->ctx, MT_ERR_USAGE, "%s: has a quantization_config of its own",
                       init->options->config);
    mt_json_text_init(&text, init->ctx);
    enum mt_status status = mt_merge_describe_format(&init->config, how, &text);
    const struct mt_config_change change = {.quantisation = text.bytes};
    if (status == MT_OK)
        status = mt_config_changed(init->ctx, init->config_text, init->config_bytes, &change,
                                   &init->quantised_config);
    mt_json_text_free(&text);
    return status;
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
    if (status == MT_OK)
        status = mt_allocate_array(init->ctx, init->count, MT_PUBLISHED_PARTS * sizeof *init->specs, &specs);
    init->specs = specs;
    struct listing listing = {0};
    if (status == MT_OK) status = list_tensors(init, &listing);
    size_t place = 0;
    for (int order = 0; order < ORDERS && status == MT_OK; order++)
        status = plan_tensors(init, &listing, (enum order)order, &place);
    return status == MT_OK ? describe_codes(init) : status;
}

// ------------------------------------------------------------------ the folder

/* Writes the copy; where there is the same file already it stays, another is refused. */
static enum mt_status place_config(const struct initializer *init, const char *path)
{
    bool codes = init->options->quantise.on;
    const void *written = codes ? init->quantised_config.bytes : init->config_text;
    size_t length = codes ? init->quantised_config.length : init->config_bytes;
    bool found = false;
    enum mt_status status = mt_checkpoint_has_file(init->ctx, init->directory, CONFIG_NAME, &found);
    if (status != MT_OK) return status;
    if (!found) return mt_file_write_all(init->ctx, path, written, length);
    void *text = NULL;
    size_t bytes = 0;
    status = mt_file_read_all(init->ctx, path, CONFIG_MAX_BYTES, &text, &bytes);
    if (status != MT_OK) return status;
    bool same = bytes == length && memcmp(text, written, bytes) == 0;
    mt_release(init->ctx, text, bytes);
    if (same) return MT_OK;
    return mt_fail(init->ctx, MT_ERR_USAGE,
                   "%s: already exists and differs from %s; write to an empty directory", path,
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
                                   struct piece *piece, struct mt_stacks_writer *writer,
                                   struct mt_progress *progress, int64_t *done)
{
    enum mt_dtype dtype = mt_model_tensor_is_correction(&planned->tensor) ? MT_F32 : init->dtype;
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
            mt_stacks_writer_write(writer, piece->stored, (size_t)count * mt_dtype_bytes(dtype));
        if (status != MT_OK) return status;
        *done += count;
        mt_progress_update(progress, *done);
    }
    return MT_OK;
}

static enum mt_hf_float stored_float(const struct initializer *init)
{
    return init->dtype == MT_BF16 ? MT_HF_BFLOAT16 : init->dtype == MT_F16 ? MT_HF_FLOAT16 : MT_HF_FLOAT32;
}

/* A matrix in codes: those of the numbers that a folder of floats would have. */
static enum mt_status write_codes(const struct initializer *init, const struct mt_model_tensor *tensor,
                                  struct mt_stacks_writer *writer)
{
    struct mt_quantised matrix = codes_of(init, tensor);
    int64_t count = mt_model_tensor_count(tensor);
    size_t bytes = (size_t)count * sizeof(float);
    size_t code_bytes = 0;
    void *memory = NULL;
    void *values = NULL;
    void *stored = NULL;
    enum mt_status status = mt_rewrite_codes_room(init->ctx, &matrix, &memory, &code_bytes);
    if (status == MT_OK) status = mt_allocate(init->ctx, bytes, &values);
    if (status == MT_OK) status = mt_allocate(init->ctx, bytes, &stored);
    if (status == MT_OK) {
        make_normal(init, mt_stream_of_name(tensor->name), 0, count, values);
        mt_convert_from_f32(values, count, init->dtype, stored);
        (void)mt_quantise_threaded(init->dtype, stored, &matrix, init->threads); // they are finite
        status = mt_published_write(writer, &matrix, stored_float(init));
    }
    if (stored != NULL) mt_release(init->ctx, stored, bytes);
    if (values != NULL) mt_release(init->ctx, values, bytes);
    mt_release(init->ctx, memory, code_bytes);
    return status;
}

static enum mt_status write_tensors(const struct initializer *init, struct piece *piece,
                                    struct mt_stacks_writer *writer)
{
    struct mt_progress progress;
    int64_t done = 0;
    enum mt_status status = MT_OK;
    mt_progress_start(&progress, &(struct mt_progress_options){.stream = init->options->progress,
                                                               .label = "writing weights",
                                                               .unit = "parameter",
                                                               .total = init->parameters});
    for (size_t i = 0; i < init->count && status == MT_OK; i++) {
        const struct planned_tensor *planned = &init->tensors[i];
        if (order_of(init, &planned->tensor) != ORDER_CODES) {
            status = write_tensor(init, planned, piece, writer, &progress, &done);
            continue;
        }
        status = write_codes(init, &planned->tensor, writer);
        done += mt_model_tensor_count(&planned->tensor);
        mt_progress_update(&progress, done);
    }
    mt_progress_finish(&progress);
    return status;
}

static enum mt_status write_weights(const struct initializer *init, struct mt_model_init_result *result)
{
    uint64_t shard_bytes = init->options->shard_bytes;
    struct mt_stacks_writer writer;
    void *piece = NULL;
    enum mt_status status = mt_allocate(init->ctx, sizeof(struct piece), &piece);
    if (status != MT_OK) return status;
    status = mt_stacks_writer_open(init->ctx, init->directory, &init->config,
                                   mt_stacks_wanted(&init->config, NULL), init->specs, init->spec_count,
                                   shard_bytes > 0 ? shard_bytes : MT_CHECKPOINT_SHARD_BYTES, &writer);
    // After the writer has looked: beside somebody's weights not even a config is left.
    if (status == MT_OK) status = copy_config(init);
    if (status == MT_OK) status = write_tensors(init, piece, &writer);
    if (status == MT_OK) {
        *result = (struct mt_model_init_result){.parameters = init->parameters,
                                                .bytes = writer.file.total_bytes,
                                                .files = writer.file.shard_count};
        status = mt_stacks_writer_finish(&writer);
    }
    mt_stacks_writer_abandon(&writer);
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
    mt_arena_init(&init.arena, ctx, ARENA_BLOCK_BYTES);
    mt_json_text_init(&init.quantised_config, ctx);
    enum mt_status status = read_config(&init);
    if (status == MT_OK) status = plan(&init);
    if (status == MT_OK) status = write_folder(&init, &made);
    if (status == MT_OK && result != NULL) *result = made;
    mt_release(ctx, init.tensors, init.count * sizeof *init.tensors);
    mt_release(ctx, init.specs, init.count * MT_PUBLISHED_PARTS * sizeof *init.specs);
    mt_json_text_free(&init.quantised_config);
    mt_arena_free(&init.arena);
    mt_hf_config_free(&init.config);
    mt_release(ctx, init.config_text, init.config_bytes);
    return status;
}
