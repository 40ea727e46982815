/*
 * Writing adapters. What is written is planned first (names, shapes, where each matrix comes from), then the
 * weights go out matrix by matrix, then the config, all in a folder that takes its name last.
 *
 * The layout of stacked experts is described in adapter_fused.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "base/files/folder.h"
#include "formats/safetensors/safetensors_writer.h"
#include "model/adapters/adapter_config_write.h"
#include "model/adapters/adapter_parts.h"
#include "model/adapters/router_bias.h"
#include "model/files/card.h"
#include "model/files/carried_files.h"
#include "model/params/shards.h"

#define ARENA_BLOCK_BYTES 16384

enum source {
    SOURCE_PARAM,   // a trained matrix as it is
    SOURCE_GATE_UP, // gate and up of all experts of a layer
    SOURCE_DOWN,    // down of all experts of a layer
    SOURCE_ZERO,    // for vLLM, of an expert without a pair
};

/* One matrix of the file. */
struct entry {
    enum source source;
    char letter;                  // 'A' or 'B'
    const struct mt_param *param; // SOURCE_PARAM
    int64_t layer;                // the others
};

struct writer {
    struct mt_context *ctx;
    const struct mt_params *params;
    const struct mt_model_desc *desc;
    const struct mt_adapter_write_options *options;
    enum mt_adapter_layout layout; // not auto
    bool stacks;                   // a layer's experts are one pair
    struct mt_arena arena;
    struct entry *entries;
    struct mt_safetensors_spec *specs;
    size_t count, capacity;
    struct mt_adapter_targets targets;
};

// ------------------------------------------------------------------ the plan

static enum mt_status add(struct writer *writer, struct entry entry, const char *module, int64_t rows,
                          int64_t columns)
{
    char name[MT_PARAMS_NAME_BYTES + 64];
    const char *copy = NULL;
    if (writer->count == writer->capacity)
        return mt_fail(writer->ctx, MT_ERR_INTERNAL, "more matrices than counted, at %s", module);
    int length =
        snprintf(name, sizeof name, MT_ADAPTER_NAME_PREFIX "%s.lora_%c.weight", module, entry.letter);
    enum mt_status status = mt_arena_copy_text(&writer->arena, name, (size_t)length, &copy);
    if (status != MT_OK) return status;
    writer->specs[writer->count] = (struct mt_safetensors_spec){
        .name = copy, .dtype = MT_SAFETENSORS_F32, .rank = 2, .dim = {rows, columns}};
    writer->entries[writer->count++] = entry;
    return MT_OK;
}

/* The module of "base_model.model.MODULE.lora_X.weight", as the layout calls it. */
static void module_of(const struct writer *writer, const struct mt_param *param, char *module, size_t bytes)
{
    static const char prefix[] = MT_ADAPTER_NAME_PREFIX;
    const char *name = param->name + sizeof prefix - 1;
    const char *mark = strstr(name, ".lora_");
    int length = mark != NULL ? (int)(mark - name) : (int)strlen(name);
    bool renamed = writer->stacks && param->part == MT_PART_ROUTER;
    if (renamed) {
        (void)snprintf(module, bytes, "model.layers.%lld.%s", (long long)param->layer,
                       writer->desc->loaders.router);
    } else {
        (void)snprintf(module, bytes, "%.*s", length, name);
    }
}

static bool is_lora(const struct mt_param *param)
{
    return strncmp(param->name, MT_ADAPTER_NAME_PREFIX, strlen(MT_ADAPTER_NAME_PREFIX)) == 0 &&
           strstr(param->name, ".lora_") != NULL;
}

static enum mt_status plan_param(struct writer *writer, const struct mt_param *param)
{
    char module[MT_PARAMS_NAME_BYTES];
    if (!is_lora(param)) {
        return mt_fail(writer->ctx, MT_ERR_USAGE,
                       "%s: cannot hold %s, which is trained in full; an adapter holds only LoRA pairs",
                       writer->options->directory, param->name);
    }
    if (writer->stacks && param->part == MT_PART_EXPERTS) return MT_OK; // goes into its layer's stack
    module_of(writer, param, module, sizeof module);
    char letter = strstr(param->name, ".lora_A.") != NULL ? 'A' : 'B';
    enum mt_status status =
        add(writer, (struct entry){.source = SOURCE_PARAM, .letter = letter, .param = param}, module,
            param->value.dim[0], param->value.dim[1]);
    if (status != MT_OK || letter == 'B') return status;
    return mt_adapter_target_module(&writer->targets, module, param->part);
}

bool mt_adapter_is_of_map(const struct mt_param *param, int64_t layer, const char *map, char letter)
{
    char ending[MT_MODEL_NAME_BYTES];
    if (param->expert < 0 || param->layer != layer) return false;
    int length = snprintf(ending, sizeof ending, ".%s.lora_%c.weight", map, letter);
    size_t whole = strlen(param->name);
    return whole > (size_t)length && strcmp(param->name + whole - (size_t)length, ending) == 0;
}

