/* An adapter in another layout: its pairs become parameters of the model they are for, and are written anew.
 */
#include "arch/published/stacks.h"
#include "base/files/file.h"
#include "model/adapters/adapter_parts.h"

struct rewriter {
    struct mt_context *ctx;
    const struct mt_adapter_rewrite_options *options;
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_checkpoint checkpoint;
    struct mt_adapter adapter;
    struct mt_train_selection selection;
    struct mt_device *device;
    struct mt_params params;
};

static enum mt_status load(struct rewriter *rewriter)
{
    struct mt_context *ctx = rewriter->ctx;
    const char *model = rewriter->options->model;
    char *path = NULL;
    enum mt_status status = mt_path_join(ctx, model, "config.json", &path);
    if (status == MT_OK) status = mt_hf_config_read(ctx, path, NULL, 0, &rewriter->config);
    mt_path_release(ctx, path);
    if (status == MT_OK) status = mt_model_describe(ctx, &rewriter->config, &rewriter->desc);
    if (status == MT_OK) status = mt_stacks_open(ctx, model, &rewriter->config, &rewriter->checkpoint);
    if (status == MT_OK)
        status = mt_adapter_open(ctx, rewriter->options->adapter, &rewriter->desc, &rewriter->adapter);
    if (status != MT_OK) return status;
    mt_adapter_select(&rewriter->adapter, &rewriter->selection);
    struct mt_train_selection plain =
        rewriter->selection; // nothing is computed: weights may stay as they are
    plain.quantise = (struct mt_quantise_options){0};
    status = mt_device_create(ctx, "cpu", 1, &rewriter->device);
    if (status == MT_OK) {
        status = mt_params_load(rewriter->device, &rewriter->desc, &rewriter->checkpoint, &plain,
                                &rewriter->params);
    }
    return status == MT_OK ? mt_adapter_apply(&rewriter->adapter, &rewriter->params) : status;
}

enum mt_status mt_adapter_rewrite(struct mt_context *ctx, const struct mt_adapter_rewrite_options *options)
{
    struct rewriter rewriter = {.ctx = ctx, .options = options};
    enum mt_status status = load(&rewriter);
    const struct mt_adapter_write_options written = {.directory = options->directory,
                                                     .layout = options->layout,
                                                     .base_model = options->model,
                                                     .selection = &rewriter.selection,
                                                     .biases = rewriter.adapter.biases.tensor_count > 0,
                                                     .trained_from = options->adapter,
                                                     .log = options->log};
    if (status == MT_OK) status = mt_adapter_write(&rewriter.params, &rewriter.desc, &written);
    mt_params_free(&rewriter.params);
    mt_device_destroy(rewriter.device);
    mt_adapter_close(&rewriter.adapter);
    mt_checkpoint_close(&rewriter.checkpoint);
    mt_hf_config_free(&rewriter.config);
    return status;
}
