/* metier adapter: what an adapter is, the lines that load it, and the same adapter in another layout. */
#include "cli/adapter.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "cli/adapter_check.h"
#include "cli/cli.h"
#include "formats/text/utf8.h"
#include "model/adapters/adapter_gguf.h"
#include "model/adapters/router_bias.h"

// ------------------------------------------------------------------ lines of Python, as they can be pasted

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
    // A bias in a module of its own has another name and shape in memory, and strict=False would not say so.
    bool renamed = biases && desc->correction_bias && desc->names.correction != NULL;
    if (renamed)
        printf("# %s is not loaded: the merged model (metier merge) has it\n", MT_ROUTER_BIAS_OF_ADAPTER);
    bool loaded = biases && desc->correction_bias && !renamed;
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
    // Stacked pairs of gate and up have twice the rank.
    int rank = mt_adapter_layout_stacks(desc, MT_ADAPTER_VLLM) ? 2 * adapter->rank : adapter->rank;
    while (i < most && ranks[i] < rank) i++;
    if (adapter->biases.tensor_count > 0)
        printf("# %s is not loaded%s\n", MT_ROUTER_BIAS_OF_ADAPTER,
               desc->correction_bias ? ": serve the merged model (metier merge) to have it" : "");
    if (rank > ranks[most]) printf("# vLLM takes no rank above %d\n", ranks[most]);
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
    if (status == MT_OK) status = mt_hf_config_read(ctx, path, NULL, 0, &config);
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

struct settings {
    const char *model;
    const char *layout;
    const char *to;
    const char *out;
    const char *repair; // --check, and write it mended; NULL: do not
    bool check;
    bool drop;
};

enum mt_status cli_read_layout(struct mt_context *ctx, const char *option, const char *word,
                               enum mt_adapter_layout *layout)
{
    if (mt_adapter_layout_find(word, layout)) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "%s is '%s', expected auto, per-expert, fused or vllm", option, word);
}