/* The list of what is trained knows the pairs of every rank; the layers' views only those that are here. */
static bool has_pairs(const struct writer *writer, int64_t layer, const char *map)
{
    for (size_t i = 0; i < writer->params->trained_count; i++) {
        if (mt_adapter_is_of_map(&writer->params->trained[i], layer, map, 'A')) return true;
    }
    return false;
}

static enum mt_status plan_stack(struct writer *writer, int64_t layer, enum source source, bool inner)
{
    char module[MT_PARAMS_NAME_BYTES];
    bool gate_up = source == SOURCE_GATE_UP;
    int64_t ranks =
        (gate_up ? 2 : 1) * (int64_t)writer->options->selection->lora_rank * writer->desc->experts;
    int64_t in = gate_up ? writer->desc->width : writer->desc->expert_width;
    int64_t out = gate_up ? 2 * writer->desc->expert_width : writer->desc->width;
    (void)snprintf(module, sizeof module, "model.layers.%lld.mlp.experts%s", (long long)layer,
                   inner ? ".base_layer" : "");
    struct entry entry = {.source = source, .letter = 'A', .layer = layer};
    enum mt_status status = add(writer, entry, module, ranks, in);
    entry.letter = 'B';
    if (status == MT_OK) status = add(writer, entry, module, out, ranks);
    if (status == MT_OK) status = mt_adapter_target_stack(&writer->targets, layer, gate_up);
    return status;
}

static enum mt_status plan_layer(struct writer *writer, int64_t layer)
{
    const struct mt_model_names *names = &writer->desc->names;
    if (!writer->params->layer[layer].moe) return MT_OK;
    bool gate_up = has_pairs(writer, layer, names->gate) || has_pairs(writer, layer, names->up);
    bool down = has_pairs(writer, layer, names->down);
    if (writer->layout == MT_ADAPTER_VLLM) { // it asks for both, or neither; zeros change nothing
        gate_up = gate_up || down;
        down = gate_up;
    }
    enum mt_status status = MT_OK;
    if (down) status = plan_stack(writer, layer, SOURCE_DOWN, false);
    if (status == MT_OK && gate_up) status = plan_stack(writer, layer, SOURCE_GATE_UP, down);
    return status;
}

static enum mt_status plan_zero(struct writer *writer, int64_t layer, int64_t expert, const char *map)
{
    char module[MT_PARAMS_NAME_BYTES];
    const struct mt_model_desc *desc = writer->desc;
    int64_t rank = writer->options->selection->lora_rank;
    bool down = strcmp(map, desc->names.down) == 0;
    (void)snprintf(module, sizeof module, "model.layers.%lld.%s.%lld.%s", (long long)layer,
                   desc->names.experts, (long long)expert, map);
    struct entry entry = {.source = SOURCE_ZERO, .letter = 'A'};
    enum mt_status status = add(writer, entry, module, rank, down ? desc->expert_width : desc->width);
    entry.letter = 'B';
    if (status == MT_OK) status = add(writer, entry, module, down ? desc->width : desc->expert_width, rank);
    return status == MT_OK ? mt_adapter_target_module(&writer->targets, module, MT_PART_EXPERTS) : status;
}

/*
 * vLLM packs the experts of a layer as soon as one has a pair, and then asks for all three of every expert.
 * present: [experts, 3], work memory.
 */
static enum mt_status plan_missing(struct writer *writer, int64_t layer, bool *present)
{
    enum { MAPS = 3 };
    const struct mt_model_names *names = &writer->desc->names;
    const char *const maps[MAPS] = {names->gate, names->up, names->down};
    int64_t count = MAPS * (int64_t)writer->desc->experts;
    bool any = false;
    enum mt_status status = MT_OK;
    memset(present, 0, (size_t)count * sizeof *present);
    for (size_t i = 0; i < writer->params->trained_count; i++) {
        const struct mt_param *param = &writer->params->trained[i];
        for (int map = 0; map < MAPS; map++) {
            if (!mt_adapter_is_of_map(param, layer, maps[map], 'A')) continue;
            present[param->expert * MAPS + map] = true;
            any = true;
        }
    }
    for (int64_t i = 0; any && i < count && status == MT_OK; i++) {
        if (!present[i]) status = plan_zero(writer, layer, i / MAPS, maps[i % MAPS]);
    }
    return status;
}

