/*
 * Parameters: list the tensors, decide what is trained, lay memory out (counting, then placing), fill it.
 */
#include "model/params/params.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/model_check.h"
#include "arch/published/published.h"
#include "base/rng.h"
#include "formats/text/printable.h"
#include "metier/ops.h"
#include "model/adapters/router_bias.h"
#include "model/experts/ranks.h"
#include "model/params/codes_cache.h"
#include "model/params/loading.h"
#include "model/params/quantised.h"
#include "model/params/stream.h"
#include "tensor/dtype.h"

// ------------------------------------------------------------------ checkpoint and config

#define NAMED 4 // of a kind; the rest is counted

static void append(char *text, size_t bytes, const char *addition)
{
    size_t used = strlen(text);
    (void)snprintf(text + used, bytes - used, "%s", addition);
}

/* "; missing: A, B and 7 more" */
static void append_findings(char *text, size_t bytes, const char *kind,
                            const struct mt_model_findings *findings)
{
    char piece[512];
    if (findings->count == 0) return;
    append(text, bytes, text[0] == '\0' ? "" : "; ");
    append(text, bytes, kind);
    size_t named = findings->count < NAMED ? findings->count : NAMED;
    for (size_t i = 0; i < named; i++) {
        const struct mt_model_finding *finding = &findings->listed[i];
        (void)snprintf(piece, sizeof piece, "%s %s%s%s", i == 0 ? ":" : ",", mt_printable(finding->name).text,
                       finding->text != NULL ? " " : "", finding->text != NULL ? finding->text : "");
        append(text, bytes, piece);
    }
    if (findings->count > named) {
        (void)snprintf(piece, sizeof piece, " and %zu more", findings->count - named);
        append(text, bytes, piece);
    }
}

enum mt_status mt_params_check(struct mt_context *ctx, const struct mt_model_desc *desc,
                               const struct mt_checkpoint *checkpoint)
{
    struct mt_model_check check;
    enum mt_status status = mt_model_check_checkpoint(ctx, desc->config, checkpoint, &check);
    if (status != MT_OK) return status;
    char text[MT_MESSAGE_BYTES] = "";
    append_findings(text, sizeof text, "missing", &check.missing);
    append_findings(text, sizeof text, "wrong", &check.wrong);
    append_findings(text, sizeof text, "unexpected", &check.unexpected);
    if (text[0] != '\0') {
        bool shape_only = check.missing.count == 0 && check.unexpected.count == 0;
        status = mt_fail(ctx, shape_only ? MT_ERR_SHAPE : MT_ERR_FORMAT, "weights and config do not fit: %s",
                         text);
    }
    mt_model_check_free(&check);
    return status;
}

// ------------------------------------------------------------------ values

#define PIECE 65536 // elements converted at a time

struct staging {
    float values[PIECE];
    float stored[PIECE]; // bytes as in the file, aligned; at most four per element
};

enum mt_dtype mt_params_stored_type(const struct mt_safetensors_tensor *stored)
{
    switch (stored->dtype) {
    case MT_SAFETENSORS_F32: return MT_F32;
    case MT_SAFETENSORS_BF16: return MT_BF16;
    case MT_SAFETENSORS_F16: return MT_F16;
    default: break;
    }
    assert(false && "mt_params_check lets only these types pass");
    return MT_F32;
}

/* Elements first … first+count-1 of `target` := the staged values. */
static enum mt_status upload_piece(struct mt_device *device, const struct staging *staging,
                                   const struct mt_tensor *target, int64_t first, int64_t count)
{
    return mt_device_upload(device, (float *)target->data + first, staging->values,
                            (size_t)count * sizeof(float));
}

enum mt_status mt_params_upload_f32(struct mt_device *device, const struct mt_safetensors_tensor *stored,
                                    const struct mt_tensor *target)
{
    struct mt_context *ctx = mt_device_context(device);
    enum mt_dtype dtype = mt_params_stored_type(stored);
    int64_t total = mt_tensor_count(target);
    void *memory = NULL;
    enum mt_status status = mt_allocate(ctx, sizeof(struct staging), &memory);
    struct staging *staging = memory;
    for (int64_t first = 0; status == MT_OK && first < total; first += PIECE) {
        int64_t count = total - first < PIECE ? total - first : PIECE;
        // By way of aligned memory: a tensor in the file may lie at any address.
        mt_safetensors_read(stored, first, count, staging->stored);
        mt_convert_to_f32(dtype, staging->stored, count, staging->values);
        status = upload_piece(device, staging, target, first, count);
    }
    mt_release(ctx, memory, sizeof(struct staging));
    return status;
}

