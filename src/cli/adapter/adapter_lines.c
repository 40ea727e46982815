/* The lines of Python that load an adapter, as they can be pasted. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "cli/adapter/adapter.h"
#include "formats/text/utf8.h"
#include "model/adapters/router_bias.h"

/* A name as a Python string; bytes that are no UTF-8 as Python itself reads them from the system. */
static void print_text(const char *text)
{
    size_t left = strlen(text);
    const uint8_t *at = (const uint8_t *)text;
    (void)putchar('"');
    while (left > 0) {
        size_t bad = 0;
        bool cut = false;
        size_t bytes = mt_utf8_check(at, left, &bad, &cut);
        if (bytes == 0) {
            printf("\\udc%02x", *at);
            bytes = 1;
        } else if (*at == '"' || *at == '\\') {
            printf("\\%c", *at);
        } else if (*at < 0x20 || *at == 0x7F) {
            printf("\\x%02x", *at);
        } else {
            (void)fwrite(at, 1, bytes, stdout);
        }
        at += bytes;
        left -= bytes;
    }
    (void)putchar('"');
}

/* The absolute name of a folder, so that the lines work anywhere. */
static enum mt_status absolute_path(struct mt_context *ctx, const char *path, char **absolute)
{
    char here[PATH_MAX];
    if (getcwd(here, sizeof here) == NULL) here[0] = '\0';
    return mt_path_join(ctx, here, path, absolute);
}

/* What is loaded from where. */
struct places {
    char *model, *adapter, *biases; // owned
};

static void release_places(struct mt_context *ctx, struct places *places)
{
    mt_path_release(ctx, places->model);
    mt_path_release(ctx, places->adapter);
    mt_path_release(ctx, places->biases);
}

static void print_peft(const struct mt_adapter *adapter, const struct mt_model_desc *desc,
                       const struct places *places)
{
    const char *own_code = desc->loaders.own_code;
    bool biases = adapter->biases.tensor_count > 0;
    if (own_code != NULL) {
        printf("# transformers has no class for this model: its folder needs modeling_%s.py and\n"
               "# configuration_%s.py as published with it, which are for transformers 4\n",
               own_code, own_code);
    } else if (adapter->layout == MT_ADAPTER_FUSED) {
        printf("# transformers >= 5.22, PEFT >= 0.21\n");
    } else {
        printf("# transformers 4 (metier adapter rewrites the adapter for 5)\n");
    }
    if (biases && !desc->correction_bias)
        printf("# %s is not loaded: transformers has no place for it\n", MT_ROUTER_BIAS_OF_ADAPTER);
    bool loaded = biases && desc->correction_bias;
    printf("import peft, transformers%s\n", loaded ? ", safetensors.torch" : "");
    printf("base = transformers.AutoModelForCausalLM.from_pretrained(");
    print_text(places->model);
    printf("%s)", own_code != NULL ? ", trust_remote_code=True" : "");
    if (loaded) {
        printf("; _ = base.load_state_dict(safetensors.torch.load_file(");
        print_text(places->biases);
        printf("), strict=False)");
    }
    printf("\nmodel = peft.PeftModel.from_pretrained(base, ");
    print_text(places->adapter);
    printf(")\n");
}

static void print_vllm(const struct mt_adapter *adapter, const struct mt_model_desc *desc,
                       const struct places *places)
{
    static const int ranks[] = {8, 16, 32, 64, 128, 256, 320, 512}; // that vLLM has
    size_t most = sizeof ranks / sizeof ranks[0] - 1;
    size_t i = 0;
    while (i < most && ranks[i] < adapter->rank) i++;
    if (adapter->biases.tensor_count > 0)
        printf("# %s is not loaded%s\n", MT_ROUTER_BIAS_OF_ADAPTER,
               desc->correction_bias ? ": serve the merged model (metier merge) to have it" : "");
    if (adapter->rank > ranks[most]) printf("# vLLM takes no rank above %d\n", ranks[most]);
    printf("import vllm, vllm.lora.request\nllm = vllm.LLM(");
    print_text(places->model);
    printf(", enable_lora=True, max_lora_rank=%d)\nadapter = vllm.lora.request.LoRARequest(\"adapter\", 1, ",
           ranks[i]);
    print_text(places->adapter);
    printf(")  # llm.generate(..., lora_request=adapter)\n");
}

enum mt_status cli_print_adapter_lines(struct mt_context *ctx, const char *model, const char *directory)
{
    struct mt_hf_config config = {0};
    struct mt_model_desc desc;
    struct mt_adapter adapter = {0};
    struct places places = {0};
    char *path = NULL;
    enum mt_status status = mt_path_join(ctx, model, "config.json", &path);
    if (status == MT_OK) status = mt_hf_config_read(ctx, path, &config);
    if (status == MT_OK) status = mt_model_describe(ctx, &config, &desc);
    if (status == MT_OK) status = mt_adapter_open(ctx, directory, &desc, &adapter);
    if (status == MT_OK) status = absolute_path(ctx, model, &places.model);
    if (status == MT_OK) status = absolute_path(ctx, directory, &places.adapter);
    if (status == MT_OK)
        status = mt_path_join(ctx, places.adapter, MT_ROUTER_BIAS_OF_ADAPTER, &places.biases);
    if (status == MT_OK && adapter.layout == MT_ADAPTER_VLLM) print_vllm(&adapter, &desc, &places);
    if (status == MT_OK && adapter.layout != MT_ADAPTER_VLLM) print_peft(&adapter, &desc, &places);
    release_places(ctx, &places);
    mt_adapter_close(&adapter);
    mt_hf_config_free(&config);
    mt_path_release(ctx, path);
    return status;
}