/* Whatever the layout has beside the pairs as they are. */
static enum mt_status plan_layers(struct writer *writer)
{
    void *present = NULL;
    enum mt_status status =
        mt_arena_allocate(&writer->arena, 3 * (size_t)writer->desc->experts * sizeof(bool), &present);
    for (int64_t layer = 0; status == MT_OK && layer < writer->desc->layers; layer++) {
        if (writer->stacks)
            status = plan_layer(writer, layer);
        else if (writer->layout == MT_ADAPTER_VLLM)
            status = plan_missing(writer, layer, present);
    }
    return status;
}

static enum mt_status plan(struct writer *writer)
{
    void *entries = NULL;
    void *specs = NULL;
    size_t per_layer = writer->layout == MT_ADAPTER_VLLM ? 6 * (size_t)writer->desc->experts : 4;
    writer->capacity = writer->params->trained_count + per_layer * (size_t)writer->desc->layers;
    enum mt_status status = mt_adapter_targets_open(&writer->targets, &writer->arena, writer->capacity,
                                                    writer->desc, writer->layout);
    if (status == MT_OK)
        status = mt_arena_allocate(&writer->arena, writer->capacity * sizeof *writer->entries, &entries);
    if (status == MT_OK)
        status = mt_arena_allocate(&writer->arena, writer->capacity * sizeof *writer->specs, &specs);
    writer->entries = entries;
    writer->specs = specs;
    for (size_t i = 0; status == MT_OK && i < writer->params->trained_count; i++) {
        status = plan_param(writer, &writer->params->trained[i]);
    }
    if (status == MT_OK) status = plan_layers(writer);
    if (status == MT_OK && writer->count == 0) {
        status = mt_fail(writer->ctx, MT_ERR_USAGE, "%s: there are no LoRA pairs to write",
                         writer->options->directory);
    }
    return status;
}

// ------------------------------------------------------------------ the weights

/* A matrix of some expert, [rows, columns], into a stack. */
struct destination {
    float *stack;
    int64_t experts, rank; // R of the stack
    int64_t expert;
    int64_t first_rank; // where the matrix's ranks begin
    int64_t first_row;  // of B
    int64_t row_step;   // from an output to the next
};

static void place_a(const struct destination *to, const float *a, int64_t rank, int64_t in)
{
    memcpy(to->stack + (to->expert * to->rank + to->first_rank) * in, a, (size_t)(rank * in) * sizeof *a);
}

static void place_b(const struct destination *to, const float *b, int64_t out, int64_t rank)
{
    int64_t columns = to->rank * to->experts;
    for (int64_t o = 0; o < out; o++) {
        for (int64_t k = 0; k < rank; k++) {
            to->stack[(to->first_row + o * to->row_step) * columns + (to->first_rank + k) * to->experts +
                      to->expert] = b[o * rank + k];
        }
    }
}

/* Puts the matrices of one map of all experts into a zeroed stack. */
static enum mt_status place_map(const struct writer *writer, const struct entry *entry, const char *map,
                                struct destination to, float *host)
{
    const struct mt_params *params = writer->params;
    for (size_t i = 0; i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        if (!mt_adapter_is_of_map(param, entry->layer, map, entry->letter)) continue;
        enum mt_status status = mt_shards_read_value(params, param, 0, mt_tensor_count(&param->value), host);
        if (status != MT_OK) return status;
        to.expert = param->expert;
        if (entry->letter == 'A') {
            place_a(&to, host, param->value.dim[0], param->value.dim[1]);
        } else {
            place_b(&to, host, param->value.dim[0], param->value.dim[1]);
        }
    }
    return MT_OK;
}

static enum mt_status fill_stack(const struct writer *writer, const struct entry *entry, float *stack,
                                 float *host)
{
    const struct mt_model_names *names = &writer->desc->names;
    int64_t rank = writer->options->selection->lora_rank;
    struct destination to = {.stack = stack, .experts = writer->desc->experts, .rank = rank, .row_step = 1};
    bool turns = writer->desc->stored.interleaved;
    if (entry->source == SOURCE_DOWN) return place_map(writer, entry, names->down, to, host);
    to.rank = 2 * rank;
    to.row_step = turns ? 2 : 1;
    enum mt_status status = place_map(writer, entry, names->gate, to, host);
    to.first_rank = rank;
    to.first_row = turns ? 1 : writer->desc->expert_width;
    return status == MT_OK ? place_map(writer, entry, names->up, to, host) : status;
}