/* LoRA's A: uniform in ±1/sqrt(in), a pure function of the seed and the name. */
static enum mt_status fill_lora_a(struct mt_device *device, uint64_t seed, const char *name,
                                  const struct mt_tensor *a)
{
    struct mt_context *ctx = mt_device_context(device);
    uint64_t stream = mt_stream_of_name(name);
    float bound = (float)(1.0 / sqrt((double)a->dim[1])); // kaiming uniform with a = sqrt(5)
    int64_t total = mt_tensor_count(a);
    void *memory = NULL;
    enum mt_status status = mt_allocate(ctx, sizeof(struct staging), &memory);
    struct staging *staging = memory;
    for (int64_t first = 0; status == MT_OK && first < total; first += PIECE) {
        int64_t count = total - first < PIECE ? total - first : PIECE;
        for (int64_t i = 0; i < count; i++) {
            float unit = mt_rng_uniform(seed, stream, (uint64_t)(first + i));
            staging->values[i] = bound * (2.0f * unit - 1.0f);
        }
        status = upload_piece(device, staging, a, first, count);
    }
    mt_release(ctx, memory, sizeof(struct staging));
    return status;
}

// ------------------------------------------------------------------ loading

#define ARENA_BLOCK_BYTES 65536

/* Where masters and gradients of things that are trained go. */
struct trained_memory {
    struct mt_planner masters, gradients;
};

struct loader {
    struct mt_device *device;
    struct mt_context *ctx;
    const struct mt_model_desc *desc;
    const struct mt_checkpoint *checkpoint;
    const struct mt_train_selection *selection;
    struct mt_params *params;
    struct mt_params_items items;
    struct trained_memory common;    // what every rank holds
    struct trained_memory shard;     // our part of what is spread over ranks
    struct trained_memory elsewhere; // never has memory: the others' part
    struct mt_planner copies, beside;
    struct mt_quantised_layout quantised;
    size_t trained; // laid out so far
};

// ------------------------------------------------------------------ whose experts

/* Which of the ranks that share the experts holds this tensor; -1: every rank does. */
static int owner_of(const struct loader *loader, const struct mt_params_item *item)
{
    const struct mt_comm *ranks = loader->selection->expert_ranks;
    if (ranks == NULL || item->tensor.expert < 0) return -1;
    return mt_expert_ranks_owner(loader->desc->experts, (int)item->tensor.expert, mt_comm_size(ranks));
}

static struct trained_memory *memory_of(struct loader *loader, const struct mt_params_item *item)
{
    if (item->elsewhere) return &loader->elsewhere;
    return owner_of(loader, item) >= 0 ? &loader->shard : &loader->common;
}

// ------------------------------------------------------------------ the list of tensors

static enum mt_status list_items(struct loader *loader)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(loader->desc->config);
    struct mt_model_tensor tensor;
    size_t count = 0;
    while (mt_model_tensors_next(&walk, &tensor)) count++;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(loader->ctx, count, sizeof(struct mt_params_item), &memory);
    if (status != MT_OK) return status;
    loader->items = (struct mt_params_items){.ctx = loader->ctx, .item = memory, .count = count};
    walk = mt_model_tensors_begin(loader->desc->config);
    for (size_t i = 0; i < count; i++) {
        struct mt_params_item *item = &loader->items.item[i];
        (void)mt_model_tensors_next(&walk, &item->tensor);
        struct mt_published found;
        status = mt_published_find(loader->desc->config, loader->checkpoint, &item->tensor, &found);
        if (status != MT_OK) return mt_fail_within(loader->ctx, status, "%s", item->tensor.name);
        item->stored = found.part[MT_PUBLISHED_CODES];
        assert(item->stored != NULL); // mt_params_check has looked
        item->correction = mt_model_tensor_is_correction(&item->tensor);
        item->published = found.quantised;
        item->nested = found.quantised && mt_tensor_present(&found.matrix.nested_scales);
        item->quantised = found.quantised || mt_quantise_takes(&loader->selection->quantise, &item->tensor);
        int owner = owner_of(loader, item);
        item->elsewhere = owner >= 0 && owner != mt_comm_rank(loader->selection->expert_ranks);
    }
    return MT_OK;
}

