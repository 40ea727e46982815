/*
 * The GGUF file of an adapter. Its matrices are planned first, then written one by one.
 *
 * llama.cpp stores the queries and keys of some architectures with the two numbers that turn together side by
 * side; here they are half a head apart. B's rows are permuted as its converter permutes the weights' rows.
 */
#include "model/adapters/adapter_gguf.h"

#include <stdio.h>
#include <string.h>

#include "formats/gguf/gguf_writer.h"
#include "formats/text/lists.h"
#include "model/adapters/adapter_parts.h"
#include "model/adapters/router_bias.h"
#include "model/params/shards.h"

#define ARENA_BLOCK_BYTES 16384
#define LACKS_MOST        16

/* One matrix of the file. */
struct entry {
    char letter;                  // 'A' or 'B'
    const struct mt_param *param; // a matrix as it is; of a stack its first expert's
    const char *map;              // of a stack "gate_proj"; NULL: no stack
    int64_t heads;                // whose rows are permuted; 0: they are not
};

struct writer {
    struct mt_context *ctx;
    const struct mt_adapter_base *base;
    const struct mt_adapter_gguf_options *options;
    struct mt_arena arena;
    struct entry *entries;
    struct mt_gguf_spec *specs;
    size_t count, capacity;
    const char *lacks[LACKS_MOST]; // what llama.cpp has no place for, borrowed
    size_t lack_count;
};

// ------------------------------------------------------------------ names

/* Inside a layer the module's name after "model.layers.L.", else all of it. */
static const char *module_of(const struct mt_param *param, char module[MT_PARAMS_NAME_BYTES])
{
    int64_t layer = 0;
    const char *name = param->name + strlen(MT_ADAPTER_NAME_PREFIX);
    const char *mark = strstr(name, ".lora_");
    int length = mark != NULL ? (int)(mark - name) : (int)strlen(name);
    (void)snprintf(module, MT_PARAMS_NAME_BYTES, "%.*s", length, name);
    const char *rest = mt_adapter_in_layer(module, &layer);
    return rest != NULL ? rest : module;
}

/* The map of a routed expert: the description's own word for "gate_proj", "up_proj" or "down_proj". */
static const char *map_of(const struct mt_model_names *names, const char *module)
{
    const char *const maps[] = {names->gate, names->up, names->down};
    const char *last = strrchr(module, '.');
    for (size_t i = 0; last != NULL && i < sizeof maps / sizeof maps[0]; i++) {
        if (strcmp(last + 1, maps[i]) == 0) return maps[i];
    }
    return NULL;
}

/* llama.cpp's name of a module, or NULL. */
static const char *llama_name(const struct mt_model_desc *desc, const struct mt_param *param,
                              const char *module)
{
    static const struct {
        enum mt_model_part part;
        const char *last, *name;
    } rows[] = {
        {MT_PART_ATTENTION, "q_proj", "attn_q"},     {MT_PART_ATTENTION, "k_proj", "attn_k"},
        {MT_PART_ATTENTION, "v_proj", "attn_v"},     {MT_PART_ATTENTION, "o_proj", "attn_output"},
        {MT_PART_DENSE, "gate_proj", "ffn_gate"},    {MT_PART_DENSE, "up_proj", "ffn_up"},
        {MT_PART_DENSE, "down_proj", "ffn_down"},    {MT_PART_SHARED, "gate_proj", "ffn_gate_shexp"},
        {MT_PART_SHARED, "up_proj", "ffn_up_shexp"}, {MT_PART_SHARED, "down_proj", "ffn_down_shexp"},
        {MT_PART_LM_HEAD, "lm_head", "output"},
    };
    const struct mt_model_names *names = &desc->names;
    if (param->part == MT_PART_ROUTER) return "ffn_gate_inp";
    if (names->shared_gate != NULL && strcmp(module, names->shared_gate) == 0) return "ffn_gate_inp_shexp";
    if (param->part == MT_PART_EXPERTS) {
        const char *map = map_of(names, module);
        if (map == names->gate) return "ffn_gate_exps";
        return map == names->up ? "ffn_up_exps" : "ffn_down_exps";
    }
    const char *last = strrchr(module, '.');
    last = last != NULL ? last + 1 : module;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].part == param->part && strcmp(rows[i].last, last) == 0) return rows[i].name;
    }
    return NULL;
}

/* Whether llama.cpp applies the pair; remembers the module's name if not. */
static bool has_place(struct writer *writer, const struct mt_param *param, const char *module)
{
    const struct mt_model_desc *desc = &writer->base->desc;
    const char *const *lacks = desc->loaders.llama_lacks;
    const char *lack = NULL;
    for (size_t i = 0; lacks != NULL && lacks[i] != NULL; i++) {
        if (strcmp(lacks[i], module) == 0) lack = lacks[i];
    }
    if (param->part == MT_PART_LM_HEAD && desc->tied_head) lack = "lm_head";
    if (lack == NULL && llama_name(desc, param, module) == NULL) lack = param->name; // of no known place
    for (size_t i = 0; lack != NULL && i < writer->lack_count; i++) {
        if (strcmp(writer->lacks[i], lack) == 0) return false;
    }
    if (lack != NULL && writer->lack_count < LACKS_MOST) writer->lacks[writer->lack_count++] = lack;
    return lack == NULL;
}

