/* Merging: which tensors have a pair, and what it makes of them; rewrite.c writes, shrink.c takes experts
 * away. */
#include "model/files/merge.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "arch/published/published_write.h"
#include "formats/text/printable.h"
#include "model/adapters/adapter.h"
#include "model/adapters/router_bias.h"
#include "model/files/card.h"
#include "model/files/carried_files.h"
#include "model/files/merge_format.h"
#include "model/files/rewrite.h"
#include "model/files/shrink.h"
#include "model/params/loading.h"

#define ARENA_BLOCK_BYTES 65536

struct merger {
    struct mt_context *ctx;
    const struct mt_merge_options *options;
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_checkpoint checkpoint;
    const struct mt_checkpoint *read; // it, or the view of fewer experts
    struct mt_arena arena;            // what follows, and what it points to
    struct mt_checkpoint shrunk;
    struct mt_shrunk_config written;
    size_t further;
    struct mt_adapter adapter;
    struct mt_safetensors biases; // the model's own, beside its weights
    int threads;
    float *a, *b; // one pair
    size_t a_count, b_count;
    double change[MT_MODEL_PART_COUNT]; // sum of squares of what pairs add to weights in codes
};

// ------------------------------------------------------------------ opening

static enum mt_status open_model(struct merger *merger)
{
    const char *directory = merger->options->directory;
    enum mt_status status = mt_hf_config_read_folder(merger->ctx, directory, &merger->config);
    if (status == MT_OK) status = mt_model_describe(merger->ctx, &merger->config, &merger->desc);
    if (status == MT_OK)
        status = mt_stacks_open(merger->ctx, directory, &merger->config, &merger->checkpoint);
    if (status == MT_OK) status = mt_params_check(merger->ctx, &merger->desc, &merger->checkpoint);
    if (status == MT_OK && merger->options->adapter != NULL)
        status = mt_adapter_open(merger->ctx, merger->options->adapter, &merger->desc, &merger->adapter);
    if (status == MT_OK && !merger->desc.correction_bias) {
        status = mt_router_bias_open(merger->ctx, directory, MT_ROUTER_BIAS_OF_MODEL, &merger->desc,
                                     &merger->biases);
    }
    return status;
}

/* The model, its biases and its adapter with fewer experts. */
static enum mt_status shrink(struct merger *merger)
{
    const struct mt_kept *kept = merger->options->kept;
    struct mt_arena *arena = &merger->arena;
    merger->read = &merger->checkpoint;
    if (kept == NULL) return MT_OK;
    enum mt_status status = mt_shrink_checkpoint(&merger->checkpoint, &merger->config, kept, arena,
                                                 &merger->shrunk, &merger->further);
    if (status == MT_OK) status = mt_shrink_adapter(&merger->adapter, &merger->config, kept, arena);
    if (status == MT_OK) status = mt_shrink_biases(&merger->biases, kept, arena);
    if (status != MT_OK) return status;
    mt_shrink_config(&merger->config, kept->keep, &merger->written);
    merger->read = &merger->shrunk;
    status = mt_model_describe(merger->ctx, &merger->config, &merger->desc);
    return status == MT_OK ? mt_params_check(merger->ctx, &merger->desc, merger->read) : status;
}

/* The head that some adapters carry along must be the model's own. */
static enum mt_status check_head(const struct merger *merger, const struct mt_safetensors_tensor *carried,
                                 const char *name)
{
    const struct mt_safetensors_tensor *own = mt_checkpoint_find(&merger->checkpoint, name);
    if (carried == NULL) return MT_OK;
    bool same = own != NULL && own->rank == carried->rank && mt_safetensors_dtype_bytes(own->dtype) > 1;
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

/* The pairs that fit a tensor of the model. */
static enum mt_status find_fitting(const struct merger *merger, bool *fits)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(&merger->config);
    struct mt_model_tensor tensor;
    while (mt_model_tensors_next(&walk, &tensor)) {
        char module[MT_MODEL_NAME_BYTES];
        if (tensor.rank != 2) continue;
        mt_params_module_name(tensor.name, module, sizeof module);
        const struct mt_adapter_pair *pair = mt_adapter_find(&merger->adapter, module);
        if (pair == NULL) continue;
        if (!mt_params_is_linear(&tensor) || tensor.dim[0] != pair->out || tensor.dim[1] != pair->in) {
            return mt_fail(merger->ctx, MT_ERR_SHAPE,
                           "%s: the pair of %s is for [%lld, %lld], which does not fit",
                           merger->adapter.file.path, mt_printable(pair->module).text, (long long)pair->out,
                           (long long)pair->in);
        }
        fits[pair - merger->adapter.pairs] = true;
    }
    return MT_OK;
}

