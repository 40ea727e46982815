/* Copies of one expert; the rest is rewrite.c's. */
#include "model/files/upcycle.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "arch/published/stacks.h"
#include "base/rng.h"
#include "model/files/rewrite.h"
#include "model/params/params.h"
#include "model/params/stream.h"

struct upcycler {
    const struct mt_upcycle_options *options;
    struct mt_checkpoint checkpoint;
    size_t copied;
};

/* The same tensor of the expert that is copied; NULL where that is no tensor of an expert. */
static const struct mt_safetensors_tensor *source_of(const struct upcycler *upcycler, const char *name)
{
    static const char experts[] = ".experts.";
    const char *found = strstr(name, experts);
    char source[MT_PARAMS_NAME_BYTES];
    if (found == NULL) return NULL;
    const char *number = found + strlen(experts);
    const char *rest = number + strspn(number, "0123456789");
    if (rest == number || *rest != '.') return NULL;
    int length = snprintf(source, sizeof source, "%.*s%" PRId64 "%s", (int)(number - name), name,
                          upcycler->options->expert, rest);
    if (length < 0 || (size_t)length >= sizeof source) return NULL;
    return mt_checkpoint_find(&upcycler->checkpoint, source);
}

static void choose(void *self, struct mt_rewrite_tensor *tensor)
{
    struct upcycler *upcycler = self;
    const struct mt_safetensors_tensor *source =
        tensor->part == MT_PART_EXPERTS ? source_of(upcycler, tensor->name) : NULL;
    if (source == NULL) return;
    upcycler->copied++;
    tensor->stored = source;
    tensor->from = mt_params_stored_type(source);
    if (upcycler->options->noise <= 0.0) return;
    tensor->change = upcycler;
    tensor->row = tensor->dim[tensor->rank - 1];
}

/* The copy, and noise in proportion to each row's length. */
static enum mt_status fill(void *self, const struct mt_rewrite_tensor *tensor, int64_t first, int64_t count,
                           float *values, float *room)
{
    const struct upcycler *upcycler = self;
    uint64_t stream = mt_stream_of_name(tensor->name);
    float normal[4];
    mt_rewrite_read(tensor, first, count, values, room);
    for (int64_t start = 0; start < count; start += tensor->row) {
        double squares = 0.0;
        for (int64_t i = start; i < start + tensor->row; i++)
            squares += (double)values[i] * (double)values[i];
        double size = upcycler->options->noise * sqrt(squares / (double)tensor->row);
        for (int64_t i = start; i < start + tensor->row; i++) {
            uint64_t place = (uint64_t)(first + i);
            if (i == 0 || place % 4 == 0) mt_rng_normals(upcycler->options->seed, stream, place / 4, normal);
            values[i] += (float)(size * (double)normal[place % 4]);
        }
    }
    return MT_OK;
}

static enum mt_status check(struct mt_context *ctx, const struct mt_hf_config *config,
                            const struct mt_upcycle_options *options)
{
    if (config->experts == 0)
        return mt_fail(ctx, MT_ERR_USAGE, "%s: no layer has experts", options->directory);
    if (options->expert < 0 || options->expert >= config->experts)
        return mt_fail(ctx, MT_ERR_USAGE, "--expert is %" PRId64 ", but the model has experts 0 to %" PRId64,
                       options->expert, config->experts - 1);
    if (config->quant.method != MT_HF_QUANT_NONE)
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "%s: its weights are quantised; give a folder with weights in floats",
                       options->directory);
    return MT_OK;
}

enum mt_status mt_model_upcycle(struct mt_context *ctx, const struct mt_upcycle_options *options,
                                struct mt_upcycle_result *result)
{
    struct upcycler upcycler = {.options = options};
    struct mt_hf_config config = {0};
    struct mt_model_desc desc;
    struct mt_rewrite_result written = {0};
    const struct mt_rewrite_source source = {.self = &upcycler, .choose = choose, .fill = fill};
    const struct mt_rewrite_options rewrite = {.directory = options->directory,
                                               .out = options->out,
                                               .progress = options->progress,
                                               .label = "upcycling"};
    enum mt_status status = mt_hf_config_read_folder(ctx, options->directory, &config);
    if (status != MT_OK) return status;
    status = check(ctx, &config, options);
    if (status == MT_OK) status = mt_model_describe(ctx, &config, &desc);
    if (status == MT_OK) status = mt_stacks_open(ctx, options->directory, &config, &upcycler.checkpoint);
    if (status == MT_OK) status = mt_params_check(ctx, &desc, &upcycler.checkpoint);
    if (status == MT_OK) status = mt_rewrite(ctx, &config, &upcycler.checkpoint, &source, &rewrite, &written);
    mt_checkpoint_close(&upcycler.checkpoint);
    mt_hf_config_free(&config);
    *result = (struct mt_upcycle_result){
        .tensors = upcycler.copied, .files = written.files, .bytes = written.bytes};
    return status;
}
