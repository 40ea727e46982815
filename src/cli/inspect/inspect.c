/* metier inspect: what a model folder holds, whether it is complete, and what training it would take. */
#include "cli/inspect/inspect.h"

#include <stdio.h>

#include "cli/verbs.h"

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

static enum mt_status check_arguments(struct mt_context *ctx, const struct cli_arguments *arguments,
                                      int64_t rank, int64_t tokens)
{
    if (arguments->positional_count != 1) {
        return mt_fail(ctx, MT_ERR_USAGE, "expected one directory, got %d; --help shows how",
                       arguments->positional_count);
    }
    if (rank < 1 || rank > RANK_MAX) {
        return mt_fail(ctx, MT_ERR_USAGE, "--rank is %lld, expected 1 to %d", (long long)rank, RANK_MAX);
    }
    if (tokens < 1 || tokens > TOKENS_MAX) {
        return mt_fail(ctx, MT_ERR_USAGE, "--tokens is %lld, expected 1 to %lld", (long long)tokens,
                       (long long)TOKENS_MAX);
    }
    return MT_OK;
}

int cli_inspect(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv)
{
    bool json = false;
    int64_t rank = 32;
    int64_t tokens = 4096;
    const struct cli_option options[] = {
        {"--json", CLI_FLAG, &json, NULL, "one JSON object instead of tables"},
        {"--rank", CLI_INTEGER, &rank, "R", "LoRA rank of the memory estimate (default 32)"},
        {"--tokens", CLI_INTEGER, &tokens, "N", "tokens of one step in the memory estimate (default 4096)"},
    };
    struct cli_arguments arguments;
    enum mt_status status = cli_parse(ctx, verb, options, 3, argc, argv, &arguments);
    if (status == MT_OK && arguments.help_shown) return 0;
    if (status == MT_OK) status = check_arguments(ctx, &arguments, rank, tokens);
    if (status != MT_OK) return cli_fail(ctx, verb, status);
    struct inspection inspection = {.directory = arguments.positional[0]};
    status = inspect(ctx, rank, tokens, &inspection);
    bool sound = inspect_is_sound(&inspection);
    if (status == MT_OK && json) status = inspect_print_json(ctx, &inspection);
    if (status == MT_OK && !json) inspect_print_text(&inspection);
    mt_model_check_free(&inspection.check);
    mt_hf_config_free(&inspection.config);
    if (status != MT_OK) return cli_fail(ctx, verb, status);
    return sound ? 0 : 2;
}
