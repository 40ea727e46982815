/*
 * Fuzz target: bytes as a safetensors file, and again as a shard index. What is accepted must hold its
 * promises, and every byte handed out must be readable.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

static void walk_file(struct mt_context *ctx, const struct mt_safetensors *file)
{
    uint64_t sum = 0;
    volatile uint8_t last = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const struct mt_safetensors_tensor *tensor = &file->tensors[i];
        const uint8_t *bytes = tensor->data;
        for (uint64_t j = 0; j < tensor->bytes; j++) last = bytes[j];
        sum += tensor->bytes;
        demand(mt_safetensors_find(file, tensor->name) == tensor);
        struct mt_tensor view;
        struct mt_buffer copy;
        if (mt_safetensors_view(ctx, tensor, &view, &copy) == MT_OK) {
            demand((uint64_t)mt_tensor_count(&view) * mt_dtype_bytes(view.dtype) == tensor->bytes);
        }
        mt_buffer_release(&copy);
    }
    (void)last;
    demand(sum == file->data_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_safetensors file;
    if (mt_safetensors_open_memory(&ctx, "fuzz", data, size, &file) == MT_OK) {
        walk_file(&ctx, &file);
        mt_safetensors_close(&file);
    } else {
        demand(ctx.message[0] != '\0');
    }
    struct mt_checkpoint_index index;
    ctx.message[0] = '\0';
    if (mt_checkpoint_index_parse(&ctx, "fuzz", data, size, &index) == MT_OK) {
        for (size_t i = 0; i < index.name_count; i++) demand(index.names[i].shard < index.shard_count);
        for (size_t i = 0; i < index.shard_count; i++) demand(strchr(index.shards[i], '/') == NULL);
        mt_checkpoint_index_free(&index);
    } else {
        demand(ctx.message[0] != '\0');
    }
    demand(ctx.live_bytes == 0);
    return 0;
}
