/* Stacks, put together from what is declared as tensors of single experts. */
#include "arch/published/stacks_write.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BLOCK_BYTES 65536

/* A tensor as it was declared. */
struct mt_stack_piece {
    struct mt_stack_plan *stack; // NULL: it is written as it is
    uint64_t bytes;
    size_t item;
    int64_t expert;
    bool last_part; // of its expert
    bool last;      // of its run
    struct mt_strided place;
    size_t first; // byte of the expert's part of the stack
};

/* A tensor of all experts, as it is written. */
struct mt_stack_plan {
    struct mt_safetensors_spec *spec; // borrowed while the writer is opened
    const char *base;                 // name without what follows the projection
    size_t base_bytes;
    int64_t members;
    size_t expert_bytes;
    bool held; // whole in memory until the run ends
    char *memory;
    size_t bytes; // of it
};

bool mt_stacks_wanted(const struct mt_hf_config *config, const struct mt_checkpoint *made_of)
{
    return config->arch->stored.stacked || (made_of != NULL && made_of->stacked);
}

// ------------------------------------------------------------------ the order

struct key {
    struct mt_stack_member member;
    bool alone;
    size_t number;
};

static int compare_keys(const void *left, const void *right)
{
    const struct key *a = left;
    const struct key *b = right;
    int order = 0;
    if (a->alone != b->alone) return a->alone ? -1 : 1;
    if (!a->alone) {
        order = strcmp(a->member.stack, b->member.stack);
        if (order == 0) order = (a->member.expert > b->member.expert) - (a->member.expert < b->member.expert);
        if (order == 0) order = a->member.part - b->member.part;
    }
    return order != 0 ? order : (a->number > b->number) - (a->number < b->number);
}

enum mt_status mt_stacks_order(struct mt_context *ctx, const struct mt_hf_config *config, bool wanted,
                               const char *const *names, size_t count, size_t *order)
{
    void *memory = NULL;
    for (size_t i = 0; i < count; i++) order[i] = i;
    if (!wanted || count == 0) return MT_OK;
    enum mt_status status = mt_allocate_array(ctx, count, sizeof(struct key), &memory);
    if (status != MT_OK) return status;
    struct key *keys = memory;
    for (size_t i = 0; i < count; i++) {
        keys[i].number = i;
        keys[i].alone = !mt_stack_member_of(config, names[i], &keys[i].member);
    }
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count; i++) order[i] = keys[i].number;
    mt_release(ctx, keys, count * sizeof *keys);
    return MT_OK;
}

// ------------------------------------------------------------------ the plan

/* Floats, and mxfp4's bytes: what is in another format keeps a tensor for each expert. */
static bool is_member(const struct mt_hf_config *config, const struct mt_safetensors_spec *spec,
                      struct mt_stack_member *member)
{
    if (!mt_stack_member_of(config, spec->name, member)) return false;
    bool byte = spec->dtype == MT_SAFETENSORS_U8 || spec->dtype == MT_SAFETENSORS_F8_E8M0;
    bool number = spec->dtype == MT_SAFETENSORS_F32 || spec->dtype == MT_SAFETENSORS_BF16 ||
                  spec->dtype == MT_SAFETENSORS_F16;
    return member->codes ? byte : number;
}

/* What is being planned. */
struct planning {
    struct mt_stacks_writer *writer;
    const struct mt_hf_config *config;
    struct mt_safetensors_spec *written; // those of the file
    size_t written_count;
    size_t run; // the first stack of the run
};

/* The stack of a member, new where the run has none of that name. */
static enum mt_status find_stack(struct planning *planning, const struct mt_stack_member *member,
                                 const struct mt_safetensors_spec *spec, struct mt_stack_plan **found)
{
    struct mt_stacks_writer *writer = planning->writer;
    const char *name = NULL;
    for (size_t i = planning->run; i < writer->stack_count; i++) {
        *found = &writer->stacks[i];
        if (strcmp((*found)->spec->name, member->stack) == 0) return MT_OK;
    }
    enum mt_status status = mt_arena_copy_text(&writer->arena, member->stack, strlen(member->stack), &name);
    if (status != MT_OK) return status;
    struct mt_safetensors_spec *written = &planning->written[planning->written_count++];
    *written = (struct mt_safetensors_spec){.name = name, .dtype = spec->dtype, .rank = spec->rank + 1};
    for (int axis = 0; axis < spec->rank; axis++) written->dim[axis + 1] = spec->dim[axis];
    written->dim[1] *= member->parts;
    if (planning->config->arch->stored.transposed && !member->codes && spec->rank == 2) {
        written->dim[1] = spec->dim[1];
        written->dim[2] = spec->dim[0] * member->parts;
    }
    *found = &writer->stacks[writer->stack_count++];
    **found = (struct mt_stack_plan){.spec = written,
                                     .base = name,
                                     .base_bytes = member->base_bytes,
                                     .held = writer->stack_count - 1 > planning->run};
    return MT_OK;
}

