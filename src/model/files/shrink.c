/* Views of fewer experts: which tensors stay, under which names, with which rows. */
#include "model/files/shrink.h"

#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "formats/text/printable.h"
#include "model/adapters/adapter.h"
#include "model/files/shrink_nf4.h"

// ------------------------------------------------------------------ names

/* What a name says. */
struct place {
    int64_t layer;
    int64_t expert;   // -1: of no single expert
    const char *rest; // after "experts.E.", "experts." or "gate."
};

enum kind {
    KIND_OTHER,   // stays as it is
    KIND_EXPERT,  // of one routed expert
    KIND_ROUTER,  // of a router
    KIND_FURTHER, // of a layer that predicts further tokens
};

/* What follows PREFIX and a dot in a text; NULL: it does not begin so. */
static const char *after(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 && text[length] == '.' ? text + length + 1 : NULL;
}

static enum kind kind_of(const struct mt_hf_config *config, const char *name, struct place *place)
{
    const struct mt_model_names *names = &config->arch->names;
    *place = (struct place){.expert = -1};
    if (strncmp(name, "model.mtp_", 10) == 0) return KIND_FURTHER;
    const char *in_layer = mt_adapter_in_layer(name, &place->layer);
    if (in_layer == NULL) return KIND_OTHER;
    if (place->layer >= config->layers)
        return place->layer < config->layers + config->nextn_predict_layers ? KIND_FURTHER : KIND_OTHER;
    if (!mt_hf_config_layer_is_moe(config, place->layer)) return KIND_OTHER;
    place->rest = after(in_layer, names->router);
    if (place->rest == NULL && names->correction != NULL) place->rest = after(in_layer, names->correction);
    if (place->rest != NULL) return KIND_ROUTER;
    const char *expert = after(in_layer, names->experts);
    if (expert == NULL) return KIND_OTHER;
    place->rest = expert;
    if (*expert < '0' || *expert > '9') return KIND_OTHER;
    char *end = NULL;
    place->expert = strtoll(expert, &end, 10);
    place->rest = end;
    return KIND_EXPERT;
}

// ------------------------------------------------------------------ rows

/* The rows that stay of `rows` many of equal size, copied to the arena. */
static enum mt_status gather(const void *data, size_t row_bytes, const int32_t *rows, int count,
                             struct mt_arena *arena, const void **gathered)
{
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(arena, (size_t)count * row_bytes, &memory);
    for (int i = 0; i < count && status == MT_OK; i++)
        memcpy((char *)memory + (size_t)i * row_bytes, (const char *)data + (size_t)rows[i] * row_bytes,
               row_bytes);
    *gathered = memory;
    return status;
}

/* A tensor with a row for every expert: those that stay. */
static enum mt_status gather_tensor(struct mt_safetensors_tensor *tensor, const struct mt_kept *kept,
                                    int64_t layer, struct mt_arena *arena)
{
    size_t row_bytes = (size_t)tensor->bytes / (size_t)tensor->dim[0];
    enum mt_status status =
        gather(tensor->data, row_bytes, kept->expert[layer], kept->keep, arena, &tensor->data);
    tensor->dim[0] = kept->keep;
    tensor->bytes = (uint64_t)kept->keep * row_bytes;
    return status;
}

// ------------------------------------------------------------------ the checkpoint

struct shrinker {
    struct mt_context *ctx;
    const struct mt_checkpoint *checkpoint; // of the whole model
    const struct mt_hf_config *config;
    const struct mt_kept *kept;
    struct mt_arena *arena;
    struct mt_checkpoint *shrunk;
    size_t *left_out;
};

static enum mt_status add(const struct shrinker *shrinker, const struct mt_safetensors_tensor *tensor,
                          size_t shard)
{
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(shrinker->arena, sizeof *tensor, &memory);
    if (status != MT_OK) return status;
    *(struct mt_safetensors_tensor *)memory = *tensor;
    struct mt_checkpoint *shrunk = shrinker->shrunk;
    shrunk->tensors[shrunk->tensor_count++] = (struct mt_checkpoint_tensor){.info = memory, .shard = shard};
    shrunk->data_bytes += tensor->bytes;
    return MT_OK;
}

/* "model.layers.L.EXPERTS.E" and what follows. */
static enum mt_status name_expert(const struct shrinker *shrinker, int64_t layer, int64_t expert,
                                  const char *rest, const char **name)
{
    char text[512];
    int length = snprintf(text, sizeof text, "model.layers.%lld.%s.%lld%s", (long long)layer,
                          shrinker->config->arch->names.experts, (long long)expert, rest);
    if (length < 0 || (size_t)length >= sizeof text)
        return mt_fail(shrinker->ctx, MT_ERR_FORMAT, "%s: the name is too long", mt_printable(rest).text);
    return mt_arena_copy_text(shrinker->arena, text, (size_t)length, name);
}

