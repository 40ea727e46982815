/* Reading a choice of experts. */
#include "train/chosen_experts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/text/json.h"

static enum mt_status read_layer_number(const struct mt_json_node *node, const struct mt_model_desc *desc,
                                        int64_t *layer)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(node->key, &end, 10);
    bool whole = errno == 0 && end != node->key && *end == '\0';
    if (!whole || number < 0 || number >= desc->layers) {
        return mt_json_fail(node, "is no layer: the model has layers 0 to %lld",
                            (long long)(desc->layers - 1));
    }
    *layer = number;
    if (mt_model_layer_is_moe(desc, number)) return MT_OK;
    return mt_json_fail(node, "names a layer that has no experts");
}

static enum mt_status read_layer(const struct mt_json_node *node, const struct mt_model_desc *desc,
                                 bool *const *flags, size_t *chosen)
{
    int64_t layer = 0;
    enum mt_status status = read_layer_number(node, desc, &layer);
    if (status == MT_OK) status = mt_json_expect_array(node);
    for (size_t i = 0; status == MT_OK && i < mt_json_count(node); i++) {
        struct mt_json_node element = mt_json_element(node, i);
        int64_t expert = 0;
        status = mt_json_as_integer(&element, 0, desc->experts - 1, &expert);
        if (status != MT_OK) return status;
        flags[layer][expert] = true;
        *chosen += 1;
    }
    return status;
}

/* Whoever has no such file yet is told where it comes from. */
static enum mt_status fail_missing(struct mt_context *ctx, const char *path)
{
    char message[MT_MESSAGE_BYTES];
    (void)snprintf(message, sizeof message, "%s", ctx->message);
    return mt_fail(ctx, MT_ERR_IO,
                   "experts: %.600s; metier analyze --model MODEL --data DATA --select-experts token --out "
                   "'%.200s' makes "
                   "the file",
                   message, path);
}

enum mt_status mt_chosen_experts_read(struct mt_context *ctx, const char *path,
                                      const struct mt_model_desc *desc, struct mt_arena *arena,
                                      const bool *const **experts)
{
    struct mt_json json = {0};
    size_t layers = (size_t)desc->layers;
    size_t count = (size_t)desc->experts;
    enum mt_status status = MT_OK;
    bool **flags = mt_arena_array(arena, layers, sizeof *flags, &status);
    bool *all = mt_arena_array(arena, layers * count, sizeof *all, &status);
    if (status != MT_OK) return status;
    for (size_t l = 0; l < layers; l++) {
        if (mt_model_layer_is_moe(desc, (int64_t)l)) flags[l] = all + l * count;
    }
    status = mt_json_read(ctx, path, &mt_json_file_limits, &json);
    if (status == MT_ERR_IO) return fail_missing(ctx, path);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    struct mt_json_node node;
    size_t chosen = 0;
    status = mt_json_expect_object(&root);
    for (void *position = NULL; status == MT_OK && mt_json_next(&root, &position, &node);)
        status = read_layer(&node, desc, flags, &chosen);
    if (status == MT_OK && chosen == 0) status = mt_fail(ctx, MT_ERR_FORMAT, "%s: chooses no expert", path);
    mt_json_free(&json);
    *experts = (const bool *const *)flags;
    return status;
}
