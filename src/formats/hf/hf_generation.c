/* generation_config.json. */
#include "formats/hf/hf_generation.h"

#include "formats/hf/hf_config_parts.h"

#define ARENA_BLOCK_BYTES 256
#define LENGTH_MAX        ((int64_t)1 << 40)

static enum mt_status read_tokens(const struct mt_json_node *root, struct mt_hf_generation *generation)
{
    generation->bos = -1;
    generation->pad = -1;
    enum mt_status status =
        mt_json_optional_integer(root, "bos_token_id", 0, MT_HF_TOKEN_ID_MAX, &generation->bos);
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "pad_token_id", 0, MT_HF_TOKEN_ID_MAX, &generation->pad);
    }
    if (status == MT_OK) {
        status = mt_hf_read_integers(root, "eos_token_id", MT_HF_TOKEN_ID_MAX, &generation->arena,
                                     &generation->eos, &generation->eos_count);
    }
    return status;
}

static enum mt_status read_sampling(const struct mt_json_node *root, struct mt_hf_generation *generation)
{
    generation->temperature = 1.0;
    generation->top_p = 1.0;
    generation->top_k = 50;
    generation->repetition_penalty = 1.0;
    enum mt_status status = mt_json_optional_bool(root, "do_sample", &generation->do_sample);
    if (status == MT_OK) {
        status = mt_json_optional_real(root, "temperature", 0.0, 1e3, &generation->temperature);
    }
    if (status == MT_OK) status = mt_json_optional_real(root, "top_p", 0.0, 1.0, &generation->top_p);
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "top_k", 0, MT_HF_TOKEN_ID_MAX, &generation->top_k);
    }
    if (status == MT_OK) {
        status =
            mt_json_optional_real(root, "repetition_penalty", 1e-3, 1e3, &generation->repetition_penalty);
    }
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "max_new_tokens", 1, LENGTH_MAX, &generation->max_new_tokens);
    }
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "max_length", 1, LENGTH_MAX, &generation->max_length);
    }
    return status;
}

static enum mt_status build(struct mt_context *ctx, const struct mt_json *json,
                            struct mt_hf_generation *generation)
{
    mt_arena_init(&generation->arena, ctx, ARENA_BLOCK_BYTES);
    struct mt_json_node root = mt_json_root(json);
    enum mt_status status = mt_json_expect_object(&root);
    if (status == MT_OK) status = read_tokens(&root, generation);
    if (status == MT_OK) status = read_sampling(&root, generation);
    if (status != MT_OK) mt_hf_generation_free(generation);
    return status;
}

enum mt_status mt_hf_generation_parse(struct mt_context *ctx, const char *path, const void *text,
                                      size_t bytes, struct mt_hf_generation *generation)
{
    *generation = (struct mt_hf_generation){0};
    struct mt_json json;
    enum mt_status status = mt_json_parse(ctx, path, text, bytes, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    status = build(ctx, &json, generation);
    mt_json_free(&json);
    return status;
}

enum mt_status mt_hf_generation_read(struct mt_context *ctx, const char *path,
                                     struct mt_hf_generation *generation)
{
    *generation = (struct mt_hf_generation){0};
    struct mt_json json;
    enum mt_status status = mt_json_read(ctx, path, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    status = build(ctx, &json, generation);
    mt_json_free(&json);
    return status;
}

void mt_hf_generation_free(struct mt_hf_generation *generation)
{
    if (generation->arena.ctx != NULL) mt_arena_free(&generation->arena);
    *generation = (struct mt_hf_generation){0};
}
