/* The quantization_config of a folder that was quantised while it was merged. */
#include "model/files/merge_format.h"

#include <string.h>

#include "arch/arch.h"
#include "arch/published/published_write.h"
#include "model/params/loading.h"

/* The module of a linear layer, or of all routed experts of a layer. */
static void name_module(const struct mt_hf_config *config, const struct mt_model_tensor *tensor, char *module,
                        size_t bytes)
{
    if (tensor->expert < 0) {
        mt_params_module_name(tensor->name, module, bytes);
        return;
    }
    (void)snprintf(module, bytes, "model.layers.%lld.%s", (long long)tensor->layer,
                   config->arch->names.experts);
}

static enum mt_status list_floats(const struct mt_hf_config *config,
                                  const struct mt_quantise_options *options, struct mt_json_text *text)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(config);
    struct mt_model_tensor tensor;
    char module[MT_MODEL_NAME_BYTES];
    char before[MT_MODEL_NAME_BYTES] = "";
    enum mt_status status = MT_OK;
    while (status == MT_OK && mt_model_tensors_next(&walk, &tensor)) {
        if (!mt_params_is_linear(&tensor) || mt_quantise_takes(options, &tensor)) continue;
        name_module(config, &tensor, module, sizeof module);
        if (strcmp(module, before) == 0) continue; // the experts of a layer follow each other
        status = mt_json_text_format(text, "%s\"%s\"", before[0] != '\0' ? ", " : "", module);
        memcpy(before, module, sizeof before);
    }
    return status;
}

enum mt_status mt_merge_describe_format(const struct mt_hf_config *config,
                                        const struct mt_quantise_options *options, struct mt_json_text *text)
{
    const char *base = mt_published_config(options->format, options->nested);
    const char *key =
        options->format == MT_QUANTISED_NF4 ? "llm_int8_skip_modules" : "modules_to_not_convert";
    int length = (int)strlen(base) - 1; // without its brace
    enum mt_status status = mt_json_text_format(text, "%.*s", length, base);
    if (status == MT_OK) status = mt_json_text_format(text, ", \"%s\": [", key);
    if (status == MT_OK) status = list_floats(config, options, text);
    return status == MT_OK ? mt_json_text_format(text, "]}%c", '\0') : status;
}