// ------------------------------------------------------------------ the plan

static enum mt_status add(struct writer *writer, struct entry entry, const char *name)
{
    char text[MT_PARAMS_NAME_BYTES];
    const struct mt_param *param = entry.param;
    const char *copy = NULL;
    char layer[32] = "";
    if (param->layer >= 0) (void)snprintf(layer, sizeof layer, "blk.%lld.", (long long)param->layer);
    int length =
        snprintf(text, sizeof text, "%s%s.weight.lora_%c", layer, name, entry.letter == 'A' ? 'a' : 'b');
    enum mt_status status = mt_arena_copy_text(&writer->arena, text, (size_t)length, &copy);
    if (status != MT_OK) return status;
    writer->specs[writer->count] =
        (struct mt_gguf_spec){.name = copy,
                              .rank = entry.map != NULL ? 3 : 2,
                              .dim = {param->value.dim[1], param->value.dim[0], writer->base->desc.experts}};
    writer->entries[writer->count++] = entry;
    return MT_OK;
}

/* The heads whose rows of B llama.cpp has in another order. */
static int64_t permuted_heads(const struct mt_model_desc *desc, const char *name)
{
    if (!desc->loaders.llama_neighbours) return 0;
    if (strcmp(name, "attn_q") == 0) return desc->heads;
    return strcmp(name, "attn_k") == 0 ? desc->key_heads : 0;
}

static bool is_planned(const struct writer *writer, const struct entry *entry)
{
    for (size_t i = writer->count; i-- > 0;) {
        const struct entry *other = &writer->entries[i];
        if (other->map == entry->map && other->letter == entry->letter &&
            other->param->layer == entry->param->layer)
            return true;
    }
    return false;
}

static enum mt_status plan_param(struct writer *writer, const struct mt_param *param)
{
    char text[MT_PARAMS_NAME_BYTES];
    const struct mt_model_desc *desc = &writer->base->desc;
    const char *module = module_of(param, text);
    if (!has_place(writer, param, module)) return MT_OK;
    const char *name = llama_name(desc, param, module);
    struct entry entry = {.letter = strstr(param->name, ".lora_A.") != NULL ? 'A' : 'B', .param = param};
    if (entry.letter == 'B') entry.heads = permuted_heads(desc, name);
    if (param->part == MT_PART_EXPERTS) {
        entry.map = map_of(&desc->names, module);
        if (is_planned(writer, &entry)) return MT_OK;
    }
    return add(writer, entry, name);
}

/* Whether the adapter's selection biases differ from the base's: llama.cpp reads those of the base alone. */
static bool moves_biases(const struct mt_adapter_base *base)
{
    const struct mt_safetensors *biases = &base->adapter.biases;
    for (size_t i = 0; i < biases->tensor_count; i++) {
        const struct mt_safetensors_tensor *own = &biases->tensors[i];
        const struct mt_safetensors_tensor *stored = mt_checkpoint_find(&base->checkpoint, own->name);
        for (int64_t e = 0; e < own->dim[0]; e++) {
            float before = stored != NULL ? mt_adapter_value(stored, e) : 0.0f;
            if (mt_adapter_value(own, e) != before) return true;
        }
    }
    return false;
}

/* Says what llama.cpp has no place for: a refusal, or a warning. */
static enum mt_status tell_lacks(const struct writer *writer)
{
    struct mt_byte_list text = {.ctx = writer->ctx};
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < writer->lack_count && status == MT_OK; i++) {
        if (i > 0) status = mt_byte_list_append_text(&text, ", ");
        if (status == MT_OK) status = mt_byte_list_append_text(&text, writer->lacks[i]);
    }
    if (status == MT_OK) status = mt_byte_list_append(&text, "", 1);
    if (status == MT_OK && writer->count == 0) {
        status = mt_fail(writer->ctx, MT_ERR_UNSUPPORTED,
                         "%s: llama.cpp applies none of these pairs: %s. Convert the merged model (metier "
                         "merge) instead",
                         writer->options->adapter, (const char *)text.data);
    } else if (status == MT_OK && !writer->options->drop) {
        status = mt_fail(writer->ctx, MT_ERR_UNSUPPORTED,
                         "%s: llama.cpp does not apply %s. --drop leaves that out; a converted merged model "
                         "(metier merge) has everything",
                         writer->options->adapter, (const char *)text.data);
    } else if (status == MT_OK) {
        mt_log_warning(writer->options->log, "left out, because llama.cpp does not apply it: %s",
                       (const char *)text.data);
    }
    mt_byte_list_free(&text);
    return status;
}

