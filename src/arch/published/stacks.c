/* Stacks: names, places, and the view of a checkpoint without them. */
#include "arch/published/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/text/printable.h"

#define ARENA_BLOCK_BYTES 65536

static const struct {
    const char *of_stack, *of_expert;
    bool codes;
} endings[] = {
    {"", ".weight", false},
    {"_bias", ".bias", false},
    {"_blocks", ".weight_blocks", true},
    {"_scales", ".weight_scales", true},
};
#define ENDINGS (sizeof endings / sizeof endings[0])

static const char *const stack_names[] = {"down_proj", "gate_up_proj"}; // by the number of parts, less 1

// ------------------------------------------------------------------ names

/* What follows "model.layers.L.EXPERTS." of a layer that has experts; NULL: another name. */
static const char *in_experts(const struct mt_hf_config *config, const char *name, int64_t *layer)
{
    static const char before[] = "model.layers.";
    const char *experts = config->arch->names.experts;
    char *end = NULL;
    if (strncmp(name, before, sizeof before - 1) != 0) return NULL;
    const char *digits = name + sizeof before - 1;
    if (*digits < '0' || *digits > '9') return NULL;
    *layer = strtoll(digits, &end, 10);
    if (*digits == '0' && end != digits + 1) return NULL;
    if (*end != '.' || *layer >= config->layers || !mt_hf_config_layer_is_moe(config, *layer)) return NULL;
    const char *rest = end + 1;
    size_t length = strlen(experts);
    return strncmp(rest, experts, length) == 0 && rest[length] == '.' ? rest + length + 1 : NULL;
}

bool mt_stack_member_of(const struct mt_hf_config *config, const char *name, struct mt_stack_member *member)
{
    const struct mt_model_names *names = &config->arch->names;
    const char *const projection[] = {names->gate, names->up, names->down};
    int64_t layer = 0;
    char *end = NULL;
    const char *expert = in_experts(config, name, &layer);
    if (expert == NULL || *expert < '0' || *expert > '9') return false;
    *member = (struct mt_stack_member){.expert = strtoll(expert, &end, 10)};
    if (*end != '.') return false;
    for (int which = 0; which < 3; which++) {
        size_t length = strlen(projection[which]);
        if (strncmp(end + 1, projection[which], length) != 0) continue;
        member->after = end + 1 + length;
        member->part = which == 1 ? 1 : 0;
        member->parts = which == 2 ? 1 : 2;
        for (size_t i = 0; i < ENDINGS; i++) {
            if (strcmp(member->after, endings[i].of_expert) != 0) continue;
            int base = snprintf(member->stack, sizeof member->stack, "model.layers.%lld.%s.%s",
                                (long long)layer, names->experts, stack_names[member->parts - 1]);
            member->base_bytes = (size_t)base;
            member->codes = endings[i].codes;
            (void)snprintf(member->stack + base, sizeof member->stack - (size_t)base, "%s",
                           endings[i].of_stack);
            return true;
        }
    }
    return false;
}

struct mt_strided mt_stack_place(const struct mt_stored_experts *stored, const struct mt_stack_member *member,
                                 int64_t rows, int64_t columns, size_t item, size_t *first)
{
    int64_t bytes = (int64_t)item;
    bool transposed = stored->transposed && !member->codes;
    int64_t row = transposed ? bytes : columns * bytes; // were the parts apart
    int64_t turns = stored->interleaved ? member->parts : 1;
    *first = (size_t)(member->part * (stored->interleaved ? row : rows * row));
    return (struct mt_strided){
        .columns = columns, .row = turns * row, .element = transposed ? member->parts * rows * bytes : bytes};
}

// ------------------------------------------------------------------ taking apart