static enum mt_status add_expert(const struct shrinker *shrinker, struct mt_safetensors_tensor tensor,
                                 const struct place *place, size_t shard)
{
    int64_t number = mt_kept_place(shrinker->kept, place->layer, place->expert);
    if (number < 0) return MT_OK;
    enum mt_status status = name_expert(shrinker, place->layer, number, place->rest, &tensor.name);
    return status == MT_OK ? add(shrinker, &tensor, shard) : status;
}

/* A router in nf4: its codes bring all parts along. */
static enum mt_status add_nf4_router(const struct shrinker *shrinker,
                                     const struct mt_safetensors_tensor *codes, const struct place *place,
                                     size_t shard)
{
    struct mt_safetensors_tensor tensors[MT_SHRUNK_NF4_TENSORS];
    struct mt_published published;
    struct mt_model_tensor tensor = {.part = MT_PART_ROUTER,
                                     .layer = place->layer,
                                     .expert = -1,
                                     .rank = 2,
                                     .dim = {shrinker->config->experts, shrinker->config->hidden_size}};
    (void)snprintf(tensor.name, sizeof tensor.name, "%s", codes->name);
    enum mt_status status = mt_published_find(shrinker->config, shrinker->checkpoint, &tensor, &published);
    if (status == MT_OK)
        status = mt_shrink_nf4(shrinker->ctx, &published, shrinker->kept->expert[place->layer],
                               shrinker->kept->keep, shrinker->arena, tensors);
    if (status != MT_OK) return mt_fail_within(shrinker->ctx, status, "%s", tensor.name);
    for (int i = 0; i < MT_SHRUNK_NF4_TENSORS && status == MT_OK; i++)
        status = add(shrinker, &tensors[i], shard);
    return status;
}

/* Rows of a router, and what else has one for every expert. Blocks of 128 rows may share their scales. */
static enum mt_status add_router(const struct shrinker *shrinker, struct mt_safetensors_tensor tensor,
                                 const struct place *place, size_t shard)
{
    bool nf4 = shrinker->config->quant.method == MT_HF_QUANT_NF4;
    if (nf4 && tensor.dtype == MT_SAFETENSORS_U8 && strcmp(place->rest, "weight") == 0)
        return add_nf4_router(shrinker, &tensor, place, shard);
    if (nf4 && strncmp(place->rest, "weight.", 7) == 0) return MT_OK; // with the codes
    bool shared = tensor.rank == 2 && tensor.dim[0] == 1 && strcmp(place->rest, "weight_scale_inv") == 0;
    if (shared) return add(shrinker, &tensor, shard);
    bool as_row =
        tensor.rank == 2 && tensor.dim[0] == 1 && strcmp(place->rest, "e_score_correction_bias") == 0;
    if (as_row) tensor.dim[0] = tensor.dim[1]; // [1,n]: gathered as if it were [n]
    if (tensor.rank == 0 || tensor.dim[0] != shrinker->config->experts) {
        return mt_fail(
            shrinker->ctx, MT_ERR_UNSUPPORTED,
            "%s %s: rows of a router in these codes cannot be removed without rounding the others again",
            mt_printable(tensor.name).text, mt_safetensors_shape(tensor.rank, tensor.dim).text);
    }
    enum mt_status status = gather_tensor(&tensor, shrinker->kept, place->layer, shrinker->arena);
    if (as_row) {
        tensor.dim[1] = tensor.dim[0];
        tensor.dim[0] = 1;
    }
    return status == MT_OK ? add(shrinker, &tensor, shard) : status;
}

static enum mt_status add_tensor(const struct shrinker *shrinker, const struct mt_checkpoint_tensor *entry)
{
    struct place place;
    switch (kind_of(shrinker->config, entry->info->name, &place)) {
    case KIND_OTHER: break;
    case KIND_EXPERT: return add_expert(shrinker, *entry->info, &place, entry->shard);
    case KIND_ROUTER: return add_router(shrinker, *entry->info, &place, entry->shard);
    case KIND_FURTHER: *shrinker->left_out += 1; return MT_OK;
    }
    return add(shrinker, entry->info, entry->shard);
}

static int compare_tensors(const void *left, const void *right)
{
    const struct mt_checkpoint_tensor *a = left;
    const struct mt_checkpoint_tensor *b = right;
    return strcmp(a->info->name, b->info->name);
}

enum mt_status mt_shrink_checkpoint(const struct mt_checkpoint *checkpoint, const struct mt_hf_config *config,
                                    const struct mt_kept *kept, struct mt_arena *arena,
                                    struct mt_checkpoint *shrunk, size_t *left_out)
{
    enum mt_status status = MT_OK;
    *left_out = 0;
    *shrunk = (struct mt_checkpoint){.ctx = checkpoint->ctx,
                                     .shards = checkpoint->shards,
                                     .shard_count = checkpoint->shard_count,
                                     .stacked = checkpoint->stacked};
    shrunk->tensors = mt_arena_array(arena, checkpoint->tensor_count, sizeof *shrunk->tensors, &status);
    const struct shrinker shrinker = {.ctx = checkpoint->ctx,
                                      .checkpoint = checkpoint,
                                      .config = config,
                                      .kept = kept,
                                      .arena = arena,
                                      .shrunk = shrunk,
                                      .left_out = left_out};
    for (size_t i = 0; i < checkpoint->tensor_count && status == MT_OK; i++)
        status = add_tensor(&shrinker, &checkpoint->tensors[i]);
    if (status == MT_OK)
        qsort(shrunk->tensors, shrunk->tensor_count, sizeof *shrunk->tensors, compare_tensors);
    return status;
}