/* Every pair must belong to a tensor that is there, and fit it. */
static enum mt_status check_pairs(const struct merger *merger)
{
    void *memory = NULL;
    size_t count = merger->adapter.module_count;
    if (count == 0) return MT_OK;
    enum mt_status status = mt_allocate_array(merger->ctx, count, sizeof(bool), &memory);
    if (status != MT_OK) return status;
    bool *fits = memory;
    memset(fits, 0, count * sizeof *fits);
    status = find_fitting(merger, fits);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        const char *module = merger->adapter.pairs[i].module;
        bool tied = merger->desc.tied_head && strcmp(module, "lm_head") == 0;
        if (fits[i]) continue;
        status =
            mt_fail(merger->ctx, MT_ERR_USAGE, "%s: adapts %s, which %s", merger->adapter.file.path,
                    mt_printable(module).text,
                    tied ? "is tied to the embedding and cannot be merged alone" : "the model does not have");
    }
    mt_release(merger->ctx, memory, count * sizeof(bool));
    if (status == MT_OK) status = check_head(merger, merger->adapter.head, "lm_head.weight");
    return status == MT_OK ? check_head(merger, merger->adapter.head_bias, "lm_head.bias") : status;
}

// ------------------------------------------------------------------ one tensor

static void choose(void *self, struct mt_rewrite_tensor *tensor)
{
    const struct merger *merger = self;
    char module[MT_MODEL_NAME_BYTES];
    const struct mt_safetensors_tensor *bias = mt_safetensors_find(&merger->adapter.biases, tensor->name);
    if (bias != NULL) {
        tensor->data = bias->data;
        tensor->from = MT_F32;
        tensor->to = MT_F32;
    }
    if (tensor->rank != 2) return;
    if (tensor->stored != NULL && tensor->part >= 0) { // floats that were read as codes in training
        const struct mt_quantise_options *quantise = &merger->adapter.quantise;
        const struct mt_model_tensor taken = {
            .part = (enum mt_model_part)tensor->part, .rank = 2, .dim = {tensor->dim[0], tensor->dim[1]}};
        tensor->quantised = mt_quantise_takes(quantise, &taken);
        tensor->format = quantise->format;
        tensor->nested = quantise->nested;
    }
    mt_params_module_name(tensor->name, module, sizeof module);
    const struct mt_adapter_pair *pair = mt_adapter_find(&merger->adapter, module);
    tensor->change = pair;
    if (pair != NULL) tensor->row = pair->in;
}

/* values[rows, in] += scale · b[first … first+rows-1] · a; the product is summed by itself, in f32. */
static void add_product(const struct merger *merger, const struct mt_adapter_pair *pair, int64_t first,
                        int64_t rows, float *values, float *products)
{
    int64_t in = pair->in;
    int64_t rank = merger->adapter.rank;
    float scale = (float)(merger->adapter.alpha / (double)rank);
#pragma omp parallel for num_threads(merger->threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        float *product = products + row * in;
        float *value = values + row * in;
        for (int64_t i = 0; i < in; i++) product[i] = 0.0f;
        for (int64_t k = 0; k < rank; k++) {
            float factor = merger->b[(first + row) * rank + k];
            const float *a = merger->a + k * in;
            for (int64_t i = 0; i < in; i++) product[i] += factor * a[i];
        }
        for (int64_t i = 0; i < in; i++) value[i] += scale * product[i];
    }
}

static enum mt_status fill(void *self, const struct mt_rewrite_tensor *tensor, int64_t first, int64_t count,
                           float *values, float *room)
{
    struct merger *merger = self;
    const struct mt_adapter_pair *pair = tensor->change;
    if (first == 0) mt_adapter_read_pair(&merger->adapter, pair, merger->adapter.rank, merger->a, merger->b);
    mt_rewrite_read(tensor, first, count, values, room);
    add_product(merger, pair, first / pair->in, count / pair->in, values, room);
    if (tensor->matrix == NULL) return MT_OK;
    double scale = merger->adapter.alpha / (double)merger->adapter.rank;
    for (int64_t i = 0; i < count; i++)
        merger->change[tensor->part] += scale * (double)room[i] * scale * (double)room[i];
    return MT_OK;
}

/* True when there are biases, and no tensors of the checkpoint for them. */
static bool has_biases_beside(const struct merger *merger)
{
    return !merger->desc.correction_bias &&
           (merger->biases.tensor_count > 0 || merger->adapter.biases.tensor_count > 0);
}