/* The stack a name says; false: it is no name of one. */
static bool is_stack(const struct mt_hf_config *config, const char *name, int64_t *layer, int *parts,
                     size_t *ending)
{
    const char *rest = in_experts(config, name, layer);
    for (*parts = 1; rest != NULL && *parts <= 2; *parts += 1) {
        size_t length = strlen(stack_names[*parts - 1]);
        if (strncmp(rest, stack_names[*parts - 1], length) != 0) continue;
        for (*ending = 0; *ending < ENDINGS; *ending += 1) {
            if (strcmp(rest + length, endings[*ending].of_stack) == 0) return true;
        }
    }
    return false;
}

/* A view of the stack's matrix; its name is the caller's to give. */
static struct mt_safetensors_tensor view_of(const struct mt_hf_config *config,
                                            const struct mt_safetensors_tensor *stack,
                                            const struct mt_stack_member *member)
{
    const struct mt_stored_experts *stored = &config->arch->stored;
    size_t item = mt_safetensors_dtype_bytes(stack->dtype);
    struct mt_safetensors_tensor view = *stack;
    bool transposed = stored->transposed && !member->codes && stack->rank == 3;
    size_t first = 0;
    view.rank = stack->rank - 1;
    for (int axis = 0; axis < view.rank; axis++) view.dim[axis] = stack->dim[axis + 1];
    if (transposed) {
        view.dim[0] = stack->dim[2];
        view.dim[1] = stack->dim[1];
    }
    view.dim[0] /= member->parts;
    int64_t columns = 1;
    for (int axis = 1; axis < view.rank; axis++) columns *= view.dim[axis];
    view.bytes = (uint64_t)(view.dim[0] * columns) * item;
    view.apart = mt_stack_place(stored, member, view.dim[0], columns, item, &first);
    view.offset = stack->offset + (uint64_t)member->expert * (view.bytes * (uint64_t)member->parts) + first;
    view.data = (const char *)stack->data + (view.offset - stack->offset);
    bool in_order = view.apart.element == (int64_t)item && view.apart.row == columns * view.apart.element;
    if (in_order) view.apart = (struct mt_strided){0};
    return view;
}

/* The dimension that parts share. */
static int shared_axis(const struct mt_hf_config *config, const struct mt_safetensors_tensor *stack,
                       size_t ending)
{
    return config->arch->stored.transposed && !endings[ending].codes && stack->rank == 3 ? 2 : 1;
}

static enum mt_status add_views(const struct mt_hf_config *config, const struct mt_checkpoint_tensor *entry,
                                struct mt_checkpoint *checkpoint, struct mt_checkpoint_tensor *views)
{
    const struct mt_safetensors_tensor *stack = entry->info;
    const struct mt_model_names *names = &config->arch->names;
    int64_t layer = 0;
    int parts = 0;
    size_t ending = 0;
    enum mt_status status = MT_OK;
    (void)is_stack(config, stack->name, &layer, &parts, &ending);
    size_t count = (size_t)(config->experts * parts);
    struct mt_safetensors_tensor *view = mt_arena_array(&checkpoint->arena, count, sizeof *view, &status);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        char name[MT_MODEL_NAME_BYTES];
        struct mt_stack_member member;
        const char *copy = NULL;
        int part = (int)(i % (size_t)parts);
        int length = snprintf(name, sizeof name, "model.layers.%lld.%s.%zu.%s%s", (long long)layer,
                              names->experts, i / (size_t)parts,
                              parts == 1  ? names->down
                              : part == 0 ? names->gate
                                          : names->up,
                              endings[ending].of_expert);
        status = mt_arena_copy_text(&checkpoint->arena, name, (size_t)length, &copy);
        if (status != MT_OK) break;
        (void)mt_stack_member_of(config, copy, &member);
        view[i] = view_of(config, stack, &member);
        view[i].name = copy;
        views[i] = (struct mt_checkpoint_tensor){.info = &view[i], .shard = entry->shard};
    }
    return status;
}