static void free_items(struct loader *loader)
{
    mt_release(loader->ctx, loader->items.item, loader->items.count * sizeof *loader->items.item);
    loader->items = (struct mt_params_items){0};
}

// ------------------------------------------------------------------ layers

static enum mt_status prepare_layers(struct loader *loader)
{
    const struct mt_model_desc *desc = loader->desc;
    struct mt_params *params = loader->params;
    void *layers = NULL;
    enum mt_status status =
        mt_arena_allocate(&params->arena, (size_t)desc->layers * sizeof *params->layer, &layers);
    if (status != MT_OK) return status;
    params->layer = layers;
    params->layers = desc->layers;
    for (int64_t i = 0; i < desc->layers; i++) {
        params->layer[i].moe = mt_model_layer_is_moe(desc, i);
        params->layer[i].router.exact = true;
    }
    return MT_OK;
}

void mt_layer_linears(struct mt_layer_params *layer, struct mt_linear *linears[MT_LAYER_LINEARS])
{
    struct mt_linear *const all[MT_LAYER_LINEARS] = {&layer->q,
                                                     &layer->k,
                                                     &layer->v,
                                                     &layer->o,
                                                     &layer->q_a,
                                                     &layer->q_b,
                                                     &layer->kv_a,
                                                     &layer->kv_b,
                                                     &layer->dense.gate,
                                                     &layer->dense.up,
                                                     &layer->dense.down,
                                                     &layer->router,
                                                     &layer->shared.up,
                                                     &layer->shared.gate,
                                                     &layer->shared.down,
                                                     &layer->shared_gate,
                                                     &layer->experts.gate,
                                                     &layer->experts.up,
                                                     &layer->experts.down};
    memcpy(linears, all, sizeof all);
}

// ------------------------------------------------------------------ layout

static struct mt_tensor plan_like(struct mt_planner *planner, enum mt_dtype dtype,
                                  const struct mt_model_tensor *tensor)
{
    if (tensor->rank == 1) return mt_plan_1d(planner, dtype, tensor->dim[0]);
    return mt_plan_2d(planner, dtype, tensor->dim[0], tensor->dim[1]);
}

/* An item's view in a list of its linear layer, which is made when somebody first asks. */
static struct mt_tensor *view_in(struct loader *loader, const struct mt_params_place *place,
                                 struct mt_tensor **list, enum mt_status *status)
{
    size_t count = (size_t)(place->biased != NULL ? loader->desc->experts : place->linear->weight.count);
    if (*list == NULL) *list = mt_arena_array(&loader->params->arena, count, sizeof **list, status);
    return *list != NULL ? &(*list)[place->index] : NULL;
}

static enum mt_status find_place(struct loader *loader, const struct mt_params_item *item,
                                 struct mt_params_place *place)
{
    enum mt_status status = mt_params_find_place(loader->params, loader->desc, &item->tensor, place);
    if (status == MT_OK && place->biased != NULL)
        place->value = view_in(loader, place, &place->biased->biases, &status);
    if (status != MT_OK || place->linear == NULL) return status;
    struct mt_weight *weight = &place->linear->weight;
    weight->count = item->tensor.expert >= 0 ? loader->desc->experts : 1;
    weight->out = item->tensor.dim[0];
    weight->in = item->tensor.dim[1];
    place->value = view_in(loader, place, &weight->stored, &status);
    return status;
}

/* A view into the mapping, if the device can read there and the address fits the type. */
static bool usable_in_place(const struct loader *loader, const struct mt_params_item *item)
{
    size_t item_bytes = mt_dtype_bytes(mt_params_stored_type(item->stored));
    return mt_device_on_host(loader->device) && !item->correction && mt_safetensors_whole(item->stored) &&
           (uintptr_t)item->stored->data % item_bytes == 0;
}

