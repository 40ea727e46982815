/* metier inspect: what a model folder holds, whether it is complete, and what training it would take. */
#include "cli/inspect/inspect.h"

#include <stdio.h>

#include "cli/cli.h"

#define RANK_MAX   4096
#define TOKENS_MAX ((int64_t)1 << 18)

bool inspect_is_sound(const struct inspection *inspection)
{
    return inspection->check.missing.count == 0 && inspection->check.wrong.count == 0;
}

static enum mt_status inspect_files(struct mt_context *ctx, struct inspection *inspection)
{
    struct mt_checkpoint checkpoint;
    enum mt_status status = mt_checkpoint_open(ctx, inspection->directory, &checkpoint);
    if (status != MT_OK) return status;
    inspection->weights = INSPECT_FILES;
    inspection->file_count = checkpoint.shard_count;
    inspection->tensor_count = checkpoint.tensor_count;
    inspection->data_bytes = (int64_t)checkpoint.data_bytes;
    for (size_t i = 0; i < checkpoint.tensor_count; i++) {
        const struct mt_safetensors_tensor *info = checkpoint.tensors[i].info;
        inspection->dtype_tensors[info->dtype]++;
        inspection->dtype_bytes[info->dtype] += info->bytes;
    }
    status = mt_model_check_checkpoint(ctx, &inspection->config, &checkpoint, &inspection->check);
    mt_checkpoint_close(&checkpoint);
    return status;
}

/* Uses the index alone when none of its shards is there; *alone tells. */
static enum mt_status inspect_index(struct mt_context *ctx, struct inspection *inspection, bool *alone)
{
    char *path = NULL;
    struct mt_checkpoint_index index;
    *alone = false;
    enum mt_status status = mt_path_join(ctx, inspection->directory, MT_CHECKPOINT_INDEX, &path);
    if (status != MT_OK) return status;
    status = mt_checkpoint_index_read(ctx, path, &index);
    mt_path_release(ctx, path);
    if (status != MT_OK) return status;
    bool any = false;
    for (size_t i = 0; i < index.shard_count && status == MT_OK && !any; i++) {
        status = mt_checkpoint_has_file(ctx, inspection->directory, index.shards[i], &any);
    }
    if (status == MT_OK && !any) {
        *alone = true;
        inspection->weights = INSPECT_INDEX_ONLY;
        inspection->file_count = index.shard_count;
        inspection->tensor_count = index.name_count;
        inspection->data_bytes = index.total_size;
        status = mt_model_check_index(ctx, &inspection->config, &index, &inspection->check);
    }
    mt_checkpoint_index_free(&index);
    return status;
}

static enum mt_status inspect_weights(struct mt_context *ctx, struct inspection *inspection)
{
    bool single = false;
    bool indexed = false;
    bool alone = false;
    inspection->weights = INSPECT_CONFIG_ONLY;
    inspection->data_bytes = -1;
    enum mt_status status = mt_checkpoint_has_file(ctx, inspection->directory, MT_CHECKPOINT_SINGLE, &single);
    if (status == MT_OK) {
        status = mt_checkpoint_has_file(ctx, inspection->directory, MT_CHECKPOINT_INDEX, &indexed);
    }
    if (status != MT_OK || (!single && !indexed)) return status;
    if (!single) status = inspect_index(ctx, inspection, &alone);
    if (status == MT_OK && !alone) status = inspect_files(ctx, inspection);
    return status;
}

/* The bytes of the weights as stored, or as the config says they would be. */
static int64_t weight_bytes(const struct inspection *inspection)
{
    if (inspection->data_bytes >= 0) return inspection->data_bytes;
    return inspection->count.all * (inspection->config.dtype == MT_HF_FLOAT32 ? 4 : 2);
}

static enum mt_status inspect(struct mt_context *ctx, int64_t rank, int64_t tokens,
                              struct inspection *inspection)
{
    enum mt_status status = mt_hf_config_read_folder(ctx, inspection->directory, &inspection->config);
    if (status == MT_OK) status = inspect_weights(ctx, inspection);
    if (status != MT_OK) return status;
    mt_model_count(&inspection->config, &inspection->count);
    mt_model_memory(&inspection->config, weight_bytes(inspection), rank, tokens, &inspection->memory);
    return MT_OK;
}

static enum mt_status run_verb(struct cli_call *call)
{
    bool json = false;
    int64_t rank = 32;
    int64_t tokens = 4096;
    const struct cli_option options[] = {
        {"--json", CLI_FLAG, &json, NULL, "one JSON object instead of tables"},
        {"--rank", CLI_INTEGER, &rank, "R", "LoRA rank of the memory estimate (default 32)"},
        {"--tokens", CLI_INTEGER, &tokens, "N", "tokens of one step in the memory estimate (default 4096)"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    if (call->positional_count != 1)
        return mt_fail(call->ctx, MT_ERR_USAGE, "expected one directory, got %d; --help shows how",
                       call->positional_count);
    const struct cli_limit limits[] = {{"--rank", rank, 1, RANK_MAX}, {"--tokens", tokens, 1, TOKENS_MAX}};
    status = cli_check_limits(call->ctx, limits, 2);
    if (status != MT_OK) return status;
    struct inspection inspection = {.directory = call->positional[0]};
    status = inspect(call->ctx, rank, tokens, &inspection);
    if (!inspect_is_sound(&inspection)) call->exit_status = 2;
    if (status == MT_OK && json) status = inspect_print_json(call->ctx, &inspection);
    if (status == MT_OK && !json) inspect_print_text(&inspection);
    mt_model_check_free(&inspection.check);
    mt_hf_config_free(&inspection.config);
    return status;
}

const struct cli_verb cli_verb_inspect = {
    .name = "inspect",
    .summary = "what a model folder holds: architecture, parameters, missing tensors, memory to train it",
    .arguments = "DIR",
    .counts_arguments = true,
    .details = "DIR is a Hugging Face model folder. config.json is enough for the counts; with\n"
               "model.safetensors.index.json the tensor names are checked too, with the weights also their\n"
               "shapes and types. Exit status 2 when a tensor is missing or of another shape.",
    .examples = "  hf download allenai/OLMoE-1B-7B-0924 --local-dir models/OLMoE-1B-7B    # metier downloads "
                "nothing\n"
                "  metier inspect models/OLMoE-1B-7B\n"
                "  metier inspect models/Mixtral-8x7B --json\n"
                "  metier inspect models/Moonlight-16B-A3B --rank 8 --tokens 16384",
    .run = run_verb,
};