/* Refuses a stack of another number of experts, or one that cannot be divided. */
static enum mt_status check_stack(const struct mt_checkpoint *checkpoint, const struct mt_hf_config *config,
                                  const struct mt_checkpoint_tensor *entry, int parts, size_t ending)
{
    const struct mt_safetensors_tensor *stack = entry->info;
    bool fits = stack->rank >= 2 && stack->dim[0] == config->experts &&
                stack->dim[shared_axis(config, stack, ending)] % parts == 0;
    if (fits) return MT_OK;
    return mt_fail(checkpoint->ctx, MT_ERR_SHAPE, "%s: %s is %s, which does not fit %s of %lld experts",
                   checkpoint->shards[entry->shard].path, mt_printable(stack->name).text,
                   mt_safetensors_shape(stack->rank, stack->dim).text,
                   parts == 2 ? "gate and up" : "a projection", (long long)config->experts);
}

static int compare_tensors(const void *left, const void *right)
{
    const struct mt_checkpoint_tensor *a = left;
    const struct mt_checkpoint_tensor *b = right;
    return strcmp(a->info->name, b->info->name);
}

/* Sorts the list, in which no name may occur twice. */
static enum mt_status sort_tensors(struct mt_checkpoint *checkpoint)
{
    qsort(checkpoint->tensors, checkpoint->tensor_count, sizeof *checkpoint->tensors, compare_tensors);
    for (size_t i = 1; i < checkpoint->tensor_count; i++) {
        const char *name = checkpoint->tensors[i].info->name;
        if (strcmp(checkpoint->tensors[i - 1].info->name, name) != 0) continue;
        return mt_fail(checkpoint->ctx, MT_ERR_FORMAT,
                       "%s: %s is stored twice: as a tensor of its own, and together with the other experts",
                       checkpoint->shards[checkpoint->tensors[i].shard].path, mt_printable(name).text);
    }
    return MT_OK;
}

/* Every stack becomes the views of its matrices. */
static enum mt_status take_apart(const struct mt_hf_config *config, struct mt_checkpoint *checkpoint)
{
    struct mt_context *ctx = checkpoint->ctx;
    enum mt_status status = MT_OK;
    size_t count = checkpoint->tensor_count;
    size_t used = 0;
    size_t all = 0;
    size_t stacks = 0;
    size_t ending = 0;
    int64_t layer = 0;
    int parts = 0;
    void *memory = NULL;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        const struct mt_checkpoint_tensor *entry = &checkpoint->tensors[i];
        bool stack = is_stack(config, entry->info->name, &layer, &parts, &ending);
        if (stack) status = check_stack(checkpoint, config, entry, parts, ending);
        stacks += stack ? 1 : 0;
        all += stack ? (size_t)(config->experts * parts) : 1;
    }
    if (status != MT_OK || stacks == 0) return status;
    status = mt_allocate_array(ctx, all, sizeof *checkpoint->tensors, &memory);
    if (status != MT_OK) return status;
    struct mt_checkpoint_tensor *tensors = memory;
    mt_arena_init(&checkpoint->arena, ctx, ARENA_BLOCK_BYTES);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        const struct mt_checkpoint_tensor *entry = &checkpoint->tensors[i];
        if (!is_stack(config, entry->info->name, &layer, &parts, &ending)) {
            tensors[used++] = *entry;
            continue;
        }
        status = add_views(config, entry, checkpoint, tensors + used);
        used += (size_t)(config->experts * parts);
    }
    mt_release(ctx, checkpoint->tensors, count * sizeof *checkpoint->tensors);
    checkpoint->tensors = tensors;
    checkpoint->tensor_count = all;
    checkpoint->stacked = true;
    return status == MT_OK ? sort_tensors(checkpoint) : status;
}

enum mt_status mt_stacks_open(struct mt_context *ctx, const char *directory,
                              const struct mt_hf_config *config, struct mt_checkpoint *checkpoint)
{
    enum mt_status status = mt_checkpoint_open(ctx, directory, checkpoint);
    if (status != MT_OK) return status;
    status = take_apart(config, checkpoint);
    if (status != MT_OK) mt_checkpoint_close(checkpoint);
    return status;
}
