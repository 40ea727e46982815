/*
 * Fuzz target: bytes as a safetensors file, as the header of one, and as a shard index. What is accepted must
 * hold its promises, and every byte handed out must be readable.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors/checkpoint.h"

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

static void try_file(const uint8_t *data, size_t size)
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
    demand(ctx.live_bytes == 0);
}

/*
 * The input as a header whose length is always right, so that changes to it get past the first check; its
 * first byte says how many bytes of data follow. The block is exactly as long as the file.
 */
static void try_header(const uint8_t *data, size_t size)
{
    if (size < 1) return;
    size_t data_bytes = data[0];
    size_t header_bytes = size - 1;
    uint8_t *file = calloc(1, 8 + header_bytes + data_bytes);
    if (file == NULL) return;
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)header_bytes >> (8 * i));
    memcpy(file + 8, data + 1, header_bytes);
    try_file(file, 8 + header_bytes + data_bytes);
    free(file);
}

static void try_index(const uint8_t *data, size_t size)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_checkpoint_index index;
    if (mt_checkpoint_index_read(&ctx, "fuzz", data, size, &index) == MT_OK) {
        for (size_t i = 0; i < index.name_count; i++) demand(index.names[i].shard < index.shard_count);
        for (size_t i = 0; i < index.shard_count; i++) demand(strchr(index.shards[i], '/') == NULL);
        mt_checkpoint_index_free(&index);
    } else {
        demand(ctx.message[0] != '\0');
    }
    demand(ctx.live_bytes == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_file(data, size);
    try_header(data, size);
    try_index(data, size);
    return 0;
}
