/* A checkpoint from a config alone. */
#include "arch/published/paper.h"

#include <stdlib.h>
#include <string.h>

#include "arch/published/stacks.h"

#define ARENA_BLOCK_BYTES 65536
#define NOWHERE           ((const void *)4096) // an address that fits every type

static int compare(const void *left, const void *right)
{
    const struct mt_checkpoint_tensor *a = left;
    const struct mt_checkpoint_tensor *b = right;
    return strcmp(a->info->name, b->info->name);
}

static enum mt_safetensors_dtype type_of(const struct mt_hf_config *config,
                                         const struct mt_model_tensor *tensor)
{
    if (mt_model_tensor_is_correction(tensor)) return MT_SAFETENSORS_F32;
    if (config->dtype == MT_HF_BFLOAT16) return MT_SAFETENSORS_BF16;
    return config->dtype == MT_HF_FLOAT16 ? MT_SAFETENSORS_F16 : MT_SAFETENSORS_F32;
}

/* Of a matrix that would lie inside a stack, and not in one piece. */
static void set_apart(const struct mt_hf_config *config, const struct mt_model_tensor *tensor,
                      struct mt_safetensors_tensor *info)
{
    struct mt_stack_member member;
    const struct mt_stored_experts *stored = &config->arch->stored;
    int64_t item = (int64_t)mt_safetensors_dtype_bytes(info->dtype);
    size_t first = 0;
    if (!stored->transposed && !stored->interleaved) return;
    if (!mt_stack_member_of(config, tensor->name, &member)) return;
    int64_t columns = info->rank == 2 ? info->dim[1] : 1;
    struct mt_strided apart = mt_stack_place(stored, &member, info->dim[0], columns, (size_t)item, &first);
    if (apart.element != item || apart.row != columns * item) info->apart = apart;
}

static enum mt_status add(struct mt_checkpoint *checkpoint, const struct mt_hf_config *config,
                          const struct mt_model_tensor *tensor)
{
    void *memory = NULL;
    struct mt_safetensors_tensor *info = NULL;
    enum mt_status status = mt_arena_allocate(&checkpoint->arena, sizeof *info, &memory);
    if (status != MT_OK) return status;
    info = memory;
    *info = (struct mt_safetensors_tensor){.dtype = type_of(config, tensor), .data = NOWHERE};
    mt_model_tensor_stored_shape(tensor, &info->rank, info->dim);
    info->bytes = (uint64_t)mt_model_tensor_count(tensor) * mt_safetensors_dtype_bytes(info->dtype);
    set_apart(config, tensor, info);
    checkpoint->tensors[checkpoint->tensor_count++].info = info;
    checkpoint->data_bytes += info->bytes;
    return mt_arena_copy_text(&checkpoint->arena, tensor->name, strlen(tensor->name), &info->name);
}

enum mt_status mt_paper_checkpoint(struct mt_context *ctx, const struct mt_hf_config *config,
                                   struct mt_checkpoint *checkpoint)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(config);
    struct mt_model_tensor tensor;
    size_t count = 0;
    void *memory = NULL;
    while (mt_model_tensors_next(&walk, &tensor)) count++;
    *checkpoint = (struct mt_checkpoint){0};
    enum mt_status status = mt_allocate_array(ctx, count, sizeof *checkpoint->tensors, &memory);
    if (status != MT_OK) return status;
    checkpoint->ctx = ctx;
    checkpoint->tensors = memory;
    mt_arena_init(&checkpoint->arena, ctx, ARENA_BLOCK_BYTES);
    walk = mt_model_tensors_begin(config);
    while (status == MT_OK && mt_model_tensors_next(&walk, &tensor))
        status = add(checkpoint, config, &tensor);
    checkpoint->tensor_count = count; // as much is released
    if (status != MT_OK)
        mt_checkpoint_close(checkpoint);
    else
        qsort(checkpoint->tensors, count, sizeof *checkpoint->tensors, compare);
    return status;
}