static enum mt_status check(const struct cli_call *call, const struct settings *settings)
{
    struct mt_context *ctx = call->ctx;
    const struct cli_void rules[] = {{settings->check || settings->repair != NULL,
                                      "--layout --to --drop --out", "with --check or --repair"}};
    if (settings->model == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--model DIR is missing");
    enum mt_status status = cli_refuse_void(call, rules, 1);
    if (status != MT_OK) return status;
    if (settings->layout != NULL && settings->out == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--layout needs --out DIR");
    if (settings->to != NULL && strcmp(settings->to, "gguf") != 0)
        return mt_fail(ctx, MT_ERR_USAGE, "--to is '%s', expected gguf", settings->to);
    if (settings->to != NULL && settings->out == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--to needs --out FILE");
    if (settings->to != NULL && settings->layout != NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--layout cannot be used with --to gguf");
    if (settings->drop && settings->to == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--drop needs --to gguf");
    return MT_OK;
}

static enum mt_status describe(struct mt_context *ctx, const char *model, const char *directory)
{
    struct mt_adapter adapter;
    enum mt_status status = mt_adapter_open_for(ctx, directory, model, &adapter);
    if (status != MT_OK) return status;
    printf("%s: %s layout, %zu pairs of rank %d, alpha %g\n", directory,
           mt_adapter_layout_name(adapter.layout), adapter.module_count, adapter.rank, adapter.alpha);
    mt_adapter_close(&adapter);
    return MT_OK;
}

static enum mt_status run(struct mt_context *ctx, const struct settings *settings, const char *directory)
{
    struct mt_log log;
    struct mt_adapter_rewrite_options options = {
        .adapter = directory, .model = settings->model, .directory = settings->out, .log = &log};
    const char *layout = settings->layout != NULL ? settings->layout : "auto";
    const char *result = settings->out != NULL ? settings->out : directory;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    enum mt_status status = cli_read_layout(ctx, "--layout", layout, &options.layout);
    if (status == MT_OK && settings->out != NULL) status = mt_adapter_rewrite(ctx, &options);
    if (status == MT_OK) status = describe(ctx, settings->model, result);
    if (status == MT_OK) status = cli_print_adapter_lines(ctx, settings->model, result);
    return status;
}

static enum mt_status write_gguf(struct mt_context *ctx, const struct settings *settings,
                                 const char *directory)
{
    struct mt_log log;
    struct mt_adapter_gguf_options options = {.adapter = directory,
                                              .model = settings->model,
                                              .path = settings->out,
                                              .drop = settings->drop,
                                              .log = &log};
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    enum mt_status status = mt_adapter_to_gguf(ctx, &options);
    if (status == MT_OK)
        printf("# the model comes from llama.cpp's convert_hf_to_gguf.py\n"
               "llama-server -m MODEL.gguf --lora %s\n",
               settings->out);
    return status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {0};
    const struct cli_option options[] = {
        {"--model", CLI_TEXT, &settings.model, "DIR", "the model the adapter is for"},
        {"--layout", CLI_TEXT, &settings.layout, "HOW", "with --out: auto, per-expert, fused or vllm (auto)"},
        {"--to", CLI_TEXT, &settings.to, "gguf", "with --out FILE: write llama.cpp's form of the adapter"},
        {"--drop", CLI_FLAG, &settings.drop, NULL, "with --to: leave out what llama.cpp does not apply"},
        {"--out", CLI_TEXT, &settings.out, "DIR",
         "write the adapter in that layout; must not exist, or be empty"},
        {"--check", CLI_FLAG, &settings.check, NULL,
         "what the adapter is, what is wrong with it, and which programs leave out parts of it"},
        {"--repair", CLI_TEXT, &settings.repair, "OUT",
         "check it, and write a mended adapter here; must not exist, or be empty"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = check(call, &settings);
    if (status != MT_OK) return status;
    if (settings.to != NULL) return write_gguf(call->ctx, &settings, call->positional[0]);
    if (!settings.check && settings.repair == NULL) return run(call->ctx, &settings, call->positional[0]);
    const struct cli_adapter_check asked = {
        .directory = call->positional[0], .model = settings.model, .out = settings.repair};
    bool sound = true;
    status = cli_adapter_check(call->ctx, &asked, &sound);
    if (status == MT_OK && !sound) call->exit_status = 1;
    return status;
}

const struct cli_verb cli_verb_adapter = {
    .name = "adapter",
    .summary = "check, mend or rewrite an adapter, and print the lines of Python that load it",
    .arguments = "ADAPTER --model DIR",
    .wanted = "an adapter's folder",
    .details =
        "ADAPTER is the folder of a PEFT adapter, as metier train or PEFT writes it. DIR is its model's "
        "folder.\n"
        "The command prints the adapter's layout and the lines of Python that load it. With --out it also\n"
        "writes the adapter again, with the same values, in one of these layouts:\n"
        "  auto        what PEFT with transformers >= 5.22 loads correctly for this model\n"
        "  fused       as in transformers 5: one pair for all experts of a layer\n"
        "  per-expert  as in transformers 4: a pair for each projection of each expert, with the "
        "checkpoint's names\n"
        "  vllm        as vLLM needs it: per-expert, with zeros for experts that have no pair\n"
        "With --to gguf it writes one file for llama.cpp instead. metier names the pairs that llama.cpp "
        "would\n"
        "ignore and refuses to write, unless you pass --drop.\n"
        "The output appears whole or not at all. docs/adapters.md says which program reads which layout.\n"
        "--check compares anybody's adapter with its model: pairs whose names or shapes fit nothing, "
        "experts\n"
        "in another order, experts that were lost in saving, values that cannot be right. It prints what is\n"
        "wrong, which programs that concerns and how to mend it, and what single programs leave out.\n"
        "--repair OUT also writes a mended adapter, if metier can mend it with certainty. The exit status "
        "is\n"
        "1 if there are findings that are not mended.",
    .examples =
        "  metier adapter runs/first/adapter --model models/moe\n"
        "  metier adapter runs/first/adapter --model models/moe --layout vllm --out runs/first/adapter-vllm\n"
        "  metier adapter downloaded --model models/moe --out for-transformers-5\n"
        "  metier adapter downloaded --model models/moe --check\n"
        "  metier adapter downloaded --model models/moe --repair mended\n"
        "  metier adapter runs/first/adapter --model models/moe --to gguf --out first.gguf",
    .run = run_verb,
};
