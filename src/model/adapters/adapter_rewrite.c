/* An adapter in another layout: its pairs become parameters of the model they are for, and are written anew.
 */
#include "arch/published/stacks.h"
#include "base/files/file.h"
#include "model/adapters/adapter_parts.h"

enum mt_status mt_adapter_base_open(struct mt_context *ctx, const char *adapter, const char *model,
                                    struct mt_adapter_base *base)
{
    char *path = NULL;
    *base = (struct mt_adapter_base){0};
    enum mt_status status = mt_path_join(ctx, model, "config.json", &path);
    if (status == MT_OK) status = mt_hf_config_read(ctx, path, NULL, 0, &base->config);
    mt_path_release(ctx, path);
    if (status == MT_OK) status = mt_model_describe(ctx, &base->config, &base->desc);
    if (status == MT_OK) status = mt_stacks_open(ctx, model, &base->config, &base->checkpoint);
    if (status == MT_OK) status = mt_adapter_open(ctx, adapter, &base->desc, &base->adapter);
    if (status != MT_OK) return status;
    mt_adapter_select(&base->adapter, &base->selection);
    struct mt_train_selection plain = base->selection; // nothing is computed: weights may stay as they are
    plain.quantise = (struct mt_quantise_options){0};
    status = mt_device_create(ctx, "cpu", 1, &base->device);
    if (status == MT_OK)
        status = mt_params_load(base->device, &base->desc, &base->checkpoint, &plain, &base->params);
    return status == MT_OK ? mt_adapter_apply(&base->adapter, &base->params) : status;
}

void mt_adapter_base_close(struct mt_adapter_base *base)
{
    mt_params_free(&base->params);
    mt_device_destroy(base->device);
    mt_adapter_close(&base->adapter);
    mt_checkpoint_close(&base->checkpoint);
    mt_hf_config_free(&base->config);
}

enum mt_status mt_adapter_rewrite(struct mt_context *ctx, const struct mt_adapter_rewrite_options *options)
{
    struct mt_adapter_base base;
    enum mt_status status = mt_adapter_base_open(ctx, options->adapter, options->model, &base);
    const struct mt_adapter_write_options written = {.directory = options->directory,
                                                     .layout = options->layout,
                                                     .base_model = options->model,
                                                     .selection = &base.selection,
                                                     .biases = base.adapter.biases.tensor_count > 0,
                                                     .trained_from = options->adapter,
                                                     .log = options->log};
    if (status == MT_OK) status = mt_adapter_write(&base.params, &base.desc, &written);
    mt_adapter_base_close(&base);
    return status;
}
