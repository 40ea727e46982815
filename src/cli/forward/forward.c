/* metier forward: runs a model on token ids and writes down everything it did. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/adapter.h"
#include "cli/cli.h"
#include "cli/forward/forward.h"
#include "cli/objective/objective.h"
#include "cli/shared/device.h"
#include "model/adapters/adapter.h"
#include "model/params/stream.h"
#include "train/data/choices.h"

#define MAX_TARGETS 64

/* "a,b,c" cut apart. */
struct target_list {
    char *text; // owned copy
    size_t bytes;
    const char *target[MAX_TARGETS + 1]; // ends with NULL
};

static enum mt_status cut_targets(struct mt_context *ctx, const char *text, struct target_list *list)
{
    void *memory = NULL;
    list->bytes = strlen(text) + 1;
    enum mt_status status = mt_allocate(ctx, list->bytes, &memory);
    if (status != MT_OK) return status;
    list->text = memory;
    memcpy(list->text, text, list->bytes);
    int count = 0;
    for (char *word = list->text; word != NULL && *word != '\0';) {
        char *comma = strchr(word, ',');
        if (comma != NULL) *comma++ = '\0';
        if (*word != '\0' && count == MAX_TARGETS)
            return mt_fail(ctx, MT_ERR_USAGE, "--targets names more than %d parts", MAX_TARGETS);
        if (*word != '\0') list->target[count++] = word;
        word = comma;
    }
    if (count == 0) return mt_fail(ctx, MT_ERR_USAGE, "--targets is empty");
    return MT_OK;
}

static enum mt_status read_recompute(struct mt_context *ctx, const char *word, enum mt_recompute *recompute)
{
    static const char *const words[] = {
        [MT_RECOMPUTE_NONE] = "none", [MT_RECOMPUTE_MOE] = "moe", [MT_RECOMPUTE_FULL] = "full"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i]) != 0) continue;
        *recompute = (enum mt_recompute)i;
        return MT_OK;
    }
    return mt_fail(ctx, MT_ERR_USAGE, "--recompute is '%s', expected none, moe or full", word);
}

static enum mt_status read_activations(struct mt_device *device, const char *word, enum mt_dtype *type)
{
    *type = mt_device_activations(device);
    if (strcmp(word, "f32") == 0) *type = MT_F32;
    if (strcmp(word, "bf16") == 0) *type = MT_BF16;
    if (strcmp(word, "auto") == 0 || strcmp(word, mt_dtype_name(*type)) == 0) return MT_OK;
    return mt_fail(mt_device_context(device), MT_ERR_USAGE,
                   "--activations is '%s', expected auto, f32 or bf16", word);
}

static enum mt_status read_method(struct mt_context *ctx, const struct forward_settings *settings,
                                  struct mt_objective_config *method)
{
    enum mt_status status = mt_objective_config_method(ctx, settings->method, method);
    for (int i = 0; status == MT_OK && i < settings->key_count; i++) {
        char key[64];
        const char *equals = strchr(settings->keys[i], '=');
        size_t length = equals != NULL ? (size_t)(equals - settings->keys[i]) : sizeof key;
        if (length >= sizeof key)
            return mt_fail(ctx, MT_ERR_USAGE,
                           "unexpected argument '%s'; a method's keys are given as key=value",
                           settings->keys[i]);
        memcpy(key, settings->keys[i], length);
        key[length] = '\0';
        status = mt_objective_config_set(ctx, method, key, equals + 1);
    }
    if (status == MT_OK) status = mt_objective_config_check(ctx, method);
    const char *noiseless = settings->training ? NULL : "without --training nothing is drawn or dropped";
    if (status != MT_OK) return status;
    return cli_refuse_idle_keys(ctx, method, noiseless, settings->keys, settings->key_count);
}

static bool trains_lora(const struct forward_settings *settings)
{
    return settings->train != NULL && strcmp(settings->train, "lora") == 0;
}

/* LoRA's B from the seed, so that gradients of A are not zero. */
static enum mt_status draw_lora_b(struct mt_device *device, const struct forward_settings *settings,
                                  struct mt_params *params)
{
    struct mt_context *ctx = mt_device_context(device);
    for (size_t i = 0; settings->lora_b_deviation > 0.0 && i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        if (strstr(param->name, ".lora_B.") == NULL) continue;
        int64_t count = mt_tensor_count(&param->value);
        void *memory = NULL;
        enum mt_status status = mt_allocate_array(ctx, (size_t)count, sizeof(float), &memory);
        if (status != MT_OK) return status;
        float *values = memory;
        uint64_t stream = mt_stream_of_name(param->name);
        for (int64_t j = 0; j < count; j++) {
            values[j] = (float)settings->lora_b_deviation *
                        mt_rng_normal((uint64_t)settings->seed, stream, (uint64_t)j);
        }
        status = mt_device_upload(device, param->value.data, values, (size_t)count * sizeof(float));
        mt_release(ctx, memory, (size_t)count * sizeof(float));
        if (status != MT_OK) return status;
    }
    return mt_params_round(params);
}