/* The item in the parameters that lend their weights, if it is read there as it is here. */
static bool find_shared(const struct loader *loader, const struct mt_params_item *item,
                        struct mt_params_place *place)
{
    struct mt_params *shared = loader->selection->shared;
    if (shared == NULL || item->correction) return false;
    assert(shared->trained_count == 0);
    if (mt_params_find_place(shared, loader->desc, &item->tensor, place) != MT_OK) return false;
    if (place->linear == NULL) return true;
    const struct mt_weight *weight = &place->linear->weight;
    place->value = &weight->stored[place->index];
    return item->quantised == (weight->quantised != NULL);
}

/* Codes and scales, and where the copy goes that products read. */
static enum mt_status lay_out_quantised(struct loader *loader, const struct mt_params_item *item,
                                        const struct mt_params_place *place)
{
    struct mt_quantised found = {0};
    struct mt_params_place lent;
    bool kept = item->kept != NULL && mt_device_on_host(loader->device);
    bool shared = find_shared(loader, item, &lent);
    const struct mt_quantised *own = shared || item->published || kept ? &found : NULL;
    if (shared) {
        found = lent.linear->weight.quantised[lent.index];
    } else if (item->published) {
        enum mt_status status = mt_published_place(loader->device, loader->desc->config, loader->checkpoint,
                                                   &item->tensor, &found);
        if (status != MT_OK) return status;
    } else if (kept) {
        mt_quantised_image(&loader->selection->quantise, &item->tensor, item->kept, &found);
    }
    if (!shared) loader->params->mapped += mt_published_mapped(&found);
    const struct mt_comm *ranks = loader->selection->expert_ranks;
    int all = loader->desc->experts;
    int size = ranks != NULL ? mt_comm_size(ranks) : 1;
    int rank = ranks != NULL ? mt_comm_rank(ranks) : 0;
    int first = mt_expert_ranks_first(all, rank, size);
    const struct mt_quantised_expert expert = {.projection = place->projection,
                                               .number = place->index - first,
                                               .here = mt_expert_ranks_first(all, rank + 1, size) - first};
    struct mt_weight *weight = &place->linear->weight;
    enum mt_status status = MT_OK;
    if (weight->quantised == NULL)
        weight->quantised =
            mt_arena_array(&loader->params->arena, (size_t)weight->count, sizeof *weight->quantised, &status);
    if (status != MT_OK) return status;
    mt_quantised_lay_out(&loader->quantised, &item->tensor, item->tensor.expert >= 0 ? &expert : NULL, own,
                         &weight->quantised[place->index], place->value);
    return MT_OK;
}

/* A step reads few of its rows, so that the way to the host's memory costs little. */
static bool lies_beside(const struct loader *loader, const struct mt_params_item *item)
{
    return loader->selection->host_embedding && item->tensor.part == MT_PART_EMBEDDING &&
           item->trainable == MT_TRAINABLE_NONE && !loader->desc->tied_head;
}

static enum mt_status lay_out_frozen(struct loader *loader, const struct mt_params_item *item,
                                     const struct mt_params_place *place)
{
    struct mt_tensor *value = place->value;
    *value = (struct mt_tensor){0};
    if (item->elsewhere) return MT_OK;
    if (item->quantised) return lay_out_quantised(loader, item, place);
    struct mt_params_place lent;
    if (find_shared(loader, item, &lent)) {
        *value = *lent.value;
        return MT_OK;
    }
    enum mt_dtype dtype = item->correction ? MT_F32 : mt_params_stored_type(item->stored);
    bool beside = lies_beside(loader, item);
    if (beside || !usable_in_place(loader, item)) {
        *value = plan_like(beside ? &loader->beside : &loader->copies, dtype, &item->tensor);
        return MT_OK;
    }
    void *data = (void *)item->stored->data; // never written: only trained tensors are
    *value = item->tensor.rank == 1 ? mt_tensor_1d(data, dtype, item->tensor.dim[0])
                                    : mt_tensor_2d(data, dtype, item->tensor.dim[0], item->tensor.dim[1]);
    loader->params->mapped += (size_t)item->stored->bytes;
    return MT_OK;
}