static enum mt_status plan_member(struct planning *planning, const struct mt_stack_member *member,
                                  const struct mt_safetensors_spec *spec, struct mt_stack_piece *piece)
{
    struct mt_stacks_writer *writer = planning->writer;
    enum mt_status status = find_stack(planning, member, spec, &piece->stack);
    if (status != MT_OK) return status;
    struct mt_stack_plan *stack = piece->stack;
    int64_t columns = 1;
    for (int axis = 1; axis < spec->rank; axis++) columns *= spec->dim[axis];
    size_t expert_bytes = (size_t)piece->bytes * (size_t)member->parts;
    bool alike =
        stack->members == 0 || (stack->expert_bytes == expert_bytes && stack->spec->dtype == spec->dtype);
    if (!alike || stack->members != member->expert * member->parts + member->part) {
        return mt_fail(writer->ctx, MT_ERR_UNSUPPORTED,
                       "%s is stacked with the layer's other experts, but its type or shape differs, or an "
                       "expert is missing",
                       spec->name);
    }
    stack->expert_bytes = expert_bytes;
    stack->members++;
    stack->spec->dim[0] = member->expert + 1;
    piece->expert = member->expert;
    piece->last_part = member->part == member->parts - 1;
    piece->place = mt_stack_place(&planning->config->arch->stored, member, spec->dim[0], columns, piece->item,
                                  &piece->first);
    return MT_OK;
}

/* Whether a member belongs to the run of the tensor before it: stacks of one projection, in turns. */
static bool in_run(const struct planning *planning, const struct mt_stack_plan *before,
                   const struct mt_stack_member *member)
{
    bool same = before != NULL && before->base_bytes == member->base_bytes &&
                strncmp(before->base, member->stack, member->base_bytes) == 0;
    if (!same) return false;
    for (size_t i = planning->run; i < planning->writer->stack_count; i++) {
        if (strcmp(planning->writer->stacks[i].spec->name, member->stack) == 0) return true;
    }
    return planning->writer->stacks[planning->run].members < planning->config->experts * member->parts;
}

static enum mt_status plan(struct planning *planning, bool wanted, const char *directory,
                           const struct mt_safetensors_spec *specs)
{
    struct mt_stacks_writer *writer = planning->writer;
    const struct mt_stack_plan *before = NULL; // of the tensor before this one
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < writer->piece_count && status == MT_OK; i++) {
        struct mt_stack_member member;
        struct mt_stack_piece *piece = &writer->pieces[i];
        *piece = (struct mt_stack_piece){.item = mt_safetensors_dtype_bytes(specs[i].dtype), .last = true};
        status = mt_safetensors_size(writer->ctx, directory, specs[i].name, specs[i].dtype, specs[i].rank,
                                     specs[i].dim, &piece->bytes);
        if (status != MT_OK) return status;
        if (!wanted || !is_member(planning->config, &specs[i], &member)) {
            planning->written[planning->written_count++] = specs[i];
            before = NULL;
            continue;
        }
        if (in_run(planning, before, &member))
            writer->pieces[i - 1].last = false;
        else
            planning->run = writer->stack_count;
        status = plan_member(planning, &member, &specs[i], piece);
        before = piece->stack;
    }
    return status;
}