static enum mt_status save_adapter(struct mt_context *ctx, const struct forward_settings *settings,
                                   const struct mt_train_selection *selection, struct mt_model *model)
{
    struct mt_adapter_write_options options = {.directory = settings->save_adapter,
                                               .base_model = settings->directory,
                                               .selection = selection,
                                               .biases = true,
                                               .trained_from = settings->adapter};
    if (settings->save_adapter == NULL) return MT_OK;
    struct mt_log log;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    options.log = &log;
    enum mt_status status =
        cli_read_layout(ctx, "--adapter-layout", settings->adapter_layout, &options.layout);
    if (status != MT_OK) return status;
    return mt_adapter_write(mt_model_params(model), mt_model_description(model), &options);
}

/* The experts of every token, from --choices. */
static enum mt_status take_choices(struct mt_context *ctx, const struct forward_settings *settings,
                                   const struct mt_model_desc *desc, struct mt_choices *choices,
                                   struct mt_batch *batch)
{
    const struct mt_choice_shape shape = {
        .layers = mt_model_moe_layers(desc, NULL), .slots = desc->router.slots, .experts = desc->experts};
    if (settings->choices == NULL) return MT_OK;
    enum mt_status status = mt_choices_open(ctx, settings->choices, &shape, batch->tokens, choices);
    return status == MT_OK ? mt_choices_take(choices, batch) : status;
}

static enum mt_status run_model(struct mt_device *device, const struct forward_settings *settings,
                                const struct forward_ids *ids, struct mt_model *model)
{
    struct mt_context *ctx = mt_device_context(device);
    const struct mt_model_desc *desc = mt_model_description(model);
    struct forward_results results = {.model = model, .moe_layers = mt_model_moe_layers(desc, NULL)};
    struct mt_batch batch = {.tokens = (int64_t)ids->ids.count,
                             .sequences = (int64_t)ids->offsets.count - 1,
                             .ids = ids->ids.data,
                             .offsets = ids->offsets.data,
                             .labels = settings->grads ? ids->labels.data : NULL,
                             .training = settings->training,
                             .progress = 1.0};
    enum mt_status status = cli_forward_ids_check(ctx, ids, desc->vocabulary);
    if (status == MT_OK) status = draw_lora_b(device, settings, mt_model_params(model));
    if (status != MT_OK) return status;
    struct mt_choices choices = {0};
    status = take_choices(ctx, settings, desc, &choices, &batch);
    double start = mt_clock_seconds();
    if (status == MT_OK) status = mt_model_forward(model, &batch, &results.loss);
    mt_choices_close(&choices);
    if (status == MT_OK && settings->grads) status = mt_model_backward(model);
    if (status == MT_OK) status = mt_device_synchronise(device);
    if (status != MT_OK) return status;
    results.seconds = mt_clock_seconds() - start;
    if (settings->out != NULL) {
        status = cli_forward_write(ctx, settings, ids, &results);
        if (status != MT_OK) return status;
    }
    return cli_forward_report(ctx, settings, ids, &results);
}

/* What the model is opened with; `targets` and `method` are the caller's and must live as long as it opens.
 */
static enum mt_status make_options(struct mt_context *ctx, const struct forward_settings *settings,
                                   const struct forward_ids *ids, struct target_list *targets,
                                   struct mt_objective_config *method, struct mt_model_options *options)
{
    *options = (struct mt_model_options){.tokens = (int64_t)ids->ids.count,
                                         .sequences = (int64_t)ids->offsets.count - 1,
                                         .positions = ids->longest,
                                         .backward = settings->grads,
                                         .keep_hidden = true,
                                         .choices = settings->choices != NULL};
    options->selection.seed = (uint64_t)settings->seed;
    enum mt_status status = read_recompute(ctx, settings->recompute, &options->recompute);
    if (status == MT_OK && settings->method != NULL) {
        status = read_method(ctx, settings, method);
        options->objective = method;
    }
    // An adapter brings its own selection.
    if (status != MT_OK || !settings->grads || settings->adapter != NULL) return status;
    status = cut_targets(ctx, settings->targets != NULL ? settings->targets : "*", targets);
    if (status != MT_OK) return status;
    if (trains_lora(settings)) {
        options->selection.lora = targets->target;
        options->selection.lora_rank = (int)settings->rank;
        options->selection.lora_alpha = settings->alpha;
    } else {
        options->selection.full = targets->target;
    }
    return MT_OK;
}

