/* Expected tensors against present ones: every expected name is looked up and its counterpart ticked off. */
#include "arch/model_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/published/published.h"
#include "arch/published/stacks.h"
#include "base/compare.h"

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
    struct mt_model_finding *finding = &findings->listed[place];
    enum mt_status status = mt_arena_copy_text(&check->arena, name, strlen(name), &finding->name);
    if (status != MT_OK || text == NULL) return status;
    return mt_arena_copy_text(&check->arena, text, strlen(text), &finding->text);
}

static enum mt_status compare_one(struct mt_model_check *check, const struct mt_model_tensor *expected,
                                  const struct mt_safetensors_tensor *found)
{
    int rank = 0;
    int64_t dim[2];
    mt_model_tensor_stored_shape(expected, &rank, dim);
    bool same = found->rank == rank;
    for (int i = 0; i < rank && same; i++) same = found->dim[i] == dim[i];
    bool number = found->dtype == MT_SAFETENSORS_F32 || found->dtype == MT_SAFETENSORS_BF16 ||
                  found->dtype == MT_SAFETENSORS_F16;
    if (same && number) return MT_OK;
    char text[512];
    (void)snprintf(text, sizeof text, "is %s %s, expected %s in F32, BF16 or F16",
                   mt_safetensors_dtype_name(found->dtype),
                   mt_safetensors_shape(found->rank, found->dim).text, mt_safetensors_shape(rank, dim).text);
    return add_finding(check, &check->wrong, expected->name, text);
}

/* True for what files hold beside a model's own tensors and every reader leaves alone. */
static bool is_unread(const struct mt_hf_config *config, const char *name)
{
    static const char prefix[] = "model.layers.";
    if (mt_ends_with(name, ".rotary_emb.inv_freq")) return true; // computed, but saved by old versions
    if (strcmp(name, "lm_head.weight") == 0) return config->tie_word_embeddings;
    if (strncmp(name, "model.mtp_", 10) == 0) return true; // predicts further tokens
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    char *end = NULL;
    long long layer = strtoll(name + sizeof prefix - 1, &end, 10);
    return *end == '.' && layer >= config->layers && layer < config->layers + config->nextn_predict_layers;
}

/* The tensors that are there, and the checkpoint they are of; NULL: only names are known. */
struct presence {
    const struct mt_checkpoint *checkpoint;
    struct present *list;
    size_t count;
};

static struct present *look_up(const struct presence *presence, const char *name)
{
    const struct present key = {.name = name};
    if (presence->count == 0) return NULL;
    return bsearch(&key, presence->list, presence->count, sizeof key, compare_present);
}

/* A tensor of the model by its name, or, where only names are known, by that of the stack it lies in. */
static struct present *look_for(const struct presence *presence, const struct mt_hf_config *config,
                                const char *name)
{
    struct mt_stack_member member;
    struct present *found = look_up(presence, name);
    if (found != NULL || presence->checkpoint != NULL || !mt_stack_member_of(config, name, &member))
        return found;
    return look_up(presence, member.stack);
}

/* Ticks the parts of a quantised weight off; true where its codes are there. */
static bool tick_off_parts(const struct presence *presence, const struct mt_hf_config *config,
                           const struct mt_model_tensor *expected)
{
    bool found = false;
    struct mt_published_names names;
    mt_published_names(config->quant.method, expected->name, &names);
    for (int i = 0; i < MT_PUBLISHED_PARTS; i++) {
        struct present *part = look_for(presence, config, names.text[i]);
        if (part == NULL) continue;
        part->seen = true;
        found = found || i == MT_PUBLISHED_CODES;
    }
    return found;
}

static enum mt_status check_one(struct mt_model_check *check, const struct presence *presence,
                                const struct mt_hf_config *config, const struct mt_model_tensor *expected)
{
    struct present *plain = look_for(presence, config, expected->name);
    bool there = plain != NULL;
    if (there) plain->seen = true;
    if (config->quant.method != MT_HF_QUANT_NONE && expected->rank == 2) {
        struct mt_published published = {0};
        if (tick_off_parts(presence, config, expected)) there = true;
        enum mt_status status = MT_OK;
        if (there && presence->checkpoint != NULL)
            status = mt_published_find(config, presence->checkpoint, expected, &published);
        if (status != MT_OK && status != MT_ERR_MEMORY)
            return add_finding(check, &check->wrong, expected->name, presence->checkpoint->ctx->message);
        if (status != MT_OK) return status;
        if (published.quantised) {
            check->quantised++;
            check->quantised_elements += mt_model_tensor_count(expected);
            check->quantised_bytes += mt_quantised_bytes(&published.matrix);
            return MT_OK;
        }
    }
    if (!there) return add_finding(check, &check->missing, expected->name, NULL);
    return plain != NULL && plain->info != NULL ? compare_one(check, expected, plain->info) : MT_OK;
}

static enum mt_status check_present(struct mt_model_check *check, const struct mt_hf_config *config,
                                    const struct presence *presence)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(config);
    struct mt_model_tensor expected;
    while (mt_model_tensors_next(&walk, &expected)) {
        check->expected++;
        enum mt_status status = check_one(check, presence, config, &expected);
        if (status != MT_OK) return status;
    }
    const struct present *present = presence->list;
    size_t count = presence->count;
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
                                 const struct presence *presence, struct mt_model_check *check)
{
    mt_arena_init(&check->arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = check_present(check, config, presence);
    mt_release(ctx, presence->list, presence->count * sizeof *presence->list);
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
    const struct presence presence = {.checkpoint = checkpoint, .list = present, .count = count};
    return check_list(ctx, config, &presence, check);
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
    const struct presence presence = {.list = present, .count = count};
    return check_list(ctx, config, &presence, check);
}

void mt_model_check_free(struct mt_model_check *check)
{
    if (check->arena.ctx != NULL) mt_arena_free(&check->arena);
    *check = (struct mt_model_check){0};
}