/*
 * Enters one more trained tensor; while counting only its number matters. The views of one that another rank
 * holds become absent: the list alone knows its shape.
 */
static enum mt_status add_trained(struct loader *loader, const struct mt_params_item *item, const char *name,
                                  struct mt_tensor *value, struct mt_tensor *gradient)
{
    struct mt_params *params = loader->params;
    size_t place = loader->trained++;
    if (params->trained == NULL) return MT_OK;
    const char *copy = NULL;
    enum mt_status status = mt_arena_copy_text(&params->arena, name, strlen(name), &copy);
    if (status != MT_OK) return status;
    params->trained[place] = (struct mt_param){
        .name = copy,
        .value = *value,
        .grad = *gradient,
        .part = item->tensor.part,
        .layer = item->tensor.layer,
        .expert = item->tensor.expert,
        .owner = owner_of(loader, item),
    };
    params->trained_elements += mt_tensor_count(value);
    if (!item->elsewhere) return MT_OK;
    *value = (struct mt_tensor){0};
    *gradient = (struct mt_tensor){0};
    return MT_OK;
}

static enum mt_status lay_out_full(struct loader *loader, const struct mt_params_item *item,
                                   const struct mt_params_place *place)
{
    struct trained_memory *memory = memory_of(loader, item);
    enum mt_status status = MT_OK;
    struct mt_tensor *gradient = place->gradient;
    if (place->linear != NULL) gradient = view_in(loader, place, &place->linear->dweight, &status);
    if (place->biased != NULL) gradient = view_in(loader, place, &place->biased->dbiases, &status);
    if (status != MT_OK) return status;
    *place->value = plan_like(&memory->masters, MT_F32, &item->tensor);
    *gradient = plan_like(&memory->gradients, MT_F32, &item->tensor);
    return add_trained(loader, item, item->tensor.name, place->value, gradient);
}

static void lora_name(const struct mt_params_item *item, char letter, char *name, size_t bytes)
{
    char module[MT_MODEL_NAME_BYTES];
    mt_params_module_name(item->tensor.name, module, sizeof module);
    (void)snprintf(name, bytes, "base_model.model.%s.lora_%c.weight", module, letter);
}

/* What a pair's layer is called for its random draws: experts of a layer draw together. */
static uint64_t stream_of(const struct loader *loader, const struct mt_params_item *item,
                          const struct mt_params_place *place)
{
    const struct mt_model_names *names = &loader->desc->names;
    const char *const projections[] = {names->gate, names->up, names->down};
    char module[MT_PARAMS_NAME_BYTES];
    if (item->tensor.expert < 0) {
        mt_params_module_name(item->tensor.name, module, sizeof module);
    } else {
        (void)snprintf(module, sizeof module, "model.layers.%lld.%s.%s", (long long)item->tensor.layer,
                       names->experts, projections[place->projection]);
    }
    return mt_stream_of_name(module);
}

/* One half of a pair: its views and its entry. */
static enum mt_status lay_out_half(struct loader *loader, const struct mt_params_item *item, char letter,
                                   int64_t rows, int64_t columns, struct mt_tensor *value,
                                   struct mt_tensor *gradient)
{
    struct trained_memory *memory = memory_of(loader, item);
    char name[MT_PARAMS_NAME_BYTES];
    *value = mt_plan_2d(&memory->masters, MT_F32, rows, columns);
    *gradient = mt_plan_2d(&memory->gradients, MT_F32, rows, columns);
    lora_name(item, letter, name, sizeof name);
    return add_trained(loader, item, name, value, gradient);
}

