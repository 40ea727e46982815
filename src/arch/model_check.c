/* Expected tensors against present ones: every expected name is looked up and its counterpart ticked off. */
#include "arch/model_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BLOCK_BYTES 4096

/* A tensor that is there, in a list sorted by name. */
struct present {
    const char *name;
    const struct mt_safetensors_tensor *info; // NULL: only the name is known
    bool seen;
};

static int compare_present(const void *left, const void *right)
{
    const struct present *a = left;
    const struct present *b = right;
    return strcmp(a->name, b->name);
}

static enum mt_status add_finding(struct mt_model_check *check, struct mt_model_findings *findings,
                                  const char *name, const char *text)
{
    size_t place = findings->count++;
    if (place >= MT_MODEL_CHECK_LISTED) return MT_OK;
    char *name_copy = NULL;
    char *text_copy = NULL;
    enum mt_status status = mt_arena_copy_text(&check->arena, name, strlen(name), &name_copy);
    if (status == MT_OK && text != NULL) {
        status = mt_arena_copy_text(&check->arena, text, strlen(text), &text_copy);
    }
    if (status != MT_OK) return status;
    findings->listed[place] = (struct mt_model_finding){.name = name_copy, .text = text_copy};
    return MT_OK;
}

static void describe_shape(int rank, const int64_t *dim, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "[");
    for (int i = 0; i < rank && used < bytes; i++) {
        used += (size_t)snprintf(text + used, bytes - used, "%s%" PRId64, i > 0 ? ", " : "", dim[i]);
    }
    if (used < bytes) (void)snprintf(text + used, bytes - used, "]");
}

static enum mt_status compare_one(struct mt_model_check *check, const struct mt_model_tensor *expected,
                                  const struct mt_safetensors_tensor *found)
{
    bool same = found->rank == expected->rank;
    for (int i = 0; i < expected->rank && same; i++) same = found->dim[i] == expected->dim[i];
    bool number = found->dtype == MT_SAFETENSORS_F32 || found->dtype == MT_SAFETENSORS_BF16 ||
                  found->dtype == MT_SAFETENSORS_F16;
    if (same && number) return MT_OK;
    char found_shape[256];
    char expected_shape[64];
    char text[400];
    describe_shape(found->rank, found->dim, found_shape, sizeof found_shape);
    describe_shape(expected->rank, expected->dim, expected_shape, sizeof expected_shape);
    (void)snprintf(text, sizeof text, "is %s %s, expected %s in F32, BF16 or F16",
                   mt_safetensors_dtype_name(found->dtype), found_shape, expected_shape);
    return add_finding(check, &check->wrong, expected->name, text);
}

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text);
    size_t ending_length = strlen(ending);
    return length >= ending_length && strcmp(text + length - ending_length, ending) == 0;
}

/* True for what files hold beside a model's own tensors and every reader leaves alone. */
static bool is_unread(const struct mt_hf_config *config, const char *name)
{
    static const char prefix[] = "model.layers.";
    if (ends_with(name, ".rotary_emb.inv_freq")) return true; // computed, but saved by old versions
    if (strcmp(name, "lm_head.weight") == 0) return config->tie_word_embeddings;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    char *end = NULL;
    long long layer = strtoll(name + sizeof prefix - 1, &end, 10);
    return *end == '.' && layer >= config->layers && layer < config->layers + config->nextn_predict_layers;
}

static enum mt_status check_present(struct mt_model_check *check, const struct mt_hf_config *config,
                                    struct present *present, size_t count)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(config);
    struct mt_model_tensor expected;
    while (mt_model_tensors_next(&walk, &expected)) {
        check->expected++;
        const struct present key = {.name = expected.name};
        struct present *found =
            count > 0 ? bsearch(&key, present, count, sizeof *present, compare_present) : NULL;
        enum mt_status status = MT_OK;
        if (found == NULL) {
            status = add_finding(check, &check->missing, expected.name, NULL);
        } else {
            found->seen = true;
            if (found->info != NULL) status = compare_one(check, &expected, found->info);
        }
        if (status != MT_OK) return status;
    }
    for (size_t i = 0; i < count; i++) {
        if (present[i].seen) continue;
        if (is_unread(config, present[i].name)) {
            check->unread++;
            continue;
        }
        enum mt_status status = add_finding(check, &check->unexpected, present[i].name, NULL);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

/* Checks a list and releases it. */
static enum mt_status check_list(struct mt_context *ctx, const struct mt_hf_config *config,
                                 struct present *present, size_t count, struct mt_model_check *check)
{
    mt_arena_init(&check->arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = check_present(check, config, present, count);
    mt_release(ctx, present, count * sizeof *present);
    if (status != MT_OK) mt_model_check_free(check);
    return status;
}

enum mt_status mt_model_check_checkpoint(struct mt_context *ctx, const struct mt_hf_config *config,
                                         const struct mt_checkpoint *checkpoint, struct mt_model_check *check)
{
    *check = (struct mt_model_check){0};
    void *memory = NULL;
    size_t count = checkpoint->tensor_count;
    enum mt_status status = mt_allocate_array(ctx, count, sizeof(struct present), &memory);
    if (status != MT_OK) return status;
    struct present *present = memory;
    for (size_t i = 0; i < count; i++) {
        const struct mt_safetensors_tensor *info = checkpoint->tensors[i].info;
        present[i] = (struct present){.name = info->name, .info = info};
    }
    return check_list(ctx, config, present, count, check);
}

enum mt_status mt_model_check_index(struct mt_context *ctx, const struct mt_hf_config *config,
                                    const struct mt_checkpoint_index *index, struct mt_model_check *check)
{
    *check = (struct mt_model_check){0};
    void *memory = NULL;
    size_t count = index->name_count;
    enum mt_status status = mt_allocate_array(ctx, count, sizeof(struct present), &memory);
    if (status != MT_OK) return status;
    struct present *present = memory;
    for (size_t i = 0; i < count; i++) present[i] = (struct present){.name = index->names[i].name};
    return check_list(ctx, config, present, count, check);
}

void mt_model_check_free(struct mt_model_check *check)
{
    if (check->arena.ctx != NULL) mt_arena_free(&check->arena);
    *check = (struct mt_model_check){0};
}
