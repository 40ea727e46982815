/* Everything that settings name and a run reads. */
#include "train/state/inputs.h"

#include "base/files/file.h"
#include "model/files/input_files.h"

static enum mt_status add_template(struct mt_fingerprint *print, const char *templates, const char *name)
{
    struct mt_context *ctx = print->arena.ctx;
    char *path = NULL;
    enum mt_status status = mt_chat_template_file(ctx, templates, name, &path);
    if (status == MT_OK && path != NULL) status = mt_fingerprint_add(print, path);
    mt_path_release(ctx, path);
    return status;
}

enum mt_status mt_train_inputs(struct mt_fingerprint *print, const struct mt_train_settings *settings,
                               const char *templates)
{
    const char *tokenizer = settings->tokenizer != NULL ? settings->tokenizer : settings->model;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < settings->source_count && status == MT_OK; i++)
        status = mt_fingerprint_add(print, settings->sources[i].path);
    if (status == MT_OK) status = mt_input_files_tokenizer(print, tokenizer);
    if (status == MT_OK) status = add_template(print, templates, settings->template_name);
    if (status == MT_OK && settings->experts != NULL) status = mt_fingerprint_add(print, settings->experts);
    if (status == MT_OK && settings->choices != NULL) status = mt_fingerprint_add(print, settings->choices);
    if (status == MT_OK && settings->adapter != NULL)
        status = mt_input_files_adapter(print, settings->adapter);
    if (status == MT_OK) status = mt_input_files_model(print, settings->model);
    for (size_t i = 0; i < settings->held_out_count && status == MT_OK; i++)
        status = mt_fingerprint_add_free(print, settings->held_out[i].path);
    return status;
}