/* One matrix; of a stack's memory the end holds single matrices on their way. */
static enum mt_status write_entry(const struct writer *writer, size_t index,
                                  struct mt_safetensors_writer *out)
{
    const struct entry *entry = &writer->entries[index];
    const struct mt_safetensors_spec *spec = &writer->specs[index];
    size_t count = (size_t)(spec->dim[0] * spec->dim[1]);
    bool stack = entry->source == SOURCE_GATE_UP || entry->source == SOURCE_DOWN;
    void *memory = NULL;
    size_t room = stack ? 2 * count : count; // no expert's matrix is larger than the stack
    enum mt_status status = mt_allocate_array(writer->ctx, room, sizeof(float), &memory);
    if (status != MT_OK) return status;
    float *values = memory;
    memset(values, 0, count * sizeof(float));
    if (stack) status = fill_stack(writer, entry, values, values + count);
    if (entry->source == SOURCE_PARAM)
        status = mt_shards_read_value(writer->params, entry->param, 0, (int64_t)count, values);
    if (status == MT_OK) status = mt_safetensors_writer_write(out, values, count * sizeof(float));
    mt_release(writer->ctx, memory, room * sizeof(float));
    return status;
}

static enum mt_status write_weights(const struct writer *writer, const char *path)
{
    char dropout[32];
    char quantise[MT_QUANTISE_TEXT_BYTES];
    struct mt_safetensors_writer out;
    const struct mt_train_selection *selection = writer->options->selection;
    (void)snprintf(dropout, sizeof dropout, "%.9g", selection->lora_dropout);
    const struct mt_safetensors_metadata metadata[] = {
        {"format", "pt"},
        {MT_ADAPTER_LAYOUT_KEY, mt_adapter_layout_name(writer->layout)},
        {MT_ADAPTER_DROPOUT_KEY, dropout},
        {MT_ADAPTER_QUANTISE_KEY, mt_quantise_text(&selection->quantise, quantise)}, // last: only if they are
    };
    size_t metadata_count = sizeof metadata / sizeof metadata[0] - (selection->quantise.on ? 0 : 1);
    enum mt_status status = mt_safetensors_writer_open(writer->ctx, path, writer->specs, writer->count,
                                                       metadata, metadata_count, &out);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < writer->count && status == MT_OK; i++) status = write_entry(writer, i, &out);
    if (status == MT_OK) status = mt_safetensors_writer_finish(&out);
    mt_safetensors_writer_abandon(&out);
    return status;
}

// ------------------------------------------------------------------ the folder

static enum mt_status write_files(struct writer *writer, const char *directory)
{
    char *weights = NULL;
    char *config = NULL;
    enum mt_status status = mt_path_join(writer->ctx, directory, MT_ADAPTER_WEIGHTS, &weights);
    if (status == MT_OK) status = mt_path_join(writer->ctx, directory, MT_ADAPTER_CONFIG, &config);
    if (status == MT_OK) status = write_weights(writer, weights);
    if (status == MT_OK && writer->options->biases)
        status = mt_router_bias_save(writer->params, writer->desc, directory, MT_ROUTER_BIAS_OF_ADAPTER);
    if (status == MT_OK) status = mt_adapter_write_config(&writer->targets, writer->options, config);
    if (status == MT_OK) status = mt_model_write_trained(writer->ctx, directory, &writer->options->trained);
    const char *from = writer->options->trained_from;
    const struct mt_card card = {
        .kind = MT_CARD_ADAPTER, .base = writer->options->base_model, .text = writer->options->trained.card};
    if (status == MT_OK && from != NULL) status = mt_model_carry_trained(writer->ctx, from, directory);
    if (status == MT_OK && from != NULL) status = mt_card_carry(writer->ctx, from, directory, &card);
    if (status == MT_OK && from == NULL) status = mt_card_write(writer->ctx, directory, &card);
    mt_path_release(writer->ctx, weights);
    mt_path_release(writer->ctx, config);
    return status;
}

static void warn(const struct writer *writer)
{
    const char *sentence = "";
    for (int i = 0; sentence != NULL; i++) {
        sentence = mt_adapter_layout_warning(writer->params, writer->desc, writer->layout, i);
        if (sentence != NULL) mt_log_warning(writer->options->log, "%s", sentence);
    }
}

enum mt_status mt_adapter_write(const struct mt_params *params, const struct mt_model_desc *desc,
                                const struct mt_adapter_write_options *options)
{
    struct mt_context *ctx = mt_device_context(params->device);
    struct writer writer = {.ctx = ctx,
                            .params = params,
                            .desc = desc,
                            .options = options,
                            .layout = mt_adapter_layout_for(desc, options->layout)};
    struct mt_folder folder = {0};
    writer.stacks = mt_adapter_layout_stacks(desc, writer.layout);
    mt_arena_init(&writer.arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_adapter_layout_check(ctx, desc, writer.layout);
    if (status == MT_OK) status = plan(&writer);
    if (status == MT_OK) status = mt_folder_open(ctx, options->directory, &folder);
    if (status == MT_OK) {
        status = write_files(&writer, folder.path);
        if (status == MT_OK) status = mt_folder_commit(&folder);
        mt_folder_abandon(&folder);
    }
    if (status == MT_OK) warn(&writer);
    mt_arena_free(&writer.arena);
    return status;
}