static enum mt_status lay_out_lora(struct loader *loader, const struct mt_params_item *item,
                                   const struct mt_params_place *place)
{
    const struct mt_train_selection *selection = loader->selection;
    struct mt_linear *linear = place->linear;
    enum mt_status status = lay_out_frozen(loader, item, place);
    linear->rank = selection->lora_rank;
    linear->lora_scale = (float)(selection->lora_alpha / (double)selection->lora_rank);
    linear->dropout = (float)selection->lora_dropout;
    linear->stream = stream_of(loader, item, place);
    loader->params->lora_scale = linear->lora_scale;
    struct mt_tensor *a = view_in(loader, place, &linear->a, &status);
    struct mt_tensor *da = view_in(loader, place, &linear->da, &status);
    struct mt_tensor *b = view_in(loader, place, &linear->b, &status);
    struct mt_tensor *db = view_in(loader, place, &linear->db, &status);
    if (status == MT_OK) status = lay_out_half(loader, item, 'A', linear->rank, linear->weight.in, a, da);
    return status == MT_OK ? lay_out_half(loader, item, 'B', linear->weight.out, linear->rank, b, db)
                           : status;
}

/* A planner behind the first `skipped` bytes of a buffer, which may not be there yet. */
static struct mt_planner planner_behind(const struct mt_buffer *buffer, size_t skipped)
{
    char *base = buffer->data;
    return (struct mt_planner){.base = base != NULL ? base + skipped : NULL};
}

/* Run twice: with no memory to count bytes and trained tensors, then to place them. */
static enum mt_status lay_out(struct loader *loader)
{
    struct mt_params *params = loader->params;
    loader->common = (struct trained_memory){.masters = planner_behind(&params->masters, 0),
                                             .gradients = planner_behind(&params->gradients, 0)};
    loader->shard =
        (struct trained_memory){.masters = planner_behind(&params->masters, params->common_bytes),
                                .gradients = planner_behind(&params->gradients, params->common_bytes)};
    loader->elsewhere = (struct trained_memory){0};
    loader->copies = (struct mt_planner){.base = params->copies.data};
    loader->beside = (struct mt_planner){.base = params->beside.data};
    mt_quantised_layout_begin(&loader->quantised, &loader->selection->quantise, params);
    loader->trained = 0;
    params->mapped = 0;
    for (size_t i = 0; i < loader->items.count; i++) {
        const struct mt_params_item *item = &loader->items.item[i];
        struct mt_params_place place;
        enum mt_status status = find_place(loader, item, &place);
        if (status != MT_OK) return status;
        switch (item->trainable) {
        case MT_TRAINABLE_NONE: status = lay_out_frozen(loader, item, &place); break;
        case MT_TRAINABLE_FULL: status = lay_out_full(loader, item, &place); break;
        case MT_TRAINABLE_LORA: status = lay_out_lora(loader, item, &place); break;
        }
        if (status != MT_OK) return status;
    }
    if (loader->desc->tied_head) { // one matrix, trained once: both of its gradients add up in one place
        params->head.weight = (struct mt_weight){.stored = &params->embedding,
                                                 .count = 1,
                                                 .out = params->embedding.dim[0],
                                                 .in = params->embedding.dim[1]};
        if (mt_tensor_present(&params->dembedding)) params->head.dweight = &params->dembedding;
    }
    return MT_OK;
}

static enum mt_status make_buffer(struct loader *loader, const char *purpose, size_t bytes,
                                  struct mt_buffer *buffer)
{
    if (bytes == 0) return MT_OK;
    enum mt_status status = mt_device_buffer_create(loader->device, bytes, buffer);
    return status == MT_OK ? MT_OK : mt_fail_within(loader->ctx, status, "%s", purpose);
}

static enum mt_status make_memory(struct loader *loader)
{
    struct mt_params *params = loader->params;
    enum mt_status status = lay_out(loader);
    void *trained = NULL;
    if (status == MT_OK) {
        status = mt_arena_allocate(&params->arena, loader->trained * sizeof *params->trained, &trained);
    }
    size_t bytes = loader->common.masters.bytes + loader->shard.masters.bytes;
    params->common_bytes = loader->common.masters.bytes;
    if (status == MT_OK) status = make_buffer(loader, "trained parameters", bytes, &params->masters);
    if (status == MT_OK && !loader->selection->forward_only)
        status = make_buffer(loader, "gradients", bytes, &params->gradients);
    if (status == MT_OK) {
        status = make_buffer(loader, "weights", loader->copies.bytes, &params->copies);
    }
    size_t unpacked = mt_quantised_copy_bytes(&loader->quantised);
    if (status == MT_OK && loader->beside.bytes > 0)
        status = mt_device_staging_create(loader->device, loader->beside.bytes, &params->beside);
    if (status == MT_OK)
        status = make_buffer(loader, "quantised weights", loader->quantised.codes.bytes, &params->codes);
    if (status == MT_OK)
        status = make_buffer(loader, "a layer's unpacked weights", unpacked, &params->unpacked);
    if (status != MT_OK) return status;
    params->trained = trained;
    params->trained_count = loader->trained;
    return lay_out(loader);
}

