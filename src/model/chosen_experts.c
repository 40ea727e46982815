/* Reading and writing a choice of experts. */
#include "model/chosen_experts.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/text/json.h"
#include "formats/text/json_text.h"

// ------------------------------------------------------------------ reading

/* The layer a member of "keep" is named after. Only its plain number is one: "01" would be layer 1 twice. */
static enum mt_status read_layer_number(const struct mt_json_node *node, const struct mt_model_desc *desc,
                                        int64_t *layer)
{
    char plain[32];
    long long number = strtoll(node->key, NULL, 10);
    (void)snprintf(plain, sizeof plain, "%lld", number);
    if (strcmp(plain, node->key) != 0 || number < 0 || number >= desc->layers) {
        return mt_json_fail(node, "is not a layer: the model has layers 0 to %lld",
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
        if (status == MT_OK && flags[layer][expert])
            status = mt_json_fail(&element, "names expert %lld a second time", (long long)expert);
        if (status != MT_OK) return status;
        flags[layer][expert] = true;
        *chosen += 1;
    }
    return status;
}

/* Files that name layers at once are those of earlier versions; --prune took their experts away. */
static enum mt_status check_form(const struct mt_json_node *root)
{
    enum mt_status status = mt_json_expect_object(root);
    if (status != MT_OK || mt_json_has(root, "keep")) return status;
    return mt_fail(root->ctx, MT_ERR_FORMAT,
                   "%.600s has no \"keep\": it is not a file of experts, or one of an earlier version. Make "
                   "it again with metier analyze --select-experts, or write {\"experts\": experts of a "
                   "layer, \"layers\": layers that have experts, \"keep\": {\"LAYER\": [expert, ...]}}; "
                   "eval --prune takes away the experts that keep does not list",
                   root->file);
}

static enum mt_status check_model(const struct mt_json_node *root, const struct mt_model_desc *desc)
{
    int64_t experts = 0;
    int64_t layers = 0;
    enum mt_status status = mt_json_get_integer(root, "experts", 1, INT32_MAX, &experts);
    if (status == MT_OK) status = mt_json_get_integer(root, "layers", 1, INT32_MAX, &layers);
    int here = mt_model_moe_layers(desc, NULL);
    if (status != MT_OK || (experts == desc->experts && layers == here)) return status;
    return mt_fail(root->ctx, MT_ERR_FORMAT,
                   "%.600s is for another model: one with %lld experts in each of %lld layers; this one has "
                   "%d in each of %d",
                   root->file, (long long)experts, (long long)layers, desc->experts, here);
}

/* Whoever has no such file yet is told where it comes from; `rule`: what to give --select-experts. */
static enum mt_status fail_unread(struct mt_context *ctx, const char *path, const char *rule)
{
    char message[MT_MESSAGE_BYTES];
    if (access(path, F_OK) == 0 || errno != ENOENT) return mt_fail_within(ctx, MT_ERR_IO, "experts");
    (void)snprintf(message, sizeof message, "%s", ctx->message);
    return mt_fail(ctx, MT_ERR_IO,
                   "experts: %.600s; metier analyze --model MODEL --data DATA --select-experts %s --out "
                   "'%.200s' makes "
                   "the file",
                   message, rule, path);
}

/* [layers] pointers to n flags each, all false; NULL of layers without experts. */
static bool **make_flags(const struct mt_model_desc *desc, struct mt_arena *arena, enum mt_status *status)
{
    size_t layers = (size_t)desc->layers;
    size_t count = (size_t)desc->experts;
    bool **flags = mt_arena_array(arena, layers, sizeof *flags, status);
    bool *all = mt_arena_array(arena, layers * count, sizeof *all, status);
    for (size_t l = 0; *status == MT_OK && l < layers; l++)
        flags[l] = mt_model_layer_is_moe(desc, (int64_t)l) ? all + l * count : NULL;
    return flags;
}

static enum mt_status read_file(struct mt_context *ctx, const char *path, const char *rule,
                                const struct mt_model_desc *desc, struct mt_arena *arena,
                                const bool *const **experts)
{
    struct mt_json json = {0};
    enum mt_status status = MT_OK;
    bool **flags = make_flags(desc, arena, &status);
    if (status != MT_OK) return status;
    status = mt_json_read(ctx, path, &mt_json_file_limits, &json);
    if (status == MT_ERR_IO) return fail_unread(ctx, path, rule);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    struct mt_json_node keep;
    struct mt_json_node node;
    size_t chosen = 0;
    status = check_form(&root);
    if (status == MT_OK) status = check_model(&root, desc);
    if (status == MT_OK) status = mt_json_get_object(&root, "keep", &keep);
    for (void *position = NULL; status == MT_OK && mt_json_next(&keep, &position, &node);)
        status = read_layer(&node, desc, flags, &chosen);
    if (status == MT_OK && chosen == 0) status = mt_fail(ctx, MT_ERR_FORMAT, "%s: chooses no expert", path);
    mt_json_free(&json);
    *experts = (const bool *const *)flags;
    return status;
}

enum mt_status mt_chosen_experts_read(struct mt_context *ctx, const char *path,
                                      const struct mt_model_desc *desc, struct mt_arena *arena,
                                      const bool *const **experts)
{
    return read_file(ctx, path, "token", desc, arena, experts);
}

static int count_of(const bool *flags, int experts)
{
    int count = 0;
    for (int j = 0; j < experts; j++) count += flags[j] ? 1 : 0;
    return count;
}

enum mt_status mt_kept_experts_read(struct mt_context *ctx, const char *path,
                                    const struct mt_model_desc *desc, struct mt_arena *arena,
                                    const bool *const **kept)
{
    enum mt_status status = read_file(ctx, path, "best --keep K", desc, arena, kept);
    for (int64_t i = 0; status == MT_OK && i < desc->layers; i++) {
        const bool *flags = (*kept)[i];
        int count = flags != NULL ? count_of(flags, desc->experts) : desc->experts;
        if (count < desc->router.slots)
            status = mt_fail(ctx, MT_ERR_FORMAT,
                             "%.600s keeps %d of %d experts in layer %" PRId64 ", and a token has %d", path,
                             count, desc->experts, i, desc->router.slots);
    }
    return status;
}

enum mt_status mt_chosen_experts_others(const struct mt_model_desc *desc, const bool *const *experts,
                                        struct mt_arena *arena, const bool *const **others)
{
    enum mt_status status = MT_OK;
    bool **flags = make_flags(desc, arena, &status);
    for (int64_t i = 0; status == MT_OK && i < desc->layers; i++) {
        for (int j = 0; flags[i] != NULL && j < desc->experts; j++) flags[i][j] = !experts[i][j];
    }
    *others = (const bool *const *)flags;
    return status;
}

// ------------------------------------------------------------------ writing

/* Of the layers that have any. */
static void put_unused(const struct mt_chosen_experts *chosen, struct mt_json_text *text)
{
    bool listed = false;
    if (chosen->unused == NULL) return;
    mt_json_text_format(text, ", \"unused\": {");
    for (int i = 0; i < chosen->layers; i++) {
        if (chosen->unused[i] == 0) continue;
        mt_json_text_format(text, "%s\"%" PRId64 "\": %" PRId32, listed ? ", " : "", chosen->number[i],
                            chosen->unused[i]);
        listed = true;
    }
    mt_json_text_format(text, "}");
}

static void put_origin(const struct mt_chosen_experts *chosen, struct mt_json_text *text)
{
    if (chosen->score != NULL) {
        mt_json_text_format(text, ", \"score\": ");
        mt_json_text_string(text, chosen->score);
    }
    for (size_t i = 0; i < chosen->data_count; i++) {
        mt_json_text_format(text, i == 0 ? ", \"data\": [" : ", ");
        mt_json_text_string(text, chosen->data[i]);
    }
    if (chosen->data_count > 0) mt_json_text_format(text, "]");
    if (!isnan(chosen->share)) {
        mt_json_text_format(text, ", \"share\": ");
        mt_json_text_number(text, chosen->share);
    }
    put_unused(chosen, text);
}

static void put_layer(const struct mt_chosen_experts *chosen, int layer, struct mt_json_text *text)
{
    const bool *flags = chosen->chosen + (size_t)layer * (size_t)chosen->experts;
    bool listed = false;
    mt_json_text_format(text, "%s\n  \"%" PRId64 "\": [", layer > 0 ? "," : "", chosen->number[layer]);
    for (int j = 0; j < chosen->experts; j++) {
        if (!flags[j]) continue;
        mt_json_text_format(text, "%s%d", listed ? ", " : "", j);
        listed = true;
    }
    mt_json_text_format(text, "]");
}

enum mt_status mt_chosen_experts_write(struct mt_context *ctx, const struct mt_chosen_experts *chosen,
                                       const char *path)
{
    struct mt_json_text text;
    mt_json_text_init(&text, ctx);
    mt_json_text_format(&text, "{\"experts\": %d, \"layers\": %d", chosen->experts, chosen->layers);
    put_origin(chosen, &text);
    mt_json_text_format(&text, ",\n \"keep\": {");
    for (int i = 0; i < chosen->layers; i++) put_layer(chosen, i, &text);
    mt_json_text_format(&text, "}}\n");
    return mt_json_text_save(&text, path);
}
