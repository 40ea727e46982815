/* metier/adapter.h: what training leaves. */
#include "metier/adapter.h"

#include "library/lm.h"
#include "model/adapters/adapter.h"
#include "model/files/export.h"
#include "model/files/merge.h"

enum mt_status mt_lm_save_adapter(struct mt_lm *lm, const char *folder, const char *layout)
{
    struct mt_adapter_write_options options = {.directory = folder, .biases = true};
    enum mt_status status = mt_given(NULL, "mt_lm_save_adapter", "lm", lm);
    if (status == MT_OK) status = mt_given(lm->ctx, "mt_lm_save_adapter", "folder", folder);
    if (status != MT_OK) return status;
    options.base_model = lm->folder;
    options.selection = &lm->selection;
    if (lm->training != MT_LM_LORA)
        return mt_fail(lm->ctx, MT_ERR_USAGE, "only a model opened with MT_LM_LORA has an adapter");
    if (layout != NULL && !mt_adapter_layout_find(layout, &options.layout))
        return mt_fail(lm->ctx, MT_ERR_USAGE, "the layout is '%s', expected auto, per-expert, fused or vllm",
                       layout);
    status = mt_lm_describe_form(lm, &options.trained);
    if (status == MT_OK)
        status = mt_adapter_write(mt_model_params(lm->model), mt_model_description(lm->model), &options);
    return status;
}

enum mt_status mt_lm_save_model(struct mt_lm *lm, const char *folder)
{
    struct mt_export_options options = {.out = folder};
    enum mt_status status = mt_given(NULL, "mt_lm_save_model", "lm", lm);
    if (status == MT_OK) status = mt_given(lm->ctx, "mt_lm_save_model", "folder", folder);
    if (status == MT_OK) status = mt_lm_describe_form(lm, &options.trained);
    if (status != MT_OK) return status;
    options.directory = lm->folder;
    return mt_model_export(mt_model_params(lm->model), mt_model_description(lm->model), &options, NULL);
}

enum mt_status mt_merge_adapter(struct mt_context *ctx, const char *model, const char *adapter,
                                const char *out, int threads)
{
    const struct mt_merge_options options = {
        .directory = model, .adapter = adapter, .out = out, .threads = threads};
    enum mt_status status = mt_given(NULL, "mt_merge_adapter", "ctx", ctx);
    if (status == MT_OK) status = mt_given(ctx, "mt_merge_adapter", "model", model);
    if (status == MT_OK) status = mt_given(ctx, "mt_merge_adapter", "adapter", adapter);
    if (status == MT_OK) status = mt_given(ctx, "mt_merge_adapter", "out", out);
    if (status != MT_OK) return status;
    if (threads < 0)
        return mt_fail(ctx, MT_ERR_USAGE, "mt_merge_adapter: threads is %d, expected 0 or more", threads);
    return mt_merge(ctx, &options, NULL);
}