// ------------------------------------------------------------------ values

/* Bytes of the file; a matrix inside a stack is gathered, on other devices by way of memory of the host. */
static enum mt_status upload_stored(struct loader *loader, const struct mt_safetensors_tensor *stored,
                                    void *target)
{
    size_t bytes = (size_t)stored->bytes;
    int64_t count = (int64_t)(bytes / mt_safetensors_dtype_bytes(stored->dtype));
    void *gathered = NULL;
    if (mt_safetensors_whole(stored)) return mt_device_upload(loader->device, target, stored->data, bytes);
    if (mt_device_on_host(loader->device)) {
        mt_safetensors_read(stored, 0, count, target);
        return MT_OK;
    }
    enum mt_status status = mt_allocate(loader->ctx, bytes, &gathered);
    if (status != MT_OK) return status;
    mt_safetensors_read(stored, 0, count, gathered);
    status = mt_device_upload(loader->device, target, gathered, bytes);
    mt_release(loader->ctx, gathered, bytes);
    return status;
}

static enum mt_status fill_item(struct loader *loader, const struct mt_params_item *item)
{
    struct mt_params_place place;
    if (item->elsewhere) return MT_OK;
    enum mt_status status = find_place(loader, item, &place);
    if (status != MT_OK) return status;
    if (item->trainable == MT_TRAINABLE_FULL || item->correction) {
        return mt_params_upload_f32(loader->device, item->stored, place.value);
    }
    struct mt_params_place lent;
    if (find_shared(loader, item, &lent)) {
        status = MT_OK; // it is filled
    } else if (item->quantised) {
        const struct mt_quantised *matrix = &place.linear->weight.quantised[place.index];
        status = item->published
                     ? mt_published_fill(loader->device, loader->desc->config, loader->checkpoint,
                                         &item->tensor, matrix)
                     : mt_quantised_fill(loader->device, &loader->selection->quantise, item, matrix);
    } else if (lies_beside(loader, item)) {
        mt_safetensors_read(item->stored, 0, mt_tensor_count(place.value), place.value->data);
    } else if (!usable_in_place(loader, item)) {
        status = upload_stored(loader, item->stored, place.value->data);
    }
    if (status != MT_OK || item->trainable != MT_TRAINABLE_LORA) return status;
    char name[MT_PARAMS_NAME_BYTES];
    lora_name(item, 'A', name, sizeof name);
    status = fill_lora_a(loader->device, loader->selection->seed, name, &place.linear->a[place.index]);
    if (status != MT_OK) return status;
    return mt_fill(loader->device, &(struct mt_fill_args){.y = place.linear->b[place.index], .value = 0.0f});
}

static enum mt_status fill_values(struct loader *loader)
{
    if (mt_device_is_dry(loader->device)) return MT_OK; // there is nothing to fill
    enum mt_status status = mt_quantised_fill_map(loader->device, &loader->quantised);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < loader->items.count; i++) {
        const struct mt_params_item *item = &loader->items.item[i];
        status = fill_item(loader, item);
        if (status != MT_OK) return mt_fail_within(loader->ctx, status, "%s", item->tensor.name);
    }
    return mt_params_zero_gradients(loader->params);
}

/* The gaps between masters are moved by the optimizer with the rest, and must be numbers. */
static enum mt_status clear_masters(struct loader *loader)
{
    const struct mt_buffer *masters = &loader->params->masters;
    if (masters->bytes == 0) return MT_OK;
    struct mt_tensor all = mt_tensor_1d(masters->data, MT_F32, (int64_t)(masters->bytes / sizeof(float)));
    return mt_fill(loader->device, &(struct mt_fill_args){.y = all, .value = 0.0f});
}

// ------------------------------------------------------------------ the way in

