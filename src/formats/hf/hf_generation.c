/* generation_config.json. */
#include "formats/hf/hf_generation.h"

#include "formats/hf/hf_keys.h"

#define ARENA_BLOCK_BYTES 256
#define LENGTH_MAX        ((int64_t)1 << 40)

#define KEY(key, type, field, least, most)                                                                   \
    {                                                                                                        \
        .name = (key), .kind = MT_HF_KEY_##type, .offset = offsetof(struct mt_hf_generation, field),         \
        .min = (least), .max = (most)                                                                        \
    }

static const struct mt_hf_key keys[] = {
    KEY("bos_token_id", INTEGER, bos, 0, MT_HF_TOKEN_ID_MAX),
    KEY("pad_token_id", INTEGER, pad, 0, MT_HF_TOKEN_ID_MAX),
    KEY("do_sample", BOOL, do_sample, 0, 0),
    KEY("temperature", REAL, temperature, 0.0, 1e3),
    KEY("top_p", REAL, top_p, 0.0, 1.0),
    KEY("top_k", INTEGER, top_k, 0, MT_HF_TOKEN_ID_MAX),
    KEY("repetition_penalty", REAL, repetition_penalty, 1e-3, 1e3),
    KEY("max_new_tokens", INTEGER, max_new_tokens, 1, LENGTH_MAX),
    KEY("max_length", INTEGER, max_length, 1, LENGTH_MAX),
};

/* From a document, if there is one; frees it. */
static enum mt_status build(struct mt_context *ctx, enum mt_status parsed, struct mt_json *json,
                            struct mt_hf_generation *generation)
{
    enum mt_status status = parsed;
    *generation = (struct mt_hf_generation){0};
    if (status != MT_OK) return status;
    *generation = (struct mt_hf_generation){
        .bos = -1, .pad = -1, .temperature = 1.0, .top_p = 1.0, .top_k = 50, .repetition_penalty = 1.0};
    mt_arena_init(&generation->arena, ctx, ARENA_BLOCK_BYTES);
    struct mt_json_node root = mt_json_root(json);
    status = mt_json_expect_object(&root);
    if (status == MT_OK) status = mt_hf_read_keys(&root, keys, sizeof keys / sizeof keys[0], generation);
    if (status == MT_OK) {
        status = mt_hf_read_integers(&root, "eos_token_id", MT_HF_TOKEN_ID_MAX, &generation->arena,
                                     &generation->eos, &generation->eos_count);
    }
    mt_json_free(json);
    if (status != MT_OK) mt_hf_generation_free(generation);
    return status;
}

enum mt_status mt_hf_generation_read(struct mt_context *ctx, const char *path, const void *text, size_t bytes,
                                     struct mt_hf_generation *generation)
{
    struct mt_json json;
    enum mt_status status = text != NULL ? mt_json_parse(ctx, path, text, bytes, &mt_json_file_limits, &json)
                                         : mt_json_read(ctx, path, &mt_json_file_limits, &json);
    return build(ctx, status, &json, generation);
}

void mt_hf_generation_free(struct mt_hf_generation *generation)
{
    if (generation->arena.ctx != NULL) mt_arena_free(&generation->arena);
    *generation = (struct mt_hf_generation){0};
}