enum mt_status mt_stacks_writer_open(struct mt_context *ctx, const char *directory,
                                     const struct mt_hf_config *config, bool wanted,
                                     const struct mt_safetensors_spec *specs, size_t spec_count,
                                     uint64_t max_shard_bytes, struct mt_stacks_writer *writer)
{
    enum mt_status status = MT_OK;
    *writer = (struct mt_stacks_writer){.ctx = ctx, .piece_count = spec_count};
    mt_arena_init(&writer->arena, ctx, ARENA_BLOCK_BYTES);
    struct planning planning = {.writer = writer, .config = config};
    writer->pieces = mt_arena_array(&writer->arena, spec_count, sizeof *writer->pieces, &status);
    if (status == MT_OK)
        writer->stacks = mt_arena_array(&writer->arena, spec_count, sizeof *writer->stacks, &status);
    if (status == MT_OK)
        planning.written = mt_arena_array(&writer->arena, spec_count, sizeof *planning.written, &status);
    if (status == MT_OK) status = plan(&planning, wanted, directory, specs);
    if (status == MT_OK)
        status = mt_checkpoint_writer_open(ctx, directory, planning.written, planning.written_count,
                                           max_shard_bytes, &writer->file);
    if (status != MT_OK) mt_arena_free(&writer->arena);
    return status;
}

// ------------------------------------------------------------------ data

static void release_stack(struct mt_stacks_writer *writer, struct mt_stack_plan *stack)
{
    mt_release(writer->ctx, stack->memory, stack->bytes);
    stack->memory = NULL;
    stack->bytes = 0;
}

/* Memory for a stack, or for one of its experts. */
static enum mt_status make_room(struct mt_stacks_writer *writer, struct mt_stack_plan *stack)
{
    void *memory = NULL;
    if (stack->memory != NULL) return MT_OK;
    size_t bytes = stack->expert_bytes * (stack->held ? (size_t)stack->spec->dim[0] : 1);
    enum mt_status status = mt_allocate(writer->ctx, bytes, &memory);
    if (status != MT_OK) return status;
    stack->memory = memory;
    stack->bytes = bytes;
    return MT_OK;
}

/* What is complete now: an expert of the stack, or, at the end of the run, those that were held. */
static enum mt_status complete(struct mt_stacks_writer *writer, const struct mt_stack_piece *piece)
{
    struct mt_stack_plan *stack = piece->stack;
    enum mt_status status = MT_OK;
    if (stack == NULL) return MT_OK;
    if (!stack->held && piece->last_part)
        status = mt_checkpoint_writer_write(&writer->file, stack->memory, stack->bytes);
    for (size_t i = 0; piece->last && i < writer->stack_count && status == MT_OK; i++) {
        stack = &writer->stacks[i]; // only those of this run have memory
        if (stack->memory == NULL) continue;
        if (stack->held) status = mt_checkpoint_writer_write(&writer->file, stack->memory, stack->bytes);
        release_stack(writer, stack);
    }
    return status;
}

enum mt_status mt_stacks_writer_write(struct mt_stacks_writer *writer, const void *data, size_t bytes)
{
    enum mt_status status = MT_OK;
    while (writer->current < writer->piece_count && writer->pieces[writer->current].bytes == 0)
        writer->current++;
    if (bytes == 0) return MT_OK;
    if (writer->current == writer->piece_count)
        return mt_fail(writer->ctx, MT_ERR_INTERNAL, "more data was written than the declared tensors hold");
    const struct mt_stack_piece *piece = &writer->pieces[writer->current];
    if (piece->stack == NULL) {
        status = mt_checkpoint_writer_write(&writer->file, data, bytes);
    } else {
        status = make_room(writer, piece->stack);
        if (status != MT_OK) return status;
        size_t expert = piece->stack->held ? (size_t)piece->expert * piece->stack->expert_bytes : 0;
        mt_strided_scatter(piece->stack->memory + expert + piece->first, &piece->place, piece->item,
                           (int64_t)(writer->done / piece->item), (int64_t)(bytes / piece->item), data);
    }
    writer->done += bytes;
    if (status != MT_OK || writer->done < piece->bytes) return status;
    writer->done = 0;
    writer->current++;
    return complete(writer, piece);
}

static void release(struct mt_stacks_writer *writer)
{
    for (size_t i = 0; i < writer->stack_count; i++) release_stack(writer, &writer->stacks[i]);
    if (writer->ctx != NULL) mt_arena_free(&writer->arena);
    writer->stack_count = 0;
    writer->ctx = NULL;
}

enum mt_status mt_stacks_writer_finish(struct mt_stacks_writer *writer)
{
    enum mt_status status = mt_checkpoint_writer_finish(&writer->file);
    release(writer);
    return status;
}

void mt_stacks_writer_abandon(struct mt_stacks_writer *writer)
{
    mt_checkpoint_writer_abandon(&writer->file);
    release(writer);
}