static enum mt_status plan(struct writer *writer)
{
    const struct mt_params *params = &writer->base->params;
    const struct mt_model_desc *desc = &writer->base->desc;
    if (desc->loaders.llama == NULL)
        return mt_fail(writer->ctx, MT_ERR_UNSUPPORTED,
                       "%s: metier writes no adapters of this architecture for llama.cpp",
                       writer->options->model);
    enum mt_status status = MT_OK;
    writer->capacity = params->trained_count;
    writer->entries = mt_arena_array(&writer->arena, writer->capacity, sizeof *writer->entries, &status);
    writer->specs = mt_arena_array(&writer->arena, writer->capacity, sizeof *writer->specs, &status);
    for (size_t i = 0; i < params->trained_count && status == MT_OK; i++)
        status = plan_param(writer, &params->trained[i]);
    if (status == MT_OK && moves_biases(writer->base) && writer->lack_count < LACKS_MOST)
        writer->lacks[writer->lack_count++] = MT_ROUTER_BIAS_OF_ADAPTER;
    return status == MT_OK && writer->lack_count > 0 ? tell_lacks(writer) : status;
}

// ------------------------------------------------------------------ the numbers

/* Row j·2 + s of a head becomes what row s·D/2 + j was. values: [heads·D, columns]; work: a head's. */
static void permute_rows(float *values, int64_t heads, int64_t rows, int64_t columns, float *work)
{
    int64_t width = rows / heads; // D
    size_t bytes = (size_t)columns * sizeof *values;
    for (int64_t h = 0; h < heads; h++) {
        float *head = values + h * width * columns;
        memcpy(work, head, (size_t)width * bytes);
        for (int64_t row = 0; row < width; row++) {
            int64_t from = row % 2 * (width / 2) + row / 2;
            memcpy(head + row * columns, work + from * columns, bytes);
        }
    }
}

/* All experts' matrices of a map, [n, rows, columns], zeros where one has no pair. */
static enum mt_status read_stack(const struct writer *writer, const struct entry *entry, float *values)
{
    const struct mt_params *params = &writer->base->params;
    int64_t count = mt_tensor_count(&entry->param->value);
    memset(values, 0, (size_t)(count * writer->base->desc.experts) * sizeof *values);
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < params->trained_count && status == MT_OK; i++) {
        const struct mt_param *param = &params->trained[i];
        if (mt_adapter_is_of_map(param, entry->param->layer, entry->map, entry->letter))
            status = mt_shards_read_value(params, param, 0, count, values + param->expert * count);
    }
    return status;
}

static enum mt_status write_entry(const struct writer *writer, size_t index, struct mt_gguf_writer *out)
{
    const struct entry *entry = &writer->entries[index];
    const struct mt_tensor *value = &entry->param->value; // [rows, columns]
    size_t count = mt_gguf_count(&writer->specs[index]);
    void *memory = NULL;
    size_t room = 2 * count; // the second half is work memory
    enum mt_status status = mt_allocate_array(writer->ctx, room, sizeof(float), &memory);
    if (status != MT_OK) return status;
    float *values = memory;
    status = entry->map != NULL
                 ? read_stack(writer, entry, values)
                 : mt_shards_read_value(&writer->base->params, entry->param, 0, (int64_t)count, values);
    if (status == MT_OK && entry->heads > 0)
        permute_rows(values, entry->heads, value->dim[0], value->dim[1], values + count);
    if (status == MT_OK) status = mt_gguf_writer_write(out, values, count);
    mt_release(writer->ctx, memory, room * sizeof(float));
    return status;
}

static enum mt_status write_file(const struct writer *writer)
{
    const struct mt_train_selection *selection = &writer->base->selection;
    const struct mt_gguf_key keys[] = {
        {.name = "general.architecture", .text = writer->base->desc.loaders.llama},
        {.name = "general.type", .text = "adapter"},
        {.name = "adapter.type", .text = "lora"},
        {.name = "adapter.lora.alpha", .number = (float)selection->lora_alpha},
    };
    struct mt_gguf_writer out;
    enum mt_status status =
        mt_gguf_writer_open(writer->ctx, writer->options->path, keys, sizeof keys / sizeof keys[0],
                            writer->specs, writer->count, &out);
    for (size_t i = 0; i < writer->count && status == MT_OK; i++) status = write_entry(writer, i, &out);
    if (status == MT_OK) status = mt_gguf_writer_finish(&out);
    mt_gguf_writer_abandon(&out);
    return status;
}

enum mt_status mt_adapter_to_gguf(struct mt_context *ctx, const struct mt_adapter_gguf_options *options)
{
    struct mt_adapter_base base;
    enum mt_status status = mt_adapter_base_open(ctx, options->adapter, options->model, &base);
    struct writer writer = {.ctx = ctx, .base = &base, .options = options};
    mt_arena_init(&writer.arena, ctx, ARENA_BLOCK_BYTES);
    if (status == MT_OK) status = plan(&writer);
    if (status == MT_OK) status = write_file(&writer);
    mt_arena_free(&writer.arena);
    mt_adapter_base_close(&base);
    return status;
}