/* The model's biases, and over them the adapter's. */
static enum mt_status write_biases(const struct merger *merger, const char *directory)
{
    size_t count = (size_t)merger->desc.layers * (size_t)merger->desc.experts;
    void *values = NULL;
    char *path = NULL;
    enum mt_status status = mt_allocate_array(merger->ctx, count, sizeof(float), &values);
    if (status == MT_OK) status = mt_path_join(merger->ctx, directory, MT_ROUTER_BIAS_OF_MODEL, &path);
    if (status == MT_OK) {
        mt_router_bias_read(&merger->biases, merger->desc.experts, values);
        mt_router_bias_read(&merger->adapter.biases, merger->desc.experts, values);
        status = mt_router_bias_write(merger->ctx, &merger->desc, values, path);
    }
    mt_path_release(merger->ctx, path);
    mt_release(merger->ctx, values, count * sizeof(float));
    return status;
}

static enum mt_status write_kept(const struct merger *merger, const char *directory)
{
    char *path = NULL;
    enum mt_status status = mt_path_join(merger->ctx, directory, MT_KEPT_FILE, &path);
    if (status == MT_OK) status = mt_kept_write(merger->ctx, &merger->desc, merger->options->kept, path);
    mt_path_release(merger->ctx, path);
    return status;
}

/* The command, and how the adapter was made. */
static enum mt_status write_card(const struct merger *merger, const char *directory)
{
    const struct mt_merge_options *options = merger->options;
    struct mt_arena arena;
    struct mt_byte_list text = {.ctx = merger->ctx};
    const char *names[3] = {"", "", ""};
    const char *story = "";
    const char *dtype = options->dtype == MT_HF_FLOAT32 ? " --dtype f32" : " --dtype bf16";
    mt_arena_init(&arena, merger->ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_card_name(&arena, options->directory, &names[0]);
    if (status == MT_OK) status = mt_card_name(&arena, options->adapter, &names[1]);
    if (status == MT_OK) status = mt_card_name(&arena, options->out, &names[2]);
    if (status == MT_OK) status = mt_card_story(&arena, options->adapter, &story);
    const char *const parts[] = {"An adapter merged into its model:\n\n    metier merge ",
                                 names[0],
                                 " --adapter ",
                                 names[1],
                                 " --out ",
                                 names[2],
                                 options->dtype == MT_HF_FLOAT_UNKNOWN ? "" : dtype,
                                 options->requantise ? " --requantise" : "",
                                 "\n",
                                 story[0] != '\0' ? "\n## The adapter\n\n" : "",
                                 story};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == MT_OK; i++)
        status = mt_byte_list_append_text(&text, parts[i]);
    if (status == MT_OK) status = mt_byte_list_append(&text, "", 1);
    const struct mt_card card = {
        .kind = MT_CARD_MODEL, .base = options->directory, .text = (const char *)text.data};
    if (status == MT_OK) status = mt_card_write(merger->ctx, directory, &card);
    mt_byte_list_free(&text);
    mt_arena_free(&arena);
    return status;
}

static enum mt_status add_files(void *self, const char *directory)
{
    const struct merger *merger = self;
    enum mt_status status = MT_OK;
    if (merger->options->adapter != NULL)
        status = mt_model_carry_trained(merger->ctx, merger->options->adapter, directory);
    if (status == MT_OK && merger->options->kept == NULL) status = write_card(merger, directory);
    if (status == MT_OK && merger->options->kept != NULL) status = write_kept(merger, directory);
    return status == MT_OK && has_biases_beside(merger) ? write_biases(merger, directory) : status;
}

// ------------------------------------------------------------------ the way in

static enum mt_status make_room(struct merger *merger)
{
    size_t rank = (size_t)merger->adapter.rank;
    void *a = NULL;
    void *b = NULL;
    if (merger->adapter.module_count == 0) return MT_OK;
    for (size_t i = 0; i < merger->adapter.module_count; i++) {
        const struct mt_adapter_pair *pair = &merger->adapter.pairs[i];
        if ((size_t)pair->in * rank > merger->a_count) merger->a_count = (size_t)pair->in * rank;
        if ((size_t)pair->out * rank > merger->b_count) merger->b_count = (size_t)pair->out * rank;
    }
    enum mt_status status = mt_allocate_array(merger->ctx, merger->a_count, sizeof(float), &a);
    merger->a = a;
    if (status == MT_OK) status = mt_allocate_array(merger->ctx, merger->b_count, sizeof(float), &b);
    merger->b = b;
    return status;
}

static void report_loss(const struct merger *merger, const struct mt_rewrite_result *written,
                        struct mt_merge_result *result)
{
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) {
        const struct mt_rewrite_loss *loss = &written->loss[part];
        if (loss->matrices == 0 || loss->size == 0.0) continue;
        result->loss[part] = (struct mt_merge_loss){.matrices = loss->matrices,
                                                    .error = sqrt(loss->error / loss->size),
                                                    .change = sqrt(merger->change[part] / loss->size)};
    }
}

