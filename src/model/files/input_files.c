/* The files of a model, a tokenizer and an adapter. */
#include "model/files/input_files.h"

#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "model/adapters/adapter.h"
#include "model/adapters/router_bias.h"
#include "model/files/carried_files.h"
#include "text/text_form.h"

static enum mt_status add_names(struct mt_fingerprint *print, const char *folder, const char *const *names)
{
    enum mt_status status = MT_OK;
    for (; *names != NULL && status == MT_OK; names++)
        status = mt_fingerprint_add_named(print, folder, *names);
    return status;
}

enum mt_status mt_input_files_model(struct mt_fingerprint *print, const char *folder)
{
    static const char *const names[] = {"config.json", "generation_config.json", NULL};
    enum mt_status status = add_names(print, folder, names);
    if (status == MT_OK) status = mt_fingerprint_add_checkpoint(print, folder);
    return status == MT_OK ? mt_fingerprint_add_weights(print, folder, MT_ROUTER_BIAS_OF_MODEL) : status;
}

enum mt_status mt_input_files_tokenizer(struct mt_fingerprint *print, const char *path)
{
    static const char *const tokens[] = {"tokenizer.json", "tiktoken.model", NULL};
    static const char *const beside[] = {"tokenizer_config.json",
                                         MT_CHAT_TEMPLATE_FILE,
                                         "chat_template.json",
                                         MT_TEXT_FORM_FILE,
                                         "additional_chat_templates/tool_use.jinja",
                                         NULL};
    struct mt_context *ctx = print->arena.ctx;
    struct stat info;
    char *folder = NULL;
    enum mt_status status = mt_path_join(ctx, "", path, &folder); // a copy
    size_t bytes = strlen(path) + 1;
    if (status != MT_OK) return status;
    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) {
        char *slash = strrchr(folder, '/');
        if (slash != NULL) slash[1] = '\0';
        if (slash == NULL) folder[0] = '\0';
        status = mt_fingerprint_add(print, path);
    } else {
        status = add_names(print, folder, tokens);
    }
    if (status == MT_OK) status = add_names(print, folder, beside);
    mt_release(ctx, folder, bytes);
    return status;
}

enum mt_status mt_input_files_adapter(struct mt_fingerprint *print, const char *folder)
{
    static const char *const names[] = {MT_ADAPTER_CONFIG, MT_CHAT_TEMPLATE_FILE, MT_TEXT_FORM_FILE, NULL};
    enum mt_status status = add_names(print, folder, names);
    if (status == MT_OK) status = mt_fingerprint_add_weights(print, folder, MT_ADAPTER_WEIGHTS);
    return status == MT_OK ? mt_fingerprint_add_weights(print, folder, MT_ROUTER_BIAS_OF_ADAPTER) : status;
}