enum mt_status mt_params_load(struct mt_device *device, const struct mt_model_desc *desc,
                              const struct mt_checkpoint *checkpoint,
                              const struct mt_train_selection *selection, struct mt_params *params)
{
    static const struct mt_train_selection nothing = {0};
    struct loader loader = {
        .device = device,
        .ctx = mt_device_context(device),
        .desc = desc,
        .checkpoint = checkpoint,
        .selection = selection != NULL ? selection : &nothing,
        .params = params,
    };
    *params = (struct mt_params){.device = device, .expert_ranks = loader.selection->expert_ranks};
    mt_arena_init(&params->arena, loader.ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_params_check(loader.ctx, desc, checkpoint);
    if (status == MT_OK) status = list_items(&loader);
    if (status == MT_OK) status = prepare_layers(&loader);
    if (status == MT_OK) {
        status = mt_params_select(loader.ctx, desc, loader.selection, &loader.items, params);
    }
    if (status == MT_OK) status = mt_quantised_check(loader.ctx, &loader.selection->quantise, &loader.items);
    bool keep = loader.selection->quantise.cache && loader.selection->folder != NULL;
    if (status == MT_OK && keep && !mt_device_is_dry(device))
        mt_codes_cache_open(loader.ctx, checkpoint, loader.selection, &loader.items, &params->kept);
    if (status == MT_OK) status = make_memory(&loader);
    if (status == MT_OK) status = clear_masters(&loader);
    if (status == MT_OK) status = fill_values(&loader);
    if (status == MT_OK && loader.selection->rounded) status = mt_params_read_rounded(params);
    if (status == MT_OK && loader.selection->biases)
        status = mt_router_bias_create(params, desc, &params->biases);
    free_items(&loader);
    if (status != MT_OK) mt_params_free(params);
    return status;
}

void mt_params_free(struct mt_params *params)
{
    mt_buffer_release(&params->masters);
    mt_buffer_release(&params->gradients);
    mt_buffer_release(&params->copies);
    mt_buffer_release(&params->beside);
    mt_buffer_release(&params->codes);
    mt_safetensors_close(&params->kept);
    mt_buffer_release(&params->unpacked);
    mt_buffer_release(&params->rounded);
    mt_buffer_release(&params->biases);
    if (params->arena.ctx != NULL) mt_arena_free(&params->arena);
    *params = (struct mt_params){0};
}

enum mt_status mt_params_zero_gradients(struct mt_params *params)
{
    if (params->gradients.bytes == 0) return MT_OK;
    struct mt_tensor all =
        mt_tensor_1d(params->gradients.data, MT_F32, (int64_t)(params->gradients.bytes / sizeof(float)));
    return mt_fill(params->device, &(struct mt_fill_args){.y = all, .value = 0.0f});
}

/* True when a change of this parameter moves what the MoE block of `layer` reads. */
static bool moves_input(const struct mt_param *param, int64_t layer)
{
    if (param->layer < 0) return param->part == MT_PART_EMBEDDING; // the final norm and the head come after
    if (param->layer < layer) return true;
    return param->layer == layer && (param->part == MT_PART_ATTENTION || param->part == MT_PART_NORMS);
}

void mt_params_paths(const struct mt_params *params, const struct mt_model_desc *desc,
                     struct mt_layer_paths *paths)
{
    for (int64_t layer = 0; layer < desc->layers; layer++) {
        if (!params->layer[layer].moe) continue;
        const struct mt_layer_params *own = &params->layer[layer];
        bool gates = own->experts.gate.dweight != NULL || own->experts.gate.da != NULL;
        bool ups = own->experts.up.dweight != NULL || own->experts.up.da != NULL;
        *paths = (struct mt_layer_paths){.inner = gates || ups, .gates = gates};
        for (size_t i = 0; i < params->trained_count; i++) {
            const struct mt_param *param = &params->trained[i];
            bool here = param->layer == layer;
            paths->router = paths->router || (here && param->part == MT_PART_ROUTER);
            paths->experts = paths->experts || (here && param->part == MT_PART_EXPERTS);
            paths->below = paths->below || moves_input(param, layer);
        }
        paths++;
    }
}