static enum mt_status run(struct mt_context *ctx, const struct forward_settings *settings,
                          const struct forward_ids *ids)
{
    struct mt_device *device = NULL;
    struct mt_model *model = NULL;
    struct mt_adapter adapter = {0};
    struct target_list targets = {0};
    struct mt_objective_config method;
    struct mt_model_options options;
    struct mt_log log;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    enum mt_status status = make_options(ctx, settings, ids, &targets, &method, &options);
    if (status == MT_OK && settings->adapter != NULL) {
        status = mt_adapter_open_for(ctx, settings->adapter, settings->directory, &adapter);
        if (status == MT_OK) mt_adapter_select(&adapter, &options.selection);
    }
    if (status == MT_OK && settings->quantise != NULL)
        status = mt_quantise_parse(ctx, settings->quantise, &options.selection.quantise);
    if (status == MT_OK)
        status = cli_open_device(ctx, settings->device, MT_USE_EXACT, (int)settings->threads, &device);
    options.selection.log = &log;
    if (status == MT_OK) status = read_activations(device, settings->activations, &options.activations);
    if (status == MT_OK) status = mt_model_open(device, settings->directory, &options, &model);
    if (status == MT_OK && settings->adapter != NULL)
        status = mt_adapter_apply(&adapter, mt_model_params(model));
    if (status == MT_OK) status = run_model(device, settings, ids, model);
    if (status == MT_OK) status = save_adapter(ctx, settings, &options.selection, model);
    mt_model_close(model);
    mt_device_destroy(device);
    mt_adapter_close(&adapter);
    mt_release(ctx, targets.text, targets.bytes);
    return status;
}

static enum mt_status check(const struct forward_settings *settings, const struct cli_call *call)
{
    struct mt_context *ctx = call->ctx;
    const char *train = settings->train;
    enum mt_adapter_layout layout;
    enum mt_status status = cli_read_layout(ctx, "--adapter-layout", settings->adapter_layout, &layout);
    if (status != MT_OK) return status;
    if (train != NULL && strcmp(train, "full") != 0 && strcmp(train, "lora") != 0)
        return mt_fail(ctx, MT_ERR_USAGE, "--train is '%s', expected full or lora", train);
    if (settings->adapter != NULL && train != NULL && !trains_lora(settings))
        return mt_fail(ctx, MT_ERR_USAGE, "--adapter trains the adapter's own pairs: leave out --train full");
    if (settings->adapter != NULL && (settings->targets != NULL || settings->lora_b_deviation > 0.0))
        return mt_fail(ctx, MT_ERR_USAGE, "--targets and --lora-b-std are for LoRA without --adapter");
    if (settings->key_count > 0 && settings->method == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "unexpected argument '%s'", settings->keys[0]);
    if (settings->save_adapter != NULL && settings->adapter == NULL && !trains_lora(settings))
        return mt_fail(ctx, MT_ERR_USAGE, "--save-adapter needs --adapter or --train lora");
    if (!settings->grads && (settings->method != NULL || train != NULL))
        return mt_fail(ctx, MT_ERR_USAGE, "--method and --train need --grads");
    status = cli_check_limits(ctx, &(struct cli_limit){"--rank", settings->rank, 1, 65536}, 1);
    if (status != MT_OK) return status;
    bool lora = trains_lora(settings);
    const struct cli_void rules[] = {
        {!settings->grads, "--recompute --targets", "without --grads"},
        {settings->adapter != NULL, "--rank --alpha", "with --adapter, which has its own"},
        {!lora, "--rank --alpha --lora-b-std", "without --train lora"},
        {!lora && !settings->training, "--seed", "without --train lora or --training: nothing is drawn"},
        {settings->save_adapter == NULL, "--adapter-layout", "without --save-adapter"},
    };
    return cli_refuse_void(call, rules, sizeof rules / sizeof rules[0]);
}