// ------------------------------------------------------------------ config, biases, adapter

static void write_number(struct mt_shrunk_config *written, const char *key, int64_t value, bool new_key)
{
    written->number[written->count++] =
        (struct mt_config_number){.key = key, .value = value, .new_key = new_key};
}

void mt_shrink_config(struct mt_hf_config *config, int keep, struct mt_shrunk_config *written)
{
    *written = (struct mt_shrunk_config){.count = 0};
    config->experts = keep;
    write_number(written, "n_routed_experts", keep, false);
    write_number(written, "num_local_experts", keep, false);
    write_number(written, "num_experts", keep, false);
    write_number(written, "moe_num_experts", keep, false);
    bool limits = config->topk != MT_HF_TOPK_GREEDY && config->topk_groups < config->groups;
    if (!limits && config->groups > 1) {
        config->groups = 1;
        config->topk_groups = 1;
        write_number(written, "n_group", 1, true); // a class may have another default
        write_number(written, "topk_group", 1, true);
    }
    if (config->nextn_predict_layers > 0) write_number(written, "num_nextn_predict_layers", 0, false);
    config->nextn_predict_layers = 0;
}

enum mt_status mt_shrink_biases(struct mt_safetensors *biases, const struct mt_kept *kept,
                                struct mt_arena *arena)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < biases->tensor_count && status == MT_OK; i++) {
        int64_t layer = 0;
        (void)mt_adapter_in_layer(biases->tensors[i].name, &layer); // checked when it was opened
        status = gather_tensor(&biases->tensors[i], kept, layer, arena);
    }
    return status;
}

/* A router's pair: the rows of B that stay. */
static enum mt_status shrink_router_pair(struct mt_adapter_pair *pair, const struct mt_kept *kept,
                                         int64_t layer, struct mt_arena *arena)
{
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(arena, sizeof *pair->b, &memory);
    if (status != MT_OK) return status;
    struct mt_safetensors_tensor *b = memory;
    *b = *pair->b;
    size_t row_bytes = (size_t)b->bytes / (size_t)b->dim[0];
    const char *first = (const char *)b->data + (size_t)pair->b_row * row_bytes;
    status = gather(first, row_bytes, kept->expert[layer], kept->keep, arena, &b->data);
    b->dim[0] = kept->keep;
    b->bytes = (uint64_t)kept->keep * row_bytes;
    pair->b = b;
    pair->b_row = 0;
    pair->out = kept->keep;
    return status;
}

static int compare_pairs(const void *left, const void *right)
{
    const struct mt_adapter_pair *a = left;
    const struct mt_adapter_pair *b = right;
    return strcmp(a->module, b->module);
}

enum mt_status mt_shrink_adapter(struct mt_adapter *adapter, const struct mt_hf_config *config,
                                 const struct mt_kept *kept, struct mt_arena *arena)
{
    const struct shrinker shrinker = {.ctx = adapter->ctx, .config = config, .kept = kept, .arena = arena};
    enum mt_status status = mt_shrink_biases(&adapter->biases, kept, arena);
    size_t count = 0;
    for (size_t i = 0; i < adapter->module_count && status == MT_OK; i++) {
        struct mt_adapter_pair pair = adapter->pairs[i];
        struct place place;
        char name[MT_PARAMS_NAME_BYTES];
        (void)snprintf(name, sizeof name, "%s.", pair.module); // a router's ends where its name does
        enum kind kind = kind_of(config, name, &place);
        int64_t number = kind == KIND_EXPERT ? mt_kept_place(kept, place.layer, place.expert) : 0;
        if (number < 0) continue;
        (void)kind_of(config, pair.module, &place);
        if (kind == KIND_EXPERT)
            status = name_expert(&shrinker, place.layer, number, place.rest, &pair.module);
        if (kind == KIND_ROUTER) status = shrink_router_pair(&pair, kept, place.layer, arena);
        adapter->pairs[count++] = pair;
    }
    if (status != MT_OK) return status;
    adapter->module_count = count;
    if (count > 0) qsort(adapter->pairs, count, sizeof *adapter->pairs, compare_pairs);
    for (size_t i = 0; i <= count && adapter->modules != NULL; i++)
        adapter->modules[i] = i < count ? adapter->pairs[i].module : NULL;
    return MT_OK;
}