/* The format of the weights: the folder's, or the one they were read in while the adapter was trained. */
static const char *format_of(const struct merger *merger)
{
    enum mt_hf_quant_method method = merger->config.quant.method;
    if (method != MT_HF_QUANT_NONE) return mt_hf_quant_name(method);
    return merger->adapter.quantise.on ? mt_quantised_name(merger->adapter.quantise.format) : NULL;
}

/* Whether weights in codes stay so. */
static bool keeps_codes(const struct merger *merger)
{
    return merger->options->requantise || merger->options->adapter == NULL;
}

/* Refuses a result in codes where there are none, or some of one format and some of another. */
static enum mt_status check_format(const struct merger *merger)
{
    const struct mt_quantise_options *quantise = &merger->adapter.quantise;
    const char *directory = merger->options->directory;
    if (!merger->options->requantise) return MT_OK;
    if (format_of(merger) == NULL) {
        return mt_fail(merger->ctx, MT_ERR_USAGE, "%s is not quantised: leave out --requantise", directory);
    }
    if (quantise->on && strcmp(format_of(merger), mt_quantised_name(quantise->format)) != 0) {
        return mt_fail(merger->ctx, MT_ERR_UNSUPPORTED,
                       "%s is in %s, but the adapter was trained with its other weights in %s, and a folder "
                       "has one format. Leave out --requantise",
                       directory, format_of(merger), mt_quantised_name(quantise->format));
    }
    if (quantise->on && mt_published_config(quantise->format, quantise->nested) == NULL) {
        return mt_fail(merger->ctx, MT_ERR_UNSUPPORTED,
                       "the adapter was trained on weights in %s, a format that metier does not write: leave "
                       "out --requantise",
                       format_of(merger));
    }
    return MT_OK;
}

/* quantization_config of the result: NULL where it is the model's, or none as before. */
static enum mt_status describe_format(const struct merger *merger, struct mt_json_text *text,
                                      const char **quantisation)
{
    bool published = merger->config.quant.method != MT_HF_QUANT_NONE;
    *quantisation = published && !keeps_codes(merger) ? "" : NULL;
    if (!merger->options->requantise || published) return MT_OK;
    enum mt_status status = mt_merge_describe_format(&merger->config, &merger->adapter.quantise, text);
    *quantisation = text->bytes;
    return status;
}

static enum mt_status write_folder(struct merger *merger, struct mt_merge_result *result)
{
    const struct mt_rewrite_source source = {
        .self = merger, .choose = choose, .fill = fill, .add_files = add_files};
    struct mt_rewrite_options options = {
        .directory = merger->options->directory,
        .out = merger->options->out,
        .dtype = merger->options->dtype,
        .shard_bytes = merger->options->shard_bytes,
        .number = merger->written.number,
        .number_count = merger->written.count,
        .renumbered = merger->options->kept != NULL ? merger->desc.names.experts : NULL,
        .requantise = keeps_codes(merger),
        .verbatim = merger->options->adapter == NULL,
        .progress = merger->options->progress,
        .label = merger->options->kept != NULL ? "pruning" : "merging",
    };
    struct mt_rewrite_result written = {0};
    struct mt_json_text text;
    mt_json_text_init(&text, merger->ctx);
    enum mt_status status = check_format(merger);
    if (status == MT_OK) status = describe_format(merger, &text, &options.quantisation);
    if (status == MT_OK)
        status = mt_rewrite(merger->ctx, &merger->config, merger->read, &source, &options, &written);
    mt_json_text_free(&text);
    if (status != MT_OK || result == NULL) return status;
    *result = (struct mt_merge_result){
        .merged = written.changed,
        .tensors = written.tensors,
        .biases = written.replaced,
        .biases_beside = has_biases_beside(merger),
        .bytes = written.bytes,
        .bytes_before = merger->checkpoint.data_bytes,
        .further = merger->further,
        .files = written.files,
        .carried = written.carried,
        .narrow = written.narrow,
        .format = format_of(merger),
        .codes = written.codes,
        .left_out = written.left_out,
    };
    report_loss(merger, &written, result);
    return MT_OK;
}

static void release(struct merger *merger)
{
    mt_release(merger->ctx, merger->a, merger->a_count * sizeof(float));
    mt_release(merger->ctx, merger->b, merger->b_count * sizeof(float));
    mt_adapter_close(&merger->adapter);
    mt_safetensors_close(&merger->biases);
    mt_checkpoint_close(&merger->checkpoint);
    mt_arena_free(&merger->arena);
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
    mt_arena_init(&merger.arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = open_model(&merger);
    if (status == MT_OK) status = check_pairs(&merger);
    if (status == MT_OK) status = shrink(&merger);
    if (status == MT_OK) status = make_room(&merger);
    if (status == MT_OK) status = write_folder(&merger, result);
    release(&merger);
    return status;
}