static enum mt_status parse(struct cli_call *call, struct forward_settings *settings)
{
    const struct cli_option options[] = {
        {"--ids", CLI_TEXT, &settings->ids, "LIST", "one sequence of token ids: 1,2,3"},
        {"--ids-file", CLI_TEXT, &settings->ids_file, "FILE", "several sequences, one per line"},
        {"--out", CLI_TEXT, &settings->out, "FILE", "where to write, a safetensors file"},
        {"--choices", CLI_TEXT, &settings->choices, "FILE",
         "use these recorded experts for every token (docs/formats.md), instead of the routers' choice"},
        {"--grads", CLI_FLAG, &settings->grads, NULL,
         "also compute the loss of the next ids, and its gradients"},
        {"--method", CLI_TEXT, &settings->method, "NAME",
         "with --grads: the objective to add; then key=value ..."},
        {"--adapter", CLI_TEXT, &settings->adapter, "DIR",
         "a PEFT adapter to run with; with --grads it is trainable"},
        {"--save-adapter", CLI_TEXT, &settings->save_adapter, "DIR",
         "with --adapter or --train lora: write the pairs as a PEFT adapter"},
        {"--adapter-layout", CLI_TEXT, &settings->adapter_layout, "HOW",
         "of --save-adapter: auto, per-expert, fused or vllm (auto)"},
        {"--train", CLI_TEXT, &settings->train, "HOW", "with --grads: full or lora (full)"},
        {"--targets", CLI_TEXT, &settings->targets, "LIST",
         "what is trainable: parts (attention, router, ...), ends of names (q_proj) or globs (*: "
         "everything)"},
        {"--rank", CLI_INTEGER, &settings->rank, "R", "of LoRA (8)"},
        {"--alpha", CLI_REAL, &settings->alpha, "A", "of LoRA: its scale is A/R (16)"},
        {"--lora-b-std", CLI_REAL, &settings->lora_b_deviation, "X",
         "draw LoRA's B with this deviation instead of 0"},
        {"--seed", CLI_INTEGER, &settings->seed, "S", "of LoRA, dropout and sampling (0)"},
        {"--training", CLI_FLAG, &settings->training, NULL,
         "as in training: jitter, sampling, dropped slots, pools of experts"},
        {"--recompute", CLI_TEXT, &settings->recompute, "WHAT",
         "none, moe or full: save memory by recomputing (none)"},
        {"--activations", CLI_TEXT, &settings->activations, "TYPE",
         "f32, bf16, or auto: what the device computes fastest on (auto)"},
        {"--quantize", CLI_TEXT, &settings->quantise, "HOW", CLI_QUANTISE_HELP},
        {"--device", CLI_TEXT, &settings->device, "NAME",
         "device to compute on, see metier devices (auto: cuda with a GPU, else cpu)"},
        {"--threads", CLI_THREADS, &settings->threads, "N", "0: as many as the machine has"},
        {"--json", CLI_FLAG, &settings->json, NULL, "the summary as JSON"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    if (call->positional_count == 0) return mt_fail(call->ctx, MT_ERR_USAGE, "a model folder is missing");
    settings->directory = call->positional[0];
    settings->keys = call->positional + 1;
    settings->key_count = call->positional_count - 1;
    return check(settings, call);
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct forward_settings settings = {.recompute = "none",
                                        .activations = "auto",
                                        .device = MT_DEVICE_AUTO,
                                        .adapter_layout = "auto",
                                        .rank = 8,
                                        .alpha = 16.0};
    struct forward_ids ids = {0};
    enum mt_status status = parse(call, &settings);
    if (status != MT_OK || call->help_shown) return status;
    status = cli_forward_ids_read(call->ctx, &settings, &ids);
    if (status == MT_OK) status = run(call->ctx, &settings, &ids);
    cli_forward_ids_free(&ids);
    return status;
}

const struct cli_verb cli_verb_forward = {
    .name = "forward",
    .summary = "run a model on token ids and write logits, hidden states, routing and gradients to a file",
    .arguments = "DIR",
    .counts_arguments = true,
    .details =
        "DIR is a Hugging Face model folder. The file holds logits [T,V] and, for every layer L,\n"
        "hidden.L [T,d] as it leaves the layer; layers with experts also have router_logits.L [T,n],\n"
        "experts.L [T,k] and weights.L [T,k]. Sequences are packed one after the other.\n"
        "With --grads it also holds loss (the mean cross-entropy of the next ids, plus the method's terms),\n"
        "loss.h, loss.TERM (summed over layers, without weight), scale.TERM (the weight, per MoE layer),\n"
        "grad.NAME for everything trainable, and param.NAME for LoRA's own tensors. The model runs in\n"
        "evaluation mode, unless you pass --training.",
    .examples =
        "  metier forward models/moe --ids 1,306,4658 --out out.safetensors\n"
        "  metier forward models/moe --ids-file sequences.txt --grads --out grads.safetensors\n"
        "  metier forward models/moe --ids 1,306,4658 --grads --train lora --targets attention,router\n"
        "  metier forward models/moe --ids 1,306,4658 --grads --method paper beta=1e-2 --json",
    .run = run_verb,
};
